//! Conditions of a plan's nodes: what they compare, and whether an index could serve them.

use pgassay_model::observed::plans::{Expr, IndexFacts, RelationFacts};
use pgassay_plan::expr::{bare_name, unquoted};

/// The words of a statement's text: names, without what qualifies and quotes them.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    let of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.split(move |c: char| !of_word(c))
        .filter(|word| !word.is_empty())
}

/// Whether an expression names a column of a relation.
pub fn names_column(expr: &Expr, facts: &RelationFacts) -> bool {
    expr.columns()
        .iter()
        .any(|name| facts.columns.contains(name))
}

/// What of a condition an index could serve.
#[derive(Debug, PartialEq)]
pub enum Served<'e> {
    /// This part of it.
    Part(&'e Expr),
    /// Alternatives, each by an index of its own.
    Alternatives(Vec<&'e Expr>),
    /// Nothing without the values: an alternative that looks at no column holds for all rows or for none.
    ByValues,
    /// Nothing.
    Nothing,
}

/// What of a filter on a table an index could serve.
pub fn served<'e>(filter: &'e Expr, facts: &RelationFacts) -> Served<'e> {
    let parts = filter.conjuncts();
    let plain = |part: &&&Expr| part.disjuncts().len() == 1 && is_comparison(part, facts);
    // An equality with a column as it is serves best.
    let equal = |part: &&&Expr| matches!(compared(part, facts), Some(Compared::Column(_)));
    let of = parts.iter().filter(plain).find(equal);
    let of = of.or_else(|| parts.iter().find(plain));
    if let Some(part) = of {
        return Served::Part(part);
    }
    let mut by_values = false;
    for part in &parts {
        let ways = part.disjuncts();
        if ways.len() < 2 {
            continue;
        }
        if ways.iter().all(|way| is_comparison(way, facts)) {
            return Served::Alternatives(ways);
        }
        by_values |= ways
            .iter()
            .any(|way| !names_column(way, facts) && way.subplans().is_empty());
    }
    match by_values {
        true => Served::ByValues,
        false => Served::Nothing,
    }
}

/// Whether a condition compares a column, or an expression over columns, with something that is known
/// before the row is.
fn is_comparison(condition: &Expr, facts: &RelationFacts) -> bool {
    let negated = matches!(condition, Expr::Not(_)) || condition.operands("<>").is_some();
    if negated || !condition.subplans().is_empty() || !names_column(condition, facts) {
        return false;
    }
    match condition.operands("=") {
        Some((left, right)) => {
            names_column(left, facts) && left.aliases().is_disjoint(&right.aliases())
        }
        // `done`, `v IS NULL`, a function of the row.
        None => true,
    }
}

/// What a condition compares.
#[derive(Debug, PartialEq)]
pub enum Compared {
    /// A column as it is, as SQL quotes it.
    Column(String),
    /// A column in another type.
    Cast(String),
    /// An expression over columns.
    Expression(String),
}

/// An index of a relation by the name that plans give it: without schema and quotes.
pub fn index_named<'f>(facts: &'f RelationFacts, name: &str) -> Option<&'f IndexFacts> {
    let mut indexes = facts.indexes.iter();
    indexes.find(|index| bare_name(&index.name) == name)
}

/// What stands left of the first `=` of a condition.
pub fn compared(condition: &Expr, facts: &RelationFacts) -> Option<Compared> {
    operand(condition.operands("=")?.0, facts)
}

/// What an operand is of a relation; none where it names no column of it.
pub fn operand(operand: &Expr, facts: &RelationFacts) -> Option<Compared> {
    let own = |name: &str| facts.columns.iter().any(|column| column == name);
    let column = |expr: &Expr| {
        let name = expr.column().filter(|name| own(&unquoted(name)));
        name.map(str::to_owned)
    };
    if let Some(column) = column(operand) {
        return Some(Compared::Column(column));
    }
    if let Expr::Cast(of, to) = operand.bare()
        && let Some(column) = column(of)
    {
        let name = unquoted(&column);
        // Indexes on varchar and char columns are used for these.
        let is_text = facts.texts.contains(&name);
        // What is filled up with blanks is converted to text, without them.
        let padded = facts.types.get(&name).map(String::as_str);
        let padded = padded == Some("character") && to == "text";
        let same = is_text && !padded && matches!(&**to, "text" | "bpchar" | "character varying");
        return Some(match same {
            true => Compared::Column(column),
            false => Compared::Cast(column),
        });
    }
    // An index has its columns without the table's name.
    names_column(operand, facts).then(|| Compared::Expression(operand.unqualified(own).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> RelationFacts {
        RelationFacts {
            columns: ["id", "mail", "Odd"].map(str::to_owned).to_vec(),
            texts: vec!["mail".to_owned()],
            ..RelationFacts::default()
        }
    }

    #[test]
    fn what_a_filter_compares_is_found() {
        let of = |filter: &str| compared(&filter.into(), &facts());
        let column = |name: &str| Some(Compared::Column(name.to_owned()));
        assert_eq!(of("(t.id = $1)"), column("id"));
        assert_eq!(of("((t.mail)::text = $1::text)"), column("mail"));
        assert_eq!(of("((t.x > $1) AND (t.\"Odd\" = $2))"), column("\"Odd\""));
        assert_eq!(
            of("((t.id)::text = $1)"),
            Some(Compared::Cast("id".to_owned()))
        );
        assert_eq!(
            of("((t.id)::numeric = $1)"),
            Some(Compared::Cast("id".to_owned()))
        );
        assert_eq!(
            of("(lower((t.mail)::text) = $1::text)"),
            Some(Compared::Expression("lower((mail)::text)".to_owned()))
        );
        assert_eq!(
            of("(public.f(t.id, t.\"Odd\") = 3)"),
            Some(Compared::Expression("public.f(id, \"Odd\")".to_owned()))
        );
        assert_eq!(of("(t.id > $1)"), None);
        assert_eq!(of("(f($1) = $2)"), None);
    }

    #[test]
    fn an_index_serves_what_looks_at_the_row_in_each_alternative() {
        let shown = |filter: &str| match served(&filter.into(), &facts()) {
            Served::Part(part) => part.to_string(),
            Served::Alternatives(ways) => {
                let ways: Vec<String> = ways.iter().map(ToString::to_string).collect();
                ways.join(" | ")
            }
            other => format!("{other:?}"),
        };
        for (filter, expected) in [
            ("(t.id = $1)", "t.id = $1"),
            // A part that compares with a column serves, whatever else there is.
            (
                "((($1 = $2) OR (t.mail = $3)) AND (t.id = $4))",
                "t.id = $4",
            ),
            ("((t.id = $1) OR (t.mail = $2))", "t.id = $1 | t.mail = $2"),
            ("(($1 = $2) OR (t.id = $3))", "ByValues"),
            ("($1 IS NULL) OR (t.id = $1)", "ByValues"),
            ("(NOT (SubPlan 1))", "Nothing"),
            ("(t.id <> $1)", "Nothing"),
            ("(t.id = t.mail)", "Nothing"),
            ("(t.mail ~~ $1)", "t.mail ~~ $1"),
        ] {
            assert_eq!(shown(filter), expected, "{filter}");
        }
    }
}
