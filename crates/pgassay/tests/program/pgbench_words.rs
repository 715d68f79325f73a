//! `pgassay pgbench` and the real pgbench say the same, word for word, of whatever goes wrong, and
//! end with the same code after the same number of transactions.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Bench, bench};

struct Place(std::path::PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pga-words-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Place(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(mut command: Command, args: &[&str], conninfo: &str, directory: &Path) -> Output {
    command
        .args(args)
        .arg(conninfo)
        .current_dir(directory)
        .env_remove("PGHOST")
        .env_remove("PGPORT")
        .env("LANG", "C.UTF-8")
        .output()
        .unwrap()
}

/// What both print on standard error, ours first.
fn both(bench: &Bench, args: &[&str], conninfo: &str, directory: &Path) -> [Output; 2] {
    let mut ours = Command::new(env!("CARGO_BIN_EXE_pgassay"));
    ours.arg("pgbench");
    let theirs = Command::new(bench.cluster.installation().tool("pgbench"));
    [ours, theirs].map(|command| run(command, args, conninfo, directory))
}

/// Standard error without what differs from run to run, and how much was done.
fn words(output: &Output) -> (Vec<String>, Option<i32>, Option<String>) {
    let said = String::from_utf8_lossy(&output.stderr);
    let lines = said
        .lines()
        // The shell's own words; pgbench's waits for an answer are a matter of time.
        .filter(|line| !line.contains("sh: 1:") && !line.ends_with(" receiving"))
        .map(|line| match line.split_once("/pgbench: ") {
            // getopt_long tells the program's path
            Some((_, rest)) if line.starts_with('/') => format!("pgbench: {rest}"),
            _ => line.to_owned(),
        })
        .collect();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let processed = stdout
        .lines()
        .find(|line| line.contains("actually processed") && line.contains('/'))
        .map(str::to_owned);
    (lines, output.status.code(), processed)
}

fn same(bench: &Bench, args: &str, conninfo: &str, directory: &Path) {
    let args: Vec<&str> = args.split(' ').collect();
    let [ours, theirs] = both(bench, &args, conninfo, directory).map(|output| words(&output));
    let script = fs::read_to_string(directory.join("x.sql")).unwrap_or_default();
    assert_eq!(ours, theirs, "ours, theirs: {args:?}\n{script}");
}

#[test]
fn mistakes_in_scripts_and_failures_of_statements() {
    let bench = bench();
    let place = Place::new("scripts");
    let many = format!("\\set i 0\nSELECT LEAST({});", vec![":i"; 256].join(","));
    let words = format!("\\shell echo {}", "arg ".repeat(255));
    for (script, args) in [
        // found when the script is read
        ("\\set i 1 +\n", ""),
        ("select 1;\n\\set i noSuchFunction()\n", ""),
        ("\\set i ;\n", ""),
        ("\\set i\n", ""),
        ("\\set\n", ""),
        ("\\set i CASE TRUE THEN 1 ELSE 0 END", ""),
        ("\\set i 100000000000000000000", ""),
        ("\\set a 1 + \\\n  ) 3\nselect 1", ""),
        ("\\setshell var", ""),
        ("\\sleep too many args", ""),
        ("\\sleep 1 week", ""),
        ("\\nosuch", ""),
        ("\\", ""),
        ("", ""),
        ("\\if", ""),
        ("\\if 1\n", ""),
        ("\\elif 1", ""),
        ("\\endif", ""),
        ("\\if 0\n\\else\n\\else\n\\endif", ""),
        ("\\if 0\n\\else BAD\n\\endif", ""),
        ("select 1 \\gset a b", ""),
        ("\\gset", ""),
        ("\\shell", ""),
        (&many, "-M prepared"),
        (&words, ""),
        // found when the command is executed
        ("\\set . 1\n", ""),
        ("\\set i 1/0\n", ""),
        (
            "\\set i least(0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16)\n",
            "",
        ),
        ("\\setshell i echo -n one", ""),
        ("\\setshell var no-such-command", ""),
        ("\\shell false", ""),
        ("\\shell echo :x", ""),
        ("\\sleep :nosuch", ""),
        ("\\sleep :a", "-Da=b"),
        ("select 1 \\gset 1x", ""),
        ("select where false \\gset", ""),
        ("select 1 as x, 2 as \"b b\" \\gset p_", ""),
        (
            "select 1 as x \\; select 3 \\; select 4 as z union select 3 \\gset",
            "",
        ),
        (
            "\\startpipeline\nselect 1 \\gset f\n\\endpipeline",
            "-M extended",
        ),
        ("\\startpipeline\n", "-M extended"),
        ("\\startpipeline\n", ""),
        ("\\endpipeline\n", ""),
        ("\\startpipeline\n\\startpipeline\n", "-M extended"),
        ("\\if 0\n\\elif 1/0\n\\endif", ""),
        ("begin; select 1;", ""),
        ("begin; select 1;", "-t 10"),
        ("copy pgbench_branches from stdin", ""),
        ("copy pgbench_branches to stdout", "-M prepared"),
        // what the server says
        ("select 1;\nselect 1/0;\nselect 2", ""),
        ("select 1;\nselekt 1;\nselect 2", ""),
        ("select 1\\; select 1/0\\; select 2;", ""),
        ("begin;\nselect 1 + ;\nend;\n", "-M prepared"),
        ("select 1 + :a from nosuch;", "-M extended -Da=1"),
        ("select 1 + :nosuch;", ""),
        (
            "\\startpipeline\nselect 1;\nselect 1/0;\n\\endpipeline\n",
            "-M prepared",
        ),
        (
            "do $$begin raise exception 'what' using detail='dd', hint='hh', errcode='22000'; end$$;",
            "",
        ),
        (
            "do $$begin raise notice 'note'; raise warning 'warn' using detail='dd'; end$$;",
            "",
        ),
        ("begin; begin; end; end;", "-M prepared"),
        ("select pg_terminate_backend(pg_backend_pid());", ""),
        // each step
        (
            "\\set a 1 + 1\nselect :a,\n 2;\n\\if 1\n\\sleep 1 us\n\\else\n\\shell true\n\\endif\n",
            "--debug",
        ),
        (
            "select 1 + :a::int;\nselect 2;",
            "--debug -M prepared -Da=1",
        ),
        (
            "select 1 + :a::int;\nselect 2;",
            "--debug -M extended -Da=1",
        ),
    ] {
        fs::write(place.0.join("x.sql"), script).unwrap();
        let t = if args.contains("-t") { "" } else { " -t 1" };
        let gap = if args.is_empty() { "" } else { " " };
        let line = format!("-n{t} -f x.sql{gap}{args}");
        if args.contains("--debug") {
            // Its first line tells what was typed of host and port.
            let conninfo = bench.cluster.conninfo();
            let args: Vec<&str> = line.split(' ').collect();
            let [ours, theirs] = both(&bench, &args, &conninfo, &place.0).map(|o| words_of(&o));
            assert_eq!(ours[1..], theirs[1..], "{script}");
            continue;
        }
        same(&bench, &line, &bench.cluster.conninfo(), &place.0);
    }
}

fn words_of(output: &Output) -> Vec<String> {
    words(output).0
}

#[test]
fn failures_that_are_repeated() {
    let bench = bench();
    let place = Place::new("retries");
    let clash = "DO $$ BEGIN RAISE 'clash' USING ERRCODE = '40001', HINT = 'wait'; END $$;\n";
    fs::write(place.0.join("x.sql"), clash).unwrap();
    for args in [
        "-n -t 2 -f x.sql --verbose-errors",
        "-n -t 2 -f x.sql --verbose-errors --max-tries=3",
        "-n -t 2 -f x.sql --max-tries=3",
        "-n -t 1 -f x.sql --max-tries=2 --debug",
    ] {
        let conninfo = bench.cluster.conninfo();
        let args: Vec<&str> = args.split(' ').collect();
        let without_target = |output: Output| -> Vec<String> {
            let mut lines = words_of(&output);
            lines.retain(|line| !line.starts_with("pgbench: pghost"));
            lines
        };
        let [ours, theirs] = both(&bench, &args, &conninfo, &place.0).map(without_target);
        assert_eq!(ours, theirs, "{args:?}");
    }
    // How much of the time was used depends on the time.
    let args = "-n -t 1 -f x.sql --verbose-errors --max-tries=2 -L 100000";
    let args: Vec<&str> = args.split(' ').collect();
    let [ours, theirs] = both(&bench, &args, &bench.cluster.conninfo(), &place.0).map(|output| {
        let digits = |c: char| c.is_ascii_digit();
        words_of(&output)
            .iter()
            .map(|line| line.replace(digits, ""))
            .collect::<Vec<_>>()
    });
    assert_eq!(ours, theirs);
    assert!(
        ours.iter().any(|line| line.contains("% of the maximum")),
        "{ours:?}"
    );
}

#[test]
fn mistakes_in_options() {
    let bench = bench();
    let place = Place::new("options");
    for args in [
        "--bad-option",
        "-Z",
        "-f no-such-file",
        "-b no-such-builtin",
        "--builtin=select-only@one",
        "-b select-only@-1",
        "-b select-only@99999999999",
        "-b s",
        "-j 0",
        "-j eleven",
        "-i -s two",
        "-t zil",
        "-t 0",
        "-T ten",
        "-N -l --aggregate-interval=5 --log-prefix=notused -t 1000 -T 1",
        "--define foobla",
        "-D =x",
        "-D 1a=3",
        "-F 1",
        "-F x",
        "-M no-such-mode",
        "--progress=0",
        "--rate=0.0",
        "--rate=x",
        "--latency-limit=0.0",
        "--sampling-rate=2",
        "--aggregate-interval=-3",
        "-b se@0 -b si@0",
        "-i -S",
        "-S -F 90",
        "--progress-timestamp",
        "-i -I dta",
        "--random-seed=one",
        "-i --partition-method=BAD",
        "-i --partitions -1",
        "-i --partition-method=hash",
        "--max-tries -10",
        "--max-tries 0",
        "--sampling-rate=0.01",
        "-l --sampling-rate=0.1 --aggregate-interval=3",
        "--aggregate-interval=3",
        "--log-prefix=x",
        "-l -T 1 --aggregate-interval=3",
        "-l -T 5 --aggregate-interval=3",
        "too many",
        "--show-script=x",
        "-b list",
        "-n --random-seed=5 -S -t 1",
        "-S -s 5 -t 1",
        "-S -t 1 -v",
    ] {
        same(&bench, args, &bench.cluster.conninfo(), &place.0);
    }
    // Releases name the long option with and without its last letter.
    let [ours, theirs] = both(
        &bench,
        &["-c", "three"],
        &bench.cluster.conninfo(),
        &place.0,
    )
    .map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    assert_eq!(
        ours.replace("clients", "client"),
        theirs.replace("clients", "client")
    );
}

#[test]
fn servers_that_are_not_there() {
    let bench = bench();
    let place = Place::new("servers");
    let there = bench.cluster.conninfo();
    for conninfo in [
        format!("{there} dbname=nodb"),
        format!("{there} user=nobody-of-that-name"),
        format!("{there} host=/nonexistent"),
        format!("{there} host=127.0.0.1 port=1"),
        format!("{there} dbname=template1"),
    ] {
        same(&bench, "-S -t 1", &conninfo, &place.0);
    }
}

#[test]
fn the_version_and_the_help_have_pgbenchs_form() {
    let ours = |argument: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgassay"));
        let output = command.args(["pgbench", argument]).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty());
        String::from_utf8(output.stdout).unwrap()
    };
    let version = ours("--version");
    assert_eq!(version, ours("-V"));
    let words: Vec<&str> = version.split_whitespace().collect();
    assert_eq!(words[..2], ["pgbench", "(PostgreSQL)"], "{version}");
    assert!(words[2].parse::<f64>().unwrap() >= 18.0, "{version}");
    assert!(words[3].starts_with("(pgassay"), "{version}");
    let help = ours("--help");
    assert_eq!(help, ours("-?"));
    // Every option of the real one is there, under the same heading's words.
    let bench = bench();
    let mut theirs = Command::new(bench.cluster.installation().tool("pgbench"));
    let theirs = theirs.arg("--help").output().unwrap().stdout;
    for line in String::from_utf8_lossy(&theirs).lines() {
        let line = line.trim_start();
        let option = line.split(['=', ' ', ',']).next().unwrap_or_default();
        if option.starts_with('-') || line.ends_with("options:") {
            let wanted = if line.ends_with(':') { line } else { option };
            assert!(help.contains(wanted), "{wanted}");
        }
    }
    assert!(help.lines().all(|line| line.len() <= 95), "{help}");
}
