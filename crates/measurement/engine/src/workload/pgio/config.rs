//! `pgio.conf`: PGIO's settings as its users have them, a file of shell
//! assignments. It is read, not run: what is no assignment is refused by line.

use std::collections::BTreeMap;

use anyhow::bail;
use pgassay_model::Failure;
use pgassay_model::pgio::PgioPlan;

use super::arithmetic;

/// The smallest table, as PGIO has it.
pub const FEWEST_ROWS: u64 = 1024;

/// What a run of PGIO is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// UPDATE_PCT: share of operations that update, 0 to 100.
    pub update_pct: u32,
    /// RUN_TIME in seconds.
    pub run_time: u64,
    /// NUM_SCHEMAS: the number of tables.
    pub tables: u32,
    /// NUM_THREADS: sessions for each table, and loaders at once.
    pub threads: u32,
    /// WORK_UNIT: width of a SELECT's key range.
    pub work_unit: u64,
    /// UPDATE_WORK_UNIT: width of an UPDATE's.
    pub update_work_unit: u64,
    /// SCALE in rows, which are blocks of a table.
    pub rows: u64,
    /// SCALE as it was written.
    pub scale: String,
    /// CONNECT_STRING, shown and not used: the target says where the server is.
    pub connect_string: String,
}

impl Default for Config {
    /// As shipped with PGIO 1.0, shorter: 24 seconds, tables of 256 MiB.
    fn default() -> Self {
        Self {
            update_pct: 0,
            run_time: 24,
            tables: 4,
            threads: 1,
            work_unit: 255,
            update_work_unit: 8,
            rows: 32_768,
            scale: "256M".to_owned(),
            connect_string: "pgassay".to_owned(),
        }
    }
}

/// PGIO's keys; DBNAME and CREATE_BASE_TABLE have nothing to do here.
const KEYS: &[&str] = &[
    "UPDATE_PCT",
    "RUN_TIME",
    "NUM_SCHEMAS",
    "NUM_THREADS",
    "WORK_UNIT",
    "UPDATE_WORK_UNIT",
    "SCALE",
    "DBNAME",
    "CONNECT_STRING",
    "CREATE_BASE_TABLE",
];

impl Config {
    /// What a recorded plan was made from, as far as it bears on what is done.
    pub fn of_plan(plan: &PgioPlan) -> Self {
        Self {
            update_pct: plan.update_pct,
            tables: plan.tables,
            work_unit: plan.work_unit,
            update_work_unit: plan.update_work_unit,
            rows: plan.rows,
            scale: plan.scale.clone(),
            connect_string: plan.connect_string.clone(),
            ..Self::default()
        }
    }

