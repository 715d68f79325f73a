//! Events that processor and kernel count of the server's processes: cycles, instructions, misses, stalls.
//!
//! Each event is opened for the server's first process and the children that it has then; whatever they fork
//! later counts with them (perf_event_open(2), `inherit`). So nothing has to be done when sessions come
//! and go, and what a session did before it ended is not lost.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::{fs, io};

use pgassay_model::reading::Reading;
use pgassay_model::samplers;
use pgassay_readings::pmu::events::{self, Mode, Plan, Planned, PlannedGroup};
use pgassay_readings::pmu::head;
use pgassay_readings::pmu::unit::{Encoded, Unit};
use pgassay_sys::perf::{self, Counted, Counter, Event, Rate};

use super::Sampler;
use super::perf::refused;
use super::server::{self, room_for};

/// The samplers of this observer.
pub const SAMPLERS: &[Sampler] = &[Sampler {
    id: samplers::SERVER_EVENTS,
    unit: "events",
    explanation: "what processor and kernel counted of the server's processes",
    read: |scene| scene.events.read(&scene.postmaster),
}];

/// Where units are described.
const DEVICES: &str = "/sys/bus/event_source/devices";
/// A longer file of a unit describes no event.
const LONGEST: u64 = 4096;
/// Samples a second of an event that are taken on each CPU.
const SAMPLES_HZ: u32 = 49;
/// Occurrences of a kernel event for one sample: they come in bursts.
const SAMPLED_EVERY: u32 = 199;

/// How often the event of that name is sampled.
pub(super) fn rate(name: &str) -> Rate {
    match name.starts_with(events::SOFTWARE) {
        true => Rate::Every(SAMPLED_EVERY),
        false => Rate::Hz(SAMPLES_HZ),
    }
}

/// The events of a server that are counted; none before they are first read.
#[derive(Debug, Default)]
pub struct Events {
    open: Option<Opened>,
}

#[derive(Debug)]
struct Opened {
    postmaster: u32,
    /// What is to be had of no event.
    notes: String,
    /// The line of each event, and its counters by process.
    events: Vec<(String, Vec<(u32, Counter)>)>,
}

impl Events {
    /// What was counted so far; opens the counters first where they are not open for this server.
    fn read(&mut self, postmaster: &Result<u32, String>) -> Reading {
        let pid = match postmaster {
            Ok(pid) => *pid,
            Err(why) => return Reading::Unavailable(why.clone()),
        };
        if self.open.as_ref().is_none_or(|open| open.postmaster != pid) {
            match Opened::of(pid, &events::plan(&units())) {
                Ok(open) => self.open = Some(open),
                Err(why) => return Reading::Unavailable(why),
            }
        }
        match &mut self.open {
            Some(open) => Reading::Text(open.read()),
            None => Reading::Unavailable("nothing is counted".to_owned()),
        }
    }
}

impl Opened {
    fn of(postmaster: u32, plan: &Plan) -> Result<Self, String> {
        let processes = server::all(postmaster)?;
        let wanted: usize = plan.groups.iter().map(|group| group.events.len()).sum();
        // One that can't have them says so when it opens them.
        let _ = room_for((wanted * processes.len()) as u64);
        let mut opened = Self {
            postmaster,
            notes: String::new(),
            events: Vec::new(),
        };
        if let Some(slots) = plan.slots {
            let _ = writeln!(opened.notes, "~ slots {slots}");
        }
        for (name, why) in &plan.absent {
            opened.absent(name, why);
        }
        for group in &plan.groups {
            opened.group(group, &processes)?;
        }
        Ok(opened)
    }

    fn absent(&mut self, name: &str, why: &str) {
        let _ = writeln!(self.notes, "! {name} {}", why.replace('\n', " "));
    }

