//! The server's processes, and reading one file of /proc for each of them.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;

use pgassay_model::reading::Reading;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// From so many processes on their files are kept open between readings: opening and closing them is
/// half of what reading them costs (schedstat of 2,000 sleeping processes on Linux 6.18: 12 ms, and 6 of
/// files that are open).
const MANY: usize = 200;
/// Files of /proc/PID that are read: schedstat of all processes, these two of those that ran. The load's
/// connections are about as many as processes again, and may become more.
const FILES: u64 = 3;

/// Of so many processes, and of fewer than twice as many, /proc/PID/status is read at most: it is 1.4 KB that the kernel
/// writes for each (19 µs on Linux 6.18, and 4 for schedstat, an AMD EPYC).
const STATUS_OF: usize = 128;

/// Fields of /proc/PID/status that are asked for.
pub(super) const PAGE_TABLES: &str = "VmPTE";
pub(super) const BY_WILL: &str = "voluntary_ctxt_switches";
pub(super) const BY_FORCE: &str = "nonvoluntary_ctxt_switches";
const STATUS: &[&str] = &[PAGE_TABLES, BY_WILL, BY_FORCE];
/// Stands for a field that a process has not.
const NONE: &str = "-";

/// Files of processes that are open, by name and process. Once its process is gone a file reads as an
/// error, also where another process has the number by then.
type Open = HashMap<(&'static str, u32), File>;

/// The server's processes at one border of a window, and what was read of them before.
///
/// A process that has not run since a file of it was read says the same there now: of two
/// thousand sessions that do nothing only /proc/PID/schedstat is read, which is short, and
/// tells whether they ran.
#[derive(Debug)]
pub struct Known {
    /// The postmaster and all its children, each with its schedstat; none where the kernel
    /// has none.
    present: Result<Vec<(u32, Option<String>)>, String>,
    /// By reader and process: the schedstat before the reading, and what was read.
    read: HashMap<(&'static str, u32), (String, String)>,
    /// The files of the processes of a server of many.
    open: Open,
    /// Whether files are kept open.
    keep: bool,
    /// Of so many processes the status of one is read: a power of two, so that it is the same at most borders.
    one_of: u32,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            present: Err("the server's processes were not looked at".to_owned()),
            read: HashMap::new(),
            open: Open::new(),
            keep: false,
            one_of: 1,
        }
    }
}

impl Known {
    /// Which processes there are, and which of them ran.
    pub(super) fn look(&mut self, postmaster: &Result<u32, String>) {
        let (open, keep, one_of) = (&mut self.open, &mut self.keep, &mut self.one_of);
        self.present = postmaster.clone().and_then(all).map(|processes| {
            *keep = processes.len() >= MANY && room_for((FILES + 3) * processes.len() as u64);
            let mut buffer = Vec::new();
            let mut stamp = |pid| (pid, stamp(open, pid, *keep, &mut buffer));
            let present: Vec<_> = processes.into_iter().map(&mut stamp).collect();
            // What stands for the others is known by these.
            let known = present.iter().filter(|(_, stamp)| stamp.is_some()).count();
            *one_of = one_of_processes(known);
            present
        });
        if let Ok(present) = &self.present {
            let pids: HashSet<u32> = present.iter().map(|(pid, _)| *pid).collect();
            self.read.retain(|(_, pid), _| pids.contains(pid));
            self.open.retain(|(_, pid), _| pids.contains(pid));
        }
    }

    /// `PID run_ns wait_ns timeslices` for the postmaster and all its children, as they
    /// were looked at.
    pub(super) fn schedstat(&self) -> Reading {
        let present = match &self.present {
            Ok(present) => present,
            Err(why) => return Reading::Unavailable(why.clone()),
        };
        let mut text = String::new();
        for (pid, stamp) in present {
            if let Some(stamp) = stamp {
                let _ = writeln!(text, "{pid} {stamp}");
            }
        }
        match (text.is_empty(), present.first()) {
            (true, Some((pid, _))) => {
                let path = format!("/proc/{pid}/schedstat");
                let why = fs::read(&path).err();
                let why = why.map_or("it tells nothing".to_owned(), |e| e.to_string());
                Reading::Unavailable(format!("{path}: {why}"))
            }
            _ => Reading::Text(text),
        }
    }

