//! Servers that run on this machine, by the Unix sockets that they listen on.
//!
//! The kernel shows these to every user (/proc/net/unix), unlike another user's processes. A pooler's
//! socket is named like a server's.

use std::fs;
use std::path::{Path, PathBuf};

/// A server, or a pooler, that listens on a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Running {
    /// The socket's directory.
    pub dir: PathBuf,
    /// The port that names the socket.
    pub port: u16,
}

impl Running {
    /// The conninfo that leads to it.
    pub fn conninfo(&self) -> String {
        let dir = self.dir.display().to_string();
        let plain = |c: char| !c.is_whitespace() && !matches!(c, '\'' | '\\');
        let dir = match dir.chars().all(plain) {
            true => dir,
            false => format!("'{}'", dir.replace('\\', "\\\\").replace('\'', "\\'")),
        };
        match self.port {
            5432 => format!("host={dir}"),
            port => format!("host={dir} port={port}"),
        }
    }
}

/// Those that run here now, but for what pgassay itself launched (its sockets lie in /tmp/pga-…).
pub fn servers() -> Vec<Running> {
    of(&fs::read_to_string("/proc/net/unix").unwrap_or_default())
}

/// Those of a text of /proc/net/unix.
fn of(text: &str) -> Vec<Running> {
    /// The kernel's __SO_ACCEPTCON: somebody listens.
    const LISTENS: &str = "00010000";
    let mut found: Vec<Running> = text
        .lines()
        .filter_map(|line| {
            // Num RefCount Protocol Flags Type St Inode Path
            let flags = line.split_whitespace().nth(3)?;
            let path = Path::new(&line[line.find(" /")? + 1..]);
            let port = path.file_name()?.to_str()?.strip_prefix(".s.PGSQL.")?;
            let dir = path.parent()?;
            let ours = dir.components().any(|part| {
                let name = part.as_os_str().to_string_lossy();
                name.starts_with("pga-")
            });
            (flags == LISTENS && !ours).then_some(Running {
                dir: dir.to_owned(),
                port: port.parse().ok()?,
            })
        })
        .collect();
    // One server may listen in several directories.
    found.sort_by(|a, b| (a.port, &a.dir).cmp(&(b.port, &b.dir)));
    found.dedup_by_key(|running| running.port);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_on_a_servers_socket_is_found() {
        let text = "\
Num       RefCount Protocol Flags    Type St Inode Path
0000: 00000002 00000000 00010000 0001 01 7 /var/run/postgresql/.s.PGSQL.5432
0000: 00000002 00000000 00010000 0001 01 7 /tmp/.s.PGSQL.5432
0000: 00000003 00000000 00000000 0001 03 8 /var/run/postgresql/.s.PGSQL.5432
0000: 00000002 00000000 00010000 0001 01 9 /srv/my data/.s.PGSQL.6000
0000: 00000002 00000000 00010000 0001 01 9 /tmp/pga-k3f9/.s.PGSQL.5432
0000: 00000003 00000000 00000000 0001 03 9 /tmp/gone/.s.PGSQL.5433
0000: 00000002 00000000 00010000 0001 01 9 @abstract
0000: 00000002 00000000 00010000 0001 01 9 /run/other.sock
";
        let found: Vec<String> = of(text).iter().map(Running::conninfo).collect();
        assert_eq!(found, ["host=/tmp", "host='/srv/my data' port=6000"]);
        assert!(of("").is_empty() && of("Num\nx y /").is_empty());
    }
}
