//! What a comparison loads its servers with: clients over the wire, a primitive inside the servers,
//! PGIO's sessions, or reads of scattered blocks.

use anyhow::bail;
use pgassay_analysis::host::HostSummary;
use pgassay_analysis::metrics::{MetricId, P99};
use pgassay_engine::drivers::kernels;
use pgassay_engine::workload::inserver::{self, Call};
use pgassay_engine::workload::pgio;
use pgassay_engine::workload::pgio::config::Config;
use pgassay_engine::workload::scattered_read::{self, Choice};
use pgassay_engine::workload::tell_statements_apart;
use pgassay_model::comparison::Typed;
use pgassay_model::plan::{DriverConfig, Experiment, Stage};
use pgassay_model::point::Point;
use pgassay_model::primitives::PrimitivesPlan;
use pgassay_model::scattered::ScatteredVariant;
use pgassay_model::stage::StageId;
use pgassay_model::workload::{Pace, ReplayPlan, WorkloadPlan};
use pgassay_model::{Failure, Plan};
use pgassay_observe as observe;

use super::io::{self, Scattered};
use crate::cli::compare::CompareArgs;
use crate::commands::bytes::pgio::configuration;
use crate::commands::inside::check_time;
use crate::commands::record;
use crate::terminal::Terminal;

/// The newest server there could be: a version that lacks the call is found when it
/// is made there.
const ANY_VERSION: u32 = u32::MAX;
/// Seconds of a slice of PGIO's where nothing was asked for.
const PGIO_SECONDS: f64 = 1.0;
/// What an execution of a scattered read is taken to last until one was measured, milliseconds.
const EXECUTION_MS: u64 = 200;

/// What the servers of all arms are loaded with.
pub enum Load {
    /// Clients over the wire.
    Wire(Box<WorkloadPlan>),
    /// Sessions that call a primitive.
    InServer(Call),
    /// PGIO's sessions.
    Pgio(Box<Config>),
    /// One way of reading scattered blocks.
    ScatteredRead(Box<Scattered>),
}

/// What a verdict is about: as asked, or throughput; where transactions begin when they did p99, as there every server
/// that keeps up has the recording's throughput.
///
/// # Errors
/// Where throughput was asked for there.
pub fn metric(asked: Option<MetricId>, replay: Option<&ReplayPlan>) -> Result<MetricId, Failure> {
    let is_paced = replay.is_some_and(|replay| replay.pace == Pace::Original);
    match asked {
        Some(metric) if is_paced && metric == MetricId::default() => Err(Failure::usage(format!(
            "at the original pace {metric} is that of the recording on every server that keeps up"
        ))
        .with_remedy("name p99, server-cpu or start-lag, or replay with --replay=closed")),
        Some(metric) => Ok(metric),
        None if is_paced => Ok(P99),
        None => Ok(MetricId::default()),
    }
}

