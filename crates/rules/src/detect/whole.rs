//! Shapes of plans that need all rows to give a few: the first of each key, a page beside a window, the first in an
//! order that no index has.

use pgassay_model::observed::plans::{Node, RelationFacts};
use pgassay_text::quote::quote_ident;

use super::conditions::{Compared, called, compared, conjuncts, index_named};
use super::hits::Left;
use super::late::{read, source};
use super::plans::{FEW_ROWS, SELECTIVE, by_index};
use super::shapes::{At, Shown, advice, column, is_served};
use crate::finding::{Confidence, StepKind};

/// Whether an aggregate has no values but the smallest or the largest: the words that it calls.
fn only_extremes(output: &str) -> bool {
    called(output).all(|name| matches!(name, "min" | "max" | "PARTIAL"))
}

/// DISTINCT, or the extremes of each key, over all rows of a table.
pub(super) fn distinct(at: &At) -> Option<Shown> {
    let node = at.node;
    let is_distinct = match node.kind.as_str() {
        "Unique" => true,
        "Aggregate" => {
            let output = node.conditions.get("Output")?;
            !node.group_key.is_empty() && only_extremes(output)
        }
        _ => false,
    };
    // The last step of several tells how many keys there are.
    let is_step = at.parent.is_some_and(|p| {
        matches!(
            p.kind.as_str(),
            "Gather" | "Gather Merge" | "Unique" | "Aggregate"
        )
    });
    if !is_distinct || is_step || node.conditions.contains_key("Filter") {
        return None;
    }
    let entering = read(node.nodes.first()?);
    let keys = node.rows;
    if entering < FEW_ROWS || keys > SELECTIVE * entering {
        return None;
    }
    // All of its rows, and no few of them that a condition picks.
    let scans = node
        .all()
        .into_iter()
        .map(|(_, n)| n)
        .filter(|n| n.relation.is_some());
    let scan = scans.max_by(|a, b| a.rows.total_cmp(&b.rows))?;
    let facts = at.facts(scan)?;
    let table = scan.relation.as_ref()?;
    let picks = ["Filter", "Index Cond", "Recheck Cond"]
        .iter()
        .any(|c| scan.conditions.contains_key(*c));
    let sorted = source_sort(node);
    // What comes in the order of an index is sorted by nobody.
    let used = scan.index.as_deref();
    let used = used.and_then(|used| index_named(facts, used));
    let key = match node.group_key.first().or(sorted) {
        Some(key) => column(key, facts)?,
        None => used?.first.as_deref()?,
    };
    if picks || facts.rows.is_some_and(|rows| scan.rows < 0.5 * rows) {
        return None;
    }
    let mut steps = vec![advice(format!(
        "go from the keys: SELECT … FROM keys k CROSS JOIN LATERAL (SELECT … FROM {table} t WHERE t.{key} = k.{key} ORDER BY … \
         LIMIT 1) l, with a table that has one row for each {key}, or the next key found by a recursive query (loose index scan)",
        key = quote_ident(key)
    ))];
    if !is_served(facts, &[key]) {
        let further = node
            .nodes
            .first()
            .map_or(&[][..], |below| below.sort_key.as_slice());
        let further = further
            .iter()
            .skip(1)
            .filter_map(|k| Some((column(k, facts)?, k)));
        let further: String = further
            .map(|(name, k)| {
                format!(
                    ", {}{}",
                    quote_ident(name),
                    if k.contains(" DESC") { " DESC" } else { "" }
                )
            })
            .collect();
        steps.push((
            StepKind::Sql,
            format!(
                "CREATE INDEX CONCURRENTLY ON {table} ({}{further});   -- which it needs",
                quote_ident(key)
            ),
        ));
    }
    Some(Shown {
        cost: at.cost(node),
        left: by_index(entering, keys).map(|left| Left {
            rests_on: format!(
                "{entering:.0} rows are read for about {keys:.0} keys, which an index would lead to"
            ),
            ..left
        }),
        saw: format!(
            "{entering:.0} rows are read, those of {table} among them, to keep one for each of about {keys:.0} values of {key}."
        ),
        steps,
        seen: Vec::new(),
        confidence: Confidence::Medium,
    })
}

