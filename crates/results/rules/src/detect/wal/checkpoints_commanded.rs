//! Checkpoints that a command asks for.

use crate::detect::prelude::*;
use crate::detect::wal::max_wal_size::ENOUGH_WAL;
use crate::detect::wal::requested::{
    FEWEST, TOO_NEAR_SECONDS, evidence_in_words, gain, log_for_each,
};

/// How statements begin that ask for a checkpoint.
const ASKS: &[&str] = &[
    "checkpoint",
    "select pg_backup_start",
    "select pg_start_backup",
    "create database",
    "base_backup",
];

/// Checkpoints that somebody asks for, as neither time nor the log does.
pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let seen = run.load.checkpoints.as_ref()?;
    let apart = seen.seconds / seen.requested.max(1) as f64;
    let (log, room) = log_for_each(seen)?;
    if seen.requested < FEWEST || apart > TOO_NEAR_SECONDS || log / room >= ENOUGH_WAL {
        return None;
    }
    let observed = run.observed.into_iter();
    let mut texts = observed.flat_map(|observed| {
        let own = observed.statements.iter().flat_map(|s| &s.statements);
        let texts = own.map(|s| s.text.as_str());
        texts.chain(observed.beside.iter().map(|b| b.text.as_str()))
    });
    let asked = texts.find(|text| {
        let lower = text.trim_start().to_ascii_lowercase();
        ASKS.iter().any(|words| lower.starts_with(words))
    });
    let saw = format!(
        "{} checkpoints in {:.0} s were asked for by a command: there was not enough log to have them come, and it was not \
         time.",
        seen.requested, seen.seconds
    );
    let (gain, basis) = gain(seen, &run);
    let by = match asked {
        Some(text) => format!("take the command out of what sends it ({text}): a job, a script"),
        None => "find who sends it (log_checkpoints = on says \"immediate force\"; pg_stat_activity while it waits: \
                 CHECKPOINT, pg_backup_start, CREATE DATABASE), and take it out"
            .to_owned(),
    };
    Some(
        Observation::measured(basis, gain.filter(|gain| *gain > 0.0), saw)
            .confidence(Confidence::High)
            .severity(Severity::High)
            .all_seen(evidence_in_words(seen, &run))
            .advice(format!(
                "{by}; checkpoint_timeout and max_wal_size have checkpoints come, spread over time"
            )),
    )
}
