//! What is done about the busiest node of a plan, where the node and the statement around it are of a known kind, as a table.

use pgassay_model::observed::plans::{Node, Plan};
use pgassay_text::quote::quote_ident;

use super::super::conditions::words;
use super::super::shapes::advice;
use super::{Busy, within_subplan};
use crate::bottlenecks::finding::StepKind;

/// A busy node, with what is around it.
pub(super) struct Seen<'a> {
    pub busy: &'a Busy<'a>,
    pub plan: &'a Plan,
    /// The statement's text, in lower case.
    pub text: &'a str,
}

type Steps = Vec<(StepKind, String)>;

/// The first that knows the node counts.
const KNOWN: &[fn(&Seen) -> Option<Steps>] = &[
    built_each_time,
    catalogues,
    fence,
    distinct_values,
    first_of_array,
    taken_apart,
    wildcard,
    counted,
    ordered_set,
    numeric_functions,
    all_given,
];

/// What is done about a node, where it is of a known kind.
pub(super) fn known(seen: &Seen) -> Option<Steps> {
    KNOWN.iter().find_map(|look| look(seen))
}

impl Seen<'_> {
    fn node(&self) -> &Node {
        self.busy.node
    }

    fn filter(&self) -> Option<&str> {
        self.node().conditions.get("Filter").map(String::as_str)
    }

    fn discards(&self) -> bool {
        self.busy.work.removed >= 10.0 * self.busy.given().max(1.0)
    }
}

/// Questions to the catalogues, as frameworks and drivers ask them.
fn catalogues(seen: &Seen) -> Option<Steps> {
    let all = seen.plan.root.all();
    let tables = all.iter().filter_map(|(_, n)| n.relation.as_deref());
    let (mut of_catalogue, mut others) = (0, 0);
    for table in tables {
        match table.starts_with("pg_catalog.") || table.starts_with("information_schema.") {
            true => of_catalogue += 1,
            false => others += 1,
        }
    }
    (of_catalogue > 0 && others == 0).then(|| {
        vec![
            advice(
                "ask for what tables look like once, and keep the answer: the object mapper's or driver's cache of metadata (schema validation and reflection switched off outside of \
                 start-up)",
            ),
            advice(
                "where it must be asked for, ask pg_catalog by the table's number: pg_attribute WHERE attrelid = 'table'::regclass, pg_constraint WHERE conrelid = \
                 'table'::regclass: the views of information_schema join many tables and check privileges for each row, and compare names that are cast, which no index serves",
            ),
        ]
    })
}

/// Functions of the server that put their rows together anew for each call, with what to ask in their place.
const BUILT: &[(&str, &str, &str)] = &[
    (
        "pg_timezone_names",
        "it reads every file of the time zone database from the disk each time",
        "keep the names in a table, CREATE TABLE time_zone AS SELECT name FROM pg_timezone_names, with a key on name (made anew after upgrades), or in the application; to check one zone have \
         the server use it, now() AT TIME ZONE value, and catch the error",
    ),
    (
        "pg_ls_",
        "it asks the file system for each file of a directory",
        "ask for it from monitoring, once a minute, and keep the answer",
    ),
    (
        "pg_show_all_settings",
        "it builds a row for each of some 350 settings",
        "ask for one setting, current_setting('name') or SHOW name",
    ),
    (
        "pg_show_all_file_settings",
        "it reads and parses the configuration files each time",
        "ask for the value that is in force: current_setting('name')",
    ),
    (
        "pg_stat_statements",
        "it reads the file of all statements' texts each time, under a lock",
        "ask for it once a minute, or for the counters alone: pg_stat_statements(false)",
    ),
    (
        "pg_stat_get_activity",
        "it builds a row for each session",
        "ask for it from monitoring, seldom; for the session itself pg_backend_pid(), current_user, current_setting('application_name')",
    ),
    (
        "pg_lock_status",
        "it takes all partitions of the lock table",
        "ask for it from monitoring, seldom; for who blocks whom pg_blocking_pids(pid) of a session that waits",
    ),
    (
        "pg_buffercache_pages",
        "it looks at the header of each shared buffer",
        "ask for it by hand; from 16 on pg_buffercache_summary() and pg_buffercache_usage_counts()",
    ),
];

