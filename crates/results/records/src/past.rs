//! Runs out of the tables, for what follows them over time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pgassay_analysis::history;
use pgassay_analysis::metrics::MetricId;
use pgassay_analysis::stats::Estimate;

use crate::archive::{Error, files, rows, unread};
use crate::file;
use crate::schema::Table;
use crate::tables::{Metric, Run, Server};
use crate::values::written;

pub use pgassay_analysis::history::Past;

/// Whether a directory holds tables.
pub fn is_archive(dir: &Path) -> bool {
    !files(dir, Run::SPEC.name).is_empty()
}

/// Whether this program knows the tables of a directory, by the file of their latest day.
///
/// # Errors
/// Where that file is damaged, or a newer program wrote it.
pub fn understood(dir: &Path) -> Result<(), Error> {
    match files(dir, Run::SPEC.name).pop() {
        Some(path) => file::understood(&path).map_err(unread(&path)),
        None => Ok(()),
    }
}

/// Every row of a table, day by day.
fn each<T: Table>(dir: &Path, mut of: impl FnMut(T)) -> Result<(), Error> {
    for path in files(dir, T::SPEC.name) {
        rows(&path, |row| {
            of(row);
            Ok(())
        })?;
    }
    Ok(())
}

/// All runs of the tables, as [`history`] follows them: the first server of each, under its own load.
///
/// # Errors
/// Where a file is damaged or too new.
pub fn past(dir: &Path) -> Result<Vec<Past>, Error> {
    let mut runs: BTreeMap<String, (Past, String)> = BTreeMap::new();
    let mut alone: BTreeSet<String> = BTreeSet::new();
    each(dir, |run: Run| {
        let past = Past {
            entry: history::Entry {
                run: run.run.clone(),
                started: written(run.started),
                server: String::new(),
            },
            work: run.work,
            cpu_model: run.cpu_model,
            varied: false,
            places: Vec::new(),
        };
        // Of a run alone several servers mean that they differ by what was varied.
        if run.command == "run" {
            alone.insert(run.run.clone());
        }
        runs.insert(run.run, (past, run.stage));
    })?;
    each(dir, |server: Server| {
        let Some((past, _)) = runs.get_mut(&server.run) else {
            return;
        };
        if server.arm == 0 {
            let version = server.version.unwrap_or_default();
            past.entry.server = history::short_version(&version);
        } else if alone.contains(&server.run) {
            past.varied = true;
        }
    })?;
    each(dir, |row: Metric| {
        if row.trial.is_some() || row.arm != 0 {
            return;
        }
        let (Some((past, stage)), Ok(metric)) =
            (runs.get_mut(&row.run), MetricId::find(&row.metric))
        else {
            return;
        };
        if row.stage != *stage {
            return;
        }
        let clients = u32::try_from(row.clients).unwrap_or(u32::MAX);
        let at = past
            .places
            .iter()
            .position(|place| (&place.load, place.clients) == (&row.variant, clients));
        let at = at.unwrap_or_else(|| {
            past.places.push(history::Place {
                load: row.variant.clone(),
                clients,
                metrics: BTreeMap::new(),
            });
            past.places.len() - 1
        });
        let estimate = Estimate {
            estimate: row.value,
            low: row.low.unwrap_or(f64::NAN),
            high: row.high.unwrap_or(f64::NAN),
            level: row.level.unwrap_or(0.0),
            n: row.trials.and_then(|n| n.try_into().ok()).unwrap_or(0),
            warnings: Vec::new(),
        };
        if let Some(place) = past.places.get_mut(at) {
            place.metrics.insert(metric, estimate);
        }
    })?;
    Ok(runs.into_values().map(|(past, _)| past).collect())
}
