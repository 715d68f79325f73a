//! From what a log says, session by session, to transactions.

use std::collections::{BTreeMap, HashMap};

use pgassay_text::own::{OBSERVER, TAG};

use crate::kind::{Kind, is_of_cursor, kind_of};
pub use crate::kind::{is_frame, is_work};
use crate::log::Record;
use crate::log::message::{Said, Statement, said};
use crate::mix::{Mix, Step, Transaction};
use crate::template::{Seen, Template};

/// Sessions that are followed at a time; of more the longest silent ones are given up.
const MOST_SESSIONS: usize = 50_000;
/// Most statements of a transaction.
const MOST_STEPS: usize = 200;

/// A transaction as a session had it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// The session's number, from 1 in the order in which they were first seen.
    pub session: u64,
    /// When it began, in the log's microseconds.
    pub at_us: i64,
    /// From its begin to its end, pauses included.
    pub took_us: u64,
    /// Its place among the kinds of the mix.
    pub kind: usize,
    /// The values of all its statements side by side.
    pub values: Vec<Seen>,
    /// Microseconds that its client waited before each of its statements.
    pub pauses_us: Vec<u64>,
}

/// What is taken from a log.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Of this database alone.
    pub database: Option<String>,
    /// Of this user alone.
    pub user: Option<String>,
    /// Of this `application_name` alone.
    pub application: Option<String>,
}

impl Wanted {
    fn is(&self, record: &Record) -> bool {
        let is =
            |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        is(&self.database, &record.database)
            && is(&self.user, &record.user)
            && is(&self.application, &record.application)
    }
}

/// Follows sessions through a log.
pub struct Sessions {
    wanted: Wanted,
    open: HashMap<String, Session>,
    /// The transactions that are over.
    pub mix: Mix,
    /// The same one by one, for whoever takes them away; none unless they are asked for.
    pub executed: Vec<Executed>,
    one_by_one: bool,
    /// Sessions that were seen.
    pub seen: u64,
    /// Statements that are in no transaction of the mix, by why.
    pub left_out: BTreeMap<String, Unused>,
    /// The durations of all statements, in microseconds.
    pub time_us: u64,
    /// Statements that were read.
    pub statements: u64,
    /// Durations in a language that is not understood.
    pub not_understood: u64,
    /// The time of the first statement and of the last, in microseconds.
    pub span: Option<(i64, i64)>,
}

/// A session's part of a transaction.
#[derive(Default)]
struct Session {
    number: u64,
    /// The transaction that is open.
    steps: Vec<Step>,
    /// How long the client waited before each of them.
    pauses_us: Vec<u64>,
    /// The same since the last of them.
    waited_us: u64,
    /// When the last statement ended.
    step_ended_us: i64,
    /// Spent on preparing what comes next.
    preparing_us: u64,
    explicit: bool,
    /// Why it can't be part of the mix.
    spoilt: Option<String>,
    began_us: i64,
    took_us: u64,
    /// When the transaction before ended.
    idle_since_us: Option<i64>,
    think_us: Option<u64>,
    /// A statement that began and has not ended.
    pending: Option<Statement>,
    last_us: i64,
}

impl Sessions {
    /// None yet; the seed is that of the samples of parameters, of which so many are kept.
    pub fn new(wanted: Wanted, seed: u64, samples: usize) -> Self {
        Self {
            wanted,
            open: HashMap::new(),
            mix: Mix::new(seed, samples),
            executed: Vec::new(),
            one_by_one: false,
            seen: 0,
            left_out: BTreeMap::new(),
            time_us: 0,
            statements: 0,
            not_understood: 0,
            span: None,
        }
    }

    /// Keeps each transaction in `executed`, too.
    pub fn one_by_one(mut self) -> Self {
        self.one_by_one = true;
        self
    }

