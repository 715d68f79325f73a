//! The rows of a document of `pgassay lines`.

use std::path::Path;

use pgassay_lines::account::{Account, SCHEMA};
use pgassay_lines::gathered::Counts;
use pgassay_records::tables::{Line, Run, Time};
use pgassay_records::{Of, Rows, VERSION};
use pgassay_sys::input;

/// Larger files are no such document.
const LARGEST: u64 = 64 << 20;

/// Reads a document.
///
/// # Errors
/// Why it is none, in words.
pub(super) fn rows(path: &Path, of: Of) -> Result<Rows, String> {
    let text = input::read(path, LARGEST).map_err(|error| error.to_string())?;
    let account: Account = serde_json::from_slice(&text).map_err(|error| {
        format!("it is no document of pgassay lines --json with one server: {error}")
    })?;
    if account.schema != SCHEMA {
        return Err(format!("its schema is {}, not {SCHEMA}", account.schema));
    }
    let recorded: jiff::Timestamp = account
        .recorded
        .parse()
        .map_err(|_| "it does not say when it was recorded: record it again".to_owned())?;
    Ok(of_account(&account, recorded, of))
}

fn of_account(account: &Account, recorded: jiff::Timestamp, of: Of) -> Rows {
    let at = Time(recorded.as_microsecond());
    // By its seed, two recordings of the same second are told apart.
    let name = format!(
        "{}-lines-{}-{:04x}",
        recorded.strftime("%Y%m%dT%H%M%SZ"),
        account.workload,
        account.seed & 0xffff
    );
    let blank = Line {
        run: name.clone(),
        recorded: at,
        target: account.target.clone(),
        version: account.version.clone(),
        workload: account.workload.clone(),
        what: String::new(),
        name: String::new(),
        sessions: None,
        loads: None,
        stores: None,
        atomics: None,
        transfers: None,
        low: None,
        high: None,
    };
    let counted = |counts: &Counts| Line {
        what: "line".to_owned(),
        loads: Some(counts.loads),
        stores: Some(counts.stores),
        atomics: Some(counts.atomics),
        ..blank.clone()
    };
    let mut lines: Vec<Line> = account
        .lines
        .iter()
        .map(|line| Line {
            name: line.name.clone(),
            ..counted(&line.counts)
        })
        .collect();
    for at in &account.transfers {
        let transferred = |what: &str, name: &str, of: pgassay_lines::transfers::Interval| Line {
            what: what.to_owned(),
            name: name.to_owned(),
            sessions: i64::try_from(at.sessions).ok(),
            transfers: Some(of.estimate),
            low: Some(of.low),
            high: Some(of.high),
            ..blank.clone()
        };
        lines.push(transferred("all", "", at.per_transaction));
        let memory = at.lines.iter();
        lines.extend(memory.map(|line| transferred("memory", &line.name, line.per_transaction)));
        let owners = at.owners.iter();
        lines.extend(owners.map(|line| transferred("owner", &line.name, line.owned)));
    }
    let mut rows = Rows {
        run: Run {
            schema_version: VERSION,
            run: name,
            content: String::new(),
            analysed_by: of.analysed_by.to_owned(),
            measured_by: String::new(),
            command: "lines".to_owned(),
            command_line: String::new(),
            started: at,
            state: "complete".to_owned(),
            reason: Some(account.doubts.join("; ")).filter(|doubts| !doubts.is_empty()),
            elapsed_seconds: None,
            trials_measured: 0,
            trials_planned: 0,
            stage: "lines".to_owned(),
            workload: account.workload.clone(),
            work: account.workload.clone(),
            result: format!("{} lines taken a transaction", account.lines_taken),
            verdict: None,
            grade: None,
            limited_by: None,
            host: of.host.map(str::to_owned),
            machine: None,
            architecture: None,
            cpu_model: None,
            cpus: None,
            memory_bytes: None,
            page_size_bytes: None,
            kernel: None,
            distribution: None,
            virtualisation: None,
        },
        servers: Vec::new(),
        settings: Vec::new(),
        points: Vec::new(),
        trials: Vec::new(),
        metrics: Vec::new(),
        pairs: Vec::new(),
        findings: Vec::new(),
        host: None,
        audits: Vec::new(),
        traits: Vec::new(),
        lines,
    };
    rows.seal();
    rows
}
