//! Results of several machines as one.

use super::result::SliceResult;
use super::tally;

/// What the engines of one load came to together: counts and histograms add up, and so do threads.
/// `window_ns` is the window that stands for all, `kept_ns` the length of the intervals that were kept.
/// Who lost their connections is known by the number of the client in the whole load.
pub fn merged(parts: Vec<SliceResult>, window_ns: u64, kept_ns: Option<u64>) -> SliceResult {
    let clients = parts.iter().map(|part| part.clients).sum();
    let interrupted = parts.iter().any(|part| part.interrupted);
    let script_error = parts.iter().find_map(|part| part.script_error.clone());
    let died = parts.iter().find_map(|part| part.died.clone());
    SliceResult {
        clients,
        interrupted,
        died,
        script_error,
        ..tally::merge(parts, window_ns, kept_ns)
    }
}

#[cfg(test)]
mod tests {
    use crate::result::{Interval, ScriptResult, ThreadUse};
    use crate::{Latency, SliceResult, merged};

    fn latency(values: &[u64]) -> Latency {
        let mut latency = Latency::new();
        values.iter().for_each(|value| latency.record(*value));
        latency
    }

    fn part(number: u64) -> SliceResult {
        let values: Vec<u64> = (1..=50 * number).map(|n| n * 10_000).collect();
        let interval = |at: u64| Interval {
            start_ns: at * 100,
            transactions: number,
            failures: at,
            packed: latency(&[number * 1_000]).pack(),
        };
        SliceResult {
            window_ns: 1_000,
            clients: number as u32,
            transactions: values.len() as u64,
            transactions_sent: values.len() as u64 + number,
            failures: [("40001".to_owned(), number)].into(),
            latency: latency(&values),
            intervals: vec![interval(0), interval(number)],
            scripts: vec![ScriptResult {
                transactions: number,
                latency: Some(latency(&values)),
                ..ScriptResult::default()
            }],
            threads: vec![ThreadUse {
                clients: number as u32,
                user_ns: 100 * number,
                ..ThreadUse::default()
            }],
            ..SliceResult::default()
        }
    }

    /// What travels adds up to what would have been counted in one place.
    #[test]
    fn counts_add_up_and_histograms_merge() {
        let travelled = |number| {
            let text = serde_json::to_string(&part(number)).expect("a message");
            serde_json::from_str::<SliceResult>(&text).expect("a result")
        };
        let sum = merged((1..=3).map(travelled).collect(), 1_000, Some(100));
        assert_eq!((sum.clients, sum.transactions), (6, 300));
        assert_eq!(sum.transactions_sent, 306);
        assert_eq!(sum.failures["40001"], 6);
        assert_eq!(sum.client_user_ns(), 600);
        let mut all = Latency::new();
        (1..=3).for_each(|number| all.add(&part(number).latency));
        assert_eq!(sum.latency, all);
        assert_eq!(sum.scripts[0].latency.as_ref(), Some(&all));
        // Every interval of the window is there; the first has those of all three.
        assert_eq!(sum.intervals.len(), 10);
        assert_eq!(sum.intervals[0].transactions, 6);
        assert_eq!(sum.intervals[0].latency(), latency(&[1_000, 2_000, 3_000]));
        assert_eq!(sum.intervals[2].transactions, 2);
        assert_eq!(sum.intervals[9].transactions, 0);
        assert!(sum.died.is_none() && !sum.interrupted);
    }
}
