//! Which processor a server's program is for, and what it takes to emulate it.

use std::path::{Path, PathBuf};

use object::elf::{EM_AARCH64, EM_PPC64, EM_X86_64, ET_DYN, FileHeader64, Machine};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, read};
use pgassay_model::Failure;
use pgassay_sys::map::Mapped;
use pgassay_sys::qemu::{self, AARCH64, PPC64LE, X86_64};

/// A processor whose programs can be recorded under the emulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processor {
    /// What the emulator calls it.
    pub qemu: qemu::Processor,
    /// The model it is to be where nobody named one; qemu's `max` is not there for POWER.
    pub cpu: &'static str,
    /// Bytes of a cache line of most of its kind.
    pub line_bytes: u64,
    machine: Machine,
}

const PROCESSORS: [Processor; 3] = [
    Processor {
        qemu: AARCH64,
        cpu: "max",
        line_bytes: 64,
        machine: EM_AARCH64,
    },
    Processor {
        qemu: PPC64LE,
        cpu: "power9",
        line_bytes: 128,
        machine: EM_PPC64,
    },
    Processor {
        qemu: X86_64,
        cpu: "max",
        line_bytes: 64,
        machine: EM_X86_64,
    },
];

/// A program of another processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// What it is for.
    pub processor: Processor,
    /// The directory in which its libraries lie as they would lie in `/`.
    pub root: PathBuf,
}

impl Foreign {
    /// What a program needs to be emulated; `None` for one of this machine's processor, or what is
    /// no program.
    ///
    /// # Errors
    /// Where it is of another processor, and can't be emulated.
    pub fn of(program: &Path) -> Result<Option<Self>, Failure> {
        let Ok(file) = Mapped::open(program) else {
            return Ok(None);
        };
        let Ok(header) = FileHeader64::<Endianness>::parse(&file[..]) else {
            return Ok(None);
        };
        let Ok(endian) = header.endian() else {
            return Ok(None);
        };
        let machine = header.e_machine(endian);
        let processor = PROCESSORS.into_iter().find(|p| p.machine == machine);
        if processor.is_some_and(|p| p.qemu.is_here()) {
            return Ok(None);
        }
        let Some(processor) = processor.filter(|_| endian == Endianness::Little) else {
            return Err(Failure::target(format!(
                "{}: its processor is none whose sessions can be recorded",
                program.display()
            ))
            .with_remedy("a server for this machine, for aarch64 or for ppc64le"));
        };
        if header.e_type(endian) != ET_DYN {
            return Err(Failure::target(format!(
                "{}: is linked to fixed addresses, which the emulator moves",
                program.display()
            ))
            .with_remedy("build it as a position-independent executable (-pie)"));
        }
        let interpreter = interpreter(header, endian, &file[..]);
        let interpreter = interpreter.ok_or_else(|| {
            Failure::target(format!("{}: is linked statically", program.display()))
        })?;
        match root(program, &interpreter, &processor) {
            Some(root) if !root.join(relative(&interpreter)).exists() => {
                Err(leads_out(&root, &root.join(relative(&interpreter))))
            }
            Some(root) => Ok(Some(Self { processor, root })),
            None => Err(Failure::target(format!(
                "{} is for {}, and its {interpreter} is not found in any directory above it",
                program.display(),
                processor.qemu.name
            ))
            .with_remedy(format!(
                "unpack the server's packages with all they depend on into one directory, or \
                 install the cross compiler's C library (Debian: {})",
                processor.qemu.cross_package()
            ))),
        }
    }
}

fn interpreter(
    header: &FileHeader64<Endianness>,
    endian: Endianness,
    data: &[u8],
) -> Option<String> {
    let programs = header.program_headers(endian, data).ok()?;
    let named = programs.iter().find_map(|p| {
        let found: read::Result<Option<&[u8]>> = p.interpreter(endian, data);
        found.ok().flatten()
    })?;
    Some(String::from_utf8_lossy(named).into_owned())
}

