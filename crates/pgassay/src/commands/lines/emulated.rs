//! A server of another processor, launched under qemu's user emulator so that its sessions can be
//! recorded.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pgassay_engine::count::gate::Gate;
use pgassay_lines::emulated::control::Control;
use pgassay_lines::emulated::processor::Foreign;
use pgassay_lines::emulated::{self, compile};
use pgassay_lines::sequence::Sequence;
use pgassay_lines::session::{Process, Server, named};
use pgassay_model::Failure;
use pgassay_pgwire::Conninfo;
use pgassay_server::account::Account;
use pgassay_server::scratch::Scratch;
use pgassay_server::{Cluster, TargetSpec};
use pgassay_sys::private;
use pgassay_sys::stop::Stop;
use pgassay_text::shell_word;

use crate::cli::lines::LinesArgs;
use crate::exit::explain;

/// The port of the first session's gate, beside the server's own socket.
const GATE: u16 = 5440;
/// The programs that a cluster is launched by.
const TOOLS: [&str; 2] = ["initdb", "postgres"];

/// An installation of another processor, with what launches it here.
///
/// ```text
/// emulated-XXXX/bin/      scripts named as the programs, which start the emulator
/// emulated-XXXX/…         links to what lies beside the programs' directory
/// emulated-XXXX/record/   the plugin, what tells it whom to record, and what it writes
/// ```
pub struct Emulated {
    foreign: Foreign,
    /// Where the real programs are.
    bin_dir: PathBuf,
    cpu: String,
    control: Control,
    gates: Vec<Gate>,
    place: private::Directory,
}

impl Emulated {
    /// What the target needs; `None` where it is a server of this machine's processor.
    ///
    /// # Errors
    /// Where it is of another one and can't be emulated here.
    pub fn of(spec: &TargetSpec, args: &LinesArgs) -> anyhow::Result<Option<Self>> {
        let TargetSpec::Prefix(prefix) = spec else {
            return no_cpu(args);
        };
        let bin_dir = [prefix.clone(), prefix.join("bin")]
            .into_iter()
            .find(|dir| dir.join("postgres").is_file());
        let Some(bin_dir) = bin_dir else {
            return no_cpu(args);
        };
        let bin_dir = fs::canonicalize(bin_dir)?;
        let Some(foreign) = Foreign::of(&bin_dir.join("postgres"))? else {
            return no_cpu(args);
        };
        let emulator = foreign.processor.qemu.find().map_err(|lacking| Failure {
            remedy: lacking.remedy.map(str::to_owned),
            ..Failure::target(format!(
                "{} is for {}, and {}",
                bin_dir.display(),
                foreign.processor.qemu.name,
                lacking.what
            ))
        })?;
        let scratch = Scratch::open(args.scratch.as_deref()).map_err(explain)?;
        let place = private::Directory::make(scratch.root(), "emulated")?;
        let (bin, record) = (place.path().join("bin"), place.path().join("record"));
        fs::create_dir(&bin)?;
        fs::create_dir(&record)?;
        for dir in [place.path(), &bin, &record] {
            fs::set_permissions(dir, Permissions::from_mode(0o755))?;
        }
        let plugin = compile(&record)?;
        let control = Control::make(&record.join("control"))?;
        if let Some(account) = Account::for_servers().map_err(explain)? {
            account.give(&record).map_err(explain)?;
        }
        let emulated = Self {
            bin_dir,
            cpu: match &args.emulated_cpu {
                Some(cpu) => cpu.clone(),
                None => foreign.processor.cpu.to_owned(),
            },
            foreign,
            control,
            gates: Vec::new(),
            place,
        };
        for tool in TOOLS {
            emulated.script(tool, &emulator, &plugin)?;
        }
        // A server looks for its libraries and other files beside the directory of its programs.
        let beside = emulated.bin_dir.parent().map(fs::read_dir).transpose()?;
        for entry in beside.into_iter().flatten().flatten() {
            if entry.path() != emulated.bin_dir {
                symlink(entry.path(), emulated.place.path().join(entry.file_name())).ok();
            }
        }
        Ok(Some(emulated))
    }