    /// A line `PID …` for the postmaster and all its children: these fields of /proc/PID/status, of
    /// those in [`STATUS`]. The file is long, so it is read once for all who ask, and of many processes not of each: of
    /// those whose number is a multiple of a power of two, which are the same ones at both borders of a window.
    pub(super) fn status(&mut self, names: &[&str]) -> Reading {
        let fields = |status: &str| {
            let value = |name: &&str| first_word(field(status, name)).to_owned();
            Some(STATUS.iter().map(value).collect::<Vec<_>>().join(" "))
        };
        let one_of = self.one_of;
        let all = match self.lines_of(|pid| pid % one_of == 0, ("status", "status"), fields) {
            Reading::Text(all) => all,
            unavailable => return unavailable,
        };
        let wanted = |name: &&str| STATUS.iter().position(|known| known == name);
        let wanted: Vec<usize> = names.iter().filter_map(wanted).collect();
        let mut text = String::with_capacity(all.len());
        for line in all.lines() {
            let mut words = line.split(' ');
            let pid = words.next().unwrap_or_default();
            let values: Vec<&str> = words.collect();
            let value = |at: &usize| values.get(*at).copied().filter(|value| *value != NONE);
            if let Some(values) = wanted.iter().map(value).collect::<Option<Vec<_>>>() {
                let _ = writeln!(text, "{pid} {}", values.join(" "));
            }
        }
        match text.is_empty() {
            true => Reading::Unavailable(format!("/proc/PID/status has no {}", names.join(", "))),
            false => Reading::Text(text),
        }
    }

    /// A line `PID …` for the postmaster and all its children: what `line` makes of the
    /// text of /proc/PID/`file`, where it makes anything. `reader` is a name for the pair: where it has
    /// been called at this border, no file is read again.
    ///
    /// A process that ends between the list and its reading is passed over; only where no
    /// process gives a line the reading is unavailable, for the reason that the last one gave.
    pub(super) fn lines(
        &mut self,
        reader: &'static str,
        file: &'static str,
        line: impl Fn(&str) -> Option<String>,
    ) -> Reading {
        self.lines_of(|_| true, (reader, file), line)
    }

    /// The same of the processes that `wanted` picks.
    fn lines_of(
        &mut self,
        wanted: impl Fn(u32) -> bool,
        (reader, file): (&'static str, &'static str),
        line: impl Fn(&str) -> Option<String>,
    ) -> Reading {
        let present = match &self.present {
            Ok(present) => present,
            Err(why) => return Reading::Unavailable(why.clone()),
        };
        let (mut text, mut failure, mut buffer) = (String::new(), None, Vec::new());
        for (pid, stamp) in present.iter().filter(|(pid, _)| wanted(*pid)) {
            let before = self.read.get(&(reader, *pid));
            if let (Some(stamp), Some((then, line))) = (stamp, before)
                && stamp == then
            {
                let _ = writeln!(text, "{pid} {line}");
                continue;
            }
            let read = read_of(&mut self.open, (file, *pid), self.keep, &mut buffer);
            match made(read, (file, *pid), &line) {
                Ok(line) => {
                    let _ = writeln!(text, "{pid} {line}");
                    if let Some(stamp) = stamp {
                        self.read.insert((reader, *pid), (stamp.clone(), line));
                    }
                }
                Err(why) => failure = Some(why),
            }
        }
        match failure {
            Some(why) if text.is_empty() => Reading::Unavailable(why),
            _ => Reading::Text(text),
        }
    }
}

/// Of how many processes the status of one is read, where there are so many.
fn one_of_processes(processes: usize) -> u32 {
    1 << (processes / STATUS_OF).max(1).ilog2()
}

/// A process' schedstat as it stands.
fn stamp(open: &mut Open, pid: u32, keep: bool, buffer: &mut Vec<u8>) -> Option<String> {
    let text = read_of(open, ("schedstat", pid), keep, buffer).ok()?;
    Some(text.trim_end().to_owned()).filter(|text| !text.is_empty())
}

/// A small file of a process as it stands, by its open file where there is one.
fn read_of<'b>(
    open: &mut Open,
    (file, pid): (&'static str, u32),
    keep: bool,
    buffer: &'b mut Vec<u8>,
) -> io::Result<Cow<'b, str>> {
    let length = match open.get(&(file, pid)).map(|file| whole(file, buffer)) {
        Some(Ok(length @ 1..)) => length,
        _ => {
            open.remove(&(file, pid));
            let opened = File::open(format!("/proc/{pid}/{file}"))?;
            let length = whole(&opened, buffer)?;
            if keep {
                open.insert((file, pid), opened);
            }
            length
        }
    };
    Ok(String::from_utf8_lossy(&buffer[..length]))
}

