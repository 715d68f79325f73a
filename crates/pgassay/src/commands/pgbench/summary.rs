//! pgbench's summary, line by line, and after it what pgbench does not tell.

use std::fmt::Write as _;

use super::args::PgbenchArgs;
use pgassay_load::script::Program;
use pgassay_load::{CommandResult, Latency, Protocol, SliceResult};

/// What the summary needs besides the result.
pub struct Frame<'a> {
    /// What was typed.
    pub args: &'a PgbenchArgs,
    /// The scripts.
    pub program: &'a Program,
    /// The scale of the tables.
    pub scale: i64,
    /// Time until all clients were connected, in milliseconds.
    pub connect_ms: f64,
    /// Clients, threads and time as used.
    pub threads: usize,
}

fn ms(nanoseconds: f64) -> f64 {
    nanoseconds / 1e6
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        100.0 * part as f64 / whole as f64
    }
}

/// The whole summary.
pub fn summary(frame: &Frame<'_>, result: &SliceResult) -> String {
    let args = frame.args;
    let mut out = String::new();
    let scripts = frame.program.scripts();
    let failed: u64 = result.failures.values().sum();
    let kind = |code: &str| result.failures.get(code).copied().unwrap_or(0);
    // pgbench counts as failed what was tried and given up, not what made a client stop.
    let failed_transactions = if args.continue_on_error {
        failed - kind("connection") - kind("script")
    } else {
        kind("40001") + kind("40P01")
    };
    let total = result.transactions + result.skipped + failed_transactions;
    let title = match scripts {
        [one] => one.name.as_str(),
        _ => "multiple scripts",
    };
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(out, "pgbench (by pgassay {version})");
    let _ = writeln!(out, "transaction type: {title}");
    let _ = writeln!(out, "scaling factor: {}", frame.scale);
    let mode = match args.protocol {
        Protocol::Simple => "simple",
        Protocol::Extended => "extended",
        Protocol::Prepared => "prepared",
    };
    let _ = writeln!(out, "query mode: {mode}");
    let _ = writeln!(out, "number of clients: {}", args.clients);
    let _ = writeln!(out, "number of threads: {}", frame.threads);
    if args.max_tries > 0 {
        let _ = writeln!(out, "maximum number of tries: {}", args.max_tries);
    }
    match args.time {
        Some(seconds) => {
            let _ = writeln!(out, "duration: {seconds} s");
            let _ = writeln!(
                out,
                "number of transactions actually processed: {}",
                result.transactions
            );
        }
        None => {
            let each = args.transactions.unwrap_or(10);
            let _ = writeln!(out, "number of transactions per client: {each}");
            let _ = writeln!(
                out,
                "number of transactions actually processed: {}/{}",
                result.transactions,
                each * u64::from(args.clients)
            );
        }
    }
    let failures = |out: &mut String, indent: &str, failed: u64, total: u64| {
        let _ = writeln!(
            out,
            "{indent}number of failed transactions: {failed} ({:.3}%)",
            percent(failed, total)
        );
    };
    failures(&mut out, "", failed_transactions, total);
    if args.failures_detailed {
        for (name, code) in [("serialization", "40001"), ("deadlock", "40P01")] {
            let n = kind(code);
            let _ = writeln!(
                out,
                "number of {name} failures: {n} ({:.3}%)",
                percent(n, total)
            );
        }
    }
    if args.max_tries != 1 {
        let _ = writeln!(
            out,
            "number of transactions retried: {} ({:.3}%)",
            result.retried,
            percent(result.retried, total)
        );
        let _ = writeln!(out, "total number of retries: {}", result.retries);
    }
    let latency = all_latency(result);
    if total == 0 {
        // As pgbench has it: nothing below would mean anything.
        failures_by_code(&mut out, result);
        return out;
    }
    if let Some(limit) = args.latency_limit {
        if args.rate.is_some() {
            let _ = writeln!(
                out,
                "number of transactions skipped: {} ({:.3}%)",
                result.skipped,
                percent(result.skipped, total)
            );
        }
        let _ = writeln!(
            out,
            "number of transactions above the {limit:.1} ms latency limit: {}/{} ({:.3}%)",
            result.late,
            result.transactions,
            percent(result.late, result.transactions)
        );
    }
    // pgbench times transactions once they are connected, and unless it times them makes the average of the run's time.
    let timed = args.rate.is_some() || args.progress.is_some() || args.latency_limit.is_some();
    let average = match args.connect && !timed {
        true => result.window_ns as f64 * f64::from(args.clients) / total as f64,
        false => latency.mean(),
    };
    let _ = writeln!(out, "latency average = {:.3} ms", ms(average));
    let _ = writeln!(out, "latency stddev = {:.3} ms", ms(latency.deviation()));
    if args.rate.is_some() {
        let _ = writeln!(
            out,
            "rate limit schedule lag: avg {:.3} (max {:.3}) ms",
            ms(result.lag_sum_ns / result.transactions.max(1) as f64),
            ms(result.lag_max_ns as f64)
        );
    }
    if args.connect {
        let _ = writeln!(
            out,
            "average connection time = {:.3} ms",
            ms(result.connects.mean())
        );
        let _ = writeln!(
            out,
            "tps = {:.6} (including reconnection times)",
            result.throughput()
        );
    } else {
        let _ = writeln!(out, "initial connection time = {:.3} ms", frame.connect_ms);
        let _ = writeln!(
            out,
            "tps = {:.6} (without initial connection time)",
            result.throughput()
        );
    }
    beyond_pgbench(&mut out, result, &latency);
    if scripts.len() > 1 || args.per_command {
        by_script(&mut out, frame, result, total);
    }
    out
}

