//! A workload file: a pgbench script whose leading comments say what else the workload is.
//!
//! The first comment says what it does. Then come directives, one to a line, that go on over
//! comment lines which are indented:
//!
//! | directive | meaning |
//! |---|---|
//! | `@reason TEXT` | why it is worth measuring |
//! | `@writes` | it changes the tables |
//! | `@without-pgbench-tables` | it brings its own |
//! | `@setup STATEMENT` | makes what it needs, in our schema; `:scale` is the scale |
//! | `@settle STATEMENT` | before each trial of a launched server |
//! | `@verify QUESTION` | true as long as nothing was lost |
//! | `@condition NAME: QUESTION` | true, or the run ends with an error |
//! | `@tables order-entry` | it runs on the tables of order entry; `:scale` is the number of warehouses |
//! | `@tries N` | tries of a transaction after serialization failures and deadlocks |
//! | `@pause SCRIPT KEYING THINKING` | milliseconds that a person takes before and after it |
//! | `@clients SCRIPT N` | so many clients run it and no other, concurrently |
//! | `@protocol NAME` | how its statements travel unless `--protocol` says otherwise: `simple`, `extended`, `prepared` |
//! | `@sessions FILE` | the sessions that it was made of, beside it, for `--replay` |
//! | `@idle N` | connections that are open beside the load and do nothing |
//! | `@script NAME WEIGHT` | a script of several begins here |
//!
//! A file without directives is any pgbench script, and a file with them still is one.

use std::path::{Component, Path};

use pgassay_model::workload::{Condition, DataSet, Pause, ScriptPlan};

/// A workload, as its file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// What it does, one sentence.
    pub explanation: String,
    /// Why it is worth measuring.
    pub reason: String,
    /// Whether it says that it changes the tables.
    pub writes: bool,
    /// Whether it runs without pgbench's tables.
    pub without_pgbench_tables: bool,
    /// Statements that make what it needs.
    pub setup: Vec<String>,
    /// Statements before each trial.
    pub settle: Vec<String>,
    /// A question whose answer is to be true.
    pub verify: Option<String>,
    /// What must hold afterwards.
    pub conditions: Vec<Condition>,
    /// The tables that it runs on beside its own.
    pub data: Option<DataSet>,
    /// Tries of a transaction.
    pub max_tries: Option<u32>,
    /// How long a person takes around a script, by its name.
    pauses: Vec<(String, Pause)>,
    /// Clients of a script's own, by its name.
    own_clients: Vec<(String, u32)>,
    /// Idle connections beside the load.
    pub idle: u32,
    /// The file of its sessions.
    pub sessions: Option<String>,
    /// pgbench's protocol mode.
    pub protocol: Option<String>,
    /// Its scripts; one that has no name of its own is named as the workload.
    pub scripts: Vec<ScriptPlan>,
}

