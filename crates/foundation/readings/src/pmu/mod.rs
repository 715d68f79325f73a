//! Events that processor and kernel counted of the server's processes.
//!
//! A reading of [`pgassay_model::samplers::SERVER_EVENTS`] has a line `= NAME TYPE:CONFIG MODE SCALE` for each
//! event, after it a line `PID count enabled_ns running_ns` for each process that it is counted of with its
//! children, as perf_event_open(2) gives them; `! NAME WHY` for each that can't be had; and `~ slots N`.

pub mod events;
pub mod unit;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pgassay_model::reading::Sample;

/// What was counted over a window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// By name, `GROUP/NAME`.
    pub events: BTreeMap<String, Counted>,
    /// What could not be counted, and why.
    pub absent: Vec<(String, String)>,
    /// Slots that the processor can fill in a cycle, where it says so.
    pub slots: Option<f64>,
}

/// An event over a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counted {
    /// How often it happened: what was counted, by the share of time in which it was.
    pub count: f64,
    /// The share of the processes' time in which it was counted; the rest went to other events.
    pub share: f64,
    /// Whether the kernel's part is in it.
    pub kernel: bool,
}

impl Counts {
    /// How often an event happened.
    pub fn count(&self, name: &str) -> Option<f64> {
        self.events.get(name).map(|event| event.count)
    }

    /// How often one happened for each of another.
    pub fn ratio(&self, of: &str, to: &str) -> Option<f64> {
        let below = self.count(to).filter(|below| *below > 0.0)?;
        Some(self.count(of)? / below)
    }

    /// The smallest share of time in which an event was counted; none where none was.
    pub fn least_share(&self) -> Option<f64> {
        let shares = self.events.values().map(|event| event.share);
        shares.min_by(f64::total_cmp)
    }
}

/// An event's line in a reading.
pub fn head(name: &str, encoded: &unit::Encoded, kernel: bool, scale: f64) -> String {
    let [config, config1, config2] = encoded.config;
    let mut line = format!("= {name} {}:{config:#x}", encoded.kind);
    if config1 != 0 || config2 != 0 {
        let _ = write!(line, ",{config1:#x},{config2:#x}");
    }
    let mode = if kernel { "uk" } else { "u" };
    let _ = write!(line, " {mode} {scale}");
    line
}

/// One border's event: what was said of it, and what was counted, by process.
#[derive(Debug, Default)]
struct Read {
    kernel: bool,
    scale: f64,
    counts: BTreeMap<u32, [u64; 3]>,
}

/// One border.
#[derive(Debug, Default)]
struct Border {
    events: BTreeMap<String, Read>,
    absent: Vec<(String, String)>,
    slots: Option<f64>,
}

fn border(text: &str) -> Border {
    let mut border = Border::default();
    let mut current: Option<String> = None;
    for line in text.lines() {
        let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
        match mark {
            "=" => {
                let mut words = rest.split(' ');
                current = words.next().map(str::to_owned);
                let mode = words.nth(1);
                let scale = words.next().and_then(|scale| scale.parse().ok());
                if let (Some(name), Some(scale)) = (&current, scale) {
                    let read = Read {
                        kernel: mode == Some("uk"),
                        scale,
                        counts: BTreeMap::new(),
                    };
                    border.events.insert(name.clone(), read);
                }
            }
            "!" => {
                let (name, why) = rest.split_once(' ').unwrap_or((rest, ""));
                border.absent.push((name.to_owned(), why.to_owned()));
            }
            "~" => border.slots = rest.strip_prefix("slots ").and_then(|n| n.parse().ok()),
            pid => {
                let event = current
                    .as_ref()
                    .and_then(|name| border.events.get_mut(name));
                let figures: Option<Vec<u64>> = rest.split(' ').map(|f| f.parse().ok()).collect();
                if let (Some(event), Ok(pid), Some([count, enabled, running])) =
                    (event, pid.parse(), figures.as_deref())
                {
                    event.counts.insert(pid, [*count, *enabled, *running]);
                }
            }
        }
    }
    border
}

