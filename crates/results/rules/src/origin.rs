//! Where a setting's value comes from decides what changes it: `ALTER SYSTEM` is overruled by the
//! server's command line, by a database's and by a role's own setting, and from 17 on it may be
//! switched off (PostgreSQL manual, "Setting Parameters" and `allow_alter_system`). What a remedy
//! says is fitted here to what the server reported, for all entries of the catalogue.

use super::step::{Step, StepKind};
use pgassay_evidence::server::SettingsOf;

const ALTER_SYSTEM: &str = "ALTER SYSTEM ";
const RELOAD: &str = "SELECT pg_reload_conf()";

/// Fits the steps of a remedy. `setting` gives a setting's value and source as `pg_settings` has
/// them, none where they are not known; `of` is whose settings these are.
pub(super) fn fit<'s>(
    steps: &mut Vec<Step>,
    of: &SettingsOf,
    setting: impl Fn(&str) -> Option<(&'s str, &'s str)>,
) {
    let refused = setting("allow_alter_system").is_some_and(|(value, _)| value == "off");
    *steps = std::mem::take(steps)
        .into_iter()
        .flat_map(|step| match step.kind {
            StepKind::Sql if step.text.contains(ALTER_SYSTEM) => {
                let source = |name: &str| setting(name).map_or("", |(_, source)| source);
                fitted(step, of, source, refused)
            }
            _ => vec![step],
        })
        .collect();
}

fn fitted<'s>(
    step: Step,
    of: &SettingsOf,
    source: impl Fn(&str) -> &'s str,
    refused: bool,
) -> Vec<Step> {
    let (statements, comment) = match step.text.split_once("   -- ") {
        Some((statements, comment)) => (statements, Some(comment)),
        None => (step.text.as_str(), None),
    };
    let mut sql: Vec<String> = Vec::new();
    let mut elsewhere: Vec<String> = Vec::new();
    let mut altered = false;
    for statement in statements
        .split(';')
        .map(str::trim)
        .filter(|s| !s.is_empty())
    {
        let Some(how) = statement.strip_prefix(ALTER_SYSTEM) else {
            sql.push(statement.to_owned());
            continue;
        };
        let Some(change) = Change::read(how) else {
            sql.push(statement.to_owned());
            continue;
        };
        let (name, value) = (change.name, change.value);
        match source(name) {
            "command line" => elsewhere.push(match value {
                Some(value) => format!(
                    "the server's command line sets {name}, which overrules ALTER SYSTEM: there give \
                     -c {name}={value} and restart (a server that pgassay launches: --set {name}={value})"
                ),
                None => format!(
                    "the server's command line sets {name}, which overrules ALTER SYSTEM: take -c {name} \
                     out of it and restart"
                ),
            }),
            own @ ("database" | "user" | "database user") => {
                let (role, database) = (of.role.as_deref(), of.database.as_deref());
                match (own, role, database) {
                    ("database", _, Some(database)) => sql.push(format!("ALTER DATABASE {database} {how}")),
                    ("user", Some(role), _) => sql.push(format!("ALTER ROLE {role} {how}")),
                    ("database user", Some(role), Some(database)) => {
                        sql.push(format!("ALTER ROLE {role} IN DATABASE {database} {how}"));
                    }
                    _ => elsewhere.push(format!(
                        "{name} is set for the {}, which overrules ALTER SYSTEM: {how} there ({})",
                        match own {
                            "database" => "database",
                            "user" => "role",
                            _ => "role in the database",
                        },
                        match own {
                            "database" => "ALTER DATABASE",
                            _ => "ALTER ROLE",
                        },
                    )),
                }
            }
            // Set by the client itself: in its connection string, by PGOPTIONS, by its driver, or by SET.
            "client" | "session" => elsewhere.push(format!(
                "the client sets {name} itself (its connection's options, PGOPTIONS, or SET): take that out"
            )),
            "environment variable" => elsewhere.push(format!(
                "the environment of the server's process sets {name}: take it out there and restart"
            )),
            _ if refused => elsewhere.push(match value {
                Some(value) => format!(
                    "allow_alter_system is off: set {name} = {value} in the configuration file that the \
                     server is managed by, and reload it"
                ),
                None => format!(
                    "allow_alter_system is off: take {name} out of the configuration file that the server \
                     is managed by, and reload it"
                ),
            }),
            // RESET takes out what ALTER SYSTEM has written, and leaves what stands in the other files.
            "configuration file" if value.is_none() => {
                altered = true;
                match default_of(name) {
                    Some(default) => sql.push(format!("{ALTER_SYSTEM}SET {name} = {default}")),
                    None => {
                        sql.push(statement.to_owned());
                        elsewhere.push(format!(
                            "if {name} keeps its value, it stands in postgresql.conf or a file that this includes (pg_settings.sourcefile): take it out there and reload"
                        ));
                    }
                }
            }
            _ => {
                altered = true;
                sql.push(statement.to_owned());
            }
        }
    }
    let as_it_was = sql.iter().map(String::as_str).eq(statements
        .split(';')
        .map(str::trim)
        .filter(|s| !s.is_empty()));
    if as_it_was && elsewhere.is_empty() {
        return vec![step];
    }
    if elsewhere.is_empty()
        && sql
            .iter()
            .all(|s| s.starts_with(ALTER_SYSTEM) || s == RELOAD)
    {
        let comment = comment.map_or_else(String::new, |comment| format!("   -- {comment}"));
        return vec![Step {
            kind: StepKind::Sql,
            text: format!("{};{comment}", sql.join("; ")),
        }];
    }
    // Files are read again for what was written into them.
    if !altered {
        sql.retain(|statement| statement != RELOAD);
    }
    let mut steps = Vec::new();
    if !sql.is_empty() {
        let comment = match (altered, comment) {
            (true, Some(comment)) => format!("   -- {comment}"),
            (true, None) => String::new(),
            (false, _) => "   -- for new sessions".to_owned(),
        };
        steps.push(Step {
            kind: StepKind::Sql,
            text: format!("{};{comment}", sql.join("; ")),
        });
    }
    steps.extend(elsewhere.into_iter().map(|text| Step {
        kind: StepKind::Advice,
        text,
    }));
    steps
}

