//! Conditions that no index of their table serves as they are written: what each compares, and how to write it so that one does.
//! A form is a row of a table; what stands in the catalogues (types, indexes, their expressions) decides among them.

use pgassay_model::observed::plans::{IndexFacts, RelationFacts};
use pgassay_text::quote::quote_ident;

use super::conditions::{conjuncts, disjuncts, keyed, unqualified, words};
use super::forms;
use crate::finding::StepKind;
use table::{FORMS, OWN_INDEX, RELATED, VOLATILE};

/// How a condition is written so that an index serves it.
#[derive(Debug, PartialEq)]
pub(super) struct Rewrite {
    pub steps: Vec<(StepKind, String)>,
}

/// A comparison of a column, or of an expression over it, with something else.
struct Compared<'a> {
    /// The side with the column.
    operand: &'a str,
    operator: &'a str,
    other: &'a str,
    /// The column, as the catalogue has it.
    column: &'a str,
    table: &'a str,
    facts: &'a RelationFacts,
    /// The statement, without literals; empty where it is not known.
    text: &'a str,
}

/// The operators of which one stands between two sides at the top of a condition.
fn is_operator(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| "+-*/<>=~!@#%^&|`?".contains(c))
}

/// Where a text has an operator outside of all parentheses and quotes.
fn sides(text: &str) -> Option<(&str, &str, &str)> {
    let (mut depth, mut quoted) = (0_i32, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            ' ' if !quoted && depth == 0 => {
                let rest = &text[at + 1..];
                let word = rest.split(' ').next().unwrap_or_default();
                if is_operator(word) {
                    return Some((&text[..at], word, rest.get(word.len() + 1..)?));
                }
            }
            _ => {}
        }
    }
    None
}

/// A text without the parentheses around all of it.
fn bare(text: &str) -> &str {
    match *conjuncts(text) {
        [one] => one,
        _ => text,
    }
}

/// What an operator is where its sides change places.
fn mirrored(operator: &str) -> &str {
    match operator {
        "<" => ">",
        ">" => "<",
        "<=" => ">=",
        ">=" => "<=",
        same => same,
    }
}

/// The first column of the table that an expression names.
fn column_in<'f>(expression: &str, facts: &'f RelationFacts) -> Option<&'f str> {
    words(expression).find_map(|word| {
        let mut columns = facts.columns.iter().map(String::as_str);
        columns.find(|column| *column == word)
    })
}

impl<'a> Compared<'a> {
    fn of(part: &'a str, table: &'a str, facts: &'a RelationFacts, text: &'a str) -> Option<Self> {
        let (left, operator, right) = sides(part)?;
        let (operand, operator, other, column) = match column_in(left, facts) {
            Some(column) => (left, operator, right, column),
            None => (right, mirrored(operator), left, column_in(right, facts)?),
        };
        Some(Self {
            operand: bare(operand),
            operator,
            other: bare(other),
            column,
            table,
            facts,
            text,
        })
    }

    fn filled(&self, text: &str) -> (StepKind, String) {
        let filled = text
            .replace("{column}", &quote_ident(self.column))
            .replace("{operator}", self.operator)
            .replace("{table}", self.table)
            .replace("{own}", &self.own());
        // Literals are not kept: whoever writes the index knows them. A plan numbers them otherwise than the statement does.
        let filled = keyed(&filled);
        let parameters = filled.contains('$') && text == OWN_INDEX;
        match (text.starts_with("CREATE "), parameters) {
            (true, false) => (StepKind::Sql, filled),
            (true, true) => (
                StepKind::Sql,
                format!(
                    "{filled}   -- with the constants that this condition has in the place of $1, $2, …"
                ),
            ),
            _ => (StepKind::Advice, filled),
        }
    }

    /// The operand as an index has it.
    fn own(&self) -> String {
        format!("({})", unqualified(self.operand, self.facts))
    }

