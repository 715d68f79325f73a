//! What a slice of load came to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::latency::{Latency, Packed};

/// The key under which a broken connection counts among the failures by SQLSTATE.
pub const CONNECTION: &str = "connection";

/// One slice of load: what was counted in its window, and what it took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SliceResult {
    /// Length of the window as it was.
    pub window_ns: u64,
    /// Clients with a connection when the slice began.
    pub clients: u32,
    /// Transactions that ended well in the window.
    pub transactions: u64,
    /// All transactions of the slice that ended, well or not: warm-up, window and tail.
    pub transactions_sent: u64,
    /// Transactions that failed in the window, by SQLSTATE or `connection`.
    pub failures: BTreeMap<String, u64>,
    /// An example of each.
    pub failure_examples: BTreeMap<String, String>,
    /// Sum of the delays from the intended to the actual start, where there is a schedule.
    pub lag_sum_ns: f64,
    /// The longest of them.
    pub lag_max_ns: u64,
    /// Repetitions after serialization failures and deadlocks.
    pub retries: u64,
    /// Transactions that were repeated at least once.
    pub retried: u64,
    /// Starts that were left out because they would have missed the latency limit anyway.
    pub skipped: u64,
    /// Transactions that ended well but later than the latency limit.
    pub late: u64,
    /// Latency from the intended start.
    pub latency: Latency,
    /// Latency from the actual start, where there was a schedule that made it differ.
    pub latency_from_actual: Option<Latency>,
    /// The first transaction of each new connection, apart; it is not in the others.
    pub first: Latency,
    /// Time to connect, where clients connect for each transaction.
    pub connects: Latency,
    /// The window by intervals.
    pub intervals: Vec<Interval>,
    /// By script.
    pub scripts: Vec<ScriptResult>,
    /// By load thread.
    pub threads: Vec<ThreadUse>,
    /// Starts that were meant to lie in the window and had not begun when it ended.
    pub behind: u64,
    /// Transactions under way when the slice gave up waiting for them.
    pub unfinished: u32,
    /// Clients that lost their connection or were stopped; the first hundred.
    pub lost: Vec<Lost>,
    /// How many they are.
    pub lost_count: u32,
    /// Why nobody was left before the end, where that is so.
    pub died: Option<String>,
    /// Where and why the script of the last client could not go on, where that is why it died.
    #[serde(default)]
    pub script_error: Option<String>,
    /// Whether it was stopped from outside.
    pub interrupted: bool,
}

impl SliceResult {
    /// Transactions a second.
    pub fn throughput(&self) -> f64 {
        if self.window_ns == 0 {
            0.0
        } else {
            self.transactions as f64 * 1e9 / self.window_ns as f64
        }
    }

    /// CPU time of the load threads in user mode.
    pub fn client_user_ns(&self) -> u64 {
        self.threads.iter().map(|t| t.user_ns).sum()
    }

    /// CPU time of the load threads in the kernel.
    pub fn client_system_ns(&self) -> u64 {
        self.threads.iter().map(|t| t.system_ns).sum()
    }

    /// The share of the window in which the busiest load thread ran, 0 to 1.
    pub fn busiest_thread_share(&self) -> f64 {
        let most = self
            .threads
            .iter()
            .map(|t| t.user_ns + t.system_ns)
            .max()
            .unwrap_or(0);
        if self.window_ns == 0 {
            0.0
        } else {
            most as f64 / self.window_ns as f64
        }
    }

    /// System calls of the load threads in the window.
    pub fn system_calls(&self) -> Calls {
        let mut sum = Calls::default();
        for thread in &self.threads {
            sum.receive += thread.calls.receive;
            sum.send += thread.calls.send;
            sum.wait += thread.calls.wait;
            sum.enter += thread.calls.enter;
            sum.gathered += thread.calls.gathered;
        }
        sum
    }
}

/// More than any count or time in nanoseconds of a slice comes to (19 hours).
const MOST: u64 = 1 << 46;
/// More than there are load threads on a machine.
const MOST_THREADS: usize = 4096;

