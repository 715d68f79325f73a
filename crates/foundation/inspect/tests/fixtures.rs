//! The checked-in fixtures (`fixtures/build.sh` makes them) against what objdump said of them, and
//! outline call sites of stripped files against the symbols of the unstripped ones.

use std::collections::BTreeMap;
use std::path::Path;

use pgassay_inspect::{Binary, Class, FileKind, Machine, Options, inspect_elf};

fn inspect(name: &str) -> Binary {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    let bytes = std::fs::read(&path).expect("a fixture");
    inspect_elf(name, &bytes, &Options::on(1)).expect("a readable fixture")
}

/// Address and mnemonic of each atomic, as objdump listed them.
fn objdump(name: &str) -> Vec<(u64, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    std::fs::read_to_string(path)
        .expect("an objdump listing")
        .lines()
        .map(|line| {
            let (address, text) = line.split_once('\t').expect("two columns");
            let mut words = text.split_whitespace();
            let mut mnemonic = words.next().expect("a mnemonic").to_string();
            if mnemonic == "lock" {
                mnemonic = format!("lock {}", words.next().expect("a locked instruction"));
            }
            (
                u64::from_str_radix(address, 16).expect("an address"),
                mnemonic,
            )
        })
        .collect()
}

/// objdump's spelling made ours: AT&T suffixes, and the store forms of A64 (`stadd` is `ldadd` with
/// the result thrown away).
fn canonical(machine: &Machine, mnemonic: &str) -> String {
    match machine {
        Machine::X86_64 => {
            let bare = mnemonic.strip_prefix("lock ").unwrap_or(mnemonic);
            // `subl` is a sub; `sub` and `sbb` end in a letter that is a suffix elsewhere.
            let stem = match bare.strip_suffix(['b', 'w', 'l', 'q']) {
                Some(stem) if !["sub", "sbb", "cmpxchg8b", "cmpxchg16b"].contains(&bare) => stem,
                _ => bare,
            };
            mnemonic.replace(bare, stem)
        }
        Machine::Aarch64 => {
            for operation in ["add", "clr", "eor", "set"] {
                if let Some(rest) = mnemonic.strip_prefix(&format!("st{operation}")) {
                    return format!("ld{operation}{rest}");
                }
            }
            mnemonic.to_string()
        }
        _ => mnemonic.to_string(),
    }
}

const FIXTURES: &[&str] = &[
    "encodings-a64",
    "encodings-x86",
    "encodings-ppc64le",
    "encodings-riscv64",
    "encodings-s390x",
    "a64-gcc-outline",
    "a64-gcc-outline-bti",
    "a64-gcc-llsc",
    "a64-gcc-llsc-O0",
    "a64-gcc-armv8.1",
    "a64-gcc-neoverse-v1",
    "a64-clang-outline",
    "a64-clang-armv8.2",
    "x86-gcc",
    "x86-clang",
    "ppc64le-gcc",
    "riscv64-gcc",
    "s390x-gcc",
];

#[test]
fn every_fixture_agrees_with_objdump_by_address_and_mnemonic() {
    for name in FIXTURES {
        let binary = inspect(&format!("{name}.so"));
        let ours: Vec<(u64, String)> = binary
            .atomics
            .instructions
            .iter()
            .map(|a| (a.address, canonical(&binary.machine, &a.mnemonic)))
            .collect();
        let theirs: Vec<(u64, String)> = objdump(&format!("{name}.objdump"))
            .into_iter()
            .map(|(address, m)| (address, canonical(&binary.machine, &m)))
            .collect();
        assert!(theirs.len() >= 15, "{name}: objdump lists {}", theirs.len());
        assert_eq!(ours, theirs, "{name}");
        assert!(
            binary.atomics.outside.is_empty(),
            "{name}: {:?}",
            binary.atomics.outside
        );
        let unattributed = binary
            .atomics
            .instructions
            .iter()
            .filter(|a| a.function.is_none())
            .count();
        assert_eq!(unattributed, 0, "{name}");
    }
}

