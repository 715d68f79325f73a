//! Scattered reads, execution by execution: a session of its own, its index
//! warmed, the table taken out of the page cache, one EXPLAIN ANALYZE between
//! two readings of everything that counts reads.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use pgassay_model::explain::Explained;
use pgassay_model::point::Slice;
use pgassay_model::reading::Reading;
use pgassay_model::scattered::{
    ExecutionRecord, Pattern, Residency, ScatteredPlan, ScatteredVariant,
};
use pgassay_model::trial::{Raw, Trial};
use pgassay_observe::cache::{TableFiles, WantedPages};
use pgassay_observe::follow::Follow;
use pgassay_pgwire::{Connector, Session};
use pgassay_server::settings::Settings;
use pgassay_server::{Cluster, ReadAhead, clock};
use pgassay_sys::stop::Stop;

use super::{Arm, Watched, missing};
use crate::runner::{Arms, Driver, Keep, TrialFailure, Watcher};
use crate::workload::scattered_read::{self, VALUES, ways};

/// Warm executions are repeated until two follow each other this closely.
const STABLE: f64 = 0.05;
/// And at most so often.
const MOST_WARM: u32 = 6;
/// Writing `1` here drops the page cache of the whole machine (Linux's admin-guide/sysctl/vm.rst).
pub const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
/// A query that takes longer than this is lost.
const PATIENCE: Duration = Duration::from_secs(3600);

/// One server and what can be done with it.
pub struct ScatteredArm {
    /// The server's name, where there are several.
    pub label: Option<String>,
    /// Opens sessions.
    pub connector: Connector,
    /// How it is looked at beside the queries.
    pub watched: Watched,
    /// The server's process and files, where we launched it.
    pub cluster: Option<Cluster>,
    /// The table's files, or why they can't be seen.
    pub files: Result<TableFiles, String>,
    /// The pages that hold the blocks of a pattern and value, as far as they were asked for.
    pub wanted: HashMap<(Pattern, u32), WantedPages>,
}

/// The servers of all arms.
pub struct ScatteredRead {
    /// What is measured.
    pub plan: ScatteredPlan,
    /// One entry an arm.
    pub arms: Vec<ScatteredArm>,
    /// The file that sets the device's read-ahead, where it may be changed.
    pub read_ahead: Option<ReadAhead>,
    /// All of the page cache is dropped, not the table's part alone.
    pub drop_caches: bool,
    /// In the first round each execution is followed by warm ones.
    pub warm: bool,
    /// What was read last: the round and the point, and the value.
    pub last: Option<((u32, u32), u32)>,
    /// Asked before each execution.
    pub stop: Stop,
}

impl ScatteredRead {
    /// Each execution reads the blocks that were not read for longest: of those before, shared
    /// buffers may hold some still. All arms read the same.
    fn value(&mut self, slice: Slice) -> u32 {
        let at = (slice.round, slice.point);
        let value = match self.last {
            Some((last, value)) if last == at => value,
            Some((_, value)) => (value + 1) % VALUES,
            None => 0,
        };
        self.last = Some((at, value));
        value
    }

    /// Makes the servers and the device what they were.
    ///
    /// # Errors
    /// Where a server does not start again, or the device refuses.
    pub fn give_back(&mut self) -> anyhow::Result<()> {
        set_read_ahead(self.read_ahead.as_ref(), None)?;
        let mut arms = self.arms.iter_mut();
        arms.try_for_each(|arm| arm.restart_with(&[]))
    }
}

