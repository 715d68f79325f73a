//! Primitives inside a real server: compiled for it, called in several
//! sessions, analysed.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use pgassay_analysis::host::HostSummary;
use pgassay_analysis::primitives::analyse;
use pgassay_analysis::profile::stage;
use pgassay_analysis::query_cost;
use pgassay_engine::drivers::Watched;
use pgassay_engine::drivers::in_server::{InServer, InServerArm, Sessions};
use pgassay_engine::drivers::query_ways::QueryWays;
use pgassay_engine::runner::{self, Driver, Ended, Schedule, Sink, Upcoming, Watcher};
use pgassay_engine::workload::inserver::{self, Call, Knobs, Statement};
use pgassay_model::plan::{DriverConfig, Stage};
use pgassay_model::point::Slice;
use pgassay_model::primitives::{Company, InServerTrial, PrimitivesPlan};
use pgassay_model::query_cost::{QueryCostRecord, WAYS, Way};
use pgassay_model::run::EventKind;
use pgassay_model::stage::StageId;
use pgassay_model::trial::{Raw, Trial};
use pgassay_model::{FailureKind, Plan};
use pgassay_observe::{Observers, Scene};
use pgassay_pgwire::{Connector, Conninfo, Session};
use pgassay_server::extension::Extension;
use pgassay_server::settings::Settings;
use pgassay_server::{Cluster, Installation, Installations, LaunchOptions};
use pgassay_sys::stop::Stop;

fn installed() -> Installation {
    Installations::search()
        .newest()
        .expect("the tests need an installed PostgreSQL")
        .clone()
}

/// A cluster with the extension's functions, and the place that both lie in.
struct Laboratory {
    cluster: Cluster,
    extension: Extension,
    place: PathBuf,
}

impl Laboratory {
    fn open(name: &str) -> Self {
        let place = PathBuf::from(format!(
            "/var/tmp/pgassay-test-{name}-{}",
            std::process::id()
        ));
        fs::remove_dir_all(&place).ok();
        fs::create_dir(&place).unwrap();
        let installation = installed();
        let extension = Extension::compiled_for(&installation, Some(&place)).unwrap();
        let options = LaunchOptions {
            settings: Settings::parse("--set", &["fsync=off"]).unwrap(),
            scratch: Some(place.clone()),
            shared_buffers_bytes: Some(64 << 20),
            max_connections: Some(40),
            ..LaunchOptions::default()
        };
        let cluster = Cluster::launch(&installation, &options).unwrap();
        Self {
            cluster,
            extension,
            place,
        }
    }

    fn connector(&self) -> Connector {
        Connector::new(&Conninfo::parse(&self.cluster.conninfo()).unwrap())
    }

    fn create(&self, calls: &[Call]) -> Session {
        self.create_with(calls, &Knobs::default()).unwrap()
    }

    fn create_with(&self, calls: &[Call], knobs: &Knobs) -> anyhow::Result<Session> {
        let mut session = self.connector().connect().unwrap();
        let definitions = self.extension.definitions(inserver::SCHEMA);
        inserver::create(&mut session, &definitions, calls, knobs, 64 << 20)?;
        Ok(session)
    }

    fn stage(&self, calls: &[Call], sessions: &[u32]) -> Stage {
        let primitives = PrimitivesPlan {
            variants: calls.iter().map(Call::variant).collect(),
            knobs: serde_json::Value::Null,
            compiled: None,
        };
        Stage {
            id: StageId::Primitives,
            plan: Plan {
                points: primitives.points(sessions),
                trials: 2,
                window_ms: 100,
                seed: 7,
                ..Plan::default()
            },
            driver: DriverConfig::InServer(Box::new(primitives)),
        }
    }

    fn close(self) {
        self.cluster.stop().unwrap();
        fs::remove_dir_all(&self.place).unwrap();
    }
}

#[derive(Default)]
struct Kept(Vec<Trial>);

impl Kept {
    fn raw(&self) -> impl Iterator<Item = (&Trial, &InServerTrial)> {
        self.0.iter().map(|trial| match &trial.raw {
            Raw::InServer(raw) => (trial, raw),
            other => panic!("{other:?}"),
        })
    }
}

