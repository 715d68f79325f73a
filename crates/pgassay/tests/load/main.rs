//! The load engine and the script language against a real PostgreSQL, against the real pgbench,
//! and against peers that misbehave.

mod against_pgbench;
mod bad_peer;
mod encrypted;
mod live_view;
mod many;
#[path = "../pg_support/mod.rs"]
mod pg_support;
mod pgbench_command;
mod real;
mod same_work;
mod support;
mod workloads;
