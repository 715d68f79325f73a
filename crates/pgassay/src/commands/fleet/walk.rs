//! Finds what may be a host's below a directory.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::bail;
use pgassay_analysis::fleet::{Gathering, Unused};
use pgassay_model::Failure;
use pgassay_records::{HOST_TABLES, TABLES, is_archive};
use pgassay_sys::stop::Stop;

/// Directories within directories that are looked into.
const DEEPEST: usize = 16;
/// Larger files are no table of a day.
const LARGEST_TABLE: u64 = 256 << 20;

/// What kind of thing is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    File,
    /// A run's directory.
    Run,
    /// A directory of exported tables.
    Tables,
}

/// What may be a host's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// The file or directory.
    pub(super) path: PathBuf,
    pub(super) what: What,
    /// What its host is called.
    pub(super) name: String,
    /// Where that name lies: what is called the same elsewhere is another host.
    pub(super) origin: String,
    /// How large it is; of a run and of tables all that is read of it.
    pub(super) bytes: u64,
}

impl Item {
    /// Where it is, for people.
    pub(super) fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// Adds what is below a path that the user named. A link that was named is followed, one below is not.
///
/// # Errors
/// Where the path is not there or can't be read.
pub(super) fn find(
    root: &Path,
    items: &mut Vec<Item>,
    gathering: &mut Gathering,
    stop: &Stop,
) -> anyhow::Result<()> {
    let meta = fs::metadata(root).map_err(|e| {
        Failure::usage(format!("cannot read {}: {e}", root.display()))
            .with_remedy("name a directory of files that pgassay collect wrote, or of runs")
    })?;
    let root = Root::new(root, meta.is_dir());
    let mut finding = Finding {
        root: &root,
        items,
        gathering,
        stop,
    };
    if meta.is_dir() {
        if fs::read_dir(&root.path).is_err() {
            bail!(
                Failure::usage(format!("{} may not be read", root.path.display()))
                    .with_remedy("call pgassay fleet as the user who owns it")
            );
        }
        return finding.directory(&root.path, 0);
    }
    finding.file(&root.path, &meta);
    Ok(())
}

struct Finding<'a> {
    root: &'a Root,
    items: &'a mut Vec<Item>,
    gathering: &'a mut Gathering,
    stop: &'a Stop,
}

impl Finding<'_> {
    fn directory(&mut self, dir: &Path, depth: usize) -> anyhow::Result<()> {
        if self.stop.asked() {
            bail!(Failure::interrupted());
        }
        if fs::symlink_metadata(dir.join("run.json")).is_ok_and(|meta| meta.is_file()) {
            let (name, origin) = self.root.host(dir, true);
            self.items.push(Item {
                path: dir.to_owned(),
                what: What::Run,
                name,
                origin,
                bytes: bytes_of_run(dir),
            });
            return Ok(());
        }
        let is_tables = is_archive(dir);
        if is_tables {
            self.tables(dir);
        }
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(e) => {
                self.leave_out(dir, Unused::Unreadable, &e.to_string());
                return Ok(());
            }
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            // As in a listing, hidden ones are nobody's.
            let hidden = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b".");
            if path.file_name().is_none_or(hidden) {
                continue;
            }
            let Ok(meta) = fs::symlink_metadata(&path) else {
                continue;
            };
            match meta.file_type() {
                _ if is_tables && is_table(&path) => {}
                kind if kind.is_dir() && depth < DEEPEST => self.directory(&path, depth + 1)?,
                kind if kind.is_dir() => {
                    let why = format!("it lies in more than {DEEPEST} directories");
                    self.leave_out(&path, Unused::TooDeep, &why);
                }
                kind if kind.is_file() => self.file(&path, &meta),
                kind if kind.is_symlink() => {
                    self.leave_out(&path, Unused::NoFile, "a link, which may lead elsewhere");
                }
                _ => self.leave_out(&path, Unused::NoFile, "neither a file nor a directory"),
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, meta: &fs::Metadata) {
        let (name, origin) = self.root.host(path, false);
        self.items.push(Item {
            path: path.to_owned(),
            what: What::File,
            name,
            origin,
            bytes: meta.size(),
        });
    }

    fn tables(&mut self, dir: &Path) {
        match bytes_of_tables(dir) {
            Ok(bytes) => self.items.push(Item {
                path: dir.to_owned(),
                what: What::Tables,
                name: String::new(),
                origin: format!("{:?}", fs::canonicalize(dir).as_deref().unwrap_or(dir)),
                bytes,
            }),
            Err((path, because, why)) => self.leave_out(&path, because, &why),
        }
    }

    fn leave_out(&mut self, path: &Path, because: Unused, why: &str) {
        let place = path.display().to_string();
        self.gathering.leave_out(place, because, why.to_owned());
    }
}

