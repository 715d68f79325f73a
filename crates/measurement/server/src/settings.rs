//! Settings of a launched server, as `--set name=value` gives them.

use super::TargetError;

/// Settings that pgassay needs for itself in a cluster that it launches.
const OURS: &[(&str, &str)] = &[
    (
        "listen_addresses",
        "a launched cluster has no TCP port, only a private socket",
    ),
    (
        "unix_socket_directories",
        "the socket's directory is private and made for the run",
    ),
    (
        "unix_socket_group",
        "the socket's directory is private and made for the run",
    ),
    (
        "unix_socket_permissions",
        "the socket's directory is private and made for the run",
    ),
    (
        "port",
        "a launched cluster has no TCP port, only a private socket",
    ),
    (
        "data_directory",
        "the data directory is made for the run; --scratch places it",
    ),
    ("config_file", "settings are given one by one"),
    ("hba_file", "access is set up for the run"),
    ("ident_file", "access is set up for the run"),
    (
        "external_pid_file",
        "the server's process is known without it",
    ),
    (
        "logging_collector",
        "the server's log is read as it is written",
    ),
    (
        "log_destination",
        "the server's log is read as it is written",
    ),
];

/// Settings in the order given; a later one of the same name replaces the earlier.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    entries: Vec<(String, String)>,
}

impl Settings {
    /// Parses what was typed after `flag` (`--set`, `--set-a` …).
    ///
    /// # Errors
    /// Where one is not `name=value`, or is one that pgassay needs for itself.
    /// Whether the server knows a name and takes its value is the server's to say.
    pub fn parse<S: AsRef<str>>(flag: &str, typed: &[S]) -> Result<Self, TargetError> {
        let mut settings = Self::default();
        for text in typed {
            let text = text.as_ref();
            let Some((name, value)) = text.split_once('=') else {
                return Err(TargetError::Usage(format!(
                    "{flag} {text}: a setting is name=value, such as {flag} shared_buffers=1GB"
                )));
            };
            let name = name.trim();
            let well_formed = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_.$".contains(c));
            if !well_formed {
                return Err(TargetError::Usage(format!(
                    "{flag} {text}: '{name}' is no name of a setting"
                )));
            }
            if value.contains('\0') {
                return Err(TargetError::Usage(format!(
                    "{flag} {name}: the value holds a NUL byte"
                )));
            }
            let ours = OURS
                .iter()
                .find(|(ours, _)| ours.eq_ignore_ascii_case(name));
            if let Some((_, why)) = ours {
                return Err(TargetError::Usage(format!(
                    "{flag} {name}: can't be set: {why}"
                )));
            }
            settings.set(name, value.trim());
        }
        Ok(settings)
    }

    /// Sets `name`, replacing an earlier value.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        let name = name.to_ascii_lowercase();
        self.entries.retain(|(known, _)| *known != name);
        self.entries.push((name, value.into()));
    }

    /// Sets `name` unless it is set.
    pub fn set_default(&mut self, name: &str, value: impl Into<String>) {
        if self.get(name).is_none() {
            self.set(name, value);
        }
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// Name and value of each.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// The default for a launched server's shared_buffers, in bytes: a quarter of
/// the memory that it may use, at most 8 GiB, at least 128 MiB (the server's
/// own default), whole MiB.
pub fn default_shared_buffers(memory_bytes: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    (memory_bytes / 4).clamp(128 * MIB, 8192 * MIB) / MIB * MIB
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_model::FailureKind;

    #[test]
    fn the_last_value_counts_and_case_does_not() {
        let settings = Settings::parse(
            "--set",
            &[
                "work_mem=4MB",
                "Shared_Buffers = 1GB",
                "work_mem=8MB",
                "search_path=a, b=c",
                "pg_stat_statements.max=5",
            ],
        )
        .unwrap();
        assert_eq!(settings.get("WORK_MEM"), Some("8MB"));
        assert_eq!(settings.get("shared_buffers"), Some("1GB"));
        assert_eq!(settings.get("search_path"), Some("a, b=c"));
        assert_eq!(settings.iter().count(), 4);
    }

    #[test]
    fn refusals_name_the_flag() {
        for (typed, wanted) in [
            ("shared_buffers", "name=value"),
            ("=1", "no name"),
            ("a b=1", "no name"),
            ("-c=1", "no name"),
            ("Port=5433", "can't be set"),
            ("data_directory=/x", "--scratch"),
        ] {
            let error = Settings::parse("--set-a", &[typed]).unwrap_err();
            assert_eq!(error.kind(), FailureKind::Usage);
            let text = error.to_string();
            assert!(
                text.starts_with("--set-a ") && text.contains(wanted),
                "{text}"
            );
        }
    }

    #[test]
    fn a_quarter_within_bounds() {
        assert_eq!(default_shared_buffers(100 << 20), 128 << 20);
        assert_eq!(default_shared_buffers(4 << 30), 1 << 30);
        assert_eq!(default_shared_buffers((4 << 30) + 4096), 1 << 30);
        assert_eq!(default_shared_buffers(1 << 40), 8 << 30);
    }
}