    /// Opens a group for all processes. The first decides what there is of it.
    fn group(&mut self, group: &PlannedGroup, processes: &[u32]) -> Result<(), String> {
        let Some((first, others)) = processes.split_first() else {
            return Ok(());
        };
        let (mut opened, mut failed) = (Vec::<Had>::new(), Vec::new());
        for event in &group.events {
            let leader = leader(group, &opened);
            match open_first(event, *first, leader) {
                Ok(had) => opened.push(had),
                Err(why) => failed.push((&event.name, why)),
            }
        }
        if group.whole && !failed.is_empty() {
            opened.clear();
        }
        for (name, why) in failed {
            self.absent(name, &why);
        }
        let mut events: Vec<(String, Vec<(u32, Counter)>)> = Vec::new();
        let mut as_first = Vec::new();
        for had in opened {
            let line = head(
                &had.event.name,
                &had.encoded,
                had.counted.kernel,
                had.event.scale,
            );
            as_first.push((had.encoded, had.counted));
            events.push((line, vec![(*first, had.counter)]));
        }
        for pid in others {
            for at in 0..events.len() {
                let (encoded, counted) = as_first[at];
                let leader = (group.together && at > 0)
                    .then(|| events[0].1.last())
                    .flatten()
                    .filter(|(of, _)| of == pid)
                    .map(|(_, counter)| counter);
                match Counter::open(numbers(encoded), *pid, counted, leader) {
                    Ok(counter) => events[at].1.push((*pid, counter)),
                    Err(e) if is_limit(&e) => {
                        return Err(format!(
                            "perf_event_open: {e}: an event of each of {} processes takes a descriptor; \
                             raise the limit of open files (ulimit -n)",
                            processes.len()
                        ));
                    }
                    // It has ended.
                    Err(_) => {}
                }
            }
        }
        self.events.extend(events);
        Ok(())
    }

    /// The text of a reading.
    fn read(&mut self) -> String {
        let mut text = self.notes.clone();
        for (line, counters) in &mut self.events {
            text.push_str(line);
            text.push('\n');
            for (pid, counter) in counters {
                // An event that can't be read was put out of its counter by another that holds on to it.
                if let Ok(count) = counter.so_far() {
                    let _ = writeln!(
                        text,
                        "{pid} {} {} {}",
                        count.value, count.enabled_ns, count.running_ns
                    );
                }
            }
        }
        text
    }
}

/// An event that the server's first process has.
struct Had<'p> {
    event: &'p Planned,
    encoded: Encoded,
    counted: Counted,
    counter: Counter,
}

fn leader<'o>(group: &PlannedGroup, opened: &'o [Had]) -> Option<&'o Counter> {
    opened
        .first()
        .filter(|_| group.together)
        .map(|had| &had.counter)
}

fn numbers(encoded: Encoded) -> Event {
    let [config, config1, config2] = encoded.config;
    Event {
        kind: encoded.kind,
        config,
        config1,
        config2,
    }
}

fn is_limit(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE]
        .iter()
        .any(|errno| code == Some(errno.raw_os_error()))
}

/// Opens an event by the first numbers and in the widest mode that the kernel takes.
fn open_first<'p>(
    event: &'p Planned,
    pid: u32,
    leader: Option<&Counter>,
) -> Result<Had<'p>, String> {
    let kernel: &[bool] = match event.mode {
        Mode::Both => &[true, false],
        Mode::User => &[false],
        Mode::Whole => &[true],
    };
    let mut first: Option<io::Error> = None;
    for encoded in &event.encodings {
        for kernel in kernel {
            let counted = Counted {
                kernel: *kernel,
                children: true,
            };
            let open = |leader| Counter::open(numbers(*encoded), pid, counted, leader);
            // A group that has more events than there are counters is refused: this one by itself, then.
            let counter = match open(leader) {
                Err(e) if leader.is_some() && e.kind() == io::ErrorKind::InvalidInput => open(None),
                opened => opened,
            };
            match counter {
                Ok(counter) => {
                    return Ok(Had {
                        event,
                        encoded: *encoded,
                        counted,
                        counter,
                    });
                }
                // The kernel's part is forbidden before anything is looked for: of a user's part
                // the reason is the event's own.
                Err(e) => first = Some(e),
            }
        }
    }
    let error = first.unwrap_or_else(|| io::ErrorKind::Unsupported.into());
    Err(why_not(
        &error,
        event.encodings.first().is_some_and(|e| e.kind == 1),
    ))
}

/// Why an event can't be counted, and what would help.
fn why_not(error: &io::Error, software: bool) -> String {
    let root = rustix::process::geteuid().is_root();
    match error.kind() {
        io::ErrorKind::PermissionDenied => refused(error, perf::paranoid(), root),
        io::ErrorKind::NotFound | io::ErrorKind::InvalidInput if !software => format!(
            "this processor, or the virtual machine that it is of, has no counter for it \
             (perf_event_open: {error})"
        ),
        // What a kernel without hardware counters says, and one without any perf events.
        io::ErrorKind::Unsupported if error.raw_os_error() != Some(NO_CALL) => {
            format!("this machine has no such counter (perf_event_open: {error})")
        }
        _ => refused(error, perf::paranoid(), root),
    }
}

