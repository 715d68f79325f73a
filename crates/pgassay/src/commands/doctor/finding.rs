//! What the doctor says of one part of the system.

use serde::Serialize;

/// How a part stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// No server can be launched here.
    Broken,
    /// An assay measures less, or its figures spread more.
    Limited,
    /// Only what is named under `affects` needs it.
    Optional,
    /// It could not be seen.
    Unknown,
    /// Nothing is missing.
    Ok,
}

impl State {
    /// The word before a line of text.
    pub fn word(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Limited => "limited",
            Self::Optional => "optional",
            Self::Unknown => "unknown",
            Self::Ok => "ok",
        }
    }
}

/// One part of the system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// A stable name.
    pub id: &'static str,
    /// How it stands.
    pub state: State,
    /// What was seen.
    pub found: String,
    /// What does not work, or less well.
    pub affects: Option<String>,
    /// The command that mends it, for a shell of root's.
    pub fix: Option<String>,
    /// What else can be done.
    pub advice: Option<String>,
}

impl Finding {
    /// Nothing is missing.
    pub fn ok(id: &'static str, found: impl Into<String>) -> Self {
        Self {
            id,
            state: State::Ok,
            found: found.into(),
            affects: None,
            fix: None,
            advice: None,
        }
    }

    /// Something is missing, with what that means.
    pub fn lacking(
        id: &'static str,
        state: State,
        found: impl Into<String>,
        affects: impl Into<String>,
    ) -> Self {
        Self {
            state,
            affects: Some(affects.into()),
            ..Self::ok(id, found)
        }
    }

    /// With the command that mends it.
    pub fn fixed_by(self, command: impl Into<String>) -> Self {
        Self {
            fix: Some(command.into()),
            ..self
        }
    }

    /// With what else can be done.
    pub fn advised(self, advice: impl Into<String>) -> Self {
        Self {
            advice: Some(advice.into()),
            ..self
        }
    }

    /// As text: a line for what was seen, and one for each thing to say about it.
    pub fn text(&self) -> String {
        let mut text = format!("{:<10}{:<12}{}\n", self.state.word(), self.id, self.found);
        let mut more = |word: &str, what: &Option<String>| {
            if let Some(what) = what {
                text.push_str(&format!("{:22}{word}: {what}\n", ""));
            }
        };
        more("affects", &self.affects);
        more("mend", &self.fix);
        more("or", &self.advice);
        text
    }
}
