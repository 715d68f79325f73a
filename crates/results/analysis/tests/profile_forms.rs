//! The forms in which people have profiles, each with the same server in it.

use pgassay_analysis::diagnose::{Confidence, Diagnosis, Evidence, diagnose, version_number};
use pgassay_analysis::profile::{Class, Summary, summarise};
use pgassay_readings::profile::{Profile, ProfileError};

fn summary(text: &str) -> Summary {
    summarise(&Profile::parse(text).unwrap_or_else(|e| panic!("{e}: {text}")))
}

fn diagnosis(text: &str, version: &str) -> Diagnosis {
    let summary = summary(text);
    let evidence = Evidence {
        version: version_number(version),
        profile: Some(&summary),
        run: None,
    };
    diagnose("case", &evidence)
}

fn ids(diagnosis: &Diagnosis) -> Vec<&str> {
    diagnosis.findings.iter().map(|f| f.id.as_str()).collect()
}

fn near(share: f64, expected: f64) -> bool {
    (share - expected).abs() < 1e-6
}

/// Samples of a whole machine: a third of those of PostgreSQL are in s_lock.
fn script(threads: bool) -> String {
    let sample = |comm: &str, pid: u32, frames: &[(&str, &str)]| {
        let pid = match threads {
            true => format!("{pid}/{pid}"),
            false => pid.to_string(),
        };
        let mut text = format!("{comm} {pid} [003] 1.000004:    1 cycles: \n");
        for (name, object) in frames {
            text.push_str(&format!("\t          1000 {name}+0x10 ({object})\n"));
        }
        text + "\n"
    };
    let postgres = "/usr/pgsql/bin/postgres";
    let mut text = String::new();
    for _ in 0..100 {
        text += &sample(
            "postgres: al db [local] SELECT 7",
            200,
            &[
                ("s_lock", postgres),
                ("PinBuffer", postgres),
                ("main", postgres),
            ],
        );
        text += &sample(
            "postgres",
            201,
            &[("ExecScan", postgres), ("main", postgres)],
        );
        text += &sample("postmaster", 202, &[("_bt_compare", postgres)]);
    }
    for _ in 0..600 {
        text += &sample("java", 300, &[("copy_to_survivor", "/opt/jdk/libjvm.so")]);
    }
    for _ in 0..5000 {
        text += &sample(
            "swapper",
            0,
            &[
                ("intel_idle", "[kernel.kallsyms]"),
                ("do_idle", "[kernel.kallsyms]"),
            ],
        );
    }
    text
}

#[test]
fn of_a_whole_machine_only_postgres_is_the_server() {
    for text in [
        script(false),
        script(true),
        script(false).replace('\n', "\r\n"),
    ] {
        let summary = summary(&text);
        assert_eq!(summary.samples, Some(300));
        assert!(near(summary.class(Class::Spinlock), 1.0 / 3.0));
        assert!(near(summary.idle_share, 5000.0 / 5900.0));
        assert_eq!(summary.others.len(), 1);
        assert_eq!(summary.others[0].program, "java");
        assert!(near(summary.others[0].share, 600.0 / 5900.0));
        let diagnosis = diagnosis(&text, "9.4");
        assert_eq!(diagnosis.findings[0].id, "buffer-header-spinlock");
        assert!(near(diagnosis.findings[0].gain_at_most.unwrap(), 1.0 / 3.0));
    }
}

#[test]
fn a_machine_without_a_server_is_refused_by_name() {
    let text = "    70.00%  swapper   [kernel.kallsyms]  [k] intel_idle\n    12.00%  java      libjvm.so          [.] G1Scan\n     6.00%  python3   python3            [.] eval\n";
    let why = Profile::parse(text).unwrap_err();
    assert!(matches!(why, ProfileError::NoServer(_)));
    assert_eq!(
        why.to_string(),
        "no sample in it is of a PostgreSQL server; it has java, python3, idle CPUs"
    );
}

#[test]
fn idle_cpus_do_not_dilute_what_a_remedy_gains() {
    let text = "    70.00%  swapper   [kernel.kallsyms]  [k] intel_idle\n    12.00%  postgres  postgres           [.] s_lock\n     6.00%  postgres  postgres           [.] GetSnapshotData\n     4.00%  java      libjvm.so          [.] G1Scan\n";
    let diagnosis = diagnosis(text, "15");
    let lock = diagnosis
        .findings
        .iter()
        .find(|f| f.id == "spinlock-unattributed");
    assert!(
        near(lock.unwrap().gain_at_most.unwrap(), 12.0 / 18.0),
        "{:?}",
        ids(&diagnosis)
    );
}

