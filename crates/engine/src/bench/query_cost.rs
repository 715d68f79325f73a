//! One statement in several ways by one session, sampled: over the wire, and in loops inside
//! the server.

use std::time::Duration;

use anyhow::{Context, bail};
use pgassay_analysis::observed::stacks::StackRecord;
use pgassay_analysis::query_cost::{IN_FLIGHT, QueryCostRecord, WAYS, Way, WayTrial};

use super::Ended;
use super::primitives::is_lost;
use crate::workload::inserver::{self, Until};
use pgassay_load::script::Program;
use pgassay_load::{Edge, Engine, Length, Options, Protocol, SliceSpec};
use pgassay_observe::perf::PerfSampler;
use pgassay_pgwire::{Connector, Conninfo, Session};
use pgassay_sys::stop::Stop;

/// Samples a second of CPU time: a profiler's usual 99 would take minutes.
pub const FREQUENCY_HZ: u32 = 499;
/// How long each way runs in each round. A call inside the server lasts less than a second.
pub const WINDOW: Duration = Duration::from_millis(900);
/// Rounds, each with every way once: enough for an interval at 95 %.
pub const ROUNDS: u32 = 8;
/// Load before the first window of a way over the wire, and before each.
const WARM_UP: Duration = Duration::from_millis(100);

/// The client's side of one way.
enum Driver {
    Wire(Box<Engine>),
    Inside(Box<Session>),
}

/// The ways of one server.
pub struct QueryCosts {
    postmaster: u32,
    sampler: PerfSampler,
    drivers: Vec<(Way, Driver)>,
    stop: Stop,
}

impl QueryCosts {
    /// Connects one session for each way; functions and table must exist.
    ///
    /// # Errors
    /// Where the server can't be reached; the inner one says why there is nothing to sample with.
    pub fn open(
        conninfo: &Conninfo,
        postmaster: u32,
        stop: &Stop,
    ) -> anyhow::Result<Result<Self, String>> {
        let sampler = match PerfSampler::start_at(postmaster, FREQUENCY_HZ) {
            Ok(sampler) => sampler,
            Err(why) => return Ok(Err(why)),
        };
        let drivers = WAYS
            .iter()
            .map(|way| Ok((*way, driver(*way, conninfo, stop)?)))
            .collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Ok(Self {
            postmaster,
            sampler,
            drivers,
            stop: stop.clone(),
        }))
    }

    /// Runs all rounds; every other one visits the ways from the last to the first, so that
    /// drift falls on all alike. What was measured is kept after each round.
    ///
    /// # Errors
    /// Where a statement fails, or what was measured can't be kept.
    pub fn run(
        mut self,
        record: &mut QueryCostRecord,
        rounds: u32,
        seed: u64,
        keep: &mut dyn FnMut(&QueryCostRecord) -> anyhow::Result<()>,
    ) -> anyhow::Result<Ended> {
        let mut ended = Ended::Complete;
        'rounds: for round in 0..rounds {
            let mut order: Vec<usize> = (0..self.drivers.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for index in order {
                if self.stop.asked() {
                    ended = Ended::Interrupted;
                    break 'rounds;
                }
                let seed = seed.wrapping_add(u64::from(round) << 32);
                match self.trial(index, round, seed) {
                    Ok(trial) => record.trials.push(trial),
                    Err(_) if self.stop.asked() => {
                        ended = Ended::Interrupted;
                        break 'rounds;
                    }
                    Err(error) if is_lost(&error) => {
                        ended = Ended::ServerDied(format!("{error:#}"));
                        break 'rounds;
                    }
                    Err(error) => return Err(error),
                }
            }
            keep(record)?;
        }
        record.symbols = self.sampler.finish();
        keep(record)?;
        Ok(ended)
    }

    fn trial(&mut self, index: usize, round: u32, seed: u64) -> anyhow::Result<WayTrial> {
        let (way, driver) = self
            .drivers
            .get_mut(index)
            .context("there is no such way")?;
        let window = Window {
            postmaster: self.postmaster,
            sampler: &self.sampler,
        };
        let (queries, (cpu_ns, stacks)) = match driver {
            Driver::Wire(engine) => wire(engine, seed, &window)?,
            Driver::Inside(session) => {
                let until = Until::Microseconds(WINDOW.as_micros() as u32);
                let call = inserver::alone(way_name(*way), seed, until)
                    .context("there is no such loop")?;
                let before = window.begin();
                let row = session.rows(&call);
                let seen = window.end(before);
                (inserver::outcome(&row?)?.operations, seen?)
            }
        };
        let queries = match way {
            Way::Pipelined => queries * IN_FLIGHT,
            _ => queries,
        };
        Ok(WayTrial {
            way: *way,
            round,
            queries,
            cpu_ns,
            stacks,
        })
    }
}

/// The workload's name of a way inside the server.
fn way_name(way: Way) -> &'static str {
    match way {
        Way::PlpgsqlLoop => "plpgsql-loop",
        _ => "query-loop",
    }
}

fn driver(way: Way, conninfo: &Conninfo, stop: &Stop) -> anyhow::Result<Driver> {
    let protocol = match way {
        Way::Simple => Protocol::Simple,
        Way::Prepared | Way::Pipelined => Protocol::Prepared,
        Way::QueryLoop | Way::PlpgsqlLoop => {
            let mut session = Connector::new(conninfo).connect()?;
            session.execute(inserver::SEARCH_PATH)?;
            return Ok(Driver::Inside(Box::new(session)));
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
    Ok(Driver::Wire(Box::new(engine)))
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

/// One window of a way over the wire: transactions, and what was seen of the server.
fn wire(
    engine: &mut Engine,
    seed: u64,
    window: &Window<'_>,
) -> anyhow::Result<(u64, (u64, StackRecord))> {
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
    Ok((result.transactions, seen))
}
