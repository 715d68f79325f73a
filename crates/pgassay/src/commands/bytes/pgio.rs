//! `pgassay run pgio`: PGIO's workload with its settings, ours or its own way.

use std::time::Instant;

use anyhow::Context;
use pgassay_analysis::number;
use pgassay_analysis::pgio::is_stable;
use pgassay_analysis::storage::figures;
use pgassay_engine::drivers::pgio::{Pgio, PgioArm};
use pgassay_engine::rundir::{self, RunWriter};
use pgassay_engine::runner::Ended;
use pgassay_engine::workload::pgio::config::Config;
use pgassay_engine::workload::pgio::{NAME, loops, tables};
use pgassay_model::pgio::{PgioCounters, PgioPlan};
use pgassay_model::plan::{DriverConfig, Stage};
use pgassay_model::point::Point;
use pgassay_model::run::EventKind;
use pgassay_model::server::Origin;
use pgassay_model::stage::StageId;
use pgassay_model::trial::Trial;
use pgassay_model::warning::Warning;
use pgassay_model::{Failure, Plan};
use pgassay_observe::host;
use pgassay_pgwire::{Connector, Session};
use pgassay_sys::stop::Stop;

use super::{begin, check_room, open};
use crate::cli::args::{GlobalArgs, RunArgs};
use crate::cli::io::DataArgs;
use crate::cli::observe::ObserveArgs;
use crate::cli::target::TargetArgs;
use crate::commands::again::Again;
use crate::commands::ending::end;
use crate::commands::progress::{Progress, minutes};
use crate::commands::recorder::{Recorder, Steady};
use crate::commands::subject::Subject;
use crate::commands::sweep::settled_counters;
use crate::commands::{observing, quiet, record};
use crate::exit::Exit;
use crate::terminal::Terminal;

/// Trials at each session count where nothing was asked for.
const TRIALS: u32 = 12;
/// Connections beside the sessions.
const BESIDE: u32 = 4;

/// Measures PGIO's workload, or what an interrupted run of it has not measured.
///
/// # Errors
/// What kept it from measuring; what was measured before is kept.
pub fn run(
    args: &RunArgs,
    target: &TargetArgs,
    again: &Again,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let planned = planned(again)?;
    let (config, text) = match planned {
        Some((pgio, _)) => (Config::of_plan(pgio), pgio.config.clone()),
        None => configuration(&args.io.data, terminal)?,
    };
    let classic = planned.map_or(args.io.classic, |(pgio, _)| pgio.classic);
    let counts = match (planned, &args.measure.client_counts) {
        (Some((_, plan)), _) => plan.points.iter().map(|point| point.clients).collect(),
        (None, Some(asked)) => asked.0.clone(),
        (None, None) => vec![config.sessions()],
    };
    let most = counts.iter().max().copied().unwrap_or(1);
    let root = rundir::root(global.runs.as_deref())?;
    quiet::look(args.measure.wait_quiet, terminal, stop)?;
    let machine = pgassay_analysis::host::summarise(&host::facts(None));
    let cpus = machine.cpus.unwrap_or(1);
    let memory = machine.usable_memory_bytes();
    let defaults = settings(&config, memory.unwrap_or(1 << 30));
    let loaders = config.threads.max(cpus).min(config.tables);
    let mut subject = open(
        target,
        &defaults,
        most.max(loaders) + BESIDE,
        terminal,
        stop,
    )?;
    if classic && subject.origin == Origin::Running && !stays_ours(&mut subject)? {
        return Err(Failure::usage(
            "--classic runs one statement for a whole trial, which servers before 14 go on with when \
             pgassay is killed",
        )
        .with_remedy("leave --classic out on this server")
        .into());
    }
    let mut progress = Progress::new(terminal, 100);
    let seed = record::seed(planned.map(|(_, plan)| plan), args.measure.seed)?;
    let setup = set_up(&config, loaders, seed, &mut subject, &mut progress, stop);
    progress.clear();
    let setup_seconds = setup?;
    if args.io.setup_only {
        terminal.announce(&format!(
            "{} of {} in {:.1} s; in the schema {}, where they stay",
            number::counted(config.tables, "table"),
            config.scale,
            setup_seconds,
            tables::SCHEMA
        ));
        return Ok(Exit::Done);
    }
    let plan = match planned {
        Some((_, plan)) => plan.clone(),
        None => {
            let (trials, window_ms) = trials(args, &config);
            let points = counts.iter().map(|&clients| Point {
                clients,
                threads: clients,
                variant: 0,
            });
            Plan {
                points: points.collect(),
                ..record::without_clients(NAME, trials, window_ms, seed)
            }
        }
    };
    let pgio = PgioPlan {
        classic,
        setup_seconds,
        config: text,
        until_stable: planned.map_or(args.io.until_stable, |(pgio, _)| pgio.until_stable),
        keep_tables: planned.map_or(args.io.keep_tables, |(pgio, _)| pgio.keep_tables),
        ..prepared(&config, classic, &mut subject)?
    };
    let keep_tables = pgio.keep_tables;
    let stage = Stage {
        id: StageId::Pgio,
        driver: DriverConfig::Pgio(pgio.clone()),
        plan,
    };
    let begun = begin(
        (args, global),
        (target, again),
        &root,
        &mut subject,
        stage.clone(),
    );
    let (mut writer, _) = begun?;
    let observe = again.observe(&args.measure.observe);
    let ended = measure_all(
        (&stage, &pgio),
        &config,
        &observe,
        &mut subject,
        &mut writer,
        terminal,
        stop,
    );
    if subject.cluster.is_none() && !keep_tables {
        match subject.session().and_then(tables::remove) {
            Ok(()) => terminal.announce("removed PGIO's tables"),
            Err(e) => terminal.warn(&format!("PGIO's tables are still there: {e:#}")),
        }
    }
    end(
        args,
        (started, ended),
        writer,
        subject,
        terminal,
        |analysis| analysis.pgio.as_ref().is_some_and(|p| !p.points.is_empty()),
    )
}

