//! `pgassay check` and `pgassay collect`: the audit, and the facts for it.

pub mod gather;
mod process;
mod questions;
mod redact;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pgassay_analysis::check::{self, CheckReport, Severity, docs};
use pgassay_model::Failure;
use pgassay_model::facts::{FACTS_SCHEMA, Facts};
use pgassay_observe::host;
use pgassay_report::{TextStyle, exposition};
use pgassay_server::TargetSpec;
use pgassay_server::running::{self, Running};
use pgassay_sys::input;
use pgassay_sys::stop::Stop;

use super::files::to_file;
use super::progress::Progress;
use super::subject::Subject;
use crate::cli::check::{CheckArgs, CollectArgs, LookArgs};
use crate::cli::target::TargetArgs;
use crate::exit::{Exit, explain};
use crate::terminal::Terminal;

/// Larger files are no facts: those of a large machine take under 2 MiB.
const LARGEST_FILE: u64 = 64 << 20;

/// The same of what comes from another machine.
const LARGEST_SEEN: usize = 16 << 20;

/// Audits, and says what was found.
///
/// # Errors
/// Where the command line is wrong, a file is damaged, or the target can't be had.
pub fn check(args: &CheckArgs, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    if args.list {
        terminal.print(&list())?;
        return Ok(Exit::Done);
    }
    if let Some(id) = &args.explain {
        terminal.print(&docs::page(find(id)?))?;
        return Ok(Exit::Done);
    }
    for id in &args.only {
        let entry = find(id)?;
        if !check::audited()
            .iter()
            .any(|audited| audited.id == entry.id)
        {
            bail!(
                Failure::usage(format!("only a load shows {id}; check cannot"))
                    .with_remedy("pgassay diagnose looks for it in a recorded run")
            );
        }
    }
    let Looked { all, made_for_it } = facts(&args.look, terminal, stop)?;
    for (flag, file) in [
        ("--html", &args.html),
        ("--html", &args.facts),
        ("--prometheus", &args.prometheus),
    ] {
        if file.is_some() && all.len() > 1 {
            bail!(
                Failure::usage(format!("{flag} shows one host or server"))
                    .with_remedy("name one file of collected facts")
            );
        }
    }
    let mut gravest: Option<Severity> = None;
    let mut unseen = false;
    for (n, facts) in all.iter().enumerate() {
        let report = report(facts, made_for_it, &args.only);
        gravest = gravest.max(report.gravest());
        if let Some(why) = incomplete(&report, args.fail_on.is_some()) {
            terminal.complain(&format!("{}: {why}", report.target));
            unseen = true;
        }
        let text = if args.json {
            json(&report, all.len() > 1)?
        } else {
            let style = TextStyle {
                width: terminal.width,
                color: terminal.colour,
                unicode: true,
            };
            let between = if n > 0 { "\n" } else { "" };
            format!(
                "{between}{}",
                pgassay_report::check::text(&report, args.all, &style)
            )
        };
        terminal.print(&text)?;
        if let Some(found) = report.results.first().filter(|_| !args.json)
            && report.gravest().is_some()
        {
            terminal.next(&[&format!("pgassay check --explain {}", found.id)]);
        }
        if let Some(path) = &args.html {
            to_file(path, "--html", &pgassay_report::html(&report))?;
            terminal.place("written:", path);
        }
        if let Some(path) = &args.facts {
            let seen = serde_json::to_string(&(facts, made_for_it))?;
            to_file(path, "--facts", &seen)?;
        }
        if let Some(path) = &args.prometheus {
            to_file(path, "--prometheus", &exposition::check(&report))?;
            terminal.place("written:", path);
        }
    }
    Ok(match (args.fail_on, gravest) {
        (Some(level), Some(found)) if found >= level.into() => Exit::Found,
        _ if unseen => Exit::Partial,
        _ => Exit::Done,
    })
}

/// The report of these facts, with these entries only where some are named.
fn report(facts: &Facts, made_for_it: bool, only: &[String]) -> CheckReport {
    let mut report = check::check(facts);
    if made_for_it {
        report = report.of_throw_away();
    }
    if !only.is_empty() {
        report.keep(|entry| only.iter().any(|id| id == entry));
    }
    report
}

