//! What is done about the busiest node of a plan, where the node and the statement around it are of a known kind, as a table.

use pgassay_model::observed::plans::{Node, Plan};
use pgassay_text::quote::quote_ident;

use super::super::conditions::{called, index_named, words};
use super::super::shapes::advice;
use super::{Busy, within_subplan};
use crate::finding::StepKind;

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
    written,
    fence,
    distinct_values,
    first_of_array,
    taken_apart,
    no_trigram,
    wildcard,
    counted,
    ordered_set,
    numeric_functions,
    strewn,
    all_groupings,
    set_operation,
    pairs_of_rows,
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

/// GROUP BY CUBE or ROLLUP, of which few groupings are wanted.
fn all_groupings(seen: &Seen) -> Option<Steps> {
    let squeezed = seen.text.replace(' ', "");
    let all = ["cube(", "rollup("].iter().find(|word| {
        squeezed.contains(&format!("groupby{word}")) || squeezed.contains(&format!(",{word}"))
    })?;
    let of_groups = matches!(seen.node().kind.as_str(), "Aggregate" | "Sort" | "Group");
    of_groups.then(|| {
        vec![advice(format!(
            "name the groupings that are shown, GROUP BY GROUPING SETS ((a, b), (a), ()), in the place of {}…): CUBE of n columns makes 2 to the power of n groupings, ROLLUP n + 1, each with \
             its own sort or hash table; conditions on grouping() outside throw the others away when they are made",
            all.to_uppercase()
        ))]
    })
}

/// INTERSECT and EXCEPT, which make and compare whole rows of both sides.
fn set_operation(seen: &Seen) -> Option<Steps> {
    let all = seen.plan.root.all();
    let sets = all.iter().any(|(_, n)| n.kind.ends_with("SetOp"));
    let mut words = seen.text.split_whitespace();
    let said = words.any(|word| matches!(word, "except" | "intersect"));
    (sets && said).then(|| {
        vec![advice(
            "NOT EXISTS (SELECT FROM b WHERE b.key = a.key) in the place of EXCEPT, and EXISTS in that of INTERSECT: a join by the key, which hashes or looks up the key alone, and reaches an index; the set \
             operations read both sides whole and compare whole rows",
        )]
    })
}

/// A table that is joined with itself by an inequality: each row with all before it.
fn pairs_of_rows(seen: &Seen) -> Option<Steps> {
    let root = &seen.plan.root;
    let all = root.all();
    let join = all.iter().map(|(_, n)| *n).find(|n| {
        n.conditions.get("Join Filter").is_some_and(|filter| {
            [" < ", " > ", " <= ", " >= "]
                .iter()
                .any(|sign| filter.contains(sign))
        })
    })?;
    let tables: Vec<&str> = join
        .all()
        .iter()
        .filter_map(|(_, n)| n.relation.as_deref())
        .collect();
    let same = matches!(tables.as_slice(), [one, other] if one == other);
    let busy = std::ptr::eq(seen.node(), join)
        || join
            .all()
            .iter()
            .any(|(_, n)| std::ptr::eq(*n, seen.node()));
    let made = join.actual_rows.unwrap_or(0.0) + join.work.map_or(0.0, |work| work.removed);
    (same && busy && made >= 10_000.0).then(|| {
        vec![advice(format!(
            "take the row before or after, or a running sum, by a window function over one scan of {}: lag(x) OVER (PARTITION BY key ORDER BY at), lead(), sum(x) OVER (PARTITION BY key ORDER BY at); joined \
             with itself by {}, each row meets all others of its key",
            tables[0],
            join.conditions.get("Join Filter").map_or("an inequality", String::as_str)
        ))]
    })
}

/// Rows from which on it matters whether each lies in a block of its own.
const MANY_STREWN: f64 = 300.0;

