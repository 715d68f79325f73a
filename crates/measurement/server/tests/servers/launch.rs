//! Launching real clusters of the installed PostgreSQL, and what is left when
//! they or we end badly: nothing.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgassay_model::FailureKind;
use pgassay_model::confinement::ConfinementPlan;
use pgassay_server::confinement::Confinement;
use pgassay_server::settings::Settings;
use pgassay_server::{Cluster, Installation, Installations, LaunchOptions, Listen, TargetError};
use rustix::process::{Pid, Signal, kill_process};

fn installed() -> Installation {
    Installations::search()
        .newest()
        .expect("the tests need an installed PostgreSQL")
        .clone()
}

/// An own place for one test, so that its sweeps do not meet other tests'.
fn place(name: &str) -> PathBuf {
    let path = PathBuf::from(format!(
        "/var/tmp/pgassay-test-{name}-{}",
        std::process::id()
    ));
    fs::remove_dir_all(&path).ok();
    fs::create_dir(&path).unwrap();
    path
}

fn options(place: &Path, set: &[&str]) -> LaunchOptions {
    LaunchOptions {
        settings: Settings::parse("--set", set).unwrap(),
        scratch: Some(place.to_path_buf()),
        ..LaunchOptions::default()
    }
}

/// What a query prints, by the installation's own psql.
fn ask(cluster: &Cluster, sql: &str) -> String {
    let output = Command::new(cluster.installation().tool("psql"))
        .args(["-XAtq", "-d", &cluster.conninfo(), "-c", sql])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn clusters(place: &Path) -> usize {
    let uid = rustix::process::geteuid().as_raw();
    fs::read_dir(place.join(format!("pgassay-{uid}/clusters")))
        .unwrap()
        .count()
}

/// Whether a process runs: it is there and no zombie.
fn runs(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < until, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn every_process_has_the_environment_and_the_cpus_that_were_asked_for() {
    let place = place("confined");
    let cpu = *pgassay_sys::affinity::allowed_cpus()
        .unwrap()
        .last()
        .unwrap();
    let variable = "GLIBC_TUNABLES=glibc.malloc.arena_max=1".to_owned();
    let mut options = options(&place, &[]);
    options.confinement = Confinement::of(&ConfinementPlan {
        launch_environment: vec![variable.clone()],
        cpus: vec![cpu],
        ..ConfinementPlan::default()
    })
    .unwrap();
    let cluster = Cluster::launch(&installed(), &options).unwrap();
    let postmaster = cluster.pid();
    let children = fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children"));
    let mut processes = vec![postmaster];
    processes.extend(
        children
            .unwrap()
            .split_whitespace()
            .map(|pid| pid.parse::<u32>().unwrap()),
    );
    let mut read = 0;
    for pid in processes {
        // A worker may have ended since.
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
            continue;
        };
        read += 1;
        let on = status
            .lines()
            .find(|line| line.starts_with("Cpus_allowed_list:"));
        let on = on.unwrap().split_whitespace().last().unwrap();
        assert_eq!(on, cpu.to_string(), "{pid}");
    }
    assert!(read > 3, "{read}");
    let environment = fs::read(format!("/proc/{postmaster}/environ")).unwrap();
    let mut variables = environment.split(|byte| *byte == 0);
    assert!(variables.any(|held| held == variable.as_bytes()));
    drop(cluster);
    fs::remove_dir_all(&place).unwrap();
}

#[test]
fn a_server_is_started_through_a_command_that_executes_it() {
    let place = place("wrapped");
    let through = |command: &str| {
        let mut options = options(&place, &[]);
        options.confinement = Confinement::of(&ConfinementPlan {
            wrap: command.to_owned(),
            ..ConfinementPlan::default()
        })
        .unwrap();
        Cluster::launch(&installed(), &options)
    };
    // Without randomised addresses: the personality stays with the server.
    let cluster = through("setarch -R").unwrap();
    let personality = fs::read_to_string(format!("/proc/{}/personality", cluster.pid())).unwrap();
    assert_eq!(personality.trim(), "00040000");
    drop(cluster);

    // One that stays in front is refused, and its server does not stay.
    let refused = through("sh -c '\"$0\" \"$@\"; exit 0'")
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("does not execute the server in its own place"),
        "{refused}"
    );
    let no_server = || {
        let uid = place.to_str().unwrap();
        fs::read_dir("/proc").unwrap().flatten().all(|entry| {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            !String::from_utf8_lossy(&line).contains(uid)
        })
    };
    wait_for("the server behind the wrapper", no_server);
    fs::remove_dir_all(&place).unwrap();
}

