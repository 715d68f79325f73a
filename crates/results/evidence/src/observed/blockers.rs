//! Who held what sessions queued for, over the windows of a point.

use pgassay_model::observed::blockers::BlockerRecord;

/// Joins the records of several windows; none where nobody looked.
pub fn joined<'r>(records: impl Iterator<Item = &'r BlockerRecord>) -> Option<BlockerRecord> {
    let mut all: Option<BlockerRecord> = None;
    for record in records {
        let all = all.get_or_insert_default();
        all.looks += record.looks;
        all.join(record.holders.clone());
        if let Some(why) = &record.unread {
            all.unread = Some(why.clone());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use pgassay_model::observed::blockers::Holder;

    use super::*;

    #[test]
    fn the_same_holder_is_counted_once_and_its_age_is_the_largest() {
        let holder = |state: &str, pairs, age| Holder {
            awaited: "transactionid".into(),
            state: state.into(),
            statement: "UPDATE t SET v = $1".into(),
            pairs,
            oldest_s: age,
            ..Holder::default()
        };
        let mut one = BlockerRecord::default();
        one.add(vec![
            holder("active", 2, None),
            holder("idle in transaction", 3, Some(4.0)),
        ]);
        one.add(vec![holder("idle in transaction", 5, Some(6.0))]);
        let all = joined([&one, &one].into_iter()).unwrap();
        assert_eq!((all.looks, all.pairs()), (4, 20));
        assert_eq!(all.holders[0].state, "idle in transaction");
        assert_eq!(
            (all.holders[0].pairs, all.holders[0].oldest_s),
            (16, Some(6.0))
        );
        assert_eq!(joined([].into_iter()), None);
    }
}
