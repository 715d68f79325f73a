//! The `max_wal_size` that is recommended: one rule for the audit of a server and for its load.

use crate::detect::shown;
use crate::finding::Observation;
use pgassay_model::storage::{Directory, Holds};

/// Log for each requested checkpoint, as a share of what has one come: with less it was not the
/// log that asked for them. A window may begin long after the last one.
pub const ENOUGH_WAL: f64 = 0.25;

/// From this share on hardly anything else can have asked for them.
pub const MUCH_WAL: f64 = 0.7;

/// The most that is recommended. Beyond it the disk decides, and how long a recovery may take.
const MOST: u64 = 16 << 30;
/// The most where the free space of the file system of pg_wal is not known.
const MOST_UNSEEN: u64 = 4 << 30;
/// The part of the free space that is recommended at most. The rest is for WAL that slots, standbys and the archive
/// keep beyond max_wal_size, and for data on the same file system.
const OF_FREE: u64 = 2;
/// What is recommended where the rate of WAL is not known, and the server has less.
const USUAL: u64 = 4 << 30;
/// The default of checkpoint_timeout. Requested checkpoints that are no nearer together cost little.
pub const SECONDS: f64 = 300.0;

/// What the recommendation depends on.
#[derive(Debug, Clone, Copy)]
pub struct Needs<'a> {
    /// `max_wal_size` in bytes, if it is known.
    pub now: Option<u64>,
    /// Bytes of WAL a second, over the time that their counter covers.
    pub rate: Option<f64>,
    /// The directories of the server's files; empty where they are not seen.
    pub directories: &'a [Directory],
}

impl Needs<'_> {
    /// Adds the step of the remedy: the statement, or advice where there is no room for more.
    pub fn recommend(self, seen: Observation) -> Observation {
        let now = self.now.unwrap_or(0);
        // The load has just shown that the present size is too small.
        let least = (now >> 30) + 1;
        let wanted = match self.rate {
            Some(rate) => (2.0 * rate * SECONDS / (1u64 << 30) as f64).ceil() as u64,
            None => USUAL >> 30,
        };
        let wanted = wanted.max(least);
        let amount = match self.rate {
            Some(rate) => format!(
                "twice the WAL of five minutes, at {} a second, is {wanted} GiB",
                shown(rate as u64)
            ),
            None => "the rate of WAL is not known".to_owned(),
        };
        let free = free_bytes(self.directories);
        let most = match free {
            Some(free) => MOST.min(free / OF_FREE),
            None => MOST_UNSEEN,
        };
        let size = most.min(wanted << 30);
        let more = size > now.max(1 << 26);
        let value = match size >> 30 {
            0 => format!("{}MB", size >> 20),
            gibibytes => format!("{gibibytes}GB"),
        };
        let present = self
            .now
            .map_or_else(String::new, |now| format!(" ({})", shown(now)));
        match free {
            Some(free) if more => seen.sql(format!(
                "ALTER SYSTEM SET max_wal_size = '{value}'; SELECT pg_reload_conf();   -- {amount}; the limits are half of \
                 the {} that are free on the file system of pg_wal, and {}",
                shown(free),
                shown(MOST)
            )),
            Some(free) if free / OF_FREE < MOST => seen.advice(format!(
                "do not raise max_wal_size{present} here without more space for pg_wal: {amount}; the limit is half of the \
                 {} that are free on its file system",
                shown(free)
            )),
            Some(_) => seen.advice(format!(
                "max_wal_size{present} is at the {} that are recommended at most: a recovery replays up to that much WAL. If \
                 the time of a recovery allows it, set more by hand: {amount}",
                shown(MOST)
            )),
            None => {
                let then = match more {
                    true => format!("then set max_wal_size = '{value}', if twice that is free: {amount}"),
                    false => format!(
                        "max_wal_size{present} is at the {} that are recommended unseen; set more only where that is free \
                         twice: {amount}",
                        shown(MOST_UNSEEN)
                    ),
                };
                seen.advice(format!(
                    "the free space of the file system of pg_wal is not known. Look first: df on that file system, and SELECT \
                     pg_size_pretty(sum(size)) FROM pg_ls_waldir() for what WAL takes now; {then}"
                ))
            }
        }
    }
}

/// Bytes that are free on the file system of the WAL.
fn free_bytes(directories: &[Directory]) -> Option<u64> {
    let wal = directories.iter().find(|dir| dir.holds == Holds::Wal)?;
    wal.free_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Confidence, Severity};

    fn step(now: u64, rate: Option<f64>, free: Option<u64>) -> String {
        let directories = [Directory {
            holds: Holds::Wal,
            free_bytes: free,
            ..Directory::default()
        }];
        let needs = Needs {
            now: Some(now),
            rate,
            directories: &directories,
        };
        let seen = Observation::new(Severity::Medium, Confidence::High, "");
        needs.recommend(seen).remedy[0].text.clone()
    }

    #[test]
    fn the_size_fits_the_rate_and_the_disk() {
        let gib = 1u64 << 30;
        let mib = 1048576.0;
        for (now, rate, free, says) in [
            (gib, Some(10.0 * mib), Some(72 * gib), "'6GB'"),
            (gib, Some(400.0 * mib), Some(72 * gib), "'16GB'"),
            (gib, Some(400.0 * mib), Some(12 * gib), "'6GB'"),
            (gib / 4, Some(400.0 * mib), Some(gib), "'512MB'"),
            (gib, Some(400.0 * mib), Some(gib), "do not raise"),
            (gib, Some(400.0 * mib), Some(0), "do not raise"),
            (gib, Some(400.0 * mib), None, "'4GB'"),
            (4 * gib, Some(400.0 * mib), None, "recommended unseen"),
            (16 * gib, Some(400.0 * mib), Some(900 * gib), "recovery"),
            (16 * gib, Some(400.0 * mib), Some(20 * gib), "do not raise"),
            (gib, None, Some(72 * gib), "'4GB'"),
            // Bursts: the mean rate asks for less than the server has.
            (2 * gib, Some(1.0), Some(72 * gib), "'3GB'"),
        ] {
            let step = step(now, rate, free);
            assert!(step.contains(says), "{now} {rate:?} {free:?}: {step}");
            let unknown = free.is_none();
            assert_eq!(step.contains("pg_wal is not known"), unknown, "{step}");
            let command = step.starts_with("ALTER SYSTEM");
            assert!(!(command && unknown), "{step}");
            // Space is the limit only where it is.
            let space = step.contains("without more space");
            assert_eq!(space, says == "do not raise", "{step}");
        }
    }
}
