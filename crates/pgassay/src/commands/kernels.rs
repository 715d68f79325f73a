//! `pgassay run kernels`: PostgreSQL's contended operations without a server, over threads.

use std::time::{Duration, Instant};

use anyhow::bail;
use pgassay_analysis::number;
use pgassay_engine::count::kernels as counted;
use pgassay_engine::drivers::kernels::{self, Kernels};
use pgassay_engine::rundir;
use pgassay_kernels::{Form, placement};
use pgassay_model::Failure;
use pgassay_model::kernel_counts::KernelCounts;
use pgassay_model::plan::{Arm, DriverConfig, Experiment, Plan, Stage};
use pgassay_model::primitives::{EmulatedPlan, KernelsPlan};
use pgassay_model::stage::StageId;
use pgassay_observe::host;
use pgassay_server::scratch::Scratch;
use pgassay_sys::private;
use pgassay_sys::stop::Stop;

use super::again::Again;
use super::ending::end;
use super::progress::{Progress, minutes};
use super::quiet;
use super::record;
use super::recorder::Recorder;
use crate::cli::args::{GlobalArgs, RunArgs};
use crate::cli::measure::Concurrency;
use crate::exit::{Exit, explain};
use crate::terminal::Terminal;

/// Seconds for all trials together if nothing was asked for.
const BUDGET: f64 = 75.0;
/// Seconds of a trial, likewise.
const WINDOW: f64 = 0.1;
/// Seconds between two trials: threads made and joined.
const BETWEEN: f64 = 0.005;
/// Threads at once: each has a stack, and a lock that many wait for takes long to leave.
const MOST: u32 = 4096;

/// Measures the kernels, or what an interrupted run of them has not measured.
///
/// # Errors
/// What kept it from measuring; what was measured before is kept.
pub fn run(
    args: &RunArgs,
    again: &Again,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let root = rundir::root(global.runs.as_deref())?;
    let facts = host::facts(None);
    let experiment = match again.experiment() {
        Some(experiment) => experiment.clone(),
        None => Experiment {
            arms: vec![Arm {
                label: "machine".to_owned(),
                target: "this machine, without a server".to_owned(),
                ..Arm::default()
            }],
            stages: vec![stage(args, pgassay_analysis::host::summarise(&facts).cpus)?],
            observe: Vec::new(),
            from: Vec::new(),
        },
    };
    let Some(stage) = experiment.stage(StageId::Kernels) else {
        bail!("the recorded run is of another kind");
    };
    let DriverConfig::Kernels(plan) = &stage.driver else {
        bail!("the recorded run is of another kind");
    };
    if let Some(unknown) = plan.variants.iter().find(|v| kernels::form(v).is_none()) {
        bail!(
            Failure::usage(format!(
                "this program, or this processor, has no kernel `{}`",
                unknown.title()
            ))
            .with_remedy(
                "choose others with --form; pgassay run kernels --help lists the families"
            )
        );
    }
    quiet::look(args.measure.wait_quiet, terminal, stop)?;
    let _deferred = stop.defer();
    let mut header = record::header("run", global, experiment.clone());
    let mut writer = again.open(&root, &mut header)?;
    writer.write_fact("host", &facts)?;
    let before = rundir::read(writer.dir())?;
    if let Some(emulated) = &plan.emulated
        && before.kernel_counts.is_none()
    {
        let counts = count(emulated, terminal, stop)?;
        writer.write_fact("kernel-counts", &counts)?;
    }
    if again.experiment().is_none() {
        for said in not_measured(&args.kernels.chosen()?.elsewhere, plan) {
            terminal.announce(&said);
        }
    }
    let trials = stage.plan.points.len() * stage.plan.trials as usize;
    if trials > 0 {
        terminal.announce(&format!(
            "kernels: {} trials of {:.2} s of {} at each thread count: about {}",
            stage.plan.trials,
            stage.plan.window_ms as f64 / 1e3,
            number::counted(plan.variants.len() as u32, "form"),
            minutes(Duration::from_secs_f64(
                stage.plan.load_seconds() + trials as f64 * BETWEEN
            ))
        ));
    }
    let mut driver = Kernels {
        plan: KernelsPlan::clone(plan),
        points: stage.plan.points.clone(),
        window: Duration::from_millis(stage.plan.window_ms),
        seed: stage.plan.seed,
        stop: stop.clone(),
    };
    let mut progress = Progress::new(terminal, 100);
    let ended = Recorder::new(&mut writer).run(stage, 1, &mut driver, &mut progress, stop);
    drop(progress);
    end(args, (started, ended), writer, (), terminal, |analysis| {
        !analysis.primitives.is_empty() || analysis.kernel_counts.is_some()
    })
}

