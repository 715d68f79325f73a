//! Real packages: what rpmbuild wrote (`fixtures/build.sh`), read without unpacking to disk.

use std::path::Path;

use pgassay_inspect::archive::{Found, Kind, Limits, walk};
use pgassay_inspect::{Options, inspect_elf};

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    std::fs::read(path).expect("a fixture")
}

#[test]
fn an_rpm_gives_its_programs_however_it_is_compressed() {
    let truth = [
        ("one.so", fixture("x86-gcc.so")),
        ("two.so", fixture("a64-gcc-outline.stripped.so")),
    ];
    for how in ["zstdio", "xzdio", "gzdio"] {
        let package = fixture(&format!("package-{how}.rpm"));
        assert_eq!(Kind::of(&package), Kind::Rpm);
        let mut seen = Vec::new();
        walk("p.rpm", &package, &Limits::default(), &mut |name, found| {
            let Found::Elf(bytes) = found else {
                panic!("{how}: {name}: {found:?}");
            };
            let member = truth.iter().find(|(end, _)| name.ends_with(end));
            let (_, original) = member.unwrap_or_else(|| panic!("{how}: {name}"));
            assert!(bytes == original, "{how}: {name} has other bytes");
            let binary = inspect_elf(name, bytes, &Options::on(1)).expect("readable");
            assert!(binary.atomics.total() > 0);
            seen.push(name.to_string());
        });
        assert_eq!(
            seen,
            ["p.rpm!usr/lib64/deep/er/two.so", "p.rpm!usr/lib64/one.so"],
            "{how}: the link and the text are passed over"
        );
    }
}

#[test]
fn a_damaged_rpm_is_an_error_that_says_so() {
    let whole = fixture("package-zstdio.rpm");
    for length in (0..whole.len()).step_by(37) {
        let mut problems = 0;
        walk(
            "p",
            &whole[..length],
            &Limits::default(),
            &mut |_, found| {
                problems += u32::from(matches!(found, Found::Problem(_)));
            },
        );
        // Less than the magic number is a file of no kind.
        assert!(length < 4 || problems > 0, "cut at {length}: no word of it");
    }
}
