//! Load through a connection pooler: what it may do there, and which server is behind it.
//!
//! A pooler hands its connections from one client to the next. So nothing is made in the server, no session
//! sets anything, and the options that keep a guest's sessions safe can't be given: what they keep from is refused.

use std::fs;

use pgassay_engine::workload::{elsewhere, guest};
use pgassay_model::Failure;
use pgassay_model::reading::Reading;
use pgassay_model::server::PoolerFacts;
use pgassay_model::warning::Warning;
use pgassay_model::workload::WorkloadPlan;
use pgassay_observe::host;
use pgassay_pgwire::Session;
use pgassay_server::inspection::live;

use super::request::Request;
use super::subject::Subject;

/// What may go through a pooler, where there is one: a load of scripts. Other loads are refused.
#[derive(Debug, Clone, Default)]
pub struct Passage {
    /// The load; none where it is another than scripts.
    pub workload: Option<WorkloadPlan>,
    /// Whether the user said how statements travel.
    pub protocol_asked: bool,
    /// Whether observers of sessions, CPUs or processes were asked for.
    pub observers_asked: bool,
    /// Whether the server is said to be a copy.
    pub is_copy: bool,
}

impl Passage {
    /// Of a run: scripts, but for an assay, which is of the server itself.
    pub fn of(request: &Request<'_>) -> Self {
        let recorded = request.again.experiment();
        let workload = recorded.map_or(&request.workload, |recorded| &recorded.plan().workload);
        Self {
            workload: (request.command == "run").then(|| workload.clone()),
            protocol_asked: request.protocol_asked || recorded.is_some(),
            observers_asked: !request.measure.observe.names().is_empty(),
            is_copy: request.target.is_copy,
        }
    }
}

/// How often it is asked which server answers: a pooler may have several.
const QUESTIONS: usize = 8;

/// Which server and session answer.
const IDENTITY: &str = "SELECT pg_catalog.inet_server_addr()::pg_catalog.text, \
     pg_catalog.inet_server_port()::pg_catalog.text, \
     EXTRACT(epoch FROM pg_catalog.pg_postmaster_start_time())::pg_catalog.text, \
     pg_catalog.pg_backend_pid()::pg_catalog.text, \
     current_user::pg_catalog.text, pg_catalog.current_database()::pg_catalog.text";

/// Looks whether a pooler answers in the server's place. Where the load may go through it, the server behind it is
/// identified, and sessions get no options from here on; true then.
///
/// # Errors
/// Why the load may not.
pub fn enter(subject: &mut Subject, passage: &Passage) -> anyhow::Result<bool> {
    let session = subject.session()?;
    if session.is_direct()? {
        return Ok(false);
    }
    let Some(workload) = &passage.workload else {
        guest::check_direct(session)?;
        return Ok(false);
    };
    check(session, workload, passage)?;
    let (facts, postmaster) = identify(session)?;
    if let Ok(pid) = &postmaster {
        subject.scene.storage = host::storage(Some(*pid), None);
    }
    subject.scene.postmaster = postmaster;
    subject.conninfo = subject.conninfo.without_options();
    subject.pooler = Some(facts);
    Ok(true)
}

