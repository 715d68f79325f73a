//! `pgassay run kernels` and `pgassay core-to-core`, which need no server.

use std::fs;

use serde_json::Value;

use super::runs::{Runs, text};

fn json(output: &std::process::Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn kernels_run_without_a_server_and_again() {
    let runs = Runs::new("kernels");
    let asked = [
        "run",
        "kernels",
        "--form",
        "spinlock:ticket",
        "--form",
        "lwlock:shared",
        "--clients",
        "1,2",
        "--trials",
        "3",
        "--time",
        "0.05",
        "--seed",
        "7",
        "--json",
    ];
    let first = json(&runs.run(&asked));
    assert_eq!(first["run"]["trials_measured"], 12);
    let forms = first["primitives"].as_array().unwrap();
    let titles: Vec<&str> = forms
        .iter()
        .map(|f| f["variant"].as_str().unwrap())
        .collect();
    assert_eq!(titles, ["ticket", "shared"]);
    for form in forms {
        for (point, threads) in form["points"].as_array().unwrap().iter().zip([1, 2]) {
            assert_eq!(point["sessions"], threads);
            assert!(
                point["operations_per_second"]["estimate"].as_f64().unwrap() > 1000.0,
                "{point}"
            );
            assert!(
                point["server_cpu_ns_per_operation"]["estimate"]
                    .as_f64()
                    .unwrap()
                    > 0.5,
                "{point}"
            );
        }
    }
    assert_eq!(first["arms"], Value::Array(vec![]), "there is no server");

    let again = json(&runs.run(&["run", "--repeat", "last", "--json"]));
    assert_eq!(again["stages"][0]["plan"], first["stages"][0]["plan"]);
    let complete = runs.run(&["run", "--resume", "last"]);
    assert_eq!(
        complete.status.code(),
        Some(2),
        "{}",
        text(&complete.stderr)
    );

    let shown = text(&runs.run(&["report", "last"]).stdout);
    assert!(shown.contains("kernels, without a server"), "{shown}");
    for of_servers in ["session", "executable", "protocol", "nothing was"] {
        assert!(!shown.contains(of_servers), "{of_servers}: {shown}");
    }
}

#[test]
fn what_says_nothing_of_kernels_is_refused() {
    let runs = Runs::new("kernels-refused");
    for (words, said) in [
        (
            &["run", "kernels", "temp"][..],
            "TARGET does not apply to kernels",
        ),
        (
            &["run", "kernels", "--set", "a=b"],
            "--set does not apply to kernels",
        ),
        (
            &["run", "kernels", "--observe", "all"],
            "--observe does not apply to kernels",
        ),
        (
            &["run", "kernels", "--form", "nonsense"],
            "one of word, spinlock",
        ),
        (
            &["run", "kernels", "--form", "spinlock:nonsense"],
            "spinlock:ticket",
        ),
        (&["run", "kernels", "--clients", "100000"], "--clients"),
        (
            &["run", "select-only", "--form", "word"],
            "--form does not apply to select-only",
        ),
        (
            &["compare", "temp", "temp", "--workload", "kernels"],
            "no two to compare",
        ),
    ] {
        let output = runs.run(words);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{words:?}: {}",
            text(&output.stderr)
        );
        assert!(
            text(&output.stderr).contains(said),
            "{words:?}: {}",
            text(&output.stderr)
        );
    }
    assert!(!fs::exists(&runs.0).unwrap() || fs::read_dir(&runs.0).unwrap().next().is_none());
}

#[test]
fn times_between_cpus_are_a_map_for_the_walls() {
    let runs = Runs::new("core-to-core");
    let cpus = std::thread::available_parallelism().unwrap().get();
    let output = runs.run(&["core-to-core", "--json"]);
    if cpus == 1 {
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        return;
    }
    let times = json(&output);
    let pairs = times["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), cpus * (cpus - 1) / 2);
    assert!(
        pairs.iter().all(|pair| pair["ns"].as_f64().unwrap() > 1.0),
        "{times}"
    );

    let file = std::env::temp_dir().join(format!("pgassay-not-a-map-{}", std::process::id()));
    fs::write(&file, text(&output.stdout).replace("/1\"", "/99\"")).unwrap();
    let refused = runs.run(&["walls", "temp", "--map", file.to_str().unwrap()]);
    fs::remove_file(&file).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(
        text(&refused.stderr).contains("pgassay core-to-core --json"),
        "{}",
        text(&refused.stderr)
    );
    let absent = runs.run(&["core-to-core", "--cpus", "0,1022"]);
    assert_eq!(absent.status.code(), Some(2), "{}", text(&absent.stderr));
    assert!(
        text(&absent.stderr).contains("may not use a CPU 1022"),
        "{}",
        text(&absent.stderr)
    );
}
