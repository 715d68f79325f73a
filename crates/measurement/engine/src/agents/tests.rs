//! Agents in this process, over links without streams.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pgassay_far::{Channel, Link};
use pgassay_load::{Edge, Length, SliceResult, SliceSpec};
use pgassay_model::machines::MachineRecord;
use pgassay_model::point::Point;
use pgassay_model::workload::ScriptPlan;
use pgassay_model::{FailureKind, Plan};
use pgassay_pgwire::Conninfo;
use pgassay_sys::stop::Stop;

use super::bounds::{MOST_BYTES, MOST_CLIENTS, MOST_LOADS};
use super::message::{Answer, Ask, Preparation, Server};
use super::synthetic::Synthetic;
use super::{Agents, Maker, Several, Side, Trouble, serve_with};
use crate::drivers::wire::Engines;

/// Machines with clients of these kinds, and the links' other ends.
fn machines(kinds: &[Synthetic], stop: &Stop) -> (Agents, Vec<thread::JoinHandle<()>>) {
    let mut sides = Vec::new();
    let mut ends = Vec::new();
    for (number, kind) in kinds.iter().enumerate() {
        let (near, far) = Link::pair();
        let kind = *kind;
        ends.push(thread::spawn(move || {
            drop(serve_with(&far.channel(1), &kind, &Stop::new()));
        }));
        sides.push(Side {
            name: format!("m{number}"),
            channel: near.channel(1),
            link: Box::new(near),
            by_address: false,
        });
    }
    (Agents::open(sides, stop).expect("agents"), ends)
}

fn prepared(agents: &Agents, clients: u32) -> Several {
    let plan = Plan {
        points: vec![Point {
            clients,
            threads: 1,
            variant: 0,
        }],
        ..Plan::default()
    };
    let server = Conninfo::on_socket("/nowhere", 5432, "me", "d");
    let mut several = agents.prepare(&plan, &server, None).expect("prepared");
    several.resize(clients).expect("clients");
    several
}

fn spec(milliseconds: u64) -> SliceSpec {
    SliceSpec {
        warmup: Duration::from_millis(20),
        length: Length::Time(Duration::from_millis(milliseconds)),
        seed: 9,
        ..SliceSpec::default()
    }
}

fn slice(
    kinds: &[Synthetic],
    clients: u32,
    spec: &SliceSpec,
) -> Result<(SliceResult, Vec<MachineRecord>), Trouble> {
    let (agents, _) = machines(kinds, &Stop::new());
    prepared(&agents, clients).run_slice(spec, &mut |_| {})
}

#[test]
fn three_machines_count_what_one_counts() {
    let of = |machines| {
        let kinds = vec![Synthetic::default(); machines];
        let (sum, machines) = slice(&kinds, 7, &spec(100)).expect("a slice");
        let clients: Vec<u32> = machines.iter().map(|machine| machine.clients).collect();
        (sum.transactions, sum.latency, sum.clients, clients)
    };
    let (transactions, latency, clients, _) = of(1);
    assert!(transactions > 0 && clients == 7);
    for (machines, shares) in [(3, vec![3, 2, 2]), (9, vec![1; 7])] {
        assert_eq!(of(machines), (transactions, latency.clone(), 7, shares));
    }
}

#[test]
fn edges_come_with_the_announced_window_and_skew_is_seen() {
    let late = Synthetic {
        late: Duration::from_millis(500),
        ..Synthetic::default()
    };
    let (agents, _) = machines(&[Synthetic::default(), late], &Stop::new());
    let mut several = prepared(&agents, 2);
    let mut edges = Vec::new();
    let begin = Instant::now();
    let (sum, machines) = several
        .run_slice(&spec(200), &mut |edge| {
            edges.push((matches!(edge, Edge::Start), begin.elapsed()));
        })
        .expect("a slice");
    assert_eq!(edges.len(), 2);
    assert!(edges[0].0 && edges[0].1 >= Duration::from_millis(20));
    assert!(edges[1].1 >= Duration::from_millis(220));
    let skew = machines[1].begin_ns - machines[0].begin_ns;
    assert!(skew >= 250_000_000, "{machines:?}");
    assert!(machines.iter().all(|machine| machine.beside_server));
    assert!(sum.window_ns >= 200_000_000);
}

