//! The directory: `TABLE/date=YYYY-MM-DD/TABLE.parquet`.
//!
//! One file a table and day, and not one a run: engines open every file, and a hundred thousand runs
//! would be close to a million. A day's file is written anew under a name that engines do not look at
//! and then renamed, so that it is there whole or not at all, and rows of a run are replaced at once.
//! The file of the table runs comes last: what a killed export has left in other tables belongs to
//! runs that it does not name, and goes with the next export of that day. A lock keeps exporters
//! from each other.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use pgassay_sys::output;
use rustix::fs::{FlockOperation, flock};

use crate::file::{self, Unread, Writing};
use crate::rows::Rows;
use crate::schema::{Column, Kind, Table, TableSpec, Value};
use crate::{TABLES, VERSION};

/// What became of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It was not there.
    New,
    /// It was there with other rows.
    Replaced,
    /// It was there with the same rows.
    Unchanged,
    /// A run of the same name was added before it.
    Twice,
}

/// Why the directory was not written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// Which file or directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file that is there can't be read, so its rows can't be kept.
    #[error("cannot read {}: {why}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A newer program wrote it.
    #[error("{} has version {version} of the tables, and this pgassay knows {}", path.display(), crate::VERSION)]
    Newer {
        /// Which.
        path: PathBuf,
        /// Its version.
        version: i64,
    },
}

fn refused(path: &Path) -> impl Fn(io::Error) -> Error + '_ {
    move |error| Error::Write {
        path: path.to_owned(),
        error,
    }
}

fn unwritten(path: &Path) -> impl Fn(ParquetError) -> Error + '_ {
    move |error| Error::Write {
        path: path.to_owned(),
        error: match error {
            ParquetError::External(error) => match error.downcast::<io::Error>() {
                Ok(error) => *error,
                Err(error) => io::Error::other(error),
            },
            error => io::Error::other(error),
        },
    }
}

pub(crate) fn unread(path: &Path) -> impl Fn(Unread) -> Error + '_ {
    move |error| match error {
        Unread::Damaged(why) => Error::Damaged {
            path: path.to_owned(),
            why,
        },
        Unread::Newer(version) => Error::Newer {
            path: path.to_owned(),
            version,
        },
    }
}

/// A directory of tables that is being written; nobody else writes it meanwhile.
pub struct Archive {
    dir: PathBuf,
    day: Option<Day>,
    _lock: File,
}

/// A day whose files are being written.
struct Day {
    date: String,
    /// The runs that were there, and the hashes of their rows.
    known: BTreeMap<String, String>,
    /// Those that were added.
    added: BTreeSet<String>,
    files: BTreeMap<&'static str, New>,
    /// Files that are whole and not yet in their places.
    whole: Vec<PathBuf>,
}

/// A file under another name.
struct New {
    writing: Writing,
    handle: File,
    path: PathBuf,
}

const fn text(name: &'static str) -> Column {
    Column {
        name,
        kind: Kind::Text,
        nullable: false,
        about: "",
    }
}

const fn runs(columns: &'static [Column]) -> TableSpec {
    TableSpec {
        name: "runs",
        about: "",
        columns,
    }
}

/// What tells which runs are there, and whether they came out otherwise.
const KNOWN: TableSpec = runs(&[text("run"), text("content")]);
/// What tells which are complete, in tables of this version.
const COMPLETE: TableSpec = runs(&[
    text("run"),
    text("state"),
    Column {
        kind: Kind::Int,
        ..text("schema_version")
    },
]);

/// The files of a table, a day each, in their order.
pub(crate) fn files(dir: &Path, table: &str) -> Vec<PathBuf> {
    let days = fs::read_dir(dir.join(table))
        .into_iter()
        .flatten()
        .flatten();
    let dated = days.filter(|day| day.file_name().as_encoded_bytes().starts_with(b"date="));
    let mut files: Vec<PathBuf> = dated
        .map(|day| day.path().join(format!("{table}.parquet")))
        .filter(|file| file.is_file())
        .collect();
    files.sort();
    files
}

