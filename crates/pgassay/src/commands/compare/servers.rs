//! The servers of a comparison: opened together, filled alike, looked at.

use std::path::Path;

use anyhow::{Context, bail};
use pgassay_engine::agents::Agents;
use pgassay_engine::drivers::Watched;
use pgassay_engine::drivers::in_server::{InServerArm, Sessions};
use pgassay_engine::drivers::wire::WireArm;
use pgassay_engine::workload::inserver::{self, Call, Knobs};
use pgassay_engine::workload::pgio::tables;
use pgassay_engine::workload::schema::Made;
use pgassay_engine::workload::sessions::Recordings;
use pgassay_engine::workload::setup;
use pgassay_model::comparison::{ArmFacts, Typed};
use pgassay_model::server::Origin;
use pgassay_model::workload::WorkloadPlan;
use pgassay_model::{Failure, Plan};
use pgassay_observe::{Choice, Scene};
use pgassay_pgwire::Connector;
use pgassay_server::TargetSpec;
use pgassay_server::extension::Extension;
use pgassay_server::settings::Settings;
use pgassay_sys::stop::Stop;

use super::facts;
use crate::cli::target::TargetArgs;
use crate::commands::from;
use crate::commands::pooler::{self, Passage};
use crate::commands::progress::Progress;
use crate::commands::record::shown;
use crate::commands::subject::Subject;
use crate::exit::explain;

/// What opening needs to know beside the targets.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Flags that all arms share: load, scratch, stand-in.
    pub common: TargetArgs,
    /// Memory of the machine, in bytes.
    pub memory_bytes: u64,
    /// Connections that each server must take.
    pub connections: u32,
    /// What may go through a pooler.
    pub passage: Passage,
}

/// The servers that are up, in the order in which they were made, and which arm is on which.
pub struct Servers {
    servers: Vec<Option<Server>>,
    of_arm: Vec<usize>,
}

/// One of them.
pub struct Server {
    /// It.
    pub subject: Subject,
    /// What was made in it.
    pub made: Option<Made>,
    /// It has PGIO's tables.
    pub pgio: bool,
}

impl Servers {
    /// Opens a server for each of the arms in `order`, in that order; it holds each of the first
    /// arms once. Arms that name the same running server share it. What a server gets of the
    /// machine depends on how many arms there are in all.
    ///
    /// # Errors
    /// Where one can't be had, naming the arm; the others are stopped again.
    pub fn open(
        arms: &[(String, Typed)],
        order: &[usize],
        around: &Surroundings,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let mut all = Self {
            servers: Vec::new(),
            of_arm: vec![usize::MAX; order.len()],
        };
        let share = around.memory_bytes / arms.len().max(1) as u64;
        for (step, &index) in order.iter().enumerate() {
            let (label, typed) = &arms[index];
            let spec: TargetSpec = typed.target.parse().map_err(explain)?;
            let shared = order[..step].iter().find(|earlier| {
                matches!(spec, TargetSpec::Server(_)) && arms[**earlier].1.target == typed.target
            });
            if let Some(earlier) = shared {
                all.of_arm[index] = all.of_arm[*earlier];
                continue;
            }
            let flags = TargetArgs {
                target: Some(typed.target.clone()),
                settings: typed.settings.clone(),
                confined: typed.confinement.clone().into(),
                ..around.common.clone()
            };
            let mut subject = Subject::open(&spec, &flags, share, around.connections, stop)
                .with_context(|| format!("{label} ({})", shown(&typed.target)))?;
            if subject.origin == Origin::Running {
                subject.keep(stop);
                let pooled = pooler::enter(&mut subject, &around.passage)
                    .with_context(|| format!("{label} ({})", shown(&typed.target)))?;
                let most = match pooled {
                    true => u32::MAX,
                    false => subject.admit(None)?.most_clients,
                };
                if most.saturating_add(4) < around.connections {
                    return Err(Failure::target(format!(
                        "{label}: only {most} clients may be used, half of the connections that \
                         are free"
                    ))
                    .with_remedy("ask for fewer with --clients")
                    .into());
                }
                if !pooled {
                    setup::remove_noted(subject.session()?)?;
                }
            }
            all.of_arm[index] = all.servers.len();
            all.servers.push(Some(Server {
                subject,
                made: None,
                pgio: false,
            }));
        }
        Ok(all)
    }

