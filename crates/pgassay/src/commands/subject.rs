//! The server under measurement: launched by us, or running and visited as a guest.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use pgassay_engine::agents::Outside;
use pgassay_engine::workload::guest::{self, Admission};
use pgassay_engine::workload::schema::Made;
use pgassay_engine::workload::{self, elsewhere, rehearsal, setup};
use pgassay_model::Failure;
use pgassay_model::reading::Reading;
use pgassay_model::server::{Origin, PoolerFacts, ServerFacts};
use pgassay_model::storage::Storage;
use pgassay_model::workload::WorkloadPlan;
use pgassay_observe::{Scene, host};
use pgassay_pgwire::{Connector, Conninfo, Session};
use pgassay_server::confinement::Confinement;
use pgassay_server::inspection::live;
use pgassay_server::scratch::Scratch;
use pgassay_server::settings::{Settings, default_shared_buffers};
use pgassay_server::{Cluster, Installation, Installations, LaunchOptions, Listening, TargetSpec};
use pgassay_sys::stop::{Deferred, Stop};
use serde_json::json;

use super::copies;
use crate::cli::target::TargetArgs;
use crate::exit::explain;
use crate::session;

/// A server that can be asked and, where we may, loaded.
#[derive(Debug)]
pub struct Subject {
    /// How it came to be here.
    pub origin: Origin,
    /// The target for reports, without passwords.
    pub shown: String,
    /// How to connect.
    pub conninfo: Conninfo,
    /// What can be looked at.
    pub scene: Scene,
    /// In what a copy of somebody's database is not as the original, in sentences.
    pub copy_differs: Vec<String>,
    /// Whether a load may change tables that we did not make.
    may_change_all: bool,
    /// The pooler in between, through which load was let: see [`super::pooler`].
    pub pooler: Option<PoolerFacts>,
    /// How other machines reach it, where that is not how we do.
    pub outside: Option<Outside>,
    /// The launched cluster; dropping it removes it.
    pub cluster: Option<Cluster>,
    /// Held while there is something of ours to clean up; given up last.
    kept: Option<Deferred>,
}

impl Subject {
    /// Launches or visits what the target says.
    ///
    /// # Errors
    /// A [`Failure`] with exit code 2 or 3 that names the remedy.
    pub fn open(
        spec: &TargetSpec,
        flags: &TargetArgs,
        memory_bytes: u64,
        connections: u32,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let mut subject = Self::reach(spec, flags, memory_bytes, connections, stop)?;
        let found = subject.scene.postmaster.as_ref().ok().and_then(|pid| {
            let disks = &subject.scene.storage.disks;
            pgassay_observe::cgroup::read_limits(*pid, disks)
        });
        subject.scene.storage.volume = flags.volume.clone().or(found);
        Ok(subject)
    }

