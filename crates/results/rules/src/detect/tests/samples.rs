//! Shares of CPU samples, ranked on one scale with waits.

use pgassay_model::workload::WorkloadPlan;
use pgassay_readings::profile::Profile;

use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Basis, Finding, Severity};
use crate::load;
use pgassay_analysis::analyse;
use pgassay_evidence::fixtures;
use pgassay_evidence::profile::summarise;

/// What is found in a listing of `perf report`, on a server whose sessions wait for 80 % of the
/// time in which they are in a statement.
fn found(listing: &str, version: u32) -> Vec<Finding> {
    found_under(listing, version, None)
}

/// The same under a load of ours.
fn found_under(listing: &str, version: u32, ours: Option<&WorkloadPlan>) -> Vec<Finding> {
    let analysis = analyse(&fixtures::run(0.0, |_| 0.8));
    let arm = &analysis.arms[0];
    let did = &analysis.main().arms[0];
    let point = did.points.last().unwrap();
    let observed = did.observed.as_ref().unwrap().points.last();
    let summary = summarise(&Profile::parse(listing).unwrap());
    load(&Evidence {
        version: Some(version),
        profile: Some(&summary),
        run: Some(RunEvidence {
            workload: "mine.sql",
            ours,
            host: &analysis.host,
            arm,
            load: did,
            point,
            observed,
            scaling: None,
        }),
    })
}

/// Six of sixteen rules said \"of the CPU samples\" or \"% in\" instead of \"of the samples\", by
/// which the ranking recognised shares of samples: they were ranked as if sessions always ran.
#[test]
fn every_share_of_samples_is_scaled_by_the_time_in_which_sessions_ran() {
    for (id, version, listing, share) in [
        (
            "page-faults",
            150_000,
            "40.00% postgres [k] clear_page_erms\n",
            0.4,
        ),
        (
            "parse-and-plan",
            150_000,
            "40.00% postgres [.] base_yyparse\n",
            0.4,
        ),
        (
            "round-trips",
            150_000,
            "30.00% postgres [k] tcp_sendmsg\n20.00% postgres [.] PostgresMain\n",
            0.5,
        ),
        (
            "assertions",
            150_000,
            "40.00% postgres [.] AllocSetCheck\n",
            0.4,
        ),
        (
            "crc32c-by-table",
            150_000,
            "40.00% postgres [.] pg_comp_crc32c_sb8\n",
            0.4,
        ),
        (
            "snapshot-scalability",
            130_000,
            "40.00% postgres [.] GetSnapshotData\n",
            0.4,
        ),
        (
            "jit-small-queries",
            150_000,
            "40.00% postgres [.] llvm_compile_expr\n",
            0.4,
        ),
        (
            "buffer-pin-retries",
            150_000,
            "40.00% postgres [.] PinBuffer\n",
            0.4,
        ),
        (
            "statement-logging",
            150_000,
            "40.00% postgres [.] EmitErrorReport\n",
            0.4,
        ),
    ] {
        let findings = found(listing, version);
        let finding = findings.iter().find(|f| f.id == id);
        let finding = finding.unwrap_or_else(|| panic!("{id} is not found: {findings:#?}"));
        assert_eq!(finding.basis, Basis::CpuSamples, "{id}");
        let gain = finding.gain_at_most.unwrap();
        assert!((gain - 0.2 * share).abs() < 1e-6, "{id}: {gain}");
    }
}

/// The call chains differ only in the function that waits for the spinlock.
#[test]
fn the_caller_identifies_a_spinlock() {
    const OF_SPINLOCKS: [&str; 3] = [
        "buffer-header-lock",
        "buffer-replacement-spinlock",
        "spinlock-unattributed",
    ];
    for (id, waiter) in
        OF_SPINLOCKS
            .into_iter()
            .zip(["LockBufHdr", "StrategyGetBuffer", "0x7f21c3a0"])
    {
        let listing = format!(
            "    40.00%  postgres  postgres  [.] perform_spin_delay\n            |\n            ---perform_spin_delay\n               {waiter}\n"
        );
        let findings = found(&listing, 180_000);
        let of_spinlocks = || {
            let ids = findings.iter().map(|f| f.id.as_str());
            ids.filter(|id| OF_SPINLOCKS.contains(id))
        };
        assert_eq!(of_spinlocks().collect::<Vec<_>>(), [id]);
        let finding = findings.iter().find(|f| f.id == id).unwrap();
        assert!((finding.gain_at_most.unwrap() - 0.2 * 0.4).abs() < 1e-6);
        let known = finding.subjects.functions.contains(waiter);
        assert_eq!(known, id != "spinlock-unattributed", "{finding:#?}");
    }
}

