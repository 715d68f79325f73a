//! Plans that the server wrote into its log while we looked: auto_explain's, of what really ran.
//!
//! Only a log that lies here and that we may read: the file that the logging collector writes, or where
//! there is none the one that the server's standard error goes to. What was written before is passed over.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use pgassay_pgwire::Session;
use pgassay_statements::log::message::{Said, said};
use pgassay_statements::log::plan::LoggedPlan;
use pgassay_statements::log::prefix::Prefix;
use pgassay_statements::log::{Format, LONGEST, Reader, Record};
use pgassay_text::normalise::normalise;
use pgassay_text::own::TAG;

/// Bytes of the log that are read of a window; of a longer part the end.
const MOST: u64 = 16 << 20;
/// Statements whose plans are kept.
const KEPT: usize = 200;

/// The log of a server on which auto_explain is on.
pub struct Log {
    path: PathBuf,
    format: Format,
    /// Where the window began.
    from: u64,
}

/// What a log holds: of each statement, by its `id`, the plan that took longest. Statements that were sent
/// in one text have one `id`, and it is that of them which counts.
#[derive(Default)]
pub struct Logged {
    /// The plans.
    pub plans: BTreeMap<String, Longest>,
    /// Plans in a format that is not read.
    pub unread: u64,
}

/// The plan of the longest execution.
pub struct Longest {
    /// The plan.
    pub plan: LoggedPlan,
    /// The database that it ran in, empty where the log does not say it.
    pub database: String,
    /// How long that took, in microseconds.
    took_us: u64,
}

impl Log {
    /// Finds the log where auto_explain is on for sessions like ours; none where it is not.
    ///
    /// # Errors
    /// Why it can't be read.
    pub fn find(session: &mut Session, postmaster: Option<u32>) -> Result<Option<Self>, String> {
        let on = session.catalog_value(
            "SELECT setting FROM pg_catalog.pg_settings \
             WHERE name = 'auto_explain.log_min_duration' AND setting <> '-1'",
        );
        if on.map_err(|e| e.to_string())?.is_none() {
            return Ok(None);
        }
        let Some(postmaster) = postmaster else {
            return Err("the server's log lies on another machine".to_owned());
        };
        let (path, format) = place(session, postmaster)?;
        let mut log = Self {
            path,
            format,
            from: 0,
        };
        log.from = log.length()?;
        Ok(Some(log))
    }

    /// A window begins.
    pub fn begin(&mut self) {
        self.from = self.length().unwrap_or(0);
    }

    fn length(&self) -> Result<u64, String> {
        let shown = self.path.display();
        // The server names the path: no pipe is opened.
        match std::fs::metadata(&self.path) {
            Ok(is) if is.is_file() => {
                File::open(&self.path).map_err(|e| format!("{shown}: {e}"))?;
                Ok(is.len())
            }
            Ok(_) => Err(format!("{shown} is no file")),
            Err(e) => Err(format!("{shown}: {e}")),
        }
    }

    /// What was written since the window began.
    ///
    /// # Errors
    /// Where the file can't be read any more.
    pub fn end(&self) -> Result<Logged, String> {
        let shown = self.path.display();
        let said = |e: std::io::Error| format!("{shown}: {e}");
        let length = self.length()?;
        let mut file = File::open(&self.path).map_err(said)?;
        // A file that was begun anew is new as a whole.
        let from = if length < self.from { 0 } else { self.from };
        let from = from.max(length.saturating_sub(MOST));
        file.seek(SeekFrom::Start(from)).map_err(said)?;
        let mut bytes = Vec::new();
        file.take(length - from)
            .read_to_end(&mut bytes)
            .map_err(said)?;
        Ok(read(&self.format, &bytes))
    }
}