    /// How many arms have a server.
    pub fn arms_up(&self) -> usize {
        self.of_arm.len()
    }

    /// The server of an arm.
    pub fn subject(&mut self, arm: usize) -> &mut Subject {
        let server = self.of_arm[arm];
        let server = self.servers[server].as_mut();
        &mut server.expect("an arm that is up has a server").subject
    }

    /// The servers that are up, each once.
    pub fn up(&mut self) -> impl Iterator<Item = &mut Server> {
        self.servers.iter_mut().flatten()
    }

    /// The largest shared_buffers of all, in bytes.
    ///
    /// # Errors
    /// Where a session broke.
    pub fn shared_buffers(&mut self) -> anyhow::Result<u64> {
        let mut most = 0;
        for server in self.up() {
            let bytes = server.subject.session()?.value(setup::SHARED_BUFFERS)?;
            most = most.max(bytes.and_then(|b| b.parse().ok()).unwrap_or(0));
        }
        Ok(most)
    }

    /// How many of the servers were launched.
    pub fn launched(&self) -> usize {
        let servers = self.servers.iter().flatten();
        servers.filter(|s| s.subject.data_dir().is_some()).count()
    }

    /// Refuses where the disk can't hold the tables of all launched servers, so many bytes of each.
    ///
    /// # Errors
    /// With the bytes needed and those that are free.
    pub fn refuse_full_disk(&self, bytes: &[u64]) -> anyhow::Result<()> {
        let servers = self.servers.iter().flatten();
        let Some(dir) = servers.filter_map(|s| s.subject.data_dir()).next() else {
            return Ok(());
        };
        let Ok(disk) = rustix::fs::statvfs(&dir) else {
            return Ok(());
        };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        // As much WAL as data, and what a new cluster and its WAL segments take.
        let each = bytes
            .iter()
            .map(|bytes| bytes.saturating_mul(2).saturating_add(100 << 20));
        let needed = each.fold(0, u64::saturating_add);
        if free < needed {
            return Err(Failure::target(format!(
                "no space: the servers need {} MB below {}, where {} MB are free",
                needed / 1_000_000,
                dir.display(),
                free / 1_000_000
            ))
            .with_remedy("choose another place with --scratch DIR, a smaller --scale, --warehouses or --size, or vary less at a time")
            .into());
        }
        Ok(())
    }

    /// Makes the tables on every server, reads them all in once, and writes
    /// everything out, so that no arm begins with what another has behind it.
    ///
    /// # Errors
    /// Where a server refuses, or somebody asked for a stop.
    pub fn fill(&mut self, plans: &[Plan], progress: &Progress, stop: &Stop) -> anyhow::Result<()> {
        let count = self.servers.iter().flatten().count();
        let first = |server: usize| self.of_arm.iter().position(|of| *of == server);
        let arms: Vec<Option<usize>> = (0..self.servers.len()).map(first).collect();
        let servers = arms.iter().zip(&mut self.servers);
        let up = servers.filter_map(|(arm, server)| Some(((*arm)?, server.as_mut()?)));
        for (index, (arm, server)) in up.enumerate() {
            let Some(Plan { workload: plan, .. }) = plans.get(arm) else {
                bail!("a server without a plan");
            };
            progress.say(format!(
                "filling the tables, server {} of {count}",
                index + 1
            ));
            if server.subject.pooler.is_some() {
                continue;
            }
            let mut share = |done: f64| progress.share((index as f64 + done) / count as f64);
            server.made = Some(server.subject.make_tables(plan, &mut share, stop)?);
            setup::read_in(server.subject.session()?)?;
            if server.subject.cluster.is_some() {
                server.subject.session()?.execute("CHECKPOINT")?;
            }
        }
        Ok(())
    }

