//! Findings by the time budget: gains that the CPUs leave room for, CPUs that are full, and
//! whatever else takes a tenth of the time.

use super::made::{QUIET, Seen, found, found_as, looked_at, one};
use crate::detect::tests::made::statement;
use crate::evidence::Evidence;
use crate::finding::{Confidence, Severity};
use crate::{disturbed, load};
use pgassay_evidence::observed::counters::ServerCounters;
use pgassay_evidence::observed::statements::Elsewhere;

/// 62.5 % of the time at the log is no 2.67 times the throughput where 1.79 of 2 CPUs are busy.
#[test]
fn a_gain_is_no_more_than_the_cpus_have_room_for() {
    const FLUSH: &[(&str, &str, f64)] = &[("IO", "WALSync", 5.0)];
    let at = |busy: f64| {
        let findings = found(&Seen {
            on_cpu: 1.5,
            ready: 1.5,
            idle: 0.0,
            waits: FLUSH,
            busy,
            ..QUIET
        });
        one(&findings, "wal-flush").clone()
    };
    let full = at(1.79);
    assert!((full.gain_at_most.unwrap() - (1.0 - 1.79 / 2.0)).abs() < 1e-9);
    assert!(full.limited_by_cpus);
    let words = full.gain_in_words().unwrap();
    assert!(
        words.contains("1.12 times") && words.contains("the CPUs have no room for more than that"),
        "{words}"
    );
    assert!((full.budget_share.unwrap() - 0.625).abs() < 1e-9);
    let idle = at(0.5);
    assert!((idle.gain_at_most.unwrap() - 0.625).abs() < 1e-9);
    assert!(!idle.limited_by_cpus);
    // Where sessions wait is a symptom, and nobody is sure of its cause.
    assert_eq!(idle.confidence, Confidence::Medium);
    assert!(
        idle.saw.contains("a symptom of many small commits"),
        "{}",
        idle.saw
    );
}

/// Commits that sleep leave the machine with what it does by itself, which more of them would not add to.
#[test]
fn what_the_load_cant_have_caused_does_not_grow_with_it() {
    const SLEEP: &[(&str, &str, f64)] = &[("IO", "WALSync", 7.8)];
    let found = found(&Seen {
        on_cpu: 0.03,
        ready: 0.0,
        idle: 0.0,
        waits: SLEEP,
        busy: 0.33,
        ..QUIET
    });
    let seen = one(&found, "wal-flush");
    // A tenth of a CPU is the clients': it is (0.03 + 0.1) / 2 that grows, not 0.33 / 2.
    assert!(
        (seen.gain_at_most.unwrap() - 0.935).abs() < 1e-9,
        "{seen:#?}"
    );
}

/// A process that starts faults on each of its pages: larger pages are no remedy.
#[test]
fn page_faults_of_processes_that_come_and_go_are_a_symptom() {
    let of = |come_and_go: bool, sessions: f64| {
        let seen = Seen {
            listing: "60.00% postgres [k] clear_page_erms\n10.00% postgres [.] ExecScan\n",
            ..QUIET
        };
        found_as(&seen, |observed| {
            observed.budget.as_mut().unwrap().by_samples = come_and_go;
            let database = [("sessions", sessions), ("xact_commit", 400.0)];
            observed.counters = Some(ServerCounters {
                seconds: 4.0,
                database: database.map(|(k, v)| (k.to_owned(), v)).into(),
                ..ServerCounters::default()
            });
        })
    };
    let opened = of(true, 400.0);
    let faults = one(&opened, "page-faults");
    assert_eq!(faults.cause.as_deref(), Some("connections-opened"));
    assert!(!faults.remedy[0].text.contains("huge pages"), "{faults:#?}");
    // What is not the statements' own is the opening's.
    let opening = one(&opened, "connections-opened");
    assert!(opening.gain_at_most > faults.gain_at_most, "{opening:#?}");
    // A client that opens a session waits for nothing else: with 95 % of the samples 1.44 times was said, and 161 came.
    assert!(opening.gain_at_most.unwrap() > 0.8, "{opening:#?}");
    assert!(opening.budget_share.unwrap() > 0.8, "{opening:#?}");
    let lasting = of(false, 4.0);
    assert_eq!(one(&lasting, "page-faults").symptom_of, None);
}

