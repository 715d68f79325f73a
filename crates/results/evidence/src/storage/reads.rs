//! The three figures of one window, from what was recorded around it.

use std::collections::BTreeMap;

use pgassay_model::reading::Sample;
use pgassay_model::samplers::{self, CGROUP_IO, HOST_DISKSTATS, PG_STAT_IO, SERVER_IO};
use pgassay_model::storage::Storage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use pgassay_readings::growth::Growth;
use pgassay_readings::io::{CgroupIo, DiskLine, ProcessIo};
use pgassay_readings::samples;

/// A figure, or why it can't be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen<T> {
    /// The figure.
    Seen(T),
    /// Why there is none.
    Unavailable(String),
}

impl<T> Seen<T> {
    /// The figure, where there is one.
    pub fn seen(&self) -> Option<&T> {
        match self {
            Self::Seen(value) => Some(value),
            Self::Unavailable(_) => None,
        }
    }
}

impl<T> From<Result<T, String>> for Seen<T> {
    fn from(result: Result<T, String>) -> Self {
        match result {
            Ok(value) => Self::Seen(value),
            Err(why) => Self::Unavailable(why),
        }
    }
}

/// What devices read in a window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceReads {
    /// Bytes.
    pub bytes: u64,
    /// Requests as the device saw them.
    pub requests: u64,
    /// Requests that the kernel had merged into these.
    pub merged: u64,
    /// Milliseconds that requests were under way, reads and writes, the sum over all of them.
    pub waited_ms: u64,
    /// Time between the two readings.
    elapsed_ns: u64,
}

impl DeviceReads {
    /// Returns one of these figures per second of the time between their readings.
    pub fn per_second(&self, of: fn(&Self) -> u64) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| of(self) as f64 * 1e9 / self.elapsed_ns as f64)
    }

    /// Requests under way on average.
    pub fn in_flight(&self) -> Option<f64> {
        Some(self.per_second(|reads| reads.waited_ms)? / 1e3)
    }

    /// Bytes of a request on average; none without requests.
    pub fn average_request_bytes(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.bytes as f64 / self.requests as f64)
    }
}

/// Everything that a window says about reads.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadFigures {
    /// Blocks that the server looked at in shared buffers, by `pg_stat_database`.
    pub logical_reads: Option<u64>,
    /// Blocks among them that it had to read, likewise.
    pub shared_buffer_misses: Option<u64>,
    /// Bytes read into shared buffers, by `pg_stat_io`; none before version 16.
    pub stat_io_read_bytes: Option<u64>,
    /// What the devices under the data directory read, by /proc/diskstats;
    /// others' reads on them are in it.
    pub device: Seen<DeviceReads>,
    /// What the server's cgroup read from these devices.
    pub cgroup: Seen<DeviceReads>,
    /// Bytes that devices read for the server's processes, by /proc/PID/io; those of
    /// processes that ended are in their parent's.
    pub processes_bytes: Seen<Growth>,
}

/// The figures of a window; `block_size` is the server's, in bytes.
pub fn figures(
    samples: &BTreeMap<String, Sample>,
    storage: Option<&Storage>,
    block_size: u64,
) -> ReadFigures {
    let database = samples.get(samplers::PG_STAT_DATABASE);
    let counter = |name| database.and_then(|sample| samples::database_counter(sample, name));
    let (hit, read) = (counter("blks_hit"), counter("blks_read"));
    ReadFigures {
        logical_reads: hit.zip(read).map(|(hit, read)| hit + read),
        shared_buffer_misses: read,
        stat_io_read_bytes: samples
            .get(PG_STAT_IO)
            .and_then(|sample| stat_io(sample, block_size)),
        device: device(samples, storage).into(),
        cgroup: cgroup(samples, storage).into(),
        processes_bytes: processes(samples).into(),
    }
}

/// A sample with both its texts, or why one is missing.
fn texts<'a>(
    samples: &'a BTreeMap<String, Sample>,
    id: &str,
) -> Result<(&'a Sample, &'a str, &'a str), String> {
    let sample = samples
        .get(id)
        .ok_or_else(|| format!("{id} was not recorded"))?;
    let text = |reading: &'a pgassay_model::reading::Reading| match reading {
        pgassay_model::reading::Reading::Text(text) => Ok(text.as_str()),
        pgassay_model::reading::Reading::Unavailable(why) => Err(why.clone()),
    };
    Ok((sample, text(&sample.before)?, text(&sample.after)?))
}

