//! A launched cluster whose sessions are counted: by the processor's own counter where there is
//! one, else under valgrind's callgrind; of another processor, in an emulator.

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
use super::emulator::{self, Emulator, Through};
use super::gate::Gate;
use crate::workload::schema::SCHEMA;
use crate::workload::{self, setup};

/// valgrind runs a server some fifty times slower.
const START: Duration = Duration::from_secs(600);
/// How long a session's process may take to end and write its counts.
const WRITING: Duration = Duration::from_secs(120);

/// The port of the gate's socket, beside the server's.
const GATE: u16 = 5433;

/// Who counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    /// The processor, at full speed; instructions only.
    Processor,
    /// callgrind, some fifty times slower; locked instructions and functions, too.
    Callgrind,
    /// An emulator of another processor; atomics, too.
    Emulator(Emulator),
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
    pub fn words(&self) -> String {
        let who = match self {
            Self::Processor => "the processor's counter".to_owned(),
            Self::Callgrind => "valgrind callgrind".to_owned(),
            Self::Emulator(emulator) => format!("qemu's user emulation of {emulator}"),
        };
        format!(
            "{who}: user-mode instructions of one session's process, the difference of two lengths"
        )
    }
}

/// A cluster that is counted; removed on drop.
pub struct Counter {
    // Dropped in this order: the server writes into the place until it ends.
    gate: Gate,
    banner: String,
    cluster: Cluster,
    place: Place,
    method: Method,
    workload: WorkloadPlan,
    stop: Stop,
}

impl Counter {
    /// Launches a cluster of the programs in `bin_dir`, makes what the workload needs, and
    /// starts it again to be counted.
    ///
    /// # Errors
    /// Where valgrind is not here, or the server can't be had.
    pub fn launch(
        bin_dir: &Path,
        settings: &Settings,
        workload: &WorkloadPlan,
        base: Option<&Path>,
        method: Method,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let counter = Self::launch_with(bin_dir, settings, base, method, stop, &mut |session| {
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
        bin_dir: &Path,
        settings: &Settings,
        base: Option<&Path>,
        method: Method,
        stop: &Stop,
        prepare: &mut dyn FnMut(&mut Session) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let valgrind = match method {
            Method::Processor | Method::Emulator(_) => None,
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
        let place = Place::make(base)?;
        match &method {
            Method::Emulator(emulator) => {
                let through = emulator.prepare(&place.dir, &place.out())?;
                place.emulated(bin_dir, &through)?;
            }
            _ => place.native(bin_dir, valgrind.as_deref())?,
        }
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
            banner: wrapped.banner,
            cluster,
            place,
            method,
            workload: WorkloadPlan::default(),
            stop: stop.clone(),
        })
    }

    /// The version that the server said.
    pub fn banner(&self) -> &str {
        &self.banner
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
            Method::Callgrind | Method::Emulator(_) => None,
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
/// counting-XXXX/out/     what callgrind or the emulator's plugin writes, the server user's
/// counting-XXXX/switch   there once the server is to be counted
/// ```
struct Place {
    dir: PathBuf,
    /// Says that we live, for the sweep of a later run.
    _held: File,
}

impl Place {
    fn make(base: Option<&Path>) -> anyhow::Result<Self> {
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
        Ok(place)
    }

    /// Puts a server of this machine into it, which runs under valgrind once it is to be counted.
    fn native(&self, bin_dir: &Path, valgrind: Option<&Path>) -> anyhow::Result<()> {
        for tool in ["initdb", "pg_config", "psql"] {
            let real = bin_dir.join(tool);
            if real.is_file() {
                symlink(real, self.bin().join(tool))?;
            }
        }
        let real = quoted(&bin_dir.join("postgres"))?;
        let counting = match valgrind {
            None => None,
            Some(valgrind) => {
                let out = quoted(&self.out())?;
                Some(format!(
                    "{} --tool=callgrind --trace-children=yes --collect-bus=yes \
                     --callgrind-out-file={out}/callgrind.%p --log-file={out}/valgrind.%p {real}",
                    quoted(valgrind)?
                ))
            }
        };
        self.script("postgres", &real, counting.as_deref())
    }

    /// Puts a server of another processor into it, which runs in an emulator always, and with its plugin once it is
    /// to be counted.
    fn emulated(&self, bin_dir: &Path, through: &Through) -> anyhow::Result<()> {
        // initdb looks for the files of its installation beside the place that it was started from.
        if let Some(prefix) = bin_dir.parent() {
            for entry in fs::read_dir(prefix)? {
                let entry = entry?;
                if entry.path() != bin_dir && !self.dir.join(entry.file_name()).exists() {
                    symlink(entry.path(), self.dir.join(entry.file_name()))?;
                }
            }
        }
        let line = |words: &[&[String]], tool: &str| -> anyhow::Result<String> {
            let words = words.iter().copied().flatten();
            let mut line: Vec<String> = words
                .map(|word| quoted(Path::new(word)))
                .collect::<Result<_, _>>()?;
            line.push(quoted(&bin_dir.join(tool))?);
            Ok(line.join(" "))
        };
        let named = self.bin().join("initdb");
        let named = named.to_str().context("a path is not UTF-8")?;
        let named = ["-0".to_owned(), named.to_owned()];
        let initdb = line(&[&through.words, &named], "initdb")?;
        self.script("initdb", &initdb, None)?;
        let plain = line(&[&through.words], "postgres")?;
        let counting = line(&[&through.words, &through.counting], "postgres")?;
        self.script("postgres", &plain, Some(&counting))
    }

    /// A program that is executed through `plain`, or through `counting` once it is to be counted.
    fn script(&self, name: &str, plain: &str, counting: Option<&str>) -> anyhow::Result<()> {
        let mut script = "#!/bin/sh\n".to_owned();
        if let Some(counting) = counting {
            let switch = quoted(&self.switch())?;
            script.push_str(&format!(
                "if [ -e {switch} ]; then\n    exec {counting} \"$@\"\nfi\n"
            ));
        }
        script.push_str(&format!("exec {plain} \"$@\"\n"));
        let path = self.bin().join(name);
        fs::write(&path, script)?;
        fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        Ok(())
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
        let emulated = self.out().join(format!("{}{pid}", emulator::WRITTEN));
        let read = |path: &Path| fs::read_to_string(path).ok();
        let until = Instant::now() + WRITING;
        loop {
            let found = read(&path).and_then(|text| Profile::parse(&text));
            let found = found.or_else(|| emulator::counts(&read(&emulated)?));
            if let Some(profile) = found {
                return Ok(profile);
            }
            if stop.asked() {
                bail!(Failure::interrupted());
            }
            if Instant::now() > until {
                bail!(
                    "no counts of the session were written within {} s (below {})",
                    WRITING.as_secs(),
                    self.out().display()
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

/// A path or word as a shell takes it.
fn quoted(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().context("a path is not UTF-8")?;
    Ok(shlex::try_quote(text)?.into_owned())
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