/// A client that has its answer waits behind the sessions where the CPUs are full, and no longer
/// when these have less to do: only what it does itself is left.
#[test]
fn what_clients_wait_for_a_full_cpu_is_no_time_of_their_own() {
    let gain = |script: &'static str, busy: f64| {
        let findings = found(&Seen {
            on_cpu: 0.6,
            ready: 1.4,
            idle: 4.0,
            waits: &[("IO", "WALSync", 2.0)],
            busy,
            script,
            ..QUIET
        });
        one(&findings, "wal-flush").gain_at_most.unwrap()
    };
    // A client on 0.1 CPUs waits for one as long as sessions do: a third of a session of 4.33.
    let waits = gain("UPDATE t SET n = n + 1;", 2.0);
    assert!(
        (waits - 2.0 / (4.0 + 0.1 * 2.0 / 0.6)).abs() < 1e-9,
        "{waits}"
    );
    // One that sleeps, or has a CPU whenever it wants one, takes the time that it takes.
    let sleeps = gain("UPDATE t SET n = n + 1;\n\\sleep 5 ms\n", 2.0);
    assert!((sleeps - 0.25).abs() < 1e-9, "{sleeps}");
    let free = gain("UPDATE t SET n = n + 1;", 0.9);
    assert!((free - 0.25).abs() < 1e-9, "{free}");
}

/// What is saved of CPUs that are full is won, however many sessions wait.
#[test]
fn on_full_cpus_their_time_ranks_above_waits() {
    let listing = "70.00% libfoo.so [.] foo\n30.00% postgres [.] ExecScan\n";
    let findings = found(&Seen {
        on_cpu: 1.8,
        ready: 2.2,
        idle: 0.0,
        waits: &[("IO", "WALSync", 4.0)],
        busy: 2.0,
        listing,
        ..QUIET
    });
    let library = one(&findings, "cpu-library/libfoo.so");
    assert!((library.gain_at_most.unwrap() - 0.7 * 1.8 / 1.9).abs() < 1e-9);
    assert!(library.evidence.join(";").contains("foo: 70.0 %"));
    let full = one(&findings, "cpu-saturated");
    assert!(full.saw.contains("2.00 of 2 are busy"), "{}", full.saw);
    // What fills them may vanish altogether: nothing bounds what is won.
    assert!((full.time_share.unwrap() - 2.2 / 8.0).abs() < 1e-9);
    assert_eq!((full.gain_at_most, full.gain_in_words()), (None, None));
    assert_eq!(full.gain(), full.time_share);
    let evidence = full.evidence.join("; ");
    assert!(evidence.contains("libfoo.so 70.0 %"), "{evidence}");
    assert!(
        evidence.contains("the server keeps 1.80 CPUs busy"),
        "{evidence}"
    );
    assert_eq!(one(&findings, "wal-flush").gain_at_most, Some(0.0));
}

#[test]
fn idle_cpus_are_not_saturated_and_waiting_for_one_beside_them_is_said() {
    assert_eq!(found(&QUIET), []);
    let confined = found(&Seen {
        on_cpu: 1.0,
        ready: 3.0,
        busy: 1.1,
        ..QUIET
    });
    let saw = &one(&confined, "cpu-saturated").saw;
    assert!(saw.contains("may be confined to fewer"), "{saw}");
    // Who queues for the log is let go with the others whose commits it flushes.
    for event in [("LWLock", "WALWrite", 2.0), ("IO", "WALSync", 2.0)] {
        let woken = found(&Seen {
            on_cpu: 1.0,
            ready: 2.5,
            idle: 2.5,
            waits: Box::leak(Box::new([event])),
            busy: 1.1,
            ..QUIET
        });
        assert!(woken.iter().all(|f| f.id != "cpu-saturated"), "{woken:#?}");
    }
    let gaps = found(&Seen {
        on_cpu: 1.27,
        ready: 2.52,
        busy: 1.67,
        ..QUIET
    });
    let full = one(&gaps, "cpu-saturated");
    assert!(full.saw.contains("nearly saturated"), "{}", full.saw);
    assert!(!full.why.contains("All CPUs are busy"), "{}", full.why);
    assert!(!full.remedy[0].text.contains("taskset"), "{full:?}");
}

