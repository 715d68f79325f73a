//! The far side: one command for one near side, which ends with it.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use pgassay_far::{Channel, Hello, Link, Lost, hello};
use pgassay_model::Failure;
use pgassay_sys::private::Directory;
use pgassay_sys::stop::Stop;
use rustix::process::{Pid, Signal, kill_process};

use super::say::{FILES, Order, SESSIONS, Start, WORDS, Word, output};
use super::tidy::{Estate, Warden};
use super::{files, load, within};
use crate::exit::Exit;
use crate::session::VARIABLE;
use crate::terminal::Terminal;

/// How long the near side may take to say who it is, and to receive the last of it.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often the command and the near side are looked at.
const LOOKS: Duration = Duration::from_millis(50);

/// Serves the near side that started this process.
///
/// # Errors
/// Where it is lost, or is none.
pub fn serve(terminal: &mut Terminal, stop: &Stop) -> anyhow::Result<Exit> {
    if io::stdin().is_terminal() {
        bail!(
            Failure::usage("another pgassay starts this command")
                .with_remedy("pgassay run select-only ssh://HOST/temp does; see docs/far.md")
        );
    }
    let link = Link::new(io::stdin(), own_output()?)?;
    let ours = Hello::of_this(env!("CARGO_PKG_VERSION"), &super::reach::own_hash());
    if let Err(refused) = hello::exchange(&link, &ours, PATIENCE) {
        // The near side hears of it by our hello.
        bail!(Failure::target(refused.to_string()));
    }
    let words = link.channel(WORDS);
    // Files may come right behind the order, and so may words for the load.
    let _files = link.channel(FILES);
    let _within = link.channel(within::WITHIN);
    loop {
        match words.recv(PATIENCE) {
            Ok(Some(Order::Start(start))) => {
                if let Err(error) = carry_out(&link, &words, &start) {
                    let _ = words.send(&Word::Refused(format!("{error:#}")));
                    let _ = words.recv::<Order>(PATIENCE);
                }
                return Ok(Exit::Done);
            }
            Ok(Some(Order::Load)) => {
                load::serve(&link, stop)?;
                return Ok(Exit::Done);
            }
            Ok(Some(_) | None) => {}
            Err(Lost::Ended) => return Ok(Exit::Done),
            Err(lost) => {
                terminal.detail(&lost.to_string());
                return Ok(Exit::Target);
            }
        }
    }
}

/// Standard output for frames alone: whatever else is printed goes to the error side.
fn own_output() -> anyhow::Result<File> {
    let own = rustix::io::dup(io::stdout()).context("no standard output")?;
    rustix::stdio::dup2_stdout(io::stderr()).context("no standard error")?;
    Ok(File::from(own))
}

fn carry_out(link: &Link, words: &Channel, start: &Start) -> anyhow::Result<()> {
    let mut warden = Warden::start()?;
    let (parent, begin) = SESSIONS;
    let work = Directory::make(Path::new(parent), begin)
        .with_context(|| format!("cannot make a directory in {parent}"))?;
    let scratch = start.scratch.as_ref().map(PathBuf::from);
    let mut estate = Estate::of(work.path().to_owned(), scratch);
    warden.tell(&estate)?;
    let done = measure(link, words, start, work.path(), &mut warden, &mut estate);
    estate.settle(true);
    drop(work);
    warden.dismiss();
    done
}

