//! Files made to break a reader: each gets an error or a result, never a panic or an endless loop.

use std::io::Write;
use std::path::Path;

use pgassay_inspect::archive::{Found, Limits, walk};
use pgassay_inspect::{Error, Options, inspect_elf};

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    std::fs::read(path).expect("a fixture")
}

const ONE: Options<'static> = Options::on(1);

#[test]
fn what_is_no_program_is_named_for_what_it_is() {
    assert!(matches!(inspect_elf("x", b"", &ONE), Err(Error::Empty)));
    assert!(matches!(
        inspect_elf("x", b"#!/bin/sh\n", &ONE),
        Err(Error::NotElf)
    ));
    assert!(matches!(
        inspect_elf("x", b"\x7fELF\x02\x01", &ONE),
        Err(Error::Damaged(_))
    ));
    let mut core = fixture("x86-gcc.so");
    core[16] = 4;
    assert!(matches!(
        inspect_elf("x", &core, &ONE),
        Err(Error::CoreDump)
    ));
    let mut object = fixture("x86-gcc.so");
    object[16] = 1;
    assert!(matches!(
        inspect_elf("x", &object, &ONE),
        Err(Error::Unlinked)
    ));
}

#[test]
fn other_machines_are_told() {
    let mut arm32 = fixture("x86-gcc.so");
    (arm32[4], arm32[18]) = (1, 40);
    let binary = inspect_elf("x", &arm32, &ONE).expect("a foreign machine is no error");
    assert_eq!(binary.machine.name(), "arm (32-bit)");
    assert_eq!(binary.warnings.len(), 1);
    let mut big = fixture("x86-gcc.so");
    (big[5], big[18], big[19]) = (2, 0, 21);
    (big[16], big[17]) = (0, 3);
    let binary = inspect_elf("x", &big, &ONE).expect("likewise");
    assert_eq!(binary.machine.name(), "ppc64 (64-bit, big-endian)");
}

#[test]
fn every_truncation_is_survived() {
    for name in ["a64-gcc-outline.so", "x86-gcc.so", "s390x-gcc.so"] {
        let whole = fixture(name);
        for length in (0..whole.len()).step_by(101) {
            let _ = inspect_elf(name, &whole[..length], &ONE);
        }
    }
}

#[test]
fn every_damaged_header_byte_is_survived() {
    let whole = fixture("a64-gcc-outline.so");
    let sections = u64::from_le_bytes(whole[40..48].try_into().expect("eight bytes")) as usize;
    let offsets = (0..64)
        .chain(64..64 + 56 * 8)
        .chain((sections..whole.len()).step_by(5));
    for offset in offsets {
        for value in [0, 1, 0x7F, 0x80, 0xFF] {
            let mut bytes = whole.clone();
            if let Some(byte) = bytes.get_mut(offset) {
                *byte = value;
            }
            if let Ok(binary) = inspect_elf("x", &bytes, &ONE) {
                assert!(
                    binary.bounds.text_bytes <= bytes.len() as u64,
                    "offset {offset}"
                );
            }
        }
    }
}

/// What a walk meets: ELF names, and problems as text.
fn walked(package: &[u8], limits: &Limits) -> (Vec<String>, Vec<String>) {
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    walk("p", package, limits, &mut |name, found| match found {
        Found::Elf(_) => files.push(name.to_string()),
        Found::Wanted(_) => {}
        Found::Problem(error) => problems.push(format!("{name}: {error}")),
    });
    (files, problems)
}

fn tar_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, data) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        if header.set_path(name).is_err() {
            // A name that leaves the directory: the library will not write it, so by hand.
            let bytes = &mut header.as_mut_bytes()[..100];
            bytes[..name.len()].copy_from_slice(name.as_bytes());
        }
        header.set_cksum();
        tar.append(&header, *data).expect("into memory");
    }
    tar.into_inner().expect("into memory")
}

fn zip_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, data) in members {
        zip.start_file(*name, zip::write::SimpleFileOptions::default())
            .expect("a member");
        zip.write_all(data).expect("into memory");
    }
    zip.finish().expect("into memory").into_inner()
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gz.write_all(data).expect("into memory");
    gz.finish().expect("into memory")
}

#[test]
fn nested_packages_are_opened_and_names_do_no_harm() {
    let elf = fixture("x86-gcc.so");
    let tar = gzip(&tar_of(&[
        ("../../etc/passwd", &elf),
        ("bin/postgres", &elf),
        ("README", b"text"),
    ]));
    let jar = zip_of(&[("a/inner.tgz", &tar), ("b.so", &elf)]);
    let (files, problems) = walked(&jar, &Limits::default());
    assert_eq!(
        files,
        [
            "p!a/inner.tgz!../../etc/passwd",
            "p!a/inner.tgz!bin/postgres",
            "p!b.so"
        ]
    );
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn nesting_ends() {
    let mut package = fixture("x86-gcc.so");
    for _ in 0..30 {
        package = zip_of(&[("inner", &package)]);
    }
    let (files, problems) = walked(&package, &Limits::default());
    assert!(files.is_empty());
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("nesting"), "{problems:?}");
}