impl Sink for Kept {
    fn trial(&mut self, trial: &Trial) -> anyhow::Result<()> {
        self.0.push(trial.clone());
        Ok(())
    }
    fn event(&mut self, event: EventKind) -> anyhow::Result<()> {
        panic!("{event:?}");
    }
}

impl Watcher for Kept {
    fn before(&mut self, upcoming: Upcoming) {
        assert!(upcoming.done < upcoming.all);
    }
    fn after(&mut self, _: &Trial) {}
}

fn run_all(
    stage: StageId,
    slices: &[Slice],
    driver: &mut dyn Driver,
    kept: &mut Kept,
) -> anyhow::Result<Ended> {
    let schedule = Schedule {
        stage,
        slices,
        measured: &HashSet::new(),
    };
    let mut unwatched = Kept::default();
    runner::run(&schedule, driver, kept, &mut unwatched, &Stop::new())
}

/// Runs the plan's calls in sessions of one server, which stay connected.
fn run(
    laboratory: &Laboratory,
    stage: &Stage,
    calls: &[Call],
    kept: &mut Kept,
) -> anyhow::Result<InServer> {
    let scene = Scene::unseen("the test looks at the trials only");
    let mut driver = InServer {
        calls: calls.to_vec(),
        points: stage.plan.points.clone(),
        call_us: 100_000,
        seed: stage.plan.seed,
        arms: vec![InServerArm {
            label: None,
            sessions: Sessions::new(laboratory.connector(), 1).unwrap(),
            watched: Watched {
                scene,
                observers: Observers::default(),
            },
        }],
        stop: Stop::new(),
    };
    let ended = run_all(stage.id, &stage.schedule(1), &mut driver, kept)?;
    assert!(matches!(ended, Ended::Complete), "{ended:?}");
    driver.give_back()?;
    Ok(driver)
}

#[test]
fn every_call_runs_in_several_sessions_and_is_analysed() {
    let laboratory = Laboratory::open("primitives");
    let version = installed().version.num();
    let mut calls: Vec<Call> = inserver::names()
        .into_iter()
        .filter(|name| *name != inserver::ALL)
        .flat_map(|name| inserver::calls(name, version, &Knobs::default()))
        .collect();
    for call in &mut calls {
        call.company.idle = call.company.idle.min(5);
    }
    let mut control = laboratory.create(&calls);
    let stage = laboratory.stage(&calls, &[1, 3]);
    let mut kept = Kept::default();
    let sessions = run(&laboratory, &stage, &calls, &mut kept).unwrap();
    assert_eq!(kept.0.len(), calls.len() * 2 * 2);

    let points = &stage.plan.points;
    for (trial, raw) in kept.raw() {
        let call = &calls[points[trial.slice.point as usize].variant as usize];
        // On a busy machine a session may get no CPU within its time.
        assert!(trial.transactions > 0, "{}", call.primitive);
        for session in raw.sessions.iter().filter(|s| s.operations > 0) {
            if call.primitive == "buffer-hit" {
                // The server's own counters confirm the number.
                let counted = (session.blocks_hit + session.blocks_read) as f64;
                let operations = session.operations as f64;
                assert!((counted / operations - 1.0).abs() < 0.01, "{session:?}");
            }
            if call.primitive == "wal-insert" {
                assert!(session.wal_bytes >= 64 * session.operations, "{session:?}");
            }
        }
    }
    let DriverConfig::InServer(primitives) = &stage.driver else {
        panic!("{stage:?}");
    };
    let analysed = analyse(
        &primitives.variants,
        &stage.plan,
        &kept.0,
        &HostSummary::default(),
    );
    assert_eq!(analysed.len(), calls.len());
    for primitive in &analysed {
        assert_eq!(primitive.points.len(), 2, "{}", primitive.variant.title());
    }
    let pins = format!("SELECT {0}.pins('{0}.hits')", inserver::SCHEMA);
    assert_eq!(control.value(&pins).unwrap().as_deref(), Some("0"));
    drop((sessions, control));
    laboratory.close();
}

