//! Fleets made of hosts, and a host made of recorded facts.

use std::collections::{BTreeMap, BTreeSet};

use pgassay_model::facts::Facts;

use super::{Fleet, Found, Gathering, Host, KindKey, Measured, Role, Source, Unused};
use crate::bottlenecks::{Severity, Step, StepKind};
use crate::check::check;
use crate::stats::Estimate;

fn host(name: &str) -> Host {
    Host {
        name: name.to_owned(),
        place: format!("{name}.json"),
        machine: Some(format!("machine of {name}")),
        origin: name.to_owned(),
        server: Some("5432:/data".to_owned()),
        collected: "2026-11-20T00:00:00Z".to_owned(),
        source: Source::Facts,
        kind: KindKey {
            cpu: Some("Some CPU".to_owned()),
            cpus: Some(16),
            postgres: Some("17".to_owned()),
            role: Role::Primary,
        },
        found: Vec::new(),
        passed: BTreeSet::new(),
        traits: BTreeMap::new(),
        measured: None,
        audited: true,
        diagnosed: false,
        incomplete: None,
    }
}

fn named(n: usize) -> String {
    format!("db{n:03}")
}

fn with(name: &str, traits: &[(&str, &str)]) -> Host {
    let traits = traits.iter();
    Host {
        traits: traits
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        ..host(name)
    }
}

fn found(id: &str, severity: Severity, command: &str) -> Found {
    Found {
        id: id.to_owned(),
        severity,
        saw: format!("{id} was seen"),
        remedy: vec![Step {
            kind: StepKind::Sql,
            text: command.to_owned(),
        }],
        under: None,
    }
}

fn fleet(hosts: impl IntoIterator<Item = Host>) -> Fleet {
    let mut gathering = Gathering::default();
    for host in hosts {
        gathering.add(host);
    }
    gathering.conclude()
}

#[test]
fn a_finding_is_counted_among_the_hosts_that_could_be_judged() {
    let hosts = (0..10).map(|n| {
        let mut host = host(&named(n));
        match n {
            0..3 => host
                .found
                .push(found("fsync-off", Severity::High, "fsync=on")),
            3..8 => drop(host.passed.insert("fsync-off".to_owned())),
            _ => {}
        }
        if n < 6 {
            let command = format!("huge_pages={n}");
            host.found
                .push(found("huge-pages", Severity::Medium, &command));
        }
        host
    });
    let fleet = fleet(hosts);
    let [first, second] = fleet.findings.as_slice() else {
        panic!("{:?}", fleet.findings);
    };
    // The gravest first, although fewer have it.
    assert_eq!(first.id, "fsync-off");
    assert_eq!((first.hosts.n, first.hosts.of), (3, 8));
    assert_eq!(first.on, ["db000", "db001", "db002"]);
    assert!(first.example.cures_all);
    assert_eq!((second.hosts.n, second.hosts.of), (6, 6));
    assert!(!second.example.cures_all);
    assert_eq!(fleet.gravest(), Some(Severity::High));
}

#[test]
fn what_only_a_load_shows_is_judged_where_there_was_a_load() {
    let hosts = (0..6).map(|n| {
        let mut host = host(&named(n));
        host.diagnosed = n < 4;
        if n == 0 {
            host.found.push(found("round-trips", Severity::High, ""));
        }
        host
    });
    let fleet = fleet(hosts);
    assert_eq!(
        (fleet.findings[0].hosts.n, fleet.findings[0].hosts.of),
        (1, 4)
    );
}

/// One host, whose audit passed what its load showed: one of one.
#[test]
fn what_a_load_shows_was_not_passed() {
    let text = include_str!("../../tests/check/recorded/arm64-llsc.json");
    let report = check(&serde_json::from_str(text).unwrap());
    let mut results = report.results.into_iter();
    let shown = results.find_map(|result| result.finding).unwrap();
    let mut one = host("db1");
    one.passed.insert(shown.id.clone());
    one.shown_by_load(Found::of(&shown, Some("tpcb-like")));
    one.shown_by_load(Found::of(&shown, Some("select-only")));
    let fleet = fleet([one]);
    let [found] = fleet.findings.as_slice() else {
        panic!("{:?}", fleet.findings);
    };
    assert_eq!((found.hosts.n, found.hosts.of), (1, 1));
    assert_eq!(found.measured, 1);
}

