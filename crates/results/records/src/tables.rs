//! The tables: a struct each. `docs/records.md` is made from their comments.

pub use crate::schema::Time;
use crate::schema::{Table as _, TableSpec, table};

table! {
    /// One row for each recorded run.
    "runs" => Run {
        /// Version of these tables.
        schema_version: i64,
        /// Name of the run; all other tables have it, too.
        run: String,
        /// Hash of all its rows: a run that is analysed anew with another result has another.
        content: String,
        /// Version of pgassay that analysed it.
        analysed_by: String,
        /// Version of pgassay that measured it.
        measured_by: String,
        /// `assay`, `run`, `compare` …
        command: String,
        /// What was typed, without passwords.
        command_line: String,
        /// When it began.
        started: Time,
        /// `complete`, `interrupted`, `server-died`, `failed` or `running`.
        state: String,
        /// Why it did not complete, and what was damaged.
        reason: Option<String>,
        /// Seconds that the whole command took.
        elapsed_seconds: Option<f64>,
        /// Trials that count.
        trials_measured: i64,
        /// Trials that were planned.
        trials_planned: i64,
        /// The kind of its load: `load`, `primitives`, `pgio` …
        stage: String,
        /// The workload's name.
        workload: String,
        /// The same with scale, protocol and what was varied: runs of the same work can be followed.
        work: String,
        /// The result in a few words.
        result: String,
        /// A comparison's verdict: `faster`, `slower`, `equivalent`, `inconclusive`, `not-comparable`.
        verdict: Option<String>,
        /// How far it was disturbed: `good`, `fair` or `poor`.
        grade: Option<String>,
        /// What limits it most: the id of a finding.
        limited_by: Option<String>,
        /// Name of the host, as given to `pgassay export --host`.
        host: Option<String>,
        /// The machine in words: its CPUs.
        machine: Option<String>,
        /// `x86_64`, `aarch64` …
        architecture: Option<String>,
        /// The CPU's name.
        cpu_model: Option<String>,
        /// CPUs that it might use.
        cpus: Option<i64>,
        /// Memory in bytes.
        memory_bytes: Option<i64>,
        /// Base page size of the kernel in bytes.
        page_size_bytes: Option<i64>,
        /// Kernel release.
        kernel: Option<String>,
        /// The distribution's name and version.
        distribution: Option<String>,
        /// Hypervisor or virtual machine type; `none` on bare metal.
        virtualisation: Option<String>,
    }
}

table! {
    /// One row for each server of a run; a comparison has several.
    "servers" => Server {
        /// Name of the run.
        run: String,
        /// Which server of the run, from 0.
        arm: i64,
        /// Its short name in reports.
        label: String,
        /// The server in words.
        target: String,
        /// Whether pgassay launched it.
        launched: Option<bool>,
        /// What `version()` said.
        version: Option<String>,
        /// `server_version_num`, such as 180001.
        version_num: Option<i64>,
        /// Its major version: `9.6`, `18`.
        major: Option<String>,
        /// Transactions that the client counted over the whole run.
        client_transactions: Option<i64>,
        /// Transactions that the server counted.
        server_commits: Option<i64>,
    }
}

table! {
    /// One row for each setting of a server that bears on its figures, or was asked for.
    "settings" => Setting {
        /// Name of the run.
        run: String,
        /// Which server of the run, from 0.
        arm: i64,
        /// PostgreSQL's name of it.
        name: String,
        /// The value in force, with its unit; what was asked for where that could not be read.
        value: String,
        /// Where it comes from: `default`, `configuration file` …
        source: Option<String>,
        /// Whether it was asked for.
        asked: bool,
    }
}

table! {
    /// One row for each number of clients, of each load and server: its throughput.
    "points" => Point {
        /// Name of the run.
        run: String,
        /// The kind of load: `load`, `write-load`, `primitives` …
        stage: String,
        /// Which variant of the load, where it has several.
        variant: Option<String>,
        /// Which server of the run, from 0.
        arm: i64,
        /// The workload's name.
        workload: String,
        /// Clients, or sessions.
        clients: i64,
        /// The unit of the throughput, such as `tps`.
        unit: String,
        /// Throughput.
        throughput: f64,
        /// Low end of its interval.
        low: f64,
        /// High end of its interval.
        high: f64,
        /// Trials that it rests on.
        trials: i64,
        /// Whether the client, and not the server, was the limit.
        client_bound: bool,
        /// Ids of the warnings, with commas between them.
        warnings: Option<String>,
    }
}