/// Holds the load against what a pooler's other clients would notice.
fn check(session: &mut Session, workload: &WorkloadPlan, passage: &Passage) -> anyhow::Result<()> {
    let name = &workload.name;
    let refused = |why: String, remedy: &str| {
        let why = format!("a connection pooler answers in the server's place: {why}");
        Err(Failure::target(why).with_remedy(remedy.to_owned()).into())
    };
    if !workload.is_on_own_tables() {
        return refused(
            format!(
                "through it scripts run on tables that are there, and {name} brings tables of its own"
            ),
            "connect to the server itself: its own host and port, not the pooler's; or make the tables with pgassay \
             pgbench -i, and run a script file whose first line is -- @without-pgbench-tables",
        );
    }
    if passage.observers_asked {
        return refused(
            "--observe reads sessions and processes of the server".to_owned(),
            "leave --observe out, or connect to the server itself",
        );
    }
    if workload.protocol == "prepared" && !passage.protocol_asked {
        return refused(
            "a statement that one of its connections has prepared is not there in the next"
                .to_owned(),
            "say how statements travel: --protocol extended or simple; or --protocol prepared, where the pooler keeps \
             prepared statements (PgBouncer from 1.21 on with max_prepared_statements, or pool_mode = session)",
        );
    }
    if let Some(found) = elsewhere::session_state(workload) {
        return refused(
            format!("{name} changes its session, which others are given after it: {found}"),
            "leave such statements out (SET LOCAL within a transaction stays in it), or connect to the server itself",
        );
    }
    let reads_only = "SELECT pg_catalog.current_setting('default_transaction_read_only') = 'on' \
                      OR pg_catalog.pg_is_in_recovery()";
    let is_kept_from_writing = session.catalog_value(reads_only)?.as_deref() == Some("t");
    match passage.is_copy || is_kept_from_writing {
        true if elsewhere::only_reads(workload) => Ok(()),
        true => guest::check_synchronous(session),
        false => refused(
            format!(
                "it does not pass on the option that keeps the sessions of {name} from writing, by functions that \
                 write, say"
            ),
            "ALTER ROLE … IN DATABASE … SET default_transaction_read_only = on for the load's role, and RECONNECT in \
             the pooler; or connect to a pool of standbys; or say with --is-copy that the server is a copy",
        ),
    }
}

/// The server behind the pooler, and its first process where that is on this machine.
fn identify(session: &mut Session) -> anyhow::Result<(PoolerFacts, Result<u32, String>)> {
    let process = match session.peer_pid() {
        Some(pid) => match fs::read_to_string(format!("/proc/{pid}/comm")) {
            Ok(name) => Reading::Text(name.trim().to_owned()),
            Err(error) => Reading::Unavailable(format!("/proc/{pid}/comm: {error}")),
        },
        None => Reading::Unavailable("over TCP it is not seen which program listens".to_owned()),
    };
    let mut servers: Vec<[Option<String>; 3]> = Vec::new();
    let mut postmaster =
        Err("no process of the server behind the pooler was found on this machine".to_owned());
    for _ in 0..QUESTIONS {
        // The connection stays ours until the end of the transaction, so its process can be looked for.
        session.execute("BEGIN READ ONLY")?;
        let answer = session.rows(IDENTITY)?;
        let row = answer.rows.into_iter().next().unwrap_or_default();
        if let [address, port, started, pid, user, database] = row.as_slice() {
            let server = [address.clone(), port.clone(), started.clone()];
            if !servers.contains(&server) {
                servers.push(server);
            }
            let of = |value: &Option<String>| value.clone().unwrap_or_default();
            if let Some(found) = postmaster_here(&of(pid), &of(user), &of(database)) {
                postmaster = Ok(found);
            }
        }
        session.execute("COMMIT")?;
    }
    if servers.len() > 1 {
        postmaster = Err("the pooler has several servers".to_owned());
    }
    let identifier =
        "SELECT system_identifier::pg_catalog.text FROM pg_catalog.pg_control_system()";
    let system_identifier = match session.value(identifier) {
        Ok(Some(identifier)) => Reading::Text(identifier),
        Ok(None) => Reading::Unavailable("the server named none".to_owned()),
        Err(error) if error.is_fatal() => return Err(error.into()),
        Err(error) => Reading::Unavailable(error.to_string()),
    };
    let address = match servers.as_slice() {
        [[Some(address), Some(port), _]] => {
            // With its mask, as inet is shown.
            let address = address.split('/').next().unwrap_or(address);
            Reading::Text(format!("{address}, port {port}"))
        }
        [[None, ..]] => Reading::Unavailable("the pooler reaches it over a Unix socket".to_owned()),
        _ => Reading::Unavailable("the pooler has several servers".to_owned()),
    };
    let facts = PoolerFacts {
        process,
        servers: u32::try_from(servers.len()).unwrap_or(u32::MAX),
        address,
        system_identifier,
        postmaster: match &postmaster {
            Ok(pid) => Reading::Text(pid.to_string()),
            Err(why) => Reading::Unavailable(why.clone()),
        },
    };
    Ok((facts, postmaster))
}

