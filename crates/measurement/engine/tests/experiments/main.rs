//! Trials run: on an arena without time, and inside a real server.

mod live;
mod pause;
mod pipeline;
mod primitives;
