//! Reads one host, from whatever somebody put there.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use pgassay_analysis::fleet::{Host, Unused};
use pgassay_analysis::number::counted;
use pgassay_analysis::{analyse, compare};
use pgassay_engine::rundir;
use pgassay_model::facts::{FACTS_SCHEMA, Facts};
use pgassay_records as records;
use rustix::fs::OFlags;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::walk::{Item, What};

/// Larger files are no facts: those of a large machine take under 2 MiB.
const LARGEST_FACTS: u64 = 16 << 20;
/// Of larger runs nothing is read: all of a run is in memory at once.
const LARGEST_RUN: u64 = 128 << 20;
/// Facts begin so, within their first bytes.
const MARK: &str = "\"pgassay/facts/";
/// Bytes in which that stands.
const HEAD: usize = 256;
/// What would have to be unpacked.
const PACKED: &[&str] = &["gz", "tgz", "xz", "zst", "bz2", "zip", "tar", "7z"];

/// Why something is no host.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) because: Unused,
    pub(super) why: String,
}

fn refused<T>(because: Unused, why: impl Into<String>) -> Result<T, Refused> {
    let why = why.into();
    Err(Refused { because, why })
}

/// Reads a host, or those of tables. Nothing that is in a file ends more than that file.
pub(super) fn hosts(item: &Item) -> Vec<Result<Host, Refused>> {
    let read = catch_unwind(AssertUnwindSafe(|| match item.what {
        What::Run => vec![of_run(item)],
        What::File => vec![of_file(item)],
        What::Tables => of_tables(item),
    }));
    read.unwrap_or_else(|_| {
        vec![refused(
            Unused::Damaged,
            "pgassay fails on it: please report that",
        )]
    })
}

/// All hosts of a directory of tables, or why none.
fn of_tables(item: &Item) -> Vec<Result<Host, Refused>> {
    match records::hosts(&item.path, &item.origin) {
        Ok(read) => {
            let outdated = (read.outdated > 0).then(|| {
                let n = counted(read.outdated, "run");
                let why = format!("an older pgassay exported {n} of it: export them again");
                refused(Unused::Unreadable, why)
            });
            read.hosts.into_iter().map(Ok).chain(outdated).collect()
        }
        Err(error) => {
            let because = match &error {
                records::Error::Newer { .. } => Unused::Newer,
                records::Error::Write { .. } | records::Error::Damaged { .. } => Unused::Damaged,
            };
            vec![refused(because, error.to_string())]
        }
    }
}

fn of_file(item: &Item) -> Result<Host, Refused> {
    let ending = item.path.extension().and_then(|ending| ending.to_str());
    if ending.is_some_and(|ending| PACKED.contains(&ending.to_ascii_lowercase().as_str())) {
        return refused(Unused::Unreadable, "packed: unpack it first");
    }
    let mut file = open(&item.path)?;
    let length = file.metadata().map_or(item.bytes, |meta| meta.len());
    let unreadable = |e: std::io::Error| Refused {
        because: Unused::Unreadable,
        why: e.to_string(),
    };
    let mut text = Vec::new();
    let head = Read::take(&mut file, HEAD as u64).read_to_end(&mut text);
    head.map_err(unreadable)?;
    let marked = is_marked(&text);
    if !marked && (ending != Some("json") || length > LARGEST_FACTS) {
        return refused(Unused::Foreign, "no collected facts");
    }
    if length > LARGEST_FACTS {
        let mib = length >> 20;
        return refused(
            Unused::TooLarge,
            format!("it has {mib} MiB: facts take under 2"),
        );
    }
    let rest = Read::take(&mut file, LARGEST_FACTS).read_to_end(&mut text);
    rest.map_err(unreadable)?;
    // Other programs order keys as they like.
    if !is_marked(&text) {
        return match serde_json::from_slice::<IgnoredAny>(&text) {
            Ok(_) => refused(Unused::Foreign, "another JSON document"),
            Err(_) if text.is_empty() => refused(Unused::Damaged, "it is empty"),
            Err(e) => refused(Unused::Damaged, format!("not JSON: {e}")),
        };
    }
    let facts = match serde_json::from_slice::<Facts>(&text) {
        Ok(facts) if facts.schema == FACTS_SCHEMA => facts,
        Ok(facts) => return newer(&facts.schema),
        // Another version may have another form.
        Err(e) => match serde_json::from_slice::<Schema>(&text) {
            Ok(Schema { schema }) if schema != FACTS_SCHEMA => return newer(&schema),
            _ => return refused(Unused::Damaged, e.to_string()),
        },
    };
    drop(text);
    Ok(Host {
        origin: item.origin.clone(),
        ..Host::of_facts(&item.name, item.place(), &facts)
    })
}

fn is_marked(text: &[u8]) -> bool {
    text.windows(MARK.len()).any(|part| part == MARK.as_bytes())
}

/// What is looked at where a document is not understood.
#[derive(Deserialize)]
struct Schema {
    schema: String,
}

fn newer<T>(schema: &str) -> Result<T, Refused> {
    refused(
        Unused::Newer,
        format!("it holds {schema}; this pgassay reads {FACTS_SCHEMA}"),
    )
}

/// Opens a file as it was found: a link or a FIFO that has taken its place since is refused.
fn open(path: &Path) -> Result<File, Refused> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path);
    match opened {
        Ok(file) if file.metadata().is_ok_and(|meta| meta.is_file()) => Ok(file),
        Ok(_) => refused(Unused::NoFile, "neither a file nor a directory"),
        Err(e) => refused(Unused::Unreadable, e.to_string()),
    }
}

fn of_run(item: &Item) -> Result<Host, Refused> {
    let dir = &item.path;
    match rundir::irregular(dir) {
        Ok(None) => {}
        Ok(Some(found)) => {
            let name = found.file_name().unwrap_or_default().display().to_string();
            let why = format!("{name} in it is neither a file nor a directory");
            return refused(Unused::NoFile, why);
        }
        Err(e) => return refused(Unused::Unreadable, e.to_string()),
    }
    if item.bytes > LARGEST_RUN {
        let (mib, largest) = (item.bytes >> 20, LARGEST_RUN >> 20);
        let why = format!("its files have {mib} MiB; up to {largest} are read");
        return refused(Unused::TooLarge, why);
    }
    if rundir::is_running(dir) {
        return refused(Unused::Running, "it is measured now");
    }
    let run = match rundir::read(dir) {
        Ok(run) => run,
        Err(e) => return refused(Unused::Damaged, format!("{e:#}")),
    };
    if run.host.is_empty() && run.check.is_none() {
        return refused(Unused::Damaged, "nothing of its machine was recorded");
    }
    // As the tables have it.
    let analysis = match compare::conclude(&run) {
        Some(compared) => compared.analysis,
        None => analyse(&run),
    };
    Ok(Host {
        origin: item.origin.clone(),
        ..Host::of_run(&item.name, item.place(), &run, &analysis)
    })
}
