//! `pgassay fleet`: what was collected of many hosts, side by side.
//!
//! What lies there is others': a file that is no host's is named and left out, whatever is wrong with
//! it, and no link is followed. Hosts are read one by one, a few at a time; what is kept of each is
//! small ([`Gathering`]).

mod read;
mod walk;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use anyhow::bail;
use pgassay_analysis::fleet::{Fleet, Gathering, Host, Source};
use pgassay_analysis::number::counted;
use pgassay_model::Failure;
use pgassay_sys::stop::Stop;

use super::progress::Progress;
use super::show::{next, show};
use crate::cli::fleet::FleetArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;
use read::Refused;
use walk::Item;

/// Threads that read hosts: each holds one.
const READERS: usize = 4;
/// Of larger ones only one is held at a time.
const LARGE: u64 = 4 << 20;

/// Reads all hosts that are there, and says what is wrong on how many and who is odd.
///
/// # Errors
/// Where a path is not there, or none of them holds a host.
pub fn fleet(args: &FleetArgs, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    let mut gathering = Gathering::default();
    let progress = Progress::new(terminal, 1000);
    progress.say("looking for collected facts, runs and tables");
    let mut items = Vec::new();
    for path in &args.paths {
        walk::find(path, &mut items, &mut gathering, stop)?;
    }
    read_all(&items, &mut gathering, &progress, stop)?;
    progress.clear();
    if gathering.is_empty() {
        return none(args, &gathering, terminal);
    }
    let fleet = gathering.conclude();
    show(&fleet, &args.show, terminal)?;
    match fleet.missing() {
        0 => {}
        1 => terminal.warn("1 file that may be a host's was left out"),
        n => terminal.warn(&format!(
            "{} that may be hosts' were left out",
            counted(n, "file")
        )),
    }
    match fleet.superseded.len() as u64 {
        0 => {}
        1 => terminal.warn("1 collection does not count: there is a newer one of its host"),
        n => terminal.warn(&format!(
            "{} do not count: there are newer ones of their hosts",
            counted(n, "collection")
        )),
    }
    next(&args.show, &steps(args, &fleet), terminal);
    Ok(exit(args, &fleet))
}

/// What `check` ends with, for all of them.
fn exit(args: &FleetArgs, fleet: &Fleet) -> Exit {
    let not_whole = args.fail_on.is_some() && fleet.incomplete() > 0;
    match (args.fail_on, fleet.gravest()) {
        (Some(level), Some(found)) if found >= level.into() => Exit::Found,
        _ if fleet.missing() > 0 || not_whole => Exit::Partial,
        _ => Exit::Done,
    }
}

/// Nothing is there: what is, says why.
fn none(args: &FleetArgs, gathering: &Gathering, terminal: &mut Terminal) -> anyhow::Result<Exit> {
    for out in gathering.left_out().iter().take(5) {
        terminal.complain(&format!("{}: {}", out.place, out.why));
    }
    let paths: Vec<String> = args.paths.iter().map(|p| p.display().to_string()).collect();
    bail!(
        Failure::usage(format!(
            "no collected facts and no recorded run in {}",
            paths.join(", ")
        ))
        .with_remedy("on each host: pgassay collect --output HOST.json; then name their directory")
    );
}

/// The worst host by itself, and the page.
fn steps(args: &FleetArgs, fleet: &Fleet) -> Vec<String> {
    let mut steps = Vec::new();
    let worst = fleet.findings.first().and_then(|finding| {
        let name = &finding.example.host;
        fleet.hosts.iter().find(|host| host.name == *name)
    });
    if let Some(host) = worst {
        let place = pgassay_text::shell_word(&host.place);
        steps.extend(match host.source {
            Source::Facts => Some(format!("pgassay check {place}")),
            Source::Run => Some(format!("pgassay report {place}")),
            // The run itself may be anywhere.
            Source::Tables => None,
        });
    }
    if args.show.html.is_none() {
        let paths: Vec<_> = args.paths.iter().map(|p| p.to_string_lossy()).collect();
        let paths = pgassay_text::shell(&paths);
        steps.push(format!("pgassay fleet {paths} --html fleet.html"));
    }
    steps
}

/// Reads what was found, a few at a time, in no order: what is concluded does not depend on it.
fn read_all(
    items: &[Item],
    gathering: &mut Gathering,
    progress: &Progress,
    stop: &Stop,
) -> anyhow::Result<()> {
    let readers = thread::available_parallelism().map_or(1, usize::from);
    let readers = readers.min(READERS).min(items.len()).max(1);
    let upcoming = AtomicUsize::new(0);
    let ended = AtomicBool::new(false);
    let large = Mutex::new(());
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel::<(&Item, Vec<Result<Host, Refused>>)>(readers);
        for _ in 0..readers {
            let sender = sender.clone();
            let (upcoming, ended, large) = (&upcoming, &ended, &large);
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let Some(item) = items.get(upcoming.fetch_add(1, Ordering::Relaxed)) else {
                        break;
                    };
                    let alone = (item.bytes > LARGE).then(|| large.lock());
                    let hosts = read::hosts(item);
                    drop(alone);
                    if sender.send((item, hosts)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (n, (item, hosts)) in receiver.iter().enumerate() {
            if stop.asked() {
                ended.store(true, Ordering::Relaxed);
                bail!(Failure::interrupted());
            }
            for host in hosts {
                match host {
                    Ok(host) => gathering.add(host),
                    Err(Refused { because, why }) => {
                        gathering.leave_out(item.place(), because, why);
                    }
                }
            }
            let text = format!("reading host {} of {}", n + 1, items.len());
            progress.step((n + 1) as f64 / items.len() as f64, text);
        }
        Ok(())
    })
}
