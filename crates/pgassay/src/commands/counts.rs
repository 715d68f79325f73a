//! `pgassay compare --by instructions`: counts where time is too noisy.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, bail};
use pgassay_analysis::counts::{Count, Counted, Round, conclude};
use pgassay_analysis::stats::Verdict;
use serde::Serialize;

use super::progress::Progress;
use super::subject::explain;
use crate::cli::compare::{By, CompareArgs};
use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_engine::count::{Counter, Method, Profile};
use pgassay_engine::rundir;
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

/// What is printed as JSON.
#[derive(Debug, Serialize)]
pub struct CountsDocument {
    /// `pgassay/counts/1`.
    pub schema: &'static str,
    /// The targets, as named.
    pub targets: (String, String),
    /// The servers' versions.
    pub versions: (String, String),
    /// The workload.
    pub workload: String,
    /// How it was counted.
    pub method: &'static str,
    /// The seed of the first round.
    pub seed: u64,
    /// The conclusion.
    pub counted: Counted,
    /// Functions that differ most, per transaction.
    pub functions: Vec<FunctionCount>,
    /// The counts themselves.
    pub rounds: Vec<Round>,
}

/// What a function itself executes per transaction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionCount {
    /// Its name.
    pub name: String,
    /// In A.
    pub a: f64,
    /// In B.
    pub b: f64,
}

/// Compares two targets by counted instructions.
///
/// # Errors
/// What kept it from counting.
pub fn compare(args: &CompareArgs, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    let document = count(args, terminal, stop)?;
    let text = if args.json {
        serde_json::to_string_pretty(&document).context("cannot serialize")? + "\n"
    } else {
        text(&document)
    };
    terminal.show(&text)?;
    Ok(match document.counted.verdict {
        Verdict::Faster | Verdict::Equivalent => Exit::Done,
        Verdict::Slower => Exit::Found,
        Verdict::Inconclusive => Exit::Inconclusive,
        Verdict::NotComparable => Exit::NotComparable,
    })
}

