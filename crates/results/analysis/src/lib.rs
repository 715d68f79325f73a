//! What is concluded from a recorded run.
//!
//! Everything here is pure: a recorded run goes in, an [`analysis::Analysis`]
//! comes out. There is no I/O and no clock, so an old run can be analysed again
//! by a newer program and gives the same answer on any machine.
//!
//! [`pgassay_model::record`] is what was seen (raw, as read), [`analyse()`] turns it into
//! [`analysis`], which every report format renders.

pub mod against_reference;
pub mod analyse;
pub mod analysis;
pub mod axes;
pub mod causes;
pub mod ceiling;
pub mod check;
pub mod compare;
pub mod counts;
pub mod curves;
pub mod diagnose;
mod elsewhere;
pub mod fit;
pub mod fleet;
pub mod guard;
pub mod history;
pub mod hosts;
pub mod kernels;
pub mod lab;
pub mod measuring;
pub mod pgio;
pub mod primitives;
pub mod quality;
pub mod query_cost;
pub mod scattered;
pub mod search;
pub mod summary;
pub mod underway;
pub mod watched;
mod wire;
pub mod within;

pub use analyse::analyse;
pub use analysis::Analysis;
pub use pgassay_evidence::{
    checkpoints, host, latency, levels, measured, metrics, number, observed, profile, reference,
    server, storage, top_down, trial_view,
};
pub use {pgassay_rules as bottlenecks, pgassay_stats as stats};
