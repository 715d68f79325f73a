//! Whether a workload writes into tables that pgassay does not make for it: by what its statements
//! name, whatever the plan or the file says of itself. What it can't tell it takes for a write.
//!
//! A function that writes is not seen: the sessions of a workload whose statements only read are read-only on
//! such a server. In a set-up, or beside statements that write to our tables, it writes.

mod session_state;
mod tokens;

use std::collections::BTreeSet;

use pgassay_load::script::Command;
use pgassay_model::workload::{DataSet, WorkloadPlan};

pub use self::session_state::session_state;
use self::tokens::{Token, statements};
use super::order_entry;
use super::pgbench_ddl;
use super::schema::SCHEMA;

/// Characters of a statement that are shown.
const SHOWN: usize = 60;

/// The first words of statements that change nothing unless a word in them says so.
const HARMLESS: &[&str] = &[
    "abort",
    "analyze",
    "begin",
    "checkpoint",
    "close",
    "commit",
    "deallocate",
    "declare",
    "delete",
    "discard",
    "end",
    "execute",
    "explain",
    "fetch",
    "insert",
    "listen",
    "lock",
    "merge",
    "move",
    "notify",
    "prepare",
    "release",
    "reset",
    "rollback",
    "savepoint",
    "select",
    "set",
    "show",
    "start",
    "table",
    "unlisten",
    "update",
    "values",
    "with",
];

/// What in the workload may write into a table that its own set-up does not make; none where all
/// that it writes to lies in the schema pgassay.
pub fn writes(plan: &WorkloadPlan) -> Option<String> {
    // Statements that we wrote find no other tables.
    match super::is_registered(plan) {
        true => None,
        false => scripts_write(plan).err(),
    }
}

/// Whether no statement of the scripts writes, or locks rows, anywhere, as far as their words tell.
pub fn only_reads(plan: &WorkloadPlan) -> bool {
    scripts_write(plan).is_ok_and(|write| !write)
}

/// Whether scripts write to the tables of the set-up.
///
/// # Errors
/// With what may write elsewhere.
fn scripts_write(plan: &WorkloadPlan) -> Result<bool, String> {
    let mut seen = Seen {
        ours: made(plan),
        ..Seen::default()
    };
    let found = plan
        .setup
        .iter()
        .find_map(|text| seen.look(text, Seen::made_by));
    if let Some(found) = found {
        return Err(found);
    }
    let by_set_up = std::mem::take(&mut seen.writes);
    let Ok(program) = super::program(plan) else {
        return Ok(true);
    };
    let commands = program.scripts().iter().flat_map(|script| &script.commands);
    let sent = commands.filter_map(|command| match command {
        Command::Sql(sql) => Some(sql.text.clone()),
        _ => None,
    });
    let questions = plan.verify.iter().cloned();
    let questions = questions.chain(plan.conditions.iter().map(|c| c.question.clone()));
    // By the simple protocol the value of a variable stands in a statement as it is.
    let defined = plan.dials.define.iter();
    let defined = defined.map(|(_, value)| format!("SELECT {value}"));
    for text in sent.chain(questions).chain(defined) {
        if let Some(found) = seen.look(&text, Seen::written_by) {
            return Err(found);
        }
    }
    match seen.path {
        Some(path) if seen.by_bare_name => Err(path),
        _ if plan.writes && !seen.writes && !by_set_up => {
            Err("it is said to write, and its statements do not show where".to_owned())
        }
        _ => Ok(seen.writes),
    }
}

/// The tables that are made for a plan, apart from its own statements.
fn made(plan: &WorkloadPlan) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if !plan.without_pgbench_tables {
        let tables = pgbench_ddl::TABLES.iter();
        names.extend(tables.map(|name| format!("pgbench_{name}")));
    }
    match plan.data {
        Some(DataSet::OrderEntry) => names.extend(order_entry::table_names()),
        None => {}
    }
    names
}

