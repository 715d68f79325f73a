//! How many values there are between known ones, and how many rows each has.

use crate::described::Point;
use crate::scale::{Number, Scale};

/// What the values of a column are made of.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Known values, in their order; of a column that refers to another, numbers there.
    pub points: Vec<Point>,
    /// How others are made.
    pub scale: Scale,
    /// Rows with NULL, of which the common values' shares are.
    pub all_rows: u64,
    /// Rows with a value.
    pub rows: u64,
    /// Different values.
    pub distinct: u64,
    /// No two rows have the same.
    pub unique: bool,
}

/// One known value, or made-up ones between two.
pub struct Part {
    /// The value, or the one before.
    pub low: String,
    /// The one after; `None` for the value itself.
    pub high: Option<String>,
    /// How many values.
    pub count: u64,
    /// Rows of all of them.
    pub rows: f64,
}

/// What is between two bounds of the histogram, the first of which belongs to it.
struct Gap {
    from: usize,
    to: usize,
    /// Its values that are known.
    known: u64,
    /// The values that it can have.
    room: u64,
    count: u64,
}

/// Bounds where there are none, no frequencies where all are alike.
pub fn prepare(wanted: &mut Wanted) {
    if wanted.unique {
        wanted.distinct = wanted.rows;
        for point in &mut wanted.points {
            if point.share.take().is_some() {
                point.bounds = point.bounds.max(1);
            }
        }
    }
    wanted.distinct = wanted.distinct.clamp(1, wanted.rows.max(1));
    let is_open = |point: &&Point| point.share.is_none();
    if wanted.points.is_empty()
        && let Some((low, high)) = wanted.scale.ends(wanted.distinct)
    {
        let mut ends = vec![low, high];
        ends.dedup();
        let bound = |value| Point {
            value,
            share: None,
            bounds: 1,
        };
        wanted.points = ends.into_iter().map(bound).collect();
    }
    // A value that only another column knows may be beyond the histogram, which is of a sample.
    if wanted
        .points
        .iter()
        .filter(is_open)
        .all(|point| point.bounds == 0)
    {
        for point in wanted
            .points
            .iter_mut()
            .filter(|point| point.share.is_none())
        {
            point.bounds = 1;
        }
    }
    let first = wanted.points.iter().position(|point| point.share.is_none());
    let last = wanted
        .points
        .iter()
        .rposition(|point| point.share.is_none());
    for at in first.into_iter().chain(last) {
        wanted.points[at].bounds = wanted.points[at].bounds.max(1);
    }
}

/// The values, in their order.
pub fn parts(wanted: &Wanted) -> Vec<Part> {
    let rows = wanted.rows as f64;
    let common: f64 = wanted
        .points
        .iter()
        .filter_map(|point| point.share)
        .sum::<f64>()
        * wanted.all_rows as f64;
    let open: Vec<usize> = (0..wanted.points.len())
        .filter(|at| wanted.points[*at].share.is_none())
        .collect();
    let commons = (wanted.points.len() - open.len()) as u64;
    let rest = if open.is_empty() {
        0.0
    } else {
        (rows - common).max(0.0)
    };
    // The shares are of a sample, and may miss all rows or exceed them.
    let stretch = if common > 0.0 {
        (rows - rest) / common
    } else {
        1.0
    };
    let distinct = wanted
        .distinct
        .saturating_sub(commons)
        .max(u64::from(rest > 0.0));
    let shares = |point: &Point| {
        point
            .share
            .map(|share| share * wanted.all_rows as f64 * stretch)
    };
    if distinct <= open.len() as u64 {
        return thinned(wanted, &open, distinct, rest, &shares);
    }
    let mut gaps = gaps(wanted, distinct);
    fill(&mut gaps, distinct);
    let masses: f64 = wanted
        .points
        .iter()
        .map(|point| f64::from(point.bounds))
        .sum::<f64>()
        - 1.0;
    let mass = if masses > 0.0 { rest / masses } else { rest };
    let mut parts = Vec::new();
    let mut in_gap: Option<(f64, std::vec::IntoIter<u64>)> = None;
    let mut next = gaps.iter().peekable();
    for (at, point) in wanted.points.iter().enumerate() {
        if let Some(gap) = next.next_if(|gap| gap.from == at) {
            let each = mass / gap.count.max(1) as f64;
            in_gap = Some((each, between(wanted, gap).into_iter()));
        }
        let each = in_gap.as_ref().map_or(mass, |(each, _)| *each);
        let own = match shares(point) {
            Some(rows) => rows,
            None => each + mass * f64::from(point.bounds.saturating_sub(1)),
        };
        parts.push(Part {
            low: point.value.clone(),
            high: None,
            count: 1,
            rows: own,
        });
        let made = in_gap
            .as_mut()
            .and_then(|(each, counts)| Some((counts.next()?, *each)));
        if let (Some((count, each)), Some(high)) = (
            made.filter(|(count, _)| *count > 0),
            wanted.points.get(at + 1),
        ) {
            parts.push(Part {
                low: point.value.clone(),
                high: Some(high.value.clone()),
                count,
                rows: each * count as f64,
            });
        }
    }
    extend(wanted, &mut parts);
    parts
}

