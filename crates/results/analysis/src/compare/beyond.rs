//! In what the arms differ, and whether that is more than was asked for.
//!
//! A difference beyond the plan makes the figures answer another question: one arm
//! read the disk, ran another plan, or kept a setting that it was told to change.
//! What follows from the targets themselves (the version, how it was built, the
//! defaults of a version) is what is compared, and is listed.

use std::collections::BTreeMap;

use pgassay_model::comparison::{ArmFacts, ComparisonPlan, Typed};
use pgassay_model::record::RecordedRun;
use serde::Deserialize;

use super::model::{Difference, Kind};
use super::plans;
use crate::analysis::Analysis;
use crate::measured::{ArmAnalysis, StageArm};
use crate::metrics::BUFFER_MISSES;
use crate::server::{self, RELEVANT, Setting};
use crate::stats::Estimate;

/// Settings that are another for every server, or follow from others.
const OF_THE_LAUNCH: &[&str] = &[
    "application_name",
    "config_file",
    "data_directory",
    "external_pid_file",
    "hba_file",
    "huge_pages_status",
    "ident_file",
    "port",
    "server_version",
    "server_version_num",
    "shared_memory_size",
    "shared_memory_size_in_huge_pages",
    "transaction_isolation",
    "unix_socket_directories",
    "wal_segment_size",
];

/// Settings by which misses may well differ as planned.
const OF_MEMORY: &[&str] = &["shared_buffers", "debug_io_direct", "block_size"];

/// Blocks read for each transaction that are too few to matter.
const FEW_READS: f64 = 0.02;

/// The same of the rows of somebody's own tables, which are estimates of each server's.
const SAME_ROWS: f64 = 0.05;

/// Tables whose sizes differ by more hold other data, or are bloated.
const SAME_SIZE: f64 = 0.03;

/// Everything in which an arm differs from A of its place.
pub fn differences(
    run: &RecordedRun,
    comparison: &ComparisonPlan,
    analysis: &Analysis,
    arm: u32,
) -> Vec<Difference> {
    let against = comparison.against(arm);
    let at = (against as usize, arm as usize);
    let both = (analysis.arms.get(at.0), analysis.arms.get(at.1));
    let (Some(a), Some(b)) = both else {
        return Vec::new();
    };
    let mut found = Found {
        arm,
        list: Vec::new(),
    };
    let asked = asked(&comparison.typed, at);
    let own = run.plan().workload.is_on_own_tables();
    versions(a, b, &mut found);
    binaries(a, b, &mut found);
    settings(run, against, &asked, &mut found);
    if let (Some(x), Some(y)) = (run.arm_facts.get(&against), run.arm_facts.get(&arm)) {
        plans(x, y, own, &mut found);
        data(x, y, own, &mut found);
    }
    let loads = &analysis.main().arms;
    if let (Some(a), Some(b)) = (loads.get(at.0), loads.get(at.1)) {
        misses(a, b, &asked, own, &mut found);
    }
    found.list
}

struct Found {
    arm: u32,
    list: Vec<Difference>,
}

impl Found {
    fn names(&self, kind: Kind, name: &str) -> bool {
        let mut list = self.list.iter();
        list.any(|found| found.kind == kind && found.name == name)
    }

    fn add(&mut self, kind: Kind, name: &str, a: String, b: String, planned: bool) {
        self.list.push(Difference {
            arm: self.arm,
            kind,
            name: name.to_owned(),
            a,
            b,
            planned,
        });
    }
}

