//! An error or a notice that the server reported, and how libpq shows it.

use bytes::{BufMut, BytesMut};
use fallible_iterator::FallibleIterator;
use pgassay_pgwire::Saying;
use postgres_protocol::message::backend::{ErrorFields, Message};

/// An error that the server reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The five characters.
    pub sqlstate: [u8; 5],
    /// ERROR, FATAL or PANIC; of a notice WARNING, NOTICE and the like.
    pub severity: String,
    /// The severity in the server's language.
    pub shown_severity: String,
    /// The primary message.
    pub message: String,
    /// More about it.
    pub detail: Option<String>,
    /// What can be done.
    pub hint: Option<String>,
    /// Where in the statement, in characters from 1.
    pub position: Option<usize>,
    /// The statement that the server ran by itself, and the place in it.
    pub internal: Option<(String, Option<usize>)>,
    /// The functions and statements in which it happened.
    pub context: Option<String>,
}

impl Failure {
    /// The SQLSTATE as text.
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.sqlstate).unwrap_or("?????")
    }

    /// Whether the server ends the connection after it.
    pub fn is_fatal(&self) -> bool {
        self.severity == "FATAL" || self.severity == "PANIC"
    }

    /// Reads an ErrorResponse (`E`) or NoticeResponse (`N`); what does not parse is left out, for
    /// the error itself is what counts.
    pub(super) fn read(kind: u8, body: &[u8]) -> Failure {
        let mut failure = Failure {
            sqlstate: *b"XX000",
            ..Failure::default()
        };
        let mut message = BytesMut::with_capacity(5 + body.len());
        message.put_u8(kind);
        message.put_i32(body.len() as i32 + 4);
        message.put_slice(body);
        match Message::parse(&mut message) {
            Ok(Some(Message::ErrorResponse(response))) => failure.fill(response.fields()),
            Ok(Some(Message::NoticeResponse(response))) => failure.fill(response.fields()),
            _ => {}
        }
        failure
    }

    fn fill(&mut self, mut fields: ErrorFields<'_>) {
        let mut internal_position = None;
        while let Ok(Some(field)) = fields.next() {
            let text = || String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                b'C' => {
                    if let Ok(code) = field.value_bytes().try_into() {
                        self.sqlstate = code;
                    }
                }
                b'V' => self.severity = text(),
                b'S' => self.shown_severity = text(),
                b'M' => self.message = text(),
                b'D' => self.detail = Some(text()),
                b'H' => self.hint = Some(text()),
                b'P' => self.position = text().parse().ok(),
                b'p' => internal_position = text().parse().ok(),
                b'q' => self.internal = Some((text(), None)),
                b'W' => self.context = Some(text()),
                _ => {}
            }
        }
        if let Some((_, position)) = &mut self.internal {
            *position = internal_position;
        }
        if self.severity.is_empty() {
            self.severity.clone_from(&self.shown_severity);
        }
    }

    /// All that the server said, in the lines in which libpq shows it; `statement` is what was sent,
    /// where it is known, for the place in it.
    pub fn in_full(&self, statement: Option<&str>) -> String {
        let place = match (&self.internal, self.position) {
            (_, Some(position)) => statement.map(|text| (text, position)),
            (Some((text, Some(position))), None) => Some((text.as_str(), *position)),
            _ => None,
        };
        // libpq shows where a notice comes from only when asked.
        let is_error = matches!(self.severity.as_str(), "ERROR" | "FATAL" | "PANIC");
        let internal = self.internal.as_ref().map(|(text, _)| text.as_str());
        Saying {
            severity: match self.shown_severity.as_str() {
                "" => &self.severity,
                shown => shown,
            },
            message: &self.message,
            place,
            detail: self.detail.as_deref(),
            hint: self.hint.as_deref(),
            query: internal,
            context: self.context.as_deref().filter(|_| is_error),
        }
        .lines()
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: {} (SQLSTATE {})",
            self.severity,
            self.message,
            self.code()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_libpqs_order() {
        let body =
            b"SFEHLER\0VERROR\0C22012\0Mdivision by zero\0Wfunction f()\0Hdo not\0Dby 0\0P8\0\0";
        let failure = Failure::read(b'E', body);
        assert_eq!(failure.code(), "22012");
        assert_eq!(
            failure.in_full(Some("select 1/0")),
            "FEHLER:  division by zero\nLINE 1: select 1/0\n               ^\nDETAIL:  by 0\nHINT:  do not\nCONTEXT:  function f()"
        );
        let notice = Failure::read(b'N', b"SWARNING\0VWARNING\0C01000\0Mcare\0Wsomewhere\0\0");
        assert_eq!(notice.in_full(None), "WARNING:  care");
    }
}
