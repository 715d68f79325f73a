//! The growth of a counter, with the time over which it grew.

use std::ops::AddAssign;

use pgassay_model::reading::Sample;

/// The growth of a counter between two readings. A rate divides by the time between these two readings: a sampler
/// that was late read over another time than the window of its trial.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Growth {
    amount: f64,
    seconds: f64,
}

impl Growth {
    /// Returns the growth by `amount` between the readings of a sample.
    pub fn of(sample: &Sample, amount: f64) -> Self {
        Self {
            amount,
            seconds: sample.elapsed_ns as f64 / 1e9,
        }
    }

    /// Returns the growth itself.
    pub fn amount(self) -> f64 {
        self.amount
    }

    /// Returns the growth per second; none where no time passed.
    pub fn per_second(self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.amount / self.seconds)
    }

    /// Returns the growth over another length of time, at the same rate.
    pub fn over(self, seconds: f64) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.amount * (seconds / self.seconds))
    }
}

/// The growth over several samples weighs each by its time.
impl AddAssign for Growth {
    fn add_assign(&mut self, other: Self) {
        self.amount += other.amount;
        self.seconds += other.seconds;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_model::reading::Reading;

    #[test]
    fn a_rate_goes_by_the_time_between_the_readings() {
        let sample = |elapsed_ns| Sample {
            before: Reading::Text(String::new()),
            after: Reading::Text(String::new()),
            elapsed_ns,
        };
        let mut growth = Growth::of(&sample(750_000_000), 1.5);
        assert_eq!(growth.per_second(), Some(2.0));
        assert_eq!(growth.over(1.5), Some(3.0));
        growth += Growth::of(&sample(250_000_000), 0.25);
        assert_eq!((growth.per_second(), growth.amount()), (Some(1.75), 1.75));
        assert_eq!(Growth::of(&sample(0), 1.0).per_second(), None);
    }
}