#[test]
fn who_has_what_nearly_nobody_has_is_odd() {
    let kernels = (0..30).map(|n| {
        let kernel = if n == 7 { "5.4" } else { "6.1" };
        let half = if n % 2 == 0 { "4MB" } else { "64MB" };
        let own = n.to_string();
        with(
            &named(n),
            &[("kernel", kernel), ("work_mem", half), ("own", &own)],
        )
    });
    let fleet = fleet(kernels);
    let [kind] = fleet.kinds.as_slice() else {
        panic!("{:?}", fleet.kinds);
    };
    assert_eq!(kind.odd.len(), 1, "{:?}", kind.odd);
    let odd = &kind.odd[0];
    assert_eq!((odd.name.as_str(), odd.value.as_str()), ("kernel", "5.4"));
    assert_eq!(odd.on, ["db007"]);
    assert_eq!((odd.usual_on.n, odd.usual_on.of), (29, 30));
    assert_eq!(fleet.hosts[7].odd, 1);
    assert_eq!(fleet.hosts.iter().map(|host| host.odd).sum::<u32>(), 1);
    // Two halves are told; what is each host's own is not.
    assert_eq!(kind.divided.len(), 1);
    assert_eq!(kind.divided[0].name, "work_mem");
}

#[test]
fn in_a_small_kind_nobody_is_odd() {
    let of = |n: usize| {
        let hosts = (0..n).map(|n| {
            let kernel = if n == 0 { "5.4" } else { "6.1" };
            with(&named(n), &[("kernel", kernel)])
        });
        fleet(hosts)
    };
    let six = of(6);
    assert!(six.kinds[0].odd.is_empty() && !six.kinds[0].judged);
    assert_eq!(six.kinds[0].divided.len(), 1);
    let seven = of(7);
    assert!(seven.kinds[0].judged);
    assert_eq!(seven.kinds[0].odd.len(), 1);
    assert!(seven.kinds[0].divided.is_empty());
}

#[test]
fn a_host_alone_is_held_against_the_nearest_kind() {
    let mut hosts: Vec<Host> = (0..9).map(|n| host(&named(n))).collect();
    let mut halved = host("halved");
    halved.kind.cpus = Some(8);
    let mut other = host("other");
    other.kind.cpus = Some(4);
    other.kind.postgres = Some("9.6".to_owned());
    hosts.extend([halved, other]);
    let fleet = fleet(hosts);
    let of = |cpus| {
        fleet
            .kinds
            .iter()
            .find(|kind| kind.of.cpus == Some(cpus))
            .unwrap()
    };
    let (nearest, differs) = of(8).nearest.as_ref().unwrap();
    assert_eq!(fleet.kinds[*nearest].of.cpus, Some(16));
    assert_eq!(differs, &["CPUs 8, not 16"]);
    assert_eq!(of(4).nearest, None, "two steps are another kind of machine");
    assert_eq!(of(16).nearest, None);
}

#[test]
fn the_newest_collection_of_a_host_counts_in_whatever_order_they_come() {
    let at = |place: &str, collected: &str, kernel: &str| Host {
        place: place.to_owned(),
        collected: collected.to_owned(),
        ..with("db1", &[("kernel", kernel)])
    };
    let measured = Measured {
        work: "select-only".to_owned(),
        rate: rate(100.0),
        unit: "tps".to_owned(),
        clients: 4,
        run: "run".to_owned(),
        at: "2026-11-02".to_owned(),
    };
    let run = Host {
        source: Source::Run,
        audited: false,
        measured: Some(measured),
        ..at("run", "2026-11-09", "6.3")
    };
    let alone = Host {
        server: None,
        ..at("alone", "2026-11-10", "6.4")
    };
    let mut all = vec![
        at("old", "2026-11-01", "6.1"),
        at("new", "2026-11-03", "6.2"),
        run,
        alone,
    ];
    for _ in 0..all.len() {
        all.rotate_left(1);
        let fleet = fleet(all.clone());
        assert_eq!(fleet.hosts.len(), 1);
        // The newest that was audited, of its server.
        assert_eq!(fleet.hosts[0].place, "new");
        assert_eq!(fleet.by[1].groups[0].value.as_deref(), Some("6.2"));
        // Of the run its measurement counts.
        assert_eq!(fleet.superseded.len(), 2);
    }
}

