//! Sessions of clients, by what a session may see of others.

use crate::detect::prelude::*;

/// Sessions of clients: all, and those that are active.
pub fn sessions(seen: &FactView) -> Result<(f64, f64), NotJudged> {
    let rows = seen.rows("sessions")?;
    let clients = rows.iter().filter(|r| {
        matches!(word(r, "backend_type"), Some("client backend"))
            // Other users' rows show nothing but that they exist.
            || word(r, "backend_type") == Some("")
    });
    let (mut all, mut active) = (0.0, 0.0);
    for row in clients {
        let n = number(row, "sessions").unwrap_or(0.0);
        all += n;
        if word(row, "state") == Some("active") {
            active += n;
        }
    }
    Ok((all, active))
}
