//! PGIO's own lines, to the letter, so that scripts that parse them go on.

use std::fmt::Write as _;

use pgassay_analysis::Analysis;
use pgassay_analysis::pgio::PgioAnalysis;
use pgassay_model::reading::Reading;
use pgassay_readings::samples;

/// What PGIO prints of a run, and its table of sessions after it.
pub fn render(pgio: &PgioAnalysis, analysis: &Analysis) -> String {
    let plan = &pgio.plan;
    let most = pgio.points.iter().map(|p| p.sessions).max().unwrap_or(0);
    let threads = most.div_ceil(plan.tables.max(1));
    let mut out = String::new();
    let megabytes = match plan.scale.as_str() {
        scale if scale.ends_with(|c: char| c.is_ascii_digit()) => plan.rows.to_string(),
        scale => scale.to_owned(),
    };
    let _ = writeln!(out, "Date: {}", analysis.run.started);
    let _ = writeln!(
        out,
        "Database connect string: \"{}\". ",
        plan.connect_string
    );
    let _ = writeln!(out, "Shared buffers: {}. ", plan.shared_buffers);
    let _ = writeln!(
        out,
        "Testing {} schemas with {threads} thread(s) accessing {megabytes} ({} blocks) of each schema.",
        plan.tables, plan.rows
    );
    let _ = writeln!(
        out,
        "Running iostat, vmstat and mpstat on current host--in background."
    );
    let _ = writeln!(
        out,
        "Launching sessions. {} schema(s) will be accessed by {threads} thread(s) each.",
        plan.tables
    );
    let _ = writeln!(out, "pg_stat_database stats:");
    let _ = writeln!(
        out,
        "          datname| blks_hit| blks_read|tup_returned|tup_fetched|tup_updated"
    );
    let name = datname(pgio).unwrap_or_else(|| "postgres".to_owned());
    if let Some(counters) = &pgio.counters {
        let _ = writeln!(out, "BEFORE:  {}", row(&name, &counters.before));
        let _ = writeln!(out, "AFTER:   {}", row(&name, &counters.after));
    }
    // The figures of the largest session count, by the sessions' own accounts
    // and over the time that they ran: PGIO's BEFORE is read too early.
    let peak = pgio.points.iter().find(|p| p.sessions == most);
    let (misses, hits) = peak.map_or((0.0, 0.0), |p| {
        let misses = p.misses_per_second.estimate;
        (misses, p.logical_reads_per_second.estimate - misses)
    });
    let each = &analysis.main().plan;
    let seconds = each.window_ms as f64 * f64::from(each.trials) / 1000.0;
    let _ = writeln!(
        out,
        "DBNAME:  {name}. {} schemas, {threads} threads(each). Run time: {} seconds. RIOPS >{}< CACHE_HITS/s >{}<",
        plan.tables, seconds as u64, misses as u64, hits as u64
    );
    let _ = writeln!(out);
    out.push_str(&sessions(pgio));
    out
}

/// PGIO's table of sessions, each with all its trials together.
fn sessions(pgio: &PgioAnalysis) -> String {
    let mut out = String::from(
        " mypid | loop_iterations | sql_selects | sql_updates | sql_select_max_tm | sql_update_max_tm | \
         select_blk_touch_cnt | update_blk_touch_cnt\n\
         -------+-----------------+-------------+-------------+-------------------+-------------------+\
         ----------------------+----------------------\n",
    );
    let mut pids: Vec<i32> = pgio.sessions.iter().map(|s| s.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    for pid in pids {
        let of = || pgio.sessions.iter().filter(move |s| s.pid == pid);
        let (selects, updates): (u64, u64) =
            (of().map(|s| s.selects).sum(), of().map(|s| s.updates).sum());
        let longest = |value: fn(&pgassay_model::pgio::PgioSession) -> u64| {
            of().map(value).max().unwrap_or(0) as f64 / 1e6
        };
        let _ = writeln!(
            out,
            "{pid:>6} | {:>15} | {selects:>11} | {updates:>11} | {:>17.8} | {:>17.8} | {:>20} | {:>20}",
            selects + updates,
            longest(|s| s.longest_select_us),
            longest(|s| s.longest_update_us),
            selects * (pgio.plan.work_unit + 1),
            updates * (pgio.plan.update_work_unit + 1)
        );
    }
    out
}

fn datname(pgio: &PgioAnalysis) -> Option<String> {
    let text = pgio.counters.as_ref()?.before.text()?;
    let row: serde_json::Value = serde_json::from_str(text).ok()?;
    Some(row.get("datname")?.as_str()?.to_owned())
}

fn row(name: &str, reading: &Reading) -> String {
    let value = |column| samples::counter(reading, column).unwrap_or(0);
    format!(
        "{name:<8}| {:>8} | {:>9} | {:>11} | {:>10} | {:>10}",
        value("blks_hit"),
        value("blks_read"),
        value("tup_returned"),
        value("tup_fetched"),
        value("tup_updated")
    )
}
