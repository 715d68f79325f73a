//! Compiler flags in build files: Makefiles, CMake, meson, configure.ac, Dockerfiles, setup.py.
//!
//! These are languages with one thing in common: flags are words, and conditions are lines.

use crate::guards::known::{Processor, speaks_of_processor, speaks_of_x86};
use crate::x86;

/// A flag as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// The rule.
    pub rule: &'static str,
    /// Line, from 1.
    pub line: u32,
    /// The line's text.
    pub code: String,
    /// A condition around that does not speak of processors.
    pub condition: Option<String>,
    /// Other processors whose compilers accept all of the line's flags.
    pub elsewhere: Vec<Processor>,
}

/// What a build file tells.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct BuildFile {
    /// Lines.
    pub lines: u32,
    /// Flags of x86.
    pub flags: Vec<Flag>,
    /// It sets -fsigned-char.
    pub signed_char: bool,
}

/// Whether a file tells how things are built, by its name.
pub fn is_build_file(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    let lower = last.to_ascii_lowercase();
    let make = [
        "makefile",
        "gnumakefile",
        "dockerfile",
        "containerfile",
        "setup.py",
    ];
    make.contains(&lower.as_str())
        || lower.ends_with(".mk")
        || lower.starts_with("makefile.")
        || lower == "cmakelists.txt"
        || lower.ends_with(".cmake")
        || lower == "meson.build"
        || is_cargo_config(name)
        || lower == "configure.ac"
        || lower == "configure.in"
        || lower.ends_with(".m4")
        || lower.ends_with(".dockerfile")
        || lower.starts_with("dockerfile.")
}

/// Whether a file holds Cargo's own settings: `.cargo/config.toml`, and `.cargo/config` of old.
fn is_cargo_config(name: &str) -> bool {
    let mut parts = name.rsplit('/');
    let file = parts
        .next()
        .is_some_and(|last| matches!(last, "config.toml" | "config"));
    file && parts.next() == Some(".cargo")
}

/// Words that ask the compiler whether it takes a flag.
const CHECKS: &[&str] = &[
    "check_c_compiler_flag",
    "check_cxx_compiler_flag",
    "check_c_source",
    "check_cxx_source",
    "check_compiler_flag",
    "has_argument",
    "get_supported_arguments",
    "first_supported",
    "add_compiler_flag",
    "try_compile",
    "cmake_required_flags",
    "ac_",
    "ax_",
    "pgac_",
    "as_",
    "cc.links",
    "cc.compiles",
    "checks for",
    "has_function",
    "supports_",
];

/// Longest build file that is read, in bytes.
const MOST_BYTES: usize = 4 << 20;

/// The rule that a word breaks, and the processors for which it breaks none.
fn rule_of(word: &str) -> Option<(&'static str, &'static [Processor])> {
    let value = ["-march=", "-mtune=", "-mcpu="]
        .iter()
        .find_map(|option| word.strip_prefix(option));
    // rustc's, after -C with or without a space.
    let word = word.strip_prefix("-C").unwrap_or(word);
    let value = value.or_else(|| word.strip_prefix("target-cpu="));
    if let Some(feature) = word.strip_prefix("target-feature=") {
        let feature = feature.trim_start_matches(['+', '-']);
        let elsewhere = x86::is_feature(feature).then_some(&[][..])?;
        return Some(("build-flag", elsewhere));
    }
    match value {
        Some("native") => Some(("native-build", &[])),
        Some(value) => x86::processor(value).then_some(("build-flag", &[])),
        None => Some(("build-flag", x86::flag(word)?)),
    }
}

