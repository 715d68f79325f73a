//! `pgassay lines --sampled`: what perf's text says of a real server's memory, by the names that lines are counted
//! under. No machine of the tests has a processor that samples, so the text is made: its forms are published ones,
//! its addresses are the server's.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use pgassay_lines::account::Account;
use pgassay_lines::sampled::Sampled;
use pgassay_pgwire::{Session, connect};
use serde_json::Value;

use crate::pg_support::{OWNER, Server};
use crate::runs::{Runs, text};
use crate::schema::assert_schema;

/// Of Intel: `cpu/mem-loads`, `cpu/mem-stores`.
const INTEL_HITM: &str = "629800842 |OP LOAD|LVL L3 hit|SNP HitM|TLB L1 hit|LCK N/A|BLK N/A";
const INTEL_STORE: &str = "229080144 |OP STORE|LVL L1 hit|SNP N/A|TLB L1 hit|LCK N/A|BLK N/A";
/// Of Arm's SPE, as perf decodes it.
const ARM_PEER: &str =
    "8688000842 |OP LOAD|LVL L3 or L3 hit|SNP Peer|TLB Walker hit|LCK No|BLK  N/A";

/// Of AMD's IBS: a cache of a far CCX that had modified the line, by the bits that the kernel sets.
fn amd_far() -> String {
    let level = (0x02 | 0x0800) << 5;
    let bits: u64 = 0x02 | level | 0x10 << 19 | 0x01 << 24 | 0xb << 33 | 1 << 37 | 2 << 43;
    format!(
        "{bits:x} |OP LOAD|LVL Remote Cache (2 hops) hit or Remote Any cache hit|SNP HitM|TLB L1 hit|LCK No|BLK  N/A"
    )
}

/// The server, and what it says of its memory.
struct Known {
    server: Server,
    uri: String,
    session: Session,
    base: u64,
    /// Where structures begin in the segment.
    offsets: BTreeMap<String, u64>,
}

impl Known {
    fn new() -> Self {
        let server = Server::start("local all all trust\n", &[], |_| {});
        let uri = format!(
            "host={} port={} user={OWNER} dbname=postgres",
            server.socket_dir.display(),
            server.port
        );
        let mut session = connect(&server.owner()).unwrap();
        let maps = fs::read_to_string(format!("/proc/{}/maps", session.backend_pid())).unwrap();
        let main = maps
            .lines()
            .find(|line| line.contains("/dev/zero"))
            .unwrap();
        let base = u64::from_str_radix(main.split('-').next().unwrap(), 16).unwrap();
        let question =
            "SELECT name, off FROM pg_shmem_allocations WHERE name IS NOT NULL AND off IS NOT NULL";
        let rows = session.rows(question).unwrap();
        let offsets = rows.rows.into_iter().map(|row| {
            let [name, offset] = row.as_slice() else {
                panic!("{row:?}")
            };
            let offset = offset.as_deref().unwrap().parse().unwrap();
            (name.clone().unwrap(), offset)
        });
        let offsets = offsets.collect();
        Self {
            server,
            uri,
            session,
            base,
            offsets,
        }
    }

    fn at(&self, structure: &str) -> u64 {
        self.base + self.offsets[structure]
    }
}

/// A line of perf's text.
fn line(of: (u32, &str), address: u64, source: &str, weight: u32) -> String {
    let (pid, event) = of;
    format!(
        "{pid:5}/{pid:<5} 544966.882384: {event}: {address:16x} {source} {weight:8} 55ab2cdb1793 [unknown] (/x/y)\n"
    )
}

fn hits(of: &Value, what: &str) -> u64 {
    of["hits"][what].as_u64().unwrap()
}

