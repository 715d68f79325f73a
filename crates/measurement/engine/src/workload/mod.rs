//! Workloads: what the clients do, what it needs in the database, and what that costs.
//!
//! A workload is one of pgbench's three, an entry of [`FILES`] (adding one is a file and a line), or
//! script files of the user's. All become a [`WorkloadPlan`], which is recorded with the run and is
//! enough to run it again.

pub mod bulk;
pub mod elsewhere;
pub mod entry;
pub mod guest;
pub mod inserver;
pub mod order_entry;
pub mod parallel;
pub mod parameter_types;
pub mod pgbench_ddl;
pub mod pgbench_tables;
pub mod pgio;
pub mod rehearsal;
pub mod scattered_read;
pub mod schema;
pub mod sessions;
pub mod setup;

use std::path::Path;

use entry::Entry;
use pgassay_load::script::{self, Command, Program, Value};
use pgassay_load::{Options, Protocol};
use pgassay_model::Failure;
use pgassay_model::workload::{Condition, DataSet, ScriptPlan, WorkloadPlan};

/// The workloads beyond pgbench's, by name: their files are in `workloads/`.
pub const FILES: &[(&str, &str)] = &[
    ("aggregate", include_str!("../../workloads/aggregate.sql")),
    ("hot-row", include_str!("../../workloads/hot-row.sql")),
    (
        "idle-beside",
        include_str!("../../workloads/idle-beside.sql"),
    ),
    (
        "insert-queue",
        include_str!("../../workloads/insert-queue.sql"),
    ),
    ("oltp-point", include_str!("../../workloads/oltp-point.sql")),
    ("oltp-range", include_str!("../../workloads/oltp-range.sql")),
    (
        "oltp-read-write",
        include_str!("../../workloads/oltp-read-write.sql"),
    ),
    (
        "oltp-update-index",
        include_str!("../../workloads/oltp-update-index.sql"),
    ),
    (
        order_entry::NAME,
        include_str!("../../workloads/order-entry.sql"),
    ),
    (
        order_entry::PROCEDURES,
        include_str!("../../workloads/order-entry-procedures.sql"),
    ),
    (
        "partitioned",
        include_str!("../../workloads/partitioned.sql"),
    ),
    (
        "read-mostly",
        include_str!("../../workloads/read-mostly.sql"),
    ),
    ("web", include_str!("../../workloads/web.sql")),
];

/// Characters of a statement where it is named in a line.
const LONGEST_LINE: usize = 2000;

/// What the balances of pgbench's tables have in common while no transaction is half done.
const BALANCED: &str = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = \
     (SELECT sum(tbalance) FROM pgbench_tellers) AND (SELECT sum(tbalance) FROM pgbench_tellers) = \
     (SELECT sum(bbalance) FROM pgbench_branches)";

/// The names of all workloads that clients run, pgbench's first.
pub fn names() -> Vec<&'static str> {
    let builtins = script::BUILTINS.iter().map(|builtin| builtin.name);
    builtins
        .chain(FILES.iter().map(|(name, _)| *name))
        .collect()
}

/// Whether the workload of that name is one of pgbench's own scripts.
pub fn is_pgbench(name: &str) -> bool {
    script::BUILTINS.iter().any(|builtin| builtin.name == name)
}

/// The workload that the words name together: registered names or script files, each with
/// `@weight` where there are several. Scale and dials are left to the caller.
///
/// # Errors
/// A name that there is not, a file that can't be read, a script with a mistake.
pub fn find(words: &[&str]) -> Result<WorkloadPlan, Failure> {
    find_with(words, &[])
}

