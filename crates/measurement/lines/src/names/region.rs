//! Stretches of memory, and what lies in them.

use std::rc::Rc;

use super::layout::Layout;

/// Bytes from one lock for insertion into the WAL to the next.
pub(super) const LOCK: u64 = 128;

/// Marks the table of buffers among the elements of tables.
pub(super) const BUFFERS: usize = 1 << 31;

/// A stretch of memory with a name.
pub(super) struct Region {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) structure: String,
    pub(super) shape: Shape,
}

/// What lies in it.
pub(super) enum Shape {
    /// Something of which no more is known.
    Whole,
    /// One structure; behind it, its data.
    One(Rc<Layout>, Vec<Inner>),
    /// Structures in a row.
    Row {
        stride: u64,
        layout: Option<Rc<Layout>>,
        what: &'static str,
        own: Option<u64>,
    },
    /// Lightweight locks.
    Locks { stride: u64, names: Vec<String> },
    /// Lightweight locks of the buffers, of each as many as there are names, so far apart.
    BufferLocks {
        stride: u64,
        names: [&'static str; 2],
    },
    /// Headers of the buffers.
    Descriptors(Rc<Layout>),
    /// The buffers themselves.
    Blocks,
    /// A table's buckets, from the number on.
    Buckets { first: u64, partitions: u64 },
}

/// A row within a structure.
pub(super) struct Inner {
    pub(super) member: &'static str,
    pub(super) layout: Option<Rc<Layout>>,
    pub(super) what: &'static str,
    pub(super) own: Option<u64>,
    /// Elements after which the next array of the same kind begins.
    pub(super) period: Option<u64>,
}

/// The region that holds an address.
pub(super) fn find(regions: &[Region], address: u64) -> Option<&Region> {
    let after = regions.partition_point(|region| region.start <= address);
    // One that begins earlier may reach further.
    regions[..after]
        .iter()
        .rev()
        .take(64)
        .find(|region| address < region.end)
}

/// `of this session`, `of session 7`, `partition 7`, `7`.
pub(super) fn label(what: &str, number: u64, own: Option<u64>) -> String {
    match (what, own) {
        ("", _) => number.to_string(),
        ("session", Some(own)) if own == number => "of the session".to_owned(),
        ("session", _) => format!("of process slot {number}"),
        (what, _) => format!("{what} {number}"),
    }
}
