//! The rules: what is looked for, why it matters on another processor, and what to do. Data only;
//! `detect` and `flags` say where a rule applies.

use serde::Serialize;

/// What happens on the other processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// It depends on something that the source does not show: a reader decides.
    Check,
    /// It works, by a slower path.
    Slow,
    /// It does not build, does not run, or gives other results.
    Breaks,
}

impl Effect {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Slow => "slow",
            Self::Breaks => "breaks",
        }
    }
}

/// One thing that is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rule {
    /// Stable name.
    pub id: &'static str,
    /// In a few words.
    pub title: &'static str,
    /// What a finding means at worst.
    pub effect: Effect,
    /// Why it matters.
    pub why: &'static str,
    /// What to do.
    pub remedy: &'static str,
    /// Where this is from.
    pub reference: &'static str,
}

/// The rule of this name. Every name in this crate is in the table, which a test holds.
pub fn rule(id: &str) -> &'static Rule {
    RULES.iter().find(|rule| rule.id == id).unwrap_or(&RULES[0])
}

const ACLE: &str = "Arm C Language Extensions, ACLE Q1 2025";
const GRAVITON: &str = "AWS Graviton Technical Guide, \"C/C++ on Graviton\"";
const GCC_X86: &str = "GCC manual, \"x86 Options\"";
const BARRIERS: &str = "PostgreSQL source, src/backend/storage/lmgr/README.barrier";
const SIGNEDNESS: &str = "Procedure Call Standard for the Arm 64-bit Architecture, \"Arithmetic types\": char is unsigned";

