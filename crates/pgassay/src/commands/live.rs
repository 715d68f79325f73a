//! What can be seen of a load while it runs: throughput, latency and failures of the last second, in
//! a line that fits the terminal.

use std::collections::VecDeque;

use pgassay_load::Passed;

/// How much of a window one figure stands for, in nanoseconds: a second, less what is under way.
const SECOND: u64 = 900_000_000;
/// The shortest end of a window that is worth a figure.
const LEAST: u64 = 300_000_000;
/// Seconds that the trend shows.
const TREND: usize = 24;
/// Heights of the trend's columns.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The figures of a piece of the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Transactions a second.
    pub tps: f64,
    /// Mean and 99th percentile of the latency in milliseconds, where a transaction ended.
    pub latency_ms: Option<(f64, f64)>,
    /// Failed transactions.
    pub failed: u64,
}

impl Figures {
    fn of(passed: &Passed) -> Self {
        let ms = |nanoseconds: f64| nanoseconds / 1e6;
        let latency = &passed.latency;
        Self {
            tps: passed.transactions as f64 / (passed.covered_ns.max(1) as f64 / 1e9),
            latency_ms: (latency.count() > 0)
                .then(|| (ms(latency.mean()), ms(latency.percentile(99.0) as f64))),
            failed: passed.failures,
        }
    }
}

/// What was seen of the load so far.
#[derive(Debug, Default)]
pub struct Live {
    gathered: Passed,
    now: Option<Figures>,
    trend: VecDeque<f64>,
    failed: u64,
    unit: Unit,
}

/// What a load is counted in.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Unit(&'static str);

/// Transactions over the wire, each of which has a latency, and of which each part of a window is told.
const TRANSACTIONS: Unit = Unit("tps");

impl Default for Unit {
    fn default() -> Self {
        TRANSACTIONS
    }
}

impl Live {
    /// What the load is counted in from here on.
    pub fn count_in(&mut self, unit: &'static str) {
        if self.unit != Unit(unit) {
            self.unit = Unit(unit);
            self.now = None;
            self.trend.clear();
        }
    }

    /// A further part of the load is over.
    pub fn add(&mut self, passed: &Passed) {
        self.gathered.add(passed);
        self.failed += passed.failures;
        if self.gathered.covered_ns >= SECOND {
            self.show();
        }
    }

    /// The window is over: what is left of it is shown as it is, and not mixed with the next.
    pub fn end_window(&mut self) {
        // Of other loads a trial is told as a whole.
        let least = if self.unit == TRANSACTIONS { LEAST } else { 1 };
        if self.gathered.covered_ns >= least {
            self.show();
        }
        self.gathered = Passed::default();
    }

    fn show(&mut self) {
        let figures = Figures::of(&self.gathered);
        self.gathered = Passed::default();
        self.now = Some(figures);
        if self.trend.len() == TREND {
            self.trend.pop_front();
        }
        self.trend.push_back(figures.tps);
    }

    /// The last second in at most `width` columns; `None` before there is one.
    pub fn line(&self, width: usize) -> Option<String> {
        let Figures { tps, failed, .. } = self.now?;
        if self.unit != TRANSACTIONS {
            let said = format!("{} {}", rate(tps), self.unit.0);
            let whole = format!("{said}  {}", self.columns());
            let form = [whole, said]
                .into_iter()
                .find(|f| f.chars().count() <= width);
            return form.or_else(|| Some(String::new()));
        }
        let (mean, p99) = self
            .now
            .and_then(|figures| figures.latency_ms)
            .map_or(("-".to_owned(), "-".to_owned()), |(mean, p99)| {
                (short(mean), short(p99))
            });
        let all = match self.failed {
            0 => String::new(),
            n => format!(" ({n} in all)"),
        };
        let said = format!("{tps:.0} tps, latency {mean} ms, p99 {p99} ms, {failed} failed{all}");
        let forms = [
            format!("{said}  {}", self.columns()),
            said,
            format!("{tps:.0} tps {mean} ms p99 {p99} ms {failed} failed"),
            format!("{tps:.0} tps p99 {p99} ms {failed} failed"),
        ];
        let fits = |form: &&String| form.chars().count() <= width;
        let cut = |form: &String| form.chars().take(width).collect();
        Some(
            forms
                .iter()
                .find(fits)
                .cloned()
                .unwrap_or_else(|| cut(&forms[3])),
        )
    }

    /// The throughput of the last seconds, the highest column being the best of them.
    fn columns(&self) -> String {
        let most = self.trend.iter().copied().fold(0.0, f64::max);
        let height = |tps: &f64| match most > 0.0 {
            true => ((tps / most * 8.0).ceil() as usize).clamp(1, 8) - 1,
            false => 0,
        };
        self.trend.iter().map(|tps| HEIGHTS[height(tps)]).collect()
    }
}

/// The figures since the last line, for a pipe.
#[derive(Debug, Default)]
pub struct Since(Passed, Unit);

impl Since {
    /// What the load is counted in from here on.
    pub fn count_in(&mut self, unit: &'static str) {
        self.1 = Unit(unit);
    }