/// Settings of a launched server: what keeps other work out of the figures.
pub fn settings(config: &Config, memory_bytes: u64) -> Vec<(&'static str, String)> {
    let buffers = (config.bytes() / 8 * 9 + (64 << 20))
        .min(memory_bytes / 4)
        .max(128 << 20);
    vec![
        ("shared_buffers", format!("{}kB", buffers / 1024)),
        ("autovacuum", "off".to_owned()),
        ("max_wal_size", "16GB".to_owned()),
        ("checkpoint_timeout", "1h".to_owned()),
        // The tables are made without WAL.
        ("wal_level", "minimal".to_owned()),
        ("max_wal_senders", "0".to_owned()),
    ]
}

/// What the file and the flags say together, and the file's text.
pub fn configuration(
    data: &DataArgs,
    terminal: &mut Terminal,
) -> anyhow::Result<(Config, Option<String>)> {
    let (mut config, text) = match &data.config {
        None => (Config::default(), None),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|e| {
                Failure::usage(format!("--config {}: {e}", path.display()))
                    .with_remedy("name PGIO's pgio.conf")
            })?;
            let (config, unknown) = Config::parse(&path.display().to_string(), &text)?;
            for what in unknown {
                terminal.warn(&format!("{}: {what}; it is left out", path.display()));
            }
            (config, Some(text))
        }
    };
    if let Some(count) = data.tables {
        config.tables = count;
    }
    if let Some(share) = data.update_pct {
        config.update_pct = share;
    }
    if let Some(size) = data.size {
        config.rows = size / 8192;
        config.scale = format!("{}", config.rows);
    }
    config.check()?;
    Ok((config, text))
}

/// RUN_TIME is shared out among the trials of each session count.
fn trials(args: &RunArgs, config: &Config) -> (u32, u64) {
    let trials = args.measure.trials.unwrap_or(TRIALS);
    let seconds = args
        .measure
        .time
        .unwrap_or(config.run_time as f64 / f64::from(trials));
    (trials, (seconds * 1000.0).round().max(50.0) as u64)
}

/// Whether the server ends a long statement of ours when we are killed.
fn stays_ours(subject: &mut Subject) -> anyhow::Result<bool> {
    let version = subject.session()?.value("SHOW server_version_num")?;
    Ok(version.and_then(|v| v.parse::<u32>().ok()).unwrap_or(0) >= 140_000)
}