    fn all(&self, forms: &[&str]) -> Option<Rewrite> {
        Some(Rewrite {
            steps: forms.iter().map(|text| self.filled(text)).collect(),
        })
    }

    /// Whether the operand is the column and no more.
    fn is_plain(&self) -> bool {
        // An index on varchar and text serves both.
        let text = self.facts.texts.iter().any(|text| text == self.column);
        let operand = match without_cast(self.operand) {
            (inner, "text" | "character varying") if text && self.kind() != "character" => inner,
            (inner, "inet") if self.kind() == "cidr" => inner,
            _ => self.operand,
        };
        let name = operand.rsplit('.').next().unwrap_or_default();
        name.trim_matches('"') == self.column
    }

    fn kind(&self) -> &str {
        let kind = self.facts.types.get(self.column);
        kind.map_or("", String::as_str)
    }

    /// Indexes that queries may use for all rows.
    fn indexes(&self) -> impl Iterator<Item = &IndexFacts> {
        self.facts
            .indexes
            .iter()
            .filter(|index| index.valid && !index.partial)
    }

    /// An index on an expression over the same column that is written otherwise.
    fn index_of_another_form(&self) -> Option<(&IndexFacts, &str)> {
        let own = unqualified(self.operand, self.facts);
        let called = |text: &str| words(text).next().map(str::to_owned);
        self.indexes().find_map(|index| {
            let expression = index.expressions.first()?;
            let same = words(expression).any(|word| word == self.column);
            let differs = without_casts(expression) != without_casts(&own);
            // Of two unrelated functions of a column none says the other.
            let related = RELATED.iter().any(|group| {
                let is =
                    |text: &str| called(text).is_some_and(|name| group.contains(&name.as_str()));
                is(expression) && is(&own)
            });
            (same && differs && related).then_some((index, expression.as_str()))
        })
    }

    fn rewrite(&self) -> Option<Rewrite> {
        let drawn = VOLATILE.iter().find(|form| shows(self.other, form.signs));
        if let Some(form) = drawn {
            return self.all(form.instead);
        }
        if self.is_plain() {
            return self.by_operator();
        }
        if let Some((index, expression)) = self.index_of_another_form() {
            return Some(Rewrite {
                steps: vec![(
                    StepKind::Advice,
                    format!(
                        "write the condition with the expression that {} has, {expression}, to the letter: an index on an expression serves no other, \
                         and the statement has {}",
                        index.name,
                        unqualified(self.operand, self.facts)
                    ),
                )]
                .into_iter()
                .chain([self.filled("or, for the expression as it stands, an index of its own: CREATE INDEX CONCURRENTLY ON {table} ({own})")])
                .collect(),
            });
        }
        if let Some(form) = FORMS.iter().find(|form| shows(self.operand, form.signs)) {
            return self.all(form.instead);
        }
        if let Some(rewrite) = self.within_document() {
            return Some(rewrite);
        }
        if shows(self.operand, &["to_tsvector("]) {
            return self.all(&[
                "with a configuration that is named, as an index must have it: to_tsvector('english', {column}) @@ …, in the statement as in CREATE INDEX CONCURRENTLY ON \
                 {table} USING gin (to_tsvector('english', {column})); to_tsvector({column}) goes by a setting and is served by no index",
                "or keep the lexemes in a column: ALTER TABLE {table} ADD words tsvector GENERATED ALWAYS AS (to_tsvector('english', {column})) STORED, with an \
                 index USING gin (words)",
            ]);
        }
        if self.is_cast_by_policy() {
            return None;
        }
        self.by_cast().or_else(|| self.by_arithmetic()).or_else(|| {
            let compares = matches!(self.operator, "=" | "<" | ">" | "<=" | ">=");
            let calls = self.operand.contains('(') && !self.operand.contains("SubPlan");
            // What has a form of its own there is told that.
            let is_known =
                forms::known(&format!("{} {} $1", self.operand, self.operator)).is_some();
            (compares && calls && !is_known).then(|| {
                self.all(&["an index on the expression, if all that it calls is IMMUTABLE: CREATE INDEX CONCURRENTLY ON {table} ({own})"])
            })?
        })
    }