#[test]
fn a_lost_machine_is_named_and_ends_the_slice_early() {
    let stop = Stop::new();
    let (agents, mut ends) = machines(&[Synthetic::default(); 2], &stop);
    let (near, far) = Link::pair();
    let killed = thread::spawn(move || {
        let stop = Stop::new();
        let asked = stop.clone();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(400));
            asked.ask();
        });
        drop(serve_with(&far.channel(1), &Synthetic::default(), &stop));
    });
    drop(agents);
    ends.drain(..).for_each(|end| end.join().expect("an end"));
    let (other, served) = Link::pair();
    let surviving = thread::spawn(move || {
        drop(serve_with(
            &served.channel(1),
            &Synthetic::default(),
            &Stop::new(),
        ));
    });
    let side = |name: &str, link: Link| Side {
        name: name.to_owned(),
        channel: link.channel(1),
        link: Box::new(link),
        by_address: false,
    };
    let agents = Agents::open(vec![side("stays", other), side("goes", near)], &stop);
    let agents = agents.expect("agents");
    let mut several = prepared(&agents, 4);
    let begin = Instant::now();
    let outcome = several.run_slice(&spec(60_000), &mut |_| {});
    assert!(begin.elapsed() < Duration::from_secs(20));
    match outcome {
        Err(Trouble::Failure(failure)) => {
            assert!(failure.message.contains("goes was lost"), "{failure}");
            assert_eq!(failure.kind, FailureKind::Target);
        }
        other => panic!("{other:?}"),
    }
    killed.join().expect("an end");
    // The other one was told to end its slice, and ends with its link.
    drop(several);
    drop(agents);
    surviving.join().expect("an end");
}