/// What a kernel without the call says.
const NO_CALL: i32 = rustix::io::Errno::NOSYS.raw_os_error();

/// The units of the processor's cores, as the kernel describes them.
fn units() -> Vec<Unit> {
    let Ok(devices) = fs::read_dir(DEVICES) else {
        return Vec::new();
    };
    let names = devices
        .flatten()
        .filter_map(|d| d.file_name().into_string().ok());
    let mut units: Vec<Unit> = names
        .map(|name| {
            let mut files = BTreeMap::new();
            for directory in ["", "format", "events", "caps"] {
                read_files(&format!("{DEVICES}/{name}"), directory, &mut files);
            }
            Unit { name, files }
        })
        .filter(Unit::is_of_cores)
        .collect();
    units.sort_by(|a, b| a.name.cmp(&b.name));
    units
}

/// The small files of a directory of a unit.
fn read_files(unit: &str, directory: &str, into: &mut BTreeMap<String, String>) {
    let Ok(entries) = fs::read_dir(format!("{unit}/{directory}")) else {
        return;
    };
    for entry in entries.flatten() {
        let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else {
            continue;
        };
        let small = entry.metadata().is_ok_and(|m| m.len() <= LONGEST);
        if kind.is_file()
            && small
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            let name = if directory.is_empty() {
                name
            } else {
                format!("{directory}/{name}")
            };
            into.insert(name, text.trim().to_owned());
        }
    }
}

/// Events whose samples tell where they happen: those that can be opened of this server.
pub(super) fn sampled(postmaster: u32) -> Vec<(String, Event)> {
    let plan = events::plan(&units());
    let wanted = plan.groups.iter().flat_map(|group| &group.events);
    wanted
        .filter(|event| event.sampled)
        .filter_map(|event| {
            let had = open_first(event, postmaster, None).ok()?;
            Some((event.name.clone(), numbers(had.encoded)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use pgassay_model::reading::Sample;
    use pgassay_readings::pmu;

    use super::*;

    /// Switches of a process by its /proc/PID/status.
    fn switches(pid: u32) -> u64 {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        [server::BY_WILL, server::BY_FORCE]
            .iter()
            .map(|name| {
                server::field(&status, name)
                    .unwrap()
                    .parse::<u64>()
                    .unwrap()
            })
            .sum()
    }

    #[test]
    fn what_the_kernel_counts_is_what_its_other_accounts_say() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "while :; do sleep 0.01; done"])
            .spawn()
            .unwrap();
        let pid = child.id();
        let mut events = Events::default();
        let before = events.read(&Ok(pid));
        let status_before = switches(pid);
        while switches(pid) < status_before + 20 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        // The events' stretch has the other account's within it, and what was forked meanwhile beside it.
        let own = switches(pid) - status_before;
        let after = events.read(&Ok(pid));
        child.kill().unwrap();
        child.wait().unwrap();
        let sample = Sample {
            before,
            after,
            elapsed_ns: 1,
        };
        let counts = pmu::counts(&sample).expect("a text");
        let counted = counts
            .count("software/context-switches")
            .unwrap_or_else(|| panic!("{counts:?}"));
        assert!(counted >= own as f64, "{counted} of {own}");
        assert!(counts.count("software/task-clock").unwrap() > 0.0);
        assert!(counts.count("software/page-faults").unwrap() > 0.0);
        // Of a processor without counters the reason is told.
        if counts.count("core/cycles").is_none() {
            let why = counts.absent.iter().find(|(name, _)| name == "core/cycles");
            assert!(
                why.is_some_and(|(_, why)| why.contains("perf_event_open")),
                "{counts:?}"
            );
        }
    }

    #[test]
    fn a_server_that_is_not_there_or_not_seen_is_a_reason() {
        let mut events = Events::default();
        let unseen = events.read(&Err("over TCP".to_owned()));
        assert_eq!(unseen, Reading::Unavailable("over TCP".to_owned()));
        assert!(matches!(
            events.read(&Ok(u32::MAX)),
            Reading::Unavailable(_)
        ));
    }

    #[test]
    fn a_refusal_tells_what_is_missing() {
        let of = |code| why_not(&io::Error::from_raw_os_error(code), false);
        // ENOENT, EOPNOTSUPP, EINVAL: no such counter; ENOSYS: no such call.
        for code in [2, 95, 22] {
            assert!(of(code).contains("counter"), "{}", of(code));
        }
        assert!(of(38).contains("without it"), "{}", of(38));
        assert!(of(13).contains("perf_event_open"), "{}", of(13));
    }
}
