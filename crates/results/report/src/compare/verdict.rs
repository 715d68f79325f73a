//! The verdict at each point, in one row.

use pgassay_analysis::compare::Compare;
use pgassay_analysis::compare::model::PointResult;
use pgassay_analysis::compare::{companion, signed, word};
use pgassay_analysis::metrics::THROUGHPUT;
use pgassay_analysis::stats::{Comparison, Verdict};

use super::{others, place};
use crate::document::{
    Badge, Block, Cell, Column, Compared, Depth, Forest, Notes, Rating, Section, Table,
};
use crate::number;

/// The verdict over all arms and points, in a word.
pub fn badge(compare: &Compare) -> Badge {
    Badge {
        subject: "verdict",
        judgement: word(compare.metric, compare.verdict),
        rating: match compare.verdict {
            Verdict::Faster | Verdict::Equivalent => Rating::Good,
            Verdict::Inconclusive => Rating::Fair,
            Verdict::Slower | Verdict::NotComparable => Rating::Bad,
        },
        why: String::new(),
    }
}

/// The verdict at each point as a picture, before a word is read.
pub fn forest(compare: &Compare) -> Option<Forest> {
    let rows: Vec<Compared> = (compare.results.iter())
        .map(|result| row_of(compare, result))
        .collect();
    let first = compare.results.first()?;
    let spoken: Vec<String> = rows
        .iter()
        .map(|row| format!("{}: {}, {}", row.label, row.verdict, row.figures()))
        .collect();
    let heading = compare.metric.heading;
    let other = match others(&compare.analysis) {
        1 => first.label.as_str(),
        _ => "each arm",
    };
    Some(Forest {
        id: "forest".to_owned(),
        title: format!("Difference of {other} from A: {heading}"),
        alternative: format!("{}.", spoken.join("; ")),
        caption:
            "Each bar is an interval at 95 %, its mark the estimate. What the noise covers, equal \
                  servers show, too; within the dashed lines no difference matters."
                .to_owned(),
        axis: format!("{heading}, difference from A, logarithmic"),
        delta: first.compared.rule.delta,
        rows,
    })
}

fn row_of(compare: &Compare, result: &PointResult) -> Compared {
    let comparison = &result.compared;
    let ratio = &comparison.ratio;
    Compared {
        label: place(compare, result),
        ratio: (ratio.estimate, ratio.low, ratio.high),
        floor: result.noise_floor().map(|floor| floor.floor),
        change: change(comparison),
        ends: ends(comparison),
        verdict: word(compare.metric, comparison.verdict),
        rating: match comparison.verdict {
            Verdict::Faster => Some(Rating::Good),
            Verdict::Slower => Some(Rating::Bad),
            _ => None,
        },
    }
}

/// Every arm against A at every client count.
pub fn section(compare: &Compare, notes: &mut Notes) -> Option<Section> {
    let several = others(&compare.analysis) > 1;
    let work = compare.analysis.main().id.work();
    let (metric, beside) = (compare.metric, companion(compare.metric));
    let unit = match metric == THROUGHPUT {
        true => work.rate,
        false => metric.unit,
    };
    let mut columns = vec![Column::figures(&format!("{}s", work.who), "", 0)];
    if several {
        columns.push(Column::words("arm", 0));
    }
    columns.extend([
        Column::figures("verdict", "", 0),
        Column::figures(metric.heading, "of A", 0),
        Column::figures("interval", "", 1),
        Column::figures("A", unit, 2),
        Column::figures("the other", unit, 2),
        Column::figures("p", "", 6),
        Column::figures(beside.heading, "of A", 4),
        Column::figures("interval", "of it", 5),
        Column::figures("pairs", "", 3),
        Column::figures("spread", "of a pair", 7),
        Column::figures("noise floor", "", 8),
    ]);
    let rows = compare
        .results
        .iter()
        .map(|result| row(compare, result, several, notes))
        .collect();
    let mut blocks = vec![Block::Table(Table {
        caption: caption(compare),
        columns,
        rows,
        folded: false,
        marks: vec![],
    })];
    for scaling in &compare.scaling {
        blocks.extend(scaling.words.iter().cloned().map(Block::Text));
        if let (Some(why), true) = (&scaling.refused, scaling.words.is_empty()) {
            blocks.push(Block::Text(format!(
                "Whether scaling changed is not said: {why}."
            )));
        }
    }
    (!compare.results.is_empty()).then_some(Section {
        id: "verdict",
        title: "The verdict",
        depth: Depth::Summary,
        blocks,
    })
}

fn row(compare: &Compare, result: &PointResult, several: bool, notes: &mut Notes) -> Vec<Cell> {
    let at = place(compare, result);
    let comparison = &result.compared;
    let beside = result.others.get(&companion(compare.metric));
    let marks = notes.marks(
        &comparison.ratio.warnings,
        &format!("the comparison at {at}"),
    );
    let mut row = vec![Cell::plain(number::count(u64::from(result.clients)))];
    if several {
        row.push(Cell::plain(&result.label));
    }
    row.extend([
        Cell::plain(word(compare.metric, comparison.verdict)).marked(marks),
        Cell::plain(change(comparison)),
        Cell::plain(ends(comparison)),
        notes.maybe(result.a.as_ref(), &format!("A at {at}")),
        notes.maybe(result.b.as_ref(), &format!("{} at {at}", result.label)),
        Cell::plain(p_value(comparison)),
        Cell::plain_or_missing(beside.map(change)),
        Cell::plain_or_missing(beside.map(ends)),
        Cell::plain(number::count(comparison.pairs as u64)),
        Cell::plain_or_missing(comparison.pair_spread().map(percent)),
        Cell::plain_or_missing(
            result
                .noise_floor()
                .map(|floor| format!("±{}", percent(floor.floor))),
        ),
    ]);
    row
}

fn caption(compare: &Compare) -> String {
    let delta = compare
        .results
        .first()
        .map_or(0.0, |r| r.compared.rule.delta);
    let family = match compare.results.len() {
        0 | 1 => String::new(),
        n => format!(" The {n} comparisons are one family (Holm's correction)."),
    };
    let launches = compare.plan.as_ref().map_or(1, |plan| plan.launches);
    let unit = match (launches, compare.plan.is_some()) {
        (_, false) => "two recorded sides, not interleaved",
        (1, _) => "pairs of slices measured side by side in random order",
        _ => "launches, each of all servers anew, initdb included",
    };
    format!(
        "Each against A, over {unit}. The difference is the Hodges–Lehmann estimate, its interval \
         inverts the exact signed-rank test at 95 %. Equivalent means that the 90 % interval lies \
         within ±{}.{family} No pair was dropped. The noise floor is how far the same analysis of \
         equal servers reaches.",
        percent(delta)
    )
}

/// The change of B against A.
pub fn change(comparison: &Comparison) -> String {
    signed(comparison.ratio.estimate)
}

/// The interval of the change.
pub fn ends(comparison: &Comparison) -> String {
    format!(
        "{} to {}",
        signed(comparison.ratio.low),
        signed(comparison.ratio.high)
    )
}

/// The p value, by the family's correction where there is one.
pub fn p_value(comparison: &Comparison) -> String {
    let p = comparison.p_family.unwrap_or(comparison.p);
    match p {
        p if p < 0.0001 => "<0.0001".to_owned(),
        p if p < 0.01 => format!("{p:.4}"),
        p => format!("{p:.2}"),
    }
}

/// `4.2 %` of 0.042.
pub fn percent(share: f64) -> String {
    match 100.0 * share {
        p if p < 10.0 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}
