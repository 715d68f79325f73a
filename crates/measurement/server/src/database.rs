//! An empty database like another: its encoding, its locale, its sessions' settings.

use pgassay_pgwire::Session;
use pgassay_text::quote::{quote_literal, quoted_ident};
use serde::{Deserialize, Serialize};

/// What a copy's database is made with.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub struct Database {
    /// Its name.
    pub name: String,
    encoding: String,
    collate: String,
    ctype: String,
    /// Settings of the database and of the role that was named: `search_path` and the like.
    settings: Vec<(String, String)>,
}

/// What came of restoring.
#[derive(Debug, Clone, Default)]
pub struct Restored {
    /// The database.
    pub database: String,
    /// What is not as in the original, in sentences.
    pub differs: Vec<String>,
}

impl Database {
    pub(super) fn of(session: &mut Session) -> Result<Self, pgassay_pgwire::QueryError> {
        let rows = session.catalog_rows(
            "SELECT datname, pg_catalog.pg_encoding_to_char(encoding), datcollate, datctype \
             FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()",
        )?;
        let of = |column: &str| rows.first(column).unwrap_or_default().to_owned();
        let mut database = Self {
            name: of("datname"),
            encoding: of("pg_encoding_to_char"),
            collate: of("datcollate"),
            ctype: of("datctype"),
            settings: Vec::new(),
        };
        // Every name in it is PostgreSQL's; a question that sets search_path for itself would not see what
        // the database sets.
        let settings = session.rows(
            "SELECT name, setting FROM pg_catalog.pg_settings WHERE source OPERATOR(pg_catalog.=) \
             ANY (ARRAY['database', 'user', 'database user']::pg_catalog.text[])",
        )?;
        for row in &settings.rows {
            if let [Some(name), Some(value)] = row.as_slice() {
                database.settings.push((name.clone(), value.clone()));
            }
        }
        Ok(database)
    }

    /// Makes it empty. A locale that this machine lacks becomes C, which is said.
    ///
    /// # Errors
    /// Where the server makes none.
    pub fn create(
        &self,
        session: &mut Session,
        restored: &mut Restored,
    ) -> Result<(), pgassay_pgwire::QueryError> {
        let statement = |collate: &str, ctype: &str| {
            format!(
                "CREATE DATABASE {} TEMPLATE template0 ENCODING {} LC_COLLATE {} LC_CTYPE {}",
                quoted_ident(&self.name),
                quote_literal(&self.encoding),
                quote_literal(collate),
                quote_literal(ctype)
            )
        };
        if let Err(error) = session.execute(&statement(&self.collate, &self.ctype)) {
            if error.is_fatal() {
                return Err(error);
            }
            session.execute(&statement("C", "C"))?;
            restored.differs.push(format!(
                "the copy sorts and compares texts by C: {} is not on this machine",
                self.collate
            ));
        }
        Ok(())
    }

    /// Keeps PostgreSQL's own settings only: those of applications may be secrets.
    pub(super) fn without_own_settings(&mut self) {
        self.settings.retain(|(name, _)| !name.contains('.'));
    }

    /// Gives its sessions the settings of the original's.
    pub fn set(&self, session: &mut Session, restored: &mut Restored) {
        for (name, value) in &self.settings {
            // As a value: what a list's names are stays the server's to say.
            let (name_text, value_text) = (quote_literal(name), quote_literal(value));
            let set = format!("SELECT pg_catalog.set_config({name_text}, {value_text}, false)");
            let keep = format!(
                "ALTER DATABASE {} SET {} FROM CURRENT",
                quoted_ident(&self.name),
                name.split('.')
                    .map(quoted_ident)
                    .collect::<Vec<_>>()
                    .join(".")
            );
            let done = session.execute(&set).and_then(|()| session.execute(&keep));
            if let Err(error) = done {
                restored
                    .differs
                    .push(format!("{name} is not {value} in the copy: {error}"));
            }
        }
        session.execute("RESET ALL").ok();
    }
}
