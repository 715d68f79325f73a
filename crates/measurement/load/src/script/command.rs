//! The commands of a script and their compilation.

use super::draw::{self, Draw};
use super::expr::{Expr, Slot};
use super::split::{Piece, split};
use super::token::{is_name_byte, is_name_start, tokens};
use super::words::{Word, leading_int, words};
use super::{Mistake, Place, Symbols, parser};

/// One command. Numbers are places in the script's command list.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// An SQL command, with what follows it by `\gset` or `\aset`.
    Sql(Box<Sql>),
    /// `\set name expression`
    Set(Slot, Expr),
    /// `\set` of something that no variable can be called: pgbench finds out when it executes it.
    SetMisnamed(String, Expr),
    /// `\draw`: one of its rows becomes its variables
    Draw(Box<Draw>),
    /// `\sleep`
    Sleep(SleepTime),
    /// `\setshell name command …`
    SetShell(Slot, Vec<ShellWord>),
    /// `\shell command …`
    Shell(Vec<ShellWord>),
    /// `\if expression`; where it does not hold the run goes on at `otherwise`, with the test of an
    /// `\elif`, or after an `\else` or `\endif`.
    If {
        /// the condition
        condition: Expr,
        /// the next `\elif`, `\else` or `\endif` of this conditional
        otherwise: usize,
    },
    /// `\elif expression`; reached from the branch above it, the conditional is over.
    Elif {
        /// the condition
        condition: Expr,
        /// the next `\elif`, `\else` or `\endif`
        otherwise: usize,
        /// the `\endif`
        end: usize,
    },
    /// `\else`; reached from the branch above it, the conditional is over.
    Else {
        /// the `\endif`
        end: usize,
    },
    /// `\endif`
    Endif,
    /// `\startpipeline`
    StartPipeline,
    /// `\syncpipeline`
    SyncPipeline,
    /// `\endpipeline`
    EndPipeline,
}

/// An SQL command in the forms that the protocols need.
#[derive(Clone, Debug, PartialEq)]
pub struct Sql {
    /// As written, with the semicolon that ends it.
    pub text: String,
    /// For the simple protocol: text and variables in turn.
    pub parts: Vec<Part>,
    /// For the extended protocol: with `$1`, `$2` … in the variables' places.
    pub parametrized: String,
    /// The variables in the places of `$1`, `$2` …
    pub params: Vec<Slot>,
    /// Where the result goes.
    pub capture: Option<Capture>,
    /// The line on which it begins, from 1.
    pub line: usize,
    /// Whether the text may hold several statements.
    pub is_several: bool,
}

/// A piece of a statement for the simple protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text that stays.
    Text(String),
    /// A variable and its name, which stays as written where the variable is not set.
    Var(Slot, String),
}

/// What happens to a statement's rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Capture {
    /// `\gset`: the one row of the last statement becomes variables.
    Gset(VarPrefix),
    /// `\aset`: the last row of each statement becomes variables.
    Aset(VarPrefix),
}

impl Capture {
    /// The name of the command.
    pub fn name(&self) -> &'static str {
        match self {
            Capture::Gset(_) => "gset",
            Capture::Aset(_) => "aset",
        }
    }
}

/// What stands before a column's name in its variable's name.
pub type VarPrefix = String;

/// A word of a shell command.
#[derive(Clone, Debug, PartialEq)]
pub enum ShellWord {
    /// Text.
    Text(String),
    /// A variable's text.
    Var(Slot),
}

/// How long `\sleep` waits.
#[derive(Clone, Debug, PartialEq)]
pub enum SleepTime {
    /// This many microseconds.
    Micros(i64),
    /// As many units as the variable says, of so many microseconds each.
    Var(Slot, i64),
}

/// How many words a backslash command has at most, its name included.
const MAX_WORDS: usize = 256;
/// How many parameters a statement has at most.
const MAX_PARAMS: usize = 255;