/// The launcher has a session, too, and whoever looks at the server: those stay.
#[test]
fn only_sessions_that_ended_are_waited_for() {
    let lab = Laboratory::open("parting");
    let connect = || lab.connector().connect().unwrap();
    let (mut keeper, other, ending) = (connect(), connect(), connect());
    let left = inserver::sessions_left(&[ending.backend_pid()]);
    let mut left = || keeper.value(&left).unwrap().unwrap();
    assert_eq!(left(), "1");
    ending.close();
    let until = Instant::now() + Duration::from_secs(20);
    while left() != "0" {
        assert!(Instant::now() < until, "it is still there");
        sleep(Duration::from_millis(5));
    }
    other.close();
    lab.close();
}

#[test]
fn the_error_that_explains_the_others_is_told() {
    let laboratory = Laboratory::open("primitives-error");
    let calls = inserver::calls("buffer-hit", installed().version.num(), &Knobs::default());
    let mut control = laboratory.create(&calls);
    let stage = laboratory.stage(&calls, &[2]);
    control
        .execute(&format!("DROP TABLE {}.hits", inserver::SCHEMA))
        .unwrap();
    let error = run(&laboratory, &stage, &calls, &mut Kept::default())
        .err()
        .unwrap();
    let text = format!("{error:#}");
    assert!(
        text.contains("buffer-hit") && text.contains("hits\" does not exist"),
        "{text}"
    );
    // More sessions than the server takes.
    let stage = laboratory.stage(&calls, &[500]);
    let error = run(&laboratory, &stage, &calls, &mut Kept::default())
        .err()
        .unwrap();
    let text = format!("{error:#}");
    assert!(
        text.contains("too many clients") || text.contains("connection"),
        "{text}"
    );
    drop(control);
    laboratory.close();
}

#[test]
fn a_query_is_followed_over_the_wire_and_in_the_loops() {
    let laboratory = Laboratory::open("primitives-cost");
    let version = installed().version.num();
    let calls = inserver::calls("query-loop", version, &Knobs::default());
    let control = laboratory.create(&calls);
    let conninfo = Conninfo::parse(&laboratory.cluster.conninfo()).unwrap();
    let postmaster = laboratory.cluster.pid();
    match QueryWays::open(&conninfo, postmaster, 7, &Stop::new()).unwrap() {
        // Who may not sample is told why, and what would help.
        Err(why) => assert!(why.contains("perf_event"), "{why}"),
        Ok(mut ways) => {
            let mut kept = Kept::default();
            let followed = pgassay_model::query_cost::stage(7, 1, 900, false);
            let slices = followed.schedule(1);
            let ended = run_all(StageId::QueryCost, &slices, &mut ways, &mut kept).unwrap();
            assert!(matches!(ended, Ended::Complete), "{ended:?}");
            assert_eq!(kept.0.len(), WAYS.len());
            for (trial, way) in kept.0.iter().zip(WAYS) {
                assert!(trial.transactions > 0, "{way:?}");
                assert!(trial.server_cpu_ns.unwrap() > 0, "{way:?}");
            }
            let record = QueryCostRecord {
                symbols: ways.finish(),
                ..QueryCostRecord::default()
            };
            let cost = query_cost::analyse(&kept.0, &record);
            assert_eq!(cost.ways.len(), WAYS.len());
            // However little CPU a busy machine left, the loop spends it on its queries.
            let inside = cost.way(Way::QueryLoop).unwrap();
            let untold = inside
                .stages
                .iter()
                .find(|s| s.stage == stage::Stage::Untold);
            assert!(
                inside.samples == 0 || untold.is_none_or(|s| s.share < 0.5),
                "{inside:?}"
            );
        }
    }
    drop(control);
    laboratory.close();
}

/// A statement of the user's own, over a table that it made.
fn own_statement(sql: &str, setup: &str) -> Knobs {
    Knobs {
        statement: Some(Statement {
            sql: sql.to_owned(),
            setup: Some(setup.to_owned()),
            parameters: vec!["int:1:50".parse().unwrap(), "bigint:0:0".parse().unwrap()],
        }),
        companies: vec![Company {
            idle: 3,
            idle_in_transaction: 2,
            committing: 1,
        }],
        ..Knobs::default()
    }
}

