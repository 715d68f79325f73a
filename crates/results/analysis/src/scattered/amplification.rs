//! Read amplification and its causes, over the trials of each variant.

use pgassay_model::scattered::{ScatteredPlan, ScatteredVariant};
use pgassay_model::storage::Storage;
use pgassay_model::trial::Trial;
use pgassay_model::warning::Warning;
use serde::{Deserialize, Serialize};

use super::execution::{Execution, Shares, is_as_found};
use super::warnings::warnings;
use crate::stats::{Estimate, summarize, summarize_positive};

/// One way of reading, over its executions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VariantAnalysis {
    /// Stable name.
    pub id: String,
    /// What is special about it.
    pub title: String,
    /// Settings in force for it, as `name=value`.
    pub settings: Vec<String>,
    /// How the table was read, by EXPLAIN.
    pub scan: String,
    /// Whether that is the node that was asked for; none where the planner chose.
    pub plan_as_expected: Option<bool>,
    /// Processes that took part beside the leader, the most of any execution.
    pub workers: u64,
    /// Blocks that the server asked the kernel for, the median of the cold executions.
    pub blocks_read: u64,
    /// Bytes that devices read over blocks read × block size.
    pub amplification: Option<Estimate>,
    /// The same for the server's processes alone, by /proc/PID/io.
    pub processes_amplification: Option<Estimate>,
    /// Bytes that devices read for the server's processes in an execution, or, where these can't be
    /// seen, all that they read.
    #[serde(default)]
    pub read_bytes: Option<Estimate>,
    /// Sectors of 512 bytes that devices read in an execution.
    #[serde(default)]
    pub device_sectors: Option<Estimate>,
    /// The server reads past the page cache (`debug_io_direct`): the kernel's page
    /// size and its read-ahead play no part.
    #[serde(default)]
    pub direct: bool,
    /// What is predicted without read-ahead: by the kernel's page size, or 1, the
    /// blocks themselves, where the server reads directly.
    pub predicted: f64,
    /// The causes; none where the page cache can't be looked into.
    pub shares: Option<Shares>,
    /// Bytes left in the page cache over blocks read × block size.
    pub cached: Option<Estimate>,
    /// Requests that the device saw for each block read.
    pub requests_per_block: Option<Estimate>,
    /// Bytes of a device request on average.
    pub request_bytes: Option<f64>,
    /// Cold executions.
    pub cold: Option<Cost>,
    /// Executions with all that is needed in the page cache.
    pub warm: Option<Cost>,
    /// What qualifies it.
    pub warnings: Vec<Warning>,
}

/// What an execution takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// Milliseconds by EXPLAIN.
    pub execution_ms: Estimate,
}

/// What the executions say, one entry a variant that has any. `direct`: the
/// server reads past the page cache wherever a variant does not say otherwise.
pub fn analyse<'a>(
    plan: &ScatteredPlan,
    trials: impl IntoIterator<Item = &'a Trial>,
    storage: Option<&Storage>,
    direct: bool,
) -> Vec<VariantAnalysis> {
    let trials: Vec<&Trial> = trials.into_iter().collect();
    (0u32..)
        .zip(&plan.variants)
        .filter_map(|(index, variant)| {
            let of = trials.iter().filter(|t| t.slice.point == index);
            let executions: Vec<Execution> = of
                .filter_map(|trial| Execution::read(plan, variant, trial, storage))
                .collect();
            variant_analysis(
                plan,
                variant,
                &executions,
                super::asks_direct(variant).unwrap_or(direct),
            )
        })
        .collect()
}