/// The first process of the server whose session has this number, role and database, as its title says: the number
/// alone may be another machine's.
fn postmaster_here(backend: &str, user: &str, database: &str) -> Option<u32> {
    let backend: u32 = backend.parse().ok()?;
    let title = fs::read_to_string(format!("/proc/{backend}/cmdline")).ok()?;
    if !is_session(&title, user, database) {
        return None;
    }
    let parent = live::parent_of(backend)?;
    live::is_postmaster(parent).then_some(parent)
}

/// `postgres: 15/main: alice shop 127.0.0.1(5000) idle in transaction`
fn is_session(title: &str, user: &str, database: &str) -> bool {
    let is_title = title.starts_with("postgres:");
    is_title && title.contains(&format!(" {user} {database} "))
}

/// What the load will do, for the announcement.
pub fn announcement(pooler: &str, plan: &WorkloadPlan, clients: u32, seconds: f64) -> String {
    let stays = match plan.writes {
        true => format!("; what {} changes stays changed", plan.name),
        false => String::new(),
    };
    format!(
        "load through {pooler}: up to {} connections for {seconds:.0} seconds; nothing is made in the server{stays}",
        clients.saturating_add(plan.further_connections())
    )
}

/// What the reader of the figures has to know; `label` names the server where there are several.
pub fn warning(facts: &PoolerFacts, label: Option<&str>) -> Warning {
    let text = |reading: &Reading, what: &str| match reading {
        Reading::Text(text) => format!("{what} {text}"),
        Reading::Unavailable(why) => format!("{what} not known ({why})"),
    };
    let of = label.map_or_else(String::new, |label| format!("{label}: "));
    let program = match &facts.process {
        Reading::Text(name) => format!(", {name}"),
        Reading::Unavailable(_) => String::new(),
    };
    let behind = match facts.servers {
        1 => format!(
            "The server behind it: {}, {}.",
            text(&facts.address, "address"),
            text(&facts.system_identifier, "system identifier")
        ),
        servers => format!(
            "At least {servers} servers are behind it; settings and counters are those of one of them."
        ),
    };
    let seen = match &facts.postmaster {
        Reading::Text(_) => {
            "It runs on this machine: CPU time of the server is that of its processes; the pooler's counts as other \
             programs'."
                .to_owned()
        }
        Reading::Unavailable(why) => format!("CPU time of the server was not observed: {why}."),
    };
    Warning::new(
        "through-a-pooler",
        format!(
            "{of}This is load through a connection pooler{program}: throughput and latency are those of pooler and \
             server together. {behind} {seen} Settings and counters of the database are the server's, with whatever \
             other clients of the pooler did. Waits, CPU samples, plans and statements of the sessions were not observed."
        ),
    )
    .with_remedy("measure the server itself as well: the difference is the pooler's")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_the_session_only_by_its_title() {
        let title = "postgres: 15/main: alice shop 127.0.0.1(41234) idle in transaction";
        assert!(is_session(title, "alice", "shop"));
        assert!(is_session(
            "postgres: alice shop [local] idle",
            "alice",
            "shop"
        ));
        for (user, database) in [
            ("alic", "shop"),
            ("alice", "sho"),
            ("shop", "alice"),
            ("bob", "shop"),
        ] {
            assert!(!is_session(title, user, database), "{user} {database}");
        }
        assert!(!is_session("vi alice shop [local]", "alice", "shop"));
    }

    #[test]
    fn what_is_not_known_of_the_server_is_said() {
        let mut facts = PoolerFacts {
            process: Reading::Text("pgbouncer".to_owned()),
            servers: 1,
            address: Reading::Text("10.0.0.5, port 5432".to_owned()),
            system_identifier: Reading::Unavailable("permission denied".to_owned()),
            postmaster: Reading::Unavailable("it is elsewhere".to_owned()),
        };
        let said = warning(&facts, Some("B")).text;
        for part in [
            "B: This is load through a connection pooler, pgbouncer:",
            "address 10.0.0.5, port 5432",
            "system identifier not known (permission denied)",
            "CPU time of the server was not observed: it is elsewhere",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
        facts.servers = 3;
        facts.postmaster = Reading::Text("77".to_owned());
        let said = warning(&facts, None).text;
        assert!(
            said.contains("At least 3 servers") && said.contains("runs on this machine"),
            "{said}"
        );
        assert!(!said.contains("10.0.0.5"), "{said}");
    }
}
