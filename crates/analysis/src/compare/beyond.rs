//! In what the arms differ, and whether that is more than was asked for.
//!
//! A difference beyond the plan makes the figures answer another question: one arm
//! read the disk, ran another plan, or kept a setting that it was told to change.
//! What follows from the targets themselves (the version, how it was built, the
//! defaults of a version) is what is compared, and is listed.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::model::{Difference, Kind};
use crate::analysis::Analysis;
use crate::comparison::{ArmFacts, Typed};
use crate::measured::{ArmAnalysis, PointAnalysis, StageArm};
use crate::metrics::BUFFER_MISSES;
use crate::record::RecordedRun;
use crate::server::{self, RELEVANT, Setting};

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

/// Tables whose sizes differ by more hold other data, or are bloated.
const SAME_SIZE: f64 = 0.03;

/// Everything in which an arm differs from A.
pub fn differences(
    run: &RecordedRun,
    typed: &[Typed],
    analysis: &Analysis,
    arm: u32,
) -> Vec<Difference> {
    let both = (analysis.arms.first(), analysis.arms.get(arm as usize));
    let (Some(a), Some(b)) = both else {
        return Vec::new();
    };
    let mut found = Found {
        arm,
        list: Vec::new(),
    };
    let asked = asked(typed, arm);
    versions(a, b, &mut found);
    binaries(a, b, &mut found);
    settings(run, &asked, &mut found);
    if let (Some(x), Some(y)) = (run.arm_facts.get(&0), run.arm_facts.get(&arm)) {
        plans(x, y, &mut found);
        data(x, y, &mut found);
    }
    let loads = &analysis.main().arms;
    if let (Some(a), Some(b)) = (loads.first(), loads.get(arm as usize)) {
        misses(a, b, &asked, &mut found);
    }
    found.list
}

struct Found {
    arm: u32,
    list: Vec<Difference>,
}

impl Found {
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
fn asked(typed: &[Typed], arm: u32) -> Vec<String> {
    let of = |index: usize| -> BTreeMap<String, String> {
        typed
            .get(index)
            .into_iter()
            .flat_map(|typed| &typed.settings)
            .filter_map(|setting| setting.split_once('='))
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
            .collect()
    };
    let (a, b) = (of(0), of(arm as usize));
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

fn settings(run: &RecordedRun, asked: &[String], found: &mut Found) {
    let of = |arm: u32| -> BTreeMap<String, Setting> {
        let facts = run.servers.get(&arm);
        let settings = facts.map(server::settings).unwrap_or_default();
        let kept = settings
            .into_iter()
            .filter(|s| !matches!(s.source.as_str(), "client" | "session" | "database"));
        kept.map(|s| (s.name.clone(), s)).collect()
    };
    let (a, b) = (of(0), of(found.arm));
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

#[derive(Deserialize)]
struct Explained {
    statement: String,
    plan: Value,
}

fn plans(a: &ArmFacts, b: &ArmFacts, found: &mut Found) {
    let read = |facts: &ArmFacts| -> Option<Vec<Explained>> {
        serde_json::from_str(facts.plans.text()?).ok()
    };
    let (Some(a), Some(b)) = (read(a), read(b)) else {
        return;
    };
    for (a, b) in a.iter().zip(&b) {
        let (x, y) = (shape(&a.plan), shape(&b.plan));
        if x != y {
            found.add(Kind::Plan, &a.statement, x, y, false);
        }
    }
}

/// The nodes of a plan with what they read, such as `Index Scan on t using i`.
fn shape(plan: &Value) -> String {
    let text = |node: &Value, key: &str| node.get(key)?.as_str().map(str::to_owned);
    let node = match plan {
        Value::Array(plans) => return plans.iter().map(shape).collect::<Vec<_>>().join("; "),
        Value::Object(object) if object.contains_key("Plan") => return shape(&object["Plan"]),
        node => node,
    };
    let mut shape_of = text(node, "Node Type").unwrap_or_else(|| "?".to_owned());
    for (word, key) in [("on", "Relation Name"), ("using", "Index Name")] {
        if let Some(name) = text(node, key) {
            shape_of.push_str(&format!(" {word} {name}"));
        }
    }
    if let Some(Value::Array(children)) = node.get("Plans") {
        let inner: Vec<String> = children.iter().map(shape).collect();
        shape_of.push_str(&format!(" ({})", inner.join(", ")));
    }
    shape_of
}

#[derive(Deserialize)]
struct Table {
    table: String,
    bytes: f64,
    rows: f64,
}

fn data(a: &ArmFacts, b: &ArmFacts, found: &mut Found) {
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
        let far = |p: f64, q: f64| (p - q).abs() > SAME_SIZE * p.max(q);
        // a page or two more is how a version lays out a small table
        if far(x.bytes, y.bytes) && (x.bytes - y.bytes).abs() > 1e6 {
            let shown = |bytes: f64| format!("{:.1} MB", bytes / 1e6);
            found.add(Kind::Data, &x.table, shown(x.bytes), shown(y.bytes), false);
        }
        if far(x.rows, y.rows) {
            let shown = |rows: f64| format!("{rows:.0} rows");
            found.add(Kind::Data, &x.table, shown(x.rows), shown(y.rows), false);
        }
    }
}

fn misses(a: &StageArm, b: &StageArm, asked: &[String], found: &mut Found) {
    for x in &a.points {
        let other = b.points.iter().find(|p| p.point.clients == x.point.clients);
        let Some(y) = other else { continue };
        let reads = |point: &PointAnalysis| Some(point.estimate(BUFFER_MISSES)?.estimate);
        let (Some(p), Some(q)) = (reads(x), reads(y)) else {
            continue;
        };
        if (p - q).abs() > FEW_READS && (p - q).abs() > 0.2 * p.max(q) {
            let planned = asked.iter().any(|name| OF_MEMORY.contains(&name.as_str()));
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
    use super::*;
    use pgassay_model::reading::Reading;

    fn facts(plan: &str, data: &str) -> ArmFacts {
        ArmFacts {
            plans: Reading::Text(format!(
                "[{{\"statement\": \"SELECT 1\", \"plan\": {plan}}}]"
            )),
            data: Reading::Text(data.to_owned()),
        }
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
        plans(&index, &facts(&plan("Index Scan", "4.2"), "[]"), &mut found);
        assert_eq!(found.list, []);
        plans(&index, &facts(&plan("Seq Scan", "8.4"), "[]"), &mut found);
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
            &mut found,
        );
        assert_eq!(found.list, []);
        data(
            &table(100_000_000, 1000),
            &table(130_000_000, 900),
            &mut found,
        );
        assert_eq!(found.list.len(), 2, "{:?}", found.list);
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
        assert_eq!(asked(&both, 1), ["huge_pages", "work_mem"]);
    }
}
