//! `pgassay build` on source trees of our own that are laid out as PostgreSQL's
//! are: a real configure script and makefiles, a real meson project. What is
//! compiled is a program that says that it is PostgreSQL 15.99; building the
//! real one is for `make builds`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::captured::pgassay;
use crate::schema::assert_schema;
use pgassay::{Exit, Stop};
use pgassay_model::{Failure, FailureKind};
use pgassay_server::pgbuild::maker::{Event, How, Order};
use pgassay_server::pgbuild::recipe::System;
use pgassay_server::pgbuild::{BuildRecord, Made, Maker, Place, Source, Variant};

/// A directory that goes with the test, with a place for builds in it.
pub(crate) struct Bench {
    pub(crate) dir: PathBuf,
    pub(crate) place: Place,
}

impl Bench {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("pgassay-build-{name}-{}", std::process::id()));
        fs::remove_dir_all(&dir).ok();
        fs::create_dir_all(&dir).unwrap();
        let place = Place::of(dir.join("place")).unwrap();
        Self { dir, place }
    }

    /// The fixture, copied where the test may change it.
    pub(crate) fn source(&self, fixture: &str) -> PathBuf {
        let from = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/program/build_sources")
            .join(fixture);
        let to = self.dir.join(fixture);
        let copied = Command::new("cp").arg("-r").arg(&from).arg(&to).status();
        assert!(copied.unwrap().success());
        let configure = to.join("configure");
        if configure.is_file() {
            fs::set_permissions(configure, fs::Permissions::from_mode(0o755)).unwrap();
        }
        to
    }

    fn make(&self, source: &Path, variant: &str, more: Options) -> anyhow::Result<Made> {
        let machine = pgassay_server::pgbuild::maker::native_machine();
        let mut variant = Variant::parse(variant, &machine, more.host.is_some())?;
        variant.exact = more.exact;
        let source = Source::find(&source.display().to_string(), None, &self.place)?;
        let stop = Stop::new();
        let mut steps = 0;
        let mut watch = |event: Event<'_>| steps += u32::from(matches!(event, Event::Step(..)));
        let made = Maker {
            place: &self.place,
            stop: &stop,
            jobs: 2,
            watch: &mut watch,
        }
        .make(&Order {
            source: &source,
            name: None,
            variant: &variant,
            host: more.host,
            system: more.system,
            layouts: more.layouts,
            layout_seed: 0,
        })?;
        // Nothing is run, and so nothing is announced, for what is there already.
        assert!(made.how == How::Built || more.layouts > 0 || steps == 0);
        Ok(made)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.dir).ok();
    }
}

#[derive(Default)]
struct Options {
    host: Option<&'static str>,
    system: Option<System>,
    exact: bool,
    layouts: u32,
}

pub(crate) fn says(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn failure(error: &anyhow::Error) -> &Failure {
    error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Failure>())
        .unwrap_or_else(|| panic!("not the user's: {error:#}"))
}

#[test]
fn autoconf_variants_are_built_recorded_and_not_built_again() {
    let bench = Bench::new("autoconf");
    let source = bench.source("autoconf");
    let plain = bench.make(&source, "O2", Options::default()).unwrap();
    assert_eq!(plain.how, How::Built);
    let record = &plain.record;
    assert_eq!(
        (record.name.as_str(), record.system),
        ("15.99-O2", System::Autoconf)
    );
    let server = record.prefix.join("bin/postgres");
    assert_eq!(says(&server), "postgres (PostgreSQL) 15.99\n");
    assert!(says(&record.prefix.join("bin/initdb")).starts_with("initdb"));
    assert_eq!(record.flags_asked, ["-O2"]);
    assert!(record.lwlock_command.as_ref().unwrap().contains("-O2"));
    assert!(record.flags_recorded.as_ref().unwrap().ends_with("-O2"));
    let found = record.inspect.as_ref().unwrap();
    assert_eq!(found.path, server.display().to_string());
    assert!(found.atomics.total() > 0, "the fixture's lock is an atomic");

    // Read back, and by the inspection's own look at the file, it is the same.
    let again = bench.make(&source, "O2", Options::default()).unwrap();
    assert_eq!((again.how, &again.record), (How::Unchanged, record));

    // Flags are appended, so -O0 comes after -O2 and wins; both are recorded.
    let o0 = bench.make(&source, "O0", Options::default()).unwrap();
    assert_eq!(o0.record.flags_asked, ["-O2", "-O0"]);
    let exact = Options {
        exact: true,
        ..Options::default()
    };
    let exact = bench.make(&source, "study cflags=-fwrapv", exact).unwrap();
    let line = exact.record.lwlock_command.unwrap();
    assert!(!line.contains("-O"), "{line}");

    // Another source, the same name: built anew.
    let file = source.join("src/backend/storage/lmgr/lwlock.c");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}\nint added;\n")).unwrap();
    let changed = bench.make(&source, "O2", Options::default()).unwrap();
    assert_eq!(changed.how, How::Built);
    assert_ne!(changed.record.source.hash, record.source.hash);
    let names: Vec<String> = BuildRecord::all(&bench.place)
        .into_iter()
        .map(|record| record.name)
        .collect();
    assert_eq!(names, ["15.99-O0", "15.99-O2", "15.99-study"]);
}