#[test]
fn serves_privately_and_leaves_nothing() {
    let place = place("serves");
    let mut options = options(&place, &["work_mem=12345kB"]);
    options.shared_buffers_bytes = Some(64 << 20);
    options.max_connections = Some(33);
    let mut cluster = Cluster::launch(&installed(), &options).unwrap();
    let (pid, socket_dir) = (cluster.pid(), cluster.socket_dir().to_path_buf());

    assert_eq!(
        ask(
            &cluster,
            "select setting from pg_settings where name = 'work_mem'"
        ),
        "12345"
    );
    assert_eq!(ask(&cluster, "show shared_buffers"), "64MB");
    assert_eq!(ask(&cluster, "show max_connections"), "33");
    assert_eq!(ask(&cluster, "show listen_addresses"), "");
    assert_eq!(ask(&cluster, "show lc_messages"), "C");
    assert_eq!(ask(&cluster, "show server_encoding"), "UTF8");
    assert_eq!(
        ask(&cluster, "show data_directory"),
        cluster.data_dir().display().to_string()
    );
    let version = cluster.installation().version.num().to_string();
    assert_eq!(ask(&cluster, "show server_version_num"), version);

    // Its own process group, not root, its socket's directory private.
    let pid_typed = Pid::from_raw(pid as i32);
    assert_eq!(
        rustix::process::getpgid(pid_typed).unwrap(),
        pid_typed.unwrap()
    );
    let process = fs::metadata(format!("/proc/{pid}")).unwrap();
    assert_ne!(process.uid(), 0);
    let socket = fs::metadata(&socket_dir).unwrap();
    assert_eq!(
        (socket.uid(), socket.mode() & 0o777),
        (process.uid(), 0o700)
    );
    assert!(cluster.log_tail(50).contains("ready to accept connections"));
    assert!(cluster.ended().is_none());

    cluster.stop().unwrap();
    assert!(!runs(pid) && !socket_dir.exists());
    assert_eq!(clusters(&place), 0);
    fs::remove_dir_all(&place).unwrap();
}

/// The first launch of a build runs initdb, later ones copy what it made: the same cluster, on which nothing has run.
#[test]
fn a_builds_data_directory_is_made_once_and_copied() {
    let place = place("prepared");
    let installed = installed();
    let launch = || Cluster::launch(&installed, &options(&place, &[])).unwrap();
    let identifier = "SELECT system_identifier FROM pg_control_system()";
    let first = launch();
    assert!(!first.prepared());
    let one = ask(&first, identifier);
    ask(&first, "CREATE TABLE of_the_first (i int)");
    let second = launch();
    assert!(second.prepared());
    assert_eq!(ask(&second, identifier), one);
    assert_eq!(ask(&second, "SELECT to_regclass('of_the_first')"), "");
    second.stop().unwrap();
    first.stop().unwrap();

    let all = place.join(format!(
        "pgassay-{}/prepared",
        rustix::process::geteuid().as_raw()
    ));
    let prepared = || -> Vec<PathBuf> {
        fs::read_dir(&all)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect()
    };
    let [kept] = &prepared()[..] else {
        panic!("one is kept: {:?}", prepared());
    };
    // A damaged one is made anew, and one that others may write is not touched.
    fs::remove_file(kept.join("PG_VERSION")).unwrap();
    fs::remove_dir_all(kept.join("global")).unwrap();
    fs::set_permissions(kept, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(!launch().prepared());
    fs::remove_dir_all(kept).unwrap();
    assert!(!launch().prepared());
    assert!(launch().prepared());
    assert_eq!(prepared().len(), 1);
    fs::remove_dir_all(&place).unwrap();
}

#[test]
fn a_bad_setting_is_told_in_the_servers_words() {
    let place = place("bad");
    for (set, words) in [
        (
            "no_such_setting=1",
            "unrecognized configuration parameter \"no_such_setting\"",
        ),
        ("work_mem=much", "invalid value for parameter \"work_mem\""),
        (
            "shared_preload_libraries=no_such_library",
            "no_such_library",
        ),
        ("shared_buffers=900TB", "\"shared_buffers\""),
    ] {
        let error = Cluster::launch(&installed(), &options(&place, &[set])).unwrap_err();
        assert_eq!(error.kind(), FailureKind::Target);
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(clusters(&place), 0);
    }
    fs::remove_dir_all(&place).unwrap();
}

#[test]
fn an_interrupt_and_a_panic_clean_up() {
    let place = place("interrupt");
    let mut interrupted = options(&place, &[]);
    interrupted.stop = Some(Arc::new(AtomicBool::new(true)));
    let error = Cluster::launch(&installed(), &interrupted).unwrap_err();
    assert!(matches!(error, TargetError::Interrupted), "{error}");
    assert_eq!(clusters(&place), 0);

    let options = options(&place, &[]);
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let cluster = Cluster::launch(&installed(), &options).unwrap();
        send.send((cluster.pid(), cluster.socket_dir().to_path_buf()))
            .unwrap();
        panic!("on purpose, with a cluster up");
    })
    .join()
    .unwrap_err();
    let (pid, socket_dir) = receive.recv().unwrap();
    assert!(!runs(pid) && !socket_dir.exists());
    assert_eq!(clusters(&place), 0);
    fs::remove_dir_all(&place).unwrap();
}

