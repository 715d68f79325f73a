//! The wire protocol against a real PostgreSQL, against PgBouncer, and against peers that misbehave.

mod auth;
mod bad_peer;
mod pgbouncer;
mod raw;
mod session;
#[path = "../support/mod.rs"]
mod support;
mod tls;