/// What the user named.
#[derive(Debug)]
struct Root {
    /// As typed.
    path: PathBuf,
    /// Where it really lies, so that one directory is the same however it was typed.
    real: PathBuf,
    /// Whether it is one host's own directory: it holds its facts, and perhaps its runs.
    is_host: bool,
}

impl Root {
    fn new(path: &Path, is_dir: bool) -> Self {
        let facts = || fs::symlink_metadata(path.join("facts.json"));
        Self {
            path: path.to_owned(),
            real: fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
            is_host: is_dir && facts().is_ok_and(|meta| meta.is_file()),
        }
    }

    /// What the host of something in it is called, and where that name lies.
    fn host(&self, path: &Path, is_run: bool) -> (String, String) {
        let below = path.strip_prefix(&self.path).unwrap_or(path);
        let itself = below.as_os_str().is_empty();
        let real = match itself {
            true => self.real.clone(),
            false => self.real.join(below),
        };
        // The names start within what was named, or with it.
        let within = match self.is_host {
            true => self.real.parent(),
            false if itself => real
                .parent()
                .map(|parent| match last(&real) == "facts.json" {
                    true => parent.parent().unwrap_or(parent),
                    false => parent,
                }),
            false => Some(self.real.as_path()),
        };
        let within = within.unwrap_or(Path::new("/"));
        let name = name_of(real.strip_prefix(within).unwrap_or(&real), is_run);
        // Whatever bytes are in it, two paths differ so.
        (
            name.to_string_lossy().into_owned(),
            format!("{:?}", within.join(&name)),
        )
    }
}

fn last(path: &Path) -> std::borrow::Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// The host's file without `.json`, or the directory in which its facts or runs lie.
fn name_of(path: &Path, is_run: bool) -> PathBuf {
    let is_json = path.extension().is_some_and(|ending| ending == "json");
    let (own, common) = match is_run {
        true => (path.parent().unwrap_or(path).to_owned(), "runs"),
        false if is_json => (path.with_extension(""), "facts"),
        false => (path.to_owned(), "facts"),
    };
    let above = own.parent().filter(|above| !above.as_os_str().is_empty());
    match (last(&own) == common, above) {
        (true, Some(above)) => above.to_owned(),
        // No host's directory is known: a run is a host by itself.
        (true, None) if is_run => last(path).into_owned().into(),
        _ if own.as_os_str().is_empty() => path.to_owned(),
        _ => own,
    }
}

/// How large the documents and records of a run are.
fn bytes_of_run(dir: &Path) -> u64 {
    let files = [dir.to_owned(), dir.join("facts")];
    let files = files.into_iter().flat_map(fs::read_dir).flatten().flatten();
    files.fold(0, |bytes: u64, file| {
        let name = file.file_name();
        let ending = Path::new(&name).extension();
        let is_read = ending.is_some_and(|ending| ending == "json" || ending == "jsonl");
        let length = is_read.then(|| file.metadata().map_or(0, |meta| meta.len()));
        bytes.saturating_add(length.unwrap_or_default())
    })
}

/// Whether a path is that of one of the tables.
fn is_table(path: &Path) -> bool {
    let mut names = TABLES.iter().map(|table| table.name);
    names.any(|name| path.file_name().is_some_and(|last| last == name))
}