    /// A field of a document: `doc ->> 'sku' = 'x'`.
    fn within_document(&self) -> Option<Rewrite> {
        let (_, arrow, _) = sides(without_cast(self.operand).0)?;
        if !matches!(arrow, "->" | "->>" | "#>" | "#>>") || self.operator != "=" {
            return None;
        }
        let gin = self
            .indexes()
            .find(|index| index.method == "gin" && index.first.as_deref() == Some(self.column));
        let contained = match self.kind() {
            "hstore" | "public.hstore" => "{column} @> hstore('key', value)",
            "jsonb" => "{column} @> jsonb_build_object('key', value)",
            _ => return self.all(&[OWN_INDEX]),
        };
        let mut steps = Vec::new();
        if let Some(index) = gin {
            steps.push(self.filled(&format!(
                "write {contained} in the place of {{column}} {arrow} 'key' = value: {}, a GIN index, answers @> and no {arrow}",
                index.name
            )));
        }
        steps.push(self.filled(OWN_INDEX));
        Some(Rewrite { steps })
    }

    /// Whether it is a row-level security policy that has the column in another type: it is mended there.
    fn is_cast_by_policy(&self) -> bool {
        let (_, to) = without_cast(self.operand);
        let cast = format!("{})::{to}", self.column);
        let mut policies = self.facts.policies.values();
        !to.is_empty() && policies.any(|condition| condition.contains(&cast))
    }

    /// A column in another type.
    fn by_cast(&self) -> Option<Rewrite> {
        let (inner, to) = without_cast(self.operand);
        let plain = inner.rsplit('.').next()?.trim_matches('"') == self.column;
        if to.is_empty() || !plain {
            return None;
        }
        let kind = self.kind();
        let text = self.facts.texts.iter().any(|text| text == self.column);
        if text && kind != "character" {
            // Indexes on these serve texts, too.
            if matches!(to, "text" | "bpchar" | "character varying") {
                return None;
            }
            return self.all(&[
                "give the column the type that it is compared as: ALTER TABLE {table} ALTER {column} TYPE … USING …; as it stands, the text of each row is converted",
                "or an index on the expression, if the cast is IMMUTABLE (those of texts to dates and times are not): CREATE INDEX CONCURRENTLY ON {table} ({own})",
            ]);
        }
        let value = match kind {
            "" => "value".to_owned(),
            // Without a length: character is one of 1.
            "character" => "value::bpchar".to_owned(),
            kind => format!("value::{kind}"),
        };
        let column = quote_ident(self.column);
        let joined = self.other.contains('.') && column_in(self.other, self.facts).is_none();
        let convert = match converts(self.text, self.column) {
            Some(false) if !joined => format!(
                "bind the value as {kind}, or cast it: {column} {} {value}, which an index on ({column}) serves; the value is {to}, so the planner converts {column} \
                 of each row to that",
                self.operator
            ),
            said => format!(
                "convert the value, not the column: {column} {} {value}, which an index on ({column}) serves; the {} has {column}::{to}{}",
                self.operator,
                match said {
                    Some(false) => "plan",
                    _ => "statement",
                },
                match (joined, said) {
                    (true, _) => ", so that both sides of a join should have the same type",
                    (false, Some(_)) => "",
                    (false, None) =>
                        " (a parameter that is declared or bound with another type does the same)",
                },
            ),
        };
        Some(Rewrite {
            steps: vec![
                (StepKind::Advice, convert),
                self.filled("or an index on the expression, if the cast is IMMUTABLE: CREATE INDEX CONCURRENTLY ON {table} ({own})"),
            ],
        })
    }

