//! The program `perf`, as far as it samples accesses to memory.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pgassay_model::Failure;
use pgassay_readings::memory::script::FIELDS;
use pgassay_sys::private::Directory;
use rustix::process::Signal;

/// Where the kernel lists what can count and sample.
pub const DEVICES: &str = "/sys/bus/event_source/devices";
/// Samples a second on each CPU.
const HZ: &str = "1000";
/// Operations from one sample of Arm's SPE to the next: at 3 GHz as many a second as others take.
const OPERATIONS: &str = "1000003";
/// Between two looks at the server's processes.
const BETWEEN: Duration = Duration::from_millis(200);
/// How long perf may take to start and to write its file, beside the time that it samples.
const PATIENCE: Duration = Duration::from_secs(120);
/// The longest line of its text that is kept.
const LONGEST: u64 = 1 << 17;

/// How this processor's accesses to memory are sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// What it is called.
    pub name: &'static str,
    /// The arguments of perf for it, before those that all have.
    record: Vec<String>,
}

/// The way that the kernel's list of devices offers.
pub fn way(devices: &Path) -> Option<Way> {
    let of = |name, words: &[&str]| Way {
        name,
        record: words.iter().map(|word| (*word).to_owned()).collect(),
    };
    // Intel's loads above a latency and its stores; POWER's have the same names. perf knows what goes with them on
    // which processor.
    for core in ["cpu", "cpu_core"] {
        if devices.join(core).join("events/mem-loads").exists() {
            return Some(of("perf mem record", &["mem", "record", "--freq", HZ]));
        }
    }
    if devices.join("ibs_op").exists() {
        let words = [
            "record", "--event", "ibs_op//", "--freq", HZ, "--data", "--weight",
        ];
        return Some(of("perf record, AMD IBS", &words));
    }
    let mut names: Vec<String> = fs::read_dir(devices)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("arm_spe_"))
        .collect();
    names.sort();
    let spe = names.first()?;
    let event = format!("{spe}/ts_enable=1,jitter=1,load_filter=1,store_filter=1,min_latency=0/");
    let words = ["record", "--event", &event, "--count", OPERATIONS, "--data"];
    Some(of("perf record, Arm SPE", &words))
}

/// The program and the way to use it here.
///
/// # Errors
/// Why there is none, with what would help.
pub fn ready() -> Result<(PathBuf, Way), Failure> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let paranoid = pgassay_sys::perf::paranoid();
    ready_by(
        Path::new(DEVICES),
        pgassay_sys::programs::in_path("perf"),
        is_virtual(&cpuinfo),
        paranoid.filter(|_| !rustix::process::geteuid().is_root()),
    )
}

fn is_virtual(cpuinfo: &str) -> bool {
    cpuinfo.lines().any(|line| {
        line.starts_with("flags") && line.split_ascii_whitespace().any(|f| f == "hypervisor")
    })
}

/// `paranoid` is what the kernel allows those who are not root; none for root.
fn ready_by(
    devices: &Path,
    program: Option<PathBuf>,
    is_virtual: bool,
    paranoid: Option<i32>,
) -> Result<(PathBuf, Way), Failure> {
    let Some(way) = way(devices) else {
        let why = match is_virtual {
            true => "the hypervisor of this virtual machine gives it none",
            false => "its processor or kernel has none",
        };
        return Err(Failure::target(format!(
            "memory accesses can't be sampled here: none of cpu/mem-loads, ibs_op and arm_spe is in {}: {why}",
            devices.display()
        ))
        .with_remedy(
            "leave out --sample: lines counts without; or sample on a machine that is not virtual, write that with \
             --json to a file, and name the file here with --sampled",
        ));
    };
    let Some(program) = program else {
        return Err(Failure::target("the program perf is not in the PATH").with_remedy(
            "install it: linux-perf on Debian, linux-tools-$(uname -r) on Ubuntu, perf on Red Hat and SUSE",
        ));
    };
    if let Some(level) = paranoid.filter(|level| *level > 0) {
        return Err(Failure::target(format!(
            "kernel.perf_event_paranoid is {level}: only root samples all CPUs"
        ))
        .with_remedy("run as root, or: sysctl kernel.perf_event_paranoid=0"));
    }
    Ok((program, way))
}

/// What perf recorded.
#[derive(Debug)]
pub struct Recorded {
    program: PathBuf,
    directory: Directory,
    /// How long it sampled.
    pub seconds: f64,
}

