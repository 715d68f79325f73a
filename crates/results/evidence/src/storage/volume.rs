//! What devices read, held against the limits of a volume that its provider names.

use pgassay_model::storage::{Storage, VolumeLimits};
use pgassay_model::trial::Trial;
use pgassay_model::warning::Warning;
use pgassay_readings::samples;

use super::credits::{self, Read};
use super::figures;
use pgassay_text::number;

/// The share of a limit from which on it is reached: providers average over seconds, we over windows.
const REACHED: f64 = 0.9;
/// The share beyond which a limit is none of this device: windows that are short let through a little more.
const EXCEEDED: f64 = 1.05;
/// Ways of reading that are named in one warning.
const NAMED: usize = 3;

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

    /// Whether more is read than a limit allows: what was given does not describe the device.
    pub fn exceeds(&self) -> bool {
        let (bytes, requests) = self.shares();
        [bytes, requests]
            .into_iter()
            .flatten()
            .any(|share| share > EXCEEDED)
    }

    /// The limit that it has reached, the nearer one of two; none where there is room, or more is read than it allows.
    pub fn bound(&self) -> Option<Bound> {
        if self.exceeds() {
            return None;
        }
        let (bytes, requests) = self.shares();
        let (bytes, requests) = (bytes.unwrap_or(0.0), requests.unwrap_or(0.0));
        match (bytes >= requests, bytes.max(requests) >= REACHED) {
            (_, false) => None,
            (true, true) => Some(Bound::Throughput),
            (false, true) => Some(Bound::Requests),
        }
    }

    /// How long full burst credits last at this rate of requests, in seconds; none where the volume has
    /// none, or the rate does not use them up, or the limits are not the device's.
    pub fn credits_last(&self) -> Option<f64> {
        if self.exceeds() {
            return None;
        }
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

    /// `8 KiB a request`.
    fn average(&self) -> String {
        match self.requests > 0.0 {
            true => format!("{:.0} KiB a request", self.bytes / self.requests / 1024.0),
            false => "no request".to_owned(),
        }
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

/// What is said of ways of reading, or numbers of sessions, that reach a limit, exceed one, or live on burst credits:
/// each once, with the ways of which it is true.
pub fn warnings(storage: Option<&Storage>, rates: &[(String, f64, f64)]) -> Vec<Warning> {
    let used = |(name, bytes, requests): &'_ (String, f64, f64)| {
        let used = VolumeUse::on(storage, *bytes, *requests)?;
        Some((name.clone(), used))
    };
    let used: Vec<(String, VolumeUse<'_>)> = rates.iter().filter_map(used).collect();
    let those = |is: &dyn Fn(&VolumeUse<'_>) -> bool| -> Vec<&(String, VolumeUse<'_>)> {
        used.iter().filter(|(_, used)| is(used)).collect()
    };
    let mut warnings = Vec::new();
    let beyond = those(&|used| used.exceeds());
    if let Some((_, first)) = beyond.first() {
        let found = first.limits.found_in.as_ref();
        let given = found.map_or("given".to_owned(), |file| format!("that {file} names"));
        warnings.push(
            Warning::new(
                "volume-exceeded",
                format!(
                    "The limits {given} do not describe this device, which reads more than they allow: {}.",
                    listed(&beyond, |used| used.words())
                ),
            )
            .with_remedy("name the limits of the volume under the data directory with --volume, or leave it out"),
        );
    }
    for (bound, id, remedy) in [
        (
            Bound::Requests,
            "volume-requests",
            "fewer and larger requests, or a volume with more IOPS",
        ),
        (
            Bound::Throughput,
            "volume-throughput",
            "fewer bytes for each block (pgassay run scattered-read says why they are read), or a volume with more \
             throughput: more IOPS change nothing",
        ),
    ] {
        let bound = those(&|used| used.bound() == Some(bound));
        let Some(says) = bound.first().and_then(|(_, used)| used.says()) else {
            continue;
        };
        let each = listed(&bound, |used| {
            format!("{}, {}", used.words(), used.average())
        });
        let says = says.replacen("bound", "Bound", 1);
        warnings.push(Warning::new(id, format!("{says}: {each}.")).with_remedy(remedy));
    }
    let burst = those(&|used| used.credits_last().is_some());
    if let Some((_, first)) = burst.first() {
        let each = listed(&burst, |used| {
            let lasts = used.credits_last().unwrap_or_default();
            format!("{:.0} requests a second, {}", used.requests, lasting(lasts))
        });
        warnings.push(Warning::new(
            "volume-burst",
            format!(
                "More requests are sent than the {} a second that last, so that full burst credits are used up: {each}.",
                first.limits.base_iops.unwrap_or_default(),
            ),
        ));
    }
    warnings
}

/// `bitmap scan (…); index scan (…); and 4 others`.
fn listed(ways: &[&(String, VolumeUse<'_>)], words: impl Fn(&VolumeUse<'_>) -> String) -> String {
    let named = ways.iter().take(NAMED);
    let mut all: Vec<String> = named
        .map(|(name, used)| format!("{name} ({})", words(used)))
        .collect();
    match ways.len().saturating_sub(NAMED) {
        0 => {}
        more => all.push(format!("and {}", number::counted(more as u64, "other"))),
    }
    all.join("; ")
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

    /// Ten times the requests that were named: nothing holds the device to them.
    #[test]
    fn what_is_exceeded_is_no_limit_of_the_device() {
        let limits = VolumeLimits {
            base_iops: Some(600),
            credits: Some(5_400_000),
            ..gp3()
        };
        let used = VolumeUse::of(&limits, 247e6, 30_134.0);
        assert_eq!((used.bound(), used.credits_last()), (None, None));
        assert!(used.says().is_none());
        // A little more within a short window is the limit still.
        let near = VolumeUse::of(&limits, 24e6, 3100.0);
        assert_eq!(near.bound(), Some(Bound::Requests));
        let storage = Storage {
            volume: Some(limits),
            ..Storage::default()
        };
        let ways = [("a", 30_134.0), ("b", 28_000.0), ("c", 2900.0)];
        let ways = ways.map(|(name, requests)| (name.to_owned(), 24e6, requests));
        let told = warnings(Some(&storage), &ways);
        let ids: Vec<&str> = told.iter().map(|w| w.id.as_str()).collect();
        assert_eq!(ids, ["volume-exceeded", "volume-requests", "volume-burst"]);
        assert!(
            told[0].text.contains("30134 of 3000 requests a second"),
            "{told:?}"
        );
        assert!(!told[1].text.contains("30134"), "{told:?}");
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
        // One line each, however many ways.
        let ways: Vec<_> = (0..22)
            .map(|n| (format!("way {n}"), 24e6, 2900.0))
            .collect();
        let told = warnings(Some(&storage), &ways);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0].text.contains("way 0 (") && told[0].text.contains("and 19 others"),
            "{told:?}"
        );
        assert!(warnings(Some(&Storage::default()), &[("x".into(), 1e9, 1e6)]).is_empty());
        assert!(warnings(None, &[("x".into(), 1e9, 1e6)]).is_empty());
    }
}