/// The page of what another machine's `check --facts` wrote.
///
/// # Errors
/// Where that is something else.
pub fn page(seen: &[u8], only: &[String]) -> anyhow::Result<String> {
    let seen = match seen.len() <= LARGEST_SEEN {
        true => serde_json::from_slice::<(Facts, bool)>(seen).ok(),
        false => None,
    };
    let Some((facts, made_for_it)) = seen.filter(|(facts, _)| facts.schema == FACTS_SCHEMA) else {
        bail!(
            Failure::target("what came for the page is no collected facts").with_remedy(
                "install the same version of pgassay there, or look who answers there"
            )
        )
    };
    Ok(pgassay_report::html(&report(&facts, made_for_it, only)))
}

/// Why the audit is not whole. Rules that see nothing by their nature, a guest's on another host,
/// are news only where a pass was asked for.
fn incomplete(report: &CheckReport, a_pass_counts: bool) -> Option<String> {
    report
        .unseen()
        .filter(|_| a_pass_counts || report.session_lost.is_some())
}

/// Writes the facts into one file.
///
/// # Errors
/// Like [`check()`].
pub fn collect(args: &CollectArgs, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    let looked = facts(&args.look, terminal, stop)?;
    let [facts] = looked.all.as_slice() else {
        bail!(Failure::usage(
            "there is one file to write, and several were named"
        ));
    };
    let text = pgassay_report::json(facts);
    let exit = match &facts.session_lost {
        None => Exit::Done,
        Some(why) => {
            terminal.complain(&format!(
                "{}: the connection was lost before all facts were collected: {why}",
                facts.target
            ));
            Exit::Partial
        }
    };
    match &args.output {
        None => terminal.print(&text)?,
        Some(path) => {
            to_file(path, "--output", &text)?;
            terminal.announce(&format!(
                "written: {} ({} KiB)",
                path.display(),
                text.len() / 1024
            ));
            let file = pgassay_text::shell_word(&path.to_string_lossy());
            terminal.next(&[&format!("pgassay check {file}")]);
        }
    }
    Ok(exit)
}

/// What was looked at.
struct Looked {
    all: Vec<Facts>,
    /// Whether the server was made for this, with settings that nobody asked for.
    made_for_it: bool,
}

impl Looked {
    fn at(facts: Facts) -> Self {
        Self {
            all: vec![facts],
            made_for_it: false,
        }
    }
}

