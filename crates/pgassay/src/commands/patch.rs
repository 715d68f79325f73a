//! `pgassay patch`: a patch against its base, built alike, compared, and told in
//! a form that a mailing list takes.

use super::files::to_file;
use super::patch_plan::{PatchPlan, PlannedPatch, SCHEMA, read_plan};
use crate::cli::args::{Command, GlobalArgs};
use crate::cli::compare::{By, CompareArgs};
use crate::cli::patch::PatchArgs;
use crate::cli::{self, Args};
use crate::exit::Exit;
use crate::terminal::Terminal;
use anyhow::{Context, bail};
use pgassay_analysis::compare::model::Kind;
use pgassay_analysis::compare::{Compare, signed};
use pgassay_analysis::metrics::THROUGHPUT;
use pgassay_engine::rundir::{self, catalogue};
use pgassay_model::Failure;
use pgassay_report::document::{Block, Cell, Column, Depth, Document, Fact, Section, Table};
use pgassay_report::{TextStyle, number};
use pgassay_server::pgbuild::maker::{Order, native_machine};
use pgassay_server::pgbuild::{BuildRecord, Builder, Place, Source, Variant};
use pgassay_sys::stop::Stop;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Builds base and patched, compares them, prints the table.
///
/// # Errors
/// What kept either from being built or measured.
pub fn patch(
    args: &PatchArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let plan = args.plan.as_deref().map(read_plan).transpose()?;
    let builder = Builder::find()?;
    let git_ref = match &plan {
        Some(plan) => plan.base.clone(),
        None => args.base.clone(),
    };
    super::build::announce(&builder, terminal);
    let place = builder.run(Place::open)?;
    let source = builder.run(|| Source::find(&args.source, git_ref.as_deref(), &place))?;
    if let Some(plan) = &plan
        && plan.source_hash != source.facts.hash
    {
        bail!(
            Failure::usage(format!(
                "{} is not the base that the plan was made for ({})",
                args.source,
                plan.base.as_deref().unwrap_or(&plan.version)
            ))
            .with_remedy("--source names a clone that has that commit, or that tarball")
        );
    }
    let (files, spec, flags) = match &plan {
        Some(plan) => (
            builder.run(|| written_out(plan, &place))?,
            plan.variant.as_str(),
            without_machines(&plan.compare),
        ),
        None => (
            args.patches.clone(),
            args.variant.as_str(),
            args.compare.clone(),
        ),
    };
    let texts = builder.run(|| {
        let texts = files.iter().map(|path| planned(path));
        texts.collect::<anyhow::Result<Vec<_>>>()
    })?;
    // Checked before minutes of building.
    let _ = compare_args("base", "patched", &flags)?;

    let mut build = |name: &str, patches: &[PathBuf]| -> anyhow::Result<BuildRecord> {
        let mut variant = Variant::parse(
            &format!("{name} {}", with_preset(spec)),
            &native_machine(),
            false,
        )?;
        variant.patches.extend(patches.iter().cloned());
        let order = Order {
            source: &source,
            name: None,
            variant: &variant,
            host: None,
            system: None,
            layouts: 0,
            layout_seed: 0,
        };
        builder.run(|| Ok(super::build::make(&order, &place, args.jobs, terminal, stop)?.record))
    };
    // First what can fail at once: a patch that does not apply costs no build of the base.
    let patched = build(&format!("patched-{}", identity(&texts)), &files)?;
    let base = build("base", &[])?;

    let a = format!("build:{}", base.name);
    let b = format!("build:{}", patched.name);
    let (compare, line) = compare_args(&a, &b, &flags)?;
    // What is recorded of the comparison is how to make it again.
    let global = &GlobalArgs {
        typed: line,
        ..global.clone()
    };
    if compare.by != By::Time {
        return super::counts::by(&compare, terminal, stop);
    }
    let root = rundir::root(global.runs.as_deref())?;
    let before = catalogue::find(&root, "last").ok();
    let exit = super::compare::compare(&compare, global, terminal, stop)?;
    let dir = catalogue::find(&root, "last")?;
    if before.as_ref() == Some(&dir) {
        return Ok(exit);
    }
    let run = rundir::read(&dir)?;
    let Some(concluded) = pgassay_analysis::compare::conclude(&run) else {
        return Ok(exit);
    };
    let plan = PatchPlan {
        schema: SCHEMA.to_owned(),
        base: source.facts.commit.clone(),
        source_hash: source.facts.hash.clone(),
        version: base.version.clone(),
        patches: texts,
        variant: spec.to_owned(),
        compare: without_machines(&flags),
    };
    let plan_file = args
        .save_plan
        .clone()
        .unwrap_or_else(|| dir.join("patch-plan.json"));
    let plan_text = serde_json::to_string_pretty(&plan)? + "\n";
    to_file(&plan_file, "--save-plan", &plan_text)?;
    terminal.show(&table(&concluded, &base, &patched, &plan))?;
    terminal.announce(&format!(
        "others measure the same with: pgassay patch --plan {} --source THEIR-SOURCE",
        plan_file.display()
    ));
    terminal
        .announce("and what they measured is taken together with: pgassay compare --pool RUN RUN…");
    Ok(exit)
}