#[test]
fn a_text_of_perf_has_the_servers_names() {
    let mut known = Known::new();
    let runs = Runs::new("sampled-alone");
    fs::create_dir_all(&runs.0).unwrap();
    let pid = known.session.backend_pid().unsigned_abs();
    let descriptor = known.at("Buffer Descriptors") + 16 * 64;
    let strategy = known.at("Buffer Strategy Status");
    let array = known.at("Proc Array");
    let mut perf = String::from("# captured on    : Thu Nov 26 2026\n");
    for _ in 0..5 {
        perf += &line(
            (pid, "cpu/mem-loads,ldlat=30/P"),
            descriptor + 24,
            INTEL_HITM,
            300,
        );
    }
    perf += &line((pid, "cpu/mem-stores/P"), descriptor + 24, INTEL_STORE, 0);
    for _ in 0..3 {
        perf += &line((pid, "ibs_op//"), strategy, &amd_far(), 900);
    }
    for _ in 0..2 {
        // What perf makes of one access without --itrace=M.
        perf += &line((pid, "l1d-access"), array, ARM_PEER, 90);
        perf += &line((pid, "memory"), array, ARM_PEER, 90);
    }
    // A session that has ended; our test, which is another process; private memory; absurd addresses; cut lines.
    perf += &line((4_000_000_000, "memory"), array, ARM_PEER, 90);
    perf += &line((std::process::id(), "memory"), array, ARM_PEER, 90);
    perf += &line((pid, "memory"), 0x1000, ARM_PEER, 90);
    perf += &line((pid, "memory"), u64::MAX, ARM_PEER, 90);
    perf += &line((pid, "memory"), 0, ARM_PEER, 90);
    perf += "544966.9: cut\n\u{1b}[2J\n";
    perf += &line((pid, "memory"), array, ARM_PEER, 90)[..60];
    let path = runs.0.join("perf.txt");
    fs::write(&path, &perf).unwrap();
    let path = path.to_str().unwrap();
    let output = runs.run(&["lines", &known.uri, "--sampled", path, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let sampled: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_schema(&sampled, "lines-sampled-1.json");

    let samples = &sampled["samples"];
    let count = |what: &str| samples[what].as_u64().unwrap();
    assert_eq!((count("shared"), count("private")), (12, 2), "{samples}");
    assert_eq!(
        (count("of_others"), count("without_address")),
        (1, 1),
        "{samples}"
    );
    assert_eq!(
        (count("repeated"), count("lines_not_understood")),
        (2, 3),
        "{samples}"
    );
    assert_eq!(sampled["named_share"], 1.0);
    let lines = sampled["lines"].as_array().unwrap();
    let names: Vec<&str> = lines.iter().map(|l| l["name"].as_str().unwrap()).collect();
    assert!(names[0].starts_with("descriptor of buffer 17"), "{names:?}");
    assert!(names[1].starts_with("Buffer Strategy Status"), "{names:?}");
    assert!(names[2].starts_with("Proc Array"), "{names:?}");
    assert_eq!(
        (hits(&lines[0], "hitm_local"), hits(&lines[0], "stores")),
        (5, 1)
    );
    assert_eq!(
        (
            hits(&lines[1], "hitm_remote"),
            hits(&lines[2], "peer_local")
        ),
        (3, 3)
    );
    assert_eq!(lines[0]["cycles"], 300.0);

    // As text, and with what a counted account is held against; nothing was made in the server.
    let output = runs.run(&["lines", &known.uri, "--sampled", path]);
    let said = text(&output.stdout);
    assert!(said.contains("descriptor of buffer 17"), "{said}");
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'pgassay'";
    assert_eq!(known.session.value(schemas).unwrap().as_deref(), Some("0"));

    let refused = |args: &[&str], code: i32, says: &str| {
        let output = runs.run(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(says), "{args:?}: {said}");
    };
    refused(
        &["lines", "--sampled", path],
        2,
        "that server, while it runs",
    );
    let other = runs.0.join("other.json");
    fs::write(&other, "{\"schema\": \"pgassay/check/1\"}").unwrap();
    let other = other.to_str().unwrap();
    refused(&["lines", "--sampled", other], 2, "another document");
    refused(&["lines", "--sampled", "/nowhere"], 2, "/nowhere");
    refused(
        &["walls", "--transfer-ns", "50", "--sampled", path],
        2,
        "pgassay lines with",
    );
    refused(
        &[
            "lines",
            &known.uri,
            "--load",
            "-w",
            "lwlock:shared",
            "--sampled",
            path,
        ],
        2,
        "clients send",
    );
}

/// Samples of lines that a counted transaction takes: the same line by the same name, in both orders.
///
/// On a server that was there before a transaction is stepped for 2 s at most, which a busy machine does not hold.
#[test]
#[ignore = "needs a quiet machine: make test-all"]
fn counted_lines_stand_beside_sampled_ones() {
    let known = Known::new();
    let runs = Runs::new("sampled-beside");
    fs::create_dir_all(&runs.0).unwrap();
    // A short transaction that takes two locks.
    let script = runs.0.join("one.sql");
    fs::write(&script, "SELECT pg_advisory_xact_lock_shared(1);\n").unwrap();
    let script = script.to_str().unwrap();
    let counting = [
        "lines", &known.uri, "--load", "-w", script, "-n", "1", "--seed", "1", "--at", "1",
        "--json",
    ];
    let output = runs.run(&counting);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let counted: Account = serde_json::from_slice(&output.stdout).expect("an account");
    // Locks lie where they lay when the tables are made anew; buffers may hold something else then.
    let locks: Vec<_> = counted
        .lines
        .iter()
        .filter(|line| !line.own && line.counts.takes() > 0.0)
        .filter(|line| line.name.starts_with("LWLock ProcArray"))
        .collect();
    assert_eq!(locks.len(), 1, "{locks:?}");
    let address = |line: &str| u64::from_str_radix(&line[2..], 16).unwrap();
    let mut perf = String::new();
    let of = (4_000_000_000, "memory");
    for _ in 0..30 {
        perf += &line(of, address(&locks[0].address), INTEL_HITM, 300);
    }
    for _ in 0..10 {
        perf += &line(of, known.at("Buffer Strategy Status"), ARM_PEER, 300);
    }
    let path = runs.0.join("perf.txt");
    fs::write(&path, &perf).unwrap();
    let page = runs.0.join("lines.html");
    let sampling = [
        "--sampled",
        path.to_str().unwrap(),
        "--html",
        page.to_str().unwrap(),
    ];
    let output = runs.run(&[&counting[..], &sampling].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let both: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_schema(&both, "lines-1.json");
    let beside = &both["beside"];
    assert_eq!(beside["by"], "line");
    let pair = &beside["both"][0];
    assert!(
        pair["name"]
            .as_str()
            .unwrap()
            .starts_with("LWLock ProcArray"),
        "{pair}"
    );
    assert_eq!(
        (pair["takes"].as_f64(), hits(pair, "hitm_local")),
        (Some(locks[0].counts.takes()), 30),
        "{pair}"
    );
    assert_eq!(pair["share"], 0.75);
    let only = beside["only_sampled"].as_array().unwrap();
    assert_eq!(only.len(), 1, "{only:?}");
    assert!(
        only[0]["name"]
            .as_str()
            .unwrap()
            .starts_with("Buffer Strategy Status")
    );
    assert!(!beside["only_counted"].as_array().unwrap().is_empty());
    assert_eq!(beside["rank"], Value::Null);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("Sampled by the processor"));

    // The same samples, held against an account of another server: by kind of memory.
    let sampled: Sampled = serde_json::from_value(beside["sampled"].clone()).unwrap();
    let mut counted = counted;
    counted.put_beside(sampled, false);
    let elsewhere = counted.beside.unwrap();
    assert_eq!(elsewhere.by, "kind of memory");
    assert_eq!(elsewhere.both[0].name, "LWLock ProcArray");
    let mut told = String::new();
    let _ = write!(told, "{}", known.server.log());
    assert!(!told.contains("terminated by signal"), "{told}");
}
