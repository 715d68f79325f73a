//! CPU samples of the server's processes, with their callers, within each window; and samples of
//! other events.
//!
//! Where we may (root, CAP_PERFMON) one event a CPU watches everybody, and samples of
//! others are dropped as they are read; else the postmaster, its present children and all
//! that it forks later are watched, without the kernel. A thread empties the buffers
//! again and again and folds what it finds.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fs, io};

use pgassay_model::observed::Cost;
use pgassay_model::observed::stacks::{StackRecord, SymbolTable};
use pgassay_sys::perf::{self, Event, Options, Rate, Record, Ring, Sample, Whose};

use super::cpu::thread_ns;
use super::images::{Images, Place};
use super::server::{self, children_of};

/// Samples a second of CPU time.
pub const FREQUENCY_HZ: u32 = 99;
/// Bytes of each stack that are copied: deep executor trees need 10 KiB.
const STACK_BYTES: u32 = 16 << 10;
/// Pages of a CPU's buffer: a third of a second of copied stacks, and just what
/// perf_event_mlock_kb allows everybody.
const PAGES: usize = 128;
/// Samples of a CPU between two times that its buffer is emptied: ten times a second at
/// [`FREQUENCY_HZ`].
const BATCH: u32 = 10;
/// How long the end of a window waits for the folding of the last samples.
const PATIENCE: Duration = Duration::from_secs(5);