/// The same with further scripts, each with clients of its own: `SCRIPT@CLIENTS`.
///
/// # Errors
/// As [`find`], and a number of clients that is none.
pub fn find_with(words: &[&str], concurrent: &[&str]) -> Result<WorkloadPlan, Failure> {
    let mut parts = Vec::new();
    for word in words {
        let (name, weight) = weighted(word)?;
        parts.push((one(name)?, weight));
    }
    for word in concurrent {
        let (name, clients) = with_clients(word)?;
        let mut part = one(name)?;
        for script in &mut part.scripts {
            (script.weight, script.clients) = (0, Some(clients));
        }
        parts.push((part, 1));
    }
    let several = parts.len() > 1;
    let mut plan = WorkloadPlan {
        protocol: protocol(&parts),
        without_pgbench_tables: parts.iter().all(|(part, _)| part.without_pgbench_tables),
        writes: parts.iter().any(|(part, _)| part.writes),
        name: parts
            .iter()
            .map(|(part, _)| part.name.as_str())
            .collect::<Vec<_>>()
            .join("+"),
        ..WorkloadPlan::default()
    };
    for (part, weight) in parts {
        if several && part.scripts.len() > 1 {
            return Err(
                Failure::usage(format!("`{}` is a mix of its own", part.name))
                    .with_remedy("run it alone, or mix single scripts"),
            );
        }
        for mut script in part.scripts {
            script.weight = script.weight.saturating_mul(weight);
            plan.scripts.push(script);
        }
        plan.setup.extend(part.setup);
        plan.settle.extend(part.settle);
        plan.idle = plan.idle.max(part.idle);
        plan.sessions = part.sessions.filter(|_| !several);
        plan.data = plan.data.or(part.data);
        plan.dials.max_tries = plan.dials.max_tries.max(part.max_tries);
        plan.conditions.extend(part.conditions);
        if !several {
            plan.verify = part.verify;
        }
    }
    if plan.writes {
        if !plan.without_pgbench_tables {
            // As pgbench does before each of its runs.
            plan.settle.push("TRUNCATE pgbench_history".to_owned());
        }
        plan.settle
            .extend([setup::VACUUM_OURS.to_owned(), "CHECKPOINT".to_owned()]);
    }
    program(&plan)?;
    Ok(plan)
}

/// How the statements of a workload travel unless it is said otherwise: as the first part that asks for it does.
fn protocol(parts: &[(Part, u32)]) -> String {
    let asked = parts.iter().find_map(|(part, _)| part.protocol.clone());
    asked.unwrap_or_else(|| "prepared".to_owned())
}

/// Whether the text is a workload file that runs.
///
/// # Errors
/// The first mistake in it.
pub fn check(name: &str, text: &str) -> Result<(), Failure> {
    let entry = Entry::read(name, text).map_err(|why| Failure::usage(format!("{name}: {why}")))?;
    let plan = WorkloadPlan {
        protocol: entry.protocol.clone().unwrap_or_default(),
        scripts: entry.scripts,
        ..WorkloadPlan::default()
    };
    program(&plan).map(|_| ())
}

/// Whether a plan is that of registered workloads, word for word: all of its SQL is ours. A plan may come
/// from a run directory that somebody else has written, so that a mark in it would prove nothing.
pub fn is_registered(plan: &WorkloadPlan) -> bool {
    let words: Vec<&str> = plan.name.split('+').collect();
    let known = names();
    if !words.iter().all(|word| known.contains(word)) {
        return false;
    }
    let Ok(ours) = find(&words) else {
        return false;
    };
    let texts = |plan: &WorkloadPlan| -> Vec<String> {
        plan.scripts
            .iter()
            .map(|script| script.text.clone())
            .collect()
    };
    (plan.scripts.is_empty() || texts(plan) == texts(&ours))
        && plan.setup == ours.setup
        && plan.settle == ours.settle
        && plan.verify == ours.verify
        && plan.conditions == ours.conditions
}

/// Holds what a recorded plan says of itself against its text: a run directory may come from somebody
/// else, or have been edited.
pub fn read_anew(plan: &mut WorkloadPlan) {
    if plan.scripts.is_empty() {
        return;
    }
    let scripts = plan.scripts.iter().map(|script| &script.text);
    let questions = plan.conditions.iter().map(|condition| &condition.question);
    let mut texts = scripts
        .chain(&plan.setup)
        .chain(&plan.verify)
        .chain(questions);
    let writes = plan.scripts.iter().any(|script| may_write(&script.text));
    let without = !texts.any(|text| text.contains("pgbench_"));
    plan.writes |= writes;
    plan.without_pgbench_tables |= without;
}

/// The scripts of a plan, compiled. A run of an earlier version names its script only.
///
/// # Errors
/// A mistake in a script, with line and column.
pub fn program(plan: &WorkloadPlan) -> Result<Program, Failure> {
    let mut program = Program::new();
    if plan.scripts.is_empty() {
        return Program::builtin(&plan.name).map_err(Failure::usage);
    }
    for script in &plan.scripts {
        program
            .add(&script.name, &script.text, script.weight)
            .map_err(|error| Failure::usage(error.to_string()))?;
    }
    if program.total_weight() == 0 {
        return Err(match plan.own_clients() {
            0 => Failure::usage("the weights of the scripts are all 0")
                .with_remedy("give one of them a weight, such as FILE.sql@1"),
            _ => Failure::usage(
                "every script has clients of its own, and the others have nothing to run",
            )
            .with_remedy("add a script without, such as --file FILE.sql"),
        });
    }
    if plan.protocol == "simple" && program.has_pipeline() {
        return Err(Failure::usage(
            "a script uses a pipeline, which the simple protocol does not have",
        )
        .with_remedy("--protocol extended or prepared"));
    }
    Ok(program)
}