#[test]
fn clients_that_are_all_lost_are_a_lost_machine_or_a_dead_server() {
    let dies = Synthetic {
        dies: true,
        ..Synthetic::default()
    };
    match slice(&[Synthetic::default(), dies], 2, &spec(50)) {
        Err(Trouble::Failure(failure)) => {
            assert!(failure.message.contains("m1 was lost"), "{failure}");
        }
        other => panic!("{other:?}"),
    }
    match slice(&[dies, dies], 2, &spec(50)) {
        Err(Trouble::ServerDied(why)) => assert!(why.contains("closed the connection")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stop_ends_a_slice_soon() {
    let stop = Stop::new();
    let (agents, _) = machines(&[Synthetic::default(); 3], &stop);
    let mut several = prepared(&agents, 3);
    let asked = stop.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        asked.ask();
    });
    let begin = Instant::now();
    let (sum, _) = several
        .run_slice(&spec(60_000), &mut |_| {})
        .expect("a slice");
    assert!(sum.interrupted && begin.elapsed() < Duration::from_secs(20));
}

/// Closes as slowly as a machine that has much to tidy up.
struct Slow {
    _link: Link,
}

impl Drop for Slow {
    fn drop(&mut self) {
        thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn many_machines_are_closed_at_once() {
    let mut sides = Vec::new();
    for number in 0..40 {
        let (near, far) = Link::pair();
        thread::spawn(move || {
            drop(serve_with(
                &far.channel(1),
                &Synthetic::default(),
                &Stop::new(),
            ));
        });
        sides.push(Side {
            name: format!("m{number}"),
            channel: near.channel(1),
            link: Box::new(Slow { _link: near }),
            by_address: false,
        });
    }
    let agents = Agents::open(sides, &Stop::new()).expect("agents");
    let begin = Instant::now();
    drop(agents);
    // One after the other they take 20 seconds.
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[test]
fn machines_that_do_not_answer_are_waited_for_together() {
    let mut sides = Vec::new();
    let mut far_ends = Vec::new();
    for number in 0..8 {
        let (near, far) = Link::pair();
        // It says who it is and what its clock shows, and then nothing more.
        let channel = far.channel(1);
        thread::spawn(move || {
            let maker = Synthetic {
                stuck: true,
                ..Synthetic::default()
            };
            drop(serve_with(&channel, &maker, &Stop::new()));
        });
        far_ends.push(far);
        sides.push(Side {
            name: format!("m{number}"),
            channel: near.channel(1),
            link: Box::new(near),
            by_address: false,
        });
    }
    let stop = Stop::new();
    let agents = Agents::open(sides, &stop).expect("agents");
    let server = Conninfo::on_socket("/nowhere", 5432, "me", "d");
    let mut several = agents
        .prepare(&Plan::default(), &server, None)
        .expect("prepared");
    stop.ask();
    let begin = Instant::now();
    let outcome = several.resize(16);
    assert!(matches!(outcome, Err(Trouble::Interrupted)), "{outcome:?}");
    // One after the other they take 24 seconds.
    assert!(begin.elapsed() < Duration::from_secs(15));
}

/// The channel of a near side that asks what it likes; the link ends with the other half.
fn asked(maker: impl Maker + Send + 'static) -> (Channel, Link) {
    let (near, far) = Link::pair();
    thread::spawn(move || {
        drop(serve_with(&far.channel(1), &maker, &Stop::new()));
    });
    (near.channel(1), near)
}

fn answer(channel: &Channel, ask: &Ask) -> Answer {
    channel.send(ask).expect("the link");
    loop {
        match channel.recv(Duration::from_secs(20)).expect("the link") {
            Some(Answer::Passed(_)) => {}
            Some(answer) => return answer,
            None => panic!("no answer to {ask:?}"),
        }
    }
}

fn prepare(load: u32, plan: Plan) -> Ask {
    Ask::Prepare {
        load,
        preparation: Box::new(Preparation {
            plan,
            server: nowhere(),
        }),
    }
}

/// A server that is not there.
fn nowhere() -> Server {
    Server {
        conninfo: "host=/nowhere".to_owned(),
        password: None,
    }
}

#[track_caller]
fn is_refused(answer: &Answer, why: &str) {
    match answer {
        Answer::Refused(refusal) => assert!(refusal.text.contains(why), "{}", refusal.text),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_near_side_gets_no_more_of_a_machine_than_a_measurement_takes() {
    let (channel, _link) = asked(Synthetic::default());
    for load in 0..MOST_LOADS as u32 {
        let answer = answer(&channel, &prepare(load, Plan::default()));
        assert!(matches!(answer, Answer::Done), "{load}: {answer:?}");
    }
    let more = MOST_LOADS as u32;
    is_refused(
        &answer(&channel, &prepare(more, Plan::default())),
        "64 loads",
    );
    // Where one goes, another may come.
    channel.send(&Ask::Forget { load: 7 }).expect("the link");
    let again = answer(&channel, &prepare(more, Plan::default()));
    assert!(matches!(again, Answer::Done), "{again:?}");

    let resize = |load, clients| answer(&channel, &Ask::Resize { load, clients });
    is_refused(&resize(0, u32::MAX), "clients in all");
    assert!(matches!(resize(0, MOST_CLIENTS - 1), Answer::Done));
    is_refused(&resize(1, 2), "clients in all");
    assert!(matches!(resize(0, 1), Answer::Done));
    assert!(matches!(resize(1, 2), Answer::Done));

    let mut plan = Plan::default();
    plan.workload.name = "x".repeat(MOST_BYTES / 2);
    let first = answer(&channel, &prepare(2, plan.clone()));
    assert!(matches!(first, Answer::Done), "{first:?}");
    is_refused(&answer(&channel, &prepare(3, plan)), "bytes in all");
    let mut plan = Plan::default();
    plan.workload.dials.latency_limit_ms = Some(-1.0);
    is_refused(&answer(&channel, &prepare(3, plan)), "latency limit");
}

/// Loads of a comparison on a machine of 64 CPUs, with statements told apart: there are histograms of one load at
/// a time, so that there is room for all loads where there is for each.
#[test]
fn histograms_count_for_the_load_that_runs() {
    let (channel, _link) = asked(Engines);
    let resized = |load: u32, commands: usize| {
        let mut plan = Plan::default();
        plan.workload.protocol = "simple".to_owned();
        plan.workload.dials.per_statement = true;
        for number in 0..40 {
            plan.workload.scripts.push(ScriptPlan {
                name: format!("s{number}"),
                weight: 1,
                text: "SELECT 1;\n".repeat(commands),
                pause: None,
                clients: None,
            });
        }
        plan.points.push(Point {
            clients: 64,
            threads: 16,
            variant: 0,
        });
        let preparation = Preparation {
            plan: plan.clone(),
            server: nowhere(),
        };
        let clients = Engines.clients(&preparation, &Arc::default());
        let memory = clients.expect("clients").memory(64);
        let prepared = answer(&channel, &prepare(load, plan));
        assert!(matches!(prepared, Answer::Done), "{prepared:?}");
        let resized = answer(&channel, &Ask::Resize { load, clients: 64 });
        (memory.at_work >> 20, resized)
    };
    for load in 0..3 {
        let (histograms, resized) = resized(load, 6);
        assert_eq!(histograms, 1120);
        // There was room, but no server.
        is_refused(&resized, "/nowhere");
    }
    let (histograms, resized) = resized(3, 12);
    assert_eq!(histograms, 2080);
    is_refused(&resized, "bytes in all");
}

#[test]
fn who_is_at_work_answers_at_once_whatever_is_asked_and_can_be_stopped() {
    let (channel, _link) = asked(Synthetic::default());
    for load in [1, 2] {
        answer(&channel, &prepare(load, Plan::default()));
        answer(&channel, &Ask::Resize { load, clients: 1 });
    }
    let run = |load| {
        let spec = Box::new(spec(60_000));
        let begin_ns = 0;
        let slice = Ask::Slice {
            load,
            begin_ns,
            spec,
        };
        channel.send(&slice).expect("the link");
    };
    let begin = Instant::now();
    run(1);
    let resize = |load| Ask::Resize { load, clients: 3 };
    is_refused(&answer(&channel, &resize(2)), "at work");
    let other = prepare(3, Plan::default());
    is_refused(&answer(&channel, &other), "at work");
    assert!(matches!(answer(&channel, &Ask::Time), Answer::Time(_)));
    assert!(matches!(answer(&channel, &Ask::Cancel), Answer::Slice(_)));
    assert!(matches!(answer(&channel, &resize(2)), Answer::Done));
    // Clients that are let go while they are at work end as well, and are no more.
    run(1);
    let forget = Ask::Forget { load: 1 };
    assert!(matches!(answer(&channel, &forget), Answer::Slice(_)));
    is_refused(&answer(&channel, &resize(1)), "no such clients");
    assert!(begin.elapsed() < Duration::from_secs(20));
}
