//! What devices read, held against the limits of a volume that its provider names.

use pgassay_model::storage::{Storage, VolumeLimits};
use pgassay_model::trial::Trial;
use pgassay_model::warning::Warning;
use pgassay_readings::samples;

use super::credits::{self, Read};
use super::figures;

/// The share of a limit from which on it is reached: providers average over seconds, we over windows.
const REACHED: f64 = 0.9;

/// Which limit it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Bytes a second.
    Throughput,
    /// Requests a second.
    Requests,
}

/// What is read of what a volume allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VolumeUse<'a> {
    limits: &'a VolumeLimits,
    bytes: f64,
    requests: f64,
}

impl<'a> VolumeUse<'a> {
    /// Of bytes and requests a second.
    pub fn of(limits: &'a VolumeLimits, bytes: f64, requests: f64) -> Self {
        Self {
            limits,
            bytes,
            requests,
        }
    }

    /// The same, where the storage has limits.
    pub fn on(storage: Option<&'a Storage>, bytes: f64, requests: f64) -> Option<Self> {
        let limits = storage?.volume.as_ref()?;
        Some(Self::of(limits, bytes, requests))
    }

    fn shares(&self) -> (Option<f64>, Option<f64>) {
        let share = |used: f64, limit: Option<u64>| {
            let limit = limit.filter(|limit| *limit > 0)?;
            Some(used / limit as f64)
        };
        (
            share(self.bytes, self.limits.bytes_per_second),
            share(self.requests, self.limits.iops),
        )
    }

    /// The limit that it has reached, the nearer one of two; none where there is room.
    pub fn bound(&self) -> Option<Bound> {
        let (bytes, requests) = self.shares();
        let (bytes, requests) = (bytes.unwrap_or(0.0), requests.unwrap_or(0.0));
        match (bytes >= requests, bytes.max(requests) >= REACHED) {
            (_, false) => None,
            (true, true) => Some(Bound::Throughput),
            (false, true) => Some(Bound::Requests),
        }
    }

    /// How long full burst credits last at this rate of requests, in seconds; none where the volume has
    /// none, or the rate does not use them up.
    pub fn credits_last(&self) -> Option<f64> {
        let base = self.limits.base_iops? as f64;
        let credits = self.limits.credits? as f64;
        (self.requests > base).then(|| credits / (self.requests - base))
    }

    /// `120 of 125 MB a second, 1,900 of 3,000 requests a second`.
    pub fn words(&self) -> String {
        let megabytes = |bytes: f64| format!("{:.0}", bytes / 1e6);
        let bytes = match self.limits.bytes_per_second {
            Some(limit) => format!(
                "{} of {} MB a second",
                megabytes(self.bytes),
                megabytes(limit as f64)
            ),
            None => format!("{} MB a second", megabytes(self.bytes)),
        };
        let requests = match self.limits.iops {
            Some(limit) => format!("{:.0} of {limit} requests a second", self.requests),
            None => format!("{:.0} requests a second", self.requests),
        };
        format!("{bytes}, {requests}")
    }

    /// What the bytes of a request make of a limit: which of the two is meant, in words.
    pub fn says(&self) -> Option<String> {
        let (by, not) = match self.bound()? {
            Bound::Throughput => ("throughput", "requests"),
            Bound::Requests => ("requests", "throughput"),
        };
        Some(match &self.limits.found_in {
            None => format!("bound by the volume's {by}, not by its {not}"),
            Some(file) => format!(
                "bound by the {by} that the server's control group allows ({file}), not by its {not}"
            ),
        })
    }
}

/// What is said of ways of reading, or numbers of sessions, that reach a limit or live on burst credits.
pub fn warnings(storage: Option<&Storage>, rates: &[(String, f64, f64)]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (name, bytes, requests) in rates {
        let Some(used) = VolumeUse::on(storage, *bytes, *requests) else {
            continue;
        };
        if let Some(says) = used.says() {
            let id = match used.bound() {
                Some(Bound::Requests) => "volume-requests",
                _ => "volume-throughput",
            };
            warnings.push(
                Warning::new(id, format!("{name}: {says}: {} ({}).", used.words(), average(*bytes, *requests)))
                    .with_remedy(match used.bound() {
                        Some(Bound::Requests) => "fewer and larger requests, or a volume with more IOPS",
                        _ => "fewer bytes for each block (pgassay run scattered-read says why they are read), or a \
                              volume with more throughput: more IOPS change nothing",
                    }),
            );
        }
        if let Some(seconds) = used.credits_last() {
            warnings.push(Warning::new(
                "volume-burst",
                format!(
                    "{name}: {requests:.0} requests a second are more than the {} that last: full burst credits are \
                     used up after {}.",
                    used.limits.base_iops.unwrap_or_default(),
                    lasting(seconds)
                ),
            ));
        }
    }
    warnings
}

