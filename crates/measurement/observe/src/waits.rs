//! Wait events of all sessions, sampled by a session of its own within each window.
//!
//! One statement a sample counts the sessions by state, wait event and the statement that they
//! are in, in the server, so that a thousand of them are a dozen rows. Sessions that observe, those of another
//! pgassay included, are not counted.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pgassay_model::observed::Cost;
use pgassay_model::observed::blockers::BlockerRecord;
use pgassay_model::observed::statements::StatementRecord;
use pgassay_model::observed::waits::{OTHER_CLIENT, WaitKey, WaitRecord};
use pgassay_pgwire::{Connector, Conninfo, ResultSet, Session};
use pgassay_text::own::{OBSERVER, TAG};

use super::blockers::Looking;
use super::cpu::{process_ns, thread_ns};
use super::perf::online_cpus;
use super::shared_cpu::SharedCpuSampler;
use super::statements::{Example, Origin, Sightings};

/// Sessions in a statement. The statement is read again whenever the search_path is another, so that
/// its names and operators bear their schema.
const RUNNING: &str = "(state OPERATOR(pg_catalog.=) 'active' \
     OR state OPERATOR(pg_catalog.=) 'fastpath function call')";

/// Looks a second.
pub const RATE_HZ: f64 = 25.0;
/// Share of the machine's CPUs beyond which looking at all sessions so often costs too much:
/// to older servers a look costs the square of their sessions. All observers together have 1 %.
const TOO_MUCH: f64 = 0.007;
/// What the looks are then brought down to, by fewer of them a second.
const MODEST: f64 = 0.003;
/// Fewer looks a second would show nothing.
const LEAST_HZ: f64 = 0.5;
/// A server that does not answer for so long is not asked any more.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was seen in a window.
pub struct Seen {
    /// Wait events.
    pub waits: WaitRecord,
    /// Statements.
    pub statements: StatementRecord,
    /// Statements of others beside the load: sessions of other programs, and workers of autovacuum.
    pub beside: StatementRecord,
    /// Who held up whom.
    pub blockers: BlockerRecord,
    /// What it cost.
    pub cost: Cost,
    /// Why texts of statements are missing.
    pub unread: Option<String>,
}

/// The sampling thread; dropping it ends it.
pub struct WaitSampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// When the present window began; none between windows.
    window: Option<Instant>,
    ended: bool,
    record: WaitRecord,
    statements: Sightings,
    beside: Sightings,
    blockers: BlockerRecord,
    own_ns: u64,
    asked: u64,
    /// The backend that answers, and its CPU time when the window began.
    backend: Option<u32>,
    backend_ns: Option<u64>,
    failure: Option<String>,
    /// Why texts of statements were not read.
    unread: Option<String>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitSampler {
    /// Starts the thread. `beside` are backends of pgassay that are not counted; `postmaster` is set where the
    /// server runs on this machine; with `apart`, sessions of other programs do not count as the load.
    pub fn start(
        conninfo: &Conninfo,
        rate_hz: f64,
        beside: Vec<i32>,
        postmaster: Option<u32>,
        apart: bool,
    ) -> Result<Self, String> {
        let shared = Arc::new(Shared::default());
        let connector = Connector::new(&conninfo.observing());
        let thread = {
            let shared = Arc::clone(&shared);
            thread::Builder::new()
                .name("waits".into())
                .spawn(move || work(&shared, &connector, rate_hz, &beside, (postmaster, apart)))
                .map_err(|e| format!("no thread: {e}"))?
        };
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// A window begins.
    pub fn begin(&self) {
        let mut state = self.shared.state();
        state.record = WaitRecord::default();
        state.statements.begin();
        state.beside.begin();
        state.blockers = BlockerRecord::default();
        state.own_ns = 0;
        state.asked = 0;
        state.backend_ns = state.backend.and_then(process_ns);
        state.window = Some(Instant::now());
        self.shared.changed.notify_all();
    }

    /// A statement as somebody sent it, by its id.
    pub fn example(&self, id: &str) -> Option<Example> {
        self.shared.state().statements.example(id).cloned()
    }

    /// The window ends: what was seen in it, or why nothing was.
    pub fn end(&self) -> Result<Seen, String> {
        let mut state = self.shared.state();
        state.window = None;
        self.shared.changed.notify_all();
        let record = std::mem::take(&mut state.record);
        if record.seconds.is_empty() {
            let why = state.failure.clone();
            return Err(why.unwrap_or_else(|| "the window was too short for a sample".to_owned()));
        }
        let after = state.backend.and_then(process_ns);
        let server_ns = match (state.backend_ns, after) {
            (Some(before), Some(after)) => after.saturating_sub(before),
            _ => 0,
        };
        let cost = Cost {
            observer: "waits".to_owned(),
            own_ns: state.own_ns,
            server_ns,
            statements: state.asked,
        };
        Ok(Seen {
            waits: record,
            statements: state.statements.end(),
            beside: state.beside.end(),
            blockers: std::mem::take(&mut state.blockers),
            cost,
            unread: state.unread.take(),
        })
    }
}

impl Drop for WaitSampler {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the sampler costs its samples, not the run.
            let _ = thread.join();
        }
    }
}

