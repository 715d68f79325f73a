//! Conditions of a plan's nodes: what they compare, and whether an index could serve them.

use pgassay_model::observed::plans::{IndexFacts, RelationFacts};

/// The parts of a condition that AND joins, all of which must hold.
pub fn conjuncts(condition: &str) -> Vec<&str> {
    split(condition, " AND ")
}

/// The alternatives of a condition that OR joins.
pub fn disjuncts(condition: &str) -> Vec<&str> {
    split(condition, " OR ")
}

fn split<'c>(condition: &'c str, word: &str) -> Vec<&'c str> {
    let text = unwrapped(condition);
    let (mut depth, mut quoted, mut from) = (0_i32, false, 0);
    let mut parts = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            ' ' if !quoted && depth == 0 && at >= from && text[at..].starts_with(word) => {
                parts.push(unwrapped(&text[from..at]));
                from = at + word.len();
            }
            _ => {}
        }
    }
    parts.push(unwrapped(&text[from..]));
    parts
}

/// A text without the parentheses around all of it.
fn unwrapped(mut text: &str) -> &str {
    loop {
        text = text.trim();
        let inner = text.strip_prefix('(').and_then(|t| t.strip_suffix(')'));
        match inner {
            Some(inner) if is_balanced(inner) => text = inner,
            _ => return text,
        }
    }
}

fn is_balanced(text: &str) -> bool {
    let (mut depth, mut quoted) = (0_i32, false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

/// The words of an expression: names, without what qualifies and quotes them.
pub fn words(expression: &str) -> impl Iterator<Item = &str> {
    let of_word = |c: char| c.is_alphanumeric() || c == '_';
    expression
        .split(move |c: char| !of_word(c))
        .filter(|word| !word.is_empty())
}

/// The relations that an expression names columns of, by their aliases: `o` and `c` of
/// `(o.a = $1) OR (c.b = $2)`.
pub fn aliases(expression: &str) -> Vec<&str> {
    let of_word = |c: char| c.is_alphanumeric() || c == '_' || c == '"';
    let mut found: Vec<&str> = Vec::new();
    for (at, _) in expression.match_indices('.') {
        let before = &expression[..at];
        let start = before.rfind(|c| !of_word(c)).map_or(0, |i| {
            i + before[i..].chars().next().map_or(1, char::len_utf8)
        });
        let alias = &before[start..];
        let after = expression[at + 1..].chars().next();
        let name = after.is_some_and(|c| of_word(c) && !c.is_ascii_digit());
        // A function's schema, or a number.
        let end = expression[at + 1..].find(|c| !of_word(c));
        let called = end.is_some_and(|end| expression[at + 1 + end..].starts_with('('));
        let number = alias.is_empty() || alias.starts_with(|c: char| c.is_ascii_digit());
        if name && !called && !number && !found.contains(&alias) {
            found.push(alias);
        }
    }
    found
}

fn names_column(expression: &str, facts: &RelationFacts) -> bool {
    words(expression).any(|word| facts.columns.iter().any(|column| column == word))
}

/// What of a condition an index could serve.
#[derive(Debug, PartialEq)]
pub enum Served<'c> {
    /// This part of it.
    Part(&'c str),
    /// Alternatives, each by an index of its own.
    Alternatives(Vec<&'c str>),
    /// Nothing without the values: an alternative that looks at no column holds for all rows or for none.
    ByValues,
    /// Nothing.
    Nothing,
}

/// What of a filter on a table an index could serve.
pub fn served<'c>(filter: &'c str, facts: &RelationFacts) -> Served<'c> {
    let parts = conjuncts(filter);
    let plain = |part: &&&str| disjuncts(part).len() == 1 && is_comparison(part, facts);
    // An equality with a column as it is serves best.
    let equal = |part: &&&str| matches!(compared(part, facts), Some(Compared::Column(_)));
    let of = parts.iter().filter(plain).find(equal);
    let of = of.or_else(|| parts.iter().find(plain));
    if let Some(part) = of {
        return Served::Part(part);
    }
    let mut by_values = false;
    for part in &parts {
        let ways = disjuncts(part);
        if ways.len() < 2 {
            continue;
        }
        if ways.iter().all(|way| is_comparison(way, facts)) {
            return Served::Alternatives(ways);
        }
        by_values |= ways
            .iter()
            .any(|way| !names_column(way, facts) && !way.contains("SubPlan"));
    }
    match by_values {
        true => Served::ByValues,
        false => Served::Nothing,
    }
}

/// Whether a condition compares a column, or an expression over columns, with something that is known
/// before the row is.
fn is_comparison(condition: &str, facts: &RelationFacts) -> bool {
    let negated = condition.starts_with("NOT ") || condition.contains(" <> ");
    if negated || condition.contains("SubPlan") || !names_column(condition, facts) {
        return false;
    }
    match condition.split_once(" = ") {
        Some((left, right)) => {
            let of_row = aliases(left);
            names_column(left, facts) && !aliases(right).iter().any(|a| of_row.contains(a))
        }
        // `done`, `v IS NULL`, a function of the row.
        None => true,
    }
}

/// What a condition compares.
#[derive(Debug, PartialEq)]
pub enum Compared {
    /// A column as it is.
    Column(String),
    /// A column in another type.
    Cast(String),
    /// An expression over columns.
    Expression(String),
}

/// An index of a relation by the name that plans give it, without its schema.
pub fn index_named<'f>(facts: &'f RelationFacts, name: &str) -> Option<&'f IndexFacts> {
    let mut indexes = facts.indexes.iter();
    indexes.find(|index| index.name.rsplit('.').next() == Some(name))
}

