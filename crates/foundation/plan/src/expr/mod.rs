//! Expressions as PostgreSQL prints them in plans (ruleutils.c): trees that print as the text they were parsed from.
//!
//! There is no error: what the parser does not know is [`Expr::Raw`], the whole text or an operand of it.

mod parse;
mod print;

use std::collections::BTreeSet;

use pgassay_text::normalise::normalise;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes of an expression that is parsed; of a longer one the text is kept, shortened.
const MOST_TEXT: usize = 2000;

/// An expression, a list of them, or a key of a sort.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A name with what qualifies it, each part as SQL quotes it: `t."A"`, `public.t.*`.
    Column(Vec<String>),
    /// `$1`
    Param(u32),
    /// A literal with its quotes, or a key word that stands for a value: `'a'`, `-1.5`, `NULL`.
    Const(String),
    /// A call of a function: its name as SQL quotes it, its arguments and what stands before each (`, `, ` FROM `).
    Call(Vec<String>, Vec<(&'static str, Expr)>),
    /// `left operator right`; operators of words are among them.
    Op(Box<Expr>, String, Box<Expr>),
    /// An operator before its operand.
    Prefix(String, Box<Expr>),
    /// All of them hold.
    And(Vec<Expr>),
    /// One of them holds.
    Or(Vec<Expr>),
    /// `NOT` of one.
    Not(Box<Expr>),
    /// `IS NULL` and its like, by the words behind `IS`.
    Is(Box<Expr>, &'static str),
    /// `operand::type`
    Cast(Box<Expr>, String),
    /// `ANY (operand)`, or `ALL (operand)`.
    Quantified {
        /// Whether it is `ALL`.
        all: bool,
        /// What is compared with.
        of: Box<Expr>,
    },
    /// A subquery that has a place of its own in the plan.
    SubPlan {
        /// Whether its rows are put into a hash table once.
        hashed: bool,
        /// `SubPlan 1`, `InitPlan 2`; up to 16 bare.
        name: String,
    },
    /// `CASE`: its parts, and the words before each.
    Case(Vec<(&'static str, Expr)>),
    /// `ARRAY[…]`
    Array(Vec<Expr>),
    /// `operand[index]`
    Element(Box<Expr>, Box<Expr>),
    /// `(operand).field`
    Field(Box<Expr>, String),
    /// `operand COLLATE name`
    Collate(Box<Expr>, String),
    /// What is sorted by, and how: `DESC NULLS LAST`.
    Key(Box<Expr>, String),
    /// An expression in parentheses.
    Paren(Box<Expr>),
    /// A list with commas.
    List(Vec<Expr>),
    /// What the parser does not know.
    Raw(String),
}

/// The last part of a qualified name without its quotes, as plans show it: `t` of `public.t`.
pub fn bare_name(name: &str) -> String {
    match Expr::parse(name) {
        Expr::Column(path) => path.last().map(|last| unquoted(last)).unwrap_or_default(),
        _ => name.to_owned(),
    }
}

/// A name without its quotes.
pub fn unquoted(name: &str) -> String {
    match name.strip_prefix('"').and_then(|n| n.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => name.to_owned(),
    }
}

/// The parts of an expression, by `iter` or `iter_mut`.
macro_rules! parts {
    ($of:expr, $iter:ident) => {
        match $of {
            Self::Column(_)
            | Self::Param(_)
            | Self::Const(_)
            | Self::SubPlan { .. }
            | Self::Raw(_) => Vec::new(),
            Self::Call(_, parts) | Self::Case(parts) => {
                parts.$iter().map(|(_, part)| part).collect()
            }
            Self::And(parts) | Self::Or(parts) | Self::Array(parts) | Self::List(parts) => {
                parts.$iter().collect()
            }
            Self::Op(left, _, right) | Self::Element(left, right) => vec![left, right],
            Self::Prefix(_, of)
            | Self::Not(of)
            | Self::Is(of, _)
            | Self::Cast(of, _)
            | Self::Quantified { of, .. }
            | Self::Field(of, _)
            | Self::Collate(of, _)
            | Self::Key(of, _)
            | Self::Paren(of) => vec![of],
        }
    };
}

impl Expr {
    /// The expression of a text.
    pub fn parse(text: &str) -> Self {
        let parsed = parse::parse(text).filter(|expr| expr.to_string() == text);
        parsed.unwrap_or_else(|| Self::Raw(text.to_owned()))
    }

    /// The same without literals: each is a parameter, as each parameter is, numbered from 1. What the parser does not
    /// know has its literals taken out as text.
    #[must_use]
    pub fn redacted(text: &str) -> Self {
        if text.len() > MOST_TEXT || !parse::is_plain(text) {
            return Self::Raw(normalise(text).text);
        }
        let mut values = 0;
        let mut expr = Self::parse(text);
        expr.redact(&mut values);
        expr
    }

    fn redact(&mut self, values: &mut u32) {
        match self {
            Self::Const(text) if parse::is_word(text) => {}
            Self::Const(_) | Self::Param(_) => {
                *values += 1;
                *self = Self::Param(*values);
            }
            Self::Raw(text) => *text = normalise(text).text,
            Self::Cast(_, of) if of.contains('(') => *of = normalise(of).text,
            _ => {}
        }
        for part in self.parts_mut() {
            part.redact(values);
        }
    }

    /// Without the parentheses around all of it.
    pub fn bare(&self) -> &Self {
        match self {
            Self::Paren(inner) => inner.bare(),
            other => other,
        }
    }

    /// Its parts.
    pub fn parts(&self) -> Vec<&Self> {
        parts!(self, iter)
    }

    fn parts_mut(&mut self) -> Vec<&mut Self> {
        parts!(self, iter_mut)
    }

    /// It and all its parts, in the order of the text.
    pub fn walk(&self) -> impl Iterator<Item = &Self> {
        let mut left = vec![self];
        std::iter::from_fn(move || {
            let next = left.pop()?;
            left.extend(next.parts().into_iter().rev());
            Some(next)
        })
    }

    /// The parts that AND joins, all of which must hold.
    pub fn conjuncts(&self) -> Vec<&Self> {
        match self.bare() {
            Self::And(parts) => parts.iter().flat_map(Self::conjuncts).collect(),
            one => vec![one],
        }
    }

    /// The alternatives that OR joins.
    pub fn disjuncts(&self) -> Vec<&Self> {
        match self.bare() {
            Self::Or(parts) => parts.iter().flat_map(Self::disjuncts).collect(),
            one => vec![one],
        }
    }

    /// The first operation with this operator, of the whole or a part: its operands.
    pub fn operands(&self, operator: &str) -> Option<(&Self, &Self)> {
        self.walk().find_map(|part| match part {
            Self::Op(left, of, right) if of == operator => Some((&**left, &**right)),
            _ => None,
        })
    }

    /// The name of the column that it is and no more, as SQL quotes it, with or without parentheses.
    pub fn column(&self) -> Option<&str> {
        match self.bare() {
            Self::Column(path) => path.last().map(String::as_str),
            _ => None,
        }
    }

    /// The names of its columns without quotes, each with what qualifies it.
    fn names(&self) -> Vec<(Option<String>, String)> {
        let of = |path: &[String]| {
            let (last, before) = path.split_last()?;
            Some((before.last().map(|name| unquoted(name)), unquoted(last)))
        };
        let names = self.walk().flat_map(|part| match part {
            Self::Column(path) => vec![path.clone()],
            Self::Raw(text) => parse::names(text, false),
            _ => Vec::new(),
        });
        names.filter_map(|path| of(&path)).collect()
    }

    /// The names of its columns, without quotes.
    pub fn columns(&self) -> BTreeSet<String> {
        self.names().into_iter().map(|(_, name)| name).collect()
    }

    /// The relations that it names columns of, by their aliases without quotes: `o` and `c` of `(o.a = $1) OR (c.b = $2)`.
    pub fn aliases(&self) -> BTreeSet<String> {
        self.names().into_iter().filter_map(|(of, _)| of).collect()
    }

    /// The names of the functions that it calls, as often as it does, without schema and quotes.
    pub fn calls(&self) -> Vec<String> {
        let calls = self.walk().flat_map(|part| match part {
            Self::Call(path, _) => vec![path.clone()],
            Self::Raw(text) => parse::names(text, true),
            _ => Vec::new(),
        });
        calls
            .filter_map(|path| path.last().map(|name| unquoted(name)))
            .collect()
    }

    /// The numbers of its parameters.
    pub fn params(&self) -> BTreeSet<u32> {
        let of = |part: &Self| match part {
            Self::Param(number) => vec![*number],
            Self::Raw(text) => parse::params(text),
            _ => Vec::new(),
        };
        self.walk().flat_map(of).collect()
    }

    /// The subqueries that it asks, and whether each is hashed.
    pub fn subplans(&self) -> Vec<(bool, &str)> {
        let of = |part| match part {
            &Self::SubPlan { hashed, ref name } => vec![(hashed, name.as_str())],
            Self::Raw(text) => parse::subplans(text),
            _ => Vec::new(),
        };
        self.walk().flat_map(of).collect()
    }

    /// The same with its columns as an index has them: those that are `own` without what qualifies them.
    #[must_use]
    pub fn unqualified(&self, own: impl Fn(&str) -> bool + Copy) -> Self {
        let mut expr = self.clone();
        let mut left = vec![&mut expr];
        while let Some(part) = left.pop() {
            if let Self::Column(path) = part
                && let Some(last) = path.last().filter(|last| own(&unquoted(last)))
            {
                *path = vec![last.clone()];
            }
            left.extend(part.parts_mut());
        }
        expr
    }
}

impl From<&str> for Expr {
    fn from(text: &str) -> Self {
        Self::parse(text)
    }
}

impl From<String> for Expr {
    fn from(text: String) -> Self {
        Self::parse(&text)
    }
}

/// JSON has it as its text.
impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Expr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

crate::names::string_schema!(Expr);

#[cfg(test)]
mod tests;
