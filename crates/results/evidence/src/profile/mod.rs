//! What CPU samples say in PostgreSQL's terms: kinds of work, locks, stages, and what differs between two profiles.

pub mod class;
pub mod difference;
pub mod flame;
pub mod lock;
mod names;
pub mod stage;
pub mod summary;
pub mod tree;
pub mod within;

pub use class::Class;
pub use summary::{Summary, summarise};
pub use within::Work;
