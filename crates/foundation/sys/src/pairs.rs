//! The text of [the exclusive pairs](https://doc.rust-lang.org/reference/inline-assembly.html) of processors
//! that this program is not for: programs for them are compiled from it.

/// Path and text.
pub const SOURCE: &[(&str, &str)] = &[
    ("exclusive/aarch64.rs", include_str!("exclusive/aarch64.rs")),
    ("exclusive/lse.rs", include_str!("exclusive/lse.rs")),
    ("exclusive/mod.rs", include_str!("exclusive/mod.rs")),
    (
        "exclusive/powerpc64.rs",
        include_str!("exclusive/powerpc64.rs"),
    ),
];
