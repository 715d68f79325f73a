//! What a client sends: the library's messages, in the groups that pgbench sends, so that the
//! server does the same work for either client.

use std::io;

use bytes::{BufMut, BytesMut};
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;

use crate::script::{Part, Slot, Sql, Var};

/// How statements travel, by pgbench's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Query: variables are written into the text.
    Simple,
    /// Parse, Bind, Describe, Execute for every execution.
    Extended,
    /// Parse once, then Bind, Describe, Execute.
    #[default]
    Prepared,
}

/// Appends a statement by the simple protocol.
pub(super) fn simple(
    sql: &Sql,
    vars: &[Var],
    text: &mut Vec<u8>,
    out: &mut BytesMut,
) -> io::Result<()> {
    text.clear();
    substitute(sql, vars, text);
    let query = std::str::from_utf8(text).map_err(io::Error::other)?;
    frontend::query(query, out)
}

/// Appends a statement's text with its variables' values.
pub(super) fn substitute(sql: &Sql, vars: &[Var], text: &mut Vec<u8>) {
    for part in &sql.parts {
        match part {
            Part::Text(piece) => text.put_slice(piece.as_bytes()),
            Part::Var(slot, name) => {
                let written = vars
                    .get(*slot as usize)
                    .is_some_and(|var| var.write_text(text));
                if !written {
                    text.put_u8(b':');
                    text.put_slice(name.as_bytes());
                }
            }
        }
    }
}

/// Appends Parse; an empty name is the unnamed statement.
pub(super) fn parse(name: &str, sql: &Sql, out: &mut BytesMut) -> io::Result<()> {
    frontend::parse(name, &sql.parametrized, [], out)
}

/// Appends Close of a statement, for one whose Parse may or may not have succeeded.
pub(super) fn close(name: &str, out: &mut BytesMut) -> io::Result<()> {
    frontend::close(b'S', name, out)
}

/// Bind, Describe and Execute of the unnamed portal for one statement, of which only the parameters
/// change: written once by the library and copied from then on. All parameters go and all results
/// come as text.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    /// Bind up to its parameters.
    head: Vec<u8>,
    /// What follows them: Bind's end, Describe and Execute.
    tail: Vec<u8>,
    /// How much of the tail is Bind's.
    bind_end: usize,
}

/// Bind's format of all results: one code, text.
const TEXT_RESULTS: [u8; 4] = [0, 1, 0, 0];

impl Run {
    /// The messages for a statement of that name with so many parameters.
    pub fn new(name: &str, params: usize) -> io::Result<Self> {
        let mut head = BytesMut::new();
        let none: [&[u8]; 0] = [];
        let no_value = |_: &[u8], _: &mut BytesMut| Ok(IsNull::Yes);
        frontend::bind("", name, [], none, no_value, [], &mut head).map_err(
            |error| match error {
                frontend::BindError::Conversion(error) => io::Error::other(error),
                frontend::BindError::Serialization(error) => error,
            },
        )?;
        // The counts of parameters and of result formats, both 0, are written anew.
        head.truncate(head.len() - 4);
        head.put_u16(u16::try_from(params).map_err(io::Error::other)?);
        let mut tail = BytesMut::from(&TEXT_RESULTS[..]);
        frontend::describe(b'P', "", &mut tail)?;
        frontend::execute("", 0, &mut tail)?;
        Ok(Run {
            head: head.to_vec(),
            tail: tail.to_vec(),
            bind_end: TEXT_RESULTS.len(),
        })
    }

    /// Appends the messages with these parameters.
    pub fn write(&self, params: &[Slot], vars: &[Var], out: &mut BytesMut) -> io::Result<()> {
        let begin = out.len();
        out.extend_from_slice(&self.head);
        for slot in params {
            let at = out.len();
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            let set = vars
                .get(*slot as usize)
                .is_some_and(|var| var.write_text(out));
            if set {
                let length = out.len() - at - 4;
                let length = i32::try_from(length).map_err(io::Error::other)?;
                out[at..at + 4].copy_from_slice(&length.to_be_bytes());
            }
        }
        out.extend_from_slice(&self.tail);
        // The length counts itself and not the type byte before it.
        let length = out.len() - (self.tail.len() - self.bind_end) - begin - 1;
        let length = i32::try_from(length).map_err(io::Error::other)?;
        out[begin + 1..begin + 5].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Value;

    #[test]
    fn what_is_copied_is_what_the_library_writes() {
        let vars = [
            Var::Value(Value::Int(-12345)),
            Var::Unset,
            Var::Text("two\u{e9}".into()),
            Var::Value(Value::Null),
        ];
        let all: &[Slot] = &[0, 1, 2, 3, 0];
        for (name, params) in [("P0_1", all), ("", &all[..1]), ("P1_7", &[])] {
            let mut expected = BytesMut::new();
            frontend::bind(
                "",
                name,
                [],
                params,
                |slot, out| {
                    let set = vars[*slot as usize].write_text(out);
                    Ok(if set { IsNull::No } else { IsNull::Yes })
                },
                [0],
                &mut expected,
            )
            .unwrap_or_else(|_| panic!("the library refuses"));
            frontend::describe(b'P', "", &mut expected).unwrap();
            frontend::execute("", 0, &mut expected).unwrap();
            let mut out = BytesMut::from(&b"before"[..]);
            let run = Run::new(name, params.len()).unwrap();
            run.write(params, &vars, &mut out).unwrap();
            assert_eq!(out[6..], expected[..], "{name}");
        }
        assert!(Run::new("many", 70_000).is_err());
    }
}