    /// A column with which is reckoned.
    fn by_arithmetic(&self) -> Option<Rewrite> {
        let (left, sign, _) = sides(self.operand)?;
        let first = column_in(left, self.facts).is_some();
        let operator = self.operator;
        let (stands, moved) = match (sign, first) {
            ("+", true) => ("{column} + …", format!("{{column}} {operator} value - …")),
            ("+", false) => ("… + {column}", format!("{{column}} {operator} value - …")),
            ("-", true) => ("{column} - …", format!("{{column}} {operator} value + …")),
            ("-", false) => (
                "… - {column}",
                format!("{{column}} {} … - value", mirrored(operator)),
            ),
            // Whole numbers are rounded, and a factor may be negative.
            ("*" | "/" | "%" | "&" | "|", _) => return self.all(&[OWN_INDEX]),
            _ => return None,
        };
        self.all(&[
            &format!(
                "bring what is reckoned to the other side, so that the column stands alone: {moved}, in the place of {stands} {operator} value; an index on ({{column}}) serves it then"
            ),
        ])
    }
}

/// Whether an expression has one of these signs; a function's name is not a part of a longer one.
fn shows(expression: &str, signs: &[&str]) -> bool {
    let lower = expression.to_ascii_lowercase();
    signs.iter().any(|sign| {
        lower
            .match_indices(&sign.to_ascii_lowercase())
            .any(|(at, _)| {
                let before = lower[..at].chars().next_back();
                !sign.starts_with(|c: char| c.is_alphabetic())
                    || !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
            })
    })
}

/// Whether a statement casts a column itself: `a::numeric`, `CAST(t.a AS numeric)`. Else the planner does, for the sake of what
/// the column is compared with. None where the text does not tell: it is cut, or the column is named within a view.
fn converts(text: &str, column: &str) -> Option<bool> {
    let lower = text.to_lowercase();
    let name = column.to_lowercase();
    let of_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut named = lower.match_indices(&name).filter_map(|(at, _)| {
        let (before, behind) = (&lower[..at], &lower[at + name.len()..]);
        let whole = !behind.starts_with(of_word) && !before.ends_with(of_word);
        whole.then_some((before, behind.trim_start_matches(['"', ')', ' '])))
    });
    let casts = |(before, behind): (&str, &str)| {
        let before = before.trim_end_matches(|c| of_word(c) || ".\"".contains(c));
        behind.starts_with("::")
            || behind.starts_with("as ") && before.trim_end_matches(['(', ' ']).ends_with("cast")
    };
    let first = named.next()?;
    let found = casts(first) || named.any(casts);
    (found || !text.contains('…')).then_some(found)
}

/// `(t.a)::text` as `t.a` and `text`; no type where it is no cast.
fn without_cast(operand: &str) -> (&str, &str) {
    match operand.rsplit_once("::") {
        Some((inner, kind)) if !kind.contains(['(', ')', '[']) => {
            (inner.trim_matches(['(', ')']), kind)
        }
        _ => (operand, ""),
    }
}

fn without_casts(text: &str) -> String {
    let mut left = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("::") {
        left += before;
        let word = |c: char| c.is_alphanumeric() || c == '_';
        rest = &behind[behind.find(|c| !word(c)).unwrap_or(behind.len())..];
        // Which configuration matters.
        if behind.starts_with("regconfig") {
            left += "::regconfig";
        }
    }
    left += rest;
    left.replace(['(', ')', '"', ' '], "")
}

/// How a filter on a table is written so that an index serves it; none where it is served as it is, or nobody knows.
/// What the statement says decides where the condition alone does not.
pub(super) fn rewrite(
    filter: &str,
    table: &str,
    facts: &RelationFacts,
    text: &str,
) -> Option<Rewrite> {
    let mut parts = conjuncts(filter);
    // An equality leaves fewer rows than a range.
    parts.sort_by_key(|part| !part.contains(" = "));
    if let Some(own) = parts
        .iter()
        .find_map(|part| of_part(part, table, facts, text))
    {
        return Some(own);
    }
    // The same for a part of which each alternative says so.
    let ways = parts
        .iter()
        .map(|part| disjuncts(part))
        .find(|ways| ways.len() > 1)?;
    let all: Vec<Rewrite> = ways
        .iter()
        .filter_map(|way| of_part(way, table, facts, text))
        .collect();
    (all.len() == ways.len()).then(|| all.into_iter().next())?
}