impl Driver for ScatteredRead {
    fn run(
        &mut self,
        slice: Slice,
        _: &mut dyn Watcher,
        keep: Keep<'_>,
    ) -> Result<(), TrialFailure> {
        let value = self.value(slice);
        let variant = self.plan.variants.get(slice.point as usize);
        let variant = variant.ok_or_else(|| missing("point"))?;
        let arm = self
            .arms
            .get_mut(slice.arm as usize)
            .ok_or_else(|| missing("arm"))?;
        let label = arm.label.clone();
        let failed = |error: anyhow::Error| {
            let failure = TrialFailure::of(error.context(variant.title.clone()), &self.stop);
            match &label {
                Some(label) => failure.named(label),
                None => failure,
            }
        };
        set_read_ahead(self.read_ahead.as_ref(), variant.read_ahead_kb)
            .and_then(|()| arm.restart_with(&variant.server_settings))
            .map_err(|why| match self.stop.asked() {
                true => TrialFailure::Interrupted,
                false => TrialFailure::PointOutOfReach(format!("{why:#}").replace('\n', " ")),
            })?;
        let mut last_ms = None;
        for repeat in 0..=MOST_WARM {
            if self.stop.asked() {
                return Err(TrialFailure::Interrupted);
            }
            let cold = repeat == 0;
            let trial = arm.execution(&self.plan, variant, value, cold, self.drop_caches);
            let trial = trial.map_err(failed)?;
            let ms = trial
                .execution()
                .and_then(ExecutionRecord::explained)
                .map(|explained| explained.execution_ms);
            keep(trial).map_err(TrialFailure::Other)?;
            let stable = match (last_ms, ms) {
                (Some(last), Some(now)) if repeat >= 2 => {
                    let last: f64 = last;
                    (now / last - 1.0).abs() <= STABLE
                }
                _ => false,
            };
            last_ms = ms;
            // Warm executions once, in the first round: they repeat themselves.
            if !self.warm || slice.round > 0 || stable {
                break;
            }
        }
        Ok(())
    }

    fn unit(&self) -> &'static str {
        "queries/s"
    }

    fn describe(&self, slice: Slice) -> String {
        let variant = self.plan.variants.get(slice.point as usize);
        variant.map_or_else(String::new, |variant| variant.title.clone())
    }

    fn arms(&mut self) -> Option<&mut dyn Arms> {
        Some(&mut self.arms)
    }
}

impl Arm for ScatteredArm {
    fn watched(&mut self) -> &mut Watched {
        &mut self.watched
    }
}

/// Sets the device's read-ahead, or what it was before.
fn set_read_ahead(taken: Option<&ReadAhead>, wanted_kb: Option<u64>) -> anyhow::Result<()> {
    match (taken, wanted_kb) {
        (Some(taken), Some(kb)) => Ok(taken.set(&kb.to_string())?),
        (Some(taken), None) => Ok(taken.set(taken.before())?),
        (None, Some(_)) => anyhow::bail!("the device's read-ahead can't be set"),
        (None, None) => Ok(()),
    }
}

/// Begins a transaction with a variant's settings, in one message: it is not idle in between. They hold for the
/// transaction, not the session: nothing stays for whoever is given the connection next.
fn begin_as(session: &mut Session, variant: &ScatteredVariant) -> anyhow::Result<()> {
    let set = variant
        .settings
        .iter()
        .map(|(name, setting)| format!("; SET LOCAL {name} = '{setting}'"));
    let text = format!("BEGIN READ ONLY{}", set.collect::<String>());
    session
        .execute(&text)
        .with_context(|| format!("cannot begin a transaction: {text}"))
}

impl ScatteredArm {
    /// Starts the server again, where it has other settings than these.
    fn restart_with(&mut self, settings: &[(String, String)]) -> anyhow::Result<()> {
        let Some(cluster) = &mut self.cluster else {
            return match settings {
                [] => Ok(()),
                _ => anyhow::bail!("only a server that pgassay launched is started again"),
            };
        };
        let mut wanted = Settings::default();
        for (name, value) in settings {
            wanted.set(name, value.clone());
        }
        if cluster.extra() == &wanted {
            return Ok(());
        }
        let scene = &mut self.watched.scene;
        scene.session = None;
        let started = cluster.restart(&wanted);
        if started.is_err() {
            // As it was, so that the others can go on.
            cluster.restart(&Settings::default())?;
        }
        scene.postmaster = Ok(cluster.pid());
        scene.session = Some(self.connector.connect()?);
        Ok(started?)
    }

