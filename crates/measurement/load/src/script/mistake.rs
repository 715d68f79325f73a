//! Mistakes in scripts: where they are, in our words and in pgbench's.

use thiserror::Error;

/// A mistake in a script, with its place.
#[derive(Clone, Debug, Error, PartialEq)]
#[error("{script}:{line}:{column}: {message}\n    {source_line}\n    {marker}")]
pub struct ScriptError {
    /// The script's name: its file, or a built-in's title.
    pub script: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// The line in which it is.
    pub source_line: String,
    /// A caret below the place.
    pub marker: Box<str>,
    /// The message as pgbench prints it, in one or more lines.
    pub as_pgbench: Box<str>,
}

/// How pgbench tells where a mistake is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    /// The message says all.
    Nowhere,
    /// By the script and the line.
    Script,
    /// Not said yet: the command that is being read.
    ThisCommand,
    /// By the command as well, which is shown, with a caret where it is known which of its bytes is
    /// the wrong one.
    Command {
        name: String,
        start: usize,
        end: usize,
        /// a byte of the script
        caret: Option<usize>,
        /// whether the command is shown
        shown: bool,
    },
    /// By the command's number, from 1.
    Condition(usize),
}

/// A mistake at a byte of the text, before it is known which line that is.
#[derive(Debug, PartialEq)]
pub(crate) struct Mistake(Box<Found>);

#[derive(Debug, PartialEq)]
struct Found {
    offset: usize,
    /// What is wrong, by pgbench's wording.
    what: String,
    /// What pgbench puts after it in parentheses.
    detail: Option<String>,
    /// What we know better.
    hint: Option<String>,
    /// The byte under which pgbench puts its caret.
    caret: Option<usize>,
    place: Place,
}

impl Mistake {
    pub fn new(offset: usize, what: impl Into<String>) -> Self {
        Mistake(Box::new(Found {
            offset,
            what: what.into(),
            detail: None,
            hint: None,
            caret: None,
            place: Place::ThisCommand,
        }))
    }

    /// What the mistake is about.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// What would be right.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The byte at which pgbench points.
    pub fn caret(mut self, caret: usize) -> Self {
        self.0.caret = Some(caret);
        self
    }

    pub fn at(mut self, place: Place) -> Self {
        self.0.place = place;
        self
    }

    /// The command in which it is, unless its place is given otherwise already.
    pub fn in_command(mut self, name: &str, start: usize, end: usize, shown: bool) -> Self {
        if self.0.place == Place::ThisCommand {
            self.0.place = Place::Command {
                name: name.to_owned(),
                start,
                end,
                caret: self.0.caret,
                shown,
            };
        }
        self
    }

    /// Whether it is about how conditionals are put together.
    pub fn is_conditional(&self) -> bool {
        matches!(self.0.place, Place::Condition(_))
    }

    pub fn locate(self, script: &str, text: &str) -> ScriptError {
        let mut offset = self.0.offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |n| n + 1);
        let line_end = text[offset..].find('\n').map_or(text.len(), |n| offset + n);
        let source_line = text[line_start..line_end].trim_end_matches('\r');
        // Tabs stay tabs, so that the caret stands where the terminal shows the character.
        let marker: String = text[line_start..offset]
            .chars()
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .chain(['^'])
            .collect();
        ScriptError {
            script: script.to_owned(),
            line: line_of(text, offset),
            column: text[line_start..offset].chars().count() + 1,
            message: self.0.ours(),
            source_line: source_line.to_owned(),
            marker: marker.into(),
            as_pgbench: self.0.theirs(script, text, offset).into(),
        }
    }
}

impl Found {
    fn ours(&self) -> String {
        let mut message = self.what.clone();
        if let Some(detail) = &self.detail {
            message += &format!(" ({detail})");
        }
        if let Place::Command { name, .. } = &self.place {
            message += &format!(" in \\{name}");
        }
        if let Some(hint) = &self.hint {
            message += &format!(": {hint}");
        }
        message
    }

    fn theirs(&self, script: &str, text: &str, offset: usize) -> String {
        let what = match &self.detail {
            Some(detail) => format!("{} ({detail})", self.what),
            None => self.what.clone(),
        };
        match &self.place {
            Place::Nowhere => what,
            Place::Script | Place::ThisCommand => {
                format!("{script}:{}: {what}", line_of(text, offset))
            }
            Place::Condition(number) => {
                format!("condition error in script \"{script}\" command {number}: {what}")
            }
            Place::Command {
                name,
                start,
                end,
                caret,
                shown,
            } => {
                let line = line_of(text, *start);
                let mut told = format!("{script}:{line}: {what} in command \"{name}\"");
                if *shown {
                    told += &format!("\n{}", text[*start..*end].trim_end());
                }
                if let Some(caret) = caret.filter(|_| *shown) {
                    let column = caret.saturating_sub(*start);
                    told += &format!("\n{:column$}^ error found here", "");
                }
                told
            }
        }
    }
}

/// The line of a byte, from 1.
fn line_of(text: &str, offset: usize) -> usize {
    let breaks = text.as_bytes().iter().take(offset);
    breaks.filter(|b| **b == b'\n').count() + 1
}
