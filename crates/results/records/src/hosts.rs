//! Hosts out of the tables, for `pgassay fleet`.
//!
//! Tables may be anybody's: what a host takes of memory is bounded, texts are cut as those of other
//! hosts are, and a directory is read whole or not at all. Of each host only the run that counts is
//! read with its findings and traits; the others are what it supersedes.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use pgassay_analysis::bottlenecks::Step;
use pgassay_analysis::check::Outcome;
use pgassay_analysis::fleet::{self, Found, Identity, KindKey, Measured, Role, Source, cut};
use pgassay_analysis::stats::Estimate;
use pgassay_model::warning::Warning;

use crate::archive::{Error, files, rows};
use crate::schema::{Table, Time, table};
use crate::tables::{Audit, Host, Trait};
use crate::values::{of_word, written};

/// The tables that are read.
pub const HOST_TABLES: &[&str] = &[
    Named::SPEC.name,
    Host::SPEC.name,
    Audit::SPEC.name,
    Shown::SPEC.name,
    Trait::SPEC.name,
];
/// Runs that are read of a directory: more are no fleet's.
const MOST_RUNS: usize = 1_000_000;
/// Rows that a run may have in one of the tables: catalogue and traits have a few hundred.
const MOST_ROWS: u32 = 4096;
/// Bytes of a list in JSON.
const LONGEST_LIST: usize = 1 << 16;

table! {
    "runs" => Named {
        schema_version: i64,
        run: String,
        command: String,
        started: Time,
        host: Option<String>,
    }
}

table! {
    "findings" => Shown {
        run: String,
        seen_by: String,
        workload: Option<String>,
        id: String,
        severity: String,
        saw: String,
        steps: Option<String>,
    }
}

/// What a directory of tables has of hosts.
#[derive(Debug, Default)]
pub struct Hosts {
    /// One for each run that is in all of the tables.
    pub hosts: Vec<fleet::Host>,
    /// Runs of which the tables do not say what a fleet needs: they were exported by an older pgassay.
    pub outdated: u64,
}

/// A run that counts for its host.
struct Counts {
    /// Which of the hosts.
    at: usize,
    day: PathBuf,
    run: String,
}

/// The hosts in the tables of a directory, each called as its run was exported with `--host`, or as its
/// run. Where nothing says which machine one is, its name and `origin` do.
///
/// # Errors
/// Where a file is damaged, too new, or holds more than a fleet has.
pub fn hosts(dir: &Path, origin: &str) -> Result<Hosts, Error> {
    let mut read = Hosts::default();
    let mut newest: HashMap<Identity, Counts> = HashMap::new();
    for path in files(dir, Named::SPEC.name) {
        let day = PathBuf::from(path.parent().and_then(Path::file_name).unwrap_or_default());
        let mut named: HashMap<String, Named> = HashMap::new();
        rows(&path, |run: Named| {
            // Recordings of shared lines have no host.
            if run.command != "lines" {
                named.insert(run.run.clone(), run);
            }
            match named.len() + read.hosts.len() > MOST_RUNS {
                true => Err(format!("more than {MOST_RUNS} runs are there")),
                false => Ok(()),
            }
        })?;
        let path = of_day(dir, Host::SPEC.name, &day);
        if path.exists() {
            rows(&path, |row: Host| {
                // A killed export left it, or it is there twice.
                let Some(run) = named.remove(&row.run) else {
                    return Ok(());
                };
                let host = host(dir, origin, &run, row)?;
                let at = read.hosts.len();
                let known = newest.get(&host.identity());
                if known.is_none_or(|known| host.rank() > read.hosts[known.at].rank()) {
                    let (day, run) = (day.clone(), run.run);
                    newest.insert(host.identity(), Counts { at, day, run });
                }
                read.hosts.push(host);
                Ok(())
            })?;
        }
        read.outdated += named.len() as u64;
    }
    let mut days: BTreeMap<PathBuf, HashMap<String, usize>> = BTreeMap::new();
    for counts in newest.into_values() {
        let of_day = days.entry(counts.day).or_default();
        of_day.insert(counts.run, counts.at);
    }
    for (day, chosen) in days {
        fill(dir, &day, &chosen, &mut read.hosts)?;
    }
    Ok(read)
}

fn of_day(dir: &Path, table: &str, day: &Path) -> PathBuf {
    dir.join(table).join(day).join(format!("{table}.parquet"))
}

