//! What is done about a statement that runs within a function, by what the function's source and definition say.

use pgassay_model::observed::plans::{InnerStatement, LoopFacts};

use super::super::conditions::{Compared, compared, words};
use super::At;
use crate::finding::StepKind;

impl At<'_> {
    /// A function whose loops execute statements, each once a round.
    pub(super) fn looping(&self) -> Option<(&String, &LoopFacts)> {
        let mut loops = self.plan.loops.iter();
        loops.find(|(_, facts)| !facts.looped.is_empty())
    }

    /// One statement in the place of a loop with one for each row.
    pub(super) fn in_one(&self, first: &InnerStatement) -> String {
        let executed = self.plan.executed.as_ref();
        // What the loop goes through.
        let driving = executed.and_then(|executed| {
            let mut others = executed.inner.iter();
            others.find(|inner| {
                inner.calls * 10 <= first.calls
                    && inner
                        .text
                        .trim_start()
                        .to_ascii_lowercase()
                        .starts_with("select")
            })
        });
        let Some((name, _)) = self.looping() else {
            return "have the function do it in one statement for all rows, in place of one for each".to_owned();
        };
        let from = driving.map_or_else(
            || "the query of the loop".to_owned(),
            |driving| format!("the query of the loop ({})", shortened(&driving.text)),
        );
        let verb = first.text.trim_start().to_ascii_lowercase();
        let form = match verb.split_whitespace().next() {
            Some("update") => "UPDATE … FROM (that query) l WHERE … = l.…",
            Some("insert") => "INSERT INTO … SELECT … FROM (that query) l",
            Some("delete") => "DELETE FROM … USING (that query) l WHERE … = l.…",
            _ => {
                "SELECT sum(…) FROM (that query) l JOIN … ON … = l.…, or with LEFT JOIN where a row may be missing"
            }
        };
        format!(
            "take the loop out of {name}: one statement for all rows, which joins {from} with what each round asks for: {form}; as a function of LANGUAGE sql, if nothing else is left of it"
        )
    }

    /// What the source of the functions says of a statement that ran within them.
    pub(super) fn by_body(&self, inner: &InnerStatement) -> Vec<(StepKind, String)> {
        let mut told = Vec::new();
        let lower = inner.text.to_ascii_lowercase();
        for (name, facts) in &self.plan.loops {
            if facts.counts_for_existence && lower.contains("count(*)") {
                told.push((
                    StepKind::Advice,
                    format!(
                        "IF EXISTS (SELECT FROM … WHERE …) in {name}, in the place of SELECT count(*) INTO … and IF … > 0: it stops at the first row that it finds"
                    ),
                ));
            }
            let named = |p: &&String| words(&lower).any(|word| word == p.as_str());
            let Some(parameter) = facts.optional.iter().find(named) else {
                continue;
            };
            let signature = self
                .plan
                .definitions
                .get(name)
                .map_or(name, |of| &of.signature);
            let by_setting = (
                StepKind::Sql,
                format!(
                    "ALTER FUNCTION {signature} SET plan_cache_mode = force_custom_plan;   -- {parameter} IS NULL OR … makes a condition optional: a plan that is kept for all \
                     values (generic, from the sixth call on) can use no index for it, one that is made with the values can"
                ),
            );
            // The setting is of 12 and later.
            told.extend((!self.evidence.is_before(120_000)).then_some(by_setting));
            told.push((
                StepKind::Advice,
                format!(
                    "or have {name} put the statement together with only the conditions whose parameters are set (EXECUTE … USING), or branch by IF into statements of their own"
                ),
            ));
        }
        told.extend(self.parameter(inner));
        told
    }

    /// A parameter of a function with another type than the column that it is compared with.
    fn parameter(&self, inner: &InnerStatement) -> Option<(StepKind, String)> {
        let all = inner.root.as_ref()?.all();
        let filters = all
            .iter()
            .filter_map(|(_, node)| Some((node, node.conditions.get("Filter")?)));
        let mut casts = filters.filter_map(|(node, filter)| {
            let facts = self.plan.relations.get(node.relation.as_ref()?)?;
            let column = match compared(filter, facts)? {
                Compared::Cast(column) => column,
                _ => return None,
            };
            let to = filter.split_once(&format!("{column})::"))?.1;
            let to = &to[..to.find([' ', ')']).unwrap_or(to.len())];
            let mut of = self.plan.definitions.values();
            let (signature, parameter) = of.find_map(|of| {
                let mut parameters = of.parameters.iter().filter(|(_, kind)| *kind == to);
                parameters.next().map(|(name, _)| (&of.signature, name))
            })?;
            let kind = facts.types.get(column.trim_matches('"'))?;
            Some((
                StepKind::Advice,
                format!(
                    "declare the parameter {parameter} of {signature} as {kind}, the type of {column} (DROP FUNCTION {signature}, and CREATE FUNCTION anew): with {to} the column of each row \
                     is converted, and no index serves the comparison; or compare with {parameter}::{kind}"
                ),
            ))
        });
        casts.next()
    }
}

/// The beginning of a statement.
fn shortened(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
