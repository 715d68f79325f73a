//! `pgassay mcp`, spoken to as an assistant's client does, and as it should not.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::compare::fixture::Made;
use crate::runs::{Runs, text};

/// What the program answers to these lines, in order.
fn said(runs: &Runs, lines: &[String]) -> Vec<Value> {
    let dir = runs.0.to_str().unwrap();
    let mut child = runs
        .command(&["mcp", dir])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for line in lines {
        writeln!(input, "{line}").unwrap();
    }
    // Its input ends, and so does it.
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let answers = text(&output.stdout);
    answers
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect()
}

fn request(id: u32, method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn call(id: u32, tool: &str, arguments: Value) -> String {
    request(
        id,
        "tools/call",
        json!({ "name": tool, "arguments": arguments }),
    )
}

fn content(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .expect("text")
}

#[test]
fn an_assistant_lists_reads_compares_and_asks_why() {
    let runs = Runs::new("mcp");
    let words = "run select-only temp --clients 1,2 --trials 3 --time 0.4 --warmup 0 --scale 1";
    for _ in 0..2 {
        let output = runs.run(&words.split(' ').collect::<Vec<_>>());
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let names: Vec<String> = {
        let mut names: Vec<String> = fs::read_dir(&runs.0)
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
    };
    // Nothing leads out of the directory.
    symlink("/etc", runs.0.join("linked")).unwrap();
    let initialize = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    });
    let answers = said(
        &runs,
        &[
            request(1, "initialize", initialize),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string(),
            request(2, "tools/list", json!({})),
            call(3, "list_runs", json!({})),
            call(4, "list_runs", json!({ "search": "nothing-of-the-kind" })),
            call(5, "read_run", json!({ "run": "last" })),
            call(6, "read_run", json!({ "run": names[0], "format": "json" })),
            call(7, "compare_runs", json!({ "runs": names })),
            call(8, "why", json!({ "run": names[0] })),
            call(9, "read_run", json!({ "run": "../../etc" })),
            call(10, "read_run", json!({ "run": "linked" })),
            call(11, "read_run", json!({ "run": "/etc" })),
            call(12, "read_run", json!({})),
            call(13, "compare_runs", json!({ "runs": ["last"] })),
            request(14, "ping", json!({})),
        ],
    );
    let ids: Vec<u64> = answers.iter().map(|a| a["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (1..=14).collect::<Vec<u64>>());
    let result = |id: usize| &answers[id - 1]["result"];
    assert_eq!(result(1)["protocolVersion"], "2025-06-18");
    assert_eq!(result(1)["serverInfo"]["name"], "pgassay");
    let tools = result(2)["tools"].as_array().unwrap();
    let tools: Vec<&str> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(tools, ["list_runs", "read_run", "compare_runs", "why"]);
    let list: Value = serde_json::from_str(content(&answers[2])).unwrap();
    assert_eq!(list["runs"].as_array().unwrap().len(), 2, "{list}");
    assert_eq!(list["runs"][0]["run"], json!(names[1]), "newest first");
    // A machine that is too busy may leave a run without one.
    let peak = &list["runs"][0]["peak"];
    let rate = peak["rate"]["estimate"].as_f64();
    assert!(peak.is_null() || rate > Some(0.0), "{list}");
    let none: Value = serde_json::from_str(content(&answers[3])).unwrap();
    assert_eq!(none["runs"], json!([]));
    assert!(content(&answers[4]).contains("select-only"));
    assert!(content(&answers[5]).contains("pgassay/analysis/1"));
    // It is longer than an answer may be, and says how to go on.
    assert!(content(&answers[5]).chars().count() < 50_000);
    assert!(content(&answers[6]).contains("B against A"));
    assert!(!content(&answers[7]).is_empty());
    for id in 9..=13 {
        assert_eq!(
            result(id)["isError"],
            json!(true),
            "{id}: {}",
            answers[id - 1]
        );
    }
    assert_eq!(*result(14), json!({}));
}

#[test]
fn what_is_no_request_is_answered_as_the_protocol_has_it() {
    let runs = Runs::new("mcp-malformed");
    fs::create_dir_all(&runs.0).unwrap();
    let long = format!("{{\"x\": \"{}\"}}", "x".repeat(2 << 20));
    let deep = "[".repeat(100_000);
    let cases: [(String, Option<i64>); 14] = [
        ("no json".to_owned(), Some(-32700)),
        ("{\"jsonrpc\": \"2.0\", \"id\": 1".to_owned(), Some(-32700)),
        (deep, Some(-32700)),
        (long, Some(-32600)),
        ("[]".to_owned(), Some(-32600)),
        ("17".to_owned(), Some(-32600)),
        ("{\"id\": 1, \"method\": \"ping\"}".to_owned(), Some(-32600)),
        (
            "{\"jsonrpc\": \"2.0\", \"id\": {}, \"method\": \"ping\"}".to_owned(),
            Some(-32600),
        ),
        (request(2, "no/such", json!({})), Some(-32601)),
        (request(3, "tools/call", json!([])), Some(-32602)),
        (call(4, "rm", json!({})), Some(-32602)),
        (
            request(5, "tools/call", json!({ "name": "why", "arguments": 1 })),
            Some(-32602),
        ),
        // An answer to nothing, and a notification that nobody knows.
        (
            "{\"jsonrpc\": \"2.0\", \"id\": 1, \"result\": {}}".to_owned(),
            None,
        ),
        (
            "{\"jsonrpc\": \"2.0\", \"method\": \"no/such\"}".to_owned(),
            None,
        ),
    ];
    let mut lines: Vec<String> = cases.iter().map(|(line, _)| line.clone()).collect();
    lines.push("   ".to_owned());
    lines.push(request(99, "ping", json!({})));
    let answers = said(&runs, &lines);
    let codes: Vec<i64> = answers
        .iter()
        .filter_map(|a| a["error"]["code"].as_i64())
        .collect();
    let expected: Vec<i64> = cases.iter().filter_map(|(_, code)| *code).collect();
    assert_eq!(codes, expected);
    let last = answers.last().unwrap();
    assert_eq!((&last["id"], &last["result"]), (&json!(99), &json!({})));
}

/// serde's message quotes the value as it is.
#[test]
fn what_a_damaged_run_quotes_acts_on_nobody() {
    let runs = Runs::new("mcp-damaged");
    let dir = runs.0.join("20260101T000000Z-damaged-aaaa");
    fs::create_dir_all(&dir).unwrap();
    let header = Made::default().run().header;
    let mut header = serde_json::to_value(&header).unwrap();
    header["experiment"]["stages"][0]["id"] = "a\u{1b}[2J\u{9b}\u{202e}b".into();
    fs::write(dir.join("run.json"), header.to_string()).unwrap();
    let answers = said(
        &runs,
        &[
            call(1, "list_runs", json!({})),
            call(2, "read_run", json!({ "run": "last" })),
            call(3, "read_run", json!({ "run": "a\u{1b}\u{202e}b" })),
            call(
                4,
                "read_run",
                json!({ "run": "last", "format": "\u{202e}" }),
            ),
            call(5, "why", json!({ "run": "last" })),
        ],
    );
    assert!(
        content(&answers[1]).contains("unknown variant"),
        "{answers:?}"
    );
    for answer in &answers {
        let odd = |c: char| pgassay_text::is_unsafe(c) && c != '\n';
        assert!(!content(answer).contains(odd), "{answer}");
    }
}
