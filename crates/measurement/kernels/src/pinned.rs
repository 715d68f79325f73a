//! What a session notes of the buffers that it has pinned, so that each takes one pin of the shared count
//! (bufmgr.c), and what its resource owner notes, so that an error can unpin them (resowner.c).
//!
//! The functions are those of the server, and calls as there. A search goes over as many entries as a
//! variable says: it stays a loop, as the server's compiler leaves it.

/// Entries of the table that is searched one by one (REFCOUNT_ARRAY_ENTRIES).
const ENTRIES: usize = 8;
/// Places of a resource owner that notes in order; with more, by a hash (RESARRAY_MAX_ARRAY).
const OWNED: usize = 64;
/// And for how many it first has room.
const FIRST_OWNED: usize = 16;

/// A buffer, and how often the session has pinned it; 0 is none.
#[derive(Debug, Clone, Copy, Default)]
struct Pinned {
    buffer: u32,
    count: u32,
}

/// The buffers that a session has pinned.
#[derive(Debug)]
pub(crate) struct PinsHeld {
    table: [Pinned; ENTRIES],
    searched: usize,
    /// A free place of the table, as it is known.
    reserved: Option<u32>,
    /// What had to make room in the table.
    others: Vec<Pinned>,
    clock: usize,
    owner: Owner,
}

impl Default for PinsHeld {
    fn default() -> Self {
        Self {
            table: [Pinned::default(); ENTRIES],
            searched: std::hint::black_box(ENTRIES),
            reserved: None,
            others: Vec::new(),
            clock: 0,
            owner: Owner::default(),
        }
    }
}

impl PinsHeld {
    /// ResourceOwnerEnlargeBuffers: before a pin, so that it can be noted.
    #[inline(always)]
    pub(crate) fn enlarge(&mut self) {
        self.owner.enlarge();
    }

    /// ReservePrivateRefCountEntry: a free place.
    #[inline(never)]
    pub(crate) fn reserve(&mut self) {
        if self.reserved.is_some() {
            return;
        }
        for (at, entry) in self.table[..self.searched].iter().enumerate() {
            if entry.buffer == 0 {
                self.reserved = Some(at as u32);
                return;
            }
        }
        self.make_room();
    }

    #[cold]
    #[inline(never)]
    fn make_room(&mut self) {
        let at = self.clock % ENTRIES;
        self.clock += 1;
        self.others.push(std::mem::take(&mut self.table[at]));
        self.reserved = Some(at as u32);
    }

    /// GetPrivateRefCountEntry: where a buffer is, behind the table among the others.
    #[inline(never)]
    fn place(&mut self, buffer: u32) -> Option<usize> {
        for (at, entry) in self.table[..self.searched].iter().enumerate() {
            if entry.buffer == buffer {
                return Some(at);
            }
        }
        if self.others.is_empty() {
            return None;
        }
        let among = self.others.iter().position(|entry| entry.buffer == buffer);
        among.map(|at| ENTRIES + at)
    }

    #[inline(always)]
    fn entry(&mut self, place: usize) -> &mut Pinned {
        match place < ENTRIES {
            true => &mut self.table[place],
            false => &mut self.others[place - ENTRIES],
        }
    }

    /// How often the session has pinned a buffer.
    #[inline(always)]
    pub(crate) fn count(&mut self, buffer: u32) -> u32 {
        match self.place(buffer) {
            Some(place) => self.entry(place).count,
            None => 0,
        }
    }

    /// One pin more of a buffer that is pinned; whether it was.
    #[inline(always)]
    pub(crate) fn note_again(&mut self, buffer: u32) -> bool {
        let Some(place) = self.place(buffer) else {
            return false;
        };
        self.entry(place).count += 1;
        self.owner.remember(buffer);
        true
    }

    /// NewPrivateRefCountEntry: of the first pin, which is not counted before it is had.
    #[inline(always)]
    pub(crate) fn begin(&mut self, buffer: u32) -> usize {
        let place = self.reserved.take().expect("a place is reserved") as usize;
        self.table[place] = Pinned { buffer, count: 0 };
        place
    }

    /// It is had.
    #[inline(always)]
    pub(crate) fn note(&mut self, place: usize, buffer: u32) {
        self.table[place].count += 1;
        self.owner.remember(buffer);
    }

    /// One pin fewer; where it was noted, if it was the session's last of this buffer.
    #[inline(always)]
    pub(crate) fn release(&mut self, buffer: u32) -> Option<usize> {
        let place = self.place(buffer).expect("the buffer is pinned");
        self.owner.forget(buffer);
        let entry = self.entry(place);
        entry.count -= 1;
        (entry.count == 0).then_some(place)
    }