/// The sampling thread.
pub struct PerfSampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<SymbolTable>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    window: Option<Instant>,
    ended: bool,
    done: Option<(StackRecord, Cost)>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PerfSampler {
    /// Opens the events and starts the thread.
    ///
    /// # Errors
    /// Why there is nothing to sample with, and what would help.
    pub fn start(postmaster: u32) -> Result<Self, String> {
        Self::start_at(postmaster, FREQUENCY_HZ)
    }

    /// The same with so many samples a second of CPU time.
    ///
    /// # Errors
    /// Why there is nothing to sample with, and what would help.
    pub fn start_at(postmaster: u32, frequency_hz: u32) -> Result<Self, String> {
        Self::start_of(Event::CPU_CLOCK, postmaster, Rate::Hz(frequency_hz))
    }

    /// The same of another event than the clock: how often it happened is kept with each chain.
    ///
    /// # Errors
    /// Why there is nothing to sample with, and what would help.
    pub fn start_of(event: Event, postmaster: u32, rate: Rate) -> Result<Self, String> {
        let images = Images::of(postmaster)?;
        let (rings, everybody) = open(event, postmaster, rate)?;
        let shared = Arc::new(Shared::default());
        let mut work = Work {
            shared: Arc::clone(&shared),
            rings,
            everybody,
            event,
            rate,
            images,
            ours: HashSet::new(),
            others: HashSet::new(),
        };
        let thread = thread::Builder::new()
            .name("perf".into())
            .spawn(move || {
                work.run();
                work.images.symbols()
            })
            .map_err(|e| format!("no thread: {e}"))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// A window begins.
    pub fn begin(&self) {
        let mut state = self.shared.state();
        state.done = None;
        state.window = Some(Instant::now());
        self.shared.changed.notify_all();
    }

    /// The window ends.
    pub fn stop_window(&self) {
        self.shared.state().window = None;
        self.shared.changed.notify_all();
    }

    /// What was seen in the window that ended.
    ///
    /// # Errors
    /// Where nothing was.
    pub fn end(&self) -> Result<(StackRecord, Cost), String> {
        self.stop_window();
        let mut state = self.shared.state();
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(done) = state.done.take() {
                return Ok(done);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err("the sampling thread did not answer".to_owned());
            }
            state = self
                .shared
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Ends the thread: the names of all that was hit.
    pub fn finish(mut self) -> SymbolTable {
        self.stop().unwrap_or_default()
    }

    fn stop(&mut self) -> Option<SymbolTable> {
        self.shared.state().ended = true;
        self.shared.changed.notify_all();
        // A panic of the sampler costs its samples, not the run.
        self.thread.take()?.join().ok()
    }
}

impl Drop for PerfSampler {
    fn drop(&mut self) {
        drop(self.stop());
    }
}

/// Opens a ring for each CPU; true where everybody is watched.
fn open(event: Event, postmaster: u32, rate: Rate) -> Result<(Vec<Ring>, bool), String> {
    let cpus = online_cpus();
    let options = |kernel| Options {
        event,
        rate,
        stack_bytes: if perf::COPIES_STACKS { STACK_BYTES } else { 0 },
        kernel,
        pages: PAGES,
    };
    let all = |whose, options: Options| -> io::Result<Vec<Ring>> {
        cpus.iter()
            .map(|cpu| Ring::open(*cpu, whose, options))
            .collect()
    };
    if let Ok(rings) = all(Whose::Everybody, options(true)) {
        return Ok((rings, true));
    }
    let own = Whose::Process(postmaster);
    let mut rings = all(own, options(true))
        .or_else(|_| all(own, options(false)))
        .map_err(|e| refused(&e, perf::paranoid(), rustix::process::geteuid().is_root()))?;
    for child in children_of(postmaster).unwrap_or_default() {
        for ring in &mut rings {
            // One that has just ended, or one too many for the limit of open files.
            let _ = ring.join(child);
        }
    }
    Ok((rings, false))
}

/// What the kernel refused, and what would help.
pub(super) fn refused(error: &io::Error, paranoid: Option<i32>, root: bool) -> String {
    if root || error.kind() == io::ErrorKind::Unsupported {
        // Root is let through by perf_event_paranoid.
        return format!(
            "perf_event_open: {error}: a sandbox or a container forbids it, or the kernel is \
             without it; a container needs the capability PERFMON and a seccomp profile that \
             allows perf_event_open"
        );
    }
    let paranoid = paranoid.map_or_else(|| "not there".to_owned(), |level| level.to_string());
    format!(
        "perf_event_open: {error}; /proc/sys/kernel/perf_event_paranoid is {paranoid}: run \
         pgassay as root or as the server's user, with 2 or less there"
    )
}

/// CPUs that are online, as /sys lists them: `0-3,8`.
pub(super) fn online_cpus() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus: Vec<u32> = text
        .trim()
        .split(',')
        .filter_map(|range| match range.split_once('-') {
            Some((first, last)) => Some(first.parse().ok()?..=last.parse().ok()?),
            None => range.parse().ok().map(|cpu| cpu..=cpu),
        })
        .flatten()
        .take(4096)
        .collect();
    if cpus.is_empty() { vec![0] } else { cpus }
}

struct Work {
    shared: Arc<Shared>,
    rings: Vec<Ring>,
    everybody: bool,
    event: Event,
    rate: Rate,
    images: Images,
    /// Processes of the server, and those that are not.
    ours: HashSet<u32>,
    others: HashSet<u32>,
}

impl Work {
    fn run(&mut self) {
        loop {
            let window = {
                let mut state = self.shared.state();
                loop {
                    if state.ended {
                        return;
                    }
                    if let Some(window) = state.window {
                        break window;
                    }
                    state = self
                        .shared
                        .changed
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            };
            let done = self.watch(window);
            let mut state = self.shared.state();
            state.done = Some(done);
            self.shared.changed.notify_all();
        }
    }

    /// Samples until the window ends.
    fn watch(&mut self, window: Instant) -> (StackRecord, Cost) {
        let begun = thread_ns();
        let period = Duration::from_secs(1) * BATCH / self.rate.hz().unwrap_or(FREQUENCY_HZ).max(1);
        // Process numbers are used again: who is who is asked anew in each window.
        self.ours.clear();
        self.others.clear();
        let mut folder = Folder {
            counts_events: self.event != Event::CPU_CLOCK,
            ..Folder::default()
        };
        self.each_ring(Ring::enable);
        loop {
            let over = {
                let state = self.shared.state();
                let state = if state.window == Some(window) && !state.ended {
                    self.shared
                        .changed
                        .wait_timeout(state, period)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                } else {
                    state
                };
                state.window != Some(window) || state.ended
            };
            if over {
                self.each_ring(Ring::disable);
            }
            let second = window.elapsed().as_secs() as usize;
            self.drain(&mut folder, second);
            if over {
                break;
            }
        }
        let cost = Cost {
            observer: "perf".to_owned(),
            own_ns: thread_ns().saturating_sub(begun),
            server_ns: 0,
            statements: 0,
        };
        (
            folder.record(&self.images, self.rate.hz().unwrap_or(0)),
            cost,
        )
    }

    fn each_ring(&self, call: impl Fn(&Ring) -> io::Result<()>) {
        for ring in &self.rings {
            // It was opened, so that these can't fail; a CPU taken offline gives no samples.
            let _ = call(ring);
        }
    }

    fn drain(&mut self, folder: &mut Folder, second: usize) {
        let mut rings = std::mem::take(&mut self.rings);
        for ring in &mut rings {
            ring.drain(&mut |record| match record {
                Record::Sample(sample) => {
                    if self.is_ours(sample.pid) {
                        let chain = self.chain(&sample);
                        folder.add(second, chain, sample.period);
                    }
                }
                Record::Fork { pid, parent } => {
                    if parent == self.images.postmaster() {
                        self.ours.insert(pid);
                    }
                }
                Record::Lost(count) => folder.lost += count,
            });
        }
        self.rings = rings;
    }

    fn is_ours(&mut self, pid: u32) -> bool {
        if !self.everybody || pid == self.images.postmaster() || self.ours.contains(&pid) {
            return true;
        }
        if self.others.contains(&pid) {
            return false;
        }
        let ours = server::parent_of(pid) == Some(self.images.postmaster());
        if ours {
            &mut self.ours
        } else {
            &mut self.others
        }
        .insert(pid);
        ours
    }

    /// A sample's chain, innermost first.
    fn chain(&mut self, sample: &Sample) -> Vec<Place> {
        let mut chain: Vec<Place> = Vec::new();
        for (i, address) in sample.kernel.iter().enumerate() {
            // What is no sampled instruction is a return address: the call is before it.
            chain.push(self.images.kernel(address - u64::from(i > 0)));
        }
        let user = match &sample.stack {
            Some((registers, stack)) => self.images.unwind(registers, stack),
            None => {
                let inner = sample.kernel.is_empty();
                let addresses = sample.user.iter().enumerate();
                addresses
                    .map(|(i, a)| a - u64::from((i > 0 || !inner) && *a > 0))
                    .collect()
            }
        };
        chain.extend(user.into_iter().map(|a| self.images.place(sample.pid, a)));
        chain
    }
}

/// Folds chains while they come.
#[derive(Default)]
struct Folder {
    frames: Vec<Place>,
    frame_index: HashMap<Place, u32>,
    chains: Vec<Vec<u32>>,
    chain_index: HashMap<Vec<u32>, u32>,
    seconds: Vec<HashMap<u32, u32>>,
    counts_events: bool,
    event_counts: HashMap<u32, u64>,
    lost: u64,
}

impl Folder {
    fn add(&mut self, second: usize, places: Vec<Place>, period: u64) {
        let chain: Vec<u32> = places
            .into_iter()
            .map(|place| {
                *self.frame_index.entry(place).or_insert_with_key(|place| {
                    self.frames.push(place.clone());
                    (self.frames.len() - 1) as u32
                })
            })
            .collect();
        if chain.is_empty() {
            return;
        }
        let chains = &mut self.chains;
        let index = *self.chain_index.entry(chain).or_insert_with_key(|chain| {
            chains.push(chain.clone());
            (chains.len() - 1) as u32
        });
        if self.seconds.len() <= second {
            self.seconds.resize_with(second + 1, HashMap::new);
        }
        *self.seconds[second].entry(index).or_default() += 1;
        if self.counts_events {
            let event_counts = self.event_counts.entry(index).or_default();
            *event_counts = event_counts.saturating_add(period);
        }
    }

    fn record(self, images: &Images, frequency_hz: u32) -> StackRecord {
        let mut objects: Vec<String> = Vec::new();
        let frames = self
            .frames
            .iter()
            .map(|place| {
                let key = images.key(place.object);
                let index = objects.iter().position(|o| o == key).unwrap_or_else(|| {
                    objects.push(key.to_owned());
                    objects.len() - 1
                });
                (index as u32, place.address)
            })
            .collect();
        let seconds = self
            .seconds
            .into_iter()
            .map(|second| {
                let mut counts: Vec<(u32, u32)> = second.into_iter().collect();
                counts.sort_unstable();
                counts
            })
            .collect();
        let mut event_counts: Vec<(u32, u64)> = self.event_counts.into_iter().collect();
        event_counts.sort_unstable();
        StackRecord {
            frequency_hz,
            objects,
            frames,
            chains: self.chains,
            seconds,
            event_counts,
            lost: self.lost,
            callers: if perf::COPIES_STACKS {
                "unwind tables"
            } else {
                "frame pointers"
            }
            .to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_would_help_whom() {
        let forbidden = io::Error::from_raw_os_error(1);
        let user = refused(&forbidden, Some(3), false);
        assert!(user.contains("perf_event_paranoid is 3: run"), "{user}");
        // Root is told nothing that it has already.
        let root = refused(&forbidden, Some(2), true);
        assert!(
            root.contains("PERFMON") && !root.contains("paranoid"),
            "{root}"
        );
        let without = refused(&io::Error::from_raw_os_error(38), None, false);
        assert!(without.contains("kernel is without it"), "{without}");
    }
}