impl Load {
    /// What was asked for.
    ///
    /// # Errors
    /// Where there is no such workload, or no such way of it, naming those that there are.
    pub fn new(
        args: &CompareArgs,
        machine: &HostSummary,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Self> {
        if let Some(recorded) = &args.recorded_load {
            return Ok(Self::Wire(recorded.clone()));
        }
        let name = args.workload.as_str();
        let (workload, way) = name.split_once(':').unwrap_or((name, ""));
        Ok(match workload {
            pgio::NAME => Self::Pgio(Box::new(configuration(&args.data, terminal)?.0)),
            scattered_read::NAME => {
                let variant = variant(way)?;
                Self::ScatteredRead(Box::new(Scattered::new(args.data.size, machine, variant)))
            }
            kernels::NAME => {
                bail!(
                    Failure::usage("kernels run without a server: there are no two to compare")
                        .with_remedy("pgassay run kernels on each machine, or compare servers: --workload lwlock:shared")
                )
            }
            _ => match inserver::find(name, ANY_VERSION)? {
                Some(call) => {
                    check_time(args.sides.slices.slice)?;
                    Self::InServer(call)
                }
                None => {
                    let mut workload = args.sides.dials.workload(name)?;
                    if workload.is_on_own_tables() {
                        tell_statements_apart(&mut workload)?;
                    }
                    Self::Wire(Box::new(workload))
                }
            },
        })
    }

    /// What observers look at where nothing was typed: nothing. Beside clients of ours sessions of other
    /// programs are no part of the load.
    pub fn observed(&self) -> observe::Choice {
        observe::Choice {
            apart: matches!(self, Self::Wire(_)),
            ..observe::Choice::default()
        }
    }

    /// What a recorded comparison was of.
    ///
    /// # Errors
    /// Where this program does not know it any more.
    pub fn recorded(experiment: &Experiment) -> anyhow::Result<Self> {
        let Some(stage) = experiment.stages.first() else {
            bail!("the recorded comparison has no stage");
        };
        let workload = &stage.plan.workload;
        Ok(match &stage.driver {
            DriverConfig::Pgio(pgio) => Self::Pgio(Box::new(Config::of_plan(pgio))),
            DriverConfig::ScatteredRead(plan) => {
                Self::ScatteredRead(Box::new(Scattered { plan: plan.clone() }))
            }
            DriverConfig::InServer(_) => match inserver::find(&workload.name, ANY_VERSION)? {
                Some(call) => Self::InServer(call),
                None => bail!("there is no primitive {}", workload.name),
            },
            _ => Self::Wire(Box::new(workload.clone())),
        })
    }

    /// Settings for launched servers, under the user's own: what keeps other work out of the figures.
    pub fn settings(&self, machine: &HostSummary) -> Vec<(&'static str, String)> {
        match self {
            Self::Wire(_) => Vec::new(),
            Self::InServer(_) => {
                let settings = inserver::settings().into_iter();
                settings
                    .map(|(name, value)| (name, value.to_owned()))
                    .collect()
            }
            Self::Pgio(config) => io::pgio_settings(config, machine),
            Self::ScatteredRead(scattered) => scattered.settings(),
        }
    }

    /// What it replays, where it does.
    pub fn replay(&self) -> Option<&ReplayPlan> {
        match self {
            Self::Wire(workload) => workload.replay.as_ref(),
            _ => None,
        }
    }

    /// Connections that are open at once beside those of the points.
    pub fn idle(&self) -> u32 {
        match self {
            Self::Wire(workload) => workload.further_connections(),
            _ => 0,
        }
    }

    /// Sessions at each point where nothing was asked for.
    pub fn usual_counts(&self, cpus: u32) -> Vec<u32> {
        match self {
            Self::Wire(_) | Self::InServer(_) => vec![cpus.saturating_mul(2)],
            Self::Pgio(config) => vec![config.sessions()],
            Self::ScatteredRead(_) => vec![1],
        }
    }

    /// The stage of a load whose plan the machine does not decide; none for clients over the wire.
    pub fn stage(&self, args: &CompareArgs, counts: &[u32], seed: u64) -> Option<Stage> {
        let points = |threads: bool| {
            let point = move |&clients: &u32| Point {
                clients,
                threads: if threads { clients } else { 1 },
                variant: 0,
            };
            counts.iter().map(point).collect()
        };
        match self {
            Self::Wire(_) => None,
            Self::InServer(call) => Some(Stage {
                id: StageId::Primitives,
                driver: DriverConfig::InServer(Box::new(PrimitivesPlan {
                    variants: vec![call.variant()],
                    knobs: serde_json::Value::Null,
                    compiled: None,
                })),
                plan: Plan {
                    workload: workload(call),
                    points: points(true),
                    trials: 1,
                    // A loop inside has nothing to warm up that the slice before did not.
                    warmup_ms: 0,
                    window_ms: (args.sides.slices.slice.unwrap_or(0.2) * 1e3).round() as u64,
                    seed,
                    disturbed_above: None,
                },
            }),
            Self::Pgio(config) => {
                let window_ms =
                    (args.sides.slices.slice.unwrap_or(PGIO_SECONDS) * 1e3).round() as u64;
                Some(Stage {
                    id: StageId::Pgio,
                    driver: DriverConfig::Pgio(io::pgio_plan(config)),
                    plan: Plan {
                        points: points(true),
                        ..record::without_clients(pgio::NAME, 1, window_ms, seed)
                    },
                })
            }
            Self::ScatteredRead(scattered) => Some(Stage {
                id: StageId::ScatteredRead,
                driver: DriverConfig::ScatteredRead(scattered.plan.clone()),
                plan: Plan {
                    workload: WorkloadPlan {
                        name: scattered.name(),
                        ..scattered_read::plan(scattered.plan.rows)
                    },
                    points: points(false),
                    trials: 1,
                    warmup_ms: 0,
                    window_ms: EXECUTION_MS,
                    seed,
                    disturbed_above: None,
                },
            }),
        }
    }
}

/// The way of reading of that name; a bitmap scan where none was named. Only what needs no other
/// server than the one that is up: to compare servers is what is asked for.
fn variant(way: &str) -> anyhow::Result<ScatteredVariant> {
    let wanted = if way.is_empty() { "bitmap" } else { way };
    let mut known = scattered_read::variants(&Choice {
        version: ANY_VERSION,
        restarts: false,
        ..Choice::default()
    });
    match known.iter().position(|variant| variant.id == wanted) {
        Some(place) => Ok(known.swap_remove(place)),
        None => {
            let names: Vec<String> = known
                .iter()
                .map(|variant| format!("{}:{}", scattered_read::NAME, variant.id))
                .collect();
            bail!(
                Failure::usage(format!("scattered-read has no way of reading `{way}`"))
                    .with_remedy(format!("there are {}", names.join(", ")))
            )
        }
    }
}

/// The workload as it is recorded.
fn workload(call: &Call) -> WorkloadPlan {
    WorkloadPlan {
        name: call.name(),
        protocol: "simple".to_owned(),
        without_pgbench_tables: true,
        ..WorkloadPlan::default()
    }
}

/// The user's settings over the load's own.
pub fn add_settings(typed: &mut [Typed], own: &[(&'static str, String)]) {
    for typed in typed {
        for (name, value) in own {
            let set = |setting: &String| {
                let known = setting.split('=').next().unwrap_or_default();
                known.trim().eq_ignore_ascii_case(name)
            };
            if !typed.settings.iter().any(set) {
                typed.settings.push(format!("{name}={value}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_original_pace_is_judged_by_latency() {
        let replay = |pace| ReplayPlan {
            pace,
            ..ReplayPlan::default()
        };
        let original = replay(Pace::Original);
        assert_eq!(metric(None, Some(&original)).unwrap(), P99);
        assert_eq!(metric(Some(P99), Some(&original)).unwrap(), P99);
        let refused = metric(Some(MetricId::default()), Some(&original)).unwrap_err();
        assert!(refused.remedy.unwrap().contains("p99"));
        let throughput = MetricId::default();
        for other in [
            None,
            Some(&replay(Pace::Closed)),
            Some(&replay(Pace::ThinkTimes)),
        ] {
            assert_eq!(metric(None, other).unwrap(), throughput);
            assert_eq!(metric(Some(throughput), other).unwrap(), throughput);
        }
    }
}
