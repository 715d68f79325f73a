//! The flags of `pgassay deploy`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

/// Arguments of `pgassay deploy`.
#[derive(Debug, Clone, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay deploy kubernetes --output lab -- assay --quick
  pgassay deploy kubernetes --nodes 8 --schedule '0 3 * * 0' --output lab -- collect --host
  pgassay deploy slurm --nodes 16 --time 02:00:00 -- assay --quick > pgassay.sbatch
  pgassay deploy ansible --group graviton --group epyc --output lab -- assay --quick

What is written holds the command line that stands behind --, and is yours to change. Afterwards:
pgassay fleet DIR, or pgassay compare-runs of two machines' runs.")]
pub struct DeployArgs {
    /// Where it is to run.
    #[command(subcommand)]
    pub to: DeployTo,
}

/// Where a plan is to run.
#[derive(Debug, Clone, Subcommand)]
pub enum DeployTo {
    /// A Job and a CronJob for Kubernetes, each with its kustomization
    Kubernetes(KubernetesArgs),
    /// A batch script for Slurm
    Slurm(SlurmArgs),
    /// A playbook for Ansible, with the roles of the collection pgassay.lab
    Ansible(AnsibleArgs),
}

/// What is the same everywhere.
#[derive(Debug, Clone, ClapArgs)]
pub struct PlanArgs {
    /// Write all files into this directory, which is made [default: the Job, script or playbook alone, to
    /// standard output]
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// What it is called there
    #[arg(long, value_name = "NAME", default_value = "pgassay", value_parser = label)]
    pub name: String,
    /// What pgassay is to do on each machine, as typed after its name [default: assay]
    #[arg(value_name = "PLAN", last = true)]
    pub plan: Vec<String>,
}

/// Arguments of `pgassay deploy kubernetes`.
#[derive(Debug, Clone, ClapArgs)]
pub struct KubernetesArgs {
    /// What is to run.
    #[command(flatten)]
    pub plan: PlanArgs,
    /// The namespace [default: that of kubectl]
    #[arg(long, value_name = "NAME", value_parser = label)]
    pub namespace: Option<String>,
    /// The image, which deploy/Containerfile.postgres makes
    #[arg(long, value_name = "IMAGE", default_value = "localhost/pgassay-postgres", value_parser = one_line)]
    pub image: String,
    /// On so many nodes at once, one pod each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nodes: u32,
    /// Only on nodes with this label (repeatable)
    #[arg(long = "selector", value_name = "LABEL=VALUE", value_parser = selector)]
    pub selectors: Vec<(String, String)>,
    /// When the CronJob runs it
    #[arg(long, value_name = "CRON", default_value = "0 3 * * 0", value_parser = schedule)]
    pub schedule: String,
    /// CPUs of a pod: whole ones, so that it can have CPUs of its own
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub cpus: u32,
    /// Memory of a pod
    #[arg(long, value_name = "SIZE", default_value = "16Gi", value_parser = quantity)]
    pub memory: String,
    /// Huge pages of 2 MiB for a pod, counted apart from its memory
    #[arg(long, value_name = "SIZE", value_parser = quantity)]
    pub huge_pages: Option<String>,
    /// The directory of each node that keeps what is measured
    #[arg(long, value_name = "DIR", default_value = "/var/lib/pgassay", value_parser = absolute)]
    pub directory: String,
    /// A claim of a volume that all nodes share, in place of that directory
    #[arg(long, value_name = "NAME", value_parser = label, conflicts_with = "directory")]
    pub claim: Option<String>,
}

/// Arguments of `pgassay deploy slurm`.
#[derive(Debug, Clone, ClapArgs)]
pub struct SlurmArgs {
    /// What is to run.
    #[command(flatten)]
    pub plan: PlanArgs,
    /// On so many nodes at once, each its own measurement
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nodes: u32,
    /// The partition [default: the cluster's]
    #[arg(long, value_name = "NAME", value_parser = word)]
    pub partition: Option<String>,
    /// Only on nodes with these features
    #[arg(long, value_name = "FEATURES", value_parser = word)]
    pub constraint: Option<String>,
    /// The account that is charged [default: yours]
    #[arg(long, value_name = "NAME", value_parser = word)]
    pub account: Option<String>,
    /// How long it may take: HH:MM:SS or D-HH:MM:SS
    #[arg(long, value_name = "TIME", default_value = "01:00:00", value_parser = time)]
    pub time: String,
    /// The program on the nodes
    #[arg(long, value_name = "FILE", default_value = "pgassay", value_parser = one_line)]
    pub program: String,
}

