//! Indexes that are gone through in large part for a few rows, as a table of forms: the plan shows the form, and the
//! index's own counters (blocks and entries a scan) show that it is gone through.

use pgassay_model::observed::growth::Grown;
use pgassay_model::observed::plans::{IndexFacts, RelationFacts};
use pgassay_text::quote::quote_ident;

use super::conditions::{conjuncts, disjuncts};
use super::hits::Left;
use super::shapes::{At, Shown, advice};
use crate::finding::{Confidence, StepKind};

/// Scans from which on averages are no chance.
const SOME_SCANS: f64 = 10.0;
/// Blocks of a descent to a leaf, generously.
const DESCENT: f64 = 5.0;
/// Entries of a leaf, at least.
const OF_LEAF: f64 = 50.0;
/// A scan of fewer blocks is no burden.
const FEW_BLOCKS: f64 = 16.0;
/// Entries that are passed over for each that is wanted.
const PASSED_OVER: f64 = 10.0;
/// The part of an index that is a large one.
const MUCH: f64 = 0.2;

/// An index scan, with what its index did in the measured time.
struct Walk<'a> {
    at: &'a At<'a>,
    table: &'a str,
    facts: &'a RelationFacts,
    index: &'a IndexFacts,
    condition: Option<&'a str>,
    filter: Option<&'a str>,
    /// A scan.
    blocks: f64,
    entries: f64,
    /// Of the index.
    pages: f64,
}

/// What a form of it means.
struct Form {
    why: String,
    /// The part of the work that the remedy leaves, where that is known.
    left: Option<f64>,
    steps: Vec<(StepKind, String)>,
}

const FORMS: &[fn(&Walk) -> Option<Form>] = &[ranges, range_first, alternatives, unled, signatures];

/// An index that is gone through in large part.
pub(super) fn walked(at: &At) -> Option<Shown> {
    let node = at.node;
    let name = node.index.as_deref()?;
    // The scan of a bitmap's index stands below that of the table.
    let scan = match node.relation {
        Some(_) => node,
        None => at.parent?,
    };
    let (table, facts) = (scan.relation.as_deref()?, at.facts(scan)?);
    let of = |full: &str| full.rsplit('.').next().map(|n| n.trim_matches('"')) == Some(name);
    let index = facts.indexes.iter().find(|index| of(&index.name))?;
    let grown = grown(at, table, of)?;
    let scans = grown.by("idx_scan");
    if scans < SOME_SCANS {
        return None;
    }
    let walk = Walk {
        at,
        table,
        facts,
        index,
        condition: node.conditions.get("Index Cond").map(String::as_str),
        filter: scan.conditions.get("Filter").map(String::as_str),
        blocks: (grown.by("idx_blks_hit") + grown.by("idx_blks_read")) / scans,
        entries: grown.by("idx_tup_read") / scans,
        pages: grown.stands("relpages")?,
    };
    let form = FORMS.iter().find_map(|form| form(&walk))?;
    Some(Shown {
        cost: at.cost(scan),
        left: form.left.and_then(|left| {
            Left::new(
                left,
                "blocks and entries that a scan reads, by the index's counters",
            )
        }),
        saw: format!(
            "{} is gone through for a few rows of {table}: {}.",
            index.name, form.why
        ),
        steps: form.steps,
        seen: vec![format!(
            "a scan reads {:.1} blocks, of {:.0} that the index has, and {:.1} entries, in {scans:.0} scans",
            walk.blocks, walk.pages, walk.entries
        )],
        confidence: Confidence::High,
    })
}

fn grown<'a>(at: &At<'a>, table: &str, named: impl Fn(&str) -> bool) -> Option<&'a Grown> {
    let mut all = at.run.observed?.growth.as_ref()?.indexes.iter();
    all.find(|row| row.of.as_deref() == Some(table) && named(&row.name))
}

/// How a part of a condition compares a column.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    Equal,
    Below { inclusive: bool },
    Above { inclusive: bool },
}

const OPERATORS: &[(&str, Side)] = &[
    (" <= ", Side::Below { inclusive: true }),
    (" >= ", Side::Above { inclusive: true }),
    (" < ", Side::Below { inclusive: false }),
    (" > ", Side::Above { inclusive: false }),
    (" = ", Side::Equal),
];

impl Side {
    fn is_below(self) -> bool {
        matches!(self, Self::Below { .. })
    }

    fn is_open(self) -> bool {
        self != Self::Equal
    }

