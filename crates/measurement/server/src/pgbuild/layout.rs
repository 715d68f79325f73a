//! The same objects linked in another order.
//!
//! Where code lies moves results by several per cent: caches, branch predictors
//! and page boundaries see other addresses. A difference between two builds that
//! is smaller than that between two orders of one build is no difference of the
//! builds. So each variant can be linked in K random orders, each a target of
//! its own: `build:NAME.layout1` …

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::builder::tool;
use super::files::hash_of;
use super::place::{make_dir, remove};
use super::recipe::System;
use pgassay_model::Failure;

/// The command that linked the server, and where it ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    words: Vec<String>,
    dir: PathBuf,
}

impl Link {
    /// The command, from the build's log or from ninja.
    ///
    /// # Errors
    /// Where it can't be found.
    pub fn find(system: System, tree: &Path, log: &Path) -> anyhow::Result<Self> {
        let (line, dir) = match system {
            System::Autoconf => {
                let log = fs::read(log).unwrap_or_default();
                let log = String::from_utf8_lossy(&log);
                let line = log.lines().rev().find(|line| links_server(line));
                (line.map(str::to_owned), tree.join("src/backend"))
            }
            System::Meson => {
                let dir = tree.join("build");
                let output = tool("ninja")
                    .arg("-C")
                    .arg(&dir)
                    .args(["-t", "commands", "src/backend/postgres"])
                    .output()
                    .context("ninja can't be run")?;
                let said = String::from_utf8_lossy(&output.stdout);
                (said.lines().last().map(str::to_owned), dir)
            }
        };
        let words = line
            .and_then(|line| shlex::split(&line))
            .unwrap_or_default();
        let link = Self {
            words: expanded(words, &dir)?,
            dir,
        };
        if link.objects().len() < 2 {
            bail!(
                Failure::target("the command that linked the server is not in the build's log")
                    .with_remedy("build again after pgassay build --remove NAME")
            );
        }
        Ok(link)
    }

    /// Where in the words the objects are.
    fn objects(&self) -> Vec<usize> {
        (1..self.words.len())
            .filter(|at| self.words[*at].ends_with(".o") && self.words[at - 1] != "-o")
            .collect()
    }

    /// Links to `output` in the order that `seed` gives; gives the number of
    /// objects and the SHA-256 of what was linked.
    ///
    /// # Errors
    /// Where the linker fails, with its words.
    pub fn relink(&self, seed: u64, output: &Path) -> anyhow::Result<(usize, String)> {
        let (words, objects) = self.in_order(seed, output);
        let linked = tool(&words[0])
            .args(&words[1..])
            .current_dir(&self.dir)
            .output()
            .with_context(|| format!("{} can't be run", words[0]))?;
        if !linked.status.success() {
            let said = String::from_utf8_lossy(&linked.stderr);
            bail!(Failure::target(format!(
                "the server can't be linked in another order: {}",
                said.lines().next().unwrap_or("the linker failed")
            )));
        }
        Ok((objects, hash_of(fs::File::open(output)?)?))
    }

    fn in_order(&self, seed: u64, output: &Path) -> (Vec<String>, usize) {
        let places = self.objects();
        let mut objects: Vec<String> = places.iter().map(|at| self.words[*at].clone()).collect();
        objects.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
        let mut words = self.words.clone();
        for (at, object) in places.iter().zip(objects) {
            words[*at] = object;
        }
        if let Some(at) = words.iter().position(|word| word == "-o") {
            words[at + 1] = output.display().to_string();
        }
        (words, places.len())
    }
}

fn links_server(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    words.windows(2).any(|pair| pair == ["-o", "postgres"])
        && words.iter().filter(|word| word.ends_with(".o")).count() > 1
}

/// The words with `@FILE` replaced by what is in the file.
fn expanded(words: Vec<String>, dir: &Path) -> anyhow::Result<Vec<String>> {
    let mut all = Vec::new();
    for word in words {
        match word.strip_prefix('@') {
            Some(file) => {
                let text = fs::read_to_string(dir.join(file))
                    .with_context(|| format!("{file} can't be read"))?;
                all.extend(shlex::split(&text).unwrap_or_default());
            }
            None => all.push(word),
        }
    }
    Ok(all)
}

/// Makes an installation at `to` that is the one at `from` with another server
/// in it: programs as links to the same files, everything else by a link.
///
/// # Errors
/// Where it can't be made.
pub fn install(from: &Path, server: &Path, to: &Path) -> anyhow::Result<()> {
    remove(to)?;
    make_dir(&to.join("bin"))?;
    for entry in fs::read_dir(from)?.flatten() {
        let name = entry.file_name();
        if name != "bin" && entry.file_type()?.is_dir() {
            std::os::unix::fs::symlink(entry.path(), to.join(name))?;
        }
    }
    for entry in fs::read_dir(from.join("bin"))?.flatten() {
        let here = to.join("bin").join(entry.file_name());
        if entry.file_name() != "postgres" {
            fs::hard_link(entry.path(), here)?;
        }
    }
    fs::rename(server, to.join("bin/postgres"))
        .or_else(|_| fs::copy(server, to.join("bin/postgres")).map(|_| ()))
        .context("the relinked server can't be installed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(line: &str) -> Link {
        Link {
            words: shlex::split(line).unwrap(),
            dir: PathBuf::from("/"),
        }
    }

    #[test]
    fn objects_change_places_and_nothing_else_does() {
        let line = "gcc -O2 a.o b/c.o d.o e.o libport.a -Wl,--as-needed -lm -o postgres";
        assert!(links_server(line));
        assert!(!links_server("gcc -c a.c -o a.o"));
        let link = link(line);
        let (one, count) = link.in_order(1, Path::new("/out"));
        let (again, _) = link.in_order(1, Path::new("/out"));
        assert_eq!((count, &one), (4, &again));
        assert_eq!(one.last().unwrap(), "/out");
        assert_eq!(one[6..9], link.words[6..9]);
        let sorted = |words: &[String]| {
            let mut all = words.to_vec();
            all.sort();
            all
        };
        assert_eq!(sorted(&one[2..6]), sorted(&link.words[2..6]));
        let orders: std::collections::BTreeSet<_> = (0..20)
            .map(|seed| link.in_order(seed, Path::new("/out")).0)
            .collect();
        assert!(orders.len() > 10, "{}", orders.len());
    }

    #[test]
    fn a_response_file_is_read() {
        let dir = std::env::temp_dir().join(format!("pgassay-layout-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("x.rsp"), "a.o 'b c.o'").unwrap();
        let words = expanded(vec!["cc".into(), "@x.rsp".into()], &dir).unwrap();
        assert_eq!(words, ["cc", "a.o", "b c.o"]);
        fs::remove_dir_all(&dir).unwrap();
    }
}
