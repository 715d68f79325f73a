//! What a statement is to a transaction.

use pgassay_text::sql;

use crate::log::message::Statement;

/// Whether a statement is no work by itself: it begins or ends a transaction, or sets something of the session.
pub fn is_frame(text: &str) -> bool {
    matches!(
        kind(text),
        Kind::Begin | Kind::Commit | Kind::Rollback | Kind::Setting
    )
}

/// Whether a statement is one of a load: neither a frame nor one that changes what there is.
pub fn is_work(text: &str) -> bool {
    matches!(kind(text), Kind::Work)
}

/// Whether a statement moves a cursor: it has no parameters.
pub(crate) fn is_of_cursor(text: &str) -> bool {
    let first = text[sql::before_token(text)..]
        .split(|c: char| !c.is_alphanumeric())
        .next();
    first.is_some_and(|word| {
        ["fetch", "move", "close"]
            .iter()
            .any(|of| word.eq_ignore_ascii_case(of))
    })
}

/// What a statement is to a transaction.
pub(crate) enum Kind {
    Begin,
    Commit,
    Rollback,
    /// Of the session alone.
    Setting,
    /// It changes what there is, or moves data in bulk, or is damaged: why it can't be taken.
    Unfit(String),
    Work,
}

fn utility(word: &str) -> Kind {
    Kind::Unfit(format!("{word} is no statement of a load"))
}

/// What a statement of a log is, which may be damaged.
pub(crate) fn kind_of(statement: &Statement) -> Kind {
    let mut parameters = statement.parameters.iter().flatten();
    if statement.text.contains('\0') || parameters.any(|value| value.contains('\0')) {
        return Kind::Unfit("a zero byte in its text".to_owned());
    }
    match (kind(&statement.text), statement.doubt) {
        (Kind::Work, Some(doubt)) => Kind::Unfit(doubt.words().to_owned()),
        (kind, _) => kind,
    }
}

fn kind(text: &str) -> Kind {
    // What frameworks write in front, such as the page that asked, is no word of the statement.
    let mut words = text[sql::before_token(text)..]
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase);
    let first = words.next().unwrap_or_default();
    match first.as_str() {
        "begin" | "start" => Kind::Begin,
        "commit" | "end" => match words.next().as_deref() {
            Some("prepared") => utility("COMMIT PREPARED"),
            _ => Kind::Commit,
        },
        "rollback" | "abort" => match words
            .find(|word| word != "transaction" && word != "work")
            .as_deref()
        {
            Some("to") => Kind::Work,
            _ => Kind::Rollback,
        },
        "set" | "show" | "reset" | "discard" | "deallocate" | "listen" | "unlisten" => {
            match words.next().as_deref() {
                Some("local") => Kind::Work,
                _ => Kind::Setting,
            }
        }
        "select" | "insert" | "update" | "delete" | "merge" | "with" | "values" | "table"
        | "call" | "savepoint" | "release" | "lock" | "notify" | "do" => Kind::Work,
        "declare" => Kind::Work,
        // The server numbers those that functions return: the next one has another name.
        "fetch" | "move" | "close" if text.contains("<unnamed portal") => {
            Kind::Unfit("a cursor that a function returned".to_owned())
        }
        "fetch" | "move" | "close" => Kind::Work,
        "copy" => Kind::Unfit("COPY, whose rows are not in the log".to_owned()),
        "" => Kind::Setting,
        other => utility(&other.to_ascii_uppercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_known_by_its_first_word_behind_comments() {
        for text in [
            "SELECT 1",
            "/* page 12: begin */ SELECT 1",
            "-- commit\n  /* a /* b */ c */ select 1",
            "(SELECT 1)",
        ] {
            assert!(is_work(text), "{text}");
        }
        for text in [
            "/* select */ BEGIN",
            "-- select\nCOMMIT",
            "-- ping",
            "/* never ends",
        ] {
            assert!(is_frame(text), "{text}");
        }
        assert!(!is_work("/* select */ VACUUM t") && !is_frame("/* select */ VACUUM t"));
    }
}
