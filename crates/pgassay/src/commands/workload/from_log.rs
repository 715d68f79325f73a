//! `pgassay workload from-log`: sessions, transactions and values as a log has them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use pgassay_model::Failure;
use pgassay_statements::log::prefix::Prefix;
use pgassay_statements::log::{
    Counts, Format, LONGEST, Reader, Unknown, format_of, is_syslog, json_of,
};
use pgassay_statements::made::Made;
use pgassay_statements::mix::Entry;
use pgassay_statements::sessions::{Sessions, Wanted};
use pgassay_statements::write::{About, Draft, Values};
use pgassay_sys::stop::Stop;
use pgassay_text::number::counted;
use ruzstd::decoding::StreamingDecoder;

use super::sessions::Writing;
use super::{finish, refuse_there, values};
use crate::cli::workload::{FromLogArgs, LogFormat};
use crate::commands::progress::Progress;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// Bytes of a file by which its format is known.
const BEGIN: usize = 64 << 10;
/// Lines after which Ctrl-C is looked for and progress is shown.
const LINES: u64 = 20_000;
/// Share of records that may be passed over before it is said.
const FOREIGN: f64 = 0.01;

/// Makes a workload of logs.
///
/// # Errors
/// Where a file can't be read, or none has statements.
pub fn from_log(args: &FromLogArgs, terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    refuse_there(&args.into)?;
    let wanted = Wanted {
        database: args.database.clone(),
        user: args.user.clone(),
        application: args.application.clone(),
    };
    let mut writing = args
        .sessions
        .then(|| Writing::begin(&args.into))
        .transpose()?;
    let mut sessions = Sessions::new(wanted, args.into.seed, args.into.samples as usize);
    if writing.is_some() {
        sessions = sessions.one_by_one();
    }
    let mut counts = Counts::default();
    let progress = Progress::new(terminal, 1000);
    for file in &args.files {
        let read = one(file, args, &mut sessions, writing.as_mut(), &progress, stop);
        let read = read.map_err(|error| match error.downcast::<io::Error>() {
            Ok(error) => Failure::usage(format!("{}: {error}", file.display())).into(),
            Err(error) => error,
        })?;
        counts.records += read.records;
        counts.foreign += read.foreign;
        counts.cut += read.cut;
        counts.too_long += read.too_long;
        counts.unread_us += read.unread_us;
    }
    progress.clear();
    sessions.end();
    refuse_empty(&sessions, &counts, args)?;
    let names: Vec<String> = args
        .files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let source = match names.as_slice() {
        [one] => one.clone(),
        several => format!("{} files", several.len()),
    };
    let origin = values(&args.into, "as logged, of each transaction together");
    let file = args.into.to.display().to_string();
    let mut made = Made::new(source, file, &origin, env!("CARGO_PKG_VERSION"));
    notes(&mut made, &sessions, &counts);
    let entries = sessions.mix.take_entries();
    let took: u64 = entries.iter().map(|entry| entry.took_us).sum();
    let prepared: u64 = entries.iter().map(|entry| entry.prepared).sum();
    made.statements = sessions.statements;
    made.covered = entries
        .iter()
        .map(|entry| entry.count * entry.work() as u64)
        .sum();
    made.sessions = Some(sessions.seen);
    made.seconds = sessions.span.map(|(from, to)| (to - from) as f64 / 1e6);
    let all_us = (sessions.time_us + counts.unread_us) as f64;
    let share = |us: u64| (all_us > 0.0).then(|| us as f64 / all_us);
    made.time_covered = share(took);
    for (why, unused) in &sessions.left_out {
        made.leave_out(why.clone(), unused.statements, share(unused.took_us));
    }
    // Values in a statement's text would stay as they were.
    let whole = !args.into.anonymise;
    let about = About {
        sessions: writing.as_ref().map(Writing::name),
        explanation: format!("the load of {}", made.source),
        // By literals or by parameters, as most of them came.
        protocol: if 2 * prepared > made.covered {
            "prepared"
        } else {
            "simple"
        },
    };
    let drafts = entries
        .into_iter()
        .map(|entry| draft(entry, took, whole))
        .collect();
    finish(drafts, &about, made, writing, &args.into, terminal)
}

