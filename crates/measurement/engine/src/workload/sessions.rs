//! The sessions of which a workload was made: a file beside it, read for `--replay`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use pgassay_load::script::{Command, Drawn, Program};
use pgassay_load::{self as load, Execution, Replay};
use pgassay_model::Failure;
use pgassay_model::workload::{Pace, ReplayPlan, ScriptPlan, WorkloadPlan};
use pgassay_statements::recorded::{Header, Line, SCHEMA, Spans};
use sha2::{Digest, Sha256};

/// Larger files are not read into memory.
const LARGEST: u64 = 4 << 30;
/// Nor are longer lines.
const LONGEST_LINE: u64 = 64 << 20;
/// The shortest line of a transaction, with its line feed.
const SHORTEST_LINE: u64 = "{'s':1,'at':1,'took':1,'n':1}".len() as u64;
/// No time is longer: a year, in microseconds.
const LONGEST_US: u64 = 366 * 24 * 3600 * 1_000_000;

/// The path of a file that a workload names, which stands beside it.
pub(super) fn beside(workload: &Path, file: &str) -> String {
    let at = workload.parent().unwrap_or(Path::new("")).join(file);
    let at = std::path::absolute(&at).unwrap_or(at);
    at.display().to_string()
}

/// What a replay of a workload's sessions is to be.
///
/// # Errors
/// Where the workload has none, or they can't be read.
pub fn plan(workload: &WorkloadPlan, pace: Pace, speed: f64) -> Result<ReplayPlan, Failure> {
    let Some(file) = &workload.sessions else {
        return Err(Failure::usage(format!(
            "--replay goes through recorded sessions, and {} has none",
            workload.name
        ))
        .with_remedy("record them: pgassay workload from-log LOG --sessions"));
    };
    let (header, mut lines) = open(file)?;
    if header.transactions == 0 {
        return Err(Failure::usage(format!("{file} has no transaction")));
    }
    let mut text = String::new();
    while lines
        .next(&mut text)
        .map_err(|error| unreadable(file, &error))?
        > 0
    {}
    Ok(ReplayPlan {
        sessions: header.sessions,
        connections: header.connections.max(1),
        transactions: header.transactions,
        length_ms: header.length_us.div_ceil(1000).max(1),
        pace,
        speed,
        sha256: lines.digest(),
    })
}

/// The sessions that are replayed, read once for all servers and launches that replay the same.
#[derive(Debug, Default)]
pub struct Recordings {
    read: RefCell<Option<(Replayed, Arc<Replay>)>>,
}

/// What decides what is read of which file.
#[derive(Debug, Clone, PartialEq)]
struct Replayed {
    file: String,
    plan: ReplayPlan,
    scripts: Vec<ScriptPlan>,
}

impl Recordings {
    /// The sessions that a plan replays, for its scripts; none where it replays nothing.
    ///
    /// # Errors
    /// Where the file is gone, or is another than it was.
    pub fn replay(
        &self,
        workload: &WorkloadPlan,
        program: &Program,
    ) -> Result<Option<Arc<Replay>>, Failure> {
        let (Some(plan), Some(file)) = (&workload.replay, &workload.sessions) else {
            return Ok(None);
        };
        let wanted = Replayed {
            file: file.clone(),
            plan: plan.clone(),
            scripts: workload.scripts.clone(),
        };
        if let Some((known, replay)) = self.read.borrow().as_ref()
            && *known == wanted
        {
            return Ok(Some(Arc::clone(replay)));
        }
        let replay = replay(workload, program)?.map(Arc::new);
        *self.read.borrow_mut() = replay.clone().map(|replay| (wanted, replay));
        Ok(replay)
    }
}

/// The sessions that a plan replays, for its scripts; none where it replays nothing.
///
/// # Errors
/// Where the file is gone, or is another than it was.
fn replay(workload: &WorkloadPlan, program: &Program) -> Result<Option<Replay>, Failure> {
    let (Some(plan), Some(file)) = (&workload.replay, &workload.sessions) else {
        return Ok(None);
    };
    let (sessions, digest) = read_digested(file, program, plan.transactions)?;
    if !plan.sha256.is_empty() && plan.sha256 != digest {
        return Err(Failure::usage(format!(
            "{file} is another file than the one that was replayed"
        ))
        .with_remedy(
            "bring the recorded one back, or measure anew without --repeat and --resume",
        ));
    }
    let pace = match plan.pace {
        Pace::Original => load::Pace::Original,
        Pace::ThinkTimes => load::Pace::ThinkTimes,
        Pace::Closed => load::Pace::Closed,
    };
    Ok(Some(Replay::new(sessions, pace, plan.speed)))
}