/// Values that releases come with, of settings that remedies put back (PostgreSQL manual, "Query Planning", "Client Connection
/// Defaults" and "Replication"); none that differ from one release to another.
const DEFAULTS: &[(&str, &str)] = &[
    ("bytea_output", "'hex'"),
    ("constraint_exclusion", "'partition'"),
    ("cpu_index_tuple_cost", "0.005"),
    ("cpu_operator_cost", "0.0025"),
    ("cpu_tuple_cost", "0.01"),
    ("cursor_tuple_fraction", "0.1"),
    ("default_statistics_target", "100"),
    ("enable_partitionwise_aggregate", "off"),
    ("enable_partitionwise_join", "off"),
    ("from_collapse_limit", "8"),
    ("geqo", "on"),
    ("geqo_threshold", "12"),
    ("jit_above_cost", "100000"),
    ("join_collapse_limit", "8"),
    ("parallel_setup_cost", "1000"),
    ("parallel_tuple_cost", "0.1"),
    ("plan_cache_mode", "'auto'"),
    ("seq_page_cost", "1"),
    ("vacuum_defer_cleanup_age", "0"),
];

fn default_of(name: &str) -> Option<&'static str> {
    let known = DEFAULTS.iter().find(|(known, _)| *known == name);
    known
        .map(|(_, default)| *default)
        .or_else(|| name.starts_with("enable_").then_some("on"))
}

/// What follows `ALTER SYSTEM`.
pub(super) struct Change<'t> {
    pub(super) name: &'t str,
    /// None where it is reset.
    pub(super) value: Option<&'t str>,
}

/// The settings that a step changes in the whole server.
pub(super) fn changes(step: &Step) -> impl Iterator<Item = Change<'_>> {
    let sql = match step.kind {
        StepKind::Sql => step.text.split("   -- ").next().unwrap_or_default(),
        _ => "",
    };
    let statements = sql.split(';').map(str::trim);
    statements.filter_map(|statement| Change::read(statement.strip_prefix(ALTER_SYSTEM)?))
}

