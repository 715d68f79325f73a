//! The positions of a range: built, and counted.

use std::time::Instant;

use pgassay_analysis::search::steps::{CountedAt, ROUNDS};
use pgassay_engine::count::{Counter, Method};
use pgassay_model::workload::WorkloadPlan;
use pgassay_model::{Failure, FailureKind};
use pgassay_server::Installation;
use pgassay_server::pgbuild::commits::History;
use pgassay_server::pgbuild::maker::How;
use pgassay_server::pgbuild::shared::CommitMade;
use pgassay_server::pgbuild::{BuildRecord, Builder, Place, Variant};
use pgassay_server::settings::Settings;
use pgassay_sys::stop::Stop;

use crate::commands::build::making;
use crate::commands::counts::difference;
use crate::commands::progress::Progress;
use crate::exit::explain;
use crate::terminal::Terminal;

/// What a position came to.
pub enum Had<T> {
    /// What was asked for.
    This(T),
    /// It can't be built, or its server does not serve: the first error.
    Unusable(String),
}

/// Builds positions and counts them.
pub struct Positions {
    /// Who builds.
    pub builder: Builder,
    /// Where.
    pub place: Place,
    /// How all are built.
    pub variant: Variant,
    /// Files at a time.
    pub jobs: Option<u32>,
    /// Settings of all servers, `name=value`.
    pub settings: Vec<String>,
    /// What the sessions that are counted do.
    pub workload: WorkloadPlan,
    /// Where clusters are made; `None` for the usual place.
    pub scratch: Option<std::path::PathBuf>,
    /// The seed of the first round.
    pub seed: u64,
    /// Raised by Ctrl-C.
    pub stop: Stop,
    /// Seconds that the last build took that had little to compile.
    pub build_seconds: f64,
    /// Seconds that counting a position took.
    pub count_seconds: f64,
}

impl Positions {
    /// Builds a commit, or finds it built.
    ///
    /// # Errors
    /// Where it is not the commit that keeps it from being built.
    pub fn build(
        &mut self,
        history: &History,
        commit: &str,
        terminal: &mut Terminal,
    ) -> anyhow::Result<Had<BuildRecord>> {
        let (place, jobs, stop) = (&self.place, self.jobs, &self.stop);
        let made = self.builder.run(|| {
            making(place, jobs, terminal, stop, |maker| {
                maker.make_commit(history, commit, &self.variant)
            })
        })?;
        Ok(match made {
            CommitMade::Made(record, how, seconds) => {
                if how == How::Built {
                    self.build_seconds = seconds;
                }
                Had::This(*record)
            }
            CommitMade::Unbuildable(why) => Had::Unusable(why),
        })
    }

    /// Counts rounds of a build beyond those that are there.
    ///
    /// # Errors
    /// Where it is not the server that keeps it from being counted.
    pub fn count(
        &mut self,
        build: &BuildRecord,
        there: Option<&CountedAt>,
        terminal: &Terminal,
    ) -> anyhow::Result<Had<CountedAt>> {
        let started = Instant::now();
        let counted = self.count_rounds(build, there, terminal);
        self.count_seconds = started.elapsed().as_secs_f64();
        match counted {
            Ok(counted) => Ok(Had::This(counted)),
            Err(error) if self.stop.asked() => Err(error),
            Err(error) => match Failure::of(&error) {
                Some(failure) if failure.kind == FailureKind::Target => {
                    Ok(Had::Unusable(failure.message.clone()))
                }
                _ => Err(error),
            },
        }
    }

    fn count_rounds(
        &self,
        build: &BuildRecord,
        there: Option<&CountedAt>,
        terminal: &Terminal,
    ) -> anyhow::Result<CountedAt> {
        let (method, _) = Method::at_hand();
        let progress = Progress::new(terminal, 1000);
        progress.say(format!("starting {} to be counted", build.name));
        let installation = Installation::at(&build.prefix).map_err(explain)?;
        let settings = Settings::parse("--set", &self.settings).map_err(explain)?;
        let workload = WorkloadPlan {
            scale: self.workload.scale.max(1),
            ..self.workload.clone()
        };
        let base = self.scratch.as_deref();
        let mut counter = Counter::launch(
            &installation.bin_dir,
            &settings,
            &workload,
            base,
            method,
            &self.stop,
        )?;
        let mut counted = there.cloned().unwrap_or_default();
        let from = counted.rounds.len();
        for round in from..from + ROUNDS {
            progress.step(
                (round - from) as f64 / ROUNDS as f64,
                format!("counting {}", build.name),
            );
            let (count, functions) =
                difference(&mut counter, self.seed.wrapping_add(round as u64))?;
            counted.rounds.push(count);
            counted.functions = functions;
        }
        progress.clear();
        counted.functions.retain(|_, own| *own >= 1.0);
        Ok(counted)
    }
}
