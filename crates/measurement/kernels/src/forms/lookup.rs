//! A block read that is in the buffers already, as ReadBuffer does up to 18: its tag hashed, the buffer found in
//! the table under the lock of its partition, pinned, and all of it counted; then released.

use super::buffers::{Buffers, Tag, pin, tag};
use super::lwlock::{LwLock, Mode};
use crate::kernel::{Kernel, Me};
use crate::session::Probe;
use crate::sync::{Padded, many};

/// Locks of the table (NUM_BUFFER_PARTITIONS); few where each costs loom an object.
const PARTITIONS: usize = if cfg!(feature = "loom") { 2 } else { 128 };
/// Buffers, all of which hold a block of the relation.
const BUFFERS: usize = if cfg!(feature = "loom") { 2 } else { 1024 };
/// Buckets of a segment of the directory, a power of two (DEF_SEGSIZE).
const SEGMENT: usize = 256;
/// The end of a chain.
const NONE: u32 = u32::MAX;
/// No block: one behind the last is asked for (P_NEW).
const NEW: u32 = u32::MAX;
/// A relation of this session alone (RELPERSISTENCE_TEMP).
const TEMPORARY: u8 = b't';

/// One buffer's element.
struct Element {
    next: u32,
    hash: u32,
    tag: Tag,
    number: u32,
}

/// The table (dynahash): a directory of segments of buckets, each a chain of elements. How keys are hashed and
/// compared the table knows, so that both are calls that no compiler sees through.
struct Table {
    directory: Box<[Box<[u32]>]>,
    elements: Box<[Element]>,
    high_mask: u32,
    low_mask: u32,
    last_bucket: u32,
    key_words: usize,
    hash: fn(&[u32]) -> u32,
    equal: fn(&[u32], &[u32]) -> bool,
}

impl Table {
    fn new(buffers: usize) -> Self {
        let buckets = buffers.next_power_of_two().max(SEGMENT);
        let mut table = Self {
            directory: many(buckets / SEGMENT, || many(SEGMENT, || NONE)),
            elements: Box::default(),
            high_mask: buckets as u32 * 2 - 1,
            low_mask: buckets as u32 - 1,
            last_bucket: buckets as u32 - 1,
            key_words: std::hint::black_box(size_of::<Tag>() / 4),
            hash: std::hint::black_box(hash_words),
            equal: std::hint::black_box(equal_words),
        };
        let mut elements = Vec::new();
        for block in 0..buffers as u32 {
            let tag = tag(block);
            let hash = hash_words(&tag);
            let bucket = table.bucket(hash);
            let first = &mut table.directory[bucket / SEGMENT][bucket % SEGMENT];
            elements.push(Element {
                next: std::mem::replace(first, block),
                hash,
                tag,
                number: block + 1,
            });
        }
        table.elements = elements.into();
        table
    }

    /// get_hash_value.
    #[inline(never)]
    fn hash_of(&self, tag: &Tag) -> u32 {
        (self.hash)(&tag[..self.key_words])
    }

    /// calc_bucket.
    #[inline(always)]
    fn bucket(&self, hash: u32) -> usize {
        let bucket = hash & self.high_mask;
        match bucket > self.last_bucket {
            true => (bucket & self.low_mask) as usize,
            false => bucket as usize,
        }
    }

    /// hash_search_with_hash_value, to find.
    #[inline(never)]
    fn search(&self, tag: &Tag, hash: u32) -> Option<&Element> {
        let bucket = self.bucket(hash);
        let mut at = self.directory[bucket / SEGMENT][bucket % SEGMENT];
        while at != NONE {
            let element = &self.elements[at as usize];
            let (key, wanted) = (&element.tag[..self.key_words], &tag[..self.key_words]);
            if element.hash == hash && (self.equal)(key, wanted) {
                return Some(element);
            }
            at = element.next;
        }
        None
    }

