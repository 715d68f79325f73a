//! Where the bytes come from: logical reads, shared-buffer misses, device reads.
//!
//! Three figures that are often taken for each other. A *logical read* is a
//! block that the server looked at, a *miss* one that it had to ask the kernel
//! for, a *device read* what the kernel then fetched, which can be nothing
//! (page cache), the same, or many times as much (large pages, read-ahead).
//! Each is read out of what was recorded around a window; what can't be seen
//! says why, never 0.

mod counters;
mod reads;
mod stack;

pub use counters::{CgroupIo, DiskLine, ProcessIo};
pub use reads::{DeviceReads, ReadFigures, Seen, figures};
pub use stack::{Layer, LayerKind, Storage};

/// Sampler: the lines of /proc/diskstats of the devices under the data
/// directory, as read (Linux, Documentation/admin-guide/iostats.rst).
pub const HOST_DISKSTATS: &str = "host.diskstats";
/// Sampler: the server's cgroup's io.stat, or of version 1 its two files
/// (Linux, Documentation/admin-guide/cgroup-v2.rst).
pub const CGROUP_IO: &str = "cgroup.io";
/// Sampler: a line `PID name value name value …` for every process of the
/// server, from /proc/PID/io (proc_pid_io(5)).
pub const SERVER_IO: &str = "server.io";
/// Sampler: the rows of `pg_stat_io` (from version 16) as one JSON array.
pub const PG_STAT_IO: &str = "pg_stat_io";