    /// ForgetPrivateRefCountEntry: its place is the next.
    #[inline(always)]
    pub(crate) fn forget(&mut self, place: usize) {
        if place < ENTRIES {
            self.table[place].buffer = 0;
            self.reserved = Some(place as u32);
        } else {
            self.others.swap_remove(place - ENTRIES);
        }
    }
}

/// What a resource owner notes of buffers (ResourceArray): few in order, many by where a hash puts them.
#[derive(Debug, Default)]
struct Owner {
    items: Vec<u64>,
    count: u32,
    room: u32,
    /// Where the last was put, which is likely to go first.
    last: u32,
}

impl Owner {
    #[inline(never)]
    fn enlarge(&mut self) {
        if self.count < self.room {
            return;
        }
        self.grow();
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let places = (self.items.len() * 2).max(FIRST_OWNED);
        let old = std::mem::replace(&mut self.items, vec![0; places]);
        // A quarter stays free where a hash puts them.
        let room = if places > OWNED {
            places / 4 * 3
        } else {
            places
        };
        self.room = room as u32;
        self.count = 0;
        for item in old.into_iter().filter(|item| *item != 0) {
            self.remember(item as u32);
        }
    }

    /// ResourceOwnerRememberBuffer.
    #[inline(never)]
    fn remember(&mut self, buffer: u32) {
        let at = match self.items.len() <= OWNED {
            true => self.count,
            false => self.free_place(buffer),
        };
        self.last = at;
        self.items[at as usize] = u64::from(buffer);
        self.count += 1;
    }

    /// ResourceOwnerForgetBuffer.
    #[inline(never)]
    fn forget(&mut self, buffer: u32) {
        assert!(self.remove(u64::from(buffer)), "the buffer is not pinned");
    }

    /// ResourceArrayRemove: whether it was there.
    #[inline(never)]
    fn remove(&mut self, item: u64) -> bool {
        if self.items.len() > OWNED {
            return self.remove_hashed(item);
        }
        let last = self.last;
        let at = match last < self.count && self.items[last as usize] == item {
            true => last,
            false => match self.find(item) {
                Some(at) => at,
                None => return false,
            },
        };
        self.count -= 1;
        self.items[at as usize] = self.items[self.count as usize];
        self.items[self.count as usize] = 0;
        self.last = self.count.wrapping_sub(1);
        true
    }

    #[cold]
    #[inline(never)]
    fn find(&self, item: u64) -> Option<u32> {
        let held = &self.items[..self.count as usize];
        let at = held.iter().position(|held| *held == item)?;
        Some(at as u32)
    }

    /// The places of an item, from where its hash puts it.
    fn places(&self, item: u64) -> impl Iterator<Item = usize> + use<> {
        let most = self.items.len();
        let first = (item.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize;
        (0..most).map(move |step| (first + step) & (most - 1))
    }

    #[cold]
    #[inline(never)]
    fn free_place(&self, buffer: u32) -> u32 {
        let mut places = self.places(u64::from(buffer));
        let at = places.find(|at| self.items[*at] == 0);
        at.expect("room was made") as u32
    }

    #[cold]
    #[inline(never)]
    fn remove_hashed(&mut self, item: u64) -> bool {
        let at = self.places(item).find(|at| self.items[*at] == item);
        if let Some(at) = at {
            self.items[at] = 0;
            self.count -= 1;
        }
        at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(pins: &mut PinsHeld, buffer: u32) {
        pins.enlarge();
        if !pins.note_again(buffer) {
            pins.reserve();
            let place = pins.begin(buffer);
            pins.note(place, buffer);
        }
    }

    /// Whether it was the last.
    fn unpin(pins: &mut PinsHeld, buffer: u32) -> bool {
        let last = pins.release(buffer);
        last.inspect(|place| pins.forget(*place)).is_some()
    }

    #[test]
    fn the_last_pin_of_a_buffer_is_told() {
        let mut pins = PinsHeld::default();
        for buffer in [3, 4, 3] {
            pin(&mut pins, buffer);
        }
        assert_eq!((pins.count(3), pins.count(4), pins.count(99)), (2, 1, 0));
        assert!(!unpin(&mut pins, 3) && unpin(&mut pins, 4) && unpin(&mut pins, 3));
        assert_eq!((pins.count(3), pins.owner.count), (0, 0));
    }

    #[test]
    fn more_are_pinned_than_the_table_holds() {
        let mut pins = PinsHeld::default();
        let many = 1..=3 * OWNED as u32;
        many.clone().for_each(|buffer| pin(&mut pins, buffer));
        assert!(many.clone().all(|buffer| pins.count(buffer) == 1));
        assert!(many.clone().all(|buffer| unpin(&mut pins, buffer)));
        assert!(many.clone().all(|buffer| pins.count(buffer) == 0));
        assert_eq!((pins.others.len(), pins.owner.count), (0, 0));
    }
}