    /// BufTableLookup.
    #[inline(never)]
    fn find(&self, tag: &Tag, hash: u32) -> Option<u32> {
        self.search(tag, hash).map(|element| element.number)
    }
}

/// memcmp, by a pointer.
fn equal_words(one: &[u32], other: &[u32]) -> bool {
    one == other
}

/// tag_hash: Jenkins's lookup3 (2006, public domain) of whole words, as hash_bytes begins it.
#[inline(never)]
fn hash_words(words: &[u32]) -> u32 {
    let begin = 0x9E37_79B9u32
        .wrapping_add(words.len() as u32 * 4)
        .wrapping_add(3_923_095);
    let (mut a, mut b, mut c) = (begin, begin, begin);
    let mut rest = words;
    while let [first, second, third, others @ ..] = rest {
        a = a.wrapping_add(*first);
        b = b.wrapping_add(*second);
        c = c.wrapping_add(*third);
        (a, c) = mix(a, b, c, 4);
        (b, a) = mix(b, c, a, 6);
        (c, b) = mix(c, a, b, 8);
        (a, c) = mix(a, b, c, 16);
        (b, a) = mix(b, c, a, 19);
        (c, b) = mix(c, a, b, 4);
        rest = others;
    }
    if let [first, others @ ..] = rest {
        a = a.wrapping_add(*first);
        b = b.wrapping_add(others.first().copied().unwrap_or(0));
    }
    c = settle(c, b, 14);
    a = settle(a, c, 11);
    b = settle(b, a, 25);
    c = settle(c, b, 16);
    a = settle(a, c, 4);
    b = settle(b, a, 14);
    settle(c, b, 24)
}

/// A sixth of a round: what becomes of the first and of the last.
#[inline(always)]
fn mix(first: u32, second: u32, last: u32, turns: u32) -> (u32, u32) {
    (
        first.wrapping_sub(last) ^ last.rotate_left(turns),
        last.wrapping_add(second),
    )
}

/// A step of the end.
#[inline(always)]
fn settle(one: u32, by: u32, turns: u32) -> u32 {
    (one ^ by).wrapping_sub(by.rotate_left(turns))
}

/// What of a relation a read looks at.
struct Relation {
    persistence: u8,
    of_this_session: bool,
    storage: Option<Storage>,
}

/// Where a relation lies, and to which session alone it belongs, if to one.
struct Storage {
    place: [u32; 3],
    session: Option<u32>,
    blocks: u32,
}

/// What ReadBuffer passes on with each block. No constants: the functions behind it are for other cases, too.
struct Usual {
    fork: u32,
    /// It is to be emptied, not read (RBM_ZERO_AND_LOCK).
    emptied: bool,
    of_ring: bool,
}

/// One block read again and again.
pub(crate) struct Read {
    usual: Padded<Usual>,
    relation: Padded<Relation>,
    table: Padded<Table>,
    partitions: Box<[Padded<LwLock>]>,
    buffers: Buffers,
}

impl Read {
    pub(crate) fn new(threads: usize) -> Self {
        let [tablespace, database, number, _, _] = tag(0);
        Self {
            usual: Padded(Usual {
                fork: 0,
                emptied: false,
                of_ring: false,
            }),
            relation: Padded(Relation {
                persistence: b'p',
                of_this_session: false,
                storage: Some(Storage {
                    place: [tablespace, database, number],
                    session: None,
                    blocks: BUFFERS as u32,
                }),
            }),
            table: Padded(Table::new(BUFFERS)),
            partitions: many(PARTITIONS, || Padded(LwLock::new(threads))),
            buffers: Buffers::new(BUFFERS),
        }
    }

    /// ReadBuffer.
    #[inline(never)]
    fn read(&self, relation: &Relation, block: u32, me: &mut Me) -> u32 {
        let Usual {
            fork,
            emptied,
            of_ring,
        } = *self.usual;
        self.read_extended(relation, fork, block, emptied, of_ring, me)
    }