/// What other programs take is told as theirs, and nobody is told to tune statements.
#[test]
fn cpus_that_others_keep_busy_are_not_the_servers_fault() {
    let findings = found(&Seen {
        on_cpu: 0.6,
        ready: 1.4,
        busy: 2.0,
        ..QUIET
    });
    let others = one(&findings, "cpu-others");
    assert!(
        others.saw.contains("1.30 of 2 CPUs busy, the server 0.60"),
        "{}",
        others.saw
    );
    assert!(others.remedy[0].text.contains("ps -eo"), "{others:?}");
    assert!(
        findings.iter().all(|f| f.id != "cpu-saturated"),
        "{findings:?}"
    );
    // However long sessions wait, the server's 0.60 CPUs and the client's do not become more than both.
    let long = found(&Seen {
        on_cpu: 0.6,
        ready: 9.4,
        busy: 2.0,
        ..QUIET
    });
    let gain = one(&long, "cpu-others").gain_at_most.unwrap();
    assert!((gain - 0.65).abs() < 1e-9, "{gain}");
    // Sixteen compressors beside a load of short statements: 0.83 of the CPUs were busy.
    let gaps = found(&Seen {
        on_cpu: 0.2,
        ready: 1.6,
        idle: 2.2,
        busy: 1.67,
        ..QUIET
    });
    one(&gaps, "cpu-others");
    assert!(gaps.iter().all(|f| f.id != "cpu-saturated"), "{gaps:?}");
}

/// Sessions that wait for their quota wait for a CPU, too: neither other programs nor the number of
/// CPUs is what holds them back.
#[test]
fn a_quota_is_named_instead_of_what_else_keeps_cpus_busy() {
    for busy in [0.9, 2.0] {
        let findings = found(&Seen {
            on_cpu: 0.4,
            ready: 7.2,
            busy,
            held_back: 0.95,
            ..QUIET
        });
        let quota = one(&findings, "cpu-quota");
        assert!(quota.evidence[0].contains("for 0.95 s"), "{quota:?}");
        // Who waits for the quota waits for a CPU: nothing of the time was said to be explained.
        assert!(quota.budget_share.unwrap() > 0.9, "{quota:?}");
        let others = ["cpu-others", "cpu-saturated"];
        assert!(
            findings.iter().all(|f| !others.contains(&f.id.as_str())),
            "{findings:?}"
        );
    }
}

#[test]
fn a_memory_limit_is_named_where_it_throws_out_what_is_read_again() {
    let of = |memory_limit| {
        found(&Seen {
            on_cpu: 1.0,
            waits: &[("IO", "DataFileRead", 3.0)],
            misses: Some(31.0),
            memory_limit,
            ..QUIET
        })
    };
    let findings = of(Some((f64::from(48 << 20), 9000.0)));
    let limit = one(&findings, "memory-limit");
    assert!(
        limit.saw.contains("48 MiB") && limit.saw.contains("9000 a second"),
        "{}",
        limit.saw
    );
    assert!(limit.remedy[0].text.contains("MemoryMax"), "{limit:#?}");
    let buffers = one(&findings, "shared-buffers-small");
    assert!(
        buffers
            .symptom_of
            .as_ref()
            .is_some_and(|of| of.contains("memory-limit")),
        "{buffers:#?}"
    );
    // One that is not reached, and one that takes hardly a page away.
    for limit in [None, Some((f64::from(48 << 20), 3.0))] {
        assert!(of(limit).iter().all(|f| f.id != "memory-limit"));
    }
}

