//! Whether the standbys that commits wait for are there.

use crate::fact_view::{FactView, Row, word};
use crate::finding::{NotJudged, Observation};
use pgassay_model::server::STANDBY_ABSENT;

/// Whether a standby is one that commits wait for.
pub fn takes_part(row: &Row) -> bool {
    matches!(word(row, "sync_state"), Some("sync" | "quorum"))
}

/// How many standbys the names ask for: 1, or the number of `FIRST 2 (a, b)`, `ANY 2 (a, b)` and `2 (a, b)`.
fn asked_for(names: &str) -> usize {
    let number = names.split_once('(').map(|(method, _)| {
        let word = method.split_whitespace().last();
        word.and_then(|word| word.parse().ok())
    });
    number.flatten().unwrap_or(1)
}

/// Whether commits that wait for standbys end.
#[derive(PartialEq)]
pub enum Standing {
    /// No name is given, or enough are connected.
    Enough,
    /// They do not, for this reason: fewer are connected than the names ask for.
    Absent(String),
    /// Which standbys are connected, or how they take part, can't be seen.
    NotKnown,
}

pub const NOT_SEEN: &str =
    "whether the standbys that synchronous_standby_names asks for are connected could not be seen";

pub const LOOK_FIRST: &str = "leave synchronous_commit as it is until pg_stat_replication shows, to a role with \
     pg_read_all_stats, as many standbys with sync or quorum as synchronous_standby_names asks for: without them commits \
     at each level above local would not end";

pub fn standing(seen: &FactView) -> Result<Standing, NotJudged> {
    let names = seen.value("synchronous_standby_names")?.trim();
    if names.is_empty() {
        return Ok(Standing::Enough);
    }
    let Ok(standbys) = seen.rows("standbys") else {
        return Ok(Standing::NotKnown);
    };
    // Who may not see how a standby takes part sees that there is one.
    if standbys.iter().any(|row| word(row, "sync_state").is_none()) {
        return Ok(Standing::NotKnown);
    }
    let connected = standbys.iter().filter(|row| takes_part(row)).count();
    let wanted = asked_for(names);
    Ok(match connected < wanted {
        true => Standing::Absent(format!(
            "{connected} of {wanted} that synchronous_standby_names asks for are connected: commits do not end"
        )),
        false => Standing::Enough,
    })
}

/// The steps where a synchronous standby is missing. No level of synchronous_commit is among them: those above local would
/// wait, too.
pub fn standby_first(found: Observation) -> Observation {
    found
        .sql("SELECT application_name, state, sync_state FROM pg_stat_replication;")
        .advice(format!(
            "{STANDBY_ABSENT}. Commits that wait then return, and what they wrote is on this server only until a standby is back"
        ))
}

/// The steps of `found` where synchronous_commit is off and commits would wait for a standby that is not there, or may not
/// be, if it were not.
pub fn instead_of_waiting(seen: &FactView, found: Observation) -> Option<Observation> {
    match standing(seen).ok()? {
        Standing::Enough => None,
        Standing::Absent(absent) => Some(standby_first(found.seen(absent)).advice(
            "leave synchronous_commit as it is until then: each level above local would make commits wait",
        )),
        Standing::NotKnown => Some(
            found
                .seen(NOT_SEEN)
                .sql("SELECT application_name, state, sync_state FROM pg_stat_replication;")
                .advice(LOOK_FIRST),
        ),
    }
}
