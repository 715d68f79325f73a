//! After `pgassay run query-loop`: the same statement over the wire beside the loops, with CPU
//! samples, and where it is asked for with counted instructions.

use std::path::Path;

use pgassay_engine::count::query_ways;
use pgassay_engine::drivers::query_ways::QueryWays;
use pgassay_engine::rundir::RunWriter;
use pgassay_engine::runner::Ended;
use pgassay_engine::workload::inserver::Knobs;
use pgassay_model::Failure;
use pgassay_model::plan::{DriverConfig, Stage};
use pgassay_model::query_cost::{QueryCostRecord, Way};
use pgassay_pgwire::Session;
use pgassay_server::Installation;
use pgassay_sys::stop::Stop;

use super::progress::Progress;
use super::recorder::Recorder;
use super::subject::Subject;
use crate::terminal::Terminal;

/// What counting instructions needs: a cluster of its own is made for it.
pub struct Counting<'a> {
    /// The measured server's installation.
    pub installation: &'a Installation,
    /// Where clusters lie.
    pub scratch: Option<&'a Path>,
    /// Makes functions and table.
    pub prepare: &'a dyn Fn(&mut Session) -> anyhow::Result<()>,
}

/// Whether a query's way is looked at after the sweep: for the loops of the statement that
/// select-only has.
///
/// # Errors
/// Where instructions are to be counted of anything else.
pub fn wanted(workload: &str, knobs: &Knobs, instructions: bool) -> Result<bool, Failure> {
    let wanted = matches!(workload, "query-loop" | "plpgsql-loop") && knobs.statement.is_none();
    if instructions && !wanted {
        return Err(Failure::usage(
            "--instructions compares the loops with select-only, statement by statement",
        )
        .with_remedy("run query-loop --instructions, without --sql"));
    }
    Ok(wanted)
}

/// The statement over the wire and in both loops, one session at a time.
///
/// # Errors
/// Where a statement fails, or the run directory can't be written. That there is nothing to
/// sample or to count with is recorded, and no error.
pub fn measure(
    stage: &Stage,
    counting: &Counting<'_>,
    subject: &mut Subject,
    writer: &mut RunWriter,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let mut progress = Progress::new(terminal, 100);
    let mut record = QueryCostRecord::default();
    let postmaster = subject.scene.postmaster.clone();
    let opened = match postmaster {
        Ok(postmaster) => QueryWays::open(&subject.conninfo, postmaster, stage.plan.seed, stop)?,
        Err(why) => Err(why),
    };
    match opened {
        Err(why) => record.unavailable = Some(why),
        Ok(mut ways) => {
            let recorder = Recorder::new(writer);
            let ended = recorder.run(stage, 1, &mut ways, &mut progress, stop);
            record.symbols = ways.finish();
            writer.write_fact("query-cost", &record)?;
            match ended? {
                Ended::Complete => {}
                ended => return Ok(ended),
            }
        }
    }
    if let DriverConfig::QueryWays { instructions: true } = stage.driver {
        progress.say("counting: starting a server under valgrind");
        let counted = query_ways::count(
            counting.installation,
            counting.scratch,
            stop,
            &mut |session| (counting.prepare)(session),
            stage.plan.seed,
            &mut |way: Way| progress.say(format!("counting: {}", way.title())),
        );
        match counted {
            Ok(counted) => record.counted = counted,
            Err(_) if stop.asked() => return Ok(Ended::Interrupted),
            Err(error) => record.not_counted = Some(format!("{error:#}")),
        }
    }
    writer.write_fact("query-cost", &record)?;
    Ok(Ended::Complete)
}
