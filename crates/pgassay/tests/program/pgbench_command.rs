//! `pgassay pgbench` beside the real pgbench: the same lines in the same order, the same exit
//! codes, the same shape of log, and tables that are the same.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

use crate::support::{Bench, bench};

fn ours() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgassay"));
    command.arg("pgbench");
    command
}

fn theirs(bench: &Bench) -> Command {
    Command::new(bench.cluster.installation().tool("pgbench"))
}

fn run(mut command: Command, bench: &Bench, args: &[&str], directory: &Path) -> Output {
    command
        .args(args)
        .arg(bench.cluster.conninfo())
        .current_dir(directory)
        .output()
        .unwrap()
}

/// Runs both at the same time: what is compared does not depend on how fast either is.
fn together<T: Send>(ours: impl FnOnce() -> T + Send, theirs: impl FnOnce() -> T + Send) -> (T, T) {
    thread::scope(|scope| {
        let ours = scope.spawn(ours);
        let theirs = theirs();
        (ours.join().unwrap(), theirs)
    })
}

/// A text with every number replaced, so that shapes can be compared.
fn shape(line: &str) -> String {
    let mut out = String::new();
    let mut in_number = false;
    for c in line
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
    {
        let digit = c.is_ascii_digit() || (in_number && c == '.');
        if digit && !in_number {
            out.push('#');
        } else if !digit {
            out.push(c);
        }
        in_number = digit;
    }
    out
}

fn lines(output: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(output)
        .lines()
        .skip(1) // whose program it is
        .map(shape)
        .collect()
}

