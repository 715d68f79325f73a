//! Who builds: root has the servers' user compile, and finds what it built itself before.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pgassay::{Exit, Stop};
use pgassay_server::pgbuild::maker::Order;
use pgassay_server::pgbuild::{Maker, Place, Source, Variant};

use crate::build::{Bench, run};

/// Removes a build of the real place, whatever comes of the test.
struct Named(String);

impl Drop for Named {
    fn drop(&mut self) {
        run(&["--remove", &self.0]);
    }
}

/// Attack D4: sources were configured and compiled with root's rights, without a word.
#[test]
fn root_has_the_servers_user_build() {
    use pgassay_server::account::Account;
    use std::os::unix::fs::MetadataExt;

    let account = Account::for_servers().unwrap();
    let us = rustix::process::geteuid().as_raw();
    let builder = account.as_ref().map_or(us, |account| account.uid);
    let bench = Bench::new("users");
    let source = bench.source("autoconf");
    let configure = source.join("configure");
    let text = fs::read_to_string(&configure).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let talking = format!("{first}\necho \"configured by $(id -u) of $(id -G)\"\n{rest}");
    fs::write(&configure, talking).unwrap();

    let base = format!("users-{}", std::process::id());
    let name = format!("{base}-plain");
    let _named = Named(name.clone());
    let given = source.display().to_string();
    let (exit, out, said) = run(&[&given, "--name", &base]);
    assert_eq!(exit, Exit::Done, "{said}");
    assert!(out.contains(&format!("build:{name}")), "{out}");
    assert_eq!(said.contains("root does not compile"), us == 0, "{said}");

    let (_, json, _) = run(&["--list", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    let builds = document["builds"].as_array().unwrap();
    let record = builds.iter().find(|build| build["name"] == *name).unwrap();
    let log = fs::read_to_string(record["log"].as_str().unwrap()).unwrap();
    let line = log.lines().find(|line| line.starts_with("configured by"));
    let groups = account
        .as_ref()
        .map(|account| format!(" of {}", account.gid));
    let wanted = format!("configured by {builder}{}", groups.unwrap_or_default());
    assert!(line.unwrap().starts_with(&wanted), "{line:?}");
    let server = Path::new(record["prefix"].as_str().unwrap()).join("bin/postgres");
    assert_eq!(fs::metadata(&server).unwrap().uid(), builder);

    // It is the target of its name, and goes when it is removed.
    let spec: pgassay_server::TargetSpec = format!("build:{name}").parse().unwrap();
    let found = spec.installation(&Default::default()).unwrap().unwrap();
    assert_eq!(found.tool("postgres"), server);
    assert_eq!(run(&["--remove", &name]).0, Exit::Done);
    assert!(!server.exists());
    assert_eq!(run(&["--remove", &name]).0, Exit::Usage);
}

/// What root alone may read can't be built by another user, and the error says so.
#[test]
fn a_source_that_the_builder_may_not_read_is_told() {
    if !rustix::process::geteuid().is_root() {
        // Everybody else builds as himself.
        return;
    }
    let bench = Bench::new("private");
    let source = bench.source("autoconf");
    fs::set_permissions(&source, fs::Permissions::from_mode(0o700)).unwrap();
    let (exit, _, said) = run(&[&source.display().to_string()]);
    assert_eq!(exit, Exit::Usage);
    assert!(
        said.contains("can't be read") && said.contains("where everybody may read it"),
        "{said}"
    );
}

/// Builds that root made itself, before another user did it, are used and removed as ever.
#[test]
fn builds_that_root_made_before_are_still_targets() {
    let own = pgassay_server::scratch::Scratch::open(None).unwrap();
    let base = format!("before-{}", std::process::id());
    let place = Place::of(own.root().to_path_buf()).unwrap();
    let bench = Bench::new("before");
    let source = bench.source("autoconf");
    let source = Source::find(&source.display().to_string(), None, &place).unwrap();
    let variant = Variant::parse(
        "plain",
        &pgassay_server::pgbuild::maker::native_machine(),
        false,
    );
    let (variant, stop) = (variant.unwrap(), Stop::new());
    let name = format!("{base}-plain");
    let _named = Named(name.clone());
    let made = Maker {
        place: &place,
        stop: &stop,
        jobs: 2,
        watch: &mut |_| {},
    }
    .make(&Order {
        source: &source,
        name: Some(&base),
        variant: &variant,
        host: None,
        system: None,
        layouts: 0,
        layout_seed: 0,
    })
    .unwrap();
    assert!(made.record.prefix.starts_with(own.root()));
    let (_, list, _) = run(&["--list"]);
    assert!(list.contains(&format!("build:{name} ")), "{list}");
    let spec: pgassay_server::TargetSpec = format!("build:{name}").parse().unwrap();
    let found = spec.installation(&Default::default()).unwrap().unwrap();
    assert!(found.bin_dir.starts_with(&made.record.prefix));
    assert_eq!(run(&["--remove", &name]).0, Exit::Done);
    assert!(!made.record.prefix.exists());
}
