//! Dead rows and empty pages of the server's own catalogues: what holds them, and who goes through them.

use crate::detect::common::hits::{Hit, Part, joined, weighty};
use crate::detect::common::horizon::{FEW_DEAD, OLD, began};
use crate::detect::common::{horizon, nodes};
use crate::detect::{Detector, run};
use crate::evidence::Evidence;
use crate::finding::{Confidence, Observation, Severity};
use pgassay_model::observed::growth::{Grown, HoldsHorizon};

pub const DETECTORS: &[Detector] = &[run("horizon-held", held)];

/// Rows of a catalogue that die in a run below which nobody changes it.
const MANY_DIE: f64 = 100.0;
/// So many times as many dead rows as live ones are too many.
const MANY: f64 = 2.0;

fn dead(catalog: &Grown) -> f64 {
    catalog.stands("n_dead_tup").unwrap_or(0.0)
}

fn live(catalog: &Grown) -> f64 {
    catalog.stands("n_live_tup").unwrap_or(0.0)
}

fn has_dead_rows(catalog: &Grown) -> bool {
    dead(catalog) >= FEW_DEAD && dead(catalog) >= MANY * live(catalog)
}

/// What keeps the dead rows of the catalogues.
fn holder<'a>(evidence: &Evidence<'a>) -> Option<&'a HoldsHorizon> {
    let growth = evidence.run?.observed?.growth.as_ref()?;
    let mut held = growth.horizon.iter();
    held.find(|held| {
        let left = held.kind == "replication slot" && held.state == "inactive" && held.from_before;
        held.transactions >= OLD || left
    })
}

/// Of the catalogues that `pick` picks the one that statements go through most, and what that takes: its scans look up
/// far more blocks than their rows are on.
fn gone_through<'a>(
    evidence: &Evidence<'a>,
    pick: fn(&Grown) -> bool,
    saw: impl Fn(&Grown) -> String,
) -> Option<(&'a Grown, Observation)> {
    let run = evidence.run?;
    let growth = run.observed?.growth.as_ref()?;
    let picked = growth.catalogs.iter().filter(|catalog| pick(catalog));
    let read = picked.filter_map(|catalog| {
        let name = format!("pg_catalog.{}", catalog.name);
        let hits: Vec<Hit> = weighty(&run)
            .filter_map(|statement| {
                let part = nodes::through(statement.plan.as_ref()?, &name)?;
                Some(Hit {
                    statement,
                    part: Part::of_work(evidence, statement, part),
                    left: None,
                    saw: saw(catalog),
                    confidence: Confidence::High,
                    evidence: nodes::busiest(statement.plan.as_ref()?)
                        .into_iter()
                        .collect(),
                    steps: Vec::new(),
                })
            })
            .collect();
        let share: f64 = hits.iter().map(|h| h.statement.share * h.part.time).sum();
        Some((share, catalog, joined(&run, hits)?))
    });
    let most = read.max_by(|a, b| a.0.total_cmp(&b.0));
    most.map(|(_, catalog, seen)| (catalog, seen))
}

/// `64 in pg_class, beside 32 live ones`.
fn counted(catalog: &Grown) -> String {
    format!(
        "{:.0} in {}, beside {:.0} live ones",
        dead(catalog),
        catalog.name,
        live(catalog)
    )
}

/// Dead rows of a catalogue that something old holds: whoever creates, drops, truncates or analyses reads them, at a cost
/// that is not measured, and so do statements that ask the catalogues.
fn held(evidence: &Evidence) -> Option<Observation> {
    let held = holder(evidence)?;
    let all = &evidence.run?.observed?.growth.as_ref()?.horizon;
    let cause = horizon::cause(all, held);
    let keeps = |catalog: &Grown| {
        format!(
            "{}: {}.",
            cause.keeps("the dead rows of the catalogues"),
            counted(catalog)
        )
    };
    let (worst, seen) = gone_through(evidence, has_dead_rows, keeps).or_else(|| {
        let died = |catalog: &Grown| catalog.by("n_tup_upd") + catalog.by("n_tup_del");
        let growth = evidence.run?.observed?.growth.as_ref()?;
        let bloated = growth.catalogs.iter();
        let bloated = bloated.filter(|c| died(c) >= MANY_DIE && has_dead_rows(c));
        let worst = bloated.max_by(|a, b| dead(a).total_cmp(&dead(b)))?;
        let seen =
            Observation::new(Severity::Medium, Confidence::Medium, keeps(worst)).seen(format!(
                "{:.0} rows of {} died in the measured time",
                died(worst),
                worst.name
            ));
        Some((worst, seen))
    })?;
    let seen = seen.seen(format!("{} since", began(held.transactions)));
    let vacuum = format!("VACUUM pg_catalog.{}", worst.name);
    Some(
        cause
            .end(seen, &vacuum)
            .advice(format!(
                "{} at a quiet time, as it locks out every session meanwhile: a plain VACUUM frees the room of dead rows, \
                 and keeps the pages that scans go through",
                rewriting(worst)
            ))
            .advice(
                "watch slots (pg_replication_slots: xmin, catalog_xmin, wal_status) and old transactions; \
                 max_slot_wal_keep_size limits what a slot that is left behind keeps of the log",
            ),
    )
}

fn rewriting(catalog: &Grown) -> String {
    format!("VACUUM (FULL, ANALYZE) pg_catalog.{}", catalog.name)
}

#[cfg(test)]
#[path = "catalogs/tests.rs"]
mod tests;