/// What stands left of the first `=` of a condition.
pub fn compared(condition: &str, facts: &RelationFacts) -> Option<Compared> {
    let (left, _) = condition.split_once(" = ")?;
    let operand = last_operand(left);
    let bare = |text: &str| -> Option<String> {
        let name = text.trim_start_matches('(').trim_end_matches(')');
        if name.contains('(') {
            return None;
        }
        let name = name.rsplit_once('.').map_or(name, |(_, name)| name);
        let plain = name.trim_matches('"');
        facts
            .columns
            .iter()
            .any(|c| c == plain)
            .then(|| name.to_owned())
    };
    if let Some(column) = bare(operand) {
        return Some(Compared::Column(column));
    }
    if let Some((column, to)) = operand.rsplit_once("::")
        && let Some(column) = bare(column)
    {
        // Indexes on varchar and char columns are used for these.
        let is_text = facts
            .texts
            .iter()
            .any(|text| text == column.trim_matches('"'));
        // What is filled up with blanks is converted to text, without them.
        let padded = facts
            .types
            .get(column.trim_matches('"'))
            .map(String::as_str);
        let padded = padded == Some("character") && to == "text";
        let same = is_text && !padded && matches!(to, "text" | "bpchar" | "character varying");
        return Some(match same {
            true => Compared::Column(column),
            false => Compared::Cast(column),
        });
    }
    (operand.contains('(') && names_column(operand, facts))
        .then(|| Compared::Expression(unqualified(operand, facts)))
}

/// An expression as an index has it: its columns without the table's name.
pub fn unqualified(expression: &str, facts: &RelationFacts) -> String {
    let of_word = |c: char| c.is_alphanumeric() || c == '_' || c == '"';
    let mut parts = expression.split_inclusive('.').peekable();
    let mut text = String::new();
    while let Some(part) = parts.next() {
        let next = parts.peek().map_or("", |next| *next);
        let word = &next[..next.find(|c| !of_word(c)).unwrap_or(next.len())];
        let column = facts.columns.iter().any(|c| c == word.trim_matches('"'));
        let qualifier = part.trim_end_matches('.').trim_end_matches(of_word);
        match column && part.ends_with('.') {
            true => text.push_str(qualifier),
            false => text.push_str(part),
        }
    }
    text
}

/// The last balanced operand of a text: what `(a.x > 1) AND (lower(a.mail)` ends with.
fn last_operand(text: &str) -> &str {
    let mut depth = 0_i32;
    for (at, c) in text.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' if depth == 0 => return &text[at + 1..],
            '(' => depth -= 1,
            _ => {}
        }
    }
    text
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
        let of = |filter: &str| compared(filter, &facts());
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
    fn conditions_come_apart_at_their_own_words() {
        let text =
            "(((t.id = $1) OR (t.mail = $2)) AND (NOT (hashed SubPlan 1)) AND t.\"a AND b\")";
        assert_eq!(
            conjuncts(text),
            [
                "(t.id = $1) OR (t.mail = $2)",
                "NOT (hashed SubPlan 1)",
                "t.\"a AND b\""
            ]
        );
        assert_eq!(disjuncts(conjuncts(text)[0]), ["t.id = $1", "t.mail = $2"]);
        assert_eq!(conjuncts("(f((a), (b)) = $1)"), ["f((a), (b)) = $1"]);
    }

    #[test]
    fn aliases_are_what_qualifies_columns() {
        assert_eq!(
            aliases("((o.a = public.f($1)) OR (c.b > 1.5) OR (o.\"X\" = 2))"),
            ["o", "c"]
        );
    }

    #[test]
    fn an_index_serves_what_looks_at_the_row_in_each_alternative() {
        let of = |filter| served(filter, &facts());
        assert_eq!(of("(t.id = $1)"), Served::Part("t.id = $1"));
        // A part that compares with a column serves, whatever else there is.
        assert_eq!(
            of("((($1 = $2) OR (t.mail = $3)) AND (t.id = $4))"),
            Served::Part("t.id = $4")
        );
        assert_eq!(
            of("((t.id = $1) OR (t.mail = $2))"),
            Served::Alternatives(vec!["t.id = $1", "t.mail = $2"])
        );
        assert_eq!(of("(($1 = $2) OR (t.id = $3))"), Served::ByValues);
        assert_eq!(of("($1 IS NULL) OR (t.id = $1)"), Served::ByValues);
        assert_eq!(of("(NOT (SubPlan 1))"), Served::Nothing);
        assert_eq!(of("(t.id <> $1)"), Served::Nothing);
        assert_eq!(of("(t.id = t.mail)"), Served::Nothing);
        assert_eq!(of("(t.mail ~~ $1)"), Served::Part("t.mail ~~ $1"));
    }
}

/// How often an expression calls a function.
pub fn calls_in(expression: &str, function: &str) -> usize {
    let call = format!("{function}(");
    let calls = expression.match_indices(&call);
    calls
        .filter(|(at, _)| {
            let before = expression[..*at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
        })
        .count()
}