    /// ReadBufferExtended.
    #[inline(never)]
    fn read_extended(
        &self,
        relation: &Relation,
        fork: u32,
        block: u32,
        emptied: bool,
        of_ring: bool,
        me: &mut Me,
    ) -> u32 {
        let Relation {
            persistence,
            of_this_session,
            ..
        } = *relation;
        assert!(
            persistence != TEMPORARY || of_this_session,
            "a temporary table of another session"
        );
        if let Some(counted) = &mut me.reads.of_relation {
            counted.read += 1;
        }
        let storage = relation.storage.as_ref().expect("the relation is open");
        let mut hit = false;
        let number = self.read_common(storage, fork, block, emptied, of_ring, &mut hit, me);
        if let (true, Some(counted)) = (hit, &mut me.reads.of_relation) {
            counted.hit += 1;
        }
        number
    }

    /// ReadBuffer_common.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "as many as the server's has")]
    fn read_common(
        &self,
        storage: &Storage,
        fork: u32,
        mut block: u32,
        emptied: bool,
        of_ring: bool,
        hit: &mut bool,
        me: &mut Me,
    ) -> u32 {
        *hit = false;
        me.pins.enlarge();
        me.probes.pass(Probe::ReadStarts);
        if block == NEW {
            block = storage.blocks;
        }
        assert!(storage.session.is_none(), "no local buffers here");
        let number = self.allocate(storage, fork, block, of_ring, me);
        let number = number.expect("the block is in the buffers");
        me.reads.hits += 1;
        *hit = true;
        me.reads.page_hits += 1;
        if me.reads.delayed {
            me.reads.cost += 1;
        }
        me.probes.pass(Probe::ReadDone);
        assert!(!emptied, "no block is emptied here");
        number
    }

    /// BufferAlloc, of a block that is there.
    #[inline(always)]
    fn allocate(
        &self,
        storage: &Storage,
        fork: u32,
        block: u32,
        of_ring: bool,
        me: &mut Me,
    ) -> Option<u32> {
        let [tablespace, database, number] = storage.place;
        let tag = [tablespace, database, number, fork, block];
        let hash = self.table.hash_of(&tag);
        let partition = &self.partitions[hash as usize % PARTITIONS];
        partition.acquire(Mode::Shared, me);
        let found = self.table.find(&tag, hash);
        let valid = found.is_some_and(|number| pin(self.buffers.get(number), of_ring, me));
        partition.release(me);
        found.filter(|_| valid)
    }
}

impl Kernel for Read {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        let number = self.read(&self.relation, 0, me);
        self.buffers.release(number, me);
    }

    fn proof(&self, _: u64) -> Result<(), String> {
        self.partitions.iter().try_for_each(|lock| lock.free())?;
        self.buffers.proof()
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn each_block_is_found_in_its_buffer() {
        let read = Read::new(1);
        let mut me = Me::new(0, 1);
        for block in 0..BUFFERS as u32 {
            assert_eq!(read.read(&read.relation, block, &mut me), block + 1);
            read.buffers.release(block + 1, &mut me);
        }
        let absent = tag(BUFFERS as u32);
        assert_eq!(read.table.find(&absent, hash_words(&absent)), None);
        assert_eq!(me.reads.hits, BUFFERS as u64);
        read.proof(0).unwrap();
    }

    #[test]
    fn keys_have_the_servers_hash() {
        // What `select hashtext('…')` says in a database of one byte a character.
        for (text, hash) in [
            ("12345678901234567890", -1_737_255_432),
            ("123456789012", -2_102_057_603),
            ("abcd", -393_934_804),
        ] {
            let words = text.as_bytes().chunks_exact(4);
            let words: Vec<u32> = words
                .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
                .collect();
            assert_eq!(hash_words(&words) as i32, hash, "{text}");
        }
    }
}
