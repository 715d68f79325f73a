//! The script language held against the real pgbench: the same scripts, the same seed, the same
//! values and the same refusals.
//!
//! Besides the installed pgbench, those in `PGASSAY_PGBENCHES` (paths with colons between) are
//! asked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use pgassay_load::script::{Command, Program, Random, Scope, Value, Var};
use pgassay_load::{Engine, Length, Options, SliceSpec};

use crate::support::{Bench, bench, run};

fn pgbenches(bench: &Bench) -> Vec<PathBuf> {
    let more = std::env::var("PGASSAY_PGBENCHES").unwrap_or_default();
    let more = more
        .split(':')
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    std::iter::once(bench.cluster.installation().tool("pgbench"))
        .chain(more)
        .collect()
}

/// A file that is removed again.
struct Script(PathBuf);

impl Script {
    fn new(name: &str, text: &str) -> Script {
        let path = std::env::temp_dir().join(format!("pga-{name}-{}.sql", std::process::id()));
        fs::write(&path, text).unwrap();
        Script(path)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Exit status and stderr of a pgbench run of one transaction.
fn pgbench(tool: &Path, bench: &Bench, script: &Script, seed: u64) -> (bool, String) {
    let output = Process::new(tool)
        .args(["-n", "-t", "1", "-D", "x=7", "-D", "name=yes"])
        .arg(format!("--random-seed={seed}"))
        .arg("-f")
        .arg(&script.0)
        .args(["-d", &bench.cluster.conninfo()])
        .output()
        .unwrap();
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// A small generator of expressions, seeded, so that a failure can be repeated.
struct Generator {
    random: Random,
    with_random: bool,
}

impl Generator {
    fn pick(&mut self, n: i64) -> i64 {
        self.random.uniform(0, n - 1)
    }

    fn any<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.pick(of.len() as i64) as usize]
    }

    fn leaf(&mut self) -> String {
        match self.pick(10) {
            0 => "null".to_owned(),
            1 => self.any(&["true", "FALSE"]).to_owned(),
            2 => format!("{}", self.random.uniform(-5, 5)),
            3 => format!("{}", self.random.bits() >> 1),
            4 => self
                .any(&[
                    "-9223372036854775808",
                    "9223372036854775807",
                    "0",
                    "1",
                    "-1",
                ])
                .into(),
            5 => self
                .any(&[".5", "1.", "2.5e3", "1e-7", "123456789.987654321", "1e300"])
                .into(),
            6 => ":x".to_owned(),
            7 => ":default_seed".to_owned(),
            8 => ":name".to_owned(),
            _ => format!("{}.{}", self.pick(1000), self.pick(1000)),
        }
    }

    fn expression(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.leaf();
        }
        let choices = if self.with_random { 12 } else { 10 };
        match self.pick(choices) {
            0 => self.leaf(),
            1..=3 => {
                let operator = self.any(&[
                    "+", "-", "*", "/", "%", "=", "<>", "!=", "<", "<=", ">", ">=", "|", "#", "&",
                    "<<", ">>", "and", "OR",
                ]);
                let (left, right) = (self.expression(depth - 1), self.expression(depth - 1));
                if self.pick(2) == 0 {
                    format!("{left} {operator} {right}")
                } else {
                    format!("({left} {operator} {right})")
                }
            }
            4 => {
                let prefix = self.any(&["-", "+", "~", "not ", "- "]);
                format!("{prefix}{}", self.expression(depth - 1))
            }
            5 => {
                let tail = self.any(&[
                    "is null",
                    "is not null",
                    "isnull",
                    "notnull",
                    "is true",
                    "is not false",
                ]);
                format!("{} {tail}", self.expression(depth - 1))
            }
            6 => {
                let mut text = "case".to_owned();
                for _ in 0..=self.pick(2) {
                    let (when, then) = (self.expression(depth - 1), self.expression(depth - 1));
                    text += &format!(" when {when} then {then}");
                }
                if self.pick(2) == 0 {
                    text += &format!(" else {}", self.expression(depth - 1));
                }
                text + " end"
            }
            7 => {
                let function = self.any(&["abs", "int", "double", "sqrt", "ln", "exp", "debug"]);
                format!("{function}({})", self.expression(depth - 1))
            }
            8 => {
                let function = self.any(&["greatest", "least"]);
                let n = 1 + self.pick(4);
                let args: Vec<String> = (0..n).map(|_| self.expression(depth - 1)).collect();
                format!("{function}({})", args.join(", "))
            }
            9 => {
                let function = self.any(&[
                    "hash",
                    "hash_fnv1a",
                    "hash_murmur2",
                    "mod",
                    "pow",
                    "permute",
                ]);
                let (a, b) = (self.expression(depth - 1), self.expression(depth - 1));
                let one = function.starts_with("hash") && self.pick(2) == 0;
                if one {
                    format!("{function}({a})")
                } else {
                    format!("{function}({a}, {b})")
                }
            }
            10 => {
                let low = self.random.uniform(-1000, 1000);
                format!("random({low}, {})", low + self.random.uniform(0, 1 << 40))
            }
            _ => {
                let (function, parameter) = match self.pick(3) {
                    0 => ("random_gaussian", 2.0 + self.pick(80) as f64 / 10.0),
                    1 => ("random_exponential", 0.1 + self.pick(100) as f64 / 10.0),
                    _ => ("random_zipfian", 1.01 + self.pick(40) as f64 / 10.0),
                };
                let low = self.random.uniform(-10, 10);
                let high = low + self.random.uniform(0, 100_000);
                format!("{function}({low}, {high}, {parameter})")
            }
        }
    }
}

