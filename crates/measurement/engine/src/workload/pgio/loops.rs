//! The loops inside the server: ours, with plans that are kept and a commit for
//! each update, and one that works the way PGIO's does.

use anyhow::Context;

use super::config::Config;
use super::tables::{SCHEMA, mark, table};
use pgassay_pgwire::{ResultSet, Session};

/// The longest call on a server of somebody else, and the usual one: a statement
/// lasts at most a second, so that a killed client leaves nothing running.
pub const LONGEST_CALL_US: u64 = 900_000;

/// What one call did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Called {
    /// SELECTs.
    pub selects: u64,
    /// UPDATEs.
    pub updates: u64,
    /// The longest SELECT and UPDATE, in microseconds.
    pub longest_us: (u64, u64),
    /// Blocks of the table and of its index that the session looked at.
    pub fetched: (u64, u64),
    /// Those among them that were in shared buffers.
    pub hit: (u64, u64),
    /// From the loop's start to its end, in microseconds.
    pub elapsed_us: u64,
}

/// Makes the loops for the tables. A session's own buffer usage is what
/// `pg_stat_get_xact_blocks_fetched` grew by: it counts from the last time that
/// the session reported its statistics, which no statement does before its end.
///
/// # Errors
/// Where the server refuses.
pub fn create(
    session: &mut Session,
    config: &Config,
    classic: bool,
    version: u32,
) -> anyhow::Result<()> {
    if classic {
        define(
            session,
            &classic_random(),
            &format!("{SCHEMA}.random_key(bigint, bigint)"),
            "FUNCTION",
        )?;
        let arguments = "text, integer, bigint, bigint, bigint, bigint";
        let signature = format!("{SCHEMA}.classic({arguments})");
        return define(session, &classic_loop(), &signature, "FUNCTION");
    }
    let kind = if version >= 110_000 {
        "PROCEDURE"
    } else {
        "FUNCTION"
    };
    for number in 1..=config.tables {
        let signature = format!("{SCHEMA}.units{number}(text, bigint, bigint, bigint)");
        define(session, &units(number, config, kind), &signature, kind)?;
    }
    Ok(())
}

fn define(session: &mut Session, text: &str, signature: &str, kind: &str) -> anyhow::Result<()> {
    session
        .execute(&format!(
            "BEGIN; {text}; COMMENT ON {kind} {signature} IS '{}'; COMMIT",
            mark()
        ))
        .with_context(|| format!("cannot define {signature}"))
}

/// One loop a table: static SQL, so that the plans are made once.
fn units(number: u32, config: &Config, kind: &str) -> String {
    let name = table(number);
    let index = format!("{SCHEMA}.pgio{number}_idx");
    let rows = config.rows;
    let (width, update_width) = (config.work_unit, config.update_work_unit);
    let share = config.update_pct;
    let (commit, head, end) = match kind {
        "PROCEDURE" => ("COMMIT;", "INOUT result text", ""),
        _ => ("", "result text", "RETURN result;"),
    };
    let returns = if kind == "PROCEDURE" {
        ""
    } else {
        "RETURNS text VOLATILE"
    };
    // 61 has no divisor in common with 100: each hundred operations has exactly
    // its share of updates, spread evenly.
    let update = match share {
        0 => String::new(),
        _ => format!(
            "IF (first + n) * 61 % 100 < {share} THEN
               k := 1 + floor(random() * {})::bigint;
               UPDATE {name} SET scratch = scratch + 1 WHERE mykey BETWEEN k AND k + {update_width};
               {commit}
               updates := updates + 1;
               now := clock_timestamp();
               IF now - before > longest_update THEN longest_update := now - before; END IF;
             ELSE",
            rows - update_width
        ),
    };
    let end_if = if share == 0 { "" } else { "END IF;" };
    format!(
        "CREATE OR REPLACE {kind} {SCHEMA}.units{number}({head}, microseconds bigint, most bigint, first bigint)
         {returns} LANGUAGE plpgsql AS $loop$
         DECLARE
           heap CONSTANT oid := '{name}'::regclass;
           idx CONSTANT oid := '{index}'::regclass;
           started CONSTANT timestamptz := clock_timestamp();
           ending CONSTANT timestamptz := started + microseconds * interval '1 microsecond';
           fetched bigint[] := ARRAY[pg_stat_get_xact_blocks_fetched(heap), pg_stat_get_xact_blocks_fetched(idx),
             pg_stat_get_xact_blocks_hit(heap), pg_stat_get_xact_blocks_hit(idx)];
           before timestamptz := started;
           now timestamptz := started;
           longest_select interval := '0';
           longest_update interval := '0';
           selects bigint := 0;
           updates bigint := 0;
           n bigint := 0;
           k bigint;
           total numeric;
         BEGIN
           LOOP
             {update}
               k := 1 + floor(random() * {})::bigint;
               SELECT sum(scratch) INTO total FROM {name} WHERE mykey BETWEEN k AND k + {width};
               selects := selects + 1;
               now := clock_timestamp();
               IF now - before > longest_select THEN longest_select := now - before; END IF;
             {end_if}
             before := now;
             n := n + 1;
             EXIT WHEN now >= ending OR n >= most;
           END LOOP;
           result := concat_ws(' ', selects, updates,
             (extract(epoch FROM longest_select) * 1000000)::bigint, (extract(epoch FROM longest_update) * 1000000)::bigint,
             pg_stat_get_xact_blocks_fetched(heap) - fetched[1], pg_stat_get_xact_blocks_fetched(idx) - fetched[2],
             pg_stat_get_xact_blocks_hit(heap) - fetched[3], pg_stat_get_xact_blocks_hit(idx) - fetched[4],
             (extract(epoch FROM now - started) * 1000000)::bigint);
           {end}
         END $loop$",
        rows - width
    )
}

