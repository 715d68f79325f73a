//! What an engine is told: once for its clients, and again for each slice of load.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::encode::Protocol;
use super::latency::Latency;
use super::replay::Replay;
use super::schedule::Schedule;
use crate::script::Value;

/// What happens to a client whose statement fails for a reason that no retry helps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The failure is counted, the transaction rolled back, and the client goes on.
    #[default]
    Continue,
    /// The client stops, as pgbench's do.
    Abort,
}

/// What of themselves clients tell the listener besides why they stop, which they always tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Says {
    /// Each failed statement, and what becomes of its transaction.
    pub failures: bool,
    /// Each script, command, message and answer.
    pub steps: bool,
    /// The server's notices and warnings.
    pub notices: bool,
}

/// What kind of words a client says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Why it can't go on.
    Error,
    /// What it does, and what became of it.
    Info,
    /// What a script's `debug()` or the server says: it is passed on as it is.
    Quoted,
}

/// What happens to a client while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// It says something, in words for a person; pgbench's, where pgbench says it.
    Said(Tone, &'a str),
    /// It stops for good: its script can't go on, or its connection is lost.
    Stopped {
        /// Its number.
        client: u32,
        /// Why.
        reason: &'a str,
    },
}

/// Hears of clients while they run.
pub type Listener = Arc<dyn Fn(Event<'_>) + Send + Sync>;

/// How long a person takes around a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Typing before it.
    pub keying: Duration,
    /// Thinking after it: the mean of an exponential distribution, which is cut at ten times that.
    pub thinking: Duration,
}

/// How a load thread's sockets are served, as far as the kernel allows it: each kind falls back to the
/// one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Serving {
    /// Each message is received, and sent, by a call of its own.
    Calls,
    /// The same, but clients whose answers came together send together.
    Together,
    /// What comes and what is sent goes through a ring of io_uring. Those over TLS, and those that
    /// connect for each transaction, send together.
    #[default]
    Ring,
}

/// How an engine's clients behave.
#[derive(Clone)]
pub struct Options {
    /// How statements travel.
    pub protocol: Protocol,
    /// Load threads; `None` chooses by the number of clients and processors.
    pub threads: Option<usize>,
    /// Variables that scripts find set (`scale`, and whatever `-D` defines).
    pub variables: Vec<(String, Value)>,
    /// The same, as texts that are read when they are used.
    pub texts: Vec<(String, String)>,
    /// What a failed statement does to its client.
    pub on_error: OnError,
    /// How often a transaction is tried when it fails by serialization (40001) or deadlock
    /// (40P01); 0 is without limit.
    pub max_tries: u32,
    /// Transactions longer than this count as late; those that a schedule meant to start longer
    /// ago are left out and counted as skipped; no retry begins after it.
    pub latency_limit: Option<Duration>,
    /// A connection for each transaction. Latencies include connecting.
    pub reconnect: bool,
    /// They do not, as in pgbench's log and progress reports with --connect, unless a schedule says when a transaction
    /// is to start.
    pub timed_once_connected: bool,
    /// How long a person takes around each script of the program, by its place; empty where clients
    /// wait for nobody. A closed loop only.
    pub pauses: Vec<Pause>,
    /// Clients that run this script and no other, by its place; empty or 0 where it has none. They are among all clients,
    /// keep to no schedule, and count in what their script came to, not in the sums of all.
    pub own_clients: Vec<u32>,
    /// Recorded sessions that clients go through, in place of scripts by weight and of a schedule.
    pub replay: Option<Arc<Replay>>,
    /// Keep a histogram for each script and each of its commands.
    pub per_statement: bool,
    /// The CPUs that load threads are kept on; empty leaves it to the kernel.
    pub cpus: Vec<usize>,
    /// How long a slice waits at its end for answers to what is under way.
    pub drain: Duration,
    /// Set from outside (Ctrl-C) to end a slice within a tenth of a second.
    pub stop: Arc<AtomicBool>,
    /// Where the clients' messages go.
    pub listener: Option<Listener>,
    /// What those are.
    pub says: Says,
    /// Whether a statement is prepared in an exchange of its own, as pgbench does it, and not in
    /// that of its first execution.
    pub prepare_apart: bool,
    /// What hears of every transaction.
    pub journal: Option<Journals>,
    /// How sockets are served.
    pub serving: Serving,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            protocol: Protocol::default(),
            threads: None,
            variables: vec![("scale".to_owned(), Value::Int(1))],
            texts: Vec::new(),
            on_error: OnError::default(),
            max_tries: 1,
            latency_limit: None,
            reconnect: false,
            timed_once_connected: false,
            pauses: Vec::new(),
            own_clients: Vec::new(),
            replay: None,
            per_statement: false,
            cpus: Vec::new(),
            drain: Duration::from_secs(30),
            stop: Arc::new(AtomicBool::new(false)),
            listener: None,
            says: Says::default(),
            prepare_apart: false,
            journal: None,
            serving: Serving::default(),
        }
    }
}

impl Options {
    /// How many threads serve so many clients on so many processors: one thread drives a few
    /// hundred thousand transactions a second, and the server needs the processors more.
    pub fn threads_for(&self, clients: usize, processors: usize) -> usize {
        let most = clients.max(1);
        match self.threads {
            Some(threads) => threads.clamp(1, most),
            None => clients.div_ceil(32).min(processors / 4).clamp(1, most),
        }
    }
}

