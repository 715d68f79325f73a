//! Files in pieces on a channel, and the far side's look at what a command records.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgassay_far::{Channel, Lost};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::pace::Pace;

/// How often the far side looks for something new.
const LOOKS: Duration = Duration::from_millis(200);

/// Bytes of a piece: what is said on another channel waits for one.
const PIECE: usize = 16 << 10;

/// How often it is looked whether the link stands while nothing is answered.
const ATTENTION: Duration = Duration::from_secs(1);

/// How deep below a run its files may lie: those of a lab's stages do.
pub const DEEPEST: usize = 6;

/// Whether a file of this name is data of a run, and so is sent and kept. Pages are not: they are rendered by who
/// shows them.
pub fn is_data(name: &str) -> bool {
    let end = name.rsplit_once('.').map(|(_, end)| end);
    end.is_some_and(|end| ["json", "jsonl", "toml", "sql", "txt", "csv"].contains(&end))
}

/// A piece of a file, before its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Below the directory of all, with `/`.
    pub path: String,
    /// Where its bytes belong.
    pub at: u64,
    /// What is at this path already stays: lines are appended.
    pub appends: bool,
    /// The file is whole with it.
    pub last: bool,
}

/// Sends pieces.
#[derive(Debug)]
pub struct Sender {
    channel: Channel,
    /// Where the other side says how much has come, and is not sent much more.
    pace: Option<Pace>,
}

impl Sender {
    /// To who says how much has come: a [`Receipt`].
    pub fn answered(channel: Channel) -> Self {
        Self {
            channel,
            pace: Some(Pace::new()),
        }
    }

    /// To who says nothing of it.
    pub fn unanswered(channel: Channel) -> Self {
        Self {
            channel,
            pace: None,
        }
    }

    fn send(&mut self, piece: &Piece, bytes: &[u8]) -> Result<(), Lost> {
        let mut body = serde_json::to_vec(piece).map_err(|e| Lost::Unsayable(e.to_string()))?;
        body.push(b'\n');
        body.extend_from_slice(bytes);
        let bytes = body.len() as u64;
        self.wait(|pace| pace.has_room(bytes))?;
        if let Some(pace) = &mut self.pace {
            pace.send(bytes, Instant::now());
        }
        self.channel.send_bytes(body)
    }

    /// Waits until all has come.
    ///
    /// # Errors
    /// Where the link is lost.
    pub fn finish(&mut self) -> Result<(), Lost> {
        self.wait(Pace::is_empty)
    }

    /// Hears how much has come, until that is enough.
    fn wait(&mut self, is_enough: impl Fn(&Pace) -> bool) -> Result<(), Lost> {
        let Some(pace) = &mut self.pace else {
            return Ok(());
        };
        loop {
            let patience = match is_enough(pace) {
                true => Duration::ZERO,
                false => ATTENTION,
            };
            match self.channel.recv(patience)? {
                Some(Receipt(came)) => pace.receive(came, Instant::now()),
                None if patience.is_zero() => return Ok(()),
                None => {}
            }
        }
    }
}

/// Bytes that have come in pieces, in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt(pub u64);

/// A piece that came, and its bytes.
pub fn received(body: &[u8]) -> Option<(Piece, &[u8])> {
    let at = body.iter().position(|byte| *byte == b'\n')?;
    Some((serde_json::from_slice(&body[..at]).ok()?, &body[at + 1..]))
}

/// Sends a file from some place on to its end, as it is now.
///
/// # Errors
/// The system's refusal inside, the link's outside.
pub fn send_file(
    to: &mut Sender,
    name: &str,
    from: &Path,
    appended_at: Option<u64>,
) -> Result<io::Result<u64>, Lost> {
    let opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(from)
        .and_then(|file| match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::ErrorKind::InvalidInput.into()),
        });
    let mut file = match opened {
        Ok(file) => file,
        Err(error) => return Ok(Err(error)),
    };
    let mut at = appended_at.unwrap_or(0);
    let mut bytes = vec![0; PIECE];
    // The rest of a line comes when it is whole.
    let end = match appended_at.map(|at| whole_lines(&mut file, at, &mut bytes)) {
        None => None,
        Some(Ok(end)) if end == at => return Ok(Ok(at)),
        Some(Ok(end)) => Some(end),
        Some(Err(error)) => return Ok(Err(error)),
    };
    if let Err(error) = file.seek(SeekFrom::Start(at)) {
        return Ok(Err(error));
    }
    loop {
        let most = end.map_or(PIECE, |end| (end - at).min(PIECE as u64) as usize);
        let got = match fill(&mut file, &mut bytes[..most]) {
            Ok(got) => got,
            Err(error) => return Ok(Err(error)),
        };
        let last = match end {
            Some(end) => at + got as u64 == end || got == 0,
            None => got < PIECE,
        };
        let piece = Piece {
            path: name.to_owned(),
            at,
            appends: appended_at.is_some(),
            last,
        };
        to.send(&piece, &bytes[..got])?;
        at += got as u64;
        if last {
            return Ok(Ok(at));
        }
    }
}

