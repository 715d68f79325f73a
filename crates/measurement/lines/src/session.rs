//! A session of a server, recorded and named.

#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "powerpc64"
))]
mod step;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pgassay_model::Failure;
use pgassay_pgwire::{QueryError, Session};
use pgassay_sys::memory;

use crate::images::Images;
use crate::map::Map;
use crate::names::areas::Area;
use crate::names::memory::Memory;
use crate::names::relations::Relations;
use crate::names::{self, Survey};
use crate::recording::Recording;
use crate::sequence::Sequence;

#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "powerpc64"
))]
pub use self::step::step;

/// What a server has to say before its sessions can be named.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its version, in its own words.
    pub version: String,
    /// `server_version_num`.
    pub version_num: u32,
    /// Bytes of a block.
    pub block_size: u64,
    /// Its relations.
    pub relations: Relations,
}

impl Server {
    /// Asks a server.
    ///
    /// # Errors
    /// Where the session breaks.
    pub fn ask(session: &mut Session) -> Result<Self, QueryError> {
        let version = session.value("SELECT pg_catalog.version()")?;
        let number = session.value("SHOW server_version_num")?;
        let block = session.value("SHOW block_size")?;
        let parsed = |text: Option<String>| text.and_then(|text| text.parse().ok());
        Ok(Self {
            version: version.unwrap_or_default(),
            version_num: parsed(number).unwrap_or(0) as u32,
            block_size: parsed(block).unwrap_or(8192),
            relations: Relations::ask(session)?,
        })
    }
}

/// A session's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its number here.
    pub pid: u32,
    /// Its number as the server knows it: another one in a container.
    pub own_pid: u32,
}

impl Process {
    /// The child of a postmaster that the server knows by this number.
    ///
    /// # Errors
    /// Where it can't be seen from here.
    pub fn find(postmaster: u32, own_pid: u32) -> Result<Self, Failure> {
        let path = format!("/proc/{postmaster}/task/{postmaster}/children");
        let children = fs::read_to_string(&path)
            .map_err(|error| Failure::target(format!("{path}: {error}")))?;
        let pids = children
            .split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok());
        for pid in pids {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            if innermost(&status) == Some(own_pid) {
                return Ok(Self { pid, own_pid });
            }
        }
        Err(Failure::target(format!(
            "the session's process {own_pid} is not among the server's on this machine"
        ))
        .with_remedy("connect to the server itself, over its Unix socket: not through a pooler"))
    }
}

/// The number of a process in the innermost namespace (proc_pid_status(5), NSpid).
fn innermost(status: &str) -> Option<u32> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

/// A recording of a process that is still there, in PostgreSQL's words. `program` is what it executes.
///
/// # Errors
/// Where the process is gone.
pub fn named(
    recording: &Recording,
    process: Process,
    server: &Server,
    program: &Path,
    transactions: u64,
) -> Result<(Sequence, Vec<String>), Failure> {
    let others = recording.segments.clone();
    surveyed(process, server, program, others, &mut |survey, images| {
        let mut sequence = Sequence::new(
            recording,
            transactions,
            &mut |address| survey.name(address),
            &mut |address| {
                let function = images.function(address);
                (function.name, function.named)
            },
        );
        sequence.areas = survey.areas();
        let mut segments = images.map().shared();
        segments.retain(|part| part.canonical() != part.range.start);
        sequence.areas.extend(segments.into_iter().map(|part| Area {
            name: survey.name(part.canonical()).whole(),
            start: part.canonical(),
            end: part.canonical() + (part.range.end - part.range.start),
        }));
        (sequence, survey.doubts.clone())
    })
}

/// What is made of a map of a server's shared memory, as one of its processes sees it. `others` are segments
/// beside the main one, by where they are recorded to begin.
///
/// # Errors
/// Where the process is gone.
pub fn surveyed<T>(
    process: Process,
    server: &Server,
    program: &Path,
    others: BTreeMap<u64, String>,
    make: &mut dyn FnMut(&Survey<'_>, &mut Images) -> T,
) -> Result<T, Failure> {
    let map = map_of(process.pid)?;
    let main = map
        .shared()
        .into_iter()
        .find(|part| part.segment() == "main segment");
    let main = main.map_or(0..0, |part| part.range);
    let mut images = Images::new(process.pid, map);
    let session = names::Session {
        pid: process.own_pid,
        version_num: server.version_num,
        block_size: server.block_size,
        variables: images.variables(&program.to_string_lossy()),
        main: (main.start, main.end),
        others,
    };
    let read = |address: u64, into: &mut [u8]| memory::read(process.pid, address, into).is_ok();
    let survey = Survey::new(Memory::new(&read), session, server.relations.clone());
    Ok(make(&survey, &mut images))
}

/// The parts of a process' memory.
///
/// # Errors
/// Where it is gone, or somebody else's.
pub fn map_of(pid: u32) -> Result<Map, Failure> {
    let path = format!("/proc/{pid}/maps");
    let text = fs::read_to_string(&path);
    let text = text.map_err(|error| Failure::target(format!("{path}: {error}")))?;
    Ok(Map::parse(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_process_in_its_container() {
        let status = "Name:\tpostgres\nNStgid:\t4711\t12\nNSpid:\t4711\t12\n";
        assert_eq!(innermost(status), Some(12));
        assert_eq!(innermost("Name:\tpostgres\n"), None);
    }

    #[test]
    fn only_children_of_the_server_are_stepped() {
        let us = std::process::id();
        let error = Process::find(us, us).unwrap_err();
        assert!(error.remedy.unwrap().contains("Unix socket"));
    }
}
