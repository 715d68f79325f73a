//! pgbench's script language: from text to a program that the load engine runs.
//!
//! Everything that can be decided before the run is decided here: names become slots of a table,
//! expressions become code, conditionals become jumps, and a mistake is reported with its line and
//! column. A script that pgbench accepts compiles; one that it refuses, be it at its start or at its
//! first execution, is refused before anything runs, as far as the text alone tells.
//!
//! Source of the language: PostgreSQL 18's manual page of pgbench, and the program's behaviour.

mod builtin;
mod command;
mod draw;
mod expr;
mod mistake;
mod parser;
mod random;
mod rows;
mod split;
mod token;
mod value;
mod words;

use std::collections::HashMap;

use command::Compiled;

pub use builtin::{BUILTINS, Builtin, find as find_builtin};
pub use command::{Capture, Command, Part, ShellWord, SleepTime, Sql, VarPrefix, valid_name};
pub use draw::{Draw, Drawn, is_number, quoted};
pub use expr::{Expr, Scope, Slot, Var};
pub use random::Random;
pub use rows::{row_files, with_rows};
pub use value::{EvalError, Value};
pub(crate) use words::leading_int;

pub use mistake::ScriptError;
pub(crate) use mistake::{Mistake, Place};

/// The variables' names; a name's place is its slot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Symbols {
    names: Vec<String>,
    slots: HashMap<String, Slot>,
}

impl Symbols {
    /// The name's slot, made if it is new.
    pub fn slot(&mut self, name: &str) -> Slot {
        if let Some(slot) = self.slots.get(name) {
            return *slot;
        }
        let slot = self.names.len() as Slot;
        self.names.push(name.to_owned());
        self.slots.insert(name.to_owned(), slot);
        slot
    }

    /// The name's slot, if any script uses the name.
    pub fn find(&self, name: &str) -> Option<Slot> {
        self.slots.get(name).copied()
    }

    /// All names, by slot.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// A script compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Its name in messages and reports.
    pub name: String,
    /// Its share among the program's scripts.
    pub weight: u32,
    /// Its commands, in the order and with the numbers that pgbench gives them.
    pub commands: Vec<Command>,
    /// The first line of each command, as it stands in the text.
    pub lines: Vec<String>,
    /// The number of that line, from 1.
    pub numbers: Vec<usize>,
}

/// Characters of a command's first line in a message.
const SHOWN: usize = 120;

impl Script {
    /// Names a command by its script, its line and its text: `a.sql:3: SELECT 1;`.
    pub fn place(&self, command: usize) -> String {
        let (Some(number), Some(line)) = (self.numbers.get(command), self.lines.get(command))
        else {
            return self.name.clone();
        };
        let line = line.trim_end_matches([';', ' ']);
        let shown = match line.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line.to_owned(),
        };
        format!("{}:{number}: {shown}", self.name)
    }
}

/// Scripts compiled together: what one client runs, choosing a script per transaction by weight.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    scripts: Vec<Script>,
    symbols: Symbols,
    total_weight: u64,
    /// Whether any takes rows in order.
    in_order: bool,
}

/// How many scripts pgbench takes.
const MAX_SCRIPTS: usize = 128;

impl Program {
    /// A program without scripts.
    pub fn new() -> Self {
        let mut program = Program::default();
        // The variables that pgbench sets itself.
        for name in ["scale", "client_id", "default_seed", "random_seed"] {
            program.symbols.slot(name);
        }
        program
    }

    /// A program of one built-in script.
    pub fn builtin(name: &str) -> Result<Self, String> {
        let builtin = find_builtin(name)?;
        let mut program = Program::new();
        program
            .add(builtin.title, builtin.text, 1)
            .map_err(|e| e.to_string())?;
        Ok(program)
    }

    /// Compiles a script and adds it.
    ///
    /// # Errors
    /// The first mistake, be it one that pgbench finds in the text or at the command's first
    /// execution.
    pub fn add(&mut self, name: &str, text: &str, weight: u32) -> Result<(), ScriptError> {
        let (mut compiled, symbols) = self.compile(name, text)?;
        if let Some(mistake) = compiled.deferred.drain(..).next() {
            return Err(mistake.locate(name, text));
        }
        self.put(name, weight, compiled, symbols);
        Ok(())
    }

    /// Compiles a script and adds it in pgbench's way: a command that pgbench refuses when it is
    /// executed stays in the program, and stops the client that comes to it.
    ///
    /// # Errors
    /// The mistake that pgbench finds before the run.
    pub fn add_deferring(
        &mut self,
        name: &str,
        text: &str,
        weight: u32,
    ) -> Result<(), ScriptError> {
        let (compiled, symbols) = self.compile(name, text)?;
        self.put(name, weight, compiled, symbols);
        Ok(())
    }

    fn compile(&self, name: &str, text: &str) -> Result<(Compiled, Symbols), ScriptError> {
        let located = |mistake: Mistake| mistake.locate(name, text);
        if self.scripts.len() == MAX_SCRIPTS {
            let what = format!("at most {MAX_SCRIPTS} SQL scripts are allowed");
            return Err(located(Mistake::new(0, what).at(Place::Nowhere)));
        }
        let mut symbols = self.symbols.clone();
        let compiled = command::compile(text, &mut symbols).map_err(located)?;
        if compiled.commands.is_empty() {
            let what = format!("empty command list for script \"{name}\"");
            return Err(located(Mistake::new(text.len(), what).at(Place::Nowhere)));
        }
        Ok((compiled, symbols))
    }

    fn put(&mut self, name: &str, weight: u32, compiled: Compiled, symbols: Symbols) {
        self.symbols = symbols;
        self.total_weight += u64::from(weight);
        self.in_order |= compiled
            .commands
            .iter()
            .any(|command| matches!(command, Command::Draw(draw) if draw.in_order));
        self.scripts.push(Script {
            name: name.to_owned(),
            weight,
            commands: compiled.commands,
            lines: compiled.lines,
            numbers: compiled.numbers,
        });
    }

    /// The scripts.
    pub fn scripts(&self) -> &[Script] {
        &self.scripts
    }

    /// The names that the scripts use.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Makes a slot for a variable that is defined from outside.
    pub fn define(&mut self, name: &str) -> Slot {
        self.symbols.slot(name)
    }

    /// The sum of the scripts' weights.
    pub fn total_weight(&self) -> u64 {
        self.total_weight
    }

    /// Chooses the next transaction's script.
    pub fn choose(&self, random: &mut Random) -> usize {
        if self.scripts.len() <= 1 {
            return 0;
        }
        let mut rest = random.uniform(0, self.total_weight as i64 - 1);
        for (at, script) in self.scripts.iter().enumerate() {
            rest -= i64::from(script.weight);
            if rest < 0 {
                return at;
            }
        }
        self.scripts.len() - 1
    }

    /// Whether any command takes rows one after the other.
    pub fn draws_in_order(&self) -> bool {
        self.in_order
    }

    /// Whether any command goes on from rows that the server sends.
    pub fn has_capture(&self) -> bool {
        self.scripts
            .iter()
            .flat_map(|s| &s.commands)
            .any(|c| matches!(c, Command::Sql(sql) if sql.capture.is_some()))
    }

    /// Whether any command opens a pipeline, which the simple query protocol does not have.
    pub fn has_pipeline(&self) -> bool {
        self.scripts
            .iter()
            .flat_map(|s| &s.commands)
            .any(|c| matches!(c, Command::StartPipeline))
    }
}

#[cfg(test)]
mod tests;
