//! Servers to measure: finding installations, launching throw-away clusters
//! of them, and leaving nothing behind.
//!
//! ```text
//! TARGET text -> TargetSpec -> Installation -> Cluster (launch) -> conninfo
//!                           -> a running server's conninfo
//! ```
//!
//! What a launched server reads lies under [`scratch`], because it runs as
//! another user where pgassay runs as root; what a killed run left there is
//! found and removed by [`leftover`].

pub mod account;
pub mod archive;
pub mod ask;
pub mod clock;
pub mod confinement;
pub mod copies;
pub mod database;
pub mod error;
pub mod extension;
pub mod find;
pub mod huge_pages;
pub mod inspection;
pub mod launch;
pub mod leftover;
pub mod listen;
mod original;
pub mod packages;
pub mod pgbuild;
mod prepared;
pub mod read_ahead;
pub mod running;
pub mod schema;
pub mod scratch;
pub mod settings;
pub mod spec;
mod tools;
pub mod unfinished;
pub mod version;

pub use archive::StandIn;
pub use error::TargetError;
pub use find::{Installation, Installations};
pub use launch::{Cluster, LaunchOptions};
pub use listen::{Listen, Listening};
pub use read_ahead::ReadAhead;
pub use spec::TargetSpec;
pub use version::{Version, Wanted};
