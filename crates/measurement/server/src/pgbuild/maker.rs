//! From a source and a variant to an installation with its record.

use crate::clock;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pgassay_inspect::Machine;

use super::compiler::{Compiler, machine_of};
use super::evidence;
use super::files::hash_of;
use super::layout::{self, Link};
use super::patches::Patch;
use super::place::{Place, make_dir, publish, remove};
use super::recipe::{RECIPE_VERSION, Request, System, tools};
use super::record::{AppliedPatch, BuildRecord, Layout, summary};
use super::source::{Source, once, version_of};
use super::steps::{Advance, Runner};
use super::variant::{Variant, check_name};
use crate::inspection::gather;
use pgassay_model::Failure;
use pgassay_sys::programs::in_path;
use pgassay_sys::stop::Stop;

/// Disk that a source and the object files of one variant take: 170 MB of
/// PostgreSQL 17's sources, and 110 MB of objects and installation without
/// debug information, with room.
pub(super) const SOURCE_BYTES: u64 = 300 << 20;
pub(super) const VARIANT_BYTES: u64 = 400 << 20;

/// What a build is at, for progress.
#[derive(Debug)]
pub enum Event<'a> {
    /// Something that a user should know.
    Note(String),
    /// A step begins.
    Step(&'a str, &'a str),
    /// How far the step is.
    Advance(&'a str, &'a str, Advance),
    /// A step has ended, after so many seconds.
    Done(&'a str, &'a str, f64),
}

/// How a build came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It was there, unchanged.
    Unchanged,
    /// It was built now.
    Built,
}

/// A build and the layouts of it.
#[derive(Debug)]
pub struct Made {
    /// Its record.
    pub record: BuildRecord,
    /// Whether it was built now.
    pub how: How,
    /// The same relinked, where layouts were asked for.
    pub layouts: Vec<BuildRecord>,
}

/// What is to be made.
#[derive(Debug)]
pub struct Order<'a> {
    /// The source.
    pub source: &'a Source,
    /// What the builds' names begin with; `None` for the source's version.
    pub name: Option<&'a str>,
    /// The variant.
    pub variant: &'a Variant,
    /// The triplet of a cross-build.
    pub host: Option<&'a str>,
    /// The build system; `None` to choose by the source.
    pub system: Option<System>,
    /// Random object orders to link beside the usual one.
    pub layouts: u32,
    /// The seed of the first order.
    pub layout_seed: u64,
}

/// Makes builds.
pub struct Maker<'a> {
    /// Where.
    pub place: &'a Place,
    /// Set once the user has said stop.
    pub stop: &'a Stop,
    /// Commands at a time.
    pub jobs: usize,
    /// Told of what is going on.
    pub watch: &'a mut dyn FnMut(Event<'_>),
}

/// A source tree that is ready to build from.
struct Prepared {
    top: PathBuf,
    patches: Vec<AppliedPatch>,
    version: String,
    system: System,
}

