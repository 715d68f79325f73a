//! Languages whose sources are compiled for a processor and not analysed here.

use std::collections::BTreeMap;

use crate::porting::NotAnalysed;

/// Their names, by the ends of files' names.
const LANGUAGES: &[(&str, &str)] = &[
    ("go", "Go"),
    ("cu", "CUDA"),
    ("cuh", "CUDA"),
    ("f", "Fortran"),
    ("f90", "Fortran"),
    ("f95", "Fortran"),
    ("zig", "Zig"),
    ("pyx", "Cython"),
    ("swift", "Swift"),
    ("m", "Objective-C"),
    ("mm", "Objective-C"),
    ("d", "D"),
    ("nim", "Nim"),
    ("pas", "Pascal"),
    ("adb", "Ada"),
    ("hs", "Haskell"),
    ("ml", "OCaml"),
    ("java", "Java"),
    ("kt", "Kotlin"),
    ("cs", "C#"),
];

/// The language of a file; none where it is no source, or is analysed.
pub fn of(name: &str) -> Option<&'static str> {
    let (_, end) = name.rsplit_once('.')?;
    let named = LANGUAGES.iter().find(|(known, _)| *known == end);
    named.map(|(_, language)| *language)
}

/// How many files of each language there are.
pub fn counted(names: &[String]) -> Vec<NotAnalysed> {
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    for language in names.iter().filter_map(|name| of(name)) {
        *counts.entry(language).or_default() += 1;
    }
    let counts = counts.into_iter();
    counts
        .map(|(language, files)| NotAnalysed { language, files })
        .collect()
}
