//! A server of another processor: its session runs under qemu's user emulator, and a plugin of ours
//! records what it accesses.
//!
//! The session is not stepped: it runs at the emulator's speed, some hundred times slower than on a
//! processor. As in [`crate::record`], each of its reads of the socket is waited for; the caller sees
//! to that, by letting the client's messages through only when the session waits for them.

pub mod control;
pub mod events;
pub mod processor;

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pgassay_model::Failure;
use pgassay_sys::qemu;

use self::control::Control;
use self::events::Events;
use crate::map::Map;
use crate::recording::Recording;

/// The plugin's source; compiled where it is used.
const PLUGIN: &str = include_str!("plugin.c");
/// How long a session may take to wait for its client again after its last answer.
const SETTLING: Duration = Duration::from_secs(30);
/// The longest record that is read: some 60 million accesses.
const MOST: u64 = 2 << 30;

/// Compiles the plugin into a directory.
///
/// # Errors
/// Where there is no C compiler, or it does not compile.
pub fn compile(dir: &Path) -> Result<PathBuf, Failure> {
    qemu::compile(dir, "plugin", PLUGIN).map_err(|lacking| Failure {
        remedy: lacking.remedy.map(str::to_owned),
        ..Failure::target(format!("the emulator's plugin: {}", lacking.what))
    })
}

/// Records what `client` has a process do, which is one that waits for its client under the emulator
/// with the plugin. `client` returns when it has all answers.
///
/// # Errors
/// Where the process ends, or its record is not whole; what the client came to; where it was stopped.
pub fn record(
    pid: u32,
    control: &Control,
    stop: &AtomicBool,
    client: &mut dyn FnMut() -> Result<(), Failure>,
) -> Result<Recording, Failure> {
    let path = format!("/proc/{pid}/maps");
    let map = fs::read_to_string(&path).map_err(|_| ended(pid))?;
    let shared = Map::parse(&map).shared();
    // What the emulator shares with us is no memory of the server's.
    let shared: Vec<_> = shared
        .into_iter()
        .filter(|part| part.path != control.path().to_string_lossy())
        .map(|part| (part.range.clone(), part.canonical(), part.path))
        .collect();
    let ranges: Vec<_> = shared.iter().map(|(range, ..)| range.clone()).collect();
    let on = control.on(pid, &ranges).map_err(|error| broken(&error))?;
    let began = Instant::now();
    client()?;
    let bytes = settled(pid, control, stop)?;
    drop(on);
    let seconds = began.elapsed().as_secs_f64();
    let mut recording = Events::recording(&bytes, &shared)?;
    recording.seconds = seconds;
    Ok(recording)
}

/// The record, once the process waits for its client again.
fn settled(pid: u32, control: &Control, stop: &AtomicBool) -> Result<Vec<u8>, Failure> {
    let until = Instant::now() + SETTLING;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::interrupted());
        }
        let bytes = read(&control.events()).map_err(|error| broken(&error))?;
        if Events::ends_in_a_wait(&bytes) && asleep(pid)? {
            // Nothing came while we looked.
            let again = read(&control.events()).map_err(|error| broken(&error))?;
            if again.len() == bytes.len() {
                return Ok(bytes);
            }
        }
        if Instant::now() > until {
            return Err(Failure::target(format!(
                "the emulator recorded nothing of process {pid} up to a wait for its client"
            ))
            .with_remedy(
                "qemu's user emulator from 4.2 to 8.2, the dynamic one (Debian 12: qemu-user)",
            ));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(MOST).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    Ok(bytes)
}

fn asleep(pid: u32) -> Result<bool, Failure> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|_| ended(pid))?;
    let after = stat.rfind(')').map_or("", |at| &stat[at + 1..]);
    match after.trim_start().chars().next() {
        Some('Z' | 'X') => Err(ended(pid)),
        state => Ok(state == Some('S')),
    }
}

fn ended(pid: u32) -> Failure {
    Failure::target(format!(
        "the session's process {pid} ended while it was recorded"
    ))
    .with_remedy("look into the server's log for why")
}

fn broken(error: &std::io::Error) -> Failure {
    Failure::target(format!("the emulator's record: {error}"))
}
