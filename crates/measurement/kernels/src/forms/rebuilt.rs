//! A snapshot as GetSnapshotData builds it from 14 on, of few sessions of which none has a transaction id,
//! with what the session derives from it for itself: what it may prune (GlobalVisState, dc7420c2c9).

use std::sync::OnceLock;

use super::lwlock::{LwLock, Mode};
use super::word::same;
use crate::kernel::{Kernel, Me};
use crate::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, Padded, many};

/// Those connected beside the threads: who asks for the measurement, and the launchers of autovacuum and
/// replication.
const OTHERS: usize = 3;
/// The lowest id that is not special.
const FIRST_NORMAL: u32 = 3;
/// Subtransactions that a session shows (PGPROC_MAX_CACHED_SUBXIDS).
const SHOWN_SUBTRANSACTIONS: usize = 64;
/// Who vacuums or decodes is not seen by others (PROC_IN_VACUUM, PROC_IN_LOGICAL_DECODING).
const UNSEEN: u8 = 0x12;
/// Before ids are collected.
const ROOM: &str = "there is room for ids";
/// Shared, catalogue, data and temporary relations.
const KINDS: usize = 4;

/// What all read, each group on lines of its own, as ShmemVariableCache and ProcArrayStruct are.
#[derive(Default)]
struct Variables {
    latest_completed: AtomicU64,
    completion_count: AtomicU64,
    oldest: AtomicU32,
}

/// Settings that move what must be kept (vacuum_defer_cleanup_age, old_snapshot_threshold).
#[derive(Default)]
struct Settings {
    deferred: AtomicU32,
    threshold: AtomicU32,
}

#[derive(Default)]
struct Slots {
    xmin: AtomicU32,
    catalog_xmin: AtomicU32,
}

/// What each session shows in the dense arrays, and its subtransactions beside them.
#[derive(Default)]
struct Shown {
    ids: Box<[AtomicU32]>,
    flags: Box<[AtomicU8]>,
    subtransactions: Box<[AtomicU8]>,
    subids: Box<[AtomicU32]>,
}

/// SnapshotData.
#[derive(Default)]
struct Snapshot {
    xmin: AtomicU32,
    xmax: AtomicU32,
    running: OnceLock<Box<[AtomicU32]>>,
    subrunning: OnceLock<Box<[AtomicU32]>>,
    count: AtomicU32,
    subcount: AtomicU32,
    overflowed: AtomicBool,
    in_recovery: AtomicBool,
    copied: AtomicBool,
    command: AtomicU32,
    holders: AtomicU64,
    taken_at: AtomicU64,
    position: AtomicU64,
    completion_count: AtomicU64,
}

/// What may be removed of one kind of relation, as far as a session knows (GlobalVisState).
#[derive(Default)]
struct Horizon {
    definitely_needed: AtomicU64,
    maybe_needed: AtomicU64,
}

/// What a session has for itself.
#[derive(Default)]
struct Own {
    snapshot: Snapshot,
    shown_xmin: AtomicU32,
    transaction_xmin: AtomicU32,
    recent_xmin: AtomicU32,
    command: AtomicU32,
    place: AtomicU32,
    maybe_in_recovery: AtomicBool,
    horizons: [Horizon; KINDS],
}

/// The lock, the sessions' ids, and the sessions' own.
pub(crate) struct Rebuilt {
    lock: Padded<LwLock>,
    variables: Padded<Variables>,
    settings: Padded<Settings>,
    slots: Padded<Slots>,
    in_recovery: Padded<AtomicU32>,
    shown: Padded<Shown>,
    own: Box<[Padded<Own>]>,
}

impl Rebuilt {
    pub(crate) fn new(threads: usize) -> Self {
        let sessions = threads + OTHERS;
        let variables = Variables::default();
        variables.latest_completed.store(900, Ordering::Relaxed);
        variables.completion_count.store(1, Ordering::Relaxed);
        variables.oldest.store(700, Ordering::Relaxed);
        let mut place = 0;
        Self {
            lock: Padded(LwLock::new(threads)),
            variables: Padded(variables),
            settings: Padded(Settings {
                deferred: AtomicU32::new(0),
                // -1: no snapshot is too old.
                threshold: AtomicU32::new(u32::MAX),
            }),
            slots: Padded::default(),
            in_recovery: Padded::default(),
            shown: Padded(Shown {
                ids: many(sessions, AtomicU32::default),
                flags: many(sessions, AtomicU8::default),
                subtransactions: many(sessions, AtomicU8::default),
                subids: many(sessions * SHOWN_SUBTRANSACTIONS, AtomicU32::default),
            }),
            own: many(threads, || {
                let own = Own::default();
                own.place.store(place, Ordering::Relaxed);
                place += 1;
                Padded(own)
            }),
        }
    }

