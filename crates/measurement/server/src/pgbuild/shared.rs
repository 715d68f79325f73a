//! Neighbouring commits, built one after the other in one tree: what a commit does not touch is not
//! compiled again.
//!
//! ```text
//! build-trees/shared/HASH/source   the sources of the commit that is built, its files changed one by one
//!                         tree     object files, with the headers that each depends on
//!                         stage    what is installed; a build is a copy of it
//!                         at       the commit that all of it is of
//! ```
//! Only C files and headers are followed. A change of anything else that could matter (configure, a
//! makefile, the catalog, a grammar) has everything made anew. A build that was killed leaves `moving`, and
//! what it made is thrown away by its time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, bail};
use pgassay_model::{Failure, FailureKind};

use super::commits::History;
use super::compiler::Compiler;
use super::evidence;
use super::files::hash_of;
use super::git::{View, read_bytes};
use super::maker::{
    Event, How, Maker, SOURCE_BYTES, VARIANT_BYTES, inspect, now, refuse_stray, require_tools,
};
use super::place::{make_dir, publish, remove};
use super::recipe::{PARTS, RECIPE_VERSION, Request, System};
use super::record::BuildRecord;
use super::source::{Source, run_quietly, version_of};
use super::steps::Runner;
use super::variant::Variant;

/// More changed files than this are as well unpacked anew.
const MANY: usize = 500;

/// What a commit came to.
#[derive(Debug)]
pub enum CommitMade {
    /// A build, and the seconds that it took; none where it was there.
    Made(Box<BuildRecord>, How, f64),
    /// It can't be built: the first error.
    Unbuildable(String),
}

/// How the tree gets from the commit that it is of to another.
#[derive(Debug, PartialEq, Eq)]
enum Move {
    /// Everything is made anew.
    Anew,
    /// These files change, and these go.
    Files {
        changed: Vec<String>,
        deleted: Vec<String>,
    },
}

/// What a changed file has to do with what is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// Nothing.
    None,
    /// make follows it.
    Followed,
    /// Nobody knows how much.
    Everything,
}

/// Directories below src that are built, beside the headers and what programs share.
fn weigh(path: &str, generates_nodes: bool) -> Weight {
    let name = path.rsplit('/').next().unwrap_or(path);
    let below = |dirs: &[&str]| dirs.iter().any(|dir| path.starts_with(&format!("{dir}/")));
    let aside = [
        "doc",
        "contrib",
        ".github",
        "src/test",
        "src/tools",
        "src/tutorial",
        "src/interfaces/ecpg",
        "src/pl/plperl",
        "src/pl/plpython",
        "src/pl/tcl",
    ];
    let for_people = name.starts_with("README")
        || name.starts_with(".git")
        || name.starts_with(".cirrus")
        || name.starts_with("meson")
        || [".po", ".md", ".sgml"]
            .iter()
            .any(|end| name.ends_with(end))
        || ["HISTORY", "COPYRIGHT", "INSTALL"].contains(&path);
    let tests = path.contains("/t/") || path.contains("/expected/") || path.contains("/sql/");
    let other_program = path.starts_with("src/bin/") && !below(PARTS);
    if below(&aside) || for_people || tests || other_program {
        return Weight::None;
    }
    let catalog = below(&["src/include/catalog"]);
    let nodes = generates_nodes && below(&["src/include/nodes", "src/backend/nodes"]);
    let is_c = name.ends_with(".c") || name.ends_with(".h");
    let followed = below(PARTS) || below(&["src/include", "src/fe_utils"]);
    match is_c && followed && !catalog && !nodes {
        true => Weight::Followed,
        false => Weight::Everything,
    }
}

/// A tree that commits are built in.
struct Shared {
    dir: PathBuf,
}

impl Shared {
    fn source(&self) -> PathBuf {
        self.dir.join("source")
    }

    fn tree(&self) -> PathBuf {
        self.dir.join("tree")
    }

