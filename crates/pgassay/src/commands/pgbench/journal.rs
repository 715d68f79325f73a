//! pgbench's transaction log: one line a transaction, or one a time interval.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pgassay_load::script::Random;
use pgassay_load::{Entry, Journal, Journals, Outcome};

use super::args::PgbenchArgs;

/// What the lines hold besides the transaction.
#[derive(Clone, Copy, Debug)]
struct Format {
    lag: bool,
    retries: bool,
    detailed: bool,
    /// Whether transactions count as failed whose client goes on after any error of SQL.
    any_failure: bool,
    sampling: Option<f64>,
    interval: Option<u64>,
}

/// The first error of any log file, for the run to end with.
pub type LogFailure = Arc<Mutex<Option<String>>>;

/// The journals for a run: a file for each load thread.
pub fn journals(
    args: &PgbenchArgs,
    seed: u64,
    failure: LogFailure,
    stop: Arc<AtomicBool>,
) -> Journals {
    let format = Format {
        lag: args.rate.is_some(),
        retries: args.max_tries != 1,
        detailed: args.failures_detailed,
        any_failure: args.continue_on_error,
        sampling: args.sampling_rate,
        interval: args.aggregate_interval,
    };
    let prefix = args
        .log_prefix
        .clone()
        .unwrap_or_else(|| "pgbench_log".to_owned());
    Arc::new(move |thread: usize| {
        let pid = std::process::id();
        let path = PathBuf::from(match thread {
            0 => format!("{prefix}.{pid}"),
            n => format!("{prefix}.{pid}.{n}"),
        });
        let file = File::create(&path).map(BufWriter::new);
        let mut log = Log {
            file: None,
            path,
            format,
            random: Random::new(seed ^ (thread as u64 + 1)),
            epoch: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
            sum: Sum::default(),
            failure: failure.clone(),
            stop: stop.clone(),
        };
        match file {
            Ok(file) => log.file = Some(file),
            Err(error) => log.fail(&error),
        }
        Box::new(log)
    })
}

struct Log {
    file: Option<BufWriter<File>>,
    path: PathBuf,
    format: Format,
    random: Random,
    /// Wall clock at the slice's start.
    epoch: Duration,
    sum: Sum,
    failure: LogFailure,
    stop: Arc<AtomicBool>,
}

/// One interval of an aggregated log; times in microseconds.
#[derive(Default)]
struct Sum {
    second: u64,
    count: u64,
    latency: Moments,
    lag: Moments,
    skipped: u64,
    retried: u64,
    retries: u64,
    failures: u64,
    serialization: u64,
    deadlock: u64,
}

#[derive(Default)]
struct Moments {
    any: bool,
    sum: f64,
    squares: f64,
    min: f64,
    max: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.min = if self.any { self.min.min(value) } else { value };
        self.max = if self.any { self.max.max(value) } else { value };
        self.any = true;
        self.sum += value;
        self.squares += value * value;
    }

    fn text(&self) -> String {
        format!(
            "{:.0} {:.0} {:.0} {:.0}",
            self.sum, self.squares, self.min, self.max
        )
    }
}

impl Log {
    fn fail(&mut self, error: &std::io::Error) {
        self.file = None;
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert_with(|| {
            format!(
                "could not write log file \"{}\": {error}",
                self.path.display()
            )
        });
        // A run whose log is lost is not worth going on with.
        self.stop.store(true, Ordering::Relaxed);
    }

    fn line(&mut self, text: &str) {
        if let Some(file) = &mut self.file
            && let Err(error) = writeln!(file, "{text}")
        {
            self.fail(&error);
        }
    }

    fn flush_sum(&mut self) {
        let sum = std::mem::take(&mut self.sum);
        // Since release 15 the fields are the same whatever the options.
        let mut text = format!(
            "{} {} {} {} {} {} {} {} {}",
            sum.second,
            sum.count,
            sum.latency.text(),
            sum.lag.text(),
            sum.skipped,
            sum.retried,
            sum.retries,
            sum.serialization,
            sum.deadlock
        );
        if self.format.any_failure {
            let others = sum.failures - sum.serialization - sum.deadlock;
            text += &format!(" {others}");
        }
        self.line(&text);
    }

    fn add(&mut self, entry: &Entry<'_>, at: Duration, length: u64) {
        let begin = self.epoch.as_secs();
        let second = begin + (at.as_secs().saturating_sub(begin)) / length * length;
        if self.sum.second == 0 {
            self.sum.second = second;
        }
        while self.sum.second < second {
            let next = self.sum.second + length;
            self.flush_sum();
            self.sum.second = next;
        }
        match entry.outcome {
            Outcome::Skipped => self.sum.skipped += 1,
            Outcome::Done => {
                self.sum.count += 1;
                self.sum.latency.add(micros(entry.latency_ns));
                self.sum.lag.add(micros(entry.lag_ns));
            }
            Outcome::Failed(code) => {
                self.sum.failures += 1;
                self.sum.serialization += u64::from(code == "40001");
                self.sum.deadlock += u64::from(code == "40P01");
            }
        }
        self.sum.retries += u64::from(entry.retries);
        self.sum.retried += u64::from(entry.retries > 0);
    }
}

fn micros(nanoseconds: u64) -> f64 {
    (nanoseconds / 1000) as f64
}

impl Journal for Log {
    fn ended(&mut self, entry: &Entry<'_>) {
        if let Outcome::Failed(code) = entry.outcome {
            // What makes a client stop is no failed transaction to pgbench.
            let stops = match code {
                "40001" | "40P01" => false,
                "connection" | "script" => true,
                _ => !self.format.any_failure,
            };
            if stops {
                return;
            }
        }
        let at = self.epoch + Duration::from_nanos(entry.at_ns);
        if let Some(length) = self.format.interval {
            self.add(entry, at, length);
            return;
        }
        if self
            .format
            .sampling
            .is_some_and(|rate| self.random.unit() > rate)
        {
            return;
        }
        let result = match entry.outcome {
            Outcome::Done => format!("{:.0}", micros(entry.latency_ns)),
            Outcome::Skipped => "skipped".to_owned(),
            Outcome::Failed("40001") if self.format.detailed => "serialization".to_owned(),
            Outcome::Failed("40P01") if self.format.detailed => "deadlock".to_owned(),
            Outcome::Failed(_) => "failed".to_owned(),
        };
        let mut text = format!(
            "{} {} {result} {} {} {:06}",
            entry.client,
            entry.number + 1,
            entry.script,
            at.as_secs(),
            at.subsec_micros()
        );
        if self.format.lag {
            text += &format!(" {:.0}", micros(entry.lag_ns));
        }
        if self.format.retries {
            text += &format!(" {}", entry.retries);
        }
        self.line(&text);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if self.format.interval.is_some() && self.sum.second != 0 {
            self.flush_sum();
        }
        if let Some(mut file) = self.file.take()
            && let Err(error) = file.flush()
        {
            self.fail(&error);
        }
    }
}
