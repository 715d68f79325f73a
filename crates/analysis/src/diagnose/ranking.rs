//! What holds the server back most: one order over what the loads showed and what the audit
//! knows. It is decided here and nowhere else.
//!
//! Each cause has an expected gain, the part of all time that may be won by mending it:
//!
//! * what a load measured: its gain, times how sure it is;
//! * what the audit knows: what findings of its severity bring, times how sure it is, and half
//!   of that, since under these loads nobody has measured it. Where a load did measure it, the
//!   two are one cause, that of the load, and the half is no longer taken off;
//! * what a load of ours shows on a well-set server too, a commit's wait for the disk: less,
//!   since it is no fault of this server. With the setting at fault in the audit it is one.
//!
//! What a load of ours brings itself, such as the queue for the few rows that it changes, is no
//! cause at all; the diagnosis tells it, behind its other findings.
//!
//! What makes all figures those of something else (a build with assertions, a client at its
//! limit) stands before everything, whatever it costs.

use serde::{Deserialize, Serialize};

use super::{Diagnosis, Finding, Sureness};
use crate::analysis::Analysis;
use crate::check::{CheckReport, RuleResult, Severity, Sure};

/// What is left of an expectation that nobody has measured here.
const NOT_MEASURED: f64 = 0.5;
/// What is left of a gain that a load of ours shows on a well-set server, too: with most of the
/// time gone there it still stands before what is moderate and only known, and behind what is
/// grave.
const ORDINARY_LEFT: f64 = 0.15;
/// The gain of a measured finding that can't say one.
const UNSAID: f64 = 0.05;

/// What our loads show on a well-set server, too: a commit waits for the disk.
const ORDINARY: &[(&str, &[&str])] = &[
    ("simple-update", &["wal-flush"]),
    ("tpcb-like", &["wal-flush"]),
];
/// What our loads bring themselves: statements of one row, as many clients as there are
/// branches or more (pgbench's documentation, Good Practices).
const OWN: &[(&str, &[&str])] = &[
    ("select-only", &["round-trips"]),
    ("simple-update", &["round-trips"]),
    ("tpcb-like", &["round-trips", "hot-row", "hot-page"]),
];

/// Findings after which every other figure is that of something else.
const SPOILS: &[&str] = &[
    "assertions",
    "assertions-enabled",
    "client-bound",
    "cpu-emulated",
    "debug-build",
    "fsync-off",
    "spinlocks-emulated",
    "unoptimised-server",
];

/// Findings of a load, and the audit's that they measure the cost of.
const MEASURES: &[(&str, &[&str])] = &[
    ("assertions-enabled", &["assertions"]),
    ("buffer-header-spinlock", &["version-buffer-pins"]),
    ("buffer-mapping", &["shared-buffers-small"]),
    ("buffer-mapping-contention", &["shared-buffers-small"]),
    ("buffer-misses", &["shared-buffers-small"]),
    ("buffer-replacement-spinlock", &["huge-pages"]),
    ("cpu-quota", &["cpu-quota", "cpu-throttled"]),
    ("debug-build", &["assertions", "unoptimised-server"]),
    ("exclusive-loops", &["lse-server"]),
    (
        "forced-checkpoints",
        &[
            "max-wal-size-small",
            "checkpoints-forced",
            "checkpoint-spread",
        ],
    ),
    ("jit-compilation", &["jit-small-queries"]),
    ("lock-manager", &["fast-path-locks"]),
    ("lock-manager-wait", &["fast-path-locks"]),
    ("lwlock-wait-list", &["version-lwlock-wait-lists"]),
    (
        "old-version-many-connections",
        &["version-snapshots", "idle-sessions"],
    ),
    ("page-faults", &["huge-pages", "page-table-memory"]),
    ("parse-and-plan", &["plan-cache-mode"]),
    ("snapshot-scalability", &["version-snapshots"]),
    ("software-crc", &["crc32c-by-table"]),
    ("statement-logging", &["statement-logging"]),
    ("stolen-time", &["cpu-steal"]),
    ("swapping", &["swap"]),
    ("wal-flush", &["commit-delay"]),
    ("wal-insert-wait", &["version-wal-insertion"]),
    ("wal-insertion", &["version-wal-insertion"]),
];