#[test]
fn meson_builds_the_same_from_a_tarball() {
    let bench = Bench::new("meson");
    bench.source("meson");
    let tarball = bench.dir.join("postgresql-16.99.tar.gz");
    let packed = Command::new("tar")
        .args(["-czf"])
        .arg(&tarball)
        .arg("-C")
        .arg(&bench.dir)
        .arg("meson")
        .status();
    assert!(packed.unwrap().success());
    let made = bench
        .make(
            &tarball,
            "sized cflags=-Os",
            Options {
                layouts: 1,
                ..Options::default()
            },
        )
        .unwrap();
    let record = &made.record;
    assert_eq!(
        (record.system, record.version.as_str()),
        (System::Meson, "16.99")
    );
    let server = record.prefix.join("bin/postgres");
    assert_eq!(says(&server), "postgres (PostgreSQL) 16.99\n");
    let line = record.lwlock_command.as_ref().unwrap();
    assert!(
        line.find("-O2").unwrap() < line.find("-Os").unwrap(),
        "{line}"
    );
    assert_eq!(made.layouts.len(), 1);
    let again = bench
        .make(&tarball, "sized cflags=-Os", Options::default())
        .unwrap();
    assert_eq!(again.how, How::Unchanged);
}

#[test]
fn layouts_hold_the_same_code_elsewhere() {
    let bench = Bench::new("layouts");
    let source = bench.source("autoconf");
    let three = || Options {
        layouts: 3,
        ..Options::default()
    };
    let made = bench.make(&source, "O2", three()).unwrap();
    let mut sums: Vec<String> = made
        .layouts
        .iter()
        .map(|record| record.layout.clone().unwrap().sha256)
        .collect();
    for record in &made.layouts {
        let server = record.prefix.join("bin/postgres");
        assert_eq!(says(&server), "postgres (PostgreSQL) 15.99\n");
        assert_eq!(record.layout.as_ref().unwrap().objects, 4);
        assert!(record.prefix.join("share").exists());
        let counts = |record: &BuildRecord| record.inspect.clone().unwrap().atomics.counts;
        assert_eq!(counts(record), counts(&made.record));
    }
    sums.sort();
    sums.dedup();
    assert!(sums.len() > 1, "all orders gave one file");
    let again = bench.make(&source, "O2", three()).unwrap();
    assert_eq!(again.how, How::Unchanged);
    assert_eq!(again.layouts, made.layouts);
}

#[test]
fn patches_are_applied_and_recorded_or_the_hunk_is_named() {
    let bench = Bench::new("patches");
    let source = bench.source("autoconf");
    let patch = |name: &str, from: &str| {
        let file = bench.dir.join(name);
        let text = format!(
            "--- a/src/backend/main/main.c\n+++ b/src/backend/main/main.c\n\
             @@ -1,3 +1,4 @@\n /* {from} */\n+int patched_in;\n #include <stdio.h>\n #include <string.h>\n"
        );
        fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let good = patch("v1-0001-good.patch", "the fixture's server");
    let made = bench
        .make(
            &source,
            &format!("patched patch={good}"),
            Options::default(),
        )
        .unwrap();
    assert_eq!(made.record.patches[0].facts.file, good);
    let symbols = Command::new("nm")
        .arg(made.record.prefix.join("bin/postgres"))
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&symbols.stdout).contains("patched_in"));

    let bad = patch("v1-0002-bad.patch", "another server");
    let error = bench
        .make(&source, &format!("bad patch={bad}"), Options::default())
        .unwrap_err();
    let failure = failure(&error);
    assert_eq!(failure.kind, FailureKind::Usage);
    assert!(
        failure
            .message
            .contains("src/backend/main/main.c: hunk 1 of 1")
            && failure.message.contains("/* another server */"),
        "{}",
        failure.message
    );
    assert!(!bench.place.prefix("15.99-bad").exists());
}

