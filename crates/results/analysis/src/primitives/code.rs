//! Which code ran: inspect's account of a primitive's own functions, and whether
//! what was compiled into the library is what the server is made of.

use std::collections::BTreeSet;

use pgassay_inspect::Binary;
use pgassay_inspect::model::{Class, FunctionAtomics};
use pgassay_model::primitives::Compiled;

/// Where a primitive's atomic instructions are.
struct Ran {
    primitive: &'static str,
    /// Paths of the server's executable, by inspect's names.
    paths: &'static [&'static str],
    /// Functions of the library that hold inlined ones; their beginnings.
    inlined: &'static [&'static str],
}

const RAN: &[Ran] = &[
    Ran {
        primitive: "spinlock",
        paths: &["spinlock", "spin-delay"],
        inlined: &["pgassay_spinlock"],
    },
    Ran {
        primitive: "lwlock",
        paths: &["lwlock"],
        inlined: &[],
    },
    Ran {
        primitive: "buffer-hit",
        paths: &["buffer-pin", "buffer-unpin", "lwlock"],
        inlined: &[],
    },
    Ran {
        primitive: "snapshot",
        paths: &["snapshot", "lwlock"],
        inlined: &[],
    },
    Ran {
        primitive: "relation-lock",
        paths: &["lwlock"],
        inlined: &[],
    },
    Ran {
        primitive: "wal-insert",
        paths: &["wal-insert", "lwlock"],
        inlined: &[],
    },
    Ran {
        primitive: "atomics",
        paths: &[],
        inlined: &["pgassay_atomics", "loop_swap", "loop_add"],
    },
];

/// What inspect says of the functions that a primitive ran: a title and the
/// account for each; empty for the query loops, which run all of the server.
pub fn account(
    primitive: &str,
    server: Option<&Binary>,
    compiled: Option<&Compiled>,
) -> Vec<(String, String)> {
    let Some(ran) = RAN.iter().find(|ran| ran.primitive == primitive) else {
        return Vec::new();
    };
    let paths = ran.paths.iter().flat_map(|id| {
        let paths = server.iter().flat_map(|binary| &binary.hot_paths);
        paths
            .filter(move |path| path.id == *id)
            .map(|path| (path.title.clone(), path.detail.clone()))
    });
    let library = compiled.and_then(|compiled| compiled.binary.as_ref());
    let inlined: Vec<String> = library
        .iter()
        .flat_map(|binary| &binary.atomics.functions)
        .filter(|function| {
            let name = function.name.as_deref().unwrap_or_default();
            ran.inlined.iter().any(|start| name.starts_with(start))
        })
        .map(in_words)
        .collect();
    let inlined = (!inlined.is_empty()).then(|| {
        (
            "inlined from the server's headers".to_owned(),
            inlined.join("; "),
        )
    });
    paths.chain(inlined).collect()
}

fn in_words(function: &FunctionAtomics) -> String {
    let counts = function.counts.iter();
    let counts = counts.map(|(class, n)| format!("{n} {}", class.name()));
    let calls = function.outline_calls.iter();
    let calls = calls.map(|(helper, n)| format!("{n} calls of {helper}"));
    let parts: Vec<String> = counts.chain(calls).collect();
    format!("{}: {}", function.label(), parts.join(", "))
}

/// A compiler's family and version, however it calls itself: `GCC: (Debian
/// 12.2.0-14) 12.2.0`, `GNU C17 12.2.0 -O2` and `gcc (Debian 12.2.0-14) 12.2.0`
/// are one.
fn make(text: &str) -> (&'static str, &str) {
    let lower = text.to_ascii_lowercase();
    let family = match lower.contains("clang") {
        true => "clang",
        false if lower.contains("gcc") || lower.contains("gnu c") => "gcc",
        false => "another",
    };
    let is_version =
        |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let mut words = text.split_ascii_whitespace();
    (family, words.rfind(is_version).unwrap_or(text))
}

