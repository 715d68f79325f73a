//! What the server's own counters of tables and indexes show of a run.

use pgassay_model::observed::growth::{Grown, GrowthRecord};

use super::{Detector, run, tenths};
use crate::bottlenecks::evidence::{Evidence, RunEvidence};
use crate::bottlenecks::finding::{Basis, Confidence, Observation, Severity};
use crate::observed::statements::StatementTime;

pub(super) const DETECTORS: &[Detector] = &[run("autovacuum-behind", dead_rows_met)];

/// Dead rows below this are nothing to speak of.
const FEW_DEAD: f64 = 1000.0;
/// Blocks that a look-up by index takes, its row included, on a sound table.
const SOUND: f64 = 8.0;
/// Blocks that writing a row takes, its indexes included, at most.
const OF_A_WRITE: f64 = 12.0;
/// The part of the blocks beyond what is sound, from which on it is worth a finding.
const EXCESS: f64 = 0.5;

/// A table whose scans look at many more blocks than their rows are on, and which has more dead
/// rows than it should: a queue, mostly.
struct Met<'a> {
    table: &'a Grown,
    /// Blocks for each scan of it.
    a_scan: f64,
    /// Live rows that each scan found.
    rows: f64,
    /// The part of its blocks that a sound table would not have needed.
    excess: f64,
    /// The share of the sessions' time in statements that name it.
    share: f64,
    /// Their share of the server's CPU time.
    cpu_share: f64,
    statement: Option<&'a StatementTime>,
}

fn dead_rows_met(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let growth = run.observed?.growth.as_ref()?;
    let met = growth
        .tables
        .iter()
        .filter_map(|table| met(&run, growth, table));
    let worst = met.max_by(|a, b| (a.share * a.excess).total_cmp(&(b.share * b.excess)))?;
    let share = worst.share * worst.excess;
    let table = worst.table;
    let (dead, live) = (
        table.stands("n_dead_tup").unwrap_or(0.0),
        table.stands("n_live_tup").unwrap_or(0.0),
    );
    let saw = format!(
        "Scans of {} look at {:.0} blocks for each {:.1} rows that they find: {dead:.0} dead rows \
         stand beside {live:.0} live ones.",
        table.name, worst.a_scan, worst.rows
    );
    let mut seen = Observation::measured(Basis::Statements, Some(worst.share), saw)
        .of_cpu(worst.cpu_share)
        .covers(share)
        .expects(
            worst.excess,
            "the blocks that scans of a sound table would not look at",
        )
        .severity(if share >= 0.3 {
            Severity::High
        } else {
            Severity::Medium
        })
        .confidence(Confidence::High)
        .seen(format!(
            "{} of {} goes to statements that name it",
            tenths(worst.share),
            run.whole()
        ));
    if let Some(statement) = worst.statement {
        seen = seen.seen(format!("the one with the most time: {}", statement.named()));
    }
    Some(
        seen.sql(format!("VACUUM (ANALYZE, VERBOSE) {};", table.name))
            .advice(
                "see that autovacuum comes often enough: ALTER TABLE … SET (autovacuum_vacuum_scale_factor = \
                 0, autovacuum_vacuum_threshold = 1000)",
            )
            .advice(
                "if VACUUM says that dead rows cannot be removed yet, something old holds them: see \
                 pgassay check --explain horizon-held",
            ),
    )
}

fn met<'a>(run: &RunEvidence<'a>, growth: &GrowthRecord, table: &'a Grown) -> Option<Met<'a>> {
    let dead = table.stands("n_dead_tup")?;
    let live = table.stands("n_live_tup").unwrap_or(0.0);
    if dead < FEW_DEAD || dead < 0.2 * live {
        return None;
    }
    let scans = table.by("idx_scan") + table.by("seq_scan");
    if scans < 1.0 {
        return None;
    }
    let of = growth
        .indexes
        .iter()
        .filter(|i| i.of.as_deref() == Some(&table.name));
    // The view of tables counts the blocks of its indexes, too; that of indexes may be cut.
    let of_indexes: f64 = of
        .map(|index| index.by("idx_blks_hit") + index.by("idx_blks_read"))
        .sum();
    let counted = table.by("idx_blks_hit") + table.by("idx_blks_read");
    let heap = table.by("heap_blks_hit") + table.by("heap_blks_read");
    let blocks = heap + counted.max(of_indexes);
    let written = table.by("n_tup_ins") + table.by("n_tup_upd") + table.by("n_tup_del");
    let found = table.by("idx_tup_fetch") + table.by("seq_tup_read");
    let sound = SOUND * scans + found + OF_A_WRITE * written;
    let excess = (1.0 - sound / blocks).max(0.0);
    if excess < EXCESS {
        return None;
    }
    let statements = run.observed?.statements.as_ref()?;
    let bare = table
        .name
        .rsplit_once('.')
        .map_or(table.name.as_str(), |(_, name)| name);
    let names: Vec<&StatementTime> = statements
        .statements
        .iter()
        .filter(|s| names(&s.text, bare.trim_matches('"')))
        .collect();
    let share: f64 = names.iter().map(|s| s.share).sum();
    let cpu_share: f64 = names.iter().map(|s| s.cpu_share).sum();
    (share >= 0.1).then(|| Met {
        table,
        a_scan: blocks / scans,
        rows: found / scans,
        excess,
        share: share.min(1.0),
        cpu_share: cpu_share.min(1.0),
        statement: names.first().copied(),
    })
}

/// Whether a statement's text has a word.
fn names(text: &str, word: &str) -> bool {
    let of_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = text.split(|c| !of_word(c));
    words.any(|w| w.eq_ignore_ascii_case(word))
}