/// What a run's windows, in their order, left of the volume's burst credits.
pub fn credits_left<'t>(
    storage: Option<&Storage>,
    trials: impl IntoIterator<Item = &'t Trial>,
) -> Option<Warning> {
    let limits = storage?.volume.as_ref()?;
    let windows: Vec<Read> = trials
        .into_iter()
        .filter_map(|trial| {
            // Requests are the same whatever the size of a block.
            let figures = figures(&samples::of_trial(trial), storage, 8192);
            let seconds = trial.window_ns as f64 / 1e9;
            let requests = figures.device.seen()?.per_second(|reads| reads.requests)?;
            Some(Read {
                seconds,
                count: requests * seconds,
            })
        })
        .collect();
    let left = credits::left(limits, &windows)?;
    if left.left >= left.of {
        return None;
    }
    let ends = match (left.ended_in, left.seconds) {
        (Some(window), _) => format!("They ended in the {}th window at the latest.", window + 1),
        (None, Some(seconds)) => format!(
            "At the rate of the last window they end after {}.",
            lasting(seconds)
        ),
        (None, None) => "The rate of the last window spends none.".to_owned(),
    };
    Some(Warning::new(
        "volume-burst",
        format!(
            "Of {:.0} burst credits, if they were full when the run began, at most {:.0} were left at its end. {ends}",
            left.of, left.left
        ),
    ))
}

fn average(bytes: f64, requests: f64) -> String {
    match requests > 0.0 {
        true => format!("{:.0} KiB a request", bytes / requests / 1024.0),
        false => "no request".to_owned(),
    }
}

/// `about 40 minutes`.
pub fn lasting(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("about {s:.0} s"),
        s if s < 7200.0 => format!("about {:.0} minutes", s / 60.0),
        s => format!("about {:.1} hours", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gp3() -> VolumeLimits {
        VolumeLimits {
            iops: Some(3000),
            bytes_per_second: Some(125_000_000),
            ..VolumeLimits::default()
        }
    }

    #[test]
    fn large_pages_reach_the_throughput_long_before_the_requests() {
        let limits = gp3();
        // 64 KiB a request: 1,900 of them are all bytes that there are.
        let used = VolumeUse::of(&limits, 124e6, 1892.0);
        assert_eq!(used.bound(), Some(Bound::Throughput));
        assert!(used.says().unwrap().contains("not by its requests"));
        // 8 KiB a request.
        let used = VolumeUse::of(&limits, 24e6, 2950.0);
        assert_eq!(used.bound(), Some(Bound::Requests));
        let used = VolumeUse::of(&limits, 60e6, 1500.0);
        assert_eq!(used.bound(), None);
        // One limit alone.
        let only = VolumeLimits {
            iops: None,
            ..gp3()
        };
        assert_eq!(
            VolumeUse::of(&only, 124e6, 99_999.0).bound(),
            Some(Bound::Throughput)
        );
    }

    #[test]
    fn a_limit_that_was_found_says_where() {
        let found = VolumeLimits {
            found_in: Some("/sys/fs/cgroup/pg/io.max".to_owned()),
            ..gp3()
        };
        let says = VolumeUse::of(&found, 124e6, 1892.0).says().unwrap();
        assert!(
            says.contains("control group allows (/sys/fs/cgroup/pg/io.max)"),
            "{says}"
        );
    }

    #[test]
    fn credits_last_as_long_as_they_are_spent() {
        let gp2 = VolumeLimits {
            iops: Some(3000),
            base_iops: Some(600),
            credits: Some(5_400_000),
            ..VolumeLimits::default()
        };
        let at = |requests: f64| VolumeUse::of(&gp2, 1e6, requests).credits_last();
        assert_eq!(at(3000.0), Some(2250.0));
        assert_eq!(at(600.0), None);
        assert_eq!(lasting(2250.0), "about 38 minutes");
        let storage = Storage {
            volume: Some(gp2),
            ..Storage::default()
        };
        let told = warnings(Some(&storage), &[("bitmap scan".into(), 24e6, 3000.0)]);
        let ids: Vec<&str> = told.iter().map(|w| w.id.as_str()).collect();
        assert_eq!(ids, ["volume-requests", "volume-burst"]);
        assert!(warnings(Some(&Storage::default()), &[("x".into(), 1e9, 1e6)]).is_empty());
        assert!(warnings(None, &[("x".into(), 1e9, 1e6)]).is_empty());
    }
}
