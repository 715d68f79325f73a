//! What one file tells by itself. What it means depends on the others: which macros they define,
//! how they declare a field, under which condition they include it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::guards::Region;
use crate::guards::known::Processor;
use crate::types::Ty;

/// What may become a finding.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Which rule.
    pub rule: &'static str,
    /// Line, from 1.
    pub line: u32,
    /// The function, macro or variable around it.
    pub within: Option<String>,
    /// The code, or what was seen of it.
    pub code: String,
    /// Further places of the same rule, function and condition.
    pub more: u32,
    /// The conditions around it.
    pub region: Option<Arc<Region>>,
    /// What else must be so.
    pub when: When,
}

/// What else must be so for a candidate to be a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// Nothing.
    Always,
    /// It is for one kind of processor only: no finding where the condition around asks for the
    /// processor at hand.
    ForProcessor(Option<Processor>),
    /// The field of this name is a plain char behind so many pointers, wherever it is declared.
    CharField(String, i8),
    /// The file maps or protects pages.
    MapsPages,
    /// Both are.
    CharFields(Vec<(String, i8)>),
    /// The place in braces initialises a plain char.
    Initialises(Position),
}

/// A place in the braces that initialise an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The object's type, or that of its elements.
    pub of: String,
    /// Arrays and containers around the elements.
    pub dimensions: u8,
    /// The way from the object to the place.
    pub steps: Vec<Step>,
}

/// A step into braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// To the element of this index.
    Element(usize),
    /// To the member of this name.
    Member(String),
}

/// A member of a struct or class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name; empty where it is not known how many members stand here.
    pub name: String,
    /// Its type, or that of its elements; empty for a pointer.
    pub of: String,
    /// Arrays and containers around the elements.
    pub dimensions: u8,
}

impl Member {
    /// What may be any number of members.
    pub fn unknown() -> Self {
        Self {
            name: String::new(),
            of: String::new(),
            dimensions: 0,
        }
    }
}

impl Position {
    /// Whether it is a plain char by its own type: what is in braces around a scalar is the scalar.
    pub fn is_char(&self) -> bool {
        let steps = self.steps.len();
        let dimensions = usize::from(self.dimensions);
        let elements = self
            .steps
            .iter()
            .all(|step| matches!(step, Step::Element(_)));
        self.of == "char" && elements && (steps == dimensions || dimensions == 0 && steps <= 1)
    }
}

/// An `#include`.
#[derive(Debug, Clone)]
pub struct Include {
    /// The path as it is written.
    pub path: String,
    /// It is in quotes.
    pub quoted: bool,
    /// Line, from 1.
    pub line: u32,
    /// The conditions around it.
    pub region: Option<Arc<Region>>,
}

impl Include {
    /// The last part of its path.
    pub fn last(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// A `#define`.
#[derive(Debug, Clone)]
pub struct Definition {
    /// Line, from 1.
    pub line: u32,
    /// The conditions around it.
    pub region: Option<Arc<Region>>,
}

/// What a file tells.
#[derive(Debug, Default)]
pub struct Facts {
    /// Lines.
    pub lines: u32,
    /// What may become a finding.
    pub candidates: Vec<Candidate>,
    /// Macros that it defines.
    pub definitions: BTreeMap<String, Vec<Definition>>,
    /// Files that it includes.
    pub includes: Vec<Include>,
    /// Members of structs and classes, in order.
    pub members: BTreeMap<String, Vec<Member>>,
    /// Fields that it declares.
    pub fields: BTreeMap<String, BTreeSet<Ty>>,
    /// Processors other than x86 for which it has intrinsics or assembly.
    pub paths: BTreeSet<Processor>,
    /// It includes a header that translates x86 intrinsics (sse2neon, SIMDe).
    pub translates: bool,
    /// It uses the compiler's builtin for population counts.
    pub builtin_popcount: bool,
    /// The macro that keeps it from being included twice.
    pub own_guard: Option<String>,
    /// It maps or protects pages itself.
    pub maps_pages: bool,
    /// Its directives did not match: conditions are not to be relied on.
    pub unbalanced: bool,
}