fn directory(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("pga-command-{name}-{}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    path
}

/// Each line of pgbench's summary is a line of ours, in the same order; what we add stands between.
#[test]
fn the_summary_has_pgbenchs_lines() {
    let bench = bench();
    let dir = directory("summary");
    fs::write(
        dir.join("two.sql"),
        "\\set a random(1, 9)\n\\sleep 1 ms\nSELECT :a;\nSELECT 2\n  + 3;\n",
    )
    .unwrap();
    for args in [
        "-n -t 5",
        "-n -S -c 3 -j 2 -t 5 -M prepared",
        "-n -S -T 1 -c 2 -M extended",
        "-n -N -t 5 -r",
        "-n -f two.sql@3 -b select-only@1 -t 200 -r",
        "-n -S -t 10 -C",
        "-n -S -t 10 -R 100",
        "-n -S -t 10 -R 100 -L 500 --max-tries=3 --failures-detailed -r",
        "-n -S -t 10 -L 500",
        "-v -t 3",
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        let (o, t) = (
            run(ours(), &bench, &args, &dir),
            run(theirs(&bench), &bench, &args, &dir),
        );
        assert!(
            t.status.success(),
            "{args:?} {}",
            String::from_utf8_lossy(&t.stderr)
        );
        assert_eq!(
            o.status.code(),
            t.status.code(),
            "{}",
            String::from_utf8_lossy(&o.stderr)
        );
        let ours = lines(&o.stdout);
        let mut rest = ours.iter();
        for line in lines(&t.stdout) {
            assert!(
                rest.any(|l| *l == line),
                "{args:?}: no line {line:?} in\n{}",
                ours.join("\n")
            );
        }
        let by_statement = ours
            .iter()
            .filter(|line| line.ends_with("statement latency percentiles in milliseconds:"));
        let scripts = 1 + usize::from(args.contains(&"-b"));
        let expected = if args.contains(&"-r") { scripts } else { 0 };
        assert_eq!(by_statement.count(), expected, "{}", ours.join("\n"));
    }
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn mistakes_end_with_pgbenchs_codes() {
    let bench = bench();
    let dir = directory("codes");
    fs::write(dir.join("fails.sql"), "SELECT 1/0;\n").unwrap();
    fs::write(dir.join("broken.sql"), "\\set a 1 +\n").unwrap();
    fs::write(dir.join("divides.sql"), "\\set a 1 / 0\nSELECT 1;\n").unwrap();
    fs::write(dir.join("open.sql"), "BEGIN;\nSELECT 1;\n").unwrap();
    fs::write(dir.join("empty.sql"), "-- nothing\n").unwrap();
    for args in [
        "-n -f fails.sql -t 2",
        "-n -f broken.sql -t 2",
        "-n -f divides.sql -t 2",
        "-n -f empty.sql -t 2",
        "-n -f nowhere.sql",
        "-n -t 1 -T 1",
        "-n -b nosuch",
        "-n -b s",
        "-n -c 0",
        "-n -t 0",
        "-n -M sideways",
        "-n -S -t 1 --sampling-rate=0.5",
        "-n -S -t 1 --aggregate-interval=1",
        "-n -S -t 1 --max-tries=0",
        "-n -S -t 1 -f fails.sql@x",
        "-n -S -t 1 -D 1a=2",
        "-n -S -t 1 --random-seed=abc",
        "-i -I dx",
        "-i --partition-method=range",
        "-i -F 5",
        "-n -S -c 100 -t 1",
        "-n -f open.sql -t 1",
        "-i -S",
        "-i -c 2",
        "-i --random-seed=3",
        "-n -S -F 90",
        "-n -S --partitions=2",
        "-I dtg",
        "-n -S -t 1 -D foo=",
        "-n -S -t 1 --progress-timestamp",
        "-n -S -l -T 1 --aggregate-interval=3",
        "-n -S -l -T 5 --aggregate-interval=3",
        "-i -I  ",
        "--nosuch",
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        let (o, t) = (
            run(ours(), &bench, &args, &dir),
            run(theirs(&bench), &bench, &args, &dir),
        );
        let told = String::from_utf8_lossy(&o.stderr).into_owned();
        assert_eq!(
            o.status.code(),
            t.status.code(),
            "{args:?}\n ours: {told}\n theirs: {}",
            String::from_utf8_lossy(&t.stderr)
        );
        assert!(told.starts_with("pgbench: "), "{args:?}: {told}");
    }
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn the_last_of_several_holds_and_a_beginning_names_its_option() {
    let bench = bench();
    let dir = directory("words");
    for (args, said) in [
        ("-n -S -t 1 -t 2 -c 3 -c 2 -n", "processed: 4/4"),
        ("--no-v --sel --trans=3 --cl 2 --max=2", "processed: 6/6"),
        (
            "-nSt2 -c2 -j2 -M simple -M prepared",
            "query mode: prepared",
        ),
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        for command in [ours(), theirs(&bench)] {
            let output = run(command, &bench, &args, &dir);
            let out = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{args:?}: {output:?}");
            assert!(out.contains(said), "{args:?}: {out}");
        }
    }
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn debug_tells_every_step_and_verbose_errors_every_failure() {
    let bench = bench();
    let dir = directory("debug");
    fs::write(dir.join("steps.sql"), "\\set a 1 + 1\nSELECT :a;\n").unwrap();
    let output = run(
        ours(),
        &bench,
        &["-n", "-t", "1", "-f", "steps.sql", "--debug"],
        &dir,
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let told: Vec<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("pgbench: "))
        .filter(|line| line.starts_with("client 0"))
        .collect();
    let wanted = [
        "client 0 executing script \"steps.sql\"",
        "client 0 executing \\set a",
        "client 0 sending SELECT 2;",
        "client 0 receiving",
    ];
    assert_eq!(told, wanted, "{said}");

    fs::write(
        dir.join("clash.sql"),
        "DO $$ BEGIN RAISE 'clash' USING ERRCODE = '40001'; END $$;\n",
    )
    .unwrap();
    let args = ["-n", "-t", "1", "-f", "clash.sql", "--max-tries=2"];
    let quiet = run(ours(), &bench, &args, &dir);
    assert!(!String::from_utf8_lossy(&quiet.stderr).contains("clash"));
    let output = run(
        ours(),
        &bench,
        &[&args[..], &["--verbose-errors"]].concat(),
        &dir,
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    for part in [
        "client 0 got an error in command 0 (SQL) of script 0; ERROR:  clash",
        "client 0 repeats the transaction after the error (try 1/2)",
        "client 0 ends the failed transaction (try 2/2)",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    fs::remove_dir_all(&dir).unwrap();
}

/// The shapes of the lines in each of a directory's files.
fn log_shapes(dir: &Path) -> Vec<(String, Vec<String>)> {
    let mut files: Vec<(String, Vec<String>)> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_none_or(|kind| kind != "sql"))
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
            // To the letter: one space, no space at the end.
            assert!(!text.contains("  ") && !text.contains(" \n"), "{text:?}");
            let name = shape(&path.file_name().unwrap().to_string_lossy());
            (name, text.lines().map(shape).collect())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn the_logs_have_pgbenchs_shape() {
    let bench = bench();
    let clash = "SELECT 1;\nDO $$ BEGIN IF random() < 0.5 THEN \
                 RAISE 'clash' USING ERRCODE = '40001'; END IF; END $$;\n";
    let stops = "SELECT 1 / (:client_id - 1);\nSELECT 1;\n";
    // Whether the number of lines is the same, too.
    for (name, args, counted) in [
        ("plain", "-n -S -t 20 -c 2 -j 2 -l", true),
        ("paced", "-n -S -t 20 -l -R 200 --max-tries=2", true),
        ("prefixed", "-n -S -t 20 -l --log-prefix=mine", true),
        (
            "several",
            "-n -S -b simple-update -t 20 -c 3 -l -M prepared",
            true,
        ),
        ("failing", "-n -f clash.sql -t 30 -l", false),
        (
            "detailed",
            "-n -f clash.sql -t 30 -l --failures-detailed --max-tries=2",
            false,
        ),
        ("skipping", "-n -f slow.sql -t 30 -l -R 1000 -L 1", false),
        ("stopping", "-n -f stops.sql -t 5 -c 2 -l", true),
        ("sampled", "-n -S -t 400 -l --sampling-rate=0.2", false),
        ("summed", "-n -S -T 2 -l --aggregate-interval=1", false),
        (
            "summed-all",
            "-n -f clash.sql -T 2 -l --aggregate-interval=1 -R 300 -L 100 --max-tries=2 --failures-detailed",
            false,
        ),
        (
            "summed-paced",
            "-n -S -T 2 -l --aggregate-interval=1 -R 300",
            false,
        ),
    ] {
        let files = |command, whose: &str| {
            let dir = directory(&format!("{name}-{whose}"));
            fs::write(dir.join("clash.sql"), clash).unwrap();
            fs::write(dir.join("stops.sql"), stops).unwrap();
            fs::write(dir.join("slow.sql"), "\\sleep 2 ms\n").unwrap();
            let args: Vec<&str> = args.split(' ').collect();
            let output = run(command, &bench, &args, &dir);
            let expected = if name == "stopping" { 2 } else { 0 };
            let code = output.status.code();
            assert_eq!(code, Some(expected), "{name}: {output:?}");
            let mut files = log_shapes(&dir);
            if !counted {
                for (_, lines) in &mut files {
                    lines.sort();
                    lines.dedup();
                }
            }
            fs::remove_dir_all(&dir).unwrap();
            files
        };
        let (ours, theirs) = together(|| files(ours(), "ours"), || files(theirs(&bench), "theirs"));
        assert_eq!(ours, theirs, "{name}");
    }
    // Aggregated: every transaction is in one line.
    let dir = directory("aggregated");
    let args = ["-n", "-S", "-T", "2", "-l", "--aggregate-interval=1"];
    let output = run(ours(), &bench, &args, &dir);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let file = fs::read_dir(&dir).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(file).unwrap();
    let sum: u64 = text
        .lines()
        .map(|line| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap())
        .sum();
    let processed: u64 = stdout
        .lines()
        .find_map(|line| line.strip_prefix("number of transactions actually processed: "))
        .and_then(|n| n.parse().ok())
        .unwrap();
    assert!(
        (processed..=processed + 1).contains(&sum),
        "{sum} {processed}"
    );
    assert!(text.lines().count() >= 2);
    fs::remove_dir_all(&dir).unwrap();
}

/// Progress reports, a line each second.
#[test]
fn progress_has_pgbenchs_shape() {
    let bench = bench();
    let dir = directory("progress");
    for args in [
        "-n -S -T 2 -P 1",
        "-n -S -T 2 -P 1 -R 200",
        "-n -S -T 2 -P 1 -R 200 -L 500",
        "-n -S -T 2 -P 1 --max-tries=2 --progress-timestamp",
        "-n -S -T 2 -P 1 -R 200 -L 500 --max-tries=2",
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        let shapes = |command| {
            let output = run(command, &bench, &args, &dir);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let mut lines: Vec<String> = said
                .lines()
                .filter(|line| line.starts_with("progress: "))
                // To the letter but for the digits.
                .map(|line| line.replace(|c: char| c.is_ascii_digit(), "").to_owned())
                .map(|line| line.replace("..", "."))
                .collect();
            lines.dedup();
            lines
        };
        let (ours, theirs) = together(|| shapes(ours()), || shapes(theirs(&bench)));
        assert_eq!(ours, theirs, "{args:?}");
        assert!(!ours.is_empty());
    }
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn the_tables_are_pgbenchs() {
    let bench = bench();
    let dir = directory("tables");
    let digest = "SELECT md5(string_agg(x, ';' ORDER BY x)) FROM (
        SELECT c.relname || ' ' || c.relkind::text || ' ' || c.relpersistence::text || ' ' || coalesce(array_to_string(c.reloptions, ','), '') || ' ' ||
          coalesce(pg_get_expr(c.relpartbound, c.oid), '') || coalesce(string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull, ',' ORDER BY a.attnum), '') AS x
        FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
        WHERE c.relname LIKE 'pgbench%' AND c.relnamespace = 'public'::regnamespace GROUP BY c.oid
        UNION ALL SELECT conname || pg_get_constraintdef(oid) FROM pg_constraint WHERE conname LIKE 'pgbench%'
        UNION ALL SELECT 'accounts ' || count(*) || ' ' || sum(aid) || ' ' || sum(bid) || ' ' || count(filler) FROM pgbench_accounts
        UNION ALL SELECT 'tellers ' || count(*) || ' ' || sum(tid * bid) || ' ' || count(filler) FROM pgbench_tellers
        UNION ALL SELECT 'branches ' || count(*) || ' ' || sum(bid) || ' ' || count(filler) FROM pgbench_branches) t";
    for args in [
        "-i -q -s 2",
        "-i -q -F 80 --unlogged-tables",
        "-i -q --partitions=3 --foreign-keys",
        "-i -q --partitions=3 --foreign-keys --unlogged-tables -I dtpGv",
        "-i -q --partitions=2 --partition-method=hash -n",
        "-i -q -I dtGvp",
        "-i -q", // last, for the other tests
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        let t = run(theirs(&bench), &bench, &args, &dir);
        if !t.status.success()
            && args.contains(&"--unlogged-tables")
            && args.contains(&"--foreign-keys")
        {
            // From release 18 on these two don't go together with partitions.
            let o = run(ours(), &bench, &args, &dir);
            assert_eq!(o.status.code(), t.status.code());
            continue;
        }
        assert!(t.status.success(), "{args:?}: {t:?}");
        let wanted = bench.ask(digest);
        let o = run(ours(), &bench, &args, &dir);
        assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
        assert_eq!(bench.ask(digest), wanted, "{args:?}");
    }
    fs::remove_dir_all(&dir).unwrap();
}

/// --exit-on-abort ended the run on any message with the word "aborted" in it, and not where a
/// connection was lost, which is told in other words.
#[test]
fn exit_on_abort_goes_by_what_happens_and_not_by_words() {
    let bench = bench();
    let dir = directory("exit-on-abort");
    fs::write(dir.join("word.sql"), "SELECT 'aborted'::int;\n").unwrap();
    let words = "-n -f word.sql -t 5 --continue-on-error --verbose-errors --exit-on-abort";
    let args: Vec<&str> = words.split(' ').collect();
    let output = run(ours(), &bench, &args, &dir);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("number of failed transactions: 5 "), "{said}");
    assert_eq!(output.status.code(), Some(0), "{said}");
    // An hour, if nobody notices that one of two clients is gone.
    fs::write(
        dir.join("lost.sql"),
        "\\set first :client_id = 0\n\\if :first\n\
         SELECT pg_terminate_backend(pg_backend_pid());\n\
         \\else\n\\sleep 10 ms\nSELECT 1;\n\\endif\n",
    )
    .unwrap();
    let args = [
        "-n",
        "-f",
        "lost.sql",
        "-T",
        "3600",
        "-c",
        "2",
        "--exit-on-abort",
    ];
    let output = run(ours(), &bench, &args, &dir);
    assert_eq!(output.status.code(), Some(2));
    fs::remove_dir_all(&dir).unwrap();
}