impl Maker<'_> {
    /// Makes one build, or finds it made.
    ///
    /// # Errors
    /// What kept it from being made; nothing is installed then.
    pub fn make(&mut self, order: &Order<'_>) -> anyhow::Result<Made> {
        let host_machine = order.host.map(machine_of);
        let compiler = Compiler::find(order.variant.cc.as_deref(), order.host)?;
        let machine = match host_machine {
            Some(machine) => machine,
            None => compiler.machine()?,
        };
        compiler.check_flags(&order.variant.cflags)?;
        let prepared = self.prepare(order)?;
        let name = name_of(order, &prepared.version)?;
        let prefix = self.place.prefix(&name);
        let tree = self.place.tree(&name);
        let request = Request {
            system: prepared.system,
            variant: order.variant,
            compiler: &compiler,
            host: order.host,
            machine: &machine,
            source: &prepared.top,
            tree: &tree,
            prefix: &prefix,
            stage: &tree.join("stage"),
            jobs: self.jobs,
            shared: false,
        };
        let fingerprint = fingerprint(&request, order.source, &prepared)?;
        let _lock = self.place.lock(&name)?;
        let there = BuildRecord::read(&prefix)
            .filter(|record| record.fingerprint == fingerprint)
            .filter(|_| prefix.join("bin/postgres").is_file());
        let (record, how) = match there {
            Some(record) => (record, How::Unchanged),
            None => {
                if prefix.is_dir() {
                    (self.watch)(Event::Note(format!(
                        "{name} was built otherwise before: it is replaced once this one is done"
                    )));
                }
                let record = self.build(order, &prepared, &request, &name, fingerprint)?;
                (record, How::Built)
            }
        };
        let layouts = (1..=order.layouts)
            .map(|number| self.relink(&record, number, order.layout_seed))
            .collect::<anyhow::Result<_>>()?;
        Ok(Made {
            record,
            how,
            layouts,
        })
    }

    /// Unpacks and patches the source, once for all variants with these patches.
    fn prepare(&mut self, order: &Order<'_>) -> anyhow::Result<Prepared> {
        let patches = order
            .variant
            .patches
            .iter()
            .map(|path| Patch::read(path))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut identity = order.source.facts.hash.clone();
        for patch in &patches {
            identity.push_str(&patch.facts.sha256);
        }
        let dir = self
            .place
            .sources()
            .join(&hash_of(identity.as_bytes())?[..16]);
        let notes = dir.with_extension("patches.json");
        if !dir.is_dir() {
            self.place.need(SOURCE_BYTES, "unpacking a source")?;
            (self.watch)(Event::Step("source", "unpack"));
        }
        once(&dir, |aside| {
            let top = order.source.unpack(aside)?;
            let mut applied = Vec::new();
            for patch in &patches {
                applied.push(AppliedPatch {
                    facts: patch.facts.clone(),
                    inexact: patch.apply(&top)?,
                });
            }
            fs::write(&notes, serde_json::to_string(&applied)?)?;
            Ok(())
        })?;
        let top = super::source::top_level(&dir)
            .with_context(|| format!("{} has lost its source", dir.display()))?;
        let version = version_of(&top)
            .with_context(|| format!("{} does not say its version", order.source.facts.given))?;
        let applied: Vec<AppliedPatch> = fs::read_to_string(&notes)
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        let system = self.system(order, &top)?;
        require_tools(system, &top, &version)?;
        Ok(Prepared {
            top,
            patches: applied,
            version,
            system,
        })
    }

    /// meson where the source has it and meson is here; else autoconf.
    fn system(&mut self, order: &Order<'_>, top: &Path) -> anyhow::Result<System> {
        let has = |name: &str| top.join(name).is_file();
        let given = &order.source.facts.given;
        match order.system {
            Some(System::Meson) if !has("meson.build") => {
                bail!(Failure::usage(format!(
                    "--build-system meson: {given} has no meson.build (PostgreSQL has one from 16 on)"
                )))
            }
            Some(System::Autoconf) if !has("configure") => {
                bail!(Failure::usage(format!(
                    "--build-system autoconf: {given} has no configure"
                )))
            }
            Some(asked) => Ok(asked),
            None if !has("meson.build") => Ok(System::Autoconf),
            None if in_path("meson").is_some() && in_path("ninja").is_some() => Ok(System::Meson),
            None if has("configure") => {
                (self.watch)(Event::Note(
                    "meson or ninja is not here: built by configure and make".into(),
                ));
                Ok(System::Autoconf)
            }
            None => Ok(System::Meson),
        }
    }

    fn build(
        &mut self,
        order: &Order<'_>,
        prepared: &Prepared,
        request: &Request<'_>,
        name: &str,
        fingerprint: String,
    ) -> anyhow::Result<BuildRecord> {
        let log = self.place.log(name);
        let (tree, prefix) = (request.tree, request.prefix);
        let mark = tree.join("pgassay-fingerprint");
        // A tree of the same build is gone on with; of another it is thrown away.
        let goes_on = fs::read_to_string(&mark).is_ok_and(|text| text == fingerprint);
        if !goes_on {
            remove(tree)?;
            fs::remove_file(&log).ok();
            self.place
                .need(VARIANT_BYTES, &format!("building {name}"))?;
            make_dir(tree)?;
            fs::write(&mark, &fingerprint)?;
        }
        for (path, text) in request.files() {
            fs::write(path, text)?;
        }
        let runner = Runner {
            log: log.clone(),
            stop: self.stop,
            environment: request.environment(),
        };
        let mut seconds = Vec::new();
        for (number, step) in request.compile().iter().enumerate() {
            let done = tree.join(format!("pgassay-done-{number}"));
            if step.once && done.is_file() {
                continue;
            }
            (self.watch)(Event::Step(name, &step.title));
            let watch = &mut self.watch;
            let took = runner
                .run(step, &mut |now| {
                    watch(Event::Advance(name, &step.title, now));
                })
                .with_context(|| format!("building {name}"))?;
            (self.watch)(Event::Done(name, &step.title, took));
            seconds.push((step.title.clone(), took));
            if step.once {
                fs::write(done, "")?;
            }
        }
        let recorded = evidence::recorded(request.system, tree, &log);
        let flags_asked = if order.variant.exact {
            order.variant.cflags.clone()
        } else {
            request.cflags()
        };
        evidence::check(&flags_asked, &recorded)?;
        if let Some(remark) = evidence::remark(order.variant.exact, &flags_asked) {
            (self.watch)(Event::Note(format!("{name}: {remark}")));
        }
        remove(request.stage)?;
        (self.watch)(Event::Step(name, "install"));
        let mut installing = 0.0;
        for step in request.install() {
            installing += runner
                .run(&step, &mut |_| {})
                .with_context(|| format!("installing {name}"))?;
        }
        (self.watch)(Event::Done(name, "install", installing));
        seconds.push(("install".into(), installing));
        // DESTDIR is put before the whole prefix.
        let inner = prefix.strip_prefix("/").unwrap_or(prefix);
        let staged = request.stage.join(inner);
        refuse_stray(request.stage, inner, &order.source.facts.given)?;
        publish(&staged).context("the installation can't be made readable")?;
        let mut record = BuildRecord {
            schema: BuildRecord::schema(),
            name: name.to_owned(),
            prefix: prefix.to_path_buf(),
            fingerprint,
            version: prepared.version.clone(),
            source: order.source.facts.clone(),
            patches: prepared.patches.clone(),
            variant: order.variant.name.clone(),
            presets: order.variant.presets.clone(),
            system: request.system,
            host: order.host.map(str::to_owned),
            compiler: request.compiler.clone(),
            flags_asked,
            flags_exact: order.variant.exact,
            flags_recorded: recorded.cflags,
            lwlock_command: recorded.witness,
            options: request.options(),
            layout: None,
            finished: now(),
            seconds,
            log,
            pgassay_version: env!("CARGO_PKG_VERSION").to_owned(),
            inspect: inspect(&staged)?,
        };
        if let Some(binary) = &mut record.inspect {
            binary.path = prefix.join("bin/postgres").display().to_string();
        }
        record.write(&staged)?;
        remove(prefix)?;
        fs::rename(&staged, prefix)
            .with_context(|| format!("{} can't be put in place", prefix.display()))?;
        remove(request.stage)?;
        Ok(record)
    }

    /// Links a build's objects in another order and installs that beside it.
    fn relink(
        &mut self,
        base: &BuildRecord,
        number: u32,
        first_seed: u64,
    ) -> anyhow::Result<BuildRecord> {
        let name = format!("{}.layout{number}", base.name);
        let seed = first_seed.wrapping_add(u64::from(number));
        let prefix = self.place.prefix(&name);
        let there = BuildRecord::read(&prefix).filter(|record| {
            record.fingerprint == base.fingerprint
                && record
                    .layout
                    .as_ref()
                    .is_some_and(|layout| layout.seed == seed)
                && record.finished >= base.finished
        });
        if let Some(record) = there {
            return Ok(record);
        }
        if self.stop.asked() {
            bail!(Failure::interrupted());
        }
        (self.watch)(Event::Step(&name, "link"));
        let tree = self.place.tree(&base.name);
        let server = tree.join("pgassay-relinked");
        let link = Link::find(base.system, &tree, &base.log)?;
        let (objects, sha256) = link.relink(seed, &server)?;
        layout::install(&base.prefix, &server, &prefix)?;
        let mut record = BuildRecord {
            name,
            prefix: prefix.clone(),
            layout: Some(Layout {
                number,
                seed,
                objects,
                sha256,
            }),
            finished: now(),
            seconds: Vec::new(),
            inspect: inspect(&prefix)?,
            ..base.clone()
        };
        if let Some(binary) = &mut record.inspect {
            binary.path = prefix.join("bin/postgres").display().to_string();
        }
        record.write(&prefix)?;
        Ok(record)
    }
}