    fn reach(
        spec: &TargetSpec,
        flags: &TargetArgs,
        memory_bytes: u64,
        connections: u32,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let settings = Settings::parse("--set", &flags.settings).map_err(explain)?;
        let confinement = Confinement::of(&flags.confined.plan()).map_err(explain)?;
        match spec {
            TargetSpec::Server(_) if flags.from_database.is_some() => Err(Failure::usage(
                "--from-database makes a copy in a launched server only",
            )
            .with_remedy("name temp, temp:17, an installation or build:NAME, or leave it out")
            .into()),
            TargetSpec::Server(text) => {
                if settings.iter().next().is_some() {
                    return Err(Failure::usage("--set changes a launched server only")
                        .with_remedy("set it on the running server yourself, or use a temp target")
                        .into());
                }
                if confinement != Confinement::default() {
                    return Err(Failure::usage(
                        "--env and --wrap are for a server that pgassay starts, and this one runs already",
                    )
                    .with_remedy(
                        "start it so yourself (a service's Environment=, pg_ctl behind numactl), or use a temp target",
                    )
                    .into());
                }
                let mut visited = Self::visit(text, flags.is_copy)?;
                visited.outside = flags.outside.of_running();
                Ok(visited)
            }
            launched => {
                let installation = installation(launched, flags, stop)?;
                let dump = match (&flags.dump, &flags.from_database) {
                    (None, Some(original)) => {
                        let targets = std::slice::from_ref(spec);
                        let scratch = flags.scratch.as_deref();
                        Some(copies::dump(original, targets, scratch, stop)?)
                    }
                    (dump, _) => dump.clone(),
                };
                let kept = stop.defer();
                let options = LaunchOptions {
                    settings,
                    scratch: flags.scratch.clone(),
                    shared_buffers_bytes: Some(default_shared_buffers(memory_bytes)),
                    max_connections: Some(connections.saturating_add(20).max(100)),
                    confinement: confinement.clone(),
                    listen: flags.outside.listen.clone(),
                    stop: Some(Arc::clone(stop.flag())),
                    ..LaunchOptions::default()
                };
                let cluster = Cluster::launch(&installation, &options)
                    .map_err(|error| interrupted_or(stop, explain(error)))?;
                let socket = cluster.socket_dir().display().to_string();
                let restored = dump.as_ref().map(|held| held.give(&cluster, stop));
                let restored = restored.transpose()?.unwrap_or_default();
                let database = match restored.database.as_str() {
                    "" => "postgres",
                    database => database,
                };
                let conninfo = Conninfo::on_socket(&socket, cluster.port(), "postgres", database);
                let session = pgassay_pgwire::connect(&conninfo.observing())
                    .map_err(|e| Failure::target(format!("the launched server: {e}")))?;
                Ok(Self {
                    origin: Origin::Launched {
                        bin_dir: installation.bin_dir.display().to_string(),
                        stand_in: installation.caveat.is_some(),
                        prepared: cluster.prepared(),
                    },
                    shown: format!(
                        "PostgreSQL {} of {}{}{}",
                        installation.version,
                        installation.bin_dir.display(),
                        match confinement.words() {
                            Some(words) => format!(", {words}"),
                            None => String::new(),
                        },
                        match &dump {
                            Some(held) => format!(", {}", held.of()),
                            None => String::new(),
                        }
                    ) + &session::on_this(),
                    copy_differs: restored.differs,
                    pooler: None,
                    may_change_all: true,
                    outside: cluster
                        .listening()
                        .map(|listening| flags.outside.of_launched(listening)),
                    conninfo,
                    scene: Scene {
                        postmaster: Ok(cluster.pid()),
                        session: Some(session),
                        storage: host::storage(Some(cluster.pid()), Some(&cluster.data_dir())),
                        known: Default::default(),
                        events: Default::default(),
                    },
                    cluster: Some(cluster),
                    kept: Some(kept),
                })
            }
        }
    }

    fn visit(text: &str, is_copy: bool) -> anyhow::Result<Self> {
        let conninfo = Conninfo::parse(text).map_err(|e| Failure::usage(e.to_string()))?;
        let conninfo = conninfo.with_application_name("pgassay");
        let session = pgassay_pgwire::connect(&conninfo.observing())
            .map_err(|e| Failure::target(e.to_string()))?;
        let postmaster = match session.peer_pid() {
            // Over a Unix socket the kernel says who listens there.
            Some(pid) if live::is_postmaster(pid) => Ok(pid),
            Some(pid) if std::fs::exists(format!("/proc/{pid}/stat")).unwrap_or(false) => {
                Err("a pooler or proxy listens on the socket, not PostgreSQL itself".to_owned())
            }
            Some(_) => Err("the server's process is hidden, or in another container".to_owned()),
            None => Err("the server's processes are not visible over TCP".to_owned()),
        };
        Ok(Self {
            origin: Origin::Running,
            shown: conninfo.redacted() + &session::on_this(),
            conninfo,
            scene: Scene {
                storage: match &postmaster {
                    Ok(pid) => host::storage(Some(*pid), None),
                    Err(why) => Storage::hidden(format!(
                        "{why}: device reads are not visible from here; run pgassay on the \
                         server's machine, over its Unix socket"
                    )),
                },
                postmaster,
                session: Some(session),
                known: Default::default(),
                events: Default::default(),
            },
            copy_differs: Vec::new(),
            pooler: None,
            may_change_all: is_copy,
            outside: None,
            cluster: None,
            kept: None,
        })
    }

    /// Makes sure that load is harmless on this running server, and prepares the sessions for it:
    /// they get `options` at their start, and where the server has them those that keep it safe.
    ///
    /// # Errors
    /// Why there can be no load, with what can be done about it.
    pub fn admit(&mut self, options: Option<&str>) -> anyhow::Result<Admission> {
        self.settle_in(options)?;
        guest::admit(self.session()?)
    }

    /// Makes sure that sessions that only read are what they seem: a standby or a server with
    /// publications may be read.
    ///
    /// # Errors
    /// Where a pooler is in between.
    pub fn admit_reader(&mut self) -> anyhow::Result<()> {
        self.settle_in(None)
    }

    /// Sessions get these options at their start from here on; our own is opened anew.
    ///
    /// # Errors
    /// Where the server can't be reached any more.
    pub fn start_sessions_with(&mut self, options: &str) -> anyhow::Result<()> {
        let connector = self.leave()?.with_options(options);
        self.scene.session = Some(setup::again(&connector)?);
        self.conninfo = connector.conninfo().clone();
        Ok(())
    }

