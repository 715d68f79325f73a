//! The near side: what a command elsewhere says and records, shown and kept here.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::bail;
use pgassay_engine::rundir;
use pgassay_far::frame::MAX_BODY;
use pgassay_far::{Link, Lost};
use pgassay_model::{Failure, FailureKind};
use pgassay_sys::output;
use pgassay_sys::stop::Stop;

use super::files::{self, Receipt, received};
use super::keep::Keeper;
use super::page;
use super::reach::{Options, Side, reach};
use super::rules::{self, Guarded};
use super::say::{self, FILES, Order, Start, WORDS, Word};
use super::within;
use super::words::There;
use crate::cli::args::GlobalArgs;
use crate::exit::Exit;
use crate::session::Session;
use crate::terminal::Terminal;

/// How often the keyboard is looked at.
const LOOKS: Duration = Duration::from_millis(50);

/// How long words may come after their carrier has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The largest file that a command may write for the user.
const LARGEST_OUTPUT: usize = 128 << 20;

/// Carries a command out where it belongs.
///
/// # Errors
/// Where the place can't be reached, the link is lost, or what comes over it can't be kept.
pub fn there(
    there: &There,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let options = Options {
        program: global.far_program.clone(),
    };
    let rules = match &there.load {
        Some(typed) => Some(Guarded::of(typed, &there.place, &rules::ssh()?)?),
        None => None,
    };
    let mut side = reach(&there.place, &options, terminal, stop)?;
    // From here on Ctrl-C is pressed there.
    let _kept = stop.defer();
    let mut words = there.words.clone();
    if terminal.watched && !global.quiet && !global.verbose {
        // A bar can't move from there to here; lines can.
        words.insert(0, "--verbose".to_owned());
    }
    terminal.announce(&format!(
        "on {}: pgassay {}, {}; {}",
        there.place,
        side.hello.version,
        side.hello.architecture,
        match (Session::has_own_load(&global.typed), &rules) {
            (true, _) => "the load runs there, too",
            (false, Some(_)) => "load comes from here, as --from says",
            (false, None) => "the load comes from where --from says, as seen there",
        }
    ));
    let link = side.link()?;
    let started = link.channel(WORDS).send(&Order::Start(Start {
        words,
        session: Session {
            place: there.place.to_string(),
            typed: global.typed.clone(),
            load: rules.is_some(),
        },
        columns: terminal.width,
        given: there.given.len(),
        outputs: there.outputs.len(),
        scratch: there.scratch.clone(),
    }));
    let mut keeper = Keeper::new(
        rundir::root(global.runs.as_deref())?,
        &there.place.to_string(),
    );
    let mut outputs = BTreeMap::new();
    let heard = started
        .map_err(anyhow::Error::from)
        .and_then(|()| give(link, there))
        .and_then(|()| match rules {
            Some(rules) => within::give(link, rules),
            None => Ok(()),
        })
        .and_then(|()| hear(&mut side, &mut keeper, &mut outputs, there, terminal, stop));
    match heard {
        Ok(Some(code)) => {
            page::of_runs(&keeper, terminal, stop);
            let facts = match &there.page {
                Some(page) => there.outputs.iter().position(|path| *path == page.to),
                None => None,
            };
            for (number, path) in there.outputs.iter().enumerate() {
                if let Some(content) = outputs.get(&number).filter(|_| facts != Some(number)) {
                    output::write(path, content)
                        .map_err(|e| Failure::usage(e.to_string()).with_remedy(e.remedy()))?;
                }
            }
            let facts = facts.and_then(|number| outputs.get(&number));
            let written = page::write(
                there.page.as_ref(),
                &keeper,
                facts.map(Vec::as_slice),
                terminal,
                stop,
            );
            match Exit::from_code(code) {
                // It was shown already why there is less.
                exit @ (Exit::Usage | Exit::Target | Exit::Interrupted | Exit::Fault) => Ok(exit),
                exit => written.map(|()| exit),
            }
        }
        Ok(None) => {
            let why = format!("the command on {} was killed", there.place);
            Err(broken_off(&keeper, why, stop).into())
        }
        Err(error) => Err(match error.downcast::<Lost>() {
            Ok(lost) => broken_off(&keeper, lost_words(&side, there, &lost), stop).into(),
            Err(error) => error,
        }),
    }
}

fn lost_words(side: &Side, there: &There, lost: &Lost) -> String {
    let lost = pgassay_text::line(&lost.to_string());
    let said = match side.said() {
        said if said.is_empty() => String::new(),
        said => format!(" ({said})"),
    };
    format!("the link to {} was lost: {lost}{said}", there.place)
}

/// What is said of a command that did not come to its end.
fn broken_off(keeper: &Keeper, why: String, stop: &Stop) -> Failure {
    let runs = keeper.runs();
    let measured = runs.iter().rev().find(|(_, trials)| *trials > 0);
    match measured {
        Some((run, trials)) => Failure {
            kind: FailureKind::Partial,
            message: format!("{why}; {trials} finished trials were kept"),
            remedy: Some(match run.strip_prefix("labs/") {
                Some(lab) => format!("pgassay lab --report {lab}"),
                None => format!("pgassay report {run}"),
            }),
        },
        None if stop.asked() => Failure {
            message: why,
            ..Failure::interrupted()
        },
        None => Failure::target(why),
    }
}

