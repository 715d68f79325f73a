//! Statements of our own load, executed a few times more: EXPLAIN ANALYZE with values that the load may send, in a
//! transaction that is rolled back. What each node of the plan really did is counted so, and not expected.
//!
//! The load sends the same statement all the time, so that no other work is done than it does; it may take as long as there, up
//! to a limit. The session is like the load's (role, settings, search path) and used for nothing else. Transactions are read-only
//! unless the statement writes; what a rollback does not take back (sequences, dead rows, WAL) stays as it does of the load.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use pgassay_pgwire::{Conninfo, QueryError, Session, connect};
use pgassay_statements::log::plan::{LoggedPlan, plan};
use pgassay_text::normalise::normalise;
use pgassay_text::quote::quote_literal;
use serde_json::Value;

use super::statements::Example;
use pgassay_text::sql::before_token;

/// A statement as the load may send it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Its text, as the server sees it.
    pub sql: String,
    /// The values of its parameters, as text; none for NULL.
    pub values: Vec<Option<String>>,
    /// Whether the server keeps it, prepared, so that it may choose a generic plan.
    pub prepared: bool,
    /// What its session has set before it (SET, set_config), in order.
    before: Vec<Sent>,
}

impl Sent {
    /// A statement with the values of its parameters.
    pub fn new(sql: String, values: Vec<Option<String>>, prepared: bool) -> Self {
        Self {
            sql,
            values,
            prepared,
            before: Vec::new(),
        }
    }

    /// The statements of a transaction, each with what those before it set.
    pub fn in_order(all: impl Iterator<Item = Self>) -> Vec<Self> {
        let mut before: Vec<Self> = Vec::new();
        all.map(|mut sent| {
            sent.before.clone_from(&before);
            if sent.sets() && before.len() < SETTINGS {
                before.push(Self {
                    before: Vec::new(),
                    ..sent.clone()
                });
            }
            sent
        })
        .collect()
    }

    /// Whether it sets something for those that follow, other than how long they may take.
    fn sets(&self) -> bool {
        let text = normalise(&self.sql).text.to_ascii_lowercase();
        match text.strip_prefix("set ") {
            Some(set) => {
                let set = set
                    .trim_start_matches("local ")
                    .trim_start_matches("session ");
                let name = set.split([' ', '=']).next().unwrap_or_default();
                !name.ends_with("timeout") && name != "transaction" && name != "constraints"
            }
            None => {
                text.starts_with("select set_config(")
                    || text.starts_with("select pg_catalog.set_config(")
            }
        }
    }

    /// Whether what was set before it may have changed the role that executes it.
    pub(super) fn may_change_role(&self) -> bool {
        self.before.iter().any(|set| {
            let text = set.sql.to_ascii_lowercase();
            let values = set.values.iter().flatten().map(|v| v.to_ascii_lowercase());
            let mut all = std::iter::once(text).chain(values);
            all.any(|text| text.contains("role") || text.contains("authorization"))
        })
    }

    /// Sets what was set before it.
    pub(super) fn prelude(&self, session: &mut Session) -> Result<(), QueryError> {
        for set in &self.before {
            let text = set.sql.trim_start().to_ascii_lowercase();
            if text.starts_with("set") {
                session.execute_single(&set.sql)?;
                continue;
            }
            session.execute_single(&format!("PREPARE pgassay_before AS {}", set.sql))?;
            let ran = session.execute(&format!("EXECUTE pgassay_before{}", set.arguments()));
            if ran.is_ok() {
                session.execute("DEALLOCATE pgassay_before")?;
            }
            ran?;
        }
        Ok(())
    }

