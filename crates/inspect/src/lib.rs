//! What the code in a binary does: bytes in, an account of its atomics out.

use serde::{Deserialize, Serialize};

/// The account of one binary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Binary {
    /// ELF machine, such as `x86-64`.
    pub machine: String,
}
