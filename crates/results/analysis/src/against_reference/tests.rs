use pgassay_readings::profile::Profile;

use super::*;
use crate::observed::budget::{OffCpu, Wait};
use crate::profile::summarise;

/// Sessions on a CPU and at one wait event.
fn budget(on_cpu: f64, event: &str, waiting: f64) -> Budget {
    let wait = Wait {
        kind: "LWLock".to_owned(),
        event: event.to_owned(),
        sessions: waiting,
        least: 0.9 * waiting,
        most: 1.1 * waiting,
        woken: 0.0,
    };
    Budget {
        sessions: on_cpu + waiting,
        on_cpu,
        off_cpu: waiting,
        off: Some(OffCpu {
            waits: vec![wait],
            ..OffCpu::default()
        }),
        ..Budget::default()
    }
}

fn side<'a>(budget: &'a Budget, profile: Option<&'a Summary>, tps: f64) -> Side<'a> {
    Side {
        budget,
        profile,
        tps,
    }
}

/// Samples by function and library.
fn profile(samples: &[(&str, &str, usize)]) -> Summary {
    let mut text = String::new();
    for (symbol, object, count) in samples {
        for _ in 0..*count {
            let entry = format!(
                "postgres 1 1.0: 1 cycles:\n\t1000 {symbol}+0x1 ({object})\n\t2000 main+0x1 (/usr/bin/postgres)\n\n"
            );
            text += &entry;
        }
    }
    summarise(&Profile::parse(&text).unwrap())
}

#[test]
fn a_library_that_no_rule_knows_is_named_once() {
    let (slow, quick) = (budget(2.0, "a", 0.0), budget(2.0, "a", 0.0));
    let ours = profile(&[
        ("burn", "/opt/libfoo.so", 72),
        ("hash_search", "/usr/bin/postgres", 28),
    ]);
    let theirs = profile(&[("hash_search", "/usr/bin/postgres", 100)]);
    // 2000 µs of CPU time a transaction, and 500.
    let named = named(
        &side(&slow, Some(&ours), 1000.0),
        &side(&quick, Some(&theirs), 4000.0),
    );
    let [library] = named.as_slice() else {
        panic!("{named:#?}");
    };
    assert_eq!(
        (library.kind, library.spent.name.as_str()),
        (Kind::Library, "libfoo.so")
    );
    assert!((library.excess - 0.72).abs() < 1e-9, "{library:?}");
    assert_eq!(
        library.words,
        "72 % of the server's CPU time lies in libfoo.so, of which no sample lies at the reference."
    );
}

#[test]
fn what_both_spend_for_a_transaction_is_no_difference() {
    let (slow, quick) = (budget(2.0, "a", 0.5), budget(2.0, "a", 0.5));
    let same = profile(&[("hash_search", "/usr/bin/postgres", 100)]);
    let of = |tps| {
        named(
            &side(&slow, Some(&same), tps),
            &side(&quick, Some(&same), 1000.0),
        )
    };
    assert!(of(1000.0).is_empty(), "{:#?}", of(1000.0));
    // Twice the time for the same: the function and the wait, not the server's executable.
    let kinds: Vec<Kind> = of(500.0).iter().map(|named| named.kind).collect();
    assert_eq!(kinds, [Kind::Function, Kind::Wait], "{:#?}", of(500.0));
}

#[test]
fn a_wait_counts_beyond_what_sampling_leaves_open() {
    let (server, near, far) = (
        budget(1.0, "Foo", 1.0),
        budget(1.0, "Foo", 0.85),
        budget(1.0, "Foo", 0.4),
    );
    let with = |other| named(&side(&server, None, 1000.0), &side(other, None, 1000.0));
    assert!(with(&near).is_empty());
    let found = with(&far);
    assert_eq!(
        found[0].words,
        "Sessions wait 1.0 ms of each transaction at LWLock:Foo, and 400 µs at the reference."
    );
    assert!((found[0].excess - 0.3).abs() < 1e-9);
}