/// Whether a statement's text takes duplicates away by UNION.
fn unites(text: &str) -> bool {
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let all = words
            .peek()
            .is_some_and(|next| next.eq_ignore_ascii_case("ALL"));
        if word.eq_ignore_ascii_case("UNION") && !all {
            return true;
        }
    }
    false
}

/// UNION of many rows that finds no duplicates among them.
pub(super) fn union(at: &At) -> Option<Shown> {
    let node = at.node;
    let below = source(node.nodes.first()?);
    let appends = matches!(below.kind.as_str(), "Append" | "Merge Append");
    let distinct = matches!(node.kind.as_str(), "Unique" | "Aggregate");
    // The planner takes UNION to remove nothing, whatever it does.
    let (entering, left) = (below.actual_rows?, node.actual_rows?);
    if !appends || !distinct || !unites(&at.statement.text) || entering < FEW_ROWS {
        return None;
    }
    // Where it takes many away they are duplicates indeed.
    if left < 0.9 * entering {
        return None;
    }
    Some(Shown {
        cost: at.cost(node),
        left: None,
        saw: format!(
            "UNION holds {entering:.0} rows against each other, to find duplicates: {left:.0} are left."
        ),
        steps: vec![advice(
            "UNION ALL, if no row can be in both (or need not be left out): then nothing is sorted or hashed, and a LIMIT, an ORDER BY \
             or a condition reaches the tables' indexes",
        )],
        seen: Vec::new(),
        confidence: Confidence::High,
    })
}

/// The first thing that a sort below sorts by.
fn source_sort(node: &Node) -> Option<&String> {
    let below = node.all().into_iter().map(|(_, n)| n);
    below.filter_map(|n| n.sort_key.first()).next()
}

/// The windows of a statement's text, as far as they have no order: `OVER ()`, `OVER (PARTITION BY x)`.
fn unordered_window(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let mut windows = lower.match_indices("over").filter_map(|(at, word)| {
        let before = lower[..at].chars().next_back();
        let within = lower[at + word.len()..].trim_start().strip_prefix('(')?;
        let is_word = !before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        is_word.then(|| within[..within.find(')').unwrap_or(within.len())].to_owned())
    });
    windows.any(|window| !window.contains("order by"))
}

/// A window over all rows below a limit.
pub(super) fn window(at: &At) -> Option<Shown> {
    let node = at.node;
    if node.kind != "Limit" {
        return None;
    }
    let window = source(node.nodes.first()?);
    let entering = window.nodes.first().map_or(window.rows, |below| below.rows);
    if window.kind != "WindowAgg"
        || node.rows > SELECTIVE * entering.max(1.0)
        || entering < 0.1 * FEW_ROWS
    {
        return None;
    }
    // From 18 on the plan says what the window is; before, the statement's text.
    let unordered = match window.conditions.get("Window") {
        Some(of) => !of.contains("ORDER BY"),
        None => unordered_window(&at.statement.text),
    };
    let what = window
        .conditions
        .get("Output")
        .filter(|output| output.contains(" OVER "));
    if !unordered || what.is_none() {
        return None;
    }
    Some(Shown {
        cost: at.cost(node).max(at.cost(window)),
        left: by_index(entering, node.rows).map(|left| Left {
            rests_on: format!(
                "{entering:.0} rows go in for {:.0} that come out",
                node.rows
            ),
            ..left
        }),
        saw: format!(
            "{entering:.0} rows are read for the {:.0} that LIMIT leaves: a window without an order needs them all.",
            node.rows
        ),
        steps: vec![advice(
            "leave the window out of the page's statement (count(*) OVER ()): ask for one row more to know whether there is a \
             next page, count in a statement of its own, seldom, or take an estimate (pg_class.reltuples, EXPLAIN)",
        )],
        seen: Vec::new(),
        confidence: Confidence::Medium,
    })
}

