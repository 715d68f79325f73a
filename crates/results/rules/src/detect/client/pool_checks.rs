//! Round trips that do nothing for the application: pools that try, set up and reset a connection around each use.

use crate::detect::common::statement_text::verb;
use crate::detect::prelude::*;
use pgassay_evidence::observed::statements::StatementTime;

/// The part of all round trips from which on they are worth a finding.
const NOTABLE: f64 = 0.2;
/// From here on they decide how fast the load is.
const MOSTLY: f64 = 0.5;
/// Round trips of a run below which nothing is said of their parts.
const FEW: f64 = 200.0;
/// Statements of a transaction up to which it is one in a frame of its own.
const ONE: f64 = 1.25;
/// The part of the statements with a subtransaction of its own, from which on each has one.
const EACH: f64 = 0.8;
/// The part of all round trips that must do something: a load of checks alone is somebody's test.
const USEFUL: f64 = 0.02;

/// What a statement is sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// To see whether the connection is alive.
    Check,
    /// To set the session up.
    SetUp,
    /// To give it back as it was.
    Reset,
    /// To begin or end a subtransaction.
    Savepoint,
    /// To begin or end a transaction.
    Frame,
    /// For the application.
    Work,
}

fn sent_for(text: &str) -> Sent {
    let words: Vec<String> = text
        .split(|c: char| c.is_whitespace() || matches!(c, ';' | '(' | ')' | ',' | '='))
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_uppercase)
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => Sent::Check,
        ["SELECT", one] if is_constant(one) => Sent::Check,
        ["SELECT", one, "AS", _] if is_constant(one) => Sent::Check,
        // The rest of such a check is a comment or a cast.
        [
            "SELECT",
            "VERSION" | "NOW" | "CURRENT_TIMESTAMP" | "PG_IS_IN_RECOVERY" | "CURRENT_SCHEMA",
        ] => Sent::Check,
        ["SHOW", _, ..] => Sent::Check,
        // What a transaction or a request is given is no set-up of the session.
        ["SET", "LOCAL" | "TRANSACTION" | "ROLE" | "CONSTRAINTS", ..] => Sent::Work,
        ["SET", "SESSION", "AUTHORIZATION", ..] => Sent::Work,
        ["SET", name, ..] if name.contains('.') => Sent::Work,
        ["SET", ..] => Sent::SetUp,
        ["DISCARD" | "RESET", ..] => Sent::Reset,
        ["DEALLOCATE", "ALL" | "PREPARE", ..] | ["UNLISTEN", "*"] | ["CLOSE", "ALL"] => Sent::Reset,
        ["SAVEPOINT" | "RELEASE", ..] | ["ROLLBACK", "TO", ..] => Sent::Savepoint,
        ["BEGIN" | "COMMIT" | "END" | "ROLLBACK", rest @ ..]
            if !rest.contains(&"TO") && !rest.contains(&"PREPARED") =>
        {
            Sent::Frame
        }
        ["START", "TRANSACTION", ..] => Sent::Frame,
        _ => Sent::Work,
    }
}

/// `$1`, or a literal.
fn is_constant(word: &str) -> bool {
    let parameter = word.strip_prefix('$').unwrap_or(word);
    let number = !parameter.is_empty() && parameter.chars().all(|c| c.is_ascii_digit());
    number || word.starts_with('\'') || matches!(word, "NULL" | "TRUE")
}

/// The statements of a run by what they are sent for, with how often.
struct Trips<'a> {
    all: Vec<(Sent, f64, &'a StatementTime)>,
    /// Whether they frame single statements: then beginning and ending them does nothing.
    frames_one: bool,
    /// Whether each statement has a subtransaction of its own: a driver's doing.
    saves_each: bool,
}

impl<'a> Trips<'a> {
    fn of(run: &RunEvidence<'a>) -> Option<Self> {
        let statements = &run.observed?.statements.as_ref()?.statements;
        let all: Vec<(Sent, f64, &StatementTime)> = statements
            .iter()
            .filter(|s| !s.text.is_empty())
            .filter_map(|s| Some((sent_for(&s.text), s.counters.as_ref()?.calls, s)))
            .collect();
        let of = |sent: Sent| -> f64 {
            let those = all.iter().filter(|(of, ..)| *of == sent);
            those.map(|(_, calls, _)| calls).sum()
        };
        let begun: f64 = all
            .iter()
            .filter(|(sent, _, s)| *sent == Sent::Frame && begins(&s.text))
            .map(|(_, calls, _)| calls)
            .sum();
        let frames_one = begun > 0.0 && of(Sent::Work) <= ONE * begun;
        // One to begin it; not every driver ends it.
        let saves_each = of(Sent::Savepoint) >= EACH * of(Sent::Work);
        Some(Self {
            all,
            frames_one,
            saves_each,
        })
    }

