//! `pgassay compare --by instructions`: counts where time is too noisy.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use pgassay_analysis::counts::{self, Count, Counts, Round, conclude};

use super::progress::Progress;
use super::record;
use super::show::{next, show};
use crate::cli::compare::{By, CompareArgs};
use crate::cli::lines::LinesArgs;
use crate::exit::{Exit, explain};
use crate::terminal::Terminal;
use pgassay_engine::count::{Counter, Emulator, Method, Profile};
use pgassay_model::Failure;
use pgassay_server::scratch::Scratch;
use pgassay_server::settings::Settings;
use pgassay_server::{Installation, Installations, TargetSpec};
use pgassay_sys::stop::Stop;

/// Transactions of the shorter and the longer session. The difference is what counts.
const LENGTHS: (u64, u64) = (100, 1100);
/// Rounds where --pairs names none.
const ROUNDS: u32 = 3;
/// Functions shown.
const SHOWN: usize = 10;

/// Compares two targets by what is counted: instructions, or the lines that they take.
///
/// # Errors
/// What kept it from counting.
pub fn by(args: &CompareArgs, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    match args.by {
        By::Lines => {
            let asked = LinesArgs::of_compare(args)?;
            let plan = args.sides.dials.workload(&args.workload)?;
            super::lines::of_plan(&asked, plan, terminal, stop)
        }
        _ => compare(args, terminal, stop),
    }
}

/// Compares two targets by counted instructions.
///
/// # Errors
/// What kept it from counting.
fn compare(args: &CompareArgs, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    let document = count(args, None, terminal, stop)?;
    show(&document, &args.show, terminal)?;
    let step = "the same without --by instructions: whether time shows it, too".to_owned();
    next(&args.show, &[step], terminal);
    Ok(document.counted.verdict.into())
}

