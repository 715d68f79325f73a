//! What lies where in shared memory, for a map of it.

use super::region::Shape;
use super::survey::Survey;

/// Between parts of one thing that were allocated one after the other: alignment to a cache line.
const ALIGNMENT: u64 = 128;

/// A stretch of shared memory with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Area {
    /// What the server calls it.
    pub name: String,
    /// Its first byte.
    pub start: u64,
    /// The byte behind it.
    pub end: u64,
}

impl Area {
    /// Its length in bytes.
    pub fn size(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

impl Survey<'_> {
    /// What the server allocated in its main segment, and what is known to lie there beyond that. One
    /// may lie within another.
    pub fn areas(&self) -> Vec<Area> {
        let mut areas = Vec::new();
        for region in self.allocations.iter().chain(&self.regions) {
            let name = match region.shape {
                Shape::Buckets { .. } => format!("{}: buckets", region.structure),
                Shape::Locks { .. } => "LWLock array".to_owned(),
                _ => region.structure.clone(),
            };
            areas.push(Area {
                name,
                start: region.start,
                end: region.end,
            });
        }
        for (start, (size, kind, _)) in &self.elements {
            let Some((table, _)) = self.table_of(*kind) else {
                continue;
            };
            areas.push(Area {
                name: format!("{table}: elements"),
                start: *start,
                end: start + size,
            });
        }
        joined(areas)
    }
}

/// Neighbours of one name are one.
fn joined(mut areas: Vec<Area>) -> Vec<Area> {
    areas.sort_by(|a, b| a.name.cmp(&b.name).then(a.start.cmp(&b.start)));
    let mut joined: Vec<Area> = Vec::new();
    for area in areas {
        match joined.last_mut() {
            Some(last) if last.name == area.name && area.start <= last.end + ALIGNMENT => {
                last.end = last.end.max(area.end);
            }
            _ => joined.push(area),
        }
    }
    joined.sort_by_key(|area| (area.start, std::cmp::Reverse(area.end)));
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_name_are_one() {
        let area = |name: &str, start, end| Area {
            name: name.to_owned(),
            start,
            end,
        };
        let of = joined(vec![
            area("b", 5000, 6000),
            area("a", 300, 364),
            area("b", 0, 10_000),
            area("a", 200, 264),
            area("a", 2000, 2064),
        ]);
        assert_eq!(
            of,
            [
                area("b", 0, 10_000),
                area("a", 200, 364),
                area("a", 2000, 2064)
            ]
        );
    }
}