#[derive(Default)]
struct Seen {
    /// Tables and sequences in our schema.
    ours: BTreeSet<String>,
    /// Whether a statement writes to one of them, or locks its rows.
    writes: bool,
    /// Whether one is written to by a name without its schema.
    by_bare_name: bool,
    /// A statement that changes where bare names are looked for.
    path: Option<String>,
}

impl Seen {
    /// The first statement of a text that `judge` does not find harmless.
    fn look(&mut self, text: &str, judge: fn(&mut Self, &[Token]) -> bool) -> Option<String> {
        let mut all = statements(text).into_iter();
        all.find(|statement| statement.contains(&Token::Unknown) || !judge(self, statement))
            .map(|_| shown(text))
    }

    /// Whether a statement of the set-up leaves all but our schema as it is.
    fn made_by(&mut self, statement: &[Token]) -> bool {
        match leading(statement) {
            "create" => self.creates(statement),
            "alter" => self.alters(statement),
            // These end the transaction in which the tables are made.
            "abort" | "begin" | "commit" | "end" | "rollback" | "start" => false,
            // One session's settings say nothing about the others.
            "set" => !changes_path(statement),
            _ => self.written_by(statement),
        }
    }

    /// Whether a statement writes to nothing but tables of ours.
    fn written_by(&mut self, statement: &[Token]) -> bool {
        if changes_path(statement) && self.path.is_none() {
            self.path =
                Some("it sets search_path, and writes by names without a schema".to_owned());
        }
        let rest = &statement[1..];
        match leading(statement) {
            "truncate" => self.all_ours(rest, &["table"]),
            "vacuum" => self.all_ours(rest, &["full", "freeze", "verbose", "analyze"]),
            "copy" => match rest.first() {
                _ if rest.iter().any(|token| token.is("program")) => false,
                Some(Token::Sign('(')) => self.parts(statement),
                _ => self.is_ours(rest).is_some() && self.parts(statement),
            },
            "" if statement[0] == Token::Sign('(') => self.parts(statement),
            word if HARMLESS.contains(&word) => self.parts(statement),
            _ => false,
        }
    }

    /// Whether all parts of a statement that write do so to tables of ours: a query may have such parts.
    fn parts(&mut self, statement: &[Token]) -> bool {
        (0..statement.len()).all(|at| {
            let before = |word: &str| at > 0 && statement[at - 1].is(word);
            let column = at > 0 && statement[at - 1] == Token::Sign('.');
            let after = &statement[at + 1..];
            let Token::Word(word) = &statement[at] else {
                return true;
            };
            match word.as_str() {
                "nextval" | "setval" => self.is_our_sequence(after),
                _ if column => true,
                "into" => self.is_ours(after).is_some(),
                "update" | "share" if before("for") || before("key") => {
                    self.writes |= !self.ours.is_empty();
                    true
                }
                "update" if before("do") || before("then") || before("on") => true,
                "update" => match after.first() {
                    Some(Token::Sign(sign)) if *sign != ':' => true,
                    None => true,
                    _ => self.is_ours(after).is_some(),
                },
                "delete" if after.first().is_some_and(|next| next.is("from")) => {
                    self.is_ours(&after[1..]).is_some()
                }
                _ => true,
            }
        })
    }

