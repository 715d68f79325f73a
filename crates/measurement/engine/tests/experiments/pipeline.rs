//! The whole pipeline without time: plan, schedule, run directory, analysis.
//!
//! An arena with a clock of its own plays the server, so that what is concluded
//! can be held against what was played.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use pgassay_analysis::{Analysis, analyse, metrics};
use pgassay_engine::rundir::{self, RunWriter, catalogue};
use pgassay_engine::runner::{
    self, Driver, Ended, Keep, Schedule, Sink, TrialFailure, Upcoming, Watcher,
};
use pgassay_model::plan::{Arm, Experiment, Stage};
use pgassay_model::point::{Point, Slice};
use pgassay_model::reading::{Reading, Sample};
use pgassay_model::run::{EndState, EventKind, FORMAT, RunEnd, RunHeader, RunState};
use pgassay_model::stage::StageId;
use pgassay_model::trial::Trial;
use pgassay_model::workload::WorkloadPlan;
use pgassay_model::{Plan, samplers};
use pgassay_sys::stop::Stop;

pub(crate) fn plan() -> Plan {
    Plan {
        workload: WorkloadPlan {
            name: "select-only".into(),
            scale: 10,
            protocol: "prepared".into(),
            ..WorkloadPlan::default()
        },
        points: [1, 2, 4]
            .map(|clients| Point {
                clients,
                threads: 1,
                variant: 0,
            })
            .to_vec(),
        trials: 8,
        warmup_ms: 100,
        window_ms: 1000,
        seed: 11,
        disturbed_above: None,
    }
}

/// Plays a server of two CPUs: each transaction takes 100 µs, 80 of them CPU in the server.
pub(crate) struct Played {
    plan: Plan,
    /// What happens instead of the slice with this index.
    accident: Option<(u32, fn() -> TrialFailure)>,
}

impl Driver for Played {
    fn run(
        &mut self,
        slice: Slice,
        _: &mut dyn Watcher,
        keep: Keep<'_>,
    ) -> Result<(), TrialFailure> {
        if let Some((at, accident)) = self.accident
            && slice.index >= at
        {
            return Err(accident());
        }
        let clients = u64::from(self.plan.points[slice.point as usize].clients);
        // Two CPUs: the third client brings nothing. The rounds spread by 1 %.
        let wobble = 1.0 + f64::from(slice.round % 3) / 100.0;
        let transactions = (10_000.0 * clients.min(2) as f64 * wobble) as u64;
        let each = 1_000_000_000 * clients / transactions;
        let mut latency = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        latency.record_n(each, transactions).unwrap();
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&latency, &mut bytes)
            .unwrap();
        let sample = |before: String, after: String| Sample {
            before: Reading::Text(before),
            after: Reading::Text(after),
            elapsed_ns: 1_000_000_000,
        };
        let cpu = transactions * 80_000;
        let row = |n: u64| {
            format!(
                "{{\"xact_commit\":{n},\"blks_hit\":{},\"blks_read\":7}}",
                n * 4
            )
        };
        let samples = BTreeMap::from([
            (
                samplers::SERVER_SCHEDSTAT.into(),
                sample("7 5 5 1\n".into(), format!("7 {} 5 9\n", cpu + 5)),
            ),
            (
                samplers::PG_STAT_DATABASE.into(),
                sample(row(1000), row(1000 + transactions)),
            ),
            (
                samplers::HOST_STAT.into(),
                Sample {
                    before: Reading::Unavailable("hidden".into()),
                    after: Reading::Unavailable("hidden".into()),
                    elapsed_ns: 1,
                },
            ),
        ]);
        keep(Trial {
            started: "2026-11-21T03:00:00Z".into(),
            window_ns: 1_000_000_000,
            transactions,
            failures: BTreeMap::new(),
            latency: BASE64_STANDARD.encode(bytes),
            latency_from_actual_start: None,
            intervals: vec![],
            client_user_ns: transactions * 2_000,
            client_system_ns: transactions * 3_000,
            busiest_thread_share: Some(0.1),
            transactions_sent: transactions,
            samples,
            cut_short: None,
            ..Trial::default()
        })
        .map_err(TrialFailure::Other)
    }

    fn unit(&self) -> &'static str {
        "tps"
    }

    fn describe(&self, slice: Slice) -> String {
        format!("point {}", slice.point)
    }
}

pub(crate) struct Directory(pub(crate) RunWriter);