/// An installation below `place` whose initdb is a script, with the data directory as `$2`.
fn with_initdb(place: &Path, script: &str) -> Installation {
    let (bin, initdb) = (place.join("bin"), place.join("bin/initdb"));
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(installed().tool("postgres"), bin.join("postgres")).unwrap();
    fs::write(&initdb, format!("#!/bin/sh\n{script}")).unwrap();
    for path in [place, &bin, &initdb] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    Installation::at(&bin).unwrap()
}

/// Attack D11: a signal while initdb runs. What initdb had started went on to write, so that the
/// removal of the data directory failed, and the cluster's directory stayed.
#[test]
fn an_interrupt_ends_what_initdb_has_started() {
    let place = place("initdb");
    let sleeps = with_initdb(&place, "sleep 600 &\necho $! > \"$2/child\"\nwait\n");
    let stop = Arc::new(AtomicBool::new(false));
    let mut interrupted = options(&place, &[]);
    interrupted.stop = Some(Arc::clone(&stop));
    let launching = std::thread::spawn(move || Cluster::launch(&sleeps, &interrupted).unwrap_err());
    let uid = rustix::process::geteuid().as_raw();
    let mut child = 0;
    wait_for("what initdb starts", || {
        let clusters = fs::read_dir(place.join(format!("pgassay-{uid}/clusters")));
        let noted = clusters.into_iter().flatten().flatten().find_map(|entry| {
            let noted = fs::read_to_string(entry.path().join("data/child")).ok()?;
            noted.strip_suffix('\n')?.parse().ok()
        });
        child = noted.unwrap_or(0);
        child != 0
    });
    assert!(runs(child));
    stop.store(true, Ordering::Relaxed);
    let error = launching.join().unwrap();
    assert!(matches!(error, TargetError::Interrupted), "{error}");
    wait_for("the end of what initdb had started", || !runs(child));
    assert_eq!(clusters(&place), 0);
    fs::remove_dir_all(&place).unwrap();
}

/// Attack D11: where files are few, initdb's server complains without end. Nobody read that before
/// it ended, so that it waited for ever, and pgassay for it.
#[test]
fn an_initdb_that_says_much_is_heard() {
    let place = place("says");
    let says = with_initdb(
        &place,
        "yes too many open files | head -c 1000000 >&2\necho last words >&2\nexit 1\n",
    );
    let options = options(&place, &[]);
    let launching = std::thread::spawn(move || Cluster::launch(&says, &options).unwrap_err());
    wait_for("initdb's end", || launching.is_finished());
    let error = launching.join().unwrap().to_string();
    assert!(error.contains("initdb failed"), "{error}");
    assert!(
        error.ends_with("too many open files\n  last words"),
        "{error}"
    );
    assert_eq!(clusters(&place), 0);
    fs::remove_dir_all(&place).unwrap();
}

#[test]
fn a_server_that_dies_is_noticed() {
    let place = place("dies");
    let mut cluster = Cluster::launch(&installed(), &options(&place, &[])).unwrap();
    kill_process(Pid::from_raw(cluster.pid() as i32).unwrap(), Signal::KILL).unwrap();
    wait_for("the server's end", || cluster.ended().is_some());
    cluster.stop().unwrap();
    assert_eq!(clusters(&place), 0);
    fs::remove_dir_all(&place).unwrap();
}

