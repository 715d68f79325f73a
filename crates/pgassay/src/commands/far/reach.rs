//! A far side by its place: the program there, copied there if it is absent, and the first words with it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use pgassay_far::carrier::Running;
use pgassay_far::hello::{self, Refused};
use pgassay_far::{Carrier, Hello, Link, Lost, Place};
use pgassay_model::Failure;
use pgassay_sys::stop::Stop;

use super::rules;
use crate::terminal::Terminal;

/// How long the first words may take; somebody may have to type a passphrase.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long the carrier may take to end after the link.
const LEAVING: Duration = Duration::from_secs(12);

/// What the script says that starts the program there, if it is not there.
const ABSENT: &str = "pgassay-far-absent";

/// What the script says that copies it there, when it has.
const COPIED: &str = "pgassay-far-copied";

/// How far sides are reached.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A program to copy there instead of this one.
    pub program: Option<PathBuf>,
}

/// A far side. Dropped, it is told to end.
#[derive(Debug)]
pub struct Side {
    /// The conversation with it.
    link: Option<Link>,
    carrier: Running,
    /// Which program it is.
    pub hello: Hello,
}

impl Side {
    /// The conversation with it.
    pub fn link(&self) -> anyhow::Result<&Link> {
        self.link.as_ref().context("the link is closed")
    }

    /// Whether the command that carries it has ended. Another process may still hold its streams.
    pub fn carrier_ended(&mut self) -> bool {
        matches!(self.carrier.wait(Duration::ZERO), Ok(Some(_)))
    }

    /// What its carrier said on its error side.
    pub fn said(&self) -> String {
        pgassay_text::line(&self.carrier.said())
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let stands = self.link.as_ref().is_some_and(|link| link.check().is_ok());
        drop(self.link.take());
        // It ends when the other side has tidied up.
        if stands {
            let _ = self.carrier.wait(LEAVING);
        }
    }
}

