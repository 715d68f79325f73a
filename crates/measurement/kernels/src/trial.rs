//! Threads on one kernel, released together, for a while.

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pgassay_sys::affinity::pin_current_thread;
use pgassay_sys::stop::Stop;
use rustix::time::{ClockId, clock_gettime};

use crate::catalogue::Form;
use crate::kernel::{Kernel, Me};
use crate::placement;
use crate::sync::Padded;

/// How often a stop is looked for.
const LOOK: Duration = Duration::from_millis(20);
/// Threads need little.
const STACK: usize = 256 << 10;

/// States of the gate.
const SHUT: u8 = 0;
const OPEN: u8 = 1;
const LEAVE: u8 = 2;

/// How a kernel is run.
#[derive(Debug, Clone)]
pub struct Conditions {
    /// Threads at once.
    pub threads: usize,
    /// On which CPUs, in turn; anywhere if empty.
    pub cpus: Vec<usize>,
    /// For how long.
    pub window: Duration,
    /// Turns of private arithmetic after each operation, about 3 to 5 cycles each.
    pub think: u32,
    /// Of the random numbers.
    pub seed: u64,
}

/// What one thread did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Operations.
    pub operations: u64,
    /// From its first to its last, in nanoseconds.
    pub elapsed_ns: u64,
    /// Its CPU time in that time.
    pub cpu_ns: u64,
    /// It began so long after the gate opened.
    pub late_ns: u64,
    /// Operations that met another thread.
    pub contended: u64,
    /// Sleeps for a lock or in back-off.
    pub sleeps: u64,
    /// Times it gave its CPU away, as it waited.
    pub voluntary_switches: u64,
    /// Times its CPU was taken from it.
    pub involuntary_switches: u64,
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The system gives no more threads.
    #[error("thread {number} of {threads} can't be started: {error}")]
    NoThread {
        /// Which, from 1.
        number: usize,
        /// Of how many.
        threads: usize,
        /// What it said.
        error: io::Error,
    },
    /// A thread may not run where it was meant to.
    #[error("a thread can't be kept on CPU {cpu}: {error}")]
    NotPinned {
        /// The CPU's number.
        cpu: usize,
        /// What sched_setaffinity(2) gave.
        error: io::Error,
    },
    /// What was left is not what the operations must leave.
    #[error("{form} is wrong on this processor: {what}")]
    Broken {
        /// The form's family and name.
        form: String,
        /// What does not hold.
        what: String,
    },
    /// It is another processor's.
    #[error("this processor has no {form}")]
    NotHere {
        /// The form's family and name.
        form: String,
    },
    /// A stop was asked for.
    #[error("interrupted")]
    Interrupted,
}

/// What the threads of a trial have in common.
struct Common<'a> {
    kernel: &'a dyn Kernel,
    conditions: &'a Conditions,
    /// Of each CPU, its socket.
    sockets: HashMap<usize, u32>,
    gate: Padded<AtomicU8>,
    ready: Padded<AtomicUsize>,
    over: Padded<AtomicBool>,
    /// When the gate opened.
    opened: Mutex<Option<Instant>>,
}

/// Runs threads on a form, and checks what they left.
///
/// # Errors
/// See [`KernelError`].
pub fn run(form: &Form, conditions: &Conditions, stop: &Stop) -> Result<Vec<Outcome>, KernelError> {
    let kernel = form
        .make(conditions.threads)
        .ok_or_else(|| KernelError::NotHere { form: form.title() })?;
    let common = Common {
        kernel: &*kernel,
        conditions,
        sockets: sockets(),
        gate: Padded(AtomicU8::new(SHUT)),
        ready: Padded(AtomicUsize::new(0)),
        over: Padded(AtomicBool::new(false)),
        opened: Mutex::new(None),
    };
    let outcomes = std::thread::scope(|scope| {
        let mut running = Vec::with_capacity(conditions.threads);
        for slot in 0..conditions.threads {
            let common = &common;
            let thread = std::thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, move || common.thread(slot));
            match thread {
                Ok(thread) => running.push(thread),
                Err(error) => {
                    common.gate.store(LEAVE, Ordering::Release);
                    return Err(KernelError::NoThread {
                        number: slot + 1,
                        threads: conditions.threads,
                        error,
                    });
                }
            }
        }
        common.conduct(stop);
        running
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect::<Result<Vec<Outcome>, KernelError>>()
    })?;
    if stop.asked() {
        return Err(KernelError::Interrupted);
    }
    let operations = outcomes.iter().map(|outcome| outcome.operations).sum();
    kernel
        .proof(operations)
        .map_err(|what| KernelError::Broken {
            form: form.title(),
            what,
        })?;
    Ok(outcomes)
}