/// A sort of many rows of one table for the first few.
pub(super) fn sort(at: &At) -> Option<Shown> {
    let node = at.node;
    if node.kind != "Limit" {
        return None;
    }
    let mut below = node.nodes.first()?;
    while matches!(below.kind.as_str(), "Gather Merge" | "Gather" | "Result") {
        below = below.nodes.first()?;
    }
    let scan = below.nodes.first()?;
    let is_scan = matches!(
        scan.kind.as_str(),
        "Seq Scan" | "Index Scan" | "Bitmap Heap Scan"
    );
    let rows = scan.actual_rows.unwrap_or(scan.rows);
    // An incremental one stops after its first groups.
    let sorts =
        below.kind == "Sort" || below.kind == "Incremental Sort" && scan.actual_rows.is_some();
    if !sorts || !is_scan || rows < FEW_ROWS || node.rows > SELECTIVE * rows {
        return None;
    }
    let (table, facts) = (scan.relation.as_ref()?, at.facts(scan)?);
    let many = facts.rows.is_some_and(|all| rows >= MOST_LEFT * all);
    // What is no equality with a column has rows in the wanted order thrown away: few, where it leaves many.
    let conditions = ["Filter", "Index Cond", "Recheck Cond"].iter();
    let conditions = conditions.filter_map(|name| scan.conditions.get(*name));
    let mut columns: Vec<String> = Vec::new();
    for part in conditions.flat_map(|condition| conjuncts(condition)) {
        match compared(part, facts) {
            Some(Compared::Column(column)) if !columns.contains(&column) => columns.push(column),
            Some(Compared::Column(_)) => {}
            _ if many => {}
            _ => return None,
        }
    }
    let mut names: Vec<String> = columns
        .iter()
        .map(|c| c.trim_matches('"').to_owned())
        .collect();
    let mut collated = false;
    for key in &below.sort_key {
        let expression = key
            .trim_end_matches(" NULLS FIRST")
            .trim_end_matches(" NULLS LAST")
            .trim_end_matches(" DESC");
        // In another order than the index's, that of a language or of bytes.
        let (expression, collation) = match expression.split_once(" COLLATE ") {
            Some((bare, of)) => (
                bare.trim_matches(['(', ')']),
                Some(of.trim_matches(['(', ')'])),
            ),
            None => (expression, None),
        };
        // An expression needs an index of its own kind.
        if expression.contains(['(', ' ', ':']) {
            return None;
        }
        let name = column(expression, facts)?;
        names.push(name.to_owned());
        let of = collation.map_or_else(String::new, |of| format!(" COLLATE {of}"));
        let behind = [" DESC", " NULLS FIRST", " NULLS LAST"]
            .iter()
            .filter(|end| key.contains(**end));
        let behind: String = behind.copied().collect();
        collated |= collation.is_some();
        columns.push(format!("{}{of}{behind}", quote_ident(name)));
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let descending = below
        .sort_key
        .iter()
        .filter(|key| key.contains(" DESC"))
        .count();
    let mixed = descending > 0 && descending < below.sort_key.len();
    let begins = is_served(facts, &names);
    let served = !collated && !mixed && begins && gives_order(facts, &names);
    // An index that begins with them may have another order.
    if served && !below.sort_key.iter().any(|key| key.contains(" NULLS ")) {
        return None;
    }
    let seen = served.then(|| {
        format!(
            "an index on these columns is there, and the rows are sorted all the same: see at which end it has its NULLs, {} is \
             asked for",
            below.sort_key.join(", ")
        )
    });
    let seen = seen.or_else(|| {
        let other = begins && !served && !collated;
        other.then(|| match mixed {
            true => format!(
                "an index on these columns is there, and has them in one direction: read forwards or backwards it gives no order of {}",
                below.sort_key.join(", ")
            ),
            false => "an index on this column is there, and has another order: its operator class (text_pattern_ops), its collation or its access method \
                      gives none that ORDER BY asks for"
                .to_owned(),
        })
    });
    Some(Shown {
        cost: at.cost(node),
        left: by_index(rows, node.rows),
        saw: format!(
            "{rows:.0} rows of {table} are sorted by {} for the first {:.0}.",
            below.sort_key.join(", "),
            node.rows
        ),
        steps: [(
            StepKind::Sql,
            format!(
                "CREATE INDEX CONCURRENTLY ON {table} ({});",
                columns.join(", ")
            ),
        )]
        .into_iter()
        .chain(served.then(|| {
            advice(
                "or ORDER BY without NULLS LAST or FIRST, and WHERE … IS NOT NULL where the column may be null: the index that is there \
                 serves it",
            )
        }))
        .collect(),
        seen: seen.into_iter().collect(),
        confidence: Confidence::Medium,
    })
}

/// The part of a table from which on a condition leaves so many rows that an index in the wanted order meets one soon.
const MOST_LEFT: f64 = 0.05;

/// Whether one of the indexes that begin with these columns has them in the order of plain ORDER BY.
fn gives_order(facts: &RelationFacts, columns: &[&str]) -> bool {
    let mut whole = facts.indexes.iter().filter(|i| i.valid && !i.partial);
    whole.any(|index| {
        let own = index.columns.iter().map(String::as_str);
        let begins = index.columns.len() >= columns.len()
            && own.zip(columns).all(|(own, name)| own == *name);
        let definition = index.definition.as_deref().unwrap_or_default();
        let ordered = matches!(index.method.as_str(), "" | "btree")
            && !index.operator_class.ends_with("pattern_ops")
            && !definition.contains(" COLLATE ");
        begins && ordered
    })
}

/// Functions that give another value each time.
pub(super) const DRAWN: &[&str] = &[
    "random(",
    "gen_random_uuid(",
    "uuid_generate_v4(",
    "clock_timestamp(",
];
/// Drawn keys for each row that is wanted: some are of no row, or of one that the conditions leave out.
const DRAWS: f64 = 3.0;

/// All rows that match, sorted by what is drawn for each of them, for the first few.
pub(super) fn random(at: &At) -> Option<Shown> {
    let node = at.node;
    if node.kind != "Limit" {
        return None;
    }
    let mut below = node.nodes.first()?;
    while matches!(
        below.kind.as_str(),
        "Gather Merge" | "Gather" | "Result" | "Subquery Scan"
    ) {
        below = below.nodes.first()?;
    }
    let key = below.sort_key.first().filter(|_| below.kind == "Sort")?;
    let drawn = DRAWN
        .iter()
        .find(|name| key.contains(*name))?
        .trim_end_matches('(');
    if below.rows < 0.1 * FEW_ROWS || node.rows > 10.0 * SELECTIVE * below.rows {
        return None;
    }
    let scans = below.all().into_iter().map(|(_, n)| n);
    let scans = scans.filter(|n| n.relation.is_some());
    let scan = scans.max_by(|a, b| a.rows.total_cmp(&b.rows))?;
    let (table, facts) = (scan.relation.as_ref()?, at.facts(scan)?);
    // Numbers can be drawn from all up to the largest.
    let keys = facts
        .indexes
        .iter()
        .filter(|i| i.valid && i.constraint && i.columns.len() == 1);
    let numbers = |column: &&String| {
        let kind = facts.types.get(*column).map(String::as_str);
        matches!(kind, Some("integer" | "bigint" | "smallint"))
    };
    let key = keys.filter_map(|index| index.columns.first()).find(numbers);
    let mut steps = Vec::new();
    if let Some(key) = key {
        let key = quote_ident(key);
        steps.push(advice(format!(
            "draw keys and fetch those rows: … WHERE {key} = ANY (ARRAY(SELECT floor(random() * (SELECT max({key}) FROM {table}))::bigint + 1 \
             FROM generate_series(1, {draws:.0}))) … LIMIT {wanted:.0}, once more where too few match",
            draws = DRAWS * node.rows,
            wanted = node.rows,
        )));
    }
    steps.push(advice(format!(
        "{table} TABLESAMPLE SYSTEM (…) or BERNOULLI (…) in FROM, which reads a part of the table; or a selection that is drawn once \
         in a while and kept"
    )));
    Some(Shown {
        cost: at.cost(node),
        left: by_index(below.rows, DRAWS * node.rows),
        saw: format!(
            "{:.0} rows are sorted by {drawn}() for the first {:.0}: it is drawn for each of them, and no index can be in that order.",
            below.rows, node.rows
        ),
        steps,
        seen: Vec::new(),
        confidence: Confidence::High,
    })
}
