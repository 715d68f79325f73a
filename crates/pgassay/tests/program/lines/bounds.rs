//! Bounds of throughput by lines.

use serde_json::Value;

use crate::runs::{Runs, text};
use crate::schema::assert_schema;

/// Bounds by the lines: the root of the key allows less the more sessions there are.
#[test]
#[ignore = "long: make test-all"]
fn walls_are_bounds_by_lines() {
    let runs = Runs::new("walls");
    let args = [
        "walls",
        "--cpu",
        "graviton2",
        "-n",
        "2",
        "--at",
        "1,64,192",
        "--json",
    ];
    let output = runs.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let walls: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_schema(&walls, "walls-1.json");
    assert!(
        walls["cpu_us"].as_f64().unwrap() > 1.0,
        "{}",
        walls["cpu_us"]
    );
    let bounds = walls["bounds"].as_array().unwrap();
    assert!(
        bounds[0]["lines"].as_array().unwrap().is_empty(),
        "{}",
        bounds[0]
    );
    // Alone, a session takes its CPU time; replayed, 192 go through no more than processors and lines allow.
    let timed = |at: usize| bounds[at]["timed"]["tps"]["estimate"].as_f64().unwrap();
    let allowed = |at: usize| bounds[at]["processors_tps"].as_f64().unwrap();
    assert!((timed(0) / allowed(0) - 1.0).abs() < 0.3, "{}", bounds[0]);
    assert!(timed(2) > 10.0 * timed(0), "{}", bounds[2]);
    assert!(timed(2) <= 1.3 * allowed(2), "{}", bounds[2]);
    let lines = bounds[2]["lines"].as_array().unwrap();
    let root = lines.iter().find(|line| {
        let name = line["name"].as_str().unwrap();
        name.contains("root of pgbench_accounts_pkey")
    });
    let root = root.unwrap_or_else(|| panic!("{lines:?}"));
    // Four atomics in two visits, 47 ns each.
    let count = |what: &str| root[what]["estimate"].as_f64().unwrap();
    assert!((2.0..=4.0).contains(&count("owned")), "{root}");
    assert!((0.9..=2.1).contains(&count("visits")), "{root}");
    for (times, tps) in [("owned", "tps"), ("visits", "at_most_tps")] {
        let of = 1e9 / (count(times) * 47.0);
        assert!((count(tps) - of).abs() < 1.0, "{root}");
    }
    // One processor takes the lock again before another one's request is there: no bound.
    let alone = [
        "walls",
        "-w",
        "spinlock",
        "-n",
        "50",
        "--transfer-ns",
        "200",
    ];
    let output = runs.run(&[&alone[..], &["--at", "1,16", "--json"]].concat());
    let loops: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let lines = loops["bounds"][1]["lines"].as_array().unwrap();
    assert!(lines.is_empty(), "{loops}");

    let listed = runs.run(&["walls", "--list-cpus"]);
    assert!(
        text(&listed.stdout).contains("graviton2"),
        "{}",
        text(&listed.stderr)
    );
    for wrong in [
        &["walls"][..],
        &["walls", "--cpu", "z80"],
        &["walls", "--transfer-ns", "-1"],
    ] {
        assert_eq!(runs.run(wrong).status.code(), Some(2), "{wrong:?}");
    }
}