    fn is_idle(&self, sent: Sent) -> bool {
        match sent {
            Sent::Work => false,
            Sent::Frame => self.frames_one,
            Sent::Savepoint => self.saves_each,
            Sent::Check | Sent::SetUp | Sent::Reset => true,
        }
    }

    /// Those that do nothing.
    fn idle(&self) -> impl Iterator<Item = &(Sent, f64, &'a StatementTime)> {
        self.all.iter().filter(|(sent, ..)| self.is_idle(*sent))
    }

    fn has(&self, sent: Sent) -> bool {
        self.idle()
            .any(|(of, calls, _)| *of == sent && *calls > 0.0)
    }
}

fn begins(text: &str) -> bool {
    let verb = verb(text);
    verb == "BEGIN" || verb == "START"
}

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let trips = Trips::of(&run)?;
    let all: f64 = trips.all.iter().map(|(_, calls, _)| calls).sum();
    let idle: f64 = trips.idle().map(|(_, calls, _)| calls).sum();
    let useful: f64 = trips
        .all
        .iter()
        .filter(|(sent, ..)| *sent == Sent::Work)
        .map(|(_, calls, _)| calls)
        .sum();
    let part = idle / all.max(1.0);
    let saves = trips.has(Sent::Savepoint);
    let around =
        trips.has(Sent::Check) || trips.has(Sent::SetUp) || trips.has(Sent::Reset) || saves;
    // A frame alone may be meant: who reads twice in it will want it.
    if all < FEW || part < NOTABLE || useful < USEFUL * all || !around {
        return None;
    }
    let what = match saves {
        true => "they begin and end a subtransaction around each statement (SAVEPOINT, RELEASE)",
        false => "they try, set up or reset a connection around each use",
    };
    let saw = format!(
        "{} of the round trips that were seen do nothing for the application: {what}.",
        tenths(part)
    );
    let mut named: Vec<_> = trips.idle().collect();
    named.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named: Vec<String> = named
        .into_iter()
        .take(6)
        .map(|(_, calls, s)| format!("{} ({})", s.named(), tenths(calls / all)))
        .collect();
    let mut seen = Observation::measured(Basis::Counters, gain(&run, &trips, part), saw)
        .severity(match part {
            MOSTLY.. => Severity::High,
            _ => Severity::Medium,
        })
        .confidence(Confidence::High)
        .seen(format!(
            "of {all:.0} round trips by pg_stat_statements: {}",
            named.join(", ")
        ));
    let share: f64 = trips.idle().map(|(_, _, s)| s.share).sum();
    if run.budget().is_some() {
        seen = seen.covers(share.min(1.0));
    }
    if saves {
        seen = seen.advice(
            "switch savepoints around each statement off in the driver (JDBC: autosave=never; psqlODBC: Protocol=…-0 or -1; psql: \
             ON_ERROR_ROLLBACK off), and set them only where an error is expected: INSERT … ON CONFLICT needs none",
        );
    }
    if trips.has(Sent::Check) {
        seen = seen.advice(
            "switch the pool's test query off (test-on-borrow, validationQuery, pool_pre_ping, pre-ping), or have it try only \
             connections that were idle for a while; a driver's own check (JDBC's isValid) costs one message",
        );
    }
    if trips.has(Sent::SetUp) {
        seen = seen.advice(
            "set parameters for the role or database (ALTER ROLE … SET), or in the connection string's options, and not at \
             each check-out",
        );
    }
    if trips.has(Sent::Reset) {
        seen = seen.advice(
            "switch the reset on return off where the application leaves nothing behind (reset on return; PgBouncer: \
             server_reset_query_always = 0): DISCARD ALL also throws away plans, prepared statements and caches",
        );
    }
    if trips.has(Sent::Frame) {
        seen = seen.advice("send single statements with autocommit on: BEGIN and COMMIT around one of them add nothing");
    }
    Some(seen)
}