fn draft(entry: Entry, all_us: u64, whole: bool) -> Draft {
    let think_ms = entry.mean_think_us().map(|us| (us / 1000.0).round());
    // Of what ran once nothing varies.
    let once = match entry.rows.as_slice() {
        [row] if whole && entry.count == 1 => entry.filled(row),
        _ => None,
    };
    let (steps, rows) = match once {
        Some(steps) => (steps, Vec::new()),
        None => (entry.steps, entry.rows),
    };
    Draft {
        steps,
        count: entry.count,
        time_share: (all_us > 0).then(|| entry.took_us as f64 / all_us as f64),
        values: Values::Rows(rows),
        think_ms: think_ms
            .filter(|ms| (1.0..1e7).contains(ms))
            .map(|ms| ms as u32),
    }
}

fn notes(made: &mut Made, sessions: &Sessions, counts: &Counts) {
    let all = counts.records + counts.foreign;
    let unread =
        (counts.unread_us as f64 / (sessions.time_us + counts.unread_us).max(1) as f64).min(1.0);
    if counts.foreign as f64 > FOREIGN * all as f64 || unread > FOREIGN {
        let time = match unread > 0.0 {
            true => format!(
                ", with {:.1}% of the time that the log reports",
                100.0 * unread
            ),
            false => String::new(),
        };
        made.notes.push(format!(
            "{} of {all} lines could not be read{time}.",
            counts.foreign
        ));
    }
    if counts.cut > 0 {
        made.notes.push(format!(
            "{} records of the log are not whole and were dropped.",
            counts.cut
        ));
    }
    if counts.too_long > 0 {
        made.notes.push(format!(
            "{} records are longer than {} MiB and were passed over.",
            counts.too_long,
            LONGEST >> 20
        ));
    }
    if sessions.not_understood > 0 {
        made.notes.push(format!(
            "{} durations are in a language that is not read: set lc_messages = 'C' to have them, too.",
            sessions.not_understood
        ));
    }
    let writes = ["insert", "update", "delete", "merge", "call"];
    let first = |entry: &Entry| {
        entry.steps.iter().any(|step| {
            step.words()
                .next()
                .is_some_and(|word| writes.contains(&word.as_str()))
        })
    };
    if sessions.mix.entries().iter().any(first) {
        made.notes.push("It writes: run it on a copy.".to_owned());
    }
}

fn refuse_empty(sessions: &Sessions, counts: &Counts, args: &FromLogArgs) -> Result<(), Failure> {
    if !sessions.mix.entries().is_empty() {
        return Ok(());
    }
    let filtered = args.database.is_some() || args.user.is_some() || args.application.is_some();
    Err(if counts.records == 0 {
        Failure::usage("no line is of this log format").with_remedy(
            "give log_line_prefix with --prefix (SHOW log_line_prefix), or --log-format csv or json",
        )
    } else if sessions.not_understood > 0 {
        Failure::usage("the log's messages are in a language that is not read")
            .with_remedy("SET lc_messages = 'C' on the server, and log again")
    } else if let Some((why, unused)) = sessions
        .left_out
        .iter()
        .max_by_key(|(_, unused)| unused.statements)
    {
        Failure::usage(format!(
            "the log has no whole transaction that can be run: {why} ({})",
            counted(unused.statements, "statement")
        ))
        .with_remedy("log whole transactions for some minutes; docs/loads.md lists what a workload leaves out")
    } else if filtered {
        Failure::usage(
            "the log has no statements with durations of that database, user and application",
        )
        .with_remedy("leave the filters out to see what there is")
    } else {
        Failure::usage(format!(
            "the log has {} records and no statement with its duration",
            counts.records
        ))
        .with_remedy("set log_min_duration_statement = 0 on the server, and log for some minutes")
    })
}

