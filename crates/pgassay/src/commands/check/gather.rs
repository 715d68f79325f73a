//! Collects the facts of a host and a server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pgassay_engine::rundir;
use pgassay_inspect::Machine;
use pgassay_model::facts::{FACTS_SCHEMA, Facts, Library, Place};
use pgassay_model::reading::Reading;
use pgassay_model::server::Origin;
use pgassay_observe::host;
use pgassay_pgwire::Session;
use pgassay_server::inspection::gather;

use super::{process, questions, redact};
use crate::commands::inspect_server;
use crate::commands::subject::Subject;

/// The facts of the host alone.
pub fn host_only() -> Facts {
    let mut facts = begun("this host");
    facts.host = host::facts(None);
    redact::facts(&mut facts);
    facts
}

/// The facts of a server, and of the host where that is the server's.
///
/// Nothing fails here: what can't be seen is recorded with the reason.
pub fn of(subject: &mut Subject) -> Facts {
    let mut facts = begun(&subject.shown);
    facts.origin = Some(subject.origin.clone());
    let Ok(session) = subject.session() else {
        facts.place = Place::Elsewhere("the session is closed".into());
        facts.session_lost = Some("the session is closed".into());
        return facts;
    };
    let answers = questions::ask(session);
    facts.server = answers.readings;
    facts.session_lost = answers.lost;
    let found = postmaster(subject);
    match &found {
        Ok(pid) => {
            facts.place = Place::Here(match subject.origin {
                Origin::Launched { .. } => "launched by pgassay".into(),
                Origin::Running => format!("its process {pid} is seen here"),
            });
            if subject.scene.postmaster.is_err() {
                subject.scene.postmaster = Ok(*pid);
            }
            let data_dir = data_dir(subject, *pid, &facts.server);
            facts.host = host::facts_for(data_dir.as_deref(), Some(*pid));
            facts.directories = host::directories(*pid);
            facts.process = process::read(*pid, &pgassay_observe::processes(*pid));
            // One that we launched does nothing yet.
            if subject.origin == Origin::Running {
                facts.process.extend(process::over_a_moment(*pid));
            }
            facts.binary = Some(inspect_server::inspect(subject));
            if matches!(&facts.binary, Some(Ok(b)) if b.machine == Machine::Aarch64) {
                facts.libraries = Some(libraries(*pid));
            }
        }
        Err(why) => {
            facts.place = Place::Elsewhere(why.clone());
            facts.binary = Some(Err(why.clone()));
        }
    }
    redact::facts(&mut facts);
    facts
}

/// The same for a run directory, which has the executable's account already.
pub fn beside_a_run(subject: &mut Subject) -> Facts {
    Facts {
        binary: None,
        ..of(subject)
    }
}

fn begun(target: &str) -> Facts {
    Facts {
        schema: FACTS_SCHEMA.to_owned(),
        pgassay_version: env!("CARGO_PKG_VERSION").to_owned(),
        collected: rundir::now(),
        ..Facts::empty(target)
    }
}

/// The server's first process on this machine: the one that listens on the Unix
/// socket, or over TCP the parent of our own backend, if it is provably ours.
fn postmaster(subject: &mut Subject) -> Result<u32, String> {
    let why = match &subject.scene.postmaster {
        Ok(pid) => return Ok(*pid),
        Err(why) => why.clone(),
    };
    let session = subject.session().map_err(|e| e.to_string())?;
    backend_here(session).ok_or(why)
}

/// The parent of our own backend, where a process of that id runs here, is a
/// postgres, and names our own connection's port in its title: another machine's
/// or container's process of the same id does not.
fn backend_here(session: &mut Session) -> Option<u32> {
    let row = session
        .rows("SELECT pg_catalog.pg_backend_pid(), pg_catalog.inet_client_port()")
        .ok()?;
    let row = row.rows.first()?;
    let pid: u32 = row.first()?.as_deref()?.parse().ok()?;
    let port = row.get(1)?.as_deref()?.to_owned();
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    if !read("comm")?.starts_with("postgres") || !read("cmdline")?.contains(&format!("({port})")) {
        return None;
    }
    let parent = read("status")?
        .lines()
        .find_map(|line| line.strip_prefix("PPid:")?.trim().parse::<u32>().ok())?;
    (parent > 1).then_some(parent)
}

/// The data directory as it can be opened from here.
fn data_dir(
    subject: &Subject,
    postmaster: u32,
    server: &BTreeMap<String, Reading>,
) -> Option<PathBuf> {
    let told = || -> Option<PathBuf> {
        let rows: Vec<serde_json::Value> =
            serde_json::from_str(server.get("settings")?.text()?).ok()?;
        let row = rows.iter().find(|row| row["name"] == "data_directory")?;
        Some(PathBuf::from(row["setting"].as_str()?))
    };
    // The server works in its data directory, which also leads out of a container.
    let works_in = PathBuf::from(format!("/proc/{postmaster}/cwd"));
    subject
        .data_dir()
        .or_else(|| Some(works_in).filter(|dir| std::fs::metadata(dir).is_ok()))
        .or_else(told)
}

/// The atomics of the libraries in the server's process.
fn libraries(postmaster: u32) -> Result<Vec<Library>, String> {
    let sources =
        gather::process_sources(postmaster).map_err(|e| format!("/proc/{postmaster}/maps: {e}"))?;
    let libraries: Vec<_> = sources.into_iter().filter(|s| !s.named).collect();
    Ok(gather::inspect_all(&libraries)
        .files
        .into_iter()
        .map(|binary| Library {
            inline_lse: binary.atomics.inline_lse(),
            inline_llsc: binary.atomics.inline_llsc(),
            outline_calls: binary.atomics.outline_calls(),
            path: binary.path,
        })
        .collect())
}
