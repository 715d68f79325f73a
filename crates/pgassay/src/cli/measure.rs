//! The measuring flags, and what they mean on this machine: the plan.

use clap::{ArgGroup, Args as ClapArgs};
use pgassay_engine::workload::order_entry;
use pgassay_engine::workload::pgbench_tables::BYTES_PER_SCALE;
use pgassay_model::point::Point;
use pgassay_model::workload::{DataSet, Pace, ReplayPlan, WorkloadPlan};
use pgassay_model::{Failure, Plan};

use super::clients::{ClientList, ScaleList, doubling_up_to};
use super::from::{FromList, WayArgs};
use super::kinds::{OF_CLIENTS, OF_SCALE, OF_SESSIONS};
use super::observe::ObserveArgs;
use super::values::{seconds, seconds_or_zero};

/// Seconds that a slice takes beside its load, at the default client counts.
const BETWEEN_SLICES: f64 = 0.06;

/// Seconds that a connection takes; each round opens at most as many as its points have clients.
const TO_CONNECT: f64 = 0.0015;

/// How it is measured, shared by all commands that measure.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(
    group = ArgGroup::new(OF_SESSIONS).multiple(true),
    group = ArgGroup::new(OF_CLIENTS).multiple(true),
    group = ArgGroup::new(OF_SCALE).multiple(true)
)]
pub struct MeasureArgs {
    /// Client counts: 1,2,8 or 1..64*2 [default: 1, 2, 4 … four times the CPUs]
    #[arg(group = OF_SESSIONS, id = "clients", long = "clients", short = 'c', value_name = "LIST")]
    pub client_counts: Option<ClientList>,
    /// Counted seconds of a trial
    #[arg(group = OF_SESSIONS, long, short = 'T', value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<f64>,
    /// Uncounted seconds before each trial
    #[arg(group = OF_CLIENTS, long, value_name = "SECONDS", value_parser = seconds_or_zero)]
    pub warmup: Option<f64>,
    /// Trials at each client count
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub trials: Option<u32>,
    /// Threads that drive the clients [default: a quarter of the CPUs]
    #[arg(group = OF_CLIENTS, long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Machines that the load comes from, each with an equal share of the clients, separated by commas: local
    /// (the server's), here (where this is typed), ssh://user@host, exec:COMMAND [default: the measuring process]
    #[arg(group = OF_CLIENTS, long, value_name = "LIST")]
    pub from: Option<FromList>,
    /// How they reach the server.
    #[command(flatten)]
    pub ways: WayArgs,
    /// Scale of the pgbench tables, 100,000 rows each; `run` takes several: 1..100*10 [default: by
    /// memory and cache]
    #[arg(group = OF_SCALE, long, short = 's', value_name = "LIST")]
    pub scale: Option<ScaleList>,
    /// Leave trials out in which other programs and guests took more than so much of the CPUs [10 if
    /// no number is given]; decide before you measure
    #[arg(group = OF_CLIENTS, long, value_name = "PERCENT", num_args = 0..=1, default_missing_value = "10", require_equals = true, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub drop_disturbed: Option<u8>,
    /// Wait at most so long until the machine is quiet before measuring
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub wait_quiet: Option<f64>,
    /// What is observed during the load.
    #[command(flatten)]
    pub observe: ObserveArgs,
    /// Seed of the order of trials and of the clients' random numbers [default: drawn and recorded]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// How many clients load the server at a time, and by how many threads: known before the server is.
#[derive(Debug, Clone)]
pub struct Concurrency {
    /// Numbers of clients, ascending.
    pub clients: Vec<u32>,
    /// Threads of the load; a point has at most one for each client.
    pub threads: u32,
    by_default: bool,
}

impl Concurrency {
    /// What was asked for, else 1, 2, 4 … four times the CPUs, and a thread for each four CPUs.
    pub fn of(flags: &MeasureArgs, cpus: u32) -> Self {
        let asked = flags.client_counts.as_ref();
        Self {
            clients: match asked {
                Some(list) => list.0.clone(),
                None => doubling_up_to(cpus.saturating_mul(4).max(1)),
            },
            threads: flags.threads.unwrap_or(cpus.div_ceil(4)).max(1),
            by_default: asked.is_none(),
        }
    }

    /// By so many threads on each machine, where none were asked for, as fit machines with so many CPUs.
    pub fn driven_by(self, flags: &MeasureArgs, cpus: u32) -> Self {
        Self {
            threads: flags.threads.unwrap_or(cpus.div_ceil(4)).max(1),
            ..self
        }
    }