impl Entry {
    /// Reads a workload file.
    ///
    /// # Errors
    /// A directive that there is not, or one with a wrong value, by its line.
    pub fn read(name: &str, text: &str) -> Result<Self, String> {
        let mut entry = Entry::default();
        let mut scripts: Vec<ScriptPlan> = Vec::new();
        let mut head = true;
        let mut last: Option<(usize, String)> = None;
        for (number, line) in (1..).zip(text.lines()) {
            let comment = line.strip_prefix("--");
            let directive = comment.and_then(|c| c.trim_start().strip_prefix('@'));
            if let Some(script) = directive.and_then(|d| d.strip_prefix("script ")) {
                entry.take(last.take())?;
                scripts.push(begin_script(number, script)?);
                head = false;
                continue;
            }
            match (head, comment, directive) {
                (true, Some(_), Some(directive)) => {
                    entry.take(last.replace((number, directive.to_owned())))?;
                }
                (true, Some(comment), None) => match &mut last {
                    Some((_, text)) if comment.starts_with("   ") => {
                        text.push(' ');
                        text.push_str(comment.trim());
                    }
                    Some(_) => entry.take(last.take())?,
                    None => {
                        if !entry.explanation.is_empty() {
                            entry.explanation.push(' ');
                        }
                        entry.explanation.push_str(comment.trim());
                    }
                },
                _ => {
                    entry.take(last.take())?;
                    if head && !line.trim().is_empty() {
                        head = false;
                        scripts.push(ScriptPlan {
                            name: name.to_owned(),
                            weight: 1,
                            ..ScriptPlan::default()
                        });
                    }
                    if let Some(script) = scripts.last_mut() {
                        script.text.push_str(line);
                        script.text.push('\n');
                    }
                }
            }
        }
        entry.take(last)?;
        // A script of one file keeps its line numbers: mistakes are told by them.
        if let [only] = scripts.as_mut_slice()
            && only.name == name
        {
            only.text = text.to_owned();
        }
        for (name, pause) in &entry.pauses {
            let script = scripts.iter_mut().find(|script| script.name == *name);
            let script = script.ok_or_else(|| format!("@pause: there is no script {name}"))?;
            script.pause = Some(*pause);
        }
        for (name, clients) in &entry.own_clients {
            let script = scripts.iter_mut().find(|script| script.name == *name);
            let script = script.ok_or_else(|| format!("@clients: there is no script {name}"))?;
            (script.weight, script.clients) = (0, Some(*clients));
        }
        entry.scripts = scripts;
        Ok(entry)
    }

    fn take(&mut self, directive: Option<(usize, String)>) -> Result<(), String> {
        let Some((line, text)) = directive else {
            return Ok(());
        };
        let (name, value) = text.split_once(' ').unwrap_or((&text, ""));
        let value = value.trim().to_owned();
        match name {
            "reason" => self.reason = value,
            "writes" => self.writes = true,
            "without-pgbench-tables" => self.without_pgbench_tables = true,
            "setup" => self.setup.push(value),
            "settle" => self.settle.push(value),
            "verify" => self.verify = Some(value),
            "condition" => {
                let wrong = || format!("line {line}: @condition takes NAME: QUESTION");
                let (name, question) = value.split_once(": ").ok_or_else(wrong)?;
                self.conditions.push(Condition {
                    name: name.to_owned(),
                    question: question.to_owned(),
                });
            }
            "tables" => {
                self.data = match value.as_str() {
                    super::order_entry::NAME => Some(DataSet::OrderEntry),
                    _ => return Err(format!("line {line}: there are no tables `{value}`")),
                };
            }
            "tries" => {
                self.max_tries =
                    Some(value.parse().map_err(|_| {
                        format!("line {line}: @tries takes a number, not `{value}`")
                    })?);
            }
            "protocol" => match value.as_str() {
                "simple" | "extended" | "prepared" => self.protocol = Some(value),
                _ => {
                    return Err(format!(
                        "line {line}: @protocol is simple, extended or prepared, not `{value}`"
                    ));
                }
            },
            "sessions" => {
                let mut parts = Path::new(&value).components();
                let is_beside = matches!(parts.next(), Some(Component::Normal(_)))
                    && parts.all(|part| matches!(part, Component::Normal(_)));
                if !is_beside {
                    return Err(format!(
                        "line {line}: @sessions names a file beside the workload, not `{value}`"
                    ));
                }
                self.sessions = Some(value);
            }
            "pause" => self.pauses.push(pause(line, &value)?),
            "clients" => self.own_clients.push(own_clients(line, &value)?),
            "idle" => {
                self.idle = value
                    .parse()
                    .map_err(|_| format!("line {line}: @idle takes a number, not `{value}`"))?;
            }
            // Some other program's mark in a script from the wild.
            _ => {}
        }
        Ok(())
    }
}

fn begin_script(line: usize, text: &str) -> Result<ScriptPlan, String> {
    let wrong = || format!("line {line}: @script takes a name and a weight, not `{text}`");
    let (name, weight) = text.trim().split_once(' ').ok_or_else(wrong)?;
    Ok(ScriptPlan {
        name: name.to_owned(),
        weight: weight.trim().parse().map_err(|_| wrong())?,
        ..ScriptPlan::default()
    })
}

