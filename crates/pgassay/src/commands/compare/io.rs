//! PGIO's workload and scattered reads in a comparison: what is read, and the arms' sessions.

use pgassay_analysis::number::counted;
use std::collections::HashMap;

use pgassay_analysis::host::HostSummary;
use pgassay_engine::drivers::pgio::PgioArm;
use pgassay_engine::drivers::scattered_read::ScatteredArm;
use pgassay_engine::workload::pgio::config::Config;
use pgassay_engine::workload::pgio::{loops, tables};
use pgassay_engine::workload::scattered_read::{self, FEWEST_BLOCKS};
use pgassay_engine::workload::setup;
use pgassay_model::pgio::PgioPlan;
use pgassay_model::scattered::{ScatteredPlan, ScatteredVariant};
use pgassay_model::workload::WorkloadPlan;
use pgassay_observe::Choice;
use pgassay_pgwire::{Connector, Session};
use pgassay_sys::stop::Stop;

use super::servers::Servers;
use crate::commands::bytes::executions::refuse_old;
use crate::commands::bytes::{pgio as run_pgio, scattered_read as run_scattered};
use crate::commands::progress::Progress;

/// The table where nothing was asked for: a slice of either server reads a tenth of it.
const DEFAULT_BYTES: u64 = 256 << 20;
/// The server's block size unless it says otherwise.
const BLOCK: u64 = 8192;

/// One way of reading scattered blocks, and of which table.
pub struct Scattered {
    /// As it is recorded.
    pub plan: ScatteredPlan,
}

impl Scattered {
    /// In a table of that size.
    pub fn new(size: Option<u64>, machine: &HostSummary, variant: ScatteredVariant) -> Self {
        let memory = machine.usable_memory_bytes();
        let bytes = size.unwrap_or(DEFAULT_BYTES.min(memory.unwrap_or(1 << 30) / 8));
        let rows = (bytes / BLOCK).max(FEWEST_BLOCKS);
        Self {
            plan: ScatteredPlan {
                rows,
                blocks: rows,
                block_size_bytes: BLOCK,
                page_size_bytes: rustix::param::page_size() as u64,
                variants: vec![variant],
                eviction: "the table's file by POSIX_FADV_DONTNEED".to_owned(),
                drop_caches: false,
                until_stable: false,
                own: None,
            },
        }
    }

    /// `scattered-read:bitmap`.
    pub fn name(&self) -> String {
        let way = self.plan.variants.first();
        let way = way.map_or("", |variant| variant.id.as_str());
        format!("{}:{way}", scattered_read::NAME)
    }

    /// What keeps other work out of the figures.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        run_scattered::settings(self.plan.rows * BLOCK)
    }
}

/// PGIO's workload as it is recorded before a server was asked anything.
pub fn pgio_plan(config: &Config) -> PgioPlan {
    run_pgio::described(config, false)
}

/// What keeps other work out of its figures.
pub fn pgio_settings(config: &Config, machine: &HostSummary) -> Vec<(&'static str, String)> {
    let memory = machine.usable_memory_bytes();
    run_pgio::settings(config, memory.unwrap_or(1 << 30))
}

fn version(session: &mut Session) -> anyhow::Result<u32> {
    let version = session.value("SHOW server_version_num")?;
    Ok(version.and_then(|v| v.parse().ok()).unwrap_or(0))
}

impl Servers {
    /// Makes PGIO's tables and loop on every server.
    ///
    /// # Errors
    /// Where a server refuses, or somebody asked for a stop.
    pub fn fill_pgio(
        &mut self,
        config: &Config,
        seed: u64,
        progress: &Progress,
        stop: &Stop,
    ) -> anyhow::Result<()> {
        for server in self.up() {
            let subject = &mut server.subject;
            progress.say(format!(
                "making {} of {}",
                counted(config.tables, "table"),
                config.scale
            ));
            tables::create(
                &Connector::new(&subject.conninfo),
                config.tables,
                config.rows,
                config.tables.min(4),
                seed,
                &mut |share| progress.share(share),
                stop,
            )?;
            server.pgio = true;
            let launched = subject.cluster.is_some();
            let session = subject.session()?;
            let version = version(session)?;
            loops::create(session, config, false, version)?;
            if launched {
                session.execute("CHECKPOINT")?;
            }
        }
        Ok(())
    }

    /// Makes the table of scattered reads on every server.
    ///
    /// # Errors
    /// Where a server refuses, or somebody asked for a stop.
    pub fn fill_scattered(
        &mut self,
        table: &WorkloadPlan,
        progress: &Progress,
        stop: &Stop,
    ) -> anyhow::Result<()> {
        for server in self.up() {
            refuse_old(server.subject.session()?)?;
            progress.say("making the table");
            let made =
                server
                    .subject
                    .make_tables(table, &mut |share| progress.share(share), stop)?;
            server.made = Some(made);
            if server.subject.cluster.is_some() {
                server.subject.session()?.execute("CHECKPOINT")?;
            }
        }
        Ok(())
    }

    /// The sessions of each arm that run PGIO's loop, connected to nothing yet.
    ///
    /// # Errors
    /// Where a server can't be reached.
    pub fn pgio_arms(
        &mut self,
        labels: &[String],
        observers: Choice,
    ) -> anyhow::Result<Vec<PgioArm>> {
        (0..self.arms_up())
            .map(|arm| {
                let watched = self.watched(arm, observers)?;
                let subject = self.subject(arm);
                Ok(PgioArm {
                    label: labels.get(arm).cloned(),
                    connector: Connector::new(&subject.conninfo),
                    watched,
                    version: version(subject.session()?)?,
                    sessions: Vec::new(),
                })
            })
            .collect()
    }

    /// The arms of scattered reads. No server is started again for them.
    ///
    /// # Errors
    /// Where a server can't be reached.
    pub fn scattered_arms(
        &mut self,
        labels: &[String],
        observers: Choice,
    ) -> anyhow::Result<Vec<ScatteredArm>> {
        (0..self.arms_up())
            .map(|arm| {
                let watched = self.watched(arm, observers)?;
                let subject = self.subject(arm);
                Ok(ScatteredArm {
                    label: labels.get(arm).cloned(),
                    connector: Connector::new(&subject.conninfo.with_options(setup::FIND_OURS)),
                    watched,
                    files: run_scattered::files(subject)?,
                    cluster: None,
                    wanted: HashMap::new(),
                })
            })
            .collect()
    }
}
