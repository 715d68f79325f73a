//! Logs of a real server under many values of log_line_prefix: the statements in them are those that were sent.

use std::thread;
use std::time::Duration;

use pgassay_pgwire::connect;

use crate::own_workload::{Folder, HBA, log_with, made, weight};
use crate::pg_support::Server;

/// An application's name with blanks, as drivers set it.
const APPLICATION: &str = "PostgreSQL JDBC Driver";
/// Sent with each prefix; statements of several lines have the server's tabs.
const UPDATE: &str = "UPDATE t\n   SET n = n + 1\n WHERE id = 1";
/// The same with its values as variables.
const WRITTEN: &str = "UPDATE t\n   SET n = n + :p1\n WHERE id = :p2;";

#[test]
fn statements_come_back_whatever_the_prefix() {
    let server = Server::start(
        HBA,
        &[
            ("logging_collector", "on"),
            ("log_destination", "stderr"),
            ("log_directory", "log"),
            ("log_min_duration_statement", "0"),
            ("lc_messages", "C"),
        ],
        |_| {},
    );
    server.run("CREATE TABLE t (id int PRIMARY KEY, n int)");
    server.run("INSERT INTO t VALUES (1, 0), (2, 0)");
    let folder = Folder::new("prefixes");
    for (n, prefix) in [
        "%m [%p] %q%u@%d ",
        "%m [%p] ",
        "%t:%r:%u@%d:[%p]:",
        "%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a:",
        "%t-%c-",
        "%m [%p]: [%l-1] db=%d,user=%u ",
        "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
        "%m [%p]: [%l-1] xact=%x,user=%u,db=%d,client=%h, app=%a",
        "%m [%p] %u@%d %a ",
        "%n %c %u@%d ",
        "%m [%8p] %q[%-12u|%12d] ",
        "<%t> pid=%p app=%a ",
    ]
    .iter()
    .enumerate()
    {
        server.run(&format!("ALTER SYSTEM SET log_line_prefix = '{prefix}'"));
        server.run("SELECT pg_reload_conf()");
        // Sessions that begin from now on have the prefix, and only then does another file begin.
        let mut asked = 0;
        while connect(&server.owner())
            .unwrap()
            .value("SHOW log_line_prefix")
            .unwrap()
            .as_deref()
            != Some(*prefix)
        {
            asked += 1;
            assert!(asked < 200, "{prefix} is not in force");
            thread::sleep(Duration::from_millis(20));
        }
        server.run(&format!("ALTER SYSTEM SET log_filename = 'own{}'", n + 1));
        server.run("SELECT pg_reload_conf()");
        let log = server.dir.join(format!("data/log/own{}", n + 1));
        while !log.exists() {
            asked += 1;
            assert!(asked < 400, "{} does not begin", log.display());
            thread::sleep(Duration::from_millis(20));
        }
        let mut session = connect(&server.owner().with_application_name(APPLICATION)).unwrap();
        for _ in 0..3 {
            session.execute("BEGIN").unwrap();
            session.execute(UPDATE).unwrap();
            session.execute("COMMIT").unwrap();
            session.execute("SELECT n FROM t WHERE id = 2").unwrap();
        }
        // The last entry of a log may not be whole.
        session.execute("SELECT 'end of the log'").unwrap();
        session.execute("SELECT 'nothing'").unwrap();
        log_with(&server, &(n + 1).to_string(), "'nothing'");
        let file = log.to_str().unwrap();
        for given in [&["--prefix", prefix][..], &[]] {
            let words = [
                "workload", "from-log", file, "--force", "--json", "--to", "made.sql",
            ];
            let made = made(&[&words[..], given].concat(), &folder.0);
            assert_eq!(weight(&made, "UPDATE t"), 3, "{prefix} {given:?}: {made:#}");
            assert_eq!(
                weight(&made, "SELECT n FROM t"),
                3,
                "{prefix} {given:?}: {made:#}"
            );
            let script = std::fs::read_to_string(folder.0.join("made.sql")).unwrap();
            assert!(script.contains(WRITTEN), "{prefix} {given:?}: {script}");
        }
    }
}
