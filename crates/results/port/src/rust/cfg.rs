//! The predicates of `cfg`, as conditions over what C's compilers define.

use crate::guards::cond::Cond;
use crate::x86;

/// Predicates inside one another that are followed.
const DEEPEST: usize = 24;

/// What C's compilers define where a key has a value.
const DEFINED: &[(&str, &str, &str)] = &[
    ("target_arch", "x86_64", "__x86_64__"),
    ("target_arch", "x86", "__i386__"),
    ("target_arch", "aarch64", "__aarch64__"),
    ("target_arch", "arm64ec", "_M_ARM64"),
    ("target_arch", "arm", "__arm__"),
    ("target_arch", "powerpc64", "__powerpc64__"),
    ("target_arch", "powerpc", "__powerpc64__"),
    ("target_arch", "riscv64", "__riscv"),
    ("target_arch", "s390x", "__s390x__"),
    ("target_arch", "mips64", "__mips__"),
    ("target_arch", "loongarch64", "__loongarch__"),
    ("target_arch", "wasm32", "__wasm__"),
    ("target_arch", "wasm64", "__wasm__"),
    ("target_os", "linux", "__linux__"),
    ("target_os", "windows", "_WIN32"),
    ("target_os", "macos", "__APPLE__"),
    ("target_os", "ios", "__APPLE__"),
    ("target_os", "android", "__ANDROID__"),
    ("target_os", "freebsd", "__FreeBSD__"),
    ("target_os", "openbsd", "__OpenBSD__"),
    ("target_os", "netbsd", "__NetBSD__"),
    ("target_family", "unix", "__unix__"),
    ("target_family", "windows", "_WIN32"),
    ("target_family", "wasm", "__wasm__"),
    ("target_vendor", "apple", "__APPLE__"),
    ("target_env", "msvc", "_MSC_VER"),
    ("target_pointer_width", "64", "__LP64__"),
    ("target_feature", "neon", "__ARM_NEON"),
];

/// Joins conditions that must all hold.
pub fn all(mut conditions: Vec<(Cond, String)>) -> Option<(Cond, String)> {
    if conditions.len() < 2 {
        return conditions.pop();
    }
    let text: Vec<&str> = conditions.iter().map(|(_, text)| text.as_str()).collect();
    let text = text.join(" ");
    let all = conditions.into_iter().map(|(cond, _)| cond);
    Some((Cond::All(all.collect()), text))
}

/// Reads the text between the parentheses of `cfg(…)`.
pub fn read(text: &str) -> Cond {
    predicate(text, 0)
}

fn predicate(text: &str, depth: usize) -> Cond {
    let text = text.trim().trim_end_matches(',').trim();
    if depth > DEEPEST {
        return Cond::Unknown;
    }
    if let Some((name, rest)) = text.split_once('(')
        && let Some(inner) = rest.strip_suffix(')')
    {
        let parts = split(inner);
        let mut conds = parts.into_iter().map(|part| predicate(part, depth + 1));
        return match name.trim() {
            "all" => Cond::All(conds.collect()),
            "any" => Cond::Any(conds.collect()),
            "not" => conds
                .next()
                .map_or(Cond::Unknown, |cond| Cond::Not(Box::new(cond))),
            _ => Cond::Unknown,
        };
    }
    let defined = |name: &str| Cond::Defined(name.to_owned());
    let Some((key, value)) = text.split_once('=') else {
        return match text {
            "unix" => defined("__unix__"),
            "windows" => defined("_WIN32"),
            "true" => Cond::All(Vec::new()),
            "false" => Cond::Any(Vec::new()),
            _ => Cond::Unknown,
        };
    };
    let (key, value) = (key.trim(), value.trim().trim_matches('"'));
    let known = DEFINED
        .iter()
        .find(|(k, v, _)| *k == key && *v == value)
        .map(|(_, _, name)| defined(name));
    match key {
        _ if known.is_some() => known.unwrap_or(Cond::Unknown),
        // Others than those of the table are not what is compiled for.
        "target_arch" => defined("__sparc__"),
        "target_pointer_width" => Cond::Not(Box::new(defined("__LP64__"))),
        "target_feature" if x86::is_feature(value) => defined("__AVX__"),
        _ => Cond::Unknown,
    }
}

/// The parts between commas that are in no parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_i32, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guards::known::{Processor, defined};
    use crate::guards::truth::Truth;

    fn on(processor: Processor, text: &str) -> Truth {
        read(text).truth(&|name| defined(name, processor))
    }

    #[test]
    fn predicates_come_out_as_on_the_processor() {
        use Truth::{No, Unknown, Yes};
        for (text, aarch64, power) in [
            ("target_arch = \"x86_64\"", No, No),
            ("not(target_arch = \"x86_64\")", Yes, Yes),
            (
                "any(target_arch = \"aarch64\", target_arch=\"x86\")",
                Yes,
                No,
            ),
            ("all(target_arch = \"powerpc64\", unix,)", No, Yes),
            ("target_feature = \"avx2\"", No, No),
            ("not(any(target_feature = \"sse4.2\", windows))", Yes, Yes),
            ("target_pointer_width = \"32\"", No, No),
            ("feature = \"simd\"", Unknown, Unknown),
            ("all(feature = \"simd\", target_arch = \"x86_64\")", No, No),
            ("target_arch = \"sparc64\"", No, No),
            ("target_feature = \"neon\"", Yes, No),
            ("target_feature = \"sve\"", Unknown, Unknown),
        ] {
            assert_eq!(on(Processor::Aarch64, text), aarch64, "{text}");
            assert_eq!(on(Processor::Ppc64le, text), power, "{text}");
        }
    }

    #[test]
    fn hostile_predicates_end() {
        let deep = format!("{}x{}", "not(".repeat(10_000), ")".repeat(10_000));
        assert_eq!(on(Processor::Aarch64, &deep), Truth::Unknown);
        for text in ["", "(", ")", "all(", "not()", "=", ",", "all)("] {
            on(Processor::Aarch64, text);
        }
    }
}