/// Counts both targets.
///
/// # Errors
/// What kept it from counting.
pub fn count(
    args: &CompareArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<CountsDocument> {
    let [a, b] = args.targets.as_slice() else {
        bail!(Failure::usage(
            "--by instructions compares two targets, no more and no fewer"
        ));
    };
    let one_client = args.clients.as_ref().is_none_or(|list| list.0 == [1]);
    if !one_client {
        bail!(
            Failure::usage("--by instructions counts one client at a time")
                .with_remedy("leave --clients out; what many clients cost each other is for time")
        );
    }
    let mut workload = args.dials.workload(&args.workload)?;
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
    workload.scale = args.scale.unwrap_or(1);
    let seed = match args.seed {
        Some(seed) => seed,
        None => rundir::random_seed()?,
    };
    let common = |own: &[String]| -> anyhow::Result<Settings> {
        let typed: Vec<&String> = args.settings.iter().chain(own).collect();
        Settings::parse("--set", &typed).map_err(explain)
    };
    let method = match args.by {
        By::EmulatedInstructions => Method::Callgrind,
        _ => {
            let (method, why_not) = Method::at_hand();
            if let Some(why) = why_not {
                terminal.announce(&format!(
                    "the processor's counter can't be used here ({why}): counting under valgrind"
                ));
            }
            method
        }
    };
    let progress = Progress::new(terminal, 1000);
    let at_hand = Installations::search();
    let found = [
        installation(a, args, &at_hand, stop)?,
        installation(b, args, &at_hand, stop)?,
    ];
    // Held longer than the counters' servers.
    let _kept = stop.defer();
    let start = |which: usize, label: &str, own: &[String]| {
        progress.say(format!("starting {label} to be counted"));
        let settings = common(own)?;
        let base = args.scratch.as_deref();
        Counter::launch(&found[which], &settings, &workload, base, method, stop)
            .with_context(|| found[which].bin_dir.display().to_string())
    };
    let mut counters = [start(0, "A", &args.set_a)?, start(1, "B", &args.set_b)?];
    let planned = args.pairs.unwrap_or(ROUNDS);
    let mut rounds = Vec::new();
    let mut functions = Vec::new();
    for number in 0..planned {
        let seed = seed.wrapping_add(u64::from(number));
        let mut one = |which: usize, what: &str, part: u32| {
            progress.share(f64::from(number * 3 + part) / f64::from(planned * 3));
            progress.say(format!("round {} of {planned}: {what}", number + 1));
            difference(&mut counters[which], seed)
        };
        let (first, second, again) = (one(0, "A", 0)?, one(1, "B", 1)?, one(0, "A again", 2)?);
        functions = differing(&first.1, &second.1);
        rounds.push(Round {
            seed,
            a: first.0,
            b: second.0,
            a_again: again.0,
        });
    }
    progress.clear();
    let counted = conclude(&rounds, args.delta).context("nothing was counted")?;
    Ok(CountsDocument {
        schema: "pgassay/counts/1",
        targets: (a.clone(), b.clone()),
        versions: (found[0].banner.clone(), found[1].banner.clone()),
        workload: workload.name,
        method: method.words(),
        seed,
        counted,
        functions,
        rounds,
    })
}

fn installation(
    target: &str,
    args: &CompareArgs,
    at_hand: &Installations,
    stop: &Stop,
) -> anyhow::Result<Installation> {
    let spec: TargetSpec = target.parse().map_err(explain)?;
    if let Some(stand_in) = spec.stand_in().filter(|_| args.stand_in) {
        let scratch = Scratch::open(args.scratch.as_deref()).map_err(explain)?;
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

/// What the longer session executes beyond the shorter one.
fn difference(counter: &mut Counter, seed: u64) -> anyhow::Result<(Count, BTreeMap<String, f64>)> {
    let (short, long) = LENGTHS;
    let base = counter.session(short, seed)?;
    let full = counter.session(long, seed)?;
    let transactions = long - short;
    let count = Count {
        transactions,
        instructions: full.instructions.saturating_sub(base.instructions),
        // Only on x86-64 does valgrind's event stand for one kind of instruction.
        locked: full
            .locked
            .zip(base.locked)
            .filter(|_| cfg!(target_arch = "x86_64"))
            .map(|(full, base)| full.saturating_sub(base)),
    };
    Ok((count, per_transaction(&base, &full, transactions)))
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

/// The functions that differ most, by the size of the difference.
fn differing(a: &BTreeMap<String, f64>, b: &BTreeMap<String, f64>) -> Vec<FunctionCount> {
    let of = |side: &BTreeMap<String, f64>, name: &str| side.get(name).copied().unwrap_or(0.0);
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort();
    names.dedup();
    let mut all: Vec<FunctionCount> = names
        .into_iter()
        .map(|name| FunctionCount {
            name: name.clone(),
            a: of(a, name),
            b: of(b, name),
        })
        .filter(|f| (f.a - f.b).abs() >= 1.0)
        .collect();
    all.sort_by(|x, y| (y.a - y.b).abs().total_cmp(&(x.a - x.b).abs()));
    all.truncate(SHOWN);
    all
}

fn text(document: &CountsDocument) -> String {
    let counted = &document.counted;
    let percent = |share: f64| format!("{:+.2} %", share * 100.0);
    let (a, b) = counted.instructions;
    let answer = match counted.verdict {
        Verdict::Slower => "B executes more instructions than A",
        Verdict::Faster => "B executes fewer instructions than A",
        Verdict::Equivalent => "A and B execute equally many instructions",
        Verdict::Inconclusive | Verdict::NotComparable => {
            "whether A and B differ by what matters is not decided"
        }
    };
    let mut text = format!(
        "{answer}: {} ({} to {}), where {:.2} % matters.\n\nA  {}  {}\nB  {}  {}\n",
        percent(counted.difference.estimate),
        percent(counted.difference.low),
        percent(counted.difference.high),
        counted.delta * 100.0,
        document.targets.0,
        document.versions.0,
        document.targets.1,
        document.versions.1,
    );
    let _ = writeln!(
        text,
        "\nper transaction of {:<12} {:>10} {:>10}",
        document.workload, "A", "B"
    );
    let _ = writeln!(text, "{:<32} {a:>10.1} {b:>10.1}", "instructions");
    if let Some((a, b)) = counted.locked {
        let _ = writeln!(text, "{:<32} {a:>10.1} {b:>10.1}", "locked instructions");
    }
    if !document.functions.is_empty() {
        text.push_str("\nfunctions that differ most, in instructions of their own\n");
        for function in &document.functions {
            let _ = writeln!(
                text,
                "{:<32} {:>10.1} {:>10.1}",
                function.name, function.a, function.b
            );
        }
    }
    let _ = writeln!(
        text,
        "\nCounted by {}; {} rounds from seed {}.\nA differs from itself by at most {:.3} %.",
        document.method,
        document.rounds.len(),
        document.seed,
        counted.noise * 100.0
    );
    for warning in &counted.warnings {
        let _ = writeln!(text, "Note: {warning}.");
    }
    text
}