fn device(
    samples: &BTreeMap<String, Sample>,
    storage: Option<&Storage>,
) -> Result<DeviceReads, String> {
    let storage = storage.ok_or("the devices under the data directory were not recorded")?;
    if let Some(why) = storage
        .hidden
        .as_ref()
        .filter(|_| storage.counted.is_empty())
    {
        return Err(why.clone());
    }
    let (sample, before, after) = texts(samples, HOST_DISKSTATS)?;
    let (before, after) = (DiskLine::parse(before), DiskLine::parse(after));
    let mut reads = DeviceReads {
        elapsed_ns: sample.elapsed_ns,
        ..DeviceReads::default()
    };
    for name in &storage.counted {
        let missing = || format!("/proc/diskstats has no line of {name}");
        let (before, after) = (
            before.get(name).ok_or_else(missing)?,
            after.get(name).ok_or_else(missing)?,
        );
        let grown = |after: u64, before: u64| {
            after
                .checked_sub(before)
                .ok_or_else(|| format!("the counters of {name} went back"))
        };
        reads.bytes += grown(after.sectors, before.sectors)? * 512;
        reads.requests += grown(after.requests, before.requests)?;
        reads.merged += grown(after.merged, before.merged)?;
        // The kernel keeps it in 32 bits: of a window in which they ran over nothing is known.
        reads.waited_ms += after.waited_ms.saturating_sub(before.waited_ms);
    }
    Ok(reads)
}

fn cgroup(
    samples: &BTreeMap<String, Sample>,
    storage: Option<&Storage>,
) -> Result<DeviceReads, String> {
    let (sample, before, after) = texts(samples, CGROUP_IO)?;
    let (before, after) = (CgroupIo::parse(before), CgroupIo::parse(after));
    let disks = storage.map(|s| s.disks.as_slice()).unwrap_or_default();
    let mut reads = DeviceReads {
        elapsed_ns: sample.elapsed_ns,
        ..DeviceReads::default()
    };
    for (disk, after) in &after {
        // Where the devices can't be resolved all of the cgroup's are the best there is.
        if !disks.is_empty() && !disks.contains(disk) {
            continue;
        }
        let before = before.get(disk).copied().unwrap_or_default();
        reads.bytes += after.bytes.saturating_sub(before.bytes);
        reads.requests += after.requests.saturating_sub(before.requests);
    }
    Ok(reads)
}

fn processes(samples: &BTreeMap<String, Sample>) -> Result<Growth, String> {
    let (sample, before, after) = texts(samples, SERVER_IO)?;
    let (before, after) = (ProcessIo::parse(before), ProcessIo::parse(after));
    if !after.keys().any(|pid| before.contains_key(pid)) {
        return Err("no process of the server lived through the window".to_owned());
    }
    // What a process read is its parent's when it has ended, so that the sum stands.
    let sum = |all: &BTreeMap<u32, ProcessIo>| all.values().map(|io| io.read_bytes).sum::<u64>();
    let read = sum(&after).saturating_sub(sum(&before));
    Ok(Growth::of(sample, read as f64))
}

/// Bytes read into shared buffers: `read_bytes` from version 18, before that
/// `reads` of `op_bytes` each.
fn stat_io(sample: &Sample, block_size: u64) -> Option<u64> {
    let total = |text: &str| -> Option<u64> {
        let rows: Vec<Value> = serde_json::from_str(text).ok()?;
        let number = |row: &Value, name: &str| {
            let value = row.get(name)?;
            // numeric columns come as numbers with or without decimals
            value
                .as_u64()
                .or_else(|| value.as_f64().map(|f| f as u64))
                .or_else(|| value.as_str()?.parse().ok())
        };
        let relations = rows
            .iter()
            .filter(|row| row.get("object").and_then(Value::as_str) == Some("relation"));
        Some(
            relations
                .filter_map(|row| {
                    number(row, "read_bytes").or_else(|| {
                        let size = number(row, "op_bytes").unwrap_or(block_size);
                        Some(number(row, "reads")? * size)
                    })
                })
                .sum(),
        )
    };
    total(sample.after.text()?)?.checked_sub(total(sample.before.text()?)?)
}

#[cfg(test)]
mod tests {
    use pgassay_model::reading::Reading;

    use super::*;

    fn window(readings: &[(&str, &str, &str)]) -> BTreeMap<String, Sample> {
        readings
            .iter()
            .map(|(id, before, after)| {
                (
                    (*id).to_owned(),
                    Sample {
                        before: Reading::Text((*before).to_owned()),
                        after: Reading::Text((*after).to_owned()),
                        elapsed_ns: 1,
                    },
                )
            })
            .collect()
    }

