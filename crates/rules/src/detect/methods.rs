//! Indexes whose access method makes writing dear, by the functions that put entries into them, as a table.

use pgassay_model::observed::plans::{IndexFacts, RelationFacts};
use pgassay_text::quote::quote_ident;

use super::hits::{Hit, Part, joined, weighty, with_plans};
use super::shapes::advice;
use super::{Detector, samples, tenths};
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_evidence::profile::Summary;

pub(super) const DETECTORS: &[Detector] = &[samples("index-method-writes", written)];

/// The share of the CPU samples from which on an entry costs too much.
const NOTABLE: f64 = 0.2;

/// What is known of an access method.
struct Method {
    name: &'static str,
    /// Functions within which it puts in an entry.
    within: &'static [&'static str],
    why: &'static str,
    instead: &'static [&'static str],
}

const METHODS: &[Method] = &[
    Method {
        name: "hash",
        within: &["_hash_doinsert", "hashinsert"],
        why: "All entries of one value lie in one bucket of a hash index, in a chain of pages; where a value has many rows, a new entry goes along the \
              chain until a page has room.",
        instead: &[
            "drop the hash index: DROP INDEX CONCURRENTLY …; for a column with few values, a B-tree, which keeps equal keys together (from 13 on \
             deduplicated), or a partial index for the rare values",
        ],
    },
    Method {
        name: "gin",
        within: &[
            "ginInsertCleanup",
            "ginHeapTupleFastInsert",
            "gininsert",
            "ginEntryInsert",
        ],
        why: "A row brings many entries into a GIN index. They are kept in a list first (fastupdate), which a session must work off when it has \
              become longer than gin_pending_list_limit.",
        instead: &[
            "index what is searched, not the whole document: for a jsonb column of which some keys are asked for, USING gin ((column -> 'key')) or a B-tree index on (column ->> 'key') in \
             the place of USING gin (column), which holds each key and each value of it; where @> is all that is asked, USING gin (column jsonb_path_ops) has fewer entries",
            "have vacuum work the list off more often, or a larger gin_pending_list_limit for bulk loads; fastupdate = off where single writes must not be \
             held up",
            "see whether the index is read (pg_stat_user_indexes.idx_scan), and whether UPDATEs that leave its columns alone are HOT",
        ],
    },
    Method {
        name: "gist",
        within: &["gistdoinsert", "gistinsert"],
        why: "An entry of a GiST index goes down the tree by a penalty that is computed for each key of each page on the way, and splits are dear.",
        instead: &[
            "see whether the index is read (pg_stat_user_indexes.idx_scan); for a text search GIN is faster to search, for points and ranges SP-GiST is \
             faster to write; load in bulk before the index is made",
        ],
    },
];

fn written(evidence: &Evidence) -> Option<Observation> {
    let (run, profile) = (evidence.run?, evidence.profile?);
    if let Some(seen) = inverted(evidence, &run, profile) {
        return Some(seen);
    }
    let share = |method: &Method| {
        let own = profile.functions.iter();
        let own = own.filter(|f| method.within.contains(&f.symbol.as_str()));
        own.map(|f| f.total_share).fold(0.0, f64::max)
    };
    let method = METHODS
        .iter()
        .max_by(|a, b| share(a).total_cmp(&share(b)))
        .filter(|method| profile.shows(share(method), NOTABLE));
    let Some(method) = method else {
        return excluded(&run, profile);
    };
    if method.name == "gist"
        && let Some(seen) = excluded(&run, profile)
    {
        return Some(seen);
    }
    let share = share(method);
    let names = indexes(&run, method.name);
    let which = match names.as_slice() {
        [] => format!("an index of the access method {}", method.name),
        names => format!("{} (USING {})", names.join(", "), method.name),
    };
    let saw = format!(
        "Putting entries into {which} takes {} of the CPU samples.",
        tenths(share)
    );
    let seen = Observation::of_samples(share, saw)
        .confidence(match names.is_empty() {
            true => Confidence::Medium,
            false => Confidence::High,
        })
        .means(method.why)
        .of_functions(method.within.iter().copied())
        .most_in(weighty(&run).next());
    Some(
        method
            .instead
            .iter()
            .fold(seen, |seen, text| seen.advice(*text)),
    )
}

