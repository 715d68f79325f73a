//! A line of /proc/PID/mountinfo.

use super::place::unescaped;

/// The fields of a line of mountinfo that tell about the file system.
pub(super) struct Mount<'a> {
    /// The mount point.
    pub(super) at: &'a str,
    /// Options of this mount.
    pub(super) own: &'a str,
    /// The file system's type.
    pub(super) kind: &'a str,
    pub(super) source: &'a str,
    /// Options of the file system.
    pub(super) options: &'a str,
}

impl<'a> Mount<'a> {
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let (head, tail) = line.split_once(" - ")?;
        let mut before = head.split(' ').skip(4);
        let mut fields = tail.split(' ');
        Some(Self {
            at: before.next()?,
            own: before.next()?,
            kind: fields.next()?,
            source: fields.next()?,
            options: fields.next().unwrap_or(""),
        })
    }

    /// A super option's value.
    pub(super) fn option(&self, name: &str) -> Option<String> {
        let value = self
            .options
            .split(',')
            .find_map(|option| option.strip_prefix(name)?.strip_prefix('='))?;
        Some(unescaped(value))
    }
}
