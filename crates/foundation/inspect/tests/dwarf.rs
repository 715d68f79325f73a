//! What DWARF and `.gnu_debugdata` tell, against addr2line's and the compiler's word
//! (`fixtures/build.sh` makes the files), and DWARF made to exhaust its reader.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use pgassay_inspect::{Binary, Options, inspect_elf};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).expect("a fixture")
}

fn inspect(name: &str) -> Binary {
    inspect_elf(name, &fixture(name), &Options::on(1)).expect("a readable fixture")
}

/// Each instruction and call site with the functions around it, the outermost first.
fn chains(binary: &Binary) -> BTreeMap<u64, String> {
    let functions = &binary.atomics.functions;
    let helper = |f: Option<u32>| f.is_some_and(|f| functions[f as usize].is_outline_helper);
    let text = |function: Option<u32>, inlined: &[String]| {
        let mut chain = vec![functions[function.expect("a function") as usize].label()];
        chain.extend_from_slice(inlined);
        chain.join(">")
    };
    let atomics = binary.atomics.instructions.iter();
    let calls = binary.atomics.outline.iter().flat_map(|o| &o.calls);
    atomics
        .filter(|a| !helper(a.function))
        .map(|a| (a.address, text(a.function, &a.inlined)))
        .chain(calls.map(|c| (c.address, text(c.function, &c.inlined))))
        .collect()
}

/// What addr2line said.
fn listed(name: &str) -> BTreeMap<u64, String> {
    let text = std::fs::read_to_string(path(name)).expect("a listing");
    text.lines()
        .map(|line| {
            let (address, chain) = line.split_once('\t').expect("two columns");
            let address = u64::from_str_radix(address, 16).expect("an address");
            (address, chain.to_string())
        })
        .collect()
}

#[test]
fn inlined_functions_are_those_that_addr2line_names() {
    for name in [
        "x86-inlined",
        "x86-inlined-dwarf4",
        "x86-inlined-clang",
        "a64-inlined",
    ] {
        let binary = inspect(&format!("{name}.so"));
        let truth = listed(&format!("{name}.inlined"));
        assert!(truth.len() >= 3, "{name}");
        assert_eq!(chains(&binary), truth, "{name}");
        assert!(binary.warnings.is_empty(), "{name}: {:?}", binary.warnings);
    }
    // The same source and compiler, with the other way of writing ranges.
    assert_eq!(
        chains(&inspect("x86-inlined-clang5.so")),
        chains(&inspect("x86-inlined-clang.so"))
    );
    let binary = inspect("a64-inlined.so");
    let read = binary
        .atomics
        .functions
        .iter()
        .find(|f| f.label() == "ReadBuffer");
    let read = read.expect("the function around them");
    assert_eq!(
        read.inlined,
        BTreeMap::from([
            ("PinBuffer > compare_exchange > cas_impl".to_string(), 1),
            ("tas".to_string(), 2),
        ])
    );
}

#[test]
fn compressed_dwarf_reads_as_plain() {
    let truth = chains(&inspect("x86-inlined.so"));
    for how in ["zlib", "zlib-gnu", "zstd"] {
        let binary = inspect(&format!("x86-inlined-{how}.so"));
        assert_eq!(chains(&binary), truth, "{how}");
        assert!(binary.build.has_dwarf, "{how}");
        assert!(
            binary
                .build
                .compilers
                .iter()
                .any(|c| c.starts_with("GNU C")),
            "{how}: {:?}",
            binary.build.compilers
        );
    }
}

#[test]
fn dwarf_of_the_debug_file_is_used_where_the_file_has_none() {
    let stripped = fixture("a64-debug.stripped.so");
    let debug = fixture("a64-debug.debug");
    let options = Options {
        debug: Some(&debug),
        ..Options::on(1)
    };
    let binary = inspect_elf("x", &stripped, &options).expect("readable");
    let compilers = &binary.build.compilers;
    assert!(
        compilers.iter().any(|c| c.starts_with("GNU C")),
        "{compilers:?}"
    );
    let flags = &binary.build.flags;
    assert!(
        flags
            .iter()
            .any(|f| f.source == "DW_AT_producer" && f.flags.contains("-O2")),
        "{flags:?}"
    );
}

#[test]
fn names_that_dwz_moved_to_a_common_file_are_read_there() {
    let bytes = fixture("x86-dwz.so");
    let wanted = pgassay_inspect::supplement_wanted(&bytes).expect("a name");
    assert_eq!(wanted.path, b"x86-dwz.common");
    let common = fixture("x86-dwz.common");
    let with = |supplement| {
        let options = Options {
            supplement,
            ..Options::on(1)
        };
        inspect_elf("x86-dwz.so", &bytes, &options).expect("readable")
    };
    let whole = with(Some(common.as_slice()));
    let listed = listed("x86-dwz.inlined");
    assert!(
        listed
            .values()
            .any(|c| c.ends_with("compare_exchange>cas_impl"))
    );
    assert_eq!(chains(&whole), listed);
    assert_eq!(whole.warnings, [""; 0]);
    assert!(
        whole.build.compilers.iter().any(|c| c.contains("GNU C17")),
        "{:?}",
        whole.build.compilers
    );

    // Without it, or with another file in its place, the account says so.
    let other = fixture("x86-inlined.so");
    for (supplement, why) in [
        (None, "which is not there"),
        (Some(other.as_slice()), "of another build"),
        (Some(&b"text"[..]), "can't be read"),
    ] {
        let binary = with(supplement);
        assert!(
            binary.warnings.iter().any(|w| w.contains(why)),
            "{:?}",
            binary.warnings
        );
        assert!(chains(&binary).values().any(|c| c.contains("<inlined>")));
    }
    for cut in (0..common.len()).step_by(7) {
        with(Some(&common[..cut]));
    }
}

