//! A look at the machine before anything is measured: what else keeps its CPUs busy bends the figures.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use pgassay_analysis::{number, quality};
use pgassay_model::Failure;
use pgassay_model::reading::Sample;
use pgassay_observe::cpu_times;
use pgassay_readings::samples::host_cpu;
use pgassay_sys::stop::Stop;

use super::recorded_scripts::answer;
use crate::terminal::Terminal;

/// The first look: a quiet machine is measured without delay.
const FIRST: Duration = Duration::from_millis(200);
/// The looks at a machine that the first one found busy.
const LOOK: Duration = Duration::from_millis(500);
/// Looks in a row that find nothing, before a machine that was busy counts as quiet.
const IN_A_ROW: u32 = 4;
/// The longest wait that is offered on a terminal.
const OFFERED: Duration = Duration::from_secs(600);
/// Shares of all CPU time from which on a run is graded fair.
const BUSY: f64 = quality::OTHERS.0;
const STOLEN: f64 = quality::STEAL.0;
/// Nobody who has not answered by then will: a script runs on a terminal, too.
const TO_ANSWER: Duration = Duration::from_secs(20);

/// What a look found.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Look {
    /// The share of all CPU time that was spent on something.
    busy: f64,
    /// And that the hypervisor gave to other guests.
    stolen: f64,
    /// CPUs of the machine.
    cpus: f64,
}

impl Look {
    fn take(length: Duration) -> Option<Self> {
        let before = cpu_times();
        let begun = Instant::now();
        std::thread::sleep(length);
        let host = host_cpu(&Sample {
            before,
            after: cpu_times(),
            elapsed_ns: 0,
        })?;
        (host.total > 0.0).then(|| Self {
            busy: host.busy / host.total,
            stolen: host.steal / host.total,
            cpus: (host.total / begun.elapsed().as_secs_f64())
                .round()
                .max(1.0),
        })
    }

    fn is_quiet(self) -> bool {
        self.busy < BUSY && self.stolen < STOLEN
    }

    fn words(self) -> String {
        let mut parts = Vec::new();
        if self.busy >= BUSY {
            parts.push(format!(
                "other programs keep {:.2} of {:.0} CPUs busy",
                self.busy * self.cpus,
                self.cpus
            ));
        }
        if self.stolen >= STOLEN {
            parts.push(format!(
                "the hypervisor gives {:.0} % of the CPUs' time to other guests",
                self.stolen * 100.0
            ));
        }
        parts.join(", and ")
    }
}

/// Says what would disturb the measurement, and waits until it is gone: for so many seconds at most if
/// that was asked for, else if whoever sits at the terminal wants it.
///
/// # Errors
/// Where the user says stop instead.
pub fn look(wait: Option<f64>, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<()> {
    let busy = |length| Look::take(length).filter(|seen| !seen.is_quiet());
    let Some(seen) = busy(FIRST).and_then(|_| busy(LOOK)) else {
        return Ok(());
    };
    let asks = terminal.watched && io::stdin().is_terminal();
    let longest = match wait {
        Some(seconds) => Duration::from_secs_f64(seconds),
        None if asks => {
            terminal.warn(&format!("{}: the figures will be disturbed", seen.words()));
            terminal.announce(
                "Measure all the same, wait until it is quiet, or stop? [M/w/s, M in 20 s]",
            );
            match answer(stop, Some(TO_ANSWER))?.trim() {
                "w" | "W" | "wait" => OFFERED,
                "s" | "S" | "stop" => return Err(Failure::interrupted().into()),
                _ => return Ok(()),
            }
        }
        None => {
            terminal.warn(&format!(
                "{}: the figures will be disturbed; --wait-quiet waits until they are gone",
                seen.words()
            ));
            return Ok(());
        }
    };
    until_quiet(seen, longest, terminal, stop)
}

fn until_quiet(
    mut seen: Look,
    longest: Duration,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<()> {
    terminal.announce(&format!(
        "waiting until the machine is quiet, {} at most: {}",
        number::duration(longest.as_secs_f64()),
        seen.words()
    ));
    let begun = Instant::now();
    let mut quiet = 0;
    while quiet < IN_A_ROW {
        if stop.asked() {
            return Err(Failure::interrupted().into());
        }
        if begun.elapsed() >= longest {
            terminal.warn(&format!(
                "not quiet after {}: {}; measured all the same",
                number::duration(longest.as_secs_f64()),
                seen.words()
            ));
            return Ok(());
        }
        match Look::take(LOOK) {
            Some(now) if !now.is_quiet() => {
                seen = now;
                quiet = 0;
            }
            _ => quiet += 1,
        }
    }
    terminal.announce(&format!(
        "quiet after {}",
        number::duration(begun.elapsed().as_secs_f64().round())
    ));
    Ok(())
}
