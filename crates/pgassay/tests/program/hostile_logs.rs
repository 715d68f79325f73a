//! `pgassay workload from-log` on what a real server logs of clients that are not like ours: parameters in binary, statements of a
//! megabyte, cancelled and failed ones, in files that were rotated within a transaction and cut off within a record.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use pgassay_pgwire::connect;

use crate::own_workload::{Folder, HBA, log_with, made, runs, weight};
use crate::pg_support::{OWNER, Server};

const STORED: usize = 50;
const READ: usize = 100;
const MOVED: usize = 20;

/// A client that sends its parameters in binary.
struct Raw(UnixStream);

impl Raw {
    fn connect(server: &Server) -> Self {
        let path = server.socket_dir.join(format!(".s.PGSQL.{}", server.port));
        let mut raw = Self(UnixStream::connect(path).unwrap());
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        body.extend(
            format!("user\0{OWNER}\0database\0postgres\0application_name\0shop\0\0").bytes(),
        );
        raw.0
            .write_all(&[&(body.len() as u32 + 4).to_be_bytes(), &body[..]].concat())
            .unwrap();
        raw.until_ready();
        raw
    }

    fn until_ready(&mut self) {
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).unwrap();
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; length as usize - 4];
            self.0.read_exact(&mut body).unwrap();
            assert_ne!(head[0], b'E', "{}", String::from_utf8_lossy(&body));
            if head[0] == b'Z' {
                return;
            }
        }
    }

    fn execute(&mut self, statement: &str, types: &[u32], values: &[Option<&[u8]>]) {
        let mut parse = format!("\0{statement}\0").into_bytes();
        parse.extend((types.len() as u16).to_be_bytes());
        parse.extend(types.iter().flat_map(|one| one.to_be_bytes()));
        let mut bind = b"\0\0".to_vec();
        bind.extend([0, 1, 0, 1]);
        bind.extend((values.len() as u16).to_be_bytes());
        for value in values {
            bind.extend(value.map_or(-1, |value| value.len() as i32).to_be_bytes());
            bind.extend(value.unwrap_or_default());
        }
        bind.extend([0, 0]);
        let messages = [
            (b'P', parse),
            (b'B', bind),
            (b'E', vec![0; 5]),
            (b'S', Vec::new()),
        ];
        for (tag, body) in messages {
            self.0.write_all(&[tag]).unwrap();
            self.0
                .write_all(&(body.len() as u32 + 4).to_be_bytes())
                .unwrap();
            self.0.write_all(&body).unwrap();
        }
        self.until_ready();
    }
}

/// The load, and what is none.
fn run_load(server: &Server) {
    let mut raw = Raw::connect(server);
    let types = [20, 17, 25, 16, 25];
    for n in 0..STORED as i64 {
        let data = [0, 0xff, b'\'', n as u8];
        let values: [Option<&[u8]>; 5] = [
            Some(&n.to_be_bytes()),
            Some(&data),
            Some("é\t'x\\".as_bytes()),
            Some(&[(n % 2) as u8]),
            None,
        ];
        raw.execute(
            "INSERT INTO item VALUES ($1, $2, $3, $4, $5)",
            &types,
            &values,
        );
    }
    for n in 0..READ as i64 {
        raw.execute(
            "SELECT note FROM item WHERE id = $1",
            &[20],
            &[Some(&(n % 50).to_be_bytes())],
        );
    }
    let mut session = connect(&server.owner().with_application_name("shop")).unwrap();
    let mut say = |statement: &str| session.execute(statement);
    for n in 0..MOVED {
        say("BEGIN").unwrap();
        say(&format!("SELECT flag FROM item WHERE id = {n}")).unwrap();
        say(&format!(
            "UPDATE item SET note = 'moved {n}' WHERE id = {n}"
        ))
        .unwrap();
        say("COMMIT").unwrap();
    }
    let long = "x".repeat(1 << 20);
    say(&format!("SELECT length('{long}')")).unwrap();
    say("SET statement_timeout = '1ms'").unwrap();
    assert!(say("SELECT pg_sleep(10)").is_err());
    say("RESET statement_timeout").unwrap();
    say("BEGIN").unwrap();
    say("SELECT flag FROM item WHERE id = 1").unwrap();
    assert!(say("SELECT 1 / 0").is_err());
    say("COMMIT").unwrap();
    say("SELECT count(*) FROM item").unwrap();
}

#[test]
fn odd_clients_and_rotated_files_lose_nothing_that_can_be_run() {
    let settings = [
        ("logging_collector", "on"),
        ("log_destination", "csvlog"),
        ("log_directory", "log"),
        ("log_filename", "own"),
        ("log_min_duration_statement", "0"),
        ("lc_messages", "C"),
    ];
    let server = Server::start(HBA, &settings, |_| {});
    server.run("CREATE TABLE item (id bigint, data bytea, note text, flag bool, more text)");
    run_load(&server);
    let folder = Folder::new("hostile");
    let dir = folder.0.as_path();
    let text = fs::read_to_string(log_with(&server, ".csv", "SELECT count(*) FROM item")).unwrap();
    // Rotated within a transaction, and cut off within the last statement's record.
    let begins = |words: &str| text[..text.find(words).unwrap()].rfind('\n').unwrap() + 1;
    let (rotated, cut) = (
        begins("UPDATE item SET note = 'moved 7'"),
        begins("SELECT count(*) FROM item"),
    );
    fs::write(dir.join("1.csv"), &text[..rotated]).unwrap();
    fs::write(dir.join("2.csv"), &text[rotated..cut + 100]).unwrap();
    let words = [
        "workload",
        "from-log",
        "1.csv",
        "2.csv",
        "--application",
        "shop",
        "--to",
        "mine.sql",
        "--json",
    ];
    let made = made(&words, dir);
    let weights = [
        ("INSERT INTO item", STORED),
        ("SELECT note", READ),
        ("SELECT flag", MOVED),
    ];
    for (statement, times) in weights {
        assert_eq!(weight(&made, statement), times as u64, "{made:#}");
    }
    assert_eq!(made["scripts"].as_array().unwrap().len(), 3, "{made:#}");
    let left = |why: &str| {
        let all = made["left_out"].as_array().unwrap();
        let one = all
            .iter()
            .find(|one| one["why"].as_str().unwrap().contains(why));
        one.unwrap_or_else(|| panic!("{why}: {made:#}"))["statements"].clone()
    };
    assert_eq!(left("longer than 64 KiB"), 1);
    // Cancelled alone, and one of two that failed together.
    assert!(left("its transaction failed").as_u64() >= Some(1));
    let (failed, done) = runs("mine.sql", &server, dir);
    assert!(done > 100.0 && failed == 0.0, "{failed} of {done}");
    let mut session = connect(&server.owner()).unwrap();
    let odd = "SELECT count(*) FROM item WHERE octet_length(data) <> 4 OR substr(data, 1, 3) <> '\\x00ff27' \
               OR more IS NOT NULL OR (note <> E'é\\t''x\\\\' AND note !~ '^moved')";
    assert_eq!(session.value(odd).unwrap().as_deref(), Some("0"));
    let more = format!("SELECT count(*) > {STORED} AND count(DISTINCT data) = {STORED} FROM item");
    assert_eq!(session.value(&more).unwrap().as_deref(), Some("t"));
}
