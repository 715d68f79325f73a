//! `pgassay build`: PostgreSQL variants from source, each a target from then on.

use super::progress::Progress;
use super::show::{next, show};
use crate::cli::build::{BuildArgs, SystemArg};
use crate::cli::show::Format;
use crate::exit::Exit;
use crate::terminal::Terminal;
use anyhow::{Context, bail};
use pgassay_inspect::cpu;
use pgassay_model::Failure;
use pgassay_report::document::{Block, Cell, Column, Depth, Document, Fact, Section, Table};
use pgassay_report::{Report, number, technique};
use pgassay_server::pgbuild::compiler::machine_of;
use pgassay_server::pgbuild::maker::{Event, How, Order, native_machine};
use pgassay_server::pgbuild::recipe::System;
use pgassay_server::pgbuild::variant::{PRESETS, cpu_flag};
use pgassay_server::pgbuild::{BuildRecord, Builder, Made, Maker, Place, Source, Variant};
use pgassay_sys::stop::Stop;
use serde::Serialize;
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
        return list(&builder, args, terminal);
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
    let all = made
        .iter()
        .flat_map(|made| std::iter::once(&made.record).chain(&made.layouts));
    let builds = Builds {
        schema: SCHEMA,
        builds: all.cloned().collect(),
        made: made.iter().map(how).collect(),
    };
    show(&builds, &args.show, terminal)?;
    let step = match builds.builds.as_slice() {
        [one] if one.host.is_some() => format!("pgassay inspect build:{}", one.name),
        [one] => {
            let major: String = one
                .version
                .chars()
                .take_while(char::is_ascii_digit)
                .collect();
            format!("pgassay compare temp:{major} build:{}", one.name)
        }
        [a, b, ..] => format!("pgassay compare build:{} build:{}", a.name, b.name),
        [] => return Ok(Exit::Done),
    };
    next(&args.show, &[step], terminal);
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
    making(place, jobs, terminal, stop, |maker| maker.make(order))
}

/// Has a maker of builds do some work, with progress.
///
/// # Errors
/// Those of the work.
pub fn making<T>(
    place: &Place,
    jobs: Option<u32>,
    terminal: &mut Terminal,
    stop: &Stop,
    work: impl FnOnce(&mut Maker<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
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
    let made = work(&mut Maker {
        place,
        stop,
        jobs,
        watch: &mut watch,
    });
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

/// Name and version of the serialized form.
pub(crate) const SCHEMA: &str = "pgassay/builds/1";

/// Builds that are there, or were just made.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Builds {
    schema: &'static str,
    builds: Vec<BuildRecord>,
    /// How each came about; empty for builds that were there.
    #[serde(skip)]
    made: Vec<(String, String)>,
}

/// The build's name, and whether anything had to be done for it.
fn how(made: &Made) -> (String, String) {
    let record = &made.record;
    let seconds: f64 = record.seconds.iter().map(|(_, s)| s).sum();
    let how = match made.how {
        How::Unchanged => "unchanged, not built again".to_owned(),
        How::Built => format!("built in {}", number::duration(seconds)),
    };
    (record.name.clone(), how)
}

impl Report for Builds {
    fn document(&self) -> Document {
        let blocks = match self.made.as_slice() {
            [] => vec![Block::Table(self.listed())],
            made => made.iter().flat_map(|made| self.described(made)).collect(),
        };
        Document {
            title: number::counted(self.builds.len() as u64, "build"),
            provenance: format!("pgassay {}", env!("CARGO_PKG_VERSION")),
            alarms: Vec::new(),
            headline: Vec::new(),
            sections: vec![Section {
                id: "builds",
                title: "Builds",
                depth: Depth::Summary,
                blocks,
            }],
            notes: Vec::new(),
            ..Document::default()
        }
    }
}

impl Builds {
    /// One row a build.
    fn listed(&self) -> Table {
        let rows = self.builds.iter().map(|record| {
            let layout = record.layout.as_ref();
            vec![
                Cell::plain(format!("build:{}", record.name)),
                Cell::plain(&record.version),
                Cell::plain(record.compiler.command.join(" ")),
                Cell::plain(record.flags_asked.join(" ")),
                Cell::plain(layout.map_or_else(String::new, |l| l.seed.to_string())),
            ]
        });
        let heads = ["target", "version", "compiler", "flags", "object order"];
        Table::new("", heads.map(Column::prose).into(), rows)
    }

    /// What a build is, in a few lines.
    fn described(&self, (name, how): &(String, String)) -> Vec<Block> {
        let Some(record) = self.builds.iter().find(|record| record.name == *name) else {
            return Vec::new();
        };
        let mut facts = vec![Fact::new(format!("build:{name}"), how)];
        facts.extend(facts_of(record));
        let layouts: Vec<&BuildRecord> = self
            .builds
            .iter()
            .filter(|other| other.name.starts_with(&format!("{name}.layout")))
            .collect();
        if let Some(layout) = layouts.first().and_then(|first| first.layout.as_ref()) {
            let names = layouts
                .iter()
                .map(|layout| format!("build:{}", layout.name));
            facts.push(
                Fact::new("layouts", names.collect::<Vec<_>>().join(" "))
                    .remark(format!("{} objects each", layout.objects)),
            );
        }
        vec![Block::Facts(facts)]
    }
}

fn facts_of(record: &BuildRecord) -> Vec<Fact> {
    let source = &record.source;
    let hash = source.hash.get(..12).unwrap_or(&source.hash);
    let mut facts = vec![
        Fact::new(
            "PostgreSQL",
            format!("{} from {}", record.version, source.given),
        )
        .remark(format!("{} {hash}", source.kind)),
    ];
    for patch in &record.patches {
        facts.push(
            Fact::new("patch", &patch.facts.file).remark(match patch.inexact.len() {
                0 => String::new(),
                n => format!("{n} hunks found at another line"),
            }),
        );
    }
    facts.push(Fact::new("compiler", &record.compiler.banner));
    let exact = if record.flags_exact { "exact" } else { "" };
    facts.push(Fact::new("flags", record.flags_asked.join(" ")).remark(exact));
    if let Some(binary) = &record.inspect {
        let machine = binary.machine.name();
        facts.push(Fact::new("server", technique(binary)).remark(machine));
    }
    facts.push(Fact::new("lies in", record.prefix.display().to_string()));
    facts.push(Fact::new("log", record.log.display().to_string()));
    facts
}

fn list(builder: &Builder, args: &BuildArgs, terminal: &mut Terminal) -> anyhow::Result<Exit> {
    let builds = Builds {
        schema: SCHEMA,
        builds: all(builder)?,
        made: Vec::new(),
    };
    if builds.builds.is_empty() {
        terminal.announce("no build is recorded; pgassay build SOURCE makes one");
        if args.show.format() == Format::Text {
            return Ok(Exit::Done);
        }
    }
    show(&builds, &args.show, terminal)?;
    Ok(Exit::Done)
}

/// The builder's records, and those of builds that root made itself before.
pub(super) fn all(builder: &Builder) -> anyhow::Result<Vec<BuildRecord>> {
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
