//! What is known of a condition.

/// What is known of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Truth {
    /// It does not hold.
    No,
    /// It is up to the build.
    Unknown,
    /// It holds.
    Yes,
}

impl Truth {
    /// The opposite.
    pub fn negated(self) -> Self {
        match self {
            Self::No => Self::Yes,
            Self::Unknown => Self::Unknown,
            Self::Yes => Self::No,
        }
    }

    pub(super) fn of(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}