/// Counts both targets: as many of the rounds as end before `until`, and one at least.
///
/// # Errors
/// What kept it from counting.
pub fn count(
    args: &CompareArgs,
    until: Option<Instant>,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Counts> {
    args.sides.given.refuse_counted()?;
    args.refuse_axes("instructions are counted")?;
    let [a, b] = args.targets.as_slice() else {
        bail!(Failure::usage(
            "--by instructions compares two targets, no more and no fewer"
        ));
    };
    let one_client = args
        .sides
        .slices
        .client_counts
        .as_ref()
        .is_none_or(|list| list.0 == [1]);
    if !one_client {
        bail!(
            Failure::usage("--by instructions counts one client at a time")
                .with_remedy("leave --clients out; what many clients cost each other is for time")
        );
    }
    args.sides.dials.refuse_replay()?;
    let mut workload = args.sides.dials.workload(&args.workload)?;
    if workload.writes {
        bail!(
            Failure::usage(format!(
                "--by instructions needs a workload that only reads, and {} writes: its work is \
                 not the same twice",
                workload.name
            ))
            .with_remedy("select-only, or a script without writes")
        );
    }
    workload.scale = args.sides.slices.one_scale()?.unwrap_or(1);
    let seed = record::seed(None, args.sides.slices.seed)?;
    let common = |own: &[String]| -> anyhow::Result<Settings> {
        let typed: Vec<&String> = args.sides.given.settings.iter().chain(own).collect();
        Settings::parse("--set", &typed).map_err(explain)
    };
    let hosts = hosts(args)?;
    let methods: [Method; 2] = match (&hosts, args.by) {
        (Some(hosts), _) => hosts.clone().map(Method::Emulator),
        (None, By::EmulatedInstructions) => [Method::Callgrind, Method::Callgrind],
        (None, _) => {
            let (method, why_not) = Method::at_hand();
            if let Some(why) = why_not {
                terminal.announce(&format!(
                    "the processor's counter can't be used here ({why}): counting under valgrind"
                ));
            }
            [method.clone(), method]
        }
    };
    let progress = Progress::new(terminal, 1000);
    let found = match &hosts {
        Some(hosts) => [
            foreign(a, &hosts[0], args, stop)?,
            foreign(b, &hosts[1], args, stop)?,
        ],
        None => {
            let at_hand = Installations::search();
            [
                installation(a, args, &at_hand, stop)?.bin_dir,
                installation(b, args, &at_hand, stop)?.bin_dir,
            ]
        }
    };
    // Held longer than the counters' servers.
    let _kept = stop.defer();
    let start = |which: usize, label: &str, own: &[String]| {
        progress.say(format!("starting {label} to be counted"));
        let settings = common(own)?;
        let base = args.sides.scratch.as_deref();
        let method = methods[which].clone();
        Counter::launch(&found[which], &settings, &workload, base, method, stop)
            .with_context(|| found[which].display().to_string())
    };
    let mut counters = [
        start(0, "A", &args.sides.given.set_a)?,
        start(1, "B", &args.sides.given.set_b)?,
    ];
    let planned = args.paired.pairs.unwrap_or(ROUNDS);
    progress.say("counting");
    let mut rounds = Vec::new();
    let mut functions = Vec::new();
    let mut round = Duration::ZERO;
    for number in 0..planned {
        let begun = Instant::now();
        if number > 0 && until.is_some_and(|until| begun + round > until) {
            break;
        }
        let seed = seed.wrapping_add(u64::from(number));
        let mut one = |which: usize, what: &str, part: u32| {
            progress.step(
                f64::from(number * 3 + part) / f64::from(planned * 3),
                format!("round {} of {planned}: {what}", number + 1),
            );
            difference(&mut counters[which], seed)
        };
        let (first, second, again) = (one(0, "A", 0)?, one(1, "B", 1)?, one(0, "A again", 2)?);
        functions = counts::differing(&first.1, &second.1, SHOWN);
        rounds.push(Round {
            seed,
            a: first.0,
            b: second.0,
            a_again: again.0,
        });
        round = begun.elapsed();
    }
    progress.clear();
    let counted = conclude(&rounds, args.delta).context("nothing was counted")?;
    Ok(Counts {
        schema: counts::SCHEMA.to_owned(),
        targets: (a.clone(), b.clone()),
        versions: (
            counters[0].banner().to_owned(),
            counters[1].banner().to_owned(),
        ),
        hosts: hosts.map(|[a, b]| (a.to_string(), b.to_string())),
        workload: workload.name,
        method: methods[0].words(),
        seed,
        counted,
        functions,
        rounds,
    })
}

/// The processors that the servers are emulated on; none where they run on this one.
fn hosts(args: &CompareArgs) -> Result<Option<[Emulator; 2]>, Failure> {
    let Some(typed) = &args.host else {
        return Ok(None);
    };
    // A model may hold commas of its own: a part that names no processor belongs to the one before.
    let mut named: Vec<String> = Vec::new();
    for part in typed.split(',') {
        match named.last_mut() {
            Some(before) if part.parse::<Emulator>().is_err() && before.contains(':') => {
                before.push(',');
                before.push_str(part);
            }
            _ => named.push(part.to_owned()),
        }
    }
    let one = |text: &String| -> Result<Emulator, Failure> {
        let parsed: Result<Emulator, String> = text.parse();
        let mut emulator = parsed.map_err(|why| Failure::usage(format!("--host: {why}")))?;
        emulator.sysroot.clone_from(&args.sysroot);
        Ok(emulator)
    };
    match named.as_slice() {
        [both] => Ok(Some([one(both)?, one(both)?])),
        [a, b] => Ok(Some([one(a)?, one(b)?])),
        several => Err(Failure::usage(format!(
            "--host names {} processors, and two targets are compared",
            several.len()
        ))),
    }
}

/// Where the programs of a target for another processor are.
fn foreign(
    target: &str,
    host: &Emulator,
    args: &CompareArgs,
    stop: &Stop,
) -> anyhow::Result<PathBuf> {
    let spec: TargetSpec = target.parse().map_err(explain)?;
    if let Some(programs) = spec.programs().map_err(explain)? {
        let bytes = fs::read(programs.join("postgres"))?;
        return match pgassay_inspect::machine(&bytes) {
            Some(machine) if machine.name() != host.machine() => Err(Failure::usage(format!(
                "{target} is for {}, and --host says {}",
                machine.name(),
                host.machine()
            ))
            .into()),
            _ => Ok(programs),
        };
    }
    let stand_in = spec.stand_in_for(host.machine());
    match stand_in {
        Some(stand_in) if args.sides.stand_in => {
            let scratch = Scratch::open(args.sides.scratch.as_deref()).map_err(explain)?;
            let prefix = stand_in.prefix(&scratch, stop.flag()).map_err(explain)?;
            Ok(prefix.join("bin"))
        }
        stand_in => {
            let offer = match stand_in {
                Some(stand_in) => format!(
                    ", or let --stand-in fetch {} for {}",
                    stand_in.description(),
                    host.machine()
                ),
                None => String::new(),
            };
            bail!(
                Failure::target(format!("{target}: no PostgreSQL for {} is known here", host.machine()))
                    .with_remedy(format!(
                        "name a cross-build, build:NAME (pgassay build SOURCE --host {}-linux-gnu), or a directory with \
                         bin/postgres{offer}",
                        host.machine()
                    ))
            )
        }
    }
}

fn installation(
    target: &str,
    args: &CompareArgs,
    at_hand: &Installations,
    stop: &Stop,
) -> anyhow::Result<Installation> {
    let spec: TargetSpec = target.parse().map_err(explain)?;
    if let Some(stand_in) = spec.stand_in().filter(|_| args.sides.stand_in) {
        let scratch = Scratch::open(args.sides.scratch.as_deref()).map_err(explain)?;
        return stand_in
            .installation(&scratch, stop.flag())
            .map_err(explain);
    }
    match spec.installation(at_hand).map_err(explain)? {
        Some(installation) => Ok(installation),
        None => bail!(
            Failure::usage("--by instructions starts the servers itself, under valgrind")
                .with_remedy(
                    "name an installation, temp or build:NAME instead of a running server"
                )
        ),
    }
}

/// What the longer session executes beyond the shorter one, and each function per transaction.
///
/// # Errors
/// Where a session fails, or its counts do not come.
pub fn difference(
    counter: &mut Counter,
    seed: u64,
) -> anyhow::Result<(Count, BTreeMap<String, f64>)> {
    let (short, long) = LENGTHS;
    let base = counter.session(short, seed)?;
    let full = counter.session(long, seed)?;
    let transactions = long - short;
    let count = Count {
        transactions,
        instructions: full.instructions.saturating_sub(base.instructions),
        // Only on x86-64 does valgrind's event stand for one kind of instruction.
        locked: beyond(base.locked, full.locked).filter(|_| cfg!(target_arch = "x86_64")),
        exclusive: beyond(base.exclusive, full.exclusive),
        single: beyond(base.single, full.single),
    };
    Ok((count, per_transaction(&base, &full, transactions)))
}

/// What the longer session has more of.
fn beyond(base: Option<u64>, full: Option<u64>) -> Option<u64> {
    Some(full?.saturating_sub(base?))
}

fn per_transaction(base: &Profile, full: &Profile, transactions: u64) -> BTreeMap<String, f64> {
    full.functions
        .iter()
        .map(|(name, cost)| {
            let before = base.functions.get(name).copied().unwrap_or(0);
            let own = cost.saturating_sub(before) as f64 / transactions.max(1) as f64;
            // A compiler's clones count with the function that they come from.
            (name.split('.').next().unwrap_or(name).to_owned(), own)
        })
        .fold(BTreeMap::new(), |mut sums, (name, own)| {
            *sums.entry(name).or_insert(0.0) += own;
            sums
        })
}
