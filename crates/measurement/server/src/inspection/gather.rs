//! Finds what to inspect and inspects it, many files side by side.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use pgassay_inspect::archive::{self, Found, Kind, Limits, MAGIC_BYTES};
use pgassay_inspect::inspection::Problem;
use pgassay_inspect::{
    Binary, Error, MOST_LISTED, Options, Read, debug_wanted, inspect_elf, supplement_wanted,
};
use pgassay_sys::map::Mapped;

use super::live::{self, MappedFile};

/// A file up to this long stays in memory while it is inspected.
const KEPT_BYTES: usize = 32 << 20;

/// One thing to look at.
#[derive(Debug, Clone)]
pub struct Source {
    /// Where to read.
    pub path: PathBuf,
    /// What to call it.
    pub name: String,
    /// It was named on the command line: if it is neither a program nor a package, that is an error.
    pub named: bool,
    /// The process that has it mapped.
    pub process: Option<(u32, MappedFile)>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Gathered {
    /// Files inspected.
    pub files: Vec<Binary>,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

/// Files and packages of one path: itself, or what a directory holds, by name, links not followed.
pub fn sources(path: &Path, problems: &mut Vec<Problem>) -> Vec<Source> {
    let source = |path: &Path, named| Source {
        path: path.to_path_buf(),
        name: path.display().to_string(),
        named,
        process: None,
    };
    if !path.is_dir() {
        return vec![source(path, true)];
    }
    let mut found = Vec::new();
    let mut waiting = vec![path.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) => {
                problems.push(Problem {
                    path: directory.display().to_string(),
                    error: error.to_string(),
                    named: directory == path,
                });
                continue;
            }
        };
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => waiting.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(source(&entry.path(), false)),
                _ => {}
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The program, libc and every other library mapped into a process.
///
/// # Errors
/// Where /proc/PID can't be read.
pub fn process_sources(pid: u32) -> std::io::Result<Vec<Source>> {
    let program = fs::read_link(format!("/proc/{pid}/exe"))?;
    let program = program.display().to_string();
    let mut sources: Vec<Source> = live::mapped_files(pid)?
        .into_iter()
        .map(|file| {
            let is_program = file.path == program;
            Source {
                path: live::openable(pid, &file, is_program),
                name: file.path.clone(),
                named: is_program,
                process: Some((pid, file)),
            }
        })
        .collect();
    // The program first; the kernel lists by address.
    sources.sort_by_key(|s| !s.named);
    Ok(sources)
}

/// The files of a whole server: those of its postmaster, then what its other processes have loaded
/// besides. An extension is mapped only into the sessions that used it, unless it is preloaded.
///
/// # Errors
/// Where the postmaster can't be read; a session that ended meanwhile costs nothing.
pub fn server_sources(postmaster: u32) -> std::io::Result<Vec<Source>> {
    let mut sources = process_sources(postmaster)?;
    let mut known: HashSet<String> = sources.iter().map(|s| s.name.clone()).collect();
    for child in live::children(postmaster) {
        for source in process_sources(child).unwrap_or_default() {
            if known.insert(source.name.clone()) {
                sources.push(Source {
                    named: false,
                    ..source
                });
            }
        }
    }
    Ok(sources)
}

/// The program that a process runs, with what the process tells of it.
///
/// # Errors
/// Why it can't be seen or read, in words for a report.
pub fn program_of(pid: u32) -> Result<Binary, String> {
    let sources = process_sources(pid).map_err(|e| format!("process {pid}: {e}"))?;
    let program = sources
        .into_iter()
        .find(|s| s.named)
        .ok_or_else(|| format!("process {pid} does not map its own program"))?;
    let mut gathered = inspect_all(std::slice::from_ref(&program));
    match gathered.files.pop() {
        Some(binary) => Ok(binary),
        None => Err(gathered.problems.pop().map_or_else(
            || format!("{}: no program", program.name),
            |problem| format!("{}: {}", problem.path, problem.error),
        )),
    }
}

/// Inspects all sources, on all CPUs.
pub fn inspect_all(sources: &[Source]) -> Gathered {
    inspect_each(sources, &mut |_| ())
}

/// The same, saying now and then how many are done.
pub fn inspect_each(sources: &[Source], done: &mut dyn FnMut(usize)) -> Gathered {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = cpus.min(sources.len()).max(1);
    // One file gets all CPUs; of many, each gets one.
    let threads = if sources.len() < cpus { cpus } else { 1 };
    let room = AtomicUsize::new(MOST_LISTED);
    if let [one] = sources {
        return inspect(one, threads, &room);
    }
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Gathered)>> = Mutex::new(Vec::new());
    let work = |done: &mut dyn FnMut(usize)| {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(source) = sources.get(n) else {
                return;
            };
            let gathered = inspect(source, threads, &room);
            let so_far = match results.lock() {
                Ok(mut results) => {
                    results.push((n, gathered));
                    results.len()
                }
                Err(_) => continue,
            };
            done(so_far);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers {
            // Where no more threads can be had, those that are there do it all.
            if std::thread::Builder::new()
                .spawn_scoped(scope, || work(&mut |_| ()))
                .is_err()
            {
                break;
            }
        }
        work(done);
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by_key(|(n, _)| *n);
    let mut all = Gathered::default();
    for (_, mut gathered) in results {
        all.files.append(&mut gathered.files);
        all.problems.append(&mut gathered.problems);
    }
    all
}

/// Takes what a file lists out of the room that all share.
fn take(room: &AtomicUsize, binary: &Binary) {
    let listed = binary.atomics.listed();
    let _ = room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        Some(left.saturating_sub(listed))
    });
}

