//! A Job and a CronJob, with their kustomizations.

use super::yaml::{Node, document, list, map, text, texts};
use super::{Files, Plan};
use crate::cli::deploy::KubernetesArgs;

/// The user of deploy/Containerfile.postgres.
const USER: u64 = 999;
/// Where a pod sees what is kept.
const KEPT: &str = "/runs";

/// The files: one directory for what runs once, one for what runs on a schedule.
pub(super) fn files(args: &KubernetesArgs, plan: &Plan) -> Files {
    let about = "Written by `pgassay deploy kubernetes`; it is yours to change.";
    let name = &args.plan.name;
    let spec = job(args, plan);
    let metadata = || map([("name", text(name)), ("labels", labels(name))]);
    let once = map([
        ("apiVersion", text("batch/v1")),
        ("kind", text("Job")),
        ("metadata", metadata()),
        ("spec", spec.clone()),
    ]);
    let again = map([
        ("apiVersion", text("batch/v1")),
        ("kind", text("CronJob")),
        ("metadata", metadata()),
        (
            "spec",
            map([
                ("schedule", text(&args.schedule)),
                // Two at once would measure each other.
                ("concurrencyPolicy", text("Forbid")),
                ("startingDeadlineSeconds", Node::Number(3600)),
                ("jobTemplate", map([("spec", spec)])),
            ]),
        ),
    ]);
    let kustomization = |resource: &str| {
        let mut all = map([
            ("apiVersion", text("kustomize.config.k8s.io/v1beta1")),
            ("kind", text("Kustomization")),
            ("resources", texts([resource])),
        ]);
        if let Some(namespace) = &args.namespace {
            all = all.and([("namespace", text(namespace))]);
        }
        document(about, &all)
    };
    let where_to = match &args.claim {
        Some(claim) => format!("the volume of the claim {claim}"),
        None => format!("{} of each node", args.directory),
    };
    let of_job = format!(
        "{about}\n\n  kubectl apply -k job && kubectl logs -f job/{name}\n\n\
         What is collected and measured lies in {where_to}, below the node's name: bring it together and\n\
         call `pgassay fleet`. A second try would be another measurement, so there is none."
    );
    let of_cron_job = format!("{about}\n\n  kubectl apply -k cronjob");
    Files {
        shown: 1,
        files: vec![
            ("job/kustomization.yaml", kustomization("job.yaml")),
            ("job/job.yaml", document(&of_job, &once)),
            ("cronjob/kustomization.yaml", kustomization("cronjob.yaml")),
            ("cronjob/cronjob.yaml", document(&of_cron_job, &again)),
        ],
        next: |dir| vec![format!("kubectl apply -k {dir}/job")],
    }
}

fn labels(name: &str) -> Node {
    map([("app.kubernetes.io/name", text(name))])
}

fn job(args: &KubernetesArgs, plan: &Plan) -> Node {
    // Of several nodes each stands for itself: what one of them ends with leaves the others at work.
    let tries = match args.nodes > 1 {
        true => "backoffLimitPerIndex",
        false => "backoffLimit",
    };
    let mut spec = map([(tries, Node::Number(0))]);
    if args.nodes > 1 {
        let nodes = u64::from(args.nodes);
        spec = spec.and([
            ("completionMode", text("Indexed")),
            ("completions", Node::Number(nodes)),
            ("parallelism", Node::Number(nodes)),
        ]);
    }
    let template = map([
        ("metadata", map([("labels", labels(&args.plan.name))])),
        ("spec", pod(args, plan)),
    ]);
    spec.and([("template", template)])
}

fn pod(args: &KubernetesArgs, plan: &Plan) -> Node {
    let id = || Node::Number(USER);
    let mut pod = map([
        ("restartPolicy", text("Never")),
        // SIGTERM ends a run cleanly and keeps every finished trial.
        ("terminationGracePeriodSeconds", Node::Number(60)),
        (
            "securityContext",
            map([
                ("runAsUser", id()),
                ("runAsGroup", id()),
                ("runAsNonRoot", Node::Flag(true)),
                ("fsGroup", id()),
            ]),
        ),
    ]);
    if !args.selectors.is_empty() {
        let selectors = args.selectors.iter();
        let selectors = selectors.map(|(key, value)| (key.clone(), text(value)));
        pod = pod.and([("nodeSelector", Node::Map(selectors.collect()))]);
    }
    if args.nodes > 1 {
        let term = map([
            ("topologyKey", text("kubernetes.io/hostname")),
            (
                "labelSelector",
                map([("matchLabels", labels(&args.plan.name))]),
            ),
        ]);
        let terms = map([(
            "requiredDuringSchedulingIgnoredDuringExecution",
            list([term]),
        )]);
        pod = pod.and([("affinity", map([("podAntiAffinity", terms)]))]);
    }
    let mut first = vec![prepare(args)];
    if !plan.collects() {
        first.push(collect(args));
    }
    pod.and([
        ("initContainers", Node::List(first)),
        ("containers", list([measure(args, plan)])),
        ("volumes", volumes(args)),
    ])
}