    fn session(&self) -> anyhow::Result<Session> {
        let mut session = self.connector.connect().context("a session")?;
        session.set_read_timeout(Some(PATIENCE));
        Ok(session)
    }

    /// Starts a server of ours again, so that its shared buffers are empty.
    fn empty_buffers(&mut self) -> anyhow::Result<()> {
        let Some(cluster) = &mut self.cluster else {
            return Ok(());
        };
        let scene = &mut self.watched.scene;
        scene.session = None;
        let settings = cluster.extra().clone();
        cluster.restart(&settings)?;
        scene.postmaster = Ok(cluster.pid());
        scene.session = Some(self.connector.connect()?);
        Ok(())
    }

    fn execution(
        &mut self,
        plan: &ScatteredPlan,
        variant: &ScatteredVariant,
        value: u32,
        cold: bool,
        drop_caches: bool,
    ) -> anyhow::Result<Trial> {
        let own = plan.own.as_ref();
        let evicts = cold && own.is_none_or(|own| own.evicted);
        if own.is_some() && evicts {
            self.empty_buffers()?;
        }
        let mut session = self.session()?;
        let wanted = match self.wanted.entry((variant.pattern, value)) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let pattern = variant.pattern;
                let blocks = match own {
                    Some(own) => {
                        let read = (plan.blocks, own.sample);
                        ways::wanted_blocks(&mut session, read, pattern, value)?
                    }
                    None => scattered_read::wanted_blocks(&mut session, pattern, value)?,
                };
                entry.insert(match &self.files {
                    Ok(files) => files.pages_of(blocks),
                    // Where the files can't be seen the prediction still holds.
                    Err(_) => TableFiles::new(PathBuf::new(), 8192).pages_of(blocks),
                })
            }
        };
        if own.is_none() {
            scattered_read::warm_up(&mut session, variant, value)?;
        }
        // The catalogue's caches and the planner's. Planning locks tables, and evicting them may take long: no
        // transaction is open meanwhile.
        let statement = scattered_read::statement(variant, own, value);
        begin_as(&mut session, variant)?;
        session.execute(&format!("EXPLAIN {statement}"))?;
        session.execute("COMMIT")?;
        let residency = |files: &Result<TableFiles, String>| match files {
            Ok(files) => files.residency(wanted),
            Err(why) => Residency::Unavailable(why.clone()),
        };
        if evicts && let Ok(files) = &self.files {
            if drop_caches {
                std::fs::write(DROP_CACHES, "1").context("cannot drop the page cache")?;
            }
            files.evict()?;
        }
        let cached_before = residency(&self.files);
        let started = clock::now();
        let Watched { scene, observers } = &mut self.watched;
        let follow = Follow::start(&scene.postmaster);
        observers.begin(scene);
        let begun = begin_as(&mut session, variant);
        let begin = Instant::now();
        let explained = begun.and_then(|()| {
            Ok(session.value(&format!(
                "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"
            ))?)
        });
        let elapsed = begin.elapsed();
        // Where it failed, its locks are gone as well.
        let explained = explained.and_then(|text| {
            session.execute("COMMIT")?;
            Ok(text)
        });
        let (samples, observed) = observers.end(scene);
        let processes_bytes = follow.finish();
        let explain = explained?.map_or_else(
            || Reading::Unavailable("EXPLAIN said nothing".to_owned()),
            Reading::Text,
        );
        let taken = explain.text().and_then(Explained::parse);
        let seconds = taken.map_or(elapsed.as_secs_f64(), |e| e.execution_ms / 1e3);
        Ok(Trial {
            started: format!("{started:.3}"),
            window_ns: ((seconds * 1e9) as u64).max(1),
            transactions: 1,
            transactions_sent: 1,
            samples,
            observed,
            raw: Raw::ScatteredRead(Box::new(ExecutionRecord {
                value,
                cold: evicts && self.files.is_ok(),
                explain,
                wanted_blocks: wanted.blocks,
                wanted_pages: wanted.count(),
                cached_before,
                cached_after: residency(&self.files),
                processes_bytes,
            })),
            ..Trial::default()
        })
    }
}