    /// Reads the text of a pgio.conf; what it does not set is PGIO's default.
    /// The second value names what was found and means nothing.
    ///
    /// # Errors
    /// A line that is no assignment, or an impossible value, by the file's name
    /// and its line.
    pub fn parse(file: &str, text: &str) -> anyhow::Result<(Self, Vec<String>)> {
        // What PGIO itself has where a file says nothing.
        let mut config = Self {
            run_time: 300,
            tables: 1,
            update_work_unit: 255,
            rows: 128 << 17,
            scale: "128G".to_owned(),
            connect_string: "pg10".to_owned(),
            ..Self::default()
        };
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        let mut unknown = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let Some((key, value)) = assignment(line).map_err(|why| at(file, number, &why))? else {
                continue;
            };
            let value = expand(value, &known).map_err(|why| at(file, number, &why))?;
            known.insert(key.to_owned(), value.clone());
            if !KEYS.contains(&key) {
                unknown.push(format!("line {number}: {key} is no setting of PGIO"));
                continue;
            }
            config
                .set(key, &value)
                .map_err(|why| at(file, number, &why))?;
        }
        config.check()?;
        Ok((config, unknown))
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let number = |least: u64, most: u64| -> Result<u64, String> {
            match value.parse::<u64>() {
                Ok(n) if (least..=most).contains(&n) => Ok(n),
                Ok(_) => Err(format!("{key}={value}: between {least} and {most}")),
                Err(_) => Err(format!("{key}={value}: not a whole number")),
            }
        };
        match key {
            "UPDATE_PCT" => self.update_pct = number(0, 100)? as u32,
            "RUN_TIME" => self.run_time = number(1, 10_000_000)?,
            "NUM_SCHEMAS" => self.tables = number(1, 8192)? as u32,
            "NUM_THREADS" => self.threads = number(1, 100_000)? as u32,
            "WORK_UNIT" => self.work_unit = number(0, 1 << 32)?,
            "UPDATE_WORK_UNIT" => self.update_work_unit = number(0, 1 << 32)?,
            "SCALE" => {
                self.rows = rows(value)?;
                self.scale = value.to_owned();
            }
            "CONNECT_STRING" => self.connect_string = value.to_owned(),
            _ => {}
        }
        Ok(())
    }

    /// Holds the values against each other.
    ///
    /// # Errors
    /// Which two contradict each other.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.rows < FEWEST_ROWS {
            bail!(Failure::usage(format!(
                "SCALE={}: a table has at least {FEWEST_ROWS} blocks of 8 KiB",
                self.scale
            )));
        }
        if self.rows >= u64::from(u32::MAX) {
            bail!(Failure::usage(format!(
                "SCALE={}: a table of PostgreSQL has at most 32 TB",
                self.scale
            )));
        }
        for (key, width) in [
            ("WORK_UNIT", self.work_unit),
            ("UPDATE_WORK_UNIT", self.update_work_unit),
        ] {
            if width >= self.rows {
                bail!(Failure::usage(format!(
                    "{key}={width}: the table has only {} rows",
                    self.rows
                )));
            }
        }
        Ok(())
    }

    /// Bytes of all tables together.
    pub fn bytes(&self) -> u64 {
        u64::from(self.tables) * self.rows * 8192
    }

    /// Sessions in all.
    pub fn sessions(&self) -> u32 {
        self.tables.saturating_mul(self.threads)
    }
}

fn at(file: &str, line: usize, why: &str) -> anyhow::Error {
    Failure::usage(format!("{file}, line {line}: {why}"))
        .with_remedy("the file is read, not run by a shell: KEY=value, quotes, comments, $(( ))")
        .into()
}

/// The key and the raw value of a line; none of an empty one or a comment.
fn assignment(line: &str) -> Result<Option<(&str, &str)>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
    let wrong = || format!("`{line}` is no assignment");
    let (key, value) = line.split_once('=').ok_or_else(wrong)?;
    let named = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !named {
        return Err(wrong());
    }
    Ok(Some((key, value)))
}

/// What a shell would make of the value: quotes, variables, arithmetic, and a
/// comment after it.
fn expand(value: &str, known: &BTreeMap<String, String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = value;
    let mut quote: Option<char> = None;
    while let Some(c) = rest.chars().next() {
        if quote == Some('\'') {
            rest = &rest[c.len_utf8()..];
            match c {
                '\'' => quote = None,
                other => out.push(other),
            }
            continue;
        }
        if let Some(inner) = rest.strip_prefix("$((") {
            let end = inner
                .find("))")
                .ok_or_else(|| format!("`{value}`: $(( without its ))"))?;
            // Inner parentheses may end together with the outer ones.
            let mut end = end;
            while inner[..end].matches('(').count() > inner[..end].matches(')').count()
                && inner[end + 1..].starts_with("))")
            {
                end += 1;
            }
            out.push_str(&arithmetic::evaluate(&inner[..end], known)?.to_string());
            rest = &inner[end + 2..];
            continue;
        }
        if let Some(after) = rest.strip_prefix('$') {
            let (name, after) = match after.strip_prefix('{') {
                Some(braced) => braced
                    .split_once('}')
                    .ok_or_else(|| format!("`{value}`: ${{ without its }}"))?,
                None => {
                    let end = after
                        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                        .unwrap_or(after.len());
                    after.split_at(end)
                }
            };
            let found = known.get(name);
            out.push_str(found.ok_or_else(|| format!("`{value}`: {name} is not set before"))?);
            rest = after;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '"' => quote = if quote.is_some() { None } else { Some('"') },
            '\'' if quote.is_none() => quote = Some('\''),
            '`' => return Err(format!("`{value}`: commands are not run")),
            c if c.is_whitespace() && quote.is_none() => {
                let after = rest.trim_start();
                if after.is_empty() || after.starts_with('#') {
                    return Ok(out);
                }
                return Err(format!("`{value}`: something follows the value"));
            }
            other => out.push(other),
        }
    }
    match quote {
        Some(_) => Err(format!("`{value}`: a quote is not closed")),
        None => Ok(out),
    }
}