    /// The tokens behind the name of a table of ours with which these begin.
    fn is_ours<'t>(&mut self, tokens: &'t [Token]) -> Option<&'t [Token]> {
        let tokens = match tokens {
            [only, rest @ ..] if only.is("only") => rest,
            _ => tokens,
        };
        let (schema, name, rest) = table_name(tokens)?;
        let ours = self.ours.contains(name) && schema.is_none_or(|schema| schema == SCHEMA);
        self.writes |= ours;
        self.by_bare_name |= ours && schema.is_none();
        ours.then_some(rest)
    }

    /// Whether a list of names, behind such words, is of tables of ours.
    fn all_ours(&mut self, tokens: &[Token], words: &[&str]) -> bool {
        let mut rest = tokens;
        if rest.first() == Some(&Token::Sign('(')) {
            let Some(end) = rest.iter().position(|t| *t == Token::Sign(')')) else {
                return false;
            };
            rest = &rest[end + 1..];
        }
        while let [first, after @ ..] = rest
            && words.iter().any(|word| first.is(word))
        {
            rest = after;
        }
        loop {
            let Some(after) = self.is_ours(rest) else {
                return false;
            };
            let end = after.iter().position(|t| *t == Token::Sign(','));
            match end {
                Some(comma) => rest = &after[comma + 1..],
                None => return true,
            }
        }
    }

    /// Whether the argument in parentheses is the name of a sequence of ours.
    fn is_our_sequence(&mut self, tokens: &[Token]) -> bool {
        let [Token::Sign('('), Token::Text(name), ..] = tokens else {
            return false;
        };
        statements(name)
            .first()
            .is_some_and(|name| self.is_ours(name).is_some_and(<[Token]>::is_empty))
    }

    /// Whether a CREATE of the set-up makes something in our schema that touches nothing else.
    fn creates(&mut self, statement: &[Token]) -> bool {
        let mut rest = &statement[1..];
        let words = ["or", "replace", "unlogged", "unique", "materialized"];
        while let [first, after @ ..] = rest
            && words.iter().any(|word| first.is(word))
        {
            rest = after;
        }
        let [kind, rest @ ..] = rest else {
            return false;
        };
        let rest = match rest {
            [a, b, c, rest @ ..] if a.is("if") && b.is("not") && c.is("exists") => rest,
            _ => rest,
        };
        if kind.is("index") {
            let on = rest.iter().position(|token| token.is("on"));
            return on.is_some_and(|on| self.is_ours(&rest[on + 1..]).is_some());
        }
        let Some((schema, name, after)) = table_name(rest) else {
            return false;
        };
        let here = schema.is_none_or(|schema| schema == SCHEMA);
        let known = ["table", "sequence", "view", "type", "domain"];
        if !here
            || !known.iter().any(|word| kind.is(word))
            || !self.parts(after)
            || !self.is_child_of_ours(after)
            || after.iter().any(|token| token.is("owned"))
        {
            return false;
        }
        self.by_bare_name |= schema.is_none();
        // Whoever writes to a view may write to anything.
        if kind.is("table") || kind.is("sequence") {
            self.ours.insert(name.to_owned());
        }
        true
    }

    /// Whether the tables that a new one belongs to are ours, where there are such.
    fn is_child_of_ours(&mut self, tokens: &[Token]) -> bool {
        (0..tokens.len()).all(|at| {
            let after = &tokens[at + 1..];
            if tokens[at].is("partition") && after.first().is_some_and(|next| next.is("of")) {
                return self.is_ours(&after[1..]).is_some();
            }
            if tokens[at].is("inherits") && after.first() == Some(&Token::Sign('(')) {
                return self.all_ours(&after[1..], &[]);
            }
            true
        })
    }

    /// Whether an ALTER of the set-up is of a table of ours that stays where it is and by itself.
    fn alters(&mut self, statement: &[Token]) -> bool {
        const MOVES: &[&str] = &[
            "attach", "detach", "inherit", "owner", "rename", "rule", "schema", "trigger",
        ];
        let [_, table, rest @ ..] = statement else {
            return false;
        };
        table.is("table")
            && self.is_ours(rest).is_some()
            && !rest
                .iter()
                .any(|token| MOVES.iter().any(|word| token.is(word)))
    }
}

/// The bare word that a statement begins with.
fn leading(statement: &[Token]) -> &str {
    match statement.first() {
        Some(Token::Word(word)) => word,
        _ => "",
    }
}

/// Schema and name of a table with which the tokens begin, and what follows.
fn table_name(tokens: &[Token]) -> Option<(Option<&str>, &str, &[Token])> {
    match tokens {
        [schema, Token::Sign('.'), name, rest @ ..] => {
            let further = rest.first() == Some(&Token::Sign('.'));
            (!further).then_some((Some(schema.name()?), name.name()?, rest))
        }
        [name, rest @ ..] => Some((None, name.name()?, rest)),
        [] => None,
    }
}

