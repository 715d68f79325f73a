//! From evidence to findings: which known bottleneck it is, and what to do.
//!
//! A rule looks at what was seen and says what that is known to mean, or nothing.
//! It never invents: without a rule there is no finding, and every number in a
//! finding comes from the evidence. What PostgreSQL changed in which version, and
//! the commit that did it, stands in `known.rs`.
//!
//! [`RULES`] is the registry: adding a rule is a function in one of the files
//! beside this one and a line there.

mod known;
mod profile_rules;
mod run_rules;

use serde::{Deserialize, Serialize};

use crate::analysis::{Analysis, ArmAnalysis, PointAnalysis};
use crate::host::HostSummary;
use crate::observed::{PointObserved, WaitAnalysis};
use crate::profile::Summary;
use crate::profile::difference::Difference;
use crate::profile::flame::Flame;

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/diagnosis/1";

/// What is known of a server under load.
#[derive(Debug, Clone, Copy, Default)]
pub struct Evidence<'a> {
    /// `server_version_num`, 150018 for 15.18 and 90404 for 9.4.4.
    pub version: Option<u32>,
    /// CPU samples.
    pub profile: Option<&'a Summary>,
    /// A recorded run.
    pub run: Option<RunEvidence<'a>>,
}

/// What a run shows of one server, at its largest client count.
#[derive(Debug, Clone, Copy)]
pub struct RunEvidence<'a> {
    /// The machine.
    pub host: &'a HostSummary,
    /// The server.
    pub arm: &'a ArmAnalysis,
    /// The largest client count that was measured.
    pub point: &'a PointAnalysis,
    /// What observers saw there.
    pub observed: Option<&'a PointObserved>,
}

impl<'a> RunEvidence<'a> {
    /// The wait samples.
    pub fn waits(&self) -> Option<&'a WaitAnalysis> {
        self.observed?.waits.as_ref()
    }
}

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sureness {
    /// The evidence fits, and so would something else.
    Possible,
    /// The evidence fits this and hardly anything else, or a part of it is missing.
    Likely,
    /// The evidence names it.
    Sure,
}

impl Sureness {
    /// Its name in reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Possible => "possible",
            Self::Likely => "likely",
            Self::Sure => "sure",
        }
    }
}

/// A known bottleneck, found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable name of the rule.
    pub id: String,
    /// What it is, one plain sentence.
    pub title: String,
    /// What was seen, with the figures.
    pub evidence: Vec<String>,
    /// What that means.
    pub explanation: String,
    /// What to do.
    pub remedy: String,
    /// The part of all time that would be won if the cause were gone altogether, 0 to 1:
    /// an upper bound by which findings are ranked. None where nothing can be said.
    pub gain_at_most: Option<f64>,
    /// How sure it is.
    pub sureness: Sureness,
    /// Where the knowledge comes from: commits of PostgreSQL, documents.
    pub sources: Vec<String>,
}

impl Finding {
    fn new(id: &str, title: impl Into<String>) -> Self {
        Self {
            id: id.to_owned(),
            title: title.into(),
            evidence: Vec::new(),
            explanation: String::new(),
            remedy: String::new(),
            gain_at_most: None,
            sureness: Sureness::Sure,
            sources: Vec::new(),
        }
    }

