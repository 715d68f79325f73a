//! What scripts send in a transaction, drawn without a server: the statements with the values of their parameters.
//!
//! A statement that goes on from rows of another (`\gset`) or from a program's output is left out, and so is what a
//! conditional on such a variable decides.

use std::collections::HashSet;

use super::client::initial_vars;
use super::encode::{Protocol, substitute};
use super::options::Options;
use crate::script::{
    Capture, Command, Expr, Part, Program, Random, Scope, SleepTime, Slot, Sql, Value, Var,
};

/// A statement as a client of this program would send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The script and the command in it, by their places.
    pub place: (usize, usize),
    /// Its text, as the server sees it: with `$1`, `$2` … unless the protocol is the simple one.
    pub sql: String,
    /// The values of its parameters, as text; none for NULL.
    pub values: Vec<Option<String>>,
}

/// The statements that each script sends in one transaction, in order. The same seed gives the same values.
pub fn sent(program: &Program, options: &Options, seed: u64) -> Vec<Sent> {
    let scripts = 0..program.scripts().len();
    scripts
        .flat_map(|script| Walk::new(program, options, seed).script(script).0)
        .collect()
}

/// Where and why a script stops its client whatever the server answers: an undefined variable, a division by zero, a
/// parameter out of range. None where no script does with the values of this seed.
pub fn stops(program: &Program, options: &Options, seed: u64) -> Option<String> {
    program
        .scripts()
        .iter()
        .enumerate()
        .find_map(|(at, script)| {
            let (command, why) = Walk::new(program, options, seed).script(at).1?;
            Some(format!("{}: {why}", script.place(command)))
        })
}

