//! What weighs how much in a server's time. Conclusions are judged by recorded windows of servers under load
//! ([`recorded`]); that their evidence is collected, by what is there and what was counted on servers ([`collected`]).

mod behind_statements;
mod behind_tables;
#[path = "../program/captured.rs"]
mod captured;
mod collected;
#[path = "../../../foundation/pgwire/tests/support/mod.rs"]
mod pg_support;
mod plan_causes;
mod plan_shapes;
mod recorded;
mod servers;
mod statements;