fn built_each_time(seen: &Seen) -> Option<Steps> {
    let function = seen.node().function.as_deref()?;
    let (_, why, instead) = BUILT.iter().find(|(name, ..)| function.starts_with(name))?;
    Some(vec![advice(format!(
        "don't ask {function}() in each transaction, as {why}: {instead}"
    ))])
}

/// Functions of numeric that are computed digit by digit.
const DIGIT_BY_DIGIT: &[&str] = &["power(", "exp(", "ln(", "log(", "sqrt(", " ^ "];

/// Powers and logarithms of numeric columns.
fn numeric_functions(seen: &Seen) -> Option<Steps> {
    let node = seen.node();
    let texts = ["Output", "Filter", "Join Filter"].iter();
    let mut texts = texts.filter_map(|key| node.conditions.get(*key));
    let of_numeric = |text: &String| {
        text.contains("numeric")
            || seen.plan.relations.values().any(|facts| {
                facts.types.iter().any(|(column, kind)| {
                    kind == "numeric" && words(text).any(|word| word == column)
                })
            })
    };
    let name = texts.find_map(|text| {
        let found = DIGIT_BY_DIGIT.iter().find(|name| text.contains(**name))?;
        of_numeric(text).then_some(found)
    })?;
    let name = match name.strip_suffix('(') {
        Some(name) => format!("{name}()"),
        None => name.trim().to_owned(),
    };
    Some(vec![
        advice(format!(
            "compute in double precision, as {name} of type numeric is computed digit by digit in software: cast what goes in, {name} of x::float8, and the result to numeric where it is \
             kept, round(…::numeric, 2); a literal such as 1.05 is numeric and makes the whole expression numeric: 1.05::float8"
        )),
        advice(
            "where the value depends on the row alone, keep it in a column: a generated one is computed on writing",
        ),
    ])
}

/// Rows from which on they are many for a client.
const MANY_FOR_A_CLIENT: f64 = 2000.0;

/// A table that is sent whole, without a condition.
fn all_given(seen: &Seen) -> Option<Steps> {
    let node = seen.node();
    let given = seen.plan.root.actual_rows.unwrap_or(0.0);
    let table = node.relation.as_deref()?;
    let bounded = ["Filter", "Index Cond", "Recheck Cond"]
        .iter()
        .any(|key| node.conditions.contains_key(*key));
    let root = &seen.plan.root;
    let whole = std::ptr::eq(root, node) || root.kind == "Sort" && root.relation.is_none();
    let all = whole && !bounded && given >= MANY_FOR_A_CLIENT && given >= 0.99 * seen.busy.given();
    all.then(|| {
        vec![advice(format!(
            "have the statement give what is needed of {table}, not all {given:.0} rows for the client to choose from: put the condition by which the application chooses into WHERE, with an \
             index on its columns, sums and counts into the select list, and a page into LIMIT (object mappers: filter the query, not the list that it gives); what hardly changes, \
             keep in the application"
        ))]
    })
}

/// A condition above a subquery below which nothing moves it.
fn fence(seen: &Seen) -> Option<Steps> {
    let filter = seen.filter().filter(|_| seen.discards())?;
    if seen.node().kind != "Subquery Scan" && !seen.node().kind.starts_with("CTE") {
        return None;
    }
    Some(vec![advice(format!(
        "leave out what keeps {filter} from the tables below: OFFSET 0 or LIMIT in the view or subquery, a VOLATILE function in its select list, DISTINCT ON, a window \
         function, WITH … AS MATERIALIZED; or write the condition within it"
    ))])
}

/// `count(DISTINCT x)`.
fn distinct_values(seen: &Seen) -> Option<Steps> {
    let output = seen.node().conditions.get("Output")?;
    let distinct = [
        "count(DISTINCT ",
        "sum(DISTINCT ",
        "array_agg(DISTINCT ",
        "string_agg(DISTINCT ",
    ];
    let found = distinct.iter().find(|sign| output.contains(*sign))?;
    (seen.node().kind == "Aggregate").then(|| {
        let name = found.trim_end_matches("(DISTINCT ");
        let grouped = !seen.node().group_key.is_empty();
        let instead = match (name, grouped) {
            ("count", false) => "SELECT count(x) FROM (SELECT DISTINCT x FROM … WHERE …) d".to_owned(),
            ("count", true) => "SELECT key, count(x) FROM (SELECT DISTINCT key, x FROM … WHERE …) d GROUP BY key".to_owned(),
            _ => format!("SELECT {name}(x …) FROM (SELECT DISTINCT x FROM … WHERE …) d"),
        };
        vec![
            advice(format!(
                "{instead}, in the place of {name}(DISTINCT x): the inner query keeps one of each value in a hash table (and may use workers); {name}(DISTINCT) sorts \
                 all values, in each group"
            )),
            advice("or an index on the column, from 16 on in whose order it is done; or an estimate (extension hll), or the number kept in a summary table"),
        ]
    })
}

