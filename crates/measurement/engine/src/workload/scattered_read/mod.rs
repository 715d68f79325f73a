//! Scattered reads: a table of one row a block, and queries that read a tenth of
//! its blocks all over it.
//!
//! The experiment is F. Pachot's ("PostgreSQL on ARM: default page size matters",
//! 2022): fillfactor 10 and half a kilobyte a row leave one row in each block, a
//! column `m` of `n % 10` puts every tenth of them under one value, and
//! `max(x)` over one value must fetch each of these blocks.

mod calls;
pub mod own;
mod variants;
pub mod ways;

pub use variants::{Choice, variants};

use anyhow::Context;
use pgassay_model::scattered::{OwnReads, Pattern, ScatteredVariant};
use pgassay_model::workload::WorkloadPlan;
use pgassay_observe::cache::Blocks;
use pgassay_pgwire::Session;

/// The workload's name.
pub const NAME: &str = "scattered-read";
/// The table, in our schema.
pub const TABLE: &str = "scattered";
/// Stands in a way's query for the name of somebody's own relation.
const RELATION: &str = "$relation";
/// Values of the scattering columns.
pub const VALUES: u32 = 10;
/// The smallest table that shows anything.
pub const FEWEST_BLOCKS: u64 = 1000;

/// What is to be made: the table and its three indexes.
pub fn plan(rows: u64) -> WorkloadPlan {
    let filler = 500;
    WorkloadPlan {
        name: NAME.to_owned(),
        // What a guest is told of disk and WAL goes by pgbench's scale.
        scale: u32::try_from(rows * 8192 / crate::workload::pgbench_tables::BYTES_PER_SCALE)
            .unwrap_or(u32::MAX)
            .max(1),
        protocol: "simple".to_owned(),
        without_pgbench_tables: true,
        setup: vec![
            // r is a random tenth, h a random order; both from n, so that the
            // table is the same each time.
            format!(
                "CREATE TABLE {TABLE} (n bigint, m int, r int, h int, x text) WITH (fillfactor = 10)"
            ),
            format!(
                "INSERT INTO {TABLE} SELECT n, n % {VALUES}, abs(hashint8(n)::bigint) % {VALUES}, \
                 hashint8(n + 1000000007), lpad('x', {filler}, 'x') \
                 FROM generate_series(1, {rows}) n"
            ),
            format!("CREATE INDEX {TABLE}_m ON {TABLE} (m, n)"),
            format!("CREATE INDEX {TABLE}_r ON {TABLE} (r, n)"),
            format!("CREATE INDEX {TABLE}_h ON {TABLE} (m, h)"),
        ],
        ..WorkloadPlan::default()
    }
}

/// The blocks that a variant reads for a value, ascending.
///
/// # Errors
/// Where the session broke, or an answer is not understood.
pub fn wanted_blocks(
    session: &mut Session,
    pattern: Pattern,
    value: u32,
) -> anyhow::Result<Blocks> {
    let condition = match pattern {
        Pattern::EveryTenth => format!("m = {value}"),
        Pattern::RandomTenth => format!("r = {value}"),
        Pattern::All => "true".to_owned(),
        Pattern::Unknown => return Ok(Blocks::Listed(Vec::new())),
    };
    let rows = session.rows(&format!(
        "SELECT DISTINCT (ctid::text::point)[0]::bigint AS block FROM {TABLE} WHERE {condition} \
         ORDER BY block"
    ))?;
    let blocks = rows.rows.iter().map(|row| {
        let block = row.first().and_then(|value| value.as_deref());
        block
            .and_then(|block| block.parse().ok())
            .context("a block's number")
    });
    Ok(Blocks::Listed(blocks.collect::<anyhow::Result<_>>()?))
}

/// Brings the index and the visibility map into shared buffers, so that an
/// execution reads the table's blocks and nothing else.
///
/// # Errors
/// Where the session broke.
pub fn warm_up(
    session: &mut Session,
    variant: &ScatteredVariant,
    value: u32,
) -> anyhow::Result<()> {
    let (columns, condition) = match (variant.pattern, variant.id.starts_with("index-random")) {
        (Pattern::RandomTenth, _) => ("n", format!("r = {value}")),
        (_, true) => ("h", format!("m = {value}")),
        (_, false) => ("n", format!("m = {value}")),
    };
    session.execute(&format!(
        "BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; \
         SELECT count({columns}) FROM {TABLE} WHERE {condition}; COMMIT"
    ))?;
    Ok(())
}

/// The query for a value. What somebody else wrote is left as it is: their query, and the name of their
/// relation, which is put in last.
pub fn statement(variant: &ScatteredVariant, own: Option<&OwnReads>, value: u32) -> String {
    if variant.pattern == Pattern::Unknown {
        return variant.sql.clone();
    }
    let relation = own.and_then(|own| own.relations.first());
    let filled: Vec<String> = variant
        .sql
        .split(RELATION)
        .map(|part| part.replace("$v", &value.to_string()))
        .collect();
    filled.join(relation.map_or(RELATION, String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_else_wrote_is_left_as_it_is() {
        let text = "SELECT '$v', '$relation' FROM t";
        let own = OwnReads {
            relations: vec!["public.\"a$v $relation\"".to_owned()],
            ..OwnReads::default()
        };
        for way in ways::of_query(text, true, &[0]) {
            assert_eq!(statement(&way, Some(&own), 3), text);
        }
        let ways = ways::of_relation(1000, None, 150_000, &[]);
        assert_eq!(
            statement(&ways[2], Some(&own), 3),
            "SELECT pg_catalog.count(*) FROM public.\"a$v $relation\""
        );
        let every = statement(&ways[0], Some(&own), 3);
        assert!(every.contains("generate_series(3, 999, 10)"), "{every}");
        assert!(
            every.contains("FROM public.\"a$v $relation\" WHERE"),
            "{every}"
        );
        let ours = &variants(&Choice::default())[0];
        assert!(statement(ours, None, 7).ends_with("m = 7"));
    }
}