#[test]
fn a_wait_that_no_rule_knows_is_a_finding_by_its_name() {
    let findings = found(&Seen {
        waits: &[
            ("Lock", "advisory", 4.0),
            ("Extension", "their_lock", 1.5),
            ("LWLock", "WALWrite", 0.2),
            ("Lock", "tuple", 1.0),
        ],
        ..QUIET
    });
    let lock = one(&findings, "wait-event/Lock:advisory");
    assert_eq!(
        (lock.severity, lock.confidence),
        (Severity::Medium, Confidence::Medium)
    );
    assert!(lock.saw.contains("an advisory lock"), "{}", lock.saw);
    assert!(lock.symptom_of.is_some());
    assert!(lock.remedy[0].text.contains("pg_blocking_pids"));
    assert_eq!(crate::find(&lock.id).unwrap().id, "wait-event");
    one(&findings, "wait-event/Extension:their_lock");
    // An event below a rule's threshold leads to the rule's page.
    let flushes = found(&Seen {
        on_cpu: 1.0,
        waits: &[("LWLock", "WALWrite", 0.2)],
        ..QUIET
    });
    let flush = one(&flushes, "wait-event/LWLock:WALWrite");
    assert!(flush.remedy[0].text.contains("--explain wal-flush"));
    // The rule took it for less than trouble.
    assert_eq!(flush.severity, Severity::Low);
    // What a rule found is left to it, and a fortieth of the time is nothing.
    one(&findings, "hot-row");
    assert_eq!(findings.len(), 3, "{findings:#?}");
}

#[test]
fn time_that_nothing_names_is_a_finding_too() {
    let findings = found(&Seen {
        unnamed: 3.0,
        ..QUIET
    });
    let unnamed = one(&findings, "off-cpu-unexplained");
    assert!((unnamed.budget_share.unwrap() - 3.0 / 3.6).abs() < 1e-9);
}

/// What takes CPU time without being anybody's fault is told, and is no cause.
#[test]
fn ordinary_work_is_information() {
    let findings = found(&Seen {
        listing: "40.00% postgres [.] ExecScan\n25.00% postgres [k] finish_task_switch\n\
                  15.00% libc.so.6 [.] memcpy\n",
        ..QUIET
    });
    let ids: Vec<&str> = findings.iter().map(|f| f.id.as_str()).collect();
    assert!(ids.contains(&"cpu-function/ExecScan"), "{ids:?}");
    assert!(!ids.contains(&"cpu-library/libc.so.6"), "{ids:?}");
    assert!(
        findings.iter().all(|f| f.severity == Severity::Info),
        "{findings:#?}"
    );
}

/// What has sessions wait is a setting that is known: its value is told, and how to take it back.
#[test]
fn a_wait_that_a_setting_makes_is_told_with_the_setting() {
    let findings = found(&Seen {
        waits: &[("Timeout", "VacuumDelay", 6.0)],
        busy: 0.15,
        on_cpu: 0.05,
        settings: &[("vacuum_cost_delay", "20", "configuration file")],
        ..QUIET
    });
    let wait = one(&findings, "wait-event/Timeout:VacuumDelay");
    assert!(
        wait.remedy[0].text.contains("RESET vacuum_cost_delay"),
        "{wait:#?}"
    );
    assert!(wait.evidence.join("; ").contains("vacuum_cost_delay = 20"));
    assert!(!wait.why.contains("No rule"), "{}", wait.why);
    let words = wait.gain_in_words().unwrap();
    assert!(
        !words.contains("no room") && !words.contains("at most"),
        "{words}"
    );
}

/// Huge pages for shared buffers reach no memory of a process' own.
#[test]
fn faults_on_private_memory_are_a_symptom_of_what_takes_it() {
    let of = |fault: &str| {
        let listing = format!(
            "    60.00%  postgres  [kernel]  [k] clear_page_erms\n            |\n            ---ExecSort\n               palloc\n               \
             {fault}\n               clear_page_erms\n\n    40.00%  postgres  postgres  [.] ExecScan\n"
        );
        let findings = found(&Seen {
            listing: listing.leak(),
            ..QUIET
        });
        one(&findings, "page-faults").clone()
    };
    let private = of("do_anonymous_page");
    assert!(
        private.remedy.iter().all(|s| !s.text.contains("huge")),
        "{private:#?}"
    );
    assert!(private.symptom_of.is_some() && private.severity == Severity::Low);
    let shared = of("shmem_fault");
    assert!(shared.remedy[0].text.contains("huge"), "{shared:#?}");
}

