//! What is done about a statement that runs within a function, by what the function's source and definition say.

use pgassay_model::observed::plans::InnerStatement;

use super::super::conditions::{Compared, compared, words};
use super::At;
use crate::bottlenecks::finding::StepKind;

impl At<'_> {
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
