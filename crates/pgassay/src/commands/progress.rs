//! Progress on standard error: what is running, how it goes, what is left.
//!
//! On a terminal two lines are written over in place; into a pipe `run` writes a line now and then,
//! as pgbench's -P has it, and other commands do where they are to be verbose.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pgassay_engine::runner::{Upcoming, Watcher};
use pgassay_load::Passed;
use pgassay_model::trial::Trial;

use super::live::{Live, Since};
use crate::terminal::{self, Aside, Terminal};

/// How often the figures on a terminal change.
const EACH: Duration = Duration::from_secs(1);
/// How often a pipe gets a line.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// What a slice takes beside its load.
const BETWEEN: Duration = Duration::from_millis(60);
/// Columns below which there is no room for a bar.
const ROOM_FOR_BAR: usize = 60;

/// A bar where somebody watches, lines where they are asked for, nothing where it should be quiet.
pub struct Progress {
    bar: ProgressBar,
    /// The error side, unless it should be quiet.
    aside: Option<Aside>,
    /// Lines, where nothing can be written over.
    lines: Option<Lines>,
    animates: bool,
    live: Live,
    started: Option<(Instant, usize)>,
    /// What runs and when all will be done.
    trial: Option<(String, Option<Instant>)>,
    /// Since when the run is paused.
    held: Option<Instant>,
    /// What was said, and since when the bar moves on it.
    said: RefCell<(String, Option<Instant>)>,
}

/// What goes into a pipe.
struct Lines {
    aside: Aside,
    since: Since,
    last: Instant,
}

impl Progress {
    /// A bar of `length` steps with what is going on beside it.
    pub fn new(terminal: &Terminal, length: u64) -> Self {
        let animates = terminal.animates();
        let target = if animates {
            ProgressDrawTarget::stderr_with_hz(5)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(length), target);
        let progress = Self {
            bar,
            aside: terminal.aside(),
            lines: None,
            animates,
            live: Live::default(),
            started: None,
            trial: None,
            held: None,
            said: RefCell::default(),
        };
        progress.lay_out(false);
        match terminal.shows_progress() {
            true => progress.in_lines(terminal),
            false => progress,
        }
    }

    /// With lines of a load's figures where nothing can be written over.
    pub fn in_lines(mut self, terminal: &Terminal) -> Self {
        let aside = terminal.aside().filter(|_| !self.animates);
        self.lines = aside.map(|aside| Lines {
            aside,
            since: Since::default(),
            last: Instant::now(),
        });
        self
    }

    /// One line, or two with the figures of a load.
    fn lay_out(&self, figures: bool) {
        let bar = match terminal::error_width() {
            width if width < ROOM_FOR_BAR => "{wide_msg}",
            _ => "{bar:12} {wide_msg}",
        };
        let template = match figures {
            true => format!("{bar}\n{{prefix}}"),
            false => bar.to_owned(),
        };
        // The templates are constants; a mistake in them would show in the first test.
        if let Ok(style) = ProgressStyle::with_template(&template) {
            self.bar.set_style(style.progress_chars("=> "));
        }
    }

    /// Says what is going on.
    pub fn say(&self, text: impl Into<String>) {
        let text = pgassay_text::percent(&pgassay_text::line(&text.into()));
        self.bar.set_message(text.clone());
        *self.said.borrow_mut() = (text, None);
        self.bar.tick();
    }