impl SliceResult {
    /// Whether a machine can have measured this whose window was not longer than so many nanoseconds: what another
    /// process says of a slice is added up and counted through only then.
    pub fn is_possible(&self, longest_ns: u64) -> bool {
        let scripts = self.scripts.iter();
        let of_scripts =
            scripts.flat_map(|s| [s.transactions, s.failures, s.retries, s.retried, s.skipped]);
        let threads = self.threads.iter();
        let of_threads = threads.flat_map(|t| {
            let calls = &t.calls;
            let calls = [
                calls.receive,
                calls.send,
                calls.wait,
                calls.enter,
                calls.gathered,
            ];
            [t.user_ns, t.system_ns].into_iter().chain(calls)
        });
        let intervals = self.intervals.iter();
        let of_intervals = intervals.clone().flat_map(|i| [i.transactions, i.failures]);
        let own = [
            self.transactions,
            self.transactions_sent,
            self.lag_max_ns,
            self.retries,
            self.retried,
            self.skipped,
            self.late,
            self.behind,
        ];
        let mut counts = own
            .into_iter()
            .chain(self.failures.values().copied())
            .chain(of_scripts)
            .chain(of_threads)
            .chain(of_intervals);
        self.window_ns <= longest_ns
            && self.lag_sum_ns.is_finite()
            && self.threads.len() <= MOST_THREADS
            && intervals
                .map(|i| i.start_ns)
                .all(|start| start <= self.window_ns)
            && counts.all(|count| count <= MOST)
    }
}

/// A part of the window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Interval {
    /// Where it begins, from the window's start.
    pub start_ns: u64,
    /// Transactions that ended well in it.
    pub transactions: u64,
    /// Transactions that failed in it.
    pub failures: u64,
    pub(super) packed: Packed,
}

impl Interval {
    /// A part of a window, with the latencies of its transactions.
    pub fn new(start_ns: u64, failures: u64, latency: &Latency) -> Self {
        Interval {
            start_ns,
            transactions: latency.count(),
            failures,
            packed: latency.pack(),
        }
    }

    /// The latencies from the intended start.
    pub fn latency(&self) -> Latency {
        let mut latency = Latency::new();
        latency.add_packed(&self.packed);
        latency
    }
}

/// What one script came to in the window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ScriptResult {
    /// Transactions that ended well.
    pub transactions: u64,
    /// Transactions that failed.
    pub failures: u64,
    /// Repetitions.
    pub retries: u64,
    /// Transactions that were repeated.
    pub retried: u64,
    /// Starts left out.
    pub skipped: u64,
    /// Latency from the intended start; only with several scripts or per statement.
    pub latency: Option<Latency>,
    /// By command, where asked for.
    pub commands: Vec<CommandResult>,
}

/// What one command of a script came to in the window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CommandResult {
    /// How often it failed.
    pub failures: u64,
    /// How often its failure made its transaction be repeated.
    pub retries: u64,
    /// Its latencies; `None` where it never ran.
    pub latency: Option<Latency>,
}

/// What a load thread used in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// Clients it served.
    pub clients: u32,
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
    /// What it asked of the kernel.
    pub calls: Calls,
}

/// System calls by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// recv
    pub receive: u64,
    /// send, or an io_uring_enter with one message
    pub send: u64,
    /// epoll_wait, sleeps and timers, or an io_uring_enter that only waits
    pub wait: u64,
    /// io_uring_enter with the sends of several clients
    pub enter: u64,
    /// how many sends those were: 0 where the kernel refuses io_uring
    pub gathered: u64,
}

/// A client that stopped before its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Which.
    pub client: u32,
    /// When, from the slice's start.
    pub at_ns: u64,
    /// Why.
    pub reason: String,
    /// Whether its script could not go on; else the connection was lost.
    #[serde(default)]
    pub in_script: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_can_have_measured_is_told() {
        let second = 1_000_000_000;
        let sound = SliceResult {
            window_ns: second,
            transactions: 20_000,
            threads: vec![ThreadUse {
                user_ns: second,
                ..ThreadUse::default()
            }],
            intervals: vec![Interval {
                start_ns: second / 2,
                ..Interval::default()
            }],
            ..SliceResult::default()
        };
        assert!(sound.is_possible(second));
        let wrong: [fn(&mut SliceResult); 5] = [
            |r| r.window_ns += 1,
            |r| r.transactions = u64::MAX,
            |r| r.threads[0].calls.send = u64::MAX,
            |r| r.intervals[0].start_ns = u64::MAX,
            |r| r.lag_sum_ns = f64::NAN,
        ];
        for spoil in wrong {
            let mut spoilt = sound.clone();
            spoil(&mut spoilt);
            assert!(!spoilt.is_possible(second), "{spoilt:?}");
        }
    }
}
