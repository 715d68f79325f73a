//! Filling pgbench_accounts over several connections by binary COPY.
//!
//! A piece is one branch, 100,000 rows in a transaction of its own: so a load that was killed goes
//! on with the branches that are missing, no statement lasts long, and several backends write at
//! once where `pgbench -i` has one (the waits for WAL, which a COPY into its small ring of buffers
//! meets again and again, then overlap). The price: rows are not written as frozen, which only the
//! transaction that makes the table may do; the VACUUM that follows marks the pages all-visible.

use anyhow::{Context, bail};

use super::parallel::{Loaded, Underway, Work};
use pgassay_model::Failure;
use pgassay_pgwire::{Connector, Session};
use pgassay_sys::stop::Stop;

/// Accounts of a branch.
pub const ACCOUNTS: u64 = 100_000;
/// From this scale on account numbers need 64 bits.
pub const LARGE_SCALE: u32 = 20_000;
/// Rows encoded at a time.
const BATCH: u64 = 1_000;
/// What a binary COPY begins with: signature, flags, no extension.
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// And ends with.
const TRAILER: &[u8] = b"\xff\xff";

/// A table to be filled.
#[derive(Clone, Copy)]
pub struct Filling<'a> {
    /// Makes connections that find the table by its name.
    pub connector: &'a Connector,
    /// The table's name.
    pub table: &'a str,
    /// Whether account numbers have 64 bits.
    pub large: bool,
    /// The branches to be written, from 1.
    pub branches: &'a [u64],
    /// Connections.
    pub workers: usize,
}

/// Fills the accounts of some branches.
///
/// # Errors
/// Where the server refuses or a connection breaks; the branches that were done stay.
pub fn fill_accounts(
    filling: Filling<'_>,
    progress: &mut dyn FnMut(Loaded),
    stop: &Stop,
) -> anyhow::Result<u64> {
    let Filling {
        connector,
        table,
        large,
        branches,
        workers,
    } = filling;
    let job = |session: &mut Session, branch: &u64, underway: &Underway<'_>| {
        fill_branch(session, (table, large), *branch, underway)
    };
    let all = branches.len() as u64 * ACCOUNTS;
    let work = Work {
        connector,
        workers,
        jobs: branches,
        job: &job,
        last: &settle,
        rows: all,
    };
    let rows = work.run(progress, stop)?;
    if rows != all {
        bail!("{table} took {rows} rows, not {all}");
    }
    Ok(rows)
}

/// The branches (from 1 to `scale`) that a load which was stopped has left out.
///
/// # Errors
/// Where the server refuses, or a branch is there in part: another program wrote it.
pub fn missing_branches(
    session: &mut Session,
    table: &str,
    scale: u32,
) -> anyhow::Result<Vec<u64>> {
    let rows = session.rows(&format!(
        "SELECT bid, pg_catalog.count(*) FROM {table} GROUP BY bid"
    ))?;
    let mut there = vec![false; scale as usize + 1];
    for row in &rows.rows {
        let number = |at: usize| -> Option<u64> { row.get(at)?.as_deref()?.parse().ok() };
        let (Some(bid), Some(count)) = (number(0), number(1)) else {
            bail!("{table} has rows of no branch");
        };
        match there.get_mut(bid as usize) {
            Some(mark) if bid > 0 && count == ACCOUNTS => *mark = true,
            _ => bail!(
                Failure::usage(format!(
                    "branch {bid} of {table} has {count} accounts: this is no load of scale {scale} \
                     that was stopped"
                ))
                .with_remedy("make the tables anew, without --resume")
            ),
        }
    }
    Ok((1..=u64::from(scale))
        .filter(|bid| !there[*bid as usize])
        .collect())
}

/// Checks that the accounts are those of a scale: with a primary key and the number of rows that
/// COPY reported, first and last leave room for no other.
///
/// # Errors
/// Where they are not.
pub fn check_accounts(session: &mut Session, table: &str, scale: u32) -> anyhow::Result<()> {
    let ends = session.rows(&format!(
        "SELECT pg_catalog.min(aid), pg_catalog.max(aid) FROM {table}"
    ))?;
    let found: Vec<Option<u64>> = ends
        .rows
        .first()
        .into_iter()
        .flatten()
        .map(|value| value.as_deref().and_then(|text| text.parse().ok()))
        .collect();
    let last = u64::from(scale) * ACCOUNTS;
    if found != [Some(1), Some(last)] {
        bail!("{table} goes from {found:?}, not from 1 to {last}");
    }
    Ok(())
}

