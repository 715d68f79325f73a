//! The rows of one run, in all tables.

use std::collections::BTreeMap;

use pgassay_analysis::analyse;
use pgassay_analysis::causes::finding_of;
use pgassay_analysis::compare::{self, Compare};
use pgassay_analysis::diagnose;
use pgassay_analysis::fleet;
use pgassay_analysis::summary::Summary;
use pgassay_analysis::{Analysis, curves};
use pgassay_model::record::RecordedRun;

use crate::content::Content;
use crate::measured;
use crate::schema::{Table, Value};
use crate::tables::{
    Audit, Finding, Host, Line, Metric, Pair, Point, Run, Server, Setting, Time, Trait, Trial,
};
use crate::values::{finite, int, json, time, word};

/// Version of the tables. Columns are only ever added; this counts what an older reader could not read.
pub const VERSION: i64 = 2;

/// What is not in a run itself.
#[derive(Debug, Clone, Copy)]
pub struct Of<'a> {
    /// Version of the program that analyses it.
    pub analysed_by: &'a str,
    /// Name of its host, where one is given.
    pub host: Option<&'a str>,
}

/// The rows of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// Of the table runs.
    pub run: Run,
    /// Its servers.
    pub servers: Vec<Server>,
    /// Their settings.
    pub settings: Vec<Setting>,
    /// Throughput over clients.
    pub points: Vec<Point>,
    /// Trials, lost ones too.
    pub trials: Vec<Trial>,
    /// Metrics, over trials and in each.
    pub metrics: Vec<Metric>,
    /// Pairs of a comparison.
    pub pairs: Vec<Pair>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// Its machine and first server, as fleets are compared; none of a recording without a host.
    pub host: Option<Host>,
    /// What its audit judged.
    pub audits: Vec<Audit>,
    /// What its machine and first server are like.
    pub traits: Vec<Trait>,
    /// Shared cache lines.
    pub lines: Vec<Line>,
}

impl Rows {
    /// The rows of a recorded run, as it stands; none where it has no time at which it began.
    pub fn of(run: &RecordedRun, of: Of) -> Option<Self> {
        let started = time(&run.header.started)?;
        let compared = compare::conclude(run);
        let alone;
        let (analysis, summary) = match &compared {
            Some(compared) => (&compared.analysis, Summary::of_compare(compared)),
            None => {
                alone = analyse(run);
                let summary = Summary::of(&alone);
                (&alone, summary)
            }
        };
        let id = analysis.run.id.as_str();
        let curves = curves::of(analysis);
        let host = fleet::Host::of_run("", "", run, analysis);
        let mut rows = Self {
            run: run_row(run, analysis, &summary, started, of),
            servers: servers(id, analysis),
            settings: settings(id, analysis),
            points: measured::points(id, analysis, &curves),
            trials: measured::trials(run, analysis),
            metrics: measured::metrics(id, analysis, &curves),
            pairs: compared.as_ref().map(|c| pairs(id, c)).unwrap_or_default(),
            findings: findings(id, analysis),
            host: Some(host_row(id, &host)),
            audits: audits(id, analysis),
            traits: traits(id, host.traits),
            lines: Vec::new(),
        };
        rows.seal();
        Some(rows)
    }

    /// Writes down the hash of the rows.
    pub fn seal(&mut self) {
        self.run.content = String::new();
        let mut content = Content::new();
        self.each(|table, values| content.row(&table, values));
        self.run.content = content.text();
    }