/// Reads a build file.
pub fn read(bytes: &[u8]) -> BuildFile {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_BYTES)]);
    let mut file = BuildFile::default();
    let mut open: Vec<String> = Vec::new();
    // Calls go over several lines.
    let mut before: [String; 3] = Default::default();
    for (n, raw) in text.lines().enumerate() {
        file.lines = u32::try_from(n + 1).unwrap_or(u32::MAX);
        let line = without_comment(raw);
        let lower = line.trim().to_ascii_lowercase();
        conditions(&lower, &mut open);
        let words =
            line.split(|c: char| c.is_whitespace() || "\"'=:,()[]{}$;`|".contains(c) && c != '=');
        let words: Vec<&str> = words.flat_map(split_at_flag).collect();
        file.signed_char |= words.contains(&"-fsigned-char") && open.is_empty();
        // One finding of each rule: for the flags that the fewest processors accept.
        let mut broken: Vec<(&'static str, Vec<Processor>)> = Vec::new();
        for (rule, elsewhere) in words.iter().filter_map(|word| rule_of(word)) {
            match broken.iter_mut().find(|(known, _)| *known == rule) {
                Some((_, all)) => all.retain(|one| elsewhere.contains(one)),
                None => broken.push((rule, elsewhere.to_vec())),
            }
        }
        if !broken.is_empty() {
            let asks = std::iter::once(&lower)
                .chain(&before)
                .any(|l| CHECKS.iter().any(|check| l.contains(check)));
            // In shell and make both, a recipe or a test may be the condition.
            let said = open
                .iter()
                .chain(
                    std::iter::once(&lower).filter(|l| l.starts_with("if") || l.contains("uname")),
                )
                .any(|condition| {
                    let names = condition.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                    names.into_iter().any(speaks_of_processor)
                        || condition.contains("uname")
                        || condition.contains("processor")
                });
            let of_x86 = assigned_to_x86(&line);
            broken.retain(|(rule, _)| !asks && !said && (*rule == "native-build" || !of_x86));
            file.flags
                .extend(broken.into_iter().map(|(rule, elsewhere)| Flag {
                    rule,
                    line: file.lines,
                    code: line.trim().chars().take(100).collect(),
                    condition: open.last().cloned(),
                    elsewhere,
                }));
        }
        before.rotate_right(1);
        before[0] = lower;
    }
    file
}

/// `CFLAGS=-msse4.2` is two words; `-march=native` is one.
fn split_at_flag(word: &str) -> impl Iterator<Item = &str> {
    let cut = match word.find("=-") {
        Some(at) if !word.starts_with('-') => at + 1,
        _ => 0,
    };
    [&word[..cut], &word[cut..]]
        .into_iter()
        .filter(|part| !part.is_empty())
}

/// What is assigned to, or built, speaks of x86 itself: `CFLAGS_SSE42 =`, `crc_sse42.o: CFLAGS +=`.
fn assigned_to_x86(line: &str) -> bool {
    let end = line.find(['=', ':']).unwrap_or(0);
    line[..end]
        .split(|c: char| !c.is_ascii_alphanumeric())
        .any(speaks_of_x86)
}

fn without_comment(line: &str) -> String {
    let trimmed = line.trim_start();
    if trimmed.starts_with('#') || trimmed.starts_with("dnl ") || trimmed.starts_with("//") {
        return String::new();
    }
    line.split(" #").next().unwrap_or(line).to_owned()
}