/// Where the last whole line behind `from` ends; `from` where there is none.
fn whole_lines(file: &mut File, from: u64, bytes: &mut [u8]) -> io::Result<u64> {
    file.seek(SeekFrom::Start(from))?;
    let (mut at, mut end) = (from, from);
    loop {
        let got = fill(file, bytes)?;
        if let Some(last) = bytes[..got].iter().rposition(|byte| *byte == b'\n') {
            end = at + last as u64 + 1;
        }
        if got < bytes.len() {
            return Ok(end);
        }
        at += got as u64;
    }
}

fn fill(file: &mut File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match file.read(&mut bytes[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

/// What was sent of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sent {
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

/// Looks again and again for what is new below a directory, until it is told to end; and once more.
///
/// # Errors
/// Where the link is lost.
pub fn follow(to: &mut Sender, root: &Path, ended: &AtomicBool) -> Result<(), Lost> {
    let mut sent = BTreeMap::new();
    loop {
        let last = ended.load(Ordering::SeqCst);
        look(to, root, &mut sent)?;
        if last {
            return Ok(());
        }
        std::thread::park_timeout(LOOKS);
    }
}

fn look(to: &mut Sender, root: &Path, sent: &mut BTreeMap<PathBuf, Sent>) -> Result<(), Lost> {
    let mut files = Vec::new();
    walk(root, Path::new(""), &mut files);
    // What a run is comes before what is in it.
    files.sort_by_key(|path| {
        (
            path.parent().map(Path::to_owned),
            !path.ends_with("run.json"),
        )
    });
    for path in files {
        let (Ok(meta), Some(name)) = (fs::symlink_metadata(root.join(&path)), path.to_str()) else {
            continue;
        };
        let now = Sent {
            inode: meta.ino(),
            length: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
        };
        let before = sent.get(&path).copied();
        let lines = path.extension().is_some_and(|e| e == "jsonl");
        let from = match before {
            // Lines are only ever appended.
            Some(before) if lines => {
                if before.length >= now.length || before.inode != now.inode {
                    continue;
                }
                Some(before.length)
            }
            Some(before) if !lines && before == now => continue,
            _ => lines.then_some(0),
        };
        // What has gone meanwhile is seen at the next look.
        if let Ok(length) = send_file(to, name, &root.join(&path), from)? {
            let length = if lines { length } else { now.length };
            sent.insert(path, Sent { length, ..now });
        }
    }
    Ok(())
}

/// The regular files below a directory that belong to a run for good.
fn walk(root: &Path, below: &Path, files: &mut Vec<PathBuf>) {
    if below.components().count() >= DEEPEST {
        return;
    }
    for entry in fs::read_dir(root.join(below))
        .into_iter()
        .flatten()
        .flatten()
    {
        let path = below.join(entry.file_name());
        let name = entry.file_name();
        let passing = ["lock", "pause.json", "live.jsonl"]
            .iter()
            .any(|n| name == *n)
            || name.as_encoded_bytes().starts_with(b".")
            || !name.to_str().is_some_and(is_data);
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(root, &path, files),
            Ok(kind) if kind.is_file() && !passing => files.push(path),
            _ => {}
        }
    }
}

/// Writes a piece of a file that the near side gave, which is trusted.
///
/// # Errors
/// Where the system refuses.
pub fn put(below: &Path, piece: &Piece, bytes: &[u8]) -> io::Result<()> {
    let path = below.join(&piece.path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    file.write_all_at(bytes, piece.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::far::pace::MOST;
    use pgassay_far::Link;
    use pgassay_sys::private::Directory;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    /// A trial of thousands of connections is longer than a piece.
    #[test]
    fn lines_longer_than_a_piece_arrive_and_unfinished_ones_wait() {
        let place = Directory::make(&std::env::temp_dir(), "pgassay-far-files").unwrap();
        let from = place.path().join("trials.jsonl");
        let long = "x".repeat(5 * PIECE / 2);
        let text = format!("short\n{long}\nshort\n{long}");
        let whole = text.len() - long.len();
        fs::write(&from, &text).unwrap();
        let (near, far) = Link::pair();
        let (mut to, at_near) = (Sender::unanswered(far.channel(1)), near.channel(1));
        let sent = send_file(&mut to, "trials.jsonl", &from, Some(0))
            .unwrap()
            .unwrap();
        assert_eq!(sent as usize, whole);
        let again = send_file(&mut to, "trials.jsonl", &from, Some(sent))
            .unwrap()
            .unwrap();
        assert_eq!(again, sent);
        fs::write(&from, format!("{text}\n")).unwrap();
        let rest = send_file(&mut to, "trials.jsonl", &from, Some(sent))
            .unwrap()
            .unwrap();
        assert_eq!(rest as usize, text.len() + 1);
        let mut came = Vec::new();
        while came.len() < text.len() + 1 {
            let body = at_near
                .recv_bytes(std::time::Duration::from_secs(20))
                .unwrap()
                .unwrap();
            let (piece, bytes) = received(&body).unwrap();
            assert_eq!((piece.at as usize, piece.appends), (came.len(), true));
            came.extend_from_slice(bytes);
        }
        assert!(came == format!("{text}\n").as_bytes());
    }

    #[test]
    fn no_more_is_sent_than_the_other_side_keeps_up_with() {
        let place = Directory::make(&std::env::temp_dir(), "pgassay-far-sender").unwrap();
        let from = place.path().join("report.html");
        let length = 2 << 20;
        fs::write(&from, vec![b'x'; length]).unwrap();
        let (near, far) = Link::pair();
        let (files, mut to) = (near.channel(1), Sender::answered(far.channel(1)));
        let sender = std::thread::spawn(move || {
            send_file(&mut to, "report.html", &from, None)
                .unwrap()
                .unwrap();
            to.finish().unwrap();
        });
        let mut receipt = Receipt::default();
        let (mut came, mut is_whole) = (0, false);
        while !is_whole {
            // As long as something comes; then it waits for us.
            let (before, soon) = (receipt, Duration::from_millis(200));
            while let Some(body) = files.recv_bytes(soon).unwrap() {
                let (piece, bytes) = received(&body).unwrap();
                assert_eq!(piece.at as usize, came);
                came += bytes.len();
                is_whole = piece.last;
                receipt.0 += body.len() as u64;
            }
            assert!(receipt.0 - before.0 <= MOST);
            assert!(!sender.is_finished());
            files.send(&receipt).unwrap();
        }
        sender.join().unwrap();
        assert_eq!(came, length);
    }

    /// A way that takes whatever is put into it, and carries so much of it a second.
    fn long_way(bytes_a_second: u32) -> (UnixStream, UnixStream) {
        let (put, mut from) = UnixStream::pair().unwrap();
        let (mut to, got) = UnixStream::pair().unwrap();
        let (taken, kept) = std::sync::mpsc::channel::<Vec<u8>>();
        std::thread::spawn(move || {
            let mut bytes = [0; 2 << 10];
            while let Ok(got @ 1..) = from.read(&mut bytes) {
                taken.send(bytes[..got].to_vec()).unwrap_or_default();
            }
        });
        std::thread::spawn(move || {
            for bytes in kept {
                std::thread::sleep(Duration::from_secs(1) * bytes.len() as u32 / bytes_a_second);
                if to.write_all(&bytes).is_err() {
                    return;
                }
            }
        });
        (put, got)
    }

    #[test]
    fn a_carried_conversation_outlives_a_file_on_a_slow_way() {
        let place = Directory::make(&std::env::temp_dir(), "pgassay-far-slow").unwrap();
        let from = place.path().join("report.html");
        fs::write(&from, vec![b'x'; 160 << 10]).unwrap();
        let (from_far, at_near) = long_way(20 << 10);
        let (from_near, at_far) = UnixStream::pair().unwrap();
        let near = Link::new(at_near, from_near).unwrap();
        let far = Link::new(at_far, from_far).unwrap();
        let within = |outer: &Link| {
            let (incoming, outgoing) = outer.channel(4).streams();
            Link::new(incoming, outgoing).unwrap()
        };
        let (carried_near, carried_far) = (within(&near), within(&far));
        carried_far.channel(1).send("before").unwrap();
        let soon = Duration::from_secs(20);
        let said = carried_near.channel(1).recv::<String>(soon).unwrap();
        assert_eq!(said.as_deref(), Some("before"));
        let (files, mut to) = (near.channel(1), Sender::answered(far.channel(1)));
        let sender = std::thread::spawn(move || {
            send_file(&mut to, "report.html", &from, None)
                .unwrap()
                .unwrap();
            to.finish().unwrap();
        });
        let begin = Instant::now();
        let mut receipt = Receipt::default();
        while !sender.is_finished() {
            std::thread::sleep(Duration::from_millis(50));
            while let Some(body) = files.recv_bytes(Duration::ZERO).unwrap() {
                receipt.0 += body.len() as u64;
            }
            files.send(&receipt).unwrap();
            assert_eq!(
                (carried_near.check(), carried_far.check()),
                (Ok(()), Ok(()))
            );
        }
        sender.join().unwrap();
        // Longer than silence may.
        assert!(begin.elapsed() > Duration::from_secs(7));
    }
}