fn variant_analysis(
    plan: &ScatteredPlan,
    variant: &ScatteredVariant,
    executions: &[Execution],
    direct: bool,
) -> Option<VariantAnalysis> {
    let first = executions.first()?;
    let cold: Vec<&Execution> = executions
        .iter()
        .filter(|e| (e.trial.cold || is_as_found(plan)) && e.asked > 0.0)
        .collect();
    let over = |value: &dyn Fn(&Execution) -> Option<f64>| -> Option<Estimate> {
        let values: Vec<f64> = cold.iter().filter_map(|e| value(e)).collect();
        let mut estimate = summarize(&values)?;
        // Counts may well be the same in every trial.
        estimate.warnings.retain(|w| w.id != "identical-values");
        Some(estimate)
    };
    let amplification = over(&|e| Some(e.device.as_ref().ok()?.0 / e.asked));
    let processes = over(&|e| Some(e.processes? / e.asked));
    let (mut bytes, mut requests) = (0.0, 0.0);
    for (b, r) in cold.iter().filter_map(|e| e.device.as_ref().ok()) {
        bytes += b;
        requests += r;
    }
    // What protects somebody's own database is no part of the way of reading.
    let protects = |name: &str| {
        plan.own.is_some()
            && [
                "default_transaction_read_only",
                "lock_timeout",
                "statement_timeout",
            ]
            .contains(&name)
    };
    let settings = variant.settings.iter().chain(&variant.server_settings);
    let settings = settings.filter(|(name, _)| !protects(name));
    let mut settings: Vec<String> = settings
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if let Some(kb) = variant.read_ahead_kb {
        settings.push(format!("read_ahead_kb={kb}"));
    }
    let scan = first.explained.scan().to_owned();
    let cost = |cold: bool| {
        // Of the warm ones the first still brings in what is missing.
        let times: Vec<f64> = executions
            .iter()
            .filter(|e| (e.trial.cold || is_as_found(plan)) == cold)
            .skip(usize::from(!cold))
            .map(|e| e.explained.execution_ms)
            .collect();
        summarize_positive(&times).map(|execution_ms| Cost { execution_ms })
    };
    Some(VariantAnalysis {
        id: variant.id.clone(),
        title: variant.title.clone(),
        settings,
        plan_as_expected: variant
            .expected_node
            .as_ref()
            .map(|node| executions.iter().all(|e| e.explained.nodes.contains(node))),
        scan,
        workers: executions
            .iter()
            .map(|e| e.explained.workers)
            .max()
            .unwrap_or(0),
        blocks_read: median(
            cold.iter()
                .map(|e| e.explained.read_blocks as f64)
                .collect(),
        )
        .unwrap_or(0.0) as u64,
        direct,
        predicted: median(executions.iter().map(|e| e.predicted).collect())
            .filter(|_| !direct)
            .unwrap_or(1.0),
        shares: shares(&cold),
        cached: over(&|e| Some(e.cached? / e.asked)),
        device_sectors: over(&|e| Some(e.device.as_ref().ok()?.0 / 512.0)),
        requests_per_block: over(&|e| {
            let blocks = e.explained.read_blocks as f64;
            Some(e.device.as_ref().ok()?.1 / blocks)
        }),
        request_bytes: (requests > 0.0).then_some(bytes / requests),
        cold: cost(true),
        warm: cost(false),
        read_bytes: over(&|e| e.processes.or_else(|| Some(e.device.as_ref().ok()?.0))),
        warnings: warnings(
            plan,
            (variant, executions),
            &cold,
            direct,
            amplification.as_ref(),
            processes.as_ref(),
        ),
        amplification,
        processes_amplification: processes,
    })
}