/// Opens and closes conditions: ifeq … endif, if() … endif(), if … fi, case … esac.
fn conditions(lower: &str, open: &mut Vec<String>) {
    const MOST: usize = 64;
    let first = lower
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .next()
        .unwrap_or_default();
    let lower: String = lower.chars().take(200).collect();

    // A table of Cargo's settings: what is under [target.…] is for that target.
    if let Some(table) = lower.strip_prefix('[').filter(|_| lower.ends_with(']')) {
        open.clear();
        if table.starts_with("target") {
            open.push(lower);
        }
        return;
    }
    match first {
        "ifeq" | "ifneq" | "ifdef" | "ifndef" | "if" | "case" if open.len() < MOST => {
            // All in one line.
            let ends = lower
                .split(|c: char| !c.is_ascii_alphanumeric())
                .any(|word| word == "fi" || word == "esac");
            if !ends {
                open.push(lower);
            }
        }
        "elif" | "elseif" => {
            open.pop();
            open.push(lower);
        }
        "else" => {
            // `else ifeq` of make; the condition that did not hold is still about its subject.
            if let Some(last) = open.last_mut() {
                *last = format!("{last} {lower}");
            }
        }
        "endif" | "fi" | "esac" => {
            open.pop();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<(u32, &'static str)> {
        read(text.as_bytes())
            .flags
            .into_iter()
            .map(|flag| (flag.line, flag.rule))
            .collect()
    }

    #[test]
    fn a_flag_for_every_processor_is_found() {
        assert_eq!(rules("CFLAGS += -O2 -msse4.2\n"), [(1, "build-flag")]);
        assert_eq!(rules("OPTFLAGS = -march=native\n"), [(1, "native-build")]);
        assert_eq!(
            rules("set(CMAKE_C_FLAGS \"${CMAKE_C_FLAGS} -mavx2\")\n"),
            [(1, "build-flag")]
        );
        assert_eq!(
            rules("add_project_arguments('-march=haswell', language: 'c')\n"),
            [(1, "build-flag")]
        );
        assert_eq!(rules("PG_CFLAGS=-m64\n"), [(1, "build-flag")]);
    }

    #[test]
    fn settings_of_cargo_are_read() {
        assert!(is_build_file(".cargo/config.toml") && is_build_file("a/.cargo/config"));
        assert!(!is_build_file("config.toml") && !is_build_file("app/config"));
        let build = "[build]\nrustflags = [\"-C\", \"target-cpu=haswell\"]\n";
        assert_eq!(rules(build), [(2, "build-flag")]);
        let native = "[build]\nrustflags = \"-Ctarget-cpu=native\"\n";
        assert_eq!(rules(native), [(2, "native-build")]);
        let features = "[build]\nrustflags = [\"-Ctarget-feature=+avx2,+fma\"]\n";
        assert_eq!(rules(features), [(2, "build-flag")]);
        let run = "RUN RUSTFLAGS=\"-C target-feature=+avx2,+fma\" cargo build\n";
        assert_eq!(rules(run), [(1, "build-flag")]);
        for target in [
            "[target.x86_64-unknown-linux-gnu]",
            "[target.'cfg(any(target_arch = \"x86\", target_arch = \"x86_64\"))']",
        ] {
            let guarded = format!("{target}\nrustflags = [\"-Ctarget-feature=+avx2\"]\n");
            assert!(rules(&guarded).is_empty(), "{guarded}");
        }
        let other = "[target.'cfg(unix)']\nrustflags = [\"-Ctarget-cpu=znver3\"]\n";
        let flags = read(other.as_bytes()).flags;
        assert_eq!(flags[0].condition.as_deref(), Some("[target.'cfg(unix)']"));
        let neutral =
            "[build]\nrustflags = [\"-Ctarget-feature=+crt-static\", \"-Ctarget-cpu=generic\"]\n";
        assert!(rules(neutral).is_empty());
    }

    #[test]
    fn a_line_with_flags_of_several_kinds_has_a_finding_of_each() {
        let line =
            "RUN make OPTFLAGS=\"-march=native -mprefer-vector-width=512\" && make install\n";
        assert_eq!(rules(line), [(1, "native-build"), (1, "build-flag")]);
        let both = read(b"CFLAGS = -m64 -mavx2\nLDFLAGS = -m64 -Wa,-mrelax-all\n").flags;
        assert!(both[0].elsewhere.is_empty());
        assert_eq!(both[1].elsewhere, [Processor::Ppc64le, Processor::S390x]);
    }

    #[test]
    fn a_flag_under_a_condition_or_a_check_is_none() {
        assert!(rules("ifeq ($(shell uname -m),x86_64)\nCFLAGS += -msse4.2\nendif\n").is_empty());
        assert!(rules("if(CMAKE_SYSTEM_PROCESSOR MATCHES \"x86_64\")\n  add_compile_options(-mavx)\nendif()\n").is_empty());
        assert!(rules("check_c_compiler_flag(-msse4.2 HAS_SSE42)\n").is_empty());
        assert!(rules("cc.has_argument('-mavx2')\n").is_empty());
        assert!(rules("PGAC_SSE42_CRC32_INTRINSICS([-msse4.2])\n").is_empty());
        assert!(rules("# CFLAGS += -msse4.2\n").is_empty());
        assert!(rules("crc_sse42.o: CFLAGS += -msse4.2\n").is_empty());
        assert!(rules("CFLAGS += -march=armv8-a+crc -mcpu=neoverse-n1\n").is_empty());
    }

    #[test]
    fn a_condition_of_another_kind_is_told() {
        let flags = read(b"ifdef FAST\nCFLAGS += -msse4.2\nendif\nCFLAGS += -fsigned-char\n");
        assert_eq!(flags.flags[0].condition.as_deref(), Some("ifdef fast"));
        assert!(flags.signed_char);
    }
}
