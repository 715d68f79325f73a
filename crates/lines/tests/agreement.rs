//! Two ways to see the accesses of one program: stepped by ptrace and decoded by us, and executed by
//! valgrind's lackey, which translates the code and knows nothing of ours.
#![cfg(target_arch = "x86_64")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pgassay_lines::record::{Signals, record};
use pgassay_lines::recording::Kind;

/// Where the program has its shared memory.
const SHARED: std::ops::Range<u64> = 0x6000_0000_0000..0x6000_0001_0000;

/// Reads and writes of each byte's first access, by address and length.
type Counts = BTreeMap<(u64, u32), (u64, u64)>;

struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("pgassay-lines-{}", std::process::id()));
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

fn by_stepping(program: &Path) -> Counts {
    let mut child = Command::new(program).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let signals = Signals::default();
    let stop = AtomicBool::new(false);
    // Until it waits, with its handler set.
    thread::sleep(Duration::from_millis(200));
    let recording = thread::scope(|scope| {
        let recorder = scope.spawn(|| record(child.id(), &signals, &stop));
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
