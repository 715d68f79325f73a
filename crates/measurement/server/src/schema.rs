//! The schema of somebody's database without its data, as text that can be read.

use std::fs;

use super::TargetError;
use super::copies::Wanted;
use super::database::Database;
use super::original::{Original, unreachable, without};
use super::scratch::{Home, Scratch};
use super::tools::{self, Tools, name_original};

/// What begins an object in pg_dump's text.
const HEADER: &str = "--\n-- Name: ";

/// A schema, in the two halves between which there is data.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    /// Tables, types, functions and what else there is before data.
    pub before: String,
    /// Indexes, constraints and triggers.
    pub after: String,
    /// What its database is made with.
    pub database: Database,
}

impl Schema {
    /// Has pg_dump write it.
    ///
    /// # Errors
    /// Where the database can't be reached or read, or there is no pg_dump that is new enough.
    pub fn take(wanted: &Wanted<'_>) -> Result<Self, TargetError> {
        let Original {
            conninfo,
            shown,
            version,
            mut database,
            session,
        } = Original::open(wanted.original)?;
        drop(session);
        database.without_own_settings();
        let tools = Tools::for_server(&Tools::all(wanted.installations), version)?;
        let home = Home::make(&Scratch::open(wanted.scratch)?, None)?;
        let section = |name: &str| {
            let file = home.data().join(name);
            let mut command = without(tools.command("pg_dump"));
            command
                .args(["--schema-only", "--no-comments"])
                .arg(format!("--section={name}"))
                .arg(format!("--file={}", file.display()));
            let _passfile = name_original(&mut command, wanted.original, &conninfo, &home.data())?;
            let (ended_well, said) = tools::run(command, &home.log(), wanted.stop)?;
            match ended_well {
                true => fs::read_to_string(&file)
                    .map_err(|error| TargetError::place(&file, "can't be read", &error)),
                false => Err(unreachable(
                    &shown,
                    &format!("pg_dump can't read the schema: {}", said.join("; ")),
                )),
            }
        };
        Ok(Self {
            before: section("pre-data")?,
            after: section("post-data")?,
            database,
        })
    }
}

/// A schema's text object by object, so that what can't be made does not keep others from being made: the name of each
/// and its statements. The first is what holds for all.
pub fn objects(text: &str) -> Vec<(String, String)> {
    // From releases of 2025 on pg_dump's text begins and ends with commands of psql.
    let is_sql = |line: &&str| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict");
    let text: String = text
        .lines()
        .filter(is_sql)
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut objects = Vec::new();
    for (at, part) in text.split(HEADER).enumerate() {
        let name = match at {
            0 => String::new(),
            _ => part
                .lines()
                .next()
                .unwrap_or_default()
                .split("; Schema: ")
                .next()
                .unwrap_or_default()
                .replace("; Type: ", ", "),
        };
        let header = if at == 0 { "" } else { "-- " };
        objects.push((name, format!("{header}{part}")));
    }
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_comes_apart_by_its_objects() {
        let text = "\\restrict abc\n--\n-- PostgreSQL database dump\n--\nSET x = 1;\n\n--\n-- Name: t; Type: TABLE; Schema: public; Owner: -\n--\n\n\
                    CREATE TABLE public.t (a int);\n\n--\n-- Name: f(); Type: FUNCTION; Schema: public; Owner: -\n--\n\n\
                    CREATE FUNCTION f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; END;\n\\unrestrict abc\n";
        let objects = objects(text);
        let names: Vec<&str> = objects.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["", "t, TABLE", "f(), FUNCTION"]);
        assert!(objects[0].1.contains("SET x = 1;") && !objects[0].1.contains("restrict"));
        assert!(
            objects[1].1.starts_with("-- t; Type")
                && objects[1].1.contains("CREATE TABLE public.t (a int);")
        );
        assert!(objects[2].1.contains("SELECT 1; END;") && !objects[2].1.contains("unrestrict"));
    }
}
