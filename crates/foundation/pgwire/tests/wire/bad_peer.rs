//! Peers that are no PostgreSQL, or a broken one: each ends in a typed error
//! within its time, none in a panic, a hang or a full memory.

use pgassay_pgwire::fake::{FakeServer, Step, say};
use pgassay_pgwire::{ConnectError, QueryError, Session, TransactionStatus, connect};
use proptest::prelude::*;
use std::time::{Duration, Instant};

/// Longer than any of these may take.
const PATIENCE: Duration = Duration::from_secs(10);

fn try_startup(script: Vec<Step>) -> Result<Session, ConnectError> {
    let server = FakeServer::listen(vec![script]).expect("listen");
    let mut conninfo = server.conninfo();
    conninfo.connect_timeout = Some(Duration::from_millis(500));
    let began = Instant::now();
    let outcome = connect(&conninfo);
    assert!(began.elapsed() < PATIENCE);
    outcome
}

/// A session whose first query gets this answer.
fn ask(answer: Vec<Step>) -> (Result<usize, QueryError>, Session, FakeServer) {
    let mut script = vec![
        Step::ReadStartup,
        Step::Send(say::welcome()),
        Step::ReadUntil(b'Q'),
    ];
    script.extend(answer);
    let server = FakeServer::listen(vec![script]).expect("listen");
    let mut session = connect(&server.conninfo()).expect("connect");
    session.set_read_timeout(Some(Duration::from_millis(500)));
    let began = Instant::now();
    let outcome = session.query("select 1").map(|results| results.len());
    assert!(began.elapsed() < PATIENCE);
    (outcome, session, server)
}

#[test]
fn a_bad_start_is_an_error_of_the_right_kind() {
    let after_startup =
        |bytes: Vec<u8>| try_startup(vec![Step::ReadStartup, Step::Send(bytes), Step::Freeze]);
    let is_protocol = |outcome: Result<Session, ConnectError>| {
        assert!(
            matches!(outcome, Err(ConnectError::Protocol { .. })),
            "{outcome:?}"
        );
    };
    is_protocol(after_startup(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()));
    is_protocol(after_startup(
        b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n".to_vec(),
    ));
    is_protocol(after_startup(say::header(b'R', 3)));
    is_protocol(after_startup(say::header(b'R', u32::MAX)));
    is_protocol(after_startup(say::header(b'S', 0x7fff_ffff)));
    is_protocol(after_startup(say::message(b'R', &[0, 0, 0, 99])));
    is_protocol(after_startup(say::message(b'R', &[0, 0])));
    // Ready before admission, admission twice, rows without a query.
    is_protocol(after_startup(say::ready(b'I')));
    is_protocol(after_startup([say::auth_ok(), say::auth_ok()].concat()));
    is_protocol(after_startup(
        [say::auth_ok(), say::row(&[Some("x")])].concat(),
    ));
    // SASL continues that nobody began; no terminator after the mechanisms.
    is_protocol(after_startup(say::message(b'R', &[0, 0, 0, 11, b'x'])));
    is_protocol(after_startup(say::message(b'R', b"\0\0\0\nSCRAM-SHA-256")));
    // An endless start-up is given up.
    let endless = say::parameter("a", "b").repeat(20_000);
    is_protocol(after_startup([say::auth_ok(), endless].concat()));

    let no_mechanism = after_startup(say::auth_sasl(&["OAUTHBEARER"]));
    assert!(
        matches!(no_mechanism, Err(ConnectError::Auth { .. })),
        "{no_mechanism:?}"
    );

    for silent in [vec![Step::Freeze], vec![Step::ReadStartup, Step::Freeze]] {
        let outcome = try_startup(silent);
        assert!(
            matches!(outcome, Err(ConnectError::Timeout { .. })),
            "{outcome:?}"
        );
    }
    // The time is for the whole start, not for each byte.
    let slow = Step::Drip(say::welcome().repeat(50), Duration::from_millis(20));
    let outcome = try_startup(vec![Step::ReadStartup, slow]);
    assert!(
        matches!(outcome, Err(ConnectError::Timeout { .. }) | Ok(_)),
        "{outcome:?}"
    );
    let half = say::welcome()[..20].to_vec();
    for end in [Step::HangUp, Step::Reset] {
        let outcome = try_startup(vec![Step::ReadStartup, Step::Send(half.clone()), end]);
        assert!(
            matches!(outcome, Err(ConnectError::Io { .. })),
            "{outcome:?}"
        );
    }
    let error = say::error("FATAL", "57P03", "the database system is starting up");
    let outcome = after_startup(error);
    assert!(
        matches!(outcome, Err(ConnectError::ServerStarting { .. })),
        "{outcome:?}"
    );
}