/// A variant that is only a name must be a preset: where nothing is asked for, `plain`.
fn with_preset(spec: &str) -> &str {
    if spec.trim().is_empty() {
        "plain"
    } else {
        spec
    }
}

/// Flags of a comparison without the machines that its load came from, which are not the next user's.
fn without_machines(flags: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = flags.iter();
    while let Some(word) = words.next() {
        if word == "--from" {
            words.next();
        } else if !word.starts_with("--from=") {
            kept.push(word.clone());
        }
    }
    kept
}

/// compare's arguments, parsed by its own definition, and the words.
fn compare_args(a: &str, b: &str, flags: &[String]) -> anyhow::Result<(CompareArgs, Vec<String>)> {
    let mut line = vec!["pgassay".to_owned(), "compare".to_owned()];
    line.extend([a.to_owned(), b.to_owned()]);
    let sweeps = flags
        .iter()
        .any(|flag| flag.starts_with("--clients") || flag.starts_with("-c"))
        || flags
            .iter()
            .any(|flag| flag.contains("instructions") || flag.contains("lines"));
    if !sweeps {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        line.push(format!("--clients=1..{}*2", 2 * cpus));
    }
    line.extend(flags.iter().cloned());
    match cli::parse(line.iter().map(OsString::from)) {
        Ok(Args {
            command: Command::Compare(compare),
            ..
        }) if compare.targets.len() == 2 => Ok((*compare, line)),
        Ok(_) => bail!(Failure::usage(
            "what follows -- are flags of pgassay compare; the two targets are the builds"
        )),
        Err(error) => {
            let text = error.render().to_string();
            bail!(
                Failure::usage(format!(
                    "what follows --: {}",
                    text.trim_start_matches("error: ")
                        .lines()
                        .next()
                        .unwrap_or_default()
                ))
                .with_remedy("pgassay compare --help has the flags")
            )
        }
    }
}

fn planned(path: &Path) -> anyhow::Result<PlannedPatch> {
    let bytes = fs::read(path)
        .map_err(|error| Failure::usage(format!("patch {}: {error}", path.display())))?;
    Ok(PlannedPatch {
        name: path.file_name().map_or_else(
            || "patch".into(),
            |name| name.to_string_lossy().into_owned(),
        ),
        text: String::from_utf8(bytes)
            .map_err(|_| Failure::usage(format!("patch {} is not UTF-8", path.display())))?,
    })
}

/// A short name for a set of patches.
fn identity(patches: &[PlannedPatch]) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for patch in patches {
        context.update(patch.text.as_bytes());
    }
    context.finish().as_ref()[..4]
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// A plan's patches as files, named by their number: a plan is foreign, and a name no path.
fn written_out(plan: &PatchPlan, place: &Place) -> anyhow::Result<Vec<PathBuf>> {
    let dir = place.sources();
    let id = identity(&plan.patches);
    let mut files = Vec::new();
    for (number, patch) in plan.patches.iter().enumerate() {
        let file = dir.join(format!("plan-{id}-{}.patch", number + 1));
        fs::write(&file, &patch.text)
            .with_context(|| format!("{} can't be written", file.display()))?;
        files.push(file);
    }
    Ok(files)
}

/// The result in plain ASCII, at most 76 columns wide.
fn table(compare: &Compare, base: &BuildRecord, patched: &BuildRecord, plan: &PatchPlan) -> String {
    let document = document(compare, base, patched, plan);
    let style = TextStyle {
        width: 76,
        color: false,
        unicode: false,
    };
    format!(
        "\n-- for a mailing list: plain text from here --\n\n{}",
        pgassay_report::text(&document, &style)
    )
}