    /// RecoveryInProgress: a session that saw it end need not look again.
    #[inline(never)]
    fn recovering(&self, own: &Own) -> bool {
        if !own.maybe_in_recovery.load(Ordering::Relaxed) {
            return false;
        }
        let recovering = self.in_recovery.load(Ordering::Acquire) != 0;
        own.maybe_in_recovery.store(recovering, Ordering::Relaxed);
        recovering
    }

    /// GetSnapshotDataReuse: whether it holds as it was.
    #[inline(always)]
    fn reuse(&self, own: &Own) -> bool {
        let snapshot = &own.snapshot;
        let built_at = snapshot.completion_count.load(Ordering::Relaxed);
        if built_at == 0 || built_at != self.variables.completion_count.load(Ordering::Relaxed) {
            return false;
        }
        let xmin = snapshot.xmin.load(Ordering::Relaxed);
        own.show(xmin);
        own.recent_xmin.store(xmin, Ordering::Relaxed);
        self.finish(own);
        true
    }

    /// What is the same of each, built or not.
    #[inline(always)]
    fn finish(&self, own: &Own) {
        let snapshot = &own.snapshot;
        let command = own.command_id(false);
        snapshot.command.store(command, Ordering::Relaxed);
        snapshot.holders.store(0, Ordering::Relaxed);
        snapshot.copied.store(false, Ordering::Relaxed);
        if (self.settings.threshold.load(Ordering::Relaxed) as i32) < 0 {
            snapshot.taken_at.store(0, Ordering::Relaxed);
            snapshot.position.store(0, Ordering::Relaxed);
        } else {
            snapshot.date();
        }
    }

    /// The ids that run, into the snapshot; the oldest of them and of what was given.
    #[inline(always)]
    fn collect(&self, snapshot: &Snapshot, place: usize, xmax: u32, mut xmin: u32) -> u32 {
        let Shown {
            ids,
            flags,
            subtransactions,
            subids,
        } = &*self.shown;
        let (mut count, mut subcount) = (0, 0);
        for at in 0..ids.len() {
            let id = ids[at].load(Ordering::Relaxed);
            if id == 0 || at == place {
                continue;
            }
            let hidden = flags[at].load(Ordering::Relaxed) & UNSEEN != 0;
            if !normal_precedes(id, xmax) || hidden {
                continue;
            }
            if normal_precedes(id, xmin) {
                xmin = id;
            }
            snapshot.running.get().expect(ROOM)[count].store(id, Ordering::Relaxed);
            count += 1;
            let theirs = subtransactions[at].load(Ordering::Acquire) as usize;
            for id in &subids[at * SHOWN_SUBTRANSACTIONS..][..theirs] {
                let id = id.load(Ordering::Relaxed);
                snapshot.subrunning.get().expect(ROOM)[subcount].store(id, Ordering::Relaxed);
                subcount += 1;
            }
        }
        snapshot.count.store(count as u32, Ordering::Relaxed);
        snapshot.subcount.store(subcount as u32, Ordering::Relaxed);
        snapshot.overflowed.store(false, Ordering::Relaxed);
        xmin
    }

