//! A playbook with the roles of the collection `pgassay.lab`.

use std::env;

use super::yaml::{Node, document, list, map, text, texts};
use super::{Files, Plan};
use crate::cli::deploy::AnsibleArgs;

/// The playbook and what it needs.
pub(super) fn files(args: &AnsibleArgs, plan: &Plan) -> Files {
    let groups: Vec<&str> = match args.groups.as_slice() {
        [] => vec!["all"],
        groups => groups.iter().map(String::as_str).collect(),
    };
    let own = env::current_exe().ok();
    let own = own.map(|path| path.display().to_string());
    let program = args.program.clone().or(own).unwrap_or_default();
    // What comes from the user holds no template.
    let mut vars = map([
        ("pgassay_program", raw(&program)),
        (
            "pgassay_fetched",
            text(format!("{{{{ playbook_dir }}}}/{}", args.fetched)),
        ),
    ]);
    vars = match &args.groups[..] {
        [] => vars,
        groups => vars.and([("pgassay_arms", texts(groups))]),
    };
    if let Some(target) = &args.target {
        vars = vars.and([("pgassay_target", raw(target))]);
    }
    let mut roles = vec!["pgassay.lab.install", "pgassay.lab.collect"];
    if !plan.collects() {
        vars = vars.and([("pgassay_plan", list(plan.words().map(raw)))]);
        roles.push("pgassay.lab.assay");
    }
    roles.push("pgassay.lab.fetch");
    let roles = roles.into_iter().map(|role| map([("role", text(role))]));
    let measure = map([
        ("name", text("Measure every host by itself")),
        ("hosts", text(groups.join(":"))),
        ("gather_facts", Node::Flag(true)),
        ("vars", vars),
        ("roles", list(roles)),
    ]);
    let fetched = format!("{{{{ playbook_dir }}}}/{}", args.fetched);
    let mut tasks = vec![command(
        "What is wrong on how many hosts, and who differs",
        &[
            "fleet",
            &fetched,
            "--html",
            &format!("{fetched}/fleet.html"),
        ],
        &program,
        // 4: a file could not be read that may have been a host's.
        &[0, 4],
    )];
    if (2..=8).contains(&args.groups.len()) && !plan.collects() {
        // A group is a side, with the newest runs of each of its hosts.
        let mut words = vec!["compare-runs".to_owned()];
        words.extend(args.groups.iter().map(|group| format!("{fetched}/{group}")));
        words.extend(["--html".to_owned(), format!("{fetched}/groups.html")]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        tasks.push(command("The groups side by side", &words, &program, &[0]));
    }
    let read = map([
        ("name", text("Read the results")),
        ("hosts", text("localhost")),
        ("connection", text("local")),
        ("gather_facts", Node::Flag(false)),
        ("tasks", Node::List(tasks)),
    ]);
    let playbook = list([measure, read]);
    let about = "Written by `pgassay deploy ansible`; it is yours to change.\n\n  \
                 ansible-galaxy collection install PGASSAY/deploy/ansible/pgassay/lab\n  \
                 ansible-playbook -i YOUR-INVENTORY --forks 50 playbook.yml\n\n\
                 PGASSAY is a directory of pgassay's sources: no server of collections has this one. As many\n\
                 hosts are measured at the same time as there are forks.";
    let inventory = inventory(&args.groups);
    Files {
        shown: 0,
        files: vec![
            ("playbook.yml", document(about, &playbook)),
            ("inventory.example.yml", inventory),
        ],
        next: |dir| {
            vec![format!(
                "ansible-playbook -i {dir}/inventory.yml {dir}/playbook.yml"
            )]
        },
    }
}

/// A text in which Ansible expands nothing.
fn raw(text: &str) -> Node {
    Node::Literal(text.to_owned())
}

fn command(name: &str, words: &[&str], program: &str, good: &[u64]) -> Node {
    let argv = std::iter::once(raw(program)).chain(words.iter().map(|word| text(*word)));
    let good: Vec<String> = good.iter().map(u64::to_string).collect();
    map([
        ("name", text(name)),
        ("ansible.builtin.command", map([("argv", list(argv))])),
        ("register", text("pgassay_read")),
        ("changed_when", Node::Flag(true)),
        (
            "failed_when",
            text(format!("pgassay_read.rc not in [{}]", good.join(", "))),
        ),
    ])
}

fn inventory(groups: &[String]) -> String {
    let hosts = |n: usize| {
        let host = |host: String| (host, map([]));
        Node::Map(vec![host(format!("db{n}")), host(format!("db{}", n + 1))])
    };
    let of = |n: usize| map([("hosts", hosts(2 * n + 1))]);
    let all = match groups {
        [] => of(0),
        groups => {
            let groups = groups.iter().enumerate();
            let children = groups.map(|(n, group)| (group.clone(), of(n)));
            map([("children", Node::Map(children.collect()))])
        }
    };
    let about = "Copy this to inventory.yml and put your hosts in.";
    document(about, &map([("all", all)]))
}
