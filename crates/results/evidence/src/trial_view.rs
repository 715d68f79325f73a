//! One trial with its histogram and samples interpreted: what metrics are computed from.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use pgassay_model::live::Disturbed;
use pgassay_model::observed::Observed;
use pgassay_model::reading::Sample;
use pgassay_model::record::RecordedRun;
use pgassay_model::samplers;
use pgassay_model::storage::Storage;
use pgassay_model::trial::{ScriptRecord, Trial};
use pgassay_model::warning::Warning;
use pgassay_readings::growth::Growth;
use pgassay_readings::pmu::{self, Counts};
use pgassay_readings::samples;

use crate::server;
use crate::storage::{DeviceReads, ReadFigures, figures};

/// Commits that `pg_stat_database` must have counted for figures per commit.
const FEWEST_COMMITS: u64 = 100;

/// Bytes of a block where the server's own size is not known.
const BLOCK_SIZE: u64 = 8192;

/// What a trial's samples are read with.
#[derive(Debug, Clone, Copy)]
pub struct Server<'a> {
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
pub fn others_busy(share: Option<f64>) -> Option<Warning> {
    let share = share.filter(|share| *share > OTHERS)?;
    let text = format!(
        "other processes used {:.0} % of the CPU; the figures hold for a machine shared with them",
        share * 100.0
    );
    let warning = Warning::new("others-busy", text);
    Some(warning.with_remedy("measure again when the machine is quiet"))
}

/// The median of a share over trials that show it; the upper one of an even number.
pub fn median_share<'t, 'a: 't>(
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
    /// Its samples, without those that cover too little of its window.
    samples: Cow<'a, BTreeMap<String, Sample>>,
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
    pub fn of(record: &'a Trial, server: Server) -> Self {
        let seconds = record.window_ns as f64 / 1e9;
        let by_sessions = record.server_cpu_ns.map(|ns| ns as f64 / 1e9 / seconds);
        let samples = samples::of_trial(record);
        Self {
            latency: decode(&record.latency),
            seconds,
            server_cpus: by_sessions.or_else(|| server_cpus(record, &samples)),
            host: samples.get(samplers::HOST_STAT).and_then(samples::host_cpu),
            reads: figures(&samples, server.storage, server.block_size),
            events: samples.get(samplers::SERVER_EVENTS).and_then(pmu::counts),
            samples,
            record,
        }
    }

    /// The share of all CPU time that neither server nor client used, the hypervisor's other guests aside.
    pub fn others_share(&self) -> Option<f64> {
        self.disturbed()?.others
    }

    /// What disturbed the load, as shares of all CPU time; none where the machine's is not known.
    pub fn disturbed(&self) -> Option<Disturbed> {
        let ours = self
            .server_cpus
            .map(|server| server + self.client_cpus_here());
        Some(self.host?.disturbance(ours))
    }

    /// CPUs that neither server nor client kept busy.
    pub fn other_cpus(&self) -> Option<f64> {
        let ours = self.server_cpus? + self.client_cpus_here();
        Some((self.host?.busy_cpus()? - ours).max(0.0))
    }

    /// The same with what the hypervisor gave to other guests.
    pub fn taken_share(&self) -> Option<f64> {
        let disturbed = self.disturbed()?;
        Some(disturbed.others? + disturbed.steal?)
    }

    /// Whether samples are left out because they cover too little of the window.
    pub fn has_short_samples(&self) -> bool {
        matches!(self.samples, Cow::Owned(_))
    }

    /// The sample with this id, if the trial has it.
    pub fn sample(&self, id: &str) -> Option<&Sample> {
        self.samples.get(id)
    }

    /// Units of work a second.
    pub fn rate(&self) -> f64 {
        self.record.transactions as f64 / self.seconds
    }

    /// A percentile of the latency, microseconds.
    pub fn percentile_us(&self, percentile: f64) -> Option<f64> {
        let latency = self
            .latency
            .as_ref()
            .filter(|latency| !latency.is_empty())?;
        Some(latency.value_at_percentile(percentile) as f64 / 1000.0)
    }

    /// What a script of that name came to.
    pub fn script(&self, name: &str) -> Option<&ScriptRecord> {
        self.record
            .scripts
            .iter()
            .find(|script| script.name == name)
    }

    /// A percentile of the latency of one script's transactions, microseconds.
    pub fn script_percentile_us(&self, name: &str, percentile: f64) -> Option<f64> {
        let latency = decode(self.script(name)?.latency.as_deref()?)?;
        (!latency.is_empty()).then(|| latency.value_at_percentile(percentile) as f64 / 1000.0)
    }

    /// CPUs that the load threads kept busy.
    pub fn client_cpus(&self) -> f64 {
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
    pub fn client_user_cpus(&self) -> f64 {
        self.record.client_user_ns as f64 / 1e9 / self.seconds
    }

    /// Microseconds of CPU for each transaction, from CPUs kept busy.
    pub fn per_transaction_us(&self, cpus: f64) -> Option<f64> {
        (self.record.transactions > 0).then(|| cpus * 1e6 / self.rate())
    }

    /// Events of one name for each transaction.
    pub fn events_per_transaction(&self, name: &str) -> Option<f64> {
        let count = self.events.as_ref()?.count(name)?;
        let growth = Growth::of(self.sample(samplers::SERVER_EVENTS)?, count);
        (self.record.transactions > 0).then_some(growth.per_second()? / self.rate())
    }

    /// How often one event happened for each of another.
    pub fn events_ratio(&self, of: &str, to: &str) -> Option<f64> {
        self.events.as_ref()?.ratio(of, to)
    }

    /// A count of `pg_stat_database` for each commit that it counted; its counters arrive late, but
    /// all of a backend's together.
    pub fn per_commit(&self, count: Option<u64>) -> Option<f64> {
        let sample = self.sample(samplers::PG_STAT_DATABASE)?;
        let commits = samples::database_counter(sample, "xact_commit")?;
        let count = count?;
        (commits > FEWEST_COMMITS).then(|| count as f64 / commits as f64)
    }

    /// A counter of `pg_stat_database`.
    pub fn counter(&self, name: &str) -> Option<u64> {
        samples::database_counter(self.sample(samplers::PG_STAT_DATABASE)?, name)
    }

    /// What the devices under the data directory read.
    pub fn device(&self) -> Option<&DeviceReads> {
        self.reads.device.seen()
    }

    /// Memory of the page tables of the server's processes.
    pub fn page_tables(&self) -> Option<f64> {
        let sample = self.sample(samplers::SERVER_PAGE_TABLES)?;
        let times = self.sample(samplers::SERVER_SCHEDSTAT);
        Some(samples::page_table_bytes(sample, times)? as f64)
    }
}

