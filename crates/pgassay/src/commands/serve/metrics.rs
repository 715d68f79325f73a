//! What is measured now, for Prometheus: throughput, findings, and where sessions' time went.
//!
//! Trials are followed from one scrape to the next, as a page follows them. What was measured so far is analysed when
//! there are twice as many trials, and at most once a minute else: that takes CPU time on the machine that measures.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pgassay_analysis::Analysis;
use pgassay_http::Answer;
use pgassay_report::exposition::{self, Live};

use super::index::{Index, Is};
use crate::commands::concluded::Concluded;
use crate::commands::following::Following;

/// How long an analysis holds.
const FRESH: Duration = Duration::from_secs(60);
/// Runs that are followed at most: the newest.
const MOST: usize = 16;

/// The runs that are followed.
#[derive(Default)]
pub(super) struct Metrics(Mutex<BTreeMap<String, Followed>>);

/// A run that is measured.
struct Followed {
    following: Following,
    analysed: Option<Analysed>,
}

/// What was measured of a run when it was last analysed.
struct Analysed {
    at: Instant,
    trials: usize,
    /// None before the first trial.
    analysis: Option<Box<Analysis>>,
}

impl Analysed {
    fn holds(&self, trials: usize) -> bool {
        trials == self.trials || (trials < 2 * self.trials && self.at.elapsed() < FRESH)
    }
}

impl Metrics {
    /// The figures as they are now.
    pub(super) fn answer(&self, index: &Arc<Index>) -> Answer {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = index.runs();
        let running = runs.iter().filter(|(_, is)| matches!(is, Is::Running));
        let running: Vec<&String> = running.map(|(run, _)| run).take(MOST).collect();
        all.retain(|run, _| running.contains(&run));
        for run in running {
            let dir = index.dir().join(run);
            if !all.contains_key(run)
                && let Some(following) = Following::of(&dir)
            {
                let analysed = None;
                all.insert(
                    run.clone(),
                    Followed {
                        following,
                        analysed,
                    },
                );
            }
            let Some(followed) = all.get_mut(run) else {
                continue;
            };
            followed.following.read();
            let (trials, _) = followed.following.so_far().trials;
            if !followed
                .analysed
                .as_ref()
                .is_some_and(|analysed| analysed.holds(trials))
            {
                let look = Concluded::at(&dir).ok();
                followed.analysed = Some(Analysed {
                    at: Instant::now(),
                    trials,
                    analysis: look.map(|look| Box::new(look.into_analysis())),
                });
            }
        }
        let live = all.values().map(|followed| Live {
            so_far: followed.following.so_far(),
            analysis: followed
                .analysed
                .as_ref()
                .and_then(|analysed| analysed.analysis.as_deref()),
        });
        let text = exposition::live(&live.collect::<Vec<_>>());
        Answer {
            media_type: exposition::OPEN_METRICS.into(),
            ..Answer::text(200, text)
        }
    }
}
