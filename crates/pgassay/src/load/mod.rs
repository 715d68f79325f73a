//! The load engine: clients that run scripts against a server, for little CPU and with the truth
//! about latency.

mod encode;
mod latency;
mod schedule;
mod wire;

pub use encode::Protocol;
pub use latency::Latency;
pub use schedule::{Gaps, Schedule};
pub use wire::{Captured, Exchange, Failure, Fed, TxStatus, Wire, WireError};