impl Sink for Directory {
    fn trial(&mut self, trial: &Trial) -> anyhow::Result<()> {
        self.0.append_trial(trial)
    }
    fn event(&mut self, event: EventKind) -> anyhow::Result<()> {
        self.0.append_event(event)
    }
}

pub(crate) struct Unwatched;

impl Watcher for Unwatched {
    fn before(&mut self, _: Upcoming) {}
    fn after(&mut self, _: &Trial) {}
}

/// A directory that goes with the test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("pgassay-test-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn begin(scratch: &Scratch, plan: &Plan) -> (RunWriter, RunHeader) {
    let arm = Arm {
        label: "temp".into(),
        target: "temp".into(),
        ..Arm::default()
    };
    let mut header = RunHeader {
        schema: "pgassay/run/1".into(),
        format: FORMAT,
        id: String::new(),
        command: "assay".into(),
        command_line: vec!["pgassay".into(), "assay".into()],
        pgassay_version: "0.0.0".into(),
        started: "2026-11-21T03:00:00Z".into(),
        experiment: Experiment::single(vec![arm], Stage::wire(StageId::Load, plan.clone())),
    };
    (RunWriter::create(&scratch.0, &mut header).unwrap(), header)
}

fn go(writer: RunWriter, measured: &HashSet<u32>, played: Played) -> (RunWriter, Ended) {
    go_in(writer, StageId::Load, measured, played)
}

fn go_in(
    writer: RunWriter,
    stage: StageId,
    measured: &HashSet<u32>,
    mut played: Played,
) -> (RunWriter, Ended) {
    let mut sink = Directory(writer);
    let schedule = Schedule {
        stage,
        slices: &Stage::wire(stage, played.plan.clone()).schedule(1),
        measured,
    };
    let ended = runner::run(
        &schedule,
        &mut played,
        &mut sink,
        &mut Unwatched,
        &Stop::new(),
    )
    .unwrap();
    (sink.0, ended)
}

pub(crate) fn played(plan: &Plan) -> Played {
    Played {
        plan: plan.clone(),
        accident: None,
    }
}

pub(crate) fn end(state: EndState) -> RunEnd {
    RunEnd {
        state,
        reason: None,
        at: String::new(),
        elapsed_seconds: 1.0,
        max_rss_bytes: 1,
    }
}

pub(crate) fn analysed(scratch: &Scratch) -> Analysis {
    analyse(&rundir::read(&catalogue::find(&scratch.0, "last").unwrap()).unwrap())
}

#[test]
fn a_second_load_is_concluded_beside_the_first() {
    let scratch = Scratch::new("second");
    let first = plan();
    let mut other = plan();
    other.workload.name = "tpcb-like".into();
    other.trials = 6;
    let (writer, mut header) = begin(&scratch, &first);
    let stages = &mut header.experiment.stages;
    stages.push(Stage::wire(StageId::WriteLoad, other.clone()));
    writer.write_header(&header).unwrap();
    let (mut writer, _) = go(writer, &HashSet::new(), played(&first));
    let stops: fn() -> TrialFailure = || TrialFailure::Interrupted;
    // Once interrupted, once to its end: what is measured is not measured again.
    for (accident, measured) in [(Some((9, stops)), 9), (None, 18)] {
        let before = rundir::read(writer.dir()).unwrap();
        let before = before.measured(StageId::WriteLoad);
        let part = Played {
            accident,
            ..played(&other)
        };
        (writer, _) = go_in(writer, StageId::WriteLoad, &before, part);
        let analysis = analyse(&rundir::read(writer.dir()).unwrap());
        assert_eq!(
            (analysis.run.trials_measured, analysis.run.trials_planned),
            (24 + measured, 24 + 18)
        );
    }
    writer.finish(&end(EndState::Complete)).unwrap();
    drop(writer);

    let analysis = analysed(&scratch);
    let second = &analysis.stages[1];
    assert_eq!(second.plan.workload.name, "tpcb-like");
    assert_eq!(second.arms[0].points.len(), 3);
    assert!(second.arms[0].points.iter().all(|p| p.trials.len() == 6));
    assert_eq!(analysis.main().arms[0].points[0].trials.len(), 8);
    let told = |sentence: &&String| sentence.contains("tpcb-like");
    assert_eq!(analysis.headline.iter().filter(told).count(), 1);
    assert_eq!(
        analysis
            .headline
            .iter()
            .position(|s| s.contains("tpcb-like")),
        Some(analysis.headline.len() - 1)
    );
}