#[test]
fn own_statements_run_beside_others_that_are_seen_and_committing() {
    let laboratory = Laboratory::open("primitives-own");
    let version = installed().version.num();
    let table = "CREATE TABLE mine AS SELECT g AS id, 0 AS n FROM generate_series(1, 50) g";
    let knobs = own_statement("UPDATE mine SET n = n + 1 WHERE id = $1 AND $2 = 0;", table);
    let calls: Vec<Call> = ["query-loop", "plpgsql-loop"]
        .iter()
        .flat_map(|name| inserver::calls(name, version, &knobs))
        .collect();
    assert_eq!(calls.len(), 2);
    let mut control = laboratory.create_with(&calls, &knobs).unwrap();
    let stage = laboratory.stage(&calls, &[1]);
    let mut kept = Kept::default();
    let sessions = run(&laboratory, &stage, &calls, &mut kept).unwrap();

    let done: u64 = kept.raw().map(|(_, raw)| raw.sessions[0].operations).sum();
    let updated = control.value("SELECT sum(n) FROM pgassay_inside.mine");
    let updated: u64 = updated.unwrap().unwrap().parse().unwrap();
    // Each call of the loop by SPI executes once more, to plan.
    assert_eq!(updated, done + u64::from(stage.plan.trials));
    for (_, raw) in kept.raw() {
        assert!(raw.commits.unwrap() > 0, "{raw:?}");
        let session = &raw.sessions[0];
        let over_time: u64 = session.over_time.iter().sum();
        assert_eq!(over_time, session.operations);
    }
    let looks: u64 = kept
        .raw()
        .flat_map(|(_, raw)| &raw.waits)
        .map(|w| w.seen)
        .sum();
    assert!(looks > 0);
    let idle = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' \
                AND backend_xid IS NOT NULL";
    assert_eq!(control.value(idle).unwrap().as_deref(), Some("2"));
    drop((sessions, control));

    for (sql, setup, flag) in [
        ("SELEC 1", "SELECT 1", "--sql: "),
        ("VACUUM", "SELECT 1", "--sql: "),
        ("SELECT $3::int", "SELECT 1", "--sql: "),
        ("SELECT 1", "CREATE TABEL x ()", "--sql-setup: "),
    ] {
        let mut control = laboratory.connector().connect().unwrap();
        control
            .execute("DROP SCHEMA pgassay_inside CASCADE")
            .unwrap();
        let wrong = own_statement(sql, setup);
        let error = laboratory.create_with(&calls, &wrong).unwrap_err();
        assert!(error.to_string().starts_with(flag), "{error:#}");
    }
    laboratory.close();
}

#[test]
fn compiled_once_and_refused_without_headers() {
    let place = PathBuf::from(format!(
        "/var/tmp/pgassay-test-cache-{}",
        std::process::id()
    ));
    fs::remove_dir_all(&place).ok();
    fs::create_dir(&place).unwrap();
    let installation = installed();
    let first = Extension::compiled_for(&installation, Some(&place)).unwrap();
    let made = fs::metadata(&first.library).unwrap().modified().unwrap();
    let second = Extension::compiled_for(&installation, Some(&place)).unwrap();
    assert_eq!(first, second);
    assert_eq!(
        fs::metadata(&second.library).unwrap().modified().unwrap(),
        made
    );

    // A server of a major version that no pg_config here is of.
    let bin = place.join("bin");
    fs::create_dir(&bin).unwrap();
    let script = "#!/bin/sh\necho 'postgres (PostgreSQL) 14.99'\n";
    fs::write(bin.join("postgres"), script).unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(bin.join("postgres"), fs::Permissions::from_mode(0o755)).unwrap();
    let strange = Installation::at(&bin).unwrap();
    let error = Extension::compiled_for(&strange, Some(&place)).unwrap_err();
    assert_eq!(error.kind(), FailureKind::Target);
    let text = error.to_string();
    assert!(
        text.contains("postgresql-server-dev-14") && text.contains("select-only"),
        "{text}"
    );
    fs::remove_dir_all(&place).unwrap();
}
