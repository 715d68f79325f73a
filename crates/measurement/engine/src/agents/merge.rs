//! The machines' parts of a slice as one.

use pgassay_load::{Length, SliceResult, SliceSpec, merged};
use pgassay_model::machines::MachineRecord;

/// What a machine gave, by the clock here.
#[derive(Debug)]
pub(super) struct Part {
    /// The machine.
    pub name: String,
    /// When its window began.
    pub begin_ns: u64,
    /// By how much that can be wrong.
    pub clock_error_ns: u64,
    /// Whether its CPUs are those that are looked at beside the load.
    pub beside_server: bool,
    /// What was counted.
    pub result: SliceResult,
}

/// The whole, and what each machine had of it. The windows were to begin at `announced_ns`.
pub(super) fn merge(
    parts: Vec<Part>,
    announced_ns: u64,
    spec: &SliceSpec,
) -> (SliceResult, Vec<MachineRecord>) {
    let machines: Vec<MachineRecord> = parts
        .iter()
        .map(|part| record(part, announced_ns))
        .collect();
    let window_ns = match spec.length {
        Length::Time(_) => common_length(&parts),
        Length::Transactions(_) => span(&parts),
    };
    let kept = spec.interval.map(|interval| {
        let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        interval.max(1).saturating_mul(u64::from(spec.keep.max(1)))
    });
    let results = parts.into_iter().map(|part| part.result).collect();
    (merged(results, window_ns, kept), machines)
}

fn record(part: &Part, announced_ns: u64) -> MachineRecord {
    MachineRecord {
        name: part.name.clone(),
        clients: part.result.clients,
        transactions: part.result.transactions,
        window_ns: part.result.window_ns,
        begin_ns: part.begin_ns.wrapping_sub(announced_ns) as i64,
        clock_error_ns: part.clock_error_ns,
        user_ns: part.result.client_user_ns(),
        system_ns: part.result.client_system_ns(),
        busiest_thread_share: part.result.busiest_thread_share(),
        beside_server: part.beside_server,
        round_trip_ns: None,
    }
}

/// The length at which the sum of the transactions has the sum of the rates: each machine counted in a
/// window of its own, which are as long as they were announced but for what clocks and timers make of it.
fn common_length(parts: &[Part]) -> u64 {
    let windows = || {
        let results = parts.iter().map(|part| &part.result);
        results.filter(|result| result.window_ns > 0)
    };
    let done: u64 = windows().map(|result| result.transactions).sum();
    if done == 0 {
        let count = windows().count().max(1) as u64;
        return windows().map(|result| result.window_ns).sum::<u64>() / count;
    }
    let rate: f64 = windows()
        .map(|result| result.transactions as f64 / result.window_ns as f64)
        .sum();
    (done as f64 / rate).round() as u64
}

/// From the first begin to the last end.
fn span(parts: &[Part]) -> u64 {
    let begin = parts.iter().map(|part| part.begin_ns).min();
    let end = parts
        .iter()
        .map(|part| part.begin_ns.saturating_add(part.result.window_ns))
        .max();
    begin.zip(end).map_or(0, |(begin, end)| end - begin)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn part(name: &str, begin_ns: u64, window_ns: u64, transactions: u64) -> Part {
        Part {
            name: name.to_owned(),
            begin_ns,
            clock_error_ns: 1_000,
            beside_server: false,
            result: SliceResult {
                window_ns,
                transactions,
                clients: 2,
                ..SliceResult::default()
            },
        }
    }

    #[test]
    fn rates_add_up_whatever_the_windows_lengths() {
        let spec = SliceSpec {
            length: Length::Time(Duration::from_secs(1)),
            ..SliceSpec::default()
        };
        let at = 50 * SECOND;
        let parts = vec![
            part("a", at, SECOND, 1_000),
            part("b", at + 30_000_000, SECOND + 20_000_000, 2_040),
            part("c", at - 5_000, 0, 0),
        ];
        let (sum, machines) = merge(parts, at, &spec);
        assert_eq!((sum.transactions, sum.clients), (3_040, 6));
        assert!((sum.throughput() - 3_000.0).abs() < 0.01, "{sum:?}");
        let begins: Vec<i64> = machines.iter().map(|machine| machine.begin_ns).collect();
        assert_eq!(begins, [0, 30_000_000, -5_000], "planted skew is recorded");
        assert_eq!(machines[1].transactions, 2_040);
        let idle = vec![part("a", at, SECOND, 0), part("b", at, 3 * SECOND, 0)];
        assert_eq!(merge(idle, at, &spec).0.window_ns, 2 * SECOND);
    }

    #[test]
    fn a_number_of_transactions_takes_from_the_first_begin_to_the_last_end() {
        let spec = SliceSpec {
            length: Length::Transactions(5),
            ..SliceSpec::default()
        };
        let parts = vec![part("a", 100, 50, 10), part("b", 120, 90, 10)];
        assert_eq!(merge(parts, 100, &spec).0.window_ns, 110);
    }
}