/// Not a test of its own: run by the next one in a process that it kills.
#[test]
fn helper_that_launches_and_is_killed() {
    let Some(place) = std::env::var_os("PGASSAY_TEST_PLACE").map(PathBuf::from) else {
        return;
    };
    let cluster = Cluster::launch(&installed(), &options(&place, &[])).unwrap();
    let note = format!("{} {}\n", cluster.pid(), cluster.socket_dir().display());
    fs::write(place.join("note"), note).unwrap();
    loop {
        std::thread::park();
    }
}

/// Launches in another process; that process, the server's pid, the socket.
fn launch_elsewhere(place: &Path) -> (std::process::Child, u32, PathBuf) {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "launch::helper_that_launches_and_is_killed"])
        .env("PGASSAY_TEST_PLACE", place)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut note = String::new();
    wait_for("the helper's cluster", || {
        assert!(owner.try_wait().unwrap().is_none(), "the helper ended");
        note = fs::read_to_string(place.join("note")).unwrap_or_default();
        note.ends_with('\n')
    });
    fs::remove_file(place.join("note")).unwrap();
    let (pid, socket) = note.trim().split_once(' ').unwrap();
    (owner, pid.parse().unwrap(), PathBuf::from(socket))
}

#[test]
fn a_killed_owner_leaves_nothing_that_runs_and_the_next_launch_sweeps() {
    let place = place("killed");
    let (mut first, first_server, first_socket) = launch_elsewhere(&place);
    first.kill().unwrap();
    first.wait().unwrap();
    wait_for("the server's end after its owner's", || !runs(first_server));
    assert_eq!(clusters(&place), 1);

    let cluster = Cluster::launch(&installed(), &options(&place, &[])).unwrap();
    let [left] = cluster.leftovers() else {
        panic!("one was left: {:?}", cluster.leftovers());
    };
    assert_eq!((left.ended, &left.failed), (None, &None));
    assert!(!first_socket.exists());
    assert_eq!(clusters(&place), 1);
    assert_eq!(ask(&cluster, "select 1"), "1");

    // A living owner's cluster is not touched by another launch.
    let other = Cluster::launch(&installed(), &options(&place, &[])).unwrap();
    assert!(other.leftovers().is_empty());
    assert_eq!(ask(&cluster, "select 1"), "1");

    // One whose owner is gone while its server runs on: without the lock file
    // this one looks so. The server is ended, for it is surely that one.
    fs::remove_file(other.data_dir().with_file_name("lock")).unwrap();
    let (pid, socket_dir) = (other.pid(), other.socket_dir().to_path_buf());
    let third = Cluster::launch(&installed(), &options(&place, &[])).unwrap();
    assert_eq!(third.leftovers().len(), 1);
    assert_eq!(third.leftovers()[0].ended, Some(pid));
    assert!(!runs(pid) && !socket_dir.exists());
    assert_eq!(ask(&cluster, "select 1"), "1");

    drop((cluster, other, third));
    assert_eq!(clusters(&place), 0);
    fs::remove_dir_all(&place).unwrap();
}

/// It knows no SCRAM, and says little of use about a pg_hba.conf that asks for it.
#[test]
fn a_server_that_can_t_be_opened_to_other_machines_is_refused_before_it_is_made() {
    let place = place("old");
    let bin = place.join("old/bin");
    fs::create_dir_all(&bin).unwrap();
    for tool in ["postgres", "initdb"] {
        let path = bin.join(tool);
        let text = "#!/bin/sh\necho ran >> \"$0.ran\"\necho 'postgres (PostgreSQL) 9.6.24'\n";
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let old = Installation::at(&bin).unwrap();
    let options = LaunchOptions {
        listen: Some(Listen {
            address: [127, 0, 0, 1].into(),
            port: None,
            from: vec![[127, 0, 0, 1].into()],
        }),
        ..options(&place, &[])
    };
    let refused = Cluster::launch(&old, &options).unwrap_err().to_string();
    assert!(refused.contains("9.6.24 knows no SCRAM"), "{refused}");
    assert!(!bin.join("initdb.ran").exists());
    fs::remove_dir_all(&place).unwrap();
}