    /// Compiles the functions for each server and makes them there, with the tables
    /// that the call reads.
    ///
    /// # Errors
    /// Where they can't be compiled or loaded.
    pub fn fill_inside(&mut self, call: &Call, scratch: Option<&Path>) -> anyhow::Result<()> {
        for server in self.up() {
            let subject = &mut server.subject;
            let Some(cluster) = &subject.cluster else {
                bail!("a launched target has a cluster");
            };
            let installation = cluster.installation().clone();
            let extension = Extension::compiled_for(&installation, scratch).map_err(explain)?;
            let session = subject.session()?;
            let buffers = session.value(setup::SHARED_BUFFERS)?;
            inserver::create(
                session,
                &extension.definitions(inserver::SCHEMA),
                std::slice::from_ref(call),
                &Knobs::default(),
                buffers.and_then(|b| b.parse().ok()).unwrap_or(128 << 20),
            )?;
            session.execute("CHECKPOINT")?;
        }
        Ok(())
    }

    /// The sessions of each arm that call a primitive, connected to nothing yet.
    ///
    /// # Errors
    /// Where a server can't be reached.
    pub fn sessions(
        &mut self,
        labels: &[String],
        observers: Choice,
    ) -> anyhow::Result<Vec<InServerArm>> {
        (0..self.of_arm.len())
            .map(|arm| {
                Ok(InServerArm {
                    label: labels.get(arm).cloned(),
                    sessions: Sessions::new(
                        Connector::new(&self.subject(arm).conninfo),
                        Knobs::default().arena_locks(),
                    )?,
                    watched: self.watched(arm, observers)?,
                })
            })
            .collect()
    }

    /// An arm's server as it is looked at beside its load. The subject keeps a session for itself,
    /// to clean up with.
    pub fn watched(&mut self, arm: usize, observers: Choice) -> anyhow::Result<Watched> {
        let subject = self.subject(arm);
        let session =
            pgassay_pgwire::connect(&subject.conninfo.observing().with_options(setup::FIND_OURS))?;
        let scene = Scene {
            postmaster: subject.scene.postmaster.clone(),
            session: Some(session),
            storage: subject.scene.storage.clone(),
            known: Default::default(),
            events: Default::default(),
        };
        let observers = match subject.pooler {
            Some(_) => Choice::default(),
            None => observers,
        };
        Ok(Watched::start(scene, observers, &subject.conninfo))
    }

    /// What must not differ beyond the plan, as an arm's server has it.
    ///
    /// # Errors
    /// Where the session broke.
    pub fn arm_facts(&mut self, arm: usize, workload: &WorkloadPlan) -> anyhow::Result<ArmFacts> {
        facts::of_arm(self.subject(arm), workload)
    }

    /// The settings of an arm that are not in force as asked for.
    ///
    /// # Errors
    /// Where the session broke.
    pub fn not_in_force(&mut self, arm: usize) -> anyhow::Result<Vec<String>> {
        self.subject(arm).settings_not_in_force()
    }

    /// The load of each arm, connected to nothing yet.
    ///
    /// # Errors
    /// Where a control session can't be had, or an agent can't prepare its clients.
    pub fn arms(
        &mut self,
        plans: &[Plan],
        labels: &[String],
        observers: Choice,
        (agents, recordings): (Option<&Agents>, &Recordings),
        stop: &Stop,
    ) -> anyhow::Result<Vec<WireArm>> {
        (0..self.of_arm.len())
            .zip(plans)
            .map(|(arm, plan)| {
                let watched = self.watched(arm, observers)?;
                let subject = self.subject(arm);
                let owned = subject.cluster.is_some();
                let pooled = subject.pooler.is_some();
                let source = from::source(agents, subject.outside.as_ref(), recordings);
                let conninfo = subject.conninfo_of_load(&plan.workload);
                let mut load = WireArm::new(plan, &conninfo, watched, owned, source, stop)?;
                load.label = labels.get(arm).cloned();
                if !pooled {
                    load.meter_statements(plan, stop)?;
                }
                Ok(load)
            })
            .collect()
    }

