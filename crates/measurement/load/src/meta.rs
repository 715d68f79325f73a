//! What a script's backslash commands do that the server has no part in.

use std::process::{Command as Process, Stdio};

use super::options::{Event, Tone};
use super::worker::Worker;
use crate::script::{Command, Expr, Scope, ShellWord, SleepTime, Slot, Value, Var, leading_int};

impl Worker<'_> {
    /// The value of an expression; a client whose expression has none is stopped.
    pub fn evaluate(&mut self, i: usize, expr: &Expr) -> Option<Value> {
        let listener = &self.shared.options.listener;
        let client = &mut self.clients[i];
        let (script, command) = (client.script, client.command + 1);
        let mut debug = |value: Value| {
            if let Some(listener) = listener {
                let kind = value.kind();
                let shown = match value {
                    Value::Null => kind.to_owned(),
                    value => format!("{kind} {value}"),
                };
                let text = format!("debug(script={script},command={command}): {shown}");
                listener(Event::Said(Tone::Quoted, &text));
            }
        };
        let mut scope = Scope {
            vars: &client.vars,
            names: self.shared.program.symbols().names(),
            random: &mut client.random,
            debug: &mut debug,
            stack: &mut self.stack,
        };
        match expr.evaluate(&mut scope) {
            Ok(value) => Some(value),
            Err(error) => {
                let name = self.command_name(i);
                let why = "evaluation of meta-command failed";
                self.abort(i, name, Some(&error.to_string()), why);
                None
            }
        }
    }

    /// `\if`: where the test fails, the next `\elif` is tried, or what follows `\else` or `\endif`
    /// runs.
    pub fn test(&mut self, i: usize, condition: &Expr, otherwise: usize) {
        let Some(value) = self.evaluate(i, condition) else {
            return;
        };
        if value.holds() {
            self.command_done(i);
            return;
        }
        let shared = self.shared;
        let mut target = otherwise;
        loop {
            self.clients[i].command = target;
            let script = self.clients[i].script;
            match shared.program.scripts()[script].commands.get(target) {
                Some(Command::Elif {
                    condition,
                    otherwise,
                    ..
                }) => {
                    self.step(i, || "executing \\elif".to_owned());
                    let Some(value) = self.evaluate(i, condition) else {
                        return;
                    };
                    if value.holds() {
                        self.clients[i].command = target + 1;
                        return;
                    }
                    target = *otherwise;
                }
                _ => {
                    self.clients[i].command = target + 1;
                    return;
                }
            }
        }
    }

    /// The microseconds of a `\sleep`.
    pub fn sleep_time(&mut self, i: usize, time: &SleepTime) -> Option<i64> {
        match time {
            SleepTime::Micros(micros) => Some(*micros),
            SleepTime::Var(slot, unit) => {
                let mut text = Vec::new();
                let set = self.clients[i].vars[*slot as usize].write_text(&mut text);
                let text = String::from_utf8_lossy(&text);
                let number = leading_int(&text);
                if !set {
                    let name = self.shared.program.symbols().names()[*slot as usize].clone();
                    self.not_executed(i, &format!("sleep: undefined variable \"{name}\""));
                    return None;
                }
                if number == 0 && !text.starts_with(|c: char| c.is_ascii_digit()) {
                    let name = &self.shared.program.symbols().names()[*slot as usize];
                    let what =
                        format!("sleep: invalid sleep time \"{text}\" for variable \"{name}\"");
                    self.not_executed(i, &what);
                    return None;
                }
                Some(number.saturating_mul(*unit))
            }
        }
    }

    /// Runs a shell command; the thread waits for it, as pgbench's does.
    pub fn shell(&mut self, i: usize, words: &[ShellWord], into: Option<Slot>) {
        let mut line = Vec::new();
        let mut first = 0;
        for (n, word) in words.iter().enumerate() {
            if n > 0 {
                line.push(b' ');
            }
            match word {
                ShellWord::Text(text) => line.extend_from_slice(text.as_bytes()),
                ShellWord::Var(slot) => {
                    if !self.clients[i].vars[*slot as usize].write_text(&mut line) {
                        let name = &self.shared.program.symbols().names()[*slot as usize];
                        let program = String::from_utf8_lossy(&line[..first]);
                        let program = match n {
                            0 => format!(":{name}"),
                            _ => program.into_owned(),
                        };
                        let what = format!("{program}: undefined variable \":{name}\"");
                        self.not_executed(i, &what);
                        return;
                    }
                }
            }
            if n == 0 {
                first = line.len();
            }
        }
        let program = String::from_utf8_lossy(&line[..first]).into_owned();
        let line = String::from_utf8_lossy(&line).into_owned();
        let mut process = Process::new("/bin/sh");
        process.arg("-c").arg(&line).stdin(Stdio::null());
        let outcome = match into {
            None => match process.status() {
                Ok(status) if status.success() => Ok(()),
                _ => Err("could not launch shell command".to_owned()),
            },
            Some(slot) => match process.stderr(Stdio::inherit()).output() {
                Err(_) => Err("could not launch shell command".to_owned()),
                Ok(output) if output.stdout.is_empty() => {
                    Err("could not read result of shell command".to_owned())
                }
                Ok(output) => {
                    let text = String::from_utf8_lossy(&output.stdout);
                    let first = text.lines().next().unwrap_or("");
                    match first.trim().parse::<i64>() {
                        Ok(value) => {
                            // pgbench keeps a C int.
                            let value = Value::Int(i64::from(value as i32));
                            self.clients[i].vars[slot as usize] = Var::Value(value);
                            Ok(())
                        }
                        Err(_) => Err(format!(
                            "shell command must return an integer (not \"{first}\")"
                        )),
                    }
                }
            },
        };
        self.forget_now();
        match outcome {
            Ok(()) => self.command_done(i),
            Err(what) => self.not_executed(i, &format!("{program}: {what}")),
        }
    }

    /// What pgbench calls the command at which the client is.
    fn command_name(&self, i: usize) -> &'static str {
        let client = &self.clients[i];
        let commands = &self.shared.program.scripts()[client.script].commands;
        commands.get(client.command).map_or("", Command::name)
    }

    fn not_executed(&mut self, i: usize, what: &str) {
        let name = self.command_name(i);
        self.abort(i, name, Some(what), "execution of meta-command failed");
    }
}
