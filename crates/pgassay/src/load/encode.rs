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
    let query = std::str::from_utf8(text).map_err(io::Error::other)?;
    frontend::query(query, out)
}

/// Appends Parse; an empty name is the unnamed statement.
pub(super) fn parse(name: &str, sql: &Sql, out: &mut BytesMut) -> io::Result<()> {
    frontend::parse(name, &sql.parametrized, [], out)
}

/// Appends Close of a statement, for one whose Parse may or may not have succeeded.
pub(super) fn close(name: &str, out: &mut BytesMut) -> io::Result<()> {
    frontend::close(b'S', name, out)
}

/// Appends Bind, Describe and Execute of the unnamed portal. All parameters go and all results
/// come as text.
pub(super) fn run(name: &str, params: &[Slot], vars: &[Var], out: &mut BytesMut) -> io::Result<()> {
    let bound = frontend::bind(
        "",
        name,
        [],
        params,
        |slot, out| {
            let written = vars
                .get(*slot as usize)
                .is_some_and(|var| var.write_text(out));
            Ok(if written { IsNull::No } else { IsNull::Yes })
        },
        [0],
        out,
    );
    bound.map_err(|error| match error {
        frontend::BindError::Conversion(error) => io::Error::other(error),
        frontend::BindError::Serialization(error) => error,
    })?;
    frontend::describe(b'P', "", out)?;
    frontend::execute("", 0, out)
}