/// `(array_agg(x ORDER BY y))[1]`.
fn first_of_array(seen: &Seen) -> Option<Steps> {
    let one = seen.text.contains("(array_agg(") && seen.text.contains("))[");
    (seen.node().kind == "Aggregate" && one).then(|| {
        vec![advice(
            "for the first or last of each group SELECT DISTINCT ON (key) … ORDER BY key, at DESC, or a LATERAL subquery with LIMIT 1 over an index on (key, at), in the place of \
             (array_agg(… ORDER BY …))[1], which sorts and keeps all values of the group",
        )]
    })
}

/// Elements of documents or arrays, of which each row's are searched in a subquery.
fn taken_apart(seen: &Seen) -> Option<Steps> {
    const FUNCTIONS: &[&str] = &[
        "jsonb_array_elements",
        "jsonb_array_elements_text",
        "jsonb_to_recordset",
        "unnest",
    ];
    let name = seen.node().function.as_deref()?;
    let name = FUNCTIONS.iter().find(|known| **known == name)?;
    let all = seen.plan.root.all();
    let asks = |node: &Node| {
        node.conditions
            .iter()
            .any(|(key, text)| key != "Output" && text.contains("SubPlan"))
    };
    let outer = all
        .iter()
        .map(|(_, n)| *n)
        .find(|n| n.relation.is_some() && asks(n));
    // FROM t, jsonb_array_elements(t.items) e WHERE e ->> 'sku' = …
    let beside = all.iter().map(|(_, n)| *n).find(|n| {
        n.kind == "Nested Loop"
            && n.nodes
                .get(1)
                .is_some_and(|inner| std::ptr::eq(inner, seen.node()))
    });
    let beside = beside.filter(|_| seen.filter().is_some());
    let outer = match outer {
        Some(outer) if within_subplan(&seen.plan.root, seen.node()) => outer,
        _ => {
            let below = beside?.nodes.first()?.all();
            below
                .into_iter()
                .map(|(_, n)| n)
                .find(|n| n.relation.is_some())?
        }
    };
    let table = outer.relation.as_deref()?;
    let facts = seen.plan.relations.get(table)?;
    let is_array = *name == "unnest";
    let of = |kind: &str| match is_array {
        true => kind.ends_with("[]"),
        // json has neither @> nor an operator class of GIN.
        false => kind == "jsonb",
    };
    let column = facts
        .types
        .iter()
        .find(|(_, kind)| of(kind))
        .map(|(column, _)| column);
    let column = column.map_or_else(|| "column".to_owned(), |column| quote_ident(column));
    let served = facts
        .indexes
        .iter()
        .find(|i| i.method == "gin" && i.first.as_deref() == Some(column.trim_matches('"')));
    let contained = match is_array {
        true => format!("{column} @> ARRAY[value] (or && for any of several)"),
        false => format!(
            "{column} @> '[{{\"key\": value}}]', as jsonb_build_array(jsonb_build_object('key', value))"
        ),
    };
    let mut steps = vec![advice(match served {
        Some(index) => format!(
            "write {contained}, which {}, the GIN index, answers, in the place of {name}() in a subquery or join: that takes {column} of each row apart",
            index.name
        ),
        None => format!(
            "write {contained}, in the place of {name}() in a subquery or join: that takes {column} of each row apart"
        ),
    })];
    if served.is_none() {
        steps.push((
            StepKind::Sql,
            format!(
                "CREATE INDEX CONCURRENTLY ON {table} USING gin ({column});   -- which answers @>"
            ),
        ));
    }
    Some(steps)
}