#[test]
fn bombs_end_at_the_limit() {
    // Zeros that claim to be a program: 72 MiB from 70 KiB.
    let mut zeros = fixture("x86-gcc.so");
    zeros.resize(72 << 20, 0);
    let bomb = gzip(&zeros);
    let limits = Limits {
        ratio: 100,
        ..Limits::default()
    };
    let (files, problems) = walked(&bomb, &limits);
    assert!(files.is_empty());
    assert!(problems[0].contains("100 times"), "{problems:?}");
    let limits = Limits {
        held_bytes: 1 << 20,
        ..Limits::default()
    };
    let (files, problems) = walked(&bomb, &limits);
    assert!(files.is_empty());
    assert!(problems[0].contains("1 MiB"), "{problems:?}");
    let many: Vec<(String, &[u8])> = (0..300)
        .map(|i| (format!("f{i}"), b"x".as_slice()))
        .collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|(n, d)| (n.as_str(), *d)).collect();
    let limits = Limits {
        entries: 100,
        ..Limits::default()
    };
    let (_, problems) = walked(&zip_of(&many), &limits);
    assert!(problems[0].contains("number of members"), "{problems:?}");
}

#[test]
fn one_damaged_member_leaves_the_others() {
    let elf = fixture("x86-gcc.so");
    let mut damaged = gzip(&tar_of(&[("a", &elf)]));
    let middle = damaged.len() / 2;
    damaged.truncate(middle);
    let jar = zip_of(&[
        ("cut.tgz", &damaged),
        ("whole.so", &elf),
        ("old.tbz", b"BZh91AY&SY"),
    ]);
    let (files, problems) = walked(&jar, &Limits::default());
    assert!(files.contains(&"p!whole.so".to_string()), "{files:?}");
    // The member that was cut, the stream it was in, and the one that can't be read.
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(problems.iter().any(|p| p.contains("bzip2")), "{problems:?}");
}

/// Attack D7: every level of zips stored within one another was held whole, each with a limit of
/// its own.
#[test]
fn what_is_held_over_all_levels_has_one_limit() {
    let mut package = fixture("x86-gcc.so");
    // What does not compress, so that each level is as long as the one within.
    let mut state = 1_u64;
    while package.len() < 600 << 10 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        package.extend_from_slice(&state.to_be_bytes()[..4]);
    }
    let alone = zip_of(&[("inner", &package)]);
    for _ in 0..3 {
        package = zip_of(&[("inner", &package)]);
    }
    let nested = gzip(&package);
    let limits = Limits {
        held_bytes: 1 << 20,
        ..Limits::default()
    };
    let (files, problems) = walked(&nested, &limits);
    assert!(files.is_empty(), "{files:?}");
    assert!(problems[0].contains("1 MiB"), "{problems:?}");
    // One level of the same fits, and so do many one after another: each is let go of.
    let (files, problems) = walked(&alone, &limits);
    assert_eq!((files.len(), problems.len()), (1, 0), "{problems:?}");
    let beside = tar_of(&[("a", &alone), ("b", &alone), ("c", &alone)]);
    let limits = Limits {
        held_bytes: 2 << 20,
        ..Limits::default()
    };
    let (files, problems) = walked(&beside, &limits);
    assert_eq!((files.len(), problems.len()), (3, 0), "{problems:?}");
}

/// Attack D7: a file of nothing but locked instructions took 144 bytes of memory for each.
#[test]
fn instructions_beyond_the_limit_are_counted_only() {
    for name in ["x86-gcc.so", "a64-gcc-outline.so", "a64-gcc-llsc.so"] {
        let bytes = fixture(name);
        let all = inspect_elf(name, &bytes, &ONE).expect("a fixture");
        let few = Options {
            most_listed: 7,
            ..ONE
        };
        let few = inspect_elf(name, &bytes, &few).expect("a fixture");
        assert!(all.atomics.listed() > 20, "{name}");
        assert!(
            few.atomics.listed() <= 21,
            "{name}: {}",
            few.atomics.listed()
        );
        // A helper is known by its instruction: one that is not listed is not found.
        assert!(few.atomics.outline_calls() <= all.atomics.outline_calls());
        let total = |b: &pgassay_inspect::Binary| b.atomics.total() + b.atomics.outside_count;
        assert_eq!(total(&all), total(&few), "{name}: all are counted");
        let said = few.warnings.iter().any(|w| w.contains("totals only"));
        assert!(said, "{name}: {:?}", few.warnings);
        assert!(!all.warnings.iter().any(|w| w.contains("totals only")));
    }
}

/// Attack D7: a count of 160 million sections, in a sparse file, took 80 seconds.
#[test]
fn a_file_that_claims_millions_of_sections_is_refused() {
    let mut bytes = fixture("x86-gcc.so");
    let sections = u64::from_le_bytes(bytes[40..48].try_into().expect("eight bytes")) as usize;
    // The count stands in the first section's size where the header says 0.
    bytes[60..62].copy_from_slice(&[0, 0]);
    bytes[sections + 32..sections + 40].copy_from_slice(&160_000_000_u64.to_le_bytes());
    let refused = inspect_elf("x", &bytes, &ONE);
    assert!(
        matches!(&refused, Err(Error::Limit { what, .. }) if what.contains("sections")),
        "{refused:?}"
    );
    bytes[16] = 1;
    assert!(matches!(
        inspect_elf("x", &bytes, &ONE),
        Err(Error::Unlinked)
    ));
    let mut bytes = fixture("s390x-gcc.so");
    let sections = u64::from_be_bytes(bytes[40..48].try_into().expect("eight bytes")) as usize;
    bytes[56..58].copy_from_slice(&[0xFF, 0xFF]);
    bytes[sections + 44..sections + 48].copy_from_slice(&u32::MAX.to_be_bytes());
    let refused = inspect_elf("x", &bytes, &ONE);
    assert!(
        matches!(&refused, Err(Error::Limit { what, .. }) if what.contains("segments")),
        "{refused:?}"
    );
}
