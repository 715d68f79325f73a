//! Exclusive loads and stores (LL/SC), which Rust's atomics leave to the compiler's choice; and on arm64 the
//! single atomics of LSE.
//!
//! Each operation is PostgreSQL's of one kind of processor: with its barriers, and where a decision is said
//! to be made within the pair, it stands between the exclusive load and its store.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub mod lse;
#[cfg(target_arch = "powerpc64")]
mod powerpc64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(target_arch = "powerpc64")]
pub use powerpc64::*;

/// A count in a word that others change: how much is added, unless any of these bits is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinning {
    /// What a pin adds.
    pub pin: u32,
    /// What a use adds, while fewer than `most` are counted.
    pub usage: u32,
    /// The bits of the uses.
    pub mask: u32,
    /// As many as are counted, in their place.
    pub most: u32,
    /// The bit by which the word is locked.
    pub locked: u32,
}

#[cfg(all(test, any(target_arch = "aarch64", target_arch = "powerpc64")))]
mod tests;
