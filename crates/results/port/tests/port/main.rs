//! Planted defects, all found, each on its line by its rule; clean samples, none found; hostile files.

mod braces;
mod headers;
mod locks;
mod rust;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pgassay_port::guards::known::Processor;
use pgassay_port::porting::Porting;
use pgassay_port::project::{Project, Read, read};
use pgassay_port::rules::{Effect, RULES};

fn samples(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/port")
        .join(folder);
    let entries = fs::read_dir(folder)
        .expect("the samples")
        .map(|entry| entry.expect("an entry").path());
    let samples = entries.map(|path| {
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        (name, fs::read(&path).expect("readable"))
    });
    samples.collect()
}

fn porting(files: &[(String, Vec<u8>)], processor: Processor) -> Porting {
    let mut project = Project::default();
    for (name, bytes) in files {
        if let Some(read) = read(name, bytes) {
            project.add(name, read);
        }
    }
    project.finish("samples", processor)
}

fn of(name: &str, text: &str) -> Porting {
    porting(
        &[(name.to_owned(), text.as_bytes().to_vec())],
        Processor::Aarch64,
    )
}

/// How often each rule is expected, or found, at each line.
type Places = BTreeMap<(String, u32, String), usize>;

fn expected(files: &[(String, Vec<u8>)]) -> Places {
    let mut places = Places::new();
    for (name, bytes) in files {
        for (n, line) in String::from_utf8_lossy(bytes).lines().enumerate() {
            let mut words = line.split_whitespace();
            while let Some(word) = words.next() {
                if word == "PLANTED" || word == "PLANTED-FILE" {
                    let rule = words.next().expect("a rule").to_owned();
                    *places
                        .entry((name.clone(), n as u32 + 1, rule))
                        .or_default() += 1;
                }
            }
        }
    }
    places
}

fn found(porting: &Porting) -> Places {
    let mut places = Places::new();
    for finding in &porting.findings {
        let place = (
            finding.path.clone(),
            finding.line.unwrap_or(0),
            finding.rule.to_owned(),
        );
        *places.entry(place).or_default() +=
            1 + finding.more as usize * usize::from(finding.rule == "char-order");
    }
    places
}

#[test]
fn every_planted_defect_is_found_on_its_line_and_nothing_else() {
    let files = samples("planted");
    let expected = expected(&files);
    assert!(expected.len() > 35, "{}", expected.len());
    let porting = porting(&files, Processor::Aarch64);
    assert_eq!(found(&porting), expected);
    // What binaries show, and what only a path beside an x86 one can show, has tests of its own.
    let others = ["no-vector-path", "needs-feature", "unchecked-call"];
    for rule in RULES.iter().filter(|rule| !others.contains(&rule.id)) {
        assert!(
            expected.keys().any(|(_, _, id)| id == rule.id),
            "{} is not planted",
            rule.id
        );
    }
}

#[test]
fn clean_samples_have_no_finding() {
    let porting = porting(&samples("clean"), Processor::Aarch64);
    assert!(porting.source_files >= 6 && porting.build_files == 1);
    assert!(porting.findings.is_empty(), "{:#?}", porting.findings);
    assert!(porting.unbalanced.is_empty());
}

#[test]
fn what_is_for_one_processor_is_missing_on_another() {
    let arm = "#if defined(__aarch64__)\n#include <arm_neon.h>\n#elif defined(__x86_64__)\n#include <emmintrin.h>\n#else\n#error no vectors\n#endif\n";
    let files = [("v.c".to_owned(), arm.as_bytes().to_vec())];
    assert!(porting(&files, Processor::Aarch64).findings.is_empty());
    let power = porting(&files, Processor::Ppc64le);
    let rules: Vec<&str> = power.findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, ["unknown-processor"]);
}

#[test]
fn a_path_for_x86_alone_is_told_as_slower() {
    let x86 = "#ifdef __AVX2__\n#include <immintrin.h>\nint f(void) { return _mm256_extract_epi32(_mm256_setzero_si256(), 0); }\n#else\nint f(void) { return 0; }\n#endif\n";
    let slow = of("sum.c", x86);
    assert_eq!(slow.findings.len(), 1);
    assert_eq!(
        (slow.findings[0].rule, slow.findings[0].effect),
        ("no-vector-path", Effect::Slow)
    );
    let files = [
        ("sum_avx2.c".to_owned(), x86.as_bytes().to_vec()),
        ("sum_neon.c".to_owned(), b"#include <arm_neon.h>\n".to_vec()),
    ];
    assert!(porting(&files, Processor::Aarch64).findings.is_empty());
}