    fn at(&self) -> PathBuf {
        self.dir.join("at")
    }

    /// Holds the commits that a move is between, while it lasts.
    fn moving(&self) -> PathBuf {
        self.dir.join("moving")
    }

    /// How to get to `commit`, by what git says of the difference.
    fn way(&self, repository: &Path, commit: &str) -> anyhow::Result<Move> {
        let interrupted = fs::read_to_string(self.moving()).ok();
        let stops: Vec<String> = match &interrupted {
            Some(text) => text.split_whitespace().map(str::to_owned).collect(),
            None => fs::read_to_string(self.at()).into_iter().collect(),
        };
        if stops.is_empty() || !self.tree().join("config.status").is_file() {
            return Ok(Move::Anew);
        }
        let (mut changed, mut deleted) = (Vec::new(), Vec::new());
        let generates = self
            .source()
            .join("src/backend/nodes/gen_node_support.pl")
            .is_file();
        for from in &stops {
            // A commit that is not there any more has the tree made anew.
            let Ok(listed) = read_bytes(
                repository,
                &[
                    "diff-tree",
                    "-r",
                    "-z",
                    "--no-renames",
                    "--name-status",
                    from,
                    commit,
                ],
            ) else {
                return Ok(Move::Anew);
            };
            let listed = String::from_utf8_lossy(&listed).into_owned();
            let mut words = listed.split('\0').filter(|word| !word.is_empty());
            while let (Some(status), Some(path)) = (words.next(), words.next()) {
                if weigh(path, generates) == Weight::Everything {
                    return Ok(Move::Anew);
                }
                match status {
                    "D" => deleted.push(path.to_owned()),
                    _ => changed.push(path.to_owned()),
                }
            }
        }
        for list in [&mut changed, &mut deleted] {
            list.sort();
            list.dedup();
        }
        if changed.len() > MANY {
            return Ok(Move::Anew);
        }
        Ok(Move::Files { changed, deleted })
    }

    /// Throws away what a killed build made.
    fn throw_away(&self) -> io::Result<()> {
        if let Ok(began) = fs::metadata(self.moving()).and_then(|meta| meta.modified()) {
            remove_since(&self.tree(), began)?;
            remove(&self.dir.join("stage"))?;
        }
        Ok(())
    }
}