/// A pattern whose beginning bounds an index, and whose rest leaves few.
fn wildcard(seen: &Seen) -> Option<Steps> {
    let filter = seen.filter().filter(|_| seen.discards())?;
    let bounded = {
        let below = seen.node().all();
        // What LIKE makes of the beginning of a pattern.
        below.iter().any(|(_, n)| {
            let bounds = n.conditions.get("Index Cond");
            let of_texts =
                |c: &String| c.contains(" ~>=~ ") || c.contains(" >= ") && c.contains("::text");
            bounds.is_some_and(of_texts)
        })
    };
    (bounded && filter.contains(" ~~ ")).then(|| {
        vec![
            advice(
                "escape the wildcards that are none: _ in a pattern of LIKE stands for any character, and the index is bounded only by the text before the first wildcard: LIKE 'AB\\_1%' in the \
                 place of LIKE 'AB_1%' (in a parameter: replace(value, '_', '\\_')), or, from 15 on, starts_with(column, value), which knows no wildcards",
            ),
            advice("for patterns with text behind a wildcard an index USING gin (column gin_trgm_ops), from the extension pg_trgm"),
        ]
    })
}

/// Rows that are only counted.
fn counted(seen: &Seen) -> Option<Steps> {
    only_counts(seen.plan).then(|| {
        vec![
            advice(
                "don't count all of them each time: for a pager ask for one row more than the page shows, or stop the count, SELECT count(*) FROM (SELECT FROM … WHERE … LIMIT 1001) c",
            ),
            advice(
                "or take an estimate (pg_class.reltuples; the rows that EXPLAIN expects), or keep the number in a table of counters (a trigger FOR EACH STATEMENT, or a job)",
            ),
        ]
    })
}

/// Whether a statement gives nothing but the number of many rows of a table.
pub(super) fn only_counts(plan: &Plan) -> bool {
    let root = &plan.root;
    let output = root.conditions.get("Output").map(String::as_str);
    let counts = output.is_some_and(|output| {
        output == "count(*)"
            || output.starts_with("count(") && !output.contains("DISTINCT") && !output.contains(',')
    });
    let counts = counts && root.kind == "Aggregate" && root.group_key.is_empty();
    let scans = root.all();
    let tables = scans.iter().filter(|(_, n)| n.relation.is_some()).count();
    // Where a condition leaves few of many, it is that which lacks an index.
    counts
        && tables == 1
        && scans.iter().any(|(_, n)| {
            n.relation.is_some()
                && n.actual_rows.unwrap_or(0.0) * n.work.map_or(1.0, |w| w.loops) >= 5000.0
        })
}

/// `percentile_cont(…) WITHIN GROUP (ORDER BY x)`.
fn ordered_set(seen: &Seen) -> Option<Steps> {
    let output = seen.node().conditions.get("Output")?;
    (seen.node().kind == "Aggregate" && output.contains("WITHIN GROUP")).then(|| {
        vec![advice(
            "percentile and mode sort all values of a group each time: keep the result (a materialized view, a summary table that a job fills), or take it of a sample (TABLESAMPLE); for a single \
             one SELECT x … ORDER BY x OFFSET n LIMIT 1 over an index on x",
        )]
    })
}

#[cfg(test)]
mod tests {
    use pgassay_model::observed::plans::{Execution, RelationFacts, Work};

    use super::super::{busy, steps};
    use super::*;

    fn node(
        kind: &str,
        conditions: &[(&str, &str)],
        (rows, removed, ms): (f64, f64, f64),
        nodes: Vec<Node>,
    ) -> Node {
        Node {
            kind: kind.into(),
            conditions: conditions
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            actual_rows: Some(rows),
            work: Some(Work {
                loops: 1.0,
                removed,
                ms,
                ..Work::default()
            }),
            nodes,
            ..Node::default()
        }
    }

    fn told(root: Node, text: &str) -> String {
        let facts = RelationFacts {
            columns: vec!["id".into(), "items".into()],
            types: [("items".to_owned(), "jsonb".to_owned())].into(),
            ..RelationFacts::default()
        };
        let plan = Plan {
            root,
            executed: Some(Execution::default()),
            relations: [("public.cart".to_owned(), facts)].into(),
            ..Plan::default()
        };
        let all = busy(&plan).unwrap();
        let told = steps(&all[0], &plan, text)
            .into_iter()
            .map(|(_, text)| text);
        told.collect::<Vec<_>>().join(" | ")
    }

