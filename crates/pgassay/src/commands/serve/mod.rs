//! `pgassay serve`: the recorded runs in a browser, and what is measured now.
//!
//! It only reads run directories, unless `--allow-run` lets pages start what recorded runs say (`start`, one
//! at a time: `started`). `pgassay_http` lets nobody in but who has the key; here is what is
//! shown: the `index` knows the runs, `look` reads one, `site` answers addresses, `follow` tells what is
//! new of a run that is measured.

mod asked;
mod follow;
pub(in crate::commands) mod index;
mod kept;
mod metrics;
mod pages;
mod site;
mod start;
mod started;

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use pgassay_engine::rundir;
use pgassay_http::{Bound, Cannot};
use pgassay_model::Failure;
use pgassay_sys::stop::Stop;

use self::index::Index;
use self::site::{May, RunsSite};
use self::started::Started;
use super::opened;
use crate::cli::args::GlobalArgs;
use crate::cli::page::PageArgs;
use crate::cli::serve::ServeArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// The port where none is asked for.
const PORT: u16 = 7654;

/// Serves until Ctrl-C.
///
/// # Errors
/// Where the directory can't be read or the port can't be had.
pub fn serve(
    args: &ServeArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => rundir::root(global.runs.as_deref())?,
    };
    let dir = readable(&dir, args.dir.is_some() || global.runs.is_some())?;
    let bound = listen(args.port)?;
    let deferred = stop.defer();
    let address = bound.address("");
    terminal.announce(&format!(
        "serving the runs in {} to this machine only; Ctrl-C ends it",
        dir.display()
    ));
    if args.port.is_none() && bound.port() != PORT {
        terminal.announce(&format!(
            "port {PORT} is taken: this is another; --port chooses one"
        ));
    }
    terminal.show(&format!("{address}\n"))?;
    let way = match args.open {
        true => open_keyed(&address, terminal),
        false => None,
    };
    let started = Started::default();
    let may = match args.allow_run {
        true => May::Run(started.clone()),
        false => May::Read,
    };
    let site = RunsSite::new(Index::of(dir), may, &bound);
    let served = bound.serve(Arc::new(site), || stop.asked());
    if let Some(way) = way {
        let _ = std::fs::remove_file(way);
    }
    if started.runs() {
        terminal
            .announce("the measurement that was started here stops, and keeps what was measured");
        started.end();
    }
    drop(deferred);
    served.context("serving failed")?;
    Ok(Exit::Done)
}

/// Pages beside a measurement of this process; they end with it.
pub(super) struct Beside(Arc<AtomicBool>);

impl Drop for Beside {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Shows a measurement that is about to begin while it runs, where that is asked for: on a thread of the
/// lowest priority, which does nothing while nobody looks.
///
/// # Errors
/// Where no port can be had.
pub(super) fn beside(
    page: PageArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
) -> anyhow::Result<Option<Beside>> {
    if !page.watch {
        return Ok(None);
    }
    let dir = readable(&rundir::root(global.runs.as_deref())?, false)?;
    let bound = listen(None)?;
    terminal.announce(&format!("watch it: {}", bound.address("now")));
    let ended = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&ended);
    let site = RunsSite::new(Index::of(dir), May::Pause, &bound);
    std::thread::Builder::new()
        .name("pages".to_owned())
        .spawn(move || {
            // Of this thread, and of those that it starts.
            let _ = rustix::process::nice(19);
            // The measurement is what counts; its pages may fail.
            let _ = bound.serve(Arc::new(site), || asked.load(Ordering::Relaxed));
        })
        .context("cannot start the thread that shows the measurement")?;
    Ok(Some(Beside(ended)))
}

/// The directory, as it is really called. One that was not named and is not there yet is made by the
/// first run: nothing is in it.
pub(in crate::commands) fn readable(dir: &Path, named: bool) -> anyhow::Result<PathBuf> {
    match std::fs::read_dir(dir) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !named => {
            return Ok(dir.to_owned());
        }
        Err(error) => {
            return Err(
                Failure::usage(format!("cannot list runs in {}: {error}", dir.display()))
                    .with_remedy("name a directory of runs that you may read")
                    .into(),
            );
        }
    }
    Ok(std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned()))
}

fn listen(port: Option<u16>) -> anyhow::Result<Bound> {
    let bound = match (Bound::listen(port.unwrap_or(PORT)), port) {
        (Err(Cannot::Taken(_)), None) => Bound::listen(0),
        (bound, _) => bound,
    };
    bound.map_err(|cannot| {
        match cannot {
            Cannot::Taken(port) => Failure::usage(format!(
                "port {port} of 127.0.0.1 is used by another program"
            ))
            .with_remedy("name another with --port, or leave it out for a free one"),
            Cannot::Listen(error) => Failure::usage(format!("cannot listen on 127.0.0.1: {error}"))
                .with_remedy("name another port with --port; below 1024 root is needed"),
        }
        .into()
    })
}

/// Opens the address by way of a file that nobody else may read: the arguments of a browser can be read
/// by every user of this machine. Gives the file, to be removed at the end.
fn open_keyed(address: &str, terminal: &mut Terminal) -> Option<PathBuf> {
    let way = std::env::temp_dir().join(format!("pgassay-serve-{}.html", std::process::id()));
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&way)
        .and_then(|mut file| {
            file.set_permissions(Permissions::from_mode(0o600))?;
            write!(
                file,
                "<!DOCTYPE html><meta charset=\"utf-8\"><title>pgassay</title>\n\
                 <meta http-equiv=\"refresh\" content=\"0; url='{address}'\"><a href=\"{address}\">pgassay</a>\n"
            )
        });
    match written {
        Ok(()) => {
            opened::open(way.as_os_str(), "the address above", terminal);
            Some(way)
        }
        Err(error) => {
            terminal.warn(&format!("--open: cannot write {}: {error}", way.display()));
            None
        }
    }
}
