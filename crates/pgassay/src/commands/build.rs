//! `pgassay build`: PostgreSQL variants from source, each a target from then on.

use super::progress::Progress;
use crate::cli::build::{BuildArgs, SystemArg};
use crate::exit::Exit;
use crate::terminal::Terminal;
use anyhow::{Context, bail};
use pgassay_inspect::cpu;
use pgassay_model::Failure;
use pgassay_server::inspection::account;
use pgassay_server::pgbuild::compiler::machine_of;
use pgassay_server::pgbuild::maker::{Event, How, Order, native_machine};
use pgassay_server::pgbuild::recipe::System;
use pgassay_server::pgbuild::variant::{PRESETS, cpu_flag};
use pgassay_server::pgbuild::{BuildRecord, Builder, Made, Maker, Place, Source, Variant};
use pgassay_sys::stop::Stop;
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;

/// Builds the variants, or does what else was asked of builds.
///
/// # Errors
/// What kept a variant from being built; those before it stay.
pub fn build(args: &BuildArgs, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    if args.presets {
        terminal.print(&presets())?;
        return Ok(Exit::Done);
    }
    if args.recommend {
        return super::build_recommend::recommend(args, terminal);
    }
    let builder = Builder::find()?;
    if args.list {
        return list(&builder, args.json, terminal);
    }
    if args.clean || !args.remove.is_empty() {
        let known = all(&builder)?;
        for name in &args.remove {
            let name = name.strip_prefix("build:").unwrap_or(name);
            if !known.iter().any(|record| record.name == name) {
                bail!(
                    Failure::usage(format!("--remove {name}: there is no such build"))
                        .with_remedy("pgassay build --list lists them")
                );
            }
        }
        builder.run(|| remove(&Place::open()?, args, terminal))?;
        if let Some(place) = Place::left_by_root() {
            remove(&place, args, terminal)?;
        }
        return Ok(Exit::Done);
    }
    let variants = variants(args)?;
    announce(&builder, terminal);
    let made = builder.run(|| make_all(args, &variants, terminal, stop))?;
    let text = if args.json {
        let all = made
            .iter()
            .flat_map(|made| std::iter::once(&made.record).chain(&made.layouts));
        document(all)?
    } else {
        made.iter().map(told).collect()
    };
    terminal.show(&text)?;
    Ok(Exit::Done)
}

/// Says who compiles, if that is not the one who calls.
pub fn announce(builder: &Builder, terminal: &mut Terminal) {
    if let Some(text) = builder.announcement() {
        terminal.announce(&text);
    }
}

fn make_all(
    args: &BuildArgs,
    variants: &[Variant],
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Vec<Made>> {
    let place = Place::open()?;
    let given = args.source.as_deref().unwrap_or_default();
    let source = Source::find(given, args.git_ref.as_deref(), &place)?;
    let mut made = Vec::new();
    for variant in variants {
        let order = Order {
            source: &source,
            name: args.name.as_deref(),
            variant,
            host: args.host.as_deref(),
            system: match args.build_system {
                SystemArg::Auto => None,
                SystemArg::Autoconf => Some(System::Autoconf),
                SystemArg::Meson => Some(System::Meson),
            },
            layouts: args.layouts,
            layout_seed: args.layout_seed,
        };
        made.push(make(&order, &place, args.jobs, terminal, stop)?);
    }
    Ok(made)
}

/// Makes one build, with progress.
///
/// # Errors
/// What kept it from being made.
pub fn make(
    order: &Order<'_>,
    place: &Place,
    jobs: Option<u32>,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Made> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = jobs.map_or(cpus, |jobs| usize::try_from(jobs).unwrap_or(cpus));
    let progress = Progress::new(terminal, 1000);
    let animates = terminal.animates();
    let mut watch = |event: Event<'_>| match event {
        Event::Note(text) => terminal.announce(&text),
        Event::Step(name, step) => {
            progress.share(0.0);
            progress.say(format!("{name}: {step}"));
            if !animates {
                terminal.progress(&format!("{name}: {step}"));
            }
        }
        Event::Advance(name, step, now) => match now.of {
            Some(of) => {
                progress.share(f64::from(now.done) / f64::from(of.max(1)));
                progress.say(format!("{name}: {step}, {} of {of}", now.done));
            }
            None => progress.say(format!("{name}: {step}, {} files compiled", now.done)),
        },
        Event::Done(name, step, seconds) => {
            terminal.detail(&format!("{name}: {step} took {seconds:.1} s"));
        }
    };
    let _kept = stop.defer();
    let made = Maker {
        place,
        stop,
        jobs,
        watch: &mut watch,
    }
    .make(order);
    progress.clear();
    made
}

/// The variants that were typed, with what was given for all of them.
fn variants(args: &BuildArgs) -> anyhow::Result<Vec<Variant>> {
    let machine = args.host.as_deref().map_or_else(native_machine, machine_of);
    let typed = if args.variant.is_empty() {
        vec!["plain".to_owned()]
    } else {
        args.variant.clone()
    };
    let mut variants: Vec<Variant> = Vec::new();
    for text in &typed {
        let mut variant = Variant::parse(text, &machine, args.host.is_some())?;
        if variants.iter().any(|other| other.name == variant.name) {
            bail!(Failure::usage(format!(
                "--variant: two are named '{}'",
                variant.name
            )));
        }
        variant.cc = variant.cc.or_else(|| args.cc.clone());
        variant.exact = args.cflags_exact;
        variant.options.splice(0..0, args.options.iter().cloned());
        variant.patches.splice(0..0, args.patch.iter().cloned());
        variants.push(variant);
    }
    Ok(variants)
}