    /// A program that starts the real one under the emulator. Only a server is recorded: what initdb
    /// has `postgres` do begins with a long option.
    fn script(&self, tool: &str, emulator: &Path, plugin: &Path) -> anyhow::Result<()> {
        let path = |path: &Path| -> anyhow::Result<String> {
            Ok(shell_word(path.to_str().context("a path is not UTF-8")?))
        };
        let real = self.bin_dir.join(tool);
        if !real.is_file() {
            return Ok(());
        }
        let start = format!(
            "exec {} -cpu {} -L {} -0 \"$0\"",
            path(emulator)?,
            shell_word(&self.cpu),
            path(&self.foreign.root)?
        );
        let option = format!(
            "{},control={}",
            plugin.display(),
            self.control.path().display()
        );
        let plain = format!("{start} {} \"$@\"", path(&real)?);
        let text = match tool {
            "postgres" => format!(
                "#!/bin/sh\ncase \"$1\" in\n-D) {start} -plugin {} {} \"$@\" ;;\nesac\n{plain}\n",
                shell_word(&option),
                path(&real)?
            ),
            _ => format!("#!/bin/sh\n{plain}\n"),
        };
        let script = self.place.path().join("bin").join(tool);
        fs::write(&script, text)?;
        fs::set_permissions(&script, Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// What is launched in the target's place.
    pub fn spec(&self) -> TargetSpec {
        TargetSpec::Prefix(self.place.path().join("bin"))
    }

    /// The server in words.
    pub fn shown(&self, cluster: &Cluster) -> String {
        format!(
            "PostgreSQL {} of {}, for {}",
            cluster.installation().version,
            self.bin_dir.display(),
            self.foreign.processor.qemu.name
        )
    }

    /// How sessions are recorded, in words.
    pub fn method(&self) -> String {
        format!(
            "Sessions of the server recorded under {} -cpu {}",
            self.foreign.processor.qemu.emulator(),
            self.cpu
        )
    }

    /// Bytes of a cache line there.
    pub fn line_bytes(&self) -> u64 {
        self.foreign.processor.line_bytes
    }

    /// Where the next session connects: its messages come through when the server waits for them.
    ///
    /// # Errors
    /// Where no socket can be made beside the server's.
    pub fn next_gate(
        &mut self,
        conninfo: &Conninfo,
        cluster: &Cluster,
    ) -> anyhow::Result<Conninfo> {
        let dir = cluster.socket_dir();
        let number = u16::try_from(self.gates.len()).unwrap_or(u16::MAX);
        let port = GATE.saturating_add(number);
        let gate = Gate::open(
            dir.join(format!(".s.PGSQL.{port}")),
            dir.join(format!(".s.PGSQL.{}", cluster.port())),
        )
        .context("no socket can be made beside the server's")?;
        self.gates.push(gate);
        let mut through = conninfo.clone();
        let on_gate = Conninfo::on_socket(&dir.display().to_string(), port, "postgres", "postgres");
        through.hosts = on_gate.hosts;
        Ok(through)
    }

    /// Records what `client` has a session do, as [`pgassay_lines::session::step`] does.
    ///
    /// # Errors
    /// Where it can't be recorded, or what the client came to.
    pub fn record(
        &self,
        process: Process,
        server: &Server,
        transactions: u64,
        stop: &Stop,
        client: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<(Sequence, Vec<String>), Failure> {
        let recording = emulated::record(process.pid, &self.control, stop.flag(), client)?;
        let program = self.bin_dir.join("postgres");
        named(&recording, process, server, &program, transactions)
    }
}

/// A flag that is for servers of other processors only.
fn no_cpu(args: &LinesArgs) -> anyhow::Result<Option<Emulated>> {
    if args.emulated_cpu.is_some() {
        bail!(
            Failure::usage("--emulated-cpu is for a server of another processor")
                .with_remedy("name the directory of its installation, or leave the flag out")
        );
    }
    Ok(None)
}
