//! What one load thread counts while it runs, and how the threads' counts come together.

use std::collections::BTreeMap;
use std::fs;
use std::sync::PoisonError;

use rustix::time::{ClockId, clock_gettime};

use super::latency::Latency;
use super::live::Handed;
use super::result::{Calls, CommandResult, Interval, Lost, ScriptResult, SliceResult, ThreadUse};

/// How many lost clients are listed by name.
const LOST_LISTED: usize = 100;

/// How a transaction ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub script: usize,
    pub intended: u64,
    pub started: u64,
    pub at: u64,
    pub retries: u32,
    /// The first on its connection.
    pub first: bool,
}

/// A thread's counts.
#[derive(Debug)]
pub(super) struct Tally {
    /// Whether the window is open: only then is counted.
    pub open: bool,
    /// Whether it has closed again.
    pub closed: bool,
    limit_ns: Option<u64>,
    window_start: u64,
    interval_ns: Option<u64>,
    interval: u64,
    interval_failures: u64,
    interval_latency: Latency,
    /// Transactions of the intervals that are over.
    counted: u64,
    /// So many intervals are kept as one.
    keep: u64,
    /// The one that is being added up, and its latencies.
    kept: Interval,
    kept_latency: Latency,
    pub result: SliceResult,
    /// Per script; histograms only where they are asked for.
    detailed: bool,
    usage_at_open: Usage,
    calls_at_open: Calls,
    thread: ThreadUse,
    /// Where intervals go as well when they are over.
    handed: Option<Handed>,
    /// Clients of their own, by script: those count by script only.
    pub own_clients: Vec<u32>,
}

impl Tally {
    pub fn new(
        scripts: &[usize],
        detailed: bool,
        scheduled: bool,
        limit_ns: Option<u64>,
        interval_ns: Option<u64>,
        keep: u32,
        handed: Option<Handed>,
    ) -> Self {
        let scripts_detailed = detailed || scripts.len() > 1;
        let scripts = scripts
            .iter()
            .map(|commands| ScriptResult {
                latency: scripts_detailed.then(Latency::new),
                commands: if detailed {
                    vec![CommandResult::default(); *commands]
                } else {
                    Vec::new()
                },
                ..ScriptResult::default()
            })
            .collect();
        Tally {
            open: false,
            closed: false,
            limit_ns,
            window_start: 0,
            interval_ns,
            interval: 0,
            interval_failures: 0,
            interval_latency: Latency::new(),
            counted: 0,
            keep: u64::from(keep.max(1)),
            kept: Interval::default(),
            kept_latency: Latency::new(),
            result: SliceResult {
                scripts,
                latency_from_actual: scheduled.then(Latency::new),
                ..SliceResult::default()
            },
            detailed,
            usage_at_open: Usage::default(),
            calls_at_open: Calls::default(),
            thread: ThreadUse::default(),
            handed,
            own_clients: Vec::new(),
        }
    }

    /// Opens the window.
    pub fn open(&mut self, start: u64, calls: Calls) {
        self.open = true;
        self.window_start = start;
        self.usage_at_open = Usage::of_this_thread();
        self.calls_at_open = calls;
    }

    /// Closes the window.
    pub fn close(&mut self, calls: Calls) {
        if self.open && !self.closed {
            let usage = Usage::of_this_thread();
            let (user_ns, system_ns) = usage.since(&self.usage_at_open);
            self.thread.user_ns = user_ns;
            self.thread.system_ns = system_ns;
            self.thread.calls = Calls {
                receive: calls.receive - self.calls_at_open.receive,
                send: calls.send - self.calls_at_open.send,
                wait: calls.wait - self.calls_at_open.wait,
                enter: calls.enter - self.calls_at_open.enter,
                gathered: calls.gathered - self.calls_at_open.gathered,
            };
            self.finish_interval();
            self.finish_kept();
        }
        self.open = false;
        self.closed = true;
    }

    /// The thread's result.
    pub fn into_result(mut self, clients: u32) -> SliceResult {
        self.thread.clients = clients;
        self.result.threads.push(self.thread);
        self.result
    }

    /// Counts a transaction that ended well.
    pub fn success(&mut self, ended: &Ended) {
        self.result.transactions_sent += 1;
        let latency = ended.at.saturating_sub(ended.intended);
        if self.has_own_clients(ended.script) {
            if self.open {
                self.success_of_own(ended, latency);
            }
            return;
        }
        if ended.first {
            self.result.first.record(latency);
        }
        if !self.open {
            return;
        }
        self.turn_interval(ended.at);
        self.result.transactions += 1;
        self.result.scripts[ended.script].transactions += 1;
        self.count_retries(ended);
        if self.result.latency_from_actual.is_some() {
            let lag = ended.started.saturating_sub(ended.intended);
            self.result.lag_sum_ns += lag as f64;
            self.result.lag_max_ns = self.result.lag_max_ns.max(lag);
        }
        if self.limit_ns.is_some_and(|limit| latency > limit) {
            self.result.late += 1;
        }
        if ended.first {
            return;
        }
        // By intervals it is recorded once and added up as they end.
        match self.interval_ns {
            None => self.result.latency.record(latency),
            Some(_) => self.interval_latency.record(latency),
        }
        if let Some(from_actual) = &mut self.result.latency_from_actual {
            from_actual.record(ended.at.saturating_sub(ended.started));
        }
        if let Some(script) = &mut self.result.scripts[ended.script].latency {
            script.record(latency);
        }
    }

