//! A launched cluster whose sessions are counted: by the processor's own counter where there is
//! one, else under valgrind's callgrind.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use pgassay_load::script::Value;
use pgassay_load::{Edge, Engine, Length, Options, Protocol, SliceSpec};
use pgassay_model::workload::WorkloadPlan;
use pgassay_model::{Failure, FailureKind};
use pgassay_pgwire::{Conninfo, ResultSet, Session};
use pgassay_server::account::Account;
use pgassay_server::scratch::Scratch;
use pgassay_server::settings::Settings;
use pgassay_server::{Cluster, Installation, LaunchOptions, TargetError, unfinished};
use pgassay_sys::programs::in_path;
use pgassay_sys::stop::Stop;
use pgassay_sys::tally::Instructions;

use super::callgrind::Profile;
use super::gate::Gate;
use crate::workload::pgbench_tables::SCHEMA;
use crate::workload::{self, setup};

/// valgrind runs a server some fifty times slower.
const START: Duration = Duration::from_secs(600);
/// How long a session's process may take to end and write its counts.
const WRITING: Duration = Duration::from_secs(120);

/// The port of the gate's socket, beside the server's.
const GATE: u16 = 5433;

/// Who counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The processor, at full speed; instructions only.
    Processor,
    /// callgrind, some fifty times slower; locked instructions and functions, too.
    Callgrind,
}

impl Method {
    /// The processor's counter where it answers; with why not where it doesn't.
    pub fn at_hand() -> (Self, Option<String>) {
        let counted = Instructions::of(std::process::id()).and_then(|mut own| own.so_far());
        match counted {
            Ok(1..) => (Self::Processor, None),
            Ok(0) => (Self::Callgrind, Some("its counter stands still".to_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (
                Self::Callgrind,
                Some("the kernel knows none, as in most virtual machines".to_owned()),
            ),
            Err(error) => (Self::Callgrind, Some(error.to_string())),
        }
    }

    /// What is counted and how, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Processor => {
                "the processor's counter: user-mode instructions of one session's process, the \
                 difference of two lengths"
            }
            Self::Callgrind => {
                "valgrind callgrind: user-mode instructions of one session's process, the \
                 difference of two lengths"
            }
        }
    }
}

/// A cluster that is counted; removed on drop.
pub struct Counter {
    // Dropped in this order: the server writes into the place until it ends.
    gate: Gate,
    cluster: Cluster,
    place: Place,
    method: Method,
    workload: WorkloadPlan,
    stop: Stop,
}

impl Counter {
    /// Launches a cluster of `installation`, makes what the workload needs, and
    /// starts it again to be counted.
    ///
    /// # Errors
    /// Where valgrind is not here, or the server can't be had.
    pub fn launch(
        installation: &Installation,
        settings: &Settings,
        workload: &WorkloadPlan,
        base: Option<&Path>,
        method: Method,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let counter =
            Self::launch_with(installation, settings, base, method, stop, &mut |session| {
                setup::create(session, workload, &mut |_| {}, stop)?;
                Ok(())
            })?;
        let mut counter = Self {
            workload: workload.clone(),
            ..counter
        };
        // The first session writes what later ones find: caches on disk, pages in memory. A page
        // that must be read first costs more instructions than the transaction itself.
        let mut session = pgassay_pgwire::connect(&Conninfo::parse(&counter.cluster.conninfo())?)?;
        setup::read_in(&mut session)?;
        session.close();
        counter.session(20, 0)?;
        Ok(counter)
    }

