//! What inspect sees in the executable of the server under measurement, and in its modules.

use std::path::{Path, PathBuf};

use pgassay_inspect::inspection::Problem;
use pgassay_inspect::modules::{self, Module};
use pgassay_inspect::{Binary, Options, inspect_elf};
use pgassay_sys::map::Mapped;

use super::subject::Subject;
use pgassay_server::inspection::gather::{self, Source};

/// Inspects the very file that the server's process runs, with the process's own word on the path
/// that its atomics take: the same account as `pgassay inspect PID` gives of it.
///
/// # Errors
/// Why it can't be seen or read, in words for the report.
pub fn inspect(subject: &Subject) -> Result<Binary, String> {
    let mut binary = gather::program_of(subject.scene.postmaster.clone()?)?;
    // Addresses fill pages and say no more than the functions do: `inspect --addresses` has them.
    binary.atomics.forget_addresses();
    Ok(binary)
}

/// The library with the functions inside the server, by itself.
///
/// # Errors
/// Why it can't be read, in words for the report.
pub fn inspect_library(path: &Path) -> Result<Binary, String> {
    let shown = path.display();
    let bytes = Mapped::open(path).map_err(|e| format!("{shown}: {e}"))?;
    let mut binary = inspect_elf(&shown.to_string(), &bytes, &Options::default())
        .map_err(|e| format!("{shown}: {e}"))?;
    binary.atomics.forget_addresses();
    Ok(binary)
}

/// Where modules lie, from the directory of the server's program: as Debian's and PGDG's packages, a
/// build from source and Red Hat's packages have them.
const MODULE_DIRECTORIES: &[&str] = &[
    "../lib",
    "../lib/postgresql",
    "../lib64/pgsql",
    "../lib64/postgresql",
    "../lib/pgsql",
];

/// The directory of a server's modules: the one with PL/pgSQL, which every server has.
fn module_directory(program: &Path) -> Option<PathBuf> {
    let programs = program.parent()?;
    let mut directories = MODULE_DIRECTORIES.iter().map(|d| programs.join(d));
    directories.find(|d| d.join("plpgsql.so").exists())
}

/// What each module in the library directory of a server needs of the processor.
pub fn modules(server: &Source, problems: &mut Vec<Problem>) -> Vec<Module> {
    // A server in a container has its own root; what /proc says of a process is no link.
    let root = server
        .process
        .as_ref()
        .map(|(pid, _)| format!("/proc/{pid}/root"))
        .unwrap_or_default();
    let program = match server.process {
        Some(_) => PathBuf::from(format!("{root}{}", server.name)),
        None => server
            .path
            .canonicalize()
            .unwrap_or_else(|_| server.path.clone()),
    };
    let shown = |path: &Path| {
        let path = path.display().to_string();
        path.strip_prefix(root.as_str()).unwrap_or(&path).to_owned()
    };
    let mut problem = |path: &Path, error: String| {
        problems.push(Problem {
            path: shown(path),
            error,
            named: false,
        });
    };
    let Some(directory) = module_directory(&program) else {
        problem(
            &program,
            "no directory with plpgsql.so was found next to it: modules were not read".into(),
        );
        return Vec::new();
    };
    let entries = match std::fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) => {
            problem(&directory, error.to_string());
            return Vec::new();
        }
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "so") && path.is_file())
        .collect();
    paths.sort();
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = |machine: &_, extension: &str| modules::has(&cpuinfo, machine, extension);
    let mut found = Vec::new();
    for path in paths {
        let module = Mapped::open(&path)
            .map_err(|error| error.to_string())
            .and_then(|bytes| {
                modules::module(&shown(&path), &bytes, &has).map_err(|error| error.to_string())
            });
        match module {
            Ok(module) => found.push(module),
            Err(error) => problem(&path, error),
        }
    }
    found
}
