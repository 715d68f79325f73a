//! Binaries gathered from files, directories, packages and running processes.
//!
//! The instructions themselves are read by the crate `pgassay-inspect`; here is what needs a file
//! system and /proc.

pub mod gather;
pub mod live;