/// What was named: recorded facts, this host, or a server. Where nothing was named: the server that
/// runs here, if it is the only one.
fn facts(look: &LookArgs, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Looked> {
    if look.host {
        return Ok(Looked::at(gather::host_only()));
    }
    let to_launch = !look.settings.is_empty() || look.scratch.is_some() || look.stand_in;
    match &look.target {
        Some(target) => match recorded(Path::new(target))? {
            Some(all) => Ok(Looked {
                all,
                made_for_it: false,
            }),
            None => of_server(target, look, terminal, stop),
        },
        None if to_launch => of_server("temp", look, terminal, stop),
        None => of_this_machine(look, terminal, stop),
    }
}

/// Of the server that runs here, of none of several, or of one that is made for this.
fn of_this_machine(
    look: &LookArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Looked> {
    let servers = running::servers();
    let named: Vec<String> = servers.iter().map(Running::conninfo).collect();
    match named.as_slice() {
        [] => {
            terminal.announce("no PostgreSQL server listens on a socket of this machine");
            of_server("temp", look, terminal, stop)
        }
        [one] => {
            terminal.announce(&format!("a server runs here: '{one}'"));
            match of_server(one, look, terminal, stop) {
                Err(error) if !stop.asked() => {
                    terminal.warn(&format!("it was not checked, only this host: {error:#}"));
                    terminal.note(&format!(
                        "say who may connect: pgassay check '{one} user=… dbname=…'"
                    ));
                    Ok(Looked::at(gather::host_only()))
                }
                looked => looked,
            }
        }
        several => {
            terminal.announce(&format!(
                "{} servers run here; without a name only this host is checked. To check one:",
                several.len()
            ));
            for one in several {
                terminal.announce(&format!("  pgassay check '{one}'"));
            }
            Ok(Looked::at(gather::host_only()))
        }
    }
}

fn of_server(
    target: &str,
    look: &LookArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Looked> {
    let spec: TargetSpec = target.parse().map_err(explain)?;
    let machine = pgassay_analysis::host::summarise(&host::facts(None));
    let progress = Progress::new(terminal, 100);
    progress.say(match spec.is_launched() {
        true => "making and starting a throw-away PostgreSQL",
        false => "connecting",
    });
    let memory = machine.usable_memory_bytes().unwrap_or(1 << 30);
    let named = TargetArgs {
        target: Some(target.to_owned()),
        ..look.target_args()
    };
    let opened = Subject::open(&spec, &named, memory, 0, stop);
    progress.clear();
    let mut subject = opened?;
    terminal.announce(&format!("server: {}", subject.shown));
    let facts = gather::of(&mut subject);
    if stop.asked() {
        bail!(Failure::interrupted());
    }
    Ok(Looked {
        made_for_it: spec.is_launched() && look.settings.is_empty(),
        ..Looked::at(facts)
    })
}

/// The facts in a file, or in the files of a directory; none where the path is
/// neither, so that it is a target.
fn recorded(path: &Path) -> anyhow::Result<Option<Vec<Facts>>> {
    if path.is_file() {
        return Ok(Some(vec![read(path)?]));
    }
    if !path.is_dir() {
        return Ok(None);
    }
    let mut files: Vec<PathBuf> = fs::read_dir(path)
        .with_context(|| format!("cannot read {}", path.display()))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|file| file.extension().is_some_and(|e| e == "json") && is_facts(file))
        .collect();
    files.sort();
    if files.is_empty() {
        return Ok(None);
    }
    files
        .iter()
        .map(|file| read(file))
        .collect::<Result<_, _>>()
        .map(Some)
}

/// The facts that a file holds; none where it holds none.
///
/// # Errors
/// Each where it can't be read.
pub fn collected(path: &Path) -> Option<anyhow::Result<Facts>> {
    is_facts(path).then(|| read(path))
}

/// Whether a file begins as collected facts do.
fn is_facts(path: &Path) -> bool {
    use std::io::Read as _;
    let mut start = Vec::new();
    let read = input::open(path).and_then(|f| f.take(256).read_to_end(&mut start));
    read.is_ok() && String::from_utf8_lossy(&start).contains("\"pgassay/facts/")
}

fn read(path: &Path) -> anyhow::Result<Facts> {
    let shown = path.display();
    let length = fs::metadata(path)
        .with_context(|| format!("cannot read {shown}"))?
        .len();
    if length > LARGEST_FILE {
        bail!(Failure::usage(format!(
            "{shown} is no file of collected facts: it has {} MiB",
            length >> 20
        )));
    }
    let text = input::read(path, LARGEST_FILE)
        .map_err(|e| Failure::usage(format!("cannot read {shown}: {e}")))?;
    let facts: Facts = serde_json::from_slice(&text).map_err(|e| {
        Failure::usage(format!("{shown} is no file of collected facts: {e}"))
            .with_remedy("pgassay collect --output FILE writes one")
    })?;
    if facts.schema != FACTS_SCHEMA {
        bail!(
            Failure::usage(format!(
                "{shown} holds {}; this pgassay reads {FACTS_SCHEMA}",
                facts.schema
            ))
            .with_remedy("use the pgassay that wrote it, or a newer one")
        );
    }
    Ok(facts)
}

fn find(id: &str) -> anyhow::Result<&'static check::Entry> {
    match check::find(id) {
        Some(entry) => Ok(entry),
        None => bail!(
            Failure::usage(format!("there is no bottleneck named {id}"))
                .with_remedy("pgassay check --list lists them")
        ),
    }
}

fn list() -> String {
    let mut text = String::new();
    let mut family = None;
    for entry in check::audited() {
        if family != Some(entry.family) {
            let between = if family.is_some() { "\n" } else { "" };
            let _ = writeln!(text, "{between}{}", entry.family.title());
            family = Some(entry.family);
        }
        let _ = writeln!(text, "  {:<28} {}", entry.id, entry.title);
    }
    text
}

fn json(report: &CheckReport, in_a_line: bool) -> anyhow::Result<String> {
    if !in_a_line {
        return Ok(pgassay_report::json(report));
    }
    let text = serde_json::to_string(report).context("cannot serialize")?;
    Ok(pgassay_text::json(&text) + "\n")
}