/// What saw a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeenBy {
    /// The run's load.
    Load,
    /// The assay's second load.
    SecondLoad,
    /// The audit.
    Audit,
}

/// Something that holds the server back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The rule: of the diagnosis where a load showed it, else of the audit.
    pub id: String,
    /// What saw it.
    pub seen_by: SeenBy,
    /// The load that showed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// What was seen, in a sentence.
    pub what: String,
    /// What to do about it first.
    pub remedy: String,
    /// How sure it is: `possible`, `likely`, `sure`; by the audit `certain` for the last.
    pub sure: String,
    /// The part of all time that is expected to be won, 0 to 1: an order more than a promise.
    pub expected_gain: f64,
}

/// All causes of weight, the one that is expected to cost most first.
pub fn causes(analysis: &Analysis) -> Vec<Cause> {
    let check = analysis.check.as_ref();
    let second = analysis.second.as_deref();
    let loads = [(SeenBy::Load, Some(analysis)), (SeenBy::SecondLoad, second)];
    let mut causes: Vec<Cause> = Vec::new();
    let mut measured: Vec<&str> = Vec::new();
    for (seen_by, analysis) in loads {
        let Some((analysis, diagnosis)) = analysis.and_then(|a| Some((a, a.diagnosis.as_ref()?)))
        else {
            continue;
        };
        let workload = &analysis.plan.workload.name;
        let findings = diagnosis.findings.iter();
        for finding in findings.filter(|f| !listed(OWN, Some(workload), &f.id)) {
            measured.extend(measures(&finding.id));
            let cause = of_load(finding, seen_by, workload, check);
            // Both loads may show the same: the one where it costs more stands for it.
            match causes.iter_mut().find(|known| known.id == cause.id) {
                Some(known) if known.expected_gain < cause.expected_gain => *known = cause,
                Some(_) => {}
                None => causes.push(cause),
            }
        }
    }
    let audit = check.into_iter().flat_map(CheckReport::findings);
    causes.extend(
        audit
            .filter(|result| result.severity >= Some(Severity::Medium))
            .filter(|result| !measured.contains(&result.id.as_str()))
            .map(of_audit),
    );
    let key = |cause: &Cause| (spoils(&cause.id), cause.expected_gain);
    causes.sort_by(|a, b| {
        let ((spoils_a, gain_a), (spoils_b, gain_b)) = (key(a), key(b));
        spoils_b.cmp(&spoils_a).then(gain_b.total_cmp(&gain_a))
    });
    causes
}

/// Orders the findings of one load in the same way, the audit left aside.
pub(super) fn order(findings: &mut [Finding], workload: Option<&str>) {
    let key = |finding: &Finding| {
        let gain = measured_gain(finding, workload, false);
        (spoils(&finding.id), gain, finding.sureness)
    };
    findings.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)).then(b.2.cmp(&a.2))
    });
}

/// Whether a table has the finding for this load.
fn listed(table: &[(&str, &[&str])], workload: Option<&str>, id: &str) -> bool {
    table
        .iter()
        .any(|(load, ids)| Some(*load) == workload && ids.contains(&id))
}

fn spoils(id: &str) -> bool {
    SPOILS.contains(&id)
}

fn measures(id: &str) -> &'static [&'static str] {
    MEASURES
        .iter()
        .find(|(finding, _)| *finding == id)
        .map_or(&[], |(_, of_audit)| of_audit)
}

fn of_load(
    finding: &Finding,
    seen_by: SeenBy,
    workload: &str,
    check: Option<&CheckReport>,
) -> Cause {
    let audit = check.into_iter().flat_map(CheckReport::findings);
    let known = audit
        .filter(|result| measures(&finding.id).contains(&result.id.as_str()))
        .map(known_gain)
        .fold(None, |most: Option<f64>, gain| {
            Some(most.map_or(gain, |most| most.max(gain)))
        });
    let gain = measured_gain(finding, Some(workload), known.is_some());
    Cause {
        id: finding.id.clone(),
        seen_by,
        workload: Some(workload.to_owned()),
        what: finding.title.clone(),
        remedy: finding.remedy.clone(),
        sure: finding.sureness.word().to_owned(),
        expected_gain: gain.max(known.unwrap_or(0.0)),
    }
}

