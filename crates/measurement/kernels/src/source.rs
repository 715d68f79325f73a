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
    "forms/buffers.rs",
    "forms/cna.rs",
    "forms/content.rs",
    "forms/lookup.rs",
    "forms/lwlock.rs",
    "forms/lwlock_spin.rs",
    "forms/mod.rs",
    "forms/pin.rs",
    "forms/queue.rs",
    "forms/rebuilt.rs",
    "forms/snapshot.rs",
    "forms/spinlock.rs",
    "forms/victim.rs",
    "forms/wait_list.rs",
    "forms/wal.rs",
    "forms/word.rs",
    "kernel.rs",
    "pinned.rs",
    "session.rs",
    "sync.rs",
];

/// All parts.
pub fn parts() -> impl Iterator<Item = &'static Part> {
    FORMS.iter().chain(pgassay_sys::pairs::SOURCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_goes_with_the_program() {
        let own = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        for dir in ["catalogue", "forms"] {
            for file in std::fs::read_dir(own.join(dir)).unwrap() {
                let name = file.unwrap().file_name().into_string().unwrap();
                let path = format!("{dir}/{name}");
                assert!(FORMS.iter().any(|(part, _)| **part == path), "{path}");
            }
        }
    }
}
