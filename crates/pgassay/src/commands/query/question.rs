//! What is asked, of which tables.

use std::path::PathBuf;

use pgassay_sys::private::Directory;

/// A question.
pub(super) struct Question {
    pub sql: String,
    /// Tables that it may name.
    pub tables: Vec<&'static str>,
    pub dir: PathBuf,
    /// Bytes that the engine may take.
    pub memory: u64,
    /// For what does not fit into them; it goes with the question.
    pub spill: Directory,
}