    /// The values as EXECUTE takes them.
    pub(super) fn arguments(&self) -> String {
        let literal = |value: &Option<String>| {
            value
                .as_ref()
                .map_or("NULL".to_owned(), |v| quote_literal(v))
        };
        match self.values.as_slice() {
            [] => String::new(),
            values => format!(
                "({})",
                values.iter().map(literal).collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

/// The statements of a load, each with several draws of its values.
#[derive(Debug, Default)]
pub(super) struct OfLoad {
    by_id: HashMap<String, Vec<Sent>>,
    /// How its sessions connect.
    conninfo: Option<Conninfo>,
    /// How long executing them has taken.
    spent: Duration,
}

/// Draws of a statement that are kept.
const DRAWS: usize = 3;
/// Settings of a transaction that are carried over.
const SETTINGS: usize = 20;
/// Statements that are.
const STATEMENTS: usize = 2000;
/// Characters without literals by which statements are the same, where the server keeps their beginning only.
const ALIKE: usize = 400;
/// Bytes of a statement that a server keeps at least (`track_activity_query_size`, with an end).
const LEAST_KEPT: usize = 99;
/// Verbs of statements that write.
const WRITES: &[&str] = &["INSERT", "UPDATE", "DELETE", "MERGE"];
/// How long a statement may take, and from when on no further draw of it is executed.
const LONGEST_MS: u32 = 5000;
const ENOUGH: Duration = Duration::from_secs(1);
/// From when on nothing more is executed in a run, and statements up to which functions are looked into.
const SPENT: Duration = Duration::from_secs(20);
const SHORT_MS: f64 = 1000.0;
/// How long an answer is waited for at most.
const ANSWERED: Duration = Duration::from_secs(10);
/// The mode of a transaction that only reads.
const READS: &str = " READ ONLY";
/// read_only_sql_transaction (manual, "PostgreSQL Error Codes").
const READ_ONLY: &str = "25006";
/// Custom plans that the server makes before it considers a generic one (plancache.c, `choose_custom_plan`).
const CUSTOM_PLANS: usize = 5;

impl OfLoad {
    pub fn new(conninfo: Conninfo) -> Self {
        Self {
            conninfo: Some(conninfo),
            ..Self::default()
        }
    }

    pub fn add(&mut self, sent: Sent) {
        let normalised = normalise(&sent.sql);
        if normalised.several || normalised.cut || !begins_with(&sent.sql, PLANNED) {
            return;
        }
        if self.by_id.len() < STATEMENTS || self.by_id.contains_key(&normalised.id) {
            let draws = self.by_id.entry(normalised.id).or_default();
            if draws.len() < DRAWS {
                draws.push(sent);
            }
        }
    }

    /// Draws of a statement, if it is one of the load's; of one of which the server has the beginning only, if no
    /// other begins so.
    fn draws(&self, id: &str, example: &Example) -> Option<&[Sent]> {
        if let Some(known) = self.by_id.get(id) {
            return Some(known);
        }
        let kept = example.sql.len();
        let mut alike = self.by_id.values().filter(|sent| {
            let longer = sent
                .first()
                .filter(|sent| kept >= LEAST_KEPT && sent.sql.len() > kept);
            longer.is_some_and(|sent| {
                begin_alike(&example.normalised.text, &normalise(&sent.sql).text)
            })
        });
        let found = alike.next()?;
        alike.next().is_none().then_some(found)
    }

    /// Executes a statement, if it is one of the load's and executing others has not taken long.
    pub fn execute(&mut self, id: &str, example: &Example) -> Option<Result<Executed, String>> {
        let draws = self.draws(id, example)?;
        let conninfo = self.conninfo.as_ref()?;
        if self.spent >= SPENT {
            return Some(Err("others of the load took long to execute".to_owned()));
        }
        let begin = Instant::now();
        let executed = execute(conninfo, draws);
        self.spent += begin.elapsed();
        Some(executed)
    }
}

/// Whether two statements without literals are the same as far as the server keeps long ones.
fn begin_alike(one: &str, other: &str) -> bool {
    let begin = |text: &str| {
        text.char_indices()
            .nth(ALIKE)
            .map(|(end, _)| text[..end].to_owned())
    };
    begin(one).is_some_and(|begins| begin(other) == Some(begins))
}

/// Statements that have a plan.
pub(super) const PLANNED: &[&str] = &[
    "SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES", "TABLE",
];

/// Whether a statement begins with one of these verbs, whatever comments stand before.
pub(super) fn begins_with(sql: &str, verbs: &[&str]) -> bool {
    let begin = &sql[before_token(sql)..];
    let end = begin.find(|c: char| !c.is_ascii_alphabetic());
    let verb = &begin[..end.unwrap_or(begin.len())];
    verbs.iter().any(|known| verb.eq_ignore_ascii_case(known))
}

/// An execution: which draw, what EXPLAIN said, and the session in which it was.
pub(super) struct Executed {
    pub sent: Sent,
    pub said: Value,
    /// Of its transaction.
    mode: &'static str,
    session: Session,
}

impl Executed {
    /// Milliseconds of the execution.
    pub fn ms(&self) -> f64 {
        ms(&self.said)
    }

    /// Whether it is quick and only reads, so that it may run a few times more.
    pub fn is_repeatable(&self) -> bool {
        self.mode == READS && self.ms() <= SHORT_MS
    }

    /// What EXPLAIN says of another execution, under these settings, with its milliseconds, planning included where the server
    /// does not keep the plan; none where it failed.
    pub fn again(&mut self, settings: &str) -> Option<(Value, f64)> {
        let said = once(&mut self.session, &self.sent, settings, &mut self.mode).ok()?;
        let planned = said["Planning Time"]
            .as_f64()
            .filter(|_| !self.sent.prepared);
        let ms = ms(&said) + planned.unwrap_or(0.0);
        Some((said, ms))
    }

    /// Its session, between executions.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }
}

/// Executes draws of a statement, and gives the one that took the middle of their times.
///
/// # Errors
/// Why none was executed to its end.
fn execute(conninfo: &Conninfo, draws: &[Sent]) -> Result<Executed, String> {
    let mut session = connect(conninfo).map_err(|error| error.to_string())?;
    session.set_read_timeout(Some(ANSWERED));
    let begin = Instant::now();
    let mut executed = Vec::new();
    let mut why = "no draw of its values".to_owned();
    let mut mode = READS;
    for sent in draws {
        if begins_with(&sent.sql, WRITES) {
            mode = "";
        }
        match once(&mut session, sent, "", &mut mode) {
            Ok(said) => executed.push((sent, said)),
            Err(error) => why = error,
        }
        if begin.elapsed() >= ENOUGH {
            break;
        }
    }
    executed.sort_by(|a, b| ms(&a.1).total_cmp(&ms(&b.1)));
    let middle = executed.len().checked_sub(1).ok_or(why)? / 2;
    let (sent, said) = executed.swap_remove(middle);
    Ok(Executed {
        sent: sent.clone(),
        said,
        mode,
        session,
    })
}

/// Milliseconds of an execution.
fn ms(said: &Value) -> f64 {
    said["Execution Time"].as_f64().unwrap_or(0.0)
}

/// Executes a statement in this mode of a transaction; read-only, unless the server then says that it writes.
fn once(
    session: &mut Session,
    sent: &Sent,
    settings: &str,
    mode: &mut &'static str,
) -> Result<Value, String> {
    let said = match execution(session, sent, settings, mode) {
        Err(error) if !mode.is_empty() && error.sqlstate() == Some(READ_ONLY) => {
            *mode = "";
            execution(session, sent, settings, mode)
        }
        said => said,
    };
    // The server's words may hold values.
    let text = said.map_err(|error| match error.sqlstate() {
        Some(state) => format!("the server refused it (SQLSTATE {state})"),
        None => error.to_string(),
    })?;
    let mut explained: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let top = explained.get_mut(0).ok_or("EXPLAIN gave nothing")?;
    Ok(top.take())
}

fn execution(
    session: &mut Session,
    sent: &Sent,
    settings: &str,
    mode: &str,
) -> Result<String, QueryError> {
    session.execute(&format!(
        "BEGIN{mode}; SET LOCAL statement_timeout = {LONGEST_MS}; SET LOCAL lock_timeout = 200"
    ))?;
    let prepare = format!("PREPARE pgassay_executed AS {}", sent.sql);
    let prelude = sent.prelude(session);
    let prepared = prelude.and_then(|()| session.execute_single(&prepare));
    let is_prepared = prepared.is_ok();
    let said = prepared.and_then(|()| within(session, sent, settings));
    let ended = session.execute("ROLLBACK");
    // Prepared statements are no part of the transaction.
    if is_prepared && ended.is_ok() {
        session.execute("DEALLOCATE pgassay_executed")?;
    }
    said
}

fn within(session: &mut Session, sent: &Sent, settings: &str) -> Result<String, QueryError> {
    let execute = format!("EXECUTE pgassay_executed{}", sent.arguments());
    if sent.prepared && !sent.values.is_empty() {
        for _ in 0..CUSTOM_PLANS {
            session.execute(&format!("EXPLAIN {execute}"))?;
        }
    }
    if !settings.is_empty() {
        session.execute(settings)?;
    }
    let text = session.value(&format!(
        "EXPLAIN (ANALYZE, VERBOSE, BUFFERS, FORMAT JSON) {execute}"
    ))?;
    Ok(text.unwrap_or_default())
}

/// A statement that ran within functions of another.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Inner {
    /// Its text, with its literals.
    pub text: String,
    /// How often it ran, and milliseconds of all times.
    pub calls: u32,
    pub ms: f64,
    /// Of the longest run.
    longest_ms: f64,
    /// The topmost node of its plan as it ran, where that was asked for.
    pub root: Option<Value>,
}

/// Notices that are read of an execution, and those with plans as they ran.
const NOTICES: usize = 20_000;
const PLANS: usize = 1000;
/// Statements within functions that are kept, those with most time.
const INNER: usize = 3;

/// The statements that ran within functions and triggers of a statement, those with most time first, the first with
/// its plan. The server tells of them by auto_explain, in this session alone: to load it takes a superuser.
pub(super) fn inner(executed: &mut Executed, not_observed: &mut Vec<String>) -> Vec<Inner> {
    if executed.ms() > SHORT_MS {
        return Vec::new();
    }
    let Executed {
        sent,
        mode,
        session,
        ..
    } = executed;
    let is_superuser = session.parameter("is_superuser") == Some("on");
    // From 12 on auto_explain writes to the client.
    if session.major().is_none_or(|major| major < 12) || !is_superuser {
        return Vec::new();
    }
    let mut failed = |why: String| not_observed.push(format!("statements within functions: {why}"));
    if let Err(error) = session.execute("LOAD 'auto_explain'") {
        failed(error.to_string());
        return Vec::new();
    }
    let mut told = |settings: &str, limit: usize| {
        session.take_notices();
        session.set_notice_limit(limit);
        let settings = format!(
            "SET LOCAL auto_explain.log_nested_statements = on; SET LOCAL auto_explain.log_level = notice; \
             SET LOCAL client_min_messages = notice; SET LOCAL log_min_messages = error; \
             SET LOCAL auto_explain.sample_rate = 1; {settings}"
        );
        let ran = once(session, sent, &settings, mode);
        session.set_notice_limit(100);
        let notices = session.take_notices();
        ran.map(|_| notices)
            .map_err(&mut failed)
            .unwrap_or_default()
    };
    let notices = told(
        "SET LOCAL auto_explain.log_min_duration = 0; SET LOCAL auto_explain.log_format = text; \
         SET LOCAL auto_explain.log_analyze = off; SET LOCAL auto_explain.log_verbose = off",
        NOTICES,
    );
    let mut all: HashMap<String, Inner> = HashMap::new();
    for notice in &notices {
        let Some((ms, plan)) = explained(&notice.message) else {
            continue;
        };
        let inner = all.entry(normalise(&plan.query).id).or_default();
        inner.calls += 1;
        inner.ms += ms;
        if ms >= inner.longest_ms {
            (inner.longest_ms, inner.text) = (ms, plan.query);
        }
    }
    let mut all: Vec<Inner> = all.into_values().collect();
    all.sort_by(|a, b| b.ms.total_cmp(&a.ms).then(a.text.cmp(&b.text)));
    all.truncate(INNER);
    if let Some(first) = all.first_mut() {
        let id = normalise(&first.text).id;
        // Of one that takes long those that are no shorter than usual; else any.
        let usual = (first.ms / f64::from(first.calls.max(1))).floor();
        let settings = format!(
            "SET LOCAL auto_explain.log_min_duration = {usual}; SET LOCAL auto_explain.log_format = json; \
             SET LOCAL auto_explain.log_analyze = on; SET LOCAL auto_explain.log_buffers = on; \
             SET LOCAL auto_explain.log_verbose = on"
        );
        let notices = told(&settings, PLANS);
        let plans = notices
            .iter()
            .filter_map(|notice| explained(&notice.message));
        let of_it = plans.filter(|(_, plan)| normalise(&plan.query).id == id);
        let longest = of_it.max_by(|a, b| a.0.total_cmp(&b.0));
        first.root = longest.map(|(_, plan)| plan.root);
    }
    all
}

/// What auto_explain says: milliseconds, and the plan; none of the statement that was sent itself.
fn explained(message: &str) -> Option<(f64, LoggedPlan)> {
    let (ms, rest) = message.strip_prefix("duration: ")?.split_once(" ms")?;
    let plan = plan(rest.trim_start())?;
    let own = ["EXPLAIN", "PREPARE"];
    let is_own = own.iter().any(|own| plan.query.starts_with(own));
    (!is_own).then_some((ms.parse().ok()?, plan))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(sql: &str, values: &[Option<&str>]) -> Sent {
        let values = values.iter().map(|v| v.map(str::to_owned)).collect();
        Sent::new(sql.to_owned(), values, true)
    }

    #[test]
    fn what_a_transaction_sets_is_set_before_its_statements() {
        let all = [
            "BEGIN",
            "SET LOCAL search_path = a",
            "SET statement_timeout = 3",
            "SELECT set_config($1, $2, true)",
            "SELECT 1",
        ];
        let all = Sent::in_order(all.iter().map(|sql| sent(sql, &[])));
        let before: Vec<&str> = all[4].before.iter().map(|sent| sent.sql.as_str()).collect();
        assert_eq!(
            before,
            [
                "SET LOCAL search_path = a",
                "SELECT set_config($1, $2, true)"
            ]
        );
        assert!(all[1].before.is_empty());
    }

    #[test]
    fn a_long_statement_is_known_by_its_beginning() {
        let pairs = |n: usize| {
            format!(
                "SELECT a FROM t WHERE {}",
                vec!["b = $1 AND c = $2"; n].join(" OR ")
            )
        };
        assert!(begin_alike(&pairs(30), &pairs(90)));
        assert!(!begin_alike(&pairs(3), &pairs(3)));
        assert!(!begin_alike(
            &pairs(30),
            &pairs(30).replacen("c =", "d =", 1)
        ));
    }

    #[test]
    fn values_are_literals() {
        let one = sent("SELECT $1, $2", &[Some("it's"), None]);
        assert_eq!(one.arguments(), "('it''s', NULL)");
        assert_eq!(sent("SELECT 1", &[]).arguments(), "");
    }

    #[test]
    fn what_ran_within_functions_is_told_from_the_statement_itself() {
        let told = |query: &str| {
            let text = format!(
                "duration: 1.250 ms  plan:\nQuery Text: {query}\nSeq Scan on t  (cost=0.00..1.00 rows=3 width=4)"
            );
            explained(&text).map(|(ms, plan)| (ms, plan.query))
        };
        let expected = Some((1.25, "SELECT a FROM t WHERE b = x".to_owned()));
        assert_eq!(told("SELECT a FROM t WHERE b = x"), expected);
        assert_eq!(told("PREPARE pgassay_executed AS SELECT f($1)"), None);
        assert_eq!(told("EXPLAIN (ANALYZE) EXECUTE pgassay_executed(3)"), None);
        assert_eq!(explained("table \"t\" does not exist, skipping"), None);
    }

    #[test]
    fn draws_are_found_by_the_statement_without_its_literals() {
        let mut all = OfLoad::new(Conninfo::parse("host=/run").unwrap());
        for value in 1..9 {
            all.add(sent(&format!("SELECT a FROM t WHERE b = {value};"), &[]));
        }
        all.add(sent("SELECT 1; DROP TABLE t", &[]));
        all.add(sent(
            "/* of a framework */ SELECT a FROM t WHERE b = 9",
            &[],
        ));
        all.add(sent("END", &[]));
        all.add(sent("TRUNCATE t", &[]));
        let example = |sql: &str| Example {
            sql: sql.to_owned(),
            normalised: normalise(sql),
            database: None,
            role: None,
        };
        let seen = example("select a from t where b = 77");
        assert_eq!(all.draws(&seen.normalised.id, &seen).unwrap().len(), DRAWS);
        assert_eq!(all.by_id.len(), 1);

        let pairs = |n: usize| {
            format!(
                "SELECT a FROM t WHERE {}",
                vec!["b = 1 AND c = 2"; n].join(" OR ")
            )
        };
        all.add(sent(&pairs(90), &[]));
        let kept = example(&pairs(90)[..1023]);
        assert!(all.draws("of the beginning", &kept).is_some());
        assert!(all.draws("a whole one", &example(&pairs(91))).is_none());
        all.add(sent(&(pairs(90) + " ORDER BY a"), &[]));
        assert!(all.draws("two begin so", &kept).is_none());
    }
}
