//! Workloads from the statements that a server ran.
//!
//! [`log`] reads PostgreSQL's logs, [`sessions`] puts transactions together, [`mix`] counts them with samples
//! of the values that they had, [`write`](mod@write) makes a workload file of them, and [`made`] says what is in it
//! and what is not. [`conditions`] and [`draw`] do the same for a server whose statements are known without
//! values: by `pg_stat_statements`, the planner's conditions and `pg_stats`.
//! [`recorded`] is the form of sessions kept one by one, [`export`] writes a workload for other programs.
//! Pure: lines, rows and plans are pushed in.

pub mod anonymise;
pub mod conditions;
pub mod draw;
pub mod export;
mod kind;
pub mod log;
pub mod made;
pub mod mix;
pub mod recorded;
pub mod sessions;
pub mod template;
pub mod write;