/// Each session's transactions of a file, for a program of the scripts that it names.
///
/// # Errors
/// Where it can't be read, names a script that there is not, or has another number of transactions than `wanted`.
pub fn read(file: &str, program: &Program, wanted: u64) -> Result<Vec<Vec<Execution>>, Failure> {
    read_digested(file, program, wanted).map(|(sessions, _)| sessions)
}

/// Like [`read`], with the file's SHA-256.
fn read_digested(
    file: &str,
    program: &Program,
    wanted: u64,
) -> Result<(Vec<Vec<Execution>>, String), Failure> {
    let (header, mut lines) = open(file)?;
    let anew = || "make it anew: pgassay workload from-log LOG --sessions --force".to_owned();
    let wrong = |what: String| Failure::usage(format!("{file}: {what}")).with_remedy(anew());
    let mut places = Vec::new();
    for name in &header.scripts {
        let mut scripts = program.scripts().iter();
        let place = scripts.position(|script| script.name == *name);
        let place = place.ok_or_else(|| wrong(format!("the workload has no script {name}")))?;
        let draws = program.scripts()[place].commands.iter();
        let width = draws
            .filter_map(|command| match command {
                Command::Draw(draw) => Some(draw.slots.len()),
                _ => None,
            })
            .next();
        places.push((place, width.unwrap_or(0)));
    }
    let mut numbers: HashMap<u64, usize> = HashMap::new();
    let mut sessions: Vec<Vec<Execution>> = Vec::new();
    let mut spans = Spans::default();
    let mut count = 0;
    let mut text = String::new();
    loop {
        let length = lines
            .next(&mut text)
            .map_err(|error| wrong(error.to_string()))?;
        if length == 0 {
            break;
        }
        count += 1;
        let number = count + 1;
        let line: Line = serde_json::from_str(&text)
            .map_err(|error| wrong(format!("line {number}: {error}")))?;
        if !is_within_a_year(&line) {
            return Err(wrong(format!(
                "line {number}: a time is longer than a year"
            )));
        }
        spans.add(&line);
        let Some((script, width)) = places.get(line.script as usize).copied() else {
            return Err(wrong(format!(
                "line {number}: there is no script {}",
                line.script
            )));
        };
        if line.values.len() != width {
            let found = line.values.len();
            return Err(wrong(format!(
                "line {number}: {found} values, where the script draws {width}"
            )));
        }
        let row: Result<Box<[Drawn]>, String> =
            line.values.iter().map(|value| Drawn::read(value)).collect();
        let session = *numbers.entry(line.session).or_insert_with(|| {
            sessions.push(Vec::new());
            sessions.len() - 1
        });
        let nanoseconds = |us: u64| us * 1000;
        sessions[session].push(Execution {
            at_ns: nanoseconds(line.at_us),
            took_ns: nanoseconds(line.took_us),
            script,
            row: row.map_err(|why| wrong(format!("line {number}: {why}")))?,
            pauses_ns: line.pauses_us.into_iter().map(nanoseconds).collect(),
        });
    }
    if count != header.transactions || count != wanted {
        return Err(wrong(format!(
            "it has {count} transactions, and had {wanted}"
        )));
    }
    for (what, said, found) in [
        ("sessions", header.sessions, spans.sessions()),
        (
            "connections",
            u64::from(header.connections),
            u64::from(spans.connections()),
        ),
        ("microseconds", header.length_us, spans.length_us()),
    ] {
        if said != found {
            return Err(wrong(format!(
                "its first line says {said} {what}, and it has {found}"
            )));
        }
    }
    for session in &mut sessions {
        session.sort_by_key(|one| one.at_ns);
    }
    Ok((sessions, lines.digest()))
}

fn is_within_a_year(line: &Line) -> bool {
    let pauses = line.pauses_us.iter().copied().fold(0, u64::saturating_add);
    [line.at_us, line.took_us, pauses]
        .iter()
        .all(|us| *us <= LONGEST_US)
}

