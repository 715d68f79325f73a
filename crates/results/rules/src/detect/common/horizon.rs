//! What holds the xmin horizon: the proven cause, or those among which it must be, and what ends it.
//!
//! Every snapshot that is taken while the oldest transaction runs has its transaction id as xmin. Sessions that work
//! meanwhile therefore show the same xmin as the session that holds it, and only that one may be ended.

use crate::detect::high_if;
use crate::fact_view::{FactView, Row, number, word};
use crate::finding::{Confidence, Judged, Observation, Severity, passed};
use pgassay_model::observed::growth::HoldsHorizon;

/// Seconds from which on a prepared transaction is taken to be forgotten.
pub const ORPHANED: f64 = 5.0;

/// The kind of the oldest session of another role of which the server does not show since when it holds anything.
const HIDDEN: &str = "hidden session";

/// What holds the horizon.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause<'a> {
    /// This does.
    Proven(&'a HoldsHorizon),
    /// One or several of these do.
    Among(Vec<&'a HoldsHorizon>),
}

/// The cause of a horizon as old as that of `found`, of all that were seen with one.
pub fn cause<'a>(all: &'a [HoldsHorizon], found: &HoldsHorizon) -> Cause<'a> {
    let sharing: Vec<&HoldsHorizon> = all
        .iter()
        .filter(|held| {
            held.transactions == found.transactions && held.catalogs_only == found.catalogs_only
        })
        .collect();
    let owner = sharing.iter().copied().find(|held| is_own(held));
    let candidates: Vec<&HoldsHorizon> = sharing
        .iter()
        .copied()
        .filter(|held| lasts(held) || is_own(held))
        .collect();
    let hidden = all
        .iter()
        .find(|held| held.kind == HIDDEN && held.transactions >= found.transactions);
    if let Some(hidden) = hidden {
        let others = candidates.into_iter().filter(|held| held.kind != HIDDEN);
        return Cause::Among([hidden].into_iter().chain(others).collect());
    }
    match (owner.filter(|owner| lasts(owner)), candidates.as_slice()) {
        (Some(owner), _) => Cause::Proven(owner),
        (None, [one]) if lasts(one) => Cause::Proven(one),
        (None, []) => Cause::Among(sharing),
        (None, _) => Cause::Among(candidates),
    }
}

/// Whether the horizon is its own transaction's id, of which there is one.
fn is_own(held: &HoldsHorizon) -> bool {
    held.own_transaction || held.kind == "prepared transaction"
}

/// Whether it has held the same for long enough to be why the horizon is old. The snapshot of a session whose
/// transaction has just begun may have the same xmin.
fn lasts(held: &HoldsHorizon) -> bool {
    match held.kind.as_str() {
        "session" => held.from_before && held.seconds >= Some(1.0),
        "prepared transaction" => held.from_before || held.seconds >= Some(ORPHANED),
        _ => true,
    }
}

/// `session 4711, application report, open for 12 s`.
pub fn described(held: &HoldsHorizon) -> String {
    let mut words = format!("{} {}", held.kind, held.name);
    if !held.application.is_empty() {
        words += &format!(", application {}", held.application);
    }
    if let Some(seconds) = held.seconds {
        words += &format!(", open for {seconds:.0} s");
    }
    words
}

impl Cause<'_> {
    /// `The session 4711, open for 12 s, keeps the dead rows of public.job`, for what it keeps.
    pub fn keeps(&self, what: &str) -> String {
        match self {
            Self::Proven(held) => {
                let (described, comma) = (described(held), held.seconds.map_or("", |_| ","));
                format!("The {described}{comma} keeps {what}")
            }
            Self::Among(held) => {
                let all: Vec<String> = held.iter().map(|held| described(held)).collect();
                let all = all.join("; ");
                format!(
                    "An old snapshot or transaction keeps {what}; whose it is was not shown (candidates: {all})"
                )
            }
        }
    }

    /// Adds what ends it, and what then. Only what is proven gets a command that ends it, and a look comes first.
    pub fn end(&self, seen: Observation, then: &str) -> Observation {
        match self {
            Self::Proven(held) => end(seen, held, then),
            Self::Among(held) => match held.iter().any(|held| held.kind == HIDDEN) {
                true => seen.advice(
                    "sessions of other roles are hidden: grant pg_read_all_stats (from 10 on) to the role that pgassay \
                     connects as, and look again",
                ),
                false => seen,
            }
                .sql(
                    "SELECT pid, datname, usename, application_name, state, backend_xid, backend_xmin, xact_start, query FROM \
                     pg_stat_activity WHERE backend_xid IS NOT NULL OR backend_xmin IS NOT NULL ORDER BY xact_start;   -- ask twice, a \
                     minute apart: what has the oldest xid or xmin both times, in the same transaction, holds it",
                )
                .advice(format!(
                    "end nothing before that is known: sessions that only work meanwhile show the same xmin. \
                     idle_in_transaction_session_timeout and, from 17 on, transaction_timeout end what was forgotten. Then {then}"
                )),
        }
    }
}

