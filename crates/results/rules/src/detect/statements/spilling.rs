//! Sorts and hashes that do not fit into work_mem: by the counters of their statements, else by those
//! of the database and by the plans.

use crate::detect::common::hits::{Hit, Left, Part, joined, weighty, with_plans};
use crate::detect::{Detector, run, shown};
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Basis, Confidence, Observation, Severity, StepKind};
use pgassay_evidence::observed::statements::StatementTime;
use pgassay_evidence::profile::Work;
use pgassay_model::observed::plans::{Node, NodeType};

pub const DETECTORS: &[Detector] = &[run("spilling", spilling), run("spilling", temporary_files)];

/// Bytes of a block of temporary files.
const BLOCK: f64 = 8192.0;

fn spilling(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits = weighty(&run)
        .filter_map(|statement| {
            let written = temporary_bytes(statement);
            let waiting = Part::of_waits(statement, is_file);
            if written.is_none() && waiting.time < 0.02 {
                return None;
            }
            let amount = match written {
                Some(bytes) => format!("{} of temporary files a call", shown(bytes as u64)),
                None => "temporary files".to_owned(),
            };
            let memory = statement.plan.as_ref().and_then(|plan| plan.work_mem_bytes);
            // What spilled did not fit, however little it wrote.
            let has = memory.unwrap_or(0.0);
            let memory = memory.map(|bytes| format!("work_mem = {}", shown(bytes as u64)));
            let (part, left) = in_files(evidence, statement);
            let step = match written {
                Some(bytes) => more_memory(&run, fitting(bytes).max(4.0 * has)),
                None => (
                    StepKind::Advice,
                    "raise work_mem for this statement".to_owned(),
                ),
            };
            Some(Hit {
                statement,
                part,
                left,
                saw: format!(
                    "A statement writes {amount}: it sorts or hashes more than work_mem holds."
                ),
                confidence: Confidence::High,
                evidence: memory.into_iter().collect(),
                steps: vec![step],
            })
        })
        .collect();
    joined(&run, hits)
}

/// Nodes that sort, hash or keep what they are given, in memory up to work_mem.
const KEEPING: &[NodeType] = &[
    NodeType::Aggregate,
    NodeType::Hash,
    NodeType::IncrementalSort,
    NodeType::Materialize,
    NodeType::SetOp,
    NodeType::Sort,
];

/// What a node that sorts or hashes takes in memory: rows have a header there, and are sorted by pointers.
fn need(node: &Node) -> f64 {
    node.rows * (node.width + 40.0)
}

/// What a call of a statement writes into temporary files, in bytes; none where that is next to nothing.
pub fn temporary_bytes(statement: &StatementTime) -> Option<f64> {
    let blocks = statement.counters.as_ref()?.temp_blocks?;
    (blocks >= 16.0).then_some(blocks * BLOCK)
}

/// Memory for what now takes so many bytes of temporary files: rows take about twice as much there.
pub fn fitting(bytes: f64) -> f64 {
    2.0 * bytes
}

/// What gives a statement so many bytes, if the machine has them for all sessions that send it.
pub fn more_memory(run: &RunEvidence, bytes: f64) -> (StepKind, String) {
    let megabytes = (bytes / 1048576.0).ceil().max(1.0);
    let active = run
        .waits()
        .map_or(1.0, |waits| waits.active_sessions.max(1.0));
    let has = run.host.usable_memory_bytes().map(|bytes| bytes as f64);
    match has.filter(|has| bytes * active > 0.5 * has) {
        Some(has) => (
            StepKind::Advice,
            format!(
                "sort or hash fewer rows: in memory it would take {} for each of {active:.0} sessions, and there are {}",
                shown(bytes as u64),
                shown(has as u64)
            ),
        ),
        None => (
            StepKind::Sql,
            format!(
                "SET work_mem = '{megabytes:.0}MB';   -- in the sessions that send it, for good by ALTER ROLE"
            ),
        ),
    }
}

/// Temporary bytes a transaction from which on it is no matter of a few rows.
const MUCH_TEMPORARY: f64 = 128.0 * 1024.0;