/// Inspects one source: a program, or every program of a package. What may be listed of all of them
/// together is `room`.
fn inspect(source: &Source, threads: usize, room: &AtomicUsize) -> Gathered {
    let mut gathered = Gathered::default();
    let mut fail = |path: &str, error: String| {
        gathered.problems.push(Problem {
            path: path.to_string(),
            error,
            named: source.named,
        });
    };
    let bytes = match Mapped::open(&source.path) {
        Ok(bytes) => bytes,
        Err(error) => {
            // A device or a removed library among a process's maps is no news.
            if source.named || source.process.is_none() {
                fail(&source.name, error.to_string());
            }
            return gathered;
        }
    };
    let kind = Kind::of(&bytes[..bytes.len().min(MAGIC_BYTES)]);
    let options = || Options {
        most_listed: room.load(Ordering::Relaxed),
        ..Options::on(threads)
    };
    if kind.is_package() && source.process.is_none() {
        archive::walk(
            &source.name,
            &bytes,
            &Limits::default(),
            &mut |name, found| match found {
                Found::Elf(bytes) => match inspect_elf(name, bytes, &options()) {
                    Ok(binary) => {
                        take(room, &binary);
                        gathered.files.push(binary);
                    }
                    // Packages for developers are full of them.
                    Err(Error::Unlinked) => {}
                    Err(error) => gathered.problems.push(Problem {
                        path: name.to_string(),
                        error: error.to_string(),
                        named: false,
                    }),
                },
                Found::Wanted(_) => {}
                Found::Problem(Error::Unlinked) if name != source.name => {}
                Found::Problem(error) => gathered.problems.push(Problem {
                    path: name.to_string(),
                    error: error.to_string(),
                    named: source.named && name == source.name,
                }),
            },
        );
        if gathered.files.is_empty() && gathered.problems.is_empty() && source.named {
            gathered.problems.push(Problem {
                path: source.name.clone(),
                error: "holds no ELF file".into(),
                named: true,
            });
        }
        return gathered;
    }
    let debug = debug_file(&bytes, &source.path);
    let supplement = match &debug {
        Some((bytes, path)) => supplement(bytes, path),
        None => supplement(&bytes, &source.path),
    };
    let debug = debug.as_ref().map(|(bytes, _)| &**bytes);
    // Pages of a large file are let go of once read: it is on disk, and may be larger than memory.
    // Those of a small one would only be fetched again.
    let read = |part: &[u8]| bytes.let_go(part);
    let options = Options {
        debug,
        supplement: supplement.as_deref(),
        read: (bytes.len() > KEPT_BYTES).then_some(Read(&read)),
        ..options()
    };
    match inspect_elf(&source.name, &bytes, &options) {
        Ok(mut binary) => {
            take(room, &binary);
            let process = source.process.as_ref();
            binary.process = process.map(|(pid, file)| live::facts(*pid, file, &binary));
            gathered.files.push(binary);
        }
        // In a directory or a process most files are no programs.
        Err(Error::NotElf | Error::Empty | Error::Unlinked) if !source.named => {}
        Err(Error::NotElf) => {
            fail(
                &source.name,
                "neither an ELF file nor a package that can be read".into(),
            );
        }
        Err(error) => fail(&source.name, error.to_string()),
    }
    gathered
}

/// The separate debug file where distributions put it: by build id, else by the name in
/// `.gnu_debuglink` (gdb's manual, "Separate Debug Files").
fn debug_file(bytes: &[u8], path: &Path) -> Option<(Mapped, PathBuf)> {
    let wanted = debug_wanted(bytes)?;
    let mut places: Vec<PathBuf> = Vec::new();
    if let Some(id) = &wanted.build_id
        && id.len() > 2
    {
        places.push(format!("/usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]).into());
    }
    // The name is a file's, never a path out of the directory.
    if let Some(link) = wanted
        .debuglink
        .filter(|l| !l.is_empty() && !l.contains('/') && l != "..")
        && let Ok(real) = path.canonicalize()
        && let Some(directory) = real.parent()
    {
        places.push(directory.join(&link));
        places.push(directory.join(".debug").join(&link));
        if let Ok(below) = directory.strip_prefix("/") {
            places.push(Path::new("/usr/lib/debug").join(below).join(&link));
        }
    }
    places
        .into_iter()
        .find_map(|place| Some((Mapped::open(&place).ok().filter(|m| !m.is_empty())?, place)))
}

/// The file of DWARF that several programs share, where distributions put it: at the path that the
/// file names, which begins beside it, else by build id.
fn supplement(bytes: &[u8], path: &Path) -> Option<Mapped> {
    let wanted = supplement_wanted(bytes)?;
    let named = Path::new(OsStr::from_bytes(&wanted.path));
    let beside = path.canonicalize().ok()?.parent()?.join(named);
    let id: String = wanted.build_id.iter().map(|b| format!("{b:02x}")).collect();
    let by_id = (id.len() > 2)
        .then(|| format!("/usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]).into());
    [Some(beside), by_id]
        .into_iter()
        .flatten()
        .find_map(|place: PathBuf| Mapped::open(&place).ok().filter(|m| !m.is_empty()))
}