impl Maker<'_> {
    /// Builds a commit in the tree that the commits of its repository share, or finds it built.
    ///
    /// # Errors
    /// Where it is not the commit that keeps it from being built.
    pub fn make_commit(
        &mut self,
        history: &History,
        commit: &str,
        variant: &Variant,
    ) -> anyhow::Result<CommitMade> {
        let source = Source::commit(&history.given, history.repository.clone(), commit)?;
        let compiler = Compiler::find(variant.cc.as_deref(), None)?;
        let machine = compiler.machine()?;
        compiler.check_flags(&variant.cflags)?;
        let repository = fs::canonicalize(&history.repository)?;
        let identity = serde_json::to_string(&(
            RECIPE_VERSION,
            repository.display().to_string(),
            &compiler.command,
            &compiler.banner,
            (&variant.cflags, &variant.ldflags, &variant.options),
            (variant.exact, variant.assertions),
        ))?;
        let id = hash_of(identity.as_bytes())?[..16].to_owned();
        let shared = Shared {
            dir: self.place.shared().join(&id),
        };
        make_dir(&shared.dir)?;
        let (top, tree) = (shared.source(), shared.tree());
        let (stage, prefix) = (shared.dir.join("stage"), shared.dir.join("installed"));
        let request = Request {
            system: System::Autoconf,
            variant,
            compiler: &compiler,
            host: None,
            machine: &machine,
            source: &top,
            tree: &tree,
            prefix: &prefix,
            stage: &stage,
            jobs: self.jobs,
            shared: true,
        };
        let fingerprint = serde_json::to_string(&(
            RECIPE_VERSION,
            "shared",
            &source.facts.hash,
            &compiler.command,
            &compiler.banner,
            request.options(),
            request.cflags(),
        ))?;
        let fingerprint = hash_of(fingerprint.as_bytes())?;
        let name = format!("tree-{}-{}", &source.facts.hash[..12], variant.name);
        let installed = self.place.prefix(&name);
        let _lock = self.place.lock(&format!("shared-{id}"))?;
        let there = BuildRecord::read(&installed)
            .filter(|record| record.fingerprint == fingerprint)
            .filter(|_| installed.join("bin/postgres").is_file());
        if let Some(record) = there {
            return Ok(CommitMade::Made(Box::new(record), How::Unchanged, 0.0));
        }
        let started = std::time::Instant::now();
        let way = shared.way(&repository, commit)?;
        let log = self.place.log(&format!("shared-{id}"));
        let (anew, relinks) = self.go(&shared, &way, &source, &name, &log)?;
        let version =
            version_of(&top).with_context(|| format!("{commit} does not say its version"))?;
        if !top.join("configure").is_file() {
            return Ok(CommitMade::Unbuildable("it has no configure script".into()));
        }
        require_tools(System::Autoconf, &top, &version)?;
        let began = fs::metadata(shared.moving())?.modified()?;
        if relinks {
            remove_linked(&tree)?;
        }
        let runner = Runner {
            log: log.clone(),
            stop: self.stop,
            environment: request.environment(),
        };
        let mut seconds = Vec::new();
        for step in request.compile().iter().filter(|step| anew || !step.once) {
            (self.watch)(Event::Step(&name, &step.title));
            let watch = &mut self.watch;
            let ran = runner.run(step, &mut |at| {
                watch(Event::Advance(&name, &step.title, at))
            });
            match ran {
                Ok(took) => {
                    (self.watch)(Event::Done(&name, &step.title, took));
                    seconds.push((step.title.clone(), took));
                }
                Err(error) => match of_the_sources(&error) {
                    Some(why) => {
                        // make has ended by itself: what it made stands.
                        if step.once {
                            remove(&tree)?;
                        }
                        arrive(&shared, commit)?;
                        return Ok(CommitMade::Unbuildable(why));
                    }
                    None => return Err(error.context(format!("building {name}"))),
                },
            }
        }
        let recorded = evidence::recorded(System::Autoconf, &tree, &log);
        let flags_asked = match variant.exact {
            true => variant.cflags.clone(),
            false => request.cflags(),
        };
        evidence::check(&flags_asked, &recorded)?;
        (self.watch)(Event::Step(&name, "install"));
        let whole = anew || !stage.is_dir();
        let headers = matches!(&way, Move::Files { changed, deleted }
            if changed.iter().chain(deleted).any(|path| path.starts_with("src/include/")));
        let wanted = |part: &str| match part {
            _ if whole => true,
            "src/include" => headers,
            part if PARTS.contains(&part) => is_newer(&tree.join(part), began),
            _ => false,
        };
        let mut installing = 0.0;
        for step in request.install_where(&wanted) {
            installing += runner
                .run(&step, &mut |_| {})
                .with_context(|| format!("installing {name}"))?;
        }
        seconds.push(("install".into(), installing));
        let inner = prefix.strip_prefix("/").unwrap_or(&prefix);
        let staged = stage.join(inner);
        refuse_stray(&stage, inner, &source.facts.given)?;
        publish(&staged).context("the installation can't be made readable")?;
        let aside = installed.with_extension("part");
        remove(&aside)?;
        copy_all(&staged, &aside).context("the installation can't be copied")?;
        let mut record = BuildRecord {
            schema: BuildRecord::schema(),
            name,
            prefix: installed.clone(),
            fingerprint,
            version,
            source: source.facts.clone(),
            patches: Vec::new(),
            variant: variant.name.clone(),
            presets: variant.presets.clone(),
            system: System::Autoconf,
            host: None,
            compiler: compiler.clone(),
            flags_asked,
            flags_exact: variant.exact,
            flags_recorded: recorded.cflags,
            lwlock_command: recorded.witness,
            options: request.options(),
            layout: None,
            finished: now(),
            seconds,
            log,
            pgassay_version: env!("CARGO_PKG_VERSION").to_owned(),
            inspect: inspect(&aside)?,
        };
        if let Some(binary) = &mut record.inspect {
            binary.path = installed.join("bin/postgres").display().to_string();
        }
        record.write(&aside)?;
        remove(&installed)?;
        fs::rename(&aside, &installed)
            .with_context(|| format!("{} can't be put in place", installed.display()))?;
        arrive(&shared, commit)?;
        let took = started.elapsed().as_secs_f64();
        Ok(CommitMade::Made(Box::new(record), How::Built, took))
    }

    /// Brings the sources to a commit; whether all is made anew, and whether programs are linked again.
    fn go(
        &mut self,
        shared: &Shared,
        way: &Move,
        source: &Source,
        name: &str,
        log: &Path,
    ) -> anyhow::Result<(bool, bool)> {
        let commit = source.facts.commit.as_deref().unwrap_or_default();
        shared.throw_away()?;
        match way {
            Move::Anew => {
                for dir in [shared.source(), shared.tree(), shared.dir.join("stage")] {
                    remove(&dir)?;
                }
                for file in [shared.at(), shared.moving(), log.to_path_buf()] {
                    remove_file(&file)?;
                }
                self.place
                    .need(SOURCE_BYTES + VARIANT_BYTES, &format!("building {name}"))?;
                (self.watch)(Event::Note(format!(
                    "{name}: everything is compiled; commits near it take less"
                )));
                (self.watch)(Event::Step(name, "unpack"));
                make_dir(&shared.source())?;
                make_dir(&shared.tree())?;
                let top = source.unpack(&shared.source())?;
                if top != shared.source() {
                    bail!(Failure::usage(format!(
                        "{}: PostgreSQL is not at the repository's top",
                        source.facts.given
                    )));
                }
                // Without `at`, a build that is killed now begins anew.
                fs::write(shared.moving(), "")?;
                Ok((true, false))
            }
            Move::Files { changed, deleted } => {
                let from = fs::read_to_string(shared.moving())
                    .or_else(|_| fs::read_to_string(shared.at()))?;
                fs::write(shared.moving(), format!("{from} {commit}"))?;
                remove_file(&shared.at())?;
                for path in deleted {
                    remove_file(&shared.source().join(path))?;
                }
                source.extract(changed, &shared.source())?;
                let own = ["src/backend/", "src/bin/", "src/pl/", "src/timezone/"];
                let is_own = |path: &String| own.iter().any(|dir| path.starts_with(dir));
                let relinks = !changed.iter().chain(deleted).all(is_own);
                Ok((false, relinks))
            }
        }
    }
}

