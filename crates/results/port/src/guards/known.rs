//! Which macros a compiler for each processor defines, on Linux.

use serde::Serialize;

use super::truth::Truth;

/// The processor that sources are to run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Processor {
    /// Arm, 64 bit.
    Aarch64,
    /// Power, 64 bit, little-endian.
    Ppc64le,
    /// RISC-V, 64 bit.
    Riscv64,
    /// IBM Z.
    S390x,
}

impl Processor {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Aarch64, Self::Ppc64le, Self::Riscv64, Self::S390x];

    /// The processor of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64",
            Self::Ppc64le => "ppc64le",
            Self::Riscv64 => "riscv64",
            Self::S390x => "s390x",
        }
    }
}

/// Names that a compiler defines for every processor of a kind.
const OF_PROCESSORS: &[(Processor, &[&str])] = &[
    (
        Processor::Aarch64,
        &[
            "__aarch64__",
            "__arm64__",
            "__arm64",
            "__AARCH64EL__",
            "__ARM_NEON",
            "__ARM_ARCH",
            "__ARM_64BIT_STATE",
            "__ARM_ARCH_ISA_A64",
        ],
    ),
    (
        Processor::Ppc64le,
        &[
            "__powerpc__",
            "__powerpc64__",
            "__ppc__",
            "__ppc64__",
            "__PPC__",
            "__PPC64__",
            "__powerpc",
            "__ppc",
            "_ARCH_PPC",
            "_ARCH_PPC64",
            "__ALTIVEC__",
            "__VSX__",
        ],
    ),
    (Processor::Riscv64, &["__riscv"]),
    (Processor::S390x, &["__s390__", "__s390x__", "__zarch__"]),
];

/// Names that compilers for Linux define whatever the processor.
const ALWAYS: &[&str] = &[
    "__GNUC__",
    "__linux__",
    "__linux",
    "linux",
    "__unix__",
    "__unix",
    "__LP64__",
    "_LP64",
];

/// Names of systems and compilers that are not looked at, and of processors without a Linux here.
const NEVER: &[&str] = &[
    "_WIN32",
    "WIN32",
    "_WIN64",
    "WIN64",
    "_MSC_VER",
    "__MINGW32__",
    "__MINGW64__",
    "__CYGWIN__",
    "__APPLE__",
    "__MACH__",
    "__darwin__",
    "__FreeBSD__",
    "__NetBSD__",
    "__OpenBSD__",
    "__DragonFly__",
    "__sun",
    "__sun__",
    "sun",
    "_AIX",
    "__hpux",
    "__HAIKU__",
    "__EMSCRIPTEN__",
    "__wasm__",
    "__ANDROID__",
    "__INTEL_COMPILER",
    "__SUNPRO_C",
    "__SUNPRO_CC",
    "__xlc__",
    "__IBMC__",
    "__HP_aCC",
    "__TINYC__",
    "__ia64__",
    "__ia64",
    "__sparc__",
    "__sparc",
    "__alpha__",
    "__alpha",
    "__hppa__",
    "__hppa",
    "__mips__",
    "__mips",
    "__m68k__",
    "__sh__",
    "__loongarch__",
    "__arm__",
    "__arm",
    "_M_ARM",
    "_M_ARM64",
    "__VAX__",
    "vax",
    "__mc68000__",
    "__m88k__",
    "__ns32k__",
    "__ksr__",
    "__vax__",
];

/// Parts of a name that speak of x86, between underscores or at either end.
const OF_X86: &[&str] = &[
    "x86",
    "i386",
    "i486",
    "i586",
    "i686",
    "ia32",
    "amd64",
    "cpuid",
    "sse",
    "sse2",
    "sse3",
    "ssse3",
    "sse4",
    "sse41",
    "sse42",
    "mmx",
    "avx",
    "avx2",
    "avx512",
    "f16c",
    "fma",
    "fma4",
    "bmi",
    "bmi2",
    "pclmul",
    "xsave",
    "xgetbv",
    "rdtsc",
    "x32",
    "x64",
    "ix86",
    "pclmulqdq",
    "popcnt",
    "immintrin",
    "nmmintrin",
];

