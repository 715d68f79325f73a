//! The audit of a host and a server: facts in, findings out.
//!
//! [`Facts`] is what was seen, raw, and what `pgassay collect` writes into a
//! file. Each [`Rule`] of [`RULES`] looks at it and says one of four things:
//! a finding, passed, not applicable, or could not see, the last two with the
//! reason. A rule never concludes from what was not seen.
//!
//! To add a rule: one entry in a file under `rules/`, one line in [`RULES`], one
//! file of cases; `docs/adding-a-rule.md` shows it.

pub mod docs;
mod facts;
mod report;
mod rule;
mod rules;
mod seen;

pub use facts::{FACTS_SCHEMA, Facts, Library, Place};
pub use report::{CHECK_SCHEMA, CheckReport, CheckedServer, Counts, Outcome, RuleResult};
pub use rule::{
    Aside, Family, Finding, Judged, Need, Rule, Severity, Step, StepKind, Sure, Verdict,
};
pub use rules::RULES;
pub use seen::Seen;

/// Holds all rules against what was seen.
pub fn check(facts: &Facts) -> CheckReport {
    let seen = Seen::new(facts);
    let results = RULES
        .iter()
        .map(|rule| RuleResult::of(rule, (rule.judge)(&seen)))
        .collect();
    CheckReport::new(facts, &seen, results)
}

/// The rule of this id.
pub fn find(id: &str) -> Option<&'static Rule> {
    RULES.iter().copied().find(|rule| rule.id == id)
}