/// Names of the settings that were asked to differ.
fn asked(typed: &[Typed], at: (usize, usize)) -> Vec<String> {
    let of = |index: usize| -> BTreeMap<String, String> {
        typed
            .get(index)
            .into_iter()
            .flat_map(|typed| &typed.settings)
            .filter_map(|setting| setting.split_once('='))
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
            .collect()
    };
    let (a, b) = (of(at.0), of(at.1));
    let names = a.keys().chain(b.keys());
    let mut names: Vec<String> = names
        .filter(|name| a.get(*name) != b.get(*name))
        .cloned()
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn versions(a: &ArmAnalysis, b: &ArmAnalysis, found: &mut Found) {
    if let (Some(a), Some(b)) = (&a.server, &b.server) {
        if a.version != b.version {
            found.add(
                Kind::Version,
                "version",
                a.version.clone(),
                b.version.clone(),
                true,
            );
        }
        if a.executable != b.executable {
            let (a, b) = (a.executable.clone(), b.executable.clone());
            found.add(Kind::Build, "executable", a, b, true);
        }
    }
}

/// What inspect --diff says of the two executables.
fn binaries(a: &ArmAnalysis, b: &ArmAnalysis, found: &mut Found) {
    let (Ok(a), Ok(b)) = (&a.binary, &b.binary) else {
        return;
    };
    let diff = pgassay_inspect::diff::diff(a, b);
    for (name, a, b) in diff.facts {
        found.add(Kind::Build, &name, a, b, true);
    }
    for (class, (a, b)) in diff.totals {
        let name = format!("atomic instructions: {class}");
        found.add(Kind::Code, &name, a.to_string(), b.to_string(), true);
    }
    for function in diff.functions {
        let shown = |side: Option<&pgassay_inspect::diff::Side>| match side {
            None => "none".to_owned(),
            Some(side) => {
                let counts = side.counts.iter().map(|(c, n)| format!("{n} {}", c.name()));
                let calls = side
                    .outline_calls
                    .iter()
                    .map(|(c, n)| format!("{n} calls of {c}"));
                counts.chain(calls).collect::<Vec<_>>().join(", ")
            }
        };
        let (a, b) = (shown(function.a.as_ref()), shown(function.b.as_ref()));
        found.add(Kind::Code, &function.name, a, b, true);
    }
}

fn settings(run: &RecordedRun, against: u32, asked: &[String], found: &mut Found) {
    let of = |arm: u32| -> BTreeMap<String, Setting> {
        let facts = run.servers.get(&arm);
        let settings = facts.map(server::settings).unwrap_or_default();
        let kept = settings
            .into_iter()
            .filter(|s| !matches!(s.source.as_str(), "client" | "session" | "database"));
        kept.map(|s| (s.name.clone(), s)).collect()
    };
    let (a, b) = (of(against), of(found.arm));
    for (name, at_a) in &a {
        let Some(at_b) = b.get(name) else { continue };
        if at_a.value == at_b.value || OF_THE_LAUNCH.contains(&name.as_str()) {
            continue;
        }
        let is_default = |s: &Setting| matches!(s.source.as_str(), "default" | "override");
        let planned = asked.contains(name)
            // of the version or the build
            || (is_default(at_a) && is_default(at_b))
            // without bearing on the figures
            || !RELEVANT.contains(&name.as_str());
        found.add(
            Kind::Setting,
            name,
            at_a.value.clone(),
            at_b.value.clone(),
            planned,
        );
    }
    if let (Some(x), Some(y)) = (a.get("huge_pages_status"), b.get("huge_pages_status"))
        && x.value != y.value
    {
        let planned = asked.iter().any(|name| name.starts_with("huge_page"));
        let (x, y) = (x.value.clone(), y.value.clone());
        found.add(Kind::Setting, "huge_pages_status", x, y, planned);
    }
}

/// How each statement would run. Of somebody's own statements on their own tables that follows from the
/// servers that are compared.
fn plans(a: &ArmFacts, b: &ArmFacts, own: bool, found: &mut Found) {
    for pair in plans::both(a, b).iter().filter(|pair| pair.changed()) {
        if !found.names(Kind::Plan, &pair.statement) {
            let (a, b) = (pair.a.clone(), pair.b.clone());
            found.add(Kind::Plan, &pair.statement, a, b, own);
        }
    }
}

#[derive(Deserialize)]
struct Table {
    table: String,
    bytes: f64,
    rows: f64,
}

/// What the tables hold. Somebody's own are of one size or another by how they came there, and their rows
/// are counted by the servers' last looks at them.
fn data(a: &ArmFacts, b: &ArmFacts, own: bool, found: &mut Found) {
    let read =
        |facts: &ArmFacts| -> Option<Vec<Table>> { serde_json::from_str(facts.data.text()?).ok() };
    let (Some(a), Some(b)) = (read(a), read(b)) else {
        return;
    };
    for x in &a {
        let Some(y) = b.iter().find(|y| y.table == x.table) else {
            found.add(
                Kind::Data,
                &x.table,
                "there".into(),
                "not there".into(),
                false,
            );
            continue;
        };
        let far = |p: f64, q: f64, share: f64| (p - q).abs() > share * p.max(q);
        // a page or two more is how a version lays out a small table
        if far(x.bytes, y.bytes, SAME_SIZE) && (x.bytes - y.bytes).abs() > 1e6 {
            let shown = |bytes: f64| format!("{:.1} MB", bytes / 1e6);
            found.add(Kind::Data, &x.table, shown(x.bytes), shown(y.bytes), own);
        }
        let counted = !own || (x.rows > 0.0 && y.rows > 0.0);
        if counted && far(x.rows, y.rows, if own { SAME_ROWS } else { SAME_SIZE }) {
            let shown = |rows: f64| format!("{rows:.0} rows");
            found.add(Kind::Data, &x.table, shown(x.rows), shown(y.rows), false);
        }
    }
}

/// Whether two arms read different numbers of blocks for each transaction: by more than is too little to matter,
/// and by more than their trials differ among themselves.
fn reads_differ(a: &Estimate, b: &Estimate) -> bool {
    let (few, many) = if a.estimate < b.estimate {
        (a, b)
    } else {
        (b, a)
    };
    let more = many.estimate - few.estimate;
    more > FEW_READS && more > 0.2 * many.estimate && few.high < many.low
}

fn misses(a: &StageArm, b: &StageArm, asked: &[String], own: bool, found: &mut Found) {
    // Another plan reads other blocks.
    let replanned = own && found.list.iter().any(|found| found.kind == Kind::Plan);
    for x in &a.points {
        let other = b.points.iter().find(|p| p.point.clients == x.point.clients);
        let Some(y) = other else { continue };
        let (Some(p), Some(q)) = (x.estimate(BUFFER_MISSES), y.estimate(BUFFER_MISSES)) else {
            continue;
        };
        if reads_differ(p, q) {
            let (p, q) = (p.estimate, q.estimate);
            let planned = replanned || asked.iter().any(|name| OF_MEMORY.contains(&name.as_str()));
            let name = format!(
                "blocks read for each transaction, {} clients",
                x.point.clients
            );
            found.add(
                Kind::Misses,
                &name,
                format!("{p:.3}"),
                format!("{q:.3}"),
                planned,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use pgassay_model::reading::Reading;

    use super::*;

    fn facts(plan: &str, data: &str) -> ArmFacts {
        ArmFacts {
            plans: Reading::Text(format!(
                "[{{\"statement\": \"SELECT 1\", \"plan\": {plan}}}]"
            )),
            data: Reading::Text(data.to_owned()),
        }
    }

    #[test]
    fn blocks_read_differ_only_beyond_what_trials_differ_by() {
        let of = |values: &[f64]| crate::stats::summarize(values).unwrap();
        let cold = of(&[0.10, 0.12, 0.11, 0.13, 0.12, 0.11, 0.10, 0.12]);
        let warm = of(&[0.01, 0.02, 0.01, 0.02, 0.01, 0.02, 0.02, 0.01]);
        assert!(reads_differ(&cold, &warm) && reads_differ(&warm, &cold));
        // Seen of two equal servers under a load that writes: 0.097 and 0.133 over three trials.
        let few = |middle: f64| of(&[middle - 0.04, middle, middle + 0.05]);
        assert!(!reads_differ(&few(0.097), &few(0.133)));
        assert!(!reads_differ(&of(&[0.001; 8]), &of(&[0.015; 8])));
    }

    #[test]
    fn plans_are_told_apart_by_their_nodes_not_their_costs() {
        let plan = |node: &str, cost: &str| {
            format!(
                "[{{\"Plan\": {{\"Node Type\": \"{node}\", \"Relation Name\": \"t\", \
                 \"Total Cost\": {cost}, \"Plans\": [{{\"Node Type\": \"Result\"}}]}}}}]"
            )
        };
        let mut found = Found {
            arm: 1,
            list: vec![],
        };
        let index = facts(&plan("Index Scan", "8.4"), "[]");
        plans(
            &index,
            &facts(&plan("Index Scan", "4.2"), "[]"),
            false,
            &mut found,
        );
        assert_eq!(found.list, []);
        plans(
            &index,
            &facts(&plan("Seq Scan", "8.4"), "[]"),
            false,
            &mut found,
        );
        assert_eq!(found.list[0].a, "Index Scan on t (Result)");
        assert_eq!(found.list[0].b, "Seq Scan on t (Result)");
        assert!(!found.list[0].planned);
    }

    #[test]
    fn other_data_is_seen() {
        let table = |bytes: u64, rows: u64| {
            facts(
                "[]",
                &format!("[{{\"table\": \"t\", \"bytes\": {bytes}, \"rows\": {rows}}}]"),
            )
        };
        let mut found = Found {
            arm: 1,
            list: vec![],
        };
        data(
            &table(100_000_000, 1000),
            &table(101_000_000, 1000),
            false,
            &mut found,
        );
        assert_eq!(found.list, []);
        data(
            &table(100_000_000, 1000),
            &table(130_000_000, 900),
            false,
            &mut found,
        );
        assert_eq!(found.list.len(), 2, "{:?}", found.list);
    }

    #[test]
    fn of_somebodys_own_tables_the_rows_must_be_the_same() {
        let table = |bytes: u64, rows: u64| {
            let data = format!("[{{\"table\": \"t\", \"bytes\": {bytes}, \"rows\": {rows}}}]");
            facts("[]", &data)
        };
        let beyond = |other: &ArmFacts| {
            let mut found = Found {
                arm: 1,
                list: vec![],
            };
            data(&table(100_000_000, 1000), other, true, &mut found);
            found.list.iter().filter(|found| !found.planned).count()
        };
        assert_eq!(
            beyond(&table(150_000_000, 960)),
            0,
            "bloat is no other data"
        );
        assert_eq!(beyond(&table(100_000_000, 0)), 0, "never analysed");
        assert_eq!(beyond(&table(100_000_000, 900)), 1);
    }

    #[test]
    fn what_was_asked_to_differ_is_known() {
        let typed = |settings: &[&str]| Typed {
            target: "temp".into(),
            settings: settings.iter().map(|s| (*s).to_owned()).collect(),
            ..Typed::default()
        };
        let both = [
            typed(&["jit=off", "huge_pages=on"]),
            typed(&["jit=off", "huge_pages=off", "work_mem=1MB"]),
        ];
        assert_eq!(asked(&both, (0, 1)), ["huge_pages", "work_mem"]);
    }
}
