//! What a statement's parameters are compared with, by the planner's own account and by the statement's text.
//!
//! `EXPLAIN (VERBOSE, FORMAT JSON)` of a generic plan shows each condition as PostgreSQL understood it, names
//! resolved: `((orders.status)::text = $2)`. What a plan does not show (LIMIT, the columns of VALUES and SET) is
//! read from the text.

use std::collections::BTreeMap;

use pgassay_plan::expr::unquoted;
use pgassay_plan::{Clause, Expr};
use serde_json::Value;

/// A table's column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnName {
    /// The schema; empty where the text alone names the table.
    pub schema: String,
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
}

/// How a column is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `= ANY ($1)`
    Any,
    /// `<`, `<=`: the parameter is an upper bound.
    Below,
    /// `>`, `>=`: the parameter is a lower bound.
    Above,
    /// `LIKE`, `ILIKE`
    Like,
    /// Any other operator.
    Other,
}

/// What a parameter is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// It is compared with a column.
    Compared(ColumnName, Comparison),
    /// It becomes a column's value in a new row.
    Inserted(ColumnName),
    /// It becomes a column's value.
    Assigned(ColumnName),
    /// `LIMIT`, `FETCH FIRST`
    Limit,
    /// `OFFSET`
    Offset,
}

/// The roles of a statement's parameters, by number from 1; those of which nothing is known are not in it.
pub fn roles(text: &str, plan: &Value) -> BTreeMap<u32, Role> {
    let mut relations = BTreeMap::new();
    aliases(plan, &mut relations);
    let mut roles = BTreeMap::new();
    compared(plan, &relations, &mut roles);
    let target = target(plan);
    by_text(text, target.as_ref(), &mut roles);
    roles
}

/// Whether a plan makes one row of many: what it returns says nothing of what it found.
pub fn aggregates(plan: &Value) -> bool {
    match plan["Node Type"].as_str() {
        Some("Aggregate") => plan["Group Key"].is_null(),
        Some("Limit" | "Sort" | "Gather" | "Gather Merge" | "Result") => plan["Plans"]
            .as_array()
            .is_some_and(|nodes| nodes.iter().any(aggregates)),
        _ => false,
    }
}

/// Schema and table of what the plan scans or changes, by alias.
fn aliases(node: &Value, found: &mut BTreeMap<String, (String, String)>) {
    if let (Some(relation), Some(alias)) = (node["Relation Name"].as_str(), node["Alias"].as_str())
    {
        let schema = node["Schema"].as_str().unwrap_or_default();
        found.insert(alias.to_owned(), (schema.to_owned(), relation.to_owned()));
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        aliases(child, found);
    }
}

/// The table that the statement changes.
fn target(node: &Value) -> Option<(String, String)> {
    if node["Node Type"] == "ModifyTable" {
        let table = node["Relation Name"].as_str()?;
        return Some((
            node["Schema"].as_str().unwrap_or_default().to_owned(),
            table.to_owned(),
        ));
    }
    node["Plans"].as_array()?.iter().find_map(target)
}

fn compared(
    node: &Value,
    relations: &BTreeMap<String, (String, String)>,
    roles: &mut BTreeMap<u32, Role>,
) {
    let texts = Clause::ALL
        .iter()
        .filter_map(|clause| node[clause.as_str()].as_str());
    for condition in texts.map(Expr::parse) {
        for (number, path, how) in condition.walk().filter_map(comparison) {
            let (alias, name) = match path {
                [.., alias, name] => (Some(unquoted(alias)), name),
                [name] => (node["Alias"].as_str().map(str::to_owned), name),
                [] => continue,
            };
            if let Some((schema, table)) = alias.and_then(|alias| relations.get(&alias)) {
                let column = ColumnName {
                    schema: schema.clone(),
                    table: table.clone(),
                    column: unquoted(name),
                };
                roles.entry(number).or_insert(Role::Compared(column, how));
            }
        }
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        compared(child, relations, roles);
    }
}

