//! The names under which samplers' readings are recorded, and what each is a text of.

/// Sampler: a line `PID run_ns wait_ns timeslices` for every process of the server,
/// from /proc/PID/schedstat (Linux, Documentation/scheduler/sched-stats.rst).
pub const SERVER_SCHEDSTAT: &str = "server.schedstat";
/// Sampler: the first line of /proc/stat, in ticks (proc_stat(5)).
pub const HOST_STAT: &str = "host.stat";
/// Sampler: /proc/pressure/cpu (Linux, Documentation/accounting/psi.rst).
pub const HOST_PRESSURE_CPU: &str = "host.pressure_cpu";
/// Sampler: a line `PID voluntary nonvoluntary` of context switches for every process of the
/// server, from /proc/PID/status (proc_pid_status(5)).
pub const SERVER_SWITCHES: &str = "server.switches";
/// Sampler: a line `ROLE<tab>PID PID …` for every kind of process of the server, by
/// pg_stat_activity; sessions of pgassay's own go by their application name.
pub const SERVER_ROLES: &str = "server.roles";
/// Sampler: the CPU time in ticks that all children of the server's first process had used when
/// they ended, user and system together (proc_pid_stat(5): cutime, cstime).
pub const SERVER_ENDED: &str = "server.ended";
/// Sampler: events that processor and kernel counted of the server's processes and their children,
/// as perf_event_open(2) gives them; `pgassay_readings::pmu` has the form.
pub const SERVER_EVENTS: &str = "server.events";
/// Sampler: /proc/pressure/io.
pub const HOST_PRESSURE_IO: &str = "host.pressure_io";
/// Sampler: /proc/pressure/memory.
pub const HOST_PRESSURE_MEMORY: &str = "host.pressure_memory";
/// Sampler: lines of /proc/vmstat, those of [`VMSTAT_NAMES`].
pub const HOST_VMSTAT: &str = "host.vmstat";
/// The counters of /proc/vmstat that are kept (proc_vmstat(5)).
pub const VMSTAT_NAMES: &[&str] = &[
    "pgfault",
    "pgmajfault",
    "pgpgin",
    "pgpgout",
    "pswpin",
    "pswpout",
    "pgscan_direct",
    "pgsteal_direct",
    "pgscan_kswapd",
    "numa_pages_migrated",
    "thp_fault_alloc",
    "thp_split_page",
    "nr_dirty",
    "nr_writeback",
    "compact_stall",
];
/// Sampler: a line `PID kB` for every process of the server, VmPTE of
/// /proc/PID/status: the memory of its page tables (proc_pid_status(5)).
pub const SERVER_PAGE_TABLES: &str = "server.page_tables";
/// Sampler: cpu.stat of the server's control group and of those above it, each after a line
/// `= PATH` (Linux, admin-guide/cgroup-v2.rst; version 1: scheduler/sched-bwc.rst).
pub const CGROUP_CPU: &str = "cgroup.cpu";
/// Sampler: of the server's control group and of those above it, each after a line `= PATH`, how much memory it may
/// use (`limit`), how often that was reached (`reached`), and what memory.stat says of pages of files
/// (Linux, admin-guide/cgroup-v2.rst; version 1: cgroup-v1/memory.rst).
pub const CGROUP_MEMORY: &str = "cgroup.memory";
/// Sampler: the row of `pg_stat_database` as JSON, and in it as `pgassay` the sessions, commits and rollbacks of our own
/// observers, by the names of the columns that count them, too.
pub const PG_STAT_DATABASE: &str = "pg_stat_database";
/// Sampler: the row of `pg_stat_checkpointer` as JSON, before 17 that of `pg_stat_bgwriter`.
pub const PG_STAT_CHECKPOINTER: &str = "pg_stat_checkpointer";
/// Sampler: the row of `pg_stat_wal` (from 14 on) as JSON, and in it as `lsn` the bytes of log
/// that were ever inserted.
pub const PG_STAT_WAL: &str = "pg_stat_wal";
/// Sampler: the bytes that the server has written into its log of messages, a number.
pub const SERVER_LOG: &str = "server.log";
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

/// A role in texts of [`SERVER_ROLES`]: our own session that reads counters, as against those of ours
/// that carry load.
pub const OBSERVER: &str = "pgassay observer";