/// A host without what the other tables have of it.
fn host(dir: &Path, origin: &str, run: &Named, row: Host) -> Result<fleet::Host, String> {
    let name = cut(run.host.as_ref().unwrap_or(&run.run));
    let number = |n: Option<i64>| n.and_then(|n| u32::try_from(n).ok());
    let at = written(run.started);
    let short = |text: Option<String>| text.map(|text| cut(&text));
    let measured = row.work.as_ref().zip(row.throughput);
    let measured = measured.map(|(work, estimate)| {
        Ok::<_, String>(Measured {
            work: cut(work),
            rate: Estimate {
                estimate,
                low: row.low.unwrap_or(f64::NAN),
                high: row.high.unwrap_or(f64::NAN),
                level: row.level.unwrap_or(0.0),
                n: number(row.trials).unwrap_or(0) as usize,
                warnings: list::<Warning>(row.warnings.as_deref())?,
            },
            unit: cut(row.unit.as_deref().unwrap_or_default()),
            clients: number(row.clients).unwrap_or(0),
            run: cut(&run.run),
            at: at.clone(),
        })
    });
    Ok(fleet::Host {
        origin: format!("{origin}: {name}"),
        name,
        place: format!("{} in {}", cut(&run.run), dir.display()),
        machine: short(row.machine_id),
        server: short(row.server),
        collected: at.clone(),
        source: Source::Tables,
        kind: KindKey {
            cpu: short(row.cpu),
            cpus: number(row.cpus),
            postgres: short(row.major),
            role: of_word::<Role>(&row.role)
                .ok_or_else(|| format!("a host's role is {}", cut(&row.role)))?,
        },
        found: Vec::new(),
        passed: Default::default(),
        traits: BTreeMap::new(),
        measured: measured.transpose()?,
        audited: row.audited,
        diagnosed: row.diagnosed,
        incomplete: short(row.incomplete),
    })
}

fn list<T: serde::de::DeserializeOwned>(text: Option<&str>) -> Result<Vec<T>, String> {
    let Some(text) = text else {
        return Ok(Vec::new());
    };
    if text.len() > LONGEST_LIST {
        return Err(format!("a list in it has {} bytes", text.len()));
    }
    serde_json::from_str(text).map_err(|error| format!("a list in it is no JSON: {error}"))
}

/// Adds what a day's tables have of those that count.
fn fill(
    dir: &Path,
    day: &Path,
    chosen: &HashMap<String, usize>,
    hosts: &mut [fleet::Host],
) -> Result<(), Error> {
    let mut of = Chosen {
        dir,
        day,
        chosen,
        hosts,
    };
    // What passed is known before a load shows that it did not.
    of.each(|host, row: Audit| {
        let outcome = of_word::<Outcome>(&row.outcome);
        match outcome.ok_or_else(|| format!("an outcome is {}", cut(&row.outcome)))? {
            Outcome::Passed => host.passed.insert(cut(&row.id)),
            _ => false,
        };
        Ok(())
    })?;
    of.each(|host, row: Shown| {
        let severity = of_word(&row.severity);
        let by_audit = row.seen_by == "audit";
        let found = Found {
            id: cut(&row.id),
            severity: severity.ok_or_else(|| format!("a severity is {}", cut(&row.severity)))?,
            saw: cut(&row.saw),
            remedy: list::<Step>(row.steps.as_deref())?,
            under: match by_audit {
                true => None,
                false => Some(cut(row.workload.as_deref().unwrap_or_default())),
            },
        };
        match by_audit {
            true => host.found.push(found),
            false => host.shown_by_load(found),
        }
        Ok(())
    })?;
    of.each(|host, row: Trait| {
        host.traits.insert(cut(&row.name), cut(&row.value));
        Ok(())
    })
}

/// A row that belongs to a run.
trait OfRun: Table {
    fn run(&self) -> &str;
}

impl OfRun for Audit {
    fn run(&self) -> &str {
        &self.run
    }
}

impl OfRun for Shown {
    fn run(&self) -> &str {
        &self.run
    }
}

impl OfRun for Trait {
    fn run(&self) -> &str {
        &self.run
    }
}

/// Hosts whose rows are looked for in a day's tables, by their runs.
struct Chosen<'a> {
    dir: &'a Path,
    day: &'a Path,
    chosen: &'a HashMap<String, usize>,
    hosts: &'a mut [fleet::Host],
}

impl Chosen<'_> {
    /// Every row of theirs in a table.
    fn each<T: OfRun>(
        &mut self,
        mut of: impl FnMut(&mut fleet::Host, T) -> Result<(), String>,
    ) -> Result<(), Error> {
        let path = of_day(self.dir, T::SPEC.name, self.day);
        if !path.exists() {
            return Ok(());
        }
        let mut counts: HashMap<usize, u32> = HashMap::new();
        rows(&path, |row: T| {
            let Some(&at) = self.chosen.get(row.run()) else {
                return Ok(());
            };
            let count = counts.entry(at).or_default();
            *count += 1;
            if *count > MOST_ROWS {
                return Err(format!("a run has more than {MOST_ROWS} rows in it"));
            }
            match self.hosts.get_mut(at) {
                Some(host) => of(host, row),
                None => Ok(()),
            }
        })
    }
}
