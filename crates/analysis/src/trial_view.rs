//! One trial with its histogram and samples interpreted: what metrics are computed from.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use pgassay_model::observed::Observed;
use pgassay_model::reading::Sample;
use pgassay_model::record::RecordedRun;
use pgassay_model::samplers;
use pgassay_model::storage::Storage;
use pgassay_model::trial::{ScriptRecord, Trial};
use pgassay_model::warning::Warning;
use pgassay_readings::pmu::{self, Counts};
use pgassay_readings::samples;

use crate::server;
use crate::storage::{DeviceReads, ReadFigures, Seen, figures};

/// Commits that `pg_stat_database` must have counted for figures per commit.
const FEWEST_COMMITS: u64 = 100;

/// Bytes of a block where the server's own size is not known.
const BLOCK_SIZE: u64 = 8192;

/// What a trial's samples are read with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Server<'a> {
    /// What lies under the data directory, where that was recorded.
    pub storage: Option<&'a Storage>,
    /// Bytes of one of its blocks. All settings are read for it: once, and not for each trial.
    pub block_size: u64,
}

impl<'a> Server<'a> {
    /// A server of a run.
    pub fn of(run: &'a RecordedRun, arm: u32) -> Self {
        let size = run.servers.get(&arm).and_then(server::block_size);
        Self {
            storage: run.storage.get(&arm),
            block_size: size.unwrap_or(BLOCK_SIZE),
        }
    }
}

impl Default for Server<'_> {
    fn default() -> Self {
        Self {
            storage: None,
            block_size: BLOCK_SIZE,
        }
    }
}

/// Others' work, as a share of all CPUs, that bends the figures.
const OTHERS: f64 = 0.1;

/// What is said where others' work has that share.
pub(crate) fn others_busy(share: Option<f64>) -> Option<Warning> {
    let share = share.filter(|share| *share > OTHERS)?;
    let text = format!(
        "other processes used {:.0} % of the CPU; figures are too low",
        share * 100.0
    );
    let warning = Warning::new("others-busy", text);
    Some(warning.with_remedy("measure again when the machine is quiet"))
}

/// The median of a share over trials that show it; the upper one of an even number.
pub(crate) fn median_share<'t, 'a: 't>(
    trials: impl IntoIterator<Item = &'t TrialView<'a>>,
    of: impl Fn(&TrialView<'a>) -> Option<f64>,
) -> Option<f64> {
    let mut shares: Vec<f64> = trials.into_iter().filter_map(of).collect();
    shares.sort_by(f64::total_cmp);
    shares.get(shares.len() / 2).copied()
}

/// A trial with its histogram and samples interpreted.
#[derive(Debug)]
pub struct TrialView<'a> {
    /// The trial as recorded.
    pub record: &'a Trial,
    /// Latency from the intended start, nanoseconds; none where single transactions are not timed.
    pub latency: Option<Histogram<u64>>,
    /// Length of its window.
    pub seconds: f64,
    /// CPUs that the server kept busy.
    pub server_cpus: Option<f64>,
    /// CPU time of the whole machine.
    pub host: Option<samples::HostCpu>,
    /// Blocks and bytes that were read.
    pub reads: ReadFigures,
    /// Events that processor and kernel counted.
    pub events: Option<Counts>,
}

impl<'a> TrialView<'a> {
    /// Interprets what was recorded.
    pub(crate) fn of(record: &'a Trial, server: Server) -> Self {
        let seconds = record.window_ns as f64 / 1e9;
        let by_sessions = record.server_cpu_ns.map(|ns| ns as f64 / 1e9 / seconds);
        Self {
            latency: decode(&record.latency),
            seconds,
            server_cpus: by_sessions.or_else(|| server_cpus(record)),
            host: record
                .samples
                .get(samplers::HOST_STAT)
                .and_then(samples::host_cpu),
            reads: figures(&record.samples, server.storage, server.block_size),
            events: record
                .samples
                .get(samplers::SERVER_EVENTS)
                .and_then(pmu::counts),
            record,
        }
    }

    /// The share of all CPU time that neither server nor client used, the hypervisor's other guests aside.
    pub(crate) fn others_share(&self) -> Option<f64> {
        let host = self.host.filter(|host| host.total > 0.0)?;
        let ours = (self.server_cpus? + self.client_cpus_here()) * self.seconds;
        Some((host.busy - ours).max(0.0) / host.total)
    }

    /// The same with what the hypervisor gave to other guests.
    pub(crate) fn taken_share(&self) -> Option<f64> {
        let host = self.host.filter(|host| host.total > 0.0)?;
        Some(self.others_share()? + host.steal / host.total)
    }

    pub(crate) fn sample(&self, id: &str) -> Option<&Sample> {
        self.record.samples.get(id)
    }