    /// Two disks of a RAID, and one that is not the server's.
    fn raid() -> Storage {
        Storage {
            counted: vec!["sda1".into(), "sdb1".into()],
            disks: vec!["8:0".into(), "8:16".into()],
            ..Storage::default()
        }
    }

    #[test]
    fn the_devices_under_the_data_and_no_others() {
        let line = |name: &str, reads: u64, sectors: u64| {
            format!("8 1 {name} {reads} 1 {sectors} 0 0 0 0 0 0 0 0\n")
        };
        let before = line("sda1", 10, 160) + &line("sdb1", 5, 80) + &line("sdc1", 0, 0);
        let after = line("sda1", 20, 320) + &line("sdb1", 6, 96) + &line("sdc1", 99, 9999);
        let samples = window(&[
            (HOST_DISKSTATS, &before, &after),
            (
                CGROUP_IO,
                "8:0 rbytes=0 rios=0\n",
                "8:0 rbytes=81920 rios=10\n8:16 rbytes=8192 rios=1\n8:32 rbytes=5 rios=5\n",
            ),
            (
                SERVER_IO,
                "1 rchar 5 read_bytes 0\n2 rchar 0 read_bytes 100\n",
                // 2 has ended: what it had read is its parent's.
                "1 rchar 5 read_bytes 8292\n3 rchar 0 read_bytes 81920\n",
            ),
        ]);
        let figures = figures(&samples, Some(&raid()), 8192);
        let device = figures.device.seen().unwrap();
        assert_eq!((device.bytes, device.requests), (176 * 512, 11));
        assert_eq!(device.average_request_bytes(), Some(8192.0));
        let cgroup = figures.cgroup.seen().unwrap();
        assert_eq!((cgroup.bytes, cgroup.requests), (90_112, 11));
        let processes = figures.processes_bytes.seen().unwrap();
        assert_eq!(processes.amount(), 90_112.0);
        assert_eq!(figures.logical_reads, None);
    }

    #[test]
    fn what_is_hidden_says_why() {
        let samples = window(&[(HOST_DISKSTATS, "", "")]);
        let nfs = Storage::hidden("the data directory is on a network file system");
        let seen = figures(&samples, Some(&nfs), 8192);
        assert_eq!(
            seen.device,
            Seen::Unavailable("the data directory is on a network file system".into())
        );
        assert_eq!(
            seen.cgroup,
            Seen::Unavailable("cgroup.io was not recorded".into())
        );
        // A disk that went away, and counters that went back.
        let gone = figures(&samples, Some(&raid()), 8192);
        assert_eq!(
            gone.device,
            Seen::Unavailable("/proc/diskstats has no line of sda1".into())
        );
        let back = "8 1 sda1 9 1 9 0 0 0 0 0 0 0 0\n8 1 sdb1 9 1 9 0 0 0 0 0 0 0 0\n";
        let less = "8 1 sda1 1 1 1 0 0 0 0 0 0 0 0\n8 1 sdb1 9 1 9 0 0 0 0 0 0 0 0\n";
        let samples = window(&[(HOST_DISKSTATS, back, less)]);
        let why = figures(&samples, Some(&raid()), 8192).device;
        assert_eq!(
            why,
            Seen::Unavailable("the counters of sda1 went back".into())
        );
    }

    #[test]
    fn pg_stat_io_of_16_and_18() {
        let sixteen = r#"[{"object":"relation","reads":10,"op_bytes":8192},{"object":"temp relation","reads":99,"op_bytes":8192}]"#;
        let later = r#"[{"object":"relation","reads":15,"op_bytes":8192}]"#;
        let samples = window(&[(PG_STAT_IO, sixteen, later)]);
        assert_eq!(
            figures(&samples, None, 8192).stat_io_read_bytes,
            Some(5 * 8192)
        );
        let eighteen = r#"[{"object":"relation","reads":1,"read_bytes":8192},{"object":"wal","reads":1,"read_bytes":9}]"#;
        let later = r#"[{"object":"relation","reads":2,"read_bytes":81920.0}]"#;
        let samples = window(&[(PG_STAT_IO, eighteen, later)]);
        assert_eq!(
            figures(&samples, None, 8192).stat_io_read_bytes,
            Some(9 * 8192)
        );
    }
}
