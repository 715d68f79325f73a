//! What a server says of itself: its settings, out of the recorded rows.

use pgassay_model::reading::Reading;
use pgassay_model::server::ServerFacts;
use serde::{Deserialize, Serialize};

/// A setting in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Setting {
    /// PostgreSQL's name.
    pub name: String,
    /// The value with its unit, as SHOW prints it or near to it.
    pub value: String,
    /// Where it comes from: `default`, `configuration file`, `command line` …
    pub source: String,
}

/// Whose settings they are, as SQL quotes the names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingsOf {
    /// The role.
    pub role: Option<String>,
    /// The database.
    pub database: Option<String>,
}

/// The settings that bear on processor, memory and I/O, in the order of reports.
/// A server that lacks one (an older version) leaves it out.
pub const RELEVANT: &[&str] = &[
    "shared_buffers",
    "huge_pages",
    "huge_pages_status",
    "huge_page_size",
    "max_connections",
    "work_mem",
    "effective_cache_size",
    "effective_io_concurrency",
    "io_method",
    "debug_io_direct",
    "fsync",
    "synchronous_commit",
    "commit_delay",
    "commit_siblings",
    "synchronous_standby_names",
    "archive_mode",
    "full_page_writes",
    "wal_level",
    "max_wal_size",
    "checkpoint_timeout",
    "checkpoint_completion_target",
    "autovacuum",
    "jit",
    "plan_cache_mode",
    "default_transaction_isolation",
    "track_io_timing",
    "track_activities",
    "debug_assertions",
    "data_checksums",
    "block_size",
    "shared_preload_libraries",
];

/// A `commit_delay`, in microseconds, that is longer than a flush of a solid-state disk or of a
/// disk with a battery.
pub const LONG_COMMIT_DELAY_US: f64 = 1000.0;

/// Whether a value of `debug_io_direct`, a list, makes the server read tables
/// past the kernel's page cache.
pub fn reads_directly(debug_io_direct: &str) -> bool {
    debug_io_direct
        .split(',')
        .any(|of| of.trim().eq_ignore_ascii_case("data"))
}

#[derive(Deserialize)]
struct Row {
    name: String,
    setting: Option<String>,
    unit: Option<String>,
    source: Option<String>,
}

/// All recorded settings; empty where they could not be read.
pub fn settings(facts: &ServerFacts) -> Vec<Setting> {
    settings_in(&facts.settings)
}

/// All settings of an answer on them; empty where there is none.
pub fn settings_in(answer: &Reading) -> Vec<Setting> {
    let Reading::Text(text) = answer else {
        return Vec::new();
    };
    let rows: Vec<Row> = serde_json::from_str(text).unwrap_or_default();
    rows.into_iter()
        .map(|row| Setting {
            name: row.name,
            value: with_unit(row.setting.unwrap_or_default(), row.unit.as_deref()),
            source: row.source.unwrap_or_default(),
        })
        .collect()
}

/// The settings of [`RELEVANT`], in its order.
pub fn relevant_settings(facts: &ServerFacts) -> Vec<Setting> {
    let all = settings(facts);
    RELEVANT
        .iter()
        .filter_map(|name| all.iter().find(|s| s.name == *name).cloned())
        .collect()
}

/// The size of a block in bytes, as the server was built.
pub fn block_size(facts: &ServerFacts) -> Option<u64> {
    let settings = settings(facts);
    let setting = settings.iter().find(|s| s.name == "block_size")?;
    setting.value.parse().ok()
}

/// A setting of memory in bytes, where the server has it and it is not negative.
pub fn setting_bytes(facts: &ServerFacts, name: &str) -> Option<u64> {
    let text = facts.settings.text()?;
    let rows: Vec<Row> = serde_json::from_str(text).ok()?;
    let row = rows.into_iter().find(|row| row.name == name)?;
    let unit = row.unit.as_deref().unwrap_or("B");
    let digits = unit.chars().take_while(char::is_ascii_digit).count();
    let count: u64 = unit[..digits].parse().unwrap_or(1);
    let factor: u64 = match &unit[digits..] {
        "B" => 1,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        _ => return None,
    };
    let number: u64 = row.setting?.parse().ok()?;
    number.checked_mul(count)?.checked_mul(factor)
}

/// `16384` of unit `8kB` becomes `128MB`, as SHOW would print it.
fn with_unit(setting: String, unit: Option<&str>) -> String {
    let Some(unit) = unit.filter(|u| !u.is_empty()) else {
        return setting;
    };
    let Ok(count) = setting.parse::<i64>() else {
        return setting;
    };
    if count <= 0 {
        return setting;
    }
    let digits = unit.chars().take_while(char::is_ascii_digit).count();
    let factor: i64 = unit[..digits].parse().unwrap_or(1);
    let steps: &[(&str, i64)] = match &unit[digits..] {
        "B" => &[("B", 1), ("kB", 1024), ("MB", 1024), ("GB", 1024)],
        "kB" => &[("kB", 1), ("MB", 1024), ("GB", 1024), ("TB", 1024)],
        "MB" => &[("MB", 1), ("GB", 1024), ("TB", 1024)],
        "ms" => &[("ms", 1), ("s", 1000), ("min", 60), ("h", 60), ("d", 24)],
        "s" => &[("s", 1), ("min", 60), ("h", 60), ("d", 24)],
        "min" => &[("min", 1), ("h", 60), ("d", 24)],
        _ => return format!("{setting} {unit}"),
    };
    let Some(mut value) = count.checked_mul(factor) else {
        return format!("{setting} {unit}");
    };
    let mut name = steps[0].0;
    for (larger, ratio) in &steps[1..] {
        if value % ratio != 0 {
            break;
        }
        value /= ratio;
        name = larger;
    }
    format!("{value}{name}")
}

#[cfg(test)]
mod tests {
    use super::with_unit;

    #[test]
    fn values_read_as_show_prints_them() {
        let cases = [
            ("16384", Some("8kB"), "128MB"),
            ("300", Some("s"), "5min"),
            ("0", Some("kB"), "0"),
            ("-1", Some("ms"), "-1"),
            ("200", Some("ms"), "200ms"),
            ("1", Some("kB"), "1kB"),
            ("on", None, "on"),
            (
                "9223372036854775807",
                Some("8kB"),
                "9223372036854775807 8kB",
            ),
        ];
        for (setting, unit, shown) in cases {
            assert_eq!(with_unit(setting.into(), unit), shown, "{setting} {unit:?}");
        }
    }
}