    fn has_own_clients(&self, script: usize) -> bool {
        self.own_clients.get(script).is_some_and(|count| *count > 0)
    }

    fn success_of_own(&mut self, ended: &Ended, latency: u64) {
        let script = &mut self.result.scripts[ended.script];
        script.transactions += 1;
        if ended.retries > 0 {
            script.retries += u64::from(ended.retries);
            script.retried += 1;
        }
        if let Some(of_script) = script.latency.as_mut().filter(|_| !ended.first) {
            of_script.record(latency);
        }
    }

    /// Counts a transaction that failed.
    pub fn failure(&mut self, ended: &Ended, code: &str, example: impl FnOnce() -> String) {
        self.result.transactions_sent += 1;
        if !self.result.failure_examples.contains_key(code) {
            self.result
                .failure_examples
                .insert(code.to_owned(), example());
        }
        if !self.open {
            return;
        }
        if !self.has_own_clients(ended.script) {
            self.turn_interval(ended.at);
            self.interval_failures += 1;
        }
        self.result.scripts[ended.script].failures += 1;
        self.count_retries(ended);
        match self.result.failures.get_mut(code) {
            Some(count) => *count += 1,
            None => {
                self.result.failures.insert(code.to_owned(), 1);
            }
        }
    }

    fn count_retries(&mut self, ended: &Ended) {
        if ended.retries > 0 {
            let script = &mut self.result.scripts[ended.script];
            script.retries += u64::from(ended.retries);
            script.retried += 1;
            self.result.retries += u64::from(ended.retries);
            self.result.retried += 1;
        }
    }

    /// Counts a start that was left out.
    pub fn skip(&mut self, script: usize) {
        if self.open {
            self.result.skipped += 1;
            self.result.scripts[script].skipped += 1;
        }
    }

    /// Whether commands are measured one by one.
    pub fn per_command(&self) -> bool {
        self.detailed
    }

    /// Counts a command that ended well.
    pub fn command(&mut self, script: usize, command: usize, nanoseconds: u64) {
        if self.open
            && let Some(result) = self.result.scripts[script].commands.get_mut(command)
        {
            result.latency.get_or_insert_default().record(nanoseconds);
        }
    }

    /// Counts a command that failed.
    pub fn command_failure(&mut self, script: usize, command: usize, retried: bool) {
        if self.open
            && let Some(result) = self.result.scripts[script].commands.get_mut(command)
        {
            if retried {
                result.retries += 1;
            } else {
                result.failures += 1;
            }
        }
    }

    /// Notes a client that stopped before its time.
    pub fn lose(&mut self, client: u32, at_ns: u64, reason: String, in_script: bool) {
        self.result.lost_count += 1;
        if self.result.lost.len() < LOST_LISTED {
            self.result.lost.push(Lost {
                client,
                at_ns,
                reason,
                in_script,
            });
        }
    }

    fn turn_interval(&mut self, at: u64) {
        let Some(length) = self.interval_ns else {
            return;
        };
        let now = at.saturating_sub(self.window_start) / length;
        if now != self.interval {
            self.finish_interval();
            if now / self.keep != self.interval / self.keep {
                self.finish_kept();
            }
            self.interval = now;
        }
    }

    fn finish_interval(&mut self) {
        let Some(length) = self.interval_ns else {
            return;
        };
        let transactions = self.result.transactions - self.counted;
        self.counted = self.result.transactions;
        if transactions > 0 || self.interval_failures > 0 {
            if let Some(handed) = &self.handed {
                let mut waiting = handed.lock().unwrap_or_else(PoisonError::into_inner);
                waiting.push(Interval {
                    start_ns: self.interval * length,
                    transactions,
                    failures: self.interval_failures,
                    packed: self.interval_latency.pack(),
                });
            }
            self.kept.transactions += transactions;
            self.kept.failures += self.interval_failures;
            self.kept_latency.add(&self.interval_latency);
            self.interval_latency.clear();
            self.interval_failures = 0;
        }
    }

    fn finish_kept(&mut self) {
        let Some(length) = self.interval_ns else {
            return;
        };
        let mut kept = std::mem::take(&mut self.kept);
        if kept.transactions > 0 || kept.failures > 0 {
            kept.start_ns = self.interval / self.keep * self.keep * length;
            kept.packed = self.kept_latency.pack();
            self.result.intervals.push(kept);
            self.result.latency.add(&self.kept_latency);
            self.kept_latency.clear();
        }
    }
}

