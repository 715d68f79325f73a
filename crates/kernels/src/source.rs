//! The text of the forms, of which a program for another processor is compiled (`alone.rs`).

/// Path below the program's directory, and text.
pub type Part = (&'static str, &'static str);

macro_rules! parts {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!($path))),*]
    };
}

/// The program's root.
pub const ROOT: &str = "alone.rs";

/// All but the exclusive pairs.
const FORMS: &[Part] = parts![
    "alone.rs",
    "catalogue/locks.rs",
    "catalogue/mod.rs",
    "catalogue/others.rs",
    "catalogue/words.rs",
    "forms/biased.rs",
    "forms/cna.rs",
    "forms/content.rs",
    "forms/lwlock.rs",
    "forms/lwlock_spin.rs",
    "forms/mod.rs",
    "forms/pin.rs",
    "forms/queue.rs",
    "forms/rebuilt.rs",
    "forms/snapshot.rs",
    "forms/spinlock.rs",
    "forms/victim.rs",
    "forms/wal.rs",
    "forms/word.rs",
    "kernel.rs",
    "session.rs",
    "sync.rs",
];

/// All parts.
pub fn parts() -> impl Iterator<Item = &'static Part> {
    FORMS.iter().chain(pgassay_sys::pairs::SOURCE)
}
