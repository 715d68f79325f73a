//! What the server's own counters of its database and its log grew by, over the windows of a point.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use pgassay_model::reading::Sample;
use pgassay_model::samplers;
use pgassay_model::storage::Storage;
use pgassay_readings::growth::Growth;
use pgassay_readings::io::{DiskLine, ProcessIo};

/// Counters over the windows of a point, by the names of their columns; those that did not grow are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerCounters {
    /// Time between the readings. What another sampler counted over another time is brought to this one.
    pub seconds: f64,
    /// Of the measured database: pg_stat_database.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub database: BTreeMap<String, f64>,
    /// Of the log: pg_stat_wal, from 14 on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub wal: BTreeMap<String, f64>,
    /// Bytes that the server wrote into its log of messages; none where that was not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages_bytes: Option<f64>,
    /// What was written to the devices under the data; none where that was not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<Written>,
}

/// Bytes written over the windows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Written {
    /// By the devices under the data directory and the log, for any process.
    pub devices: f64,
    /// For the server's processes, by the kernel's account of each: to these devices or others.
    pub server: f64,
}

impl Written {
    /// Bytes that were not the server's.
    pub fn others(&self) -> f64 {
        (self.devices - self.server).max(0.0)
    }
}

impl ServerCounters {
    /// By how much a counter of the database grew each second; 0 where it did not, none where the
    /// database's were not read.
    pub fn database_rate(&self, name: &str) -> Option<f64> {
        let rate = self.database.get(name).copied().unwrap_or(0.0) / self.seconds;
        (!self.database.is_empty() && self.seconds > 0.0).then_some(rate)
    }
}

/// Sums over windows; none where neither database nor log was read.
pub fn analyse<'r>(
    windows: impl Iterator<Item = &'r BTreeMap<String, Sample>>,
    storage: Option<&Storage>,
) -> Option<ServerCounters> {
    let (mut database, mut wal) = (View::default(), View::default());
    let mut messages: Option<Growth> = None;
    let mut devices: Option<(Growth, Growth)> = None;
    for read in windows {
        database.add(read.get(samplers::PG_STAT_DATABASE));
        wal.add(read.get(samplers::PG_STAT_WAL));
        if let Some(bytes) = read.get(samplers::SERVER_LOG).and_then(grown) {
            *messages.get_or_insert_default() += bytes;
        }
        if let Some((by_devices, by_server)) = storage.and_then(|storage| written(read, storage)) {
            let sum = devices.get_or_insert_default();
            sum.0 += by_devices;
            sum.1 += by_server;
        }
    }
    let seconds = if database.seconds > 0.0 {
        database.seconds
    } else {
        wal.seconds
    };
    let written = |(devices, server): (Growth, Growth)| {
        Some(Written {
            devices: devices.over(seconds)?,
            server: server.over(seconds)?,
        })
    };
    let sums = ServerCounters {
        seconds,
        database: database.over(seconds),
        wal: wal.over(seconds),
        messages_bytes: messages.and_then(|bytes| bytes.over(seconds)),
        written: devices.and_then(written),
    };
    (!sums.database.is_empty() || !sums.wal.is_empty()).then_some(sums)
}

/// What was written between the readings: by the devices, and for the server.
fn written(read: &BTreeMap<String, Sample>, storage: &Storage) -> Option<(Growth, Growth)> {
    let texts = |id: &str| {
        let sample = read.get(id)?;
        Some((sample, sample.before.text()?, sample.after.text()?))
    };
    let (of_devices, before, after) = texts(samplers::HOST_DISKSTATS)?;
    let (before, after) = (DiskLine::parse(before), DiskLine::parse(after));
    let mut sectors = 0;
    for name in &storage.counted {
        let (before, after) = (before.get(name)?, after.get(name)?);
        sectors += after.written_sectors.checked_sub(before.written_sectors)?;
    }
    let (of_server, before, after) = texts(samplers::SERVER_IO)?;
    let (before, after) = (ProcessIo::parse(before), ProcessIo::parse(after));
    // What a process wrote is its parent's when it has ended, so that the sum stands.
    let by = |of: fn(&ProcessIo) -> Option<u64>| {
        let sum = |all: &BTreeMap<u32, ProcessIo>| all.values().map(of).sum::<Option<u64>>();
        Some(sum(&after)?.saturating_sub(sum(&before)?))
    };
    // Nothing that it did not give to the kernel is written for it, whatever is accounted to it.
    let accounted = by(|io| Some(io.write_bytes))?;
    let server = by(|io| io.given_bytes).map_or(accounted, |given| given.min(accounted));
    (!storage.counted.is_empty()).then_some((
        Growth::of(of_devices, sectors as f64 * 512.0),
        Growth::of(of_server, server as f64),
    ))
}

