//! Compiler flags in build files: Makefiles, CMake, meson, configure.ac.
//!
//! These are four languages with one thing in common: flags are words, and conditions are lines.

use crate::guards::known::{speaks_of_processor, speaks_of_x86};

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
        "makefile.in",
        "makefile.am",
        "makefile.global.in",
        "makefile.shlib",
        "makefile.pgxs",
    ];
    make.contains(&lower.as_str())
        || lower.ends_with(".mk")
        || lower == "cmakelists.txt"
        || lower.ends_with(".cmake")
        || lower == "meson.build"
        || lower == "configure.ac"
        || lower == "configure.in"
        || lower.ends_with(".m4")
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

/// Beginnings of flags that are x86's.
const FLAGS: &[&str] = &[
    "-msse",
    "-mssse3",
    "-mavx",
    "-mpopcnt",
    "-mcrc32",
    "-mpclmul",
    "-mbmi",
    "-mfma",
    "-mf16c",
    "-maes",
    "-mfpmath",
    "-m64",
    "-m32",
    "-mmmx",
    "-mlzcnt",
    "-mxsave",
    "-mrdrnd",
    "-mrtm",
    "-mcx16",
    "-masm=",
    "-mpreferred-stack-boundary",
    "-mstackrealign",
    "-m3dnow",
    "-mno-sse",
    "-mno-avx",
    "-mno-red-zone",
];

/// Beginnings of processors that -march and -mtune name on x86.
const PROCESSORS: &[&str] = &[
    "x86-64",
    "i386",
    "i486",
    "i586",
    "i686",
    "pentium",
    "core2",
    "corei7",
    "core-avx",
    "nehalem",
    "westmere",
    "sandybridge",
    "ivybridge",
    "haswell",
    "broadwell",
    "skylake",
    "cascadelake",
    "icelake",
    "sapphirerapids",
    "k8",
    "opteron",
    "athlon",
    "amdfam10",
    "bdver",
    "btver",
    "znver",
    "atom",
    "silvermont",
    "knl",
];

/// Longest build file that is read, in bytes.
const MOST_BYTES: usize = 4 << 20;

/// The rule that a word breaks.
fn rule_of(word: &str) -> Option<&'static str> {
    let value = word
        .strip_prefix("-march=")
        .or_else(|| word.strip_prefix("-mtune="))
        .or_else(|| word.strip_prefix("-mcpu="));
    match value {
        Some("native") => Some("native-build"),
        Some(value) => PROCESSORS
            .iter()
            .any(|p| value.starts_with(p))
            .then_some("build-flag"),
        None => FLAGS
            .iter()
            .any(|flag| word.starts_with(flag))
            .then_some("build-flag"),
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
        if let Some(rule) = words.iter().find_map(|word| rule_of(word)) {
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
            let own = rule == "native-build" || !assigned_to_x86(&line);
            if !asks && !said && own {
                file.flags.push(Flag {
                    rule,
                    line: file.lines,
                    code: line.trim().chars().take(100).collect(),
                    condition: open.last().cloned(),
                });
            }
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
