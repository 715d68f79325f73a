//! The load engine and the script language against a real PostgreSQL, against the real pgbench,
//! and against peers that misbehave.

mod against_pgbench;
mod bad_peer;
mod many;
mod pgbench_command;
mod real;
mod support;
