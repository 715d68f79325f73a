//! The engine: connections that outlast slices.

mod coordinator;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;

use self::coordinator::Coordinator;
use super::client::{Client, initial_vars};
use super::encode::{Protocol, Run};
use super::latency::Latency;
use super::live::{Follower, Live};
use super::options::{Edge, Length, Options, Share, SliceSpec};
use super::replay::Replayer;
use super::result::SliceResult;
use super::roles::Roles;
use super::schedule::{Schedule, Starts};
use super::tally;
use super::worker::{Assignment, Control, Shared, Statement, Worker, monotonic};
use crate::script::{Command, Program, Random};
use pgassay_pgwire::{ConnectError, Connector, Conninfo};
use pgassay_text::own::LOAD_THREAD;

/// How many connections are opened at once.
const CONNECTORS: usize = 16;
/// Tells the seed of a client's choices from that of its values.
const CHOICE: u64 = 0x6368_6f69_6365_7321;
/// Seeds that are drawn for each thread.
const SEEDS_OF_A_THREAD: u32 = 3;
/// File descriptors besides the clients' sockets.
const SPARE_DESCRIPTORS: u64 = 128;

/// Clients of one server that run one program.
pub struct Engine {
    shared: Shared,
    clients: Vec<Client>,
    connects: Latency,
}

/// Why there are fewer clients than asked for.
#[derive(Debug, Error)]
pub enum ResizeError {
    /// The server, or the way to it, gives no further connection.
    #[error("{reached} of {wanted} clients could connect: {cause}")]
    Connect {
        /// clients that are connected
        reached: usize,
        /// clients asked for
        wanted: usize,
        /// what the next one was told
        #[source]
        cause: Box<ConnectError>,
    },
    /// A connection was made and then failed.
    #[error("{reached} of {wanted} clients could connect: {reason}")]
    Broken {
        /// clients that are connected
        reached: usize,
        /// clients asked for
        wanted: usize,
        /// what happened
        reason: String,
    },
    /// This process may not open so many sockets.
    #[error(
        "{wanted} clients need {needed} open files, and the limit is {limit}: raise it (ulimit -n {needed})"
    )]
    Descriptors {
        /// clients asked for
        wanted: usize,
        /// files needed
        needed: u64,
        /// the hard limit
        limit: u64,
    },
    /// It was stopped from outside.
    #[error("stopped while connecting, {reached} of {wanted} clients were connected")]
    Stopped {
        /// clients that are connected
        reached: usize,
        /// clients asked for
        wanted: usize,
    },
}

impl Engine {
    /// An engine without clients.
    pub fn new(conninfo: Conninfo, program: Program, options: Options) -> Self {
        let mut program = program;
        for (name, _) in &options.variables {
            program.define(name);
        }
        for (name, _) in &options.texts {
            program.define(name);
        }
        let names = name_statements(&program, options.protocol);
        let replayer = options.replay.clone().map(Replayer::new);
        let shared = Shared {
            connector: Connector::new(&conninfo),
            program,
            names,
            options,
            replayer,
            epoch: monotonic(),
        };
        Engine {
            shared,
            clients: Vec::new(),
            connects: Latency::new(),
        }
    }

    /// The program that the clients run.
    pub fn program(&self) -> &Program {
        &self.shared.program
    }

    /// How many clients can run.
    pub fn clients(&self) -> usize {
        let reconnect = self.shared.options.reconnect;
        self.clients
            .iter()
            .filter(|client| client.is_usable(reconnect))
            .count()
    }

    /// How long it took to connect, client by client, since the engine was made.
    pub fn connects(&self) -> &Latency {
        &self.connects
    }

