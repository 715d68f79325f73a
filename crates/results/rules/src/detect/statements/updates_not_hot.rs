//! Updates that write a new entry into every index, and what makes them.

use crate::detect::common::conditions::words;
use crate::detect::common::hits::{Hit, Part, joined, with_plans};
use crate::detect::statements::unread_indexes;
use crate::detect::statements::writing::{within, written};
use crate::detect::{Detector, run, tenths};
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_evidence::profile::Work;
use pgassay_model::observed::growth::Grown;
use pgassay_model::observed::plans::{IndexFacts, Operation};

pub const DETECTORS: &[Detector] = &[run("updates-not-hot", not_hot)];

/// The columns that an UPDATE sets, as far as its text tells.
fn assigned(text: &str) -> Vec<&str> {
    let is = |at: usize, word: &str| {
        let end = at + word.len();
        text.get(at..end)
            .is_some_and(|t| t.eq_ignore_ascii_case(word))
    };
    let Some(from) = (0..text.len()).find(|at| is(*at, " SET ")) else {
        return Vec::new();
    };
    let rest = &text[from + 5..];
    let end = [" WHERE ", " FROM ", " RETURNING "]
        .iter()
        .filter_map(|word| {
            let at = |at: &usize| {
                rest.get(*at..at + word.len())
                    .is_some_and(|t| t.eq_ignore_ascii_case(word))
            };
            (0..rest.len()).find(at)
        });
    let rest = &rest[..end.min().unwrap_or(rest.len())];
    let mut depth = 0_i32;
    let parts = rest.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    let mut columns = Vec::new();
    for part in parts {
        // `(a, b) = (…)` sets several.
        let left = part.split_once('=').map_or("", |(left, _)| left);
        columns.extend(words(left));
    }
    columns
}

fn growth_of_indexes<'a>(run: &RunEvidence<'a>) -> &'a [Grown] {
    let growth = run.observed.and_then(|observed| observed.growth.as_ref());
    growth.map_or(&[], |growth| &growth.indexes)
}

/// What is done about indexes over what is updated: away with those that nobody reads.
fn touched_steps(table: &str, touched: &[&IndexFacts], grown: &[Grown]) -> Vec<(StepKind, String)> {
    let bare = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let read = |index: &IndexFacts| {
        let in_run = grown.iter().find(|g| bare(&g.name) == bare(&index.name));
        index.scans.unwrap_or(0.0) > 0.0 || in_run.is_some_and(|g| g.by("idx_scan") > 0.0)
    };
    let (kept, idle): (Vec<&IndexFacts>, Vec<&IndexFacts>) = touched
        .iter()
        .copied()
        .partition(|index: &&IndexFacts| index.constraint || read(index));
    let mut steps = unread_indexes::steps(idle.iter().map(|index| index.name.as_str()));
    if !kept.is_empty() {
        let columns: Vec<&str> = kept.iter().filter_map(|i| i.first.as_deref()).collect();
        steps.push((
            StepKind::Advice,
            format!(
                "keep what is updated all the time ({}) in a table of its own beside {table}, out of reach of its \
                 other indexes",
                columns.join(", ")
            ),
        ));
    }
    steps
}

/// Updates below which their share of HOT ones is chance.
const MANY_UPDATES: f64 = 1000.0;

