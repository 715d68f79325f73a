//! Which relation a block belongs to.

use std::collections::HashMap;

use pgassay_pgwire::{QueryError, Session};

/// A database and a file of a relation in it; database 0 is for relations that all share.
pub type File = (u32, u32);

/// Relations by their files.
#[derive(Debug, Clone, Default)]
pub struct Relations(HashMap<File, Relation>);

/// A relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    /// Its name, with the schema where that says something.
    pub name: String,
    /// Its access method; empty where it has none.
    pub method: String,
}

/// The relations of the connected database.
const QUESTION: &str = "SELECT CASE WHEN n.nspname IN ('pg_catalog', 'public', 'pgassay', 'pg_toast') \
     THEN c.relname::pg_catalog.text ELSE n.nspname || '.' || c.relname END, \
     pg_catalog.pg_relation_filenode(c.oid), CASE WHEN c.relisshared THEN 0 ELSE d.oid END, \
     coalesce(a.amname, '') \
     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     LEFT JOIN pg_catalog.pg_am a ON a.oid = c.relam, pg_catalog.pg_database d \
     WHERE d.datname = pg_catalog.current_database() \
     AND pg_catalog.pg_relation_filenode(c.oid) IS NOT NULL";

impl Relations {
    /// Asks the server.
    ///
    /// # Errors
    /// Where the session breaks or the server refuses.
    pub fn ask(session: &mut Session) -> Result<Self, QueryError> {
        let rows = session.catalog_rows(QUESTION)?;
        let relations = rows.rows.iter().filter_map(|row| {
            let [name, file, database, method] = row.as_slice() else {
                return None;
            };
            let number = |text: &Option<String>| text.as_deref()?.parse::<u32>().ok();
            let relation = Relation {
                name: name.clone()?,
                method: method.clone().unwrap_or_default(),
            };
            Some(((number(database)?, number(file)?), relation))
        });
        Ok(Self(relations.collect()))
    }

    /// The relation of a file.
    pub fn get(&self, file: File) -> Option<&Relation> {
        self.0.get(&file)
    }

    /// Relations as given.
    pub fn of(relations: impl IntoIterator<Item = (File, Relation)>) -> Self {
        Self(relations.into_iter().collect())
    }
}
