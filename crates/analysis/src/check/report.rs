//! The results of all rules, as every format shows them.

use serde::{Deserialize, Serialize};

use super::rule::{Aside, Judged, Step, Verdict};
use super::{Facts, Family, Place, Rule, Seen, Severity, Sure};
use crate::host::HostSummary;

/// Name and version of the serialized form.
pub const CHECK_SCHEMA: &str = "pgassay/check/1";

/// What all rules said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckReport {
    /// [`CHECK_SCHEMA`].
    pub schema: String,
    /// Version of the pgassay that collected the facts.
    pub pgassay_version: String,
    /// When the facts were collected, UTC, RFC 3339.
    pub collected: String,
    /// The server as typed, without passwords.
    pub target: String,
    /// Where the server runs, seen from the host.
    pub place: Place,
    /// Why the session ended before all questions were put to the server; none where it held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_lost: Option<String>,
    /// The server in short.
    pub server: CheckedServer,
    /// The host in short; empty where it is not the server's.
    pub host: HostSummary,
    /// How many rules said what.
    pub counts: Counts,
    /// One entry a rule: findings first, the gravest before the others, then the
    /// registry's order.
    pub results: Vec<RuleResult>,
}

/// The server in short.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedServer {
    /// `version()`, where it could be asked.
    pub version: Option<String>,
    /// `server_version_num`.
    pub version_num: Option<u32>,
    /// `shared_buffers` in bytes.
    pub shared_buffers_bytes: Option<u64>,
}

/// How many rules said what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Findings.
    pub findings: u32,
    /// Passed.
    pub passed: u32,
    /// The question did not arise.
    pub not_applicable: u32,
    /// Could not see.
    pub could_not_see: u32,
}

impl Counts {
    fn of(results: &[RuleResult]) -> Self {
        let count = |outcome| results.iter().filter(|r| r.outcome == outcome).count() as u32;
        Self {
            findings: count(Outcome::Finding),
            passed: count(Outcome::Passed),
            not_applicable: count(Outcome::NotApplicable),
            could_not_see: count(Outcome::CouldNotSee),
        }
    }
}

/// What a rule said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It is as it should not be.
    Finding,
    /// It is as it should be.
    Passed,
    /// The question does not arise.
    NotApplicable,
    /// What it needs could not be seen.
    CouldNotSee,
}

/// One rule's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleResult {
    /// The rule.
    pub id: String,
    /// What it asks.
    pub title: String,
    /// Its family.
    pub family: Family,
    /// What it said.
    pub outcome: Outcome,
    /// What was seen, or why nothing was.
    pub saw: String,
    /// How much a finding weighs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// How sure a finding is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sure: Option<Sure>,
    /// Why a finding matters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// How much it has been seen to matter.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub effect: String,
    /// What to do about a finding, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedy: Vec<Step>,
    /// Where this is from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
}

impl RuleResult {
    /// A rule's words, and what it knows of itself where there is a finding.
    pub(super) fn of(rule: &Rule, judged: Judged) -> Self {
        let mut result = Self {
            id: rule.id.to_owned(),
            title: rule.title.to_owned(),
            family: rule.family,
            outcome: Outcome::Passed,
            saw: String::new(),
            severity: None,
            sure: None,
            why: String::new(),
            effect: String::new(),
            remedy: Vec::new(),
            sources: Vec::new(),
        };
        (result.outcome, result.saw) = match judged {
            Ok(Verdict::Finding(finding)) => {
                result.severity = Some(finding.severity);
                result.sure = Some(finding.sure);
                result.why = rule.why.to_owned();
                result.effect = rule.effect.to_owned();
                result.remedy = finding.remedy;
                result.sources = rule.sources.iter().map(|s| (*s).to_owned()).collect();
                (Outcome::Finding, finding.saw)
            }
            Ok(Verdict::Passed(saw)) => (Outcome::Passed, saw),
            Err(Aside::NotApplicable(why)) => (Outcome::NotApplicable, why),
            Err(Aside::CouldNotSee(why)) => (Outcome::CouldNotSee, why),
        };
        result
    }
}

impl CheckReport {
    /// Orders the results and counts them.
    pub(super) fn new(facts: &Facts, seen: &Seen, mut results: Vec<RuleResult>) -> Self {
        results.sort_by_key(|r| {
            let finding = r.outcome != Outcome::Finding;
            (finding, std::cmp::Reverse((r.severity, r.sure)))
        });
        Self {
            schema: CHECK_SCHEMA.to_owned(),
            pgassay_version: facts.pgassay_version.clone(),
            collected: facts.collected.clone(),
            target: facts.target.clone(),
            place: facts.place.clone(),
            session_lost: facts.session_lost.clone(),
            server: CheckedServer {
                version: seen.version_text().map(str::to_owned),
                version_num: seen.version().ok(),
                shared_buffers_bytes: seen.bytes("shared_buffers").ok(),
            },
            host: seen.host_summary(),
            counts: Counts::of(&results),
            results,
        }
    }

    /// Leaves only the rules that are wanted.
    pub fn keep(&mut self, wanted: impl Fn(&str) -> bool) {
        self.results.retain(|r| wanted(&r.id));
        self.counts = Counts::of(&self.results);
    }

    /// The findings, the gravest first.
    pub fn findings(&self) -> impl Iterator<Item = &RuleResult> {
        self.of(Outcome::Finding)
    }

    /// The results of one kind.
    pub fn of(&self, outcome: Outcome) -> impl Iterator<Item = &RuleResult> {
        self.results.iter().filter(move |r| r.outcome == outcome)
    }

    /// Why that nothing was found says nothing: the session was lost, or no rule could see what it
    /// judges.
    pub fn unseen(&self) -> Option<String> {
        if let Some(why) = &self.session_lost {
            return Some(format!(
                "the connection was lost before the server was looked at in full: {why}"
            ));
        }
        let counts = &self.counts;
        let judged = counts.findings + counts.passed + counts.not_applicable;
        (judged == 0 && counts.could_not_see > 0)
            .then(|| "no rule could see what it judges".to_owned())
    }

    /// The gravest finding's severity.
    pub fn gravest(&self) -> Option<Severity> {
        self.findings().filter_map(|r| r.severity).max()
    }
}
