//! The server's hash tables in shared memory (src/backend/utils/hash/dynahash.c): a header, a
//! directory of segments, segments of buckets, chains of elements.

use super::layout::Layout;
use super::memory::Memory;

/// More elements than a table has by any setting: a chain that leads astray ends.
const MOST: u64 = 1 << 28;
/// The longest chain that is followed.
const LONGEST: usize = 100_000;

/// What a walk through a table found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Addresses of the segments.
    pub segments: Vec<u64>,
    /// Buckets in a segment.
    pub buckets_each: u64,
    /// Elements in use: address and number of the bucket.
    pub elements: Vec<(u64, u64)>,
    /// Free elements.
    pub free: Vec<u64>,
    /// Length of an element.
    pub element_size: u64,
    /// Partitions of its locks; 0 for none.
    pub partitions: u64,
}

/// Bytes before an element's key: link and hash value.
pub const KEY: u64 = 16;

/// Walks through the table whose header is at `header`; `None` where there is none.
pub fn walk(memory: &Memory<'_>, header: u64, layout: &Layout) -> Option<Table> {
    let at = |name: &str| layout.offset(name).map(|offset| header + offset);
    let long = |name: &str| memory.u64(at(name)?);
    let (segments, each) = (long("nsegs")?, long("ssize")?);
    let last = u64::from(memory.u32(at("max_bucket")?)?);
    let entry = long("entrysize")?;
    let plausible = each.is_power_of_two() && each <= 1 << 20 && last < MOST && entry < 1 << 20;
    if !plausible || segments == 0 || segments > MOST / each || last >= segments * each {
        return None;
    }
    let mut table = Table {
        buckets_each: each,
        element_size: KEY + entry.next_multiple_of(8),
        partitions: long("num_partitions")?,
        ..Table::default()
    };
    let directory = header + layout.size;
    for number in 0..segments {
        table.segments.push(memory.u64(directory + number * 8)?);
    }
    for bucket in 0..=last {
        let segment = *table.segments.get((bucket / each) as usize)?;
        let mut element = memory.u64(segment + bucket % each * 8)?;
        for _ in 0..LONGEST {
            if element == 0 {
                break;
            }
            table.elements.push((element, bucket));
            element = memory.u64(element)?;
        }
    }
    let lists = layout.members.iter().find(|m| m.name == "freeList")?;
    let count = if table.partitions == 0 {
        1
    } else {
        lists.size / lists.stride.max(1)
    };
    for list in 0..count {
        // spinlock, count, first free element
        let mut element = memory.u64(header + lists.offset + list * lists.stride + 16)?;
        while element != 0 && (table.free.len() as u64) < MOST {
            table.free.push(element);
            element = memory.u64(element)?;
        }
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::super::layout::Layouts;
    use super::*;

    /// A table of four buckets in one segment, two elements in bucket 2, one free.
    #[test]
    fn a_table_made_by_hand() {
        let layout = Layouts::of(150_000).get("HASHHDR").unwrap();
        let mut bytes = vec![0u8; 1 << 16];
        let header = 0x1000u64;
        let directory = header + layout.size;
        let mut put = |at: u64, value: u64| {
            bytes[at as usize..at as usize + 8].copy_from_slice(&value.to_ne_bytes());
        };
        let member = |name: &str| header + layout.offset(name).unwrap();
        put(member("nsegs"), 1);
        put(member("ssize"), 256);
        put(member("max_bucket"), 3);
        put(member("entrysize"), 20);
        put(member("num_partitions"), 128);
        put(directory, 0x4000);
        put(0x4000 + 16, 0x5000);
        put(0x5000, 0x5028);
        put(header + 16, 0x5050);
        let read = |at: u64, into: &mut [u8]| {
            let from = bytes.get(at as usize..at as usize + into.len());
            from.is_some_and(|from| {
                into.copy_from_slice(from);
                true
            })
        };
        let memory = Memory::new(&read);
        let table = walk(&memory, header, &layout).unwrap();
        assert_eq!(table.elements, [(0x5000, 2), (0x5028, 2)]);
        assert_eq!(
            (table.free.as_slice(), table.element_size),
            (&[0x5050][..], 40)
        );
        assert_eq!(walk(&memory, 0x8000, &layout), None);
        assert_eq!(walk(&memory, 1 << 40, &layout), None);
    }
}