/// What was counted between the two readings of a sample; none where it has no text.
///
/// An event for which no counter was free all the time is made up to the whole by the share of the time in
/// which it had one. One that never had any is absent.
pub fn counts(sample: &Sample) -> Option<Counts> {
    let before = border(sample.before.text()?);
    let after = border(sample.after.text()?);
    let mut counts = Counts {
        absent: after.absent,
        slots: after.slots,
        ..Counts::default()
    };
    for (name, now) in after.events {
        let then = before.events.get(&name);
        let mut grown = [0u64; 3];
        for (pid, figures) in &now.counts {
            let was = then
                .and_then(|then| then.counts.get(pid))
                .copied()
                .unwrap_or_default();
            for (sum, (figure, was)) in grown.iter_mut().zip(figures.iter().zip(was)) {
                *sum = sum.saturating_add(figure.saturating_sub(was));
            }
        }
        let [count, enabled, running] = grown.map(|figure| figure as f64);
        if running <= 0.0 && enabled > 0.0 {
            let why = "no counter of the processor was free for it".to_owned();
            counts.absent.push((name, why));
            continue;
        }
        if now.counts.is_empty() {
            continue;
        }
        let share = if enabled > 0.0 {
            (running / enabled).min(1.0)
        } else {
            1.0
        };
        counts.events.insert(
            name,
            Counted {
                count: count / share * now.scale,
                share,
                kernel: now.kernel,
            },
        );
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use pgassay_model::reading::Reading;

    use super::*;

    fn sample(before: &str, after: &str) -> Sample {
        Sample {
            before: Reading::Text(before.into()),
            after: Reading::Text(after.into()),
            elapsed_ns: 1_000_000_000,
        }
    }

    #[test]
    fn what_was_counted_a_part_of_the_time_is_made_up_to_the_whole() {
        let before = "~ slots 5\n= core/cycles 0:0x0 uk 1\n10 100 50 50\n= core/instructions 0:0x1 u 1\n10 1 2 2\n";
        let after = "~ slots 5\n= core/cycles 0:0x0 uk 1\n10 400 250 150\n11 100 200 50\n\
                     = core/instructions 0:0x1 u 1\n10 301 202 202\n! cache/LLC-loads not supported here\n";
        let counts = counts(&sample(before, after)).unwrap();
        // 400 in 150 of 400 ns.
        let cycles = counts.events["core/cycles"];
        assert_eq!((cycles.kernel, cycles.share), (true, 0.375));
        assert!((cycles.count - 400.0 / 0.375).abs() < 1e-9);
        assert_eq!(counts.count("core/instructions"), Some(300.0));
        assert!(!counts.events["core/instructions"].kernel);
        assert_eq!(counts.least_share(), Some(0.375));
        assert_eq!(counts.slots, Some(5.0));
        assert_eq!(
            counts.absent,
            [("cache/LLC-loads".into(), "not supported here".into())]
        );
    }

    #[test]
    fn an_event_that_never_had_a_counter_is_absent_and_not_zero() {
        let before = "= core/cycles 0:0x0 uk 1\n10 0 50 0\n";
        let after = "= core/cycles 0:0x0 uk 1\n10 0 90 0\n";
        let counts = counts(&sample(before, after)).unwrap();
        assert_eq!(counts.count("core/cycles"), None);
        assert!(counts.absent[0].1.contains("no counter"));
    }

    #[test]
    fn a_text_that_is_none_of_ours_counts_nothing() {
        for text in [
            "",
            "= \n",
            "= a\n1 2 3 4\n",
            "= a 0:0x0 uk x\n1 2 3 4",
            "garbage",
            "! \n~ slots x",
        ] {
            let counts = counts(&sample(text, text)).unwrap();
            assert!(counts.events.is_empty(), "{text}");
        }
        let huge = "= a 0:0x0 uk 1\n1 18446744073709551615 1 1\n2 18446744073709551615 1 1\n";
        assert!(
            counts(&sample("", huge))
                .unwrap()
                .count("a")
                .unwrap()
                .is_finite()
        );
    }

    #[test]
    fn a_head_tells_all_numbers() {
        let encoded = unit::Encoded {
            kind: 4,
            config: [0x19c, 0, 0],
        };
        assert_eq!(
            head("stalls/x", &encoded, false, 1.0),
            "= stalls/x 4:0x19c u 1"
        );
        let wide = unit::Encoded {
            kind: 8,
            config: [1, 3, 0],
        };
        assert_eq!(head("a/b", &wide, true, 4.0), "= a/b 8:0x1,0x3,0x0 uk 4");
    }
}