/// How the clients of a workload send, and what its scripts find set.
pub(crate) fn options_of(workload: &WorkloadPlan) -> anyhow::Result<Options> {
    Ok(Options {
        protocol: protocol_of(&workload.protocol)?,
        variables: vec![("scale".to_owned(), Value::Int(i64::from(workload.scale)))],
        texts: workload.dials.define.clone(),
        ..Options::default()
    })
}

fn protocol_of(name: &str) -> anyhow::Result<Protocol> {
    Ok(match name {
        "simple" => Protocol::Simple,
        "extended" => Protocol::Extended,
        "prepared" => Protocol::Prepared,
        other => anyhow::bail!("there is no protocol `{other}`"),
    })
}

/// The failure that a script can't go on, of which `why` names the place.
pub fn stopped(why: &str) -> Failure {
    Failure::usage(format!("a script can't go on: {why}"))
        .with_remedy("correct the script at that line; docs/pgbench.md lists what scripts may hold")
}

/// Has each command of the scripts measured, and says what they are.
///
/// # Errors
/// A mistake in a script.
pub fn tell_statements_apart(plan: &mut WorkloadPlan) -> Result<(), Failure> {
    let line = |command: &Command| match command {
        Command::Sql(sql) => {
            let words: Vec<&str> = sql.text.split_whitespace().collect();
            let line = words.join(" ");
            let line = line.trim_end_matches(';').trim_end();
            match line.char_indices().nth(LONGEST_LINE) {
                Some((end, _)) => format!("{}…", &line[..end]),
                None => line.to_owned(),
            }
        }
        other => format!("\\{}", other.name()),
    };
    plan.commands = program(plan)?
        .scripts()
        .iter()
        .map(|script| script.commands.iter().map(line).collect())
        .collect();
    plan.dials.per_statement = true;
    Ok(())
}

/// One word's part of a workload.
struct Part {
    name: String,
    scripts: Vec<ScriptPlan>,
    writes: bool,
    without_pgbench_tables: bool,
    setup: Vec<String>,
    settle: Vec<String>,
    verify: Option<String>,
    conditions: Vec<Condition>,
    data: Option<DataSet>,
    max_tries: Option<u32>,
    idle: u32,
    protocol: Option<String>,
    sessions: Option<String>,
}

impl Part {
    fn of_entry(name: &str, entry: Entry) -> Self {
        Self {
            name: name.to_owned(),
            scripts: entry.scripts,
            writes: entry.writes,
            without_pgbench_tables: entry.without_pgbench_tables,
            setup: entry.setup,
            settle: entry.settle,
            verify: entry.verify,
            conditions: entry.conditions,
            data: entry.data,
            max_tries: entry.max_tries,
            idle: entry.idle,
            protocol: entry.protocol,
            sessions: entry.sessions,
        }
    }
}