/// How large the tables that are read are. They are files in directories: what a link leads to is somebody else's.
fn bytes_of_tables(dir: &Path) -> Result<u64, (PathBuf, Unused, String)> {
    let mut bytes = 0_u64;
    for table in HOST_TABLES {
        let place = dir.join(table);
        let meta = match fs::symlink_metadata(&place) {
            Ok(meta) => meta,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err((place, Unused::Unreadable, e.to_string())),
        };
        let no_file = |path: &Path| {
            let why = "a link, or neither a file nor a directory".to_owned();
            (path.to_owned(), Unused::NoFile, why)
        };
        if !meta.is_dir() {
            return Err(no_file(&place));
        }
        let unreadable = |e: std::io::Error| (place.clone(), Unused::Unreadable, e.to_string());
        for day in fs::read_dir(&place).map_err(unreadable)?.flatten() {
            let file = day.path().join(format!("{table}.parquet"));
            let Ok(meta) = fs::symlink_metadata(&file) else {
                continue;
            };
            if !meta.is_file() || !day.file_type().is_ok_and(|kind| kind.is_dir()) {
                return Err(no_file(&file));
            }
            if meta.size() > LARGEST_TABLE {
                let (mib, most) = (meta.size() >> 20, LARGEST_TABLE >> 20);
                let why = format!("it has {mib} MiB; up to {most} are read of a table and day");
                return Err((file, Unused::TooLarge, why));
            }
            bytes = bytes.saturating_add(meta.size());
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(path: &str, is_host: bool) -> Root {
        Root {
            path: path.into(),
            real: path.into(),
            is_host,
        }
    }

    #[test]
    fn a_host_is_called_as_its_file_or_its_directory() {
        for (path, is_run, name) in [
            ("/f/db1.json", false, "db1"),
            ("/f/eu/db1.json", false, "eu/db1"),
            ("/f/db1/facts.json", false, "db1"),
            ("/f/eu/db1/facts.json", false, "eu/db1"),
            ("/f/db1.example.com.json", false, "db1.example.com"),
            ("/f/db1.example.com", false, "db1.example.com"),
            ("/f/db1/runs/20261121T031500Z-x-abcd", true, "db1"),
            ("/f/db1/20261121T031500Z-x-abcd", true, "db1"),
            (
                "/f/runs/20261121T031500Z-x-abcd",
                true,
                "20261121T031500Z-x-abcd",
            ),
            (
                "/f/20261121T031500Z-x-abcd",
                true,
                "20261121T031500Z-x-abcd",
            ),
            ("/f", true, "f"),
            ("/f", false, "f"),
        ] {
            let (found, origin) = root("/f", false).host(Path::new(path), is_run);
            assert_eq!(found, name, "{path}");
            let at = if path == "/f" { "" } else { "/f" };
            assert_eq!(origin, format!("\"{at}/{name}\""), "{path}");
        }
    }

    /// `fleet eu us`, `fleet f/*/facts.json`, `fleet f/n1 f/n2`.
    #[test]
    fn what_was_named_itself_is_called_as_its_directory() {
        for (named, is_host, path, is_run, name, origin) in [
            ("/eu", false, "/eu/db1.json", false, "db1", "/eu/db1"),
            ("/us", false, "/us/db1.json", false, "db1", "/us/db1"),
            ("/f/db1.json", false, "/f/db1.json", false, "db1", "/f/db1"),
            (
                "/f/n1/facts.json",
                false,
                "/f/n1/facts.json",
                false,
                "n1",
                "/f/n1",
            ),
            ("/f/n1", true, "/f/n1/facts.json", false, "n1", "/f/n1"),
            ("/f/n1", true, "/f/n1/runs/R", true, "n1", "/f/n1"),
            ("/f/n1", true, "/f/n1/R", true, "n1", "/f/n1"),
            (
                "/facts.json",
                false,
                "/facts.json",
                false,
                "facts",
                "/facts",
            ),
            ("/", true, "/facts.json", false, "facts", "/facts"),
        ] {
            let host = root(named, is_host).host(Path::new(path), is_run);
            let origin = format!("{origin:?}");
            assert_eq!(host, (name.to_owned(), origin), "{named}: {path}");
        }
    }
}