/// Makes the tables, or completes them; the seconds it took.
fn set_up(
    config: &Config,
    loaders: u32,
    seed: u64,
    subject: &mut Subject,
    progress: &mut Progress,
    stop: &Stop,
) -> anyhow::Result<f64> {
    let room = subject.data_dir();
    check_room(
        room.as_deref(),
        config.bytes(),
        "--size, or SCALE and NUM_SCHEMAS",
    )?;
    let connector = Connector::new(&subject.conninfo);
    let begun = Instant::now();
    progress.say(format!(
        "making {} of {}",
        number::counted(config.tables, "table"),
        config.scale
    ));
    let outcome = tables::create(
        &connector,
        config.tables,
        config.rows,
        loaders,
        seed,
        &mut |share| progress.share(share),
        stop,
    )
    .map_err(|error| match stop.asked() {
        true => Failure::interrupted().into(),
        false => error,
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let others = tables::others(subject.session()?, config.tables)?;
    progress.clear();
    let mut said = format!("tables: {} made", outcome.made);
    for (count, what) in [
        (outcome.replaced, "of another scale replaced"),
        (outcome.kept, "there already"),
        (others, "beyond these left alone"),
    ] {
        if count > 0 {
            said.push_str(&format!(", {count} {what}"));
        }
    }
    progress.say(said);
    Ok(seconds)
}

/// What a recorded run of it planned; none where the run is a new one.
fn planned(again: &Again) -> anyhow::Result<Option<(&PgioPlan, &Plan)>> {
    let Some(experiment) = again.experiment() else {
        return Ok(None);
    };
    match experiment
        .stage(StageId::Pgio)
        .map(|stage| (&stage.driver, &stage.plan))
    {
        Some((DriverConfig::Pgio(pgio), plan)) => Ok(Some((pgio, plan))),
        _ => anyhow::bail!("the recorded run is of another kind"),
    }
}

/// Makes the loop, and asks the server for what is recorded of it.
fn prepared(config: &Config, classic: bool, subject: &mut Subject) -> anyhow::Result<PgioPlan> {
    let session = subject.session()?;
    let number = |value: Option<String>| value.and_then(|v| v.parse::<u64>().ok());
    let version = number(session.value("SHOW server_version_num")?).unwrap_or(0) as u32;
    loops::create(session, config, classic, version)?;
    Ok(PgioPlan {
        block_size_bytes: number(session.value("SHOW block_size")?).unwrap_or(8192),
        plans: plans(session, config)?,
        shared_buffers: session.value("SHOW shared_buffers")?.unwrap_or_default(),
        ..described(config, classic)
    })
}

/// The workload as far as it is known without a server.
pub fn described(config: &Config, classic: bool) -> PgioPlan {
    PgioPlan {
        tables: config.tables,
        rows: config.rows,
        scale: config.scale.clone(),
        work_unit: config.work_unit,
        update_work_unit: config.update_work_unit,
        update_pct: config.update_pct,
        classic,
        block_size_bytes: 8192,
        plans: Default::default(),
        config: None,
        connect_string: config.connect_string.clone(),
        shared_buffers: String::new(),
        setup_seconds: 0.0,
        until_stable: false,
        keep_tables: false,
    }
}

fn measure_all(
    (stage, pgio): (&Stage, &PgioPlan),
    config: &Config,
    observe: &ObserveArgs,
    subject: &mut Subject,
    writer: &mut RunWriter,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Ended> {
    let launched = subject.cluster.is_some();
    let session = subject.session()?;
    let version = session.value("SHOW server_version_num")?;
    let version = version.and_then(|v| v.parse().ok()).unwrap_or(0);
    let plan = &stage.plan;
    if pgio.plans.0 != pgio.plans.1 {
        let warning = Warning::new(
            "plans-differ",
            format!(
                "With its values in the text a range is read by a {}, with a plan that is kept by a {}: \
                 this run and --classic do not do the same work.",
                pgio.plans.0, pgio.plans.1
            ),
        );
        writer.append_event(EventKind::Warned { warning })?;
    }
    if launched {
        session.execute("CHECKPOINT")?;
    }
    let counts: Vec<u32> = plan.points.iter().map(|point| point.clients).collect();
    terminal.announce(&format!(
        "pgio: {} of {:.2} s in {} over {} of {}, {} % updates: about {}",
        number::counted(plan.trials, "trial"),
        plan.window_ms as f64 / 1000.0,
        match counts.as_slice() {
            [one] => number::counted(*one, "session"),
            several => {
                let several: Vec<String> = several.iter().map(u32::to_string).collect();
                format!("{} sessions", several.join(", "))
            }
        },
        number::counted(pgio.tables, "table"),
        pgio.scale,
        pgio.update_pct,
        minutes(std::time::Duration::from_secs_f64(
            plan.load_seconds() * 1.02
        ))
    ));
    let mut progress = Progress::new(terminal, 100);
    let before = settled_counters(&mut subject.scene);
    let storage = subject.scene.storage.clone();
    let block_size = pgio.block_size_bytes;
    let device_rate = |trial: &Trial| {
        let figures = figures(&trial.samples, Some(&storage), block_size);
        Some((0, figures.device.seen()?.per_second(|reads| reads.bytes)?))
    };
    let steady = |rates: &[(u32, f64)]| {
        let rates: Vec<f64> = rates.iter().map(|(_, rate)| *rate).collect();
        is_stable(&rates)
    };
    let mut driver = Pgio {
        plan: plan.clone(),
        pgio: pgio.clone(),
        config: config.clone(),
        arms: vec![PgioArm {
            label: None,
            connector: Connector::new(&subject.conninfo),
            watched: observing::typed(observe, subject),
            version,
            sessions: Vec::new(),
        }],
        stop: stop.clone(),
    };
    let recorder = Recorder {
        steady: pgio.until_stable.then(|| Steady::new(device_rate, steady)),
        ..Recorder::new(writer)
    };
    let ended = recorder.run(stage, 1, &mut driver, &mut progress, stop);
    let written = observing::write_all_symbols(writer, &mut driver);
    // The sessions close, and report what they have not yet reported.
    for arm in driver.arms {
        subject.scene = arm.watched.scene;
    }
    written?;
    progress.say("waiting for the server's counters");
    let after = settled_counters(&mut subject.scene);
    writer.write_fact("pgio-counters", &PgioCounters { before, after })?;
    ended
}

/// How a range is read with its values in the text, and with a plan that is kept.
fn plans(session: &mut Session, config: &Config) -> anyhow::Result<(String, String)> {
    let table = tables::table(1);
    let query = |low: &str, high: &str| {
        format!("SELECT sum(scratch) FROM {table} WHERE mykey BETWEEN {low} AND {high}")
    };
    let last = (1 + config.work_unit).to_string();
    let mut scan = |sql: &str| -> anyhow::Result<String> {
        let text = session
            .value(&format!("EXPLAIN (FORMAT JSON) {sql}"))?
            .context("EXPLAIN said nothing")?;
        let json: serde_json::Value = serde_json::from_str(&text)?;
        let node = &json[0]["Plan"]["Plans"][0]["Node Type"];
        Ok(node.as_str().unwrap_or("no scan").to_owned())
    };
    let literal = scan(&query("1", &last))?;
    session.execute(&format!(
        "PREPARE pgio_range(bigint, bigint) AS {}",
        query("$1", "$2")
    ))?;
    // After five executions the plan may be kept; those are not enough here.
    for _ in 0..6 {
        session.execute(&format!("EXECUTE pgio_range(1, {last})"))?;
    }
    let text = session
        .value(&format!(
            "EXPLAIN (FORMAT JSON) EXECUTE pgio_range(1, {last})"
        ))?
        .context("EXPLAIN said nothing")?;
    session.execute("DEALLOCATE pgio_range")?;
    let json: serde_json::Value = serde_json::from_str(&text)?;
    let kept = json[0]["Plan"]["Plans"][0]["Node Type"]
        .as_str()
        .unwrap_or("no scan")
        .to_owned();
    Ok((literal, kept))
}