fn stage(args: &RunArgs, cpus: Option<u32>) -> anyhow::Result<Stage> {
    let chosen = args.kernels.chosen()?;
    let builds = args.kernels.builds()?;
    for build in &builds {
        build.look()?;
    }
    let threads = Concurrency::of(&args.measure, cpus.unwrap_or(1)).clients;
    if let Some(many) = threads.iter().find(|threads| **threads > MOST) {
        bail!(
            Failure::usage(format!(
                "{many} threads are more than the {MOST} that kernels take"
            ))
            .with_remedy("fewer with --clients")
        );
    }
    let variants: Vec<_> = chosen.here.into_iter().map(kernels::variant).collect();
    let mut processors: Vec<String> = builds.iter().map(|b| b.processor().to_owned()).collect();
    processors.dedup();
    let emulated = (!builds.is_empty()).then(|| EmulatedPlan {
        processors,
        forms: args.kernels.forms.clone(),
    });
    let here = placement::here()?;
    let plan = KernelsPlan {
        cpus: placement::Placement::from(args.kernels.placement).order(&here),
        think: args.kernels.think,
        variants,
        emulated,
    };
    let points = plan.points(&threads);
    let window = args.measure.time.unwrap_or(WINDOW);
    let affordable = BUDGET / points.len().max(1) as f64 / (window + BETWEEN);
    let trials = (affordable as u32).clamp(6, 20);
    let seed = record::seed(None, args.measure.seed)?;
    Ok(Stage {
        id: StageId::Kernels,
        plan: Plan {
            points,
            ..record::without_clients(
                kernels::NAME,
                args.measure.trials.unwrap_or(trials),
                (window * 1e3).round().max(1.0) as u64,
                seed,
            )
        },
        driver: DriverConfig::Kernels(Box::new(plan)),
    })
}

/// What is said of forms that this processor lacks: a sentence for each that has them.
fn not_measured(elsewhere: &[&Form], plan: &KernelsPlan) -> Vec<String> {
    let emulated = plan
        .emulated
        .iter()
        .flat_map(|emulated| &emulated.processors);
    let emulated: Vec<&str> = emulated.map(String::as_str).collect();
    let mut processors: Vec<&str> = elsewhere.iter().filter_map(|f| f.of.processor()).collect();
    processors.sort_unstable();
    processors.dedup();
    let said = processors.into_iter().map(|processor| {
        let of = elsewhere.iter().filter(|form| form.of.processor() == Some(processor));
        let forms = number::counted(of.count() as u32, "form");
        match emulated.contains(&processor) {
            true => format!("{forms} of {processor} counted only, under an emulator: no time"),
            false => format!(
                "{forms} of {processor} not measured here; --emulate {processor} counts what they execute"
            ),
        }
    });
    said.collect()
}

/// Compiles the forms for each processor, and counts them under its emulator.
fn count(
    plan: &EmulatedPlan,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<KernelCounts> {
    let mut counts = KernelCounts::default();
    for name in &plan.processors {
        for build in counted::builds(name)? {
            terminal.announce(&format!(
                "counting kernels on {}, emulated: instructions, no time",
                build.title()
            ));
            let progress = Progress::new(terminal, 100);
            progress.say("compiling the kernels".to_owned());
            let scratch = Scratch::open(None).map_err(explain)?;
            let dir = private::Directory::make(scratch.root(), "kernels")?;
            let program = build.compile(dir.path())?;
            let built = program.count(plan, stop, &mut |form| progress.say(form.to_owned()))?;
            progress.clear();
            counts.builds.push(built);
        }
    }
    Ok(counts)
}
