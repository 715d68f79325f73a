//! Experiments on real servers: what a workload needs is set up, trials are run in a drawn order,
//! and what was seen goes raw into the run directory.
//!
//! This side acts on the world and has no opinions; what the trials mean is `pgassay-analysis`'s.

pub mod agents;
pub mod count;
pub mod drivers;
pub mod rundir;
pub mod runner;
pub mod workload;