/// The lines of a file, digested as they are read.
struct Lines {
    file: BufReader<File>,
    seen: Sha256,
}

impl Lines {
    /// Reads a line of bounded length into `text`; 0 at the end.
    fn next(&mut self, text: &mut String) -> io::Result<usize> {
        text.clear();
        let length = self.file.by_ref().take(LONGEST_LINE).read_line(text)?;
        self.seen.update(text.as_bytes());
        match length as u64 == LONGEST_LINE {
            true => Err(io::Error::other("it has a line of more than 64 MiB")),
            false => Ok(length),
        }
    }

    /// SHA-256 of what was read, in hexadecimal.
    fn digest(self) -> String {
        let bytes = self.seen.finalize();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// How many transactions a file has, by its first line.
///
/// # Errors
/// Where it can't be read.
pub fn header(file: &str) -> Result<Header, Failure> {
    open(file).map(|(header, _)| header)
}

fn unreadable(file: &str, why: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("the sessions {file} can't be read: {why}"))
        .with_remedy("they stand in a file of their own beside the workload: keep both together")
}

fn open(file: &str) -> Result<(Header, Lines), Failure> {
    let opened =
        pgassay_sys::input::open(Path::new(file)).map_err(|error| unreadable(file, &error))?;
    let size = opened.metadata().map_or(0, |meta| meta.len());
    if size > LARGEST {
        return Err(Failure::usage(format!(
            "{file} has {} GB: more than 4 GB of sessions are not replayed",
            size / 1_000_000_000
        ))
        .with_remedy("make it of a shorter part of the log"));
    }
    let mut lines = Lines {
        file: BufReader::with_capacity(1 << 20, opened),
        seen: Sha256::new(),
    };
    let mut first = String::new();
    lines
        .next(&mut first)
        .map_err(|error| unreadable(file, &error))?;
    let header: Header = serde_json::from_str(&first).map_err(|error| unreadable(file, &error))?;
    if header.schema != SCHEMA {
        return Err(unreadable(file, &format!("its form is {}", header.schema)));
    }
    let most = size / SHORTEST_LINE;
    let numbers = [
        u64::from(header.connections),
        header.sessions,
        header.transactions,
        most,
    ];
    if !numbers.is_sorted() || header.length_us > 2 * LONGEST_US {
        return Err(unreadable(
            file,
            &"its first line does not go with its length",
        ));
    }
    Ok((header, lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Program {
        let mut program = Program::new();
        let draw = "\\draw a b from 1 'x'\nSELECT :a, :b;\n";
        program.add("two", draw, 1).unwrap();
        program.add("none", "SELECT 1;\n", 1).unwrap();
        program
    }

    fn read_text(name: &str, text: &str) -> Result<Vec<Vec<Execution>>, Failure> {
        let file = format!("pgassay-test-sessions-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(file);
        std::fs::write(&path, text).unwrap();
        let read = read(&path.display().to_string(), &program(), 3);
        std::fs::remove_file(&path).unwrap();
        read
    }

    const HEAD: &str = r#"{"schema":"pgassay/sessions/1","sessions":2,"connections":2,"transactions":3,"length_us":105,"scripts":["none","two"]}"#;

    #[test]
    fn lines_become_sessions_in_their_order() {
        let text = format!(
            "{HEAD}\n{}\n{}\n{}\n",
            r#"{"s":7,"at":100,"took":5,"n":1,"p":["NULL","E'a\\n'"],"w":[0]}"#,
            r#"{"s":9,"at":50,"took":5,"n":0}"#,
            r#"{"s":7,"at":20,"took":5,"n":0,"w":[3]}"#,
        );
        let sessions = read_text("good", &text).unwrap();
        let times: Vec<Vec<u64>> = sessions
            .iter()
            .map(|session| session.iter().map(|one| one.at_ns).collect())
            .collect();
        assert_eq!(times, [vec![20_000, 100_000], vec![50_000]]);
        let two = &sessions[0][1];
        assert_eq!((two.script, two.row[1].text.as_deref()), (0, Some("a\n")));
        assert_eq!(sessions[0][0].pauses_ns[..], [3000]);
        assert_eq!((sessions[0][0].script, sessions[0][0].row.len()), (1, 0));
    }

    #[test]
    fn what_is_no_file_of_sessions_says_why() {
        let with = |line: &str| format!("{HEAD}\n{line}\n");
        for (name, text, says) in [
            ("empty", String::new(), "can't be read"),
            ("other", "SELECT 1;\n".to_owned(), "can't be read"),
            ("cut", with(r#"{"s":1,"at":1,"#), "line 2"),
            (
                "few",
                with(r#"{"s":1,"at":1,"took":1,"n":0}"#),
                "1 transactions, and had 3",
            ),
            (
                "script",
                with(r#"{"s":1,"at":1,"took":1,"n":5}"#),
                "no script 5",
            ),
            (
                "width",
                with(r#"{"s":1,"at":1,"took":1,"n":1,"p":["1"]}"#),
                "draws 2",
            ),
            (
                "value",
                with(r#"{"s":1,"at":1,"took":1,"n":1,"p":["1","x"]}"#),
                "no value",
            ),
            (
                "late",
                with(r#"{"s":1,"at":31622400000001,"took":1,"n":0}"#),
                "longer than a year",
            ),
            (
                "slow",
                with(r#"{"s":1,"at":1,"took":18446744073709551615,"n":0}"#),
                "longer than a year",
            ),
            (
                "pauses",
                with(
                    r#"{"s":1,"at":1,"took":1,"n":0,"w":[18446744073709551615,18446744073709551615]}"#,
                ),
                "longer than a year",
            ),
            (
                "sessions",
                format!(
                    "{HEAD}\n{0}\n{0}\n{0}\n",
                    r#"{"s":1,"at":1,"took":1,"n":0}"#
                ),
                "says 2 sessions, and it has 1",
            ),
            (
                "longer",
                format!(
                    "{HEAD}\n{0}\n{0}\n{1}\n",
                    r#"{"s":1,"at":1,"took":99,"n":0}"#, r#"{"s":2,"at":1,"took":1,"n":0}"#
                ),
                "says 105 microseconds, and it has 100",
            ),
            (
                "many",
                with("").replace(r#""connections":2"#, r#""connections":4294967295"#),
                "does not go with its length",
            ),
            (
                "endless",
                format!("{HEAD}{}", " ".repeat(LONGEST_LINE as usize)),
                "more than 64 MiB",
            ),
            ("names", with("").replace("none", "gone"), "no script gone"),
        ] {
            let failure = read_text(name, &text).unwrap_err();
            assert!(failure.message.contains(says), "{name}: {failure:?}");
            assert!(failure.remedy.is_some(), "{name}");
        }
    }

    #[test]
    fn another_file_under_the_same_name_is_not_replayed() {
        let lines = |at: u64| {
            format!(
                "{HEAD}\n{}\n{{\"s\":9,\"at\":{at},\"took\":5,\"n\":0}}\n{}\n",
                r#"{"s":7,"at":100,"took":5,"n":0}"#, r#"{"s":7,"at":20,"took":5,"n":0}"#,
            )
        };
        let name = format!("pgassay-test-sessions-digest-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, lines(50)).unwrap();
        let mut workload = WorkloadPlan {
            sessions: Some(path.display().to_string()),
            ..WorkloadPlan::default()
        };
        let planned = plan(&workload, Pace::Closed, 1.0).unwrap();
        assert_eq!(planned.sha256.len(), 64);
        workload.replay = Some(planned);
        assert!(replay(&workload, &program()).unwrap().is_some());
        let recordings = Recordings::default();
        let first = recordings.replay(&workload, &program()).unwrap().unwrap();
        std::fs::write(&path, lines(51)).unwrap();
        // What was read is not read again, whatever the file is now; of another pace it is.
        let again = recordings.replay(&workload, &program()).unwrap().unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        let mut other = workload.clone();
        other.replay.as_mut().unwrap().speed = 2.0;
        assert!(recordings.replay(&other, &program()).is_err());
        let failure = replay(&workload, &program()).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(failure.message.contains("another file"), "{failure:?}");
    }

    #[test]
    fn what_never_ends_is_not_read() {
        for file in ["/dev/zero", "/"] {
            let failure = header(file).unwrap_err();
            assert!(failure.message.contains("it is not a file"), "{failure:?}");
        }
    }
}