/// In what the library's code differs from the server's, as far as inspect can
/// tell: another compiler, or kinds of atomics that the server has none of.
pub fn differences(library: &Binary, server: &Binary) -> Vec<String> {
    let mut differences = Vec::new();
    let (ours, theirs) = (&library.build.compilers, &server.build.compilers);
    let of_server: BTreeSet<_> = theirs.iter().map(|text| make(text)).collect();
    let other: Vec<&str> = ours
        .iter()
        .filter(|compiler| !of_server.contains(&make(compiler)))
        .map(String::as_str)
        .collect();
    if !theirs.is_empty() && !other.is_empty() {
        differences.push(format!(
            "compiled by {}, the server by {}",
            other.join(" and "),
            theirs.join(" and ")
        ));
    }
    for (what, ours, theirs) in [
        (
            "LSE instructions inline",
            library.atomics.inline_lse(),
            server.atomics.inline_lse(),
        ),
        (
            "load-linked and store-conditional loops inline",
            library.atomics.inline_llsc(),
            server.atomics.inline_llsc(),
        ),
        (
            "calls of outline helpers",
            library.atomics.outline_calls(),
            server.atomics.outline_calls(),
        ),
    ] {
        if ours > 0 && theirs == 0 {
            differences.push(format!("it holds {what}, the server none"));
        }
    }
    let holds = |class: &Class| server.atomics.counts.contains_key(class);
    let foreign: Vec<&str> = library
        .atomics
        .counts
        .keys()
        .filter(|class| !class.is_lse() && !class.is_llsc() && !holds(class))
        .map(|class| class.name())
        .collect();
    if !foreign.is_empty() {
        differences.push(format!("it holds {}, the server none", foreign.join(", ")));
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_inspect::model::{
        Atomics, BuildFacts, FileKind, FunctionBounds, Hardening, Machine,
    };
    use pgassay_inspect::model::{HotPath, Technique};

    fn binary(compiler: &str, classes: &[Class]) -> Binary {
        let mut binary = Binary {
            path: "/x".to_owned(),
            machine: Machine::X86_64,
            kind: FileKind::SharedLibrary,
            size_bytes: 1,
            build: BuildFacts::default(),
            postgres: None,
            hardening: Hardening::default(),
            bounds: FunctionBounds::default(),
            atomics: Atomics::default(),
            hints: vec![],
            hot_paths: vec![],
            warnings: vec![],
            process: None,
            loading: Default::default(),
        };
        binary.build.compilers = vec![compiler.to_owned()];
        binary.atomics.counts = classes.iter().map(|class| (*class, 1)).collect();
        binary
    }

    #[test]
    fn another_compiler_or_other_instructions_are_told() {
        let server = binary("GCC 12", &[Class::LockCmpxchg, Class::Xchg]);
        assert!(differences(&binary("GCC 12", &[Class::Xchg]), &server).is_empty());
        assert_eq!(
            make("GCC: (Debian 12.2.0-14+deb12u1) 12.2.0"),
            ("gcc", "12.2.0")
        );
        assert_eq!(make("GNU C17 12.2.0 -mtune=generic"), ("gcc", "12.2.0"));
        assert_eq!(
            make("Debian clang version 19.1.7 (3+b1)"),
            ("clang", "19.1.7")
        );
        let other = binary("clang 19", &[Class::LockXadd]);
        assert_eq!(
            differences(&other, &server),
            [
                "compiled by clang 19, the server by GCC 12",
                "it holds lock-xadd, the server none"
            ]
        );
        let armed = binary("GCC 12", &[Class::LseSwp]);
        let loops = binary("GCC 12", &[Class::LoadExclusive]);
        assert_eq!(
            differences(&armed, &loops),
            ["it holds LSE instructions inline, the server none"]
        );
    }

    #[test]
    fn a_primitive_is_shown_with_its_own_functions() {
        let mut server = binary("GCC 12", &[]);
        server.hot_paths = ["lwlock", "snapshot", "crc32c"]
            .map(|id| HotPath {
                id: id.to_owned(),
                title: format!("the {id}"),
                technique: Technique::Locked,
                functions: vec![],
                detail: format!("{id}: 2 lock-cmpxchg"),
            })
            .to_vec();
        let said = account("snapshot", Some(&server), None);
        let titles: Vec<&str> = said.iter().map(|(title, _)| title.as_str()).collect();
        assert_eq!(titles, ["the snapshot", "the lwlock"]);
        assert!(account("query-loop", Some(&server), None).is_empty());
    }
}