impl Command {
    /// What pgbench calls the command in its messages.
    pub fn name(&self) -> &'static str {
        match self {
            Command::Sql(_) => "SQL",
            Command::Set(..) | Command::SetMisnamed(..) => "set",
            Command::Draw(_) => "draw",
            Command::Sleep(_) => "sleep",
            Command::SetShell(..) => "setshell",
            Command::Shell(_) => "shell",
            Command::If { .. } => "if",
            Command::Elif { .. } => "elif",
            Command::Else { .. } => "else",
            Command::Endif => "endif",
            Command::StartPipeline => "startpipeline",
            Command::SyncPipeline => "syncpipeline",
            Command::EndPipeline => "endpipeline",
        }
    }
}

/// Whether a variable may have this name: ASCII letters, digits, underscores and anything beyond
/// ASCII, not beginning with a digit.
pub fn valid_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().copied().is_some_and(is_name_start) && bytes.iter().copied().all(is_name_byte)
}

/// A script's commands.
pub(super) struct Compiled {
    pub commands: Vec<Command>,
    /// The first line of each.
    pub lines: Vec<String>,
    /// The number of that line, from 1.
    pub numbers: Vec<usize>,
    /// What pgbench refuses only when it executes the command.
    pub deferred: Vec<Mistake>,
}

/// Compiles a script's text.
pub(super) fn compile(text: &str, symbols: &mut Symbols) -> Result<Compiled, Mistake> {
    let mut compiler = Compiler {
        text,
        symbols,
        commands: Vec::new(),
        deferred: Vec::new(),
        open: Vec::new(),
        in_pipeline: false,
        counted: 0,
        line: 1,
    };
    let (mut lines, mut numbers) = (Vec::new(), Vec::new());
    let mut conditional = None;
    for piece in split(text) {
        let (number, line) = match piece {
            Piece::Sql { offset, text } => {
                let line = first_line(&text);
                compiler.sql(offset, text)?;
                (compiler.line_at(offset), line)
            }
            Piece::Backslash { offset, end } => {
                match compiler.backslash(offset, end) {
                    // pgbench looks at conditionals when it has read everything else.
                    Err(mistake) if mistake.is_conditional() => {
                        conditional.get_or_insert(mistake);
                        compiler.commands.push(Command::Endif);
                    }
                    other => other?,
                }
                let shown = match compiler.commands.last() {
                    // Its rows may be many.
                    Some(Command::Draw(draw)) => draw_line(draw),
                    _ => first_line(&text[offset..end]),
                };
                (compiler.line_at(offset), shown)
            }
        };
        // \gset belongs to the statement before it.
        if lines.len() < compiler.commands.len() {
            lines.push(line);
            numbers.push(number);
        }
    }
    if let Some(mistake) = conditional {
        return Err(mistake);
    }
    if let Some(open) = compiler.open.last() {
        let number = compiler.commands.len() + 1;
        return Err(
            Mistake::new(open.offset, "\\if without matching \\endif").at(Place::Condition(number))
        );
    }
    Ok(Compiled {
        commands: compiler.commands,
        lines,
        numbers,
        deferred: compiler.deferred,
    })
}

/// A `\draw` without its rows.
fn draw_line(draw: &Draw) -> String {
    format!("\\draw {} from …", draw.names.join(" "))
}

/// A command's first line.
fn first_line(text: &str) -> String {
    let first = text.lines().next().unwrap_or("");
    first.trim_end().to_owned()
}

/// An `\if` whose `\endif` has not come.
struct Open {
    offset: usize,
    /// The last test, whose `otherwise` is not known yet.
    test: usize,
    /// Commands whose `end` is not known yet.
    ends: Vec<usize>,
    has_else: bool,
}

struct Compiler<'a> {
    text: &'a str,
    symbols: &'a mut Symbols,
    commands: Vec<Command>,
    deferred: Vec<Mistake>,
    open: Vec<Open>,
    in_pipeline: bool,
    /// Bytes of the text whose line breaks are counted in `line`.
    counted: usize,
    line: usize,
}