/// Where the log is, and how it is written.
fn place(session: &mut Session, postmaster: u32) -> Result<(PathBuf, Format), String> {
    // The server names the file of its collector from 10 on, to roles with pg_monitor.
    let collects = session.major().is_none_or(|major| major >= 10);
    let mut refused = None;
    let mut ask = |sql: &str| {
        let answer = session.catalog_value(sql).map_err(|e| e.to_string());
        answer.map_err(|why| refused.get_or_insert(why).clone())
    };
    let mut file = |name: &str| -> Option<PathBuf> {
        let file = ask(&format!("SELECT pg_catalog.pg_current_logfile('{name}')")).ok()??;
        let data = ask("SELECT pg_catalog.current_setting('data_directory')").ok()??;
        Some(Path::new(&data).join(file))
    };
    let all = [("csvlog", Format::Csv), ("jsonlog", Format::Json(None))];
    for (name, format) in all.into_iter().filter(|_| collects) {
        if let Some(file) = file(name) {
            return Ok((file, format));
        }
    }
    let stderr = collects.then(|| file("stderr")).flatten();
    let prefix = ask("SELECT pg_catalog.current_setting('log_line_prefix')")?.unwrap_or_default();
    let format =
        Format::Stderr(Prefix::read(&prefix).map_err(|e| format!("log_line_prefix: {e}"))?);
    if let Some(file) = stderr {
        return Ok((file, format));
    }
    let link = format!("/proc/{postmaster}/fd/2");
    let path = std::fs::read_link(&link).map_err(|e| format!("{link}: {e}"))?;
    match path.is_file() {
        true => Ok((path, format)),
        false => Err(match refused {
            Some(why) => format!("the server does not name its log file: {why}"),
            None => "the server's log is not a file that can be read here".to_owned(),
        }),
    }
}

/// The plans of a piece of a log.
fn read(format: &Format, bytes: &[u8]) -> Logged {
    let mut logged = Logged::default();
    let mut reader = Reader::new(format);
    let mut take = |record: Record| {
        let Some(Said::Explained(plan, took_us)) = said(&record) else {
            return;
        };
        let Some(plan) = plan else {
            logged.unread += 1;
            return;
        };
        if plan.query.contains(TAG) {
            return;
        }
        let id = normalise(&plan.query).id;
        let known = logged.plans.get(&id);
        let room = known.is_some() || logged.plans.len() < KEPT;
        if room && known.is_none_or(|known| known.took_us <= took_us) {
            let longest = Longest {
                plan: *plan,
                database: record.database,
                took_us,
            };
            logged.plans.insert(id, longest);
        }
    };
    for line in bytes.split(|byte| *byte == b'\n') {
        match line.len() > LONGEST {
            true => reader.too_long(),
            false => reader.line(line, &mut take),
        }
    }
    reader.end(&mut take);
    logged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_plan_of_each_statement_is_taken_from_any_format() {
        let stderr = "2026-11-20 10:00:00.000 UTC [7] LOG:  duration: 1.000 ms  plan:\n\
            \tQuery Text: SELECT 1 FROM t WHERE a = 5\n\
            \tSeq Scan on t  (cost=0.00..9.00 rows=1 width=4)\n\
            2026-11-20 10:00:01.000 UTC [8] LOG:  duration: 1.000 ms  plan:\n\
            \tQuery Text: SELECT 1 FROM t WHERE a = 77\n\
            \tIndex Scan using i on t  (cost=0.00..8.00 rows=1 width=4)\n\
            \t  Index Cond: (a = 77)\n\
            2026-11-20 10:00:01.000 UTC [8] LOG:  duration: 0.500 ms  plan:\n\
            \tQuery Text: SELECT 1 FROM t WHERE a = 78\n\
            \tResult  (cost=0.00..8.00 rows=1 width=4)\n\
            2026-11-20 10:00:02.000 UTC [8] LOG:  duration: 1.000 ms  plan:\n\
            \t<explain xmlns=\"x\">\n";
        let format = Format::Stderr(Prefix::read("%m [%p] ").unwrap());
        let logged = read(&format, stderr.as_bytes());
        assert_eq!((logged.plans.len(), logged.unread), (1, 1));
        let longest = logged.plans.values().next().unwrap();
        assert_eq!(longest.plan.root["Node Type"], "Index Scan");

        let json = r#"{"timestamp":"2026-11-20 10:00:00.000 UTC","pid":7,"dbname":"d","session_id":"a.b","error_severity":"LOG","message":"duration: 1.000 ms  plan:\n{\n  \"Query Text\": \"SELECT 2\",\n  \"Plan\": {\"Node Type\": \"Result\"}\n}"}"#;
        let logged = read(&Format::Json(None), json.as_bytes());
        let longest = logged.plans.values().next().unwrap();
        assert_eq!(
            (longest.plan.query.as_str(), longest.database.as_str()),
            ("SELECT 2", "d")
        );
    }
}
