use pgassay_model::observed::stacks::{KERNEL, ObjectSymbols, StackRecord};

use super::*;

fn sample(text: &str) -> Sample {
    Sample {
        before: Reading::Text(String::new()),
        after: Reading::Text(text.to_owned()),
        elapsed_ns: 1,
    }
}

#[test]
fn a_machine_without_counters_gets_one_reason() {
    let text = "! topdown described nowhere\n! core/cycles no such counter\n! core/instructions no such counter\n\
                ! software/context-switches perf_event_paranoid is 2\n= software/task-clock 1:0x1 u 1\n5 10 10 10\n";
    let whys: Vec<String> = unavailable(&sample(text))
        .into_iter()
        .map(|u| u.why)
        .collect();
    assert_eq!(
        whys,
        [
            "no hardware counters: no such counter",
            "software/context-switches: perf_event_paranoid is 2"
        ]
    );
}

#[test]
fn events_that_are_missing_for_one_reason_are_named_together() {
    let text = "= core/cycles 0:0x0 uk 1\n5 10 10 10\n! cache/LLC-loads none here\n! cache/LLC-load-misses none here\n\
                ! topdown described nowhere\n";
    let whys: Vec<String> = unavailable(&sample(text))
        .into_iter()
        .map(|u| u.why)
        .collect();
    assert_eq!(
        whys,
        [
            "LLC-loads, LLC-load-misses: none here",
            "topdown: described nowhere"
        ]
    );
    let unseen = Sample {
        after: Reading::Unavailable("over TCP".to_owned()),
        ..sample("")
    };
    assert_eq!(unavailable(&unseen)[0].why, "over TCP");
}

/// Instructions and cycles of two functions, 200 samples of each event.
#[test]
fn a_class_has_its_own_instructions_a_cycle() {
    let record = |event: &str, in_lock: u64, in_executor: u64| EventStacks {
        event: event.to_owned(),
        stacks: StackRecord {
            frequency_hz: 49,
            objects: vec!["abcd".into(), KERNEL.into()],
            frames: vec![(0, 0x110), (0, 0x210)],
            chains: vec![vec![0], vec![1]],
            seconds: vec![vec![(0, 100), (1, 100)]],
            event_counts: vec![(0, in_lock), (1, in_executor)],
            ..StackRecord::default()
        },
    };
    let symbols = SymbolTable {
        objects: BTreeMap::from([(
            "abcd".to_owned(),
            ObjectSymbols {
                path: "/usr/bin/postgres".to_owned(),
                functions: vec![
                    (0x100, 0x200, "s_lock".to_owned()),
                    (0x200, 0x300, "ExecScan".to_owned()),
                ],
            },
        )]),
    };
    let records = [
        record("core/cycles", 3_000_000, 1_000_000),
        record("core/instructions", 300_000, 2_000_000),
    ];
    let classes = by_class(records.iter(), &symbols, 1000);
    let of = |event: usize, class| classes[event].in_class(class).unwrap();
    assert!((of(0, Class::Spinlock) - 3000.0).abs() < 1e-6);
    assert!((of(1, Class::Spinlock) / of(0, Class::Spinlock) - 0.1).abs() < 1e-9);
    assert!((of(1, Class::Executor) / of(0, Class::Executor) - 2.0).abs() < 1e-9);
    assert_eq!(classes[0].samples, 200);
    assert_eq!(classes[0].in_class(Class::Wal), None);
}