/// What a build is, in a few lines.
fn told(made: &Made) -> String {
    let record = &made.record;
    let mut text = String::new();
    let seconds: f64 = record.seconds.iter().map(|(_, s)| s).sum();
    let how = match made.how {
        How::Unchanged => "unchanged, not built again".to_owned(),
        How::Built => format!("built in {seconds:.0} s"),
    };
    let _ = writeln!(text, "build:{}  {how}", record.name);
    for (name, value) in rows(record) {
        let _ = writeln!(text, "  {name:<10} {value}");
    }
    if !made.layouts.is_empty() {
        let names: Vec<String> = made
            .layouts
            .iter()
            .map(|layout| format!("build:{}", layout.name))
            .collect();
        let objects = made.layouts[0].layout.as_ref().map_or(0, |l| l.objects);
        let _ = writeln!(
            text,
            "  {:<10} {} ({objects} objects each)",
            "layouts",
            names.join(" ")
        );
    }
    text
}

fn rows(record: &BuildRecord) -> Vec<(&'static str, String)> {
    let mut rows = vec![(
        "PostgreSQL",
        format!(
            "{} from {} ({} {})",
            record.version,
            record.source.given,
            record.source.kind,
            &record.source.hash[..record.source.hash.len().min(12)]
        ),
    )];
    for patch in &record.patches {
        let inexact = match patch.inexact.len() {
            0 => String::new(),
            n => format!(" ({n} hunks found at another line)"),
        };
        rows.push(("patch", format!("{}{inexact}", patch.facts.file)));
    }
    rows.push(("compiler", record.compiler.banner.clone()));
    let exact = if record.flags_exact { " (exact)" } else { "" };
    rows.push(("flags", format!("{}{exact}", record.flags_asked.join(" "))));
    if let Some(binary) = &record.inspect {
        rows.push((
            "server",
            format!("{}: {}", binary.machine.name(), account::technique(binary)),
        ));
    }
    rows.push(("lies in", record.prefix.display().to_string()));
    rows.push(("log", record.log.display().to_string()));
    rows
}

fn document<'a>(records: impl Iterator<Item = &'a BuildRecord>) -> anyhow::Result<String> {
    let builds: Vec<&BuildRecord> = records.collect();
    let document = json!({"schema": "pgassay/builds/1", "builds": builds});
    Ok(serde_json::to_string_pretty(&document).context("cannot serialize")? + "\n")
}

fn list(builder: &Builder, as_json: bool, terminal: &mut Terminal) -> anyhow::Result<Exit> {
    let all = all(builder)?;
    if as_json {
        terminal.print(&document(all.iter())?)?;
        return Ok(Exit::Done);
    }
    if all.is_empty() {
        terminal.announce("no build is recorded; pgassay build SOURCE makes one");
    }
    let width = all
        .iter()
        .map(|record| record.name.len())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for record in &all {
        let layout = record.layout.as_ref().map_or(String::new(), |layout| {
            format!(", object order {}", layout.seed)
        });
        let _ = writeln!(
            text,
            "build:{:<width$}  {}, {}, {}{layout}",
            record.name,
            record.version,
            record.compiler.command.join(" "),
            record.flags_asked.join(" "),
        );
    }
    terminal.show(&text)?;
    Ok(Exit::Done)
}

/// The builder's records, and those of builds that root made itself before.
fn all(builder: &Builder) -> anyhow::Result<Vec<BuildRecord>> {
    // Read with the rights of the one who could have changed them.
    let mut all = builder.run(|| Ok(BuildRecord::all(&Place::open()?)))?;
    for record in Place::left_by_root().iter().flat_map(BuildRecord::all) {
        if !all.iter().any(|known| known.name == record.name) {
            all.push(record);
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Removes in one place what is there of the builds that were named.
fn remove(place: &Place, args: &BuildArgs, terminal: &mut Terminal) -> anyhow::Result<()> {
    let known = BuildRecord::all(place);
    for name in &args.remove {
        let name = name.strip_prefix("build:").unwrap_or(name);
        // The layouts of a build are links into it.
        let layouts = format!("{name}.layout");
        for record in known
            .iter()
            .filter(|record| record.name == name || record.name.starts_with(&layouts))
        {
            let _lock = place.lock(&record.name)?;
            place
                .remove(&record.name)
                .with_context(|| format!("{} can't be removed", record.name))?;
            terminal.announce(&format!("removed build:{}", record.name));
        }
    }
    if args.clean {
        place
            .clean()
            .context("the sources and object files can't be removed")?;
        terminal.announce("removed unpacked sources and object files");
    }
    Ok(())
}

fn presets() -> String {
    let mut text = String::from("Presets for --variant:\n");
    for preset in PRESETS {
        let flags = preset.flags.join(" ");
        let _ = writeln!(text, "  {:<12} {flags:<36} {}", preset.name, preset.meaning);
    }
    text.push_str("\nand the CPUs that pgassay inspect --list-cpus knows:\n");
    for cpu in cpu::CPUS {
        let _ = writeln!(
            text,
            "  {:<12} {:<36} {}: {}; GCC {} or later",
            cpu.id,
            cpu_flag(cpu),
            cpu.machine.name(),
            cpu.products,
            cpu.gcc
        );
    }
    text
}

/// The server of a recorded build, whichever machine it is for; `None` where
/// there is no such build.
pub fn server_of(name: &str) -> Option<std::path::PathBuf> {
    let name = Path::new(name).file_name()?;
    pgassay_server::scratch::build_dirs()
        .iter()
        .map(|builds| builds.join(name).join("bin/postgres"))
        .find(|server| server.is_file())
}
