//! What pgassay's layers say to each other: an experiment, what is recorded of it, and how a request
//! fails. No conclusions and no I/O; serialized these types are the run directory's format.
//!
//! [`plan`] says what is to be measured, [`schedule`] in which order, [`run`] and [`trial`] what was seen.

pub mod axis;
pub mod comparison;
pub mod confinement;
pub mod explain;
pub mod facts;
pub mod failure;
pub mod kernel_counts;
pub mod live;
pub mod machines;
pub mod observed;
pub mod pgio;
pub mod plan;
pub mod point;
pub mod primitives;
pub mod query_cost;
pub mod reading;
pub mod record;
pub mod run;
pub mod samplers;
pub mod scattered;
pub mod schedule;
pub mod server;
pub mod stage;
pub mod storage;
pub mod trial;
pub mod warning;
pub mod workload;

pub use failure::{Failure, FailureKind};
pub use plan::Plan;
pub use trial::Trial;
