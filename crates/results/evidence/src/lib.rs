//! The recorded samples, counters and trials of a run, aggregated.
//!
//! What observers recorded is summed, averaged and attributed here. The rules of
//! `pgassay_rules` judge it, and `pgassay_analysis` reports it. Pure: no I/O, no clock.

pub mod checkpoints;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod host;
pub mod latency;
pub mod levels;
pub mod measured;
pub mod metrics;
pub mod number;
pub mod observed;
pub mod profile;
pub mod reference;
pub mod server;
pub mod storage;
pub mod top_down;
pub mod trial_view;