    fn seen(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    fn means(mut self, explanation: impl Into<String>) -> Self {
        self.explanation = explanation.into();
        self
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    fn gain(mut self, share: f64) -> Self {
        self.gain_at_most = Some(share.clamp(0.0, 1.0));
        self
    }

    fn sure(mut self, sureness: Sureness) -> Self {
        self.sureness = sureness;
        self
    }

    fn source(mut self, source: impl Into<String>) -> Self {
        self.sources.push(source.into());
        self
    }

    /// The gain in words; none where nothing can be said.
    pub fn gain_in_words(&self) -> Option<String> {
        let share = self.gain_at_most?;
        Some(if share >= 0.95 {
            "nearly all of the time goes there".to_owned()
        } else {
            format!(
                "without it at most {:.2} times as much could be done",
                1.0 / (1.0 - share)
            )
        })
    }
}

/// A rule of the registry.
pub struct Rule {
    /// Stable name.
    pub id: &'static str,
    /// What it recognises, in few words.
    pub about: &'static str,
    /// What it looks at.
    pub looks_at: &'static str,
    apply: fn(&Evidence) -> Option<Finding>,
}

/// All rules.
pub const RULES: &[Rule] = &[
    Rule {
        id: "buffer-header-spinlock",
        about: "sessions spin on the spinlock of a buffer's header to pin it",
        looks_at: "CPU samples: s_lock and who called it; the version",
        apply: profile_rules::buffer_header,
    },
    Rule {
        id: "buffer-replacement-spinlock",
        about: "sessions spin on the lock of the free list and clock hand",
        looks_at: "CPU samples: s_lock below StrategyGetBuffer, page faults; the version",
        apply: profile_rules::buffer_replacement,
    },
    Rule {
        id: "spinlock-unattributed",
        about: "sessions spin, and the samples do not say for which lock",
        looks_at: "CPU samples: s_lock without callers",
        apply: profile_rules::spinlock_unattributed,
    },
    Rule {
        id: "snapshot-scalability",
        about: "taking a snapshot costs by the number of connections",
        looks_at: "CPU samples: GetSnapshotData; the version",
        apply: profile_rules::snapshot,
    },
    Rule {
        id: "lwlock-wait-list",
        about: "the list of an LWLock's waiters is itself contended",
        looks_at: "CPU samples: wait-list functions of the LWLock",
        apply: profile_rules::wait_list,
    },
    Rule {
        id: "wal-insertion",
        about: "inserting into the log is contended",
        looks_at: "CPU samples: lock functions called for WAL insertion; the version",
        apply: profile_rules::wal_insertion,
    },
    Rule {
        id: "buffer-mapping",
        about: "the buffer mapping partitions are contended",
        looks_at: "CPU samples: lock functions called for the mapping table",
        apply: profile_rules::buffer_mapping,
    },
    Rule {
        id: "lock-manager",
        about: "the lock manager's partitions are contended",
        looks_at: "CPU samples: lock functions called by the lock manager; the version",
        apply: profile_rules::lock_manager,
    },
    Rule {
        id: "page-faults",
        about: "page faults take the CPU's time",
        looks_at: "CPU samples in the kernel's fault handling",
        apply: profile_rules::page_faults,
    },
    Rule {
        id: "parse-and-plan",
        about: "statements are parsed and planned again and again",
        looks_at: "CPU samples in parser, planner and catalog look-ups",
        apply: profile_rules::parse_and_plan,
    },
    Rule {
        id: "round-trips",
        about: "messages, sockets and wake-ups cost more than the statements",
        looks_at: "CPU samples: network, wake-up, protocol, against the executor",
        apply: profile_rules::round_trips,
    },
    Rule {
        id: "assertions-enabled",
        about: "the server checks its own assertions",
        looks_at: "CPU samples: functions that only such a build has",
        apply: profile_rules::assertions,
    },
    Rule {
        id: "software-crc",
        about: "checksums of the log are computed without the CPU's instruction",
        looks_at: "CPU samples: pg_comp_crc32c_sb8; the version",
        apply: profile_rules::software_crc,
    },
    Rule {
        id: "jit-compilation",
        about: "compiling expressions costs more than it brings",
        looks_at: "CPU samples: LLVM",
        apply: profile_rules::jit,
    },
    Rule {
        id: "hot-row",
        about: "sessions queue for the same rows",
        looks_at: "wait events Lock:tuple and Lock:transactionid",
        apply: run_rules::hot_row,
    },
    Rule {
        id: "relation-lock-queue",
        about: "sessions queue for a lock on a table",
        looks_at: "wait event Lock:relation",
        apply: run_rules::relation_lock,
    },
    Rule {
        id: "wal-flush",
        about: "commits wait for the log to reach the disk",
        looks_at: "wait events LWLock:WALWrite and IO:WALSync",
        apply: run_rules::wal_flush,
    },
    Rule {
        id: "buffer-misses",
        about: "blocks are read and replaced; also buffer-mapping-contention",
        looks_at: "wait events of buffer mapping and reads, blocks read a transaction",
        apply: run_rules::buffer_misses,
    },
    Rule {
        id: "hot-page",
        about: "sessions queue for the content of the same pages",
        looks_at: "wait event LWLock:BufferContent, class Buffer from 19",
        apply: run_rules::content_lock,
    },
    Rule {
        id: "relation-extension",
        about: "sessions queue to extend a table",
        looks_at: "wait event Lock:extend",
        apply: run_rules::extension_lock,
    },
    Rule {
        id: "wal-insert-wait",
        about: "sessions queue to insert into the log",
        looks_at: "wait event LWLock:WALInsert; the version",
        apply: run_rules::wal_insert_wait,
    },
    Rule {
        id: "proc-array-wait",
        about: "sessions queue for the list of running transactions",
        looks_at: "wait event LWLock:ProcArray; the version",
        apply: run_rules::proc_array_wait,
    },
    Rule {
        id: "lock-manager-wait",
        about: "sessions queue for the lock manager",
        looks_at: "wait event LWLock:LockManager; the version",
        apply: run_rules::lock_manager_wait,
    },
    Rule {
        id: "client-bound",
        about: "the load's own client is the limit",
        looks_at: "busy load threads, sessions that wait for the client",
        apply: run_rules::client_bound,
    },
    Rule {
        id: "old-version-many-connections",
        about: "many connections on a version whose snapshots cost by their number",
        looks_at: "sessions counted, the version, GetSnapshotData where CPU was sampled",
        apply: run_rules::many_connections,
    },
    Rule {
        id: "stolen-time",
        about: "the hypervisor gives the CPUs to others",
        looks_at: "steal",
        apply: run_rules::stolen,
    },
    Rule {
        id: "cpu-quota",
        about: "a control group's quota holds the server back",
        looks_at: "the quota and the CPU time used",
        apply: run_rules::cpu_quota,
    },
    Rule {
        id: "swapping",
        about: "the machine swaps under the load",
        looks_at: "pages swapped, memory pressure",
        apply: run_rules::swapping,
    },
    Rule {
        id: "exclusive-loops",
        about: "locks by exclusive loops on a CPU with LSE",
        looks_at: "the inspected binary and the CPU",
        apply: run_rules::exclusive_loops,
    },
    Rule {
        id: "debug-build",
        about: "a build with assertions or without optimisation",
        looks_at: "settings and the inspected binary",
        apply: run_rules::debug_build,
    },
];

/// All that was found, ranked, and what could not be seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// [`SCHEMA`].
    pub schema: String,
    /// What was looked at: a run's name or a file's.
    pub subject: String,
    /// `server_version_num`, where it is known.
    pub version_num: Option<u32>,
    /// The findings, the largest possible gain first.
    pub findings: Vec<Finding>,
    /// Where the time goes, in plain sentences: true whatever was found.
    pub time: Vec<String>,
    /// CPU samples in figures.
    #[serde(default)]
    pub profile: Option<Summary>,
    /// The same as a flame graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flame: Option<Flame>,
    /// What changed from another profile, where one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    /// What could not be seen, and so was not judged.
    pub not_seen: Vec<String>,
}

/// Applies all rules.
pub fn diagnose(subject: &str, evidence: &Evidence) -> Diagnosis {
    let mut findings: Vec<Finding> = RULES
        .iter()
        .filter_map(|rule| (rule.apply)(evidence))
        .collect();
    // CPU samples are shares of running; waits of all time in statements: one scale for both.
    if let Some(running) = running_share(evidence) {
        for finding in &mut findings {
            let by_samples = finding
                .evidence
                .iter()
                .any(|e| e.contains(" of the samples"));
            if by_samples && let Some(gain) = &mut finding.gain_at_most {
                *gain *= running;
            }
        }
    }
    rank(&mut findings);
    Diagnosis {
        schema: SCHEMA.to_owned(),
        subject: subject.to_owned(),
        version_num: evidence.version,
        findings,
        time: time(evidence),
        profile: evidence.profile.cloned(),
        flame: None,
        difference: None,
        not_seen: not_seen(evidence),
    }
}

/// Diagnoses the one server of a run; none where there are several, or nothing was measured.
pub fn of_run(analysis: &Analysis) -> Option<Diagnosis> {
    let [arm] = analysis.arms.as_slice() else {
        return None;
    };
    let point = arm.points.iter().max_by_key(|p| p.point.clients)?;
    let observed = arm
        .observed
        .as_ref()
        .and_then(|o| o.points.iter().find(|p| p.clients == point.point.clients));
    let evidence = Evidence {
        version: arm.server.as_ref().and_then(|s| s.version_num),
        profile: observed.and_then(|o| o.profile.as_ref()),
        run: Some(RunEvidence {
            host: &analysis.host,
            arm,
            point,
            observed,
        }),
    };
    let mut diagnosis = diagnose(&analysis.run.id, &evidence);
    // The report has it at its own place.
    diagnosis.profile = None;
    let unavailable = arm.observed.iter().flat_map(|o| &o.unavailable);
    diagnosis
        .not_seen
        .extend(unavailable.map(|u| format!("{}: {}", u.observer, u.why)));
    Some(diagnosis)
}

/// The part of the time of sessions in a statement in which they ran, or were ready to.
fn running_share(evidence: &Evidence) -> Option<f64> {
    let waits = evidence.run?.waits()?;
    (waits.active_sessions > 0.0).then(|| waits.running_sessions / waits.active_sessions)
}

/// Where the time goes at the largest client count.
fn time(evidence: &Evidence) -> Vec<String> {
    let mut sentences = Vec::new();
    let Some(run) = &evidence.run else {
        return sentences;
    };
    if let Some(waits) = run.waits() {
        let mut parts = vec![format!(
            "{:.2} ran or waited for a CPU",
            waits.running_sessions
        )];
        let events = waits.events.iter().filter(|e| e.sessions >= 0.005).take(3);
        parts.extend(events.map(|e| format!("{:.2} waited at {}", e.sessions, e.name())));
        sentences.push(format!(
            "With {} {:.2} sessions were in a statement on average: {}.",
            match run.point.point.clients {
                1 => "1 client".to_owned(),
                n => format!("{n} clients"),
            },
            waits.active_sessions,
            parts.join(", "),
        ));
    }
    if let (Some(machine), Some(cpus)) = (&run.point.machine_cpus, run.host.cpus) {
        let queue = run.observed.and_then(|o| o.scheduling.run_queue);
        let queue = queue.map_or(String::new(), |q| {
            format!("; {q:.2} server processes waited for one")
        });
        sentences.push(format!(
            "Of {cpus} CPUs {:.2} were busy, {:.2} of them with the load's client{queue}.",
            machine.estimate, run.point.client_cpus.estimate,
        ));
    }
    if let Some(profile) = evidence.profile {
        let classes: Vec<String> = profile
            .classes
            .iter()
            .take(4)
            .map(|c| format!("{} {:.0} %", c.class.title(), 100.0 * c.share))
            .collect();
        sentences.push(format!(
            "The server's CPU time went to: {}.",
            classes.join(", ")
        ));
    }
    sentences
}

/// The largest gain first; where none can be said, the surest.
fn rank(findings: &mut [Finding]) {
    let key = |f: &Finding| (f.gain_at_most.unwrap_or(0.0), f.sureness);
    findings.sort_by(|a, b| {
        let ((gain_a, sure_a), (gain_b, sure_b)) = (key(a), key(b));
        gain_b.total_cmp(&gain_a).then(sure_b.cmp(&sure_a))
    });
}

fn not_seen(evidence: &Evidence) -> Vec<String> {
    let mut missing = Vec::new();
    if evidence.version.is_none() {
        missing.push(
            "the server's version: what a newer one changed can't be told for sure \
             (--server-version says it)"
                .to_owned(),
        );
    }
    if let Some(run) = &evidence.run {
        match run.waits() {
            None => missing.push("wait events: none were sampled (--observe waits)".to_owned()),
            Some(waits) if waits.hidden_sessions > 0.5 => missing.push(format!(
                "the state of {:.0} sessions: the role may not see them (grant pg_read_all_stats)",
                waits.hidden_sessions
            )),
            Some(_) => {}
        }
    }
    match evidence.profile {
        None => missing.push("CPU samples: none were taken (--observe perf)".to_owned()),
        Some(profile) => {
            if !profile.call_chains {
                missing.push(
                    "callers: the samples carry no call chains, so a lock function does not say \
                     for which lock it was called (record with perf record -g)"
                        .to_owned(),
                );
            }
            if profile.unnamed_share > 0.1 {
                missing.push(format!(
                    "{:.0} % of the samples lie in functions that nothing names (install the \
                     debug symbols, or take a server that was not stripped)",
                    100.0 * profile.unnamed_share
                ));
            }
            missing.extend(
                profile
                    .remarks
                    .iter()
                    .map(|r| format!("of the samples: {r}")),
            );
        }
    }
    missing
}

/// `server_version_num` of a version as people write it: `9.4`, `9.4.4`, `15`, `15.18`, `19beta1`.
pub fn version_number(text: &str) -> Option<u32> {
    let text = text.trim();
    let plain: String = text
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '.')
        .collect();
    let mut parts = plain.split('.').map(|p| p.parse::<u32>().ok());
    let first = parts.next()??;
    let rest: Vec<u32> = parts.collect::<Option<_>>()?;
    let at = |i: usize| rest.get(i).copied().unwrap_or(0);
    if !(7..1000).contains(&first) || at(0) > 9999 || at(1) > 99 || rest.len() > 2 {
        return None;
    }
    if first >= 10 {
        (rest.len() <= 1).then(|| first * 10_000 + at(0))
    } else {
        Some(first * 10_000 + at(0).min(99) * 100 + at(1))
    }
}

/// `9.4`, `15`: the major version as people say it.
pub fn major(version_num: u32) -> String {
    if version_num >= 100_000 {
        (version_num / 10_000).to_string()
    } else {
        format!("{}.{}", version_num / 10_000, version_num / 100 % 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_people_write_them() {
        for (text, number) in [
            ("9.4", Some(90_400)),
            ("9.4.4", Some(90_404)),
            ("15", Some(150_000)),
            ("15.18", Some(150_018)),
            ("19beta1", Some(190_000)),
            ("", None),
            ("x", None),
            ("15.1.2", None),
            ("99999999999", None),
            ("9..4", None),
        ] {
            assert_eq!(version_number(text), number, "{text}");
        }
        assert_eq!(major(90_404), "9.4");
        assert_eq!(major(150_018), "15");
    }

    #[test]
    fn rules_have_names_of_their_own() {
        let mut ids: Vec<&str> = RULES.iter().map(|r| r.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), RULES.len());
    }

    #[test]
    fn without_evidence_nothing_is_found() {
        let diagnosis = diagnose("nothing", &Evidence::default());
        assert!(diagnosis.findings.is_empty());
        assert!(!diagnosis.not_seen.is_empty());
    }
}
