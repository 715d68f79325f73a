//! What stands around a server's lines where something else wrote the file: syslog, journald, a container's runtime, a
//! cloud's console.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// A time in ISO 8601, which the server itself does not write: `kubectl logs --timestamps`, CRI, Docker, CloudWatch,
/// which names its stream, too.
static STAMPED: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[+-][0-9]{2}:?[0-9]{2})(?: (?:stdout|stderr) [FP]| [^ \t]+\.log[^ \t]*)?(?: |$)",
    )
});

/// syslog and journald: priority, time, host, program and process. The server numbers entries and their parts.
static SYSLOG: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"^(?:<[0-9]+>(?:1 )?)?(?:[A-Z][a-z]{2} (?<day>[ 0-9][0-9]) (?<time>[0-9]{2}:[0-9]{2}:[0-9]{2})|(?<iso>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+)(?:Z|[+-][0-9]{2}:?[0-9]{2})?) [^ ]+ [^ \[]+\[(?<pid>[0-9]+)\]: ?(?:\[[0-9]+-(?<part>[0-9]+)\] ?)?",
    )
});

/// Heroku's Logplex: a drain's frame or a console's line around the database's name and the numbers of entry and part.
static LOGPLEX: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"^(?:(?:[0-9]+ )?(?:<[0-9]+>1 )?(?<iso>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+)(?:Z|[+-][0-9]{2}:?[0-9]{2})?(?: [^ \[]+)? app(?:\[| )postgres\.(?<pid>[0-9]+)(?:\]:| -(?: -)?) )?\[[A-Z][A-Z0-9_]*\] \[[0-9]+-(?<part>[0-9]+)\] ?",
    )
});

/// A pattern of ours, which is valid.
pub(super) fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|e| unreachable!("{pattern}: {e}"))
}

/// A server's line within a line of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inner<'a> {
    /// As the server wrote it.
    Line(Cow<'a, str>),
    /// A part of an entry that syslog divided; it goes on where the part before it ended.
    Part(Cow<'a, str>),
}

/// What the server wrote of a line. `headed` puts syslog's time and process in front of an entry, as `%t [%p] ` does.
pub(super) fn inner(line: &str, headed: bool) -> Inner<'_> {
    let bytes = line.as_bytes();
    // Most files have none of this.
    let may_be_iso = bytes.get(10) == Some(&b'T');
    let may_be_logplex =
        may_be_iso || bytes.first() == Some(&b'[') || bytes.iter().take(8).any(|b| *b == b'<');
    let may_be_syslog = bytes
        .first()
        .is_some_and(|b| *b == b'<' || b.is_ascii_uppercase());
    if !may_be_logplex && !may_be_syslog {
        return Inner::Line(line.into());
    }
    let logplex = may_be_logplex.then(|| LOGPLEX.captures(line)).flatten();
    if let Some(found) = logplex.or_else(|| SYSLOG.captures(line)) {
        let rest = &line[found[0].len()..];
        // rsyslog writes control characters as octal numbers.
        let rest = if rest.contains("#011") {
            Cow::Owned(rest.replace("#011", "\t"))
        } else {
            Cow::Borrowed(rest)
        };
        if found.name("part").is_some_and(|part| part.as_str() != "1") {
            return if rest.starts_with('\t') {
                Inner::Line(rest)
            } else {
                Inner::Part(rest)
            };
        }
        // Logplex has a blank more.
        let rest = match rest {
            Cow::Borrowed(rest) => Cow::Borrowed(rest.trim_start_matches(' ')),
            Cow::Owned(rest) => Cow::Owned(rest.trim_start_matches(' ').to_owned()),
        };
        let pid = found.name("pid").filter(|_| headed);
        let Some(pid) = pid else {
            return Inner::Line(rest);
        };
        let stamp = match found.name("iso") {
            Some(iso) => iso.as_str().replace('T', " "),
            // No year and a month by its name: differences between entries are what is used.
            None => format!("2000-01-{:0>2} {}", found["day"].trim(), &found["time"]),
        };
        return Inner::Line(format!("{stamp} [{}] {rest}", pid.as_str()).into());
    }
    let stamped = may_be_iso.then(|| STAMPED.find(line)).flatten();
    Inner::Line(stamped.map_or(line, |found| &line[found.end()..]).into())
}

