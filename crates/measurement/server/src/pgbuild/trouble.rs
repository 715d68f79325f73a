//! The first real error in what a build said.
//!
//! A parallel make says most of what it says after the error that counts, and
//! ends with lines that name no cause.

use std::fs;
use std::path::Path;

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The error, with what belongs to it.
    pub text: String,
    /// What is known to help.
    pub remedy: Option<&'static str>,
}

/// What a line of a real error contains, before the lines that only report it.
const MARKS: &[&str] = &[
    ": error: ",
    ": fatal error: ",
    "configure: error: ",
    ": ERROR: ",
    "Error: ",
    "undefined reference to",
    "cannot find -l",
    "No space left on device",
    "internal compiler error",
    "Cannot allocate memory",
    "Killed",
    "command not found",
    "No rule to make target",
    ": not found",
];

/// Causes that one can say more about than the line does.
const REMEDIES: &[(&str, &str)] = &[
    (
        "No space left on device",
        "free some space; pgassay build --clean removes sources and object files of earlier builds",
    ),
    (
        "Killed",
        "a compiler was killed, most likely for want of memory: build with fewer --jobs",
    ),
    ("Cannot allocate memory", "build with fewer --jobs"),
    (
        "readline library not found",
        "install libreadline-dev, or leave --with-readline out",
    ),
    ("zlib library not found", "install zlib1g-dev"),
    (
        "ICU library not found",
        "install libicu-dev, or leave --with-icu out",
    ),
    (
        "(icu-uc",
        "install libicu-dev and pkg-config, or leave --with-icu out",
    ),
    (
        "(liburing",
        "install liburing-dev and pkg-config, or leave --with-liburing out",
    ),
    ("pkg-config script could not be found", "install pkg-config"),
    (
        "C compiler cannot create executables",
        "the compiler or its C library is incomplete; config.log beside the object files has its words",
    ),
];

/// The first real error in `said`, else its last words; for configure, which
/// hides the compiler's words in its own log, those too.
pub fn first(said: &str, config_log: Option<&Path>) -> Trouble {
    let lines: Vec<&str> = said.lines().collect();
    let hit = lines.iter().position(|line| {
        MARKS.iter().any(|mark| line.contains(mark)) && !line.starts_with("checking ")
    });
    let mut text = match hit {
        Some(at) => {
            let mut kept = vec![lines[at]];
            // The compiler's excerpt of the source, its notes, configure's explanation.
            kept.extend(lines[at + 1..].iter().take(4).take_while(|line| {
                line.starts_with([' ', '|'])
                    || line.contains(": note: ")
                    || line.starts_with("Use ")
            }));
            kept.join("\n")
        }
        None => lines[lines.len().saturating_sub(6)..].join("\n"),
    };
    if text.contains("configure: error: ")
        && let Some(why) = config_log
            .and_then(|path| fs::read(path).ok())
            .and_then(last_refusal)
    {
        text.push_str("\nfor the compiler said: ");
        text.push_str(&why);
    }
    let remedy = REMEDIES
        .iter()
        .find(|(mark, _)| text.contains(mark))
        .map(|(_, remedy)| *remedy);
    Trouble { text, remedy }
}

/// The compiler's last complaint in configure's log before it gave up.
fn last_refusal(log: Vec<u8>) -> Option<String> {
    let log = String::from_utf8_lossy(&log);
    let own = |line: &&str| line.starts_with("configure:") && line.contains(": error: ");
    let before: Vec<&str> = log.lines().take_while(|line| !own(line)).collect();
    let complaint = before
        .iter()
        .rev()
        .take(60)
        .find(|line| line.contains("error: ") && !line.starts_with("| "))?;
    Some(complaint.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_of_a_parallel_make() {
        let said = "gcc -c a.c -o a.o\ngcc -c b.c -o b.o\n\
            a.c: In function 'f':\na.c:7:3: error: 'x' undeclared (first use in this function)\n    \
            7 |   x = 1;\n      |   ^\nmake[2]: *** [<builtin>: a.o] Error 1\n\
            b.c:1:1: error: later\nmake: *** [Makefile:9: all] Error 2\n";
        let trouble = first(said, None);
        assert!(trouble.text.starts_with("a.c:7:3: error:"), "{trouble:?}");
        assert!(trouble.text.contains("x = 1;"));
        assert!(!trouble.text.contains("later"));
    }

    #[test]
    fn a_full_disk_a_missing_library_and_silence() {
        let full = first("cc1: fatal: x\n/tmp/a.s: No space left on device\n", None);
        assert!(full.remedy.unwrap().contains("--clean"));
        let said = "checking for -lreadline... no\nconfigure: error: readline library not found\n\
                    If you have readline already installed, see config.log for details on the\n";
        assert!(
            first(said, None)
                .remedy
                .unwrap()
                .contains("libreadline-dev")
        );
        // What a word merely contains is no library.
        let word = first("x.c:1:2: error: in particular this\n", None);
        assert_eq!(word.remedy, None);
        let said = "configure: error: Package requirements (liburing) were not met:\n\n\
                    No package 'liburing' found\n";
        assert!(first(said, None).remedy.unwrap().contains("liburing-dev"));
        let meson = first(
            "../meson.build:1:0: ERROR: Unknown options: \"x\"\n\nA full log\n",
            None,
        );
        assert!(meson.text.contains("Unknown options"));
        assert_eq!(first("one\ntwo\n", None).text, "one\ntwo");
        assert_eq!(first("", None).text, "");
    }
}