/// What a GIN index has done with the entries of rows that are written. Builds without symbols name no more.
const INVERTED: &[&str] = &[
    "rbt_insert",
    "ginInsertBAEntries",
    "ginEntryInsert",
    "ginInsertCleanup",
    "ginHeapTupleFastInsert",
    "ginHeapTupleFastCollect",
    "gin_extract_jsonb",
    "gin_compare_jsonb",
    "gin_extract_tsvector",
    "gin_extract_value_trgm",
];
/// Their share of the CPU samples from which on it is they that make writing dear.
const OF_INVERTED: f64 = 0.1;

/// Writes whose node of the plan takes most of the time, and a GIN index on the table that is written.
fn inverted(evidence: &Evidence, run: &RunEvidence, profile: &Summary) -> Option<Observation> {
    let own = profile.functions.iter();
    let own = own.filter(|f| INVERTED.contains(&f.symbol.as_str()));
    let share = own.map(|f| f.total_share).fold(0.0, f64::max);
    if !profile.shows(share, OF_INVERTED) {
        return None;
    }
    let hits = with_plans(run, |statement, plan| {
        let root = &plan.root;
        let table = root
            .relation
            .as_deref()
            .filter(|_| root.kind == "ModifyTable")?;
        let facts = plan.relations.get(table)?;
        let index = facts.indexes.iter().find(|i| i.method == "gin")?;
        let total: f64 = root
            .all()
            .iter()
            .filter_map(|(_, n)| Some(n.work?.ms))
            .sum();
        let part = root.work?.ms / total.max(f64::MIN_POSITIVE);
        Some(Hit {
            statement,
            part: Part::of_work(evidence, statement, part),
            left: None,
            saw: format!(
                "Writing rows of {table} takes {} of the time of a statement, and {} is a GIN index ({}): each row brings many entries into it.",
                tenths(part),
                index.name,
                index.definition.as_deref().unwrap_or("USING gin")
            ),
            confidence: Confidence::High,
            evidence: vec![format!(
                "{} of the CPU samples in functions that collect and put in entries of GIN indexes",
                tenths(share)
            )],
            steps: narrower(table, index, facts),
        })
    });
    joined(run, hits)
}

/// What is indexed in the place of all that a column holds.
fn narrower(table: &str, index: &IndexFacts, facts: &RelationFacts) -> Vec<(StepKind, String)> {
    let method = METHODS.iter().find(|m| m.name == "gin");
    let general = method.map_or(&[][..], |method| method.instead);
    let general = general.iter().map(|text| advice(*text));
    let whole = index.first.as_deref().filter(|column| {
        let kind = facts.types.get(*column);
        let listed = format!("({})", quote_ident(column));
        let definition = index.definition.as_deref().unwrap_or_default();
        kind.is_some_and(|kind| kind == "jsonb") && definition.contains(&listed)
    });
    let Some(column) = whole.map(quote_ident) else {
        return general.skip(1).collect();
    };
    let schema = table.split_once('.').map_or("", |(schema, _)| schema);
    let name = match index.name.contains('.') || schema.is_empty() {
        true => index.name.clone(),
        false => format!("{schema}.{}", index.name),
    };
    let mut steps = vec![
        (
            StepKind::Sql,
            format!(
                "CREATE INDEX CONCURRENTLY ON {table} (({column} ->> 'key'));   -- for each key that is searched ({column} ->> 'key' = value): one entry a row; {name} \
                 holds each key and each value of the document"
            ),
        ),
        (
            StepKind::Advice,
            format!(
                "once no statement asks {column} by @>, ? or @? any more: DROP INDEX CONCURRENTLY {name}"
            ),
        ),
        advice(format!(
            "where @> must be answered: CREATE INDEX CONCURRENTLY ON {table} USING gin (({column} -> 'part') jsonb_path_ops), on the part of the document that is searched, in the place of all of it"
        )),
    ];
    steps.extend(general.skip(1));
    steps
}

