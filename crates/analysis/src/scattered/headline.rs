//! What a run of scattered reads says in sentences.

use pgassay_model::scattered::ScatteredPlan;

use super::{VariantAnalysis, remedies};

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
    let cheapest = variants
        .iter()
        .filter(|v| v.scan != "Seq Scan")
        .filter_map(|v| Some((v, v.amplification.as_ref()?.estimate)))
        .min_by(|a, b| a.1.total_cmp(&b.1));
    let dearest = variants
        .iter()
        .filter_map(|v| Some((v, v.amplification.as_ref()?.estimate)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    if let (Some((least, low)), Some((most, high))) = (cheapest, dearest)
        && high > low * 1.05
    {
        sentences.push(format!(
            "Least is read with \"{}\" ({low:.2}), most with \"{}\" ({high:.2}).",
            least.title, most.title
        ));
    }
    sentences
}