/// Starts a far side at a place.
///
/// # Errors
/// Where the place can't be reached, or the program there does not fit this one.
pub fn reach(
    place: &Place,
    options: &Options,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Side> {
    let carrier = Carrier::to(place, &rules::ssh()?);
    let program = match &options.program {
        Some(program) => program.clone(),
        None => PathBuf::from("/proc/self/exe"),
    };
    let hash = hash_of(&program).map_err(|error| {
        Failure::usage(format!("cannot read {}: {error}", program.display()))
            .with_remedy("--far-program names a pgassay for the other machine")
    })?;
    let script = starting(&hash);
    let said = match greet(place, &carrier, &script, stop)? {
        Met::Side(side) => return Ok(*side),
        Met::Absent(said) => said,
    };
    let mut words = said.split_whitespace();
    let (architecture, at_hand) = (words.next().unwrap_or(""), words.next().unwrap_or("-"));
    let fits = options.program.is_some() || architecture == own_architecture();
    let script = match (fits, at_hand) {
        (true, _) => {
            terminal.progress(&format!("copying pgassay to {place}"));
            copy(place, &carrier, &program, &hash, stop)?;
            script
        }
        (false, "-") => bail!(
            Failure::target(format!(
                "{place} is a machine of another architecture: {architecture}, and this is {}",
                own_architecture()
            ))
            .with_remedy(
                "install pgassay there, in PATH, or name a program for it with --far-program FILE"
            )
        ),
        (false, _) => "exec pgassay far".to_owned(),
    };
    match greet(place, &carrier, &script, stop)? {
        Met::Side(side) => Ok(*side),
        Met::Absent(_) => bail!(
            Failure::target(format!("pgassay was copied to {place}, and is not there"))
                .with_remedy(
                    "look whether its ~/.cache may hold programs, or set XDG_CACHE_HOME there"
                )
        ),
    }
}

enum Met {
    Side(Box<Side>),
    /// With what it said of the machine.
    Absent(String),
}

fn greet(place: &Place, carrier: &Carrier, script: &str, stop: &Stop) -> anyhow::Result<Met> {
    let (mut running, input, output) = carrier.start(script).map_err(|error| {
        Failure::usage(format!("{place}: the command can't be started: {error}"))
            .with_remedy("install it, or name another carrier; see docs/far.md")
    })?;
    let link = Link::new(output, input)?;
    link.end_after(stop.flag());
    let ours = Hello::of_this(env!("CARGO_PKG_VERSION"), &own_hash());
    match hello::exchange(&link, &ours, PATIENCE) {
        Ok(hello) => Ok(Met::Side(Box::new(Side {
            link: Some(link),
            carrier: running,
            hello,
        }))),
        Err(Refused::Lost(Lost::NoGreeting(said))) if said.contains(ABSENT) => {
            let after = said.split(ABSENT).nth(1).unwrap_or_default();
            Ok(Met::Absent(after.trim().to_owned()))
        }
        Err(_) if stop.asked() => bail!(Failure::interrupted()),
        Err(refused) => {
            // What it says last may come after its end.
            let _ = running.wait(Duration::from_millis(500));
            drop(link);
            Err(unreached(place, &refused, &running.said()).into())
        }
    }
}

/// Whether it is Slurm's srun, which waits for the end of a line before it passes anything on.
fn holds_lines_back(words: &[String]) -> bool {
    let program = words
        .iter()
        .find(|word| word.rsplit('/').next() == Some("srun"));
    let passes_all = |word: &String| word == "-u" || word == "--unbuffered";
    program.is_some() && !words.iter().any(passes_all)
}

fn unreached(place: &Place, refused: &Refused, said: &str) -> Failure {
    let (remedy, why) = match refused {
        Refused::TooOld { .. } => (
            "install the newer version there, or remove the old one: this program is copied there then".to_owned(),
            refused.to_string(),
        ),
        Refused::TooNew { .. } => (
            "install the newer version here, or name a program of this version with --far-program FILE".to_owned(),
            refused.to_string(),
        ),
        _ => {
            let remedy = match place {
                Place::Ssh { destination, .. } => {
                    format!("try it alone: ssh {} true", pgassay_text::shell_word(destination))
                }
                Place::Exec { words } if holds_lines_back(words) => {
                    "srun passes on whole lines only: write srun --unbuffered".to_owned()
                }
                Place::Exec { words } => {
                    format!("try it alone: {} sh -c true", pgassay_text::shell(words))
                }
            };
            let said = pgassay_text::line(said);
            let why = match (refused, said.is_empty()) {
                (_, true) => refused.to_string(),
                (Refused::Lost(Lost::NoGreeting(text)), false) if text.is_empty() => said,
                (_, false) => format!("{refused}; {said}"),
            };
            (remedy, why)
        }
    };
    let why = pgassay_text::line(&why);
    Failure::target(format!("{place} can't be reached: {why}")).with_remedy(remedy)
}

/// On one line, without a quote of the other kind, for every shell that may stand between.
fn starting(hash: &str) -> String {
    format!(
        "h={hash}; p=\"${{XDG_CACHE_HOME:-$HOME/.cache}}/pgassay/far/$h\"; \
         [ -x \"$p\" ] && exec \"$p\" far; q=$(command -v pgassay); \
         [ -n \"$q\" ] && [ \"$(sha256sum <\"$q\" 2>/dev/null)\" = \"$h  -\" ] && exec \"$q\" far; \
         echo \"{ABSENT} $(uname -m) ${{q:--}}\""
    )
}

fn copying(hash: &str) -> String {
    format!(
        "umask 077; h={hash}; d=\"${{XDG_CACHE_HOME:-$HOME/.cache}}/pgassay/far\"; t=\"$d/.new-$$\"; \
         trap \"rm -f \\\"$t\\\"\" EXIT; mkdir -p \"$d\" && cat >\"$t\" && chmod 700 \"$t\" && \
         [ \"$(sha256sum <\"$t\")\" = \"$h  -\" ] && mv -f \"$t\" \"$d/$h\" && echo {COPIED}"
    )
}

/// Copies a program to where the starting script looks for it.
fn copy(
    place: &Place,
    carrier: &Carrier,
    program: &Path,
    hash: &str,
    stop: &Stop,
) -> anyhow::Result<()> {
    let (mut running, mut input, mut output) = carrier.start(&copying(hash))?;
    let mut file = File::open(program)?;
    let (done, copied) = mpsc::channel();
    // It may wait for the other side for ever; a stop is heard meanwhile.
    thread::spawn(move || {
        let sent = io::copy(&mut file, &mut input);
        let flushed = sent.and_then(|_| input.flush());
        drop(input);
        let mut said = String::new();
        let _ = output.by_ref().take(64 << 10).read_to_string(&mut said);
        let _ = done.send((said, flushed));
    });
    let (said, flushed) = loop {
        match copied.recv_timeout(Duration::from_millis(100)) {
            Err(RecvTimeoutError::Timeout) if stop.asked() => bail!(Failure::interrupted()),
            Err(RecvTimeoutError::Timeout) => {}
            copied => break copied?,
        }
    };
    let _ = running.wait(Duration::from_secs(10));
    if said.contains(COPIED) {
        return Ok(());
    }
    let why = match (running.said(), flushed) {
        (said, _) if !said.is_empty() => pgassay_text::line(&said),
        (_, Err(error)) => error.to_string(),
        (_, Ok(())) => "what arrived is not what was sent".to_owned(),
    };
    bail!(
        Failure::target(format!("pgassay can't be copied to {place}: {why}"))
            .with_remedy("make room in ~/.cache there, set XDG_CACHE_HOME there, or install pgassay in PATH there")
    )
}

/// SHA-256 of this program; empty where it can't be read.
pub fn own_hash() -> String {
    hash_of(Path::new("/proc/self/exe")).unwrap_or_default()
}

fn hash_of(file: &Path) -> io::Result<String> {
    let mut file = File::open(file)?;
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    let mut block = vec![0; 1 << 20];
    loop {
        match file.read(&mut block)? {
            0 => break,
            n => context.update(&block[..n]),
        }
    }
    let hash = context.finish();
    Ok(hash.as_ref().iter().map(|b| format!("{b:02x}")).collect())
}

/// What `uname -m` says of machines that run this program.
fn own_architecture() -> &'static str {
    match (std::env::consts::ARCH, cfg!(target_endian = "little")) {
        ("powerpc64", true) => "ppc64le",
        ("powerpc64", false) => "ppc64",
        ("arm", _) => "armv7l",
        ("x86", _) => "i686",
        (same, _) => same,
    }
}