#[test]
fn a_build_that_fails_shows_the_first_error_and_installs_nothing() {
    let bench = Bench::new("fails");
    let source = bench.source("autoconf");
    let file = source.join("src/backend/storage/lmgr/lwlock.c");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("int held", "no_such_type held")).unwrap();
    let error = bench.make(&source, "O2", Options::default()).unwrap_err();
    let failed = failure(&error);
    assert_eq!(failed.kind, FailureKind::Target);
    assert!(
        failed.message.contains("lwlock.c") && failed.message.contains("no_such_type"),
        "{}",
        failed.message
    );
    let log = bench.place.log("15.99-O2");
    assert!(failed.message.contains(log.to_str().unwrap()) && log.is_file());
    assert!(!bench.place.prefix("15.99-O2").exists());

    // Repaired, it is built; and an option that configure refuses is told by its words.
    fs::write(
        &file,
        fs::read_to_string(&file)
            .unwrap()
            .replace("no_such_type", "int"),
    )
    .unwrap();
    bench.make(&source, "O2", Options::default()).unwrap();
    let error = bench
        .make(
            &source,
            "wants options=--with-impossible",
            Options::default(),
        )
        .unwrap_err();
    let failed = failure(&error);
    assert!(
        failed
            .message
            .contains("configure: error: impossible is not here"),
        "{}",
        failed.message
    );
}

#[test]
fn a_source_that_sets_its_own_flags_is_not_installed() {
    let bench = Bench::new("flags");
    let source = bench.source("autoconf");
    let file = source.join("configure");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        text.replace("CFLAGS = -Wall $CFLAGS", "CFLAGS = -Wall $CFLAGS -O1"),
    )
    .unwrap();
    let error = bench.make(&source, "O2", Options::default()).unwrap_err();
    let failed = failure(&error);
    assert!(
        failed
            .message
            .contains("not the flags asked for: -O1 comes after -O2"),
        "{}",
        failed.message
    );
    assert!(!bench.place.prefix("15.99-O2").exists());
}

#[test]
fn what_was_asked_for_wrongly_is_told_before_anything_is_built() {
    let bench = Bench::new("wrong");
    let source = bench.source("autoconf");
    let error = |variant: &str, options: Options| {
        let error = bench.make(&source, variant, options).unwrap_err();
        failure(&error).message.clone()
    };
    assert!(
        error("x cflags=-mno-such-4711", Options::default())
            .contains("does not take -mno-such-4711")
    );
    assert!(
        error("x cc=no-such-cc-4711", Options::default()).contains("no-such-cc-4711 is not here")
    );
    let meson = Options {
        system: Some(System::Meson),
        ..Options::default()
    };
    assert!(error("O2", meson).contains("has no meson.build"));
    let host = Options {
        host: Some("sparc64-linux-gnu"),
        ..Options::default()
    };
    assert!(error("O2", host).contains("sparc64-linux-gnu-gcc"));
    fs::write(source.join("GNUmakefile"), "").unwrap();
    assert!(error("O2", Options::default()).contains("configured in place"));
    fs::remove_dir_all(source.join("src/backend")).unwrap();
    fs::remove_file(source.join("GNUmakefile")).unwrap();
    assert!(error("O2", Options::default()).contains("holds no PostgreSQL"));
    assert!(fs::read_dir(bench.place.builds()).unwrap().next().is_none());
}

pub(crate) fn run(words: &[&str]) -> (Exit, String, String) {
    pgassay(&[&["build"], words].concat())
}

fn valid(text: &str, schema: &str) {
    assert_schema(&serde_json::from_str(text).unwrap(), schema);
}

#[test]
fn recommendations_come_with_reasons_and_by_schema() {
    let words = ["--recommend", "--cpu", "graviton2", "--compiler", "gcc-9.4"];
    let (exit, text, _) = run(&words);
    assert_eq!(exit, Exit::Done);
    for wanted in [
        "-moutline-atomics",
        "-mcpu=neoverse-n1",
        "source  ",
        "What not to use",
    ] {
        assert!(text.contains(wanted), "{text}");
    }
    let (_, json, _) = run(&[&words[..], &["--json"]].concat());
    valid(&json, "recommendation-1.json");
    assert_eq!(run(&["--recommend"]).0, Exit::Done);
    let (exit, _, said) = run(&["--recommend", "--cpu", "pentium"]);
    assert_eq!(exit, Exit::Usage);
    assert!(said.contains("--list-cpus"), "{said}");
    let (exit, presets, _) = run(&["--presets"]);
    assert!(exit == Exit::Done && presets.contains("-mno-outline-atomics"));
}

#[test]
fn the_records_of_builds_follow_their_schema() {
    let bench = Bench::new("schema");
    let source = bench.source("autoconf");
    let made = bench
        .make(
            &source,
            "O2",
            Options {
                layouts: 1,
                ..Options::default()
            },
        )
        .unwrap();
    let builds = [&made.record, &made.layouts[0]];
    let document = serde_json::json!({"schema": "pgassay/builds/1", "builds": builds});
    valid(&document.to_string(), "builds-1.json");
}