    /// Up to what the session knows that rows may be removed.
    #[inline(always)]
    fn derive(&self, own: &Own, latest: u64, oldest: u32, mine: u32, xmin: u32, slots: (u32, u32)) {
        let oldest = full(latest, oldest);
        let deferred = self.settings.deferred.load(Ordering::Relaxed);
        let of_data = older(retreat(xmin, deferred, oldest), slots.0);
        let of_catalogue = older(slots.1, of_data);
        let of_catalogue = full(latest, of_catalogue);
        let of_data = full(latest, of_data);
        let [shared, catalogue, data, temporary] = &own.horizons;
        for (horizon, id) in [
            (shared, of_catalogue),
            (catalogue, of_catalogue),
            (data, of_data),
        ] {
            horizon.definitely_needed.raise(id);
        }
        let of_temporary = match mine >= FIRST_NORMAL {
            true => full(latest, mine),
            false => next_full(latest),
        };
        temporary
            .definitely_needed
            .store(of_temporary, Ordering::Relaxed);
        for horizon in [shared, catalogue, data] {
            horizon.maybe_needed.raise(oldest);
        }
        temporary
            .maybe_needed
            .store(of_temporary, Ordering::Relaxed);
    }

    /// GetSnapshotData.
    #[inline(never)]
    fn take(&self, own: &Own, me: &mut Me) {
        let snapshot = &own.snapshot;
        if snapshot.running.get().is_none() {
            snapshot.allocate(self.shown.ids.len());
        }
        self.lock.acquire(Mode::Shared, me);
        if self.reuse(own) {
            return self.lock.release(me);
        }
        let latest = self.variables.latest_completed.load(Ordering::Relaxed);
        let place = own.place.load(Ordering::Relaxed) as usize;
        let mine = self.shown.ids[place].load(Ordering::Relaxed);
        let oldest = self.variables.oldest.load(Ordering::Relaxed);
        let completion_count = self.variables.completion_count.load(Ordering::Relaxed);
        let xmax = next(latest as u32);
        let mut xmin = xmax;
        if mine >= FIRST_NORMAL && normal_precedes(mine, xmin) {
            xmin = mine;
        }
        let recovering = self.recovering(own);
        snapshot.in_recovery.store(recovering, Ordering::Relaxed);
        if !recovering {
            xmin = self.collect(snapshot, place, xmax, xmin);
        }
        let slots = (
            self.slots.xmin.load(Ordering::Relaxed),
            self.slots.catalog_xmin.load(Ordering::Relaxed),
        );
        own.show(xmin);
        self.lock.release(me);

        self.derive(own, latest, oldest, mine, xmin, slots);
        own.recent_xmin.store(xmin, Ordering::Relaxed);
        snapshot.xmin.store(xmin, Ordering::Relaxed);
        snapshot.xmax.store(xmax, Ordering::Relaxed);
        snapshot
            .completion_count
            .store(completion_count, Ordering::Relaxed);
        self.finish(own);
    }
}

impl Snapshot {
    /// Room for what may run, once.
    #[cold]
    #[inline(never)]
    fn allocate(&self, sessions: usize) {
        self.running
            .get_or_init(|| many(sessions, AtomicU32::default));
        self.subrunning
            .get_or_init(|| many(sessions * SHOWN_SUBTRANSACTIONS, AtomicU32::default));
    }

    /// When it was taken, where snapshots may become too old.
    #[cold]
    #[inline(never)]
    fn date(&self) {
        self.taken_at.fetch_add(1, Ordering::Relaxed);
    }
}

impl Own {
    /// The first snapshot of a transaction is shown to those who remove rows.
    #[inline(always)]
    fn show(&self, xmin: u32) {
        if self.shown_xmin.load(Ordering::Relaxed) == 0 {
            self.transaction_xmin.store(xmin, Ordering::Relaxed);
            self.shown_xmin.store(xmin, Ordering::Relaxed);
        }
    }

    /// GetCurrentCommandId.
    #[inline(never)]
    fn command_id(&self, used: bool) -> u32 {
        let command = self.command.load(Ordering::Relaxed);
        if used {
            self.command.store(command | 1 << 31, Ordering::Relaxed);
        }
        command
    }
}

/// The id behind one.
#[inline(always)]
fn next(id: u32) -> u32 {
    id.wrapping_add(1).max(FIRST_NORMAL)
}

/// The same with its epoch.
#[inline(always)]
fn next_full(id: u64) -> u64 {
    let mut next = id + 1;
    while (next as u32) < FIRST_NORMAL {
        next += 1;
    }
    next
}