/// Draws keys by a function of its own, as PGIO does.
fn classic_random() -> String {
    format!(
        "CREATE OR REPLACE FUNCTION {SCHEMA}.random_key(low bigint, high bigint) RETURNS bigint
         LANGUAGE plpgsql STRICT AS $key$
         BEGIN
           RETURN trunc(low + random() * (high - low));
         END $key$"
    )
}

/// PGIO's way, from the description of what it does: one loop in one transaction
/// for the whole time; each statement put together as text, parsed and planned;
/// each timed as a numeric of seconds.
fn classic_loop() -> String {
    format!(
        "CREATE OR REPLACE FUNCTION {SCHEMA}.classic(relation text, share integer, microseconds bigint,
           blocks bigint, select_width bigint, update_width bigint) RETURNS text
         LANGUAGE plpgsql AS $loop$
         DECLARE
           heap CONSTANT oid := relation::regclass;
           idx CONSTANT oid := (relation || '_idx')::regclass;
           started CONSTANT timestamp := clock_timestamp();
           ending CONSTANT timestamp := started + microseconds * interval '1 microsecond';
           fetched bigint[] := ARRAY[pg_stat_get_xact_blocks_fetched(heap), pg_stat_get_xact_blocks_fetched(idx),
             pg_stat_get_xact_blocks_hit(heap), pg_stat_get_xact_blocks_hit(idx)];
           before timestamp;
           took numeric := 0;
           sum_select numeric := 0;
           sum_update numeric := 0;
           longest_select numeric := 0;
           longest_update numeric := 0;
           selects bigint := 0;
           updates bigint := 0;
           of_hundred integer := 0;
           updates_of_hundred integer := 0;
           selects_of_hundred integer := 0;
           updating boolean;
           k bigint;
           total bigint;
         BEGIN
           WHILE clock_timestamp()::timestamp < ending LOOP
             SELECT {SCHEMA}.random_key(1, blocks - select_width) INTO k;
             updating := share = 100 OR (share > 0 AND
               ((k % 2 = 0 AND updates_of_hundred < share) OR selects_of_hundred >= 100 - share));
             before := clock_timestamp();
             IF updating THEN
               EXECUTE 'UPDATE ' || relation || ' SET scratch = scratch + 1 WHERE mykey BETWEEN '
                 || k || ' AND ' || k + update_width;
               took := extract(epoch FROM clock_timestamp() - before)::numeric(12, 8);
               IF took > longest_update THEN longest_update := took; END IF;
               updates := updates + 1;
               updates_of_hundred := updates_of_hundred + 1;
               sum_update := sum_update + took;
             ELSE
               EXECUTE 'SELECT sum(scratch) FROM ' || relation || ' WHERE mykey BETWEEN '
                 || k || ' AND ' || k + select_width INTO total;
               took := extract(epoch FROM clock_timestamp() - before)::numeric(12, 8);
               IF took > longest_select THEN longest_select := took; END IF;
               selects := selects + 1;
               selects_of_hundred := selects_of_hundred + 1;
               sum_select := sum_select + took;
             END IF;
             of_hundred := of_hundred + 1;
             IF of_hundred >= 100 THEN
               of_hundred := 0;
               updates_of_hundred := 0;
               selects_of_hundred := 0;
               sum_select := 0;
               sum_update := 0;
             END IF;
           END LOOP;
           RETURN concat_ws(' ', selects, updates,
             (longest_select * 1000000)::bigint, (longest_update * 1000000)::bigint,
             pg_stat_get_xact_blocks_fetched(heap) - fetched[1], pg_stat_get_xact_blocks_fetched(idx) - fetched[2],
             pg_stat_get_xact_blocks_hit(heap) - fetched[3], pg_stat_get_xact_blocks_hit(idx) - fetched[4],
             (extract(epoch FROM clock_timestamp()::timestamp - started) * 1000000)::bigint);
         END $loop$"
    )
}

/// The statement that runs a loop for so long.
pub fn call(
    number: u32,
    config: &Config,
    classic: bool,
    version: u32,
    microseconds: u64,
    first: u64,
) -> String {
    if classic {
        return format!(
            "SELECT {SCHEMA}.classic('{}', {}, {microseconds}, {}, {}, {})",
            table(number),
            config.update_pct,
            config.rows,
            config.work_unit,
            config.update_work_unit
        );
    }
    if version >= 110_000 {
        return format!(
            "CALL {SCHEMA}.units{number}('', {microseconds}, 9223372036854775807, {first})"
        );
    }
    // A function can't commit: one unit a call then, where it updates.
    let most = if config.update_pct > 0 { 1 } else { i64::MAX };
    format!("SELECT {SCHEMA}.units{number}('', {microseconds}, {most}, {first})")
}

/// Reads what a call returned.
///
/// # Errors
/// Where it is not what the loops return.
pub fn called(result: &ResultSet) -> anyhow::Result<Called> {
    let text = result
        .rows
        .first()
        .and_then(|row| row.first()?.as_deref())
        .context("a loop returned nothing")?;
    let numbers: Vec<u64> = text
        .split(' ')
        .map(|word| {
            word.parse()
                .with_context(|| format!("`{text}` from a loop"))
        })
        .collect::<anyhow::Result<_>>()?;
    let &[
        selects,
        updates,
        select_us,
        update_us,
        heap,
        index,
        heap_hit,
        index_hit,
        elapsed_us,
    ] = numbers.as_slice()
    else {
        anyhow::bail!("`{text}` from a loop");
    };
    Ok(Called {
        selects,
        updates,
        longest_us: (select_us, update_us),
        fetched: (heap, index),
        hit: (heap_hit, index_hit),
        elapsed_us,
    })
}