fn own_clients(line: usize, text: &str) -> Result<(String, u32), String> {
    let wrong =
        || format!("line {line}: @clients takes a script and a number of clients, not `{text}`");
    let (name, clients) = text.split_once(' ').ok_or_else(wrong)?;
    match clients.trim().parse() {
        Ok(clients @ 1..=super::MOST_OWN_CLIENTS) => Ok((name.to_owned(), clients)),
        _ => Err(wrong()),
    }
}

fn pause(line: usize, text: &str) -> Result<(String, Pause), String> {
    let wrong = || format!("line {line}: @pause takes a script and two times in ms, not `{text}`");
    let words: Vec<&str> = text.split_whitespace().collect();
    let [name, keying, thinking] = words[..] else {
        return Err(wrong());
    };
    let pause = Pause {
        keying_ms: keying.parse().map_err(|_| wrong())?,
        thinking_ms: thinking.parse().map_err(|_| wrong())?,
    };
    Ok((name.to_owned(), pause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_directives() {
        let text = "\
-- what it does,
-- in two lines
-- @reason because
--   it is so
-- @writes
-- @idle 7
-- @protocol simple
-- @sessions mine.jsonl
-- @setup CREATE TABLE t
--   (a int)
-- @setup INSERT INTO t VALUES (:scale)
-- @script one 3
SELECT 1;
-- @script two 1
SELECT 2;
";
        let entry = Entry::read("mine", text).unwrap();
        assert_eq!(entry.explanation, "what it does, in two lines");
        assert_eq!(entry.reason, "because it is so");
        assert!(entry.writes && !entry.without_pgbench_tables);
        assert_eq!(entry.idle, 7);
        assert_eq!(entry.protocol.as_deref(), Some("simple"));
        assert_eq!(entry.sessions.as_deref(), Some("mine.jsonl"));
        assert!(Entry::read("x", "-- @protocol copy\nSELECT 1;").is_err());
        for elsewhere in ["/etc/passwd", "../mine.jsonl", "a/../../b", "", "."] {
            let text = format!("-- @sessions {elsewhere}\nSELECT 1;");
            assert!(Entry::read("x", &text).is_err(), "{elsewhere}");
        }
        assert_eq!(
            entry.setup,
            ["CREATE TABLE t (a int)", "INSERT INTO t VALUES (:scale)"]
        );
        let scripts: Vec<_> = entry
            .scripts
            .iter()
            .map(|s| (s.name.as_str(), s.weight, s.text.as_str()))
            .collect();
        assert_eq!(
            scripts,
            [("one", 3, "SELECT 1;\n"), ("two", 1, "SELECT 2;\n")]
        );
        assert!(Entry::read("x", "-- @idle many\nSELECT 1;").is_err());
        assert!(Entry::read("x", "-- @script one\nSELECT 1;").is_err());
        let own = "-- @clients two 3\n-- @script one 1\nSELECT 1;\n-- @script two 5\nSELECT 2;\n";
        let own = Entry::read("x", own).unwrap().scripts;
        assert_eq!((own[0].weight, own[0].clients), (1, None));
        assert_eq!((own[1].weight, own[1].clients), (0, Some(3)));
        for wrong in ["two", "two 0", "two x", "three 1", ""] {
            let text = format!("-- @clients {wrong}\n-- @script two 1\nSELECT 2;\n");
            assert!(Entry::read("x", &text).is_err(), "{wrong}");
        }
    }

    #[test]
    fn any_script_is_one() {
        let text = "\n-- mine\n\\set a 1\n-- @writes: no directive here\nSELECT :a;\n";
        let entry = Entry::read("mine.sql", text).unwrap();
        assert_eq!(entry.scripts.len(), 1);
        assert_eq!(entry.scripts[0].text, text, "with its line numbers");
        assert!(!entry.writes);
        assert!(Entry::read("empty", "").unwrap().scripts.is_empty());
    }
}