/// All latencies, those of each connection's first transaction among them, as pgbench has it.
fn all_latency(result: &SliceResult) -> Latency {
    let mut all = result.latency.clone();
    all.add(&result.first);
    all
}

/// The percentiles that are printed, of the whole and of each statement.
const PERCENTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

fn beyond_pgbench(out: &mut String, result: &SliceResult, latency: &Latency) {
    let _ = write!(out, "latency percentiles (ms):");
    for percentile in PERCENTILES {
        let _ = write!(
            out,
            " p{percentile} {:.3},",
            ms(latency.percentile(percentile) as f64)
        );
    }
    let _ = writeln!(out, " max {:.3}", ms(latency.longest() as f64));
    let cpu = (result.client_user_ns() + result.client_system_ns()) as f64;
    let done = result.transactions.max(1) as f64;
    let _ = writeln!(
        out,
        "client CPU = {:.1} us per transaction (user {:.1}), busiest thread {:.0}% of its time",
        cpu / done / 1e3,
        result.client_user_ns() as f64 / done / 1e3,
        100.0 * result.busiest_thread_share()
    );
    if result.behind > 0 {
        let _ = writeln!(
            out,
            "scheduled transactions not begun at the end: {}",
            result.behind
        );
    }
    failures_by_code(out, result);
}

fn failures_by_code(out: &mut String, result: &SliceResult) {
    for (code, count) in &result.failures {
        let example = result.failure_examples.get(code).map_or("", String::as_str);
        let _ = writeln!(out, "failures by {code}: {count} ({example})");
    }
}

fn by_script(out: &mut String, frame: &Frame<'_>, result: &SliceResult, total: u64) {
    let scripts = frame.program.scripts();
    let weights = frame.program.total_weight().max(1) as f64;
    let seconds = result.window_ns.max(1) as f64 / 1e9;
    for (number, (script, done)) in scripts.iter().zip(&result.scripts).enumerate() {
        if scripts.len() > 1 {
            let all = done.transactions + done.skipped + done.failures;
            let _ = writeln!(out, "SQL script {}: {}", number + 1, script.name);
            let _ = writeln!(
                out,
                " - weight: {} (targets {:.1}% of total)",
                script.weight,
                100.0 * f64::from(script.weight) / weights
            );
            let _ = writeln!(
                out,
                " - {} transactions ({:.1}% of total, tps = {:.6})",
                done.transactions,
                percent(done.transactions, total),
                done.transactions as f64 / seconds
            );
            let _ = writeln!(
                out,
                " - number of failed transactions: {} ({:.3}%)",
                done.failures,
                percent(done.failures, all)
            );
            if let Some(latency) = &done.latency {
                let _ = writeln!(out, " - latency average = {:.3} ms", ms(latency.mean()));
                let _ = writeln!(out, " - latency stddev = {:.3} ms", ms(latency.deviation()));
            }
        }
        if frame.args.per_command {
            let indent = if scripts.len() > 1 { " - " } else { "" };
            let retries = frame.args.max_tries != 1;
            let heading = if retries {
                "latencies in milliseconds, failures and retries"
            } else {
                "latencies in milliseconds and failures"
            };
            let _ = writeln!(out, "{indent}statement {heading}:");
            for (text, seen) in script.lines.iter().zip(&done.commands) {
                let mean = seen.latency.as_ref().map_or(0.0, Latency::mean);
                let _ = if retries {
                    writeln!(
                        out,
                        "   {:11.3}  {:10}  {:10}  {text}",
                        ms(mean),
                        seen.failures,
                        seen.retries
                    )
                } else {
                    writeln!(out, "   {:11.3}  {:10}  {text}", ms(mean), seen.failures)
                };
            }
            statement_percentiles(out, indent, &script.lines, &done.commands);
        }
    }
}

/// Percentiles of each statement that ran, after pgbench's own lines: scripts may read those by their columns.
fn statement_percentiles(
    out: &mut String,
    indent: &str,
    texts: &[String],
    commands: &[CommandResult],
) {
    let _ = write!(
        out,
        "{indent}statement latency percentiles in milliseconds:\n  "
    );
    for percentile in PERCENTILES {
        let _ = write!(out, "  {:>9}", format!("p{percentile}"));
    }
    let _ = writeln!(out, "  {:>9}", "max");
    for (text, seen) in texts.iter().zip(commands) {
        let Some(latency) = &seen.latency else {
            continue;
        };
        let _ = write!(out, "  ");
        for percentile in PERCENTILES {
            let _ = write!(out, "  {:9.3}", ms(latency.percentile(percentile) as f64));
        }
        let _ = writeln!(out, "  {:9.3}  {text}", ms(latency.longest() as f64));
    }
}