/// Reads a file from its beginning; its length.
fn whole(file: &File, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let mut length = 0;
    loop {
        if buffer.len() < length + LEAST {
            buffer.resize(length + LEAST, 0);
        }
        match file.read_at(&mut buffer[length..], length as u64)? {
            0 => return Ok(length),
            read => length += read,
        }
        // A file of /proc gives all that there is room for at once.
        if length < buffer.len() || length >= LONGEST {
            return Ok(length);
        }
    }
}

/// Room for what is read at a time: the files are shorter.
const LEAST: usize = 4096;
/// Of a longer file the rest is left out.
const LONGEST: usize = 1 << 20;

/// Whether so many descriptors may be taken and leave the load its own, raising the limit where that is
/// allowed.
pub(super) fn room_for(descriptors: u64) -> bool {
    let needed = descriptors + 1024;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return true;
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    limit.maximum.is_none_or(|most| most >= needed) && setrlimit(Resource::Nofile, raised).is_ok()
}

/// What `line` makes of what was read of a process.
fn made(
    read: io::Result<Cow<str>>,
    (file, pid): (&str, u32),
    line: impl Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let text = read.map_err(|e| format!("/proc/{pid}/{file}: {e}"))?;
    line(&text).ok_or_else(|| format!("/proc/{pid}/{file} does not hold what is looked for"))
}

/// A line `PID …` for each of these processes, read anew, as [`Known::lines`] gives them.
pub(super) fn text(
    processes: &[u32],
    file: &'static str,
    line: impl Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let (mut text, mut failure, mut buffer) = (String::new(), None, Vec::new());
    for pid in processes {
        let read = read_of(&mut Open::new(), (file, *pid), false, &mut buffer);
        match made(read, (file, *pid), &line) {
            Ok(line) => {
                let _ = writeln!(text, "{pid} {line}");
            }
            Err(why) => failure = Some(why),
        }
    }
    match failure {
        Some(why) if text.is_empty() => Err(why),
        _ => Ok(text),
    }
}

/// The value of a line `name:\tvalue` of /proc/PID/status.
pub fn field<'t>(status: &'t str, name: &str) -> Option<&'t str> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.strip_prefix(':')?.trim())
}

/// The figure of a field, without its unit.
fn first_word(value: Option<&str>) -> &str {
    let word = value.and_then(|value| value.split_ascii_whitespace().next());
    word.unwrap_or(NONE)
}

/// The postmaster and all its children.
pub(super) fn all(postmaster: u32) -> Result<Vec<u32>, String> {
    let children = children_of(postmaster)?;
    Ok(std::iter::once(postmaster).chain(children).collect())
}

/// The postmaster and its children, as far as they can be seen.
pub fn processes(postmaster: u32) -> Vec<u32> {
    all(postmaster).unwrap_or_else(|_| vec![postmaster])
}

pub(super) fn children_of(pid: u32) -> Result<Vec<u32>, String> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text
            .split_ascii_whitespace()
            .filter_map(|p| p.parse().ok())
            .collect()),
        // A kernel without CONFIG_PROC_CHILDREN: every process is asked for its parent.
        Err(_) if fs::exists(format!("/proc/{pid}")).unwrap_or(false) => Ok(children_by_scan(pid)),
        Err(e) => Err(format!("{path}: {e}")),
    }
}

fn children_by_scan(parent: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| parent_of(*pid) == Some(parent))
        .collect()
}

