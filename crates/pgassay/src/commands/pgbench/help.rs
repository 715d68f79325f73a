//! What `pgassay pgbench --help` and `--version` print.

/// The release whose options these are.
const RELEASE: &str = "18.0";

/// In the form of pgbench's own: a name, a release, and in parentheses who made the program.
pub fn version() -> String {
    format!(
        "pgbench (PostgreSQL) {RELEASE} (pgassay {})\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// The options, with pgbench's headings.
pub const HELP: &str = "\
pgassay pgbench takes the place of pgbench, the benchmarking tool for PostgreSQL:
the same options, scripts, results and logs, driven by pgassay's load engine.

Usage:
  pgassay pgbench [OPTION]... [DBNAME]

Initialization options:
  -i, --initialize         make and fill the tables; DROPS existing pgbench_ tables
  -I, --init-steps=[dtgGvpf]+ (default \"dtgpv\")
                           run these steps, in this order:
                           d: drop the tables of an earlier -i
                           t: create the tables
                           g: generate data here
                           G: generate data in the server
                           v: vacuum the tables
                           p: create the primary keys
                           f: create foreign keys
  -F, --fillfactor=NUM     fill factor of the tables, 10 to 100
  -n, --no-vacuum          leave out the step v
  -q, --quiet              report every 5 seconds, not every second
  -s, --scale=NUM          100,000 accounts for each NUM (default: 1)
  --foreign-keys           add the step f
  --index-tablespace=TABLESPACE
                           tablespace of the indexes
  --partition-method=(range|hash)
                           how pgbench_accounts is partitioned (default: range)
  --partitions=NUM         number of its partitions (default: 0, not partitioned)
  --resume                 finish an interrupted -i; drops nothing (not in pgbench)
  --tablespace=TABLESPACE  tablespace of the tables
  --unlogged-tables        create unlogged tables

Options to select what to run:
  -b, --builtin=NAME[@W]   add a built-in script, with weight W (default: 1);
                           \"-b list\" lists them
  -f, --file=FILENAME[@W]  add a script from a file, with weight W (default: 1);
                           - is standard input
  -N, --skip-some-updates  same as \"-b simple-update\"
  -S, --select-only        same as \"-b select-only\"

Benchmarking options:
  -c, --client=NUM         number of clients (default: 1)
  -C, --connect            open a connection for each transaction
  -D, --define=VARNAME=VALUE
                           define a variable for scripts
  -j, --jobs=NUM           number of threads (default: 1)
  -l, --log                log each transaction to a file
  -L, --latency-limit=NUM  count transactions that take longer than NUM ms
  -M, --protocol=simple|extended|prepared
                           protocol of the queries (default: simple)
  -n, --no-vacuum          do not vacuum before the run
  -P, --progress=NUM       report progress every NUM seconds
  -r, --report-per-command report latencies, failures and retries of each command
  -R, --rate=NUM           transactions per second to aim at
  -s, --scale=NUM          scale that scripts see as :scale, if none is built-in
  -t, --transactions=NUM   number of transactions of each client (default: 10)
  -T, --time=NUM           duration of the run in seconds
  -v, --vacuum-all         vacuum all four tables before the run
  --aggregate-interval=NUM log one line per NUM seconds
  --continue-on-error      go on after errors in SQL (pgbench 19)
  --exit-on-abort          end the run when a client stops
  --failures-detailed      report failures by kind
  --log-prefix=PREFIX      beginning of the log files' names (default: \"pgbench_log\")
  --max-tries=NUM          number of tries of a transaction (default: 1; 0: no limit)
  --progress-timestamp     Unix time in progress reports
  --random-seed=SEED       seed of random numbers: \"time\", \"rand\" or an integer
  --sampling-rate=NUM      share of the transactions to log (0.01 is 1%)
  --show-script=NAME       show a built-in script
  --verbose-errors         report each error

Common options:
  --debug                  report each step of each client
  -d, --dbname=DBNAME      database; without a name, same as --debug
  -h, --host=HOSTNAME      host or socket directory of the server
  -p, --port=PORT          port of the server
  -U, --username=USERNAME  user
  -V, --version            show the version
  -?, --help               show this help

docs/pgbench.md lists what differs from pgbench.
Report bugs to pgassay's developers, not to PostgreSQL's.
";