    /// That of a replay, where there is one.
    ///
    /// # Errors
    /// Where other clients were asked for than it can have.
    pub fn replaying(self, replay: Option<&ReplayPlan>) -> Result<Self, Failure> {
        let Some(replay) = replay else {
            return Ok(self);
        };
        let asked = (!self.by_default).then_some(self.clients.as_slice());
        Ok(Self {
            clients: replay_clients(replay, asked)?,
            by_default: false,
            ..self
        })
    }

    /// That of a server that can be loaded with so many clients: a default becomes smaller, what was
    /// asked for stays.
    pub fn within(self, most: u32) -> Self {
        match self.by_default && most < self.most() {
            true => Self {
                clients: doubling_up_to(most.max(1)),
                ..self
            },
            false => self,
        }
    }

    /// The most clients.
    pub fn most(&self) -> u32 {
        self.clients.last().copied().unwrap_or(1)
    }

    fn points(&self) -> Vec<Point> {
        let point = |&clients: &u32| Point {
            clients,
            threads: self.threads.min(clients),
            variant: 0,
        };
        self.clients.iter().map(point).collect()
    }
}

/// How many clients go through recorded sessions.
///
/// # Errors
/// Where other numbers were asked for than there can be.
pub fn replay_clients(replay: &ReplayPlan, asked: Option<&[u32]>) -> Result<Vec<u32>, Failure> {
    let Some(asked) = asked else {
        return Ok(vec![replay.connections]);
    };
    let connections = replay.connections;
    if replay.pace == Pace::Original {
        return Err(Failure::usage(format!(
            "--clients: at the original pace a replay has as many as there were sessions at once, {connections}"
        ))
        .with_remedy("leave it out, or ask for --replay=closed or --replay=think-times"));
    }
    match asked.iter().max() {
        Some(most) if u64::from(*most) > replay.sessions => Err(Failure::usage(format!(
            "{most} clients, and {} sessions were recorded: some would be there twice",
            replay.sessions
        ))
        .with_remedy("ask for no more clients than sessions")),
        _ => Ok(asked.to_vec()),
    }
}

/// What the plan depends on beside the flags.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// All last-level caches together, in bytes; 0 where not known.
    pub cache_bytes: u64,
    /// shared_buffers of the server, in bytes.
    pub shared_buffers: u64,
}

/// How long the load of a command may take by default.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Seconds for all slices together.
    pub load_seconds: f64,
    /// Trials at each client count.
    pub trials: u32,
}

impl Budget {
    /// `pgassay assay`: 3 minutes in all, set-up and report included.
    pub const ASSAY: Self = Self {
        load_seconds: 155.0,
        trials: 20,
    };
    /// `pgassay assay --quick`: 45 seconds in all.
    pub const QUICK: Self = Self {
        load_seconds: 31.0,
        trials: 8,
    };
    /// `pgassay run`.
    pub const RUN: Self = Self {
        load_seconds: 60.0,
        trials: 12,
    };
}

/// Turns the flags into a plan; `drawn_seed` is used where none was given.
///
/// # Errors
/// Where the flags contradict each other or the machine.
pub fn plan(
    workload: WorkloadPlan,
    flags: &MeasureArgs,
    concurrency: &Concurrency,
    arms: usize,
    machine: &Machine,
    budget: Budget,
    drawn_seed: u64,
) -> Result<Plan, Failure> {
    let points = concurrency.points();
    // At its own pace a recording is replayed once, from its begin to its end.
    let whole = workload.replay.as_ref().and_then(ReplayPlan::seconds);
    let trials = match whole {
        Some(_) => flags.trials.unwrap_or(1),
        None => flags.trials.unwrap_or(budget.trials),
    };
    let slices = arms as f64 * points.len() as f64 * f64::from(trials);
    // Given nothing, the budget is shared out; a window is never so short that
    // p99.9 of a thousand transactions a second would be one transaction.
    let all_clients: f64 = points.iter().map(|point| f64::from(point.clients)).sum();
    let connecting = f64::from(trials) * arms as f64 * all_clients * TO_CONNECT;
    let share = ((budget.load_seconds - connecting) / slices.max(1.0) - BETWEEN_SLICES).max(0.0);
    let usual = match whole {
        Some(_) => 0.0,
        None => (share * 0.15).clamp(0.1, 0.5),
    };
    let warmup = flags.warmup.unwrap_or(usual);
    let usual = whole.unwrap_or((share - warmup).clamp(0.4, 5.0));
    let window = flags.time.unwrap_or(usual);
    Ok(Plan {
        workload: WorkloadPlan {
            // Of several scales each server has its own.
            scale: match (
                flags.scale.as_ref().and_then(|list| list.0.first()),
                workload.scale,
            ) {
                (Some(scale), _) => *scale,
                (None, 0) => default_scale(&workload, machine),
                (None, scale) => scale,
            },
            ..workload
        },
        points,
        trials,
        warmup_ms: (warmup * 1000.0).round() as u64,
        window_ms: (window * 1000.0).round() as u64,
        seed: flags.seed.unwrap_or(drawn_seed),
        disturbed_above: flags
            .drop_disturbed
            .map(|percent| f64::from(percent) / 100.0),
    })
}

