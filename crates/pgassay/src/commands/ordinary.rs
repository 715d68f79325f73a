//! What an error means that no layer below gave an exit code, by its type: what a server, its administrator or the
//! operating system refuses is no fault of pgassay.

use std::io::{self, ErrorKind};

use pgassay_far::Lost;
use pgassay_load::{ResizeError, WireError};
use pgassay_model::{Failure, FailureKind};
use pgassay_pgwire::{ConnectError, ConninfoError, QueryError, ServerError};
use pgassay_server::TargetError;
use pgassay_sys::output::{self, WriteError};
use rustix::io::Errno;

use crate::session;

/// The error with its exit code and remedy, where it is an ordinary event.
pub fn explain(mut error: anyhow::Error) -> anyhow::Error {
    if let Some(failure) = Failure::of(&error) {
        let asked = cause::<QueryError>(&error).filter(|_| failure.remedy.is_none());
        let remedy = asked.and_then(of_statement).and_then(|found| found.remedy);
        if let (Some(_), Some(failure)) = (&remedy, error.downcast_mut::<Failure>()) {
            failure.remedy = remedy;
        }
        return error;
    }
    let failure = if let Some(query) = cause::<QueryError>(&error) {
        of_statement(query)
    } else if cause::<ConninfoError>(&error).is_some() {
        Some(Failure::usage("the connection string is wrong"))
    } else if cause::<ConnectError>(&error).is_some() {
        Some(Failure::target("the server can't be reached any more"))
    } else if let Some(fewer) = cause::<ResizeError>(&error) {
        Some(match fewer {
            ResizeError::Stopped { .. } => Failure::interrupted(),
            _ => Failure::target("not all clients can connect"),
        })
    } else if cause::<WireError>(&error).is_some() || cause::<Lost>(&error).is_some() {
        Some(Failure::target("the other side can't be understood"))
    } else if let Some(target) = cause::<TargetError>(&error) {
        Some(Failure {
            kind: target.kind(),
            ..Failure::target("the target is unavailable")
        })
    } else if let Some(unwritten) = cause::<WriteError>(&error) {
        Some(Failure::usage("a file was not written").with_remedy(unwritten.remedy()))
    } else {
        cause::<io::Error>(&error).and_then(of_system)
    };
    match failure {
        Some(failure) => error.context(failure),
        None => error,
    }
}

/// What ended a run whose finished trials are kept: the code says that it is a part, the remedy how to resume it.
pub fn in_part(error: anyhow::Error, command: &str, run: &str) -> anyhow::Error {
    let error = explain(error);
    match Failure::of(&error) {
        Some(failure) if matches!(failure.kind, FailureKind::Target | FailureKind::Usage) => {
            let resume = session::to_go_on(format!(
                "pgassay {command} --resume {run} measures the trials that are missing"
            ));
            let remedy = match &failure.remedy {
                Some(remedy) => format!("{remedy}; {resume}"),
                None => resume,
            };
            Failure::partial(format!("measured in part: {error:#}"))
                .with_remedy(remedy)
                .into()
        }
        _ => error,
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

/// What a refusal by the operating system asks of its user; none where it says that the call itself was wrong, or does
/// not come from the system.
fn of_system(error: &io::Error) -> Option<Failure> {
    let number = Errno::from_io_error(error)?;
    if let Some(why) = output::no_room(error) {
        return Some(Failure::usage(why).with_remedy("make room there, or write elsewhere"));
    }
    let failure = match (error.kind(), number) {
        (_, Errno::BADF | Errno::FAULT | Errno::INVAL | Errno::NOTSOCK) => return None,
        (_, Errno::MFILE | Errno::NFILE) => Failure::target("too many files are open")
            .with_remedy("raise the limit: ulimit -n 4096"),
        (_, Errno::NOMEM | Errno::AGAIN) => Failure::target("the system lacks resources")
            .with_remedy(
                "raise the limits on memory and processes (ulimit -a), or end other programs",
            ),
        (
            ErrorKind::PermissionDenied
            | ErrorKind::NotFound
            | ErrorKind::AlreadyExists
            | ErrorKind::IsADirectory
            | ErrorKind::NotADirectory
            | ErrorKind::DirectoryNotEmpty
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::InvalidFilename
            | ErrorKind::CrossesDevices,
            _,
        ) => Failure::usage("a file or directory can't be used")
            .with_remedy("check the paths that were given, and who may read and write there"),
        _ => Failure::target("the operating system refused"),
    };
    Some(failure)
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
        // A statement of ours that no server would take.
        code if code.starts_with("42") => return None,
        _ => (
            "the server refused a statement of pgassay",
            "see the server's log for the reason",
        ),
    };
    Some(Failure::target(message).with_remedy(remedy))
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;
    use pgassay_model::FailureKind::{Target, Usage};

    use super::*;

    fn kind(error: impl Into<anyhow::Error>) -> Option<FailureKind> {
        let error = Err::<(), _>(error.into()).context("at work").unwrap_err();
        Failure::of(&explain(error)).map(|failure| failure.kind)
    }

    #[test]
    fn what_the_system_refuses_is_no_fault_of_ours() {
        for (number, expected) in [
            (Errno::NOSPC, Some(Usage)),
            (Errno::DQUOT, Some(Usage)),
            (Errno::FBIG, Some(Usage)),
            (Errno::ACCESS, Some(Usage)),
            (Errno::PERM, Some(Usage)),
            (Errno::ROFS, Some(Usage)),
            (Errno::NOENT, Some(Usage)),
            (Errno::NOTDIR, Some(Usage)),
            (Errno::MFILE, Some(Target)),
            (Errno::NFILE, Some(Target)),
            (Errno::NOMEM, Some(Target)),
            (Errno::AGAIN, Some(Target)),
            (Errno::CONNRESET, Some(Target)),
            (Errno::IO, Some(Target)),
            (Errno::BADF, None),
            (Errno::INVAL, None),
        ] {
            assert_eq!(kind(io::Error::from(number)), expected, "{number:?}");
        }
        assert_eq!(kind(io::Error::other("a thread is gone")), None);
        assert_eq!(kind(anyhow::anyhow!("an invariant")), None);
        let unwritten = output::write("/proc/self/none".as_ref(), b"x").unwrap_err();
        assert_eq!(kind(unwritten), Some(Usage));
    }

    #[test]
    fn what_a_server_refuses_is_no_fault_of_ours_unless_the_statement_is_wrong() {
        let refused = |sqlstate: &str| {
            QueryError::Server(Box::new(ServerError {
                sqlstate: sqlstate.to_owned(),
                ..ServerError::default()
            }))
        };
        for state in [
            "XX000", "57014", "53100", "42501", "0A000", "25006", "?????",
        ] {
            assert_eq!(kind(refused(state)), Some(Target), "{state}");
        }
        for state in ["42601", "42P01", "42703"] {
            assert_eq!(kind(refused(state)), None, "{state}");
        }
        assert_eq!(kind(QueryError::TooLarge(9)), Some(Target));
        assert_eq!(kind(QueryError::Misused("x".to_owned())), None);
        let lost = TargetError::NotFound("none".to_owned());
        assert_eq!(kind(lost), Some(Target));
        assert_eq!(kind(TargetError::Usage("x".to_owned())), Some(Usage));
    }
}