fn one(name: &str) -> Result<Part, Failure> {
    if let Some(builtin) = script::BUILTINS.iter().find(|b| b.name == name) {
        return Ok(Part {
            name: name.to_owned(),
            scripts: vec![ScriptPlan {
                name: builtin.title.to_owned(),
                weight: 1,
                text: builtin.text.to_owned(),
                pause: None,
                clients: None,
            }],
            writes: name != "select-only",
            without_pgbench_tables: false,
            setup: Vec::new(),
            settle: Vec::new(),
            verify: (name == "tpcb-like").then(|| BALANCED.to_owned()),
            conditions: Vec::new(),
            data: None,
            max_tries: None,
            idle: 0,
            protocol: None,
            sessions: None,
        });
    }
    if let Some((_, text)) = FILES.iter().find(|(known, _)| *known == name) {
        let entry = Entry::read(name, text).map_err(Failure::usage)?;
        return Ok(Part::of_entry(name, entry));
    }
    let path = Path::new(name);
    let is_file = path.exists() || name.contains('/') || path.extension().is_some();
    if !is_file {
        let mut known = names();
        known.extend(inserver::names());
        return Err(Failure::usage(format!(
            "there is no workload `{name}`{}",
            pgassay_text::suggestion::did_you_mean(name, known.iter().copied())
        ))
        .with_remedy(format!(
            "the workloads are: {}; or a script FILE.sql",
            known.join(", ")
        )));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("the script {name} can't be read: {error}")))?;
    let shown = path.file_name().map_or_else(
        || name.to_owned(),
        |file| file.to_string_lossy().into_owned(),
    );
    let directory = path.parent().unwrap_or(Path::new(""));
    let whole = script::with_rows(&text, directory)
        .map_err(|why| Failure::usage(format!("{name}: {why}")))?;
    let mut entry =
        Entry::read(&shown, &whole).map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    if entry.scripts.is_empty() {
        return Err(Failure::usage(format!("the script {name} does nothing")));
    }
    entry.writes |= may_write(&text);
    entry.sessions = entry.sessions.map(|file| sessions::beside(path, &file));
    // A script that names none of pgbench's tables is spared their loading.
    entry.without_pgbench_tables |= !text.contains("pgbench_");
    Ok(Part::of_entry(&shown, entry))
}

/// Whether a script may change tables, by the words in it. A function that writes is not seen.
fn may_write(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "insert", "update", "delete", "merge", "truncate", "copy", "call", "create", "drop",
        "alter", "vacuum", "nextval", "do",
    ];
    // Values are no statements.
    let is_read = |line: &&str| {
        let line = line.trim_start();
        !line.starts_with("--") && !line.starts_with("\\draw ")
    };
    text.lines()
        .filter(is_read)
        .flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .any(|word| WORDS.iter().any(|w| word.eq_ignore_ascii_case(w)))
}

/// Bytes on disk of what a workload needs, its heap and indexes, about; 0 where it needs nothing.
pub fn bytes(plan: &WorkloadPlan) -> u64 {
    if plan.data == Some(DataSet::OrderEntry) {
        return order_entry::bytes(plan.scale);
    }
    match plan.without_pgbench_tables && plan.setup.is_empty() {
        true => 0,
        false => u64::from(plan.scale) * pgbench_tables::BYTES_PER_SCALE,
    }
}

/// What a workload's scale counts, in words.
pub fn scale_in_words(plan: &WorkloadPlan) -> String {
    match (plan.data, plan.scale) {
        (Some(DataSet::OrderEntry), 1) => "1 warehouse".to_owned(),
        (Some(DataSet::OrderEntry), scale) => format!("{scale} warehouses"),
        (None, scale) => format!("scale {scale}"),
    }
}

/// Whether a script may have a variable of this name.
pub fn is_variable(name: &str) -> bool {
    script::valid_name(name)
}

/// Clients of one script at most.
pub const MOST_OWN_CLIENTS: u32 = 10_000;

fn with_clients(word: &str) -> Result<(&str, u32), Failure> {
    let wrong = || {
        Failure::usage(format!(
            "`{word}` does not say how many clients run the script"
        ))
        .with_remedy("write FILE.sql@2 for two clients")
    };
    let (name, clients) = word.rsplit_once('@').ok_or_else(wrong)?;
    match clients.parse() {
        Ok(clients @ 1..=MOST_OWN_CLIENTS) if !name.is_empty() => Ok((name, clients)),
        _ => Err(wrong()),
    }
}

