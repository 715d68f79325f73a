//! One statement in several ways by one session, sampled: over the wire, and in loops inside
//! the server.

use std::time::Duration;

use anyhow::{Context, bail};
use pgassay_load::script::Program;
use pgassay_load::{Edge, Engine, Length, Options, Protocol, SliceSpec};
use pgassay_model::observed::stacks::{StackRecord, SymbolTable};
use pgassay_model::plan::Stage;
use pgassay_model::point::Slice;
use pgassay_model::query_cost;
use pgassay_model::query_cost::{IN_FLIGHT, WAYS, Way};
use pgassay_model::trial::{Raw, Trial};
use pgassay_observe::perf::PerfSampler;
use pgassay_pgwire::{Connector, Conninfo, Session};
use pgassay_server::clock;
use pgassay_sys::stop::Stop;

use crate::runner::{Driver, Keep, TrialFailure, Watcher};
use crate::workload::inserver::{self, Until};

/// Samples a second of CPU time: a profiler's usual 99 would take minutes.
pub const FREQUENCY_HZ: u32 = 499;
/// How long each way runs in each round. A call inside the server lasts less than a second.
const WINDOW: Duration = Duration::from_millis(900);
/// Rounds, each with every way once: enough for an interval at 95 %.
const ROUNDS: u32 = 8;
/// Load before the first window of a way over the wire, and before each.
const WARM_UP: Duration = Duration::from_millis(100);

/// The client's side of one way.
enum Client {
    Wire(Box<Engine>),
    Inside(Box<Session>),
}

/// The ways of one server, which are the points of the stage.
pub struct QueryWays {
    postmaster: u32,
    sampler: PerfSampler,
    clients: Vec<(Way, Client)>,
    seed: u64,
    stop: Stop,
}

/// The stage in which a statement is followed in every way.
pub fn stage(seed: u64, instructions: bool) -> Stage {
    query_cost::stage(seed, ROUNDS, WINDOW.as_millis() as u64, instructions)
}

impl QueryWays {
    /// Connects one session for each way; functions and table must exist.
    ///
    /// # Errors
    /// Where the server can't be reached; the inner one says why there is nothing to sample with.
    pub fn open(
        conninfo: &Conninfo,
        postmaster: u32,
        seed: u64,
        stop: &Stop,
    ) -> anyhow::Result<Result<Self, String>> {
        let sampler = match PerfSampler::start_at(postmaster, FREQUENCY_HZ) {
            Ok(sampler) => sampler,
            Err(why) => return Ok(Err(why)),
        };
        let clients = WAYS
            .iter()
            .map(|way| Ok((*way, client(*way, conninfo, stop)?)))
            .collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Ok(Self {
            postmaster,
            sampler,
            clients,
            seed,
            stop: stop.clone(),
        }))
    }

    /// The names of the functions that were hit. Ends sampling.
    pub fn finish(self) -> SymbolTable {
        self.sampler.finish()
    }

    fn trial(&mut self, slice: Slice) -> anyhow::Result<Trial> {
        let seed = self.seed.wrapping_add(u64::from(slice.round) << 32);
        let (way, client) = self
            .clients
            .get_mut(slice.point as usize)
            .context("there is no such way")?;
        let window = Window {
            postmaster: self.postmaster,
            sampler: &self.sampler,
        };
        let started = clock::now();
        let (queries, window_ns, (cpu_ns, stacks)) = match client {
            Client::Wire(engine) => wire(engine, seed, &window)?,
            Client::Inside(session) => {
                let until = Until::Microseconds(WINDOW.as_micros() as u32);
                let call = inserver::alone(way_name(*way), seed, until)
                    .context("there is no such loop")?;
                let before = window.begin();
                let row = session.rows(&call);
                let seen = window.end(before);
                let outcome = inserver::outcome(&row?)?;
                (outcome.operations, outcome.elapsed_ns, seen?)
            }
        };
        let queries = match way {
            Way::Pipelined => queries * IN_FLIGHT,
            _ => queries,
        };
        Ok(Trial {
            started: format!("{started:.3}"),
            window_ns,
            transactions: queries,
            server_cpu_ns: Some(cpu_ns),
            raw: Raw::QueryWay(stacks),
            ..Trial::default()
        })
    }
}