    /// Takes a record in.
    pub fn record(&mut self, record: &Record) {
        // A pooler need not pass the name on, and a record without a statement has no tag.
        if !self.wanted.is(record) || record.application == OBSERVER || record.message.contains(TAG)
        {
            return;
        }
        let Some(said) = said(record) else {
            return;
        };
        if said == Said::NotUnderstood {
            self.not_understood += 1;
            if let Some(session) = self.open.get_mut(&record.session)
                && session.explicit
            {
                session.spoil("a part of its transaction is logged in another language");
            }
            return;
        }
        if !self.open.contains_key(&record.session) {
            self.seen += 1;
            if self.open.len() >= MOST_SESSIONS {
                self.give_up_silent();
            }
        }
        let number = self.seen;
        let new = || Session {
            number,
            ..Session::default()
        };
        let session = self.open.entry(record.session.clone()).or_insert_with(new);
        session.last_us = record.at_us;
        match said {
            Said::Began(statement) => {
                let before = session.pending.replace(statement);
                if let Some(before) = before {
                    self.ended(record, before, 0);
                }
            }
            Said::Took(micros) => {
                if let Some(statement) = session.pending.take() {
                    self.ended(record, statement, micros);
                }
            }
            Said::Ended(statement, micros) => {
                session.pending = None;
                self.ended(record, statement, micros);
            }
            Said::Continued(micros) => {
                self.time_us += micros;
                session.took_us += micros;
                session.waited(record.at_us.saturating_sub(micros as i64), record.at_us);
            }
            Said::Prepared(micros) => {
                self.time_us += micros;
                session.took_us += micros;
                session.preparing_us += micros;
            }
            // The statement has a record of its own, where statements are logged.
            Said::Explained(..) => {}
            Said::Failed => {
                let failed = session.pending.take();
                let work = failed.is_some_and(|statement| !is_frame(&statement.text));
                session.spoil("its transaction failed");
                let explicit = session.explicit;
                if work {
                    self.statements += 1;
                    self.unused("it failed", 1, 0);
                }
                if !explicit {
                    self.over(record, false);
                }
            }
            Said::Left => self.left(&record.session.clone(), record),
            Said::NotUnderstood => {}
        }
    }

    /// A part of the log can't be read, and any session's statement may have been there: no transaction that is open
    /// is whole.
    pub fn gap(&mut self) {
        for session in self.open.values_mut().filter(|session| session.explicit) {
            session.spoil("a record within its transaction can't be read");
        }
    }

    /// The log is over: what is open is no whole transaction.
    pub fn end(&mut self) {
        let open: Vec<(String, Session)> = self.open.drain().collect();
        for (_, mut session) in open {
            session.spoil("its transaction goes on beyond the log");
            self.leave_out(&mut session);
        }
    }

    fn left(&mut self, name: &str, record: &Record) {
        if let Some(statement) = self
            .open
            .get_mut(name)
            .and_then(|session| session.pending.take())
        {
            self.ended(record, statement, 0);
        }
        if let Some(mut session) = self.open.remove(name) {
            session.spoil("its session ended within the transaction");
            self.leave_out(&mut session);
        }
    }

    fn give_up_silent(&mut self) {
        let mut last: Vec<i64> = self.open.values().map(|session| session.last_us).collect();
        let (_, middle, _) = last.select_nth_unstable(MOST_SESSIONS / 4);
        let before = *middle;
        self.open
            .retain(|_, session| session.last_us > before || session.explicit);
        if self.open.len() >= MOST_SESSIONS {
            self.open.clear();
        }
    }

    fn unused(&mut self, why: &str, statements: u64, took_us: u64) {
        let there = self.left_out.entry(why.to_owned()).or_default();
        there.statements += statements;
        there.took_us += took_us;
    }

