//! Comparisons: what is concluded from made-up runs, and the program against a
//! real PostgreSQL.

mod by_statement;
mod concluded;
pub mod fixture;
mod followed;
mod pooled;
mod real;
