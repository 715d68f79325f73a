//! `--sessions`: each session's transactions, in a file beside the workload.
//!
//! Which script a transaction becomes is known when the log is over, so that they are written twice: as they are read, and
//! then as the file has them.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use pgassay_model::Failure;
use pgassay_statements::anonymise;
use pgassay_statements::made::Made;
use pgassay_statements::recorded::{Header, Line, SCHEMA, Spans, Waiting};
use pgassay_statements::sessions::Executed;
use pgassay_statements::write::{Draft, Values, order};
use pgassay_sys::output;

use crate::cli::workload::IntoArgs;

/// The file, under way; dropped before it is finished it leaves nothing.
pub(super) struct Writing {
    path: PathBuf,
    waiting: Part,
    lines: BufWriter<File>,
    /// The seed of the hashes that replace texts.
    salt: Option<u64>,
}

/// A file that goes when it is done with.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

impl Part {
    /// Makes a file beside `path` that nobody else may read: it holds values of a log.
    fn create(path: &Path) -> anyhow::Result<(Self, File)> {
        let (file, part) = output::beside(path).map_err(|error| {
            Failure::usage(format!("cannot write beside {}: {error}", path.display()))
                .with_remedy("name a file in another directory with --to")
        })?;
        Ok((Self(part), file))
    }
}

impl Writing {
    /// Begins with it.
    ///
    /// # Errors
    /// Where it is there already, or can't be written.
    pub fn begin(into: &IntoArgs) -> anyhow::Result<Self> {
        let path = into.to.with_extension("sessions.jsonl");
        if path.exists() && !into.force {
            return Err(Failure::usage(format!("{} exists already", path.display()))
                .with_remedy("name another workload file with --to, or overwrite both with --force")
                .into());
        }
        let (waiting, file) = Part::create(&path)?;
        Ok(Self {
            path,
            waiting,
            lines: BufWriter::with_capacity(1 << 20, file),
            salt: into.anonymise.then_some(into.seed),
        })
    }

    /// How the workload file names it.
    pub fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Takes what sessions executed.
    ///
    /// # Errors
    /// Where it can't be written.
    pub fn take(&mut self, executed: &mut Vec<Executed>) -> anyhow::Result<()> {
        for mut one in executed.drain(..) {
            if let Some(salt) = self.salt {
                anonymise::row(&mut one.values, salt);
            }
            serde_json::to_writer(&mut self.lines, &Waiting::of(&one))
                .map_err(io::Error::from)
                .and_then(|()| self.lines.write_all(b"\n"))
                .map_err(|error| unwritten(&self.path, &error))?;
        }
        Ok(())
    }

    /// Writes those that became scripts of the workload.
    ///
    /// # Errors
    /// Where it can't be written.
    pub fn finish(mut self, drafts: &[Draft], made: &mut Made) -> anyhow::Result<()> {
        let path = self.path.clone();
        let unwritten = |error: io::Error| unwritten(&path, &error);
        self.lines.flush().map_err(unwritten)?;
        let mut scripts: Vec<Option<(u32, bool)>> = vec![None; drafts.len()];
        for (script, kind) in (0..).zip(order(drafts)) {
            let has_values = matches!(&drafts[kind].values, Values::Rows(rows) if !rows.is_empty());
            scripts[kind] = Some((script, has_values));
        }
        let begin_us = self.begin_us(&scripts)?;
        let mut spans = Spans::default();
        let mut transactions = 0;
        self.each(&scripts, begin_us, &mut |line| {
            spans.add(&line);
            transactions += 1;
            Ok(())
        })?;
        let header = Header {
            schema: SCHEMA.to_owned(),
            sessions: spans.sessions(),
            connections: spans.connections(),
            transactions,
            length_us: spans.length_us(),
            scripts: made
                .scripts
                .iter()
                .map(|script| script.name.clone())
                .collect(),
        };
        let (part, file) = Part::create(&self.path)?;
        let mut written = BufWriter::with_capacity(1 << 20, file);
        let mut put = |line: String| -> anyhow::Result<()> {
            written.write_all(line.as_bytes()).map_err(unwritten)?;
            Ok(written.write_all(b"\n").map_err(unwritten)?)
        };
        put(serde_json::to_string(&header)?)?;
        self.each(&scripts, begin_us, &mut |line| {
            put(serde_json::to_string(&line)?)
        })?;
        let file = written
            .into_inner()
            .map_err(|error| unwritten(error.into_error()))?;
        file.sync_all().map_err(unwritten)?;
        fs::rename(&part.0, &self.path).map_err(unwritten)?;
        made.sessions_file = Some(self.path.display().to_string());
        made.recorded = Some(transactions);
        made.connections = Some(header.connections);
        Ok(())
    }

    fn waiting(&self, then: &mut dyn FnMut(Waiting) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let file = File::open(&self.waiting.0)?;
        for line in BufReader::with_capacity(1 << 20, file).lines() {
            then(serde_json::from_str(&line?)?)?;
        }
        Ok(())
    }

    /// When the first of those began that become scripts.
    fn begin_us(&self, scripts: &[Option<(u32, bool)>]) -> anyhow::Result<i64> {
        let mut first = i64::MAX;
        self.waiting(&mut |waiting| {
            if scripts.get(waiting.kind).copied().flatten().is_some() {
                first = first.min(waiting.at_us);
            }
            Ok(())
        })?;
        Ok(first)
    }

    fn each(
        &self,
        scripts: &[Option<(u32, bool)>],
        begin_us: i64,
        then: &mut dyn FnMut(Line) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.waiting(
            &mut |waiting| match scripts.get(waiting.kind).copied().flatten() {
                Some((script, has_values)) => then(waiting.line(begin_us, script, has_values)),
                None => Ok(()),
            },
        )
    }
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    let why = output::no_room(error).map_or_else(|| error.to_string(), str::to_owned);
    Failure::usage(format!("cannot write {}: {why}", path.display()))
        .with_remedy("make room for it, or name a file on another disk with --to")
}