/// A comparison of a column with a parameter: the parameter, the column's path, and how they are compared.
fn comparison(part: &Expr) -> Option<(u32, &[String], Comparison)> {
    /// Without conversions.
    fn value(expr: &Expr) -> &Expr {
        match expr.bare() {
            Expr::Cast(of, _) => value(of),
            other => other,
        }
    }
    let Expr::Op(left, operator, right) = part else {
        return None;
    };
    let (right, any) = match &**right {
        Expr::Quantified { all: false, of } => (&**of, true),
        other => (other, false),
    };
    let (Expr::Column(path), Expr::Param(number)) = (value(left), value(right)) else {
        return None;
    };
    let how = match (operator.as_str(), any) {
        ("=", true) => Comparison::Any,
        ("=", false) => Comparison::Equal,
        ("<" | "<=", false) => Comparison::Below,
        (">" | ">=", false) => Comparison::Above,
        ("~~" | "~~*", _) => Comparison::Like,
        // Arithmetic on the column compares nothing with it.
        ("+" | "-" | "*" | "/", _) => return None,
        _ => Comparison::Other,
    };
    Some((*number, path, how))
}

/// A token of a statement: a word, a parameter, or a mark.
fn tokens(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            c if c.is_whitespace() => {
                rest = &rest[c.len_utf8()..];
                continue;
            }
            '\'' => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
            c if c.is_alphanumeric() || matches!(c, '_' | '$') => {
                let more = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$'));
                rest.find(more).unwrap_or(rest.len())
            }
            c => c.len_utf8(),
        };
        found.push(&rest[..length]);
        rest = &rest[length..];
    }
    found
}

fn number(token: &str) -> Option<u32> {
    token.strip_prefix('$')?.parse().ok()
}

/// LIMIT, OFFSET, the columns of INSERT … VALUES and of UPDATE … SET.
fn by_text(text: &str, target: Option<&(String, String)>, roles: &mut BTreeMap<u32, Role>) {
    let tokens = tokens(text);
    let is = |at: usize, word: &str| {
        tokens
            .get(at)
            .is_some_and(|token| token.eq_ignore_ascii_case(word))
    };
    for (at, pair) in tokens.windows(2).enumerate() {
        let Some(number) = number(pair[1]) else {
            continue;
        };
        let role = if is(at, "limit") || is(at, "first") || is(at, "next") {
            Role::Limit
        } else if is(at, "offset") {
            Role::Offset
        } else {
            continue;
        };
        roles.entry(number).or_insert(role);
    }
    let Some((schema, table)) = target else {
        return;
    };
    let column = |name: &str| ColumnName {
        schema: schema.clone(),
        table: table.clone(),
        column: match name.strip_prefix('"') {
            Some(quoted) => quoted.trim_end_matches('"').to_owned(),
            None => name.to_lowercase(),
        },
    };
    if is(0, "insert") {
        let names = tokens.iter().position(|token| *token == "(");
        let values = tokens
            .iter()
            .position(|token| token.eq_ignore_ascii_case("values"));
        let (Some(names), Some(values)) = (names, values) else {
            return;
        };
        if names > values {
            return;
        }
        let names: Vec<&str> = tokens[names + 1..values]
            .iter()
            .filter(|token| !matches!(**token, "," | ")"))
            .copied()
            .collect();
        for row in rows(&tokens[values + 1..]) {
            for (name, value) in names.iter().zip(row) {
                if let [only] = value
                    && let Some(number) = number(only)
                {
                    roles.entry(number).or_insert(Role::Inserted(column(name)));
                }
            }
        }
    }
    if is(0, "update") {
        let set = tokens
            .iter()
            .position(|token| token.eq_ignore_ascii_case("set"))
            .unwrap_or(tokens.len());
        for at in set..tokens.len() {
            if is(at, "where") || is(at, "from") {
                break;
            }
            if let [name, "=", value] = tokens[at..].iter().take(3).copied().collect::<Vec<_>>()[..]
                && let Some(number) = number(value)
            {
                roles.entry(number).or_insert(Role::Assigned(column(name)));
            }
        }
    }
}

