//! Negative numbers that initialise a plain char: errors of C++ in braces, other values in C.

use pgassay_port::guards::known::Processor;

use super::{of, porting};

/// Rule and line of what is about char.
fn places(name: &str, text: &str) -> Vec<(&'static str, u32)> {
    let porting = of(name, text);
    let of_char = porting
        .findings
        .iter()
        .filter(|f| f.rule.starts_with("char-"));
    of_char.map(|f| (f.rule, f.line.unwrap_or(0))).collect()
}

#[test]
fn every_form_of_braces_narrows_in_cpp() {
    for text in [
        "char t[] = {-1};",
        "char c{-1};",
        "char c = {-1};",
        "char t[2]{1, -1};",
        "const char t[] = {0, -128};",
        "static constexpr char t[] = {-1, 2};",
        "constexpr char c{-1};",
        "char m[2][2] = {{1, 2}, {3, -4}};",
        "struct S { int n; char c; }; S s = {1, -1};",
        "struct S { int n; char c; }; S s{1, -1};",
        "struct S { int n; char c; }; const S s[] = {{1, 2}, {3, -1}};",
        "struct S { int n; char c; }; S s = {.n = 1, .c = -1};",
        "struct S { int n; char t[2]; }; S s = {1, {1, -1}};",
        "struct I { char c; }; struct S { int n; I i; }; S s = {1, {-1}};",
        "struct S { char c{-1}; };",
        "class S { char c = {-1}; };",
        "struct S { char c; S() : c{-1} {} };",
        "struct S { char c; S(); }; S::S() : c{-1} {}",
        "enum E : char { A = -1, B = 2 };",
        "void f(void) { g(char{-1}); }",
        "struct S { char c; }; void f(void) { g(S{-1}); }",
        "std::array<char, 2> a = {1, -1};",
        "std::vector<char> v{-1};",
        "std::string s{-1, 2};",
        "char *p = new char[2]{1, -1};",
        "namespace n { struct S { char c; }; } n::S s{-1};",
        "static void f(void) { char c{-1}; }",
        "const int none = -1; char c{none};",
        "static constexpr int none = -1; const char t[] = {0, none};",
        "enum { NONE = -1 }; char c{NONE};",
        "struct S { char c; } s = {-1};",
        "union U { char c; int n; }; U u = {-1};",
    ] {
        assert_eq!(places("a.cpp", text), [("char-narrowing", 1)], "{text}");
        let narrowed = of("a.cpp", text);
        assert_eq!(narrowed.findings[0].effect.name(), "breaks", "{text}");
    }
}

#[test]
fn what_is_not_narrowed_is_no_error() {
    for text in [
        "signed char t[] = {-1};",
        "int8_t c{-1};",
        "int t[] = {-1};",
        "char t[] = {(char)-1, '\\xff', 127};",
        "char c{static_cast<char>(-1)};",
        "const char *t[] = {\"-1\"};",
        "char *p = {nullptr};",
        "struct S { char c; int n; }; S s = {1, -1};",
        "struct S { char *c; int n; }; S s = {0, -1};",
        "struct S { signed char c; }; S s{-1};",
        "struct S { static char k; int n; }; S s{-1};",
        "Unknown s{-1};",
        "std::vector<int> v{-1};",
        "std::map<char, int> m{{'a', -1}};",
        "enum E : signed char { A = -1 };",
        "enum E { A = -1 };",
        "const char none = -2 + 1; char c{none};",
        "int none = -1; int c{none};",
        "const unsigned none = 1; char c{none};",
    ] {
        assert!(places("a.cpp", text).is_empty(), "{text}");
    }
}

#[test]
fn in_c_the_value_differs() {
    for text in [
        "char t[] = {-1};",
        "static const char t[] = {0, -1};",
        "char c = {-1};",
        "char c = -1;",
        "struct S { int n; char c; }; struct S s = {1, -1};",
        "typedef struct { int n; char c; } S; S s = {.c = -1};",
    ] {
        assert_eq!(places("a.c", text), [("char-sign", 1)], "{text}");
    }
    let table = "#define XX (-1)\nstatic const char map[] = {XX, 1, XX};\n";
    assert_eq!(places("a.c", table), [("char-sign", 2)]);
    assert_eq!(places("a.cpp", table), [("char-narrowing", 2)]);
    assert_eq!(places("a.cpp", "char c = -1;"), [("char-sign", 1)]);
    assert_eq!(
        places("a.cpp", "struct S { char c = -1; };"),
        [("char-sign", 1)]
    );
}

#[test]
fn a_position_behind_what_is_not_known_says_nothing() {
    for members in [
        "int n DEFAULT(-1); int m; char c;",
        "int n;\n#ifdef X\nint m;\n#endif\nchar c;",
        "struct { int a; } n; DECLARE_MEMBERS(x) char c;",
    ] {
        let text = format!("struct S {{ {members} }};\nstruct S s = {{1, -1, -1}};\n");
        assert!(places("a.c", &text).is_empty(), "{text}");
    }
    let named = "struct S {\n#ifdef X\nint m;\n#endif\nchar c; };\nstruct S s = {.c = -1};\n";
    assert_eq!(places("a.c", named), [("char-sign", 6)]);
}

#[test]
fn members_are_found_in_other_files() {
    let files = |member: &str| {
        [
            ("s.h", format!("struct S {{ int n; {member} c; }};\n")),
            ("a.cpp", "#include \"s.h\"\nS s = {1, -1};\n".to_owned()),
        ]
        .map(|(name, text)| (name.to_owned(), text.into_bytes()))
    };
    let found = porting(&files("char"), Processor::Aarch64);
    assert_eq!(found.findings.len(), 1);
    assert_eq!(
        (found.findings[0].rule, found.findings[0].line),
        ("char-narrowing", Some(2))
    );
    assert!(
        porting(&files("int"), Processor::Aarch64)
            .findings
            .is_empty()
    );
    // Two declarations that disagree say nothing.
    let mut both = files("char").to_vec();
    both.push(("other.h".into(), b"struct S { int n; int c; };\n".to_vec()));
    assert!(porting(&both, Processor::Aarch64).findings.is_empty());
}

#[test]
fn a_build_with_signed_char_narrows_nothing() {
    let files = [
        ("a.cpp", "char c{-1};\n"),
        ("Makefile", "CXXFLAGS += -fsigned-char\n"),
    ]
    .map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
    assert!(porting(&files, Processor::Aarch64).findings.is_empty());
}
