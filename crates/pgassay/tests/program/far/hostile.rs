//! A far side that means harm, is too old, or makes no sense.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use pgassay_far::frame;
use pgassay_far::hello::{OLDEST, PROTOCOL};
use serde_json::{Value, json};

use super::refused;
use crate::runs::{Runs, Signal, signal, text};

/// A far side that says these frames, after a proper beginning, and then waits.
struct Hostile {
    dir: PathBuf,
}

impl Hostile {
    fn new(name: &str) -> Self {
        let dir =
            std::env::temp_dir().join(format!("pgassay-hostile-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self { dir }
    }

    /// The place at which it answers with this.
    fn place(&self, bytes: &[u8]) -> String {
        let file = self.dir.join("says");
        fs::write(&file, bytes).unwrap();
        // It goes when nobody listens any more.
        format!(
            "exec:sh -c 'cat {}; cat >/dev/null' // temp",
            file.display()
        )
    }
}

impl Hostile {
    /// The place at which it answers with this, and then shows signs of life and nothing else.
    fn beating(&self, bytes: &[u8]) -> String {
        let beat = self.dir.join("beat");
        fs::write(&beat, [0; 6]).unwrap();
        let says = self.place(bytes);
        let on = format!("while cat {}; do sleep 0.3; done", beat.display());
        says.replace("cat >/dev/null", &on)
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn hello(protocol: u32, oldest: u32) -> Vec<u8> {
    let mut bytes = b"Welcome!\n\x01pgassay-far\x01\n".to_vec();
    let hello = json!({"protocol": protocol, "oldest": oldest, "version": "9.9\u{1b}[2J"});
    frame::write(&mut bytes, 0, hello.to_string().as_bytes()).unwrap();
    bytes
}

fn says(bytes: &mut Vec<u8>, word: &Value) {
    frame::write(bytes, 1, word.to_string().as_bytes()).unwrap();
}

fn file(bytes: &mut Vec<u8>, path: &str, content: &[u8]) {
    let head = json!({"path": path, "at": 0, "appends": false, "last": true});
    let mut body = format!("{head}\n").into_bytes();
    body.extend_from_slice(content);
    frame::write(bytes, 2, &body).unwrap();
}

#[test]
fn a_hostile_far_side_steers_no_terminal_and_writes_nothing_outside_of_its_run() {
    let runs = Runs::new("far-hostile");
    let hostile = Hostile::new("far");
    let run = |bytes: &[u8]| {
        let output = runs.run(&["check", &hostile.place(bytes)]);
        let shown = [text(&output.stdout), text(&output.stderr)].concat();
        let odd = |c: char| pgassay_text::is_unsafe(c) && c != '\n';
        assert!(!shown.contains(odd), "{shown:?}");
        output
    };
    refused(
        &run(&hello(9, 8)),
        3,
        "the far side is too new: pgassay 9.9",
    );
    refused(&run(&hello(0, 0)), 3, "the far side is too old");
    refused(
        &run(b"\x01pgassay-far\x01\n\xff\xff\xff\xff\x00\x01"),
        3,
        "does not make sense",
    );
    refused(&run(&b"\x1b[2J noise ".repeat(10_000)), 3, "is not pgassay");

    let mut escapes = hello(PROTOCOL, OLDEST);
    says(&mut escapes, &json!({"Out": "a\u{1b}[31mred\u{9b}2J\n"}));
    says(
        &mut escapes,
        &json!({"Said": "warning: b\u{1b}]0;title\u{7}\n"}),
    );
    says(&mut escapes, &json!({"Ended": {"code": 0}}));
    let shown = run(&escapes);
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
    assert!(text(&shown.stdout).starts_with("a\u{fffd}[31mred"));
    // Nor does it choose how this program ends beyond the codes that there are.
    let mut odd = hello(PROTOCOL, OLDEST);
    says(&mut odd, &json!({"Ended": {"code": 139}}));
    assert_eq!(run(&odd).status.code(), Some(70));

    let outside = hostile.dir.join("outside");
    fs::create_dir_all(runs.0.join("mine")).unwrap();
    for path in [
        format!("r/../../{}", outside.file_name().unwrap().display()),
        outside.display().to_string(),
        "../outside".into(),
        "mine/run.json".into(),
        "r/elsewhere.json".into(),
        "r/a\u{1b}[2J".into(),
        "r/report.html".into(),
        "r/below/report.HTML".into(),
        "r/a.svg".into(),
        "r/page".into(),
    ] {
        let mut bytes = hello(PROTOCOL, OLDEST);
        file(&mut bytes, &path, b"{}");
        says(&mut bytes, &json!({"Ended": {"code": 0}}));
        refused(&run(&bytes), 3, "not to be trusted");
    }
    assert_eq!(fs::read_dir(runs.0.join("mine")).unwrap().count(), 0);
    assert!(!outside.exists() && !runs.0.with_file_name("outside").exists());

    // What is no message, and one that ends in the middle.
    let mut nonsense = hello(PROTOCOL, OLDEST);
    frame::write(&mut nonsense, 1, b"{\"Dance\": 1}").unwrap();
    refused(&run(&nonsense), 3, "does not make sense");
    let mut cut = hello(PROTOCOL, OLDEST);
    cut.extend([0, 0, 1, 0, 0, 1, b'{']);
    let place = hostile.place(&cut).replace("; cat >/dev/null", "");
    refused(&runs.run(&["check", &place]), 3, "the other side ended");
}

#[test]
fn no_page_of_a_far_side_is_written() {
    let runs = Runs::new("far-pages");
    let hostile = Hostile::new("pages");
    let page = hostile.dir.join("page.html");
    let check = |content: &[u8]| {
        let mut bytes = hello(PROTOCOL, OLDEST);
        file(&mut bytes, "out-0", content);
        says(&mut bytes, &json!({"Ended": {"code": 0}}));
        let place = hostile.place(&bytes);
        runs.run(&["check", &place, "--html", page.to_str().unwrap()])
    };
    let script = "<script>alert(1)</script>";
    refused(&check(script.as_bytes()), 3, "is no collected facts");
    assert!(!page.exists());
    // What it says is data: the page is ours.
    let facts = text(&runs.run(&["collect", "--host"]).stdout);
    let mut facts: Value = serde_json::from_str(&facts).unwrap();
    facts["target"] = script.into();
    facts["unknown"] = script.into();
    let output = check(json!([facts, false]).to_string().as_bytes());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let written = fs::read_to_string(&page).unwrap();
    assert!(!written.contains("alert(1)"), "{written}");
    assert!(written.contains("Content-Security-Policy") && written.contains("Check of this host"));
}

#[test]
fn a_far_side_names_no_other_directory_than_its_own() {
    let runs = Runs::new("far-replaced");
    let hostile = Hostile::new("replaced");
    let mut bytes = hello(PROTOCOL, OLDEST);
    says(&mut bytes, &json!({"Started": {"runs": "aa"}}));
    says(&mut bytes, &json!({"Out": "a".repeat(15 << 20)}));
    says(&mut bytes, &json!({"Ended": {"code": 0}}));
    let output = runs.run(&["check", &hostile.place(&bytes)]);
    refused(&output, 3, "no directory of runs");
    assert!(output.stdout.is_empty());
}

/// It held the near side for ever, and the first Ctrl-C did nothing.
#[test]
fn a_flood_ends_the_link_and_a_far_side_that_goes_on_is_left() {
    let runs = Runs::new("far-flood");
    let hostile = Hostile::new("flood");
    let mut flood = hello(PROTOCOL, OLDEST);
    for _ in 0..70 {
        frame::write(&mut flood, 0, &vec![b' '; 1 << 20]).unwrap();
    }
    let place = hostile.beating(&flood);
    refused(&runs.run(&["check", &place]), 3, "does not make sense");

    let place = hostile.beating(&hello(PROTOCOL, OLDEST));
    let mut near = runs.start(&["check", &place]);
    let mut said = BufReader::new(near.stderr.take().unwrap()).lines();
    while !said.next().unwrap().unwrap().starts_with("on exec:") {}
    signal(near.id(), Signal::INT);
    let until = Instant::now() + Duration::from_secs(120);
    let ended = loop {
        match near.try_wait().unwrap() {
            None if Instant::now() > until => {
                near.kill().unwrap();
                panic!("it waits for ever");
            }
            None => sleep(Duration::from_millis(50)),
            Some(ended) => break ended,
        }
    };
    let said: Vec<String> = said.map_while(Result::ok).collect();
    assert_eq!(ended.code(), Some(130), "{said:?}");
}