/// Whether one normal id precedes another.
#[inline(always)]
fn normal_precedes(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

/// TransactionIdPrecedes: a call, as in the server.
#[inline(never)]
fn precedes(one: u32, other: u32) -> bool {
    match one < FIRST_NORMAL || other < FIRST_NORMAL {
        true => one < other,
        false => normal_precedes(one, other),
    }
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

/// So many back, but not beyond the oldest that there is (TransactionIdRetreatSafely).
#[inline(always)]
fn retreat(id: u32, by: u32, oldest: u64) -> u32 {
    if by == 0 {
        return id;
    }
    let room = (full(oldest, id) - oldest).saturating_sub(u64::from(FIRST_NORMAL));
    match u64::from(by) >= room {
        true => (oldest as u32).max(FIRST_NORMAL),
        false => id.wrapping_sub(by).max(FIRST_NORMAL),
    }
}

/// With its epoch, by one that has it.
#[inline(always)]
fn full(relative_to: u64, id: u32) -> u64 {
    let distance = i64::from(id.wrapping_sub(relative_to as u32) as i32);
    relative_to.wrapping_add_signed(distance)
}

/// What only grows (FullTransactionIdNewer): 0 in the lower half is none.
trait Raise {
    fn raise(&self, to: u64);
}

impl Raise for AtomicU64 {
    #[inline(always)]
    fn raise(&self, to: u64) {
        let is = self.load(Ordering::Relaxed);
        let newer = match (is as u32, to as u32) {
            (0, _) => to,
            (_, 0) => is,
            _ => is.max(to),
        };
        self.store(newer, Ordering::Relaxed);
    }
}

impl Kernel for Rebuilt {
    #[inline(always)]
    fn operate(&self, me: &mut Me) {
        let own = &*self.own[me.slot];
        // Forgotten, as the loop in the server does.
        own.snapshot.completion_count.store(0, Ordering::Relaxed);
        self.take(own, me);
    }

    fn proof(&self, _: u64) -> Result<(), String> {
        let taken = |own: &&Padded<Own>| own.snapshot.xmin.load(Ordering::Relaxed) != 0;
        let wrong = self.own.iter().filter(taken).filter(|own| {
            let [shared, _, data, temporary] = &own.horizons;
            let horizon = |of: &Horizon| {
                (
                    of.maybe_needed.load(Ordering::Relaxed),
                    of.definitely_needed.load(Ordering::Relaxed),
                )
            };
            own.snapshot.xmin.load(Ordering::Relaxed) != 901
                || own.snapshot.count.load(Ordering::Relaxed) != 0
                || horizon(shared) != (700, 901)
                || horizon(data) != (700, 901)
                || horizon(temporary) != (901, 901)
        });
        let wrong = wrong.count() as u64;
        same("sessions whose snapshot saw a transaction", wrong, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xmin_and_count(of: &Rebuilt) -> (u32, u32) {
        of.operate(&mut Me::new(0, 1));
        let snapshot = &of.own[0].snapshot;
        let xmin = snapshot.xmin.load(Ordering::Relaxed);
        (xmin, snapshot.count.load(Ordering::Relaxed))
    }

    #[test]
    fn a_snapshot_holds_what_runs() {
        let snapshots = Rebuilt::new(1);
        assert_eq!(xmin_and_count(&snapshots), (901, 0));
        snapshots.proof(1).unwrap();
        snapshots.shown.ids[2].store(850, Ordering::Relaxed);
        snapshots.shown.subtransactions[2].store(2, Ordering::Relaxed);
        assert_eq!(xmin_and_count(&snapshots), (850, 1));
        let snapshot = &snapshots.own[0].snapshot;
        assert_eq!(snapshot.subcount.load(Ordering::Relaxed), 2);
        assert!(snapshots.proof(2).is_err());
        // Who vacuums is not seen, nor who began behind it.
        snapshots.shown.flags[2].store(2, Ordering::Relaxed);
        snapshots.shown.ids[1].store(950, Ordering::Relaxed);
        assert_eq!(xmin_and_count(&snapshots), (901, 0));
    }

    #[test]
    fn ids_are_deferred_no_further_than_the_oldest() {
        assert_eq!(retreat(901, 0, 700), 901);
        assert_eq!(retreat(901, 100, 700), 801);
        assert_eq!(retreat(901, 1000, 700), 700);
        assert_eq!(older(0, 5), 5);
        assert_eq!(older(7, 5), 5);
    }
}
