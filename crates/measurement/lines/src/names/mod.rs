//! What PostgreSQL calls an address in its shared memory.
//!
//! The server itself says where things are: its index of shared memory, a hash table at the
//! beginning of the segment, lists the large structures; exported variables lead to the rest
//! (`ProcGlobal`, `MainLWLockArray`, `MyProc`); and what lies within is told by the layouts of the
//! release ([`layout`]), each checked against what stands in memory before it is believed.

pub mod areas;
pub mod hash;
pub mod layout;
mod locks;
pub mod memory;
mod region;
pub mod relations;
mod resolve;
mod sessions;
pub mod survey;

pub use survey::{Session, Survey};

/// What an address is called.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// The structure, in PostgreSQL's words.
    pub structure: String,
    /// Which of several; empty where there is one.
    pub element: String,
    /// The member; empty where it is not known.
    pub field: String,
    /// What it is counted with: elements of one kind.
    pub group: String,
    /// Whether the memory has a name at all.
    pub known: bool,
    /// Where the same part of other sessions lies, if this is the session's own.
    pub own: Option<Own>,
}

/// A part of an array of which each session has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Own {
    /// Where the array begins.
    pub base: u64,
    /// Bytes from one session's part to the next.
    pub stride: u64,
    /// How many there are to share among the sessions, where there are fewer than sessions.
    pub shared_by: Option<u64>,
}

impl Name {
    /// Memory of which nothing is known but where it lies.
    pub fn unknown(place: impl Into<String>) -> Self {
        let structure = place.into();
        Self {
            group: structure.clone(),
            structure,
            element: String::new(),
            field: String::new(),
            known: false,
            own: None,
        }
    }

    /// The same in one line: structure, element and member.
    pub fn line(&self) -> String {
        let mut text = self.structure.clone();
        if !self.element.is_empty() {
            text = format!("{text} {}", self.element);
        }
        if !self.field.is_empty() {
            text = format!("{text}: {}", self.field);
        }
        text
    }

    /// Structure and element, without the member.
    pub fn whole(&self) -> String {
        match self.element.as_str() {
            "" => self.structure.clone(),
            element => format!("{} {element}", self.structure),
        }
    }
}