impl<'t> Change<'t> {
    fn read(how: &'t str) -> Option<Self> {
        if let Some(name) = how.strip_prefix("RESET ") {
            return Some(Self {
                name: name.trim(),
                value: None,
            });
        }
        let (name, value) = how.strip_prefix("SET ")?.split_once('=')?;
        Some(Self {
            name: name.trim(),
            value: Some(value.trim().trim_matches('\'')),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_has_is_overruled_not_reset() {
        let of = |text: &str, name: &str, source: &str| fitted(text, &[(name, "off", source)]);
        let text = "ALTER SYSTEM RESET enable_bitmapscan; SELECT pg_reload_conf();   -- on";
        assert_eq!(
            of(text, "enable_bitmapscan", "configuration file"),
            [(
                StepKind::Sql,
                "ALTER SYSTEM SET enable_bitmapscan = on; SELECT pg_reload_conf();   -- on"
                    .to_owned()
            )]
        );
        assert_eq!(of(text, "enable_bitmapscan", "")[0].1, text);
        let text = "ALTER SYSTEM RESET temp_buffers; SELECT pg_reload_conf();";
        let told = of(text, "temp_buffers", "configuration file");
        assert!(
            told[0]
                .1
                .starts_with("ALTER SYSTEM RESET temp_buffers; SELECT"),
            "{told:?}"
        );
        assert!(told[1].1.contains("pg_settings.sourcefile"), "{told:?}");
    }

    /// The steps that become of a statement where these settings come from there.
    fn fitted(text: &str, settings: &[(&str, &str, &str)]) -> Vec<(StepKind, String)> {
        let mut steps = vec![Step {
            kind: StepKind::Sql,
            text: text.to_owned(),
        }];
        let of = SettingsOf {
            role: Some("app".to_owned()),
            database: Some("\"My shop\"".to_owned()),
        };
        fit(&mut steps, &of, |name| {
            let found = settings.iter().find(|(known, ..)| *known == name)?;
            Some((found.1, found.2))
        });
        steps
            .into_iter()
            .map(|step| (step.kind, step.text))
            .collect()
    }

    const WAL: &str = "ALTER SYSTEM SET max_wal_size = '4GB'; SELECT pg_reload_conf();";

    #[test]
    fn what_files_and_defaults_set_is_altered_as_it_was() {
        for source in ["default", "configuration file"] {
            let steps = fitted(WAL, &[("max_wal_size", "1024", source)]);
            assert_eq!(steps, [(StepKind::Sql, WAL.to_owned())]);
        }
        assert_eq!(fitted(WAL, &[]), [(StepKind::Sql, WAL.to_owned())]);
        let other = "VACUUM t;   -- and ALTER TABLE";
        assert_eq!(fitted(other, &[])[0].1, other);
    }

    #[test]
    fn what_the_command_line_sets_is_changed_there() {
        let steps = fitted(WAL, &[("max_wal_size", "1024", "command line")]);
        let [(StepKind::Advice, text)] = steps.as_slice() else {
            panic!("{steps:?}");
        };
        assert!(text.contains("-c max_wal_size=4GB"), "{text}");
        let reset = fitted(
            "ALTER SYSTEM RESET jit_above_cost; SELECT pg_reload_conf();   -- 100000",
            &[("jit_above_cost", "1", "command line")],
        );
        assert!(reset[0].1.contains("take -c jit_above_cost"), "{reset:?}");
    }

    #[test]
    fn what_a_role_or_a_database_sets_is_changed_there() {
        let of = |source| {
            fitted(WAL, &[("max_wal_size", "1024", source)])[0]
                .1
                .clone()
        };
        assert_eq!(
            of("database"),
            "ALTER DATABASE \"My shop\" SET max_wal_size = '4GB';   -- for new sessions"
        );
        assert!(of("user").starts_with("ALTER ROLE app SET"));
        assert!(of("database user").starts_with("ALTER ROLE app IN DATABASE \"My shop\" SET"));
        let mut steps = vec![Step {
            kind: StepKind::Sql,
            text: WAL.to_owned(),
        }];
        fit(&mut steps, &SettingsOf::default(), |_| {
            Some(("1024", "user"))
        });
        assert_eq!((steps.len(), steps[0].kind), (1, StepKind::Advice));
        assert!(!steps[0].text.contains('…'), "{steps:?}");
        assert!(
            fitted(WAL, &[("max_wal_size", "1", "client")])[0]
                .1
                .contains("PGOPTIONS")
        );
    }

    #[test]
    fn several_statements_part_where_their_settings_do() {
        let both = "ALTER SYSTEM SET bgwriter_lru_maxpages = 1000; \
                    ALTER SYSTEM SET bgwriter_delay = '50ms'; SELECT pg_reload_conf();   -- why";
        let steps = fitted(both, &[("bgwriter_delay", "200", "command line")]);
        assert_eq!(
            steps[0].1,
            "ALTER SYSTEM SET bgwriter_lru_maxpages = 1000; SELECT pg_reload_conf();   -- why"
        );
        assert!(steps[1].1.contains("-c bgwriter_delay=50ms"), "{steps:?}");
    }

    #[test]
    fn a_server_that_refuses_it_is_not_told_to() {
        let steps = fitted(WAL, &[("allow_alter_system", "off", "configuration file")]);
        assert!(
            steps[0]
                .1
                .contains("set max_wal_size = 4GB in the configuration file"),
            "{steps:?}"
        );
        assert_eq!(steps.len(), 1);
    }
}
