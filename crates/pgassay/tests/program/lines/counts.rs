//! The command on launched servers: counts of a loop, of an old release, and of a transaction.

use serde_json::Value;

use crate::runs::{Runs, text};
use crate::schema::assert_schema;

/// The same loops by name: an operation without the statement around it.
#[test]
fn a_loop_is_counted_by_the_operation() {
    let runs = Runs::new("lines");
    let args = ["lines", "--sessions", "1", "-n", "50", "--at", "1,2", "-w"];
    for (wrong, known) in [
        ("lwlock:often", "lwlock:shared"),
        ("primitives", "spinlock"),
    ] {
        let output = runs.run(&[&args[..], &[wrong]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(known), "{said}");
    }
    let few = ["lines", "-n", "2", "-w", "spinlock"];
    assert_eq!(runs.run(&few).status.code(), Some(2));

    let output = runs.run(&[&args[..], &["lwlock:shared", "--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_schema(&json, "lines-1.json");
    // As compare and run call it.
    assert_eq!(json["workload"], "lwlock:shared");
    assert_eq!(json["transactions"], 50);
    // Nothing but the lock: taken by one atomic, given back by another.
    assert_eq!(json["total"]["atomics"], 2.0, "{json}");
    assert_eq!(json["lines_taken"], 1.0);
    assert_eq!(json["lines"][0]["counts"]["atomics"], 2.0);
    // Under a microsecond, alone.
    assert!(
        json["cpu_us"]
            .as_f64()
            .is_some_and(|us| us > 0.0 && us < 1.0)
    );
}

/// The last release whose pins take the spinlock in the header: each pin and unpin is an atomic and two stores, and the
/// content is locked elsewhere.
#[cfg(target_arch = "x86_64")]
#[test]
fn pins_of_9_5_take_the_header_s_spinlock() {
    let runs = Runs::new("lines-95");
    let args = [
        "lines",
        "temp:9.5",
        "--stand-in",
        "--sessions",
        "1",
        "-n",
        "2",
        "--scale",
        "1",
        "--at",
        "1,2",
        "--json",
    ];
    let output = runs.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_schema(&json, "lines-1.json");
    assert!(json["named_share"].as_f64().unwrap() > 0.95, "{json}");
    assert_eq!(json["doubts"], serde_json::json!([]));
    let lines = json["lines"].as_array().unwrap();
    let root = |of: &str| {
        let starts = |line: &&Value| {
            let name = line["name"].as_str().unwrap();
            name.starts_with(of) && name.contains("(root of pgbench_accounts_pkey")
        };
        lines
            .iter()
            .find(starts)
            .unwrap_or_else(|| panic!("{of}: {json}"))
    };
    let counts = |line: &Value| {
        let of = |kind: &str| line["counts"][kind].as_f64().unwrap();
        (of("atomics"), of("stores"))
    };
    let descriptor = root("descriptor of buffer");
    assert_eq!(counts(descriptor), (2.0, 4.0), "{descriptor}");
    let takers: Vec<&str> = descriptor["takers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|taker| taker["function"].as_str().unwrap())
        .collect();
    assert!(
        takers.contains(&"PinBuffer") && takers.contains(&"UnpinBuffer"),
        "{takers:?}"
    );
    assert_eq!(counts(root("content lock of buffer")), (2.0, 0.0));
}

/// The account of a select: everything has a name, and the root of the key has its four atomics.
#[test]
fn a_select_is_accounted_for_and_the_same_twice() {
    let runs = Runs::new("lines");
    let args = ["lines", "-n", "2", "--seed", "7", "--json", "--at", "1,64"];
    let account = || {
        let output = runs.run(&args);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let (first, second) = (account(), account());
    assert_schema(&first, "lines-1.json");

    assert!(
        first["named_share"].as_f64().unwrap() >= 0.95,
        "{}",
        first["unnamed"]
    );
    let lines = first["lines"].as_array().unwrap();
    let root = lines.iter().find(|line| {
        let name = line["name"].as_str().unwrap();
        name.starts_with("descriptor") && name.contains("(root of pgbench_accounts_pkey, block 3)")
    });
    let root = root.unwrap_or_else(|| panic!("{lines:?}"));
    assert_eq!(root["counts"]["atomics"], 4.0, "{root}");
    // How far a look-up goes along a chain of the buffers' table hangs on which block was read in first, which differs from
    // server to server.
    let total = |account: &Value, what: &str| {
        let lines = account["lines"].as_array().unwrap().iter();
        let of_chains = lines.filter(|line| {
            let name = line["name"].as_str().unwrap();
            name.starts_with("Shared Buffer Lookup Table entry")
        });
        let of_chains: f64 = of_chains
            .filter_map(|line| line["counts"][what].as_f64())
            .sum();
        account["total"][what].as_f64().unwrap() - of_chains
    };
    assert!(total(&first, "loads") > 300.0, "{}", first["total"]);
    for what in ["loads", "stores", "atomics"] {
        let (a, b) = (total(&first, what), total(&second, what));
        assert!((a - b).abs() <= a * 0.001, "{what}: {a} and {b}");
    }
    // Alone, a session asks nobody; sixty-four ask each other.
    let transfers = first["transfers"].as_array().unwrap();
    assert_eq!(transfers[0]["per_transaction"]["estimate"], 0.0);
    assert!(transfers[1]["per_transaction"]["low"].as_f64().unwrap() > 5.0);
}