    fn operator(self) -> &'static str {
        let found = OPERATORS.iter().find(|(_, side)| *side == self);
        found.map_or("=", |(operator, _)| operator.trim())
    }
}

/// A column that a comparison has on its left, and how it compares it.
fn compared<'f>(part: &str, facts: &'f RelationFacts) -> Option<(&'f str, Side)> {
    let (left, side) = OPERATORS
        .iter()
        .find_map(|(operator, side)| Some((part.split_once(operator)?.0, *side)))?;
    let bare = left.trim_matches(['(', ')']);
    let bare = bare.split("::").next()?.trim_matches(['(', ')']);
    let name = bare.rsplit('.').next()?.trim_matches('"');
    let mut columns = facts.columns.iter().map(String::as_str);
    Some((columns.find(|column| *column == name)?, side))
}

fn sides<'f>(condition: Option<&str>, facts: &'f RelationFacts) -> Vec<(&'f str, Side)> {
    let parts = condition.map(conjuncts).unwrap_or_default();
    parts
        .into_iter()
        .filter_map(|part| compared(part, facts))
        .collect()
}

/// The columns of an index after those that are compared for equality, and these.
fn after_equal<'w>(
    walk: &Walk<'w>,
    sides: &[(&str, Side)],
) -> Option<(&'w [String], &'w [String])> {
    let columns = &walk.index.columns;
    // Expressions are left out of the columns, so that their places are known only without one.
    if walk.index.first.as_ref() != columns.first() {
        return None;
    }
    let is_equal = |column: &String| {
        sides
            .iter()
            .any(|(name, side)| name == column && *side == Side::Equal)
    };
    let equal = columns.iter().take_while(|column| is_equal(column)).count();
    Some(columns.split_at(equal))
}

/// `int8range`, by the type of both bounds.
fn range_of(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "integer" => "int4range",
        "bigint" => "int8range",
        "numeric" => "numrange",
        "date" => "daterange",
        "timestamp without time zone" => "tsrange",
        "timestamp with time zone" => "tstzrange",
        _ => return None,
    })
}

/// `value BETWEEN a AND b`: a B-tree is bounded by the first of the two columns only.
fn ranges(walk: &Walk) -> Option<Form> {
    let sides = sides(walk.condition, walk.facts);
    let (equal, rest) = after_equal(walk, &sides)?;
    let first = rest.first()?;
    let on = |column: &str| -> Vec<Side> {
        let of = sides
            .iter()
            .filter(|(name, side)| *name == column && side.is_open());
        of.map(|(_, side)| *side).collect()
    };
    let [bound] = on(first)[..] else {
        return None;
    };
    let (second, other) = rest
        .iter()
        .skip(1)
        .find_map(|column| match on(column)[..] {
            [other] if other.is_below() != bound.is_below() => Some((column, other)),
            _ => None,
        })?;
    let needed = DESCENT + walk.entries / OF_LEAF;
    if walk.blocks < FEW_BLOCKS.max(3.0 * needed) {
        return None;
    }
    let (low, high) = match bound.is_below() {
        true => ((first, bound), (second, other)),
        false => ((second, other), (first, bound)),
    };
    let ident = |name: &String| quote_ident(name);
    let of_equal: String = equal
        .iter()
        .map(|column| format!("{} = … AND ", ident(column)))
        .collect();
    let mut steps = vec![advice(format!(
        "if the ranges do not overlap, take the one that begins last and look at its other end: SELECT … FROM (SELECT * FROM {} \
         WHERE {of_equal}{} {} value ORDER BY {}{} LIMIT 1) r WHERE {} {} value",
        walk.table,
        ident(first),
        bound.operator(),
        ident(first),
        if bound.is_below() { " DESC" } else { "" },
        ident(second),
        other.operator(),
    ))];
    let kind = |column: &String| walk.facts.types.get(column).and_then(|kind| range_of(kind));
    if let (Some(range), true) = (kind(first), kind(first) == kind(second)) {
        let inclusive = |side| {
            matches!(
                side,
                Side::Below { inclusive: true } | Side::Above { inclusive: true }
            )
        };
        let range = format!(
            "{range}({}, {}, '{}{}')",
            ident(low.0),
            ident(high.0),
            if inclusive(low.1) { '[' } else { '(' },
            if inclusive(high.1) { ']' } else { ')' },
        );
        let columns: String = equal
            .iter()
            .map(|column| format!("{}, ", ident(column)))
            .collect();
        let extension = match equal {
            [] => "",
            _ => "CREATE EXTENSION IF NOT EXISTS btree_gist; ",
        };
        steps.push((
            StepKind::Sql,
            format!(
                "{extension}CREATE INDEX CONCURRENTLY ON {} USING gist ({columns}{range});   -- and compare {range} @> value, or && with a range",
                walk.table
            ),
        ));
    }
    Some(Form {
        why: format!(
            "{} {} … and {} {} … are two ranges, and an index is bounded by the first only",
            ident(first),
            bound.operator(),
            ident(second),
            other.operator()
        ),
        left: Some(needed / walk.blocks),
        steps,
    })
}