/// Every row of a table's file; what is wrong with one, damages it.
pub(crate) fn rows<T: Table>(
    path: &Path,
    mut of: impl FnMut(T) -> Result<(), String>,
) -> Result<(), Error> {
    let read = file::read(path, T::SPEC, |columns| {
        let mut taken = Ok(());
        columns.each(|values| {
            if taken.is_ok() {
                let row = T::of(values).ok_or_else(|| "a text in it is not UTF-8".to_owned());
                taken = row.and_then(&mut of);
            }
        });
        taken.map_err(Unread::Damaged)
    });
    read.map_err(unread(path))
}

impl Archive {
    /// Opens a directory, or makes it; none where another process writes it.
    ///
    /// # Errors
    /// Where it can't be written.
    pub fn open(dir: &Path) -> Result<Option<Self>, Error> {
        fs::create_dir_all(dir).map_err(refused(dir))?;
        let lock = dir.join(".lock");
        let opened = OpenOptions::new().create(true).append(true).open(&lock);
        let file = opened.map_err(refused(&lock))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(refused(&lock)(error.into())),
        }
        // Nobody else has the lock: they are left from processes that were killed.
        for entry in fs::read_dir(dir).map_err(refused(dir))?.flatten() {
            if output::is_temporary(&entry.file_name()) {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(Some(Self {
            dir: dir.to_owned(),
            day: None,
            _lock: file,
        }))
    }

    /// The file of a table and day.
    fn place(&self, table: &str, date: &str) -> PathBuf {
        let day = self.dir.join(table).join(format!("date={date}"));
        day.join(format!("{table}.parquet"))
    }

    /// Adds a run's rows. Those of a day are put in place when a run of another day follows, or by
    /// [`Archive::finish`]: runs are best added in their order.
    ///
    /// # Errors
    /// Where the day's files can't be read or written; those that are there stay as they are.
    pub fn add(&mut self, rows: &Rows) -> Result<Added, Error> {
        let date = date(rows.run.started.0);
        if self.day.as_ref().is_some_and(|day| day.date != date) {
            self.end_day()?;
        }
        let day = match &mut self.day {
            Some(day) => day,
            None => {
                let known = self.known(&date)?;
                self.day.insert(Day {
                    date,
                    known,
                    added: BTreeSet::new(),
                    files: BTreeMap::new(),
                    whole: Vec::new(),
                })
            }
        };
        if day.added.contains(&rows.run.run) {
            return Ok(Added::Twice);
        }
        let before = day.known.get(&rows.run.run);
        if before == Some(&rows.run.content) {
            return Ok(Added::Unchanged);
        }
        let replaced = before.is_some();
        day.added.insert(rows.run.run.clone());
        // The rows come table by table.
        let mut result = Ok(());
        rows.each(|spec, values| {
            if result.is_ok() {
                result = day.file(&self.dir, spec).and_then(|file| {
                    let path = &file.path;
                    let added = file.writing.add(|columns| columns.push(values));
                    added.map_err(unwritten(path))
                });
            }
        });
        result?;
        Ok(match replaced {
            true => Added::Replaced,
            false => Added::New,
        })
    }

    /// The runs of all days that are there, were complete, and need not be exported again.
    ///
    /// # Errors
    /// Where a file can't be read.
    pub fn complete(&self) -> Result<BTreeSet<String>, Error> {
        let mut all = BTreeSet::new();
        for path in files(&self.dir, COMPLETE.name) {
            let read = file::read(&path, COMPLETE, |columns| {
                columns.each(|row| {
                    let [
                        Value::Text(run),
                        Value::Text("complete"),
                        Value::Int(version),
                    ] = row
                    else {
                        return;
                    };
                    if *version >= VERSION {
                        all.insert((*run).to_owned());
                    }
                });
                Ok(())
            });
            read.map_err(unread(&path))?;
        }
        Ok(all)
    }

    /// Puts what was added in place.
    ///
    /// # Errors
    /// Where it can't be written; what was there stays as it is.
    pub fn finish(mut self) -> Result<(), Error> {
        self.end_day()
    }

    fn known(&self, date: &str) -> Result<BTreeMap<String, String>, Error> {
        let path = self.place(KNOWN.name, date);
        let mut known = BTreeMap::new();
        if !path.exists() {
            return Ok(known);
        }
        let read = file::read(&path, KNOWN, |columns| {
            columns.each(|row| {
                if let [Value::Text(run), Value::Text(content)] = row {
                    known.insert((*run).to_owned(), (*content).to_owned());
                }
            });
            Ok(())
        });
        read.map_err(unread(&path))?;
        Ok(known)
    }

    fn end_day(&mut self) -> Result<(), Error> {
        let Some(mut day) = self.day.take() else {
            return Ok(());
        };
        if day.added.is_empty() {
            return Ok(());
        }
        let kept: HashSet<String> = day
            .known
            .keys()
            .filter(|run| !day.added.contains(*run))
            .cloned()
            .collect();
        // All are whole before the first takes its place.
        let mut whole = Vec::new();
        for spec in TABLES {
            let place = self.place(spec.name, &day.date);
            if !self.dir.join(spec.name).exists() {
                // Engines refuse to read a table of which there is no file.
                day.file(&self.dir, *spec)?;
            } else if place.exists() {
                let file = day.file(&self.dir, *spec)?;
                let mut refused = None;
                let read = file::read(&place, *spec, |columns| {
                    let taken = file.writing.take(columns, &kept);
                    taken.map_err(|error| {
                        let said = error.to_string();
                        refused = Some(unwritten(&file.path)(error));
                        Unread::Damaged(said)
                    })
                });
                if let Some(error) = refused {
                    return Err(error);
                }
                read.map_err(unread(&place))?;
            }
            let Some(file) = day.files.remove(spec.name) else {
                continue;
            };
            day.whole.push(file.path.clone());
            file.writing.end().map_err(unwritten(&file.path))?;
            file.handle.sync_all().map_err(refused(&file.path))?;
            whole.push((file.path, place));
        }
        for (path, place) in whole {
            let partition = place.parent().unwrap_or(&self.dir);
            fs::create_dir_all(partition).map_err(refused(partition))?;
            fs::rename(&path, &place).map_err(refused(&place))?;
        }
        Ok(())
    }
}

impl Drop for Day {
    /// What was not put in place is gone.
    fn drop(&mut self) {
        let unfinished = self.files.values().map(|file| &file.path);
        for path in unfinished.chain(&self.whole) {
            let _ = fs::remove_file(path);
        }
    }
}

impl Day {
    fn file(&mut self, dir: &Path, spec: TableSpec) -> Result<&mut New, Error> {
        if !self.files.contains_key(spec.name) {
            let (file, path) =
                output::beside_readable(&dir.join(spec.name)).map_err(refused(dir))?;
            let handle = file.try_clone().map_err(refused(&path))?;
            let writing = Writing::begin(file, spec).map_err(unwritten(&path))?;
            self.files.insert(
                spec.name,
                New {
                    writing,
                    handle,
                    path,
                },
            );
        }
        self.files.get_mut(spec.name).ok_or_else(|| Error::Damaged {
            path: dir.to_owned(),
            why: format!("no file for {}", spec.name),
        })
    }
}

/// The day of a time, in UTC.
fn date(microseconds: i64) -> String {
    let at = jiff::Timestamp::from_microsecond(microseconds).unwrap_or_default();
    at.to_zoned(jiff::tz::TimeZone::UTC)
        .strftime("%Y-%m-%d")
        .to_string()
}