/// The causes, from the execution whose amplification is the middle one, so
/// that they add up to a figure that was seen.
fn shares(cold: &[&Execution]) -> Option<Shares> {
    let mut seen: Vec<(f64, Shares)> = cold
        .iter()
        .filter_map(|e| Some((e.device.as_ref().ok()?.0 / e.asked, e.shares()?)))
        .collect();
    seen.sort_by(|a, b| a.0.total_cmp(&b.0));
    let middle = seen.len().checked_sub(1)? / 2;
    Some(seen.swap_remove(middle).1)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::super::headline;
    use super::*;
    use pgassay_model::reading::{Reading, Sample};
    use pgassay_model::samplers::HOST_DISKSTATS;
    use pgassay_model::scattered::Residency;
    use pgassay_model::scattered::{ExecutionRecord, Pattern};
    use pgassay_model::trial::Raw;
    use std::collections::BTreeMap;

    fn plan(page: u64) -> ScatteredPlan {
        ScatteredPlan {
            rows: 1000,
            blocks: 1000,
            block_size_bytes: 8192,
            page_size_bytes: page,
            variants: vec![ScatteredVariant {
                id: "bitmap".into(),
                title: "bitmap heap scan".into(),
                expected_node: Some("Bitmap Heap Scan".into()),
                pattern: Pattern::EveryTenth,
                ..ScatteredVariant::default()
            }],
            eviction: "file advice".into(),
            drop_caches: false,
            until_stable: false,
            own: None,
        }
    }

    fn storage() -> Storage {
        Storage {
            counted: vec!["vda".into()],
            ..Storage::default()
        }
    }

    /// 100 blocks of 1,000 are read; `sectors` by the device, `extra` pages beside the wanted.
    fn trial(index: u32, page: u64, sectors: u64, extra: u64) -> Trial {
        let pages = 100 * (8192 / page).max(1);
        let line = |n: u64, s: u64| Reading::Text(format!("254 0 vda {n} 0 {s} 0 0 0 0 0 0 0 0"));
        Trial {
            raw: Raw::ScatteredRead(Box::new(ExecutionRecord {
                value: index,
                cold: true,
                explain: Reading::Text(
                    r#"[{"Plan": {"Node Type": "Bitmap Heap Scan", "Shared Hit Blocks": 3,
                    "Shared Read Blocks": 100}, "Execution Time": 5.0}]"#
                        .into(),
                ),
                wanted_blocks: 100,
                wanted_pages: pages,
                cached_before: Residency::Pages { all: 0, wanted: 0 },
                cached_after: Residency::Pages {
                    all: pages + extra,
                    wanted: pages,
                },
                processes_bytes: Reading::Text((sectors * 512).to_string()),
            })),
            samples: BTreeMap::from([(
                HOST_DISKSTATS.to_owned(),
                Sample {
                    before: line(0, 0),
                    after: line(100, sectors),
                    elapsed_ns: 1,
                },
            )]),
            ..Trial::default()
        }
    }

    fn raw(trial: &mut Trial) -> &mut ExecutionRecord {
        match &mut trial.raw {
            Raw::ScatteredRead(raw) => raw,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_page_size_predicts_what_is_read() {
        for (page, factor) in [(4096, 1.0), (16384, 2.0), (65536, 8.0)] {
            let sectors = 100 * page.max(8192) / 512;
            let trials: Vec<_> = (0..6).map(|i| trial(i, page, sectors, 0)).collect();
            let found = analyse(&plan(page), &trials, Some(&storage()), false);
            let variant = &found[0];
            assert_eq!(variant.predicted, factor);
            let read = variant.amplification.as_ref().unwrap();
            assert!((read.estimate - factor).abs() < 1e-9, "{page}: {read:?}");
            let shares = variant.shares.as_ref().unwrap();
            assert_eq!((shares.blocks, shares.pages), (1.0, factor - 1.0));
            assert_eq!(
                (shares.read_ahead, shares.rest, shares.others),
                (0.0, 0.0, 0.0)
            );
            assert_eq!(variant.plan_as_expected, Some(true));
            assert!(variant.warnings.is_empty(), "{:?}", variant.warnings);
        }
    }

    /// As measured: a sequential scan asks for ten times the blocks, and reads them once each.
    #[test]
    fn ways_are_ranked_by_the_bytes_that_they_read() {
        let trials: Vec<_> = (0..6).map(|i| trial(i, 4096, 1600, 0)).collect();
        let first = analyse(&plan(4096), &trials, Some(&storage()), false).remove(0);
        let way = |title: &str, times: f64, ratio: f64| {
            let mut way = first.clone();
            title.clone_into(&mut way.title);
            for read in [&mut way.read_bytes, &mut way.amplification] {
                let read = read.as_mut().unwrap();
                (read.estimate, read.low, read.high) =
                    (read.estimate * times, read.low * times, read.high * times);
            }
            way.amplification.as_mut().unwrap().estimate = ratio;
            way
        };
        let ways = [
            way("bitmap", 1.0, 1.001),
            way("planner, random_page_cost 4", 1.002, 1.0),
            way("no prefetch", 1.5, 1.51),
            way("planner, random_page_cost 40", 9.4, 1.0),
        ];
        let said = headline(&plan(4096), &ways).join(" ");
        assert!(
            said.contains(
                "The fewest bytes are read with \"bitmap\" (800 KiB; equal: \"planner, random_page_cost 4\"), \
                 the most with \"planner, random_page_cost 40\" (7.3 MiB): 9.4 times as many."
            ),
            "{said}"
        );
        let said = headline(&plan(4096), &ways[..2]).join(" ");
        assert!(
            said.contains("All ways read equally many bytes, about 800 KiB."),
            "{said}"
        );
    }

    #[test]
    fn a_cache_beneath_the_file_system_is_no_device() {
        // The server's file system read 100 blocks; the disk under its loop device none.
        let mut trials: Vec<_> = (0..6).map(|i| trial(i, 4096, 0, 0)).collect();
        for trial in &mut trials {
            raw(trial).processes_bytes = Reading::Text((1600 * 512).to_string());
        }
        let found = analyse(&plan(4096), &trials, Some(&storage()), false);
        assert_eq!(found[0].amplification.as_ref().unwrap().estimate, 0.0);
        let ids: Vec<&str> = found[0].warnings.iter().map(|w| w.id.as_str()).collect();
        assert_eq!(ids, ["cached-beneath"]);
    }

    #[test]
    fn direct_reads_know_no_page() {
        let mut direct = plan(65536);
        direct.variants[0].server_settings = vec![("debug_io_direct".into(), "data".into())];
        // 100 blocks as they are, nothing of them in the page cache.
        let mut trials: Vec<_> = (0..6).map(|i| trial(i, 65536, 1600, 0)).collect();
        for trial in &mut trials {
            raw(trial).cached_after = Residency::Pages { all: 0, wanted: 0 };
        }
        let found = analyse(&direct, &trials, Some(&storage()), false);
        assert!(found[0].direct && found[0].warnings.is_empty(), "{found:?}");
        assert_eq!(found[0].predicted, 1.0);
        assert!((found[0].amplification.as_ref().unwrap().estimate - 1.0).abs() < 1e-9);
        let said = headline(&direct, &found);
        assert!(
            said[0].contains("direct reads pass the page cache"),
            "{said:?}"
        );
        // A server that reads so altogether, and a variant that says otherwise.
        let found = analyse(&plan(65536), &trials, Some(&storage()), true);
        assert!(found[0].direct && found[0].predicted == 1.0);
        direct.variants[0].server_settings[0].1 = "wal".into();
        let found = analyse(&direct, &trials, Some(&storage()), true);
        assert!(!found[0].direct && found[0].predicted == 8.0);
        // A file system that answers direct reads out of the page cache all the same.
        let trials: Vec<_> = (0..6).map(|i| trial(i, 65536, 12800, 0)).collect();
        let found = analyse(&plan(65536), &trials, Some(&storage()), true);
        let ids: Vec<&str> = found[0].warnings.iter().map(|w| w.id.as_str()).collect();
        assert_eq!(ids, ["direct-through-cache"]);
    }

    #[test]
    fn read_ahead_stands_apart_and_the_shares_add_up() {
        // 200 wanted pages and 100 more, and 16 sectors that nobody knows.
        let mut trials: Vec<_> = (0..6).map(|i| trial(i, 4096, 2432, 100)).collect();
        // 16 sectors more for somebody else.
        for trial in &mut trials {
            raw(trial).processes_bytes = Reading::Text((2416 * 512).to_string());
        }
        let found = analyse(&plan(4096), &trials, Some(&storage()), false);
        let shares = found[0].shares.as_ref().unwrap();
        assert!((shares.read_ahead - 0.5).abs() < 1e-9, "{shares:?}");
        assert!((shares.rest - 0.01).abs() < 1e-9, "{shares:?}");
        assert!((shares.others - 0.01).abs() < 1e-9, "{shares:?}");
        let sum = shares.blocks + shares.pages + shares.read_ahead + shares.rest + shares.others;
        assert!((sum - found[0].amplification.as_ref().unwrap().estimate).abs() < 1e-9);
        assert_eq!(found[0].request_bytes, Some(2432.0 * 512.0 / 100.0));
    }

    #[test]
    fn what_is_not_as_planned_is_said() {
        let mut trials: Vec<_> = (0..6).map(|i| trial(i, 4096, 1600, 0)).collect();
        for trial in &mut trials {
            raw(trial).wanted_blocks = 200;
            raw(trial).cached_before = Residency::Pages {
                all: 50,
                wanted: 50,
            };
            raw(trial).processes_bytes = Reading::Text("409600".into());
        }
        let mut plan = plan(4096);
        plan.variants[0].expected_node = Some("Index Scan".into());
        let found = analyse(&plan, &trials, Some(&storage()), false);
        let ids: Vec<&str> = found[0].warnings.iter().map(|w| w.id.as_str()).collect();
        assert_eq!(
            ids,
            ["another-plan", "other-blocks", "not-cold", "others-read"]
        );
        // Without devices there is no figure, and it says why.
        let found = analyse(&plan, &trials, Some(&Storage::hidden("on tmpfs")), false);
        assert!(found[0].amplification.is_none());
        assert!(
            found[0]
                .warnings
                .iter()
                .any(|w| w.text.contains("on tmpfs"))
        );
    }
}