/// The interpreter of one client, as pgbench sets it up for its first.
struct Ours {
    random: Random,
    default_seed: i64,
    shown: Vec<String>,
}

impl Ours {
    fn new(seed: u64) -> Ours {
        let mut seeds = Random::new(seed);
        let random = Random::new(seeds.bits());
        Ours {
            random,
            default_seed: seeds.bits() as i64,
            shown: Vec::new(),
        }
    }

    /// The value of `\set r debug(expression)`, or the message; what debug() showed is added.
    fn evaluate(&mut self, expression: &str, command: usize) -> Result<Value, String> {
        let mut program = Program::new();
        program
            .add("t", &format!("\\set r debug({expression})"), 1)
            .map_err(|error| format!("refused: {}", error.message))?;
        let mut vars = vec![Var::Unset; program.symbols().names().len()];
        let mut set = |name: &str, var: Var| {
            if let Some(slot) = program.symbols().find(name) {
                vars[slot as usize] = var;
            }
        };
        set("x", Var::Text("7".into()));
        set("name", Var::Text("yes".into()));
        set("default_seed", Var::Value(Value::Int(self.default_seed)));
        let Command::Set(_, expr) = &program.scripts()[0].commands[0] else {
            unreachable!()
        };
        let before = (self.random.clone(), self.shown.len());
        let shown = &mut self.shown;
        let mut debug = |value: Value| {
            let kind = value.kind();
            let text = match value {
                Value::Null => kind.to_owned(),
                other => format!("{kind} {other}"),
            };
            shown.push(format!("debug(script=0,command={command}): {text}"));
        };
        let mut scope = Scope {
            vars: &vars,
            names: program.symbols().names(),
            random: &mut self.random,
            debug: &mut debug,
            stack: &mut Vec::new(),
        };
        let value = expr.evaluate(&mut scope).map_err(|error| error.to_string());
        if value.is_err() {
            self.random = before.0;
            self.shown.truncate(before.1);
        }
        value
    }
}

#[test]
fn expressions_have_pgbenchs_values() {
    let bench = bench();
    for seed in [1, 2026] {
        let mut generator = Generator {
            random: Random::new(seed + 100),
            with_random: true,
        };
        let mut ours = Ours::new(seed);
        let mut script = String::new();
        let mut commands = 0;
        let mut errors = Vec::new();
        while commands < 1500 {
            let depth = 1 + generator.pick(4) as u32;
            let expression = generator.expression(depth);
            match ours.evaluate(&expression, commands + 1) {
                Ok(_) => {
                    commands += 1;
                    script += &format!("\\set r debug({expression})\n");
                }
                Err(message) => errors.push((expression, message)),
            }
        }
        let file = Script::new(&format!("values{seed}"), &script);
        for tool in pgbenches(&bench) {
            let (ok, stderr) = pgbench(&tool, &bench, &file, seed);
            let theirs: Vec<&str> = stderr.lines().filter(|l| l.starts_with("debug(")).collect();
            assert!(ok || !theirs.is_empty(), "{}: {stderr}", tool.display());
            for (n, (ours, theirs)) in ours.shown.iter().zip(&theirs).enumerate() {
                if ours == theirs {
                    continue;
                }
                let command: usize = ours["debug(script=0,command=".len()..]
                    .split(')')
                    .next()
                    .and_then(|c| c.parse().ok())
                    .unwrap();
                let line = script.lines().nth(command - 1).unwrap();
                panic!(
                    "{} line {n}: {line}\n ours {ours}\n theirs {theirs}",
                    tool.display()
                );
            }
            assert_eq!(
                ours.shown.len(),
                theirs.len(),
                "{}: {stderr}",
                tool.display()
            );
        }
        assert!(errors.len() > 100, "the generator makes mistakes too");
        // What has no value here has none there, for the same reason.
        for (expression, message) in errors.iter().filter(|e| !e.1.contains("refused")).take(25) {
            // What is drawn differs outside of the sequence, and pgbench's abs() takes the bytes of
            // a boolean for a double.
            if expression.contains("random") || message.contains("boolean to double") {
                continue;
            }
            let file = Script::new("error", &format!("\\set r debug({expression})\n"));
            for tool in pgbenches(&bench) {
                let (ok, stderr) = pgbench(&tool, &bench, &file, seed);
                assert!(!ok, "{expression}: we say {message}");
                assert!(
                    stderr.contains(message.as_str()),
                    "{expression}: {message}\n{stderr}"
                );
            }
        }
    }
}

