//! Two configurations, and the settings in which they differ.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::bail;
use pgassay_analysis::search::document::Difference;
use pgassay_model::Failure;
use pgassay_pgwire::Conninfo;
use pgassay_server::settings::Settings;

use crate::cli::bisect::BisectArgs;
use crate::commands::record::shown;
use crate::commands::subject::explain;
use crate::terminal::Terminal;

/// The word for a configuration in which nothing is set.
const DEFAULT: &str = "default";

/// Settings by name, in lower case.
type Config = BTreeMap<String, String>;

/// What a running server was configured with: files, ALTER SYSTEM, ALTER DATABASE and ROLE, as its
/// sessions see it.
const CONFIGURED: &str = "SELECT name, pg_catalog.current_setting(name) FROM pg_catalog.pg_settings \
    WHERE source IN ('configuration file', 'command line', 'global', 'database', 'user', \
    'database user') AND context <> 'internal'";

/// What both configurations set alike, and in what they differ.
pub struct Configs {
    /// `name=value` of those that both have.
    pub common: Vec<String>,
    /// The others, by name.
    pub differences: Vec<Difference>,
}

/// Reads both configurations and finds the differences.
///
/// # Errors
/// Where one can't be read, or nothing differs.
pub fn configs(args: &BisectArgs, terminal: &mut Terminal) -> anyhow::Result<Configs> {
    let [a, b] = args.subjects.as_slice() else {
        bail!(
            Failure::usage("bisect needs two configurations")
                .with_remedy("pgassay bisect old/postgresql.conf new/postgresql.conf")
        );
    };
    let of = |given: &str, flag: &str, own: &[String]| -> anyhow::Result<Config> {
        let mut config = read(given)?;
        for (flag, typed) in [(flag, own), ("--set", &args.settings)] {
            let typed = Settings::parse(flag, typed).map_err(explain)?;
            config.extend(
                typed
                    .iter()
                    .map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned())),
            );
        }
        Ok(config)
    };
    let mut a = of(a, "--set-a", &args.set_a)?;
    let mut b = of(b, "--set-b", &args.set_b)?;
    let ignored = |name: &String| args.ignore.iter().any(|i| i.eq_ignore_ascii_case(name));
    let mut left_out = Vec::new();
    for config in [&mut a, &mut b] {
        config.retain(|name, value| {
            let ours = Settings::parse("--set", &[format!("{name}={value}")]).is_err();
            if ours {
                left_out.push(name.clone());
            }
            !ours && !ignored(name)
        });
    }
    left_out.sort();
    left_out.dedup();
    if !left_out.is_empty() {
        terminal.announce(&format!(
            "left out, as a launched server has its own: {}",
            left_out.join(", ")
        ));
    }
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort();
    names.dedup();
    let mut configs = Configs {
        common: Vec::new(),
        differences: Vec::new(),
    };
    for name in names {
        match (a.get(name), b.get(name)) {
            (Some(x), Some(y)) if x == y => configs.common.push(format!("{name}={x}")),
            (x, y) => configs.differences.push(Difference {
                name: name.clone(),
                a: x.cloned(),
                b: y.cloned(),
            }),
        }
    }
    if configs.differences.is_empty() {
        bail!(
            Failure::usage("the two configurations set the same: there is nothing to search")
                .with_remedy("pgassay compare measures whether two servers differ")
        );
    }
    Ok(configs)
}

fn read(given: &str) -> anyhow::Result<Config> {
    if given == DEFAULT {
        return Ok(Config::new());
    }
    let path = Path::new(given);
    if path.is_file() {
        let bytes = std::fs::read(path)
            .map_err(|error| Failure::usage(format!("{given} can't be read: {error}")))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Failure::usage(format!("{given} is not UTF-8")))?;
        return parse(&text)
            .map_err(|(line, why)| Failure::usage(format!("{given}, line {line}: {why}")).into());
    }
    if !Conninfo::looks_like(given) {
        bail!(
            Failure::usage(format!("{given}: no such file")).with_remedy(format!(
                "a configuration is a postgresql.conf file, the conninfo of a running server, or \
                 `{DEFAULT}`; what is launched with it is for --server"
            ))
        );
    }
    let conninfo = Conninfo::parse(given).map_err(|error| Failure::usage(error.to_string()))?;
    let told = |error: String| Failure::target(format!("{}: {error}", shown(given)));
    let mut session = pgassay_pgwire::connect(&conninfo.with_application_name("pgassay"))
        .map_err(|error| told(error.to_string()))?;
    let rows = session
        .rows(CONFIGURED)
        .map_err(|error| told(error.to_string()))?;
    let pairs = rows.rows.iter().filter_map(|row| match row.as_slice() {
        [Some(name), Some(value)] => Some((name.to_ascii_lowercase(), value.clone())),
        _ => None,
    });
    Ok(pairs.collect())
}

/// The settings of a postgresql.conf; a later line of the same name replaces an earlier one. The
/// grammar is that of the server's guc-file.l.
///
/// # Errors
/// The number of the first line that is none, and why.
fn parse(text: &str) -> Result<Config, (usize, String)> {
    let mut config = Config::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |why: &str| (number + 1, why.to_owned());
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let word = |c: char| c.is_ascii_alphanumeric() || "_.$".contains(c);
        let end = line.find(|c| !word(c)).unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        let rest = rest.trim_start();
        let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
        if name.is_empty() {
            return Err(wrong("no setting begins so"));
        }
        if ["include", "include_dir", "include_if_exists"].contains(&name) {
            return Err(wrong(
                "include is not followed: name the file that holds the settings, or the running \
                 server",
            ));
        }
        let (value, after) = match rest.strip_prefix('\'') {
            Some(quoted) => unquoted(quoted).ok_or_else(|| wrong("a quote is not closed"))?,
            None => {
                let end = rest
                    .find(|c: char| c.is_whitespace() || c == '#')
                    .unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        let after = after.trim_start();
        if !after.is_empty() && !after.starts_with('#') {
            return Err(wrong("something follows the value"));
        }
        if value.is_empty() && !rest.starts_with('\'') {
            return Err(wrong("a value is missing"));
        }
        config.insert(name.to_ascii_lowercase(), value);
    }
    Ok(config)
}

/// The text up to the closing quote, and what follows it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if text[at + 1..].starts_with('\'') => {
                chars.next();
                value.push('\'');
            }
            '\'' => return Some((value, &text[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_file_is_read_as_the_server_reads_it() {
        let text = "# comment\nwork_mem = 4MB # more\nWORK_MEM '8MB'\n\nsearch_path='\"$user\", public'\n\
            shared_buffers=1GB\nx.y = 'it''s # no comment'\n";
        let config = parse(text).unwrap();
        assert_eq!(config["work_mem"], "8MB");
        assert_eq!(config["search_path"], "\"$user\", public");
        assert_eq!(config["shared_buffers"], "1GB");
        assert_eq!(config["x.y"], "it's # no comment");
        assert_eq!(config.len(), 4);
        for (wrong, line) in [
            ("a=1\nb='x\n", 2),
            ("= 3", 1),
            ("a = 1 2", 1),
            ("\na =", 2),
            ("include 'other.conf'", 1),
        ] {
            assert_eq!(parse(wrong).unwrap_err().0, line, "{wrong}");
        }
    }
}
