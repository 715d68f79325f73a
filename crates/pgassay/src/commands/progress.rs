//! Progress on standard error: what is running, what is left, and when it will be done.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pgassay_analysis::Plan;
use pgassay_analysis::plan::Slice;
use pgassay_analysis::record::TrialRecord;

use crate::bench::Watcher;
use crate::terminal::Terminal;

/// A bar where somebody watches; nothing elsewhere.
pub struct Progress {
    bar: ProgressBar,
    started: Option<(Instant, usize)>,
    last_tps: Option<f64>,
    /// What was said, and since when the bar moves on it.
    said: RefCell<(String, Option<Instant>)>,
}

impl Progress {
    /// A bar of `length` steps with what is going on beside it.
    pub fn new(terminal: &Terminal, length: u64) -> Self {
        let target = if terminal.animates() {
            ProgressDrawTarget::stderr_with_hz(5)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(length), target);
        // The template is a constant; a mistake in it would show in the first test.
        if let Ok(style) = ProgressStyle::with_template("{bar:12} {wide_msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self {
            bar,
            started: None,
            last_tps: None,
            said: RefCell::default(),
        }
    }

    /// Says what is going on.
    pub fn say(&self, text: impl Into<String>) {
        let text = text.into();
        self.bar.set_message(text.clone());
        *self.said.borrow_mut() = (text, None);
        self.bar.tick();
    }

    /// Moves the bar to a share, 0 to 1, and says how much longer it will take at that pace.
    pub fn share(&self, share: f64) {
        let share = share.clamp(0.0, 1.0);
        let length = self.bar.length().unwrap_or(0);
        self.bar.set_position((share * length as f64) as u64);
        let (text, begin) = &mut *self.said.borrow_mut();
        let since = begin.get_or_insert_with(Instant::now).elapsed();
        if share > 0.02 && since > Duration::from_secs(1) {
            let left = since.as_secs_f64() * (1.0 - share) / share;
            let left = minutes(Duration::from_secs_f64(left));
            self.bar.set_message(format!("{text}, {left} left"));
        }
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Watcher for Progress {
    fn before(&mut self, plan: &Plan, slice: Slice, done: usize, all: usize) {
        let now = Instant::now();
        let (since, from) = *self.started.get_or_insert((now, done));
        let load = Duration::from_millis(plan.warmup_ms + plan.window_ms);
        // From what the slices of this run really took, once there are some.
        let each = match u32::try_from(done - from) {
            Ok(slices) if slices > 0 => (now - since) / slices,
            _ => load + Duration::from_millis(60),
        };
        let left = each * u32::try_from(all - done).unwrap_or(u32::MAX);
        let clients = plan
            .points
            .get(slice.point as usize)
            .map_or(0, |point| point.clients);
        let last = self
            .last_tps
            .map_or(String::new(), |tps| format!(", last {tps:.0} tps"));
        self.bar.set_length(all as u64);
        self.bar.set_position(done as u64);
        self.say(format!(
            "trial {} of {all}: {clients} clients{last}, {} left",
            done + 1,
            minutes(left)
        ));
    }

    fn after(&mut self, _plan: &Plan, trial: &TrialRecord) {
        self.last_tps = Some(trial.transactions as f64 / (trial.window_ns.max(1) as f64 / 1e9));
        self.bar.inc(1);
    }
}

/// `95 s` or `3 min 20 s`.
pub fn minutes(time: Duration) -> String {
    match time.as_secs() {
        s if s < 100 => format!("{s} s"),
        s => format!("{} min {} s", s / 60, s % 60),
    }
}
