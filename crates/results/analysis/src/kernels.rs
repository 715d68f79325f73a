//! Scattered reads on several kernels, side by side: what their page sizes do.

use crate::analysis::Analysis;
use crate::scattered::VariantAnalysis;

/// The ways of reading that show a page size best, the plainest first: no prefetch
/// and no read-ahead, then each of them, then none of the page cache.
const TELLING: &[&str] = &[
    "bitmap-no-prefetch-ra0",
    "bitmap-no-prefetch",
    "bitmap-random-no-prefetch",
    "bitmap-direct",
    "bitmap",
];
/// As many are drawn.
const DRAWN: usize = 4;
/// A device that reads this share more or less than predicted agrees with it.
const AGREES: f64 = 0.05;

/// The same measurement on several kernels.
#[derive(Debug, Clone, PartialEq)]
pub struct SideBySide {
    /// The kernels, smallest pages first.
    pub kernels: Vec<OnKernel>,
    /// Id and title of each way of reading, those that all kernels have first.
    pub ways: Vec<(String, String)>,
    /// Ids of those that tell most, for a picture.
    pub telling: Vec<String>,
    /// What it says in sentences, the most important first.
    pub headline: Vec<String>,
}

/// One run: what was read, on what.
#[derive(Debug, Clone, PartialEq)]
pub struct OnKernel {
    /// Name of the run.
    pub run: String,
    /// Architecture and page size, and the run's name where these are those of another, too.
    pub name: String,
    /// Its kernel's release, or the run's name where that is unknown.
    pub kernel: String,
    /// Architecture and CPU.
    pub machine: String,
    /// The server's version.
    pub server: String,
    /// The kernel's page size, in bytes.
    pub page_size_bytes: u64,
    /// The server's block size, in bytes.
    pub block_size_bytes: u64,
    /// Blocks of the table.
    pub blocks: u64,
    /// The ways of reading that were measured.
    pub variants: Vec<VariantAnalysis>,
}

impl OnKernel {
    /// A way of reading by its id.
    pub fn way(&self, id: &str) -> Option<&VariantAnalysis> {
        self.variants.iter().find(|v| v.id == id)
    }

    /// `16 KiB`.
    pub fn pages(&self) -> String {
        format!("{} KiB", self.page_size_bytes / 1024)
    }

    fn of(analysis: &Analysis) -> Option<Self> {
        let scattered = analysis.scattered_read.as_ref()?;
        let host = &analysis.host;
        let server = analysis.arms.first().and_then(|arm| arm.server.as_ref());
        let words = [host.architecture.as_deref(), host.cpu_model.as_deref()];
        Some(Self {
            run: analysis.run.id.clone(),
            name: format!(
                "{} {} KiB",
                host.architecture.as_deref().unwrap_or("kernel"),
                scattered.plan.page_size_bytes / 1024
            ),
            kernel: host.kernel.clone().unwrap_or(analysis.run.id.clone()),
            machine: words.into_iter().flatten().collect::<Vec<_>>().join(", "),
            server: server.map_or_else(String::new, |s| {
                let words: Vec<&str> = s.version.split_whitespace().take(2).collect();
                words.join(" ")
            }),
            page_size_bytes: scattered.plan.page_size_bytes,
            block_size_bytes: scattered.plan.block_size_bytes,
            blocks: scattered.plan.blocks,
            variants: scattered.variants.clone(),
        })
    }
}

/// Holds runs side by side; none where one of them is no run of scattered reads
/// that measured anything.
pub fn side_by_side(analyses: &[Analysis]) -> Option<SideBySide> {
    let mut kernels: Vec<OnKernel> = analyses.iter().map(OnKernel::of).collect::<Option<_>>()?;
    if kernels.is_empty() || kernels.iter().any(|k| k.variants.is_empty()) {
        return None;
    }
    kernels.sort_by(|a, b| {
        let key = |k: &OnKernel| (k.page_size_bytes, k.machine.clone(), k.kernel.clone());
        key(a).cmp(&key(b))
    });
    let names: Vec<String> = kernels.iter().map(|k| k.name.clone()).collect();
    for kernel in &mut kernels {
        if names.iter().filter(|name| **name == kernel.name).count() > 1 {
            kernel.name = format!("{}, {}", kernel.name, kernel.run);
        }
    }
    let everywhere = |id: &str| kernels.iter().all(|k| k.way(id).is_some());
    let mut ways: Vec<(String, String)> = Vec::new();
    for variant in kernels.iter().flat_map(|k| &k.variants) {
        if !ways.iter().any(|(id, _)| *id == variant.id) {
            ways.push((variant.id.clone(), variant.title.clone()));
        }
    }
    ways.sort_by_key(|(id, _)| !everywhere(id));
    let known = TELLING.iter().map(|id| (*id).to_owned());
    let others = ways.iter().map(|(id, _)| id.clone());
    let mut telling: Vec<String> = Vec::new();
    for id in known.chain(others) {
        if everywhere(&id) && !telling.contains(&id) && telling.len() < DRAWN {
            telling.push(id);
        }
    }
    Some(SideBySide {
        headline: headline(&kernels, &telling),
        kernels,
        ways,
        telling,
    })
}

fn headline(kernels: &[OnKernel], telling: &[String]) -> Vec<String> {
    let mut sentences = Vec::new();
    let first = &kernels[0];
    if kernels
        .iter()
        .any(|k| (k.blocks, k.block_size_bytes) != (first.blocks, first.block_size_bytes))
    {
        sentences
            .push("The tables are not of one size: only the ratios can be compared.".to_owned());
    }
    for (place, id) in telling.iter().enumerate() {
        let read: Vec<(&OnKernel, f64, f64)> = kernels
            .iter()
            .filter_map(|k| {
                let way = k.way(id)?;
                Some((k, way.amplification.as_ref()?.estimate, way.predicted))
            })
            .collect();
        if read.is_empty() {
            continue;
        }
        let title = first.way(id).map_or(id.as_str(), |w| w.title.as_str());
        let mut each: Vec<String> = read
            .iter()
            .map(|(k, times, _)| format!("{times:.2} times on {} pages", k.pages()))
            .collect();
        // Kernels of one page size mostly say the same.
        each.dedup();
        if place == 0 {
            let block = first.block_size_bytes / 1024;
            sentences.push(format!(
                "For the same scattered blocks of {block} KiB the device read {} ({title}).",
                each.join(", ")
            ));
            let furthest = read
                .iter()
                .map(|(_, times, predicted)| (times / predicted - 1.0).abs())
                .fold(0.0, f64::max);
            let predicts = match read
                .iter()
                .all(|(k, _, _)| k.way(id).is_some_and(|w| w.direct))
            {
                true => "direct I/O lets expect",
                false => "the page sizes predict",
            };
            sentences.push(match furthest <= AGREES {
                true => format!("That is what {predicts}, within {:.1} %.", 100.0 * furthest),
                false => format!(
                    "Beside what {predicts}, {}, up to {:.0} % are something else's.",
                    read.iter()
                        .map(|(_, _, predicted)| format!("{predicted:.2}"))
                        .collect::<Vec<_>>()
                        .join(", "),
                    100.0 * furthest
                ),
            });
        } else {
            sentences.push(format!("With \"{title}\": {}.", each.join(", ")));
        }
    }
    sentences
}