fn of_part(part: &str, table: &str, facts: &RelationFacts, text: &str) -> Option<Rewrite> {
    // Patterns and lists that come from the row have words of their own.
    if disjuncts(part).len() > 1 || part.contains("SubPlan") || forms::is_of_row(part) {
        return None;
    }
    if let Some(rewrite) = overlaps(part, table, facts).or_else(|| flag(part, table, facts)) {
        return Some(rewrite);
    }
    match Compared::of(part, table, facts, text) {
        Some(compared) => compared.rewrite(),
        None => {
            let drawn = shows(part, &["random("]) && column_in(part, facts).is_none();
            drawn.then(|| Rewrite {
                steps: vec![(
                    StepKind::Advice,
                    format!(
                        "{table} TABLESAMPLE SYSTEM (percent), or BERNOULLI (percent), in FROM, in the place of random() < part: SYSTEM reads only the blocks that it \
                         draws; the condition with random() has all rows read"
                    ),
                )],
            })
        }
    }
}

/// `(a, b) OVERLAPS (c, d)`.
fn overlaps(part: &str, table: &str, facts: &RelationFacts) -> Option<Rewrite> {
    if !part.contains("\"overlaps\"(") {
        return None;
    }
    let columns: Vec<&str> = words(part)
        .filter_map(|word| {
            facts
                .columns
                .iter()
                .map(String::as_str)
                .find(|column| *column == word)
        })
        .take(2)
        .collect();
    let [from, to] = columns[..] else {
        return None;
    };
    let range = match facts.types.get(from).map(String::as_str) {
        Some("timestamp without time zone") => "tsrange",
        Some("timestamp with time zone") => "tstzrange",
        Some("date") => "daterange",
        _ => return None,
    };
    let own = format!("{range}({}, {})", quote_ident(from), quote_ident(to));
    Some(Rewrite {
        steps: vec![
            (
                StepKind::Sql,
                format!("CREATE INDEX CONCURRENTLY ON {table} USING gist ({own});"),
            ),
            (
                StepKind::Advice,
                format!(
                    "and {own} && {range}(…, …) in the place of OVERLAPS, which is a function that no index serves"
                ),
            ),
        ],
    })
}

/// `done IS NOT TRUE`, where a partial index says `NOT done`.
fn flag(part: &str, table: &str, facts: &RelationFacts) -> Option<Rewrite> {
    let tests = [
        " IS NOT TRUE",
        " IS NOT FALSE",
        " IS FALSE",
        " IS TRUE",
        " IS NOT UNKNOWN",
    ];
    let shows = tests.iter().any(|test| part.ends_with(test)) || part.contains(" <> ");
    // Of two values one is not the other; of more, another condition asks for other rows.
    let of_two = |column: &&str| {
        facts
            .types
            .get(*column)
            .is_some_and(|kind| kind == "boolean")
    };
    let column = column_in(part, facts).filter(|_| shows).filter(of_two)?;
    let index = facts.indexes.iter().find(|index| {
        let of = index.predicate.as_deref().filter(|_| index.valid);
        of.is_some_and(|predicate| words(predicate).any(|word| word == column))
    })?;
    Some(Rewrite {
        steps: vec![(
            StepKind::Advice,
            format!(
                "write the condition as the partial index {} has it, WHERE {}, or make the index for {part}: it is used only where the statement's condition \
                 implies its own, and the planner does not see that of another form ({table})",
                index.name,
                index.predicate.as_deref().unwrap_or_default()
            ),
        )],
    })
}

mod operators;
mod table;

#[cfg(test)]
mod tests;
