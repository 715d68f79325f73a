//! Indexes that are there and don't serve a condition: why, by what they are on, and what would serve it.

use pgassay_model::observed::plans::{IndexFacts, RelationFacts};
use pgassay_text::quote::quote_ident;

use super::conditions::{conjuncts, words};
use crate::finding::StepKind;

/// Why an index does not serve a condition, and what does.
pub(super) struct Mismatch {
    pub why: String,
    pub step: (StepKind, String),
}

/// An index, and what of a condition it might have served.
struct Near<'a> {
    table: &'a str,
    column: &'a str,
    /// Without the part that says what is indexed.
    definition: &'a str,
    index: &'a IndexFacts,
    /// The part of the condition that names the column.
    part: &'a str,
    facts: &'a RelationFacts,
}

const REASONS: &[fn(&Near) -> Option<Mismatch>] = &[document, partial];

/// The first index on a column of a condition for which it is known why it does not serve it.
pub(super) fn mismatch(table: &str, filter: &str, facts: &RelationFacts) -> Option<Mismatch> {
    let parts = conjuncts(filter);
    facts
        .indexes
        .iter()
        .filter(|index| index.valid)
        .find_map(|index| {
            let definition = index.definition.as_deref()?;
            let column = index.first.as_deref()?;
            let part = parts
                .iter()
                .find(|part| words(part).any(|word| word == column))?;
            let near = Near {
                table,
                column,
                definition,
                index,
                part,
                facts,
            };
            REASONS.iter().find_map(|reason| reason(&near))
        })
}

impl Near<'_> {
    fn kind(&self) -> &str {
        self.facts.types.get(self.column).map_or("", String::as_str)
    }

    fn is(&self, operator: &str) -> bool {
        self.part.contains(&format!(" {operator} "))
    }
}

/// A GIN index on documents or arrays, and an operator that it does not know.
fn document(near: &Near) -> Option<Mismatch> {
    if near.index.method != "gin" {
        return None;
    }
    let column = quote_ident(near.column);
    let name = &near.index.name;
    let takes_out = near.is("->>") || near.is("->") || near.is("#>>");
    if near.kind() == "jsonb" && takes_out {
        let expression = expression(near.part, near.column);
        let index = match &expression {
            Some(expression) => format!(
                "CREATE INDEX CONCURRENTLY ON {} (({expression}));   -- or",
                near.table
            ),
            None => "an index on the expression itself; or".to_owned(),
        };
        return Some(Mismatch {
            why: format!(
                "{name} is a GIN index on the document, which answers @>, ? and @?, and no comparison of what ->> takes out of it"
            ),
            step: (
                StepKind::Sql,
                format!(
                    "{index} write the condition as {column} @> jsonb_build_object('key', value), which {name} serves"
                ),
            ),
        });
    }
    let exists = near.is("?") || near.is("?|") || near.is("?&");
    if exists && near.definition.contains("jsonb_path_ops") {
        return Some(Mismatch {
            why: format!(
                "{name} has the operator class jsonb_path_ops, which answers @> and @?, and not ?"
            ),
            step: (
                StepKind::Sql,
                format!(
                    "CREATE INDEX CONCURRENTLY ON {} USING gin ({column});   -- jsonb_ops, the default, answers ?; or, of arrays of texts, {column} @> to_jsonb(value), which {name} serves",
                    near.table
                ),
            ),
        });
    }
    None
}

/// `doc ->> $1` of `((t.doc ->> $1::text) = $2)`; none where it holds a value that was taken out of it.
fn expression(part: &str, column: &str) -> Option<String> {
    let (left, _) = part.split_once(" = ")?;
    let left = left.trim_matches(['(', ')']);
    let at = left.find(column)?;
    let text = &left[at..];
    (!text.contains('$')).then(|| text.to_owned())
}

/// An index of some rows, of which the condition does not say that it wants no others.
fn partial(near: &Near) -> Option<Mismatch> {
    let (_, predicate) = near
        .definition
        .split_once(" WHERE ")
        .filter(|_| near.index.partial)?;
    let covered = &near.definition[..near.definition.find(" WHERE ")?];
    Some(Mismatch {
        why: format!(
            "{} covers only the rows WHERE {predicate}, and the planner can't prove that the statement wants no others",
            near.index.name
        ),
        step: (
            StepKind::Sql,
            format!(
                "CREATE INDEX CONCURRENTLY ON {} {covered};   -- for all rows; or write the condition in the words of the index: … AND {predicate}, with a constant in it and no \
                 parameter, without coalesce() or a cast around its columns",
                near.table
            ),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(method: &str, definition: &str, kind: &str, filter: &str) -> Option<String> {
        let facts = RelationFacts {
            columns: vec!["c".into()],
            types: [("c".to_owned(), kind.to_owned())].into(),
            indexes: vec![IndexFacts {
                name: "t_c".into(),
                method: method.into(),
                first: Some("c".into()),
                valid: true,
                partial: definition.contains(" WHERE "),
                definition: Some(definition.to_owned()),
                ..IndexFacts::default()
            }],
            ..RelationFacts::default()
        };
        mismatch("public.t", filter, &facts).map(|found| format!("{} {}", found.why, found.step.1))
    }

    #[test]
    fn an_index_that_does_not_serve_a_condition_is_told_why() {
        let says = |found: Option<String>, what: &str| {
            let found = found.unwrap();
            assert!(found.contains(what), "{found}");
        };
        says(
            told("gin", "USING gin (c)", "jsonb", "((t.c ->> $1::text) = $2)"),
            "@> jsonb_build_object",
        );
        says(
            told("gin", "USING gin (c jsonb_path_ops)", "jsonb", "(t.c ? $1)"),
            "USING gin (c);",
        );
        says(
            told(
                "btree",
                "USING btree (c) WHERE (NOT deleted)",
                "integer",
                "((t.c = $1) AND (NOT COALESCE(t.deleted, $2)))",
            ),
            "covers only the rows WHERE (NOT deleted)",
        );
        assert!(told("btree", "USING btree (c)", "text", "(t.c = $1)").is_none());
        assert!(told("gin", "USING gin (c)", "jsonb", "(t.c @> $1)").is_none());
    }
}