    /// Says what is going on as the next part of a work of which a share, 0 to 1, is done: how much
    /// longer it will take is told from all parts.
    pub fn step(&self, share: f64, text: impl Into<String>) {
        let since = self.said.borrow().1;
        self.say(text);
        self.said.borrow_mut().1 = since;
        self.share(share);
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

    fn trial_in_words(&self) -> String {
        match &self.trial {
            Some((name, Some(until))) => format!("{name}, {} left", left(*until)),
            Some((name, None)) => name.clone(),
            None => String::new(),
        }
    }

    /// Returns what writes a line above the bar, unless `--quiet`, while a load has this progress.
    pub fn announcer(&self) -> impl Fn(&str) + use<> {
        let (bar, aside) = (self.bar.clone(), self.aside.clone());
        move |text| {
            if let Some(aside) = &aside {
                bar.suspend(|| aside.line(text));
            }
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
    fn before(&mut self, upcoming: Upcoming) {
        let Upcoming { done, all, .. } = upcoming;
        let now = Instant::now();
        // A schedule that begins anew, such as that of a further stage, has its own pace.
        let (since, from) = match self.started {
            Some((since, from)) if from <= done => (since, from),
            _ => *self.started.insert((now, done)),
        };
        // From what the slices of this run really took, once there are some.
        let each = match u32::try_from(done - from) {
            Ok(slices) if slices > 0 => Some((now - since) / slices),
            _ => upcoming.takes.map(|takes| takes + BETWEEN),
        };
        let left = u32::try_from(all - done).unwrap_or(u32::MAX);
        self.bar.set_length(all as u64);
        self.bar.set_position(done as u64);
        let name = format!("trial {} of {all}, {}", done + 1, upcoming.name);
        self.trial = Some((name, each.map(|each| now + each * left)));
        self.live.count_in(upcoming.unit);
        if let Some(lines) = &mut self.lines {
            lines.since.count_in(upcoming.unit);
        }
        self.say(self.trial_in_words());
    }

    fn every(&self) -> Option<Duration> {
        (self.animates || self.lines.is_some()).then_some(EACH)
    }

    fn during(&mut self, passed: &Passed) {
        if let Some(lines) = &mut self.lines {
            lines.since.add(passed);
            if lines.last.elapsed() >= LINE_EVERY
                && let Some(figures) = lines.since.take()
            {
                lines.last = Instant::now();
                let text = match &self.trial {
                    Some((name, Some(until))) => {
                        format!("progress: {name}: {figures}, {} left", left(*until))
                    }
                    Some((name, None)) => format!("progress: {name}: {figures}"),
                    None => format!("progress: {figures}"),
                };
                lines.aside.line(&text);
            }
        }
        if self.animates {
            self.live.add(passed);
            if let Some(line) = self.live.line(terminal::error_width()) {
                self.lay_out(true);
                self.bar.set_prefix(line);
                self.say(self.trial_in_words());
            }
        }
    }

    fn held(&mut self, at_most: Option<Duration>) {
        let Some(at_most) = at_most else {
            if let (Some(since), Some((started, _))) = (self.held.take(), &mut self.started) {
                *started += since.elapsed();
            }
            return;
        };
        self.held.get_or_insert_with(Instant::now);
        let text = format!(
            "paused for {} at most; `pgassay runs unpause` goes on, Ctrl-C ends it",
            minutes(at_most)
        );
        if let Some(lines) = &self.lines {
            lines.aside.line(&format!("progress: {text}"));
        }
        self.say(text);
    }

    fn after(&mut self, _: &Trial) {
        self.live.end_window();
        self.bar.inc(1);
    }
}

/// The time until then.
fn left(until: Instant) -> String {
    minutes(until.saturating_duration_since(Instant::now()))
}

/// `95 s`, `3 min 20 s`, `5 h 20 min` or `9 days`.
pub fn minutes(time: Duration) -> String {
    match time.as_secs() {
        s if s < 100 => format!("{s} s"),
        s if s < 2 * 3600 => format!("{} min {} s", s / 60, s % 60),
        s if s < 48 * 3600 => format!("{} h {} min", s / 3600, s / 60 % 60),
        s => format!("{} days", s.div_ceil(24 * 3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_units_of_its_size() {
        for (seconds, told) in [
            (95, "95 s"),
            (200, "3 min 20 s"),
            (19_200, "5 h 20 min"),
            (775_000, "9 days"),
        ] {
            assert_eq!(minutes(Duration::from_secs(seconds)), told);
        }
    }
}
