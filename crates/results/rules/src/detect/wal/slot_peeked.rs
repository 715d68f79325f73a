//! Logical replication slots that are read without moving.

use crate::detect::common::hits::{Hit, Part, joined, weighty};
use crate::detect::prelude::*;

/// A logical slot that is read again from where it stood.
pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let growth = run.observed?.growth.as_ref();
    let hits = weighty(&run).filter(|s| s.text.contains("pg_logical_slot_peek_"));
    let hits = hits.map(|statement| {
        let held = growth.into_iter().flat_map(|growth| &growth.horizon);
        let slots = held.filter(|held| held.kind == "replication slot");
        Hit {
            statement,
            part: Part::of_all(1.0),
            left: None,
            saw: "A logical slot is read by pg_logical_slot_peek_…, which confirms nothing: each call decodes all of the log since the slot's \
                  last confirmed position."
                .to_owned(),
            confidence: Confidence::Medium,
            evidence: slots
                .map(|slot| format!("slot {}, {:.0} transactions behind", slot.name, slot.transactions))
                .collect(),
            steps: vec![(
                StepKind::Advice,
                "pg_logical_slot_get_changes in the place of peek; or, after the changes have been handed on, SELECT \
                 pg_replication_slot_advance(slot_name, lsn) with the position of the last one (from 11 on)"
                    .to_owned(),
            )],
        }
    });
    joined(&run, hits.collect())
}
