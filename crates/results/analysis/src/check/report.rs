//! The results of all rules, as every format shows them.

use std::cmp::Reverse;

use pgassay_model::facts::{Facts, Place};
use serde::{Deserialize, Serialize};

use super::{Entry, FactView, Family, Finding, Need, Severity};
use crate::bottlenecks::{Confidence, NotJudged, Verdict};
use crate::host::HostSummary;

/// Name and version of the serialized form.
pub const CHECK_SCHEMA: &str = "pgassay/check/1";

/// What was made of all entries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Why the session ended before all questions were put to the server; none if it held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_lost: Option<String>,
    /// Whether the server was made for this audit: then its settings are nobody's, and not judged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub throw_away: bool,
    /// The server in short.
    pub server: CheckedServer,
    /// The host in short; empty where it is not the server's.
    pub host: HostSummary,
    /// How many outcomes there are of each kind.
    pub counts: Counts,
    /// One for each entry: findings first, the gravest before the others, then by family.
    pub results: Vec<EntryResult>,
}

/// The server in short.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckedServer {
    /// `version()`, where it could be asked.
    pub version: Option<String>,
    /// `server_version_num`.
    pub version_num: Option<u32>,
    /// `shared_buffers` in bytes.
    pub shared_buffers_bytes: Option<u64>,
}

/// How many outcomes there are of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    fn of(results: &[EntryResult]) -> Self {
        let count = |outcome| results.iter().filter(|r| r.outcome == outcome).count() as u32;
        Self {
            findings: count(Outcome::Finding),
            passed: count(Outcome::Passed),
            not_applicable: count(Outcome::NotApplicable),
            could_not_see: count(Outcome::CouldNotSee),
        }
    }
}

/// What was made of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// One entry's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EntryResult {
    /// The entry.
    pub id: String,
    /// The bottleneck in a few words.
    pub title: String,
    /// Its family.
    pub family: Family,
    /// What was made of it.
    pub outcome: Outcome,
    /// What was seen, or why nothing was.
    pub saw: String,
    /// The finding, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<Finding>,
}

impl EntryResult {
    /// What was made of an entry.
    pub(super) fn of(entry: &Entry, judged: Result<Verdict<Finding>, NotJudged>) -> Self {
        let mut found = None;
        let (outcome, saw) = match judged {
            Ok(Verdict::Found(finding)) => {
                let saw = finding.saw.clone();
                found = Some(*finding);
                (Outcome::Finding, saw)
            }
            Ok(Verdict::Passed(saw)) => (Outcome::Passed, saw),
            Err(NotJudged::NotApplicable(why)) => (Outcome::NotApplicable, why),
            Err(NotJudged::CouldNotSee(why)) => (Outcome::CouldNotSee, why),
        };
        Self {
            id: entry.id.to_owned(),
            title: entry.title.to_owned(),
            family: entry.family,
            outcome,
            saw,
            finding: found,
        }
    }

    /// What orders results: the gravest finding first.
    fn weight(&self) -> Reverse<Option<(Severity, Confidence)>> {
        let finding = self.finding.as_ref();
        Reverse(finding.map(|f| (f.severity, f.confidence)))
    }
}

impl CheckReport {
    /// Orders the results and counts them.
    pub(super) fn new(facts: &Facts, seen: &FactView, mut results: Vec<EntryResult>) -> Self {
        results.sort_by_key(EntryResult::weight);
        Self {
            schema: CHECK_SCHEMA.to_owned(),
            pgassay_version: facts.pgassay_version.clone(),
            collected: facts.collected.clone(),
            target: facts.target.clone(),
            place: facts.place.clone(),
            session_lost: facts.session_lost.clone(),
            throw_away: false,
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

    /// Leaves only the entries that are wanted.
    pub fn keep(&mut self, wanted: impl Fn(&str) -> bool) {
        self.results.retain(|r| wanted(&r.id));
        self.counts = Counts::of(&self.results);
    }

    /// The same of a server that was made for this audit, with nobody's settings: what needs the
    /// server itself is not judged, but for how it was built.
    pub fn of_throw_away(mut self) -> Self {
        self.throw_away = true;
        for result in &mut self.results {
            let needs = crate::bottlenecks::find(&result.id).map_or(&[][..], |entry| entry.needs);
            let of_server = |need: &Need| matches!(need, Need::Sql | Need::Process);
            if result.family != Family::Build && needs.iter().any(of_server) {
                result.outcome = Outcome::NotApplicable;
                result.saw =
                    "the server was made for this check: its settings are not yours".into();
                result.finding = None;
            }
        }
        self.results.sort_by_key(EntryResult::weight);
        self.counts = Counts::of(&self.results);
        self
    }

    /// The findings, the gravest first.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.results.iter().filter_map(|r| r.finding.as_ref())
    }

    /// The results of one kind.
    pub fn of(&self, outcome: Outcome) -> impl Iterator<Item = &EntryResult> {
        self.results.iter().filter(move |r| r.outcome == outcome)
    }

    /// Why it means nothing that nothing was found: the session was lost, or nothing could be seen.
    pub fn unseen(&self) -> Option<String> {
        if let Some(why) = &self.session_lost {
            return Some(format!(
                "the connection was lost before the server was looked at in full: {why}"
            ));
        }
        let counts = &self.counts;
        let judged = counts.findings + counts.passed + counts.not_applicable;
        (judged == 0 && counts.could_not_see > 0)
            .then(|| "nothing could be seen that would be judged".to_owned())
    }

    /// The gravest finding's severity.
    pub fn gravest(&self) -> Option<Severity> {
        self.findings().map(|f| f.severity).max()
    }
}
