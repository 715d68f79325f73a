//! Where a run was carried out, by what was typed: commands that a report shows are read where that was.

/// The flags that have a run carried out, and its load come from, where they did: `--on PLACE`, `--from LIST`.
pub(crate) fn flags(command_line: &[String], with_load: bool) -> Vec<String> {
    let Some(place) = place(command_line) else {
        return Vec::new();
    };
    let mut flags = vec!["--on".to_owned(), place.to_owned()];
    let carried: &[&str] = match with_load {
        true => &["--from", "--listen"],
        false => &[],
    };
    for flag in carried {
        if let Some(value) = value_of(command_line, flag) {
            flags.extend([(*flag).to_owned(), value.to_owned()]);
        }
    }
    flags
}

/// The other machine: behind `--on`, or before the target there.
fn place(command_line: &[String]) -> Option<&str> {
    if let Some(place) = value_of(command_line, "--on") {
        return Some(place);
    }
    let mut before = "";
    for word in command_line {
        // Behind `--from` are machines of the load.
        let is_target = before != "--from";
        before = word;
        if is_target && let Some(rest) = word.strip_prefix("ssh://") {
            let end = rest
                .find('/')
                .map_or(word.len(), |end| "ssh://".len() + end);
            return word.get(..end);
        }
        if is_target && word.starts_with("exec:") {
            return word.split(" // ").next().map(str::trim_end);
        }
    }
    None
}

fn value_of<'a>(words: &'a [String], flag: &str) -> Option<&'a str> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == flag {
            return words.next().map(String::as_str);
        }
        let joined = word
            .strip_prefix(flag)
            .and_then(|rest| rest.strip_prefix('='));
        if joined.is_some() {
            return joined;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        flags(&words, true).join(" ")
    }

    #[test]
    fn what_was_carried_out_elsewhere_is_done_there_again() {
        assert_eq!(of(&["pgassay", "run", "select-only", "temp"]), "");
        assert_eq!(
            of(&["pgassay", "run", "x", "host=db1", "--from", "ssh://c1"]),
            ""
        );
        assert_eq!(
            of(&["pgassay", "run", "x", "host=db1", "--from=ssh://c1"]),
            ""
        );
        assert_eq!(
            of(&["pgassay", "assay", "ssh://me@db1:2222/temp:17"]),
            "--on ssh://me@db1:2222"
        );
        assert_eq!(of(&["pgassay", "assay", "ssh://db1"]), "--on ssh://db1");
        assert_eq!(
            of(&[
                "pgassay",
                "run",
                "x",
                "ssh://db1/temp",
                "--from",
                "here",
                "--listen=10.0.0.5"
            ]),
            "--on ssh://db1 --from here --listen 10.0.0.5"
        );
        assert_eq!(
            of(&["pgassay", "assay", "exec:docker exec -i c // temp:18"]),
            "--on exec:docker exec -i c"
        );
        assert_eq!(
            of(&["pgassay", "assay", "temp", "--on", "exec:x y"]),
            "--on exec:x y"
        );
    }
}
