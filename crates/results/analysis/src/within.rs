//! What a measurement tells of the trial that runs, for who looks on: no part of any result.

use std::collections::VecDeque;

use pgassay_model::live::{Moment, Second};

/// Seconds that are kept.
const SECONDS: usize = 60;

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
}
