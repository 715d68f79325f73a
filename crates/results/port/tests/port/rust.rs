//! Rust: what is compiled for every processor and exists on x86 only, and what `cfg` keeps apart.

use pgassay_port::guards::known::Processor;
use pgassay_report::Report as _;

use super::{of, porting};

fn rules(text: &str) -> Vec<(&'static str, u32)> {
    let porting = of("src/lib.rs", text);
    let places = porting.findings.iter();
    places.map(|f| (f.rule, f.line.unwrap_or(0))).collect()
}

#[test]
fn what_exists_on_x86_only_breaks() {
    for (text, rule) in [
        ("use std::arch::x86_64::*;", "x86-intrinsic"),
        (
            "use core::arch::x86_64::{__m256, _mm256_add_ps};",
            "x86-intrinsic",
        ),
        ("use core::{arch::x86_64 as arch};", "x86-intrinsic"),
        (
            "fn f() { unsafe { std::arch::x86_64::_mm_prefetch::<0>(p) } }",
            "x86-intrinsic",
        ),
        (
            "fn f() -> bool { is_x86_feature_detected!(\"avx2\") }",
            "x86-cpuid",
        ),
        (
            "fn f() -> bool { std::is_x86_feature_detected!(\"avx2\") }",
            "x86-cpuid",
        ),
        (
            "#[target_feature(enable = \"avx2,fma\")]\nunsafe fn f() {}",
            "x86-target",
        ),
        (
            "#[cfg(feature = \"x\")]\n#[target_feature(enable = \"sse4.2\")]\nunsafe fn f() {}",
            "x86-target",
        ),
        (
            "fn f() { unsafe { asm!(\"cpuid\", out(\"eax\") a) } }",
            "x86-cpuid",
        ),
        (
            "core::arch::global_asm!(\".globl f\", \"f:\", \"movq %rdi, %rax\", \"ret\");",
            "inline-assembly",
        ),
        (
            "#[cfg(not(target_arch = \"x86_64\"))]\ncompile_error!(\"x86 only\");",
            "unknown-processor",
        ),
        (
            "fn f() { if cfg!(target_arch = \"x86_64\") { unsafe { _mm_pause() } } }",
            "x86-pause",
        ),
        (
            "macro_rules! m { () => { _mm256_setzero_ps() } }",
            "x86-intrinsic",
        ),
    ] {
        let found = of("src/lib.rs", text).findings;
        assert!(found.iter().any(|f| f.rule == rule), "{text}: {found:?}");
    }
    let breaks = of("src/lib.rs", "use std::arch::x86_64::*;\n").findings;
    assert_eq!(breaks[0].effect.name(), "breaks");
}

#[test]
fn what_cfg_keeps_apart_does_not() {
    let portable = "fn f() -> u32 { 0 }\n";
    for text in [
        "#[cfg(target_arch = \"x86_64\")]\nfn f() -> bool { is_x86_feature_detected!(\"avx2\") }\n",
        "fn f() {\n#[cfg(target_arch = \"x86_64\")]\n{ if is_x86_feature_detected!(\"avx2\") { g() } }\n}\n",
        "#[cfg(all(target_arch = \"x86_64\", target_feature = \"avx2\"))]\nmod m { #[target_feature(enable = \"avx2\")] fn f() {} }\n",
        "#![cfg(any(target_arch = \"x86\", target_arch = \"x86_64\"))]\nfn f() -> bool { is_x86_feature_detected!(\"avx2\") }\n",
        "#[cfg_attr(target_arch = \"x86_64\", target_feature(enable = \"avx2\"))]\nfn f() {}\n",
        "cfg_if::cfg_if! {\n if #[cfg(target_arch = \"x86_64\")] { fn f() { is_x86_feature_detected!(\"x\"); } }\n else { fn f() {} }\n}\n",
        "#[cfg(target_arch = \"aarch64\")]\nfn f() { unsafe { asm!(\"isb\") } }\n",
        "#[cfg(any(target_arch = \"x86\", target_arch = \"x86_64\"))]\ncompile_error!(\"avx2\");\n",
        "#[target_feature(enable = \"neon\")]\nfn f() {}\n",
        "fn f() { asm!(\"isb\", options(nostack)) }\n",
    ] {
        assert!(rules(&format!("{text}{portable}")).is_empty(), "{text}");
    }
}