/// `at >= a AND at < b AND tenant = c` with an index on (at, tenant): it is read over the whole range.
fn range_first(walk: &Walk) -> Option<Form> {
    let sides = sides(walk.condition, walk.facts);
    let (equal, rest) = after_equal(walk, &sides)?;
    let (first, later) = rest.split_first()?;
    let has = |column: &String, is: fn(Side) -> bool| {
        let mut of = sides.iter().filter(|(name, _)| name == column);
        of.any(|(_, side)| is(*side))
    };
    let later: Vec<&String> = later
        .iter()
        .filter(|column| has(column, |side| side == Side::Equal))
        .collect();
    let needed = DESCENT + walk.entries / OF_LEAF;
    if walk.index.method != "btree" || !has(first, Side::is_open) || later.is_empty() {
        return None;
    }
    if walk.blocks < FEW_BLOCKS.max(3.0 * needed) {
        return None;
    }
    let ordered: Vec<&str> = equal
        .iter()
        .chain(later.iter().copied())
        .chain([first])
        .map(String::as_str)
        .collect();
    let named: Vec<String> = ordered.iter().map(|name| quote_ident(name)).collect();
    let compared: Vec<String> = later.iter().map(|name| quote_ident(name)).collect();
    // Each entry leads to a row of the table, before and after.
    let left = (needed + walk.entries) / (walk.blocks + walk.entries);
    (!super::shapes::is_served(walk.facts, &ordered)).then(|| Form {
        why: format!(
            "the range on {} stands before {} in it, so that it is read over the whole range, whatever {} equals",
            quote_ident(first),
            compared.join(", "),
            compared.join(", ")
        ),
        left: Some(left),
        steps: vec![
            (
                StepKind::Sql,
                format!(
                    "CREATE INDEX CONCURRENTLY ON {} ({});   -- what is compared by = first, the range last",
                    walk.table,
                    named.join(", ")
                ),
            ),
            advice(format!(
                "then see whether {} is still needed",
                walk.index.name
            )),
        ],
    })
}

/// Rows that come out of a scan, where something tells.
fn wanted(at: &At) -> Option<f64> {
    let limit = at.parent.filter(|parent| parent.kind == "Limit");
    let of_statement = at.statement.counters.as_ref().and_then(|c| c.rows);
    limit.map(|limit| limit.rows).or(of_statement)
}

/// `a < x OR (a = x AND b < y)`: the next page, in a form that bounds no scan.
fn alternatives(walk: &Walk) -> Option<Form> {
    let bounded = sides(walk.condition, walk.facts);
    let (_, rest) = after_equal(walk, &bounded)?;
    if rest.len() < 2 || bounded.iter().any(|(_, side)| side.is_open()) {
        return None;
    }
    let wanted = wanted(walk.at)?.max(1.0);
    let of_pages = |part: &&str| -> Option<Vec<(usize, Side)>> {
        let ways = disjuncts(part);
        let place = |name: &str| rest.iter().position(|column| column == name);
        let mut found: Vec<(usize, Side)> = Vec::new();
        // Each compares one column more, those before it for equality.
        for (number, way) in ways.iter().enumerate() {
            let all = conjuncts(way);
            let of_way: Option<Vec<(usize, Side)>> = all
                .iter()
                .map(|part| {
                    compared(part, walk.facts).and_then(|(name, side)| Some((place(name)?, side)))
                })
                .collect();
            let of_way = of_way?;
            let open: Vec<&(usize, Side)> =
                of_way.iter().filter(|(_, side)| side.is_open()).collect();
            let [(at, side)] = open[..] else {
                return None;
            };
            if *at != number || of_way.len() != number + 1 {
                return None;
            }
            found.push((*at, *side));
        }
        (found.len() >= 2).then_some(found)
    };
    let parts = conjuncts(walk.filter?);
    let (part, found) = parts
        .iter()
        .find_map(|part| Some((*part, of_pages(part)?)))?;
    if walk.entries < PASSED_OVER * wanted || walk.blocks < FEW_BLOCKS {
        return None;
    }
    let names: Vec<String> = found
        .iter()
        .map(|(at, _)| quote_ident(&rest[*at]))
        .collect();
    let (_, first) = found[0];
    let one_way = found
        .iter()
        .all(|(_, side)| side.is_below() == first.is_below());
    let values: Vec<&str> = found.iter().map(|_| "…").collect();
    let step = match one_way {
        true => format!(
            "compare rows: ({}) {} ({}) in the place of the alternatives; the index begins at that very row",
            names.join(", "),
            found.last()?.1.operator(),
            values.join(", ")
        ),
        false => format!(
            "add the bound that all alternatives have in common, outside of the OR: {} {}= … AND ({part})",
            names[0],
            if first.is_below() { '<' } else { '>' },
        ),
    };
    Some(Form {
        why: format!(
            "alternatives (OR) bound no scan, so that it begins at an end of the index and passes over {:.0} entries for {wanted:.0} rows",
            walk.entries
        ),
        left: Some((wanted / walk.entries).max(DESCENT / walk.blocks)),
        steps: vec![advice(step)],
    })
}

