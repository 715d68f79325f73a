//! What scripts send in a transaction, drawn without a server: the statements with the values of their parameters.
//!
//! A statement that goes on from rows of another (`\gset`) or from a program's output is left out, and so is what a
//! conditional on such a variable decides.

use super::client::initial_vars;
use super::encode::{Protocol, substitute};
use super::options::Options;
use crate::script::{Command, Expr, Part, Program, Random, Scope, Slot, Sql, Value, Var};

/// A statement as a client of this program would send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its text, as the server sees it: with `$1`, `$2` … unless the protocol is the simple one.
    pub sql: String,
    /// The values of its parameters, as text; none for NULL.
    pub values: Vec<Option<String>>,
}

/// The statements that each script sends in one transaction, in order. The same seed gives the same values.
pub fn sent(program: &Program, options: &Options, seed: u64) -> Vec<Sent> {
    let scripts = 0..program.scripts().len();
    scripts
        .flat_map(|script| Walk::new(program, options, seed).script(script))
        .collect()
}

/// A client that never connects.
struct Walk<'a> {
    program: &'a Program,
    simple: bool,
    vars: Vec<Var>,
    /// Which of them have a value, NULL among them.
    known: Vec<bool>,
    random: Random,
    stack: Vec<Value>,
}

impl<'a> Walk<'a> {
    fn new(program: &'a Program, options: &Options, seed: u64) -> Self {
        let vars = initial_vars(program, options, 0, seed as i64, seed as i64);
        Self {
            program,
            simple: options.protocol == Protocol::Simple,
            known: vars.iter().map(|var| *var != Var::Unset).collect(),
            vars,
            random: Random::new(seed),
            stack: Vec::new(),
        }
    }

    /// What a script sends, up to where that can't be known.
    fn script(mut self, script: usize) -> Vec<Sent> {
        let program = self.program;
        let commands = &program.scripts()[script].commands;
        let mut all = Vec::new();
        let mut at = 0;
        while let Some(command) = commands.get(at) {
            at += 1;
            match command {
                Command::Sql(sql) => all.extend(self.statement(sql)),
                Command::Set(slot, expr) => match self.evaluate(expr) {
                    Some(value) => self.set(*slot, Var::Value(value)),
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
                    }
                }
                Command::SetShell(slot, _) => self.forget(*slot),
                Command::If {
                    condition,
                    otherwise,
                } => {
                    let Some(next) = self.branch(commands, condition, *otherwise) else {
                        break;
                    };
                    at = next.unwrap_or(at);
                }
                // Reached from above, the conditional is over.
                Command::Elif { end, .. } | Command::Else { end } => at = *end + 1,
                _ => {}
            }
        }
        all
    }

    /// Where a conditional goes on, none within for its first branch; none where that can't be known.
    fn branch(
        &mut self,
        commands: &[Command],
        condition: &Expr,
        otherwise: usize,
    ) -> Option<Option<usize>> {
        if self.evaluate(condition)?.holds() {
            return Some(None);
        }
        let mut target = otherwise;
        while let Some(Command::Elif {
            condition,
            otherwise,
            ..
        }) = commands.get(target)
        {
            if self.evaluate(condition)?.holds() {
                break;
            }
            target = *otherwise;
        }
        Some(Some(target + 1))
    }

    fn set(&mut self, slot: Slot, var: Var) {
        self.vars[slot as usize] = var;
        self.known[slot as usize] = true;
    }

    fn forget(&mut self, slot: Slot) {
        self.vars[slot as usize] = Var::Unset;
        self.known[slot as usize] = false;
    }

    fn evaluate(&mut self, expr: &Expr) -> Option<Value> {
        let mut scope = Scope {
            vars: &self.vars,
            names: self.program.symbols().names(),
            random: &mut self.random,
            debug: &mut |_| {},
            stack: &mut self.stack,
        };
        expr.evaluate(&mut scope).ok()
    }

    /// A statement, where all its variables are known.
    fn statement(&self, sql: &Sql) -> Option<Sent> {
        let is_known = |slot: &Slot| self.known[*slot as usize];
        if self.simple {
            let mut variables = sql.parts.iter().filter_map(|part| match part {
                Part::Var(slot, _) => Some(slot),
                Part::Text(_) => None,
            });
            let mut text = Vec::new();
            substitute(sql, &self.vars, &mut text);
            return Some(Sent {
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
