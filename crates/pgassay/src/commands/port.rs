//! `pgassay port`: what keeps sources and binaries from another processor.

use pgassay_analysis::number::counted;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::bail;
use pgassay_inspect::archive::{self, Found, Kind, Limits, MAGIC_BYTES};
use pgassay_inspect::extensions;
use pgassay_model::Failure;
use pgassay_port::binary;
use pgassay_port::porting::Porting;
use pgassay_port::project::{self, Project};
use pgassay_port::rules::RULES;
use pgassay_sys::map::Mapped;
use pgassay_sys::stop::Stop;

use super::progress::Progress;
use super::show::{next, show};
use crate::cli::port::PortArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// Longest source that is read, in bytes; one byte more shows that it is longer.
const MOST_BYTES: u64 = (16 << 20) + 1;
/// Files of a directory that are looked at; more are no extension.
const MOST_FILES: usize = 200_000;
/// Directories inside one another that are followed.
const DEEPEST: usize = 64;

/// Reads what was named and says what was found.
///
/// # Errors
/// Where nothing named can be read.
pub fn port(args: &PortArgs, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    if args.list_rules {
        let lines = RULES
            .iter()
            .map(|rule| format!("{:<18} {:<7} {}\n", rule.id, rule.effect.name(), rule.title));
        terminal.print(&lines.collect::<String>())?;
        return Ok(Exit::Done);
    }
    let mut project = Project::default();
    for input in &args.inputs {
        look(input, &mut project, terminal, stop)?;
    }
    let target: Vec<String> = args
        .inputs
        .iter()
        .map(|i| i.display().to_string())
        .collect();
    let target = target.join(" ");
    if project.files() == 0 {
        bail!(
            Failure::usage(format!(
                "{target}: holds no C, C++ or Rust, no build file and no ELF file"
            ))
            .with_remedy("name a directory of sources, a shared library or a package")
        );
    }
    let porting = project.finish(&target, args.to.into());
    show(&porting, &args.show, terminal)?;
    next(&args.show, &[next_of(&porting, args)], terminal);
    Ok(exit(&porting, args))
}

/// What follows: every place on a page; what the built file does on a processor; a rule in CI.
fn next_of(porting: &Porting, args: &PortArgs) -> String {
    let inputs: Vec<_> = args.inputs.iter().map(|i| i.to_string_lossy()).collect();
    let named = pgassay_text::shell(&inputs);
    match (porting.findings.is_empty(), args.show.html.is_some()) {
        (false, false) => format!("pgassay port {named} --html port.html"),
        (false, true) => "pgassay port --list-rules".to_owned(),
        (true, _) if porting.binaries.is_empty() => {
            format!("pgassay port --fail-on check {named}, in CI")
        }
        (true, _) => format!("pgassay inspect {named}"),
    }
}

fn exit(porting: &Porting, args: &PortArgs) -> Exit {
    let found = porting.gravest().zip(args.fail_on.least());
    match found {
        Some((gravest, least)) if gravest >= least => Exit::Found,
        _ => Exit::Done,
    }
}

/// Adds what a path holds.
fn look(
    input: &Path,
    project: &mut Project,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<()> {
    let shown = input.display();
    let metadata = fs::metadata(input)
        .map_err(|e| Failure::usage(format!("{shown}: {e}")).with_remedy("name what is there"))?;
    if metadata.is_dir() {
        let files = files(input, project);
        return side_by_side(input, &files, project, terminal, stop);
    }
    if !metadata.is_file() {
        bail!(Failure::usage(format!(
            "{shown}: neither a file nor a directory"
        )));
    }
    let name = shown.to_string();
    let bytes = Mapped::open(input).map_err(|e| Failure::usage(format!("{shown}: {e}")))?;
    match Kind::of(&bytes[..bytes.len().min(MAGIC_BYTES)]) {
        Kind::Elf => add_binary(&name, &bytes, project),
        kind if kind.is_package() => package(&name, &bytes, project),
        _ => {
            if let Some(read) = project::read(&name, &bytes) {
                project.add(&name, read);
            }
        }
    }
    Ok(())
}

/// The files of a directory that are looked at. Links are not followed, but noted: a header may be one.
/// Hidden directories are left out, but for Cargo's settings.
fn files(root: &Path, project: &mut Project) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut noted = 0;
    let mut waiting = vec![(root.to_path_buf(), 0, false)];
    while let Some((directory, depth, by_link)) = waiting.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(_) if by_link => continue,
            Err(error) => {
                project.add_unread(&directory.display().to_string(), error.to_string());
                continue;
            }
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let visible = !name.starts_with('.') || name == ".cargo";
            let link_to_directory = || !by_link && kind.is_symlink() && path.is_dir();
            if visible && depth < DEEPEST && (kind.is_dir() || link_to_directory()) {
                waiting.push((path, depth + 1, by_link || kind.is_symlink()));
                continue;
            }
            let relative = path.strip_prefix(root).unwrap_or(&path);
            let shown = relative.display().to_string();
            let looked_at = project::is_looked_at(&shown) || is_library(&name);
            if kind.is_file() && !by_link && looked_at && found.len() < MOST_FILES {
                found.push(path);
            } else if project::is_noted(&name) && noted < MOST_FILES {
                noted += 1;
                project.add_name(&shown);
            }
        }
    }
    found.sort();
    found
}