impl Compiler<'_> {
    fn sql(&mut self, offset: usize, text: String) -> Result<(), Mistake> {
        let mut parts = Vec::new();
        let mut params = Vec::new();
        let mut parametrized = String::with_capacity(text.len());
        let bytes = text.as_bytes();
        let mut kept = 0;
        let mut at = 0;
        while let Some(colon) = bytes[at..].iter().position(|b| *b == b':').map(|n| at + n) {
            let name_length = if bytes.get(colon + 1).copied().is_some_and(is_name_start) {
                bytes[colon + 1..]
                    .iter()
                    .take_while(|b| is_name_byte(**b))
                    .count()
            } else {
                0
            };
            if name_length == 0 {
                // A double colon is a cast, whatever follows it.
                at = colon + bytes[colon..].iter().take_while(|b| **b == b':').count();
                continue;
            }
            at = colon + 1 + name_length;
            let slot = self.symbols.slot(&text[colon + 1..at]);
            if params.len() == MAX_PARAMS {
                let what = format!(
                    "statement has too many arguments (maximum is {MAX_PARAMS}): {}",
                    first_line(&text)
                );
                return Err(Mistake::new(offset, what).at(Place::Nowhere));
            }
            params.push(slot);
            if kept < colon {
                parts.push(Part::Text(text[kept..colon].to_owned()));
            }
            parts.push(Part::Var(slot, text[colon + 1..at].to_owned()));
            parametrized.push_str(&text[kept..colon]);
            parametrized.push_str(&format!("${}", params.len()));
            kept = at;
        }
        if kept < text.len() {
            parts.push(Part::Text(text[kept..].to_owned()));
            parametrized.push_str(&text[kept..]);
        }
        let line = self.line_at(offset);
        let one = text.strip_suffix(';').unwrap_or(&text);
        let is_several = one.contains(';');
        self.commands.push(Command::Sql(Box::new(Sql {
            text,
            parts,
            parametrized,
            params,
            capture: None,
            line,
            is_several,
        })));
        Ok(())
    }

    /// The line of a byte, from 1. Commands come in the text's order, so each part is counted once.
    fn line_at(&mut self, offset: usize) -> usize {
        let between = self.text.as_bytes().get(self.counted..offset);
        let breaks = between.unwrap_or_default().iter().filter(|b| **b == b'\n');
        self.line += breaks.count();
        self.counted = self.counted.max(offset);
        self.line
    }

    fn backslash(&mut self, offset: usize, end: usize) -> Result<(), Mistake> {
        let words = words(self.text, offset + 1, end);
        let Some((command, arguments)) = words.split_first() else {
            return Ok(()); // a backslash alone, which pgbench passes over
        };
        // Of an expression pgbench reads the name's command only to its second word.
        let shown = !(command.text.eq_ignore_ascii_case("set") && arguments.is_empty())
            && words.len() <= MAX_WORDS;
        self.command(offset, end, *command, arguments)
            .map_err(|mistake| mistake.in_command(command.text, offset, end, shown))
    }

    fn command(
        &mut self,
        offset: usize,
        end: usize,
        command: Word<'_>,
        arguments: &[Word<'_>],
    ) -> Result<(), Mistake> {
        let none = || match arguments.first() {
            Some(extra) => Err(Mistake::new(extra.offset, "unexpected argument")),
            None => Ok(()),
        };
        let missing = |what: &str| Mistake::new(end, format!("missing {what}"));
        let name = command.text.to_ascii_lowercase();
        let has_expression = matches!(name.as_str(), "set" | "if" | "elif" | "draw");
        if let Some(extra) = arguments.get(MAX_WORDS - 1)
            && !has_expression
        {
            return Err(Mistake::new(extra.offset, "too many arguments"));
        }
        match name.as_str() {
            "set" => {
                let name = arguments.first().ok_or_else(|| missing("argument"))?;
                let start = name.offset + name.text.len();
                let expr = self.expression(start, end)?;
                let set = match self.variable(*name) {
                    Ok(slot) => Command::Set(slot, expr),
                    Err(misnamed) => {
                        self.deferred.push(misnamed);
                        Command::SetMisnamed(name.text.to_owned(), expr)
                    }
                };
                self.commands.push(set);
            }
            "draw" => {
                let start = command.offset + command.text.len();
                let symbols = &mut *self.symbols;
                let draw = draw::parse(self.text, start, end, |name| symbols.slot(name))?;
                self.commands.push(Command::Draw(Box::new(draw)));
            }
            "if" => {
                let condition = self.condition(&command, end)?;
                let test = self.commands.len();
                self.open.push(Open {
                    offset,
                    test,
                    ends: Vec::new(),
                    has_else: false,
                });
                self.commands.push(Command::If {
                    condition,
                    otherwise: test,
                });
            }
            "elif" => {
                let condition = self.condition(&command, end)?;
                let here = self.commands.len();
                self.next_branch(offset, "elif", here)?;
                self.commands.push(Command::Elif {
                    condition,
                    otherwise: here,
                    end: here,
                });
            }
            "else" => {
                none()?;
                let here = self.commands.len();
                self.next_branch(offset, "else", here)?;
                self.commands.push(Command::Else { end: here });
            }
            "endif" => {
                none()?;
                let here = self.commands.len();
                let Some(open) = self.open.pop() else {
                    return Err(Mistake::new(offset, "\\endif without matching \\if")
                        .at(Place::Condition(here + 1)));
                };
                if !open.has_else {
                    self.set_otherwise(open.test, here);
                }
                for place in open.ends {
                    match &mut self.commands[place] {
                        Command::Elif { end, .. } | Command::Else { end } => *end = here,
                        _ => {}
                    }
                }
                self.commands.push(Command::Endif);
            }
            "sleep" => {
                let time = self.sleep(arguments, end)?;
                self.commands.push(Command::Sleep(time));
            }
            "setshell" => {
                let (Some(name), true) = (arguments.first(), arguments.len() >= 2) else {
                    return Err(missing("argument"));
                };
                let slot = self.variable(*name)?;
                let words = self.shell_words(&arguments[1..]);
                self.commands.push(Command::SetShell(slot, words));
            }
            "shell" => {
                if arguments.is_empty() {
                    return Err(missing("command"));
                }
                let words = self.shell_words(arguments);
                self.commands.push(Command::Shell(words));
            }
            "gset" | "aset" => self.capture(&name, offset, arguments)?,
            "startpipeline" => {
                none()?;
                self.in_pipeline = true;
                self.commands.push(Command::StartPipeline);
            }
            "syncpipeline" => {
                none()?;
                self.commands.push(Command::SyncPipeline);
            }
            "endpipeline" => {
                none()?;
                self.in_pipeline = false;
                self.commands.push(Command::EndPipeline);
            }
            _ => {
                return Err(Mistake::new(offset, "invalid command").hint(
                    "scripts know \\set, \\draw, \\if, \\elif, \\else, \\endif, \\sleep, \\setshell, \\shell, \\gset, \\aset, \\startpipeline, \\syncpipeline and \\endpipeline",
                ));
            }
        }
        Ok(())
    }

    fn variable(&mut self, name: Word<'_>) -> Result<Slot, Mistake> {
        if !valid_name(name.text) {
            let what = format!("invalid variable name: \"{}\"", name.text);
            return Err(Mistake::new(name.offset, what)
                .hint("letters, digits and _, not beginning with a digit"));
        }
        Ok(self.symbols.slot(name.text))
    }

    fn expression(&mut self, start: usize, end: usize) -> Result<Expr, Mistake> {
        let tokens = tokens(self.text, start, end);
        // pgbench has read the line's break, where there is one.
        let last = match self.text.as_bytes().get(end) {
            Some(b'\n') => end,
            _ => end - 1,
        };
        let compiled = parser::compile(tokens, end, last, self.symbols)?;
        self.deferred.extend(compiled.deferred);
        Ok(compiled.expr)
    }

    fn condition(&mut self, command: &Word<'_>, end: usize) -> Result<Expr, Mistake> {
        self.expression(command.offset + command.text.len(), end)
    }

    /// At an `\elif` or `\else`: the test above it goes on here where it fails.
    fn next_branch(&mut self, offset: usize, name: &str, here: usize) -> Result<(), Mistake> {
        let misplaced =
            |what: String| Err(Mistake::new(offset, what).at(Place::Condition(here + 1)));
        let Some(open) = self.open.last_mut() else {
            return misplaced(format!("\\{name} without matching \\if"));
        };
        if open.has_else {
            return misplaced(format!("\\{name} after \\else"));
        }
        let test = open.test;
        open.test = here;
        open.ends.push(here);
        open.has_else = name == "else";
        self.set_otherwise(test, here);
        Ok(())
    }

    fn set_otherwise(&mut self, test: usize, target: usize) {
        if let Some(Command::If { otherwise, .. } | Command::Elif { otherwise, .. }) =
            self.commands.get_mut(test)
        {
            *otherwise = target;
        }
    }

    fn sleep(&mut self, arguments: &[Word<'_>], end: usize) -> Result<SleepTime, Mistake> {
        let (number, unit) = match arguments {
            [] => return Err(Mistake::new(end, "missing argument")),
            [number] => {
                // "10ms" is a number and a unit.
                let digits = number
                    .text
                    .bytes()
                    .enumerate()
                    .take_while(|(i, b)| {
                        b.is_ascii_digit() || (*i == 0 && matches!(b, b'+' | b'-'))
                    })
                    .count();
                let (text, unit) = number.text.split_at(digits);
                if number.text.starts_with(':') || unit.is_empty() {
                    (*number, None)
                } else {
                    let offset = number.offset;
                    (
                        Word { text, offset },
                        Some(Word {
                            text: unit,
                            offset: offset + digits,
                        }),
                    )
                }
            }
            [number, unit] => (*number, Some(*unit)),
            [_, _, extra, ..] => {
                return Err(Mistake::new(extra.offset, "too many arguments").caret(extra.offset));
            }
        };
        let micros = match unit.map(|u| (u, u.text.to_ascii_lowercase())) {
            None => 1_000_000,
            Some((_, unit)) if unit == "us" => 1,
            Some((_, unit)) if unit == "ms" => 1_000,
            Some((_, unit)) if unit == "s" => 1_000_000,
            Some((word, _)) => {
                let what = "unrecognized time unit, must be us, ms or s";
                return Err(Mistake::new(word.offset, what)
                    .detail(word.text)
                    .caret(word.offset));
            }
        };
        if let Some(name) = number.text.strip_prefix(':') {
            return Ok(SleepTime::Var(self.symbols.slot(name), micros));
        }
        Ok(SleepTime::Micros(
            leading_int(number.text).saturating_mul(micros),
        ))
    }

    fn shell_words(&mut self, arguments: &[Word<'_>]) -> Vec<ShellWord> {
        arguments
            .iter()
            .map(|word| match word.text.strip_prefix(':') {
                // Two colons stand for one, and for no variable.
                Some(rest) if rest.starts_with(':') => ShellWord::Text(rest.to_owned()),
                Some(name) => ShellWord::Var(self.symbols.slot(name)),
                None => ShellWord::Text(word.text.to_owned()),
            })
            .collect()
    }

    fn capture(
        &mut self,
        name: &str,
        offset: usize,
        arguments: &[Word<'_>],
    ) -> Result<(), Mistake> {
        if let Some(extra) = arguments.get(1) {
            return Err(Mistake::new(extra.offset, "too many arguments"));
        }
        let prefix = arguments
            .first()
            .map_or(String::new(), |word| word.text.to_owned());
        if !prefix.is_empty() && !valid_name(&prefix) {
            let at = arguments.first().map_or(offset, |word| word.offset);
            let what = format!("invalid variable name: \"{prefix}\"");
            self.deferred.push(Mistake::new(at, what));
        }
        if self.in_pipeline {
            let what = format!("\\{name} is not allowed in pipeline mode");
            self.deferred.push(Mistake::new(offset, what));
        }
        match self.commands.last_mut() {
            Some(Command::Sql(sql)) if sql.capture.is_none() => {
                sql.capture = Some(match name {
                    "gset" => Capture::Gset(prefix),
                    _ => Capture::Aset(prefix),
                });
                Ok(())
            }
            _ => {
                let what = format!("\\{name} must follow an SQL command");
                Err(Mistake::new(offset, what).at(Place::Script))
            }
        }
    }
}