fn end(seen: Observation, held: &HoldsHorizon, then: &str) -> Observation {
    let literal = held.name.replace('\'', "''");
    match held.kind.as_str() {
        "session" => seen
            .sql(format!(
                "SELECT usename, application_name, client_addr, state, xact_start, query FROM pg_stat_activity WHERE pid = {};   -- \
                 look first at what it does, and have it commit if you can",
                held.name
            ))
            // By then the same process may be in another transaction, and another may have its number.
            .sql(format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = {} AND xact_start <= now() - interval '{:.0} s';   \
                 -- if it may end: only in the transaction that was seen. Then {then}",
                held.name,
                held.seconds.unwrap_or(0.0).floor()
            )),
        "prepared transaction" => seen
            .sql(format!(
                "SELECT gid, prepared, owner, database FROM pg_prepared_xacts WHERE gid = '{literal}';"
            ))
            .advice(
                "ask its transaction manager, if there is one, whether it was committed: what has committed elsewhere must be \
                 committed here, too",
            )
            .advice(format!(
                "then, in its database, COMMIT PREPARED '{literal}'; or, if it was given up, ROLLBACK PREPARED '{literal}'; and {then}"
            )),
        "standby" => seen
            .sql(format!(
                "SELECT pid, now() - xact_start AS open, state, query FROM pg_stat_activity WHERE backend_xmin IS NOT NULL \
                 ORDER BY xact_start;   -- on the standby {}: the oldest holds the rows here. When it has ended, {then} here",
                held.name
            ))
            .advice(
                "on the standby: statement_timeout and idle_in_transaction_session_timeout for the role that runs the \
                 reports; or hot_standby_feedback = off, and max_standby_streaming_delay for how long a query may delay \
                 the replay; long reports on a standby or a copy of their own",
            ),
        _ => seen
            .sql(format!(
                "SELECT slot_name, slot_type, plugin, database, active, active_pid, xmin, catalog_xmin, restart_lsn FROM \
                 pg_replication_slots WHERE slot_name = '{literal}';   -- look first at who reads it, and have that catch up"
            ))
            .advice(format!(
                "a standby or subscriber that returns to a dropped slot must be made anew. Only if its reader is gone for good: SELECT \
                 pg_drop_replication_slot('{literal}'); then {then}"
            )),
    }
}

/// Dead rows below this are nothing to speak of.
pub const FEW_DEAD: f64 = 1000.0;

/// Transactions that began since, below which something is not old.
pub const OLD: f64 = 500.0;

/// `one transaction began`, `712 transactions began`.
pub fn began(transactions: f64) -> String {
    match transactions {
        1.0 => "one transaction began".to_owned(),
        many => format!("{many:.0} transactions began"),
    }
}

pub fn horizon(seen: &FactView) -> Judged {
    let rows = seen.rows("horizon")?;
    let mut finding: Option<(Severity, Observation)> = None;
    let kept = seen.value("vacuum_defer_cleanup_age").ok();
    let kept = kept.and_then(|kept| kept.parse::<f64>().ok());
    if let Some(kept) = kept.filter(|kept| *kept >= 1e4) {
        let text = format!(
            "vacuum_defer_cleanup_age = {kept:.0} holds dead rows back: no VACUUM removes what died in the last \
             {kept:.0} transactions."
        );
        let severity = high_if(kept >= 1e6);
        let found = Observation::new(severity, Confidence::Medium, text).sql(
            "ALTER SYSTEM RESET vacuum_defer_cleanup_age; SELECT pg_reload_conf();   -- hot_standby_feedback on the \
             standby instead",
        );
        finding = Some((severity, found));
    }
    let all: Vec<HoldsHorizon> = rows.iter().filter_map(holds).collect();
    for held in all.iter().filter(|held| held.from_before) {
        let (age, seconds) = (held.transactions, held.seconds.unwrap_or(0.0));
        let weighty = match held.kind.as_str() {
            "prepared transaction" => seconds >= 3600.0 || age >= 1e5,
            "session" => seconds >= 3600.0,
            _ => age >= 1e7,
        };
        let severity = high_if(weighty);
        if finding.as_ref().is_some_and(|(most, ..)| severity <= *most) {
            continue;
        }
        let cause = cause(&all, held);
        let text = format!("{}: {} since.", cause.keeps("dead rows"), began(age));
        let found = Observation::new(severity, Confidence::Medium, text);
        finding = Some((severity, cause.end(found, "VACUUM")));
    }
    match finding {
        None => passed("no old snapshot, prepared transaction or slot holds dead rows back"),
        Some((_, found)) => found.found(),
    }
}

/// Transactions since, below which the snapshot of a long transaction is not old: each statement takes a new one.
const NEW_SNAPSHOT: f64 = 1000.0;