/// A condition on a later column only.
fn unled(walk: &Walk) -> Option<Form> {
    let sides = sides(walk.condition, walk.facts);
    let columns = &walk.index.columns;
    let (first, (second, _)) = (columns.first()?, sides.first()?);
    let led =
        walk.index.first.as_ref() != Some(first) || sides.iter().any(|(name, _)| name == first);
    let btree = walk.index.method == "btree";
    let needed = DESCENT + walk.entries / OF_LEAF;
    if led || !btree || sides.len() < conjuncts(walk.condition?).len() {
        return None;
    }
    if walk.blocks < FEW_BLOCKS.max(3.0 * needed).max(MUCH * walk.pages) {
        return None;
    }
    let served = super::shapes::is_served(walk.facts, &[second]);
    let mut named: Vec<&str> = Vec::new();
    // Equalities first: they bound the scan.
    let ordered = sides.iter().filter(|(_, side)| *side == Side::Equal);
    for (name, _) in ordered.chain(sides.iter().filter(|(_, side)| side.is_open())) {
        if !named.contains(name) {
            named.push(name);
        }
    }
    let named: Vec<String> = named.into_iter().map(quote_ident).collect();
    (!served).then(|| Form {
        why: format!(
            "nothing is asked of {}, its first column, so that no part of it can be left out",
            quote_ident(first)
        ),
        left: Some(needed / walk.blocks),
        steps: vec![(
            StepKind::Sql,
            format!(
                "CREATE INDEX CONCURRENTLY ON {} ({});",
                walk.table,
                named.join(", ")
            ),
        )],
    })
}

/// What a GiST index keeps as signatures, and GIN as keys: an operator, and GIN's operator class.
const SIGNATURES: &[(&str, &str)] = &[
    (" @@ ", ""),
    (" ~~ ", " gin_trgm_ops"),
    (" ~~* ", " gin_trgm_ops"),
];

/// A search in a GiST index of signatures.
fn signatures(walk: &Walk) -> Option<Form> {
    let condition = walk.condition?;
    if walk.index.method != "gist" || walk.blocks < FEW_BLOCKS.max(MUCH * walk.pages) {
        return None;
    }
    let (operator, class) = SIGNATURES
        .iter()
        .find(|(operator, _)| condition.contains(operator))?;
    let of = match &walk.index.first {
        Some(column) => quote_ident(column),
        // An expression, as the condition has it.
        None => format!(
            "({})",
            condition.split(operator).next()?.trim_start_matches('(')
        ),
    };
    Some(Form {
        why: format!(
            "a GiST index keeps signatures for {}, of which those of its upper levels match nearly everything",
            operator.trim()
        ),
        left: None,
        steps: vec![
            (
                StepKind::Sql,
                format!(
                    "CREATE INDEX CONCURRENTLY ON {} USING gin ({of}{class});",
                    walk.table
                ),
            ),
            (
                StepKind::Advice,
                format!(
                    "once the other is there, and EXPLAIN shows that it is used: DROP INDEX CONCURRENTLY {}",
                    walk.index.name
                ),
            ),
        ],
    })
}
