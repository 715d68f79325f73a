//! Signals from outside: one ends the program wherever it waits, and one that is ignored stays so.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use pgassay_model::reading::Reading;
use pgassay_model::samplers;
use pgassay_model::trial::Trial;
use pgassay_pgwire::fake::say;
use serde_json::Value;

use crate::runs::{Runs, Signal, postmasters_of, signal, text};

/// The exit code; fails where the program does not end at all.
fn code_of(child: &mut Child) -> Option<i32> {
    for _ in 0..1_200 {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        sleep(Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("one signal did not end it");
}

/// A server that says nothing by itself, and how to name it.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let target = format!("host=127.0.0.1 port={port} user=u dbname=d sslmode=disable");
    (listener, target)
}

/// Takes a start-up packet in and, if `welcome`, lets the client in.
fn admit(listener: &TcpListener, welcome: bool) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut rest = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut rest).unwrap();
    if welcome {
        stream.write_all(&say::welcome()).unwrap();
    }
    stream
}

/// The tag of the client's next message.
fn next_tag(stream: &mut TcpStream) -> u8 {
    let mut tag = [0];
    stream.read_exact(&mut tag).unwrap();
    tag[0]
}

/// Attack D11: one Ctrl-C did nothing while the program connected or waited for an answer.
#[test]
fn one_signal_ends_a_wait_for_a_server() {
    let runs = Runs::new("signal-wait");
    for (kind, by) in [(Signal::INT, "check"), (Signal::TERM, "inspect")] {
        let (listener, target) = silent();
        let mut child = runs.start(&[by, &target]);
        let _stream = admit(&listener, false);
        signal(child.id(), kind);
        assert_eq!(code_of(&mut child), Some(130), "{by}, connecting");

        let mut child = runs.start(&[by, &target]);
        let mut stream = admit(&listener, true);
        assert_eq!(next_tag(&mut stream), b'Q');
        signal(child.id(), kind);
        assert_eq!(
            code_of(&mut child),
            Some(130),
            "{by}, waiting for an answer"
        );
    }
}

/// Attack D11: a FIFO among the runs held the program for ever, whatever was pressed.
#[test]
fn one_signal_ends_the_reading_of_a_fifo() {
    let runs = Runs::new("signal-fifo");
    let run = runs.0.join("20260101T000000-select-only-abcd");
    fs::create_dir_all(&run).unwrap();
    let fifo = run.join("run.json");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let mut child = runs.start(&["runs", "list"]);
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    // A FIFO can be opened so only once somebody is there to read it.
    let mut writer = None;
    for _ in 0..1_200 {
        let opened = fs::OpenOptions::new()
            .write(true)
            .custom_flags(nonblock)
            .open(&fifo);
        if let Ok(opened) = opened {
            writer = Some(opened);
            break;
        }
        if let Some(status) = child.try_wait().unwrap() {
            // It did not even open it, which is as good.
            assert!(status.success());
            return;
        }
        sleep(Duration::from_millis(20));
    }
    let _writer = writer.expect("the program reads the runs");
    signal(child.id(), Signal::HUP);
    assert_eq!(code_of(&mut child), Some(130));
}

/// Attack D12: under nohup the hang-up ended the program all the same.
#[test]
fn a_signal_that_is_ignored_at_the_start_stays_ignored() {
    let (listener, target) = silent();
    let mut child = Command::new("sh")
        .args(["-c", "trap '' HUP INT; exec \"$0\" check \"$1\""])
        .args([env!("CARGO_BIN_EXE_pgassay"), &target])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stream = admit(&listener, false);
    signal(child.id(), Signal::HUP);
    signal(child.id(), Signal::INT);
    stream.write_all(&say::welcome()).unwrap();
    assert_eq!(next_tag(&mut stream), b'Q', "it goes on");
    signal(child.id(), Signal::TERM);
    assert_eq!(
        code_of(&mut child),
        Some(130),
        "what is not ignored ends it"
    );
}

/// Attack D11: a frozen server held the program for ever; its processes were left stopped.
#[test]
fn one_signal_ends_a_run_on_a_frozen_server_and_removes_it() {
    let runs = Runs::new("signal-frozen");
    let mut child = runs.start(&[
        "run",
        "select-only",
        "temp",
        "--clients",
        "1",
        "--trials",
        "50",
        "--time",
        "0.5",
    ]);
    runs.await_trials(1);
    let postmaster = postmasters_of(child.id())[0];
    let list = fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children"));
    let mut server: Vec<u32> = list
        .unwrap()
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    server.push(postmaster);
    for pid in &server {
        signal(*pid, Signal::STOP);
    }
    signal(child.id(), Signal::INT);
    assert_eq!(code_of(&mut child), Some(4));
    for pid in server {
        assert!(
            crate::runs::gone(pid),
            "process {pid} of the server is left"
        );
    }
}

/// The stop falls into a window, between two readings, or between windows, as the machine has it: each rate goes by
/// the time between its own two readings in any case.
#[test]
fn a_program_that_was_stopped_divides_by_the_time_between_its_readings() {
    let runs = Runs::new("stopped");
    let child = runs.start(&[
        "run",
        "select-only",
        "temp",
        "--json",
        "--clients",
        "1",
        "--trials",
        "4",
        "--time",
        "1",
        "--warmup",
        "0.1",
        "--scale",
        "1",
    ]);
    for trials in [1, 2] {
        runs.await_trials(trials);
        sleep(Duration::from_millis(400));
        signal(child.id(), Signal::STOP);
        sleep(Duration::from_millis(700));
        signal(child.id(), Signal::CONT);
    }
    let run = runs.await_trials(4);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let analysis: Value = serde_json::from_slice(&output.stdout).unwrap();
    let shown = &analysis["stages"][0]["arms"][0]["points"][0]["trials"];
    let lines = fs::read_to_string(run.join("trials.jsonl")).unwrap();
    let trials = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let trials: Vec<Trial> = trials.collect();
    assert_eq!(shown.as_array().unwrap().len(), trials.len());
    for (trial, shown) in trials.iter().zip(shown.as_array().unwrap()) {
        let sample = &trial.samples[samplers::HOST_STAT];
        let busy = |reading: &Reading| -> f64 {
            let fields = reading.text().unwrap().split_ascii_whitespace().skip(1);
            let ticks: Vec<f64> = fields.map(|f| f.parse().unwrap()).collect();
            // user nice system, irq softirq
            (ticks[..3].iter().sum::<f64>() + ticks[5] + ticks[6]) / 100.0
        };
        let seconds = sample.elapsed_ns as f64 / 1e9;
        let cpus = (busy(&sample.after) - busy(&sample.before)) / seconds;
        let found = shown["metrics"]["machine-cpus"].as_f64();
        if sample.elapsed_ns < trial.window_ns / 2 {
            assert_eq!(found, None, "{shown}");
        } else {
            let near = (found.unwrap() - cpus).abs() < 1e-6;
            assert!(near, "{cpus} of {seconds} s: {shown}");
        }
    }
}