    /// Closes our own session, and says how it was connected.
    fn leave(&mut self) -> anyhow::Result<Connector> {
        let connector = self.scene.session.take().and_then(|session| {
            let connector = session.connector().cloned();
            session.close();
            connector
        });
        connector.context("how this session was connected")
    }

    fn settle_in(&mut self, options: Option<&str>) -> anyhow::Result<()> {
        guest::check_direct(self.session()?)?;
        let safe = guest::options(self.session()?)?;
        if safe.is_some() || options.is_some() {
            // Its place is given up first: the role may have no second one.
            let connector = self.leave()?;
            let wanted = options.map_or_else(|| connector.clone(), |o| connector.with_options(o));
            // A system on which the server can't watch its clients refuses the second one.
            let (mut session, connector) = match safe.map(|safe| wanted.with_options(safe)) {
                Some(all) => match setup::again(&all) {
                    Ok(session) => (session, all),
                    Err(_) => (setup::again(&wanted)?, wanted),
                },
                None => (setup::again(&wanted)?, wanted),
            };
            guest::check_direct(&mut session)?;
            self.conninfo = connector.conninfo().clone();
            self.scene.session = Some(session);
        }
        Ok(())
    }

    /// Whether a load's sessions are kept from writing.
    pub fn only_reads(&self, plan: &WorkloadPlan) -> bool {
        let ours = self.may_change_all || workload::is_registered(plan);
        !ours && elsewhere::only_reads(plan)
    }

    /// How a load's sessions connect. Where it may not change what we did not make, and its statements
    /// only read, they are read-only, so that a function that they call does not write either.
    pub fn conninfo_of_load(&self, plan: &WorkloadPlan) -> Conninfo {
        match self.only_reads(plan) {
            true => self.conninfo.with_options(setup::READ_ONLY),
            false => self.conninfo.clone(),
        }
    }

    /// Makes what a load needs. What a failure leaves in a server that is not ours is removed.
    ///
    /// # Errors
    /// Like [`setup::create`].
    pub fn make_tables(
        &mut self,
        plan: &WorkloadPlan,
        progress: &mut dyn FnMut(f64),
        stop: &Stop,
    ) -> anyhow::Result<Made> {
        let launched = self.cluster.is_some();
        let listens = self.cluster.as_ref().and_then(Cluster::listening).is_some();
        let session = self.session()?;
        rehearsal::refuse(plan, session, launched)?;
        let made =
            setup::create(session, plan, progress, stop).map_err(|error| match launched {
                true => error,
                false => setup::undone(session, error),
            })?;
        if listens {
            Listening::grant(session)?;
        }
        Ok(made)
    }

    /// From here on there is something of ours in the server, or to keep of what was measured: a
    /// signal asks for a clean end only.
    pub fn keep(&mut self, stop: &Stop) {
        self.kept.get_or_insert_with(|| stop.defer());
    }

    /// The session of our own.
    ///
    /// # Errors
    /// Where it was closed.
    pub fn session(&mut self) -> anyhow::Result<&mut Session> {
        self.scene
            .session
            .as_mut()
            .context("the control session is closed")
    }

    /// The server's data directory, where we launched it.
    pub fn data_dir(&self) -> Option<PathBuf> {
        self.cluster.as_ref().map(Cluster::data_dir)
    }

