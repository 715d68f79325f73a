//! Burst credits as a bucket: what is read beyond the base takes out of it, what is not read up to the base fills it.

use pgassay_model::storage::VolumeLimits;

/// What was read in a window, in the unit of the credits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Read {
    /// Length, seconds.
    pub seconds: f64,
    /// Requests, or bytes.
    pub count: f64,
}

impl Read {
    fn rate(self) -> f64 {
        self.count / self.seconds
    }
}

/// A bucket that was full at the beginning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    base: f64,
    size: f64,
    left: f64,
}

impl Bucket {
    /// That of a volume's requests; none where it has no credits.
    pub fn of(limits: &VolumeLimits) -> Option<Self> {
        let size = limits.credits? as f64;
        Some(Self {
            base: limits.base_iops? as f64,
            size,
            left: size,
        })
    }

    /// What is left after a window.
    fn after(&mut self, read: Read) {
        let spent = read.count - self.base * read.seconds;
        self.left = (self.left - spent).clamp(0.0, self.size);
    }
}

/// What windows left of a volume's credits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Left {
    /// Credits that full ones are.
    pub of: f64,
    /// Those that are left.
    pub left: f64,
    /// How long they last at the rate of the last window, seconds; none where it spends none.
    pub seconds: Option<f64>,
    /// The window in which they ended first, from 0.
    pub ended_in: Option<usize>,
}

/// What windows one after another left of credits that were full before them. What was read between them is not
/// seen: at most so many are left.
pub fn left(limits: &VolumeLimits, windows: &[Read]) -> Option<Left> {
    let mut bucket = Bucket::of(limits)?;
    let last = windows.last().filter(|last| last.seconds > 0.0)?;
    let mut ended_in = None;
    for (at, window) in windows.iter().enumerate() {
        bucket.after(*window);
        if bucket.left <= 0.0 && ended_in.is_none() {
            ended_in = Some(at);
        }
    }
    let beyond = last.rate() - bucket.base;
    Some(Left {
        of: bucket.size,
        left: bucket.left,
        seconds: (beyond > 0.0).then(|| bucket.left / beyond),
        ended_in,
    })
}

/// What a rate that fell to a lower one says of the credits behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// The rate that lasts: what it fell to.
    pub base: f64,
    /// What was read beyond it until then: so much, at least, the credits had allowed.
    pub credits: f64,
    /// How long they take to fill again while nothing is read, seconds.
    pub refill_seconds: f64,
}

/// The credits behind a step down after so many of these windows; none where the rate did not fall.
pub fn burst(windows: &[Read], step: usize) -> Option<Burst> {
    let (before, after) = windows.split_at_checked(step)?;
    let seconds: f64 = after.iter().map(|read| read.seconds).sum();
    let count: f64 = after.iter().map(|read| read.count).sum();
    let base = (seconds > 0.0 && count > 0.0).then(|| count / seconds)?;
    let beyond = |read: &Read| read.count - base * read.seconds;
    let credits: f64 = before.iter().map(beyond).sum();
    (credits > 0.0).then(|| Burst {
        base,
        credits,
        refill_seconds: credits / base,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A volume that gives `burst` a second out of a bucket, and `base` when it is empty, asked for all that it
    /// gives in windows of a second.
    fn simulated(burst: f64, base: f64, size: f64, windows: usize) -> Vec<Read> {
        let mut bucket = Bucket {
            base,
            size,
            left: size,
        };
        (0..windows)
            .map(|_| {
                let count = burst.min(base + bucket.left);
                let read = Read {
                    seconds: 1.0,
                    count,
                };
                bucket.after(read);
                read
            })
            .collect()
    }

    fn gp2() -> VolumeLimits {
        VolumeLimits {
            iops: Some(3000),
            base_iops: Some(600),
            credits: Some(24_000),
            ..VolumeLimits::default()
        }
    }

    #[test]
    fn credits_end_when_the_volume_says_so() {
        // 2,400 a second beyond the base: ten seconds.
        let reads = simulated(3000.0, 600.0, 24_000.0, 15);
        assert_eq!(reads[9].count, 3000.0);
        assert_eq!(reads[10].count, 600.0);
        let after = left(&gp2(), &reads[..4]).unwrap();
        assert_eq!(
            (after.left, after.seconds, after.ended_in),
            (14_400.0, Some(6.0), None)
        );
        let ended = left(&gp2(), &reads).unwrap();
        assert_eq!(
            (ended.left, ended.seconds, ended.ended_in),
            (0.0, None, Some(9))
        );
    }

    #[test]
    fn what_is_not_read_fills_the_bucket_and_no_further() {
        let spent = Read {
            seconds: 2.0,
            count: 6000.0,
        };
        let idle = |seconds| Read {
            seconds,
            count: 0.0,
        };
        let of = |windows: &[Read]| left(&gp2(), windows).unwrap().left;
        assert_eq!(of(&[spent]), 19_200.0);
        assert_eq!(of(&[spent, idle(3.0)]), 21_000.0);
        assert_eq!(of(&[spent, idle(3000.0)]), 24_000.0);
        assert_eq!(left(&gp2(), &[]), None);
        assert_eq!(left(&VolumeLimits::default(), &[spent]), None);
    }

    #[test]
    fn a_step_down_tells_base_and_credits() {
        let reads = simulated(200e6, 25e6, 1.75e9, 24);
        let step = reads.iter().position(|read| read.count < 100e6).unwrap();
        let found = burst(&reads, step).unwrap();
        assert!((found.base / 25e6 - 1.0).abs() < 1e-9, "{found:?}");
        assert!((found.credits / 1.75e9 - 1.0).abs() < 1e-9, "{found:?}");
        assert!((found.refill_seconds - 70.0).abs() < 1e-6, "{found:?}");
        // Up is no burst, and a step at the end none yet.
        let rising: Vec<Read> = reads.iter().rev().copied().collect();
        assert_eq!(burst(&rising, 24 - step), None);
        assert_eq!(burst(&reads, 24), None);
        assert_eq!(burst(&reads, 99), None);
    }
}
