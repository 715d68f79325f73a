//! The ways of reading somebody's own relation, or of running their query, and which blocks that is.

use anyhow::bail;
use pgassay_model::scattered::{Pattern, Sample, ScatteredVariant};
use pgassay_observe::cache::Blocks;
use pgassay_pgwire::Session;

use super::{RELATION, VALUES};

/// No way that reads a tenth of a relation reads more blocks than that.
const MOST_BLOCKS: u64 = 200_000;
/// Blocks of a stretch of a sample: far more than the kernel reads ahead.
const STRETCH: u64 = 10_000;

/// The part of a relation of so many blocks that is read; none where it is read in full.
pub fn sample(blocks: u64) -> Option<Sample> {
    let most = MOST_BLOCKS * u64::from(VALUES);
    let stretches = most / STRETCH;
    (blocks > most).then_some(Sample {
        stretches,
        apart: blocks / stretches,
        length: STRETCH,
    })
}

/// The ways of reading a relation of so many blocks, or a sample of it, on a server of this version: by their
/// numbers, which needs no index.
pub fn of_relation(
    blocks: u64,
    sample: Option<Sample>,
    version: u32,
    read_ahead_kb: &[u64],
) -> Vec<ScatteredVariant> {
    let by_number = |numbers: &str| {
        format!(
            "SELECT pg_catalog.count(*) FROM {RELATION} WHERE ctid = ANY (ARRAY(\
             SELECT ('(' || b || ',1)')::pg_catalog.tid FROM {numbers}))"
        )
    };
    let every = ScatteredVariant {
        id: "every-tenth".to_owned(),
        title: "every tenth block".to_owned(),
        sql: by_number(&numbers(blocks, sample, "$v", VALUES)),
        pattern: Pattern::EveryTenth,
        ..ScatteredVariant::default()
    };
    let random = ScatteredVariant {
        id: "random-tenth".to_owned(),
        title: "a random tenth of the blocks".to_owned(),
        sql: by_number(&random_tenth(blocks, sample, "$v")),
        pattern: Pattern::RandomTenth,
        ..ScatteredVariant::default()
    };
    let mut ways = vec![every.clone(), random.clone()];
    ways.extend(sequential(sample, version));
    for kb in read_ahead_kb {
        for way in [&every, &random] {
            ways.push(ScatteredVariant {
                id: format!("{}-ra{kb}", way.id),
                title: format!("{}, read-ahead {kb} KiB", way.title),
                read_ahead_kb: Some(*kb),
                ..way.clone()
            });
        }
    }
    ways
}

/// The ways of running a query: as the planner has it, and with what may make it read less. As found,
/// what the first has read the others find in memory: then there is the one.
pub fn of_query(text: &str, evicted: bool, read_ahead_kb: &[u64]) -> Vec<ScatteredVariant> {
    let way = |id: &str, title: &str, settings: &[(&str, &str)]| ScatteredVariant {
        id: id.to_owned(),
        title: title.to_owned(),
        sql: text.to_owned(),
        settings: set(settings),
        pattern: Pattern::Unknown,
        ..ScatteredVariant::default()
    };
    let mut ways = vec![way("as-it-is", "as it is", &[])];
    if evicted {
        ways.extend([
            way(
                "no-prefetch",
                "no prefetch",
                &[("effective_io_concurrency", "0")],
            ),
            way(
                "deep-prefetch",
                "prefetch 64",
                &[("effective_io_concurrency", "64")],
            ),
            way(
                "random-1.1",
                "random_page_cost 1.1",
                &[("random_page_cost", "1.1")],
            ),
            way(
                "random-40",
                "random_page_cost 40",
                &[("random_page_cost", "40")],
            ),
            way(
                "no-parallel",
                "without parallel workers",
                &[("max_parallel_workers_per_gather", "0")],
            ),
            way(
                "sequential",
                "sequential scans where there is a choice",
                &[
                    ("enable_indexscan", "off"),
                    ("enable_indexonlyscan", "off"),
                    ("enable_bitmapscan", "off"),
                ],
            ),
        ]);
        for kb in read_ahead_kb {
            ways.push(ScatteredVariant {
                read_ahead_kb: Some(*kb),
                ..way(
                    &format!("as-it-is-ra{kb}"),
                    &format!("read-ahead {kb} KiB"),
                    &[],
                )
            });
        }
    }
    ways
}

fn set(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    settings.iter().map(pair).collect()
}