/// By how much a number grew; none where it went back: the file was begun anew.
fn grown(sample: &Sample) -> Option<Growth> {
    let number = |text: Option<&str>| text?.trim().parse::<f64>().ok();
    let by = number(sample.after.text())? - number(sample.before.text())?;
    (by >= 0.0).then(|| Growth::of(sample, by))
}

/// The growth of a statistics view's row over all samples that have it.
#[derive(Debug, Default)]
struct View {
    seconds: f64,
    grown: BTreeMap<String, f64>,
}

impl View {
    fn add(&mut self, sample: Option<&Sample>) {
        let row = |text: Option<&str>| -> Option<BTreeMap<String, Value>> {
            serde_json::from_str(text?).ok()
        };
        let both = sample.and_then(|s| Some((s, row(s.before.text())?, row(s.after.text())?)));
        let Some((sample, before, after)) = both else {
            return;
        };
        self.seconds += sample.elapsed_ns as f64 / 1e9;
        for (name, now) in &after {
            let then = before.get(name).and_then(Value::as_f64);
            if let Some(by) = now
                .as_f64()
                .zip(then)
                .map(|(now, then)| now - then)
                .filter(|by| *by > 0.0)
            {
                // Our own observers are no part of what is observed.
                let own = |row: &BTreeMap<String, Value>| row.get("pgassay")?.get(name)?.as_f64();
                let own = own(&after)
                    .zip(own(&before))
                    .map_or(0.0, |(now, then)| now - then);
                if by > own {
                    *self.grown.entry(name.clone()).or_default() += by - own;
                }
            }
        }
    }

