//! The archives that stand in where no PostgreSQL is installed: fetched, checked,
//! unpacked where the server's user can read them, and launched. They are also
//! how old and new servers are tried. Needs the network, or a filled cache.
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use pgassay_pgwire::Conninfo;
use pgassay_server::scratch::Scratch;
use pgassay_server::settings::Settings;
use pgassay_server::{Cluster, LaunchOptions, StandIn, TargetSpec, Version, Wanted};

#[test]
fn old_and_new_releases_are_fetched_and_serve() {
    let place = PathBuf::from(format!(
        "/var/tmp/pgassay-test-archive-{}",
        std::process::id()
    ));
    fs::create_dir(&place).unwrap();
    let scratch = Scratch::open(Some(&place)).unwrap();
    let stop = AtomicBool::new(false);
    // The oldest that has an archive for each processor, and the newest.
    let majors = if cfg!(target_arch = "x86_64") {
        &["9.5", "10", "18"][..]
    } else {
        &["14", "18"]
    };
    for major in majors {
        let spec: TargetSpec = format!("temp:{major}").parse().unwrap();
        let stand_in = spec.stand_in().unwrap();
        let installation = stand_in.installation(&scratch, &stop).unwrap();
        assert_eq!(&installation.version.major(), major);
        assert!(
            installation
                .caveat
                .as_ref()
                .unwrap()
                .starts_with("not the build you run")
        );
        let options = LaunchOptions {
            settings: Settings::parse("--set", &["work_mem=5MB"]).unwrap(),
            scratch: Some(place.clone()),
            shared_buffers_bytes: Some(32 << 20),
            ..LaunchOptions::default()
        };
        let cluster = Cluster::launch(&installation, &options).unwrap();
        let mut session =
            pgassay_pgwire::connect(&Conninfo::parse(&cluster.conninfo()).unwrap()).unwrap();
        let show = |session: &mut pgassay_pgwire::Session, name: &str| {
            session.value(&format!("SHOW {name}")).unwrap().unwrap()
        };
        let num = installation.version.num().to_string();
        assert_eq!(show(&mut session, "server_version_num"), num);
        assert_eq!(show(&mut session, "work_mem"), "5MB");
        assert_eq!(show(&mut session, "shared_buffers"), "32MB");
        drop(session);

        let error = Cluster::launch(
            &installation,
            &LaunchOptions {
                settings: Settings::parse("--set", &["no_such_setting=1"]).unwrap(),
                ..options
            },
        )
        .unwrap_err();
        assert!(error.to_string().contains("no_such_setting"), "{error}");
        cluster.stop().unwrap();
    }
    // Unpacked once, found again without the network.
    let again = StandIn::find(Wanted::Major(Version::parse("18").unwrap())).unwrap();
    let start = std::time::Instant::now();
    again
        .installation(&scratch, &AtomicBool::new(true))
        .unwrap();
    assert!(start.elapsed().as_secs() < 5);
    fs::remove_dir_all(&place).unwrap();
}