fn not_hot(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let (_, name, facts) = written(plan, &[Operation::Update])?;
        let seen = run.table(name)?;
        let (updates, hot) = (seen.by("n_tup_upd"), seen.by("n_tup_hot_upd"));
        let indexes = facts.indexes.len();
        if updates < MANY_UPDATES || hot >= 0.5 * updates || indexes < 2 {
            return None;
        }
        let moved = seen.by("n_tup_newpage_upd");
        // Rows that found no room on their page (from 16 on), or whose indexed column changed.
        let for_room = moved >= 0.5 * (updates - hot);
        // Its first column is one that the statement sets.
        let set = assigned(&statement.text);
        let touched: Vec<&IndexFacts> = facts
            .indexes
            .iter()
            .filter(|i| {
                i.first
                    .as_ref()
                    .is_some_and(|first| set.contains(&first.as_str()))
            })
            .collect();
        let mut steps = touched_steps(name, &touched, growth_of_indexes(&run));
        if for_room || (moved == 0.0 && touched.is_empty()) {
            steps.push((
                StepKind::Sql,
                format!("ALTER TABLE {name} SET (fillfactor = 80);   -- for new pages; VACUUM FULL or pg_repack for those there are"),
            ));
        }
        if !for_room && touched.is_empty() {
            steps.push((
                StepKind::Sql,
                format!(
                    "SELECT indexrelname, idx_scan FROM pg_stat_user_indexes WHERE relid = '{}'::regclass ORDER BY \
                     idx_scan;   -- drop indexes that nobody reads and whose columns are updated",
                    name.replace('\'', "''")
                ),
            ));
        }
        // What goes into the indexes, by CPU samples, with their log.
        let part = within(evidence, Work::IndexEntries)
            .map_or(Part::UNKNOWN, |share| Part::of_samples(statement, share));
        Some(Hit {
            statement,
            part,
            left: None,
            saw: format!(
                "Of {updates:.0} updates of {name} only {} are HOT: the others write into all of its {indexes} indexes.",
                tenths(hot / updates)
            ),
            confidence: Confidence::Medium,
            evidence: touched
                .iter()
                .map(|index| {
                    let column = index.first.as_deref().unwrap_or_default();
                    format!(
                        "the statement sets {column}, which {} begins with",
                        index.name
                    )
                })
                .chain((moved > 0.0).then(|| {
                    format!("{moved:.0} of them moved the row to another page for want of room")
                }))
                .collect(),
            steps,
        })
    });
    joined(&run, hits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::tests::made::one;
    use crate::detect::tests::made::{found_writing, found_writing_beside, grown};
    use pgassay_model::observed::plans::RelationFacts;

    #[test]
    fn an_index_over_what_is_updated_and_never_read_is_dropped() {
        assert_eq!(
            assigned("UPDATE t SET a = f($1, b), (c, \"d\") = ($2, $3) WHERE e = $4"),
            ["a", "c", "d"]
        );
        let index = |name: &str, first: &str, scans: f64| IndexFacts {
            name: name.into(),
            first: Some(first.into()),
            valid: true,
            scans: Some(scans),
            ..IndexFacts::default()
        };
        let of = |scans: f64| {
            let facts = RelationFacts {
                indexes: vec![index("t_pkey", "id", 9.0), index("t_seen", "seen", scans)],
                ..RelationFacts::default()
            };
            let updated = vec![grown("public.t", &[("n_tup_upd", 5000.0)])];
            let findings = found_writing_beside("Update", facts, updated, |observed| {
                observed.statements.as_mut().unwrap().statements[0].text =
                    "UPDATE t SET seen = now() WHERE id = $1".into();
            });
            one(&findings, "updates-not-hot").remedy[0].text.clone()
        };
        assert!(
            of(0.0).contains("'t_seen'") && !of(0.0).contains("DROP"),
            "{}",
            of(0.0)
        );
        assert!(of(7.0).contains("a table of its own"), "{}", of(7.0));
    }

    #[test]
    fn updates_that_are_not_hot_name_what_stands_in_their_way() {
        let facts = || RelationFacts {
            indexes: vec![IndexFacts::default(), IndexFacts::default()],
            ..RelationFacts::default()
        };
        let of = |moved: f64, hot: f64| {
            let counters = [
                ("n_tup_upd", 5000.0),
                ("n_tup_hot_upd", hot),
                ("n_tup_newpage_upd", moved),
            ];
            found_writing("Update", facts(), vec![grown("public.t", &counters)])
        };
        let full = of(4000.0, 500.0);
        // Without CPU samples nobody knows what the indexes take: that is no gain of nothing.
        assert_eq!(one(&full, "updates-not-hot").gain_at_most, None);
        assert!(
            one(&full, "updates-not-hot").remedy[0]
                .text
                .contains("fillfactor")
        );
        let indexed = of(100.0, 500.0);
        assert!(
            one(&indexed, "updates-not-hot").remedy[0]
                .text
                .contains("pg_stat_user_indexes")
        );
        assert!(of(0.0, 4500.0).iter().all(|f| f.id != "updates-not-hot"));
    }
}
