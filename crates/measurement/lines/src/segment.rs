//! The shared memory as a map: what lies where, and which lines of it are used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::gathered::{Counts, rounded};
use crate::names::areas::Area;
use crate::recording::Kind;

/// Lines marked in a part; more would lie upon one another.
const MARKS: usize = 2000;

/// A part of the shared memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Region {
    /// What the server calls it (the names of pg_shmem_allocations, where it lists the part).
    pub name: String,
    /// Where it begins in the server's processes, in hexadecimal.
    pub address: String,
    /// Its length.
    pub size_bytes: u64,
    /// Whether it has a name at all.
    pub known: bool,
    /// Accesses, a transaction.
    pub counts: Counts,
    /// Different lines of it that were used.
    pub lines_used: usize,
    /// Of these, the most taken, by address: at most 2000.
    pub marks: Vec<Mark>,
}

/// A line of a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mark {
    /// From the beginning of the part.
    pub offset_bytes: u64,
    /// Whether all that was used of it is the session's own.
    pub own: bool,
    /// Stores and atomics, a transaction.
    pub takes: f64,
    /// Reads, a transaction.
    pub loads: f64,
}

/// What was seen of a line within one part.
#[derive(Default)]
struct Seen {
    counts: Counts,
    own: bool,
    shared: bool,
}

/// The map, while it is made.
pub(crate) struct Segment {
    areas: Vec<Area>,
    /// Areas from here on are what lies between the others.
    nameless_from: usize,
    /// Where which area begins to be the innermost.
    starts: Vec<(u64, usize)>,
    seen: Vec<BTreeMap<u64, Seen>>,
    line: u64,
}

impl Segment {
    /// A map of these parts, with lines of so many bytes.
    pub(crate) fn new(mut areas: Vec<Area>, line: u64) -> Self {
        areas.retain(|area| area.start < area.end);
        let nameless_from = areas.len();
        let starts = innermost(&mut areas);
        Self {
            seen: areas.iter().map(|_| BTreeMap::new()).collect(),
            areas,
            nameless_from,
            starts,
            line: line.max(1),
        }
    }

    /// Notes an access, and says in which part it was.
    pub(crate) fn note(
        &mut self,
        address: u64,
        own: bool,
        kind: Kind,
        weight: f64,
    ) -> Option<usize> {
        let after = self.starts.partition_point(|(start, _)| *start <= address);
        let (_, area) = self.starts[after.checked_sub(1)?];
        if address >= self.areas[area].end {
            return None;
        }
        let seen = self.seen[area].entry(address / self.line).or_default();
        seen.counts.add(kind, weight);
        seen.own |= own;
        seen.shared |= !own;
        Some(area)
    }

    /// The parts by address; of those without a name only what is used.
    pub(crate) fn regions(self) -> Vec<Region> {
        let mut regions = Vec::new();
        for (number, (area, seen)) in self.areas.into_iter().zip(self.seen).enumerate() {
            let known = number < self.nameless_from;
            if !known && seen.is_empty() {
                continue;
            }
            let mut counts = Counts::default();
            let lines_used = seen.len();
            let mut marks = Vec::new();
            for (at, line) in seen {
                counts.sum(&line.counts);
                marks.push(Mark {
                    offset_bytes: (at * self.line).saturating_sub(area.start),
                    own: line.own && !line.shared,
                    takes: rounded(line.counts.takes()),
                    loads: rounded(line.counts.all() - line.counts.takes()),
                });
            }
            let hotter = |a: &Mark, b: &Mark| {
                b.takes
                    .total_cmp(&a.takes)
                    .then(b.loads.total_cmp(&a.loads))
            };
            marks.sort_by(hotter);
            marks.truncate(MARKS);
            marks.sort_by_key(|mark| mark.offset_bytes);
            regions.push((
                area.start,
                Region {
                    address: format!("{:#x}", area.start),
                    size_bytes: area.size(),
                    name: area.name,
                    known,
                    counts: counts.rounded(),
                    lines_used,
                    marks,
                },
            ));
        }
        regions.sort_by_key(|(start, _)| *start);
        regions.into_iter().map(|(_, region)| region).collect()
    }
}

/// Where which area is the smallest that holds an address. What lies between two is added to them.
fn innermost(areas: &mut Vec<Area>) -> Vec<(u64, usize)> {
    let mut borders: Vec<u64> = areas.iter().flat_map(|a| [a.start, a.end]).collect();
    borders.sort_unstable();
    borders.dedup();
    let mut by_start: Vec<usize> = (0..areas.len()).collect();
    by_start.sort_by_key(|number| areas[*number].start);
    let mut next = by_start.into_iter().peekable();
    let mut open: Vec<usize> = Vec::new();
    let mut starts: Vec<(u64, usize)> = Vec::new();
    let mut before: Option<usize> = None;
    for window in borders.windows(2) {
        let (start, end) = (window[0], window[1]);
        open.retain(|number| areas[*number].end > start);
        while let Some(number) = next.next_if(|number| areas[*number].start <= start) {
            open.push(number);
        }
        let smallest = open.iter().copied().min_by_key(|n| areas[*n].size());
        let holder = match (smallest, before) {
            (Some(number), _) => {
                before = Some(number);
                number
            }
            (None, Some(last)) => {
                areas.push(Area {
                    name: format!("memory behind {}", areas[last].name),
                    start,
                    end,
                });
                areas.len() - 1
            }
            (None, None) => continue,
        };
        if starts.last().is_none_or(|(_, last)| *last != holder) {
            starts.push((start, holder));
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(name: &str, start: u64, end: u64) -> Area {
        Area {
            name: name.to_owned(),
            start,
            end,
        }
    }

    #[test]
    fn an_access_belongs_to_the_smallest_part_that_holds_it() {
        let mut segment = Segment::new(
            vec![
                area("outer", 1000, 3000),
                area("inner", 1500, 1600),
                area("next", 4000, 5000),
                area("empty", 4000, 4000),
            ],
            64,
        );
        for address in [999, 1000, 1500, 1599, 1600, 3000, 4999, 5000] {
            segment.note(address, false, Kind::Atomic, 1.0);
        }
        let regions = segment.regions();
        let said: Vec<(&str, f64, bool)> = regions
            .iter()
            .map(|r| (r.name.as_str(), r.counts.atomics, r.known))
            .collect();
        assert_eq!(
            said,
            [
                ("outer", 2.0, true),
                ("inner", 2.0, true),
                ("memory behind outer", 1.0, false),
                ("next", 1.0, true)
            ]
        );
        // A line that begins before its part is marked where the part begins.
        assert_eq!(regions[0].marks[0].offset_bytes, 0);
        assert_eq!(regions[0].marks[1].offset_bytes, 600);
        assert_eq!(regions[1].lines_used, 2);
    }

    #[test]
    fn what_is_used_by_others_is_not_the_sessions_own() {
        let mut segment = Segment::new(vec![area("a", 0, 256)], 64);
        segment.note(0, true, Kind::Store, 0.5);
        segment.note(8, false, Kind::Load, 2.0);
        segment.note(64, true, Kind::Load, 1.0);
        let regions = segment.regions();
        let marks = &regions[0].marks;
        assert_eq!(
            (marks[0].own, marks[0].takes, marks[0].loads),
            (false, 0.5, 2.0)
        );
        assert_eq!((marks[1].own, marks[1].takes), (true, 0.0));
    }
}
