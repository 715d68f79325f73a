//! `--from-database`: launched servers hold a copy of somebody's own database, or data made from its statistics.

use std::path::Path;
use std::sync::Arc;

use pgassay_engine::workload::elsewhere;
use pgassay_model::Failure;
use pgassay_model::workload::WorkloadPlan;
use pgassay_server::copies::{Dump, Wanted};
use pgassay_server::{Installation, Installations, TargetSpec};
use pgassay_sys::stop::Stop;

use crate::cli::sides::SidesArgs;
use crate::exit::explain;
use crate::held::Held;
use crate::held::statistics::Statistics;
use crate::terminal::Terminal;

/// Dumps the database that was named, for all servers that are launched of these targets; or reads the statistics.
///
/// # Errors
/// Where none of them is launched, or it can't be dumped.
pub fn dump(
    original: &str,
    targets: &[TargetSpec],
    scratch: Option<&Path>,
    stop: &Stop,
) -> anyhow::Result<Arc<Held>> {
    let launched: Vec<&TargetSpec> = targets.iter().filter(|spec| spec.is_launched()).collect();
    if launched.is_empty() {
        return Err(Failure::usage(
            "--from-database makes copies in launched servers, and no target is one",
        )
        .with_remedy("name temp, temp:17, an installation or build:NAME, or leave it out")
        .into());
    }
    if Statistics::is_one(original) {
        let statistics = Statistics::read(Path::new(original))?;
        statistics.refuse_full_disk(launched.len(), scratch)?;
        return Ok(Arc::new(Held::Made(Box::new(statistics))));
    }
    let at_hand = Installations::search();
    let found: Vec<(Option<Installation>, Option<u32>)> = launched
        .iter()
        .map(|spec| match (spec.installation(&at_hand), spec) {
            (Ok(Some(installation)), _) => {
                let version = installation.version.num();
                (Some(installation), Some(version))
            }
            // An archive that stands in has no tools.
            (_, spec) => {
                let version = spec.wanted().and_then(|w| w.version().map(|v| v.num()));
                (None, version)
            }
        })
        .collect();
    let installations: Vec<Installation> = found
        .iter()
        .filter_map(|(found, _)| found.clone())
        .collect();
    // Where one is not known, nothing is taken for granted.
    let servers: Vec<u32> = found
        .iter()
        .map(|(_, version)| version.unwrap_or(0))
        .collect();
    let _kept = stop.defer();
    let wanted = Wanted {
        original,
        servers: &servers,
        installations: &installations,
        scratch,
        stop: stop.flag(),
    };
    match Dump::take(&wanted) {
        Ok(dump) => Ok(Arc::new(Held::Copy(Box::new(dump)))),
        Err(_) if stop.asked() => Err(Failure::interrupted().into()),
        Err(error) => Err(explain(error)),
    }
}

/// The dump for the servers' copies, if one was requested; `recorded` is the database that the servers of a resumed
/// measurement held.
///
/// # Errors
/// Where it can't be made, or a resumed comparison needs it and it is not named.
pub fn dump_of<'a>(
    sides: &SidesArgs,
    recorded: Option<&str>,
    servers: impl Iterator<Item = &'a String>,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Option<Arc<Held>>> {
    let Some(original) = &sides.from_database else {
        return match recorded {
            None => Ok(None),
            Some(of) => Err(Failure::usage(format!(
                "the servers held a copy of {of}, which is not kept"
            ))
            .with_remedy("name it again with --from-database CONNINFO")
            .into()),
        };
    };
    let specs: Result<Vec<TargetSpec>, _> = servers.map(|server| server.parse()).collect();
    terminal.progress("dumping the database for the copies");
    let specs = specs.map_err(explain)?;
    dump(original, &specs, sides.scratch.as_deref(), stop).map(Some)
}

/// Refuses a workload that may change tables that pgassay did not make, on a server that runs already,
/// unless it is said to be a copy: what it changes there stays.
///
/// # Errors
/// Naming the statement and the remedies.
pub fn refuse_writes(
    workload: &WorkloadPlan,
    target: &TargetSpec,
    is_copy: bool,
) -> Result<(), Failure> {
    if target.is_launched() || is_copy {
        return Ok(());
    }
    let Some(found) = elsewhere::writes(workload) else {
        return Ok(());
    };
    Err(Failure::usage(format!(
        "{} may write into your own tables, and what it changes there stays: {found}",
        workload.name
    ))
    .with_remedy(
        "run it on a copy: --is-copy says that this server is one, and temp with --from-database makes one",
    ))
}
