//! `pgassay run kernels` and `pgassay core-to-core`, which need no server.

use std::fs;
use std::os::unix::fs::PermissionsExt;

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
            &["run", "kernels", "--emulate", "riscv64"],
            "one of aarch64, ppc64le, x86_64",
        ),
        (
            &["run", "select-only", "--emulate", "aarch64"],
            "--emulate does not apply to select-only",
        ),
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

/// Counted on this machine's own processor, emulated: what is counted on another one takes only its compiler
/// beside.
#[test]
fn kernels_are_counted_under_an_emulator() {
    let runs = Runs::new("kernels-counted");
    let own = std::env::consts::ARCH.replace("powerpc64", "ppc64le");
    let asked = [
        "run",
        "kernels",
        "--form",
        "word:fetch-and-add",
        "--form",
        "spinlock:test first",
        "--form",
        "pin:compare-and-swap",
        "--clients",
        "1",
        "--trials",
        "3",
        "--time",
        "0.05",
        "--json",
        "--emulate",
        &own,
    ];
    let first = json(&runs.run(&asked));
    let builds = first["kernel_counts"]["builds"].as_array().unwrap();
    assert!(!builds.is_empty());
    for build in builds {
        assert_eq!(build["processor"], own);
        let atomics = |form: &str| {
            let forms = build["forms"].as_array().unwrap();
            let found = forms.iter().find(|f| f["variant"] == form).unwrap();
            let of = |name: &str| found[name].as_f64().unwrap();
            let instructions = of("instructions_per_operation");
            // One at least; what starting and ending take differs by a few.
            assert!((0.99..100.0).contains(&instructions), "{found}");
            of("exclusive_pairs_per_operation") + of("single_atomics_per_operation")
        };
        assert_eq!(build["forms"].as_array().unwrap().len(), 3);
        for (form, has) in [
            ("fetch-and-add", 1.0),
            ("test first", 1.0),
            ("compare-and-swap", 2.0),
        ] {
            assert!((atomics(form) - has).abs() < 0.001, "{form}: {build}");
        }
    }
    let shown = text(&runs.run(&["report", "last"]).stdout);
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert!(
        words.join(" ").contains("it says nothing of time"),
        "{shown}"
    );
    let again = json(&runs.run(&["run", "--repeat", "last", "--json"]));
    let counts = |run: &Value| -> Vec<f64> {
        let builds = run["kernel_counts"]["builds"].as_array().unwrap();
        let forms = builds.iter().flat_map(|b| b["forms"].as_array().unwrap());
        let of = |form: &Value| form["instructions_per_operation"].as_f64().unwrap();
        forms.map(of).collect()
    };
    let (first, again) = (counts(&first), counts(&again));
    assert_eq!(first.len(), again.len());
    for (first, again) in first.iter().zip(&again) {
        // What starting and ending take differs by some hundred instructions.
        assert!((first - again).abs() < 0.1, "{first} and {again}");
    }
}

#[test]
fn what_counting_lacks_is_named_with_its_remedy() {
    let runs = Runs::new("kernels-lacking");
    let foreign = match cfg!(target_arch = "powerpc64") {
        true => ["spinlock:test first, LSE", "aarch64"],
        false => ["spinlock:test first, lwarx", "ppc64le"],
    };
    let refused = runs.run(&["run", "kernels", "--form", foreign[0]]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    let remedy = format!("--emulate {}", foreign[1]);
    assert!(
        text(&refused.stderr).contains(&remedy),
        "{}",
        text(&refused.stderr)
    );
    let bin = runs.0.with_extension("bin");
    fs::create_dir_all(&bin).unwrap();
    let without = |said: [&str; 2]| {
        let mut command = runs.command(&[
            "run",
            "kernels",
            "--form",
            foreign[0],
            "--emulate",
            foreign[1],
        ]);
        let output = command.env("PATH", &bin).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
        for said in said {
            assert!(
                text(&output.stderr).contains(said),
                "{said}: {}",
                text(&output.stderr)
            );
        }
    };
    let qemu = format!("qemu-{}", foreign[1]);
    without([&format!("{qemu} is not here"), "apt-get install qemu-user"]);
    fs::write(bin.join(&qemu), "").unwrap();
    fs::set_permissions(bin.join(&qemu), fs::Permissions::from_mode(0o755)).unwrap();
    without(["there is no rustc", "rustup"]);
    fs::remove_dir_all(&bin).unwrap();
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
