//! Scattered reads, execution by execution: a session of its own, its index
//! warmed, the table taken out of the page cache, one EXPLAIN ANALYZE between
//! two readings of everything that counts reads.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use pgassay_analysis::record::Reading;
use pgassay_analysis::scattered::{
    Explained, Pattern, Residency, ScatteredPlan, ScatteredTrial, ScatteredVariant,
};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Ended;
use crate::workload::scattered_read::{self, VALUES};
use pgassay_observe::cache::{TableFiles, WantedPages};
use pgassay_observe::follow::Follow;
use pgassay_observe::{Observers, Scene};
use pgassay_pgwire::{Connector, QueryError, Session};
use pgassay_server::settings::Settings;
use pgassay_server::{Cluster, ReadAhead};
use pgassay_sys::stop::Stop;

/// Warm executions are repeated until two follow each other this closely.
const STABLE: f64 = 0.05;
/// And at most so often.
const MOST_WARM: u32 = 6;
/// Writing `1` here drops the page cache of the whole machine (Linux's admin-guide/sysctl/vm.rst).
pub const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
/// A query that takes longer than this is lost.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The server under measurement and what can be done with it.
pub struct Bench<'a> {
    /// Opens sessions.
    pub connector: Connector,
    /// What can be looked at.
    pub scene: &'a mut Scene,
    /// What looks at it beside the queries.
    pub observers: &'a mut Observers,
    /// The server's process and files, where we launched it.
    pub cluster: Option<&'a mut Cluster>,
    /// The table's files, or why they can't be seen.
    pub files: Result<TableFiles, String>,
    /// The file that sets the device's read-ahead, where it may be changed.
    pub read_ahead: Option<ReadAhead>,
    /// All of the page cache is dropped, not the table's part alone.
    pub drop_caches: bool,
}

/// Where executions go, and who wants to see them.
pub trait Keep {
    /// Keeps one; `done` of `all` cold executions lie behind.
    ///
    /// # Errors
    /// Where it can't be written; the run ends.
    fn keep(&mut self, trial: ScatteredTrial, done: usize, all: usize) -> anyhow::Result<()>;
    /// A variant can't be had on this server.
    ///
    /// # Errors
    /// Likewise.
    fn left_out(&mut self, variant: &ScatteredVariant, why: &str) -> anyhow::Result<()>;
    /// Asked when the planned executions of a group are done: whether another round is wanted.
    fn again(&mut self) -> bool;
}

