//! The program `pgassay`, as a library of its parts.

pub mod script;
pub mod target;
