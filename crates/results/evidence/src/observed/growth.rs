//! Growth of the server's own counters over several windows.

use std::collections::BTreeMap;

use pgassay_model::observed::growth::Grown;

/// Joins rows of several windows by name.
pub fn joined<'r>(windows: impl Iterator<Item = &'r [Grown]>) -> Vec<Grown> {
    let mut all: BTreeMap<&str, Grown> = BTreeMap::new();
    for row in windows.flatten() {
        let known = all.entry(&row.name).or_default();
        known.name.clone_from(&row.name);
        known.of.clone_from(&row.of);
        known.state.clone_from(&row.state);
        for (counter, by) in &row.grown {
            *known.grown.entry(counter.clone()).or_default() += by;
        }
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_add_up_and_the_last_state_stays() {
        let row = |by: f64, dead: f64| Grown {
            name: "public.queue".into(),
            of: None,
            grown: BTreeMap::from([("n_tup_del".to_owned(), by)]),
            state: BTreeMap::from([("n_dead_tup".to_owned(), dead)]),
        };
        let (one, two) = ([row(5.0, 5.0)], [row(7.0, 12.0)]);
        let all = joined([one.as_slice(), two.as_slice()].into_iter());
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].by("n_tup_del"), all[0].by("idx_scan")), (12.0, 0.0));
        assert_eq!(
            (all[0].stands("n_dead_tup"), all[0].stands("x")),
            (Some(12.0), None)
        );
    }
}
