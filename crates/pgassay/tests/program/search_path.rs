//! A database whose owner has it find operators and functions of theirs before PostgreSQL's: what
//! we ask for ourselves runs none of them with the rights of whoever calls pgassay.

use crate::pg_support::{OWNER, Server};
use crate::runs::{Runs, text};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const HBA: &str = "local all all trust\n";

/// For each usual operator, function and type of PostgreSQL one of another schema that does the same,
/// but writes into the server's log who ran it.
const TRAPS: &str = r#"
CREATE SCHEMA trap; GRANT USAGE ON SCHEMA trap TO PUBLIC;
CREATE FUNCTION trap.ran(what text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog AS
$$ BEGIN
  IF current_setting('application_name') LIKE 'pgassay%' THEN
    RAISE LOG 'trapped % in %', what, current_setting('application_name');
  END IF;
END $$;
DO $do$
DECLARE o record; f record; body text;
BEGIN
  FOR o IN SELECT * FROM pg_operator WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprcode <> 0
    AND oprleft <> 0 AND oprname IN ('=', '<>', '<', '>', '<=', '>=', '||', '+', '-', '*', '/', '%', '~~', '!~~', '~', '->>')
    AND ARRAY[oprleft, oprright] <@ ARRAY['text', 'name', 'oid', 'int2', 'int4', 'int8', 'bool', 'float8',
      'numeric', 'pg_lsn', '"char"', 'timestamptz', 'interval', 'json', 'jsonb', 'xid', 'regclass']::regtype[]::oid[]
  LOOP
    body := format('BEGIN PERFORM trap.ran(%L); RETURN $1 OPERATOR(pg_catalog.%s) $2; END',
      format('operator %s (%s, %s)', o.oprname, o.oprleft::regtype, o.oprright::regtype), o.oprname);
    EXECUTE format('CREATE FUNCTION trap.o%s(%s, %s) RETURNS %s LANGUAGE plpgsql SET search_path = pg_catalog AS %L',
      o.oid, o.oprleft::regtype, o.oprright::regtype, o.oprresult::regtype, body);
    EXECUTE format('CREATE OPERATOR trap.%s (PROCEDURE = trap.o%s, LEFTARG = %s, RIGHTARG = %s)',
      o.oprname, o.oid, o.oprleft::regtype, o.oprright::regtype);
  END LOOP;
  FOR f IN SELECT * FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f'
    AND NOT proretset AND provariadic = 0 AND proname IN ('lower', 'current_setting', 'set_config',
      'quote_ident', 'obj_description', 'version', 'abs', 'random', 'now', 'clock_timestamp',
      'pg_backend_pid', 'pg_is_in_recovery', 'to_regclass', 'pg_relation_size', 'hashint8', 'lpad',
      'pg_sleep', 'float8', 'text', 'int4', 'int8')
    AND NOT EXISTS (SELECT FROM unnest(proargtypes::oid[]) t JOIN pg_type y ON y.oid = t WHERE y.typtype = 'p')
    AND prorettype <> 'void'::regtype
  LOOP
    body := format('BEGIN PERFORM trap.ran(%L); RETURN pg_catalog.%I(%s); END', f.oid::regprocedure, f.proname,
      (SELECT coalesce(string_agg('$' || i, ', '), '') FROM generate_series(1, f.pronargs) i));
    EXECUTE format('CREATE FUNCTION trap.%I(%s) RETURNS %s LANGUAGE plpgsql SET search_path = pg_catalog AS %L',
      f.proname, oidvectortypes(f.proargtypes), f.prorettype::regtype, body);
  END LOOP;
END $do$;
CREATE FUNCTION trap.counted(bigint) RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog AS
$$ BEGIN PERFORM trap.ran('count(*)'); RETURN $1 + 1; END $$;
CREATE FUNCTION trap.counted(bigint, "any") RETURNS bigint LANGUAGE internal AS 'int8inc_any';
CREATE AGGREGATE trap.count(*) (SFUNC = trap.counted, STYPE = bigint, INITCOND = '0');
CREATE FUNCTION trap.ran_by(text) RETURNS bool LANGUAGE plpgsql AS
$$ BEGIN PERFORM trap.ran('type text'); RETURN true; END $$;
CREATE DOMAIN trap.text AS pg_catalog.text CHECK (trap.ran_by(VALUE));
CREATE DOMAIN trap.float8 AS pg_catalog.float8 CHECK (trap.ran_by(''));
"#;

struct Trapped {
    server: Server,
    runs: Runs,
}

impl Trapped {
    fn new(name: &str) -> Self {
        let server = Server::start(HBA, &[], |_| {});
        server.run(TRAPS);
        server.run("CREATE TABLE public.app AS SELECT i FROM generate_series(1, 1000) i");
        server.run("ALTER DATABASE postgres SET search_path = trap, pg_catalog, public");
        Self {
            server,
            runs: Runs::new(name),
        }
    }

    /// Runs the program against the server, with this exit code, and returns what it printed; no
    /// trap may have closed.
    fn safe(&self, words: &[&str], code: i32) -> String {
        let dir = self.server.socket_dir.display();
        let uri = format!(
            "host={dir} port={} user={OWNER} dbname=postgres",
            self.server.port
        );
        let words: Vec<&str> = words
            .iter()
            .map(|word| if *word == "URI" { uri.as_str() } else { word })
            .collect();
        let output = self.runs.run(&words);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{words:?}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        let log = self.server.log();
        let mut trapped: Vec<&str> = log
            .lines()
            .filter_map(|line| Some(&line[line.find("trapped ")?..]))
            .collect();
        trapped.sort_unstable();
        trapped.dedup();
        assert!(trapped.is_empty(), "{words:?}: {trapped:#?}");
        text(&output.stdout)
    }
}

/// The traps close where somebody asks without care: else the tests below could not fail.
#[test]
fn the_traps_work() {
    let trapped = Trapped::new("the-traps-work");
    let careless = trapped.server.owner().with_application_name("pgassay");
    let mut session = pgassay_pgwire::connect(&careless).unwrap();
    let asked = "SELECT count(*), lower(max(datname::text)) FROM pg_catalog.pg_database \
                 WHERE datname = 'postgres'";
    session.rows(asked).unwrap();
    let log = trapped.server.log();
    for what in ["count(*)", "lower(", "operator =", "type text"] {
        assert!(log.contains(&format!("trapped {what}")), "{what}: {log}");
    }
}

#[test]
fn load_looks_and_checks_run_nothing_of_the_databases_owner() {
    let trapped = Trapped::new("trapped-load");
    let short = [
        "--clients",
        "2",
        "--trials",
        "1",
        "--time",
        "1",
        "--scale",
        "1",
    ];
    let mut words = vec!["run", "tpcb-like", "URI", "--load", "--observe", "all"];
    words.extend(short);
    trapped.safe(&words, 0);
    let owner = trapped.server.owner().with_application_name("app");
    let mut app = pgassay_pgwire::connect(&owner).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let running = thread::spawn(move || {
        while !asked.load(Ordering::Relaxed) {
            app.execute("SELECT i FROM public.app WHERE i = 500")
                .unwrap();
        }
    });
    let watch = ["watch", "URI", "--time", "2", "--count", "1", "--json"];
    let seen = trapped.safe(&watch, 0);
    stop.store(true, Ordering::Relaxed);
    running.join().unwrap();
    // Its plan is looked up all the same.
    let seen: serde_json::Value = serde_json::from_str(&seen).unwrap();
    let statements = &seen["observed"]["points"][0]["statements"]["statements"];
    let plan = &statements[0]["plan"];
    assert_eq!(plan["root"]["relation"], "public.app", "{statements:#}");
    assert!(plan["work_mem_bytes"].is_number(), "{plan:#}");
    let checked = trapped.safe(&["check", "URI"], 0);
    assert!(!checked.is_empty());
    trapped.safe(&["inspect", "URI"], 0);
}

#[test]
fn reads_run_nothing_of_the_databases_owner() {
    let trapped = Trapped::new("trapped-reads");
    trapped.safe(
        &[
            "run", "pgio", "URI", "--load", "--time", "1", "--trials", "1",
        ],
        0,
    );
}