/// The smallest scale whose data is four times the last-level cache, if it fits
/// into three fifths of shared_buffers; at least 1.
fn default_scale(workload: &WorkloadPlan, machine: &Machine) -> u32 {
    let (each, least) = match workload.data {
        // Below that nearly all transactions wait for the row of one warehouse.
        Some(DataSet::OrderEntry) => (order_entry::bytes(1), 4),
        None => (BYTES_PER_SCALE, 10),
    };
    let beyond_cache = (4 * machine.cache_bytes).div_ceil(each).max(least);
    let within_buffers = machine.shared_buffers / 5 * 3 / each;
    beyond_cache.min(within_buffers).max(1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parsed;

    const SMALL: Machine = Machine {
        cache_bytes: 32 << 20,
        shared_buffers: 6 << 30,
    };

    fn planned(flags: &[&str], cpus: u32, machine: &Machine, budget: Budget) -> Plan {
        let flags: MeasureArgs = parsed(flags).unwrap();
        let workload = pgassay_engine::workload::find(&["select-only"]).unwrap();
        let concurrency = Concurrency::of(&flags, cpus).within(1000);
        plan(workload, &flags, &concurrency, 1, machine, budget, 42).unwrap()
    }

    #[test]
    fn the_default_keeps_to_its_budget() {
        for (budget, cpus) in [(Budget::ASSAY, 2), (Budget::QUICK, 2), (Budget::ASSAY, 192)] {
            let plan = planned(&[], cpus, &SMALL, budget);
            assert_eq!(plan.max_clients(), cpus * 4);
            assert!(plan.load_seconds() <= budget.load_seconds, "{plan:?}");
            assert!(plan.window_ms >= 400);
            assert!(plan.trials >= 6);
        }
    }

    #[test]
    fn the_data_is_larger_than_the_cache_and_fits_the_buffers() {
        assert_eq!(planned(&[], 2, &SMALL, Budget::ASSAY).workload.scale, 10);
        let large = Machine {
            cache_bytes: 512 << 20,
            ..SMALL
        };
        let scale = u64::from(planned(&[], 2, &large, Budget::ASSAY).workload.scale);
        assert!(scale * BYTES_PER_SCALE >= 4 * large.cache_bytes);
        let tiny = Machine {
            shared_buffers: 64 << 20,
            ..SMALL
        };
        assert_eq!(planned(&[], 2, &tiny, Budget::ASSAY).workload.scale, 2);
    }

    #[test]
    fn a_small_server_shortens_the_default_and_nothing_else() {
        let flags = |clients: Option<&str>| MeasureArgs {
            client_counts: clients.map(|list| list.parse().unwrap()),
            ..MeasureArgs::default()
        };
        let counts = |clients, most| Concurrency::of(&flags(clients), 4).within(most).clients;
        assert_eq!(counts(None, 100), [1, 2, 4, 8, 16]);
        assert_eq!(counts(None, 6), [1, 2, 4, 6]);
        assert_eq!(counts(None, 0), [1]);
        assert_eq!(counts(Some("1,50"), 6), [1, 50]);
    }

    #[test]
    fn flags_win() {
        let flags = [
            "-c", "1,3", "-T", "0.5", "--warmup", "0", "--trials", "7", "-s", "3", "--seed", "9",
        ];
        let plan = planned(&flags, 2, &SMALL, Budget::ASSAY);
        assert_eq!(
            plan.points.iter().map(|p| p.clients).collect::<Vec<_>>(),
            [1, 3]
        );
        assert_eq!((plan.window_ms, plan.warmup_ms, plan.trials), (500, 0, 7));
        assert_eq!((plan.workload.scale, plan.seed), (3, 9));
    }
}