/// Brings the threads' results together. `kept_ns`, the length of those that are kept, and
/// `window_ns` say which intervals there are: one without a transaction is kept as well, for a stall is data.
pub(super) fn merge(parts: Vec<SliceResult>, window_ns: u64, kept_ns: Option<u64>) -> SliceResult {
    let mut parts = parts.into_iter();
    let mut sum = parts.next().unwrap_or_default();
    let mut intervals: BTreeMap<u64, Interval> = BTreeMap::new();
    // Unpacked when a second part has the same one, and packed when all are added.
    let mut latencies: BTreeMap<u64, Latency> = BTreeMap::new();
    let mut collect = |list: Vec<Interval>| {
        for interval in list {
            match intervals.get_mut(&interval.start_ns) {
                None => {
                    intervals.insert(interval.start_ns, interval);
                }
                Some(known) => {
                    known.transactions += interval.transactions;
                    known.failures += interval.failures;
                    let latency = latencies.entry(interval.start_ns);
                    let latency = latency.or_insert_with(|| known.latency());
                    latency.add_packed(&interval.packed);
                }
            }
        }
    };
    collect(std::mem::take(&mut sum.intervals));
    for part in parts {
        collect(part.intervals);
        sum.transactions += part.transactions;
        sum.transactions_sent += part.transactions_sent;
        for (code, count) in part.failures {
            *sum.failures.entry(code).or_default() += count;
        }
        for (code, example) in part.failure_examples {
            sum.failure_examples.entry(code).or_insert(example);
        }
        sum.lag_sum_ns += part.lag_sum_ns;
        sum.lag_max_ns = sum.lag_max_ns.max(part.lag_max_ns);
        sum.retries += part.retries;
        sum.retried += part.retried;
        sum.skipped += part.skipped;
        sum.late += part.late;
        sum.latency.add(&part.latency);
        if let (Some(all), Some(more)) = (&mut sum.latency_from_actual, &part.latency_from_actual) {
            all.add(more);
        }
        sum.first.add(&part.first);
        sum.connects.add(&part.connects);
        for (all, more) in sum.scripts.iter_mut().zip(part.scripts) {
            merge_script(all, more);
        }
        sum.threads.extend(part.threads);
        sum.behind += part.behind;
        sum.unfinished += part.unfinished;
        sum.lost.extend(part.lost);
        sum.lost_count += part.lost_count;
    }
    for (start, latency) in latencies {
        if let Some(interval) = intervals.get_mut(&start) {
            interval.packed = latency.pack();
        }
    }
    sum.lost.sort_by_key(|lost| lost.at_ns);
    sum.lost.truncate(LOST_LISTED);
    sum.window_ns = window_ns;
    if let Some(length) = kept_ns {
        for start in (0..window_ns.div_ceil(length)).map(|n| n * length) {
            intervals.entry(start).or_insert_with(|| Interval {
                start_ns: start,
                ..Interval::default()
            });
        }
    }
    sum.intervals = intervals.into_values().collect();
    sum
}

fn merge_script(all: &mut ScriptResult, more: ScriptResult) {
    all.transactions += more.transactions;
    all.failures += more.failures;
    all.retries += more.retries;
    all.retried += more.retried;
    all.skipped += more.skipped;
    add_latency(&mut all.latency, more.latency);
    for (all, more) in all.commands.iter_mut().zip(more.commands) {
        all.failures += more.failures;
        all.retries += more.retries;
        add_latency(&mut all.latency, more.latency);
    }
}

fn add_latency(all: &mut Option<Latency>, more: Option<Latency>) {
    match (all, more) {
        (Some(all), Some(more)) => all.add(&more),
        (all @ None, more) => *all = more,
        _ => {}
    }
}

/// CPU time of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    /// Exact, from the scheduler.
    total_ns: u64,
    /// By the kernel's accounting, in clock ticks; only their ratio is used.
    user_ticks: u64,
    system_ticks: u64,
}

impl Usage {
    fn of_this_thread() -> Self {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let total_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        // Fields 14 and 15 of /proc/thread-self/stat (proc(5)), counted after the command's name,
        // which may hold anything.
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let mut fields = after_name.split_ascii_whitespace().skip(11);
        let mut tick = || fields.next().and_then(|f| f.parse().ok()).unwrap_or(0);
        Usage {
            total_ns,
            user_ticks: tick(),
            system_ticks: tick(),
        }
    }

    /// User and system time since an earlier reading: the exact sum, split in the ratio of the ticks
    /// since the thread began, as they are too coarse for a short window.
    fn since(&self, earlier: &Usage) -> (u64, u64) {
        let total = self.total_ns.saturating_sub(earlier.total_ns);
        let window = (
            self.user_ticks.saturating_sub(earlier.user_ticks),
            self.system_ticks.saturating_sub(earlier.system_ticks),
        );
        let (user, system) = if window.0 + window.1 >= 50 {
            window
        } else {
            (self.user_ticks, self.system_ticks)
        };
        if user + system == 0 {
            return (0, total);
        }
        let user_ns = (total as f64 * user as f64 / (user + system) as f64) as u64;
        (user_ns, total - user_ns)
    }
}
