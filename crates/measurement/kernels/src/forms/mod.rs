//! The forms: each a way in which some release of PostgreSQL, a proposal or the literature does one
//! thing to shared memory.

pub(crate) mod biased;
pub(crate) mod buffers;
pub(crate) mod cna;
pub(crate) mod content;
pub(crate) mod lookup;
pub(crate) mod lwlock;
pub(crate) mod lwlock_spin;
pub(crate) mod pin;
pub(crate) mod queue;
pub(crate) mod rebuilt;
pub(crate) mod snapshot;
pub(crate) mod spinlock;
pub(crate) mod victim;
pub(crate) mod wait_list;
pub(crate) mod wal;
pub(crate) mod word;
