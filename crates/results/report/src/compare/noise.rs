//! What equal servers show here, and how long a difference takes.

use pgassay_analysis::compare::Compare;
use pgassay_analysis::compare::signed;

use super::place;
use super::verdict::percent;
use crate::document::{Block, Cell, Column, Depth, Section, Table, Value};
use crate::number;

/// The noise floor of each point and the forecast that was made from it.
pub fn section(compare: &Compare) -> Option<Section> {
    let rows: Vec<Vec<Cell>> = compare
        .results
        .iter()
        .filter(|result| result.arm == 1)
        .filter_map(|result| {
            let floor = result.noise_floor()?;
            let forecast = result.forecast.as_ref();
            let missing = || Cell {
                value: Value::Missing,
                marks: vec![],
            };
            let count = |n: Option<u64>| n.map_or_else(missing, |n| Cell::plain(number::count(n)));
            Some(vec![
                Cell::plain(place(compare, result)),
                Cell::plain(number::count(floor.pairs as u64)),
                Cell::plain(percent(floor.pair_spread)),
                Cell::plain(format!(
                    "{} to {}",
                    signed(floor.ratio.low),
                    signed(floor.ratio.high)
                )),
                result
                    .compared
                    .pair_spread()
                    .map_or_else(missing, |s| Cell::plain(percent(s))),
                count(forecast.map(|f| f.pairs_promised)),
                count(forecast.map(|f| f.pairs_equivalence)),
            ])
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let mut blocks = vec![Block::Table(Table {
        caption: "Two servers started from A's target were measured beside each other, like the \
                  arms. The pairs needed are a forecast from their spread, made before the arms \
                  were compared; the first allows for the spread's being an estimate itself."
            .to_owned(),
        columns: vec![
            Column::words("at", 0),
            Column::figures("pairs", "", 1),
            Column::figures("spread", "of a pair", 0),
            Column::figures("equal servers", "interval", 0),
            Column::figures("spread", "of the arms' pairs", 1),
            Column::figures("needed", "to show δ", 2),
            Column::figures("needed", "for equivalence", 3),
        ],
        rows,
        folded: false,
        marks: vec![],
    })];
    let launches = compare
        .results
        .iter()
        .filter_map(|r| Some((place(compare, r), r.compared.launch_spread?)));
    for (at, spread) in launches {
        blocks.push(Block::Text(format!(
            "At {at} launches differ by {} (standard deviation of the difference, beyond what \
             their pairs explain), the pairs of one launch by {}.",
            percent(spread.between),
            percent(spread.within)
        )));
    }
    Some(Section {
        id: "noise",
        title: "The noise floor",
        depth: Depth::Evidence,
        blocks,
    })
}