fn weighted(word: &str) -> Result<(&str, u32), Failure> {
    match word.rsplit_once('@') {
        None => Ok((word, 1)),
        Some((name, weight)) if !name.is_empty() => match weight.parse() {
            Ok(weight) => Ok((name, weight)),
            Err(_) => Err(
                Failure::usage(format!("`{weight}` in `{word}` is no weight"))
                    .with_remedy("write FILE.sql@3, or give a path whose name has no @"),
            ),
        },
        Some(_) => Err(Failure::usage(format!("`{word}` names no workload"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_registered_workload_is_whole() {
        for name in names() {
            let plan = find(&[name]).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(!plan.scripts.is_empty(), "{name}");
            assert_eq!(plan.name, name);
            for script in &plan.scripts {
                assert!(plan.writes || !may_write(&script.text), "{name}");
            }
        }
        for (name, text) in FILES {
            let entry = Entry::read(name, text).unwrap();
            assert!(
                !entry.explanation.is_empty() && !entry.reason.is_empty(),
                "{name}"
            );
        }
    }

    #[test]
    fn order_entry_is_the_same_work_by_statements_and_by_procedures() {
        let sent = find(&[order_entry::NAME]).unwrap();
        let called = find(&[order_entry::PROCEDURES]).unwrap();
        assert_eq!(sent.data, Some(DataSet::OrderEntry));
        assert_eq!(
            (sent.data, &sent.conditions),
            (called.data, &called.conditions)
        );
        assert_eq!(sent.conditions.len(), 4);
        assert_eq!(
            (sent.dials.max_tries, called.dials.max_tries),
            (Some(10), Some(10))
        );
        let mix = |plan: &WorkloadPlan| -> Vec<_> {
            let one = |s: &ScriptPlan| (s.name.clone(), s.weight, s.pause);
            plan.scripts.iter().map(one).collect()
        };
        assert_eq!(mix(&sent), mix(&called));
        let weights: Vec<u32> = sent.scripts.iter().map(|script| script.weight).collect();
        assert_eq!(weights, [45, 43, 4, 4, 4]);
        // What is drawn is drawn alike.
        let drawn = |script: &ScriptPlan| -> Vec<String> {
            let line = |line: &str| line.starts_with("\\set").then(|| line.to_owned());
            let not_ours =
                |l: &String| !l.starts_with("\\set all_local") && !l.starts_with("\\set customer");
            script
                .text
                .lines()
                .filter_map(line)
                .filter(not_ours)
                .collect()
        };
        for (one, other) in sent.scripts.iter().zip(&called.scripts) {
            assert_eq!(drawn(one), drawn(other), "{}", one.name);
        }
        assert!(is_registered(&sent) && is_registered(&called));
        let mut foreign = sent;
        foreign.conditions[0].question = "SELECT pg_catalog.pg_sleep(1) IS NOT NULL".to_owned();
        assert!(!is_registered(&foreign));
    }

    #[test]
    fn scripts_are_mixed_by_weight() {
        let plan = find(&["select-only@9", "simple-update"]).unwrap();
        assert_eq!(plan.name, "select-only+simple-update");
        let weights: Vec<u32> = plan.scripts.iter().map(|s| s.weight).collect();
        assert_eq!(weights, [9, 1]);
        assert!(plan.writes && plan.verify.is_none());
        assert_eq!(program(&plan).unwrap().total_weight(), 10);
    }

    #[test]
    fn a_script_may_have_clients_of_its_own() {
        let plan = find_with(&["select-only@9", "simple-update"], &["aggregate@2"]).unwrap();
        assert_eq!(plan.name, "select-only+simple-update+aggregate");
        let own: Vec<_> = plan.scripts.iter().map(|s| (s.weight, s.clients)).collect();
        assert_eq!(own, [(9, None), (1, None), (0, Some(2))]);
        assert_eq!(
            (plan.own_clients(), program(&plan).unwrap().total_weight()),
            (2, 10)
        );
        for wrong in [
            "aggregate",
            "aggregate@",
            "aggregate@0",
            "aggregate@-1",
            "@3",
            "aggregate@10001",
        ] {
            assert!(find_with(&["select-only"], &[wrong]).is_err(), "{wrong}");
        }
        let alone = find_with(&["select-only@0"], &["aggregate@1"]).unwrap_err();
        assert!(alone.message.contains("clients of its own"), "{alone:?}");
    }

    #[test]
    fn a_recorded_plan_is_not_believed() {
        let mut forged = find(&["simple-update"]).unwrap();
        forged.scripts[0].text = "UPDATE orders SET total = 0;".to_owned();
        (forged.writes, forged.without_pgbench_tables) = (false, false);
        read_anew(&mut forged);
        assert!(forged.writes && forged.without_pgbench_tables);
        assert!(elsewhere::writes(&forged).is_some());
        for name in names() {
            let plan = find(&[name]).unwrap();
            let mut again = plan.clone();
            read_anew(&mut again);
            assert_eq!(again, plan);
        }
    }

    #[test]
    fn mistakes_name_the_remedy() {
        for words in [
            &["nothing-known"][..],
            &["/nowhere/at-all.sql"],
            &["select-only@x"],
            &["@3"],
            &["select-only@0"],
            &["read-mostly", "select-only"],
        ] {
            assert!(find(words).is_err(), "{words:?}");
        }
    }
}