/// Calls by caller and helper name.
fn calls(binary: &Binary) -> BTreeMap<(String, String), u64> {
    binary
        .atomics
        .functions
        .iter()
        .flat_map(|f| {
            f.outline_calls
                .iter()
                .map(move |(h, n)| ((f.label(), h.clone()), *n))
        })
        .collect()
}

#[test]
fn outline_helpers_are_found_by_shape_alone() {
    for name in [
        "a64-gcc-outline",
        "a64-gcc-outline-bti",
        "a64-clang-outline",
    ] {
        let full = inspect(&format!("{name}.so"));
        let stripped = inspect(&format!("{name}.stripped.so"));
        assert!(stripped.build.stripped && !full.build.stripped);
        let truth = full.atomics.outline.expect("helpers");
        let found = stripped
            .atomics
            .outline
            .as_ref()
            .expect("helpers without names");
        // The symbols of the unstripped file confirm every name told from the shape.
        for helper in &truth.helpers {
            assert!(helper.named_by_symbol, "{name}: {helper:?}");
        }
        // Seven operations in four widths, and the spinlock's swap.
        assert_eq!(truth.helpers.len(), 7 * 4 + 1, "{name}");
        assert_eq!(truth.flag_addresses.len(), 1);
        assert_eq!(truth.flag_addresses, found.flag_addresses);
        let sites = |o: &pgassay_inspect::model::Outline| {
            o.calls
                .iter()
                .map(|c| (c.address, o.helpers[c.helper as usize].name.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(sites(&truth), sites(found), "{name}");
        // Debian's libgcc has landing pads whatever the caller was compiled with.
        assert!(found.helpers.iter().all(|h| h.bti), "{name}");
    }
}

#[test]
fn a_helper_without_a_landing_pad_is_one_and_a_lookalike_is_not() {
    let binary = inspect("a64-nobti.stripped.so");
    let outline = binary.atomics.outline.as_ref().expect("a helper");
    assert_eq!(outline.helpers.len(), 1);
    assert_eq!(outline.helpers[0].name, "__aarch64_ldadd4_relax");
    assert!(!outline.helpers[0].bti);
    assert_eq!(outline.helpers[0].call_sites, 2, "a call and a tail call");
    assert_eq!(binary.atomics.inline_lse(), 1, "the look-alike's");
    assert!(outline.calls.iter().all(|c| {
        c.function
            .is_some_and(|f| binary.atomics.functions[f as usize].label() == "calls")
    }));
}

#[test]
fn call_sites_belong_to_the_functions_that_the_source_says() {
    let binary = inspect("a64-gcc-outline.so");
    let calls = calls(&binary);
    let called = |caller: &str, helper: &str| calls.get(&(caller.into(), helper.into())).copied();
    assert_eq!(
        called("swap_u32", "__aarch64_swp4_acq"),
        Some(1),
        "{calls:?}"
    );
    assert_eq!(
        called("add_u64", "__aarch64_ldadd8_acq_rel"),
        Some(1),
        "{calls:?}"
    );
    assert_eq!(
        called("and_u16", "__aarch64_ldclr2_rel"),
        Some(1),
        "{calls:?}"
    );
    assert_eq!(
        called("pin", "__aarch64_cas4_acq_rel"),
        Some(1),
        "{calls:?}"
    );
    assert_eq!(called("tas", "__aarch64_swp4_sync"), Some(1), "{calls:?}");
}

#[test]
fn a_call_through_a_linker_s_veneer_counts_as_one_of_the_helper() {
    for name in ["a64-veneer.so", "a64-veneer.stripped.so"] {
        let binary = inspect(name);
        let outline = binary.atomics.outline.expect("a helper");
        // The one that the linker's veneer goes on to is no call site.
        let [helper] = outline.helpers.as_slice() else {
            panic!("{name}: {:?}", outline.helpers)
        };
        assert_eq!(
            (helper.name.as_str(), helper.call_sites),
            ("__aarch64_ldadd4_acq_rel", 2)
        );
        let far = &outline.calls[1];
        assert!(far.address >= 0xc00_0000 && far.address - helper.address > 128 << 20);
        let caller = &binary.atomics.functions[far.function.expect("a function") as usize];
        assert_eq!(caller.name.as_deref(), Some("far_add"), "{name}");
    }
}

#[test]
fn a_march_flag_shows_as_its_technique() {
    let llsc = inspect("a64-gcc-llsc.so").atomics;
    assert_eq!(
        (llsc.inline_lse(), llsc.inline_llsc(), llsc.outline_calls()),
        (0, 60, 0)
    );
    let lse = inspect("a64-gcc-armv8.1.so").atomics;
    assert_eq!(
        (lse.inline_lse(), lse.inline_llsc(), lse.outline_calls()),
        (30, 0, 0)
    );
    let outline = inspect("a64-gcc-outline.stripped.so").atomics;
    assert_eq!((outline.inline_lse(), outline.inline_llsc()), (0, 0));
    assert_eq!(outline.outline_calls(), 30);
    let x86 = inspect("x86-gcc.so").atomics;
    assert_eq!(x86.count(|c| c == Class::LockXadd), 8);
}

#[test]
fn a_separate_debug_file_names_static_functions() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let stripped = std::fs::read(directory.join("a64-debug.stripped.so")).expect("a fixture");
    let debug = std::fs::read(directory.join("a64-debug.debug")).expect("a fixture");
    let named = |options: &Options<'_>| {
        let binary = inspect_elf("x", &stripped, options).expect("readable");
        (
            calls(&binary).contains_key(&("tas".into(), "__aarch64_swp4_sync".into())),
            binary,
        )
    };
    let (without, binary) = named(&Options::on(1));
    assert!(!without, "tas is static");
    let wanted = pgassay_inspect::debug_wanted(&stripped).expect("a build id");
    assert_eq!(wanted.build_id, binary.build.build_id);
    let (with, binary) = named(&Options {
        debug: Some(&debug),
        ..Options::on(1)
    });
    assert!(with, "the debug file names it");
    assert!(
        binary.bounds.by_source.contains_key("debug-file"),
        "{:?}",
        binary.bounds
    );

    // One of another build is refused.
    let other = std::fs::read(directory.join("a64-gcc-outline.so")).expect("a fixture");
    let (with, binary) = named(&Options {
        debug: Some(&other),
        ..Options::on(1)
    });
    assert!(!with);
    assert!(
        binary.warnings.iter().any(|w| w.contains("another build")),
        "{:?}",
        binary.warnings
    );

    // The debug file itself has no code, but says how it was compiled.
    let alone = inspect_elf("d", &debug, &Options::on(1)).expect("readable");
    assert_eq!(alone.kind, FileKind::DebugInfo);
    assert_eq!(alone.atomics.total(), 0);
    assert!(
        alone.build.compilers.iter().any(|c| c.starts_with("GNU C")),
        "{:?}",
        alone.build
    );
    assert!(
        alone.build.flags.iter().any(|f| f.flags.contains("-O2")),
        "{:?}",
        alone.build.flags
    );
}

#[test]
fn a_result_survives_serialisation() {
    let binary = inspect("a64-gcc-outline.so");
    let text = serde_json::to_string(&binary).expect("JSON");
    let back: Binary = serde_json::from_str(&text).expect("the same");
    assert_eq!(binary, back);
}

/// Alignments of LOAD segments as readelf reads them, the smallest first, with how many there are.
fn readelf(name: &str) -> Option<Vec<(u64, u64)>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    let output = std::process::Command::new("readelf")
        .arg("-lW")
        .arg(path)
        .output();
    let output = output.ok().filter(|output| output.status.success())?;
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let mut words = line.split_whitespace();
        if words.next() == Some("LOAD") {
            let last = words.next_back()?.strip_prefix("0x")?;
            *counts
                .entry(u64::from_str_radix(last, 16).ok()?)
                .or_insert(0) += 1;
        }
    }
    Some(counts.into_iter().collect())
}

