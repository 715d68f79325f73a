//! What was measured on what, in a handful of lines.

use pgassay_analysis::Analysis;
use pgassay_analysis::host::HostSummary;
use pgassay_analysis::measured::ArmAnalysis;

use super::{binary, method};
use crate::document::{Block, Depth, Fact, Notes, Section};
use crate::number;

/// Server, machine and measurement, one line each.
pub fn section(analysis: &Analysis, _: &mut Notes) -> Option<Section> {
    let mut facts = Vec::new();
    for arm in &analysis.arms {
        facts.push(server(analysis, arm));
        if let Ok(binary) = &arm.binary {
            facts.push(Fact::new("its binary", binary::in_short(binary)));
        }
    }
    facts.push(Fact::new("machine", machine(&analysis.host)));
    facts.push(Fact::new("measured", method::in_short(analysis)));
    Some(Section {
        id: "summary",
        title: "In short",
        depth: Depth::Summary,
        blocks: vec![Block::Facts(facts)],
    })
}

fn server(analysis: &Analysis, arm: &ArmAnalysis) -> Fact {
    let name = match analysis.arms.len() {
        1 => "server".to_owned(),
        _ => arm.label.clone(),
    };
    let Some(server) = &arm.server else {
        return Fact::new(name, format!("{}: nothing was read of it", arm.target));
    };
    let version = server.version.split(" on ").next().unwrap_or_default();
    let settings = ["shared_buffers", "huge_pages_status", "huge_pages"];
    let mut parts = vec![version.to_owned()];
    let known = settings
        .iter()
        .filter_map(|name| server.settings.iter().find(|s| s.name == *name));
    parts.extend(known.take(2).map(|s| format!("{} {}", s.name, s.value)));
    Fact::new(name, parts.join(", "))
}

/// CPU, memory, kernel and what it is embedded in.
pub(crate) fn machine(host: &HostSummary) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(host.cpu_model.clone().or_else(|| host.architecture.clone()));
    parts.extend(host.cpus.map(|n| number::counted(n, "CPU")));
    parts.extend(
        host.cpu_quota
            .map(|n| format!("limited to {} CPUs", number::short(n))),
    );
    parts.extend(host.memory_bytes.map(number::bytes));
    parts.extend(
        host.memory_limit_bytes
            .map(|n| format!("limited to {}", number::bytes(n))),
    );
    parts.extend(
        host.page_size_bytes
            .map(|n| format!("{} pages", number::bytes(n))),
    );
    parts.extend(host.kernel.as_ref().map(|k| format!("Linux {k}")));
    parts.extend(host.distribution.clone());
    parts.extend(
        host.virtualisation
            .as_ref()
            .filter(|v| *v != "none")
            .map(|v| format!("virtual ({v})")),
    );
    parts.extend(host.container.as_ref().map(|c| format!("in {c}")));
    if parts.is_empty() {
        return "nothing could be read of it".to_owned();
    }
    parts.join(", ")
}