    /// Opens or closes connections until there are `wanted` clients; lost ones are replaced. On
    /// failure those that are connected stay, and can be run.
    pub fn resize(&mut self, wanted: usize) -> Result<(), ResizeError> {
        let reconnect = self.shared.options.reconnect;
        self.clients.retain(|client| client.is_usable(reconnect));
        self.clients.truncate(wanted);
        raise_descriptor_limit(wanted)?;
        if reconnect {
            let have = self.clients.len();
            self.clients
                .extend((have..wanted).map(|id| Client::without_connection(id as u32)));
        } else if self.clients.len() < wanted {
            self.connect(wanted)?;
        }
        for (id, client) in self.clients.iter_mut().enumerate() {
            client.id = id as u32;
            let notices = self.shared.options.says.notices;
            client.wire.hear_notices(notices);
        }
        Ok(())
    }

    fn connect(&mut self, wanted: usize) -> Result<(), ResizeError> {
        let missing = wanted - self.clients.len();
        let next = AtomicUsize::new(0);
        let made: Mutex<Vec<Result<(Client, Duration), Refused>>> = Mutex::default();
        let shared = &self.shared;
        let connector = || {
            while next.fetch_add(1, Ordering::Relaxed) < missing {
                if shared.options.stop.load(Ordering::Relaxed) {
                    break;
                }
                let begin = Instant::now();
                let client = connect_one(&shared.connector);
                let failed = client.is_err();
                if let Ok(mut made) = made.lock() {
                    made.push(client.map(|client| (client, begin.elapsed())));
                }
                if failed {
                    // One refusal is enough: the server has no more for us.
                    next.fetch_add(missing, Ordering::Relaxed);
                    break;
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..missing.min(CONNECTORS) {
                // Where no more threads can be had, those that are there do it all.
                if thread::Builder::new()
                    .spawn_scoped(scope, connector)
                    .is_err()
                {
                    break;
                }
            }
            connector();
        });
        let made = made
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut refused = None;
        for outcome in made {
            match outcome {
                Ok((client, took)) => {
                    self.connects.record(took.as_nanos() as u64);
                    self.clients.push(client);
                }
                Err(error) => {
                    refused.get_or_insert(error);
                }
            }
        }
        let reached = self.clients.len();
        for (id, client) in self.clients.iter_mut().enumerate() {
            client.id = id as u32;
        }
        match refused {
            Some(Refused::Connect(cause)) => Err(ResizeError::Connect {
                reached,
                wanted,
                cause,
            }),
            Some(Refused::Broken(reason)) => Err(ResizeError::Broken {
                reached,
                wanted,
                reason,
            }),
            None if reached < wanted => Err(ResizeError::Stopped { reached, wanted }),
            None => Ok(()),
        }
    }

    /// Drives one slice of load with all clients and returns what it came to.
    ///
    /// `at_edge` is called on this thread when the window begins and when it ends, while the load
    /// runs on, so that what the caller reads of the server belongs to the window. Nothing that a
    /// server does makes this fail: what was measured is returned with the reason why it ended.
    pub fn run_slice(&mut self, spec: &SliceSpec, at_edge: &mut dyn FnMut(Edge)) -> SliceResult {
        let usable = self.clients();
        let stop = self.shared.options.stop.clone();
        if usable == 0 {
            let died = Some("there is no client with a connection".to_owned());
            return SliceResult {
                died,
                ..SliceResult::default()
            };
        }
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let threads = self
            .shared
            .options
            .threads_for(self.clients.len(), processors);

        // The order in which pgbench draws its seeds; those of clients elsewhere are drawn as well.
        let mut seeds = Random::new(spec.seed);
        let share = spec
            .share
            .unwrap_or(Share::whole(self.clients.len() as u32));
        seeds.skip(share.first_client);
        let roles = Roles::new(&self.shared.options.own_clients, share.clients);
        let begun = match self.shared.program.draws_in_order() {
            true => vec![0; self.shared.program.scripts().len()],
            false => Vec::new(),
        };
        for (client, id) in self.clients.iter_mut().zip(share.first_client..) {
            let seed = seeds.bits();
            client.id = id;
            client.random = Random::new(seed);
            client.choose = spec.share.map(|_| Random::new(seed ^ CHOICE));
            client.role = roles.of(id);
            client.begun = begun.clone();
        }
        let drawn = share.first_client + self.clients.len() as u32;
        seeds.skip(share.clients.saturating_sub(drawn));
        let default_seed = if self.defines("default_seed") {
            0
        } else {
            seeds.bits() as i64
        };
        for client in &mut self.clients {
            client.vars = initial_vars(
                &self.shared.program,
                &self.shared.options,
                client.id,
                default_seed,
                spec.seed as i64,
            );
        }

        if let Some(replayer) = &mut self.shared.replayer {
            replayer.begin(spec.replay_from, self.clients.len());
        }
        let shared = &self.shared;
        let begin = shared.now();
        let planned_end = match spec.length {
            Length::Time(time) => begin + nanos(spec.warmup) + nanos(time),
            Length::Transactions(_) => u64::MAX,
        };
        let control = Control {
            begin,
            // A number of transactions is counted from the first one, which may be over before the
            // coordinator comes to run.
            start: AtomicU64::new(match spec.length {
                Length::Time(_) => u64::MAX,
                Length::Transactions(_) => begin,
            }),
            end: AtomicU64::new(u64::MAX),
            planned_end,
            stop,
        };
        let live: Vec<Live> = (0..threads).map(|_| Live::default()).collect();
        let interval_ns = spec.interval.map(|d| nanos(d).max(1));
        let mut follower = match (spec.follow, interval_ns) {
            (Some(_), Some(interval_ns)) => Some(Follower::new(threads, interval_ns)),
            _ => None,
        };
        let running = AtomicUsize::new(threads);
        let coordinator = thread::current();

        seeds.skip(share.first_thread.saturating_mul(SEEDS_OF_A_THREAD));
        // Threads whose clients keep to the schedule, which they share.
        let mut scheduled = vec![false; threads];
        let mut rest = self.clients.as_slice();
        for (number, scheduled) in scheduled.iter_mut().enumerate() {
            let (mine, others) = rest.split_at(share_of(rest.len(), threads - number));
            *scheduled = mine.iter().any(|client| client.role.only.is_none());
            rest = others;
        }
        let sharing = scheduled.iter().filter(|scheduled| **scheduled).count();
        let mut not_started = None;
        let parts: Vec<SliceResult> = thread::scope(|scope| {
            let mut handles = Vec::with_capacity(threads);
            let mut rest = self.clients.as_mut_slice();
            for (number, live) in live.iter().enumerate() {
                let share = share_of(rest.len(), threads - number);
                let (mine, others) = rest.split_at_mut(share);
                rest = others;
                let choose = Random::new(seeds.bits());
                let throttle = Random::new(seeds.bits());
                let _sampling = seeds.bits();
                let before = scheduled[..number].iter().filter(|of| **of).count();
                let starts = Starts::new(spec.schedule, before, sharing, begin, throttle);
                let starts = starts.filter(|_| scheduled[number]);
                let assignment = Assignment {
                    shared,
                    control: &control,
                    live,
                    spec: *spec,
                    starts,
                    choose,
                    journal: shared.options.journal.as_ref().map(|make| make(number)),
                    handed: follower.as_ref().and_then(|f| f.thread(number)),
                };
                let (running, coordinator) = (&running, coordinator.clone());
                let worker = move || {
                    // Short sleeps are to end on time: no slack for the kernel to batch them.
                    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
                    if !shared.options.cpus.is_empty() {
                        // Checked when the plan was made; what was taken away since costs no trial.
                        let _ = pgassay_sys::affinity::pin_current_thread(&shared.options.cpus);
                    }
                    let result = Worker::new(assignment, mine).run();
                    running.fetch_sub(1, Ordering::Release);
                    coordinator.unpark();
                    result
                };
                let thread = thread::Builder::new().name(LOAD_THREAD.to_owned());
                match thread.spawn_scoped(scope, worker) {
                    Ok(handle) => handles.push(handle),
                    Err(error) => {
                        running.fetch_sub(1, Ordering::Release);
                        not_started = Some(error);
                    }
                }
            }
            Coordinator {
                shared,
                control: &control,
                live: &live,
                running: &running,
                spec,
                follower: follower.as_mut(),
            }
            .run(at_edge);
            handles
                .into_iter()
                .filter_map(|handle| handle.join().ok())
                .collect()
        });

        let start = control.start.load(Ordering::Relaxed);
        let end = control.end.load(Ordering::Relaxed);
        let window_ns = if start == u64::MAX {
            0
        } else {
            end.saturating_sub(start)
        };
        let lost_threads = threads - parts.len();
        if let Some(follower) = &mut follower {
            at_edge(Edge::Passed(Box::new(follower.rest(window_ns))));
        }
        let mut result = tally::merge(
            parts,
            window_ns,
            interval_ns.map(|ns| ns * u64::from(spec.keep.max(1))),
        );
        result.clients = usable as u32;
        result.interrupted = control.stop.load(Ordering::Relaxed);
        if let Some(error) = not_started {
            result.died = Some(format!(
                "a load thread could not be started: {error}; a limit on processes or threads is \
                 reached (ulimit -u, pids.max)"
            ));
        } else if lost_threads > 0 {
            result.died = Some(format!(
                "{lost_threads} load threads failed: a fault of pgassay"
            ));
        } else if self.clients() == 0 {
            let last = result.lost.last();
            result.died = last.map(|lost| lost.reason.clone());
            let in_script = last.filter(|lost| lost.in_script);
            result.script_error = in_script.map(|lost| lost.reason.clone());
        }
        let paced = self
            .shared
            .replayer
            .as_ref()
            .is_some_and(Replayer::is_paced);
        if spec.schedule == Schedule::Closed && !paced {
            result.latency_from_actual = None;
        }
        result
    }

    fn defines(&self, name: &str) -> bool {
        let options = &self.shared.options;
        options.variables.iter().any(|(known, _)| known == name)
            || options.texts.iter().any(|(known, _)| known == name)
    }
}

/// How many of those that are left the first of so many threads gets.
fn share_of(left: usize, threads: usize) -> usize {
    left.div_ceil(threads)
}

/// The statements' names in the server and their messages, by script and command.
fn name_statements(program: &Program, protocol: Protocol) -> Vec<Vec<Statement>> {
    let mut index = 0;
    let mut statements = Vec::new();
    for script in program.scripts() {
        let mut of_script = Vec::new();
        for command in &script.commands {
            let Command::Sql(sql) = command else {
                of_script.push(Statement::default());
                continue;
            };
            // As pgbench names them.
            let name = match protocol {
                Protocol::Prepared => format!("P_{index}"),
                _ => String::new(),
            };
            // A script with more parameters than the protocol takes has been refused.
            let run = Run::new(&name, sql.params.len()).unwrap_or_default();
            of_script.push(Statement { name, index, run });
            index += 1;
        }
        statements.push(of_script);
    }
    statements
}

enum Refused {
    Connect(Box<ConnectError>),
    Broken(String),
}

fn connect_one(connector: &Connector) -> Result<Client, Refused> {
    let session = connector
        .connect()
        .map_err(|error| Refused::Connect(Box::new(error)))?;
    let connection = session
        .into_transport()
        .map_err(|error| Refused::Broken(error.to_string()))?;
    Client::new(0, connection).map_err(|error| Refused::Broken(error.to_string()))
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}

/// Raises this process's soft limit on open files where the clients need it.
///
/// # Errors
/// Where it may not be raised so far.
pub fn raise_descriptor_limit(wanted: usize) -> Result<(), ResizeError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let needed = wanted as u64 + SPARE_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    let allowed = limit.maximum.is_none_or(|most| most >= needed);
    if allowed && setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(());
    }
    // Root may raise the hard limit too.
    let raised = Rlimit {
        current: Some(needed),
        maximum: Some(needed),
    };
    if setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(());
    }
    let limit = limit.maximum.or(limit.current).unwrap_or(0);
    Err(ResizeError::Descriptors {
        wanted,
        needed,
        limit,
    })
}