/// Whether a statement changes where names without a schema are looked for.
fn changes_path(statement: &[Token]) -> bool {
    let names = |words: &[&str]| {
        let mut all = statement.iter().filter_map(Token::name);
        all.any(|name| words.iter().any(|word| name.eq_ignore_ascii_case(word)))
    };
    match leading(statement) {
        "set" => names(&["search_path", "schema"]),
        _ => names(&["set_config"]),
    }
}

/// The beginning of a text, in which nothing acts on a terminal.
fn shown(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words
        .join(" ")
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    let line = line.trim_end_matches(';').trim_end();
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::find;
    use pgassay_model::workload::ScriptPlan;

    fn plan(setup: &[&str], script: &str) -> WorkloadPlan {
        WorkloadPlan {
            name: "mine.sql".to_owned(),
            protocol: "simple".to_owned(),
            without_pgbench_tables: !script.contains("pgbench_"),
            setup: setup.iter().map(|text| (*text).to_owned()).collect(),
            scripts: vec![ScriptPlan {
                name: "mine.sql".to_owned(),
                weight: 1,
                text: script.to_owned(),
                pause: None,
                clients: None,
            }],
            ..WorkloadPlan::default()
        }
    }

    #[test]
    fn what_is_ours_may_be_written_to() {
        let made: &[&str] = &[
            "CREATE TABLE queue (i int REFERENCES other, at timestamptz)",
            "CREATE INDEX ON queue (i)",
            "CREATE SEQUENCE numbers",
            "INSERT INTO queue SELECT i FROM generate_series(1, :scale) i",
            "ALTER TABLE queue SET (fillfactor = 80)",
            "CREATE TABLE part PARTITION OF queue DEFAULT",
        ];
        for (setup, script) in [
            (
                &[][..],
                "UPDATE pgbench_accounts SET abalance = 1 WHERE aid = :aid;",
            ),
            (
                &[],
                "INSERT INTO pgassay.pgbench_history (tid) VALUES (1) ON CONFLICT DO NOTHING;",
            ),
            (
                &[],
                "SELECT * FROM orders; SELECT * FROM pgbench_accounts FOR UPDATE;",
            ),
            (
                &[],
                "BEGIN; DELETE FROM ONLY pgbench_history; COMMIT; VACUUM pgbench_history;",
            ),
            (
                &[],
                "SELECT 'UPDATE orders', \"update\", o.update FROM orders o; -- DELETE FROM a",
            ),
            (&[], "SET search_path = shop; SELECT * FROM orders;"),
            (
                made,
                "INSERT INTO queue VALUES (nextval('numbers')) ON CONFLICT (i) DO UPDATE SET i = 1;",
            ),
            (
                made,
                "WITH gone AS (DELETE FROM queue RETURNING i) INSERT INTO queue SELECT i FROM gone;",
            ),
            (made, "TRUNCATE TABLE queue, pgassay.part;"),
            (
                made,
                "MERGE INTO queue q USING o ON o.i = q.i WHEN MATCHED THEN UPDATE SET i = 2;",
            ),
        ] {
            assert_eq!(writes(&plan(setup, script)), None, "{script}");
        }
        for name in crate::workload::names() {
            assert_eq!(writes(&find(&[name]).unwrap()), None, "{name}");
        }
        let mixed = find(&["select-only@9", "simple-update"]).unwrap();
        assert_eq!(writes(&mixed), None);
    }

    #[test]
    fn scripts_that_only_read_are_known() {
        let made: &[&str] = &["CREATE TABLE queue (i int)", "INSERT INTO queue VALUES (1)"];
        for (script, reads) in [
            ("SELECT pay();", true),
            ("BEGIN; SELECT i FROM queue; COMMIT;", true),
            (
                "SELECT abalance FROM pgbench_accounts WHERE aid = 1 FOR SHARE;",
                false,
            ),
            ("SELECT i FROM queue FOR NO KEY UPDATE;", false),
            ("SELECT i FROM queue; DELETE FROM queue;", false),
            ("UPDATE orders SET total = 0;", false),
        ] {
            assert_eq!(only_reads(&plan(made, script)), reads, "{script}");
        }
    }

    #[test]
    fn what_is_not_ours_may_not() {
        let accounts = "SELECT abalance FROM pgbench_accounts WHERE aid = 1;";
        for statement in [
            "UPDATE orders SET total = 0;",
            "update \"pgbench_Accounts\" set abalance = 0;",
            "UPDATE public.pgbench_accounts SET abalance = 0;",
            "UPDATE :table SET total = 0;",
            "UPDATE U&\"orders\" SET total = 0;",
            "/* a */ DELETE /* b */ FROM ONLY (orders);",
            "SELECT 'x\n-- '; UPDATE orders SET total = 0;",
            "WITH gone AS (DELETE FROM orders RETURNING id) SELECT * FROM gone;",
            "EXPLAIN ANALYZE INSERT INTO orders VALUES (1);",
            "PREPARE p AS UPDATE orders SET total = 0;",
            "TRUNCATE pgbench_history, orders;",
            "SELECT nextval('orders_id_seq');",
            "CALL book(1);",
            "DO 'BEGIN UPDATE orders SET total = 0; END';",
            "DROP TABLE pgbench_accounts; ",
            "CREATE TABLE orders (i int);",
            "SELECT * INTO copied FROM orders;",
            "VACUUM;",
            "SET search_path = public; UPDATE pgbench_accounts SET abalance = 0;",
            "SELECT set_config('search_path', 'public', false); DELETE FROM pgbench_history;",
            "GRANT ALL ON orders TO public;",
        ] {
            let found = writes(&plan(&[], &format!("{accounts}\n{statement}\n")));
            assert!(found.is_some(), "{statement}");
        }
        let mut without = plan(&[], "UPDATE pgbench_accounts SET abalance = 0;");
        without.without_pgbench_tables = true;
        assert!(writes(&without).is_some(), "nobody makes them");
        let mut defined = plan(&[], accounts);
        defined.dials.define = vec![("x".to_owned(), "1; UPDATE orders SET total = 0".to_owned())];
        assert!(writes(&defined).is_some());
        let mut said = plan(&[], "SELECT book(1);");
        said.writes = true;
        assert!(writes(&said).is_some(), "a function");
    }

    #[test]
    fn a_set_up_makes_tables_of_its_own_only() {
        let insert = "INSERT INTO t VALUES (1);";
        assert_eq!(
            writes(&plan(&["CREATE TABLE IF NOT EXISTS t (i int)"], insert)),
            None
        );
        for setup in [
            &["CREATE TABLE other (i int)"][..],
            &["CREATE TEMP TABLE t (i int)"],
            &["CREATE TABLE public.t (i int)"],
            &["CREATE VIEW t AS SELECT * FROM orders"],
            &["CREATE TABLE t PARTITION OF orders DEFAULT"],
            &["CREATE TABLE t (i int) INHERITS (orders)"],
            &["CREATE TABLE t (i int)", "UPDATE orders SET total = 0"],
            &["CREATE TABLE t (i int)", "CREATE INDEX ON orders (total)"],
            &["CREATE TABLE t (i int)", "ALTER TABLE t RENAME TO u"],
            &["CREATE TABLE t (i int); UPDATE orders SET total = 0"],
            &[
                "CREATE TABLE t (i text); CREATE INDEX ON t ((i || '\\')); UPDATE orders SET total = 0",
            ],
            &[
                "SELECT set_config('search_path', 'public', true)",
                "CREATE TABLE t (i int)",
            ],
            &["CREATE TABLE t (i int)", "DROP TABLE t"],
            &["CREATE TABLE t (i int)", "ROLLBACK"],
            &["SET search_path = public", "CREATE TABLE t (i int)"],
            &[
                "CREATE TABLE t (i int)",
                "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            ],
        ] {
            assert!(writes(&plan(setup, insert)).is_some(), "{setup:?}");
        }
    }
}