/// Arguments of `pgassay deploy ansible`.
#[derive(Debug, Clone, ClapArgs)]
pub struct AnsibleArgs {
    /// What is to run.
    #[command(flatten)]
    pub plan: PlanArgs,
    /// A group of the inventory (repeatable): each is a side that is held against the others
    #[arg(long = "group", value_name = "GROUP", value_parser = group)]
    pub groups: Vec<String>,
    /// The server on each host, whose facts are collected [default: only the host's]
    #[arg(long, value_name = "CONNINFO", value_parser = one_line)]
    pub target: Option<String>,
    /// The program that is copied to the hosts [default: this one]
    #[arg(long, value_name = "FILE", value_parser = one_line)]
    pub program: Option<String>,
    /// Where the results are fetched to, below the playbook
    #[arg(long, value_name = "DIR", default_value = "fetched", value_parser = word)]
    pub fetched: String,
}

/// A name as Kubernetes takes it for labels and names of objects (RFC 1123).
fn label(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    // 52 is what a CronJob leaves of 63.
    let fits = (1..=52).contains(&text.len()) && text.chars().all(plain);
    match fits && !text.starts_with('-') && !text.ends_with('-') {
        true => Ok(text.to_owned()),
        false => Err("small letters, digits and hyphens, at most 52".to_owned()),
    }
}

fn word(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:&|*[]/".contains(c);
    match !text.is_empty() && text.chars().all(plain) && !text.contains("..") {
        true => Ok(text.to_owned()),
        false => Err("letters, digits and - _ . , : & | / only".to_owned()),
    }
}

/// A group of an inventory, by Ansible's rule: a name of Python's.
fn group(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let digit = |c: char| c.is_ascii_digit();
    match !text.is_empty() && text.chars().all(plain) && !text.starts_with(digit) {
        true => Ok(text.to_owned()),
        false => Err("letters, digits and underscores, no digit first".to_owned()),
    }
}

fn one_line(text: &str) -> Result<String, String> {
    match text.is_empty() || text.chars().any(pgassay_text::is_unsafe) {
        false => Ok(text.to_owned()),
        true => Err("one line without control characters".to_owned()),
    }
}

fn absolute(text: &str) -> Result<String, String> {
    let text = one_line(text)?;
    match text.starts_with('/') && !text.split('/').any(|part| part == "..") {
        true => Ok(text),
        false => Err("a directory's whole path, without ..".to_owned()),
    }
}

fn selector(text: &str) -> Result<(String, String), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && key.chars().chain(value.chars()).all(plain) => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err("LABEL=VALUE, such as kubernetes.io/arch=arm64".to_owned()),
    }
}

/// A size as Kubernetes writes it.
fn quantity(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let fits = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    match fits && ["Mi", "Gi", "Ti", "M", "G", "T"].contains(&unit) {
        true => Ok(text.to_owned()),
        false => Err("a size such as 16Gi or 512Mi".to_owned()),
    }
}

fn schedule(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "*/,- @".contains(c);
    let fields = text.split_whitespace().count();
    let named = text.starts_with('@') && fields == 1;
    match (fields == 5 || named) && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("five fields, such as '0 3 * * 0', or @weekly".to_owned()),
    }
}

fn time(text: &str) -> Result<String, String> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let number =
        |part: &str| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let parts: Vec<&str> = clock.split(':').collect();
    match number(days) && parts.len() == 3 && parts.iter().all(|part| number(part)) {
        true => Ok(text.to_owned()),
        false => Err("HH:MM:SS or D-HH:MM:SS".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_be_more_than_names_are_refused() {
        for wrong in [
            "",
            "-a",
            "a-",
            "A",
            "a b",
            "a\nb",
            "a;b",
            "a$(b)",
            &"a".repeat(53),
        ] {
            assert!(label(wrong).is_err(), "{wrong:?}");
        }
        for wrong in ["", "a b", "a\n#SBATCH --uid=0", "$(id)", "../x", "a'b"] {
            assert!(word(wrong).is_err(), "{wrong:?}");
        }
        for wrong in ["", "1a", "a-b", "a b", "a{{b}}"] {
            assert!(group(wrong).is_err(), "{wrong:?}");
        }
        for wrong in ["x", "/a/../b", "/a\nb"] {
            assert!(absolute(wrong).is_err(), "{wrong:?}");
        }
        for wrong in ["16", "Gi", "1e3Gi", "-1Gi"] {
            assert!(quantity(wrong).is_err(), "{wrong:?}");
        }
        for wrong in ["", "* * * *", "0 3 * * 0\nx", "0 3 * * $(id)"] {
            assert!(schedule(wrong).is_err(), "{wrong:?}");
        }
        assert!(label("db-1").is_ok() && word("epyc,gpu").is_ok() && time("2-01:00:00").is_ok());
        assert!(selector("kubernetes.io/arch=arm64").is_ok() && selector("a").is_err());
    }
}
