//! The ways of reading the table: what the kernel does with each is the result.

use pgassay_model::scattered::{Pattern, ScatteredVariant};

use super::TABLE;

/// What decides which variants there are.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// `server_version_num`.
    pub version: u32,
    /// The server can be started again with other settings.
    pub restarts: bool,
    /// Read-ahead of the device to try, in KiB.
    pub read_ahead_kb: Vec<u64>,
    /// Only these, by id; empty for all.
    pub only: Vec<String>,
}

const BITMAP: &[(&str, &str)] = &[
    ("enable_seqscan", "off"),
    ("enable_indexscan", "off"),
    ("enable_indexonlyscan", "off"),
];

/// The variants that this server can run, the published query first.
pub fn variants(choice: &Choice) -> Vec<ScatteredVariant> {
    let mut all = vec![
        bitmap("bitmap", "bitmap scan", &[]),
        bitmap(
            "bitmap-no-prefetch",
            "bitmap scan, no prefetch",
            &[("effective_io_concurrency", "0")],
        ),
        bitmap(
            "bitmap-deep-prefetch",
            "bitmap scan, prefetch 64",
            &[("effective_io_concurrency", "64")],
        ),
        ScatteredVariant {
            settings: set(&[
                ("max_parallel_workers_per_gather", "2"),
                ("min_parallel_table_scan_size", "0"),
                ("parallel_setup_cost", "0"),
                ("parallel_tuple_cost", "0"),
            ]
            .iter()
            .chain(BITMAP)
            .copied()
            .collect::<Vec<_>>()),
            ..bitmap("bitmap-parallel", "parallel bitmap scan", &[])
        },
        ScatteredVariant {
            sql: format!("SELECT max(x) FROM {TABLE} WHERE r = $v"),
            pattern: Pattern::RandomTenth,
            ..bitmap("bitmap-random", "bitmap scan, random tenth", &[])
        },
        ScatteredVariant {
            sql: format!("SELECT max(x) FROM {TABLE} WHERE r = $v"),
            pattern: Pattern::RandomTenth,
            ..bitmap(
                "bitmap-random-no-prefetch",
                "random tenth, no prefetch",
                &[("effective_io_concurrency", "0")],
            )
        },
        ScatteredVariant {
            id: "index-random".to_owned(),
            title: "index scan, random order".to_owned(),
            // The order of h is that of the index, which an ORDER BY keeps.
            sql: format!(
                "SELECT max(x) FROM (SELECT x FROM {TABLE} WHERE m = $v ORDER BY h OFFSET 0) s"
            ),
            settings: set(&[
                ("enable_seqscan", "off"),
                ("enable_bitmapscan", "off"),
                ("enable_sort", "off"),
                ("max_parallel_workers_per_gather", "0"),
            ]),
            expected_node: Some("Index Scan".to_owned()),
            ..ScatteredVariant::default()
        },
        ScatteredVariant {
            id: "sequential".to_owned(),
            title: "sequential scan".to_owned(),
            sql: format!("SELECT max(x) FROM {TABLE} WHERE m = $v"),
            settings: set(&[
                ("enable_indexscan", "off"),
                ("enable_bitmapscan", "off"),
                ("max_parallel_workers_per_gather", "0"),
            ]),
            expected_node: Some("Seq Scan".to_owned()),
            pattern: Pattern::All,
            ..ScatteredVariant::default()
        },
    ];
    // The study's closing question: what would the planner choose?
    for (id, title, settings) in [
        (
            "planner-random-4",
            "planner, random_page_cost 4",
            &[("random_page_cost", "4")],
        ),
        (
            "planner-random-1.1",
            "planner, random_page_cost 1.1",
            &[("random_page_cost", "1.1")],
        ),
        (
            "planner-random-40",
            "planner, random_page_cost 40",
            &[("random_page_cost", "40")],
        ),
        (
            "planner-small-cache",
            "planner, small cache",
            &[("effective_cache_size", "8MB")],
        ),
        (
            "planner-large-cache",
            "planner, large cache",
            &[("effective_cache_size", "1TB")],
        ),
    ] {
        all.push(ScatteredVariant {
            id: id.to_owned(),
            title: title.to_owned(),
            sql: format!("SELECT max(x) FROM {TABLE} WHERE m = $v"),
            settings: set(settings),
            ..ScatteredVariant::default()
        });
    }
    for kb in &choice.read_ahead_kb {
        for mut variant in [
            bitmap(
                "bitmap-no-prefetch",
                "bitmap scan, no prefetch",
                &[("effective_io_concurrency", "0")],
            ),
            bitmap("bitmap", "bitmap scan", &[]),
        ] {
            variant.id = format!("{}-ra{kb}", variant.id);
            variant.title = format!("{}, read-ahead {kb} KiB", variant.title);
            variant.read_ahead_kb = Some(*kb);
            all.push(variant);
        }
    }
    if choice.restarts {
        all.extend(restarted(choice.version));
    }
    all.retain(|variant| choice.only.is_empty() || choice.only.contains(&variant.id));
    all
}

/// Variants for which the server is started again.
fn restarted(version: u32) -> Vec<ScatteredVariant> {
    let mut all = Vec::new();
    // debug_io_direct came with 16, io_method with 18.
    if version >= 160_000 {
        all.push(ScatteredVariant {
            server_settings: set(&[("debug_io_direct", "data")]),
            ..bitmap("bitmap-direct", "bitmap scan, direct I/O", &[])
        });
    }
    if version >= 180_000 {
        for method in ["sync", "worker", "io_uring"] {
            all.push(ScatteredVariant {
                id: format!("bitmap-{}", method.replace('_', "-")),
                server_settings: set(&[("io_method", method)]),
                ..bitmap("", &format!("bitmap scan, io_method {method}"), &[])
            });
        }
    }
    all
}

fn bitmap(id: &str, title: &str, settings: &[(&str, &str)]) -> ScatteredVariant {
    let mut all = set(BITMAP);
    all.extend(set(&[("max_parallel_workers_per_gather", "0")]));
    all.extend(set(settings));
    ScatteredVariant {
        id: id.to_owned(),
        title: title.to_owned(),
        sql: format!("SELECT max(x) FROM {TABLE} WHERE m = $v"),
        settings: all,
        expected_node: Some("Bitmap Heap Scan".to_owned()),
        pattern: Pattern::EveryTenth,
        ..ScatteredVariant::default()
    }
}

fn set(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    settings
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_versions_count() {
        let of = |version, restarts| {
            variants(&Choice {
                version,
                restarts,
                read_ahead_kb: vec![0, 128],
                only: vec![],
            })
        };
        for version in [130_000, 150_000, 160_000, 180_000] {
            let all = of(version, true);
            let ids: BTreeSet<&str> = all.iter().map(|v| v.id.as_str()).collect();
            assert_eq!(ids.len(), all.len());
            assert_eq!(ids.contains("bitmap-direct"), version >= 160_000);
            assert_eq!(ids.contains("bitmap-worker"), version >= 180_000);
        }
        assert!(
            of(180_000, false)
                .iter()
                .all(|v| v.server_settings.is_empty())
        );
        assert_eq!(of(150_000, true)[0].id, "bitmap");
    }
}