#[test]
fn branches_of_cfg_if_exclude_one_another() {
    let text = "cfg_if! {\n    if #[cfg(target_arch = \"aarch64\")] {\n        fn f() {}\n    } else if #[cfg(feature = \"x\")] {\n        fn f() { _mm_pause() }\n    } else {\n        use std::arch::x86_64::*;\n    }\n}\n";
    assert!(rules(text).is_empty());
    let files = [("a.rs".to_owned(), text.as_bytes().to_vec())];
    let power = porting(&files, Processor::Ppc64le).findings;
    let mut lines: Vec<Option<u32>> = power.iter().map(|f| f.line).collect();
    lines.sort_unstable();
    assert_eq!(lines, [Some(5), Some(7)], "{power:?}");
}

#[test]
fn a_module_of_its_own_file_is_compiled_under_its_declaration() {
    let avx2 = "use std::arch::x86_64::*;\nunsafe fn f() { _mm256_zeroall() }\n";
    let tree = |module: &str, path: &str| {
        [("src/lib.rs", module), (path, avx2)]
            .map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()))
    };
    let guarded = "#[cfg(target_arch = \"x86_64\")]\nmod fast;\n";
    for path in ["src/fast.rs", "src/fast/mod.rs"] {
        let found = porting(&tree(guarded, path), Processor::Aarch64).findings;
        assert!(
            found.iter().all(|f| f.rule == "no-vector-path"),
            "{found:?}"
        );
        let found = porting(&tree("mod fast;\n", path), Processor::Aarch64).findings;
        assert!(found.iter().any(|f| f.effect.name() == "breaks"), "{path}");
    }
}

#[test]
fn a_path_for_x86_alone_is_slower() {
    let text = "#[cfg(target_arch = \"x86_64\")]\nunsafe fn sum() { std::arch::x86_64::_mm256_zeroall() }\n";
    assert_eq!(rules(text), [("no-vector-path", 2)]);
    let both = format!(
        "{text}#[cfg(target_arch = \"aarch64\")]\nunsafe fn sum() {{ std::arch::aarch64::vaddq_f32(a, b) }}\n"
    );
    assert!(rules(&both).is_empty());
}

#[test]
fn flags_that_a_build_script_sets_are_found_unless_chosen() {
    let build = |text: &str| {
        let found = of("build.rs", text).findings;
        found.iter().map(|f| f.rule).collect::<Vec<_>>()
    };
    assert_eq!(
        build("fn main() { cc::Build::new().flag(\"-mavx2\").compile(\"x\"); }"),
        ["build-flag"]
    );
    for text in [
        "fn main() { cc::Build::new().flag_if_supported(\"-mavx2\"); }",
        "fn main() { if target.contains(\"x86_64\") { build.flag(\"-mavx2\"); } }",
        "fn main() { match arch.as_str() { \"x86_64\" => { build.flag(\"-mavx2\"); } _ => {} } }",
        "fn main() { #[cfg(target_arch = \"x86_64\")] build.flag(\"-mavx2\"); }",
        "fn main() { println!(\"-mavx2\"); build.flag(\"-O3\"); }",
    ] {
        assert!(build(text).is_empty(), "{text}");
    }
}

#[test]
fn rust_is_counted_and_other_languages_are_named_as_not_analysed() {
    let mut project = pgassay_port::project::Project::default();
    let read = |name: &str, text: &str| {
        pgassay_port::project::read(name, text.as_bytes()).expect("looked at")
    };
    project.add("Makefile", read("Makefile", "all:\n"));
    project.add_name("main.go");
    project.add_name("kernels/sum.cu");
    let porting = project.finish("x", Processor::Aarch64);
    let headline = porting.document().headline.join(" ");
    assert!(!headline.contains("Nothing was found"), "{headline}");
    assert!(
        headline.contains("No source or binary was read"),
        "{headline}"
    );
    assert!(headline.contains("Not analysed: CUDA, Go."), "{headline}");

    let porting = of("src/lib.rs", "fn f() {}\n");
    assert_eq!(
        (porting.rust_files, porting.rust_lines, porting.source_files),
        (1, 1, 0)
    );
    let headline = porting.document().headline.join(" ");
    assert!(
        headline.contains("Nothing was found that breaks"),
        "{headline}"
    );
}
