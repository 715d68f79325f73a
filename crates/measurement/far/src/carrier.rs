//! The command that carries standard input and output to a far side.

use std::io::{self, Read};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::place::{Place, quoted};

/// How much of what a carrier says is kept, its end.
const SAID: usize = 4 << 10;

/// Runs commands of a shell at a place.
#[derive(Debug, Clone)]
pub struct Carrier {
    words: Vec<String>,
    /// The far side's login shell takes the command line apart.
    by_shell: bool,
}

/// A carrier that runs. Dropped, it is ended.
#[derive(Debug)]
pub struct Running {
    child: Child,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Carrier {
    /// The carrier to a place; `ssh` is the command that stands for `ssh`, such as `ssh -F FILE`.
    pub fn to(place: &Place, ssh: &[String]) -> Self {
        match place {
            Place::Ssh { destination, port } => {
                let mut words = ssh.to_vec();
                words.push("-T".to_owned());
                words.extend(port.iter().flat_map(|p| ["-p".to_owned(), p.to_string()]));
                words.extend(["--".to_owned(), destination.clone()]);
                Self {
                    words,
                    by_shell: true,
                }
            }
            Place::Exec { words } => Self {
                words: words.clone(),
                by_shell: false,
            },
        }
    }

    /// Starts a script of `sh` there; on one line, so that every login shell takes it.
    ///
    /// # Errors
    /// Where the command can't be started here.
    pub fn start(&self, script: &str) -> io::Result<(Running, ChildStdin, ChildStdout)> {
        let (program, arguments) = self
            .words
            .split_first()
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        match self.by_shell {
            true => command.arg(format!("exec sh -c {}", quoted(script))),
            false => command.args(["sh", "-c", script]),
        };
        let mut child = pgassay_sys::bound::spawn_at_terminal(command, Signal::TERM)?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = streams else {
            return Err(io::Error::other("the carrier has no streams"));
        };
        let said = Arc::default();
        let running = Running {
            child,
            said: Arc::clone(&said),
        };
        thread::Builder::new()
            .name("far-errors".to_owned())
            .stack_size(128 << 10)
            .spawn(move || listen(errors, &said))?;
        Ok((running, input, output))
    }
}

impl Running {
    /// The end of what it said on its error side, such as why ssh could not connect.
    pub fn said(&self) -> String {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&said).trim().to_owned()
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has ended by itself; none if it has not.
    ///
    /// # Errors
    /// Where the system can't say.
    pub fn wait(&mut self, at_most: Duration) -> io::Result<Option<ExitStatus>> {
        let until = Instant::now() + at_most;
        loop {
            match self.child.try_wait()? {
                None if Instant::now() < until => thread::sleep(Duration::from_millis(10)),
                ended => return Ok(ended),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Keeps the end of what comes.
fn listen(mut errors: impl Read, said: &Mutex<Vec<u8>>) {
    let mut block = [0; 1024];
    loop {
        match errors.read(&mut block) {
            Ok(0) => return,
            Ok(n) => {
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                said.extend_from_slice(&block[..n]);
                let more = said.len().saturating_sub(SAID);
                said.drain(..more);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_script_runs_there_and_what_goes_wrong_is_said() {
        let place = Place::parse("exec:env WHERE='over there'").unwrap();
        let carrier = Carrier::to(&place, &[]);
        let (mut running, mut input, mut output) = carrier
            .start("read x; echo \"$x $WHERE\"; echo 'it'\\''s bad' >&2; exit 3")
            .unwrap();
        input.write_all(b"hello\n").unwrap();
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello over there\n");
        let ended = running.wait(Duration::from_secs(20)).unwrap().unwrap();
        assert_eq!(ended.code(), Some(3));
        let until = Instant::now() + Duration::from_secs(20);
        while running.said() != "it's bad" {
            assert!(Instant::now() < until, "{}", running.said());
        }
    }

    #[test]
    fn ssh_is_given_the_host_behind_its_options_and_one_command_line() {
        // Stands for ssh, and for the login shell there.
        let ssh = ["sh", "-c", "echo \"$1 $2 $3 $4 $5\"; eval \"$6\"", "ssh"];
        let ssh = ssh.map(str::to_owned);
        let place = Place::parse("ssh://me@db1:2222").unwrap();
        let carrier = Carrier::to(&place, &ssh);
        let (_running, _input, mut output) = carrier.start("echo it\"'\"s").unwrap();
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "-T -p 2222 -- me@db1\nit's\n");
    }
}
