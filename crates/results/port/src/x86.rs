//! Which flags of compilers and features of Rust are those of x86: the table in `x86.txt`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::guards::known::{Processor, speaks_of_x86};

/// The table, by what is looked up.
struct Table {
    /// Flags as they are written, those with any value up to the equals sign, with the other
    /// processors that accept them.
    exact: BTreeMap<&'static str, Vec<Processor>>,
    /// Beginnings of flags.
    families: Vec<&'static str>,
    /// Beginnings of processors.
    processors: Vec<&'static str>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table {
        exact: BTreeMap::new(),
        families: Vec::new(),
        processors: Vec::new(),
    };
    let mut in_processors = false;
    for line in include_str!("x86.txt").lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            None | Some("[flags]") => {}
            Some(word) if word.starts_with('#') => {}
            Some("[processors]") => in_processors = true,
            Some(name) if in_processors => table.processors.push(name),
            Some(flag) => match flag.strip_suffix('*') {
                Some(family) => table.families.push(family),
                None => {
                    let elsewhere = words.filter_map(Processor::of_name).collect();
                    table.exact.insert(flag, elsewhere);
                }
            },
        }
    }
    table
});

/// The other processors that accept a flag of x86; none where it is not one.
pub fn flag(word: &str) -> Option<&'static [Processor]> {
    positive(word).or_else(|| positive(&format!("-m{}", word.strip_prefix("-mno-")?)))
}

fn positive(word: &str) -> Option<&'static [Processor]> {
    let exact = TABLE.exact.get(word).or_else(|| {
        let value = word.find('=')?;
        TABLE.exact.get(&word[..=value])
    });
    if let Some(elsewhere) = exact {
        return Some(elsewhere);
    }
    let mut families = TABLE.families.iter();
    families
        .any(|family| word.starts_with(family))
        .then_some(&[])
}

/// Whether a value of -march, -mtune or -mcpu names a processor of x86.
pub fn processor(name: &str) -> bool {
    TABLE.processors.iter().any(|p| name.starts_with(p))
}

/// Features of x86 whose names in Rust are not those of C.
const FEATURES: &[&str] = &[
    "cmpxchg16b",
    "fxsr",
    "ermsb",
    "lahfsahf",
    "pclmulqdq",
    "rdrand",
    "adx",
    "sse4.1",
    "sse4.2",
    "vaes",
    "vpclmulqdq",
    "gfni",
    "kl",
    "widekl",
    "movbe",
    "prfchw",
    "bmi1",
    "tbm",
    "x87",
];

/// Whether a name of `target_feature` is a feature of x86. `aes` and `sha` are: aarch64 has `aes`,
/// too, and both have `fp16` under other names.
pub fn is_feature(feature: &str) -> bool {
    let feature = feature.trim();
    let shared = ["aes", "sm4", "sha3", "crc"];
    !shared.contains(&feature)
        && (speaks_of_x86(feature)
            || FEATURES.contains(&feature)
            || flag(&format!("-m{feature}")).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_well_formed() {
        let lines = include_str!("x86.txt").lines();
        let mut seen = std::collections::BTreeSet::new();
        let flags = lines
            .filter(|line| line.starts_with('-'))
            .map(|line| {
                let mut words = line.split_whitespace();
                let flag = words.next().expect("a word");
                assert!(seen.insert(flag), "{flag} stands twice");
                assert!(words.all(|w| Processor::of_name(w).is_some()), "{line}");
            })
            .count();
        assert!(flags > 180 && TABLE.processors.len() > 60, "{flags}");
        assert_eq!(flags, TABLE.exact.len() + TABLE.families.len());
    }

    #[test]
    fn flags_of_x86_are_known_in_both_forms_and_with_every_value() {
        let words = "-mpc64 -mprefer-vector-width=512 -m80387 -mno-80387 -mcmodel=medium -mgfni -msha \
            -mvpclmulqdq -mabm -mtbm -mxop -mshstk -mno-mmx -mveclibabi=svml -malign-double \
            -mno-align-double -mincoming-stack-boundary=3 -mno-red-zone -mavx10.2 -mno-avx512f \
            -mavx5124fmaps -mamx-fp8 -mapxf -mno-fancy-math-387 -mdaz-ftz -mno-vzeroupper -masm=intel \
            -mbranches-within-32B-boundaries -mtls-dialect=gnu2 -mno-tls-direct-seg-refs \
            -fcf-protection -mlvi-hardening -mno-push-args -mrecip=all,!sqrt";
        for word in words.split_whitespace() {
            assert!(flag(word).is_some(), "{word}");
        }
    }

    #[test]
    fn flags_of_other_processors_and_of_all_are_not_of_x86() {
        let words = "-mcpu=neoverse-n1 -mstrict-align -moutline-atomics -mno-outline-atomics \
            -mbranch-protection=standard -mgeneral-regs-only -momit-leaf-frame-pointer -mtls-size=24 \
            -mvsx -maltivec -mcrypto -mpower8-vector -mzvector -mabi=lp64d -mcmodel=medany \
            -mcmodel=tiny -msve-vector-bits=256 -mglibc -mmacosx-version-min=11 -m31 -m -mno- \
            -mtls-dialect=desc -fcf-protection=none -msha1 -maes-x -mtune=generic -fno-avx";
        for word in words.split_whitespace() {
            assert!(flag(word).is_none(), "{word}");
        }
        assert!(!processor("armv8-a") && !processor("generic") && !processor("power9"));
    }

    #[test]
    fn other_processors_accept_some() {
        let of = |word| flag(word).expect("a flag").to_vec();
        assert_eq!(of("-m64"), [Processor::Ppc64le, Processor::S390x]);
        assert_eq!(of("-mno-avx2"), []);
        assert!(of("-mcmodel=large").contains(&Processor::Aarch64));
    }
}
