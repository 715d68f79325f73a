//! CPU samples by the `perf` program, where we may not open perf events ourselves.
//!
//! Some systems let `perf` do what its caller may not (a file capability, CAP_PERFMON
//! for a group). It records beside each window and its text (`perf script`) is folded
//! after the window into the form that our own samples have, each function at an
//! address of its own making. It starts in the window: the first moments are missed.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pgassay_model::observed::Cost;
use pgassay_model::observed::stacks::{KERNEL, ObjectSymbols, StackRecord, SymbolTable};
use pgassay_readings::profile::{Frame, Profile, UNKNOWN};
use pgassay_sys::private::Directory;
use rustix::process::{Pid, Signal, kill_process};

use super::cpu::process_ns;
use super::perf::FREQUENCY_HZ;
use super::server::processes;

/// Bytes of `perf script` that are read of one window.
const MOST_TEXT: u64 = 256 << 20;
/// How long perf may take to write its file when it is told to end, and to probe.
const PATIENCE: Duration = Duration::from_secs(10);

/// The program, and what it records now.
pub struct PerfProgram {
    program: PathBuf,
    postmaster: u32,
    directory: Directory,
    recording: Option<Child>,
    failure: Option<String>,
    /// CPU time of the recording that ended last, nanoseconds.
    own_ns: u64,
    symbols: SymbolTable,
}

impl PerfProgram {
    /// The `perf` of the PATH, if it may sample the server's processes.
    ///
    /// # Errors
    /// That there is none, or what it said.
    pub fn start(postmaster: u32) -> Result<Self, String> {
        let program = pgassay_sys::programs::in_path("perf")
            .ok_or("there is no perf program in the PATH either")?;
        Self::with(&program, postmaster)
    }

    /// The same with this program.
    ///
    /// # Errors
    /// Likewise.
    fn with(program: &Path, postmaster: u32) -> Result<Self, String> {
        // Each has its own: several servers are sampled side by side in a comparison. Nobody
        // else may have made it: perf writes there with our rights.
        let base = std::env::temp_dir();
        let directory = Directory::make(&base, "pgassay-perf")
            .map_err(|e| format!("{}: {e}", base.display()))?;
        let mut perf = Self {
            program: program.to_owned(),
            postmaster,
            directory,
            recording: None,
            failure: None,
            own_ns: 0,
            symbols: SymbolTable::default(),
        };
        // Whether it may: on the first process alone, and at once over.
        perf.record(&[postmaster], &["--", "true"])?;
        perf.finish_recording(false)?;
        Ok(perf)
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("perf.data")
    }

    fn record(&mut self, processes: &[u32], further: &[&str]) -> Result<(), String> {
        let list: Vec<String> = processes.iter().map(u32::to_string).collect();
        let said = self.directory.path().join("said");
        let errors = fs::File::create(&said).map_err(|e| format!("{}: {e}", said.display()))?;
        let mut command = pgassay_sys::programs::command(&self.program);
        command
            .args(["record", "--quiet", "--event", "cpu-clock"])
            .args(["--freq", &FREQUENCY_HZ.to_string(), "-g"])
            .arg("--output")
            .arg(self.data())
            .args(["--pid", &list.join(",")])
            .args(further)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors);
        let child = pgassay_sys::bound::spawn(command, Signal::KILL)
            .map_err(|e| format!("{}: {e}", self.program.display()))?;
        self.recording = Some(child);
        Ok(())
    }

    /// Waits for perf's end; `told` says that it ends by our signal.
    fn finish_recording(&mut self, told: bool) -> Result<(), String> {
        let Some(mut child) = self.recording.take() else {
            return Err(self
                .failure
                .clone()
                .unwrap_or_else(|| "perf was not started".to_owned()));
        };
        let until = Instant::now() + PATIENCE;
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Ok(None) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err("perf record did not end when it was told to".to_owned());
                }
                Err(e) => return Err(format!("perf record: {e}")),
            }
        };
        // Told to end by a signal it may say so by its status.
        if status.success() || (told && self.data().exists()) {
            return Ok(());
        }
        let said = fs::read_to_string(self.directory.path().join("said")).unwrap_or_default();
        let mut lines = said.lines().map(str::trim);
        // What is wrong stands below a line that says that something is.
        let why = lines.find(|line| !line.is_empty() && *line != "Error:");
        Err(format!(
            "perf record ended with {status}: {}",
            why.unwrap_or("it said nothing")
        ))
    }

    /// A window begins.
    pub fn begin(&mut self) {
        let _ = fs::remove_file(self.data());
        self.failure = self.record(&processes(self.postmaster), &[]).err();
    }

    /// The window ends: perf is told so.
    pub fn stop_window(&mut self) {
        if let Some(child) = &self.recording {
            self.own_ns = process_ns(child.id()).unwrap_or(0);
            // One that has ended by itself is told by its status. Not SIGINT: a shell's job in the
            // background inherits that it is ignored.
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
        }
    }

    /// What was seen in the window that ended.
    ///
    /// # Errors
    /// Where nothing was.
    pub fn end(&mut self) -> Result<(StackRecord, Cost), String> {
        self.finish_recording(true)?;
        let text = self.script()?;
        let profile = Profile::parse(&text).map_err(|e| format!("perf script: {e}"))?;
        let cost = Cost {
            observer: "perf".to_owned(),
            own_ns: self.own_ns,
            server_ns: 0,
            statements: 0,
        };
        Ok((fold(&profile, &mut self.symbols), cost))
    }

    fn script(&self) -> Result<String, String> {
        let mut command = pgassay_sys::programs::command(&self.program);
        command
            .args(["script", "--input"])
            .arg(self.data())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = pgassay_sys::bound::spawn(command, Signal::KILL)
            .map_err(|e| format!("{}: {e}", self.program.display()))?;
        let mut text = Vec::new();
        let read = child
            .stdout
            .take()
            .map(|pipe| pipe.take(MOST_TEXT).read_to_end(&mut text));
        // What is beyond is not read, and perf ends by the closed pipe.
        let ended = child.wait();
        match (read, ended) {
            (Some(Ok(_)), Ok(_)) => Ok(String::from_utf8_lossy(&text).into_owned()),
            (Some(Err(e)), _) | (_, Err(e)) => Err(format!("perf script: {e}")),
            (None, _) => Err("perf script could not be read".to_owned()),
        }
    }

    /// The names of all that was hit.
    pub fn finish(mut self) -> SymbolTable {
        std::mem::take(&mut self.symbols)
    }
}

