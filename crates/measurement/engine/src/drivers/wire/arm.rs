//! A server with its clients.

use std::time::{Duration, Instant};

use pgassay_load::{Engine, Protocol, raise_descriptor_limit};
use pgassay_model::Plan;
use pgassay_observe::{Scene, Sent};
use pgassay_pgwire::{ConnectError, Connector, Conninfo, Session};
use pgassay_sys::stop::Stop;

use super::giver::{Giver, no_connection};
use super::metered::Metered;
use super::plan::engine_options;
use crate::agents::{Agents, Outside, Trouble};
use crate::drivers::{Arm, Watched};
use crate::runner::{TrialFailure, is_lost};
use crate::workload::sessions::Recordings;
use crate::workload::{self, parameter_types, setup};

/// One server with its connections.
pub struct WireArm {
    /// The server's name, where there are several.
    pub label: Option<String>,
    pub(super) giver: Giver,
    /// What measures the CPU time of statements after each slice, where that is wanted.
    pub(super) metered: Option<Metered>,
    /// How the load connects.
    load: Conninfo,
    pub(super) watched: Watched,
    /// Whether the server is ours to vacuum and to checkpoint.
    owned: bool,
    connector: Connector,
    idle: Vec<Session>,
    /// Whether the observers have read everything once.
    pub(super) acquainted: bool,
}

/// Where the load comes from.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// This process, which has read these sessions where it replays any.
    Here(&'a Recordings),
    /// Agents, and how those on other machines reach the server, where that is not how we do.
    Agents(&'a Agents, Option<&'a Outside>),
}

/// Draws of the values that a plan's clients send.
const DRAWS: u64 = 3;

/// Statements that the plan's clients may send, as far as the scripts alone tell.
fn sent(plan: &Plan, stop: &Stop) -> anyhow::Result<Vec<Sent>> {
    let program = workload::program(&plan.workload)?;
    let options = engine_options(plan, stop)?;
    let seeds = (0..DRAWS).map(|draw| plan.seed.wrapping_add(draw));
    let prepared = options.protocol == Protocol::Prepared;
    let of_seed = |seed| {
        let drawn = pgassay_load::sent(&program, &options, seed).into_iter();
        let drawn = drawn.map(|sent| Sent::new(sent.sql, sent.values, prepared));
        Sent::in_order(drawn)
    };
    Ok(seeds.flat_map(of_seed).collect())
}

impl WireArm {
    /// Prepares the clients of an arm; connects none yet. `owned` says that we launched the server.
    ///
    /// # Errors
    /// Where the workload's scripts or the protocol's name are wrong, or an agent can't prepare its clients.
    pub fn new(
        plan: &Plan,
        conninfo: &Conninfo,
        mut watched: Watched,
        owned: bool,
        source: Source<'_>,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let conninfo = conninfo
            .with_application_name("pgassay load")
            .with_options(&setup::find_tables(&plan.workload, conninfo)?);
        let typed = parameter_types::typed(plan, &conninfo)?;
        let plan = typed.as_ref().unwrap_or(plan);
        // Statements of clients that connect as another role are that role's.
        let role = match source {
            Source::Agents(_, Some(outside)) if !owned => outside.user(),
            _ => None,
        };
        if role.is_none_or(|role| role == conninfo.user) {
            watched.observers.learn(&conninfo, sent(plan, stop)?);
        }
        let giver = match source {
            Source::Here(recordings) => {
                let program = workload::program(&plan.workload)?;
                let mut options = engine_options(plan, stop)?;
                options.replay = recordings.replay(&plan.workload, &program)?;
                Giver::Here(Box::new(Engine::new(conninfo.clone(), program, options)))
            }
            Source::Agents(agents, outside) => {
                let several = agents.prepare(plan, &conninfo, outside);
                Giver::Several(several.map_err(Trouble::into_failure)?)
            }
        };
        let connector = Connector::new(&conninfo.with_application_name("pgassay idle"));
        Ok(Self {
            label: None,
            giver,
            metered: None,
            load: conninfo,
            watched,
            owned,
            connector,
            idle: Vec::new(),
            acquainted: false,
        })
    }

    /// Has the CPU time of each statement measured after each slice, by one more session.
    ///
    /// # Errors
    /// Where the workload's scripts are wrong.
    pub fn meter_statements(&mut self, plan: &Plan, stop: &Stop) -> anyhow::Result<()> {
        let typed = parameter_types::typed(plan, &self.load)?;
        let plan = typed.as_ref().unwrap_or(plan);
        self.metered = Metered::new(plan, &self.load, stop)?;
        Ok(())
    }

    /// What could be looked at, when the load is over.
    pub(super) fn into_scene(self) -> Scene {
        self.watched.scene
    }

    /// Opens the connections that do nothing, before the first trial; the load has `most` at
    /// most beside them.
    pub(super) fn open_idle(&mut self, wanted: u32, most: u32) -> Result<(), TrialFailure> {
        if wanted > 0 && self.idle.is_empty() {
            raise_descriptor_limit(wanted as usize + most as usize).map_err(no_connection)?;
        }
        while self.idle.len() < wanted as usize {
            let opened = self.connector.connect().map_err(|error| {
                let message = format!(
                    "{} of {wanted} idle connections could be opened: {error}",
                    self.idle.len()
                );
                match error {
                    ConnectError::TooManyConnections { .. } => {
                        TrialFailure::PointOutOfReach(message)
                    }
                    _ => TrialFailure::ServerDied(message),
                }
            })?;
            self.idle.push(opened);
        }
        Ok(())
    }

    /// Brings a launched server into the state in which every trial of a writing workload begins;
    /// how long that took, where it was done.
    pub(super) fn settle(
        &mut self,
        statements: &[String],
    ) -> Result<Option<Duration>, TrialFailure> {
        if !self.owned || statements.is_empty() {
            return Ok(None);
        }
        let Some(session) = &mut self.watched.scene.session else {
            return Ok(None);
        };
        let begin = Instant::now();
        match setup::settle(session, statements) {
            Ok(()) => Ok(Some(begin.elapsed())),
            Err(error) => Err(match is_lost(&error) {
                true => TrialFailure::ServerDied(format!("{error:#}")),
                false => TrialFailure::Other(error),
            }),
        }
    }

    /// Has a launched server write everything out, so that it stays silent while
    /// another is measured; how else it went the next trial will tell.
    pub(super) fn checkpoint(&mut self) {
        if self.owned
            && let Some(session) = &mut self.watched.scene.session
        {
            drop(session.execute("CHECKPOINT"));
        }
    }
}

impl Arm for WireArm {
    fn watched(&mut self) -> &mut Watched {
        &mut self.watched
    }
}