    /// Looks whether every machine that gives load finds each server.
    ///
    /// # Errors
    /// Naming the one that does not.
    pub fn find_from(&mut self, agents: &Agents, plan: &WorkloadPlan) -> anyhow::Result<()> {
        self.up()
            .try_for_each(|server| from::find(agents, &mut server.subject, plan))
    }

    /// Stops the server of the last arm, if no other arm uses it.
    pub fn drop_last(&mut self) {
        if let Some(server) = self.of_arm.pop()
            && !self.of_arm.contains(&server)
        {
            self.servers[server] = None;
        }
    }

    /// The last lines of a dead server's log, where one died.
    pub fn last_words(&mut self) -> Option<String> {
        self.up().find_map(|server| {
            let cluster = server.subject.cluster.as_mut()?;
            cluster.ended()?;
            Some(cluster.log_tail(20))
        })
    }

    /// Why a server died, in its log's words, where one of them tells. One whose
    /// processes crashed may be up again by now.
    pub fn cause_of_death(&self) -> Option<String> {
        let servers = self.servers.iter().flatten();
        let clusters = servers.filter_map(|s| s.subject.cluster.as_ref());
        clusters
            .map(|cluster| cluster.log_tail(200))
            .find_map(|log| cause_in(&log))
    }

    /// Takes our tables away from running servers; launched ones go as a whole.
    ///
    /// # Errors
    /// Of the first server where something is in the way; the others are cleaned up all the same.
    pub fn clean_up(&mut self) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        for server in self.up() {
            if server.subject.cluster.is_none() {
                outcome = outcome.and(server.clean_up());
            }
        }
        outcome
    }
}

impl Server {
    fn clean_up(&mut self) -> anyhow::Result<()> {
        // The control session may have died with a restart.
        let new = || setup::again(&Connector::new(&self.subject.conninfo));
        if std::mem::take(&mut self.pgio) {
            tables::remove(&mut new()?)?;
        }
        match self.made.take() {
            Some(made) => setup::remove(&mut new()?, &made),
            None => Ok(()),
        }
    }
}

/// The first line of a server's log that tells why its processes were ended.
fn cause_in(log: &str) -> Option<String> {
    log.lines().find_map(|line| {
        let (_, said) = line
            .split_once("PANIC:  ")
            .or_else(|| line.split_once("LOG:  "))?;
        let tells = line.contains("PANIC:  ") || said.contains(" was terminated by signal ");
        tells.then(|| said.to_owned())
    })
}

/// Checks the settings of a flag before any server is started.
///
/// # Errors
/// Naming the flag and the remedy.
pub fn check_settings(flag: &str, typed: &[String]) -> anyhow::Result<()> {
    Settings::parse(flag, typed).map(drop).map_err(explain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_tells_why_its_server_died() {
        let full = "x UTC [7] LOG:  checkpoint starting\n\
            x UTC [9] PANIC:  could not write to file \"pg_wal/xlogtemp.9\": No space left on device\n\
            x UTC [1] LOG:  server process (PID 9) was terminated by signal 6: Aborted\n";
        assert!(
            cause_in(full)
                .unwrap()
                .starts_with("could not write to file")
        );
        let killed = "x UTC [1] LOG:  server process (PID 9) was terminated by signal 9: Killed\n";
        assert_eq!(
            cause_in(killed).unwrap(),
            "server process (PID 9) was terminated by signal 9: Killed"
        );
        assert_eq!(cause_in("x UTC [1] LOG:  database system is ready\n"), None);
    }
}