/// How long a slice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Length {
    /// This long after the warm-up.
    Time(Duration),
    /// So many transactions per client; there is no warm-up.
    Transactions(u64),
}

/// Which of a load's clients an engine has, where each has a number of its own in the whole load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The number of the engine's first client.
    pub first_client: u32,
    /// Clients of the whole load.
    pub clients: u32,
    /// Threads of the engines before it.
    pub first_thread: u32,
}

impl Share {
    /// All clients.
    pub fn whole(clients: u32) -> Self {
        Share {
            first_client: 0,
            clients,
            first_thread: 0,
        }
    }
}

/// One slice of load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SliceSpec {
    /// Load that is driven and not counted before the window.
    pub warmup: Duration,
    /// The window.
    pub length: Length,
    /// Seed of all that is drawn; with the same seed pgbench draws the same numbers.
    pub seed: u64,
    /// The engine's place in a load that several engines give. With it each client chooses its scripts
    /// by a stream of its own, so that what a client does depends on its number and the seed alone;
    /// without it the clients of a thread share one, as pgbench's do.
    pub share: Option<Share>,
    /// When transactions start.
    pub schedule: Schedule,
    /// Where in the recording a replay begins, on the recording's clock; it begins anew after its end.
    pub replay_from: Duration,
    /// Length of the intervals by which the window is recorded as well; `None` records none.
    pub interval: Option<Duration>,
    /// So many intervals are kept as one in the result; who follows is told each. So a long window
    /// takes no more memory than a short one.
    pub keep: u32,
    /// How often `Edge::Tick` is called; `None` never.
    pub tick: Option<Duration>,
    /// How often `Edge::Passed` is called with the intervals that have ended; `None` never, and
    /// without `interval` there are none. The load threads hand each interval on when it is over, so
    /// that no transaction costs more.
    pub follow: Option<Duration>,
}

impl Default for SliceSpec {
    fn default() -> Self {
        SliceSpec {
            warmup: Duration::ZERO,
            length: Length::Time(Duration::from_secs(1)),
            seed: 0,
            share: None,
            schedule: Schedule::Closed,
            replay_from: Duration::ZERO,
            interval: None,
            keep: 1,
            tick: None,
            follow: None,
        }
    }
}

/// A moment at which the caller may look at the server; it is called on the coordinating thread
/// while the load runs on.
#[derive(Clone, Debug, PartialEq)]
pub enum Edge {
    /// The window has begun.
    Start,
    /// A tick has passed.
    Tick(Progress),
    /// Further intervals of the window are over; the last ones come when the threads have ended.
    Passed(Box<Passed>),
    /// The window has ended; no transaction is started any more.
    End,
}

/// How far a slice has come: sums since it began, warm-up included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Since the slice began.
    pub elapsed_ns: u64,
    /// Whether the window has begun.
    pub counting: bool,
    /// Transactions completed.
    pub transactions: u64,
    /// Transactions failed.
    pub failures: u64,
    /// Retries.
    pub retries: u64,
    /// Transactions that were retried.
    pub retried: u64,
    /// Transactions that were skipped for being late.
    pub skipped: u64,
    /// Sum of the latencies from the intended start.
    pub latency_sum_ns: f64,
    /// Sum of their squares.
    pub latency_sum_squares: f64,
    /// Sum of the delays from the intended to the actual start.
    pub lag_sum_ns: f64,
}

/// What the intervals came to that have ended since this was told last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Passed {
    /// How much of the window that was, in nanoseconds.
    pub covered_ns: u64,
    /// Transactions that ended well.
    pub transactions: u64,
    /// Transactions that failed.
    pub failures: u64,
    /// Latencies from the intended start.
    pub latency: Latency,
}

impl Passed {
    /// Adds what came after it.
    pub fn add(&mut self, more: &Self) {
        self.covered_ns += more.covered_ns;
        self.transactions += more.transactions;
        self.failures += more.failures;
        self.latency.add(&more.latency);
    }
}

/// Hears of every transaction as it ends, on the load thread that ran it.
pub trait Journal: Send {
    /// A transaction has ended, or was left out.
    fn ended(&mut self, entry: &Entry<'_>);

    /// A command is about to be sent or executed; told where statements are measured one by one.
    fn command_begins(&mut self) {}

    /// The command that has begun, at this place of this script, has ended well; told likewise.
    fn command_ended(&mut self, _script: usize, _command: usize) {}
}

/// Makes a load thread's journal; its argument is the thread's number.
pub type Journals = Arc<dyn Fn(usize) -> Box<dyn Journal> + Send + Sync>;

/// A transaction that has ended, or was left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry<'a> {
    /// The client.
    pub client: u32,
    /// How many transactions the client had ended before, in this slice.
    pub number: u64,
    /// The script.
    pub script: usize,
    /// How it ended.
    pub outcome: Outcome<'a>,
    /// When, from the slice's start, in nanoseconds.
    pub at_ns: u64,
    /// From the intended start to the end.
    pub latency_ns: u64,
    /// From the intended to the actual start.
    pub lag_ns: u64,
    /// How often it was repeated.
    pub retries: u32,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Well.
    Done,
    /// With this SQLSTATE, or `connection`, or `script`.
    Failed(&'a str),
    /// It was left out for being late.
    Skipped,
}