    /// Launches a cluster, has `prepare` make what is needed in it, and starts it again to be
    /// counted.
    ///
    /// # Errors
    /// Where valgrind is not here, or the server can't be had.
    pub fn launch_with(
        installation: &Installation,
        settings: &Settings,
        base: Option<&Path>,
        method: Method,
        stop: &Stop,
        prepare: &mut dyn FnMut(&mut Session) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let valgrind = match method {
            Method::Processor => None,
            Method::Callgrind => Some(in_path("valgrind").ok_or_else(|| {
                Failure::target(
                    "counting instructions needs valgrind, which is not here, or a processor's \
                     counter, which this machine does not offer",
                )
                .with_remedy(
                    "Debian and Ubuntu: apt-get install valgrind; or compare by time (leave --by \
                     out)",
                )
            })?),
        };
        let place = Place::make(installation, valgrind.as_deref(), base)?;
        let wrapped = Installation::at(&place.bin()).map_err(told)?;
        let mut settings = settings.clone();
        // Nothing may run beside the session that is counted.
        settings.set_default("autovacuum", "off");
        settings.set_default("shared_buffers", "128MB");
        let options = LaunchOptions {
            settings,
            scratch: base.map(Path::to_path_buf),
            start_timeout: START,
            stop: Some(stop.flag().clone()),
            ..LaunchOptions::default()
        };
        let mut cluster = Cluster::launch(&wrapped, &options).map_err(told)?;
        let mut session = pgassay_pgwire::connect(&Conninfo::parse(&cluster.conninfo())?)?;
        prepare(&mut session)?;
        // Hint bits and freezing are work that the first reader would do for all.
        session.execute("VACUUM (FREEZE, ANALYZE)")?;
        session.execute("CHECKPOINT")?;
        session.close();
        fs::write(place.switch(), "")?;
        cluster.restart(&Settings::default()).map_err(told)?;
        let socket_dir = cluster.socket_dir();
        let gate = Gate::open(
            socket_dir.join(format!(".s.PGSQL.{GATE}")),
            socket_dir.join(".s.PGSQL.5432"),
        )
        .context("no socket can be made beside the server's")?;
        Ok(Self {
            gate,
            cluster,
            place,
            method,
            workload: WorkloadPlan::default(),
            stop: stop.clone(),
        })
    }

    /// The counts of one session that sends these statements, by callgrind, and what each
    /// returned.
    ///
    /// # Errors
    /// Where one fails, or the counts do not come.
    pub fn statements(&self, statements: &[String]) -> anyhow::Result<(Profile, Vec<ResultSet>)> {
        let mut session = pgassay_pgwire::connect(&Conninfo::parse(&self.cluster.conninfo())?)?;
        let backend = session.backend_pid().unsigned_abs();
        let mut returned = Vec::new();
        for statement in statements {
            returned.push(session.rows(statement)?);
        }
        session.close();
        Ok((self.place.counts_of(backend, &self.stop)?, returned))
    }

    /// The counts of one session that runs so many transactions from a seed.
    ///
    /// # Errors
    /// Where it fails, or its counts do not come.
    pub fn session(&mut self, transactions: u64, seed: u64) -> anyhow::Result<Profile> {
        self.session_of(&self.workload, transactions, seed)
    }

    /// The same of another workload.
    ///
    /// # Errors
    /// Where it fails, or its counts do not come.
    pub fn session_of(
        &self,
        workload: &WorkloadPlan,
        transactions: u64,
        seed: u64,
    ) -> anyhow::Result<Profile> {
        let protocol = match workload.protocol.as_str() {
            "simple" => Protocol::Simple,
            "extended" => Protocol::Extended,
            _ => Protocol::Prepared,
        };
        let options = Options {
            protocol,
            threads: Some(1),
            variables: vec![("scale".to_owned(), Value::Int(i64::from(workload.scale)))],
            stop: self.stop.flag().clone(),
            drain: WRITING,
            ..Options::default()
        };
        let mut conninfo = Conninfo::parse(&format!(
            "host={} port={GATE} user=postgres dbname=postgres",
            self.cluster.socket_dir().display()
        ))?;
        conninfo.options = Some(format!("-c search_path={SCHEMA}"));
        let mut engine = Engine::new(conninfo, workload::program(workload)?, options);
        engine.resize(1)?;
        let backend = self
            .gate
            .backend()
            .context("the server did not say which process serves the session")?;
        let mut counter = match self.method {
            Method::Processor => {
                Some(Instructions::of(backend).context("the processor's counter")?)
            }
            Method::Callgrind => None,
        };
        let spec = SliceSpec {
            length: Length::Transactions(transactions),
            seed,
            ..SliceSpec::default()
        };
        let result = engine.run_slice(&spec, &mut |_: Edge| {});
        let counted = counter.as_mut().map(Instructions::so_far).transpose();
        drop(engine);
        if self.stop.asked() {
            bail!(Failure::interrupted());
        }
        if result.transactions != transactions {
            let example = result.failure_examples.values().next().cloned();
            bail!(Failure::target(format!(
                "{} of {transactions} transactions ended well: {}",
                result.transactions,
                example.or(result.died).unwrap_or_default()
            )));
        }
        match counted.context("the processor's counter")? {
            Some(instructions) => Ok(Profile {
                instructions,
                ..Profile::default()
            }),
            None => self.place.counts_of(backend, &self.stop),
        }
    }
}

