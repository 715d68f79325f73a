//! Binaries gathered from files, directories, packages and running processes, and what was found in
//! them as a document that text, markdown and JSON render alike.
//!
//! The instructions themselves are read by the crate `pgassay-inspect`; here is what needs a file
//! system and /proc.

pub mod account;
pub mod document;
pub mod gather;
pub mod live;
pub mod render;

pub use document::{Document, Entry, Problem};