    /// Units of work a second.
    pub(crate) fn rate(&self) -> f64 {
        self.record.transactions as f64 / self.seconds
    }

    /// A percentile of the latency, microseconds.
    pub(crate) fn percentile_us(&self, percentile: f64) -> Option<f64> {
        let latency = self
            .latency
            .as_ref()
            .filter(|latency| !latency.is_empty())?;
        Some(latency.value_at_percentile(percentile) as f64 / 1000.0)
    }

    /// What a script of that name came to.
    pub(crate) fn script(&self, name: &str) -> Option<&ScriptRecord> {
        self.record
            .scripts
            .iter()
            .find(|script| script.name == name)
    }

    /// A percentile of the latency of one script's transactions, microseconds.
    pub(crate) fn script_percentile_us(&self, name: &str, percentile: f64) -> Option<f64> {
        let latency = decode(self.script(name)?.latency.as_deref()?)?;
        (!latency.is_empty()).then(|| latency.value_at_percentile(percentile) as f64 / 1000.0)
    }

    /// CPUs that the load threads kept busy.
    pub(crate) fn client_cpus(&self) -> f64 {
        self.record.client_ns() as f64 / 1e9 / self.seconds
    }

    /// The same on the machine whose CPUs were looked at.
    fn client_cpus_here(&self) -> f64 {
        let machines = &self.record.machines;
        if machines.is_empty() {
            return self.client_cpus();
        }
        let here = machines.iter().filter(|machine| machine.beside_server);
        let busy: u64 = here
            .map(|machine| machine.user_ns + machine.system_ns)
            .sum();
        busy as f64 / 1e9 / self.seconds
    }

    /// The same in user mode.
    pub(crate) fn client_user_cpus(&self) -> f64 {
        self.record.client_user_ns as f64 / 1e9 / self.seconds
    }

    /// Microseconds of CPU for each transaction, from CPUs kept busy.
    pub(crate) fn per_transaction_us(&self, cpus: f64) -> Option<f64> {
        (self.record.transactions > 0).then(|| cpus * 1e6 / self.rate())
    }

    /// Events of one name for each transaction.
    pub(crate) fn events_per_transaction(&self, name: &str) -> Option<f64> {
        let count = self.events.as_ref()?.count(name)?;
        (self.record.transactions > 0).then(|| count / self.record.transactions as f64)
    }

    /// How often one event happened for each of another.
    pub(crate) fn events_ratio(&self, of: &str, to: &str) -> Option<f64> {
        self.events.as_ref()?.ratio(of, to)
    }

    /// A count of `pg_stat_database` for each commit that it counted; its counters arrive late, but
    /// all of a backend's together.
    pub(crate) fn per_commit(&self, count: Option<u64>) -> Option<f64> {
        let sample = self.sample(samplers::PG_STAT_DATABASE)?;
        let commits = samples::database_counter(sample, "xact_commit")?;
        let count = count?;
        (commits > FEWEST_COMMITS).then(|| count as f64 / commits as f64)
    }

    /// A counter of `pg_stat_database`.
    pub(crate) fn counter(&self, name: &str) -> Option<u64> {
        samples::database_counter(self.sample(samplers::PG_STAT_DATABASE)?, name)
    }

    /// What the devices under the data directory read.
    pub(crate) fn device(&self) -> Option<&DeviceReads> {
        self.reads.device.seen()
    }

    /// Bytes a second, of a count that may not be visible.
    pub(crate) fn rate_of(&self, bytes: &Seen<u64>) -> Option<f64> {
        Some(*bytes.seen()? as f64 / self.seconds)
    }

    /// Memory of the page tables of the server's processes.
    pub(crate) fn page_tables(&self) -> Option<f64> {
        let sample = self.sample(samplers::SERVER_PAGE_TABLES)?;
        let times = self.sample(samplers::SERVER_SCHEDSTAT);
        Some(samples::page_table_bytes(sample, times)? as f64)
    }
}

fn server_cpus(record: &Trial) -> Option<f64> {
    let sample = |id: &str| record.samples.get(id);
    let own = sample(samplers::SERVER_SCHEDSTAT)?;
    // The backend that answers our observers is no part of the load.
    let ours = record.observed.as_ref().map_or(0, Observed::server_ns);
    // Parallel workers and short sessions end within a window.
    let ended = sample(samplers::SERVER_ENDED);
    let ended = ended.and_then(|ended| samples::ended_cpu_ns(ended, own));
    let ns = samples::server_cpu_ns(own)? + ended.unwrap_or(0);
    let ns = ns.saturating_sub(ours);
    Some(ns as f64 / own.elapsed_ns.max(1) as f64)
}

/// A latency histogram as recorded: V2, deflate, base64. None where it is damaged.
pub(crate) fn decode(text: &str) -> Option<Histogram<u64>> {
    let bytes = BASE64_STANDARD.decode(text).ok()?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
}
