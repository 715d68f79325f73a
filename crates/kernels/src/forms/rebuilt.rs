//! A snapshot as GetSnapshotData builds it from 14 on, of few sessions of which none has a transaction id,
//! with what the session derives from it for itself: what it may prune (GlobalVisState, dc7420c2c9).

use super::lwlock::{LwLock, Mode};
use super::word::same;
use crate::kernel::{Kernel, Me};
use crate::sync::{AtomicU32, AtomicU64, Ordering, Padded, many};

/// Those connected beside the threads: who asks for the measurement, and the launchers of autovacuum and
/// replication.
const OTHERS: usize = 3;
/// The lowest id that is not special.
const FIRST_NORMAL: u32 = 3;
/// Shared, catalogue, data and temporary relations.
const KINDS: usize = 4;

/// What all read, each group on lines of its own, as ShmemVariableCache and ProcArrayStruct are.
#[derive(Default)]
struct Variables {
    latest_completed: AtomicU64,
    completion_count: AtomicU64,
    oldest: AtomicU32,
}

#[derive(Default)]
struct Slots {
    xmin: AtomicU32,
    catalog_xmin: AtomicU32,
}

/// A session's snapshot, and what it knows of what may be removed.
#[derive(Default)]
struct Own {
    xmin: AtomicU32,
    xmax: AtomicU32,
    running: AtomicU32,
    completion_count: AtomicU64,
    command: AtomicU32,
    shown_xmin: AtomicU32,
    needed: [(AtomicU64, AtomicU64); KINDS],
}

/// The lock, the sessions' ids, and the sessions' own.
pub(crate) struct Rebuilt {
    lock: Padded<LwLock>,
    variables: Padded<Variables>,
    slots: Padded<Slots>,
    in_recovery: Padded<AtomicU32>,
    ids: Padded<Box<[AtomicU32]>>,
    own: Box<[Padded<Own>]>,
}

impl Rebuilt {
    pub(crate) fn new(threads: usize) -> Self {
        let variables = Variables::default();
        variables.latest_completed.store(900, Ordering::Relaxed);
        variables.completion_count.store(1, Ordering::Relaxed);
        variables.oldest.store(700, Ordering::Relaxed);
        Self {
            lock: Padded(LwLock::new(threads)),
            variables: Padded(variables),
            slots: Padded::default(),
            in_recovery: Padded::default(),
            ids: Padded(many(threads + OTHERS, AtomicU32::default)),
            own: many(threads, Padded::default),
        }
    }
}

/// Whether one id precedes another, both normal.
#[inline(always)]
fn precedes(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

/// The older of two, of which either may be none.
#[inline(always)]
fn older(one: u32, other: u32) -> u32 {
    match (one, other) {
        (0, id) | (id, 0) => id,
        _ if precedes(one, other) => one,
        _ => other,
    }
}

/// With its epoch, by one that has it.
#[inline(always)]
fn full(relative_to: u64, id: u32) -> u64 {
    let distance = i64::from(id.wrapping_sub(relative_to as u32) as i32);
    relative_to.wrapping_add_signed(distance)
}

impl Kernel for Rebuilt {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        let own = &self.own[me.slot];
        self.lock.acquire(Mode::Shared, me);
        let latest = self.variables.latest_completed.load(Ordering::Relaxed);
        let completion_count = self.variables.completion_count.load(Ordering::Relaxed);
        let oldest = self.variables.oldest.load(Ordering::Relaxed);
        let mine = self.ids[me.slot].load(Ordering::Relaxed);
        let xmax = (latest as u32).wrapping_add(1).max(FIRST_NORMAL);
        let mut xmin = xmax;
        if mine >= FIRST_NORMAL && precedes(mine, xmin) {
            xmin = mine;
        }
        let mut running = 0;
        if self.in_recovery.load(Ordering::Relaxed) == 0 {
            for id in &*self.ids {
                let id = id.load(Ordering::Relaxed);
                if id != 0 {
                    running += 1;
                    xmin = if precedes(id, xmin) { id } else { xmin };
                }
            }
        }
        let slot_xmin = self.slots.xmin.load(Ordering::Relaxed);
        let catalog_xmin = self.slots.catalog_xmin.load(Ordering::Relaxed);
        if own.shown_xmin.load(Ordering::Relaxed) == 0 {
            own.shown_xmin.store(xmin, Ordering::Relaxed);
        }
        self.lock.release(me);

        let of_data = older(xmin, slot_xmin);
        let of_catalogue = older(of_data, catalog_xmin);
        let kinds = [of_catalogue, of_catalogue, of_data, xmin];
        let oldest = full(latest, oldest);
        for ((needed, maybe), id) in own.needed.iter().zip(kinds) {
            let id = full(latest, id);
            needed.store(needed.load(Ordering::Relaxed).max(id), Ordering::Relaxed);
            maybe.store(maybe.load(Ordering::Relaxed).max(oldest), Ordering::Relaxed);
        }
        own.xmin.store(xmin, Ordering::Relaxed);
        own.xmax.store(xmax, Ordering::Relaxed);
        own.running.store(running, Ordering::Relaxed);
        own.completion_count
            .store(completion_count, Ordering::Relaxed);
        own.command.store(0, Ordering::Relaxed);
    }

    fn proof(&self, _: u64) -> Result<(), String> {
        let xmins = self.own.iter().map(|own| own.xmin.load(Ordering::Relaxed));
        let taken = xmins.filter(|xmin| *xmin != 0);
        let wrong = taken.filter(|xmin| *xmin != 901).count();
        same("sessions whose snapshot saw a transaction", wrong as u64, 0)
    }
}
