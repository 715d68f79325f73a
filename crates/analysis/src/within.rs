//! What a measurement tells of the trial that runs, for who looks on: no part of any result.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::samples::HostCpu;

/// Seconds that are kept.
const SECONDS: usize = 60;

/// A line of `live.jsonl`: where a trial is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// What the trial is, such as `4 clients`.
    pub name: String,
    /// What its work is counted in, such as `tps`.
    pub unit: String,
    /// How many of the schedule's trials lie behind.
    pub done: usize,
    /// How many the schedule has.
    pub all: usize,
    /// How long it takes by its plan, in seconds, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes_seconds: Option<f64>,
    /// How much of its window is over, in seconds; 0 when it begins.
    pub passed_seconds: f64,
    /// The newest part of it; none when it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<Second>,
}

/// About a second of a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Units of work a second.
    pub rate: f64,
    /// Mean and 99th percentile of the latency in milliseconds, where a transaction ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<(f64, f64)>,
    /// Transactions that failed.
    #[serde(default)]
    pub failed: u64,
    /// What disturbed it.
    #[serde(flatten)]
    pub disturbed: Disturbed,
}

/// Shares of the machine's CPU time, 0 to 1; none where that can't be seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbed {
    /// What neither server nor load used, and was busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
    /// What the hypervisor gave to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal: Option<f64>,
}

impl Disturbed {
    /// By the machine's CPU time, and what of it server and load used, in CPU-seconds.
    pub fn of(host: HostCpu, ours: Option<f64>) -> Self {
        if host.total <= 0.0 {
            return Self::default();
        }
        Self {
            others: ours.map(|ours| ((host.busy - ours) / host.total).clamp(0.0, 1.0)),
            steal: Some(host.steal / host.total),
        }
    }
}

/// The last seconds of a measurement.
#[derive(Debug, Default)]
pub struct Within {
    now: Option<Moment>,
    seconds: VecDeque<(String, Second)>,
    unit: String,
}

impl Within {
    /// A further line.
    pub fn add(&mut self, moment: Moment) {
        if self.unit != moment.unit {
            // Another kind of work has a scale of its own.
            self.unit.clone_from(&moment.unit);
            self.seconds.clear();
        }
        if let Some(second) = moment.second {
            if self.seconds.len() == SECONDS {
                self.seconds.pop_front();
            }
            self.seconds.push_back((moment.name.clone(), second));
        }
        self.now = Some(moment);
    }

    /// Where the trial is that runs, as it was told last.
    pub fn now(&self) -> Option<&Moment> {
        self.now.as_ref()
    }

    /// The last seconds, oldest first, each with what its trial is.
    pub fn seconds(&self) -> impl ExactSizeIterator<Item = (&str, &Second)> {
        self.seconds
            .iter()
            .map(|(name, second)| (name.as_str(), second))
    }

    /// What the work is counted in.
    pub fn unit(&self) -> &str {
        &self.unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_short_and_what_is_not_seen_is_not_in_it() {
        let moment = Moment {
            name: "4 clients".to_owned(),
            unit: "tps".to_owned(),
            takes_seconds: Some(5.0),
            passed_seconds: 2.0,
            second: Some(Second {
                rate: 1000.0,
                ..Second::default()
            }),
            ..Moment::default()
        };
        let line = serde_json::to_string(&moment).unwrap();
        assert!(!line.contains("others") && !line.contains("null"), "{line}");
        assert_eq!(serde_json::from_str::<Moment>(&line).unwrap(), moment);
    }

    #[test]
    fn the_last_minute_of_one_kind_of_work_is_kept() {
        let mut within = Within::default();
        let moment = |unit: &str, rate: Option<f64>| Moment {
            name: "1 client".to_owned(),
            unit: unit.to_owned(),
            second: rate.map(|rate| Second {
                rate,
                ..Second::default()
            }),
            ..Moment::default()
        };
        for n in 0..100 {
            within.add(moment("tps", Some(f64::from(n))));
        }
        assert_eq!(within.seconds().len(), SECONDS);
        assert_eq!(within.seconds().next().map(|(_, s)| s.rate), Some(40.0));
        within.add(moment("tps", None));
        assert_eq!(
            (
                within.seconds().len(),
                within.now().and_then(|now| now.second)
            ),
            (SECONDS, None)
        );
        within.add(moment("ops/s", Some(1e9)));
        assert_eq!((within.seconds().len(), within.unit()), (1, "ops/s"));
    }

    #[test]
    fn what_can_not_be_told_apart_is_not_told() {
        let host = HostCpu {
            busy: 1.5,
            steal: 0.2,
            total: 2.0,
        };
        let told = Disturbed::of(host, Some(1.1));
        assert!((told.others.unwrap() - 0.2).abs() < 1e-9);
        assert_eq!(told.steal, Some(0.1));
        assert_eq!(Disturbed::of(host, None).others, None);
        assert_eq!(Disturbed::of(host, Some(9.0)).others, Some(0.0));
        let nothing = HostCpu {
            busy: 0.0,
            steal: 0.0,
            total: 0.0,
        };
        assert_eq!(Disturbed::of(nothing, Some(0.0)), Disturbed::default());
    }
}
