//! Questions to the tables, in SQL without functions that only one engine has.

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    /// A name for it.
    pub name: &'static str,
    /// The SQL, its first line a comment that says what it answers.
    pub sql: &'static str,
}

impl Query {
    /// What it answers.
    pub fn question(&self) -> &'static str {
        let first = self.sql.lines().next().unwrap_or_default();
        first.trim_start_matches("-- ")
    }
}

macro_rules! query {
    ($name:literal) => {
        Query {
            name: $name,
            sql: include_str!(concat!("../queries/", $name, ".sql")),
        }
    };
}

/// The questions that docs/records.md answers.
pub const QUERIES: &[Query] = &[
    query!("versions"),
    query!("changes"),
    query!("latest"),
    query!("settings"),
    query!("hosts"),
    query!("lost-trials"),
    query!("pairs"),
    query!("transfers"),
    query!("processors"),
    query!("noise"),
];