#[test]
fn units_with_their_dwarf_elsewhere_are_said() {
    let binary = inspect("x86-split.so");
    assert!(
        binary.warnings.iter().any(|w| w.contains(".dwo")),
        "{:?}",
        binary.warnings
    );
}

#[test]
fn the_symbols_in_gnu_debugdata_name_static_functions() {
    let binary = inspect("x86-debugdata.so");
    assert!(binary.build.stripped);
    assert!(
        binary.bounds.by_source["debugdata"] >= 3,
        "{:?}",
        binary.bounds
    );
    let names: Vec<String> = binary.atomics.functions.iter().map(|f| f.label()).collect();
    assert!(names.contains(&"tas".to_string()), "{names:?}");
    assert!(names.contains(&"cas_impl".to_string()), "{names:?}");
}

/// Offset of the section header with this name, by the file's own tables.
fn header_of(elf: &[u8], wanted: &str) -> usize {
    let word = |at: usize| u64::from_le_bytes(elf[at..at + 8].try_into().expect("eight bytes"));
    let half = |at: usize| usize::from(u16::from_le_bytes([elf[at], elf[at + 1]]));
    let (table, count, names) = (word(0x28) as usize, half(0x3C), half(0x3E));
    let names = word(table + 64 * names + 0x18) as usize;
    (0..count)
        .map(|i| table + 64 * i)
        .find(|h| {
            let name = u32::from_le_bytes(elf[*h..h + 4].try_into().expect("four bytes"));
            let name = &elf[names + name as usize..];
            name.starts_with(wanted.as_bytes()) && name[wanted.len()] == 0
        })
        .expect("the section")
}

/// The file with a section's contents replaced.
fn with_section(mut elf: Vec<u8>, name: &str, contents: &[u8], compressed: bool) -> Vec<u8> {
    let header = header_of(&elf, name);
    let offset = elf.len() as u64;
    elf.extend_from_slice(contents);
    elf[header + 0x18..header + 0x20].copy_from_slice(&offset.to_le_bytes());
    elf[header + 0x20..header + 0x28].copy_from_slice(&(contents.len() as u64).to_le_bytes());
    let flags: u64 = if compressed { 0x800 } else { 0 };
    elf[header + 0x08..header + 0x10].copy_from_slice(&flags.to_le_bytes());
    elf
}

#[test]
fn a_section_that_unpacks_without_end_is_not_unpacked() {
    let mut packed = Vec::new();
    // Elf64_Chdr: zlib, reserved, the size it claims, alignment.
    packed.extend_from_slice(&1u32.to_le_bytes());
    packed.extend_from_slice(&0u32.to_le_bytes());
    packed.extend_from_slice(&(1u64 << 40).to_le_bytes());
    packed.extend_from_slice(&1u64.to_le_bytes());
    let mut zlib = flate2::write::ZlibEncoder::new(packed, flate2::Compression::best());
    zlib.write_all(&vec![0; 8 << 20]).expect("into memory");
    let packed = zlib.finish().expect("into memory");
    let bomb = with_section(fixture("x86-inlined.so"), ".debug_info", &packed, true);
    let binary = inspect_elf("x", &bomb, &Options::on(1)).expect("the code is whole");
    assert_eq!(binary.atomics.total(), 3);
    assert!(
        binary
            .warnings
            .iter()
            .any(|w| w.contains(".debug_info can't be unpacked")),
        "{:?}",
        binary.warnings
    );
}

#[test]
fn dwarf_that_asks_for_work_without_end_is_left() {
    let elf = fixture("x86-inlined.so");
    // A unit's root that covers all addresses, with ten thousand attributes of no bytes in each of
    // its hundred thousand children of one byte: 10^9 attributes from 150 kB.
    let mut abbreviations = vec![1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0, 0];
    abbreviations.extend_from_slice(&[2, 0x34, 0]);
    for _ in 0..10_000 {
        abbreviations.extend_from_slice(&[0x3F, 0x19]); // DW_AT_external, DW_FORM_flag_present
    }
    abbreviations.extend_from_slice(&[0, 0, 0]);
    let mut body = vec![5, 0, 1, 8, 0, 0, 0, 0]; // version 5, compile unit, addresses of 8 bytes
    body.push(1);
    body.extend_from_slice(&0u64.to_le_bytes()); // low_pc
    body.extend_from_slice(&(1u64 << 40).to_le_bytes()); // length
    body.resize(100_000, 2);
    let mut unit = (body.len() as u32).to_le_bytes().to_vec();
    unit.extend_from_slice(&body);
    let bomb = with_section(elf, ".debug_abbrev", &abbreviations, false);
    let bomb = with_section(bomb, ".debug_info", &unit, false);
    let binary = inspect_elf("x", &bomb, &Options::on(1)).expect("the code is whole");
    assert_eq!(binary.atomics.total(), 3);
    assert!(
        binary
            .warnings
            .iter()
            .any(|w| w.contains("more work than its size warrants")),
        "{:?}",
        binary.warnings
    );
}