    fn ended(&mut self, record: &Record, statement: Statement, micros: u64) {
        self.time_us += micros;
        self.statements += u64::from(!is_frame(&statement.text));
        let began = record.at_us.saturating_sub(micros as i64);
        let span = self.span.get_or_insert((began, record.at_us));
        *span = (span.0.min(began), span.1.max(record.at_us));
        let Some(session) = self.open.get_mut(&record.session) else {
            return;
        };
        if session.steps.is_empty() && !session.explicit {
            session.began_us = began;
            session.think_us = session
                .idle_since_us
                .and_then(|since| u64::try_from(began - since).ok());
        }
        session.took_us += micros;
        session.waited(began, record.at_us);
        let kind = kind_of(&statement);
        if let Some(doubt) = statement.doubt
            && (session.explicit || matches!(kind, Kind::Begin))
        {
            session.spoil(doubt.words());
        }
        match kind {
            Kind::Begin => {
                if session.explicit {
                    // BEGIN within a transaction is a warning.
                    return;
                }
                session.explicit = true;
                session.push(Step::plain(one_line(&statement.text)));
            }
            Kind::Commit => {
                if session.explicit {
                    session.push(Step::plain("COMMIT".to_owned()));
                    self.over(record, true);
                }
            }
            Kind::Rollback => {
                session.spoil("its transaction was rolled back");
                self.over(record, false);
            }
            Kind::Setting => {}
            Kind::Unfit(why) => {
                session.spoil(&why);
                // Its time is not its transaction's, which has a reason of its own.
                session.took_us = session.took_us.saturating_sub(micros);
                if !session.explicit {
                    session.steps.clear();
                    session.pauses_us.clear();
                    session.forget();
                }
                self.unused(&why, 1, micros);
            }
            Kind::Work => {
                let mut unfit = None;
                match step(&statement) {
                    Ok(step) => session.push(step),
                    Err(why) => {
                        session.spoil(why);
                        session.took_us = session.took_us.saturating_sub(micros);
                        unfit = Some(why);
                    }
                }
                if session.steps.len() > MOST_STEPS {
                    session.spoil("more than 200 statements in its transaction");
                }
                let explicit = session.explicit;
                if let Some(why) = unfit {
                    self.unused(why, 1, micros);
                }
                if !explicit {
                    self.over(record, true);
                }
            }
        }
    }

    fn over(&mut self, record: &Record, whole: bool) {
        let Some(session) = self.open.get_mut(&record.session) else {
            return;
        };
        let mut taken = std::mem::take(session);
        session.number = taken.number;
        session.last_us = record.at_us;
        session.idle_since_us = Some(record.at_us);
        if whole && taken.spoilt.is_none() && !taken.steps.is_empty() {
            let work = taken.steps.iter().filter(|step| step.is_work()).count() as u64;
            let values: Option<Vec<Seen>> = self.one_by_one.then(|| {
                let values = taken.steps.iter().flat_map(|step| step.values.iter());
                values.cloned().collect()
            });
            let took_us = taken.took_us;
            let added = self.mix.add(Transaction {
                steps: taken.steps,
                took_us: taken.took_us,
                think_us: taken.think_us,
            });
            if let (Some(kind), Some(values)) = (added, values) {
                self.executed.push(Executed {
                    session: taken.number,
                    at_us: taken.began_us,
                    took_us: u64::try_from(record.at_us - taken.began_us).unwrap_or(0),
                    kind,
                    values,
                    pauses_us: taken.pauses_us,
                });
            }
            if added.is_none() {
                self.unused("more than 20,000 kinds of transactions", work, took_us);
            }
        } else {
            self.leave_out(&mut taken);
        }
    }

    fn leave_out(&mut self, session: &mut Session) {
        let work = session.steps.iter().filter(|step| step.is_work()).count() as u64;
        if let (Some(why), 1..) = (session.spoilt.take(), work) {
            self.unused(&why, work, session.took_us);
        }
    }
}

impl Session {
    /// Adds a statement to the transaction that is open.
    fn push(&mut self, step: Step) {
        let waited = std::mem::take(&mut self.waited_us);
        self.pauses_us.push(match self.steps.is_empty() {
            true => 0,
            false => waited,
        });
        self.steps.push(step);
    }

    /// Counts the time between two statements in which the server had nothing to do.
    fn waited(&mut self, began_us: i64, ended_us: i64) {
        let since = began_us - self.step_ended_us;
        let preparing = std::mem::take(&mut self.preparing_us);
        self.waited_us += u64::try_from(since).unwrap_or(0).saturating_sub(preparing);
        self.step_ended_us = ended_us;
    }

    fn spoil(&mut self, why: &str) {
        self.spoilt.get_or_insert_with(|| why.to_owned());
    }

    fn forget(&mut self) {
        (self.spoilt, self.took_us, self.think_us) = (None, 0, None);
        self.idle_since_us = Some(self.last_us);
    }
}

