//! Intrinsics, types, headers and function attributes of x86, and those of others beside them.

use tree_sitter::Node;

use crate::context::Context;
use crate::facts::{Include, When};
use crate::guards::known::{Processor, speaks_of_x86};

/// Beginnings of names that are x86's, and the rule; the first that fits.
const NAMES: &[(&str, &str)] = &[
    ("_mm_crc32_", "x86-crc32"),
    ("_mm_popcnt_", "x86-popcount"),
    ("_popcnt", "x86-popcount"),
    ("_mm_pause", "x86-pause"),
    ("__builtin_ia32_pause", "x86-pause"),
    ("_mm_mfence", "x86-fence"),
    ("_mm_lfence", "x86-fence"),
    ("_mm_sfence", "x86-fence"),
    ("__rdtsc", "x86-clock"),
    ("_rdtsc", "x86-clock"),
    ("__get_cpuid", "x86-cpuid"),
    ("__cpuid", "x86-cpuid"),
    ("_xgetbv", "x86-cpuid"),
    ("__builtin_ia32_crc32", "x86-crc32"),
    ("__builtin_ia32_", "x86-intrinsic"),
    ("_mm_", "x86-intrinsic"),
    ("_mm256_", "x86-intrinsic"),
    ("_mm512_", "x86-intrinsic"),
    ("__m128", "x86-intrinsic"),
    ("__m256", "x86-intrinsic"),
    ("__m512", "x86-intrinsic"),
    ("__mmask", "x86-intrinsic"),
    ("_pext_u", "x86-intrinsic"),
    ("_pdep_u", "x86-intrinsic"),
    ("_lzcnt_u", "x86-intrinsic"),
    ("_tzcnt_u", "x86-intrinsic"),
    ("_addcarry_u", "x86-intrinsic"),
    ("_mulx_u", "x86-intrinsic"),
    ("_bzhi_u", "x86-intrinsic"),
];

/// Headers of x86, and the rule.
const HEADERS: &[(&str, &str)] = &[
    ("immintrin.h", "x86-intrinsic"),
    ("x86intrin.h", "x86-intrinsic"),
    ("mmintrin.h", "x86-intrinsic"),
    ("xmmintrin.h", "x86-intrinsic"),
    ("emmintrin.h", "x86-intrinsic"),
    ("pmmintrin.h", "x86-intrinsic"),
    ("tmmintrin.h", "x86-intrinsic"),
    ("smmintrin.h", "x86-intrinsic"),
    ("nmmintrin.h", "x86-intrinsic"),
    ("wmmintrin.h", "x86-intrinsic"),
    ("ammintrin.h", "x86-intrinsic"),
    ("avxintrin.h", "x86-intrinsic"),
    ("avx2intrin.h", "x86-intrinsic"),
    ("popcntintrin.h", "x86-popcount"),
    ("cpuid.h", "x86-cpuid"),
];

/// Beginnings of names of other processors.
const OTHERS: &[(&str, Processor)] = &[
    ("vld1", Processor::Aarch64),
    ("vst1", Processor::Aarch64),
    ("vdup", Processor::Aarch64),
    ("__crc32c", Processor::Aarch64),
    ("__crc32b", Processor::Aarch64),
    ("__crc32w", Processor::Aarch64),
    ("__crc32d", Processor::Aarch64),
    ("svld1", Processor::Aarch64),
    ("svcnt", Processor::Aarch64),
    ("svwhilelt", Processor::Aarch64),
    ("vec_xl", Processor::Ppc64le),
    ("vec_ld", Processor::Ppc64le),
];

/// Headers of other processors, and of libraries that translate.
const OTHER_HEADERS: &[(&str, Processor)] = &[
    ("arm_neon.h", Processor::Aarch64),
    ("arm_acle.h", Processor::Aarch64),
    ("arm_sve.h", Processor::Aarch64),
    ("altivec.h", Processor::Ppc64le),
    ("vecintrin.h", Processor::S390x),
    ("riscv_vector.h", Processor::Riscv64),
];

const X86: When = When::ForProcessor(None);

/// The rule that a name of x86 breaks.
pub fn rule_of(name: &str) -> Option<&'static str> {
    let named = NAMES.iter().find(|(start, _)| name.starts_with(start));
    named.map(|(_, rule)| *rule)
}

/// A name in an expression or a declaration.
pub fn name(context: &mut Context<'_>, node: Node<'_>) {
    let name = context.words(node);
    if !name.starts_with(['_', 'v', 's']) {
        return;
    }
    // The names that directives ask for or define are no use of them.
    if context
        .parent()
        .is_some_and(|parent| parent.kind().starts_with("preproc"))
    {
        return;
    }
    if let Some(rule) = rule_of(name) {
        context.found_once(rule, node, X86);
    } else if name == "__builtin_cpu_supports" || name == "__builtin_cpu_is" {
        let call = context
            .parent()
            .map(|call| context.words(call))
            .unwrap_or_default();
        if speaks_of_x86(call) || call.contains("amd") || call.contains("intel") {
            context.found_once("x86-cpuid", node, X86);
        }
    } else if name.starts_with("__builtin_popcount") {
        context.facts.builtin_popcount = true;
    } else if let Some((_, processor)) = OTHERS.iter().find(|(start, _)| name.starts_with(start)) {
        context.facts.paths.insert(*processor);
    }
}

/// An `#include`.
pub fn include(context: &mut Context<'_>, node: Node<'_>) {
    let Some(path) = node.child_by_field_name("path") else {
        return;
    };
    let quoted = path.kind() == "string_literal";
    let path = context.words(path).trim_matches(['<', '>', '"']);
    let last = path.rsplit('/').next().unwrap_or(path);
    let include = Include {
        path: path.to_owned(),
        quoted,
        line: context.line(node),
        region: context.guards.region().cloned(),
    };
    context.facts.includes.push(include);
    if let Some((_, rule)) = HEADERS.iter().find(|(header, _)| *header == last) {
        context.found(rule, node, X86);
    }
    if let Some((_, processor)) = OTHER_HEADERS.iter().find(|(header, _)| *header == last) {
        context.facts.paths.insert(*processor);
    }
    if last == "sse2neon.h" || last == "avx2ki.h" || path.contains("simde/") {
        context.facts.translates = true;
    }
}

/// `__attribute__((target("avx2")))`, and target_clones.
pub fn attribute(context: &mut Context<'_>, node: Node<'_>) {
    let words = context.words(node);
    if words.len() > 400 || !words.contains("target") {
        return;
    }
    // Both an attribute and the specifier around it come here: the innermost that has it is enough.
    let mut cursor = node.walk();
    let inner = node.children(&mut cursor).any(|child| {
        matches!(child.kind(), "attribute" | "attribute_specifier")
            && context.words(child).contains("target")
    });
    let named = words
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .any(|word| {
            matches!(
                word,
                "target" | "__target__" | "target_clones" | "__target_clones__"
            )
        });
    if inner || !named {
        return;
    }
    let features = words.split('"').skip(1).step_by(2);
    let of_x86 = features.flat_map(|text| text.split(',')).any(|feature| {
        let feature = feature.trim().trim_start_matches("no-");
        speaks_of_x86(feature)
            || feature.starts_with("arch=x86")
            || feature == "popcnt"
            || feature.starts_with("lzcnt")
    });
    if of_x86 {
        context.found_once("x86-target", node, X86);
    }
}
