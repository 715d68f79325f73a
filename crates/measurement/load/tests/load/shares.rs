//! A load that several engines give, each a share of the clients: what a client does depends on its
//! number and the seed alone.

use pgassay_load::script::Program;
use pgassay_load::{Engine, Options, Share, SliceSpec};

use crate::support::{Bench, bench, run, transactions};

/// Two scripts by weight, both with drawn values, which each client writes down.
fn program() -> Program {
    let script = |kind: &str| {
        format!(
            "\\set n random(1, 1000000)\n\
             INSERT INTO drawn VALUES (:client_id, '{kind}', :n, :default_seed)"
        )
    };
    let mut program = Program::new();
    program.add("often", &script("often"), 3).unwrap();
    program.add("seldom", &script("seldom"), 1).unwrap();
    program
}

/// What the clients drew, client by client; the number of scripts of each kind; and how many seeds there were.
fn drawn(bench: &Bench, shares: &[(Share, usize)], threads: usize) -> [String; 3] {
    bench.execute("DROP TABLE IF EXISTS drawn");
    bench.execute("CREATE TABLE drawn (client int, kind text, n int, seed bigint)");
    for (share, clients) in shares {
        let options = Options {
            threads: Some(threads),
            ..Options::default()
        };
        let mut engine = Engine::new(bench.conninfo(), program(), options);
        engine.resize(*clients).unwrap();
        let spec = SliceSpec {
            seed: 7,
            share: Some(*share),
            ..transactions(40)
        };
        let result = run(&mut engine, &spec);
        assert_eq!(result.transactions, 40 * *clients as u64);
    }
    [
        "SELECT string_agg(client || ':' || kind || n, ' ' ORDER BY client, kind, n) FROM drawn",
        "SELECT string_agg(kind || n, ' ' ORDER BY kind)
         FROM (SELECT kind, count(*) AS n FROM drawn GROUP BY kind) AS kinds",
        "SELECT count(DISTINCT seed)::text || ' of ' || count(DISTINCT client) FROM drawn",
    ]
    .map(|question| bench.ask(question))
}

#[test]
fn three_shares_draw_what_the_whole_draws() {
    let bench = bench();
    let whole = drawn(&bench, &[(Share::whole(7), 7)], 2);
    let share = |first_client, first_thread| Share {
        first_client,
        clients: 7,
        first_thread,
    };
    let parts = [(share(0, 0), 3), (share(3, 1), 2), (share(5, 2), 2)];
    assert_eq!(drawn(&bench, &parts, 1), whole);
    assert!(whole[1].contains("often") && whole[1].contains("seldom"));
    assert_eq!(whole[2], "1 of 7", "one default seed, every client");
    bench.execute("DROP TABLE drawn");
}
