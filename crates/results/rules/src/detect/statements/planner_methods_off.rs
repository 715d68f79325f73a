//! Planner methods switched off for a role, a database or a function.

use crate::detect::prelude::*;

/// How a setting is taken back where it was set.
fn reset(row: &Row, name: &str) -> Option<String> {
    let of = |key: &str| word(row, key);
    Some(match (of("database"), of("role"), of("function")) {
        (_, _, Some(function)) => format!("ALTER FUNCTION {function} RESET {name};"),
        (Some(database), Some(role), _) => {
            format!("ALTER ROLE {role} IN DATABASE {database} RESET {name};")
        }
        (Some(database), None, _) => format!("ALTER DATABASE {database} RESET {name};"),
        (None, Some(role), _) => format!("ALTER ROLE {role} RESET {name};"),
        (None, None, None) => return None,
    })
}

/// Where it was set, in words.
fn set_for(row: &Row) -> String {
    let of = |key: &str| word(row, key);
    match (of("database"), of("role"), of("function")) {
        (_, _, Some(function)) => format!("the function {function}"),
        (Some(database), Some(role), _) => format!("the role {role} in the database {database}"),
        (Some(database), None, _) => format!("the database {database}"),
        (None, role, _) => format!("the role {}", role.unwrap_or("?")),
    }
}

pub fn audit(seen: &FactView) -> Judged {
    let rows = seen.rows("overrides")?;
    let off: Vec<(&Row, &str)> = rows
        .iter()
        .filter_map(|row| {
            let name = word(row, "name").filter(|name| name.starts_with("enable_"))?;
            let off = matches!(word(row, "setting"), Some("off" | "false" | "no" | "0"));
            off.then_some((row, name))
        })
        .collect();
    if off.is_empty() {
        return passed(format!(
            "none of {} settings of databases, roles and functions takes a method from the planner",
            rows.len()
        ));
    }
    let mut named: Vec<String> = off
        .iter()
        .map(|(row, name)| format!("{name} = off for {}", set_for(row)))
        .collect();
    let more = named.len().saturating_sub(6);
    named.truncate(6);
    let more = if more > 0 {
        format!(", and {more} more")
    } else {
        String::new()
    };
    let mut found = Observation::new(
        Severity::Medium,
        Confidence::High,
        format!(
            "Methods that the planner may not use: {}{more}.",
            named.join("; ")
        ),
    );
    for step in off
        .iter()
        .take(6)
        .filter_map(|(row, name)| reset(row, name))
    {
        found = found.sql(step);
    }
    found.found()
}
