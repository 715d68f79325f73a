//! `pgassay deploy`: what is written holds the plan as typed; what it reads like to others,
//! scripts/test-ansible.sh asks their own tools.

use assert_cmd::Command;

fn deploy(words: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgassay"));
    let output = command.arg("deploy").args(words).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    (code, text(output.stdout), text(output.stderr))
}

const ODD: &str = "host=/run dbname=it's \"$(id)\" $$x$$(y) {{ x }}: - # `b` \\";

#[test]
fn a_plan_stands_in_each_form_as_it_was_typed() {
    let (code, manifest, err) = deploy(&["kubernetes", "--", "assay", ODD]);
    assert_eq!(code, 0, "{err}");
    // Kubernetes takes `$$` for `$`; the rest is a JSON string, which YAML has, too.
    let word = serde_json::to_string(&ODD.replace('$', "$$")).unwrap();
    assert!(manifest.contains(&format!("- {word}\n")), "{manifest}");
    assert!(
        !manifest.contains(" $(id)") && manifest.contains("kind: Job\n"),
        "{manifest}"
    );

    let (code, script, err) = deploy(&["slurm", "--", "assay", ODD]);
    assert_eq!(code, 0, "{err}");
    let word = format!("'{}'", ODD.replace('\'', r"'\''"));
    assert!(
        script.contains(&format!("' pgassay assay {word} ||")),
        "{script}"
    );

    let (code, playbook, err) = deploy(&["ansible", "--", "pgassay", "assay", ODD]);
    assert_eq!(code, 0, "{err}");
    let word = serde_json::to_string(ODD).unwrap();
    assert!(
        playbook.contains(&format!("- !unsafe {word}\n")),
        "{playbook}"
    );
}

/// Without, the pod's CPUs are shared with others.
#[test]
fn every_container_of_a_pod_asks_for_what_it_may_use() {
    let (_, manifest, _) = deploy(&["kubernetes", "--nodes", "3", "--", "assay"]);
    let containers = manifest.matches("image:").count();
    assert_eq!(containers, 3, "{manifest}");
    for part in ["requests:", "limits:"] {
        assert_eq!(
            manifest.matches(part).count(),
            containers,
            "{part} {manifest}"
        );
    }
    // One node's result leaves the others at work.
    assert!(manifest.contains("backoffLimitPerIndex: 0"), "{manifest}");
}

#[test]
fn plans_that_would_fail_or_tell_a_secret_are_refused() {
    let target = "host=db1 password=hunter2";
    let (code, out, err) = deploy(&["ansible", "--target", target, "--", "assay"]);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("holds a password"), "{err}");
    for (plan, says) in [
        (&["assay", "--qick"][..], "--qick"),
        (&["serve"], "only what collects or measures"),
        (&["assay", "host=db1 password=hunter2"], "holds a password"),
        (
            &["assay", "postgresql://u:hunter2@db1/x"],
            "holds a password",
        ),
        (&["run", "a\nb"], "control character"),
    ] {
        for to in ["kubernetes", "slurm", "ansible"] {
            let (code, out, err) = deploy(&[&[to, "--"], plan].concat());
            assert_eq!((code, out.as_str()), (2, ""), "{plan:?}");
            assert!(
                err.contains(says) && !err.contains("hunter2"),
                "{plan:?}: {err}"
            );
        }
    }
    for words in [
        &["slurm", "--partition", "a\n#SBATCH --uid=0"][..],
        &["slurm", "--name", "$(id)"],
        &["kubernetes", "--namespace", "A b"],
        &["kubernetes", "--schedule", "now"],
        &["ansible", "--group", "a-b"],
    ] {
        assert_eq!(deploy(words).0, 2, "{words:?}");
    }
}

/// What is read in a file has to be what runs.
#[test]
fn no_file_holds_a_character_that_is_not_shown() {
    for words in [
        &["slurm", "--", "run", "a\u{202e}b"][..],
        &["slurm", "--program", "/a\u{202e}b"],
        &["slurm", "--program", "/a\u{9b}b"],
    ] {
        let (code, out, err) = deploy(words);
        assert_eq!((code, out.as_str()), (2, ""), "{words:?}");
        let refused = [
            "a character that is not shown",
            "without control characters",
        ];
        assert!(refused.iter().any(|why| err.contains(why)), "{err}");
    }
    // In YAML it is escaped, and so is seen; else it is refused.
    for words in [
        &["kubernetes", "--", "run", "a\u{202e}b"][..],
        &["kubernetes", "--image", "a\u{2066}b"],
        &["ansible", "--target", "host=\u{200f}"],
        &["ansible", "--program", "/a\u{202e}b"],
        &["ansible", "--", "run", "a\u{202e}b"],
    ] {
        let (code, out, err) = deploy(words);
        let odd = |c: char| pgassay_text::is_unsafe(c) && c != '\n';
        assert!(!out.contains(odd), "{words:?}: {out}");
        assert!(code == 2 || out.contains("\\u2"), "{words:?}: {out}{err}");
    }
}

#[test]
fn files_are_written_where_they_are_wanted() {
    let dir = std::env::temp_dir().join(format!("pgassay-test-deploy-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let output = dir.to_str().unwrap();
    let (code, _, err) = deploy(&["kubernetes", "--output", output, "--", "collect", "--host"]);
    assert_eq!(code, 0, "{err}");
    for file in [
        "job/kustomization.yaml",
        "job/job.yaml",
        "cronjob/kustomization.yaml",
        "cronjob/cronjob.yaml",
    ] {
        assert!(dir.join(file).is_file(), "{file}");
    }
    let job = std::fs::read_to_string(dir.join("job/job.yaml")).unwrap();
    // The plan is to collect: nothing else does, and it is told where to.
    assert!(!job.contains("name: collect") && job.contains("/runs/$(NODE_NAME)/facts.json"));
    std::fs::remove_dir_all(&dir).unwrap();
}