    /// Every row, table by table.
    pub(crate) fn each(&self, mut of: impl FnMut(crate::TableSpec, &[Value<'_>])) {
        fn all<T: Table>(rows: &[T], of: &mut impl FnMut(crate::TableSpec, &[Value<'_>])) {
            for row in rows {
                of(T::SPEC, &row.values());
            }
        }
        all(&self.servers, &mut of);
        all(&self.settings, &mut of);
        all(&self.points, &mut of);
        all(&self.trials, &mut of);
        all(&self.metrics, &mut of);
        all(&self.pairs, &mut of);
        all(&self.findings, &mut of);
        all(self.host.as_slice(), &mut of);
        all(&self.audits, &mut of);
        all(&self.traits, &mut of);
        all(&self.lines, &mut of);
        all(std::slice::from_ref(&self.run), &mut of);
    }
}

fn run_row(
    run: &RecordedRun,
    analysis: &Analysis,
    summary: &Summary,
    started: Time,
    of: Of,
) -> Run {
    let host = &analysis.host;
    let info = &analysis.run;
    let reasons = info.reason.iter().chain(&run.damage).cloned();
    let reasons: Vec<String> = reasons.collect();
    Run {
        schema_version: VERSION,
        run: info.id.clone(),
        content: String::new(),
        analysed_by: of.analysed_by.to_owned(),
        measured_by: info.pgassay_version.clone(),
        command: info.command.clone(),
        command_line: info.command_line.join(" "),
        started,
        state: word(info.state),
        reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
        elapsed_seconds: info.elapsed_seconds,
        trials_measured: int(info.trials_measured),
        trials_planned: int(info.trials_planned),
        stage: word(analysis.main().id),
        workload: analysis.main().plan.workload.name.clone(),
        work: summary.work.clone(),
        result: summary.result.clone(),
        verdict: summary.verdict.map(word),
        grade: summary.quality.as_ref().map(|q| q.grade.name().to_owned()),
        limited_by: analysis.causes.first().map(|cause| cause.id.clone()),
        host: of.host.map(str::to_owned),
        machine: host.processors(),
        architecture: host.architecture.clone(),
        cpu_model: host.cpu_model.clone(),
        cpus: host.cpus.map(int),
        memory_bytes: host.memory_bytes.map(int),
        page_size_bytes: host.page_size_bytes.map(int),
        kernel: host.kernel.clone(),
        distribution: host.distribution.clone(),
        virtualisation: host.virtualisation.clone(),
    }
}

fn servers(run: &str, analysis: &Analysis) -> Vec<Server> {
    let arms = analysis.arms.iter().enumerate();
    arms.map(|(index, arm)| {
        let server = arm.server.as_ref();
        let version_num = server.and_then(|server| server.version_num);
        let commits = arm.commit_check.as_ref();
        Server {
            run: run.to_owned(),
            arm: int(index),
            label: arm.label.clone(),
            target: arm.target.clone(),
            launched: server.map(|s| !matches!(s.origin, pgassay_model::server::Origin::Running)),
            version: server.map(|server| server.version.clone()),
            version_num: version_num.map(int),
            major: version_num.map(diagnose::major),
            client_transactions: commits.map(|c| int(c.client_transactions)),
            server_commits: commits.map(|c| int(c.server_commits)),
        }
    })
    .collect()
}

fn settings(run: &str, analysis: &Analysis) -> Vec<Setting> {
    let arms = analysis.arms.iter().enumerate();
    arms.flat_map(|(index, arm)| {
        let mut asked: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, value) in &arm.settings {
            asked.insert(name, value);
        }
        let in_force = arm.server.iter().flat_map(|server| &server.settings);
        let mut rows: Vec<Setting> = in_force
            .map(|setting| Setting {
                run: run.to_owned(),
                arm: int(index),
                name: setting.name.clone(),
                value: setting.value.clone(),
                source: Some(setting.source.clone()),
                asked: asked.remove(setting.name.as_str()).is_some(),
            })
            .collect();
        // Of those that bear on figures all are read; what else was asked for is told as asked.
        rows.extend(asked.into_iter().map(|(name, value)| Setting {
            run: run.to_owned(),
            arm: int(index),
            name: name.to_owned(),
            value: value.to_owned(),
            source: None,
            asked: true,
        }));
        rows
    })
    .collect()
}

fn pairs(run: &str, compared: &Compare) -> Vec<Pair> {
    let mut rows = Vec::new();
    for result in &compared.results {
        for (phase, pairs) in [("pairs", &result.pairs), ("noise", &result.noise)] {
            for pair in pairs {
                rows.extend(pair.metrics.iter().map(|(metric, (a, b))| Pair {
                    run: run.to_owned(),
                    arm: int(result.arm),
                    label: result.label.clone(),
                    clients: int(result.clients),
                    phase: phase.to_owned(),
                    launch: int(pair.launch),
                    round: int(pair.round),
                    a_first: pair.a_first,
                    metric: metric.id.to_owned(),
                    unit: metric.unit.to_owned(),
                    better: measured::better(*metric),
                    a: *a,
                    b: *b,
                }));
            }
        }
    }
    rows
}

fn findings(run: &str, analysis: &Analysis) -> Vec<Finding> {
    let audit = analysis.check.iter().flat_map(|check| check.findings());
    let mut rows: Vec<(Finding, &diagnose::Finding)> = audit
        .map(|finding| (finding_row(run, "audit".to_owned(), None, finding), finding))
        .collect();
    for stage in &analysis.stages {
        let found = stage.diagnosis.iter().flat_map(|d| &d.findings);
        rows.extend(found.map(|finding| {
            let workload = Some(stage.plan.workload.name.clone());
            (finding_row(run, word(stage.id), workload, finding), finding)
        }));
    }
    for (place, cause) in analysis.causes.iter().enumerate() {
        let Some(of) = finding_of(analysis, cause) else {
            continue;
        };
        let row = rows
            .iter_mut()
            .find(|(_, finding)| std::ptr::eq(*finding, of));
        if let Some((row, _)) = row {
            row.place = Some(int(place + 1));
            row.expected_gain = finite(cause.expected_gain);
        }
    }
    rows.into_iter().map(|(row, _)| row).collect()
}

fn finding_row(
    run: &str,
    seen_by: String,
    workload: Option<String>,
    finding: &diagnose::Finding,
) -> Finding {
    let steps: Vec<&str> = finding
        .remedy
        .iter()
        .map(|step| step.text.as_str())
        .collect();
    Finding {
        run: run.to_owned(),
        seen_by,
        workload,
        id: finding.id.clone(),
        title: finding.title.clone(),
        family: word(finding.family),
        severity: word(finding.severity),
        confidence: word(finding.confidence),
        basis: word(finding.basis),
        saw: finding.saw.clone(),
        place: None,
        expected_gain: None,
        gain_at_most: finding.gain_at_most.and_then(finite),
        remedy: steps.join("\n"),
        steps: json(&finding.remedy),
    }
}

fn host_row(run: &str, host: &fleet::Host) -> Host {
    let measured = host.measured.as_ref();
    let rate = measured.map(|measured| &measured.rate);
    Host {
        run: run.to_owned(),
        machine_id: host.machine.clone(),
        server: host.server.clone(),
        cpu: host.kind.cpu.clone(),
        cpus: host.kind.cpus.map(int),
        major: host.kind.postgres.clone(),
        role: word(host.kind.role),
        audited: host.audited,
        diagnosed: host.diagnosed,
        incomplete: host.incomplete.clone(),
        work: measured.map(|measured| measured.work.clone()),
        clients: measured.map(|measured| int(measured.clients)),
        throughput: rate.and_then(|rate| finite(rate.estimate)),
        low: rate.and_then(|rate| finite(rate.low)),
        high: rate.and_then(|rate| finite(rate.high)),
        level: rate.and_then(|rate| finite(rate.level)),
        trials: rate.map(|rate| int(rate.n)),
        unit: measured.map(|measured| measured.unit.clone()),
        warnings: rate.and_then(|rate| json(&rate.warnings)),
    }
}

fn audits(run: &str, analysis: &Analysis) -> Vec<Audit> {
    let results = analysis.check.iter().flat_map(|check| &check.results);
    results
        .map(|result| Audit {
            run: run.to_owned(),
            id: result.id.clone(),
            outcome: word(result.outcome),
            saw: result.saw.clone(),
        })
        .collect()
}

fn traits(run: &str, traits: BTreeMap<String, String>) -> Vec<Trait> {
    let traits = traits.into_iter();
    traits
        .map(|(name, value)| Trait {
            run: run.to_owned(),
            name,
            value,
        })
        .collect()
}