/// The variables that a command may set to what no one can tell beforehand.
fn set_unforeseen(program: &Program, command: &Command) -> Vec<Slot> {
    match command {
        Command::SetShell(slot, _) => vec![*slot],
        Command::Sql(sql) => match &sql.capture {
            Some(Capture::Gset(prefix) | Capture::Aset(prefix)) => {
                let names = program.symbols().names();
                let all = (0..).zip(names);
                all.filter(|(_, name)| name.starts_with(prefix.as_str()))
                    .map(|(slot, _)| slot)
                    .collect()
            }
            None => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The variables that a script may find set by those that its client ran before.
fn set_before(program: &Program) -> HashSet<Slot> {
    let commands = program.scripts().iter().flat_map(|script| &script.commands);
    commands
        .flat_map(|command| match command {
            Command::Set(slot, _) => vec![*slot],
            Command::Draw(draw) => draw.slots.clone(),
            command => set_unforeseen(program, command),
        })
        .collect()
}

/// A client that never connects.
struct Walk<'a> {
    program: &'a Program,
    simple: bool,
    vars: Vec<Var>,
    /// Which of them have a value, NULL among them.
    known: Vec<bool>,
    /// Those whose value, or lack of one, no other script and no answer of the server changes.
    certain: Vec<bool>,
    random: Random,
    stack: Vec<Value>,
    /// Whether an answer of the server may decide otherwise than a conditional here did.
    strays: bool,
    /// The command that can't be executed, and why.
    stop: Option<(usize, String)>,
}

impl<'a> Walk<'a> {
    fn new(program: &'a Program, options: &Options, seed: u64) -> Self {
        let vars = initial_vars(program, options, 0, seed as i64, seed as i64);
        Self {
            program,
            simple: options.protocol == Protocol::Simple,
            known: vars.iter().map(|var| *var != Var::Unset).collect(),
            certain: vec![true; vars.len()],
            vars,
            random: Random::new(seed),
            stack: Vec::new(),
            strays: false,
            stop: None,
        }
    }

    /// What a script sends up to where that can't be known, and the command at which it stops its client.
    fn script(mut self, script: usize) -> (Vec<Sent>, Option<(usize, String)>) {
        if self.program.scripts().len() > 1 || self.program.has_capture() {
            for slot in set_before(self.program) {
                self.certain[slot as usize] = false;
            }
        }
        let program = self.program;
        let commands = &program.scripts()[script].commands;
        let mut all = Vec::new();
        let mut at = 0;
        while let Some(command) = commands.get(at) {
            let here = at;
            at += 1;
            for slot in set_unforeseen(program, command) {
                self.certain[slot as usize] = false;
            }
            match command {
                Command::Sql(sql) => all.extend(self.statement((script, here), sql)),
                Command::Set(slot, expr) => match self.evaluate(here, expr) {
                    Some(value) => {
                        self.set(*slot, Var::Value(value));
                        self.certain[*slot as usize] = self.is_certain(expr);
                    }
                    None => self.forget(*slot),
                },
                Command::Draw(draw) => {
                    let row = self.random.uniform(0, draw.rows() as i64 - 1) as usize;
                    for (slot, value) in draw.slots.iter().zip(draw.row(row)) {
                        let text = match self.simple {
                            true => Some(&value.literal),
                            false => value.text.as_ref(),
                        };
                        self.set(*slot, text.map_or(Var::Unset, |t| Var::Text(t.clone())));
                        self.certain[*slot as usize] = true;
                    }
                }
                Command::SetShell(slot, _) => self.forget(*slot),
                Command::Sleep(SleepTime::Var(slot, _)) => self.sleep(here, *slot),
                Command::If {
                    condition,
                    otherwise,
                } => {
                    let Some(next) = self.branch(here, commands, condition, *otherwise) else {
                        break;
                    };
                    at = next.unwrap_or(at);
                }
                // Reached from above, the conditional is over.
                Command::Elif { end, .. } | Command::Else { end } => at = *end + 1,
                _ => {}
            }
            if self.stop.is_some() {
                break;
            }
        }
        (all, self.stop)
    }

    fn is_certain(&self, expr: &Expr) -> bool {
        expr.slots().all(|slot| self.certain[slot as usize])
    }

    /// A pause of as long as a variable says.
    fn sleep(&mut self, at: usize, slot: Slot) {
        let slot = slot as usize;
        if !self.strays && self.certain[slot] && self.vars[slot] == Var::Unset {
            let name = &self.program.symbols().names()[slot];
            self.stop = Some((at, format!("undefined variable \"{name}\"")));
        }
    }

    /// Where a conditional goes on, none within for its first branch; none where that can't be known.
    fn branch(
        &mut self,
        at: usize,
        commands: &[Command],
        condition: &Expr,
        otherwise: usize,
    ) -> Option<Option<usize>> {
        if self.test(at, condition)? {
            return Some(None);
        }
        let mut target = otherwise;
        while let Some(Command::Elif {
            condition,
            otherwise,
            ..
        }) = commands.get(target)
        {
            if self.test(target, condition)? {
                break;
            }
            target = *otherwise;
        }
        Some(Some(target + 1))
    }

    /// Whether a condition holds; none where that can't be known.
    fn test(&mut self, at: usize, condition: &Expr) -> Option<bool> {
        let value = self.evaluate(at, condition)?;
        self.strays |= !self.is_certain(condition);
        Some(value.holds())
    }

    fn set(&mut self, slot: Slot, var: Var) {
        self.vars[slot as usize] = var;
        self.known[slot as usize] = true;
    }

    fn forget(&mut self, slot: Slot) {
        self.vars[slot as usize] = Var::Unset;
        self.known[slot as usize] = false;
    }

    /// The value of an expression of the command `at`.
    fn evaluate(&mut self, at: usize, expr: &Expr) -> Option<Value> {
        let mut scope = Scope {
            vars: &self.vars,
            names: self.program.symbols().names(),
            random: &mut self.random,
            debug: &mut |_| {},
            stack: &mut self.stack,
        };
        match expr.evaluate(&mut scope) {
            Ok(value) => Some(value),
            Err(error) => {
                let certain = !self.strays && self.is_certain(expr);
                self.stop = certain.then(|| (at, error.to_string()));
                None
            }
        }
    }

    /// A statement, where all its variables are known.
    fn statement(&self, place: (usize, usize), sql: &Sql) -> Option<Sent> {
        let is_known = |slot: &Slot| self.known[*slot as usize];
        if self.simple {
            let mut variables = sql.parts.iter().filter_map(|part| match part {
                Part::Var(slot, _) => Some(slot),
                Part::Text(_) => None,
            });
            let mut text = Vec::new();
            substitute(sql, &self.vars, &mut text);
            return Some(Sent {
                place,
                sql: String::from_utf8(text).ok()?,
                values: Vec::new(),
            })
            .filter(|_| !sql.is_several && variables.all(is_known));
        }
        let value = |slot: &Slot| {
            let mut text = Vec::new();
            let set = self.vars[*slot as usize].write_text(&mut text);
            set.then(|| String::from_utf8_lossy(&text).into_owned())
        };
        sql.params.iter().all(is_known).then(|| Sent {
            place,
            sql: sql.parametrized.clone(),
            values: sql.params.iter().map(value).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "\\set a random(7, 7)\n\\draw t u from 'it''s' NULL\n\
         SELECT :a, :t, :u;\n\
         SELECT 3 AS found \\gset\n\
         SELECT :found;\n\
         \\if :a > 9\nSELECT 'no';\n\\elif :a > 5\nSELECT 'yes', :client_id;\n\\else\nSELECT 'no';\n\\endif\n\
         SELECT :a + 1;\n\
         \\if :found > 1\nSELECT 'who knows';\n\\endif\nSELECT 'after';\n";

    fn of(protocol: Protocol) -> Vec<(String, Vec<Option<String>>)> {
        let mut program = Program::new();
        program.add("one.sql", SCRIPT, 1).unwrap();
        let options = Options {
            protocol,
            ..Options::default()
        };
        let all = sent(&program, &options, 5).into_iter();
        all.map(|sent| (sent.sql.replace(';', "").trim().to_owned(), sent.values))
            .collect()
    }

    #[test]
    fn statements_are_drawn_with_their_values_as_far_as_they_are_known() {
        let some = |text: &str| Some(text.to_owned());
        let expected = [
            ("SELECT $1, $2, $3", vec![some("7"), some("it's"), None]),
            ("SELECT 3 AS found", vec![]),
            ("SELECT 'yes', $1", vec![some("0")]),
            ("SELECT $1 + 1", vec![some("7")]),
        ];
        let expected = expected.map(|(sql, values)| (sql.to_owned(), values));
        assert_eq!(of(Protocol::Prepared), expected);
        let texts: Vec<String> = of(Protocol::Simple).into_iter().map(|s| s.0).collect();
        assert_eq!(
            texts.iter().map(|t| t.trim()).collect::<Vec<_>>(),
            [
                "SELECT 7, 'it''s', NULL",
                "SELECT 3 AS found",
                "SELECT 'yes', 0",
                "SELECT 7 + 1"
            ]
        );
    }

    fn stop_of(scripts: &[&str]) -> Option<String> {
        let mut program = Program::new();
        for (n, text) in scripts.iter().enumerate() {
            program.add(&format!("{n}.sql"), text, 1).unwrap();
        }
        (0..20).find_map(|seed| stops(&program, &Options::default(), seed))
    }

    #[test]
    fn a_script_that_stops_its_client_is_known_before_the_run() {
        for (script, line, why) in [
            (
                "SELECT 1;\n\n\\set a random(1, :wanted)\n",
                3,
                "undefined variable \"wanted\"",
            ),
            (
                "\\set a random_zipfian(1, 10, 0.99)\nSELECT :a;",
                1,
                "zipfian parameter",
            ),
            (
                "\\set n 5\n\\set a 7 / (:n - 5)\nSELECT :a;",
                2,
                "division by zero",
            ),
            (
                "\\set a 7 / random(0, 1)\nSELECT :a;",
                1,
                "division by zero",
            ),
            (
                "\\set n 1\n\\if :n > 0\n\\sleep :pause ms\n\\endif\nSELECT 1;",
                3,
                "\"pause\"",
            ),
            ("\\if :nothing\nSELECT 1;\n\\endif\n", 1, "\"nothing\""),
            ("\\set a random(9, 1)\nSELECT :a;", 1, "random"),
            ("SELECT 1 AS x \\gset p_\n\\set a :y + 1\n", 2, "\"y\""),
        ] {
            let stop = stop_of(&[script]).unwrap_or_else(|| panic!("{script}"));
            assert!(stop.starts_with(&format!("0.sql:{line}: ")), "{stop}");
            assert!(stop.contains(why), "{stop}");
        }
    }

    #[test]
    fn what_an_answer_or_another_script_may_set_is_not_judged() {
        for scripts in [
            &["\\set n 0\nSELECT 3 AS n \\gset\n\\set a 7 / :n\n"][..],
            &["SELECT 3 AS n \\gset p_\n\\set a :p_n + 1\n"],
            &["\\setshell n echo 5\n\\set a 7 / :n\n"],
            &["\\set a :of_other + 1\n", "\\set of_other 1\nSELECT 1;"],
            &["SELECT 1 AS n \\gset\n\\if :n > 0\n\\set a 1\n\\else\n\\set a 1 / 0\n\\endif\n"],
            &["\\set n 1\n\\if :n > 1\n\\set a 1 / 0\n\\endif\nSELECT 1;"],
            &["\\set n 1\nSELECT :n, :unset;"],
        ] {
            assert_eq!(stop_of(scripts), None, "{scripts:?}");
        }
    }

    #[test]
    fn a_seed_gives_its_values() {
        let mut program = Program::new();
        let text = "\\set a random(1, 1000000)\nSELECT :a;";
        program.add("one.sql", text, 1).unwrap();
        let of = |seed| sent(&program, &Options::default(), seed);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
