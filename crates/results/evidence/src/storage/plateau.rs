//! A device's limit, found by steps: more requests under way, and no more of them answered.

/// A rate counts as the same up to this share.
const SAME: f64 = 0.05;
/// Requests under way count as more from this factor on.
const MORE: f64 = 1.5;
/// With fewer under way a device is not asked for all that it gives.
const BUSY: f64 = 2.0;

/// What a device did under one number of sessions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Sessions.
    pub sessions: u32,
    /// Bytes a second.
    pub bytes: f64,
    /// Requests a second.
    pub requests: f64,
    /// Requests under way on average.
    pub in_flight: f64,
}

/// The limit of a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plateau {
    /// From which step on it stood.
    pub from: Step,
    /// The last step.
    pub to: Step,
}

impl Plateau {
    /// In words.
    pub fn words(&self) -> String {
        let (from, to) = (&self.from, &self.to);
        format!(
            "From {} to {} sessions the requests under way grew from {:.1} to {:.1}, and the device gave no more: {:.0} \
             MB in {:.0} requests a second, {:.0} KiB each. That is its limit for requests of this size; whether bytes or \
             requests are limited shows a load of another size.",
            from.sessions,
            to.sessions,
            from.in_flight,
            to.in_flight,
            to.bytes / 1e6,
            to.requests,
            to.bytes / to.requests / 1024.0
        )
    }
}

/// The limit that the last steps stand at; none where the device gave more for more, or was not asked for more.
pub fn find(steps: &[Step]) -> Option<Plateau> {
    let mut steps: Vec<Step> = steps.to_vec();
    steps.sort_by_key(|step| step.sessions);
    let to = *steps.last()?;
    if to.requests <= 0.0 || to.in_flight < BUSY {
        return None;
    }
    let same = |a: f64, b: f64| b > 0.0 && (a / b - 1.0).abs() <= SAME;
    let mut at_limit = steps
        .iter()
        .rev()
        .skip(1)
        .take_while(|step| same(to.bytes, step.bytes) && same(to.requests, step.requests));
    let from =
        *at_limit.find(|step| to.in_flight >= MORE * step.in_flight && step.in_flight > 0.0)?;
    Some(Plateau { from, to })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that answers each request in `seconds` and no more than `limit` of 8 KiB a second.
    fn steps(seconds: f64, limit: f64, sessions: &[u32]) -> Vec<Step> {
        sessions
            .iter()
            .map(|sessions| {
                let requests = (f64::from(*sessions) / seconds).min(limit);
                Step {
                    sessions: *sessions,
                    bytes: 8192.0 * requests,
                    requests,
                    in_flight: f64::from(*sessions),
                }
            })
            .collect()
    }

    #[test]
    fn a_device_that_gives_no_more_for_more_is_at_its_limit() {
        let found = find(&steps(0.001, 3000.0, &[1, 2, 4, 8, 16])).unwrap();
        assert_eq!((found.from.sessions, found.to.sessions), (8, 16));
        assert!(
            found
                .words()
                .contains("25 MB in 3000 requests a second, 8 KiB each"),
            "{}",
            found.words()
        );
    }

    #[test]
    fn a_load_that_asks_for_no_more_tells_no_limit() {
        // It gives more each time.
        assert_eq!(find(&steps(0.001, 1e9, &[1, 2, 4, 8, 16])), None);
        // The CPUs are full: no more is asked for.
        let mut full = steps(0.001, 3000.0, &[4, 8, 16]);
        for step in &mut full {
            step.in_flight = 3.0;
        }
        assert_eq!(find(&full), None);
        let mut idle = steps(0.001, 3000.0, &[4, 8]);
        for step in &mut idle {
            (step.requests, step.bytes, step.in_flight) = (0.0, 0.0, 0.0);
        }
        assert_eq!(find(&idle), None);
        assert_eq!(find(&[]), None);
    }
}
