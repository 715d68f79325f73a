//! Files of this machine that a command for another one names, and those that its scripts take rows from.

use std::path::{Component, Path, PathBuf};

use pgassay_load::script;

use crate::cli::args::Command;
use crate::cli::show::ShowArgs;

/// A file that is sent there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Here.
    pub from: PathBuf,
    /// There, below the directory in which the command runs.
    pub name: String,
}

/// The files of this machine that a command names and that are there.
pub fn files(command: &Command) -> Vec<PathBuf> {
    let script = |text: &String| {
        let path = text
            .rsplit_once('@')
            .map_or(text.as_str(), |(path, _)| path);
        [text.as_str(), path]
            .map(PathBuf::from)
            .into_iter()
            .find(|p| p.is_file())
    };
    let path = |path: &PathBuf| Some(path.clone()).filter(|path| path.is_file());
    let mut files: Vec<PathBuf> = match command {
        Command::Run(args) => {
            let scripts = args.load.files.iter().chain(&args.load.concurrent);
            let scripts = scripts.chain([&args.workload]);
            let config = args.io.data.config.as_ref();
            scripts
                .filter_map(script)
                .chain(config.and_then(path))
                .collect()
        }
        Command::Compare(args) => {
            let scripts = args
                .sides
                .dials
                .files
                .iter()
                .chain(&args.sides.dials.concurrent);
            let scripts = scripts.chain([&args.workload]);
            let config = args.data.config.as_ref();
            scripts
                .filter_map(script)
                .chain(config.and_then(path))
                .collect()
        }
        Command::Lab(args) => args.plan.iter().filter_map(script).collect(),
        Command::Patch(args) => args
            .patches
            .iter()
            .chain(&args.plan)
            .filter_map(path)
            .collect(),
        Command::Diagnose(args) => {
            let against = args.against.iter().map(PathBuf::from);
            let mut files: Vec<_> = args.perf.iter().filter_map(path).collect();
            files.extend(against.filter(|path| path.is_file()));
            files
        }
        _ => Vec::new(),
    };
    files.sort();
    files.dedup();
    files
}

/// The name of a file there: its own where that stays below the directory.
pub fn given_name(path: &Path, number: usize) -> String {
    let below = path.components().all(|c| matches!(c, Component::Normal(_)));
    match (below, path.to_str(), path.file_name()) {
        (true, Some(name), _) => name.to_owned(),
        (_, _, Some(name)) => format!("given-{number}/{}", name.to_string_lossy()),
        _ => format!("given-{number}/file"),
    }
}

/// The files from which a script takes rows: next to it there as here. What can't be sent is missed there, by its name.
pub fn rows(script: &Path, name: &str) -> Vec<Given> {
    let text = std::fs::read_to_string(script).unwrap_or_default();
    let below = |file: &String| {
        let mut parts = Path::new(file).components();
        parts.all(|part| matches!(part, Component::Normal(_)))
    };
    let files = script::row_files(&text).into_iter().filter(below);
    let given = files.filter_map(|file| {
        Some(Given {
            from: script.with_file_name(&file),
            name: Path::new(name).with_file_name(&file).to_str()?.to_owned(),
        })
    });
    given.filter(|given| given.from.is_file()).collect()
}

/// Where the result of a command goes, if that can be said of it.
pub fn show(command: &Command) -> Option<&ShowArgs> {
    match command {
        Command::Compare(args) => Some(&args.show),
        Command::Diagnose(args) => Some(&args.show),
        Command::Inspect(args) => Some(&args.show),
        Command::Lab(args) => Some(&args.output),
        Command::Watch(args) => Some(&args.show),
        _ => None,
    }
}