/// Random tokens: nearly all are no expression. What one side refuses the other refuses.
#[test]
fn what_pgbench_refuses_is_refused() {
    let bench = bench();
    let tool = bench.cluster.installation().tool("pgbench");
    let pieces = [
        "1",
        "2.5",
        ":x",
        "(",
        ")",
        ",",
        "+",
        "-",
        "*",
        "and",
        "or",
        "not",
        "is",
        "null",
        "true",
        "case",
        "when",
        "then",
        "else",
        "end",
        "abs(",
        "random(",
        "pi()",
        "least(",
        "=",
        "<",
        "~",
        "<<",
        "isnull",
        "%",
        "nosuch(",
        "hash(",
        ".5",
        "1e",
        "9223372036854775808",
        ":",
        "!",
        "\\\n",
    ];
    let mut generator = Generator {
        random: Random::new(77),
        with_random: false,
    };
    let mut accepted = 0;
    for round in 0..250 {
        let text = if round % 3 == 0 {
            // Nearly right: an expression with one token changed.
            let good = generator.expression(2);
            let mut words: Vec<&str> = good.split(' ').collect();
            let at = generator.pick(words.len() as i64) as usize;
            words[at] = generator.any(&pieces);
            words.join(" ")
        } else {
            let n = 1 + generator.pick(7);
            (0..n)
                .map(|_| generator.any(&pieces))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let script = format!("\\set r {text}\n");
        let ours = Program::new().add_deferring("t", &script, 1);
        let file = Script::new("soup", &script);
        // Whether it parses is decided before anybody connects.
        let output = Process::new(&tool)
            .args(["-n", "-t", "1", "-h", "/nonexistent", "-f"])
            .arg(&file.0)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let theirs = stderr.contains("connection to server");
        assert_eq!(
            ours.is_ok(),
            theirs,
            "{text:?}\n ours: {ours:?}\n theirs: {stderr}"
        );
        accepted += u32::from(theirs);
    }
    assert!(
        (10..200).contains(&accepted),
        "{accepted} of 250 were accepted"
    );
}

/// The whole chain: with the same seed the built-in scripts draw the same keys, so that both
/// clients write the same rows.
#[test]
fn a_seed_makes_pgbenchs_transactions() {
    let bench = bench();
    for (builtin, clients, threads) in [("tpcb-like", 3, 2), ("simple-update", 1, 1)] {
        let digest = "SELECT md5(string_agg(r, ',' ORDER BY r)) FROM (SELECT concat_ws(':', tid, bid, aid, delta) AS r FROM pgbench_history) h";
        bench.execute("TRUNCATE pgbench_history");
        bench.pgbench(&[
            "-n",
            "-b",
            builtin,
            "-t",
            "60",
            "-c",
            &clients.to_string(),
            "-j",
            &threads.to_string(),
            "--random-seed=4711",
            "-M",
            "prepared",
        ]);
        assert_eq!(
            bench.ask("SELECT count(*) FROM pgbench_history"),
            (60 * clients).to_string()
        );
        let theirs = bench.ask(digest);
        bench.execute("TRUNCATE pgbench_history");
        let options = Options {
            threads: Some(threads),
            ..Options::default()
        };
        let mut engine = Engine::new(
            bench.conninfo(),
            Program::builtin(builtin).unwrap(),
            options,
        );
        engine.resize(clients).unwrap();
        let spec = SliceSpec {
            length: Length::Transactions(60),
            seed: 4711,
            ..SliceSpec::default()
        };
        let result = run(&mut engine, &spec);
        assert_eq!(result.transactions, 60 * clients as u64);
        assert_eq!(bench.ask(digest), theirs, "{builtin}");
    }
}