/// All blocks, one after the other. Before version 14 a stretch of a relation can't be read but by reading all
/// of it: there a sample has no such way.
fn sequential(sample: Option<Sample>, version: u32) -> Option<ScatteredVariant> {
    let sql = match sample {
        None => format!("SELECT pg_catalog.count(*) FROM {RELATION}"),
        Some(_) if version < 140_000 => return None,
        Some(Sample {
            stretches,
            apart,
            length,
        }) => format!(
            "SELECT pg_catalog.sum(r.n) FROM pg_catalog.generate_series(0, {}) s, LATERAL (\
             SELECT pg_catalog.count(*) AS n FROM {RELATION} \
             WHERE ctid >= ('(' || s * {apart}::pg_catalog.int8 || ',0)')::pg_catalog.tid \
             AND ctid < ('(' || s * {apart}::pg_catalog.int8 + {length} || ',0)')::pg_catalog.tid) r",
            stretches - 1
        ),
    };
    let mut settings = set(&[
        ("enable_indexscan", "off"),
        ("enable_indexonlyscan", "off"),
        ("enable_bitmapscan", "off"),
        ("max_parallel_workers_per_gather", "0"),
    ]);
    if sample.is_some() {
        settings.extend(set(&[("enable_tidscan", "on"), ("enable_seqscan", "off")]));
    }
    Some(ScatteredVariant {
        id: "sequential".to_owned(),
        title: "all, one after the other".to_owned(),
        sql,
        settings,
        pattern: Pattern::All,
        ..ScatteredVariant::default()
    })
}

/// Every `step`th number of a block, from `first` on, as rows of `b`.
fn numbers(blocks: u64, sample: Option<Sample>, first: &str, step: u32) -> String {
    match sample {
        None => format!(
            "pg_catalog.generate_series({first}, {}, {step}) b",
            blocks - 1
        ),
        Some(sample) => format!(
            "(SELECT s * {}::pg_catalog.int8 + i AS b FROM pg_catalog.generate_series(0, {}) s, \
             pg_catalog.generate_series({first}, {}, {step}) i) n",
            sample.apart,
            sample.stretches - 1,
            sample.length - 1
        ),
    }
}

/// The numbers of a random tenth of the blocks, as rows of `b`.
fn random_tenth(blocks: u64, sample: Option<Sample>, value: &str) -> String {
    format!(
        "{} WHERE (pg_catalog.hashint8(b::pg_catalog.int8) & 2147483647) % {VALUES} = {value}",
        numbers(blocks, sample, "0", 1)
    )
}

/// The blocks that a way of reading asks for with a value; none where nobody knows.
///
/// # Errors
/// Where the session broke.
pub fn wanted_blocks(
    session: &mut Session,
    (blocks, sample): (u64, Option<Sample>),
    pattern: Pattern,
    value: u32,
) -> anyhow::Result<Blocks> {
    let whole = Sample {
        stretches: 1,
        apart: blocks.max(1),
        length: blocks,
    };
    let part = sample.unwrap_or(whole);
    let regular = |first: u32, step: u32| Blocks::Regular {
        stretches: part.stretches,
        apart: part.apart,
        length: part.length,
        first: first.into(),
        step: step.into(),
    };
    match pattern {
        Pattern::All => Ok(regular(0, 1)),
        Pattern::EveryTenth => Ok(regular(value, VALUES)),
        Pattern::Unknown => Ok(Blocks::Listed(Vec::new())),
        Pattern::RandomTenth => {
            let rows = session.rows(&format!(
                "SELECT b FROM {} ORDER BY b",
                random_tenth(blocks, sample, &value.to_string())
            ))?;
            let numbers = rows
                .rows
                .iter()
                .map(|row| row.first()?.as_deref()?.parse().ok());
            match numbers.collect() {
                Some(numbers) => Ok(Blocks::Listed(numbers)),
                None => bail!("a block's number"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_without_eviction_are_one() {
        let ids = |ways: Vec<ScatteredVariant>| -> Vec<String> {
            ways.into_iter().map(|way| way.id).collect()
        };
        assert_eq!(
            ids(of_relation(1000, None, 150_000, &[0])),
            [
                "every-tenth",
                "random-tenth",
                "sequential",
                "every-tenth-ra0",
                "random-tenth-ra0"
            ]
        );
        assert_eq!(ids(of_query("SELECT 1", false, &[0])), ["as-it-is"]);
    }

    #[test]
    fn of_a_huge_relation_a_sample_is_read() {
        assert_eq!(sample(2_000_000), None);
        // A tebibyte.
        let blocks = 1 << 27;
        let sample = sample(blocks);
        let part = sample.unwrap();
        assert!(part.stretches * part.length <= MOST_BLOCKS * u64::from(VALUES));
        assert!((part.stretches - 1) * part.apart + part.length <= blocks);
        assert!(
            part.stretches * part.apart > blocks - part.apart,
            "it is spread over all"
        );
        for way in of_relation(blocks, sample, 150_000, &[]) {
            assert!(!way.sql.contains(&(blocks - 1).to_string()), "{}", way.sql);
        }
        let old = of_relation(blocks, sample, 130_000, &[]);
        let ids: Vec<&str> = old.iter().map(|way| way.id.as_str()).collect();
        assert_eq!(ids, ["every-tenth", "random-tenth"]);
    }
}