/// Whether a name speaks of x86: `__x86_64__`, `USE_SSE42_CRC32C`, `HAVE__GET_CPUID`.
pub fn speaks_of_x86(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| {
            OF_X86.contains(&word)
                || word.strip_prefix("x86").is_some_and(|rest| rest.len() <= 8)
                || ["avx512", "sse4", "avx", "sse"].iter().any(|stem| {
                    let rest = word.strip_prefix(stem);
                    rest.is_some_and(|rest| {
                        !rest.is_empty()
                            && rest.len() <= 8
                            && (rest.as_bytes()[0].is_ascii_digit() || *stem == "avx512")
                    })
                })
        })
}

/// What `defined(name)` is where `processor` is compiled for; unknown where that is up to the build.
pub fn defined(name: &str, processor: Processor) -> Truth {
    for (of, names) in OF_PROCESSORS {
        if names.contains(&name) {
            return if *of == processor {
                Truth::Yes
            } else {
                Truth::No
            };
        }
    }
    if ALWAYS.contains(&name) {
        return Truth::Yes;
    }
    if NEVER.contains(&name) || speaks_of_x86(name) {
        return Truth::No;
    }
    let lower = name.to_ascii_lowercase();
    let has = |word: &str| lower.split('_').any(|part| part == word);
    let of_arm = ["neon", "aarch64", "arm64", "armv8", "armcrc", "sve", "acle"]
        .iter()
        .any(|word| has(word));
    let of_power = ["altivec", "vsx", "ppc", "powerpc", "ppc64"]
        .iter()
        .any(|word| has(word));
    let of_z = ["s390", "s390x"].iter().any(|word| has(word));
    match processor {
        _ if of_arm && processor != Processor::Aarch64 => Truth::No,
        _ if of_power && processor != Processor::Ppc64le => Truth::No,
        _ if of_z && processor != Processor::S390x => Truth::No,
        _ => Truth::Unknown,
    }
}

/// Whether a name speaks of any processor.
pub fn speaks_of_processor(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let words = [
        "neon", "aarch64", "arm64", "armv8", "arm", "sve", "altivec", "vsx", "ppc", "powerpc",
        "ppc64", "s390", "s390x", "riscv", "sparc", "ia64", "mips", "alpha", "hppa",
    ];
    speaks_of_x86(name) || lower.split('_').any(|part| words.contains(&part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_speak_of_a_processor_by_their_words() {
        for name in [
            "__x86_64__",
            "__SSE4_2__",
            "USE_SSE42_CRC32C",
            "HAVE__GET_CPUID",
            "_M_IX86",
            "__AVX512F__",
            "HAVE_AVX512_POPCNT",
        ] {
            assert!(speaks_of_x86(name), "{name}");
        }
        for name in [
            "USE_ASSERT_CHECKING",
            "CLASSES",
            "HAVE_MESSAGE",
            "ESSENTIAL",
            "AVXFOO",
            "USE_FMADD",
        ] {
            assert!(!speaks_of_x86(name), "{name}");
        }
    }

    #[test]
    fn each_processor_has_its_own_names() {
        assert_eq!(defined("__aarch64__", Processor::Aarch64), Truth::Yes);
        assert_eq!(defined("__aarch64__", Processor::Ppc64le), Truth::No);
        assert_eq!(
            defined("USE_ARMV8_CRC32C", Processor::Aarch64),
            Truth::Unknown
        );
        assert_eq!(defined("USE_ARMV8_CRC32C", Processor::S390x), Truth::No);
        assert_eq!(defined("_MSC_VER", Processor::Aarch64), Truth::No);
        assert_eq!(defined("HAVE_STRDUP", Processor::Aarch64), Truth::Unknown);
    }
}