#[test]
fn alignments_are_those_that_readelf_reads() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for entry in std::fs::read_dir(fixtures).expect("the fixtures") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_string_lossy();
        if !name.ends_with(".so") {
            continue;
        }
        let ours = inspect(&name).loading.load_segments;
        let ours: Vec<(u64, u64)> = ours.iter().map(|a| (a.align_bytes, a.segments)).collect();
        assert!(!ours.is_empty(), "{name}");
        if let Some(theirs) = readelf(&name) {
            assert_eq!(ours, theirs, "{name}");
        }
    }
}

#[test]
fn files_load_where_their_segments_and_their_jemalloc_allow() {
    use pgassay_inspect::loading::Loads::{No, Yes};
    let loads = |name: &str| {
        let kernels = inspect(name).loading.kernels;
        let loads = kernels.iter().map(|k| (k.page_kib(), k.loads));
        loads.collect::<Vec<_>>()
    };
    // Linked with max-page-size=4096.
    assert_eq!(loads("a64-gcc-outline.so"), [(4, Yes), (16, No), (64, No)]);
    assert_eq!(loads("ppc64le-gcc.so"), [(4, Yes), (64, No)]);
    assert_eq!(loads("x86-gcc.so"), [(4, Yes)]);
    // Linked with 65536; the check in the code is for 4, 16 and 64 KiB.
    assert_eq!(loads("a64-pages-4k.so"), [(4, Yes), (16, No), (64, No)]);
    assert_eq!(loads("a64-pages-16k.so"), [(4, Yes), (16, Yes), (64, No)]);
    assert_eq!(loads("a64-pages-64k.so"), [(4, Yes), (16, Yes), (64, Yes)]);
    let built = inspect("a64-pages-16k.so")
        .loading
        .jemalloc
        .expect("its message");
    assert_eq!(built.page_bytes, Some(16 << 10));
    let demand = |name, id| {
        let requirement = pgassay_inspect::require::Requirement::find(id).expect("known");
        requirement.check(&inspect(name))
    };
    assert!(demand("a64-pages-16k.so", "loads-16k").is_ok());
    let why = demand("a64-pages-16k.so", "loads-64k").expect_err("larger pages");
    assert!(
        why.contains("jemalloc is built for pages of up to 16 KiB"),
        "{why}"
    );
    assert!(
        demand("x86-gcc.so", "loads-64k").is_ok(),
        "x86 has no such pages"
    );
}

#[test]
fn a_module_needs_what_the_server_calls_without_a_check() {
    use pgassay_inspect::modules::{Choice, module};
    let judged = |name: &str, has: Option<bool>| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures")
            .join(name);
        let bytes = std::fs::read(path).expect("a fixture");
        module(name, &bytes, &|_, _| has).expect("a module")
    };
    let whole = judged("x86-module-avx2.so", Some(false));
    assert_eq!(whole.choice, Choice::Unconditional);
    assert!(whole.lacking.iter().any(|e| e == "AVX"), "{whole:?}");
    assert!(judged("x86-module-avx2.so", Some(true)).lacking.is_empty());
    let chosen = judged("x86-module-chosen.so", Some(false));
    assert_eq!(chosen.choice, Choice::RunTime, "{chosen:?}");
    assert!(
        !chosen.uses.is_empty() && chosen.lacking.is_empty(),
        "{chosen:?}"
    );
    let entry = judged("x86-module-entry.so", Some(false));
    assert_eq!(entry.choice, Choice::Unconditional, "{entry:?}");
    assert!(entry.evidence[0].contains("distance"), "{entry:?}");
    assert!(
        judged("x86-module-baseline.so", Some(false))
            .uses
            .is_empty()
    );
}