/// Rows that an index leads to, strewn over the table, of which an aggregate needs a few columns.
fn strewn(seen: &Seen) -> Option<Steps> {
    let node = seen.node();
    let by_index = matches!(node.kind.as_str(), "Index Scan" | "Bitmap Heap Scan");
    let table = node.relation.as_deref().filter(|_| by_index)?;
    let facts = seen.plan.relations.get(table)?;
    let (given, blocks) = (seen.busy.given(), seen.busy.work.blocks);
    let root = &seen.plan.root;
    if root.kind != "Aggregate"
        || seen.busy.work.loops > 1.0
        || given < MANY_STREWN
        || blocks < 0.3 * given
    {
        return None;
    }
    let named = |text: &str| -> Vec<String> {
        let mut found = Vec::new();
        for word in words(text) {
            let column = facts.columns.iter().find(|column| *column == word);
            if let Some(column) = column.map(|column| quote_ident(column))
                && !found.contains(&column)
            {
                found.push(column);
            }
        }
        found
    };
    let condition = ["Index Cond", "Recheck Cond"]
        .iter()
        .find_map(|key| node.conditions.get(*key))?;
    let keys = named(condition);
    let mut asked = root.conditions.get("Output")?.clone();
    asked += seen.filter().unwrap_or_default();
    let mut others = named(&asked);
    others.retain(|column| !keys.contains(column));
    let scans = root.all().into_iter().filter(|(_, n)| n.relation.is_some());
    if scans.count() > 1 {
        return None;
    }
    (!keys.is_empty() && (1..=3).contains(&others.len())).then(|| {
        vec![
            (
                StepKind::Sql,
                format!(
                    "CREATE INDEX CONCURRENTLY ON {table} ({}) INCLUDE ({}); VACUUM {table};   -- {given:.0} rows lie in about as many blocks of the table; an index with all columns that are asked \
                     for is read alone (Index Only Scan); before 11 as further columns, without INCLUDE",
                    keys.join(", "),
                    others.join(", ")
                ),
            ),
            advice(format!(
                "or lay the rows of one key together: CLUSTER {table} USING the index on {}, which locks the table while it is written anew",
                keys.join(", ")
            )),
        ]
    })
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

/// Rows that are written, with what that computes or puts into indexes that cost much.
fn written(seen: &Seen) -> Option<Steps> {
    let node = seen.node();
    let table = node
        .relation
        .as_deref()
        .filter(|_| node.kind == "ModifyTable")?;
    let facts = seen.plan.relations.get(table)?;
    let updates = node.operation.as_deref() == Some("Update");
    let set = seen
        .text
        .split_once(" set ")
        .map(|(_, behind)| behind.split(" where ").next().unwrap_or(behind));
    let mut generated = facts.declared.generated.iter();
    // Operators stand in parentheses, too: what may cost is a function.
    let generated = generated.find(|(_, expression)| called(expression).next().is_some())?;
    let (column, expression) = generated;
    // Without a trigger only those are computed anew whose columns are set.
    let named = || words(expression).filter(|word| !word.starts_with(|c: char| c.is_ascii_digit()));
    let sets = set.is_none_or(|set| named().any(|word| words(set).any(|w| w == word)));
    let mut triggers = facts.triggers.iter();
    let trigger = triggers.find(|trigger| {
        trigger.for_each_row
            && trigger.before
            && trigger.events.iter().any(|event| event == "Update")
    });
    match (updates && !sets, trigger) {
        (true, None) => None,
        (true, Some(trigger)) => Some(vec![
            advice(format!(
                "{column} GENERATED ALWAYS AS {expression} is computed anew by every UPDATE of a table with a BEFORE UPDATE trigger FOR EACH ROW, here {}, though nothing that it depends on is set: have \
                 the statement set what {}() sets, where that can be, and drop the trigger from {table}",
                quote_ident(&trigger.name),
                trigger.function
            )),
            advice(format!(
                "where the trigger must stay: what is updated often in a table of its own, or {} kept by a trigger BEFORE INSERT OR UPDATE OF the columns that it depends on, in the place of GENERATED",
                quote_ident(column)
            )),
        ]),
        (false, _) => Some(vec![advice(format!(
            "{column} GENERATED ALWAYS AS {expression} is computed for each row that is written: a cheaper expression, or an index on the expression where only searches need it; fewer rows at a time, and \
             only those that change"
        ))]),
    }
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

/// An index of trigrams that finds nearly all rows, as the pattern has no three letters in a row.
fn no_trigram(seen: &Seen) -> Option<Steps> {
    let node = seen.node();
    let patterns = [" ~~ ", " ~~* ", " ~ ", " ~* "];
    let recheck = node
        .conditions
        .get("Recheck Cond")
        .or(node.conditions.get("Index Cond"))?;
    let all = node.all();
    let index = all.iter().find_map(|(_, n)| n.index.as_deref())?;
    let facts = seen.plan.relations.get(node.relation.as_deref()?)?;
    let own = index_named(facts, index)?;
    let of_trigrams = own.operator_class.contains("trgm_ops");
    let few =
        seen.discards() && seen.busy.gone_through() >= 0.5 * facts.rows.unwrap_or(f64::INFINITY);
    (of_trigrams && few && patterns.iter().any(|sign| recheck.contains(sign))).then(|| {
        let column = quote_ident(own.first.as_deref().unwrap_or("column"));
        vec![
            advice(format!(
                "search from three letters on, in the application: {index} has the trigrams of the values, and a pattern with fewer than three letters in a row between wildcards has none, \
                 so that the index finds every row and each is compared"
            )),
            advice(format!(
                "for one or two letters search from the beginning of the value: lower({column}) LIKE 'ab%', with an index on (lower({column}) text_pattern_ops) and a LIMIT"
            )),
        ]
    })
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
mod tests;
