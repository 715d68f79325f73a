//! Child processes that can't outlive this one.
//!
//! A temporary server must not stay behind when pgassay is killed with
//! SIGKILL, which no destructor sees. Linux's parent-death signal does that,
//! with three traps (prctl(2), PR_SET_PDEATHSIG): it is cleared when the child
//! changes its user, so it is set after that; it is sent when the *thread* that
//! forked ends, not the process, so all such children are spawned from one
//! thread that lives as long as the process; and the parent can die before it
//! is set, so the child looks whether its parent is still the one that it knew.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use rustix::process::{
    Gid, Pid, Signal, Uid, getegid, geteuid, getppid, set_parent_process_death_signal,
};

/// One request to the spawning thread.
struct Request {
    command: Command,
    asker: (Uid, Gid),
    reply: Sender<io::Result<Child>>,
}

/// The spawning thread's door; the thread ends with the process only.
static SPAWNER: OnceLock<Sender<Request>> = OnceLock::new();

/// Spawns `command` in its own process group (a terminal's Ctrl-C does not
/// reach it), to be sent `signal` when this process ends however it ends.
///
/// `command` may carry a user to change to: the signal is set after that. If it
/// carries none, the child has the asking thread's user and group, which on
/// Linux need not be those of the spawning thread.
///
/// # Errors
/// What the spawn gave, or `Other` where the spawning thread can't be had.
pub fn spawn(mut command: Command, signal: Signal) -> io::Result<Child> {
    command.process_group(0);
    hand_over(command, signal)
}

/// The same in our own process group, so that the command may ask at the terminal, as ssh does for a
/// passphrase; but Ctrl-C there is ours alone.
///
/// # Errors
/// Like [`spawn`].
pub fn spawn_at_terminal(mut command: Command, signal: Signal) -> io::Result<Child> {
    // SAFETY: signal(2) is async-signal-safe, and the child has one thread.
    unsafe {
        command.pre_exec(|| match libc::signal(libc::SIGINT, libc::SIG_IGN) {
            libc::SIG_ERR => Err(io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    hand_over(command, signal)
}

/// Has the spawning thread start it.
fn hand_over(mut command: Command, signal: Signal) -> io::Result<Child> {
    let parent = rustix::process::getpid();
    let arm = move || arm(signal, parent);
    // SAFETY: the closure runs in the child between fork and exec, where only
    // async-signal-safe things may be done: it makes two raw system calls
    // (prctl, getppid) and allocates nothing. The standard library runs it
    // after it has changed user and group.
    unsafe {
        command.pre_exec(arm);
    }
    let (reply, answer) = channel();
    spawner()?
        .send(Request {
            command,
            asker: (geteuid(), getegid()),
            reply,
        })
        .map_err(|_| io::Error::other("the spawning thread is gone"))?;
    answer
        .recv()
        .map_err(|_| io::Error::other("the spawning thread is gone"))?
}

/// In the child: asks for the signal, and looks for a parent already dead.
fn arm(signal: Signal, parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(signal))?;
    if getppid() == Some(parent) {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(
            rustix::io::Errno::SRCH.raw_os_error(),
        ))
    }
}

/// Starts the spawning thread, if it does not run yet, with the caller's rights.
///
/// To be called before a thread gives up its user: what it would start itself
/// could not spawn as root any more.
///
/// # Errors
/// If no thread can be started.
pub fn ready() -> io::Result<()> {
    spawner().map(|_| ())
}

/// The door of the spawning thread, which is started on first use.
fn spawner() -> io::Result<Sender<Request>> {
    if let Some(door) = SPAWNER.get() {
        return Ok(door.clone());
    }
    let (door, requests) = channel::<Request>();
    std::thread::Builder::new()
        .name("spawner".into())
        .spawn(move || {
            // A door stays in SPAWNER for ever, so this loop never ends; the
            // thread that lost a race to be first ends at once, childless.
            while let Ok(mut request) = requests.recv() {
                let (uid, gid) = request.asker;
                if geteuid() != uid {
                    // This drops the further groups, too.
                    request.command.uid(uid.as_raw()).gid(gid.as_raw());
                }
                let child = request.command.spawn();
                // An asker that is gone has dropped the child; nothing to do.
                let _ = request.reply.send(child);
            }
        })?;
    Ok(SPAWNER.get_or_init(|| door).clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn the_child_has_its_own_group_and_outlives_the_asking_thread() {
        let mut child = std::thread::spawn(|| {
            let mut command = Command::new("sleep");
            command.arg("60").stdin(Stdio::null());
            spawn(command, Signal::KILL).unwrap()
        })
        .join()
        .unwrap();
        // The asking thread is gone; a signal tied to it would have come by now.
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(child.try_wait().unwrap().is_none());
        let pid = Pid::from_child(&child);
        assert_eq!(rustix::process::getpgid(Some(pid)).unwrap(), pid);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_can_not_be_executed_is_an_error_here() {
        let error = spawn(Command::new("/no/such/program"), Signal::KILL).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    /// The helper below, when the variable asks for it.
    #[test]
    fn helper_that_spawns_and_is_killed() {
        if std::env::var_os("PGASSAY_SYS_HELPER").is_none() {
            return;
        }
        let mut command = Command::new("sleep");
        command.arg("60").stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = spawn(command, Signal::KILL).unwrap();
        std::fs::write(
            std::env::var_os("PGASSAY_SYS_HELPER").unwrap(),
            format!("{}\n", child.id()),
        )
        .unwrap();
        // Killed while it waits.
        child.wait().unwrap();
    }

    #[test]
    fn a_parent_killed_by_sigkill_takes_the_child_with_it() {
        let note = std::env::temp_dir().join(format!("pgassay-sys-{}", std::process::id()));
        let mut parent = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "bound::tests::helper_that_spawns_and_is_killed"])
            .env("PGASSAY_SYS_HELPER", &note)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let child: i32 = loop {
            let text = std::fs::read_to_string(&note).unwrap_or_default();
            if let Some(line) = text.strip_suffix('\n') {
                break line.parse().unwrap();
            }
            assert!(std::time::Instant::now() < until, "no child appeared");
            std::thread::sleep(std::time::Duration::from_millis(10));
        };
        let alive = || {
            std::fs::read_to_string(format!("/proc/{child}/stat"))
                .is_ok_and(|stat| !stat.contains(") Z ") && stat.contains("(sleep)"))
        };
        assert!(alive());
        parent.kill().unwrap();
        parent.wait().unwrap();
        while alive() {
            assert!(std::time::Instant::now() < until, "the child lives on");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        std::fs::remove_file(note).unwrap();
    }
}
