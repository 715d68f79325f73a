//! The load engine: clients that run scripts against a server, for little CPU and with the truth
//! about latency.
//!
//! ```text
//! Program + Conninfo -> Engine --resize--> clients --run_slice--> SliceResult
//!                                 |
//!            thread: Worker { ring or epoll, clients: Client { Wire, place in the script } }
//! ```
//! One loop serves every kind of load. A schedule yields intended starts, the interpreter
//! (`advance`, with `captured` and `failing`) moves a client from one wait to the next, the wire state machine says when an
//! answer is whole, and the tally counts what lies in the window.
//!
//! Eight clients for ten seconds:
//!
//! ```no_run
//! use std::time::Duration;
//! use pgassay_load::{Engine, Length, Options, SliceSpec, script::Program};
//!
//! let mut program = Program::new();
//! program.add("one.sql", "SELECT :client_id", 1)?;
//! let server = pgassay_pgwire::Conninfo::parse("host=/run/postgresql dbname=postgres")?;
//! let mut engine = Engine::new(server, program, Options::default());
//! engine.resize(8)?;
//! let seconds = SliceSpec { length: Length::Time(Duration::from_secs(10)), ..SliceSpec::default() };
//! let result = engine.run_slice(&seconds, &mut |_| {});
//! println!("{:.0} tps, p99 {} ns", result.throughput(), result.latency.percentile(99.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod advance;
mod captured;
mod client;
mod encode;
mod engine;
mod failing;
mod failure;
mod latency;
mod live;
mod merged;
mod meta;
mod options;
mod peer;
mod recorded;
mod replay;
mod result;
mod roles;
mod saying;
mod schedule;
pub mod script;
mod sent;
mod socket;
mod streams;
mod tally;
mod timers;
mod wire;
mod worker;

pub use encode::Protocol;
pub use engine::{Engine, ResizeError, raise_descriptor_limit};
pub use failure::Failure;
pub use latency::Latency;
pub use merged::merged;
pub use options::{
    Edge, Entry, Event, Journal, Journals, Length, Listener, OnError, Options, Outcome, Passed,
    Pause, Progress, Says, Serving, Share, SliceSpec, Tone,
};
pub use peer::Peer;
pub use replay::{Execution, Pace, Replay, lanes};
pub use result::{
    CONNECTION, Calls, CommandResult, Interval, Lost, ScriptResult, SliceResult, ThreadUse,
};
pub use roles::own_before;
pub use schedule::{Gaps, Schedule};
pub use sent::{Sent, sent, stops};
pub use wire::{Captured, Exchange, Fed, Keep, TxStatus, Wire, WireError};