/// Functions within which entries are put into indexes and constraints over them are checked.
const CHECKED: &[&str] = &["ExecInsertIndexTuples", "check_exclusion_constraint"];

/// An exclusion constraint that compares for equality only, which a unique constraint does at a fraction of the cost.
fn excluded(run: &RunEvidence, profile: &Summary) -> Option<Observation> {
    let own = profile
        .functions
        .iter()
        .filter(|f| CHECKED.contains(&f.symbol.as_str()));
    let share = own.map(|f| f.total_share).fold(0.0, f64::max);
    let (statement, table, name, columns) = weighty(run).find_map(|statement| {
        let relations = statement.plan.as_ref()?.relations.iter();
        let mut constraints = relations
            .flat_map(|(table, facts)| facts.indexes.iter().map(move |index| (table, index)));
        constraints.find_map(|(table, index)| {
            let columns = equal_only(index.definition.as_deref()?)?;
            Some((statement, table.clone(), index.name.clone(), columns))
        })
    })?;
    if !profile.shows(share, NOTABLE) {
        return None;
    }
    let name = name.rsplit('.').next().unwrap_or(&name).to_owned();
    Some(
        Observation::of_samples(
            share,
            format!(
                "The exclusion constraint {name} on {table} compares for equality only, as a UNIQUE constraint does: putting entries into indexes and checking them takes {} of the CPU \
                 samples.",
                tenths(share)
            ),
        )
        .confidence(Confidence::High)
        .means("A GiST index is searched and written by functions that are called for each key of each page on the way; a B-tree finds the place of a value by a few comparisons.")
        .of_functions(CHECKED.iter().copied())
        .most_in(Some(statement))
        .sql(format!("ALTER TABLE {table} DROP CONSTRAINT {name}, ADD UNIQUE ({columns});")),
    )
}

/// The columns of an exclusion constraint all of whose operators are `=`: `serial` of `EXCLUDE USING gist (serial WITH =)`.
fn equal_only(definition: &str) -> Option<String> {
    let (_, listed) = definition.strip_prefix("USING ")?.split_once('(')?;
    let listed = &listed[..listed.find(')')?];
    let mut columns = Vec::new();
    for part in listed.split(", ") {
        let (column, operator) = part.split_once(" WITH ")?;
        if operator != "=" {
            return None;
        }
        columns.push(column);
    }
    Some(columns.join(", "))
}