#[test]
fn a_server_that_does_not_know_the_password_is_found_out() {
    // It offers SCRAM and then simply lets us in, which a real server that
    // knows the password's verifier never does.
    let script = vec![
        Step::ReadStartup,
        Step::Send(say::auth_sasl(&["SCRAM-SHA-256"])),
        Step::ReadMessage,
        Step::Send(say::welcome()),
        Step::Freeze,
    ];
    let server = FakeServer::listen(vec![script]).expect("listen");
    let mut conninfo = server.conninfo();
    conninfo.hosts[0].password = Some(pgassay_pgwire::Secret::new("geheim"));
    conninfo.connect_timeout = Some(PATIENCE);
    match connect(&conninfo) {
        Err(error @ ConnectError::Auth { .. }) => {
            assert!(error.to_string().contains("proving"), "{error}");
            assert!(!format!("{error:?}{conninfo:?}").contains("geheim"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_cut_into_single_bytes_are_put_together() {
    let answer = [
        say::notice("hello"),
        say::columns(&["a", "b"]),
        say::row(&[Some("1"), None]),
        say::parameter("TimeZone", "UTC"),
        say::complete("SELECT 1"),
        say::ready(b'T'),
    ]
    .concat();
    let (outcome, mut session, _server) = ask(vec![Step::Drip(answer, Duration::from_micros(100))]);
    assert_eq!(outcome.expect("an answer"), 1);
    assert_eq!(session.parameter("TimeZone"), Some("UTC"));
    assert_eq!(session.take_notices()[0].message, "hello");
    assert_eq!(session.transaction_status(), TransactionStatus::Open);
    assert_eq!(session.backend_pid(), 4711);
}

#[test]
fn a_bad_answer_breaks_the_session_and_says_how() {
    let row = say::row(&[Some("1")]);
    for bad in [
        b"garbage garbage garbage".to_vec(),
        say::header(b'D', 2_000_000_000),
        say::header(b'Z', 60_000),
        say::header(b'D', 0),
        // A row without a description, with more values, with a false length.
        row.clone(),
        [say::columns(&["a", "b"]), row.clone()].concat(),
        [
            say::columns(&["a"]),
            say::message(b'D', &[0, 1, 0, 0, 0, 99, b'x']),
        ]
        .concat(),
        [say::columns(&["a"]), say::message(b'D', &[0xff, 0xff])].concat(),
        say::message(b'T', &[0, 9, b'x']),
        say::message(b'C', b"no end"),
        say::message(b'E', b"Sno end"),
        say::ready(b'?'),
        say::message(b'Z', b""),
        say::auth_ok(),
        say::message(b'd', b"copy data from nowhere"),
    ] {
        let (outcome, mut session, _server) = ask(vec![Step::Send(bad.clone()), Step::Freeze]);
        assert!(
            matches!(outcome, Err(QueryError::Protocol(_))),
            "{bad:?}: {outcome:?}"
        );
        assert!(matches!(
            session.query("select 1"),
            Err(QueryError::Lost { .. })
        ));
        assert!(matches!(
            session.into_transport().map(drop),
            Err(QueryError::Lost { .. })
        ));
    }

    let (silent, ..) = ask(vec![Step::Send(row[..4].to_vec()), Step::Freeze]);
    assert!(matches!(silent, Err(QueryError::Timeout(_))), "{silent:?}");
    for end in [Step::HangUp, Step::Reset] {
        let (closed, ..) = ask(vec![Step::Send(say::columns(&["a"])), end]);
        assert!(
            matches!(closed, Err(QueryError::Closed(None))),
            "{closed:?}"
        );
    }
    let fatal = say::error("FATAL", "57P01", "terminating connection");
    let (closed, ..) = ask(vec![Step::Send(fatal), Step::HangUp]);
    match closed {
        Err(QueryError::Closed(Some(error))) => assert_eq!(error.sqlstate, "57P01"),
        other => panic!("{other:?}"),
    }

    // Rows without end are given up at the limit, not at the end of memory.
    let rows = say::row(&[Some(&"x".repeat(1000))]).repeat(2000);
    let script = vec![
        Step::ReadStartup,
        Step::Send(say::welcome()),
        Step::ReadUntil(b'Q'),
        Step::Send([say::columns(&["a"]), rows].concat()),
        Step::Freeze,
    ];
    let server = FakeServer::listen(vec![script]).expect("listen");
    let mut session = connect(&server.conninfo()).expect("connect");
    session.set_result_limit(100_000);
    assert!(matches!(
        session.query("select 1"),
        Err(QueryError::TooLarge(100_000))
    ));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever bytes come in place of an answer, in whatever order real
    /// messages come: an error or a result, in time.
    #[test]
    fn no_bytes_do_harm(noise in proptest::collection::vec(any::<u8>(), 0..300),
                        order in proptest::collection::vec(0..9_usize, 0..12)) {
        let kinds = [
            say::columns(&["a"]), say::row(&[Some("1")]), say::complete("SELECT 1"),
            say::ready(b'I'), say::error("ERROR", "22012", "division by zero"),
            say::notice("n"), say::parameter("a", "b"), say::message(b'G', &[0, 0, 0]),
            say::message(b'H', &[0, 0, 0]),
        ];
        let shuffled: Vec<u8> = order.iter().flat_map(|i| kinds[*i].clone()).collect();
        for answer in [noise.clone(), shuffled.clone(), [shuffled, noise].concat()] {
            let (outcome, ..) = ask(vec![Step::Send(answer), Step::HangUp]);
            prop_assert!(!matches!(outcome, Err(QueryError::Timeout(_))), "{outcome:?}");
        }
    }
}

/// Attack D18: notices and parameters before the session was ready, and texts of any length, were
/// all kept.
#[test]
fn what_a_server_says_by_itself_is_kept_within_bounds() {
    let long = "x".repeat(100_000);
    let mut start = say::auth_ok();
    for n in 0..1_000 {
        start.extend(say::notice(&format!("notice {n} {}", "y".repeat(100))));
        start.extend(say::parameter(&format!("parameter {n}"), "value"));
    }
    start.extend(say::notice(&long));
    start.extend(say::key(1, 2));
    start.extend(say::ready(b'I'));
    let mut answer = Vec::new();
    for n in 0..1_000 {
        answer.extend(say::parameter(&format!("later {n}"), "value"));
    }
    // One that is known is still followed.
    answer.extend(say::parameter("parameter 0", "changed"));
    answer.extend(say::error("ERROR", "XX000", &long));
    answer.extend(say::ready(b'I'));
    let script = vec![
        Step::ReadStartup,
        Step::Send(start),
        Step::ReadUntil(b'Q'),
        Step::Send(answer),
        Step::Freeze,
    ];
    let server = FakeServer::listen(vec![script]).expect("listen");
    let mut session = connect(&server.conninfo()).expect("connect");
    assert_eq!(session.take_notices().len(), 100);
    let error = session.query("select 1").expect_err("the server refuses");
    let said = error.to_string();
    assert!(said.len() < 10_000, "{} bytes", said.len());
    assert!(said.contains("more bytes)"), "what was cut off is told");
    assert_eq!(session.parameters().len(), 200);
    assert_eq!(session.parameter("parameter 0"), Some("changed"));
}

/// Attack D18: rows of nothing cost five bytes on the wire, a hundred in memory, and did not count.
#[test]
fn rows_and_results_without_content_count_against_the_limit() {
    let empty_rows = [say::columns(&[]), say::row(&[]).repeat(10_000)].concat();
    let nothings = say::complete("SELECT 0").repeat(10_000);
    // Attack, hostile-tls: data of a COPY that nobody asked for went on without end.
    let copy_out = [
        say::message(b'H', &[0, 0, 0]),
        say::message(b'd', &[b'x'; 1000]).repeat(300),
    ];
    for answer in [empty_rows, nothings, copy_out.concat()] {
        let script = vec![
            Step::ReadStartup,
            Step::Send(say::welcome()),
            Step::ReadUntil(b'Q'),
            Step::Send(answer),
            Step::Freeze,
        ];
        let server = FakeServer::listen(vec![script]).expect("listen");
        let mut session = connect(&server.conninfo()).expect("connect");
        session.set_result_limit(100_000);
        session.set_read_timeout(Some(PATIENCE));
        let outcome = session.query("select");
        assert!(
            matches!(outcome, Err(QueryError::TooLarge(_))),
            "{outcome:?}"
        );
    }
}