/// Sessions that sleep at a lock and are woken exchange no message.
#[test]
fn wake_ups_at_locks_are_no_round_trips() {
    let of = |called: &str| {
        let listing = format!(
            "    60.00%  postgres  [kernel]  [k] finish_task_switch\n            |\n            ---{called}\n               \
             finish_task_switch\n\n    25.00%  postgres  [kernel]  [k] unix_stream_sendmsg\n    15.00%  postgres  postgres  [.] \
             ExecScan\n"
        );
        let findings = found(&Seen {
            listing: listing.leak(),
            ..QUIET
        });
        findings.iter().any(|f| f.id == "round-trips")
    };
    assert!(of("WaitEventSetWait"));
    assert!(!of("XLogFlush\n               PGSemaphoreLock"));
}

/// Where no block is replaced, larger buffers are no remedy for looking them up.
#[test]
fn the_mapping_locks_of_blocks_that_stay_are_not_mended_by_larger_buffers() {
    let listing = "    40.00%  postgres  postgres  [.] LWLockAcquire\n            |\n            ---BufferAlloc\n               \
                   LWLockAcquire\n\n    60.00%  postgres  postgres  [.] ExecScan\n";
    let remedy = |misses: f64| {
        let findings = found(&Seen {
            listing,
            misses: Some(misses),
            ..QUIET
        });
        one(&findings, "buffer-mapping-locks").remedy[0]
            .text
            .clone()
    };
    assert!(remedy(20.0).contains("Raise shared_buffers"));
    assert!(!remedy(0.0).contains("Raise shared_buffers"));
}

/// A statement that is all of the load's time is not all of the server's where others execute, too.
#[test]
fn shares_of_the_load_are_not_told_as_the_servers() {
    let of = |share: f64| {
        let findings = found_as(
            &Seen {
                on_cpu: 1.9,
                ready: 4.0,
                busy: 2.0,
                ..QUIET
            },
            |observed| {
                let mut statements = statement("SELECT basket", None);
                statements.statements[0].cpu_share = 1.0;
                statements.elsewhere = Some(Elsewhere {
                    share,
                    query_id: "-42".into(),
                    calls: 40.0,
                    execution_ms: 240.5,
                });
                observed.statements = Some(statements);
            },
        );
        one(&findings, "cpu-saturated").evidence.join("; ")
    };
    let told = of(0.952);
    assert!(
        told.contains("95.2 % of all execution time goes to statements of other sessions"),
        "{told}"
    );
    assert!(
        told.contains("100.0 % of the load's sessions' CPU time"),
        "{told}"
    );
    let alone = of(0.002);
    assert!(
        alone.contains("100.0 % of the sessions' CPU time"),
        "{alone}"
    );
}

/// Who reads a finding's sentence alone reads that others were there.
#[test]
fn findings_beside_other_programs_say_so() {
    let of = |busy: f64| {
        let seen = Seen {
            on_cpu: 0.5,
            ready: 0.1,
            idle: 0.4,
            waits: &[("IO", "WALSync", 6.0)],
            busy,
            ..QUIET
        };
        let look = |evidence: &Evidence| {
            let mut findings = load(evidence);
            disturbed(evidence, &mut findings);
            findings
        };
        let found = looked_at(&seen, |_| {}, look);
        one(&found, "wal-flush").saw.clone()
    };
    let disturbed = of(1.05);
    assert!(
        disturbed.ends_with("Other programs kept 0.45 of 2 CPUs busy meanwhile: these are figures of a disturbed machine."),
        "{disturbed}"
    );
    assert!(!of(0.7).contains("ther programs"), "{}", of(0.7));
}