/// The values of each row of a VALUES list, a value's tokens together.
fn rows<'t, 'a>(tokens: &'t [&'a str]) -> Vec<Vec<&'t [&'a str]>> {
    let mut rows = Vec::new();
    let mut row: Vec<&[&str]> = Vec::new();
    let (mut depth, mut begin) = (0, 0);
    for (at, token) in tokens.iter().enumerate() {
        match (*token, depth) {
            ("(", 0) => (depth, begin) = (1, at + 1),
            ("(", _) => depth += 1,
            (")", 1) => {
                row.push(&tokens[begin..at]);
                rows.push(std::mem::take(&mut row));
                depth = 0;
            }
            (")", _) => depth = (depth - 1).max(0),
            (",", 1) => {
                row.push(&tokens[begin..at]);
                begin = at + 1;
            }
            (",", 0) => {}
            (_, 0) => break,
            _ => {}
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn name(table: &str, column: &str) -> ColumnName {
        ColumnName {
            schema: "public".to_owned(),
            table: table.to_owned(),
            column: column.to_owned(),
        }
    }

    #[test]
    fn conditions_of_a_plan() {
        let plan = json!({"Node Type": "Limit", "Plans": [{
            "Node Type": "Nested Loop", "Join Filter": "(o.customer = c.id)",
            "Plans": [
                {"Node Type": "Index Scan", "Schema": "public", "Relation Name": "orders", "Alias": "o",
                 "Index Cond": "((o.at >= $1) AND (o.at < ($2)::timestamp with time zone))",
                 "Filter": "(((o.status)::text = $3) AND (o.total > (o.id + $7)))"},
                {"Node Type": "Seq Scan", "Schema": "public", "Relation Name": "customer", "Alias": "c",
                 "Filter": "((c.id = ANY ($4)) AND ((c.\"Name\")::text ~~ $5))"}]}]});
        let roles = roles("SELECT … LIMIT $6", &plan);
        let compared = |table, column, how| Role::Compared(name(table, column), how);
        assert_eq!(roles[&1], compared("orders", "at", Comparison::Above));
        assert_eq!(roles[&2], compared("orders", "at", Comparison::Below));
        assert_eq!(roles[&3], compared("orders", "status", Comparison::Equal));
        assert_eq!(roles[&4], compared("customer", "id", Comparison::Any));
        assert_eq!(roles[&5], compared("customer", "Name", Comparison::Like));
        assert_eq!(roles[&6], Role::Limit);
        assert!(!roles.contains_key(&7));
    }

    #[test]
    fn columns_of_insert_and_update() {
        let change = json!({"Node Type": "ModifyTable", "Schema": "public", "Relation Name": "t", "Alias": "t"});
        let text = "INSERT INTO t (a, \"B\", c) VALUES ($1, lower($2), now()), ($3, $4, $5)";
        let inserted = roles(text, &change);
        assert_eq!(inserted[&1], Role::Inserted(name("t", "a")));
        assert!(!inserted.contains_key(&2));
        assert_eq!(inserted[&4], Role::Inserted(name("t", "B")));
        assert_eq!(inserted[&5], Role::Inserted(name("t", "c")));
        let assigned = roles("UPDATE t SET a = $1, b = b + $2 WHERE c = $3", &change);
        assert_eq!(assigned.len(), 1);
        assert_eq!(assigned[&1], Role::Assigned(name("t", "a")));
    }

    #[test]
    fn no_text_stops_it() {
        for text in [
            "",
            "(",
            "$",
            "$1",
            "INSERT INTO t (",
            "INSERT (a) VALUES",
            "UPDATE SET a =",
            "LIMIT",
            "é' $1",
            "values",
        ] {
            roles(
                text,
                &json!({"Node Type": "ModifyTable", "Relation Name": "t", "Filter": text}),
            );
        }
    }
}