#[test]
fn what_was_played_is_concluded() {
    let scratch = Scratch::new("whole");
    let plan = plan();
    let (writer, _) = begin(&scratch, &plan);
    let (mut writer, ended) = go(writer, &HashSet::new(), played(&plan));
    assert!(matches!(ended, Ended::Complete));
    writer.finish(&end(EndState::Complete)).unwrap();
    drop(writer);

    let analysis = analysed(&scratch);
    assert_eq!(analysis.run.state, RunState::Complete);
    assert_eq!(
        (analysis.run.trials_measured, analysis.run.trials_planned),
        (24, 24)
    );
    let points = &analysis.main().arms[0].points;
    assert_eq!(
        points.iter().map(|p| p.point.clients).collect::<Vec<_>>(),
        [1, 2, 4]
    );
    for (point, tps) in points.iter().zip([10_000.0, 20_000.0, 20_000.0]) {
        let estimate = &point.throughput_tps;
        assert!(
            estimate.low >= tps * 0.9999 && estimate.high <= tps * 1.021,
            "{estimate:?}"
        );
        assert!(estimate.low <= estimate.estimate && estimate.estimate <= estimate.high);
        assert_eq!((estimate.n, estimate.level), (8, 0.95));
        let of = |metric| point.estimate(metric).expect("it was seen").estimate;
        assert!((of(metrics::SERVER_CPU) - 80.0).abs() < 0.1);
        assert!((of(metrics::CLIENT_CPU) - 5.0).abs() < 0.01);
        assert!((of(metrics::CLIENT_USER_CPU) - 2.0).abs() < 0.01);
        assert!((of(metrics::BUFFER_HITS) - 4.0).abs() < 0.01);
        // What could not be read is missing, not nought.
        assert_eq!(point.estimate(metrics::MACHINE_CPUS), None);
        assert_eq!(point.trials.len(), 8);
    }
    // HDR histograms keep three digits.
    let p99 = points[2].estimate(metrics::P99).unwrap().estimate;
    assert!((195.0..=201.0).contains(&p99), "{p99}");
    assert!(
        analysis.headline[0].contains("select-only"),
        "{:?}",
        analysis.headline
    );
}

#[test]
fn a_server_that_dies_leaves_what_was_measured_and_the_run_goes_on_later() {
    let scratch = Scratch::new("died");
    let plan = plan();
    let (writer, header) = begin(&scratch, &plan);
    let died = Played {
        accident: Some((10, || TrialFailure::ServerDied("killed".into()))),
        ..played(&plan)
    };
    let (mut writer, ended) = go(writer, &HashSet::new(), died);
    assert!(matches!(ended, Ended::ServerDied(_)));
    let dir = writer.dir().to_owned();
    let mut died = end(EndState::ServerDied);
    died.reason = Some("the server died: killed".into());
    writer.finish(&died).unwrap();
    drop(writer);
    let analysis = analysed(&scratch);
    assert_eq!(analysis.run.state, RunState::ServerDied);
    assert_eq!(analysis.run.trials_measured, 10);
    assert!(analysis.warnings.iter().any(|w| w.id == "incomplete"));

    // Resumed, the remaining slices are those of the same plan.
    let measured: HashSet<u32> = rundir::read(&dir)
        .unwrap()
        .trials
        .iter()
        .map(|t| t.slice.index)
        .collect();
    let writer = RunWriter::reopen(&dir, &header).unwrap();
    let (mut writer, ended) = go(writer, &measured, played(&plan));
    assert!(matches!(ended, Ended::Complete));
    writer.finish(&end(EndState::Complete)).unwrap();
    drop(writer);
    let run = rundir::read(&dir).unwrap();
    let mut indexes: Vec<u32> = run.trials.iter().map(|t| t.slice.index).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, (0..24).collect::<Vec<_>>());
}