/// Indexes of an access method on the tables of weighty statements.
fn indexes(run: &RunEvidence, method: &str) -> Vec<String> {
    let plans = weighty(run).filter_map(|s| s.plan.as_ref());
    let facts = plans.flat_map(|plan| plan.relations.values());
    let mut names: Vec<String> = facts
        .flat_map(|facts| &facts.indexes)
        .filter(|index| index.method == method)
        .map(|index| index.name.clone())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use pgassay_model::observed::plans::{IndexFacts, Plan, RelationFacts};

    use super::super::tests::made::found_in_samples_of;
    use pgassay_evidence::observed::statements::StatementTime;

    #[test]
    fn an_index_that_is_dear_to_write_is_named() {
        let of = |listing: &'static str| {
            let index = IndexFacts {
                name: "public.shipment_state".into(),
                method: "hash".into(),
                ..IndexFacts::default()
            };
            let facts = RelationFacts {
                indexes: vec![index],
                ..RelationFacts::default()
            };
            let writes = StatementTime {
                text: "INSERT INTO shipment VALUES ($1)".into(),
                sightings: 80,
                share: 0.9,
                cpu_share: 0.9,
                running: 1.0,
                plan: Some(Plan {
                    relations: [("public.shipment".to_owned(), facts)].into(),
                    ..Plan::default()
                }),
                ..StatementTime::default()
            };
            let found = found_in_samples_of(listing, vec![writes]);
            found.into_iter().find(|f| f.id == "index-method-writes")
        };
        let chains = "    55.00%  postgres  postgres  [.] ReadBufferExtended\n            |\n            ---_hash_doinsert\n               \
                      ReadBufferExtended\n    5.00%  postgres  postgres  [.] _hash_doinsert\n    40.00%  postgres  postgres  [.] ExecScan\n";
        let seen = of(chains).unwrap();
        assert!(
            seen.saw
                .contains("public.shipment_state (USING hash) takes 60.0 %"),
            "{seen:?}"
        );
        assert!(of("90.00% postgres [.] ExecScan\n").is_none());
    }

    #[test]
    fn a_document_indexed_whole_is_told_an_index_on_the_key() {
        use pgassay_model::observed::plans::{Execution, Node, Work};
        let of = |definition: &str, listing: &'static str| {
            let index = IndexFacts {
                name: "public.event_doc".into(),
                method: "gin".into(),
                first: Some("doc".into()),
                definition: Some(definition.to_owned()),
                ..IndexFacts::default()
            };
            let facts = RelationFacts {
                types: [("doc".to_owned(), "jsonb".to_owned())].into(),
                indexes: vec![index],
                ..RelationFacts::default()
            };
            let root = Node {
                kind: "ModifyTable".into(),
                operation: Some("Insert".into()),
                relation: Some("public.event".into()),
                work: Some(Work {
                    loops: 1.0,
                    ms: 20.0,
                    ..Work::default()
                }),
                ..Node::default()
            };
            let writes = StatementTime {
                text: "INSERT INTO event (doc) SELECT doc FROM inbox".into(),
                sightings: 80,
                share: 0.9,
                cpu_share: 0.9,
                running: 1.0,
                plan: Some(Plan {
                    root,
                    executed: Some(Execution::default()),
                    relations: [("public.event".to_owned(), facts)].into(),
                    ..Plan::default()
                }),
                ..StatementTime::default()
            };
            let found = found_in_samples_of(listing, vec![writes]);
            found.into_iter().find(|f| f.id == "index-method-writes")
        };
        let puts_in = "30.00% postgres [.] gin_compare_jsonb\n70.00% postgres [.] ExecScan\n";
        let steps = |found: &crate::finding::Finding| {
            let texts: Vec<&str> = found.remedy.iter().map(|s| s.text.as_str()).collect();
            texts.join("\n")
        };
        let whole = of("USING gin (doc)", puts_in).unwrap();
        assert!(
            steps(&whole).contains("ON public.event ((doc ->> 'key'))")
                && steps(&whole).contains("DROP INDEX CONCURRENTLY public.event_doc"),
            "{}",
            steps(&whole)
        );
        // One on a part of it, or with fewer entries, is not told to be narrower.
        let part = of("USING gin (((doc -> 'tags'::text)))", puts_in).unwrap();
        assert!(!steps(&part).contains("->> 'key'"));
        assert!(of("USING gin (doc)", "90.00% postgres [.] ExecScan\n").is_none());
    }

    #[test]
    fn an_exclusion_by_equality_is_told_of_unique() {
        use super::equal_only;
        assert_eq!(
            equal_only("USING gist (serial WITH =)").as_deref(),
            Some("serial")
        );
        assert_eq!(
            equal_only("USING gist (a WITH =, b WITH =)").as_deref(),
            Some("a, b")
        );
        assert!(equal_only("USING gist (room WITH =, during WITH &&)").is_none());
        assert!(equal_only("USING gist (room)").is_none());
    }
}