/// What a load measured, times how sure it is.
fn measured_gain(finding: &Finding, workload: Option<&str>, at_fault: bool) -> f64 {
    let sure = match finding.sureness {
        Sureness::Possible => 0.4,
        Sureness::Likely => 0.7,
        Sureness::Sure => 1.0,
    };
    let left = if listed(OWN, workload, &finding.id) {
        0.0
    } else if listed(ORDINARY, workload, &finding.id) && !at_fault {
        ORDINARY_LEFT
    } else {
        1.0
    };
    finding.gain_at_most.unwrap_or(UNSAID) * sure * left
}

fn of_audit(result: &RuleResult) -> Cause {
    let first = result.remedy.first();
    Cause {
        id: result.id.clone(),
        seen_by: SeenBy::Audit,
        workload: None,
        what: result.saw.clone(),
        remedy: first.map_or(String::new(), |step| step.text.clone()),
        sure: result.sure.map_or("", Sure::name).to_owned(),
        expected_gain: known_gain(result) * NOT_MEASURED,
    }
}

/// What findings of this weight bring, times how sure it is: the words of [`Severity`] as
/// numbers, which are a judgement and only good for an order.
fn known_gain(result: &RuleResult) -> f64 {
    let gain = match result.severity {
        Some(Severity::High) => 0.3,
        Some(Severity::Medium) => 0.1,
        Some(Severity::Low) => 0.03,
        Some(Severity::Info) | None => 0.0,
    };
    gain * match result.sure {
        Some(Sure::Certain) => 1.0,
        Some(Sure::Likely) => 0.7,
        Some(Sure::Possible) | None => 0.4,
    }
}

