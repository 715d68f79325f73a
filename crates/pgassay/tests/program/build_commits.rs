//! Neighbouring commits of a repository, built in one tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pgassay::Stop;
use pgassay_server::pgbuild::commits::{self, History};
use pgassay_server::pgbuild::maker::{Event, How};
use pgassay_server::pgbuild::shared::CommitMade;
use pgassay_server::pgbuild::{BuildRecord, Maker, Variant};

use crate::build::{Bench, says};

/// A repository of the fixture: three commits, of which the second can't be built.
struct Line {
    bench: Bench,
    dir: PathBuf,
    history: History,
}

impl Line {
    fn new(name: &str) -> Self {
        let bench = Bench::new(name);
        let dir = bench.source("autoconf");
        let git = |words: &[&str]| {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=x", "-c", "user.email=x@x"])
                .arg("-C")
                .arg(&dir)
                .args(words);
            assert!(git.status().unwrap().success(), "{words:?}");
        };
        let words = dir.join("src/backend/utils/words.c");
        let header = dir.join("src/include/level.h");
        let plain = fs::read_to_string(&words).unwrap();
        let with_level = "#include \"../../include/level.h\"\n".to_owned()
            + &plain
            + "const char *level(void) { return LEVEL; }\n";
        git(&["init", "-q", "-b", "trunk"]);
        for (tag, level, text) in [
            ("one", "\"level-1\"", with_level.as_str()),
            ("broken", "\"level-2\"", "#error not yet\n"),
            ("two", "\"level-2\"", with_level.as_str()),
            ("three", "\"level-3\"", with_level.as_str()),
        ] {
            fs::write(&header, format!("#define LEVEL {level}\n")).unwrap();
            fs::write(&words, text).unwrap();
            git(&["add", "-A"]);
            git(&["commit", "-qm", tag]);
            git(&["tag", tag]);
        }
        let history =
            commits::history(&dir.display().to_string(), "one", "three", &bench.place).unwrap();
        Self {
            bench,
            dir,
            history,
        }
    }

    /// Makes the commit of a tag; with the steps that ran.
    fn make(&self, tag: &str) -> (CommitMade, Vec<String>) {
        let machine = pgassay_server::pgbuild::maker::native_machine();
        let variant = Variant::parse("bisect plain", &machine, false).unwrap();
        let stop = Stop::new();
        let mut steps = Vec::new();
        let mut watch = |event: Event<'_>| {
            if let Event::Step(_, step) = event {
                steps.push(step.to_owned());
            }
        };
        let commit = std::iter::once(&self.history.good)
            .chain(&self.history.commits)
            .find(|commit| commit.subject == tag)
            .unwrap();
        let mut maker = Maker {
            place: &self.bench.place,
            stop: &stop,
            jobs: 2,
            watch: &mut watch,
        };
        let made = maker
            .make_commit(&self.history, &commit.id, &variant)
            .unwrap();
        (made, steps)
    }
}

fn holds(server: &Path, words: &str) -> bool {
    let bytes = fs::read(server).unwrap();
    bytes
        .windows(words.len())
        .any(|window| window == words.as_bytes())
}

#[test]
fn neighbouring_commits_are_built_in_one_tree() {
    let line = Line::new("shared");
    let built = |tag: &str, anew: bool| -> BuildRecord {
        let (CommitMade::Made(record, How::Built, _), steps) = line.make(tag) else {
            panic!("{tag} is not built");
        };
        assert_eq!(
            steps.iter().any(|step| step == "configure"),
            anew,
            "{tag}: {steps:?}"
        );
        *record
    };
    let one = built("one", true);
    let (broken, _) = line.make("broken");
    let CommitMade::Unbuildable(why) = broken else {
        panic!("{broken:?}");
    };
    assert!(why.contains("#error not yet"), "{why}");
    let two = built("two", false);
    let three = built("three", false);
    // A header was followed, and what was installed before stays what it was.
    for (record, level) in [(&one, "level-1"), (&two, "level-2"), (&three, "level-3")] {
        let server = record.prefix.join("bin/postgres");
        assert!(holds(&server, level), "{level}");
        assert_eq!(says(&server), "postgres (PostgreSQL) 15.99\n");
    }
    let (again, steps) = line.make("two");
    assert!(matches!(again, CommitMade::Made(_, How::Unchanged, _)) && steps.is_empty());
    // Back, from scratch and in the used tree: the same program.
    let bytes = |record: &BuildRecord| fs::read(record.prefix.join("bin/postgres")).unwrap();
    let before = bytes(&one);
    fs::remove_dir_all(&one.prefix).unwrap();
    assert_eq!(bytes(&built("one", false)), before);

    // A build that was killed leaves half of an object; what it made is thrown away.
    let shared = fs::read_dir(line.bench.place.shared()).unwrap();
    let shared = shared.flatten().next().unwrap().path();
    let from = fs::read_to_string(shared.join("at")).unwrap();
    let to = &line.history.commits[2].id;
    fs::write(shared.join("moving"), format!("{from} {to}")).unwrap();
    fs::remove_file(shared.join("at")).unwrap();
    fs::write(shared.join("tree/src/backend/utils/words.o"), "half").unwrap();
    fs::remove_dir_all(&two.prefix).unwrap();
    assert!(holds(
        &built("two", false).prefix.join("bin/postgres"),
        "level-2"
    ));
    assert!(line.dir.is_dir());
}