impl Driver for QueryWays {
    fn run(
        &mut self,
        slice: Slice,
        _: &mut dyn Watcher,
        keep: Keep<'_>,
    ) -> Result<(), TrialFailure> {
        let trial = self.trial(slice);
        let trial = trial.map_err(|error| TrialFailure::of(error, &self.stop))?;
        keep(trial).map_err(TrialFailure::Other)
    }

    fn unit(&self) -> &'static str {
        "queries/s"
    }

    fn describe(&self, slice: Slice) -> String {
        let way = WAYS.get(slice.point as usize);
        way.map_or_else(String::new, |way| format!("a query's way, {}", way.title()))
    }

    fn takes(&self) -> Option<Duration> {
        Some(WARM_UP + WINDOW)
    }
}

/// The workload's name of a way inside the server.
fn way_name(way: Way) -> &'static str {
    match way {
        Way::PlpgsqlLoop => "plpgsql-loop",
        _ => "query-loop",
    }
}

fn client(way: Way, conninfo: &Conninfo, stop: &Stop) -> anyhow::Result<Client> {
    let protocol = match way {
        Way::Simple => Protocol::Simple,
        Way::Prepared | Way::Pipelined => Protocol::Prepared,
        Way::QueryLoop | Way::PlpgsqlLoop => {
            let mut session = Connector::new(conninfo).connect()?;
            session.execute(inserver::SEARCH_PATH)?;
            return Ok(Client::Inside(Box::new(session)));
        }
    };
    let text = inserver::select_only(match way {
        Way::Pipelined => IN_FLIGHT,
        _ => 1,
    });
    let mut program = Program::new();
    program.add(way.title(), &text, 1)?;
    let options = Options {
        protocol,
        threads: Some(1),
        drain: Duration::from_secs(5),
        stop: stop.flag().clone(),
        ..Options::default()
    };
    let mut engine = Engine::new(conninfo.clone(), program, options);
    engine.resize(1)?;
    Ok(Client::Wire(Box::new(engine)))
}

/// What is read at the borders of a window.
struct Window<'a> {
    postmaster: u32,
    sampler: &'a PerfSampler,
}

impl Window<'_> {
    fn begin(&self) -> Result<u64, String> {
        self.sampler.begin();
        pgassay_observe::cpu_ns(self.postmaster)
    }

    fn end(&self, before: Result<u64, String>) -> anyhow::Result<(u64, StackRecord)> {
        let after = pgassay_observe::cpu_ns(self.postmaster);
        let (stacks, _) = self.sampler.end().map_err(anyhow::Error::msg)?;
        let before = before.map_err(anyhow::Error::msg)?;
        let after = after.map_err(anyhow::Error::msg)?;
        Ok((after.saturating_sub(before), stacks))
    }
}

/// One window of a way over the wire: transactions, its length in nanoseconds, and what was seen of
/// the server.
fn wire(
    engine: &mut Engine,
    seed: u64,
    window: &Window<'_>,
) -> anyhow::Result<(u64, u64, (u64, StackRecord))> {
    let spec = SliceSpec {
        warmup: WARM_UP,
        length: Length::Time(WINDOW),
        seed,
        ..SliceSpec::default()
    };
    let (mut before, mut seen) = (None, None);
    let result = engine.run_slice(&spec, &mut |edge| match edge {
        Edge::Start => before = Some(window.begin()),
        Edge::End => seen = before.take().map(|before| window.end(before)),
        Edge::Tick(_) | Edge::Passed(_) => {}
    });
    if let Some(why) = result.died {
        bail!("select-only beside the loops: {why}");
    }
    if let Some(example) = result.failure_examples.values().next() {
        bail!("select-only beside the loops: {example}");
    }
    let seen = seen.context("the window of select-only beside the loops did not end")??;
    Ok((result.transactions, result.window_ns, seen))
}