/// Sends the files that the command needs.
fn give(link: &Link, there: &There) -> anyhow::Result<()> {
    let mut to = files::Sender::unanswered(link.channel(FILES));
    for given in &there.given {
        files::send_file(&mut to, &given.name, &given.from, None)?
            .map_err(|e| Failure::usage(format!("cannot read {}: {e}", given.from.display())))?;
    }
    Ok(())
}

/// Shows and keeps what comes until the command has ended; its exit code then.
fn hear(
    side: &mut Side,
    keeper: &mut Keeper,
    outputs: &mut BTreeMap<usize, Vec<u8>>,
    there: &There,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Option<i32>> {
    let (words, files) = (side.link()?.channel(WORDS), side.link()?.channel(FILES));
    let mut receipt = Receipt::default();
    let mut ended = None;
    let mut runs_there = String::new();
    let mut asked = false;
    let here = keeper.root().display().to_string();
    let place = there.place.to_string();
    loop {
        if stop.asked() && !asked {
            asked = true;
            words.send(&Order::Stop)?;
        }
        let word = words.recv(LOOKS);
        let before = receipt;
        let until = Instant::now() + LOOKS;
        while Instant::now() < until
            && let Some(body) = files.recv_bytes(Duration::ZERO).unwrap_or_default()
        {
            take(&body, keeper, outputs, there)?;
            receipt.0 += body.len() as u64;
        }
        if receipt != before {
            // A link that is lost is told of by its words.
            let _ = files.send(&receipt);
        }
        match word? {
            // What it carried may be on its way still.
            None if side.carrier_ended()
                && ended.get_or_insert_with(Instant::now).elapsed() > LAST_WORDS =>
            {
                return Err(Lost::Ended.into());
            }
            None => {}
            Some(Word::Started { runs }) if say::is_of_session(&runs) => runs_there = runs,
            Some(Word::Started { .. }) => {
                return Err(Lost::Nonsense("no directory of runs".to_owned()).into());
            }
            Some(Word::Out(text)) => terminal.show(&translated(&text, &runs_there, &here))?,
            Some(Word::Said(text)) => {
                for line in translated(&text, &runs_there, &here).lines() {
                    terminal.relay(&place, line);
                }
            }
            Some(Word::Refused(why)) => {
                let why = pgassay_text::line(&why);
                bail!(Failure::target(format!("{}: {why}", there.place)))
            }
            Some(Word::Ended { code }) => {
                // All files came before it, but for those that came since we looked.
                while let Some(body) = files.recv_bytes(Duration::ZERO).unwrap_or_default() {
                    take(&body, keeper, outputs, there)?;
                    if stop.asked() {
                        side.link()?.check()?;
                    }
                }
                // It does not wait for ever, and all that it had is here.
                let _ = words.send(&Order::Received);
                return Ok(code);
            }
        }
    }
}

/// A text of the far side with its directory of runs as it is called here; as it came where that would make it
/// longer than a message may be.
fn translated<'a>(text: &'a str, there: &str, here: &str) -> Cow<'a, str> {
    let named = match there.is_empty() {
        true => 0,
        false => text.matches(there).count(),
    };
    match text.len() + named * here.len() {
        length if named > 0 && length <= MAX_BODY => text.replace(there, here).into(),
        _ => text.into(),
    }
}

/// Keeps a piece of a file.
fn take(
    body: &[u8],
    keeper: &mut Keeper,
    outputs: &mut BTreeMap<usize, Vec<u8>>,
    there: &There,
) -> anyhow::Result<()> {
    let Some((piece, bytes)) = received(body) else {
        return Err(Lost::Nonsense("a piece of a file that is none".to_owned()).into());
    };
    let wanted = (0..there.outputs.len()).find(|n| piece.path == say::output(*n));
    let Some(number) = wanted else {
        return keeper.take(&piece, bytes);
    };
    let content = outputs.entry(number).or_default();
    if content.len() as u64 != piece.at || content.len() + bytes.len() > LARGEST_OUTPUT {
        return Err(Lost::Nonsense("a file in the wrong order, or too large".to_owned()).into());
    }
    content.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two characters were replaced by the whole path: 15 MB became 3.2 GB.
    #[test]
    fn a_text_is_not_made_longer_than_a_message_may_be() {
        let there = "/var/tmp/pgassay-far-1-aaaa/runs";
        assert!(say::is_of_session(there));
        for never in [
            "aa",
            "",
            "/var/tmp",
            "/tmp/pgassay-far-1/runs",
            "/var/tmp/pgassay-far-\u{1b}/runs",
            &format!("{there}{}", "x".repeat(256)),
        ] {
            assert!(!say::is_of_session(never), "{never}");
        }
        let here = format!("/{}", "h".repeat(200));
        let text = format!("report: {there}/r-1\n");
        assert_eq!(
            translated(&text, there, &here),
            format!("report: {here}/r-1\n")
        );
        assert_eq!(translated(&text, "", &here), text);
        let long = there.repeat(MAX_BODY / there.len());
        assert!(translated(&long, there, &here) == long);
    }
}