impl Common<'_> {
    /// Opens the gate when all are there, and ends the trial.
    fn conduct(&self, stop: &Stop) {
        while self.ready.load(Ordering::Acquire) < self.conditions.threads && !stop.asked() {
            std::thread::sleep(Duration::from_micros(200));
        }
        let now = Instant::now();
        *self.opened.lock().unwrap_or_else(|p| p.into_inner()) = Some(now);
        self.gate.store(OPEN, Ordering::Release);
        let until = now + self.conditions.window;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || stop.asked() {
                break;
            }
            std::thread::sleep(left.min(LOOK));
        }
        self.over.store(true, Ordering::Relaxed);
    }

    fn thread(&self, slot: usize) -> Result<Outcome, KernelError> {
        let cpus = &self.conditions.cpus;
        let pinned = match cpus.get(slot % cpus.len().max(1)) {
            Some(&cpu) => {
                pin_current_thread(&[cpu]).map_err(|error| KernelError::NotPinned { cpu, error })
            }
            None => Ok(()),
        };
        // Who can't be pinned is awaited, too.
        self.ready.fetch_add(1, Ordering::AcqRel);
        pinned?;
        loop {
            match self.gate.load(Ordering::Acquire) {
                SHUT => std::thread::yield_now(),
                LEAVE => return Ok(Outcome::default()),
                _ => break,
            }
        }
        let mut me = Me::new(slot, self.conditions.seed);
        if let Some(cpu) = cpus.get(slot % cpus.len().max(1)) {
            me.socket = *self.sockets.get(cpu).unwrap_or(&0);
        }
        let switches = switches();
        let (began, cpu) = (Instant::now(), thread_cpu_ns());
        let operations = self
            .kernel
            .repeat(&mut me, &self.over, self.conditions.think);
        let elapsed_ns = began.elapsed().as_nanos() as u64;
        let cpu_ns = thread_cpu_ns().saturating_sub(cpu);
        let after = self::switches();
        let opened = self.opened.lock().unwrap_or_else(|p| p.into_inner());
        Ok(Outcome {
            operations,
            elapsed_ns,
            cpu_ns,
            late_ns: opened.map_or(0, |opened| {
                began.saturating_duration_since(opened).as_nanos() as u64
            }),
            contended: me.contended,
            sleeps: me.sleeps,
            voluntary_switches: after.0.saturating_sub(switches.0),
            involuntary_switches: after.1.saturating_sub(switches.1),
        })
    }
}

/// The socket of each CPU, as far as the system tells.
fn sockets() -> HashMap<usize, u32> {
    let cpus = placement::here().unwrap_or_default();
    cpus.iter().map(|at| (at.cpu, at.socket)).collect()
}

/// The calling thread's switches so far: those that it made, and those that were forced on it.
fn switches() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|count| count.trim().parse().ok())
            .unwrap_or(0)
    };
    (
        of("voluntary_ctxt_switches:"),
        of("nonvoluntary_ctxt_switches:"),
    )
}

fn thread_cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::forms;

    fn conditions(threads: usize) -> Conditions {
        Conditions {
            threads,
            cpus: Vec::new(),
            window: Duration::from_millis(30),
            think: 0,
            seed: 7,
        }
    }

    fn own() -> &'static Form {
        forms().next().expect("there are forms")
    }

    #[test]
    fn a_form_of_another_processor_is_refused() {
        let Some(foreign) = forms().find(|form| !form.is_here()) else {
            panic!("every processor lacks a form");
        };
        let error = run(foreign, &conditions(1), &Stop::new()).unwrap_err();
        assert!(error.to_string().contains(foreign.name), "{error}");
    }

    #[test]
    fn every_form_leaves_what_its_operations_must() {
        for form in forms().filter(|form| form.is_here()) {
            for threads in [1, 2, 5] {
                // A busy machine may give the threads no CPU for as long as the window lasts.
                let did_something = (0..20).any(|_| {
                    let outcomes = run(form, &conditions(threads), &Stop::new())
                        .unwrap_or_else(|error| panic!("{}: {error}", form.title()));
                    assert_eq!(outcomes.len(), threads, "{}", form.title());
                    outcomes.iter().any(|outcome| outcome.operations > 0)
                });
                assert!(
                    did_something,
                    "{} did nothing with {threads} threads",
                    form.title()
                );
            }
        }
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        let far = Conditions {
            cpus: vec![1022],
            ..conditions(2)
        };
        let error = run(own(), &far, &Stop::new()).unwrap_err();
        assert!(error.to_string().contains("CPU 1022"), "{error}");
    }

    #[test]
    fn a_stop_ends_a_trial_early() {
        let stop = Stop::new();
        stop.ask();
        let long = Conditions {
            window: Duration::from_secs(3600),
            ..conditions(2)
        };
        let error = run(own(), &long, &stop).unwrap_err();
        assert!(matches!(error, KernelError::Interrupted), "{error}");
    }
}
