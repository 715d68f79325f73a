//! Order entry: nine tables of a wholesaler, filled over several connections.
//!
//! Tables and contents are those that the TPC-C specification (revision 5.11) describes, its clauses
//! 1.3 and 4.3.3. A piece, such as the orders of a district, is filled in a transaction of its own,
//! so that no statement lasts long; what a killed load leaves lies in our schema, whose comment lists
//! it, and is removed by the next run.

mod rows;
mod skew;
mod tables;

use anyhow::{Context, bail};

use super::parallel::{self, Loaded, Underway, Work};
use super::schema::SCHEMA;
use super::schema::note;
use pgassay_pgwire::Session;
use pgassay_sys::stop::Stop;
use rows::{Piece, Rows};

pub use tables::bytes;

/// The names of its tables.
pub(crate) fn table_names() -> impl Iterator<Item = String> {
    tables::TABLES.iter().map(|(name, _)| (*name).to_owned())
}

/// The name of the workload.
pub const NAME: &str = "order-entry";
/// Its name where the transactions are procedures in the server.
pub const PROCEDURES: &str = "order-entry-procedures";

/// Makes and fills the tables in our schema; `progress` is told the share done, 0 to 1.
///
/// # Errors
/// Where the server refuses, naming what, or a stop was asked for.
pub(super) fn fill(
    session: &mut Session,
    warehouses: u32,
    progress: &mut dyn FnMut(f64),
    stop: &Stop,
) -> anyhow::Result<()> {
    session.execute("BEGIN")?;
    for statement in tables::create() {
        session
            .execute(&statement)
            .with_context(|| format!("cannot make the tables: {statement}"))?;
    }
    note(session)?;
    session.execute("COMMIT")?;
    let connector = session.connector().cloned();
    let connector = connector.context("how this session was connected")?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let pieces = rows::pieces(warehouses);
    Work {
        connector: &connector,
        workers: parallel::workers(pieces.len(), processors),
        jobs: &pieces,
        job: &fill_piece,
        last: &|_| Ok(()),
        rows: pieces.iter().map(|piece| piece.rows()).sum(),
    }
    .run(&mut |loaded| progress(0.7 * share(loaded)), stop)?;
    // What is committed here waits for its WAL, and with it for all that was committed before.
    for (from, to, statements) in [(0.7, 0.9, tables::indexes()), (0.9, 1.0, tables::vacuum())] {
        Work {
            connector: &connector,
            workers: parallel::workers(statements.len(), processors),
            jobs: &statements,
            job: &execute,
            last: &|_| Ok(()),
            rows: statements.len() as u64,
        }
        .run(&mut |done| progress(from + (to - from) * share(done)), stop)?;
    }
    Ok(())
}

fn share(loaded: Loaded) -> f64 {
    (loaded.rows as f64 / loaded.all.max(1) as f64).min(1.0)
}

/// A statement that makes an index, or vacuums.
fn execute(session: &mut Session, text: &String, underway: &Underway<'_>) -> anyhow::Result<u64> {
    session
        .execute(text)
        .with_context(|| format!("cannot make the tables: {text}"))?;
    underway.sent(1);
    Ok(1)
}

/// Fills one piece; one that is left is undone.
fn fill_piece(
    session: &mut Session,
    piece: &Piece,
    underway: &Underway<'_>,
) -> anyhow::Result<u64> {
    session.execute("BEGIN; SET LOCAL synchronous_commit = off")?;
    let mut rows = Rows::of(*piece);
    let mut written = 0;
    for table in piece.tables() {
        let cannot = || format!("cannot fill {table}");
        let mut copy = session
            .copy_in(&format!("COPY {SCHEMA}.{table} FROM STDIN"))
            .with_context(cannot)?;
        let mut left = false;
        let sent = rows.write(table, &mut |text| {
            left = underway.must_end();
            match left {
                true => Ok(()),
                false => copy.put(text.as_bytes()),
            }
        });
        let sent = sent.with_context(cannot)?;
        if left {
            // Dropped unfinished, the copy is undone, and with it the piece.
            return Ok(0);
        }
        let taken = copy.finish().with_context(cannot)?;
        if taken != sent {
            bail!("{table} took {taken} rows, not {sent}");
        }
        written += taken;
        underway.sent(taken);
    }
    session.execute("COMMIT")?;
    Ok(written)
}
