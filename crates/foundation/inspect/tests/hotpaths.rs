//! PostgreSQL's static functions in stripped files: named where their callers leave one choice. The
//! symbols that stripping took are the truth (`fixtures/build.sh`).

use std::collections::BTreeMap;
use std::path::Path;

use pgassay_inspect::model::Technique;
use pgassay_inspect::{Binary, Options, inspect_elf};

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    std::fs::read(path).expect("a fixture")
}

fn inspect(name: &str) -> Binary {
    inspect_elf(name, &fixture(name), &Options::on(1)).expect("readable")
}

#[test]
fn callers_give_static_functions_away() {
    for machine in ["x86", "a64", "ppc64le", "riscv64", "s390x"] {
        let binary = inspect(&format!("{machine}-callers.so"));
        assert!(binary.build.stripped);
        let found: BTreeMap<u64, String> = binary
            .atomics
            .functions
            .iter()
            .filter(|f| f.named_by_callers)
            .map(|f| (f.address, f.label()))
            .collect();
        let text = String::from_utf8(fixture(&format!("{machine}-callers.names"))).expect("text");
        let truth: BTreeMap<u64, String> = text
            .lines()
            .map(|line| {
                let (address, name) = line.split_once('\t').expect("two columns");
                let address = u64::from_str_radix(address, 16).expect("an address");
                (address, name.to_string())
            })
            .collect();
        assert_eq!(truth.len(), 3);
        assert_eq!(found, truth, "{machine}");
    }
}

#[test]
fn a_path_says_what_it_could_not_name() {
    let binary = inspect("x86-callers.so");
    let path = |id: &str| {
        let path = binary.hot_paths.iter().find(|p| p.id == id);
        path.unwrap_or_else(|| panic!("{id}"))
    };
    let pin = path("buffer-pin");
    assert_eq!(pin.technique, Technique::Locked);
    assert!(
        pin.detail.contains("known by its callers"),
        "{}",
        pin.detail
    );
    assert!(pin.functions.iter().any(|f| f.named_by_callers));
    let wal = path("wal-insert");
    assert_eq!(wal.technique, Technique::Unnamed);
    assert!(wal.detail.contains("can be named here"), "{}", wal.detail);
    assert_eq!(
        path("buffer-content-lock").detail,
        "an LWLock in this version"
    );
}

#[test]
fn what_is_called_instead_of_inlined_is_said() {
    let binary = inspect("x86-called.so");
    let path = |id: &str| {
        let path = binary.hot_paths.iter().find(|p| p.id == id);
        path.unwrap_or_else(|| panic!("{id}"))
    };
    let pin = path("buffer-pin");
    assert_eq!(pin.technique, Technique::Called);
    assert!(
        pin.detail
            .starts_with("holds no atomic of its own: pg_atomic_compare_exchange_u32"),
        "{}",
        pin.detail
    );
    assert_eq!(path("spin-delay").technique, Technique::Instruction);
    let spinlock = path("spinlock");
    assert_eq!(spinlock.technique, Technique::Locked);
    assert!(
        spinlock
            .detail
            .starts_with("tas: 1 xchg in each of 2 copies"),
        "{}",
        spinlock.detail
    );
    assert_eq!(
        path("buffer-content-lock").detail,
        "an LWLock in this version"
    );
}