#[test]
fn a_macro_means_what_the_file_that_defines_it_says() {
    let header = "#ifdef __x86_64__\n#define FAST 1\n#endif\n";
    let source = "#include \"fast.h\"\n#ifdef FAST\nvoid f(void) { _mm_pause(); }\n#endif\n";
    let both = |header: &str| {
        let files = [
            ("fast.h".to_owned(), header.as_bytes().to_vec()),
            ("f.c".to_owned(), source.as_bytes().to_vec()),
        ];
        porting(&files, Processor::Aarch64).findings
    };
    assert!(both(header).is_empty());
    let found = both("#define FAST 1\n");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].condition.as_deref(), Some("#ifdef FAST"));
    // A header that only x86 includes is no matter of others.
    let files = [
        (
            "x.h".to_owned(),
            b"static inline void p(void) { _mm_pause(); }\n".to_vec(),
        ),
        (
            "f.c".to_owned(),
            b"#ifdef __x86_64__\n#include \"x.h\"\n#endif\n".to_vec(),
        ),
    ];
    assert!(porting(&files, Processor::Aarch64).findings.is_empty());
}

#[test]
fn a_field_is_a_char_only_if_every_declaration_says_so() {
    let source = "int f(struct s *p) { return p->sign < 0; }\n";
    let with = |kind: &str| {
        let files = [
            (
                "s.h".to_owned(),
                format!("struct s {{ {kind} sign; }};\n").into_bytes(),
            ),
            ("s.c".to_owned(), source.as_bytes().to_vec()),
        ];
        porting(&files, Processor::Aarch64).findings.len()
    };
    assert_eq!((with("char"), with("signed char"), with("int")), (1, 0, 0));
}

#[test]
fn a_build_that_sets_the_sign_of_char_has_no_findings_about_it() {
    let source = (
        "c.c".to_owned(),
        b"int f(char c) { return c < 0; }\n".to_vec(),
    );
    let build = ("Makefile".to_owned(), b"CFLAGS += -fsigned-char\n".to_vec());
    assert_eq!(
        porting(std::slice::from_ref(&source), Processor::Aarch64)
            .findings
            .len(),
        1
    );
    let porting = porting(&[source, build], Processor::Aarch64);
    assert!(porting.findings.is_empty() && porting.signed_char);
}

/// Each of these once took time or memory without end in some parser.
#[test]
fn hostile_files_end() {
    let deep = |open: &str, n: usize| open.repeat(n);
    let texts: Vec<(&str, String)> = vec![
        ("parentheses.c", format!("int x = {}", deep("(", 200_000))),
        ("blocks.c", format!("void f(void) {}", deep("{", 100_000))),
        ("conditions.c", "#if 1\n".repeat(50_000)),
        ("ends.c", "#endif\n".repeat(50_000)),
        ("not.c", format!("#if {}1\n#endif\n", deep("!", 3_000))),
        ("logic.c", format!("int f(char c) {{ return {} 1; }}", "c < ' ' && ".repeat(5_000))),
        ("pointers.c", format!("char {}p;", deep("*", 50_000))),
        ("arrows.c", format!("int f(struct s *p) {{ return p{}; }}", "->p".repeat(20_000))),
        ("templates.cpp", deep("template <class A = ", 5_000)),
        ("strings.c", "\"".repeat(100_001)),
        ("noise.c", (0..200_000_u32).map(|n| char::from(33 + (n.wrapping_mul(2_654_435_761) >> 20) as u8 % 90)).collect()),
        ("circle.h", "#include \"circle.h\"\n#ifndef A\n#define A\n#ifdef B\n#define C\n#endif\n#ifdef C\n#define B\n#endif\n#endif\n".into()),
        ("macros.c", (0..5_000).map(|n| format!("#ifdef M{}\n#define M{n} 1\n#endif\n", (n + 1) % 5_000)).collect()),
        ("Makefile", "ifeq (a,b)\n".repeat(100_000)),
    ];
    let mut project = Project::default();
    for (name, text) in &texts {
        project.add(name, read(name, text.as_bytes()).expect("it is looked at"));
    }
    let porting = project.finish("hostile", Processor::Aarch64);
    assert!(porting.unbalanced.iter().any(|name| name == "ends.c"));
    let text = pgassay_report::json(&porting);
    assert!(text.contains("pgassay/port/1"));
}

#[test]
fn what_is_no_text_is_told() {
    assert!(matches!(read("a.c", b"int a;\0"), Some(Read::Not(why)) if why.contains("not text")));
    assert!(
        matches!(read("a.c", &vec![b' '; (16 << 20) + 1]), Some(Read::Not(why)) if why.contains("longer"))
    );
    assert!(read("a.txt", b"").is_none());
    // Latin-1 in a comment changes no line.
    let latin = of_bytes(b"/* caf\xe9 */\nint f(char c) { return c < 0; }\n");
    assert_eq!(latin.findings[0].line, Some(2));
}

fn of_bytes(bytes: &[u8]) -> Porting {
    porting(&[("a.c".to_owned(), bytes.to_vec())], Processor::Aarch64)
}

#[test]
fn a_long_generated_file_is_read_in_full() {
    let mut text: String = (0..100_000)
        .map(|n| format!("static int f{n}(int a) {{ return a + {n}; }}\n"))
        .collect();
    text.push_str("int last(char c) { return c == EOF; }\n");
    let porting = of("generated.c", &text);
    assert_eq!(porting.source_lines, 100_001);
    assert_eq!(porting.findings.len(), 1);
    assert_eq!(porting.findings[0].line, Some(100_001));
}
