//! Clients that load nothing: they wait as long as a slice takes and count what a server would have done,
//! by their numbers and the seed alone. Tests and simulations of many machines run them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pgassay_load::script::Random;
use pgassay_load::{Edge, Interval, Latency, Length, SliceResult, SliceSpec, ThreadUse};

use super::message::{Found, Identity, Preparation, Refusal, Server};
use super::serve::{Clients, Maker, Memory};

/// Makes synthetic clients.
#[derive(Debug, Clone, Copy, Default)]
pub struct Synthetic {
    /// By how much their windows begin late.
    pub late: Duration,
    /// Whether all of them are lost in the window.
    pub dies: bool,
    /// Whether they take a minute to be made, whatever they are told.
    pub stuck: bool,
}

impl Maker for Synthetic {
    fn reach(&self, server: &Server) -> Result<Found, Refusal> {
        Ok(Found {
            identity: Identity {
                started: server.conninfo.clone(),
                ..Identity::default()
            },
            round_trip_ns: 1_000,
        })
    }

    fn clients(
        &self,
        _: &Preparation,
        cancelled: &Arc<AtomicBool>,
    ) -> Result<Box<dyn Clients>, Refusal> {
        Ok(Box::new(Echo {
            clients: 0,
            kind: *self,
            cancelled: Arc::clone(cancelled),
        }))
    }
}

struct Echo {
    clients: u32,
    kind: Synthetic,
    cancelled: Arc<AtomicBool>,
}

impl Echo {
    fn sleep(&self, time: Duration) -> Duration {
        let begin = Instant::now();
        while begin.elapsed() < time && !self.cancelled.load(Ordering::Relaxed) {
            let left = time.saturating_sub(begin.elapsed());
            thread::sleep(left.min(Duration::from_millis(20)));
        }
        begin.elapsed()
    }
}

impl Clients for Echo {
    fn resize(&mut self, clients: u32) -> Result<(), Refusal> {
        if self.kind.stuck {
            thread::sleep(Duration::from_secs(60));
        }
        self.clients = clients;
        Ok(())
    }

    fn memory(&self, clients: u32) -> Memory {
        Memory {
            kept: u64::from(clients),
            at_work: 0,
        }
    }

    fn run_slice(&mut self, spec: &SliceSpec, at_edge: &mut dyn FnMut(Edge)) -> SliceResult {
        self.sleep(spec.warmup + self.kind.late);
        at_edge(Edge::Start);
        let (window, each) = match spec.length {
            Length::Time(time) => (self.sleep(time), None),
            Length::Transactions(each) => (Duration::ZERO, Some(each)),
        };
        at_edge(Edge::End);
        let first = spec.share.map_or(0, |share| share.first_client);
        let parts = spec.interval.map_or(0, |interval| match spec.length {
            Length::Time(time) => {
                let kept = interval.as_nanos().max(1) * u128::from(spec.keep.max(1));
                time.as_nanos().div_ceil(kept) as u64
            }
            Length::Transactions(_) => 0,
        });
        let mut intervals = vec![Latency::new(); parts as usize];
        let mut latency = Latency::new();
        for client in first..first + self.clients {
            let mut random = Random::new(spec.seed ^ u64::from(client));
            let done = each.unwrap_or_else(|| random.bits() % 200);
            for _ in 0..done {
                let took = 50_000 + random.bits() % 900_000;
                latency.record(took);
                if parts > 0 {
                    intervals[(took % parts) as usize].record(took);
                }
            }
        }
        SliceResult {
            window_ns: window.as_nanos() as u64,
            clients: self.clients,
            transactions: latency.count(),
            transactions_sent: latency.count(),
            latency,
            intervals: intervals
                .iter()
                .enumerate()
                .map(|(at, part)| {
                    let kept = spec.interval.unwrap_or_default() * spec.keep.max(1);
                    Interval::new((kept * at as u32).as_nanos() as u64, 0, part)
                })
                .collect(),
            threads: vec![ThreadUse {
                clients: self.clients,
                user_ns: 1_000,
                ..ThreadUse::default()
            }],
            died: self
                .kind
                .dies
                .then(|| "the server closed the connection".to_owned()),
            interrupted: self.cancelled.load(Ordering::Relaxed),
            ..SliceResult::default()
        }
    }
}