/// Whether a line was written by syslog, journald or Logplex.
pub(super) fn is_syslog(line: &str) -> bool {
    SYSLOG.is_match(line) || LOGPLEX.is_match(line)
}

/// A line of Logplex without its head, given one of a time and a process that stand elsewhere.
pub(super) fn with_logplex_head(line: String, time: Option<&str>, process: Option<&str>) -> String {
    let (Some(time), Some(process)) = (time, process) else {
        return line;
    };
    let bare = LOGPLEX
        .captures(&line)
        .filter(|found| found.name("pid").is_none());
    match bare {
        Some(_) => format!("{time} app[{process}]: {line}"),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Inner<'_> {
        Inner::Line(text.into())
    }

    #[test]
    fn what_stands_around_a_servers_line_is_taken_off() {
        let own = "2023-05-01 03:00:32 UTC [7] LOG:  y";
        assert_eq!(inner(own, false), line(own));
        assert_eq!(inner("\tFROM t", false), line("\tFROM t"));
        for around in [
            "2023-05-01T03:00:32.123456789Z ",
            "2023-05-01T03:00:32.123456789Z stderr F ",
            "2023-05-01T03:00:33.456000+00:00 ",
            "2023-05-01T03:00:33.456000+00:00 error/postgresql.log.2023-05-01-03 ",
            "May  1 03:00:32 db1 postgres[1371]: [5-1] ",
            "<134>May  1 03:00:32 db1 postgres[1371]: [5-1] ",
            "2023-05-01T03:00:32.100+02:00 db1 postgres[1371]: ",
        ] {
            assert_eq!(
                inner(&format!("{around}{own}"), false),
                line(own),
                "{around}"
            );
        }
    }

    #[test]
    fn lines_of_logplex_have_a_time_and_a_process() {
        let entry = "sql_error_code = 00000 LOG:  y";
        let expected = format!("2025-05-01 03:00:32.1 [1371] {entry}");
        for head in [
            "2025-05-01T03:00:32.1+00:00 app[postgres.1371]: [DATABASE] [5-1]  ",
            "412 <134>1 2025-05-01T03:00:32.1+00:00 host app postgres.1371 - [DATABASE] [5-1] ",
            "<134>1 2025-05-01T03:00:32.1Z d.1f2e app postgres.1371 - - [HEROKU_POSTGRESQL_RED] [5-1] ",
        ] {
            assert_eq!(
                inner(&format!("{head}{entry}"), true),
                line(&expected),
                "{head}"
            );
        }
        let more = "2025-05-01T03:00:32.1+00:00 app[postgres.1371]: [DATABASE] [5-2] #011FROM t";
        assert_eq!(inner(more, true), line("\tFROM t"));
        let bare = format!("[DATABASE] [5-1] {entry}");
        assert_eq!(inner(&bare, false), line(entry));
        let headed = with_logplex_head(bare, Some("2025-05-01T03:00:32.1Z"), Some("postgres.1371"));
        assert_eq!(inner(&headed, true), line(&expected));
    }

    #[test]
    fn an_entry_that_syslog_divides_goes_on() {
        assert_eq!(
            inner("May  1 03:00:32 h postgres[7]: [5-2] #011FROM t", false),
            line("\tFROM t")
        );
        let part = inner("May  1 03:00:32 h postgres[7]: [5-3]  WHERE a = 1", false);
        assert_eq!(part, Inner::Part(" WHERE a = 1".into()));
        let headed = inner("May  1 03:00:32 h postgres[7]: [5-1] LOG:  y", true);
        assert_eq!(headed, line("2000-01-01 03:00:32 [7] LOG:  y"));
    }
}