/// The node's name, which the texts of a container can hold as `$(NODE_NAME)`.
fn node_name() -> Node {
    map([
        ("name", text("NODE_NAME")),
        (
            "valueFrom",
            map([("fieldRef", map([("fieldPath", text("spec.nodeName"))]))]),
        ),
    ])
}

fn mount(name: &str, path: &str) -> Node {
    map([("name", text(name)), ("mountPath", text(path))])
}

/// The directory on the node belongs to root at first.
fn prepare(args: &KubernetesArgs) -> Node {
    let command = format!(
        "mkdir -p \"{KEPT}/$NODE_NAME/runs\" && chown -R {USER}:{USER} \"{KEPT}/$NODE_NAME\""
    );
    map([
        ("name", text("prepare")),
        ("image", text(&args.image)),
        (
            "command",
            texts(["sh".to_owned(), "-c".to_owned(), command]),
        ),
        ("env", list([node_name()])),
        ("resources", resources(args)),
        (
            "securityContext",
            map([
                ("runAsUser", Node::Number(0)),
                ("runAsNonRoot", Node::Flag(false)),
            ]),
        ),
        ("volumeMounts", list([mount("kept", KEPT)])),
    ])
}

/// What the node is, for `pgassay fleet`.
fn collect(args: &KubernetesArgs) -> Node {
    let file = format!("{KEPT}/$(NODE_NAME)/facts.json");
    map([
        ("name", text("collect")),
        ("image", text(&args.image)),
        ("args", texts(["collect", "--host", "--output", &file])),
        ("env", list([node_name()])),
        ("resources", resources(args)),
        ("securityContext", confined([])),
        ("volumeMounts", list([mount("kept", KEPT)])),
    ])
}

fn confined<const N: usize>(added: [&str; N]) -> Node {
    let mut capabilities = map([("drop", texts(["ALL"]))]);
    if N > 0 {
        capabilities = capabilities.and([("add", texts(added))]);
    }
    map([
        ("allowPrivilegeEscalation", Node::Flag(false)),
        ("capabilities", capabilities),
    ])
}

fn measure(args: &KubernetesArgs, plan: &Plan) -> Node {
    let mut words: Vec<String> = plan.words().map(literal).collect();
    if plan.collects() && !plan.names_an_output() {
        words.extend([
            "--output".to_owned(),
            format!("{KEPT}/$(NODE_NAME)/facts.json"),
        ]);
    }
    let mut mounts = vec![
        mount("kept", KEPT),
        mount("scratch", "/var/tmp"),
        mount("shared-memory", "/dev/shm"),
    ];
    if args.huge_pages.is_some() {
        mounts.push(mount("huge-pages", "/hugepages"));
    }
    let runs = map([
        ("name", text("PGASSAY_RUNS")),
        ("value", text(format!("{KEPT}/$(NODE_NAME)/runs"))),
    ]);
    map([
        ("name", text("pgassay")),
        ("image", text(&args.image)),
        ("args", texts(words)),
        ("env", list([node_name(), runs])),
        ("resources", resources(args)),
        // CPU samples; stepping for `lines`. They are of use where the container's runtime gives them to a user
        // that is not root; else the report names what it lacks.
        ("securityContext", confined(["PERFMON", "SYS_PTRACE"])),
        ("volumeMounts", Node::List(mounts)),
    ])
}

/// What a container may use. Requests equal to limits and whole CPUs, of all containers of the pod: only then does the
/// kubelet's static CPU manager give it CPUs of its own. Containers that run one after the other need it once.
fn resources(args: &KubernetesArgs) -> Node {
    let mut sizes = map([
        ("cpu", text(args.cpus.to_string())),
        ("memory", text(&args.memory)),
    ]);
    if let Some(pages) = &args.huge_pages {
        sizes = sizes.and([("hugepages-2Mi", text(pages))]);
    }
    map([("requests", sizes.clone()), ("limits", sizes)])
}

/// A word that Kubernetes leaves as it is: it replaces `$(NAME)`, and takes `$$` for a `$`.
fn literal(word: &str) -> String {
    word.replace('$', "$$")
}

fn volumes(args: &KubernetesArgs) -> Node {
    let kept = match &args.claim {
        Some(claim) => ("persistentVolumeClaim", map([("claimName", text(claim))])),
        None => (
            "hostPath",
            map([
                ("path", text(&args.directory)),
                ("type", text("DirectoryOrCreate")),
            ]),
        ),
    };
    let empty = |name: &str, of: Node| map([("name", text(name)), ("emptyDir", of)]);
    let mut all = vec![
        map([("name", text("kept")), kept]),
        // Clusters: a disk of the node, never memory.
        empty("scratch", map([("sizeLimit", text("50Gi"))])),
        // Parallel queries; the default of 64 MiB is too small.
        empty(
            "shared-memory",
            map([("medium", text("Memory")), ("sizeLimit", text("2Gi"))]),
        ),
    ];
    if args.huge_pages.is_some() {
        all.push(empty("huge-pages", map([("medium", text("HugePages"))])));
    }
    Node::List(all)
}