/// Readers finish in any order.
#[test]
fn in_whatever_order_they_come_the_same_counts() {
    let run = |place: &str, at: &str| Host {
        source: Source::Run,
        place: place.to_owned(),
        collected: at.to_owned(),
        measured: Some(Measured {
            work: "select-only".to_owned(),
            rate: rate(100.0),
            unit: "tps".to_owned(),
            clients: 4,
            run: place.to_owned(),
            at: at.to_owned(),
        }),
        ..host("db1")
    };
    let facts = Host {
        collected: "2026-11-09".to_owned(),
        ..host("db1")
    };
    let alone = Host {
        server: None,
        ..run("r0", "2026-11-01")
    };
    let all = [
        facts,
        run("r1", "2026-11-02"),
        run("r2", "2026-11-03"),
        alone,
    ];
    let mut orders = Vec::new();
    for a in 0..4 {
        for b in 0..4 {
            for c in 0..4 {
                let d = 6_usize.wrapping_sub(a + b + c);
                let order = [a, b, c, d];
                if BTreeSet::from(order) == BTreeSet::from([0, 1, 2, 3]) {
                    orders.push(order);
                }
            }
        }
    }
    assert_eq!(orders.len(), 24);
    let first = fleet(all.clone());
    let not_counted = first.superseded.iter().map(|old| old.place.as_str());
    assert_eq!(not_counted.collect::<Vec<_>>(), ["r0", "r1"]);
    assert_eq!(first.hosts[0].place, "db1.json");
    for order in orders {
        let fleet = fleet(order.map(|n| all[n].clone()));
        assert_eq!(fleet, first, "{order:?}");
    }
}

#[test]
fn different_hosts_of_one_name_stay_two() {
    let from = |dir: &str| Host {
        machine: Some(dir.to_owned()),
        place: format!("{dir}/db1.json"),
        ..host("db1")
    };
    let fleet = fleet([from("eu"), from("us")]);
    let names: Vec<&str> = fleet.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["db1 (eu/db1.json)", "db1 (us/db1.json)"]);
}

#[test]
fn hosts_that_nothing_tells_apart_are_told_by_their_origin() {
    let from = |origin: &str| Host {
        machine: None,
        origin: origin.to_owned(),
        place: format!("{origin}.json"),
        ..host("db1")
    };
    let fleet = fleet([from("eu/db1"), from("us/db1"), from("eu/db1")]);
    let names: Vec<&str> = fleet.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["db1 (eu/db1.json)", "db1 (us/db1.json)"]);
    assert_eq!(fleet.superseded.len(), 1);
}

fn rate(estimate: f64) -> Estimate {
    Estimate {
        estimate,
        low: estimate * 0.97,
        high: estimate * 1.03,
        level: 0.95,
        n: 8,
        warnings: Vec::new(),
    }
}

#[test]
fn a_host_that_is_far_slower_than_its_kind_is_odd() {
    let rates = [100.0, 103.0, 98.0, 101.0, 99.0, 104.0, 97.0, 60.0, 109.0];
    let hosts = rates.iter().enumerate().map(|(n, tps)| Host {
        measured: Some(Measured {
            work: "select-only".to_owned(),
            rate: rate(*tps),
            unit: "tps".to_owned(),
            clients: 4,
            run: format!("run-{n}"),
            at: String::new(),
        }),
        ..host(&named(n))
    });
    let fleet = fleet(hosts);
    let odd = &fleet.kinds[0].odd_measured;
    assert_eq!(odd.len(), 1, "{odd:?}");
    assert_eq!(odd[0].host, "db007");
    assert!(odd[0].score < -3.5 && (odd[0].median - 100.0).abs() < 1e-9);
}

#[test]
fn what_is_left_out_is_counted_beyond_what_is_named() {
    let mut gathering = Gathering::default();
    for n in 0..1000 {
        gathering.leave_out(format!("{n}.txt"), Unused::Foreign, "another".to_owned());
    }
    gathering.leave_out("cut.json".to_owned(), Unused::Damaged, "cut".to_owned());
    let fleet = gathering.conclude();
    assert_eq!(
        fleet.left_out_counts,
        [(Unused::Foreign, 1000), (Unused::Damaged, 1)]
    );
    assert_eq!(fleet.left_out[0].place, "cut.json");
    assert_eq!((fleet.left_out.len(), fleet.missing()), (200, 1));
}

/// The facts of a real server give a kind, traits of host, build and server, and no name of its own.
#[test]
fn a_host_is_made_of_recorded_facts() {
    let text = include_str!("../../tests/check/recorded/arm64-llsc.json");
    let facts: Facts = serde_json::from_str(text).unwrap();
    let host = Host::of_facts("db1", "db1.json", &facts);
    assert_eq!(host.kind.role, Role::Primary);
    assert!(host.kind.cpu.is_some() && host.kind.postgres.is_some());
    for name in [
        "kernel",
        "base page size",
        "PostgreSQL release",
        "build id",
        "atomics",
        "vm.swappiness",
        "shared_buffers",
        "mitigation of spectre_v2",
    ] {
        assert!(host.traits.contains_key(name), "{name}: {:?}", host.traits);
    }
    for name in [
        "port",
        "data_directory",
        "statement_timeout",
        "application_name",
    ] {
        assert!(!host.traits.contains_key(name), "{name}");
    }
    assert!(host.audited && !host.passed.is_empty());
    let again = fleet([host.clone(), host]);
    assert_eq!(again.hosts.len(), 1);
}