fn server_cpus(record: &Trial, samples: &BTreeMap<String, Sample>) -> Option<f64> {
    let sample = |id: &str| samples.get(id);
    let own = sample(samplers::SERVER_SCHEDSTAT)?;
    // The backend that answers our observers is no part of the load.
    let ours = record.observed.as_ref().map_or(0, Observed::server_ns);
    // Parallel workers and short sessions end within a window.
    let ended = sample(samplers::SERVER_ENDED).and_then(|ended| {
        let ns = samples::ended_cpu_ns(ended, own)?;
        Growth::of(ended, ns as f64).per_second()
    });
    let own = Growth::of(
        own,
        samples::server_cpu_ns(own)?.saturating_sub(ours) as f64,
    );
    Some((own.per_second()? + ended.unwrap_or(0.0)) / 1e9)
}

/// A latency histogram as recorded: V2, deflate, base64. None where it is damaged.
pub fn decode(text: &str) -> Option<Histogram<u64>> {
    let bytes = BASE64_STANDARD.decode(text).ok()?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
}

#[cfg(test)]
mod tests {
    use pgassay_model::reading::Reading;

    use super::*;
    use crate::metrics;

    /// A trial of 1.5 s on two CPUs that were busy all the time, 1.5 of them with the server and 0.2 with the
    /// client. The sampler read over so many milliseconds of it.
    fn trial(covered_ms: u64) -> Trial {
        let sample = |before: String, after: String| Sample {
            before: Reading::Text(before),
            after: Reading::Text(after),
            elapsed_ns: covered_ms * 1_000_000,
        };
        let cpu = |ticks: u64| format!("cpu {ticks} 0 0 0 0 0 0 0");
        let disk = |sectors: u64| format!("8 0 sda {sectors} 0 {sectors} 0 0 0 0 0 0 0 0\n");
        let read = |bytes: u64| format!("7 rchar: 0 read_bytes: {bytes}");
        let stat = |sessions: u64| format!(r#"{{"sessions": {sessions}}}"#);
        let samples = [
            (samplers::HOST_STAT, sample(cpu(0), cpu(covered_ms / 5))),
            (
                samplers::SERVER_SCHEDSTAT,
                sample(
                    "7 0 0 1".into(),
                    format!("7 {} 0 1", covered_ms * 1_500_000),
                ),
            ),
            (samplers::HOST_DISKSTATS, sample(disk(0), disk(covered_ms))),
            (
                samplers::SERVER_IO,
                sample(read(0), read(covered_ms * 1000)),
            ),
            (
                samplers::PG_STAT_DATABASE,
                sample(stat(0), stat(covered_ms)),
            ),
        ];
        Trial {
            window_ns: 1_500_000_000,
            transactions: 3000,
            client_user_ns: 300_000_000,
            samples: samples.map(|(id, sample)| (id.to_owned(), sample)).into(),
            ..Trial::default()
        }
    }

    fn storage() -> Storage {
        Storage {
            counted: vec!["sda".into()],
            ..Storage::default()
        }
    }

    /// 2.00 busy CPUs were printed as 0.93 where the readings covered 0.7 s of 1.5 s.
    #[test]
    fn a_late_sampler_changes_no_rate() {
        let storage = storage();
        let server = Server {
            storage: Some(&storage),
            ..Server::default()
        };
        for covered_ms in [1500, 1360, 800, 3000] {
            let trial = trial(covered_ms);
            let view = TrialView::of(&trial, server);
            let figures = metrics::of_trial(&view);
            for (metric, expected) in [
                (metrics::MACHINE_CPUS, 2.0),
                (metrics::SERVER_CPUS, 1.5),
                (metrics::CLIENT_CPUS, 0.2),
                (metrics::DEVICE_READS, 512_000.0),
                (metrics::DEVICE_REQUESTS, 1000.0),
                (metrics::SERVER_READS, 1e6),
            ] {
                let found = figures[&metric];
                let near = (found - expected).abs() < 1e-6 * expected;
                assert!(near, "{covered_ms} ms: {metric:?} {found}");
            }
            let others = view.others_share().unwrap();
            assert!((others - 0.15).abs() < 1e-9, "{covered_ms} ms: {others}");
            assert!((view.other_cpus().unwrap() - 0.3).abs() < 1e-9);
            assert!(!view.has_short_samples());
        }
    }

    /// CPUs of another machine were subtracted from those of the server's.
    #[test]
    fn a_client_on_another_machine_has_none_of_the_servers_cpus() {
        let far = pgassay_model::machines::MachineRecord {
            user_ns: 300_000_000,
            ..Default::default()
        };
        let trial = Trial {
            machines: vec![far],
            ..trial(1500)
        };
        let others = TrialView::of(&trial, Server::default()).other_cpus();
        assert!((others.unwrap() - 0.5).abs() < 1e-9, "{others:?}");
    }

    #[test]
    fn readings_that_cover_less_than_half_of_the_window_do_not_count() {
        let trial = trial(700);
        let view = TrialView::of(&trial, Server::default());
        assert!(view.has_short_samples());
        assert_eq!((view.server_cpus, view.others_share()), (None, None));
        let figures = metrics::of_trial(&view);
        assert_eq!(figures.get(&metrics::MACHINE_CPUS), None);
        assert_eq!(
            view.sample(samplers::HOST_STAT).unwrap().after,
            Reading::Unavailable("the readings cover 0.70 s of a window of 1.50 s".into())
        );
        // Without a length nothing is known of it.
        let whole = Trial {
            window_ns: 0,
            ..trial.clone()
        };
        assert!(!TrialView::of(&whole, Server::default()).has_short_samples());
    }
}