impl Drop for PerfProgram {
    fn drop(&mut self) {
        if let Some(mut child) = self.recording.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A profile as a record of one second. An object of it is recorded as `perf:NAME`, and
/// a function at an address that stands for its name.
fn fold(profile: &Profile, symbols: &mut SymbolTable) -> StackRecord {
    let mut record = StackRecord {
        frequency_hz: FREQUENCY_HZ,
        callers: "perf record -g".to_owned(),
        ..StackRecord::default()
    };
    let mut objects: HashMap<String, u32> = HashMap::new();
    let mut frames: HashMap<Frame, u32> = HashMap::new();
    let mut second: Vec<(u32, u32)> = Vec::new();
    for (chain, weight) in profile.stacks() {
        let chain = chain.into_iter().rev().map(|frame| {
            *frames.entry(frame.clone()).or_insert_with(|| {
                let key = match frame.object.as_str() {
                    KERNEL => KERNEL.to_owned(),
                    name => format!("perf:{name}"),
                };
                let object = *objects.entry(key.clone()).or_insert_with(|| {
                    record.objects.push(key.clone());
                    (record.objects.len() - 1) as u32
                });
                record.frames.push((object, address(frame, &key, symbols)));
                (record.frames.len() - 1) as u32
            })
        });
        let chain: Vec<u32> = chain.collect();
        record.chains.push(chain);
        second.push(((record.chains.len() - 1) as u32, weight.round() as u32));
    }
    record.seconds.push(second);
    record
}

/// The address of a function in the table, made where it is new; 0 where it has no name.
fn address(frame: &Frame, key: &str, symbols: &mut SymbolTable) -> u64 {
    if frame.symbol == UNKNOWN {
        return 0;
    }
    let object = symbols
        .objects
        .entry(key.to_owned())
        .or_insert_with(|| ObjectSymbols {
            path: frame.object.clone(),
            functions: Vec::new(),
        });
    let known = object.functions.iter().find(|f| f.2 == frame.symbol);
    match known {
        Some((start, ..)) => *start,
        None => {
            let start = object.functions.last().map_or(1, |(_, end, _)| *end);
            object
                .functions
                .push((start, start + 1, frame.symbol.clone()));
            start
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use pgassay_analysis::observed::stacks;

    use super::*;

    /// What `perf script` printed of a loaded server, shortened.
    const RECORDED: &str = "\
postgres 30400 11622.607994:    2004008 cpu-clock: 
\t          166d00 s_lock+0x40 (/usr/lib/postgresql/15/bin/postgres)
\t          3016aa UnpinBuffer.constprop.0+0x1a (/usr/lib/postgresql/15/bin/postgres)

postgres 30411 [001] 11622.634146:    2004008 cpu-clock: 
\tffffffff813dd850 up_read+0x30 ([kernel.kallsyms])
\t          3016aa UnpinBuffer.constprop.0+0x1a (/usr/lib/postgresql/15/bin/postgres)
\t6f632d667265702f [unknown] ([unknown])

";

    #[test]
    fn its_text_becomes_the_form_of_our_own_samples() {
        let profile = Profile::parse(RECORDED).unwrap();
        let mut symbols = SymbolTable::default();
        let record = fold(&profile, &mut symbols);
        let again = fold(&profile, &mut symbols);
        assert_eq!(record, again);
        let back = stacks::profile([&record, &again].into_iter(), &symbols).unwrap();
        assert_eq!(
            back.folded(),
            "UnpinBuffer;s_lock 2\n[unknown];UnpinBuffer;up_read 2\n"
        );
        assert!(back.stacks().any(|(f, _)| f.last().unwrap().is_kernel()));
        // The kernel's key has no meaning of its own in a profile of ours.
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<StackRecord>(&text).unwrap(), record);
    }

    /// A program that behaves as perf does, as far as it is used.
    fn stand_in(name: &str, record: &str) -> PathBuf {
        let own = std::process::id();
        let directory = std::env::temp_dir().join(format!("pgassay-perf-test-{name}-{own}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("recorded"), RECORDED).unwrap();
        let program = directory.join("perf");
        let script = format!(
            "#!/bin/sh\ncase $1 in\nscript) exec cat {} ;;\nesac\n{record}\n",
            directory.join("recorded").display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    #[test]
    fn a_window_is_what_the_program_saw() {
        // Writes its file when told to end, as perf does; the probe ends by itself.
        let program = stand_in(
            "good",
            "while [ $# -gt 0 ]; do\n\
             case $1 in --output) out=$2 ;; --) : >\"$out\"; exit 0 ;; esac; shift; done\n\
             trap ': >\"$out\"; exit 0' TERM\n\
             : >\"$out.ready\"\n\
             while :; do sleep 0.01; done",
        );
        let mut perf = PerfProgram::with(&program, std::process::id()).unwrap();
        perf.begin();
        let ready = perf.directory.path().join("perf.data.ready");
        let until = Instant::now() + Duration::from_secs(120);
        while !ready.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        perf.stop_window();
        let (record, cost) = perf.end().unwrap();
        assert_eq!(record.seconds[0].len(), 2);
        assert_eq!(cost.observer, "perf");
        let directory = perf.directory.path().to_owned();
        assert!(perf.finish().objects.contains_key("perf:postgres"));
        assert!(!directory.exists());
        fs::remove_dir_all(program.parent().unwrap()).unwrap();
    }

    /// Attack D2: the directory's name could be foretold from the process id, one that somebody
    /// else had made was taken, and the links in it were followed.
    #[test]
    fn a_directory_that_was_prepared_is_not_used() {
        let victim = std::env::temp_dir().join(format!("pgassay-victim-{}", std::process::id()));
        fs::write(&victim, "precious").unwrap();
        let planted: Vec<PathBuf> = (0..64)
            .map(|count| format!("pgassay-perf-{}-{count}", std::process::id()))
            .map(|name| std::env::temp_dir().join(name))
            .collect();
        for directory in &planted {
            fs::create_dir_all(directory).unwrap();
            std::os::unix::fs::symlink(&victim, directory.join("said")).unwrap();
        }
        let program = stand_in("planted", "echo overwritten >&2; exit 255");
        let why = PerfProgram::with(&program, std::process::id())
            .err()
            .unwrap();
        assert!(why.contains("overwritten"), "{why}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        for directory in &planted {
            fs::remove_dir_all(directory).unwrap();
        }
        fs::remove_file(&victim).unwrap();
        fs::remove_dir_all(program.parent().unwrap()).unwrap();
    }

    /// What perf records is for our eyes.
    #[test]
    fn its_directory_is_private() {
        use std::os::unix::fs::MetadataExt;
        let program = stand_in("private", "exit 0");
        let perf = PerfProgram::with(&program, std::process::id()).unwrap();
        let meta = fs::symlink_metadata(perf.directory.path()).unwrap();
        assert_eq!(meta.mode() & 0o7777, 0o700);
        drop(perf);
        fs::remove_dir_all(program.parent().unwrap()).unwrap();
    }

    #[test]
    fn one_that_may_not_says_why() {
        let program = stand_in(
            "forbidden",
            "echo 'Access to performance monitoring is limited.' >&2; exit 255",
        );
        let why = PerfProgram::with(&program, std::process::id())
            .err()
            .unwrap();
        assert!(why.contains("monitoring is limited"), "{why}");
        let missing = PerfProgram::with(Path::new("/nowhere/perf"), 1)
            .err()
            .unwrap();
        assert!(missing.contains("/nowhere/perf"), "{missing}");
        fs::remove_dir_all(program.parent().unwrap()).unwrap();
    }
}