fn document(
    compare: &Compare,
    base: &BuildRecord,
    patched: &BuildRecord,
    plan: &PatchPlan,
) -> Document {
    let patches = plan.patches.iter();
    let mut facts: Vec<Fact> = patches.map(|p| Fact::new("patch", &p.name)).collect();
    let commit = plan.base.as_deref().map_or(String::new(), |commit| {
        format!("commit {}", commit.get(..12).unwrap_or(commit))
    });
    facts.push(Fact::new("base", format!("PostgreSQL {}", base.version)).remark(commit));
    facts.push(Fact::new("compiler", &base.compiler.banner));
    facts.push(Fact::new("flags", base.flags_asked.join(" ")));
    let inexact: usize = patched.patches.iter().map(|p| p.inexact.len()).sum();
    if inexact > 0 {
        facts.push(Fact::new(
            "note",
            format!("{inexact} hunks were found at another line"),
        ));
    }
    let rows = compare.results.iter().map(|result| {
        let tps = |pick: fn((f64, f64)) -> f64| {
            let pairs = result.pairs.iter();
            let median = median(pairs.filter_map(|p| p.both(THROUGHPUT)).map(pick));
            Cell::plain(format!("{median:.0}"))
        };
        let ratio = &result.compared.ratio;
        vec![
            Cell::plain(number::count(u64::from(result.clients))),
            tps(|(base, _)| base),
            tps(|(_, patched)| patched),
            Cell::plain(signed(ratio.estimate)),
            Cell::plain(format!("{} to {}", signed(ratio.low), signed(ratio.high))),
            Cell::plain(number::count(result.compared.pairs as u64)),
            Cell::plain(result.compared.verdict.to_string()),
        ]
    });
    let columns = vec![
        Column::figures("clients", "", 0),
        Column::figures("base", "tps", 0),
        Column::figures("patched", "tps", 0),
        Column::figures("change", "", 0),
        Column::figures("95 % interval", "", 0),
        Column::figures("pairs", "", 0),
        Column::words("verdict", 0),
    ];
    let caption = "Pairs of interleaved slices in random order.";
    let mut blocks = vec![
        Block::Facts(facts),
        Block::Text(String::new()),
        Block::Table(Table::new(caption, columns, rows)),
        Block::Text(String::new()),
    ];
    let code = compare.differences.iter();
    let code: Vec<Fact> = code
        .filter(|difference| difference.kind == Kind::Code)
        .take(12)
        .map(|d| Fact::new(&d.name, format!("{} -> {}", d.a, d.b)))
        .collect();
    if code.is_empty() {
        blocks.push(Block::Text(
            "Atomic instructions: no function differs.".to_owned(),
        ));
    } else {
        blocks.push(Block::Text(
            "Atomic instructions that differ, base -> patched:".to_owned(),
        ));
        blocks.push(Block::Facts(code));
    }
    Document {
        title: format!(
            "{}: patched against base",
            compare.analysis.main().plan.workload.name
        ),
        provenance: format!("Measured by pgassay {}", env!("CARGO_PKG_VERSION")),
        alarms: Vec::new(),
        headline: Vec::new(),
        sections: vec![Section {
            id: "patch",
            title: "The patch",
            depth: Depth::Summary,
            blocks,
        }],
        notes: Vec::new(),
        ..Document::default()
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sweep_is_the_default_and_flags_are_compares_own() {
        let flags = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let plain = compare_args("build:x-base", "build:x-patched", &[])
            .unwrap()
            .0;
        assert!(plain.sides.slices.client_counts.unwrap().0.len() >= 2);
        let own = compare_args("a", "b", &flags(&["--clients", "3", "--launches", "6"]))
            .unwrap()
            .0;
        assert_eq!(
            (
                own.sides.slices.client_counts.unwrap().0,
                own.paired.launches
            ),
            (vec![3], Some(6))
        );
        for by in ["instructions", "lines"] {
            let counts = compare_args("a", "b", &flags(&["--by", by])).unwrap().0;
            assert!(counts.sides.slices.client_counts.is_none());
        }
        let far = [
            "--from",
            "ssh://c1,local",
            "--delta",
            "1%",
            "--from=ssh://c2",
            "--load",
        ];
        let kept = without_machines(&flags(&far));
        assert_eq!(kept, ["--delta", "1%", "--load"]);
        for wrong in [&["--no-such"][..], &["third"]] {
            let error = compare_args("a", "b", &flags(wrong)).unwrap_err();
            assert!(error.to_string().contains("what follows --"), "{error}");
        }
    }

    #[test]
    fn a_plan_is_read_back_and_a_foreign_file_refused() {
        let dir = std::env::temp_dir().join(format!("pgassay-plan-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let plan = PatchPlan {
            schema: SCHEMA.into(),
            base: Some("abc".into()),
            source_hash: "h".into(),
            version: "17.5".into(),
            patches: vec![PlannedPatch {
                name: "../../v1.patch".into(),
                text: "+++ b/x\n".into(),
            }],
            variant: "O3".into(),
            compare: vec!["--delta".into(), "1%".into()],
        };
        let file = dir.join("plan.json");
        fs::write(&file, serde_json::to_string(&plan).unwrap()).unwrap();
        assert_eq!(read_plan(&file).unwrap(), plan);
        let place = Place::of(dir.join("place")).unwrap();
        let files = written_out(&plan, &place).unwrap();
        assert!(files[0].starts_with(place.sources()), "{files:?}");
        assert_eq!(fs::read_to_string(&files[0]).unwrap(), "+++ b/x\n");
        for wrong in ["{}", "x", "{\"schema\": \"other\"}"] {
            fs::write(&file, wrong).unwrap();
            assert!(read_plan(&file).unwrap_err().to_string().contains("--plan"));
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