/// What a row shows, with whether it has held that for as long as is worth a finding. A prepared transaction waits
/// milliseconds for its second half; a report may take minutes.
fn holds(row: &Row) -> Option<HoldsHorizon> {
    let text = |key| word(row, key).unwrap_or_default().to_owned();
    let (transactions, seconds) = (number(row, "transactions")?, number(row, "seconds"));
    let kind = text("kind");
    let own_transaction = row.get("own_transaction") == Some(&true.into());
    let open = seconds.unwrap_or(0.0);
    let noted = match kind.as_str() {
        "prepared transaction" => open >= 1.0,
        "session" => {
            (own_transaction || transactions >= NEW_SNAPSHOT)
                && (open >= 600.0 || (open >= 60.0 && transactions >= 1e5))
        }
        _ => transactions >= 1e5,
    };
    Some(HoldsHorizon {
        kind,
        name: text("name"),
        transactions,
        seconds,
        application: text("application"),
        own_transaction,
        from_before: noted,
        ..HoldsHorizon::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Confidence, Severity};

    fn held(kind: &str, name: &str, seconds: Option<f64>, from_before: bool) -> HoldsHorizon {
        HoldsHorizon {
            kind: kind.into(),
            name: name.into(),
            transactions: 21_608.0,
            seconds,
            from_before,
            ..HoldsHorizon::default()
        }
    }

    fn session(name: &str, seconds: f64, from_before: bool) -> HoldsHorizon {
        held("session", name, Some(seconds), from_before)
    }

    /// All that is said of what holds the horizon of the first, and of what ends it.
    fn said(all: &[HoldsHorizon]) -> String {
        let cause = cause(all, &all[0]);
        let seen = Observation::new(Severity::Medium, Confidence::High, cause.keeps("rows"));
        let seen = cause.end(seen, "VACUUM t");
        let steps = seen.remedy.iter().map(|step| step.text.as_str());
        [seen.saw.as_str()]
            .into_iter()
            .chain(steps)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Whether anything is ended.
    fn ends(said: &str) -> bool {
        [
            "pg_terminate_backend",
            "pg_drop_replication_slot",
            "ROLLBACK PREPARED",
        ]
        .iter()
        .any(|command| said.contains(command))
    }

    #[test]
    fn the_session_whose_transaction_is_the_oldest_is_ended_and_no_other() {
        let import = HoldsHorizon {
            own_transaction: true,
            ..session("900", 30.0, true)
        };
        // A worker, another whose transaction is old as well, and the feedback of a standby share its xmin.
        let all = [
            session("12512", 0.0, true),
            session("12513", 40.0, true),
            held("standby", "walreceiver", None, true),
            import,
        ];
        let said = said(&all);
        assert!(
            said.contains("pid = 900 AND xact_start <= now() - interval '30 s'"),
            "{said}"
        );
        assert!(!said.contains("12512") && !said.contains("12513"), "{said}");
        assert!(!said.contains("walreceiver"), "{said}");
    }

    #[test]
    fn a_snapshot_that_was_held_all_the_time_is_ended_and_a_new_one_with_its_xmin_is_not() {
        let all = [session("12512", 0.0, false), session("900", 30.0, true)];
        let said = said(&all);
        assert!(said.contains("pid = 900 AND"), "{said}");
        assert!(!said.contains("12512"), "{said}");
    }

    #[test]
    fn on_a_tie_all_are_named_and_none_is_ended() {
        for all in [
            vec![
                session("900", 30.0, true),
                session("901", 29.0, true),
                session("12512", 0.0, false),
            ],
            vec![session("12512", 0.0, false), session("12513", 0.04, true)],
            vec![session("12512", 0.0, false)],
            vec![
                held("replication slot", "old", None, true),
                session("900", 30.0, true),
            ],
        ] {
            let said = said(&all);
            assert!(!ends(&said) && said.contains("was not shown"), "{said}");
            let old: Vec<&HoldsHorizon> = all.iter().filter(|held| lasts(held)).collect();
            assert!(old.iter().all(|held| said.contains(&held.name)), "{said}");
        }
    }

    #[test]
    fn with_a_hidden_session_as_old_none_is_ended() {
        let own = HoldsHorizon {
            own_transaction: true,
            ..session("901", 30.0, true)
        };
        for visible in [session("900", 30.0, true), own] {
            let younger = HoldsHorizon {
                transactions: 3.0,
                ..held(HIDDEN, "4711", None, true)
            };
            assert!(ends(&said(&[visible.clone(), younger])));
            let hidden = held(HIDDEN, "4711", None, false);
            let said = said(&[visible.clone(), hidden]);
            assert!(!ends(&said), "{said}");
            for words in [
                "hidden session 4711",
                &visible.name,
                "grant pg_read_all_stats",
            ] {
                assert!(said.contains(words), "{words}: {said}");
            }
        }
    }

    #[test]
    fn what_is_ended_is_looked_at_first() {
        for held in [
            session("900", 30.0, true),
            held("prepared transaction", "it's", Some(60.0), false),
            held("replication slot", "old", None, true),
        ] {
            let seen = Observation::new(Severity::Medium, Confidence::High, "");
            let steps = end(seen, &held, "VACUUM t").remedy;
            assert!(
                !ends(&steps[0].text) && steps[0].text.starts_with("SELECT"),
                "{steps:?}"
            );
            assert!(ends(&said(&[held])));
        }
    }
}
