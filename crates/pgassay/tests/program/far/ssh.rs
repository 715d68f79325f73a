//! Over a real sshd, and over a network that is cut.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{carrier_of, lines, measuring, nothing_is_left};
use crate::runs::{Runs, Signal, gone, signal, text};

/// An sshd of this test's own.
pub struct Sshd {
    dir: PathBuf,
    child: Child,
    pub ssh: String,
}

impl Sshd {
    /// Starts one that listens at an address, if need be in a network namespace.
    pub fn start(runs: &Runs, address: Ipv4Addr, namespace: Option<&str>) -> Self {
        let mut log = String::new();
        // A port that was free may be somebody else's when it is wanted.
        for _ in 0..10 {
            match Self::try_start(runs, address, namespace) {
                Ok(sshd) => return sshd,
                Err(said) => log = said,
            }
        }
        panic!("{log}");
    }

    /// The same once; where it ended, with what it said.
    fn try_start(runs: &Runs, address: Ipv4Addr, namespace: Option<&str>) -> Result<Self, String> {
        let dir = runs.0.with_extension("sshd");
        fs::create_dir(&dir).unwrap();
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(dir.join(key))
                .status();
            assert!(made.unwrap().success());
        }
        let port = match namespace {
            Some(_) => 2222,
            None => {
                let free = TcpListener::bind((address, 0)).unwrap();
                free.local_addr().unwrap().port()
            }
        };
        let shown = dir.display();
        let cache = runs.0.with_extension("cache");
        let config = format!(
            "Port {port}\nListenAddress {address}\nHostKey {shown}/host\nAuthorizedKeysFile {shown}/user.pub\n\
             PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n\
             SetEnv XDG_CACHE_HOME={}\n",
            cache.display()
        );
        fs::write(dir.join("sshd_config"), config).unwrap();
        let client = format!(
            "Host there\n HostName {address}\n Port {port}\n IdentityFile {shown}/user\n \
             UserKnownHostsFile {shown}/known\n StrictHostKeyChecking accept-new\n BatchMode yes\n"
        );
        fs::write(dir.join("ssh_config"), client).unwrap();
        if rustix::process::geteuid().is_root() {
            // Where it gives up its rights; a package of a distribution makes it when the service starts.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let mut command = match namespace {
            Some(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name, "/usr/sbin/sshd"]);
                command
            }
            None => Command::new("/usr/sbin/sshd"),
        };
        let child = command
            .args(["-D", "-e", "-f"])
            .arg(dir.join("sshd_config"))
            .stderr(fs::File::create(dir.join("log")).unwrap())
            .spawn()
            .expect("sshd is installed: scripts/bootstrap.sh test");
        let mut sshd = Self {
            ssh: format!("ssh -F {shown}/ssh_config"),
            dir: dir.clone(),
            child,
        };
        let until = Instant::now() + Duration::from_secs(20);
        let log = || fs::read_to_string(dir.join("log")).unwrap();
        // Whoever answers at the port may be somebody else.
        while !log().contains("Server listening on") || TcpStream::connect((address, port)).is_err()
        {
            if sshd.child.try_wait().unwrap().is_some() {
                return Err(log());
            }
            assert!(Instant::now() < until, "{}", log());
            sleep(Duration::from_millis(20));
        }
        Ok(sshd)
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn a_comparison_over_ssh_and_a_connection_that_is_cut() {
    let runs = Runs::new("far-ssh");
    let sshd = Sshd::start(&runs, Ipv4Addr::LOCALHOST, None);
    let mut command = runs.command(&[
        "compare",
        "ssh://there/temp",
        "ssh://there/temp",
        "--set-b",
        "work_mem=8MB",
        "--clients",
        "1",
        "--launches",
        "1",
        "--pairs",
        "3",
        "--noise-pairs",
        "3",
        "--slice",
        "0.1",
        "--scale",
        "1",
        "--json",
    ]);
    let output = command.env("PGASSAY_SSH", &sshd.ssh).output().unwrap();
    let code = output.status.code().unwrap();
    let said = text(&output.stderr);
    assert!([0, 1, 5].contains(&code), "{code}: {said}");
    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
    let shown = comparison["analysis"]["arms"][1]["target"]
        .as_str()
        .unwrap();
    assert!(shown.contains("on ssh://there"), "{shown}");
    fs::remove_dir_all(runs.only()).unwrap();

    let (mut measuring, run) = measuring(&runs, "ssh://there/temp", &[], Some(&sshd.ssh));
    let trials = lines(&run.join("trials.jsonl"));
    // ssh itself is killed; the far side learns of it from its sshd.
    signal(carrier_of(measuring.near.id()), Signal::KILL);
    assert!(gone(measuring.near.id()));
    assert_eq!(measuring.near.wait().unwrap().code(), Some(4));
    nothing_is_left(&runs, measuring.agent);
    assert!(lines(&run.join("trials.jsonl")) >= trials);
}

/// A network namespace of this test, reached over a pair of interfaces.
struct Namespace(String);

impl Namespace {
    fn new() -> Self {
        let id = std::process::id() % 10_000;
        let name = format!("pgafar{id}");
        let space = Self(name.clone());
        let (a, b) = (format!("pfa{id}"), format!("pfb{id}"));
        for line in [
            format!("netns add {name}"),
            format!("link add {a} type veth peer name {b}"),
            format!("link set {b} netns {name}"),
            format!("addr add 198.18.77.1/30 dev {a}"),
            format!("link set {a} up"),
            format!("-n {name} addr add 198.18.77.2/30 dev {b}"),
            format!("-n {name} link set {b} up"),
            format!("-n {name} link set lo up"),
        ] {
            let done = Command::new("ip").args(line.split(' ')).status();
            assert!(done.unwrap().success(), "ip {line}");
        }
        space
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// A network that is cut closes no connection: both sides notice by themselves.
#[test]
fn a_network_that_is_cut_ends_both_sides() {
    let may = Command::new("unshare").args(["-n", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        // Only root may make networks, and not in every container.
        return;
    }
    let space = Namespace::new();
    let runs = Runs::far("far-network");
    let sshd = Sshd::start(&runs, Ipv4Addr::new(198, 18, 77, 2), Some(&space.0));
    let (mut measuring, run) = measuring(&runs, "ssh://there/temp", &[], Some(&sshd.ssh));
    let trials = lines(&run.join("trials.jsonl"));
    let interface = space.0.replace("pgafar", "pfa");
    let cut = Command::new("ip")
        .args(["link", "set", &interface, "down"])
        .status();
    assert!(cut.unwrap().success());
    nothing_is_left(&runs, measuring.agent);
    assert!(gone(measuring.near.id()));
    let mut said = String::new();
    use std::io::Read;
    measuring
        .near
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(said.contains("no sign of life for 5 seconds"), "{said}");
    assert!(lines(&run.join("trials.jsonl")) >= trials);
}