/// perf's screen in two versions, and with what was added when it was pasted.
#[test]
fn perf_s_screen_names_the_callers() {
    for text in [
        "Samples: 100K of event 'cycles', Event count (approx.): 1000\n  Overhead  Command   Shared Object  Symbol\n-   40.00%  postgres  postgres       [.] s_lock\n   - s_lock\n      - 90.00% PinBuffer\n           ReadBuffer_common\n      + 10.00% UnpinBuffer\n+   12.00%  postgres  postgres       [.] GetSnapshotData\n     3.00%  postgres  postgres       [.] hash_search_with_hash_value\n",
        "-   40.00%  postgres  postgres       [.] s_lock          ▒\n   - 36.00% PinBuffer                                         ▒\n        ReadBuffer_common                                     ▒\n     4.00% UnpinBuffer                                        ▒\n+   12.00%  postgres  postgres       [.] GetSnapshotData ▒\n     3.00%  postgres  postgres       [.] hash_search_with_hash_value\n",
    ] {
        let summary = summary(text);
        assert!(near(summary.accounted_share, 0.55), "{text}");
        let lock = &summary.locks[0];
        assert_eq!(lock.function, "s_lock");
        let callers: Vec<(&str, f64)> =
            lock.callers.iter().map(|(n, s)| (n.as_str(), *s)).collect();
        assert_eq!(callers.len(), 2, "{callers:?}");
        assert_eq!((callers[0].0, callers[1].0), ("PinBuffer", "UnpinBuffer"));
        assert!(
            near(callers[0].1, 0.36) && near(callers[1].1, 0.04),
            "{callers:?}"
        );
    }
}

/// perf 3.16 to 4.3 printed callers, not callees, next to the column with what functions called.
#[test]
fn callers_next_to_the_children_column() {
    let text = "# Children      Self  Command          Symbol\n     8.96%     8.64%  postgres         [.] s_lock\n                   |\n                   ---s_lock\n                      |\n                      |--83.49%-- LWLockAcquire\n                      |          GetSnapshotData\n                      |--15.59%-- LWLockRelease\n";
    let summary = summary(text);
    assert!(summary.call_chains);
    let lock = &summary.locks[0];
    assert_eq!(lock.callers[0].0, "LWLockAcquire");
    assert!(near(lock.callers[0].1, 0.0864 * 0.8349), "{lock:?}");
}

/// What functions called is no caller of theirs.
#[test]
fn callees_next_to_the_children_column_are_left_out_and_reported() {
    let text = "    60.00%    20.00%  postgres  postgres  [.] ExecScan\n            |\n            ---ExecScan\n               heapgettup\n               LWLockAcquire\n    30.00%    30.00%  postgres  postgres  [.] heapgettup\n";
    let summary = summary(text);
    assert!(near(summary.accounted_share, 0.5));
    assert!(summary.locks.is_empty());
    assert!(
        summary
            .remarks
            .iter()
            .any(|r| r.contains("what these called")),
        "{:?}",
        summary.remarks
    );
}

#[test]
fn folded_stacks_are_the_samples_they_were_made_of() {
    let text = "postgres;main;PostgresMain;ReadBuffer_common;PinBuffer;s_lock 320\npostgres;main;PostgresMain;ExecScan 80\npostgres;main;PostgresMain;asm_exc_page_fault_[k];clear_page_erms_[k] 100\njava;start_thread;Interpreter 700\nswapper;secondary_startup_64;do_idle;intel_idle 2000\n";
    let summary = summary(text);
    assert_eq!(summary.samples, Some(500));
    assert!(near(summary.class(Class::Spinlock), 0.64));
    assert!(near(summary.class(Class::PageFaults), 0.2));
    assert!(near(summary.idle_share, 2000.0 / 3200.0));
    assert_eq!(
        diagnosis(text, "9.4").findings[0].id,
        "buffer-header-spinlock"
    );
}

#[test]
fn chains_name_the_look_ups_of_subtransactions() {
    let mut text = String::new();
    for at in 0..100 {
        let frames = match at < 60 {
            true => {
                "LWLockAcquire SimpleLruReadPage_ReadOnly SubTransGetParent SubTransGetTopmostTransaction XidInMVCCSnapshot HeapTupleSatisfiesMVCC heap_hot_search_buffer PostgresMain"
            }
            false => "ExecScan PostgresMain",
        };
        text.push_str(&format!("postgres 200 {at}.000004:    1 cycles: \n"));
        for name in frames.split(' ') {
            text.push_str(&format!(
                "\t          1000 {name}+0x10 (/usr/pgsql/bin/postgres)\n"
            ));
        }
        text.push('\n');
    }
    let by_chains = diagnosis(&text, "14");
    let found = &by_chains.findings[0];
    assert_eq!(found.id, "subtransaction-lookups");
    assert_eq!(found.confidence, Confidence::High);
    assert!(found.saw.contains("60.0 %"), "{}", found.saw);
    assert_eq!(
        summary(&text).locks[0].lock.title(),
        "subtransactions (SLRU)"
    );
    // The same as a listing with what functions called, and without callers.
    let children = "    60.00%     0.20%  postgres  postgres  [.] SubTransGetTopmostTransaction\n    59.00%     1.10%  postgres  postgres  [.] SubTransGetParent\n    30.00%    30.00%  postgres  postgres  [.] LWLockAttemptLock\n";
    assert_eq!(
        diagnosis(children, "14").findings[0].id,
        "subtransaction-lookups"
    );
    let flat = "    30.00%  postgres  postgres  [.] LWLockAttemptLock\n     2.40%  postgres  postgres  [.] SimpleLruReadPage_ReadOnly\n     1.30%  postgres  postgres  [.] SubTransGetTopmostTransaction\n";
    assert!(ids(&diagnosis(flat, "14")).contains(&"subtransaction-lookups"));
    // The commit log alone is another matter.
    let commit_log = "    20.00%  postgres  postgres  [.] ExecScan\n     1.40%  postgres  postgres  [.] SimpleLruReadPage_ReadOnly\n     3.00%  postgres  postgres  [.] TransactionIdGetStatus\n";
    assert!(!ids(&diagnosis(commit_log, "14")).contains(&"subtransaction-lookups"));
}