    /// Asks the server for what the report needs.
    ///
    /// # Errors
    /// Where the session broke.
    pub fn facts(&mut self) -> anyhow::Result<ServerFacts> {
        let executable = match self.scene.postmaster.clone() {
            Ok(pid) => match std::fs::read_link(format!("/proc/{pid}/exe")) {
                Ok(path) => Reading::Text(path.display().to_string()),
                Err(e) => Reading::Unavailable(format!("/proc/{pid}/exe: {e}")),
            },
            Err(why) => Reading::Unavailable(why),
        };
        let origin = self.origin.clone();
        let pooler = self.pooler.clone();
        let session = self.session()?;
        let version = session.value("SELECT pg_catalog.version()")?;
        let number = session.value("SHOW server_version_num")?;
        let mut rows =
            session.rows("SELECT name, setting, unit, source FROM pg_catalog.pg_settings")?;
        // Settings of a library that this session has not loaded stand in no other place.
        let may = session.catalog_value(
            "SELECT pg_catalog.has_function_privilege('pg_catalog.pg_show_all_file_settings()', 'EXECUTE') \
             AND pg_catalog.has_table_privilege('pg_catalog.pg_file_settings', 'SELECT')",
        );
        if may.is_ok_and(|may| may.as_deref() == Some("t"))
            && let Ok(of_libraries) = session.catalog_rows(OF_LIBRARIES)
        {
            rows.rows.extend(of_libraries.rows);
        }
        let mut name_of =
            |who: &str| session.catalog_value(&format!("SELECT pg_catalog.quote_ident({who})"));
        let (role, database) = (
            name_of("current_user")?,
            name_of("pg_catalog.current_database()")?,
        );
        let settings: Vec<_> = rows
            .rows
            .iter()
            .filter_map(|row| {
                let [name, setting, unit, source] = row.as_slice() else {
                    return None;
                };
                let name = name.as_deref()?;
                let setting = if may_hold_secret(name) {
                    None
                } else {
                    setting.as_deref()
                };
                Some(json!({"name": name, "setting": setting, "unit": unit, "source": source}))
            })
            .collect();
        Ok(ServerFacts {
            origin,
            pooler,
            version: version.map_or_else(
                || Reading::Unavailable("version() is null".into()),
                Reading::Text,
            ),
            version_num: number.and_then(|n| n.parse().ok()),
            settings: Reading::Text(serde_json::to_string(&settings)?),
            executable,
            database_before: Some(pgassay_observe::stat_database(&mut self.scene)),
            role,
            database,
        })
    }

    /// The settings asked for by `--set` that are not in force, in words.
    ///
    /// # Errors
    /// Where the session broke.
    pub fn settings_not_in_force(&mut self) -> anyhow::Result<Vec<String>> {
        let Some(cluster) = &self.cluster else {
            return Ok(Vec::new());
        };
        let asked: Vec<String> = cluster
            .settings()
            .iter()
            .map(|(name, _)| name.to_owned())
            .collect();
        // The server takes hba_file from the command line, and calls it an override.
        // Not as a question to the catalogs, which would find the settings that it makes itself. The server
        // is ours, and nobody else's operators are in it.
        let rows = self.session()?.rows(
            "SELECT pg_catalog.lower(name), source, setting FROM pg_catalog.pg_settings \
             WHERE source NOT IN ('command line', 'configuration file') AND name <> 'hba_file'",
        )?;
        Ok(rows
            .rows
            .iter()
            .filter_map(|row| {
                let [Some(name), Some(source), setting] = row.as_slice() else {
                    return None;
                };
                asked.iter().any(|a| a.eq_ignore_ascii_case(name)).then(|| {
                    format!(
                        "{name} is {} by {source}",
                        setting.as_deref().unwrap_or("null")
                    )
                })
            })
            .collect())
    }
}

/// Settings that findings about a library name (`KNOWN`, detect/extensions.rs), as the configuration files have them.
/// Others are left out: who sets one may keep a secret in it.
const OF_LIBRARIES: &str = "SELECT f.name, f.setting, NULL, 'configuration file' \
    FROM pg_catalog.pg_file_settings f WHERE f.applied AND f.name = 'pg_trgm.similarity_threshold' \
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_settings s WHERE s.name = f.name)";

/// What to launch from: what is installed, or the archived build where it was asked for.
fn installation(
    spec: &TargetSpec,
    flags: &TargetArgs,
    stop: &Stop,
) -> anyhow::Result<Installation> {
    let missing = match spec.installation(&Installations::search()) {
        Ok(Some(installation)) => return Ok(installation),
        Ok(None) => anyhow::bail!("a launched target has an installation"),
        Err(error) => error,
    };
    let Some(stand_in) = spec.stand_in() else {
        return Err(explain(missing));
    };
    if !flags.stand_in {
        // Never fetched without being asked for: its figures are not those of the user's build.
        return Err(Failure::target(missing.to_string())
            .with_remedy(format!(
                "install it, or add --stand-in to use {}: {}",
                stand_in.description(),
                stand_in.caveat()
            ))
            .into());
    }
    let _kept = stop.defer();
    let scratch = Scratch::open(flags.scratch.as_deref()).map_err(explain)?;
    stand_in
        .installation(&scratch, stop.flag())
        .map_err(|error| interrupted_or(stop, explain(error)))
}

/// Settings whose value may hold a password or token never reach a run directory.
fn may_hold_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [
        "conninfo",
        "password",
        "passphrase",
        "secret",
        "token",
        "command",
        "key",
    ]
    .iter()
    .any(|word| name.contains(word))
}

fn interrupted_or(stop: &Stop, error: anyhow::Error) -> anyhow::Error {
    if stop.asked() {
        Failure::interrupted().into()
    } else {
        error
    }
}