fn work(
    shared: &Shared,
    connector: &Connector,
    rate_hz: f64,
    beside: &[i32],
    (postmaster, apart): (Option<u32>, bool),
) {
    let local = postmaster.is_some();
    let mut session = open(shared, connector, beside, local);
    let first = Duration::from_secs_f64(0.5 / rate_hz);
    let cpus = online_cpus().len() as f64;
    let mut look_seconds = None;
    let mut looking = Looking::default();
    let mut loaded = false;
    let mut cpus_shared = SharedCpuSampler::default();
    loop {
        let window = {
            let mut state = shared.state();
            loop {
                if state.ended {
                    return;
                }
                if let Some(window) = state.window {
                    break window;
                }
                state = shared
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        };
        if session.is_none() {
            session = open(shared, connector, beside, local);
        }
        let begun = thread_ns();
        cpus_shared.begin();
        let mut next = window + first;
        while sleep_until(shared, next, window) {
            let Some((open, question)) = &mut session else {
                // Nobody to ask in this window.
                next += Duration::from_secs(1);
                continue;
            };
            let rate = affordable(rate_hz, look_seconds, cpus);
            let period = Duration::from_secs_f64(1.0 / rate);
            let spent = || thread_ns() + backend(shared).and_then(process_ns).unwrap_or(0);
            let before = spent();
            let observes =
                |pid: u32| Some(pid) == backend(shared) || beside.contains(&(pid as i32));
            let shared_cpu = postmaster.and_then(|pid| cpus_shared.sample(pid, observes));
            let mut queues = false;
            match look(open, question, apart.then_some(&mut loaded)) {
                Ok(look) => {
                    queues = look.queues();
                    let cost = spent().saturating_sub(before) as f64 / 1e9;
                    // A look that was interrupted, or met a cold cache, is not what they cost.
                    look_seconds = Some(look_seconds.map_or(cost, |s: f64| 0.8 * s + 0.2 * cost));
                    let mut state = shared.state();
                    if state.window == Some(window) {
                        let second = window.elapsed().as_secs() as usize;
                        state.record.rate_hz = rate;
                        state.record.add(second, look.seen);
                        if let Some(seen) = shared_cpu {
                            let sum = state.record.shared_cpu.get_or_insert_default();
                            sum.ran += seen.ran;
                            sum.shared += seen.shared;
                        }
                        state.statements.look(look.within);
                        state.beside.look(look.beside);
                        state.own_ns = thread_ns().saturating_sub(begun);
                        state.asked += 1;
                    }
                }
                Err(why) => {
                    shared.state().failure = Some(why);
                    session = None;
                }
            }
            if let Some((open, _)) = &mut session {
                learn(shared, open);
                if queues && looking.is_due() {
                    let seen = looking.ask(open);
                    let mut state = shared.state();
                    state.asked += 1;
                    match seen {
                        Ok(holders) => state.blockers.add(holders),
                        Err(why) => state.blockers.unread = Some(why),
                    }
                }
            }
            next += period;
            let now = Instant::now();
            if next < now {
                // Late ones are left out rather than made up for: a burst would see one moment.
                let missed = (now - next).as_nanos() / period.as_nanos().max(1) + 1;
                next += period * u32::try_from(missed).unwrap_or(u32::MAX);
            }
        }
    }
}

/// Looks a second, where one costs so many seconds of CPU time, the server's included as far
/// as its process can be seen.
fn affordable(wanted_hz: f64, look_seconds: Option<f64>, cpus: f64) -> f64 {
    match look_seconds {
        Some(seconds) if seconds * wanted_hz > TOO_MUCH * cpus => {
            (MODEST * cpus / seconds).clamp(LEAST_HZ.min(wanted_hz), wanted_hz)
        }
        _ => wanted_hz,
    }
}

/// The backend that answers, where it can be seen.
fn backend(shared: &Shared) -> Option<u32> {
    shared.state().backend
}

/// Waits for the next sample's time; false where the window is over.
fn sleep_until(shared: &Shared, at: Instant, window: Instant) -> bool {
    let mut state = shared.state();
    loop {
        if state.ended || state.window != Some(window) {
            return false;
        }
        let now = Instant::now();
        if now >= at {
            return true;
        }
        state = shared
            .changed
            .wait_timeout(state, at - now)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
    }
}

/// A session, and what it asks at each look.
fn open(
    shared: &Shared,
    connector: &Connector,
    beside: &[i32],
    local: bool,
) -> Option<(Session, String)> {
    let connect = || -> Result<(Session, String, Option<u32>), String> {
        let mut session = connector.connect().map_err(|e| e.to_string())?;
        session.set_read_timeout(Some(PATIENCE));
        let question = question(&mut session, beside)?;
        let role = session
            .catalog_value("SELECT oid FROM pg_roles WHERE rolname = current_user")
            .map_err(|e| e.to_string())?;
        Ok((session, question, role.and_then(|oid| oid.parse().ok())))
    };
    match connect() {
        Ok((session, question, role)) => {
            let backend = local
                .then(|| u32::try_from(session.backend_pid()).ok())
                .flatten();
            let mut state = shared.state();
            state.backend = backend;
            state.backend_ns = backend.and_then(process_ns);
            state.failure = None;
            state.statements.prefer(role);
            Some((session, question))
        }
        Err(why) => {
            shared.state().failure = Some(why);
            None
        }
    }
}

/// SQLSTATE of a column that is not there.
const UNDEFINED_COLUMN: &str = "42703";

/// The question in the form that the server's version has.
fn question(session: &mut Session, beside: &[i32]) -> Result<String, String> {
    let mut ours: Vec<String> = beside.iter().map(i32::to_string).collect();
    ours.push("pg_catalog.pg_backend_pid()".to_owned());
    // Texts are asked for only of sessions in a statement to which the server gives no number.
    let statement = |backend: &str, number: &str| {
        format!(
            "SELECT {backend}, coalesce(state, ''), \
             coalesce(wait_event_type, ''), coalesce(wait_event, ''), pg_catalog.count(*), datid, usesysid, \
             CASE WHEN {RUNNING} THEN {number} END, \
             CASE WHEN {number} IS NULL AND {RUNNING} \
                  THEN query END, \
             coalesce(application_name, '') OPERATOR(pg_catalog.~~) 'pgassay%' \
             FROM pg_catalog.pg_stat_get_activity(NULL) \
             WHERE pid OPERATOR(pg_catalog.<>) ALL (ARRAY[{}]) \
             AND coalesce(application_name, '') OPERATOR(pg_catalog.<>) '{OBSERVER}' \
             AND coalesce(pg_catalog.left(query, 64), '') OPERATOR(pg_catalog.!~~) '%{TAG}%' \
             GROUP BY 1, 2, 3, 4, 6, 7, 8, 9, 10",
            ours.join(", ")
        )
    };
    // query_id came with 14, backend_type with 10, wait events with 9.6.
    let select = match session.major() {
        Some(..10) => statement("'client backend'::pg_catalog.text", "NULL::bigint"),
        Some(10..14) => statement("coalesce(backend_type, '')", "NULL::bigint"),
        _ => statement("coalesce(backend_type, '')", "query_id"),
    };
    let tried = session.ask_again(session.uncompiled(), &select);
    tried
        .map(|_| select)
        .map_err(|error| match error.sqlstate() {
            Some(UNDEFINED_COLUMN) => {
                "this server shows no wait events, which exist from PostgreSQL 9.6 on".to_owned()
            }
            _ => format!("the server's wait events can't be read: {error}"),
        })
}

/// What a look at all sessions showed.
struct Look {
    /// Sessions by what they wait for.
    seen: Vec<(WaitKey, u32)>,
    /// Sessions in statements: which one, at which event, how many.
    within: Vec<(Origin, WaitKey, u32)>,
    /// The same of those that are none of the load's.
    beside: Vec<(Origin, WaitKey, u32)>,
}

/// `backend_type` of a worker of autovacuum, which says what it does as a session says its statement.
const AUTOVACUUM: &str = "autovacuum worker";

impl Look {
    /// Whether a session waits for a lock that another holds.
    fn queues(&self) -> bool {
        let mut seen = self.seen.iter();
        seen.any(|(key, _)| key.kind == "Lock" && key.event != "extend")
    }
}

/// `loaded` is whether sessions of our load were seen: from then on those of other programs are told apart
/// from them. None where they are not to be.
fn look(session: &mut Session, question: &str, loaded: Option<&mut bool>) -> Result<Look, String> {
    let results = session
        .ask_again(session.uncompiled(), question)
        .map_err(|e| e.to_string())?;
    let rows = results
        .into_iter()
        .find(|r| !r.columns.is_empty())
        .map(|r| r.rows)
        .unwrap_or_default();
    let mut look = Look {
        seen: Vec::with_capacity(rows.len()),
        within: Vec::new(),
        beside: Vec::new(),
    };
    let is_ours = |ours: &Option<String>| ours.as_deref() == Some("t");
    let apart = loaded.is_some_and(|loaded| {
        *loaded |= rows.iter().any(|row| row.last().is_some_and(is_ours));
        *loaded
    });
    for row in rows {
        let Ok(
            [
                backend,
                state,
                kind,
                event,
                count,
                database,
                role,
                number,
                text,
                ours,
            ],
        ) = <[Option<String>; 10]>::try_from(row)
        else {
            continue;
        };
        let Some(count) = count.and_then(|count| count.parse().ok()) else {
            continue;
        };
        let mut key = WaitKey {
            backend: backend.unwrap_or_default(),
            state: state.unwrap_or_default(),
            kind: kind.unwrap_or_default(),
            event: event.unwrap_or_default(),
        };
        if apart && key.is_of_client() && !is_ours(&ours) {
            OTHER_CLIENT.clone_into(&mut key.backend);
        }
        let number = number.and_then(|number| number.parse().ok());
        let text = text.filter(|text| !text.trim().is_empty());
        let beside = key.backend == OTHER_CLIENT || key.backend == AUTOVACUUM;
        if (key.is_of_client() || beside) && (number.is_some() || text.is_some()) {
            let oid = |text: Option<String>| text.and_then(|text| text.parse().ok());
            let origin = Origin {
                number,
                text,
                database: oid(database),
                role: oid(role),
            };
            match beside {
                true => look.beside.push((origin, key.clone(), count)),
                false => look.within.push((origin, key.clone(), count)),
            }
        }
        look.seen.push((key, count));
    }
    Ok(look)
}

/// Asks for the texts of statements of which only the number is known, as long as some session
/// has them.
fn learn(shared: &Shared, session: &mut Session) {
    let (unknown, beside, own) = {
        let state = shared.state();
        let own = state.statements.preferred().unwrap_or(0);
        (state.statements.unknown(), state.beside.unknown(), own)
    };
    if unknown.is_empty() && beside.is_empty() {
        return;
    }
    let numbers = unknown.iter().chain(&beside).map(i64::to_string);
    let numbers: Vec<String> = numbers.collect();
    // What is asked for by hand stays below the rate of looks. A text, its role and its database are of one session: the role
    // decides whether the text is planned.
    let before = format!(
        "{}SET LOCAL search_path = pg_catalog; ",
        session.uncompiled()
    );
    let question = format!(
        "SELECT DISTINCT ON (query_id) query_id, query, datid, usesysid FROM pg_catalog.pg_stat_get_activity(NULL) \
         WHERE query_id IN ({}) AND query NOT LIKE '<%' ORDER BY query_id, usesysid IS DISTINCT FROM {own}",
        numbers.join(", ")
    );
    let answer = session.read_only(&before, &question);
    let of_question = |results: Vec<ResultSet>| results.into_iter().find(|r| !r.columns.is_empty());
    if answer.is_err() {
        let _ = session.execute("ROLLBACK");
    }
    let mut state = shared.state();
    state.asked += 1;
    let rows = match answer {
        Ok(results) => of_question(results),
        Err(error) => {
            state.unread = Some(error.to_string());
            None
        }
    };
    for row in rows.map(|r| r.rows).unwrap_or_default() {
        let Ok([Some(number), Some(text), database, role]) = <[Option<String>; 4]>::try_from(row)
        else {
            continue;
        };
        let oid = |text: Option<String>| text.and_then(|text| text.parse().ok());
        if let Ok(number) = number.parse() {
            let (database, role) = (oid(database), oid(role));
            if unknown.contains(&number) {
                state.statements.learn(number, &text, database, role);
            }
            if beside.contains(&number) {
                state.beside.learn(number, &text, database, role);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_that_cost_too_much_become_fewer() {
        assert_eq!(affordable(25.0, None, 2.0), 25.0);
        // 0.63 % of two CPUs.
        assert_eq!(affordable(25.0, Some(0.0005), 2.0), 25.0);
        // 10 %: two thousand sessions.
        assert!((affordable(25.0, Some(0.008), 2.0) - 0.75).abs() < 1e-9);
        assert_eq!(affordable(25.0, Some(0.008), 64.0), 25.0);
        assert_eq!(affordable(25.0, Some(0.5), 2.0), 0.5);
        assert_eq!(affordable(0.2, Some(0.5), 2.0), 0.2);
    }
}
