//! In what recorded runs differ: machine, kernel, build, settings.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::analysis::Analysis;
use crate::measured::ServerSummary;
use crate::number;

/// Something that is not the same everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// What it is.
    pub what: String,
    /// Its value in each run; none where it is not known.
    pub values: Vec<Option<String>>,
}

/// Reads a property off a run.
type Of = fn(&Analysis) -> Option<String>;

/// What every run records beside its server's settings.
const PROPERTIES: &[(&str, Of)] = &[
    ("architecture", |run| run.host.architecture.clone()),
    ("processors", |run| run.host.processors()),
    ("cores", |run| Some(run.host.cores?.to_string())),
    ("sockets", |run| Some(run.host.sockets?.to_string())),
    ("NUMA nodes", |run| Some(run.host.numa_nodes?.to_string())),
    ("clock of the cores", |run| {
        Some(format!("{:.2} GHz", run.host.cpu_hz? as f64 / 1e9))
    }),
    ("governor", |run| run.host.cpu_governor.clone()),
    ("last-level cache", |run| {
        Some(number::bytes(run.host.last_level_cache_total_bytes?))
    }),
    ("memory", |run| {
        // To the GiB: what the kernel keeps for itself changes with every start.
        let bytes = run.host.usable_memory_bytes()?;
        Some(format!(
            "{} GiB",
            (bytes as f64 / f64::from(1 << 30)).round()
        ))
    }),
    ("base page size", |run| {
        Some(number::bytes(run.host.page_size_bytes?))
    }),
    ("huge pages", |run| {
        Some(number::count(run.host.huge_pages_total?))
    }),
    ("transparent huge pages", |run| {
        run.host.transparent_huge_pages.clone()
    }),
    ("kernel", |run| run.host.kernel.clone()),
    ("distribution", |run| run.host.distribution.clone()),
    ("virtualisation", |run| run.host.virtualisation.clone()),
    ("container", |run| run.host.container.clone()),
    ("CPU quota", |run| {
        Some(format!("{} CPUs", number::short(run.host.cpu_quota?)))
    }),
    ("clock source", |run| run.host.clock_source.clone()),
    ("data directory", |run| run.host.data_device.clone()),
    ("server", |run| Some(server(run)?.version.clone())),
    ("environment of the server", |run| {
        let variables = &run.arms.first()?.confinement.launch_environment;
        (!variables.is_empty()).then(|| variables.join(" "))
    }),
    ("started through", |run| {
        let wrap = &run.arms.first()?.confinement.wrap;
        (!wrap.is_empty()).then(|| wrap.clone())
    }),
    ("executable", |run| Some(server(run)?.executable.clone())),
    ("atomics", |run| {
        Some(run.arms.first()?.verdict.as_ref()?.runs.clone())
    }),
    ("pgassay", |run| Some(run.run.pgassay_version.clone())),
];

fn server(run: &Analysis) -> Option<&ServerSummary> {
    run.arms.first()?.server.as_ref()
}

/// What is not the same in all of these runs, by their first server.
pub fn differences(runs: &[&Analysis]) -> Vec<Difference> {
    let mut all = Vec::new();
    let mut push = |what: &str, values: Vec<Option<String>>| {
        if values.iter().any(|value| *value != values[0]) {
            all.push(Difference {
                what: what.to_owned(),
                values,
            });
        }
    };
    for (what, of) in PROPERTIES {
        push(what, runs.iter().map(|run| of(run)).collect());
    }
    let settings = |run: &Analysis| server(run).map(|server| server.settings.clone());
    let names: BTreeSet<String> = runs
        .iter()
        .filter_map(|run| settings(run))
        .flatten()
        .map(|setting| setting.name)
        .collect();
    for name in names {
        let value = |run: &&Analysis| {
            let mut settings = settings(run)?.into_iter();
            Some(settings.find(|setting| setting.name == name)?.value)
        };
        push(&name, runs.iter().map(value).collect());
    }
    all
}
