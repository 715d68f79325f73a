//! What a run of scattered reads says in sentences.

use pgassay_model::scattered::ScatteredPlan;

use super::{VariantAnalysis, remedies};
use crate::number;
use crate::stats::Estimate;

/// What the prediction rests on, up to its figure.
fn predicts(variant: &VariantAnalysis) -> &'static str {
    match variant.direct {
        true => "direct reads pass the page cache, whatever its pages, which predicts",
        false => "the page size alone predicts",
    }
}

/// What the variants say in a sentence each, the most important first.
pub fn headline(plan: &ScatteredPlan, variants: &[VariantAnalysis]) -> Vec<String> {
    let page = plan.page_size_bytes / 1024;
    let block = plan.block_size_bytes / 1024;
    let mut sentences = Vec::new();
    if let Some(first) = variants.first() {
        sentences.push(match &first.amplification {
            Some(read) if plan.own.is_some() => format!(
                "For each byte that the server asks for, the device reads {:.2} ({}).",
                read.estimate, first.title
            ),
            Some(read) => format!(
                "Scattered reads of {block} KiB blocks on a kernel with {page} KiB pages: the device reads \
                 {:.2} times what the server asks for ({}); {} {:.2}.",
                read.estimate,
                first.title,
                predicts(first),
                first.predicted
            ),
            None if first.blocks_read == 0 => format!(
                "Nothing was read from the kernel ({}): all that is looked at was in shared buffers.",
                first.title
            ),
            None => format!(
                "Scattered reads of {block} KiB blocks on a kernel with {page} KiB pages: device reads are \
                 not visible from here; {} {:.2} times what the server asks for.",
                predicts(first),
                first.predicted
            ),
        });
        if let Some(shares) = first.shares.as_ref().filter(|s| s.read_ahead > 0.05) {
            sentences.push(format!("Read-ahead makes {:.2} of it.", shares.read_ahead));
        }
    }
    if plan.own.is_some() {
        sentences.extend(remedies::sentence(&remedies::remedies(plan, variants)));
        return sentences;
    }
    sentences.extend(by_bytes(variants));
    sentences
}

/// Estimates so near to each other are equal, whatever their intervals.
const EQUAL: f64 = 1.05;
/// Ways that are named as equal to another.
const NAMED: usize = 3;

/// Which ways read the fewest bytes and which the most. The same rows are read each way, so bytes compare what they
/// cost; the amplification does not: it is least where most is read for nothing, as a sequential scan does.
fn by_bytes(variants: &[VariantAnalysis]) -> Option<String> {
    let read = variants
        .iter()
        .filter_map(|way| Some((way, way.read_bytes.as_ref()?)));
    let mut read: Vec<_> = read.collect();
    read.sort_by(|a, b| a.1.estimate.total_cmp(&b.1.estimate));
    let ((_, least), (_, most)) = (*read.first()?, *read.last()?);
    let equal = |a: &Estimate, b: &Estimate| {
        let near = a.estimate.max(b.estimate) <= EQUAL * a.estimate.min(b.estimate);
        near || (a.low <= b.high && b.low <= a.high)
    };
    if read.len() < 2 || least.estimate <= 0.0 {
        return None;
    }
    let named = |with: &Estimate| {
        let ways = read.iter().filter(|(_, read)| equal(read, with));
        let titles: Vec<String> = ways.map(|(way, _)| format!("\"{}\"", way.title)).collect();
        let bytes = number::bytes(with.estimate as u64);
        match titles.as_slice() {
            [one] => format!("{one} ({bytes})"),
            [first, rest @ ..] => {
                let shown = rest[..rest.len().min(NAMED)].join(", ");
                let more = match rest.len().saturating_sub(NAMED) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!("{first} ({bytes}; equal: {shown}{more})")
            }
            [] => bytes,
        }
    };
    Some(match equal(least, most) {
        true => format!(
            "All ways read equally many bytes, about {}.",
            number::bytes(least.estimate as u64)
        ),
        false => format!(
            "The fewest bytes are read with {}, the most with {}: {:.1} times as many.",
            named(least),
            named(most),
            most.estimate / least.estimate
        ),
    })
}
