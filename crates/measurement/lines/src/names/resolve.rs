//! From an address to its name.

use super::layout::Layout;
use super::region::{BUFFERS, Region, Shape, find, label};
use super::survey::Survey;
use super::{Name, Own, hash};

impl Survey<'_> {
    /// The name of an address.
    pub fn name(&self, address: u64) -> Name {
        if let Some(name) = self.element(address) {
            return name;
        }
        let found = find(&self.regions, address).or_else(|| find(&self.allocations, address));
        if let Some(region) = found {
            return self.within(region, address);
        }
        if !self.in_main(address) {
            return self.elsewhere(address);
        }
        let after = self.allocations.partition_point(|a| a.start <= address);
        match after.checked_sub(1).map(|at| &self.allocations[at]) {
            Some(before) => Name::unknown(format!("memory behind {}", before.structure)),
            None => Name::unknown("memory before all that is listed"),
        }
    }

    /// The table that an element belongs to, and its partitions.
    pub(super) fn table_of(&self, kind: usize) -> Option<&(String, u64)> {
        self.tables.get(kind & !BUFFERS)
    }

    fn element(&self, address: u64) -> Option<Name> {
        let (start, (size, kind, bucket)) = self.elements.range(..=address).next_back()?;
        if address >= start + size {
            return None;
        }
        let (table, partitions) = self.table_of(*kind)?;
        let element = match bucket {
            None => "free element".to_owned(),
            Some(_) if kind & BUFFERS != 0 => {
                // A buffer's tag is its key, its number the value: 20 bytes and 4.
                let buffer = self.memory.u32(start + hash::KEY + 20);
                buffer.map_or("element".to_owned(), |number| {
                    format!("entry of {}", self.buffer(u64::from(number)).0)
                })
            }
            Some(bucket) if *partitions > 0 => {
                format!("element in partition {}", bucket % partitions)
            }
            Some(bucket) => format!("element in bucket {bucket}"),
        };
        Some(Name {
            structure: table.clone(),
            group: table.clone(),
            element,
            field: match address - start {
                0..8 => "link".to_owned(),
                8..16 => "hash value".to_owned(),
                _ => "entry".to_owned(),
            },
            known: true,
            own: None,
        })
    }

    fn elsewhere(&self, address: u64) -> Name {
        let segment = self.session.others.range(..=address).next_back();
        let Some((_, path)) = segment else {
            return Name::unknown("unknown segment");
        };
        let name = path.rsplit('/').next().unwrap_or(path);
        let statistics = name
            .strip_prefix("PostgreSQL.")
            .and_then(|handle| handle.parse().ok());
        match statistics.is_some_and(|handle| self.is_of_statistics(handle)) {
            true => Name {
                structure: "statistics".to_owned(),
                group: "statistics".to_owned(),
                element: format!("in segment {name}"),
                field: String::new(),
                known: true,
                own: None,
            },
            false => Name::unknown(format!("dynamic segment {name}")),
        }
    }

    /// Whether the area of the cumulative statistics (15 on) lists a dynamic segment as its own.
    fn is_of_statistics(&self, handle: u32) -> bool {
        let area = self
            .allocations
            .iter()
            .find(|a| a.structure == "Shared Memory Stats");
        let (Some(area), Some(control)) = (area, self.layouts.get("PgStat_ShmemControl")) else {
            return false;
        };
        // The area's header begins with the handles of its segments.
        (area.start + control.size..area.end.min(area.start + control.size + 16_384))
            .step_by(4)
            .any(|at| self.memory.u32(at) == Some(handle))
    }

    fn within(&self, region: &Region, address: u64) -> Name {
        let offset = address - region.start;
        let mut name = Name {
            structure: region.structure.clone(),
            group: region.structure.clone(),
            element: String::new(),
            field: String::new(),
            known: true,
            own: None,
        };
        let field = |layout: &Layout, offset: u64| {
            layout
                .at(offset)
                .map_or("padding".to_owned(), |m| m.name.clone())
        };
        match &region.shape {
            Shape::Whole => {}
            Shape::One(layout, inner) => match layout.at(offset) {
                Some(member) => {
                    name.field = member.name.clone();
                    if let Some(inner) = inner.iter().find(|i| i.member == member.name) {
                        let stride = member.stride.max(1);
                        let number = (offset - member.offset) / stride;
                        let number = inner.period.map_or(number, |period| number % period.max(1));
                        let mine = inner.own == Some(number);
                        name.element = label(inner.what, number, inner.own);
                        if let Some(layout) = &inner.layout {
                            name.field = field(layout, (offset - member.offset) % stride);
                        }
                        let base = region.start + (offset - number * stride);
                        name.own = mine.then_some(Own {
                            base: base - (offset - member.offset) % stride,
                            stride,
                            shared_by: None,
                        });
                    }
                }
                None if offset >= layout.size => name.field = "data".to_owned(),
                None => name.field = "padding".to_owned(),
            },
            Shape::Row {
                stride,
                layout,
                what,
                own,
            } => {
                let number = offset / (*stride).max(1);
                name.element = label(what, number, *own);
                if let Some(layout) = layout {
                    name.field = field(layout, offset % stride);
                }
                if *own == Some(number) {
                    name.own = Some(Own {
                        base: region.start,
                        stride: *stride,
                        shared_by: what.is_empty().then_some(8),
                    });
                }
            }
            Shape::Locks { stride, names } => {
                name.element = names
                    .get((offset / stride) as usize)
                    .cloned()
                    .unwrap_or_default();
                let tranche = name.element.split(' ').next().unwrap_or_default();
                name.group = format!("LWLock {tranche}");
                if let Some(layout) = self.layouts.get("LWLock") {
                    name.field = field(&layout, offset % stride);
                }
            }
            Shape::BufferLocks { stride, names } => {
                let number = offset / stride;
                let (buffer, what) = self.buffer(number / 2);
                let of = names[(number % 2) as usize];
                name.structure = format!("{of} of");
                name.element = buffer;
                name.group = format!("{of} of {what}");
                if let Some(layout) = self.layouts.get("LWLock") {
                    name.field = field(&layout, offset % stride);
                }
            }
            Shape::Descriptors(layout) => {
                name.structure = "descriptor of".to_owned();
                let (buffer, what) = self.buffer(offset / 64);
                name.element = buffer;
                name.group = format!("descriptor of {what}");
                name.field = field(layout, offset % 64);
            }
            Shape::Blocks => {
                let size = self.session.block_size.max(1);
                name.structure = "page of".to_owned();
                let (buffer, what) = self.buffer(offset / size);
                name.element = buffer;
                name.group = format!("page of {what}");
                name.field = self.part_of_page(region.start + offset / size * size, offset % size);
            }
            Shape::Buckets { first, partitions } => {
                let number = first + offset / 8;
                name.element = match partitions {
                    0 => format!("bucket {number}"),
                    n => format!("bucket {number} (partition {})", number % n),
                };
            }
        }
        name
    }

    /// `buffer 17 (root of pgbench_accounts_pkey, block 3)` by the descriptor's tag, and `root of
    /// pgbench_accounts_pkey`.
    fn buffer(&self, number: u64) -> (String, String) {
        let known = || {
            let descriptors = self
                .allocations
                .iter()
                .find(|a| a.structure == "Buffer Descriptors")?;
            let tag = descriptors.start + number * 64;
            let word = |at: u64| self.memory.u32(tag + at);
            let (database, file, fork, block) = (word(4)?, word(8)?, word(12)?, word(16)?);
            if file == 0 {
                return None;
            }
            let relation = self.relations.get((database, file));
            let name = match relation {
                Some(relation) => relation.name.clone(),
                None => format!("file {file} of database {database}"),
            };
            let fork = match fork {
                0 => "",
                1 => "free space map of ",
                2 => "visibility map of ",
                _ => "init fork of ",
            };
            let role = match relation {
                Some(relation) if relation.method == "btree" => {
                    self.role(number).unwrap_or_default()
                }
                _ => "",
            };
            Some((format!("{role}{fork}{name}"), block))
        };
        match known() {
            Some((what, block)) => (
                format!("buffer {} ({what}, block {block})", number + 1),
                what,
            ),
            None => (
                format!("buffer {}", number + 1),
                "an empty buffer".to_owned(),
            ),
        }
    }

    /// What a page is in its B-tree (BTPageOpaqueData, access/nbtree.h).
    fn role(&self, number: u64) -> Option<&'static str> {
        let blocks = self
            .allocations
            .iter()
            .find(|a| a.structure == "Buffer Blocks")?;
        let page = blocks.start + number * self.session.block_size;
        let special = u64::from(self.memory.u16(page + 16)?);
        let flags = self.memory.u16(page + special + 12)?;
        Some(match flags {
            flags if flags & 8 != 0 => "meta page of ",
            flags if flags & 2 != 0 => "root of ",
            flags if flags & 1 != 0 => "leaf of ",
            _ => "inner page of ",
        })
    }

    /// PageHeaderData, storage/bufpage.h.
    fn part_of_page(&self, page: u64, offset: u64) -> String {
        let lower = self.memory.u16(page + 12).map_or(24, u64::from);
        let special = self.memory.u16(page + 16).map_or(u64::MAX, u64::from);
        match offset {
            0..24 => "page header",
            _ if offset < lower => "line pointers",
            _ if offset >= special => "special space",
            _ => "tuples",
        }
        .to_owned()
    }
}
