//! Sessions of clients by their state.

use crate::detect::prelude::*;

/// Clients' sessions by state; none where other users' states are hidden.
pub struct Clients {
    pub all: f64,
    pub idle: f64,
    pub active: f64,
    pub in_transaction: f64,
    pub oldest_idle_in_transaction_s: f64,
    pub hidden: f64,
}

pub fn clients(seen: &FactView) -> Result<Clients, NotJudged> {
    let mut clients = Clients {
        all: 0.0,
        idle: 0.0,
        active: 0.0,
        in_transaction: 0.0,
        oldest_idle_in_transaction_s: 0.0,
        hidden: 0.0,
    };
    for row in seen.rows("sessions")? {
        let n = number(&row, "sessions").unwrap_or(0.0);
        match (word(&row, "backend_type"), word(&row, "state")) {
            (Some("client backend"), Some(state)) => {
                clients.all += n;
                match state {
                    "idle" => clients.idle += n,
                    "active" => clients.active += n,
                    "idle in transaction" | "idle in transaction (aborted)" => {
                        clients.in_transaction += n;
                        let age = number(&row, "oldest_change_s").unwrap_or(0.0);
                        clients.oldest_idle_in_transaction_s =
                            clients.oldest_idle_in_transaction_s.max(age);
                    }
                    "" => clients.hidden += n,
                    _ => {}
                }
            }
            // Who may not look sees neither type nor state of others' sessions.
            (Some(""), _) => {
                clients.all += n;
                clients.hidden += n;
            }
            _ => {}
        }
    }
    Ok(clients)
}
