//! Trials run: on an arena without time, and inside a real server.

mod pipeline;
mod primitives;
