//! What a build says of itself, held against what was asked for.
//!
//! A published comparison most likely measured -O0 because configure drops its
//! own -O2 once CFLAGS is set. So no build is installed here whose lock code
//! was not compiled with the flags that its name stands for.

use std::fs;
use std::path::Path;

use anyhow::bail;

use super::recipe::System;
use pgassay_model::Failure;

/// The file whose command line is looked at: the LWLocks are in it.
const WITNESS: &str = "lwlock.c";

/// The flags that a build recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recorded {
    /// CFLAGS as the build system kept them for extensions; autoconf only.
    pub cflags: Option<String>,
    /// The command line that compiled the LWLocks.
    pub witness: Option<String>,
}

/// Reads the flags of a build from its tree and its log.
pub fn recorded(system: System, tree: &Path, log: &Path) -> Recorded {
    let cflags = match system {
        System::Autoconf => fs::read_to_string(tree.join("src/Makefile.global"))
            .ok()
            .and_then(|text| {
                let line = text.lines().find(|line| line.starts_with("CFLAGS = "))?;
                Some(line["CFLAGS = ".len()..].trim().to_owned())
            }),
        System::Meson => None,
    };
    let log = fs::read(log).unwrap_or_default();
    Recorded {
        cflags,
        witness: witness(&String::from_utf8_lossy(&log)),
    }
}

/// The last command line in a log that compiles [`WITNESS`].
fn witness(log: &str) -> Option<String> {
    log.lines()
        .rev()
        .find(|line| line.contains(" -c ") && line.split_ascii_whitespace().any(is_witness))
        .map(|line| {
            // ninja counts in front: [12/345] cc …
            let line = line.trim();
            line.strip_prefix('[')
                .and_then(|rest| rest.split_once("] "))
                .map_or(line, |(_, line)| line)
                .to_owned()
        })
}

fn is_witness(word: &str) -> bool {
    word.rsplit('/').next() == Some(WITNESS)
}

/// Holds the flags asked for, in their order and with -O2 before them unless
/// they were to be exact, against those recorded.
///
/// # Errors
/// Where one is not there, or another of its kind comes after it.
pub fn check(asked: &[String], recorded: &Recorded) -> anyhow::Result<()> {
    let places = [
        ("the build system recorded", recorded.cflags.as_deref()),
        (
            "the LWLocks were compiled with",
            recorded.witness.as_deref(),
        ),
    ];
    if recorded.witness.is_none() {
        bail!(Failure::target(format!(
            "the build's log shows no command that compiled {WITNESS}, so its flags can't be told"
        )));
    }
    for (what, line) in places {
        let Some(line) = line else { continue };
        if let Some(wrong) = mismatch(asked, line) {
            bail!(
                Failure::target(format!("not the flags asked for: {wrong}; {what}: {line}"))
                    .with_remedy("nothing was installed; look for what sets flags in this source")
            );
        }
    }
    Ok(())
}

/// In what a command line differs from the flags asked for.
fn mismatch(asked: &[String], line: &str) -> Option<String> {
    let words = shlex::split(line)
        .unwrap_or_else(|| line.split_ascii_whitespace().map(str::to_owned).collect());
    for flag in asked {
        if !words.contains(flag) {
            return Some(format!("{flag} is missing"));
        }
    }
    // Of flags that exclude one another the last one counts.
    for flag in asked {
        let kind = kind(flag);
        let last_asked = asked.iter().rev().find(|other| self::kind(other) == kind);
        let last = words.iter().rev().find(|other| self::kind(other) == kind);
        if let (Some(asked), Some(last)) = (last_asked, last)
            && asked != last
        {
            return Some(format!("{last} comes after {asked} and undoes it"));
        }
    }
    if !asked.iter().any(|flag| is_level(flag))
        && let Some(level) = words.iter().find(|word| is_level(word))
    {
        return Some(format!("{level} was not asked for"));
    }
    None
}

/// `-O2`, `-O`, `-Os` …
fn is_level(flag: &str) -> bool {
    flag.strip_prefix("-O").is_some_and(|rest| rest.len() <= 4)
}

/// What a flag decides: `-march=x` and `-march=y` the same, `-mfoo` and `-mno-foo` the same.
fn kind(flag: &str) -> &str {
    if is_level(flag) {
        return "-O";
    }
    let name = flag.split('=').next().unwrap_or(flag);
    for (negated, plain) in [("-mno-", "-m"), ("-fno-", "-f")] {
        if let Some(rest) = name.strip_prefix(negated) {
            // The same text as of the plain form, without building one.
            return rest;
        }
        if let Some(rest) = name.strip_prefix(plain) {
            return rest;
        }
    }
    name
}

/// What should be said of flags that are taken as they are.
pub fn remark(exact: bool, flags: &[String]) -> Option<&'static str> {
    let optimized = flags.iter().any(|flag| is_level(flag) && flag != "-O0");
    (exact && !optimized).then_some(
        "no -O flag is given and --cflags-exact drops the default: this is a build without \
         optimization",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Vec<String> {
        line.split_ascii_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_last_of_a_kind_counts() {
        let line = "gcc -Wall -fno-strict-aliasing -O2 -march=armv8.2-a -c -o lwlock.o lwlock.c";
        assert_eq!(mismatch(&asked("-O2 -march=armv8.2-a"), line), None);
        // PostgreSQL appends to its own defaults.
        assert_eq!(mismatch(&asked("-O2 -O0"), "gcc -O2 -O0 -c lwlock.c"), None);
        for (flags, line, wrong) in [
            ("-O2", "gcc -Wall -c lwlock.c", "-O2 is missing"),
            ("-O2", "gcc -O2 -O0 -c lwlock.c", "-O0 comes after -O2"),
            (
                "-O2 -march=armv8.2-a",
                "gcc -O2 -march=armv8.2-a -march=armv8-a -c x",
                "-march=armv8-a comes after",
            ),
            (
                "-O2 -mno-outline-atomics",
                "gcc -O2 -mno-outline-atomics -moutline-atomics",
                "undoes it",
            ),
            ("-g", "gcc -g -O2 -c x", "-O2 was not asked for"),
        ] {
            let found = mismatch(&asked(flags), line).unwrap_or_default();
            assert!(found.contains(wrong), "{flags}: {found}");
        }
    }

    #[test]
    fn the_command_is_found_in_either_log() {
        let make =
            "make -C lmgr\ngcc -O2 -c -o lock.o lock.c\ngcc -O2 -c -o lwlock.o ../lwlock.c\n";
        assert_eq!(witness(make).unwrap(), "gcc -O2 -c -o lwlock.o ../lwlock.c");
        let ninja = "[7/9] cc -O2 -o lwlock.c.o -c ../src/backend/storage/lmgr/lwlock.c\n";
        assert!(witness(ninja).unwrap().starts_with("cc -O2"));
        assert_eq!(witness("gcc -c lwlock_other.c -o x\n"), None);
        assert!(check(&asked("-O2"), &Recorded::default()).is_err());
    }

    #[test]
    fn an_exact_recipe_without_a_level_is_told() {
        assert!(remark(true, &asked("-march=armv8-a")).is_some());
        assert!(remark(true, &asked("-O3")).is_none());
        assert!(remark(false, &[]).is_none());
    }
}