/// Runs all executions of the plan, a random order of variants in each round;
/// those that start the server again, or set the device's read-ahead, together.
/// Rounds that were `measured` before, by the same plan, are passed over.
///
/// # Errors
/// Where an execution fails for another reason than a server that died.
pub fn run(
    plan: &ScatteredPlan,
    measured: &[ScatteredTrial],
    bench: &mut Bench,
    keep: &mut dyn Keep,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    let mut wanted: HashMap<(Pattern, u32), WantedPages> = HashMap::new();
    let all = plan.variants.len() * plan.trials as usize;
    let mut done = 0;
    let mut index = measured.iter().map(|t| t.index + 1).max().unwrap_or(0);
    let rounds_of = |member: u32| {
        let cold = measured.iter().filter(|t| t.variant == member && t.cold);
        cold.count() as u32
    };
    // Each execution reads the blocks that were not read for longest: of those
    // before, shared buffers may hold some still.
    let mut values: VecDeque<u32> = (0..VALUES).collect();
    // Groups of variants that need the same server, in their first order.
    let mut groups = Vec::new();
    for variant in &plan.variants {
        let group = (variant.server_settings.clone(), variant.read_ahead_kb);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    for (settings, read_ahead) in groups {
        let mut members: Vec<u32> = (0u32..)
            .zip(&plan.variants)
            .filter(|(_, v)| v.server_settings == settings && v.read_ahead_kb == read_ahead)
            .map(|(index, _)| index)
            .collect();
        if let Err(why) = bench.become_of(&settings, read_ahead) {
            for member in members {
                keep.left_out(&plan.variants[member as usize], &format!("{why:#}"))?;
                done += plan.trials as usize;
            }
            continue;
        }
        let mut round = 0;
        while round < plan.trials || keep.again() {
            members.shuffle(&mut rng);
            for &member in &members {
                values.rotate_left(1);
                if round < rounds_of(member) {
                    done += 1;
                    continue;
                }
                let value = values[(VALUES - 1) as usize];
                let variant = &plan.variants[member as usize];
                let mut last_ms = None;
                for repeat in 0..=MOST_WARM {
                    if stop.asked() {
                        return Ok(Ended::Interrupted);
                    }
                    let trial = match bench.execution(variant, value, repeat == 0, &mut wanted) {
                        Ok(trial) => ScatteredTrial {
                            variant: member,
                            index,
                            ..trial
                        },
                        Err(_) if stop.asked() => return Ok(Ended::Interrupted),
                        Err(error) if is_lost(&error) => {
                            return Ok(Ended::ServerDied(format!("{error:#}")));
                        }
                        Err(error) => return Err(error.context(variant.title.clone())),
                    };
                    index += 1;
                    let ms = trial
                        .explain
                        .text()
                        .and_then(Explained::parse)
                        .map(|e| e.execution_ms);
                    keep.keep(trial, (done + usize::from(repeat == 0)).min(all), all)?;
                    // Warm executions once, in the first round: they repeat themselves.
                    let stable = match (last_ms, ms) {
                        (Some(last), Some(now)) if repeat >= 2 => {
                            let last: f64 = last;
                            (now / last - 1.0).abs() <= STABLE
                        }
                        _ => false,
                    };
                    last_ms = ms;
                    if round > 0 || stable {
                        break;
                    }
                }
                done += 1;
            }
            round += 1;
        }
    }
    bench.become_of(&[], None)?;
    Ok(Ended::Complete)
}

impl Bench<'_> {
    /// Makes the server and the device what a group of variants needs.
    fn become_of(
        &mut self,
        settings: &[(String, String)],
        read_ahead: Option<u64>,
    ) -> anyhow::Result<()> {
        if let Some(taken) = &self.read_ahead {
            match read_ahead {
                Some(kb) => taken.set(&kb.to_string())?,
                None => taken.set(taken.before())?,
            }
        } else if read_ahead.is_some() {
            anyhow::bail!("the device's read-ahead can't be set");
        }
        let Some(cluster) = self.cluster.as_deref_mut() else {
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
        self.scene.session = None;
        let started = cluster.restart(&wanted);
        if started.is_err() {
            // As it was, so that the others can go on.
            cluster.restart(&Settings::default())?;
        }
        self.scene.postmaster = Ok(cluster.pid());
        self.scene.session = Some(self.connector.connect()?);
        Ok(started?)
    }

    fn session(&self) -> anyhow::Result<Session> {
        let mut session = self.connector.connect().context("a session")?;
        session.set_read_timeout(Some(PATIENCE));
        Ok(session)
    }

    fn execution(
        &mut self,
        variant: &ScatteredVariant,
        value: u32,
        cold: bool,
        known: &mut HashMap<(Pattern, u32), WantedPages>,
    ) -> anyhow::Result<ScatteredTrial> {
        let mut session = self.session()?;
        let wanted = match known.entry((variant.pattern, value)) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let blocks = scattered_read::wanted_blocks(&mut session, variant.pattern, value)?;
                entry.insert(match &self.files {
                    Ok(files) => files.pages_of(&blocks),
                    // Where the files can't be seen the prediction still holds.
                    Err(_) => TableFiles::new(PathBuf::new(), 8192).pages_of(&blocks),
                })
            }
        };
        for (name, setting) in &variant.settings {
            session
                .execute(&format!("SET {name} = '{setting}'"))
                .with_context(|| format!("cannot set {name} = {setting}"))?;
        }
        scattered_read::warm_up(&mut session, variant, value)?;
        let residency = |files: &Result<TableFiles, String>| match files {
            Ok(files) => files.residency(wanted),
            Err(why) => Residency::Unavailable(why.clone()),
        };
        if cold && let Ok(files) = &self.files {
            if self.drop_caches {
                std::fs::write(DROP_CACHES, "1").context("cannot drop the page cache")?;
            }
            files.evict()?;
        }
        let cached_before = residency(&self.files);
        let started = jiff::Timestamp::now();
        let follow = Follow::start(&self.scene.postmaster);
        self.observers.begin(self.scene);
        let explained = session.value(&format!(
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {}",
            scattered_read::statement(variant, value)
        ));
        let (samples, observed) = self.observers.end(self.scene);
        let processes_bytes = follow.finish();
        let explain = explained?.map_or_else(
            || Reading::Unavailable("EXPLAIN said nothing".to_owned()),
            Reading::Text,
        );
        Ok(ScatteredTrial {
            variant: 0,
            index: 0,
            started: format!("{started:.3}"),
            value,
            cold: cold && self.files.is_ok(),
            explain,
            wanted_blocks: wanted.blocks,
            wanted_pages: wanted.count(),
            cached_before,
            cached_after: residency(&self.files),
            processes_bytes,
            samples,
            observed,
        })
    }
}

/// Whether the connection went, rather than a statement failed.
fn is_lost(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<QueryError>())
        .any(QueryError::is_fatal)
}
