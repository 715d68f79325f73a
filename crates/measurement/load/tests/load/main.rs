//! The load engine and the script language against a real PostgreSQL, against the real pgbench,
//! and against peers that misbehave.

mod against_pgbench;
mod bad_peer;
mod encrypted;
mod many;
mod pauses;
#[path = "../../../../foundation/pgwire/tests/support/mod.rs"]
mod pg_support;
mod real;
mod replay;
mod same_work;
mod serving;
mod shares;
#[path = "../support/mod.rs"]
mod support;
mod turns;