/// A load's finding, where the cause is one: to show it in full.
pub fn finding<'a>(analysis: &'a Analysis, cause: &Cause) -> Option<&'a Finding> {
    let diagnosis: Option<&Diagnosis> = match cause.seen_by {
        SeenBy::Load => analysis.diagnosis.as_ref(),
        SeenBy::SecondLoad => analysis.second.as_ref()?.diagnosis.as_ref(),
        SeenBy::Audit => None,
    };
    diagnosis?.findings.iter().find(|f| f.id == cause.id)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::check::{self, Facts};
    use crate::diagnose::{RULES, SCHEMA};
    use crate::record::{Reading, RecordedRun};

    const RECORDED: &str = include_str!("../../tests/check/recorded/debian12-pg15.json");

    /// The audit of a recorded server without huge pages, with other settings.
    fn audit(settings: &[(&str, &str)]) -> CheckReport {
        let mut facts: Facts = serde_json::from_str(RECORDED).unwrap();
        let text = facts.server["settings"].text().unwrap();
        let mut rows: Vec<Value> = serde_json::from_str(text).unwrap();
        for (name, value) in settings {
            let row = rows.iter_mut().find(|row| row["name"] == *name).unwrap();
            row["setting"] = Value::from(*value);
        }
        let rows = serde_json::to_string(&rows).unwrap();
        facts.server.insert("settings".into(), Reading::Text(rows));
        check::check(&facts)
    }

    fn finding(id: &str, gain: f64, sureness: Sureness) -> Finding {
        Finding::new(id, format!("{id}.")).gain(gain).sure(sureness)
    }

    fn loaded(workload: &str, findings: Vec<Finding>) -> Analysis {
        let mut analysis = crate::analyse(&RecordedRun::default());
        analysis.plan.workload.name = workload.to_owned();
        analysis.diagnosis = Some(Diagnosis {
            schema: SCHEMA.to_owned(),
            subject: String::new(),
            version_num: None,
            findings,
            time: Vec::new(),
            profile: None,
            flame: None,
            difference: None,
            not_seen: Vec::new(),
        });
        analysis
    }

    /// An assay's causes by name, the first load's and the second's findings given.
    fn ranked(first: Vec<Finding>, second: Vec<Finding>, settings: &[(&str, &str)]) -> Vec<String> {
        let mut analysis = loaded("select-only", first);
        analysis.second = Some(Box::new(loaded("tpcb-like", second)));
        analysis.check = Some(audit(settings));
        causes(&analysis).into_iter().map(|c| c.id).collect()
    }

    #[test]
    fn what_was_measured_stands_before_what_is_only_known() {
        let small = [("max_wal_size", "32")];
        assert_eq!(ranked(vec![], vec![], &[]), ["huge-pages"]);
        let unmeasured = ranked(vec![], vec![], &small);
        assert_eq!(unmeasured, ["max-wal-size-small", "huge-pages"]);
        let forced = finding("forced-checkpoints", 0.2, Sureness::Likely);
        let measured = ranked(vec![], vec![forced.clone()], &small);
        assert_eq!(measured, ["forced-checkpoints", "huge-pages"]);
        // However little it could be seen to cost: what is known of it still holds.
        let unseen = finding("forced-checkpoints", 0.0, Sureness::Likely);
        assert_eq!(
            ranked(vec![], vec![unseen], &small)[0],
            "forced-checkpoints"
        );
        let doubtful = finding("lock-manager-wait", 0.05, Sureness::Possible);
        assert_eq!(
            ranked(vec![doubtful], vec![forced], &[]),
            ["forced-checkpoints", "huge-pages", "lock-manager-wait"]
        );
    }

    #[test]
    fn what_a_load_shows_on_any_server_is_no_fault_of_this_one() {
        let ordinary = finding("wal-flush", 0.6, Sureness::Sure);
        let forced = finding("forced-checkpoints", 0.3, Sureness::Likely);
        let own = finding("hot-row", 0.9, Sureness::Sure);
        let both = vec![own, ordinary.clone(), forced];
        assert_eq!(
            ranked(vec![], both.clone(), &[]),
            ["forced-checkpoints", "wal-flush", "huge-pages"]
        );
        // Where the setting is to blame it is one.
        let delayed = ranked(vec![], both, &[("commit_delay", "20000")]);
        assert_eq!(delayed[..2], ["wal-flush", "forced-checkpoints"]);
        // In a load of somebody's own it is what there is to know.
        let own = loaded("mine.sql", vec![ordinary]);
        assert!((causes(&own)[0].expected_gain - 0.6).abs() < 1e-12);
    }

    #[test]
    fn what_makes_figures_meaningless_stands_first() {
        let costly = finding("buffer-misses", 0.9, Sureness::Sure);
        let named = ranked(vec![costly], vec![], &[("fsync", "off")]);
        assert_eq!(named[..2], ["fsync-off", "buffer-misses"]);
    }

    #[test]
    fn both_loads_seeing_the_same_is_one_cause() {
        let named = ranked(
            vec![finding("buffer-misses", 0.1, Sureness::Sure)],
            vec![finding("buffer-misses", 0.4, Sureness::Sure)],
            &[],
        );
        assert_eq!(named, ["buffer-misses", "huge-pages"]);
    }

    #[test]
    fn the_tables_name_rules_that_there_are() {
        let of_loads = |id: &str| {
            // Two ids of one rule.
            RULES.iter().any(|rule| rule.id == id) || id == "buffer-mapping-contention"
        };
        let of_audit = |id: &str| check::find(id).is_some();
        for (id, known) in MEASURES {
            assert!(of_loads(id), "{id}");
            assert!(known.iter().all(|id| of_audit(id)), "{id}: {known:?}");
        }
        for id in ORDINARY.iter().chain(OWN).flat_map(|(_, ids)| *ids) {
            assert!(of_loads(id), "{id}");
        }
        for id in SPOILS {
            assert!(of_loads(id) || of_audit(id), "{id}");
        }
    }
}