/// All rules.
pub const RULES: &[Rule] = &[
    Rule {
        id: "x86-intrinsic",
        title: "x86 intrinsics, types or headers",
        effect: Effect::Breaks,
        why: "Intrinsics, vector types and headers of x86 exist for x86 only; the file does not compile elsewhere.",
        remedy: "Put it under #if defined(__x86_64__), with a portable path beside it; or write it with NEON (arm_neon.h), or include sse2neon or SIMDe.",
        reference: GRAVITON,
    },
    Rule {
        id: "x86-crc32",
        title: "CRC-32C by an instruction of x86 only",
        effect: Effect::Breaks,
        why: "_mm_crc32_* exists on x86 only; aarch64 has the same CRC-32C as __crc32cb … __crc32cd.",
        remedy: "Use <arm_acle.h> with -march=armv8-a+crc under #ifdef __ARM_FEATURE_CRC32, and a table elsewhere; in an extension call PostgreSQL's COMP_CRC32C, which chooses by itself.",
        reference: ACLE,
    },
    Rule {
        id: "x86-popcount",
        title: "population count by an instruction of x86 only",
        effect: Effect::Breaks,
        why: "_mm_popcnt_* and the popcnt instruction exist on x86 only.",
        remedy: "Use __builtin_popcountll, which becomes CNT on aarch64; in an extension pg_popcount64 or pg_popcount.",
        reference: "GCC manual, \"Bit Operation Builtins\"",
    },
    Rule {
        id: "x86-pause",
        title: "spin delay by PAUSE",
        effect: Effect::Breaks,
        why: "_mm_pause and the pause instruction exist on x86 only.",
        remedy: "Use ISB on aarch64 (YIELD does nothing on most cores), pause on x86, and nothing elsewhere; in an extension SPIN_DELAY() of s_lock.h.",
        reference: "PostgreSQL source, src/include/storage/s_lock.h",
    },
    Rule {
        id: "x86-fence",
        title: "memory fence of x86",
        effect: Effect::Breaks,
        why: "_mm_mfence, _mm_lfence and _mm_sfence exist on x86 only.",
        remedy: "Use atomic_thread_fence or __atomic_thread_fence; in an extension pg_memory_barrier, pg_read_barrier or pg_write_barrier.",
        reference: BARRIERS,
    },
    Rule {
        id: "x86-clock",
        title: "time stamp counter of x86",
        effect: Effect::Breaks,
        why: "__rdtsc exists on x86 only.",
        remedy: "Use clock_gettime(CLOCK_MONOTONIC), which needs no system call on Linux; in an extension INSTR_TIME_SET_CURRENT.",
        reference: GRAVITON,
    },
    Rule {
        id: "x86-cpuid",
        title: "CPU features by CPUID",
        effect: Effect::Breaks,
        why: "cpuid.h, CPUID, XGETBV and __builtin_cpu_supports with names of x86 features exist on x86 only.",
        remedy: "Put it under #if defined(__x86_64__); on aarch64 ask getauxval(AT_HWCAP).",
        reference: "Linux kernel documentation, arch/arm64/elf_hwcaps",
    },
    Rule {
        id: "x86-target",
        title: "function compiled for an x86 feature",
        effect: Effect::Breaks,
        why: "__attribute__((target(\"avx2\"))) and target_clones with features of x86 are errors in compilers for other processors.",
        remedy: "Put the attribute under #if defined(__x86_64__); on aarch64 name features of its own, such as target(\"+crc\").",
        reference: "GCC manual, \"Common Function Attributes\"",
    },
    Rule {
        id: "no-vector-path",
        title: "vector code for x86, none for this processor",
        effect: Effect::Slow,
        why: "x86 has a path by hand with vector, CRC or popcount instructions; this processor runs the portable one.",
        remedy: "Measure both; then write the path with NEON (always there on aarch64), or with SVE chosen at run time, or let the compiler vectorize a plain loop.",
        reference: GRAVITON,
    },
    Rule {
        id: "inline-assembly",
        title: "inline assembly of another processor",
        effect: Effect::Breaks,
        why: "The instructions belong to one processor; the assembler of another refuses them.",
        remedy: "Use a builtin (__atomic_*, __builtin_*) or PostgreSQL's own function; or put it under the processor's macro, with another path beside it.",
        reference: "GCC manual, \"Extended Asm\"",
    },
    Rule {
        id: "assembly-file",
        title: "assembly source",
        effect: Effect::Check,
        why: "An assembly source is for one processor.",
        remedy: "Let the build choose it by processor, with a portable file beside it.",
        reference: GRAVITON,
    },
    Rule {
        id: "unknown-processor",
        title: "#error on this processor",
        effect: Effect::Breaks,
        why: "The preprocessor comes to this #error on this processor.",
        remedy: "Add a branch for the processor, or a portable one.",
        reference: "ISO/IEC 9899, 6.10 \"Preprocessing directives\"",
    },
    Rule {
        id: "char-sign",
        title: "result depends on whether char is signed",
        effect: Effect::Check,
        why: "Plain char is signed on x86 and unsigned on aarch64, ppc64le, s390x and riscv64: for bytes from 0x80 on the condition comes out differently.",
        remedy: "Say signed char, unsigned char or int, or cast to unsigned char before comparing. -fsigned-char makes a build behave as on x86.",
        reference: SIGNEDNESS,
    },
    Rule {
        id: "char-negative",
        title: "char compared with a negative number",
        effect: Effect::Breaks,
        why: "Where char is unsigned it is never negative: a test for -1 or EOF never holds, and a loop up to it never ends.",
        remedy: "Declare the variable as int (getc, getopt) or signed char.",
        reference: SIGNEDNESS,
    },
    Rule {
        id: "char-narrowing",
        title: "negative number narrowed to char in braces",
        effect: Effect::Breaks,
        why: "In C++11 and later a number that does not fit is an error in braces, and where char is unsigned no negative number fits: the file does not compile.",
        remedy: "Declare signed char or int8_t, or convert with static_cast<char>.",
        reference: "ISO/IEC 14882, [dcl.init.list]: narrowing conversions",
    },
    Rule {
        id: "missing-header",
        title: "header for this processor is missing",
        effect: Effect::Breaks,
        why: "The preprocessor includes this header on this processor. It is not in the tree, while x86's is.",
        remedy: "Add the header, or a portable branch; if sources were copied, copy those of all processors.",
        reference: "ISO/IEC 9899, 6.10.2 \"Source file inclusion\"",
    },
    Rule {
        id: "char-order",
        title: "two chars ordered by their sign",
        effect: Effect::Check,
        why: "Plain chars compare as signed on x86 and as unsigned on aarch64: text with bytes from 0x80 on sorts differently. What was sorted or indexed on one is wrong on the other.",
        remedy: "Compare unsigned char, as strcmp and memcmp do. Where order is on disk, keep what existing data has, and cast to signed char.",
        reference: "PostgreSQL 18 release notes: pg_trgm and the signedness of char",
    },
    Rule {
        id: "char-hash",
        title: "char widened in a hash or a number",
        effect: Effect::Check,
        why: "A byte from 0x80 on is extended with ones on x86 and with zeros on aarch64: the hash or number differs.",
        remedy: "Cast to unsigned char first.",
        reference: SIGNEDNESS,
    },
    Rule {
        id: "spinlock-release",
        title: "home-made lock released by a plain store",
        effect: Effect::Breaks,
        why: "On weakly ordered processors stores before the release may become visible after it, so the next owner sees old data.",
        remedy: "Release by __sync_lock_release or __atomic_store_n(…, __ATOMIC_RELEASE); in an extension use SpinLockAcquire and SpinLockRelease, or an LWLock.",
        reference: BARRIERS,
    },
    Rule {
        id: "busy-wait",
        title: "loop waits on a plain variable",
        effect: Effect::Breaks,
        why: "Nothing orders what is read after the loop behind the read of the flag; on weakly ordered processors old data is seen. Without volatile the compiler may read the flag once only.",
        remedy: "Read it with acquire semantics (__atomic_load_n(…, __ATOMIC_ACQUIRE), or pg_read_barrier after the loop), or wait on a latch or condition variable.",
        reference: BARRIERS,
    },
    Rule {
        id: "volatile-sync",
        title: "volatile in place of an atomic",
        effect: Effect::Check,
        why: "volatile orders nothing between processors. x86 hides that for most code; aarch64 and ppc64le do not.",
        remedy: "If other threads or processes read it: C11 atomics, or pg_atomic_* with barriers. If only a signal handler does: volatile sig_atomic_t.",
        reference: BARRIERS,
    },
    Rule {
        id: "compiler-barrier",
        title: "memory barrier that holds the compiler only",
        effect: Effect::Breaks,
        why: "An empty asm with a memory clobber emits no instruction. As a read or write barrier it suffices on x86 only.",
        remedy: "Use __atomic_thread_fence(__ATOMIC_ACQUIRE or __ATOMIC_RELEASE); in an extension pg_read_barrier and pg_write_barrier.",
        reference: BARRIERS,
    },
    Rule {
        id: "shared-plain",
        title: "shared memory written without lock, atomic or barrier",
        effect: Effect::Check,
        why: "The variable points into memory shared by processes, and this function writes it with no lock, atomic or barrier in sight: others may see the stores in another order.",
        remedy: "Hold the lock that readers take, use pg_atomic_*, or put pg_write_barrier between the data and the flag that announces it.",
        reference: BARRIERS,
    },
    Rule {
        id: "unaligned",
        title: "wide access to a byte address",
        effect: Effect::Check,
        why: "The address need not be a multiple of the type's size. x86 takes it; elsewhere atomics, vector code and some processors trap, and compilers may assume that it never happens.",
        remedy: "memcpy into a variable: compilers make one load of it where that is allowed.",
        reference: "ISO/IEC 9899, 6.3.2.3 \"Pointers\"",
    },
    Rule {
        id: "page-size",
        title: "page size as a constant",
        effect: Effect::Check,
        why: "Kernels for aarch64 and ppc64le have pages of 4, 16 or 64 KiB; mmap, mprotect and madvise refuse what is not a multiple.",
        remedy: "Ask sysconf(_SC_PAGESIZE).",
        reference: "Linux man-pages, sysconf(3)",
    },
    Rule {
        id: "cache-line-size",
        title: "cache line size as a constant",
        effect: Effect::Slow,
        why: "Lines are of 64 bytes on x86 and most aarch64, 128 on ppc64le and Apple's, 256 on s390x: what is padded to 64 shares a line there.",
        remedy: "Pad to 128 (PG_CACHE_LINE_SIZE), or choose by processor.",
        reference: "PostgreSQL source, src/include/pg_config_manual.h",
    },
    Rule {
        id: "build-flag",
        title: "compiler flag of x86 for every processor",
        effect: Effect::Breaks,
        why: "Compilers for other processors refuse the flag.",
        remedy: "Set it only where the processor is x86, or after a check that the compiler takes it; give aarch64 its own (-march=armv8-a+crc).",
        reference: GCC_X86,
    },
    Rule {
        id: "native-build",
        title: "built for the building machine",
        effect: Effect::Check,
        why: "-march=native takes what the building machine has: the package may end with an illegal instruction on another, and GCC before 6 does not know it on aarch64.",
        remedy: "Leave it to users; packages set OPTFLAGS=\"\" or a named baseline.",
        reference: GCC_X86,
    },
    Rule {
        id: "needs-feature",
        title: "needs more than the architecture's baseline",
        effect: Effect::Breaks,
        why: "The functions use instructions that not every processor of the architecture has, and nothing in the file asks for them first: others end with an illegal instruction.",
        remedy: "Build for the baseline, or choose at run time (target_clones, ifunc, a function pointer set by CPUID or HWCAP).",
        reference: GRAVITON,
    },
    Rule {
        id: "unchecked-call",
        title: "called past the check of the processor",
        effect: Effect::Check,
        why: "The file asks for processor features, but these functions are called directly from code for the baseline in which no check is seen.",
        remedy: "See that each caller runs only after the check.",
        reference: GRAVITON,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_every_rule_says_what_to_do() {
        for (n, rule) in RULES.iter().enumerate() {
            assert!(
                RULES[..n].iter().all(|other| other.id != rule.id),
                "{}",
                rule.id
            );
            for text in [rule.title, rule.why, rule.remedy, rule.reference] {
                assert!(!text.is_empty(), "{}", rule.id);
            }
            assert!(
                rule.why.ends_with('.') && rule.remedy.ends_with('.'),
                "{}",
                rule.id
            );
        }
    }
}
