//! One run, read and concluded, as reports show it.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use anyhow::bail;
use pgassay_analysis::compare::{self, Compare};
use pgassay_analysis::summary::Summary;
use pgassay_analysis::{Analysis, analyse};
use pgassay_engine::rundir;
use pgassay_model::Failure;
use pgassay_report::{Document, Report};

use super::search::{self, Recorded};

/// Largest `trials.jsonl` that is read here.
const LARGEST: u64 = 256 << 20;

/// A run by what it was.
pub enum Concluded {
    /// A measurement.
    Analysis(Box<Analysis>),
    /// A comparison of which pairs were measured.
    Compare(Box<Compare>),
    /// A search; and the measurements that it made.
    Bisected(Box<Recorded>, Box<Analysis>),
}

impl Concluded {
    /// Reads the run in a directory.
    ///
    /// # Errors
    /// Where it is none, can't be read, is too large, or holds what may lead elsewhere.
    pub fn at(dir: &Path) -> anyhow::Result<Self> {
        if let Some(found) = rundir::irregular(dir)? {
            let name = found.file_name().unwrap_or_default().display().to_string();
            bail!(
                Failure::usage(format!("{name} in it is neither a file nor a directory"))
                    .with_remedy("move it away: a link in a run could lead elsewhere")
            );
        }
        let trials = fs::metadata(dir.join("trials.jsonl")).map_or(0, |meta| meta.len());
        if trials > LARGEST {
            bail!(
                Failure::usage(format!("its trials are larger than {} MiB", LARGEST >> 20))
                    .with_remedy("pgassay report shows it")
            );
        }
        // A damaged run must not end whoever reads many.
        catch_unwind(AssertUnwindSafe(|| {
            let run = rundir::read(dir)?;
            if let Some(search) = search::recorded(dir)? {
                return Ok(Self::Bisected(Box::new(search), Box::new(analyse(&run))));
            }
            Ok(match compare::conclude(&run) {
                Some(compare) => Self::Compare(Box::new(compare)),
                None => Self::Analysis(Box::new(analyse(&run))),
            })
        }))
        .unwrap_or_else(|_| bail!(Failure::usage("pgassay fails on it: please report that")))
    }

    /// What people read.
    pub fn document(&self) -> Document {
        match self {
            Self::Analysis(analysis) => analysis.document(),
            Self::Compare(compare) => compare.document(),
            Self::Bisected(search, _) => search.document(),
        }
    }

    /// What programs read.
    pub fn json(&self) -> String {
        match self {
            Self::Analysis(analysis) => pgassay_report::json(analysis),
            Self::Compare(compare) => pgassay_report::json(compare),
            Self::Bisected(search, _) => pgassay_report::json(search.as_ref()),
        }
    }

    /// The same in a line.
    pub fn summary(&self) -> Summary {
        match self {
            Self::Analysis(analysis) => Summary::of(analysis),
            Self::Compare(compare) => Summary::of_compare(compare),
            Self::Bisected(search, analysis) => Summary {
                result: search
                    .document()
                    .headline
                    .into_iter()
                    .next()
                    .unwrap_or_default(),
                ..Summary::of(analysis)
            },
        }
    }

    /// The measurement alone.
    pub fn into_analysis(self) -> Analysis {
        match self {
            Self::Analysis(analysis) | Self::Bisected(_, analysis) => *analysis,
            Self::Compare(compare) => compare.analysis,
        }
    }
}