/// A process' parent; none where it is gone.
pub(super) fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the parent is the second field after it.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// CPU time in ticks that a process' children had used when they ended, user and system
/// together, by the text of its /proc/PID/stat.
pub fn childrens_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    // The state is field 3, cutime 16 and cstime 17 (proc_pid_stat(5)).
    let mut fields = after_name.split_ascii_whitespace().skip(13);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_children_used_stands_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 9 99 0 0 11 12 130 14 20 0 1 0 5";
        assert_eq!(childrens_ticks(stat), Some(144));
        assert_eq!(childrens_ticks("7 (x) S 1"), None);
    }

    #[test]
    fn a_process_that_is_gone_is_passed_over() {
        let own = std::process::id();
        let switches = |status: &str| field(status, "voluntary_ctxt_switches").map(str::to_owned);
        let text = text(&[u32::MAX, own], "status", switches).unwrap();
        let mut words = text.split_ascii_whitespace();
        assert_eq!(words.next(), Some(own.to_string().as_str()));
        assert!(words.next().unwrap().parse::<u64>().is_ok(), "{text}");
        assert_eq!(words.next(), None);
        let gone = super::text(&[u32::MAX], "status", switches).unwrap_err();
        assert!(gone.contains("/proc/4294967295/status"), "{gone}");
        let other = super::text(&[own], "stat", switches).unwrap_err();
        assert!(other.contains("does not hold"), "{other}");
    }

    #[test]
    fn a_process_that_did_not_run_is_not_read_again() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = child.id();
        let present = |stamp: &str| Ok(vec![(pid, Some(stamp.to_owned()))]);
        let mut known = Known {
            present: present("10 2 1"),
            ..Known::default()
        };
        let asked = std::cell::Cell::new(0);
        let line = |known: &mut Known| {
            known.lines("state", "status", |status| {
                asked.set(asked.get() + 1);
                field(status, "Pid").map(str::to_owned)
            })
        };
        let first = line(&mut known);
        assert_eq!(first, Reading::Text(format!("{pid} {pid}\n")));
        assert_eq!((line(&mut known), asked.get()), (first.clone(), 1));
        // It ran: its file is read again.
        known.present = present("11 2 2");
        assert_eq!((line(&mut known), asked.get()), (first.clone(), 2));
        // Without schedstat nobody knows.
        known.present = Ok(vec![(pid, None)]);
        assert_eq!((line(&mut known), asked.get()), (first, 3));
        assert!(matches!(known.schedstat(), Reading::Unavailable(_)));
        child.kill().unwrap();
        child.wait().unwrap();
        // One that is gone is forgotten, and the reason is told.
        known.look(&Ok(std::process::id()));
        assert!(known.read.is_empty());
        assert!(matches!(known.schedstat(), Reading::Text(_)));
        known.look(&Err("over TCP".to_owned()));
        assert_eq!(
            line(&mut known),
            Reading::Unavailable("over TCP".to_owned())
        );
    }

    #[test]
    fn of_many_processes_the_status_of_some_is_read() {
        let of = [1, 128, 256, 300, 2000].map(one_of_processes);
        assert_eq!(of, [1, 1, 2, 2, 8]);
        let mut children: Vec<_> = (0..2)
            .map(|_| std::process::Command::new("sleep").arg("60").spawn())
            .map(Result::unwrap)
            .collect();
        let pids: Vec<u32> = children.iter().map(std::process::Child::id).collect();
        let mut known = Known {
            present: Ok(pids.iter().map(|pid| (*pid, None)).collect()),
            // Of which the first alone is a multiple.
            one_of: pids[0],
            ..Known::default()
        };
        let read = known.status(&[BY_WILL]);
        let lines: Vec<&str> = read.text().unwrap().lines().collect();
        let first = format!("{} ", pids[0]);
        assert!(
            lines.len() == 1 && lines[0].starts_with(&first),
            "{lines:?}"
        );
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn an_open_file_tells_what_is_now_and_that_its_process_is_gone() {
        let mut busy = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let (mut open, pid) = (Open::new(), busy.id());
        let mut buffer = Vec::new();
        let mut stamp = |open: &mut Open, keep| super::stamp(open, pid, keep, &mut buffer);
        let first = stamp(&mut open, true).unwrap();
        assert_eq!(first.split(' ').count(), 3, "{first}");
        assert_eq!(open.len(), 1);
        while stamp(&mut open, true).unwrap() == first {
            std::thread::yield_now();
        }
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert_eq!(stamp(&mut open, true), None);
        assert!(open.is_empty());
        let mut none = Open::new();
        let own = std::process::id();
        assert!(super::stamp(&mut none, own, false, &mut Vec::new()).is_some());
        assert!(none.is_empty());
    }

    #[test]
    fn a_childs_parent_is_found() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let own = std::process::id();
        assert_eq!(parent_of(child.id()), Some(own));
        assert!(children_by_scan(own).contains(&child.id()));
        // Its parent is this thread, not the first one, whose children the kernel lists.
        assert_eq!(processes(own).first(), Some(&own));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(parent_of(u32::MAX), None);
    }
}
