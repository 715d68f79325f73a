//! Headers that this processor's branch includes and the tree lacks.

use pgassay_port::guards::known::Processor;
use pgassay_port::porting::Finding;

use super::porting;

fn missing(files: &[(&str, &str)], processor: Processor) -> Vec<Finding> {
    let files: Vec<(String, Vec<u8>)> = files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()))
        .collect();
    let findings = porting(&files, processor).findings.into_iter();
    findings.filter(|f| f.rule == "missing-header").collect()
}

const ATOMICS: &str = "#if defined(__arm__) || defined(__aarch64__)\n#include \"port/atomics/arch-arm.h\"\n\
    #elif defined(__i386__) || defined(__x86_64__)\n#include \"port/atomics/arch-x86.h\"\n\
    #elif defined(__powerpc64__)\n#include \"port/atomics/arch-ppc.h\"\n#endif\n";
const X86: (&str, &str) = ("src/include/port/atomics/arch-x86.h", "int x;\n");

#[test]
fn a_header_that_was_left_out_of_a_copy_is_found() {
    let tree = [("src/include/port/atomics.h", ATOMICS), X86];
    for (processor, line) in [(Processor::Aarch64, 2), (Processor::Ppc64le, 6)] {
        let found = missing(&tree, processor);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].line, Some(line));
        assert_eq!(found[0].effect.name(), "breaks");
    }
    assert!(missing(&tree, Processor::S390x).is_empty());
}

#[test]
fn a_header_that_is_there_or_that_nobody_knows_is_not() {
    let arm = ("src/include/port/atomics/arch-arm.h", "int a;\n");
    let tree = [("src/include/port/atomics.h", ATOMICS), X86, arm];
    assert!(missing(&tree, Processor::Aarch64).is_empty());
    // One file alone, or a tree without either.
    assert!(missing(&[("atomics.h", ATOMICS)], Processor::Aarch64).is_empty());
    for text in [
        // The system's, the build's, another library's.
        "#ifdef __aarch64__\n#include <sys/auxv.h>\n#else\n#include \"simd_x86.h\"\n#endif\n",
        "#include \"config.h\"\n#ifdef __x86_64__\n#include \"simd_x86.h\"\n#endif\n",
        "#if defined(__aarch64__) && __has_include(\"simd_arm.h\")\n#include \"simd_arm.h\"\n\
         #elif defined(__x86_64__)\n#include \"simd_x86.h\"\n#endif\n",
        "#ifdef __x86_64__\n#include \"simd_x86.h\"\n#elif defined(__s390x__)\n#include \"simd_z.h\"\n#endif\n",
    ] {
        let tree = [("a.c", text), ("simd_x86.h", "int x;\n")];
        assert!(missing(&tree, Processor::Aarch64).is_empty(), "{text}");
    }
}

#[test]
fn names_branches_and_directories_of_each_kind_are_followed() {
    for (path, text, x86) in [
        (
            "a.c",
            "#ifdef __x86_64__\n#include \"simd_x86.h\"\n#else\n#include \"simd_generic.h\"\n#endif\n",
            "simd_x86.h",
        ),
        (
            "a.cpp",
            "#if defined(__ARM_NEON)\n#include \"simd/neon.hpp\"\n#else\n#include \"simd/sse.hpp\"\n#endif\n",
            "lib/simd/sse.hpp",
        ),
        (
            "src/a.c",
            "#ifdef __aarch64__\n#include \"../arch/aarch64/cpu.h\"\n#endif\n",
            "arch/x86/cpu.h",
        ),
        (
            "src/a.c",
            "#include \"./crc_arm64.h\"\n#include \"./crc_x86.h\"\n",
            "src/crc_x86.h",
        ),
    ] {
        let found = missing(&[(path, text), (x86, "int x;\n")], Processor::Aarch64);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!(found[0].effect.name(), "breaks");
    }
    let text = "#ifdef USE_SIMD\n#ifdef __aarch64__\n#include \"simd_arm.h\"\n#else\n#include \"simd_x86.h\"\n#endif\n#endif\n";
    let found = missing(
        &[("a.c", text), ("simd_x86.h", "int x;\n")],
        Processor::Aarch64,
    );
    assert_eq!(found[0].effect.name(), "check");
    assert_eq!(found[0].condition.as_deref(), Some("#ifdef USE_SIMD"));
}
