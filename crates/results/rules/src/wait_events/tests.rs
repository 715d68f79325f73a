//! The table's rows, and names of several versions.

use super::*;

#[test]
fn an_event_is_known_by_its_names_in_all_versions() {
    for (kind, new, old_kind, old) in [
        ("LWLock", "WALWrite", "LWLockNamed", "WALWriteLock"),
        ("LWLock", "BufferMapping", "LWLockTranche", "buffer_mapping"),
        ("LWLock", "XactSLRU", "LWLock", "CLogControlLock"),
        ("LWLock", "LockManager", "LWLock", "lock_manager"),
        ("IO", "WALSync", "IO", "WalSync"),
        ("Buffer", "BufferExclusive", "BufferPin", "BufferPin"),
    ] {
        let found = meaning(kind, new).unwrap();
        assert_eq!(Some(found), meaning(old_kind, old), "{old}");
    }
}

#[test]
fn an_unknown_event_is_described_by_its_type_and_an_unknown_type_not_at_all() {
    let extension = meaning("LWLock", "some_extension").unwrap();
    assert!(extension.events.is_empty());
    assert_eq!(meaning("Nonsense", "x"), None);
    // Every type has a last row of its own, behind those that name events.
    for row in MEANINGS {
        let last = MEANINGS.iter().rfind(|r| r.kind == row.kind).unwrap();
        assert!(last.events.is_empty(), "{}", row.kind);
    }
}

#[test]
fn no_event_stands_in_two_rows() {
    for (i, row) in MEANINGS.iter().enumerate() {
        for name in row.events {
            let others = MEANINGS[i + 1..].iter().filter(|r| r.kind == row.kind);
            let twice = others
                .flat_map(|r| r.events)
                .find(|other| same_name(name, other));
            assert_eq!(twice, None, "{}:{name}", row.kind);
        }
    }
}