table! {
    /// One row for each trial that was planned, also for those that were lost.
    "trials" => Trial {
        /// Name of the run.
        run: String,
        /// The kind of load.
        stage: String,
        /// Which server of the run, from 0.
        arm: i64,
        /// Clients, or sessions.
        clients: i64,
        /// Position in the schedule; null for a trial that did not begin.
        trial: Option<i64>,
        /// Which trial of its server and point, from 0; null for a trial that did not begin.
        round: Option<i64>,
        /// Whether it counts.
        counted: bool,
        /// Why it does not: `cut-short`, `disturbed`, `point-skipped`, `left-out`, or how the run ended
        /// before it began (`interrupted`, `server-died`, `failed`, `running`, `not-measured`).
        lost: Option<String>,
        /// The same in words.
        why: Option<String>,
        /// Seconds that were measured.
        seconds: Option<f64>,
        /// Units of work that ended well: transactions, or what else the load counts.
        transactions: Option<i64>,
        /// Transactions that failed.
        failures: Option<i64>,
        /// Transactions that were repeated.
        retries: Option<i64>,
        /// Units of work a second.
        throughput: Option<f64>,
    }
}

table! {
    /// One row for each metric at each number of clients, over its trials and in each of them.
    "metrics" => Metric {
        /// Name of the run.
        run: String,
        /// The kind of load.
        stage: String,
        /// Which variant of the load, where it has several.
        variant: Option<String>,
        /// Which server of the run, from 0.
        arm: i64,
        /// Clients, or sessions.
        clients: i64,
        /// Position of the trial in the schedule; null for the estimate over all trials.
        trial: Option<i64>,
        /// The metric: `throughput`, `server-cpu`, `p99` …
        metric: String,
        /// Its unit.
        unit: String,
        /// `higher` or `lower`.
        better: String,
        /// The value.
        value: f64,
        /// Low end of an estimate's interval.
        low: Option<f64>,
        /// High end of it.
        high: Option<f64>,
        /// What part of repetitions that interval holds: 0.95, or less where there are few trials.
        level: Option<f64>,
        /// Trials that an estimate rests on.
        trials: Option<i64>,
    }
}

table! {
    /// One row for each pair of slices of a comparison, and each metric that both show.
    "pairs" => Pair {
        /// Name of the run.
        run: String,
        /// Which server is held against the first, from 1.
        arm: i64,
        /// Its short name.
        label: String,
        /// Clients.
        clients: i64,
        /// `pairs`, or `noise` where equal servers were measured.
        phase: String,
        /// Which start of the servers, from 0.
        launch: i64,
        /// Which pair of it, from 0.
        round: i64,
        /// Whether A was measured first.
        a_first: bool,
        /// The metric.
        metric: String,
        /// Its unit.
        unit: String,
        /// `higher` or `lower`.
        better: String,
        /// A's value.
        a: f64,
        /// The other's.
        b: f64,
    }
}

table! {
    /// One row for each finding of a run: of its audit, and of each of its loads.
    "findings" => Finding {
        /// Name of the run.
        run: String,
        /// Where it was seen: `audit`, or the kind of load.
        seen_by: String,
        /// The load's workload.
        workload: Option<String>,
        /// The bottleneck's id in the catalogue.
        id: String,
        /// The bottleneck in a few words.
        title: String,
        /// Its family: `pages`, `memory`, `contention` …
        family: String,
        /// `high`, `medium`, `low` or `info`.
        severity: String,
        /// `high`, `medium` or `low`.
        confidence: String,
        /// What it rests on: `state`, `cpu-samples`, `wait-time` …
        basis: String,
        /// What was seen.
        saw: String,
        /// Its place among the causes that weigh, from 1; null where it is none of them.
        place: Option<i64>,
        /// The part of all time that the remedy is expected to win, as the ranking takes it, 0 to 1.
        expected_gain: Option<f64>,
        /// The part that is won without the time that is spent there, all else staying as it is, 0 to 1.
        gain_at_most: Option<f64>,
        /// The steps of the remedy, a line each.
        remedy: String,
        /// The same as JSON: a list of objects with `kind` (`shell`, `sql`, `advice`) and `text`. Null where tables of
        /// version 1 have it.
        steps: Option<String>,
    }
}

