//! What lies in our schema: read from the catalog, and noted in the schema's comment.

use anyhow::Context;
use pgassay_pgwire::{ResultSet, Session};

/// The schema that everything of pgassay lies in.
pub const SCHEMA: &str = "pgassay";

/// What was made, by OID: only this is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// OID of the schema.
    pub schema: u32,
    /// OIDs of the tables.
    pub tables: Vec<u32>,
    /// OIDs of functions and procedures.
    pub routines: Vec<u32>,
}

impl Made {
    /// As it is written into the schema's comment, for a later run to find.
    pub fn comment(&self) -> String {
        let list = |oids: &[u32]| {
            let oids: Vec<String> = oids.iter().map(u32::to_string).collect();
            oids.join(" ")
        };
        let tables = list(&self.tables);
        let routines = match self.routines.as_slice() {
            [] => String::new(),
            some => format!("; routines {}", list(some)),
        };
        format!(
            "made by pgassay; schema {}; tables {tables}{routines}",
            self.schema
        )
    }

    /// Reads the comment back; none where another user wrote it.
    pub fn from_comment(comment: &str) -> Option<Self> {
        let rest = comment.strip_prefix("made by pgassay; schema ")?;
        let (schema, rest) = rest.split_once("; tables ")?;
        let (tables, routines) = rest.split_once("; routines ").unwrap_or((rest, ""));
        let list = |oids: &str| -> Option<Vec<u32>> {
            let oids: Result<Vec<u32>, _> = oids.split_ascii_whitespace().map(str::parse).collect();
            oids.ok()
        };
        Some(Self {
            schema: schema.parse().ok()?,
            tables: list(tables)?,
            routines: list(routines)?,
        })
    }
}

/// Writes into the schema's comment what lies in it, so that a later run can remove what a killed
/// one left; to be called in the transaction that made it.
pub(super) fn note(session: &mut Session) -> anyhow::Result<Made> {
    let made = look(session)?;
    let comment = made.comment();
    session.execute(&format!("COMMENT ON SCHEMA {SCHEMA} IS '{comment}'"))?;
    Ok(made)
}

/// What lies in our schema, by OID.
fn look(session: &mut Session) -> anyhow::Result<Made> {
    let oid = |text: Option<&str>| {
        text.and_then(|t| t.parse().ok())
            .context("an OID is missing")
    };
    let schema = session.catalog_rows(&format!(
        "SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = '{SCHEMA}'"
    ))?;
    let tables = session.catalog_rows(&format!(
        "SELECT c.oid FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = '{SCHEMA}' AND c.relkind IN ('r', 'p') ORDER BY c.oid"
    ))?;
    let routines = session.catalog_rows(&format!(
        "SELECT p.oid FROM pg_catalog.pg_proc p \
         JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
         WHERE n.nspname = '{SCHEMA}' ORDER BY p.oid"
    ))?;
    let oids = |found: &ResultSet| -> anyhow::Result<Vec<u32>> {
        let first = |row: &Vec<Option<String>>| oid(row.first().and_then(Option::as_deref));
        found.rows.iter().map(first).collect()
    };
    Ok(Made {
        schema: oid(schema.first("oid"))?,
        tables: oids(&tables)?,
        routines: oids(&routines)?,
    })
}

#[cfg(test)]
mod tests {
    use super::Made;

    #[test]
    fn the_comment_says_what_to_remove() {
        let made = Made {
            schema: 16384,
            tables: vec![16385, 16388],
            routines: vec![],
        };
        assert_eq!(
            made.comment(),
            "made by pgassay; schema 16384; tables 16385 16388"
        );
        assert_eq!(Made::from_comment(&made.comment()), Some(made.clone()));
        let with_routines = Made {
            routines: vec![16400, 16401],
            ..made
        };
        let read = Made::from_comment(&with_routines.comment());
        assert_eq!(read, Some(with_routines));
        for foreign in ["", "my schema", "made by pgassay; schema x; tables 1"] {
            assert_eq!(Made::from_comment(foreign), None);
        }
    }
}