/// Samples all CPUs for so long; `look` is called now and then meanwhile.
///
/// # Errors
/// What perf said, or that the user gave up.
pub fn record(
    program: &Path,
    way: &Way,
    seconds: u32,
    stop: &AtomicBool,
    look: &mut dyn FnMut(),
) -> Result<Recorded, Failure> {
    let base = std::env::temp_dir();
    let directory = Directory::make(&base, "pgassay-sampled")
        .map_err(|error| Failure::target(format!("{}: {error}", base.display())))?;
    let recorded = Recorded {
        program: program.to_owned(),
        directory,
        seconds: f64::from(seconds),
    };
    let mut command = pgassay_sys::programs::command(program);
    command
        .args(&way.record)
        .args(["--all-cpus", "--output"])
        .arg(recorded.data())
        .args(["--", "sleep", &seconds.to_string()])
        .stdout(Stdio::null());
    let mut child = recorded.spawn(command)?;
    let until = Instant::now() + Duration::from_secs(u64::from(seconds)) + PATIENCE;
    let status = loop {
        look();
        let ended = child.try_wait();
        match ended.map_err(|error| recorded.failed("record", &error.to_string()))? {
            Some(status) => break status,
            None if stop.load(Ordering::Relaxed) => {
                end(&mut child);
                return Err(Failure::interrupted());
            }
            None if Instant::now() > until => {
                end(&mut child);
                return Err(recorded.failed("record", "it did not end"));
            }
            None => thread::sleep(BETWEEN),
        }
    };
    recorded.ended_well("record", status)?;
    Ok(recorded)
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

impl Recorded {
    fn data(&self) -> PathBuf {
        self.directory.path().join("perf.data")
    }

    fn said(&self) -> PathBuf {
        self.directory.path().join("said")
    }

    fn spawn(&self, mut command: Command) -> Result<Child, Failure> {
        let said = self.said();
        let errors = File::create(&said)
            .map_err(|error| Failure::target(format!("{}: {error}", said.display())))?;
        command.stdin(Stdio::null()).stderr(errors);
        pgassay_sys::bound::spawn(command, Signal::KILL)
            .map_err(|error| Failure::target(format!("{}: {error}", self.program.display())))
    }

    fn failed(&self, what: &str, why: &str) -> Failure {
        Failure::target(format!("perf {what}: {why}"))
    }

    fn ended_well(&self, what: &str, status: ExitStatus) -> Result<(), Failure> {
        if status.success() {
            return Ok(());
        }
        let mut said = String::new();
        let file = File::open(self.said()).map(|file| file.take(4096).read_to_string(&mut said));
        drop(file);
        let mut lines = said.lines().map(str::trim);
        let why = lines.find(|line| !line.is_empty() && *line != "Error:");
        let why = why.unwrap_or("it said nothing");
        Err(self.failed(what, &format!("{why} ({status})")))
    }

    /// Its text, line by line. `again` forgets what came before: perf refuses fields that an event lacks, and is
    /// then asked for fewer.
    ///
    /// # Errors
    /// What perf said, or that the user gave up.
    pub fn text(
        &self,
        stop: &AtomicBool,
        line: &mut dyn FnMut(&str),
        again: &mut dyn FnMut(),
    ) -> Result<(), Failure> {
        let without_weight = FIELDS.replace(",weight", "");
        let mut failure = None;
        for fields in [FIELDS, &without_weight, "+addr,+data_src"] {
            let mut command = pgassay_sys::programs::command(&self.program);
            command
                .args(["script", "--itrace=M", "--fields", fields, "--input"])
                .arg(self.data())
                .stdout(Stdio::piped());
            let mut child = self.spawn(command)?;
            let read = child.stdout.take().map(|pipe| lines_of(pipe, stop, line));
            if !matches!(read, Some(Ok(()))) {
                let _ = child.kill();
            }
            let status = child.wait();
            match read {
                Some(Ok(())) => {}
                Some(Err(failure)) => return Err(failure),
                None => return Err(self.failed("script", "it could not be read")),
            }
            let status = status.map_err(|error| self.failed("script", &error.to_string()))?;
            match self.ended_well("script", status) {
                Ok(()) => return Ok(()),
                Err(why) => failure = failure.or(Some(why)),
            }
            again();
        }
        Err(failure.unwrap_or_else(|| self.failed("script", "it said nothing")))
    }
}

/// The lines of a text of any length, one at a time. Of one that is too long, the beginning is given.
///
/// # Errors
/// Where it can't be read, or the user gave up.
pub fn lines_of(
    text: impl Read,
    stop: &AtomicBool,
    line: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    let mut text = BufReader::with_capacity(1 << 16, text);
    let mut bytes = Vec::new();
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::interrupted());
        }
        bytes.clear();
        let failed = |error: std::io::Error| Failure::target(format!("perf's text: {error}"));
        let read = text.by_ref().take(LONGEST).read_until(b'\n', &mut bytes);
        if read.map_err(failed)? == 0 {
            return Ok(());
        }
        let whole = bytes.last() == Some(&b'\n') || (bytes.len() as u64) < LONGEST;
        line(&String::from_utf8_lossy(&bytes));
        if !whole {
            text.skip_until(b'\n').map_err(failed)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let name = format!("pgassay-sampling-{name}-{}", std::process::id());
            let place = std::env::temp_dir().join(name);
            fs::create_dir_all(&place).unwrap();
            Self(place)
        }

        fn device(&self, path: &str) -> &Path {
            fs::create_dir_all(self.0.join(path)).unwrap();
            &self.0
        }

        fn program(&self, text: &str) -> PathBuf {
            let program = self.0.join("perf");
            fs::write(&program, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            program
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn processors_by_their_devices() {
        let name = |place: &Place| way(&place.0).map(|way| way.record.join(" "));
        let none = Place::new("none");
        none.device("software");
        none.device("cpu/events");
        assert_eq!(name(&none), None);
        let intel = Place::new("intel");
        intel.device("cpu_core/events/mem-loads");
        assert!(name(&intel).unwrap().starts_with("mem record"));
        let amd = Place::new("amd");
        amd.device("ibs_op");
        assert!(name(&amd).unwrap().contains("--event ibs_op//"));
        let arm = Place::new("arm");
        arm.device("arm_spe_1");
        arm.device("arm_spe_0");
        assert!(name(&arm).unwrap().contains("arm_spe_0/ts_enable=1"));
    }

    #[test]
    fn a_refusal_says_why_and_what_helps() {
        let none = Place::new("refused");
        let perf = || Some(PathBuf::from("/usr/bin/perf"));
        let failed = |devices: &Place, perf, of_virtual, paranoid| {
            let failure = ready_by(&devices.0, perf, of_virtual, paranoid).unwrap_err();
            (failure.message, failure.remedy.unwrap())
        };
        let (why, remedy) = failed(&none, perf(), true, None);
        assert!(
            why.contains("hypervisor") && remedy.contains("--sampled"),
            "{why}"
        );
        assert!(
            failed(&none, perf(), false, None)
                .0
                .contains("processor or kernel")
        );
        let amd = Place::new("refused-amd");
        amd.device("ibs_op");
        let (why, remedy) = failed(&amd, None, false, None);
        assert!(why.contains("perf is not in the PATH") && remedy.contains("linux-perf"));
        let (why, remedy) = failed(&amd, perf(), false, Some(2));
        assert!(why.contains("is 2") && remedy.contains("perf_event_paranoid=0"));
        assert!(ready_by(&amd.0, perf(), false, Some(0)).is_ok());
        assert!(is_virtual("flags\t\t: fpu hypervisor lm\n") && !is_virtual("flags : fpu\n"));
    }

    fn of(place: &Place, program: &str) -> Result<Vec<String>, Failure> {
        let program = place.program(program);
        let way = way(place.device("ibs_op")).unwrap();
        let (stop, mut looks) = (AtomicBool::new(false), 0);
        let recorded = record(&program, &way, 1, &stop, &mut || looks += 1)?;
        assert!(looks > 0);
        let lines = std::cell::RefCell::new(Vec::new());
        recorded.text(
            &stop,
            &mut |line| lines.borrow_mut().push(line.trim_end().to_owned()),
            &mut || lines.borrow_mut().clear(),
        )?;
        Ok(lines.into_inner())
    }

    #[test]
    fn what_the_program_recorded() {
        let place = Place::new("program");
        let lines = of(
            &place,
            "case $1 in\n\
             record) while [ \"$1\" != --output ]; do shift; done; echo recorded >\"$2\" ;;\n\
             script) case \"$*\" in *,weight*) echo partly; echo 'no WEIGHT attribute' >&2; exit 255 ;; esac\n\
             while [ \"$1\" != --input ]; do shift; done; cat \"$2\" ;;\nesac",
        );
        assert_eq!(lines.unwrap(), ["recorded"]);
    }

    #[test]
    fn what_the_program_refused() {
        let place = Place::new("refusing");
        let failure = of(
            &place,
            "echo Error: >&2; echo 'no memory events' >&2; exit 129",
        );
        let message = failure.unwrap_err().message;
        assert!(
            message.starts_with("perf record: no memory events"),
            "{message}"
        );
        let failure = of(
            &place,
            "case $1 in record) ;; *) echo 'no such field' >&2; exit 1 ;; esac",
        );
        let message = failure.unwrap_err().message;
        assert!(
            message.starts_with("perf script: no such field"),
            "{message}"
        );
    }

    #[test]
    fn lines_of_any_length() {
        let mut text = vec![b'x'; LONGEST as usize + 7];
        text.extend_from_slice(b"\nnext\xff\nlast");
        let mut lines = Vec::new();
        let stop = AtomicBool::new(false);
        lines_of(&text[..], &stop, &mut |line| {
            lines.push(line.trim_end().to_owned())
        })
        .unwrap();
        assert_eq!(lines[0].len(), LONGEST as usize);
        assert_eq!(lines[1..], ["next\u{fffd}", "last"]);
        stop.store(true, Ordering::Relaxed);
        assert!(lines_of(&text[..], &stop, &mut |_| {}).is_err());
    }
}