table! {
    /// One row for each run: what `pgassay fleet` holds against other hosts, of its machine and first server.
    "hosts" => Host {
        /// Name of the run.
        run: String,
        /// Hash of the machine's identity, equal in all its runs; null where nothing says.
        machine_id: Option<String>,
        /// Which of the machine's servers: its port and data directory; null for one that pgassay launched.
        server: Option<String>,
        /// The CPU's name, or the architecture where that is not known.
        cpu: Option<String>,
        /// Logical CPUs.
        cpus: Option<i64>,
        /// PostgreSQL's major version.
        major: Option<String>,
        /// What the server is for: `primary`, `standby`, `throw-away`, `unknown`, `no-server`.
        role: String,
        /// Whether an audit was made.
        audited: bool,
        /// Whether a load was looked at for what holds the server back.
        diagnosed: bool,
        /// Why the audit is not whole.
        incomplete: Option<String>,
        /// What gave its highest throughput: workload, scale and protocol.
        work: Option<String>,
        /// Clients, or sessions, at which that was reached.
        clients: Option<i64>,
        /// The highest throughput.
        throughput: Option<f64>,
        /// Low end of its interval.
        low: Option<f64>,
        /// High end of it.
        high: Option<f64>,
        /// What part of repetitions that interval holds.
        level: Option<f64>,
        /// Trials that it rests on.
        trials: Option<i64>,
        /// Its unit, such as `tps`.
        unit: Option<String>,
        /// Warnings about it, as JSON.
        warnings: Option<String>,
    }
}

table! {
    /// One row for each entry of the catalogue that a run's audit judged, whatever became of it.
    "audits" => Audit {
        /// Name of the run.
        run: String,
        /// The bottleneck's id in the catalogue.
        id: String,
        /// `finding`, `passed`, `not-applicable` or `could-not-see`.
        outcome: String,
        /// What was seen, or why nothing was.
        saw: String,
    }
}

table! {
    /// One row for each trait of a run's machine and of its first server, by which hosts of a kind are compared: kernel,
    /// CPU features, mitigations, build; settings of a server that pgassay did not launch.
    "traits" => Trait {
        /// Name of the run.
        run: String,
        /// What it is.
        name: String,
        /// How it is there.
        value: String,
    }
}

table! {
    /// One row for each shared cache line, or kind of memory, that `pgassay lines` named: accesses a
    /// transaction, and transfers a transaction at a number of sessions.
    "lines" => Line {
        /// Name of the recording.
        run: String,
        /// When it was recorded.
        recorded: Time,
        /// The server in words.
        target: String,
        /// Its version in its own words.
        version: String,
        /// What the sessions executed.
        workload: String,
        /// `line`: accesses to a line; `memory`: transfers of a kind of memory; `all`: of all memory; `owner`: how
        /// often a line goes to another owner.
        what: String,
        /// Its name.
        name: String,
        /// Sessions of the model; null for what one session was seen to do.
        sessions: Option<i64>,
        /// Reads a transaction.
        loads: Option<f64>,
        /// Writes a transaction.
        stores: Option<f64>,
        /// Atomic operations a transaction.
        atomics: Option<f64>,
        /// Transfers a transaction.
        transfers: Option<f64>,
        /// Low end of their interval.
        low: Option<f64>,
        /// High end of it.
        high: Option<f64>,
    }
}

/// All tables; the runs come last, since only what they name is there.
pub const TABLES: &[TableSpec] = &[
    Server::SPEC,
    Setting::SPEC,
    Point::SPEC,
    Trial::SPEC,
    Metric::SPEC,
    Pair::SPEC,
    Finding::SPEC,
    Host::SPEC,
    Audit::SPEC,
    Trait::SPEC,
    Line::SPEC,
    Run::SPEC,
];

/// The tables as markdown, for `docs/records.md`.
pub fn markdown() -> String {
    let mut text = String::new();
    let runs_first = TABLES
        .iter()
        .rev()
        .take(1)
        .chain(&TABLES[..TABLES.len() - 1]);
    for table in runs_first {
        text += &format!("### {}\n\n{}\n\n", table.name, table.about.trim());
        text += "| column | type | |\n|---|---|---|\n";
        for column in table.columns {
            let optional = if column.nullable { ", or null" } else { "" };
            text += &format!(
                "| `{}` | {}{optional} | {} |\n",
                column.name,
                column.kind.sql(),
                column.about.trim().replace('|', "\\|")
            );
        }
        text.push('\n');
    }
    text
}