/// Writes down that the tree is of a commit now.
fn arrive(shared: &Shared, commit: &str) -> anyhow::Result<()> {
    fs::write(shared.at(), commit)?;
    Ok(remove_file(&shared.moving())?)
}

/// Why the sources can't be built; `None` where it is the machine or the user that ended a step.
fn of_the_sources(error: &anyhow::Error) -> Option<String> {
    let failure = error.downcast_ref::<Failure>()?;
    if failure.kind != FailureKind::Target {
        return None;
    }
    let machine = [
        "No space left on device",
        "Killed",
        "Cannot allocate memory",
        "internal compiler error",
        "command not found",
    ];
    let its_fault = machine.iter().any(|words| failure.message.contains(words));
    let said = failure
        .message
        .split("\nThe log is")
        .next()
        .unwrap_or_default();
    (!its_fault).then(|| said.to_owned())
}

/// Programs and libraries that make does not link again where only a library in them has changed.
fn remove_linked(tree: &Path) -> io::Result<()> {
    for program in ["initdb", "pg_ctl", "pg_config", "psql", "pgbench"] {
        remove_file(&tree.join("src/bin").join(program).join(program))?;
    }
    remove_file(&tree.join("src/timezone/zic"))?;
    let libpq = tree.join("src/interfaces/libpq");
    for entry in fs::read_dir(libpq).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().contains(".so") {
            remove_file(&entry.path())?;
        }
    }
    Ok(())
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Removes the files below `dir` that were written since.
fn remove_since(dir: &Path, since: SystemTime) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let meta = fs::symlink_metadata(entry.path())?;
        if meta.is_dir() {
            remove_since(&entry.path(), since)?;
        } else if meta.modified()? >= since {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Whether anything below `dir` was written since.
fn is_newer(dir: &Path, since: SystemTime) -> bool {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| {
            fs::symlink_metadata(entry.path()).is_ok_and(|meta| match meta.is_dir() {
                true => is_newer(&entry.path(), since),
                false => meta.modified().is_ok_and(|at| at >= since),
            })
        })
}