/// Statements that are in no transaction of the mix.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unused {
    /// How many.
    pub statements: u64,
    /// How long they took, in microseconds.
    pub took_us: u64,
}

fn step(statement: &Statement) -> Result<Step, &'static str> {
    if is_of_cursor(&statement.text) {
        return Ok(Step::plain(one_line(&statement.text)));
    }
    let made = if statement.prepared {
        let template = Template::of_parameters(&statement.text, statement.parameters.len());
        template.map(|template| {
            let values = statement
                .parameters
                .iter()
                .map(|value| Seen::parameter(value.as_deref()));
            let values = values.take(template.variables()).collect();
            (template, values)
        })
    } else {
        Template::of_literals(&statement.text)
    };
    let (template, values) = made.map_err(|unfit| unfit.words())?;
    Ok(Step {
        template,
        values,
        prepared: statement.prepared,
    })
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text
        .trim()
        .trim_end_matches(';')
        .split_whitespace()
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of one session: time in ms, message, detail.
    fn read(lines: &[(i64, &str, &str)]) -> Sessions {
        let mut sessions = Sessions::new(Wanted::default(), 1, 10).one_by_one();
        for (at, message, detail) in lines {
            let severity = if message.starts_with("duration") || message.starts_with("disc") {
                "LOG"
            } else {
                "ERROR"
            };
            sessions.record(&Record {
                at_us: at * 1000,
                session: "1".to_owned(),
                severity: severity.to_owned(),
                message: (*message).to_owned(),
                detail: (*detail).to_owned(),
                ..Record::default()
            });
        }
        sessions.end();
        sessions
    }

    #[test]
    fn transactions_are_put_together_with_their_values_and_pauses() {
        let sessions = read(&[
            (
                10,
                "duration: 1.000 ms  statement: SELECT a FROM t WHERE k = 1",
                "",
            ),
            (30, "duration: 1.000 ms  statement: BEGIN", ""),
            (
                32,
                "duration: 1.000 ms  execute s: UPDATE t SET a = $1 WHERE k = $2",
                "parameters: $1 = 'x', $2 = '2'",
            ),
            (34, "duration: 1.000 ms  statement: COMMIT", ""),
            (
                54,
                "duration: 1.000 ms  statement: SELECT a FROM t WHERE k = 3",
                "",
            ),
            (
                60,
                "duration: 1.000 ms  statement: SET work_mem = '1GB'",
                "",
            ),
        ]);
        let mix = sessions.mix.entries();
        assert_eq!(mix.len(), 2);
        let single = mix.iter().find(|entry| entry.count == 2).unwrap();
        assert_eq!(single.steps.len(), 1);
        assert_eq!(single.mean_think_us(), Some(19_000.0));
        let update = mix.iter().find(|entry| entry.count == 1).unwrap();
        assert_eq!(update.steps.len(), 3);
        assert_eq!(update.mean_think_us(), Some(19_000.0));
        assert_eq!(update.rows.len(), 1);
        assert!(sessions.left_out.is_empty(), "{:?}", sessions.left_out);
        assert_eq!(sessions.span, Some((9_000, 60_000)));
        let executed: Vec<_> = sessions
            .executed
            .iter()
            .map(|one| (one.session, one.at_us, one.took_us, one.kind))
            .collect();
        assert_eq!(
            executed,
            [
                (1, 9_000, 1_000, 0),
                (1, 29_000, 5_000, 1),
                (1, 53_000, 1_000, 0)
            ]
        );
        assert_eq!(sessions.executed[1].pauses_us, [0, 1_000, 1_000]);
        assert_eq!(sessions.executed[1].values.len(), 2);
    }

    #[test]
    fn damaged_statements_and_other_languages_spoil_their_transactions_alone() {
        let sessions = read(&[
            (1, "duration: 1 ms  statement: SELECT 'a\0b'", ""),
            (2, "duration: 1 ms  statement: BEGIN", ""),
            (
                3,
                "duration: 1 ms  execute s: SELECT $1",
                "parameters: $1 = 'x\0'",
            ),
            (4, "duration: 1 ms  statement: COMMIT", ""),
            (5, "duration: 1 ms  statement: BEGIN", ""),
            (6, "duration: 1,5 ms  Anweisung: SELECT 8", ""),
            (7, "duration: 1 ms  statement: SELECT 9", ""),
            (8, "duration: 1 ms  statement: COMMIT", ""),
            (9, "duration: 1 ms  statement: SELECT 7", ""),
        ]);
        assert_eq!(sessions.mix.entries().len(), 1, "the last");
        assert_eq!(sessions.executed.len(), 1);
        assert_eq!(sessions.left_out["a zero byte in its text"].statements, 2);
        let language = "a part of its transaction is logged in another language";
        assert_eq!(sessions.left_out[language].statements, 1);
        assert_eq!(sessions.not_understood, 1);
    }

    #[test]
    fn cancelled_statements_fail_in_either_protocol() {
        let cancelled = "canceling statement due to user request";
        let sessions = read(&[
            (1, "duration: 1 ms  parse s: SELECT pg_sleep($1)", ""),
            (2, cancelled, ""),
            (3, "duration: 1 ms  statement: SELECT 1", ""),
            (4, "duration: 1 ms  statement: BEGIN", ""),
            (5, "duration: 1 ms  statement: SELECT 2", ""),
            (6, cancelled, ""),
            // The server's answer to COMMIT is ROLLBACK.
            (7, "duration: 1 ms  statement: COMMIT", ""),
            (8, "duration: 1 ms  statement: BEGIN", ""),
            (9, "terminating connection due to administrator command", ""),
            (10, "disconnection: session time: 0:00:00.010", ""),
            (11, "duration: 1 ms  statement: SELECT 1", ""),
        ]);
        let [only] = sessions.mix.entries() else {
            panic!("{:?}", sessions.mix.entries());
        };
        assert_eq!(only.count, 2);
        assert_eq!(sessions.left_out["its transaction failed"].statements, 1);
        let sessions_of: Vec<u64> = sessions.executed.iter().map(|one| one.session).collect();
        assert_eq!(sessions_of, [1, 2], "the second has its own number");
    }

    #[test]
    fn cursors_stay_in_their_transaction_and_copy_is_reported_with_its_time() {
        let sessions = read(&[
            (1, "duration: 1 ms  statement: BEGIN", ""),
            (
                3,
                "duration: 1 ms  statement: DECLARE c CURSOR FOR SELECT a FROM t WHERE k > 7",
                "",
            ),
            (5, "duration: 1 ms  statement: FETCH FORWARD 100 FROM c", ""),
            (7, "duration: 1 ms  statement: CLOSE c", ""),
            (9, "duration: 1 ms  statement: COMMIT", ""),
            (30, "duration: 15 ms  statement: COPY t FROM STDIN", ""),
        ]);
        let [cursor] = sessions.mix.entries() else {
            panic!("{:?}", sessions.mix.entries());
        };
        assert_eq!((cursor.count, cursor.steps.len()), (1, 5));
        assert_eq!(cursor.steps[2].variables(), 0, "FETCH takes no parameter");
        let copy = sessions.left_out["COPY, whose rows are not in the log"];
        assert_eq!(
            (copy.statements, copy.took_us, sessions.time_us),
            (1, 15_000, 20_000)
        );
    }

    #[test]
    fn what_failed_was_rolled_back_or_is_no_load_is_left_out() {
        let sessions = read(&[
            (1, "duration: 1 ms  statement: BEGIN", ""),
            (2, "duration: 1 ms  statement: SELECT 1", ""),
            (3, "no such table", ""),
            (4, "duration: 1 ms  statement: ROLLBACK", ""),
            (5, "duration: 1 ms  statement: VACUUM t", ""),
            (6, "duration: 1 ms  statement: SELECT 1; SELECT 2", ""),
            (7, "duration: 1 ms  statement: BEGIN", ""),
            (8, "duration: 1 ms  statement: SELECT 3", ""),
        ]);
        assert!(sessions.mix.entries().is_empty());
        let whys: Vec<&str> = sessions.left_out.keys().map(String::as_str).collect();
        assert_eq!(
            whys,
            [
                "VACUUM is no statement of a load",
                "its transaction failed",
                "its transaction goes on beyond the log",
                "several statements in one message"
            ]
        );
    }
}