/// Runs the command until it has ended, or the near side has.
fn measure(
    link: &Link,
    words: &Channel,
    start: &Start,
    work: &Path,
    warden: &mut Warden,
    estate: &mut Estate,
) -> anyhow::Result<()> {
    let (here, runs) = (work.join("here"), work.join("runs"));
    fs::create_dir(&here)?;
    fs::create_dir(&runs)?;
    let channel = link.channel(FILES);
    given(&channel, start.given, &here)?;
    let input = match start.session.load {
        true => within::relayed(&link.channel(within::WITHIN))?.into(),
        false => Stdio::null(),
    };
    let mut child = command(start, input, &here, &runs)?;
    estate.add_child(child.id());
    warden.tell(estate)?;
    words.send(&Word::Started {
        runs: runs.display().to_string(),
    })?;
    let readers = [
        child.stdout.take().map(|out| relay(out, words, Word::Out)),
        child.stderr.take().map(|err| relay(err, words, Word::Said)),
    ];
    let ended = Arc::new(AtomicBool::new(false));
    let follower = {
        let (ended, mut to) = (Arc::clone(&ended), files::Sender::answered(channel));
        thread::spawn(move || files::follow(&mut to, &runs, &ended).map(|()| to))
    };
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        match words.recv(LOOKS) {
            Ok(Some(Order::Stop)) => {
                // A carrier here has Ctrl-C ignored, and so has what it starts.
                let pid = Pid::from_child(&child);
                let _ = kill_process(pid, Signal::TERM);
            }
            Ok(_) => {}
            Err(lost) => {
                // It ends while it is settled; then it can be told apart from its zombie.
                estate.settle(true);
                let _ = child.wait();
                return Err(lost.into());
            }
        }
    };
    for reader in readers.into_iter().flatten() {
        // A process that it left may hold the other end.
        let until = Instant::now() + Duration::from_secs(2);
        while !reader.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
    }
    ended.store(true, Ordering::SeqCst);
    follower.thread().unpark();
    if let Ok(followed) = follower.join() {
        let mut to = followed?;
        for number in 0..start.outputs {
            let name = output(number);
            // One that it did not write is missed there.
            let _ = files::send_file(&mut to, &name, &here.join(&name), None)?;
        }
        // What is said of the end may not be there before them.
        to.finish()?;
    }
    words.send(&Word::Ended {
        code: status.code().filter(|_| status.signal().is_none()),
    })?;
    // Until then the link has to stand.
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(Order::Received) = words.recv(LOOKS)? {
            break;
        }
    }
    Ok(())
}

/// Puts the files away that the command is to find.
fn given(channel: &Channel, count: usize, here: &Path) -> anyhow::Result<()> {
    let mut whole = 0;
    while whole < count {
        let body = channel.recv_bytes(PATIENCE)?;
        let body = body.context("a file that was announced did not come")?;
        let (piece, bytes) = files::received(&body).context("a file came that is none")?;
        files::put(here, &piece, bytes).with_context(|| format!("cannot write {}", piece.path))?;
        whole += usize::from(piece.last);
    }
    Ok(())
}

fn command(start: &Start, input: Stdio, here: &Path, runs: &Path) -> anyhow::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("pgassay")
        .args(&start.words)
        .current_dir(here)
        .env("PGASSAY_RUNS", runs)
        .env(VARIABLE, serde_json::to_string(&start.session)?)
        .env("COLUMNS", start.columns.to_string())
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    pgassay_sys::bound::spawn(command, Signal::TERM).context("the command can't be started")
}

/// How many bytes there are up to a character that is not whole yet.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

/// Sends what a stream of the command says, in whole lines where they are not too long.
fn relay(
    mut from: impl Read + Send + 'static,
    words: &Channel,
    word: fn(String) -> Word,
) -> JoinHandle<()> {
    const LONG: usize = 64 << 10;
    let words = words.clone();
    thread::spawn(move || {
        let mut held = Vec::new();
        let mut block = [0; 8192];
        loop {
            let got = match from.read(&mut block) {
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => 0,
            };
            held.extend_from_slice(&block[..got]);
            let end = match held.iter().rposition(|byte| *byte == b'\n') {
                Some(end) => end + 1,
                None if got == 0 => held.len(),
                None if held.len() > LONG => whole_characters(&held),
                None => 0,
            };
            let text: Vec<u8> = held.drain(..end).collect();
            let text = String::from_utf8_lossy(&text).into_owned();
            if !text.is_empty() && words.send(&word(text)).is_err() || got == 0 {
                return;
            }
        }
    })
}