#[test]
fn a_point_out_of_reach_is_left_out_and_said() {
    struct Narrow(Played);
    impl Driver for Narrow {
        fn run(
            &mut self,
            slice: Slice,
            watcher: &mut dyn Watcher,
            keep: Keep<'_>,
        ) -> Result<(), TrialFailure> {
            if self.0.plan.points[slice.point as usize].clients > 2 {
                return Err(TrialFailure::PointOutOfReach("only 3 connections".into()));
            }
            self.0.run(slice, watcher, keep)
        }
        fn unit(&self) -> &'static str {
            self.0.unit()
        }
        fn describe(&self, slice: Slice) -> String {
            self.0.describe(slice)
        }
    }
    let scratch = Scratch::new("narrow");
    let plan = plan();
    let (writer, _) = begin(&scratch, &plan);
    let mut journal = Directory(writer);
    let schedule = Schedule {
        stage: StageId::Load,
        slices: &Stage::wire(StageId::Load, plan.clone()).schedule(1),
        measured: &HashSet::new(),
    };
    let ended = runner::run(
        &schedule,
        &mut Narrow(played(&plan)),
        &mut journal,
        &mut Unwatched,
        &Stop::new(),
    );
    assert!(matches!(ended, Ok(Ended::Complete)));
    journal.0.finish(&end(EndState::Complete)).unwrap();
    drop(journal);
    let analysis = analysed(&scratch);
    assert_eq!(analysis.main().arms[0].points.len(), 2);
    let said = analysis
        .warnings
        .iter()
        .find(|w| w.id == "point-skipped")
        .unwrap();
    assert!(said.text.contains("only 3 connections"), "{said:?}");
}

#[test]
fn a_killed_run_is_read_up_to_its_last_whole_line() {
    let scratch = Scratch::new("killed");
    let plan = plan();
    let (writer, header) = begin(&scratch, &plan);
    let part = Played {
        accident: Some((5, || TrialFailure::Interrupted)),
        ..played(&plan)
    };
    let (writer, _) = go(writer, &HashSet::new(), part);
    let dir = writer.dir().to_owned();
    assert_eq!(
        catalogue::list(&scratch.0).unwrap()[0].state,
        RunState::Running
    );
    drop(writer);
    let mut trials = fs::OpenOptions::new()
        .append(true)
        .open(dir.join("trials.jsonl"))
        .unwrap();
    trials.write_all(b"{\"slice\":{\"index\":5,\"rou").unwrap();

    let entry = &catalogue::list(&scratch.0).unwrap()[0];
    assert_eq!(
        (entry.state, entry.trials),
        (RunState::Interrupted, (5, 24))
    );
    let run = rundir::read(&dir).unwrap();
    assert_eq!(run.trials.len(), 5);
    assert_eq!(run.damage.len(), 1);
    assert_eq!(analyse(&run).run.state, RunState::Interrupted);
    // Going on drops the half line, so that the next trial starts on its own.
    drop(RunWriter::reopen(&dir, &header).unwrap());
    assert!(rundir::read(&dir).unwrap().damage.is_empty());
}

#[test]
fn damaged_and_foreign_directories_are_named() {
    let scratch = Scratch::new("damaged");
    let plan = plan();
    let (writer, _) = begin(&scratch, &plan);
    let dir = writer.dir().to_owned();
    drop(writer);
    let text = |e: anyhow::Error| format!("{e:#}");
    assert!(text(catalogue::find(&scratch.0, "nosuch").unwrap_err()).contains("nosuch"));
    assert!(text(rundir::read(&scratch.0).unwrap_err()).contains("not a recorded run"));
    let header = fs::read_to_string(dir.join("run.json")).unwrap();
    fs::write(
        dir.join("run.json"),
        header.replace("\"format\": 1", "\"format\": 99"),
    )
    .unwrap();
    assert!(text(rundir::read(&dir).unwrap_err()).contains("format 99"));
    fs::write(dir.join("run.json"), &header[..40]).unwrap();
    assert!(text(rundir::read(&dir).unwrap_err()).contains("damaged"));
    fs::write(dir.join("run.json"), header).unwrap();
    fs::write(dir.join("end.json"), "{").unwrap();
    fs::write(dir.join("trials.jsonl"), "not json\n\0\0\n").unwrap();
    let run = rundir::read(&dir).unwrap();
    assert_eq!(run.damage.len(), 3, "{:?}", run.damage);
    assert!(analyse(&run).warnings.iter().any(|w| w.id == "damaged"));
}

#[test]
fn a_run_that_is_measured_is_neither_opened_nor_removed() {
    let scratch = Scratch::new("locked");
    let plan = plan();
    let (writer, header) = begin(&scratch, &plan);
    assert!(RunWriter::reopen(writer.dir(), &header).is_err());
    assert!(catalogue::remove(writer.dir()).is_err());
    let dir = writer.dir().to_owned();
    drop(writer);
    catalogue::remove(&dir).unwrap();
    assert!(catalogue::list(&scratch.0).unwrap().is_empty());
}