/// By the database's counters, where no statement's are there, and the plan that sorts or hashes more
/// than fits.
fn temporary_files(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let counters = run.observed?.counters.as_ref()?;
    let bytes = counters.database.get("temp_bytes").copied().unwrap_or(0.0);
    let files = counters.database.get("temp_files").copied().unwrap_or(0.0);
    let transactions = counters
        .database
        .get("xact_commit")
        .copied()
        .unwrap_or(0.0)
        .max(1.0);
    if files < 1.0 || bytes < MUCH_TEMPORARY * transactions {
        return None;
    }
    let hits: Vec<Hit> = with_plans(&run, |statement, plan| {
        // Statements that have counters are judged by those.
        if statement.counters.is_some() {
            return None;
        }
        let memory = plan.work_mem_bytes?;
        let (need, kind) = plan
            .root
            .all()
            .into_iter()
            .filter(|(_, node)| KEEPING.contains(&node.kind))
            .map(|(_, node)| (need(node), &node.kind))
            .max_by(|a, b| a.0.total_cmp(&b.0))?;
        let (part, left) = in_files(evidence, statement);
        (need > memory).then(|| Hit {
            statement,
            part,
            left,
            saw: format!(
                "A statement writes temporary files: its {kind} takes about {}, and work_mem = {}.",
                shown(need as u64),
                shown(memory as u64)
            ),
            confidence: Confidence::High,
            evidence: vec![format!(
                "{} of temporary files in {files:.0} files over the measured time, {} a transaction",
                shown(bytes as u64),
                shown((bytes / transactions) as u64)
            )],
            steps: vec![more_memory(&run, 1.2 * need)],
        })
    });
    if let Some(seen) = joined(&run, hits) {
        return Some(seen);
    }
    let known = run
        .observed?
        .statements
        .as_ref()
        .into_iter()
        .flat_map(|s| &s.statements);
    if known.into_iter().any(|s| {
        s.counters
            .as_ref()
            .is_some_and(|c| c.temp_blocks.unwrap_or(0.0) >= 16.0)
    }) {
        return None;
    }
    let saw = format!(
        "{} of temporary files a transaction: statements sort or hash more than work_mem holds.",
        shown((bytes / transactions) as u64)
    );
    Some(
        Observation::measured(Basis::Counters, None, saw)
            .severity(Severity::Medium)
            .confidence(Confidence::Medium)
            .sql("ALTER SYSTEM SET log_temp_files = 0; SELECT pg_reload_conf();   -- the log names the statements")
            .advice("raise work_mem for those (ALTER ROLE … SET, or SET LOCAL before them)"),
    )
}

/// Whether a wait event, by its name with the type, is one for a temporary file.
fn is_file(name: &str) -> bool {
    name.contains("BufFile") || name.contains("BuffileR")
}

/// The part of a statement that goes into its temporary files: waits, and CPU time by the samples. Rows that
/// stay in memory are copied and sorted there, which takes about as long as writing them where the kernel's
/// cache takes the file: that is left.
fn in_files(evidence: &Evidence, statement: &StatementTime) -> (Part, Option<Left>) {
    let cpu = evidence
        .profile
        .and_then(|profile| profile.within(Work::TemporaryFiles));
    let cpu = cpu.map_or(Part::UNKNOWN, |share| Part::of_samples(statement, share));
    let waits = Part::of_waits(statement, is_file);
    let both = waits.and(cpu);
    let left = 1.0 - waits.time / both.time.max(f64::MIN_POSITIVE);
    let rests_on = "waits for temporary files; CPU time for them goes to memory instead";
    (both, Left::new(left, rests_on).filter(|_| both.time > 0.0))
}

#[cfg(test)]
mod tests {
    use crate::detect::tests::made::{counters, statement};
    use crate::detect::tests::made::{found_with, one};
    use pgassay_model::observed::plans::{Node, Plan};

    #[test]
    fn a_sort_beyond_work_mem_is_named_without_counters_of_statements() {
        let plan = Plan {
            root: Node {
                kind: "Sort".into(),
                rows: 1e6,
                width: 60.0,
                cost: 1e5,
                ..Node::default()
            },
            work_mem_bytes: Some(4e6),
            ..Plan::default()
        };
        let found = found_with(vec![("IO", "BufFileWrite", 2.0)], |observed| {
            observed.counters = counters(&[
                ("xact_commit", 40.0),
                ("temp_files", 40.0),
                ("temp_bytes", 4e9),
            ]);
            observed.statements = Some(statement("SELECT … ORDER BY x", Some(plan)));
        });
        assert!(
            one(&found, "spilling").remedy[0]
                .text
                .contains("work_mem = '115MB'"),
            "{found:#?}"
        );
    }
}