    /// A further part of the load is over.
    pub fn add(&mut self, passed: &Passed) {
        self.0.add(passed);
    }

    /// The figures in words, beginning anew; `None` where nothing was measured since.
    pub fn take(&mut self) -> Option<String> {
        if self.0.covered_ns == 0 {
            return None;
        }
        let Figures {
            tps,
            latency_ms,
            failed,
        } = Figures::of(&std::mem::take(&mut self.0));
        if self.1 != TRANSACTIONS {
            return Some(format!("{} {}", rate(tps), self.1.0));
        }
        let latency = latency_ms.map_or(String::new(), |(mean, p99)| {
            format!("lat {mean:.3} ms, p99 {p99:.3} ms, ")
        });
        Some(format!("{tps:.1} tps, {latency}{failed} failed"))
    }
}

/// A rate of any size: one execution a minute, or millions of operations a second.
fn rate(per_second: f64) -> String {
    match per_second {
        n if n < 100.0 => format!("{n:.2}"),
        n => format!("{n:.0}"),
    }
}

/// Three digits, as far as there are so many.
fn short(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.2}"),
        ms if ms < 100.0 => format!("{ms:.1}"),
        ms => format!("{ms:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_load::Latency;

    fn passed(seconds: f64, transactions: u64, latency_us: u64, failures: u64) -> Passed {
        let mut latency = Latency::new();
        for n in 0..transactions {
            // One in fifty takes ten times as long.
            latency.record(latency_us * 1000 * if n % 50 == 0 { 10 } else { 1 });
        }
        Passed {
            covered_ns: (seconds * 1e9) as u64,
            transactions,
            failures,
            latency,
        }
    }

    #[test]
    fn a_figure_stands_for_a_second_of_one_window() {
        let mut live = Live::default();
        live.add(&passed(0.5, 1000, 400, 1));
        assert_eq!(live.line(80), None);
        live.add(&passed(0.5, 3000, 400, 2));
        let line = live.line(80).unwrap();
        assert!(
            line.starts_with("4000 tps, latency 0.47 ms, p99 4.00 ms, 3 failed (3 in all)"),
            "{line}"
        );
        // What is left at the end of a window is not mixed with the next one.
        live.add(&passed(0.5, 1000, 400, 0));
        live.end_window();
        let line = live.line(80).unwrap();
        assert!(line.starts_with("2000 tps"), "{line}");
        live.add(&passed(0.2, 1000, 400, 0));
        live.end_window();
        assert_eq!(live.line(80).unwrap(), line);
        // A stall is told as such, and the failures of before are not forgotten.
        live.add(&passed(1.0, 0, 0, 0));
        let line = live.line(120).unwrap();
        assert_eq!(
            line,
            "0 tps, latency - ms, p99 - ms, 0 failed (3 in all)  █▄▁"
        );
    }

    #[test]
    fn the_line_fits_whatever_the_width() {
        let mut live = Live::default();
        for n in 1..=40 {
            live.add(&passed(1.0, n * 500, 400, n));
        }
        for width in 1..=120 {
            let line = live.line(width).unwrap();
            assert!(line.chars().count() <= width, "{width}: {line}");
            if width >= 40 {
                for part in ["20000 tps", "p99 4.00 ms", "40 failed"] {
                    assert!(line.contains(part), "{width}: {line}");
                }
            }
        }
        let wide = live.line(120).unwrap();
        assert_eq!(wide.chars().filter(|c| HEIGHTS.contains(c)).count(), TREND);
    }

    #[test]
    fn a_pipe_gets_what_happened_since_its_last_line() {
        let mut since = Since::default();
        assert_eq!(since.take(), None);
        since.add(&passed(2.0, 500, 1000, 0));
        since.add(&passed(3.0, 500, 1000, 4));
        let line = since.take().unwrap();
        assert!(line.starts_with("200.0 tps, lat 1.18"), "{line}");
        assert!(
            line.contains(", p99 10.0") && line.ends_with(", 4 failed"),
            "{line}"
        );
        assert_eq!(since.take(), None);
        since.add(&passed(1.0, 0, 0, 0));
        assert_eq!(since.take().unwrap(), "0.0 tps, 0 failed");
    }

    #[test]
    fn a_load_without_latencies_is_told_trial_by_trial_in_its_own_unit() {
        let mut live = Live::default();
        live.count_in("ops/s");
        for operations in [1_000_000, 2_000_000] {
            live.add(&Passed {
                covered_ns: 250_000_000,
                transactions: operations,
                ..Passed::default()
            });
            live.end_window();
        }
        assert_eq!(live.line(80).unwrap(), "8000000 ops/s  ▄█");
        assert_eq!(live.line(5).unwrap(), "");
        let mut since = Since::default();
        since.count_in("queries/s");
        since.add(&Passed {
            covered_ns: 4_000_000_000,
            transactions: 1,
            ..Passed::default()
        });
        assert_eq!(since.take().unwrap(), "0.25 queries/s");
    }
}