/// Reads a file.
fn one(
    path: &Path,
    args: &FromLogArgs,
    sessions: &mut Sessions,
    mut writing: Option<&mut Writing>,
    progress: &Progress,
    stop: &Stop,
) -> anyhow::Result<Counts> {
    let (mut file, size): (Box<dyn Read>, u64) = match path.as_os_str().as_encoded_bytes() {
        b"-" => (Box::new(io::stdin()), 0),
        _ => {
            let file = File::open(path)?;
            let size = file.metadata()?.len();
            (Box::new(file), size)
        }
    };
    let mut begin = Vec::new();
    file.by_ref().take(8).read_to_end(&mut begin)?;
    let (mut input, compressed) = decompressed(begin, file)?;
    let size = if compressed { 0 } else { size };
    let mut begin = Vec::new();
    input.by_ref().take(BEGIN as u64).read_to_end(&mut begin)?;
    let format = format(path, &begin, args)?;
    let mut reader = Reader::new(&format);
    let mut input = BufReader::with_capacity(1 << 20, io::Cursor::new(begin).chain(input));
    let mut line = Vec::new();
    let (mut lines, mut bytes) = (0_u64, 0_u64);
    progress.say(format!("reading {}", path.display()));
    loop {
        line.clear();
        let read = input
            .by_ref()
            .take(LONGEST as u64 + 1)
            .read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() > LONGEST {
            reader.too_long();
            sessions.gap();
            bytes += skip_line(&mut input)?;
            continue;
        }
        let unread = reader.counts.cut + reader.counts.too_long;
        reader.line(&line, &mut |record| sessions.record(&record));
        if reader.counts.cut + reader.counts.too_long > unread {
            sessions.gap();
        }
        if let Some(writing) = &mut writing {
            writing.take(&mut sessions.executed)?;
        }
        lines += 1;
        if lines % LINES == 0 {
            if stop.asked() {
                return Err(Failure::interrupted().into());
            }
            if size > 0 {
                progress.share((bytes as f64 / size as f64).min(1.0));
            }
        }
    }
    reader.end(&mut |record| sessions.record(&record));
    if let Some(writing) = writing {
        writing.take(&mut sessions.executed)?;
    }
    Ok(reader.counts)
}

fn skip_line(input: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(skipped);
        }
        let end = buffer.iter().position(|b| *b == b'\n');
        let length = end.map_or(buffer.len(), |end| end + 1);
        input.consume(length);
        skipped += length as u64;
        if end.is_some() {
            return Ok(skipped);
        }
    }
}

/// The format of a file: as asked for, or as it begins.
fn format(path: &Path, begin: &[u8], args: &FromLogArgs) -> Result<Format, Failure> {
    let prefix = args.prefix.as_deref().map(|text| {
        let read = match is_syslog(begin) {
            true => Prefix::read_in_syslog(text),
            false => Prefix::read(text),
        };
        read.map_err(|why| Failure::usage(why).with_remedy("SHOW log_line_prefix prints it"))
    });
    let prefix = prefix.transpose()?;
    match (args.log_format, prefix) {
        (Some(LogFormat::Csv), _) => Ok(Format::Csv),
        (Some(LogFormat::Json), prefix) => Ok(json_of(begin, prefix)),
        (Some(LogFormat::Stderr), Some(prefix)) => Ok(Format::Stderr(prefix)),
        (_, prefix) => format_of(&path.display().to_string(), begin, prefix).map_err(|Unknown| {
            Failure::usage(format!("{}: no line begins as PostgreSQL's log lines do", path.display())).with_remedy(
                "give log_line_prefix with --prefix (SHOW log_line_prefix prints it); csvlog, jsonlog, stderr, syslog, \
                 journald and the JSON of clouds are read",
            )
        }),
    }
}

/// A log's bytes, decompressed where they are compressed.
fn decompressed(begin: Vec<u8>, rest: impl Read + 'static) -> io::Result<(Box<dyn Read>, bool)> {
    let (gzip, zstd) = (
        begin.starts_with(&[0x1f, 0x8b]),
        begin.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]),
    );
    let bzip2 = begin.starts_with(b"BZh");
    let whole = io::Cursor::new(begin).chain(rest);
    Ok(match (gzip, zstd) {
        (true, _) => (Box::new(MultiGzDecoder::new(whole)), true),
        (_, true) => (
            Box::new(StreamingDecoder::new(whole).map_err(io::Error::other)?),
            true,
        ),
        _ if bzip2 => {
            return Err(io::Error::other(
                "bzip2 is not read: bzcat FILE | pgassay workload from-log -",
            ));
        }
        _ => (Box::new(whole), false),
    })
}
