//! Scattered reads as real kernels with pages of 4, 16 and 64 KiB recorded them.
//!
//! `tests/kernels/` holds pieces of runs of `make lab-page-size` (Debian 13's kernels under
//! full emulation), cut by `labs/page-size/fixture.sh`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pgassay_analysis::host::{self, HostSummary};
use pgassay_analysis::scattered::{VariantAnalysis, analyse};
use pgassay_model::reading::Reading;
use pgassay_model::scattered::ScatteredPlan;
use pgassay_model::storage::Storage;
use pgassay_model::trial::Trial;
use serde::Deserialize;

#[derive(Deserialize)]
struct Recorded {
    host: BTreeMap<String, Reading>,
    storage: Storage,
    plan: ScatteredPlan,
    trials: Vec<Trial>,
}

/// Name, page size in KiB, architecture.
const KERNELS: &[(&str, u64, &str)] = &[
    ("arm64", 4, "aarch64"),
    ("arm64-16k", 16, "aarch64"),
    ("powerpc64le", 4, "ppc64le"),
    ("powerpc64le-64k", 64, "ppc64le"),
];

fn recorded(name: &str) -> (HostSummary, ScatteredPlan, Vec<VariantAnalysis>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/kernels/{name}.json"));
    let text = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let run: Recorded = serde_json::from_slice(&text).unwrap();
    let variants = analyse(&run.plan, &run.trials, Some(&run.storage), false);
    (host::summarise(&run.host), run.plan, variants)
}

#[test]
fn the_device_reads_what_the_page_size_predicts() {
    for (name, page, architecture) in KERNELS {
        let (host, plan, variants) = recorded(name);
        assert_eq!(host.page_size_bytes, Some(page * 1024), "{name}");
        assert_eq!(plan.page_size_bytes, page * 1024, "{name}");
        assert_eq!(host.architecture.as_deref(), Some(*architecture));
        assert!(host.memory_bytes.unwrap() > 1 << 30, "{name}");
        assert_eq!(host.data_device.as_deref(), Some("ext4 on vda"), "{name}");
        let way = |id: &str| variants.iter().find(|v| v.id == id).unwrap();
        let read = |id: &str| way(id).amplification.as_ref().unwrap().estimate;
        // Neighbours of every tenth block share no page of up to 64 KiB.
        let expected = (*page as f64 / 8.0).max(1.0);
        let plain = way("bitmap-no-prefetch-ra0");
        assert!((plain.predicted / expected - 1.0).abs() < 0.01, "{name}");
        let within = |id: &str, times: f64| (read(id) / times - 1.0).abs() < 0.05;
        assert!(within("bitmap-no-prefetch-ra0", expected), "{name}");
        // Direct reads pass the page cache and know no page.
        assert!(within("bitmap-direct", 1.0), "{name}");
        assert!(way("bitmap-direct").direct, "{name}");
        assert_eq!(way("bitmap-direct").predicted, 1.0, "{name}");
        // Read-ahead makes the kernel read what nobody asked for, and it is told apart.
        let random = way("bitmap-random-no-prefetch");
        let shares = random.shares.as_ref().unwrap();
        assert!(shares.read_ahead > 0.05, "{name}: {shares:?}");
        assert_eq!(plain.shares.as_ref().unwrap().read_ahead.max(0.0), 0.0);
        for variant in &variants {
            let shares = variant.shares.as_ref().unwrap();
            let sum =
                shares.blocks + shares.pages + shares.read_ahead + shares.rest + shares.others;
            let seen = variant.amplification.as_ref().unwrap();
            assert!(
                sum >= seen.low - 1e-9 && sum <= seen.high + 1e-9,
                "{name}: {variant:?}"
            );
        }
    }
}

/// The same blocks on every kernel: what differs is what the kernel read for them.
#[test]
fn every_kernel_was_asked_for_the_same() {
    let blocks: Vec<u64> = KERNELS
        .iter()
        .map(|(name, _, _)| {
            let (_, _, variants) = recorded(name);
            let way = variants.iter().find(|v| v.id == "bitmap-no-prefetch-ra0");
            way.unwrap().blocks_read
        })
        .collect();
    let (least, most) = (blocks.iter().min().unwrap(), blocks.iter().max().unwrap());
    assert!(*least > 400 && most - least <= 8, "{blocks:?}");
}