#[test]
fn functions_that_should_be_inlined_are_of_a_build_without_optimisation() {
    let text = "    60.00%  postgres  postgres  [.] pg_atomic_compare_exchange_u32_impl\n    20.00%  postgres  postgres  [.] pg_atomic_read_u32_impl\n";
    let diagnosis = diagnosis(text, "14");
    let found = &diagnosis.findings[0];
    assert_eq!(found.id, "unoptimised-server");
    assert!(found.saw.contains("80.0 %"), "{}", found.saw);
    // Where processors lack atomic operations they are functions of their own; so is the server's start.
    let other = "    60.00%  postgres  postgres  [.] LWLockAttemptLock\n     0.10%  postgres  postgres  [.] pg_atomic_read_u32_impl\n";
    assert!(!ids(&self::diagnosis(other, "14")).contains(&"unoptimised-server"));
}

#[test]
fn compaction_is_of_huge_pages_where_the_chain_says_so() {
    let of = |asks: &str| {
        format!(
            "    40.00%      postgres  [kernel.kallsyms]   [k] isolate_freepages_block\n                |\n                --- isolate_freepages_block\n                    compaction_alloc\n                    migrate_pages\n                    compact_zone\n                    __alloc_pages_direct_compact\n                    {asks}\n                    handle_mm_fault\n                    asm_exc_page_fault\n                    ExecSort\n"
        )
    };
    let huge = diagnosis(&of("do_huge_pmd_anonymous_page"), "15");
    assert_eq!(ids(&huge), ["transparent-huge-pages"]);
    assert_eq!(huge.findings[0].confidence, Confidence::High);
    let remedy = format!("{:?}", huge.findings[0].remedy);
    assert!(remedy.contains("madvise"), "{remedy}");
    let sockets = diagnosis(&of("alloc_skb_with_frags"), "15");
    assert_eq!(ids(&sockets), ["memory-compaction"]);
}

#[test]
fn what_cannot_be_read_is_reported_and_shares_stay_below_all() {
    let text = "    60.00%  postgres  postgres  [.] s_lock\n    12.00%  postgres  postgres  [k]\n\n     8.00%  postgres  postgres\n    30.00% something [.]\n";
    let read = summary(text);
    assert!(
        read.remarks.iter().any(|r| r.contains("2 lines")),
        "{:?}",
        read.remarks
    );
    // A second listing is another state of the server.
    let twice = "# Samples: 1K of event 'cycles'\n    60.00%  postgres  postgres  [.] s_lock\n\n# Samples: 2K of event 'cycles'\n    70.00%  postgres  postgres  [.] s_lock\n";
    let read = summary(twice);
    assert!(near(read.class(Class::Spinlock), 0.6));
    assert!(
        read.remarks.iter().any(|r| r.contains("only the first")),
        "{:?}",
        read.remarks
    );
    // Without a heading it is not seen as one, and is scaled.
    let added =
        "    60.00%  postgres  postgres  [.] s_lock\n    70.00%  postgres  postgres  [.] s_lock\n";
    let read = summary(added);
    assert!(near(read.class(Class::Spinlock), 1.0));
    assert!(
        read.remarks.iter().any(|r| r.contains("more than 100 %")),
        "{:?}",
        read.remarks
    );
}

#[test]
fn a_hierarchy_names_the_process_above_its_functions() {
    let text = "# Total Lost Samples: 12\n#\n#    Overhead  Command / Shared Object / Symbol\n# ......................\n    60.00%  postgres\n       50.00%  postgres\n          40.00%  [.] s_lock\n          10.00%  [.] GetSnapshotData\n       10.00%  [kernel.kallsyms]\n          10.00%  [k] clear_page_erms\n    40.00%  java\n       40.00%  libjvm.so\n          40.00%  [.] G1Scan\n";
    let summary = summary(text);
    assert!(
        near(summary.class(Class::Spinlock), 40.0 / 60.0),
        "{summary:?}"
    );
    assert_eq!(summary.others[0].program, "java");
    assert!(
        summary
            .remarks
            .iter()
            .any(|r| r.contains("lost 12 samples"))
    );
}
