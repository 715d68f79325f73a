//! PostgreSQL's contended operations as kernels of their own, without a server.
//!
//! Each [`Form`] does to shared memory what one release of PostgreSQL, one proposal or one lock of the
//! literature does, in its layout and with its memory orders. A [`trial`](run) releases several threads on
//! one of them together, and tells what each did. [`core_to_core`] measures what a cache line takes from one
//! CPU to another.
//!
//! A kernel is not PostgreSQL: what lies beside the line, what is done between two operations, and who
//! waits how long are simpler here. It says what one operation costs on this processor at so many
//! contenders, which a model of more needs.

mod catalogue;
mod forms;
mod kernel;
mod pinned;
pub mod placement;
mod session;
pub mod source;
mod sync;
#[cfg(not(feature = "loom"))]
mod transfer;
#[cfg(not(feature = "loom"))]
mod trial;

pub use catalogue::{Form, Of, Standing, find, forms};
pub use kernel::{Kernel, Me};
#[cfg(not(feature = "loom"))]
pub use transfer::{CoreToCore, Pair, Progress, core_to_core};
#[cfg(not(feature = "loom"))]
pub use trial::{Conditions, KernelError, Outcome, run};