/// Copies a directory: what installs into `from` later may write into its files.
fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let there = to.join(entry.file_name());
        match entry.file_type()? {
            kind if kind.is_dir() => copy_all(&entry.path(), &there)?,
            kind if kind.is_symlink() => {
                std::os::unix::fs::symlink(fs::read_link(entry.path())?, there)?;
            }
            _ => fs::copy(entry.path(), there).map(|_| ())?,
        }
    }
    Ok(())
}

impl Source {
    /// Writes these files of a commit below `to`, as of now.
    fn extract(&self, paths: &[String], to: &Path) -> anyhow::Result<()> {
        let Some((repository, commit)) = self.in_repository().filter(|_| !paths.is_empty()) else {
            return Ok(());
        };
        let archive = to.with_extension("tar");
        let view = View::of(repository)?;
        let mut git = view.command()?;
        git.env("GIT_LITERAL_PATHSPECS", "1")
            .args(["archive", "--format=tar", "-o"])
            .arg(&archive)
            .arg(commit)
            .arg("--")
            .args(paths);
        let made = run_quietly(git, &self.facts.given).and_then(|()| {
            let mut tar = super::builder::tool("tar");
            tar.arg("-x")
                .arg("-m")
                .arg("-f")
                .arg(&archive)
                .arg("-C")
                .arg(to);
            run_quietly(tar, &self.facts.given)
        });
        remove_file(&archive)?;
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_followed_has_everything_made_anew() {
        for (path, weight) in [
            ("src/backend/access/heap/heapam.c", Weight::Followed),
            ("src/include/access/heapam.h", Weight::Followed),
            ("src/fe_utils/print.c", Weight::Followed),
            ("src/bin/pgbench/pgbench.c", Weight::Followed),
            ("src/backend/storage/lmgr/README", Weight::None),
            ("src/bin/pg_waldump/pg_waldump.c", Weight::None),
            ("src/bin/psql/t/001_basic.pl", Weight::None),
            ("doc/src/sgml/ref/select.sgml", Weight::None),
            ("contrib/pgcrypto/Makefile", Weight::None),
            ("src/backend/meson.build", Weight::None),
            ("src/test/regress/sql/join.sql", Weight::None),
            ("configure", Weight::Everything),
            ("src/Makefile.global.in", Weight::Everything),
            ("src/backend/access/heap/Makefile", Weight::Everything),
            ("src/include/catalog/pg_proc.dat", Weight::Everything),
            ("src/include/catalog/pg_class.h", Weight::Everything),
            ("src/backend/parser/gram.y", Weight::Everything),
            ("src/include/pg_config.h.in", Weight::Everything),
            ("src/template/linux", Weight::Everything),
        ] {
            assert_eq!(weigh(path, false), weight, "{path}");
        }
        let nodes = "src/include/nodes/parsenodes.h";
        assert_eq!(weigh(nodes, false), Weight::Followed);
        assert_eq!(weigh(nodes, true), Weight::Everything);
    }
}
