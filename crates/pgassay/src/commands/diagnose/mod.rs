//! `pgassay diagnose`: which known bottleneck it is, and what to do.

mod reference;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::bail;
use pgassay_analysis::diagnose::{self, Diagnosis, Evidence};
use pgassay_analysis::observed::stacks;
use pgassay_analysis::profile::difference::difference;
use pgassay_analysis::profile::{self, flame};
use pgassay_analysis::{Analysis, against_reference, analyse, causes};
use pgassay_engine::rundir::{self, catalogue};
use pgassay_model::Failure;
use pgassay_model::observed::stacks::SymbolTable;
use pgassay_model::record::RecordedRun;
use pgassay_readings::profile::Profile;
use pgassay_sys::stop::Stop;

use super::show::{next, show};
use crate::cli::args::GlobalArgs;
use crate::cli::diagnose::DiagnoseArgs;
use crate::exit::Exit;
use crate::session;
use crate::terminal::Terminal;

/// More of a profile's text than this is not read; 99 samples a second of 64 CPUs
/// for ten minutes are less.
const MOST_TEXT: u64 = 2 << 30;

/// Diagnoses a recorded run, or a profile that was taken elsewhere.
///
/// # Errors
/// Where the run or the file can't be read, or is none.
pub fn diagnose(
    args: &DiagnoseArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let before = match (&args.against, &args.perf) {
        (None, _) => None,
        (Some(file), Some(_)) => Some(read_profile(Path::new(file))?),
        (Some(run), None) => Some(recorded_profile(&recorded(run, global)?)?),
    };
    let before = before.as_ref();
    let diagnosis = match (&args.perf, &args.run) {
        (Some(perf), _) => of_profile(perf, args.server_version, before)?,
        (None, Some(name)) => {
            let run = recorded(name, global)?;
            if args.reference {
                let root = rundir::root(global.runs.as_deref())?;
                session::refuse_from_elsewhere(&catalogue::find(&root, name)?)?;
            }
            let analysis = analyse(&run);
            let mut diagnosis = of_run(&run, &analysis, before)?;
            if args.reference {
                let reference =
                    reference::reference(&run, &analysis, args, global, terminal, stop)?;
                // What was proved stands before what follows from signs.
                diagnosis.findings = [
                    against_reference::findings(&reference, &analysis),
                    diagnosis.findings,
                ]
                .concat();
                diagnosis
                    .not_seen
                    .extend(reference.not_seen.iter().cloned());
                diagnosis.reference = Some(reference);
            }
            diagnosis
        }
        (None, None) => bail!(Failure::usage("neither a run nor a profile was named")),
    };
    show(&diagnosis, &args.show, terminal)?;
    let first = diagnosis.findings.first();
    let step = first.map(|found| format!("pgassay check --explain {}", found.id));
    next(&args.show, step.as_slice(), terminal);
    Ok(Exit::Done)
}

fn of_profile(
    path: &Path,
    version: Option<u32>,
    before: Option<&Profile>,
) -> anyhow::Result<Diagnosis> {
    let profile = read_profile(path)?;
    let summary = profile::summarise(&profile);
    let subject = match path.file_name() {
        Some(name) if name != "-" => name.to_string_lossy().into_owned(),
        _ => "a profile".to_owned(),
    };
    let evidence = Evidence {
        version,
        profile: Some(&summary),
        run: None,
    };
    let mut diagnosis = diagnose::diagnose(&subject, &evidence);
    draw(&mut diagnosis, &profile, before);
    Ok(diagnosis)
}

/// The flame graph, compared where there is something to compare with.
fn draw(diagnosis: &mut Diagnosis, profile: &Profile, before: Option<&Profile>) {
    diagnosis.flame = Some(match before {
        Some(before) => flame::difference(before, profile),
        None => flame::fold(profile),
    });
    diagnosis.stacks.add(&diagnosis.subject, "", profile);
    if let Some(before) = before {
        diagnosis.stacks.add("before", "", before);
    }
    diagnosis.difference = before.map(|before| difference(before, profile));
}

fn recorded(name: &str, global: &GlobalArgs) -> anyhow::Result<RecordedRun> {
    let root = rundir::root(global.runs.as_deref())?;
    rundir::read(&catalogue::find(&root, name)?)
}

/// The CPU samples of a run's first server.
fn recorded_profile(run: &RecordedRun) -> anyhow::Result<Profile> {
    let records = run
        .trials
        .iter()
        .filter(|t| t.slice.arm == 0 && t.cut_short.is_none())
        .filter_map(|t| t.observed.as_ref()?.stacks.as_ref());
    let nothing = SymbolTable::default();
    let symbols = run.symbols.get(&0).unwrap_or(&nothing);
    stacks::profile(records, symbols).ok_or_else(|| {
        Failure::usage(format!("{} holds no CPU samples", run.header.id))
            .with_remedy("measure with --observe all")
            .into()
    })
}

fn of_run(
    run: &RecordedRun,
    analysis: &Analysis,
    before: Option<&Profile>,
) -> anyhow::Result<Diagnosis> {
    let id = &analysis.run.id;
    let Some(mut diagnosis) = analysis.main().diagnosis.clone() else {
        bail!(
            Failure::usage(format!(
                "{id} can't be diagnosed: that takes one server under load"
            ))
            .with_remedy("diagnose a run of pgassay assay or pgassay run; pgassay runs lists them")
        );
    };
    diagnosis.findings = causes::with_audit(analysis, &diagnosis.findings);
    match recorded_profile(run) {
        Ok(profile) => {
            diagnosis.profile = Some(profile::summarise(&profile));
            draw(&mut diagnosis, &profile, before);
        }
        Err(why) if before.is_some() => return Err(why),
        Err(_) => {}
    }
    Ok(diagnosis)
}

/// Reads a profile's text, whatever bytes it holds.
fn read_profile(path: &Path) -> anyhow::Result<Profile> {
    let shown = path.display();
    let unreadable = |e: &io::Error| {
        Failure::usage(format!("cannot read {shown}: {e}"))
            .with_remedy("name the text of perf script, perf report or perf top, or folded stacks")
    };
    let mut bytes = Vec::new();
    let read = if path.as_os_str() == "-" {
        io::stdin().lock().take(MOST_TEXT).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(MOST_TEXT).read_to_end(&mut bytes))
    };
    read.map_err(|e| unreadable(&e))?;
    if bytes.starts_with(b"PERFILE2") {
        bail!(
            Failure::usage(format!("{shown} is perf's binary data, and only perf on a machine with the same binaries can name its functions"))
                .with_remedy(format!("make a text of it there: perf script -i {shown} > profile.txt"))
        );
    }
    // Names may be in any encoding: what is no UTF-8 is shown as �.
    let text = String::from_utf8_lossy(&bytes);
    Profile::parse(&text).map_err(|e| {
        Failure::usage(format!("{shown}: {e}"))
            .with_remedy(
                "make one with: perf record -g -F 99 -p PID -- sleep 10; perf script > profile.txt",
            )
            .into()
    })
}