/// Fills one branch; says how many rows it has. One that is left is undone.
fn fill_branch(
    session: &mut Session,
    (table, large): (&str, bool),
    branch: u64,
    underway: &Underway<'_>,
) -> anyhow::Result<u64> {
    // No branch is waited for to reach the disk; at the end all of a session's are. For the
    // transaction only: a pooler may give the connection to somebody else after it.
    session.execute("BEGIN; SET LOCAL synchronous_commit = off")?;
    let mut copy = session
        .copy_in(&format!("COPY {table} FROM STDIN (FORMAT binary)"))
        .with_context(|| format!("cannot fill {table}"))?;
    copy.put(SIGNATURE)?;
    let mut rows = Rows::of_branch(branch, large);
    for _ in 0..ACCOUNTS / BATCH {
        if underway.must_end() {
            // Dropped unfinished, the copy is undone.
            return Ok(0);
        }
        copy.put(rows.batch())?;
        underway.sent(BATCH);
    }
    copy.put(TRAILER)?;
    let taken = copy.finish()?;
    if taken != ACCOUNTS {
        bail!("branch {branch} of {table} took {taken} rows");
    }
    session.execute("COMMIT")?;
    Ok(taken)
}

/// SQLSTATE of a function that the server does not have.
const UNDEFINED_FUNCTION: &str = "42883";

/// A commit that is waited for, and with it all that this session committed before.
fn settle(session: &mut Session) -> anyhow::Result<()> {
    let message = "SELECT pg_catalog.pg_logical_emit_message(true, 'pgassay', '')";
    match session.value(message) {
        // Up to 9.5 there are no messages; the catalogs' rows of a table are WAL as well.
        Err(error) if error.sqlstate() == Some(UNDEFINED_FUNCTION) => session.execute(
            "CREATE TEMPORARY TABLE pgassay_settled (); DROP TABLE pg_temp.pgassay_settled",
        )?,
        said => {
            said?;
        }
    }
    Ok(())
}

/// Rows of one branch in COPY's binary format. All are of one length and differ in their number
/// only, so that a batch is written once and then counted up in place.
struct Rows {
    bytes: Vec<u8>,
    length: usize,
    large: bool,
    next: u64,
}

impl Rows {
    fn of_branch(branch: u64, large: bool) -> Self {
        let mut row = Vec::new();
        let mut field = |value: &[u8]| {
            row.extend_from_slice(&(value.len() as i32).to_be_bytes());
            row.extend_from_slice(value);
        };
        // The number, to be written over.
        field(if large { &[0; 8] } else { &[0; 4] });
        field(&(branch as i32).to_be_bytes());
        field(&0_i32.to_be_bytes());
        // The filler: the server pads it with blanks.
        field(b"");
        let mut whole = 4_i16.to_be_bytes().to_vec();
        whole.append(&mut row);
        Self {
            length: whole.len(),
            bytes: whole.repeat(BATCH as usize),
            large,
            next: (branch - 1) * ACCOUNTS + 1,
        }
    }

    /// The next rows.
    fn batch(&mut self) -> &[u8] {
        // The number lies behind the count of fields and its own length.
        const AT: usize = 2 + 4;
        for row in self.bytes.chunks_exact_mut(self.length) {
            if self.large {
                row[AT..AT + 8].copy_from_slice(&(self.next as i64).to_be_bytes());
            } else {
                row[AT..AT + 4].copy_from_slice(&(self.next as i32).to_be_bytes());
            }
            self.next += 1;
        }
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_has_its_numbers_and_no_others() {
        let mut rows = Rows::of_branch(3, false);
        let first = rows.batch().to_vec();
        let length = 2 + 8 + 8 + 8 + 4;
        assert_eq!(first.len(), length * 1000);
        let expected = [
            &[0, 4, 0, 0, 0, 4][..],
            &200_001_i32.to_be_bytes(),
            &[0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        assert_eq!(&first[..length], expected);
        for _ in 1..ACCOUNTS / BATCH {
            rows.batch();
        }
        assert_eq!(rows.next, 300_001);
        let mut large = Rows::of_branch(30_000, true);
        assert_eq!(large.batch()[6..14], 2_999_900_001_i64.to_be_bytes());
    }
}