    /// The growth over another length of time, at the same rate.
    fn over(self, seconds: f64) -> BTreeMap<String, f64> {
        let mut grown = self.grown;
        if seconds != self.seconds && self.seconds > 0.0 {
            let factor = seconds / self.seconds;
            grown.values_mut().for_each(|by| *by *= factor);
        }
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_model::reading::Reading;

    #[test]
    fn windows_add_up_and_what_is_no_counter_is_left_out() {
        let sample = |then: &str, now: &str| Sample {
            before: Reading::Text(then.to_owned()),
            after: Reading::Text(now.to_owned()),
            elapsed_ns: 1_000_000_000,
        };
        let database = sample(
            r#"{"datname": "a", "sessions": 3, "temp_bytes": 7, "numbackends": 9}"#,
            r#"{"datname": "a", "sessions": 8, "temp_bytes": 7, "numbackends": 5}"#,
        );
        let window = BTreeMap::from([
            (samplers::PG_STAT_DATABASE.to_owned(), database),
            (samplers::SERVER_LOG.to_owned(), sample("100", "350\n")),
        ]);
        let two = [&window, &window];
        let sums = analyse(two.into_iter(), None).unwrap();
        assert_eq!(
            sums.database,
            BTreeMap::from([("sessions".to_owned(), 10.0)])
        );
        assert_eq!(sums.database_rate("sessions"), Some(5.0));
        assert_eq!(sums.database_rate("temp_bytes"), Some(0.0));
        assert_eq!(sums.messages_bytes, Some(500.0));
        assert_eq!(sums.written, None);
        // Three of these sessions were our observers'.
        let own = sample(
            r#"{"sessions": 3, "xact_rollback": 8, "pgassay": {"sessions": 1, "xact_rollback": 8}}"#,
            r#"{"sessions": 8, "xact_rollback": 18, "pgassay": {"sessions": 4, "xact_rollback": 20}}"#,
        );
        let window = BTreeMap::from([(samplers::PG_STAT_DATABASE.to_owned(), own)]);
        let sums = analyse([&window].into_iter(), None).unwrap();
        assert_eq!(
            sums.database,
            BTreeMap::from([("sessions".to_owned(), 2.0)])
        );
        // A file that was begun anew within the window tells nothing.
        assert_eq!(grown(&sample("900", "20")), None);
        assert_eq!(analyse([&BTreeMap::new()].into_iter(), None), None);
    }

    /// The readings of the log cover half of the time of those of the database; a window has none of either.
    #[test]
    fn each_counter_goes_by_the_time_between_its_own_readings() {
        let sample = |now: &str, elapsed_ns| Sample {
            before: Reading::Text(r#"{"lsn": 0, "xact_commit": 0}"#.to_owned()),
            after: Reading::Text(now.to_owned()),
            elapsed_ns,
        };
        let window = BTreeMap::from([
            (
                samplers::PG_STAT_DATABASE.to_owned(),
                sample(r#"{"xact_commit": 140}"#, 1_400_000_000),
            ),
            (
                samplers::PG_STAT_WAL.to_owned(),
                sample(r#"{"lsn": 700}"#, 700_000_000),
            ),
        ]);
        let nothing = BTreeMap::new();
        let sums = analyse([&window, &nothing].into_iter(), None).unwrap();
        assert!((sums.seconds - 1.4).abs() < 1e-9);
        assert!((sums.database_rate("xact_commit").unwrap() - 100.0).abs() < 1e-9);
        assert!((sums.wal["lsn"] / sums.seconds - 1000.0).abs() < 1e-9);
    }

    /// As on a machine where somebody copies files beside a server that commits.
    #[test]
    fn what_devices_write_is_held_against_what_the_server_writes() {
        let sample = |then: &str, now: &str| Sample {
            before: Reading::Text(then.to_owned()),
            after: Reading::Text(now.to_owned()),
            elapsed_ns: 1,
        };
        let window = BTreeMap::from([
            (
                samplers::PG_STAT_DATABASE.to_owned(),
                sample(r#"{"sessions": 3}"#, r#"{"sessions": 4}"#),
            ),
            (
                samplers::HOST_DISKSTATS.to_owned(),
                sample(
                    "254 0 vda 3577685 120694 142191122 4994910 9457695 1848351 1521178776 4626431 12 847008 9973523",
                    "254 0 vda 3577685 120694 142191122 4994910 9468219 1848436 1530337504 4677818 25 848856 10024998",
                ),
            ),
            (
                samplers::SERVER_IO.to_owned(),
                sample(
                    "25849 rchar: 1 read_bytes: 0 write_bytes: 9560064\n25971 rchar: 1 read_bytes: 0 write_bytes: 14696448",
                    "25849 rchar: 1 read_bytes: 0 write_bytes: 9560064\n25971 rchar: 1 read_bytes: 0 write_bytes: 16696448",
                ),
            ),
        ]);
        let storage = Storage {
            counted: vec!["vda".into()],
            ..Storage::default()
        };
        let sums = analyse([&window].into_iter(), Some(&storage)).unwrap();
        let written = sums.written.unwrap();
        assert_eq!(written.server, 2e6);
        assert_eq!(written.devices, 9_158_728.0 * 512.0);
        assert_eq!(written.others(), written.devices - 2e6);

        // As accounted with large folios: 146 MB for 9 MB that were given to the kernel.
        let mut window = window;
        let io = |given: u64, accounted: u64| {
            format!("25971 rchar: 1 wchar: {given} read_bytes: 0 write_bytes: {accounted}")
        };
        let large = sample(&io(5_000_000, 20_000_000), &io(14_000_000, 166_000_000));
        window.insert(samplers::SERVER_IO.to_owned(), large);
        let sums = analyse([&window].into_iter(), Some(&storage)).unwrap();
        assert_eq!(sums.written.unwrap().server, 9e6);
    }
}
