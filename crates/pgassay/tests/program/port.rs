//! `pgassay port` from outside: what it prints, and how it ends.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::schema::assert_schema;
use serde_json::Value;

fn samples(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../results/port/tests/port")
        .join(name)
}

fn port(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pgassay"))
        .arg("port")
        .args(arguments)
        .env("COLUMNS", "100")
        .output()
        .expect("the program starts")
}

fn json(arguments: &[&str]) -> Value {
    let output = port(arguments);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// A folder of a test's own, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pgassay-port-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.join(name), bytes).expect("a file");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_breaks_ends_with_code_1_and_what_is_clean_with_0() {
    let planted = samples("planted");
    let output = port(&[shown(&planted)]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    for part in [
        "intrinsics.c:9",
        "_mm_crc32_u8",
        "COMP_CRC32C",
        "places break",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let clean = samples("clean");
    let output = port(&[shown(&clean), "--fail-on", "check"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        port(&[shown(&planted), "--fail-on", "never"]).status.code(),
        Some(0)
    );
    assert_eq!(port(&["/nonexistent"]).status.code(), Some(2));
    assert_eq!(port(&[]).status.code(), Some(2));
    let rules = port(&["--list-rules"]);
    assert!(String::from_utf8_lossy(&rules.stdout).contains("char-order"));
}

#[test]
fn json_follows_its_schema_and_the_formats_say_the_same() {
    let planted = samples("planted");
    let so = samples("../../../../foundation/inspect/tests/fixtures/a64-gcc-armv8.1.so");
    let document = json(&["--json", shown(&planted)]);
    assert_schema(&document, "port-1.json");
    let findings = document["findings"].as_array().expect("a list").len();
    assert!(findings > 35, "{findings}");
    let library = json(&["--json", shown(&so)]);
    assert_schema(&library, "port-1.json");
    assert!(library["findings"][0]["code"].to_string().contains("LSE"));
    let csv = port(&["--format", "csv", shown(&planted)]);
    assert_eq!(
        String::from_utf8_lossy(&csv.stdout).lines().count(),
        findings + 1
    );
    for format in ["html", "markdown"] {
        let output = port(&["--format", format, shown(&planted)]);
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("spinlock-release"),
            "{format}"
        );
    }
}

#[test]
fn a_tree_with_links_strange_names_and_binary_sources_is_read() {
    let folder = Folder::new("tree");
    folder.file("a.c", b"int f(char c) { return c == -1; }\n");
    folder.file("binary.c", b"\x00\x01\x02");
    folder.file("latin.c", b"/* \xe9\xff */ int x;\n");
    folder.file("a\x1b[31m.c", b"int f(char c) { return c == -1; }\n");
    fs::create_dir(folder.0.join(".git")).expect("a folder");
    folder.file(".git/b.c", b"#include <immintrin.h>\n");
    symlink(&folder.0, folder.0.join("again")).expect("a link");
    symlink("/dev/zero", folder.0.join("zero.c")).expect("a link");
    let document = json(&["--json", shown(&folder.0)]);
    assert_eq!(document["source_files"], 3, "{document}");
    assert_eq!(document["findings"].as_array().expect("a list").len(), 2);
    assert_eq!(document["not_read"][0]["path"], "binary.c");
    let text = port(&[shown(&folder.0)]);
    assert!(!text.stdout.contains(&0x1b), "no name steers the terminal");
    let empty = Folder::new("empty");
    assert_eq!(port(&[shown(&empty.0)]).status.code(), Some(2));
}

#[test]
fn rust_is_read_with_cargo_s_settings_and_what_is_not_analysed_is_named() {
    let folder = Folder::new("rust");
    for directory in [".cargo", "src"] {
        fs::create_dir(folder.0.join(directory)).expect("a folder");
    }
    folder.file("src/lib.rs", b"use std::arch::x86_64::*;\n");
    folder.file(
        ".cargo/config.toml",
        b"[build]\nrustflags = [\"-Ctarget-cpu=haswell\"]\n",
    );
    folder.file("tool.go", b"package main\n");
    let document = json(&["--json", shown(&folder.0)]);
    assert_eq!(document["rust_files"], 1, "{document}");
    assert_eq!(document["not_analysed"][0]["language"], "Go");
    let rules = document["findings"].as_array().expect("a list");
    let rules: Vec<&str> = rules.iter().filter_map(|f| f["rule"].as_str()).collect();
    assert_eq!(rules, ["build-flag", "x86-intrinsic"]);

    let other = Folder::new("go");
    other.file("Makefile", b"all:\n");
    other.file("main.go", b"package main\n");
    let text = String::from_utf8(port(&[shown(&other.0)]).stdout).expect("text");
    assert!(!text.contains("Nothing was found"), "{text}");
    assert!(text.contains("Not analysed: Go."), "{text}");
}

/// A header that is a link is there, though it is not read.
#[test]
fn a_header_behind_a_link_is_not_missing() {
    let folder = Folder::new("links");
    let source =
        b"#ifdef __aarch64__\n#include \"simd_arm.h\"\n#else\n#include \"simd_x86.h\"\n#endif\n";
    folder.file("a.c", source);
    folder.file("simd_x86.h", b"int x;\n");
    assert_eq!(port(&[shown(&folder.0)]).status.code(), Some(1));
    let shared = Folder::new("shared");
    shared.file("simd_arm.h", b"int x;\n");
    let link = folder.0.join("simd_arm.h");
    symlink(shared.0.join("simd_arm.h"), &link).expect("a link");
    assert_eq!(port(&[shown(&folder.0)]).status.code(), Some(0));
    fs::remove_file(link).expect("removed");
    symlink(&shared.0, folder.0.join("include")).expect("a link");
    assert_eq!(port(&[shown(&folder.0)]).status.code(), Some(0));
}

/// A tar with one member, as POSIX has it.
fn tar(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = [0_u8; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
    header[148..156].fill(b' ');
    header[156] = b'0';
    header[257..263].copy_from_slice(b"ustar\0");
    header[263..265].copy_from_slice(b"00");
    let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let mut tar = header.to_vec();
    tar.extend_from_slice(bytes);
    tar.resize(tar.len().next_multiple_of(512) + 1024, 0);
    tar
}

#[test]
fn a_package_is_read_without_unpacking() {
    let folder = Folder::new("package");
    let source = b"#include <immintrin.h>\nint f(void) { return 0; }\n";
    folder.file("x-1.0.tar", &tar("x-1.0/x.c", source));
    let path = folder.0.join("x-1.0.tar");
    let document = json(&["--json", shown(&path)]);
    assert_eq!(document["findings"][0]["path"], "x-1.0/x.c", "{document}");
    let broken = folder.0.join("broken.tar");
    let mut file = fs::File::create(&broken).expect("a file");
    file.write_all(&tar("x.c", source)[..530]).expect("written");
    let output = port(&["--json", shown(&broken)]);
    assert!(matches!(output.status.code(), Some(0..=2)), "{output:?}");
}

/// The compiler makes code for x86 here; on others inspect's own tests hold the decoders.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_library_that_needs_more_than_the_baseline_is_told() {
    let folder = Folder::new("library");
    let compile = |name: &str, source: &str| {
        let path = folder.0.join(name);
        folder.file("library.c", source.as_bytes());
        let done = Command::new("gcc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&path)
            .arg(folder.0.join("library.c"))
            .status()
            .expect("gcc runs");
        assert!(done.success());
        path
    };
    let fast = "__attribute__((target(\"avx2\"), noinline)) void add(int *a, const int *b) \
                { typedef int v __attribute__((vector_size(32))); *(v *) a += *(const v *) b; }\n";
    let unchecked = compile(
        "unchecked.so",
        &format!("{fast}void all(int *a, int *b) {{ add(a, b); add(b, a); }}\n"),
    );
    let document = json(&["--json", shown(&unchecked)]);
    assert_eq!(
        document["findings"][0]["rule"], "needs-feature",
        "{document}"
    );
    assert_eq!(document["findings"][0]["within"], "add");
    assert_eq!(port(&[shown(&unchecked)]).status.code(), Some(1));
    let checked = compile(
        "checked.so",
        &format!(
            "{fast}#include <cpuid.h>\nvoid all(int *a, int *b) {{ unsigned x[4]; \
                  __get_cpuid_count(7, 0, x, x + 1, x + 2, x + 3); if (x[1] & 32) add(a, b); }}\n"
        ),
    );
    let document = json(&["--json", shown(&checked)]);
    assert_eq!(
        document["findings"].as_array().map(Vec::len),
        Some(0),
        "{document}"
    );
    assert!(
        document["binaries"][0]["checks"]
            .to_string()
            .contains("CPUID in all")
    );
    let plain = compile("plain.so", "int f(int a) { return a + 1; }\n");
    let document = json(&["--json", shown(&plain)]);
    assert_eq!(
        document["findings"].as_array().map(Vec::len),
        Some(0),
        "{document}"
    );
}