/// Fewer values than are known: some of these, evenly.
fn thinned(
    wanted: &Wanted,
    open: &[usize],
    distinct: u64,
    rest: f64,
    shares: &dyn Fn(&Point) -> Option<f64>,
) -> Vec<Part> {
    let kept: Vec<usize> = (0..distinct as usize)
        .map(|n| open[(n * open.len() + open.len() / 2) / (distinct as usize).max(1)])
        .collect();
    let part = |(at, point): (usize, &Point)| {
        let rows = match shares(point) {
            Some(rows) => Some(rows),
            None => kept
                .binary_search(&at)
                .is_ok()
                .then_some(rest / distinct.max(1) as f64),
        };
        rows.map(|rows| Part {
            low: point.value.clone(),
            high: None,
            count: 1,
            rows,
        })
    };
    wanted.points.iter().enumerate().filter_map(part).collect()
}

fn gaps(wanted: &Wanted, distinct: u64) -> Vec<Gap> {
    let bounds: Vec<usize> = (0..wanted.points.len())
        .filter(|at| wanted.points[*at].bounds > 0)
        .collect();
    let mut gaps: Vec<Gap> = Vec::new();
    for pair in bounds.windows(2) {
        let known = wanted.points[pair[0]..pair[1]]
            .iter()
            .filter(|point| point.share.is_none())
            .count() as u64;
        let room: u64 = rooms(wanted, pair[0], pair[1], distinct).iter().sum();
        gaps.push(Gap {
            from: pair[0],
            to: pair[1],
            known,
            room: known + room,
            count: 0,
        });
    }
    // The last bound belongs to the last of them.
    if let Some(last) = gaps.last_mut() {
        last.known += 1;
        last.room += 1;
    }
    gaps
}

/// The room between neighbouring points of a gap.
fn rooms(wanted: &Wanted, from: usize, to: usize, most: u64) -> Vec<u64> {
    let pairs = wanted.points[from..=to].windows(2);
    pairs
        .map(|pair| wanted.scale.room(&pair[0].value, &pair[1].value, most))
        .collect()
}

/// Divides so many values among the gaps, to each as many as to another if it has room for them.
fn fill(gaps: &mut [Gap], distinct: u64) {
    let at_level = |gaps: &[Gap], level: u64| -> u64 {
        gaps.iter()
            .map(|gap| level.clamp(gap.known, gap.room.max(gap.known)))
            .sum()
    };
    let (mut low, mut high) = (0, distinct);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        match at_level(gaps, middle) <= distinct {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    let mut left = distinct.saturating_sub(at_level(gaps, low));
    let open = gaps
        .iter()
        .filter(|gap| gap.room > low.max(gap.known))
        .count() as u64;
    let (mut seen, begin) = (0, left);
    for gap in gaps.iter_mut() {
        gap.count = low.clamp(gap.known, gap.room.max(gap.known));
        // What is left is less than one for each, and given to some that lie evenly.
        if gap.room > gap.count && left > 0 {
            seen += 1;
            if seen * begin / open.max(1) > (seen - 1) * begin / open.max(1) {
                gap.count += 1;
                left -= 1;
            }
        }
    }
}

/// How many values are made after each point of a gap.
fn between(wanted: &Wanted, gap: &Gap) -> Vec<u64> {
    let mut left = gap.count.saturating_sub(gap.known);
    let rooms = rooms(wanted, gap.from, gap.to, left);
    let points = &wanted.points[gap.from..=gap.to];
    let weigh = |pair: &[Point]| wanted.scale.distance(&pair[0].value, &pair[1].value);
    let weights: Option<Vec<f64>> = points.windows(2).map(weigh).collect();
    let weights = weights.unwrap_or_else(|| vec![1.0; rooms.len()]);
    let all: f64 = weights.iter().sum();
    let made = left as f64;
    let mut counts: Vec<u64> = Vec::with_capacity(rooms.len());
    for (room, weight) in rooms.iter().zip(weights) {
        let count = ((made * weight / all.max(f64::MIN_POSITIVE)) as u64)
            .min(*room)
            .min(left);
        counts.push(count);
        left -= count;
    }
    for (count, room) in counts.iter_mut().zip(rooms) {
        let more = (room - *count).min(left);
        *count += more;
        left -= more;
    }
    counts
}

/// A unique column needs as many values as rows, and the histogram is of a sample: more at its ends.
fn extend(wanted: &Wanted, parts: &mut Vec<Part>) {
    let made: u64 = parts.iter().map(|part| part.count).sum();
    let mut short = wanted.rows.saturating_sub(made);
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
        return;
    };
    if !wanted.unique || short == 0 {
        return;
    }
    let (first, last) = (first.low.clone(), last.low.clone());
    if let Scale::Number(Number::Integer) = wanted.scale
        && let Ok(least) = first.parse::<i128>()
        && least > 1
    {
        let count = u64::try_from(least - 1).unwrap_or(u64::MAX).min(short);
        let part = Part {
            low: (least - i128::from(count) - 1).to_string(),
            high: Some(first),
            count,
            rows: 0.0,
        };
        parts.insert(0, part);
        short -= count;
    }
    if let Some(end) = wanted.scale.beyond(&last, short + 1).filter(|_| short > 0) {
        parts.push(Part {
            low: last,
            high: Some(end),
            count: short,
            rows: 0.0,
        });
    }
}
