//! What the client can do at most, from its trials against a peer that answers at once.

use pgassay_model::point::Point;
use pgassay_model::trial::Trial;

/// What the client did at one point: the best of its trials, as all that disturbs only lowers it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceiling {
    /// Load threads.
    threads: u32,
    /// Transactions a second.
    throughput_tps: f64,
    /// CPU time of the load threads for each transaction, microseconds.
    client_cpu_us_per_transaction: f64,
}

impl Ceiling {
    /// The best of the trials at a point; none without any.
    pub fn of<'a>(point: &Point, trials: impl IntoIterator<Item = &'a Trial>) -> Option<Self> {
        let mut best: Option<Self> = None;
        for trial in trials {
            if !trial.counts() || trial.transactions == 0 {
                continue;
            }
            let transactions = trial.transactions as f64;
            let tps = transactions * 1e9 / trial.window_ns as f64;
            let cpu_us = trial.client_ns() as f64 / 1e3 / transactions;
            let (most, least) = best.map_or((tps, cpu_us), |best| {
                (best.throughput_tps, best.client_cpu_us_per_transaction)
            });
            best = Some(Self {
                threads: point.threads,
                throughput_tps: most.max(tps),
                client_cpu_us_per_transaction: least.min(cpu_us),
            });
        }
        best
    }

    /// Transactions a second beyond which this client does not come: what it did, or what its
    /// threads would do if they never had to wait, where the peer was what held them back.
    pub fn most_tps(&self) -> f64 {
        let busy = f64::from(self.threads) * 1e6 / self.client_cpu_us_per_transaction.max(1e-3);
        busy.max(self.throughput_tps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_trial_and_what_the_threads_could_do_if_they_never_waited() {
        let point = Point {
            clients: 8,
            threads: 2,
            variant: 0,
        };
        let trial = |transactions: u64, client_user_ns: u64| Trial {
            window_ns: 500_000_000,
            transactions,
            client_user_ns,
            ..Trial::default()
        };
        // Half of two threads' time: they could do twice as much.
        let trials = [
            trial(0, 9),
            trial(10_000, 500_000_000),
            trial(9_000, 990_000_000),
        ];
        let ceiling = Ceiling::of(&point, &trials).unwrap();
        assert_eq!(ceiling.throughput_tps, 20_000.0);
        assert_eq!(ceiling.most_tps(), 40_000.0);
        assert_eq!(Ceiling::of(&point, &trials[..1]), None);
    }
}