/// Directories of a counted server.
///
/// ```text
/// counting-XXXX/bin/     the installation's programs by links, and a `postgres` that can be switched
/// counting-XXXX/out/     what callgrind writes, the server user's
/// counting-XXXX/switch   there once the server is to be counted
/// ```
struct Place {
    dir: PathBuf,
    /// Says that we live, for the sweep of a later run.
    _held: File,
}

impl Place {
    fn make(
        installation: &Installation,
        valgrind: Option<&Path>,
        base: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let root = Scratch::open(base).map_err(told)?.root().to_path_buf();
        let dir = root.join(unfinished::name("counting-", next()));
        let held = fs::create_dir(&dir)
            .and_then(|()| unfinished::hold(&dir))
            .with_context(|| format!("{} can't be made", dir.display()))?;
        let place = Self { dir, _held: held };
        for dir in [place.bin(), place.out()] {
            fs::create_dir(&dir)?;
        }
        for dir in [place.dir.clone(), place.bin()] {
            fs::set_permissions(dir, Permissions::from_mode(0o755))?;
        }
        if let Some(account) = Account::for_servers().map_err(told)? {
            account.give(&place.out()).map_err(told)?;
        }
        for tool in ["initdb", "pg_config", "psql"] {
            let real = installation.tool(tool);
            if real.is_file() {
                symlink(real, place.bin().join(tool))?;
            }
        }
        let quote = |path: &Path| -> anyhow::Result<String> {
            let text = path.to_str().context("a path is not UTF-8")?;
            Ok(shlex::try_quote(text)?.into_owned())
        };
        let real = quote(&installation.tool("postgres"))?;
        let script = match valgrind {
            None => format!("#!/bin/sh\nexec {real} \"$@\"\n"),
            Some(valgrind) => format!(
                "#!/bin/sh\nif [ -e {switch} ]; then\n    exec {valgrind} --tool=callgrind \
                 --trace-children=yes --collect-bus=yes --callgrind-out-file={out}/callgrind.%p \
                 --log-file={out}/valgrind.%p {real} \"$@\"\nfi\nexec {real} \"$@\"\n",
                switch = quote(&place.switch())?,
                valgrind = quote(valgrind)?,
                out = quote(&place.out())?,
            ),
        };
        let wrapper = place.bin().join("postgres");
        fs::write(&wrapper, script)?;
        fs::set_permissions(&wrapper, Permissions::from_mode(0o755))?;
        Ok(place)
    }

    fn bin(&self) -> PathBuf {
        self.dir.join("bin")
    }

    fn out(&self) -> PathBuf {
        self.dir.join("out")
    }

    fn switch(&self) -> PathBuf {
        self.dir.join("switch")
    }

    /// Waits for the counts of a process that ends now.
    fn counts_of(&self, pid: u32, stop: &Stop) -> anyhow::Result<Profile> {
        let path = self.out().join(format!("callgrind.{pid}"));
        let until = Instant::now() + WRITING;
        loop {
            if let Ok(text) = fs::read_to_string(&path)
                && let Some(profile) = Profile::parse(&text)
            {
                return Ok(profile);
            }
            if stop.asked() {
                bail!(Failure::interrupted());
            }
            if Instant::now() > until {
                bail!(
                    "callgrind wrote no counts of the session within {} s ({})",
                    WRITING.as_secs(),
                    path.display()
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What stays is small and named after us.
        fs::remove_dir_all(&self.dir).ok();
    }
}

/// A target's error with its exit code.
fn told(error: TargetError) -> Failure {
    let mut failure = Failure::target(error.to_string());
    if matches!(error, TargetError::Interrupted) {
        failure.kind = FailureKind::Interrupted;
    }
    failure
}

/// Numbers the places of one process.
fn next() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