fn is_library(name: &str) -> bool {
    name.ends_with(".so") || name.contains(".so.")
}

/// Reads files on all CPUs.
///
/// # Errors
/// Where the user stops it.
fn side_by_side(
    root: &Path,
    files: &[PathBuf],
    project: &mut Project,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<()> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let shared = Mutex::new(std::mem::take(project));
    let progress = Progress::new(terminal, 1000);
    progress.say(format!("reading {}", counted(files.len() as u64, "file")));
    let work = || {
        while !stop.asked() {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = files.get(n) else {
                return;
            };
            let name = path.strip_prefix(root).unwrap_or(path);
            one(path, &name.display().to_string(), &shared);
        }
    };
    std::thread::scope(|scope| {
        let spawned: Vec<_> = (0..workers)
            .filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        if spawned.is_empty() {
            work();
        }
        while spawned.iter().any(|thread| !thread.is_finished()) {
            progress.share(next.load(Ordering::Relaxed) as f64 / files.len().max(1) as f64);
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    progress.clear();
    if stop.asked() {
        bail!(Failure::interrupted());
    }
    *project = shared.into_inner().unwrap_or_default();
    Ok(())
}

/// Reads one file of a directory.
fn one(path: &Path, name: &str, project: &Mutex<Project>) {
    let mut bytes = Vec::new();
    let got = File::open(path).and_then(|file| {
        let library = is_library(name);
        let most = if library { u64::MAX } else { MOST_BYTES };
        file.take(most).read_to_end(&mut bytes)
    });
    let read = match got {
        Ok(_) if is_library(name) => {
            // Linker scripts are named so, too.
            if Kind::of(&bytes) == Kind::Elf
                && let Ok(mut project) = project.lock()
            {
                add_binary(name, &bytes, &mut project);
            }
            return;
        }
        Ok(_) => project::read(name, &bytes),
        Err(error) => {
            if let Ok(mut project) = project.lock() {
                project.add_unread(name, error.to_string());
            }
            return;
        }
    };
    if let (Some(read), Ok(mut project)) = (read, project.lock()) {
        project.add(name, read);
    }
}

/// Adds what a package holds: programs, and sources where there are any.
fn package(name: &str, bytes: &[u8], project: &mut Project) {
    let limits = Limits::default();
    let noted = std::cell::RefCell::new(Vec::new());
    let wanted = |name: &str| {
        let looked_at = project::is_looked_at(name);
        if !looked_at && project::is_noted(name) && noted.borrow().len() < MOST_FILES {
            noted.borrow_mut().push(name.to_owned());
        }
        looked_at
    };
    archive::walk_with(name, bytes, &limits, &wanted, &mut |name, found| {
        // Names within are long enough without the package's own.
        let inside = name.rsplit('!').next().unwrap_or(name);
        match found {
            Found::Elf(bytes) => add_binary(inside, bytes, project),
            Found::Wanted(bytes) => {
                if let Some(read) = project::read(inside, bytes) {
                    project.add(inside, read);
                }
            }
            Found::Problem(error) => project.add_unread(name, error.to_string()),
        }
    });
    for name in noted.into_inner() {
        project.add_name(&name);
    }
}

fn add_binary(name: &str, bytes: &[u8], project: &mut Project) {
    match extensions::extensions(bytes) {
        Ok(extensions) => {
            let (needs, findings) = binary::judge(name, &extensions);
            project.add_binary(needs, findings);
        }
        Err(pgassay_inspect::Error::Unlinked) => {}
        Err(error) => project.add_unread(name, error.to_string()),
    }
}
