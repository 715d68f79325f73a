//! What an error means that no layer below gave an exit code: what a server or its administrator
//! does to a guest is no fault of pgassay.

use pgassay_model::Failure;
use pgassay_pgwire::{ConnectError, QueryError, ServerError};

/// The error with its exit code and remedy, where it is an ordinary event.
pub fn explain(error: anyhow::Error) -> anyhow::Error {
    if Failure::of(&error).is_some() {
        return error;
    }
    let failure = match (cause::<QueryError>(&error), cause::<ConnectError>(&error)) {
        (Some(query), _) => of_statement(query),
        (None, Some(_)) => Some(Failure::target("the server can't be reached any more")),
        (None, None) => None,
    };
    match failure {
        Some(failure) => error.context(failure),
        None => error,
    }
}

/// Whether the error is that a session or the server was lost, and nobody has named a remedy yet.
pub fn is_loss(error: &anyhow::Error) -> bool {
    Failure::of(error).is_none()
        && (cause::<QueryError>(error).is_some_and(QueryError::is_fatal)
            || cause::<ConnectError>(error).is_some())
}

fn cause<T: std::error::Error + Send + Sync + 'static>(error: &anyhow::Error) -> Option<&T> {
    error.chain().find_map(|cause| cause.downcast_ref())
}

fn of_statement(error: &QueryError) -> Option<Failure> {
    if let QueryError::Server(refused) = error {
        return of_refusal(refused);
    }
    if !error.is_fatal() {
        return None;
    }
    let remedy = match error.sqlstate() {
        Some("57P01") => {
            "somebody ended it (pg_terminate_backend) or stopped the server: run it again"
        }
        Some("57P05") => {
            "raise idle_session_timeout for this role: ALTER ROLE … SET idle_session_timeout = 0"
        }
        _ if matches!(error, QueryError::Protocol(_)) => {
            "connect to the server itself, if a proxy is in between"
        }
        _ => "see the server's log for the reason, and run it again",
    };
    Some(Failure::target("the session with the server was lost").with_remedy(remedy))
}

/// What a refusal by the server asks of its user; none where the statement itself was at fault.
fn of_refusal(error: &ServerError) -> Option<Failure> {
    let (message, remedy) = match error.sqlstate.as_str() {
        "57014" if error.message.contains("statement timeout") => (
            "a statement took longer than the role may take",
            "raise statement_timeout for this role, or for this run: \
             PGOPTIONS='-c statement_timeout=1min' pgassay …",
        ),
        "57014" => ("a statement was cancelled", "run it again"),
        "55P03" => (
            "a lock was not available in time",
            "run it again when the server is less busy, or raise lock_timeout for this role",
        ),
        "2BP01" => (
            "something that pgassay did not make depends on its schema or lies in it",
            "move or drop what the server names, and run it again",
        ),
        "25006" => (
            "the session may not write",
            "connect to the primary, as a role without default_transaction_read_only",
        ),
        "42501" => (
            "the role may not do this",
            "connect as a role that may, or grant it the privilege",
        ),
        code if code.starts_with("53") => (
            "the server lacks resources",
            "see the server's log; run it again when there is room",
        ),
        _ => return None,
    };
    Some(Failure::target(message).with_remedy(remedy))
}