/// The directory above the program that holds its interpreter, or the cross compiler's. Where /lib is a link into
/// /usr, /usr holds it, too: the outer one is the root.
fn root(program: &Path, interpreter: &str, processor: &Processor) -> Option<PathBuf> {
    let interpreter = relative(interpreter);
    let cross = processor.qemu.cross_root();
    let above = program.ancestors().skip(1).map(Path::to_path_buf);
    let is_absolute = |link: &Path| link.read_link().is_ok_and(|to| to.is_absolute());
    let holds = |dir: &PathBuf| {
        let loader = dir.join(interpreter);
        loader.exists() || is_absolute(&loader)
    };
    let outermost = above
        .filter(|dir| *dir != Path::new("/"))
        .filter(holds)
        .last();
    outermost.or_else(|| Some(cross).filter(holds))
}

/// The refusal of a link that leads to what would be there if `root` were `/`.
fn leads_out(root: &Path, link: &Path) -> Failure {
    let to = link.read_link().unwrap_or_default();
    let inside = root.join(to.strip_prefix("/").unwrap_or(&to));
    Failure::target(format!(
        "{} leads to {}, which is not here",
        link.display(),
        to.display()
    ))
    .with_remedy(format!(
        "make the link relative: ln -sfnr {} {}",
        inside.display(),
        link.display()
    ))
}

/// A path below a root.
fn relative(path: &str) -> &str {
    path.trim_start_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_this_machine_is_not_foreign() {
        let us = std::env::current_exe().unwrap();
        assert_eq!(Foreign::of(&us).unwrap(), None);
        assert_eq!(Foreign::of(Path::new("/nowhere")).unwrap(), None);
        assert_eq!(Foreign::of(Path::new("/proc/self/maps")).unwrap(), None);
    }

    #[test]
    fn a_program_without_its_libraries_is_refused_with_the_remedy() {
        let dir = std::env::temp_dir().join(format!("pgassay-foreign-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let mut program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        // EM_S390, which nobody emulates here.
        program[18..20].copy_from_slice(&22_u16.to_le_bytes());
        let path = dir.join("postgres");
        std::fs::write(&path, &program).unwrap();
        let refused = Foreign::of(&path).unwrap_err();
        assert!(
            refused.message.contains("none whose sessions"),
            "{}",
            refused.message
        );
        // POWER's, with the name of an interpreter that is nowhere.
        program[18..20].copy_from_slice(&21_u16.to_le_bytes());
        let of = b"/lib64/ld-linux-x86-64.so.2";
        if let Some(at) = program.windows(of.len()).position(|w| w == of) {
            program[at..at + 6].copy_from_slice(b"/none4");
        }
        std::fs::write(&path, &program).unwrap();
        let refused = Foreign::of(&path).unwrap_err();
        assert!(refused.message.contains("ppc64le"), "{}", refused.message);
        // Where it is a link to an absolute path, as in Debian's libc6 for ppc64el.
        std::fs::create_dir(dir.join("none4")).unwrap();
        let link = dir.join("none4/ld-linux-x86-64.so.2");
        std::os::unix::fs::symlink("/none4/ld.so", &link).unwrap();
        let refused = Foreign::of(&path).unwrap_err();
        let (to, link) = (dir.join("none4/ld.so"), link.display());
        let remedy = refused.remedy.unwrap();
        assert!(
            remedy.ends_with(&format!("ln -sfnr {} {link}", to.display())),
            "{remedy}"
        );
        std::fs::write(&to, "").unwrap();
        std::fs::remove_file(dir.join("none4/ld-linux-x86-64.so.2")).unwrap();
        std::os::unix::fs::symlink("ld.so", dir.join("none4/ld-linux-x86-64.so.2")).unwrap();
        let foreign = Foreign::of(&path).unwrap().unwrap();
        assert_eq!(
            (foreign.processor.cpu, foreign.root),
            ("power9", dir.clone())
        );
        // Within a directory whose /lib is a link into it, as in a merged /usr.
        std::fs::create_dir_all(dir.join("usr/bin")).unwrap();
        std::os::unix::fs::symlink("../none4", dir.join("usr/none4")).unwrap();
        let merged = dir.join("usr/bin/postgres");
        std::fs::rename(&path, &merged).unwrap();
        assert_eq!(Foreign::of(&merged).unwrap().unwrap().root, dir);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
