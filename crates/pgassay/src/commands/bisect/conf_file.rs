//! A `postgresql.conf` with the files that it includes.
//!
//! The grammar is that of the server's guc-file.l, and so is what is included: a path that is not absolute is
//! relative to the file that names it, of a directory the files whose names end in `.conf` and do not begin with a
//! dot count, in the order of their names, and ten files may include one another.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pgassay_model::Failure;
use pgassay_sys::input;

/// Settings by name, in lower case.
pub(super) type Config = BTreeMap<String, String>;

/// How deep files include files (PostgreSQL's `CONF_FILE_MAX_DEPTH`).
const DEEPEST: usize = 10;
/// Larger files are no configurations.
const LARGEST: u64 = 8 << 20;

/// Reads a file and all that it includes; a later line of the same name replaces an earlier one.
///
/// # Errors
/// The file and the number of the first line that is none, and why; a file that can't be read.
pub(super) fn read(path: &Path) -> Result<Config, Failure> {
    let mut config = Config::new();
    include(path, 0, &mut config)?;
    Ok(config)
}

fn include(path: &Path, depth: usize, config: &mut Config) -> Result<(), Failure> {
    let shown = path.display();
    if depth > DEEPEST {
        return Err(Failure::usage(format!(
            "{shown}: files include one another more than {DEEPEST} deep"
        )));
    }
    let text = text_of(path)?;
    for (line, number) in text.lines().zip(1..) {
        let wrong = |why: &str| Failure::usage(format!("{shown}, line {number}: {why}"));
        let Some((name, value)) = entry(line).map_err(wrong)? else {
            continue;
        };
        let beside = path.parent().unwrap_or(Path::new(".")).join(&value);
        match name.as_str() {
            "include" => include(&beside, depth + 1, config)?,
            "include_if_exists" if beside.exists() => include(&beside, depth + 1, config)?,
            "include_if_exists" => {}
            "include_dir" => {
                for file in files_of(&beside).map_err(|why| wrong(&why))? {
                    include(&file, depth + 1, config)?;
                }
            }
            _ => {
                config.insert(name, value);
            }
        }
    }
    Ok(())
}

fn text_of(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let bytes = input::read(path, LARGEST)
        .map_err(|error| Failure::usage(format!("{shown} can't be read: {error}")))?;
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{shown} is not UTF-8")))
}

/// The configuration files of a directory.
fn files_of(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let told = |error: std::io::Error| format!("{} can't be read: {error}", dir.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(told)? {
        let entry = entry.map_err(told)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.ends_with(".conf") && !name.starts_with('.') && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// The name, in lower case, and the value of a line; none where it is blank or a comment.
///
/// # Errors
/// Why it is neither.
fn entry(line: &str) -> Result<Option<(String, String)>, &'static str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let word = |c: char| c.is_ascii_alphanumeric() || "_.$".contains(c);
    let end = line.find(|c| !word(c)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
    if name.is_empty() {
        return Err("no setting begins so");
    }
    let (value, after) = match rest.strip_prefix('\'') {
        Some(quoted) => unquoted(quoted).ok_or("a quote is not closed")?,
        None => {
            let end = rest
                .find(|c: char| c.is_whitespace() || c == '#')
                .unwrap_or(rest.len());
            (rest[..end].to_owned(), &rest[end..])
        }
    };
    let after = after.trim_start();
    if !after.is_empty() && !after.starts_with('#') {
        return Err("something follows the value");
    }
    if value.is_empty() && !rest.starts_with('\'') {
        return Err("a value is missing");
    }
    Ok(Some((name.to_ascii_lowercase(), value)))
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
            '\\' => value.push(match chars.next()?.1 {
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                first @ '0'..='7' => {
                    let mut code = first.to_digit(8)?;
                    for _ in 0..2 {
                        let next = chars.clone().next();
                        let Some(digit) = next.and_then(|(_, c)| c.to_digit(8)) else {
                            break;
                        };
                        code = code * 8 + digit;
                        chars.next();
                    }
                    char::from_u32(code)?
                }
                other => other,
            }),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_sys::private::Directory;
    use std::fs;

    fn place() -> Directory {
        Directory::make(&std::env::temp_dir(), "pgassay-conf").unwrap()
    }

    #[test]
    fn a_configuration_file_is_read_as_the_server_reads_it() {
        let dir = place();
        let file = dir.path().join("postgresql.conf");
        let text = "# comment\nwork_mem = 4MB # more\nWORK_MEM '8MB'\n\nsearch_path='\"$user\", public'\n\
            shared_buffers=1GB\nx.y = 'it''s # no comment'\nlog_line_prefix = '%m\\t\\101\\\\ '\n";
        fs::write(&file, text).unwrap();
        let config = read(&file).unwrap();
        assert_eq!(config["work_mem"], "8MB");
        assert_eq!(config["search_path"], "\"$user\", public");
        assert_eq!(config["shared_buffers"], "1GB");
        assert_eq!(config["x.y"], "it's # no comment");
        assert_eq!(config["log_line_prefix"], "%m\tA\\ ");
        assert_eq!(config.len(), 5);
        for (wrong, line) in [("a=1\nb='x\n", 2), ("= 3", 1), ("a = 1 2", 1), ("\na =", 2)] {
            fs::write(&file, wrong).unwrap();
            let said = read(&file).unwrap_err().message;
            assert!(said.contains(&format!("line {line}:")), "{wrong}: {said}");
        }
    }

    #[test]
    fn what_it_includes_counts_where_it_is_included() {
        let dir = place();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("conf.d")).unwrap();
        fs::write(at("conf.d/2.conf"), "work_mem = 2MB").unwrap();
        fs::write(at("conf.d/10.conf"), "work_mem = 10MB\njit = off").unwrap();
        fs::write(at("conf.d/.hidden.conf"), "jit = on").unwrap();
        fs::write(at("conf.d/old.conf.bak"), "jit = on").unwrap();
        fs::write(at("conf.d/more.txt"), "include '../last'").unwrap();
        fs::write(at("last"), "geqo = off").unwrap();
        let main = at("postgresql.conf");
        let text = "work_mem=1MB\ninclude_dir = 'conf.d'\ninclude_if_exists 'nowhere'\n\
            include conf.d/more.txt\njit = on\n";
        fs::write(&main, text).unwrap();
        let config = read(&main).unwrap();
        assert_eq!(config["work_mem"], "2MB", "in the order of their names");
        assert_eq!((config["jit"].as_str(), config.len()), ("on", 3));
        assert_eq!(config["geqo"], "off");

        fs::write(&main, "include nowhere").unwrap();
        let said = read(&main).unwrap_err().message;
        assert!(said.contains("nowhere"), "{said}");
        fs::write(&main, "include 'postgresql.conf'").unwrap();
        let said = read(&main).unwrap_err().message;
        assert!(said.contains("10 deep"), "{said}");
        fs::write(&main, "include_dir 'elsewhere'").unwrap();
        let said = read(&main).unwrap_err().message;
        assert!(said.contains("line 1"), "{said}");
    }
}