/// Refuses a source that installs outside of its prefix, which is `inner` in the stage.
///
/// # Errors
/// With what lies there.
pub(super) fn refuse_stray(stage: &Path, inner: &Path, given: &str) -> anyhow::Result<()> {
    if let Some(stray) = beside(stage, inner)? {
        bail!(
            Failure::usage(format!(
                "{given}'s makefiles install into /{} too, so the build would lack those files",
                stray.display()
            ))
            .with_remedy(
                "build PostgreSQL's own release; distributions patch theirs with fixed directories \
                 (Debian's 50-per-version-dirs.patch): apt-get source --download-only, and name the .orig.tar"
            )
        );
    }
    Ok(())
}

/// A directory or file of a stage that does not lead to the prefix in it, relative to the stage.
fn beside(stage: &Path, prefix: &Path) -> std::io::Result<Option<PathBuf>> {
    let mut at = PathBuf::new();
    for part in prefix {
        for entry in fs::read_dir(stage.join(&at))? {
            let name = entry?.file_name();
            if name != part {
                return Ok(Some(at.join(name)));
            }
        }
        at.push(part);
    }
    Ok(None)
}

/// A build's name: what it is of, the variant, the machine of a cross-build.
fn name_of(order: &Order<'_>, version: &str) -> anyhow::Result<String> {
    let facts = &order.source.facts;
    let mut name = match (order.name, &facts.commit) {
        (Some(name), _) => name.to_owned(),
        (None, Some(commit)) if facts.kind == "git" => {
            format!("{version}-g{}", commit.get(..9).unwrap_or(commit))
        }
        _ => version.to_owned(),
    };
    name.push('-');
    name.push_str(&order.variant.name);
    if let Some(machine) = order.host.and_then(|host| host.split('-').next()) {
        name.push('-');
        name.push_str(machine);
    }
    check_name(&name).map_err(Failure::usage)?;
    Ok(name)
}