    fn scan(table: &str, conditions: &[(&str, &str)], did: (f64, f64, f64)) -> Node {
        Node {
            relation: Some(table.to_owned()),
            ..node("Seq Scan", conditions, did, vec![])
        }
    }

    #[test]
    fn what_is_counted_distinct_and_what_is_counted_at_all() {
        let rows = || scan("public.cart", &[], (50_000.0, 0.0, 3.0));
        let distinct = node(
            "Aggregate",
            &[("Output", "count(DISTINCT visitor)")],
            (1.0, 0.0, 90.0),
            vec![rows()],
        );
        assert!(told(distinct, "").contains("SELECT DISTINCT x"));
        let count = node(
            "Aggregate",
            &[("Output", "count(*)")],
            (1.0, 0.0, 1.0),
            vec![rows()],
        );
        assert!(told(count, "").contains("LIMIT 1001"));
        let sum = node(
            "Aggregate",
            &[("Output", "sum(cart.id)")],
            (1.0, 0.0, 1.0),
            vec![rows()],
        );
        assert!(!told(sum, "").contains("LIMIT 1001"));
    }

    #[test]
    fn elements_that_are_searched_row_by_row_are_told_of_containment() {
        let elements = Node {
            function: Some("jsonb_array_elements".into()),
            relationship: Some("SubPlan".into()),
            subplan: Some("SubPlan 1".into()),
            ..node(
                "Function Scan",
                &[("Filter", "((e.value ->> $1) = $2)")],
                (0.0, 5.0, 90.0),
                vec![],
            )
        };
        let mut outer = scan(
            "public.cart",
            &[("Filter", "(SubPlan 1)")],
            (3.0, 20_000.0, 9.0),
        );
        outer.nodes = vec![elements];
        let told = told(outer, "");
        assert!(
            told.contains("items @> '[{") && told.contains("USING gin (items)"),
            "{told}"
        );
    }

    #[test]
    fn fences_wildcards_and_catalogues_are_told_by_their_nodes() {
        let fenced = node(
            "Subquery Scan",
            &[("Filter", "(live.customer = $1)")],
            (5.0, 90_000.0, 9.0),
            vec![],
        );
        assert!(told(fenced, "").contains("OFFSET 0"));
        let mut bounded = node(
            "Index Scan",
            &[
                ("Filter", "(o.ref ~~ $1)"),
                ("Index Cond", "((o.ref ~>=~ $1) AND (o.ref ~<~ $2))"),
            ],
            (9.0, 9_000.0, 9.0),
            vec![],
        );
        bounded.relation = Some("public.orders".into());
        assert!(told(bounded, "").contains("AB\\_1%"));
        assert!(
            told(scan("pg_catalog.pg_constraint", &[], (900.0, 0.0, 9.0)), "").contains("conrelid")
        );
    }

    #[test]
    fn functions_that_are_dear_by_nature_are_told_what_is_cheap() {
        let zones = Node {
            function: Some("pg_timezone_names".into()),
            ..node("Function Scan", &[], (1198.0, 0.0, 50.0), vec![])
        };
        assert!(told(zones, "").contains("CREATE TABLE time_zone"));
        let powers = |column: &str| {
            let facts = RelationFacts {
                types: [("rate".to_owned(), "numeric".to_owned())].into(),
                ..RelationFacts::default()
            };
            let output = format!("sum((cents * power(($1 + loan.{column}), 2)))");
            let plan = Plan {
                root: node("Aggregate", &[("Output", &output)], (1.0, 0.0, 4.0), vec![]),
                executed: Some(Execution::default()),
                relations: [("public.loan".to_owned(), facts)].into(),
                ..Plan::default()
            };
            let all = busy(&plan).unwrap();
            steps(&all[0], &plan, "")
                .iter()
                .any(|(_, text)| text.contains("::float8"))
        };
        assert!(powers("rate"));
        assert!(!powers("months"));
    }

    #[test]
    fn a_table_that_is_sent_whole_is_told_conditions() {
        let whole = scan("public.voucher", &[], (15_000.0, 0.0, 2.0));
        assert!(told(whole, "").contains("into WHERE"));
        let some = scan(
            "public.voucher",
            &[("Filter", "(voucher.cents > 5)")],
            (15_000.0, 10.0, 2.0),
        );
        assert!(!told(some, "").contains("into WHERE"));
    }
}
