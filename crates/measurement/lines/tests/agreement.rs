//! Three ways to see the accesses of one program: stepped by ptrace and decoded by us; executed by
//! valgrind's lackey, which translates the code and knows nothing of ours; and recorded under qemu by our
//! plugin, which is told of accesses by the emulator.
#![cfg(target_arch = "x86_64")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pgassay_lines::emulated::control::Control;
use pgassay_lines::emulated::{self, compile};
use pgassay_lines::record::{Signals, record};
use pgassay_lines::recording::{Kind, Recording};

/// Where the program has its shared memory.
const SHARED: std::ops::Range<u64> = 0x6000_0000_0000..0x6000_0001_0000;

/// Reads and writes of each byte's first access, by address and length.
type Counts = BTreeMap<(u64, u32), (u64, u64)>;

struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pgassay-lines-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn program(&self) -> PathBuf {
        let program = self.0.join("accesses");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/accesses.c");
        let compiled = Command::new("cc")
            .args(["-O1", "-o"])
            .args([&program, &source])
            .status()
            .expect("a C compiler");
        assert!(compiled.success());
        program
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// By lackey's own words: I, L, S, M (a load and a store of the same place).
fn by_lackey(program: &Path, log: &Path) -> Counts {
    let mut child = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes"])
        .arg(format!("--log-file={}", log.display()))
        .arg(program)
        .stdin(Stdio::piped())
        .spawn()
        .expect("valgrind");
    child.stdin.take().unwrap().write_all(b"x").unwrap();
    assert!(child.wait().unwrap().success());
    let mut counts = Counts::new();
    for line in fs::read_to_string(log).unwrap().lines() {
        let Some((kind, place)) = line.trim().split_once(' ') else {
            continue;
        };
        let Some((address, size)) = place.trim().split_once(',') else {
            continue;
        };
        let (Ok(address), Ok(size)) = (u64::from_str_radix(address, 16), size.parse()) else {
            continue;
        };
        if SHARED.contains(&address) {
            let count = counts.entry((address, size)).or_default();
            count.0 += u64::from(kind == "L" || kind == "M");
            count.1 += u64::from(kind == "S" || kind == "M");
        }
    }
    counts
}

fn until(what: &str, mut it_is: impl FnMut() -> bool) {
    let late = Instant::now() + Duration::from_secs(60);
    while !it_is() {
        assert!(Instant::now() < late, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the process sleeps, and nobody traces it.
fn asleep(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(!status.contains("State:\tZ"), "it ended: {status}");
    status.contains("State:\tS") && status.contains("TracerPid:\t0\n")
}

/// Until the program has its shared memory and waits for its input.
fn until_it_waits(pid: u32) {
    let shared = format!("{:x}-", SHARED.start);
    let maps = || fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    until("a wait", || maps().contains(&shared) && asleep(pid));
}

fn by_stepping(program: &Path) -> Counts {
    let mut child = Command::new(program).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let signals = Signals::default();
    let stop = AtomicBool::new(false);
    until_it_waits(child.id());
    let recording = thread::scope(|scope| {
        let recorder = scope.spawn(|| record(child.id(), &signals, None, &stop));
        while !signals.ready.load(Ordering::Acquire) && !recorder.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        input.write_all(b"x").unwrap();
        // It works on its own; then it waits again.
        thread::sleep(Duration::from_millis(500));
        signals.done.store(true, Ordering::Release);
        recorder.join().unwrap()
    });
    drop(input);
    assert!(child.wait().unwrap().success());
    let recording = recording.unwrap();
    assert_eq!(recording.unresolved, 0);
    counted(&recording)
}

fn counted(recording: &Recording) -> Counts {
    let mut counts = Counts::new();
    for access in &recording.accesses {
        let count = counts.entry((access.address, access.size)).or_default();
        count.0 += u64::from(matches!(access.kind, Kind::Load | Kind::Atomic));
        count.1 += u64::from(matches!(access.kind, Kind::Store | Kind::Atomic));
    }
    counts
}

#[test]
fn ptrace_and_valgrind_see_the_same() {
    let place = Place::new();
    let program = place.program();
    let mut lackey = by_lackey(&program, &place.0.join("log"));
    // valgrind makes an addition and an exchange of a read and a compare-and-swap, and so sees one
    // read more for each; a compare-and-swap is one in both.
    for key in [(SHARED.start + 1024, 4), (SHARED.start + 1090, 1)] {
        let reads = &mut lackey.get_mut(&key).expect("the word").0;
        assert_eq!(*reads, 100, "{key:x?}");
        *reads -= 50;
    }
    let stepped = by_stepping(&program);
    assert!(stepped.len() > 200, "{stepped:?}");
    let differing: Vec<_> = stepped
        .keys()
        .chain(lackey.keys())
        .filter(|key| stepped.get(key) != lackey.get(key))
        .map(|key| format!("{key:x?}: {:?}, {:?}", stepped.get(key), lackey.get(key)))
        .collect();
    assert!(differing.is_empty(), "stepped, lackey: {differing:#?}");
}

fn by_emulator(place: &Place, program: &Path) -> Recording {
    let plugin = compile(&place.0).unwrap();
    let control = Control::make(&place.0.join("control")).unwrap();
    let option = format!("{},control={}", plugin.display(), control.path().display());
    let mut child = Command::new("qemu-x86_64")
        .args(["-cpu", "max", "-plugin", &option])
        .arg(program)
        .stdin(Stdio::piped())
        .spawn()
        .expect("qemu-x86_64 (Debian: qemu-user)");
    let mut input = child.stdin.take().unwrap();
    until_it_waits(child.id());
    let stop = AtomicBool::new(false);
    let recording = emulated::record(child.id(), &control, &stop, &mut || {
        input.write_all(b"x").unwrap();
        Ok(())
    });
    drop(input);
    assert!(child.wait().unwrap().success());
    recording.unwrap()
}

#[test]
fn ptrace_and_the_emulator_see_the_same() {
    let place = Place::new();
    let program = place.program();
    let recording = by_emulator(&place, &program);
    let (stepped, mut emulated) = (by_stepping(&program), counted(&recording));
    // Strings compared here lie side by side, and so are taken for the halves of one operand. No
    // instruction of the processors that are emulated otherwise has two operands in memory.
    let strings = SHARED.start + 8192..SHARED.start + 9000;
    let joined: Vec<_> = emulated
        .iter()
        .filter(|((address, size), _)| strings.contains(address) && *size == 16)
        .map(|(place, count)| (*place, *count))
        .collect();
    emulated.retain(|place, _| !joined.iter().any(|(joined, _)| joined == place));
    assert_eq!(joined.len(), 33, "{joined:?}");
    for ((address, _), (reads, writes)) in joined {
        for half in [(address, 8), (address + 8, 8)] {
            let count = emulated.entry(half).or_default();
            *count = (count.0 + reads, count.1 + writes);
        }
    }
    let differing: Vec<_> = stepped
        .keys()
        .chain(emulated.keys())
        .filter(|key| stepped.get(key) != emulated.get(key))
        .map(|key| format!("{key:x?}: {:?}, {:?}", stepped.get(key), emulated.get(key)))
        .collect();
    assert!(differing.is_empty(), "stepped, emulated: {differing:#?}");
    // One wait before the work, one after it.
    assert_eq!(recording.pauses, [0, recording.accesses.len()]);
    let atomics = recording.accesses.iter().filter(|a| a.kind == Kind::Atomic);
    assert_eq!(atomics.count(), 4 * 50);
}

/// What can't be stepped is refused before a step, and goes on.
#[test]
fn programs_of_32_bits_and_emulators_are_refused() {
    let place = Place::new();
    let refused = |command: &mut Command, says: &str| {
        let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
        until("a wait", || asleep(child.id()));
        let recorded = record(
            child.id(),
            &Signals::default(),
            None,
            &AtomicBool::new(false),
        );
        let message = recorded.unwrap_err().message;
        assert!(message.contains(says), "{message}");
        until("a wait again", || asleep(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    };
    let (source, program) = (place.0.join("pauses.c"), place.0.join("pauses"));
    // No library: those of 32 bits are another package. 29 is pause.
    let text = "void _start(void) { for (;;) __asm__ volatile(\"int $0x80\" : : \"a\"(29)); }\n";
    fs::write(&source, text).unwrap();
    let compiled = Command::new("cc")
        .args(["-m32", "-nostdlib", "-static", "-o"])
        .args([&program, &source])
        .status()
        .expect("a C compiler");
    assert!(compiled.success());
    refused(&mut Command::new(&program), "32-bit code");

    let mut emulated = Command::new("qemu-x86_64");
    refused(emulated.arg(place.program()), "not the server itself");
}