/// The part of all time that goes with them: their own, and of the time between statements, in which the client has
/// the turn, as much as they are of the round trips. Sessions of a server's own load may idle for other reasons.
fn gain(run: &RunEvidence, trips: &Trips, part: f64) -> Option<f64> {
    let budget = run.budget()?;
    let off = budget.off.as_ref()?;
    let own: f64 = trips.idle().map(|(_, _, s)| s.sessions).sum();
    let idle = if run.is_closed() { off.idle } else { 0.0 };
    let all = budget.in_transactions() + idle;
    (all > 0.0).then(|| ((own + part * (off.client + idle)) / all).clamp(0.0, 0.99))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finding;
    use crate::detect::tests::made::{found_with, one};
    use pgassay_evidence::observed::statements::{Counters, StatementAnalysis};

    fn found(statements: &'static [(&'static str, f64)]) -> Vec<Finding> {
        found_with(vec![], move |observed| {
            let statements = statements.iter().map(|(text, calls)| StatementTime {
                text: (*text).into(),
                sessions: 0.05,
                share: 0.08,
                counters: Some(Counters {
                    calls: *calls,
                    ..Counters::default()
                }),
                ..StatementTime::default()
            });
            observed.statements = Some(StatementAnalysis {
                statements: statements.collect(),
                ..StatementAnalysis::default()
            });
        })
    }

    const WORK: (&str, f64) = ("SELECT name FROM profile WHERE id = $1", 1000.0);

    #[test]
    fn a_pool_that_tries_and_resets_each_connection_is_named_with_its_statements() {
        let findings = found(&[
            ("SELECT $1", 1000.0),
            ("SET extra_float_digits = $1", 1000.0),
            ("BEGIN", 1000.0),
            WORK,
            ("COMMIT", 1000.0),
            ("DISCARD ALL", 1000.0),
        ]);
        let pool = one(&findings, "pool-checks");
        assert!(
            pool.saw
                .starts_with("83.3 % of the round trips that were seen"),
            "{}",
            pool.saw
        );
        let remedy: Vec<&str> = pool.remedy.iter().map(|s| s.text.as_str()).collect();
        assert_eq!(remedy.len(), 4, "{remedy:?}");
        assert!(remedy[0].contains("test query") && remedy[1].contains("ALTER ROLE"));
        assert!(remedy[2].contains("DISCARD ALL") && remedy[3].contains("autocommit"));
        assert!(
            pool.gain_at_most.is_some_and(|gain| gain > 0.3),
            "{pool:#?}"
        );
    }

    #[test]
    fn a_subtransaction_around_each_statement_is_the_drivers_doing() {
        const BEGUN: (&str, f64) = ("BEGIN", 40.0);
        let of = |number: f64| {
            let findings: Vec<Finding> = found(
                vec![
                    BEGUN,
                    ("SAVEPOINT s$1", number),
                    ("RELEASE SAVEPOINT s$1", number),
                    WORK,
                ]
                .leak(),
            );
            findings.into_iter().find(|f| f.id == "pool-checks")
        };
        let each = of(1000.0).unwrap();
        assert!(each.saw.contains("SAVEPOINT, RELEASE"), "{}", each.saw);
        assert!(each.remedy[0].text.contains("autosave=never"));
        // Now and then one is set where an error is expected.
        assert!(of(300.0).is_none());
    }

    #[test]
    fn transactions_settings_of_a_request_and_tests_are_what_they_are() {
        let sound: [&'static [(&'static str, f64)]; 5] = [
            &[WORK],
            // Transactions of several statements.
            &[
                ("BEGIN", 1000.0),
                WORK,
                ("UPDATE profile SET n = $1", 3000.0),
                ("END", 1000.0),
            ],
            // A frame around one statement alone.
            &[("BEGIN", 1000.0), WORK, ("COMMIT", 1000.0)],
            // What row security goes by.
            &[
                ("SET app.tenant = $1", 1000.0),
                ("SET LOCAL work_mem = $1", 1000.0),
                WORK,
            ],
            // Nothing else: somebody measures round trips.
            &[("SELECT $1", 90_000.0)],
        ];
        for statements in sound {
            let findings = found(statements);
            assert!(
                findings.iter().all(|f| f.id != "pool-checks"),
                "{findings:#?}"
            );
        }
        // Now and then a pool may try a connection.
        let seldom = found(&[("SELECT $1", 50.0), WORK]);
        assert!(seldom.iter().all(|f| f.id != "pool-checks"));
    }

    #[test]
    fn statements_are_known_by_their_words() {
        for (text, sent) in [
            ("SELECT 1;", Sent::Check),
            ("select 'x' as ping", Sent::Check),
            ("SELECT $1", Sent::Check),
            ("SELECT now()", Sent::Check),
            ("SHOW transaction_isolation", Sent::Check),
            ("SELECT count(*) FROM t", Sent::Work),
            ("SELECT n", Sent::Work),
            ("SET search_path = public", Sent::SetUp),
            ("SET ROLE reader", Sent::Work),
            ("RESET ALL", Sent::Reset),
            ("ROLLBACK TO s", Sent::Savepoint),
            ("RELEASE SAVEPOINT s", Sent::Savepoint),
            ("COMMIT PREPARED 'x'", Sent::Work),
            ("rollback", Sent::Frame),
            ("START TRANSACTION READ ONLY", Sent::Frame),
        ] {
            assert_eq!(sent_for(text), sent, "{text}");
        }
    }
}