/// SCALE: blocks of 8 KiB, or a size with M, G or T.
fn rows(value: &str) -> Result<u64, String> {
    let wrong = || format!("SCALE={value}: a number of blocks, or of M, G or T");
    let value = value.trim();
    let (digits, factor) = match value.chars().last() {
        Some('M') => (&value[..value.len() - 1], 1_u64 << 20),
        Some('G') => (&value[..value.len() - 1], 1 << 30),
        Some('T') => (&value[..value.len() - 1], 1 << 40),
        _ => (value, 8192),
    };
    let count: u64 = digits.trim().parse().map_err(|_| wrong())?;
    let bytes = count.checked_mul(factor).ok_or_else(wrong)?;
    Ok(bytes / 8192)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_as_shipped() {
        let text = "UPDATE_PCT=0\nRUN_TIME=120\nNUM_SCHEMAS=4\nNUM_THREADS=2\nWORK_UNIT=255\n\
                    UPDATE_WORK_UNIT=8\nSCALE=1G\n\nDBNAME=pg10\nCONNECT_STRING=\"pg10\"\n\n\
                    CREATE_BASE_TABLE=TRUE\n";
        let (config, unknown) = Config::parse("pgio.conf", text).unwrap();
        assert!(unknown.is_empty());
        assert_eq!(
            (config.tables, config.threads, config.sessions()),
            (4, 2, 8)
        );
        assert_eq!(config.rows, 131_072);
        assert_eq!(config.bytes(), 4 << 30);
        assert_eq!(config.connect_string, "pg10");
    }

    #[test]
    fn what_is_seen_in_the_wild() {
        let text = "# a comment\nexport RUN_TIME=$(( 10 * 60 ))   # ten minutes\n\
                    NUM_SCHEMAS='4'\nNUM_THREADS=$((NUM_SCHEMAS/2))\nSCALE=$(( (1 + 1) * 512 ))M\n\
                    UPDATE_PCT=60\nCONNECT_STRING=\"host=$HOSTS\"x\n";
        let why = Config::parse("pgio.conf", text).unwrap_err().to_string();
        assert!(why.contains("line 7") && why.contains("HOSTS"), "{why}");
        let text = text.replace("$HOSTS", "${NUM_SCHEMAS}");
        let (config, _) = Config::parse("pgio.conf", &text).unwrap();
        assert_eq!(
            (config.run_time, config.tables, config.threads),
            (600, 4, 2)
        );
        assert_eq!((config.rows, config.update_pct), (131_072, 60));
        assert_eq!(config.connect_string, "host=4x");
    }

    #[test]
    fn what_can_not_be_says_where_and_why() {
        for (text, line, word) in [
            ("UPDATE_PCT=101", "line 1", "between 0 and 100"),
            ("\nUPDATE_PCT=-1", "line 2", "whole number"),
            ("RUN_TIME=0", "line 1", "between"),
            ("SCALE=12X", "line 1", "SCALE"),
            ("SCALE=99999999999T", "line 1", "SCALE"),
            ("if true; then", "line 1", "no assignment"),
            ("RUN_TIME=`date`", "line 1", "commands"),
            ("RUN_TIME=$((1/0))", "line 1", "zero"),
            ("RUN_TIME=$((1+", "line 1", "))"),
            ("RUN_TIME=\"5", "line 1", "quote"),
            ("RUN_TIME=5 6", "line 1", "follows"),
            ("SCALE=100", "SCALE", "1024"),
            ("SCALE=1024\nWORK_UNIT=1024", "WORK_UNIT", "1024 rows"),
            ("SCALE=32T", "SCALE", "32 TB"),
        ] {
            let why = format!("{:#}", Config::parse("pgio.conf", text).unwrap_err());
            assert!(why.contains(line) && why.contains(word), "{text:?}: {why}");
        }
        let (_, unknown) = Config::parse("pgio.conf", "SCALE=1G\nHAMMER=1\n").unwrap();
        assert_eq!(unknown, ["line 2: HAMMER is no setting of PGIO"]);
    }
}