/// A hash of all that decides what comes out.
fn fingerprint(
    request: &Request<'_>,
    source: &Source,
    prepared: &Prepared,
) -> anyhow::Result<String> {
    let patches: Vec<&str> = prepared
        .patches
        .iter()
        .map(|patch| patch.facts.sha256.as_str())
        .collect();
    let text = serde_json::to_string(&(
        RECIPE_VERSION,
        request.system,
        &source.facts.hash,
        patches,
        &request.compiler.command,
        &request.compiler.banner,
        request.host,
        request.options(),
        request.cflags(),
    ))?;
    Ok(hash_of(text.as_bytes())?)
}

/// What inspect finds in the server of an installation.
pub(super) fn inspect(prefix: &Path) -> anyhow::Result<Option<pgassay_inspect::Binary>> {
    let mut problems = Vec::new();
    let server = prefix.join("bin/postgres");
    let gathered = gather::inspect_all(&gather::sources(&server, &mut problems));
    if let Some(problem) = gathered.problems.into_iter().chain(problems).next() {
        bail!("{}: {}", problem.path, problem.error);
    }
    Ok(gathered.files.into_iter().next().map(summary))
}

/// Refuses to begin without the programs that the build runs.
pub(super) fn require_tools(system: System, top: &Path, version: &str) -> anyhow::Result<()> {
    let major: u32 = version
        .split(|c: char| !c.is_ascii_digit())
        .next()
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0);
    let missing: Vec<(&str, &str)> = tools(system, top, major)
        .into_iter()
        .filter(|(program, _)| in_path(program).is_none())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = |pick: fn(&(&'static str, &'static str)) -> &'static str, by: &str| {
        let all: Vec<&str> = missing.iter().map(|pair| pick(&(pair.0, pair.1))).collect();
        all.join(by)
    };
    bail!(
        Failure::target(format!(
            "PostgreSQL {version} by {} needs {}, not here",
            system.name(),
            list(|pair| pair.0, ", ")
        ))
        .with_remedy(format!(
            "Debian and Ubuntu: apt-get install {}",
            list(|pair| pair.1, " ")
        ))
    );
}

/// The machine that programs run on here.
pub fn native_machine() -> Machine {
    machine_of(
        std::env::consts::ARCH
            .replace("powerpc64", "powerpc64le")
            .as_str(),
    )
}

pub(super) fn now() -> String {
    format!("{:.3}", clock::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_sys::private::Directory;

    #[test]
    fn files_installed_outside_of_the_prefix_are_seen() {
        let stage = Directory::make(&std::env::temp_dir(), "pgassay-stage").unwrap();
        let inner = Path::new("var/tmp/builds/15");
        fs::create_dir_all(stage.path().join(inner).join("bin")).unwrap();
        assert_eq!(beside(stage.path(), inner).unwrap(), None);
        fs::create_dir_all(stage.path().join("var/lib")).unwrap();
        let stray = beside(stage.path(), inner).unwrap();
        assert_eq!(stray.as_deref(), Some(Path::new("var/lib")));
    }
}