/// Up to 13 a snapshot visits all connections; from 14 on it is rebuilt only after a commit.
#[test]
fn the_release_decides_why_snapshots_cost_time() {
    const BOTH: [&str; 2] = ["snapshot-scalability", "snapshot-rebuild"];
    for (version, id) in [130_000, 140_000].into_iter().zip(BOTH) {
        let findings = found("40.00% postgres [.] GetSnapshotData\n", version);
        let snapshots: Vec<&Finding> = findings
            .iter()
            .filter(|f| BOTH.contains(&f.id.as_str()))
            .collect();
        let [only] = snapshots[..] else {
            panic!("{version}: {snapshots:#?}");
        };
        assert_eq!(only.id, id);
        assert!((only.gain_at_most.unwrap() - 0.2 * 0.4).abs() < 1e-6);
    }
}

/// Who prepares statements already is not told to prepare them.
#[test]
fn what_is_prepared_and_planned_all_the_same_has_its_own_remedy() {
    let of = |protocol: &str| {
        let ours = WorkloadPlan {
            protocol: protocol.to_owned(),
            ..WorkloadPlan::default()
        };
        let findings = found_under("40.00% postgres [.] query_planner\n", 150_000, Some(&ours));
        let finding = findings.into_iter().find(|f| f.id == "parse-and-plan");
        finding.expect("found")
    };
    let prepared = of("prepared");
    assert_eq!(prepared.severity, Severity::Low);
    // The listing is flat: how much of it is parsing is not known, and that is no gain of nothing.
    assert_eq!(prepared.gain_expected, None);
    assert!(prepared.remedy[0].text.contains("force_generic_plan"));
    assert!(
        !prepared
            .remedy
            .iter()
            .any(|s| s.text.contains("Use prepared"))
    );
    for protocol in ["simple", "extended"] {
        assert!(of(protocol).remedy[0].text.contains("Use prepared"));
    }
}

#[test]
fn shares_of_waits_are_of_all_time_already() {
    let findings = found("40.00% postgres [.] unknown_function\n", 180_000);
    let finding = findings
        .iter()
        .find(|f| f.id == "wal-insertion-locks")
        .unwrap();
    assert_eq!(finding.basis, Basis::WaitTime);
    assert!((finding.gain_at_most.unwrap() - 0.8).abs() < 0.01);
    let last = finding.remedy.last().unwrap();
    assert_eq!(last.text, "no release cures this");
}

/// WAL insertion by waits and by samples is one finding with both kinds of evidence.
#[test]
fn two_kinds_of_evidence_make_one_finding() {
    let listing = "\
    30.00%  postgres  postgres  [.] LWLockAcquire
            |
            ---LWLockAcquire
               |
                --30.00%--XLogInsertRecord
                          heap_insert
    20.00%  postgres  postgres  [.] s_lock
            |
            ---s_lock
               |
                --20.00%--XLogInsertRecord
                          heap_insert
";
    let findings = found(listing, 180_000);
    let of = |id: &str| findings.iter().filter(|f| f.id == id).collect::<Vec<_>>();
    let [insertion] = of("wal-insertion-locks")[..] else {
        panic!("{findings:#?}");
    };
    let evidence = insertion.evidence.join("; ");
    assert!(evidence.contains("LWLock:WALInsert"), "{evidence}");
    assert!(
        evidence.contains("30.0 % of the samples in LWLockAcquire"),
        "{evidence}"
    );
    // What spins reserves a position, which is another bottleneck.
    let [position] = of("wal-position-spinlock")[..] else {
        panic!("{findings:#?}");
    };
    assert!((position.gain_at_most.unwrap() - 0.2 * 0.2).abs() < 1e-6);
    assert!(
        position
            .remedy
            .iter()
            .all(|step| !step.text.contains("upgrade"))
    );
}
