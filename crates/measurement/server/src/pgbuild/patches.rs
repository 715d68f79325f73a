//! Patch files: applied by patch(1), and where one does not apply, which hunk.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::builder::tool;
use super::files::hash_of;
use pgassay_model::Failure;

/// What a build's record says of a patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PatchFacts {
    /// The file, as named on the command line.
    pub file: String,
    /// Its SHA-256.
    pub sha256: String,
}

/// A patch file, read.
#[derive(Debug, Clone)]
pub struct Patch {
    path: PathBuf,
    /// What is recorded of it.
    pub facts: PatchFacts,
}

impl Patch {
    /// Reads a patch file.
    ///
    /// # Errors
    /// Where it can't be read, or is no patch.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read(path)
            .map_err(|error| Failure::usage(format!("patch {}: {error}", path.display())))?;
        let is_patch = text
            .split(|byte| *byte == b'\n')
            .any(|line| line.starts_with(b"+++ ") || line.starts_with(b"diff --git "));
        if !is_patch {
            bail!(Failure::usage(format!(
                "{}: holds no patch (looked for lines that begin with +++)",
                path.display()
            )));
        }
        Ok(Self {
            path: fs::canonicalize(path)?,
            facts: PatchFacts {
                file: path.display().to_string(),
                sha256: hash_of(text.as_slice())?,
            },
        })
    }

    /// Applies it to the source tree `top`; gives what patch(1) had to say
    /// where it did not fit exactly.
    ///
    /// # Errors
    /// Where it does not apply, naming the hunk.
    pub fn apply(&self, top: &Path) -> anyhow::Result<Vec<String>> {
        let output = tool("patch")
            // Lines may have moved; that the text around a change differs is for a person to judge.
            .args([
                "--batch",
                "--forward",
                "--no-backup-if-mismatch",
                "--fuzz=0",
            ])
            .arg(format!("-p{}", self.strip(top)?))
            // patch throws away what it would put there; the hunk is shown from the patch itself.
            .args(["--reject-file=-", "--input"])
            .arg(&self.path)
            .current_dir(top)
            .output()
            .context("patch can't be run (apt-get install patch)")?;
        let said = String::from_utf8_lossy(&output.stdout);
        if output.status.success() {
            return Ok(said
                .lines()
                .filter(|line| line.starts_with("Hunk #"))
                .map(str::to_owned)
                .collect());
        }
        let complaints = String::from_utf8_lossy(&output.stderr);
        bail!(
            Failure::usage(format!(
                "{} does not apply: {}",
                self.facts.file,
                first_rejection(&said, &self.text()?)
                    .unwrap_or_else(|| format!("{said}{complaints}"))
            ))
            .with_remedy("rebase it on this source, or name the commit that it was made for")
        )
    }

    fn text(&self) -> anyhow::Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(&self.path)?).into_owned())
    }

    /// How many directories to strip: one where names begin with a/ and b/, as
    /// git makes them, none where they are found as they stand.
    fn strip(&self, top: &Path) -> anyhow::Result<u32> {
        let text = self.text()?;
        let name = |line: &str| {
            let name = line.get(4..)?.split('\t').next()?.trim();
            (name != "/dev/null").then(|| name.to_owned())
        };
        let as_it_stands = text
            .lines()
            .filter(|line| line.starts_with("--- ") || line.starts_with("+++ "))
            .filter_map(name)
            .any(|name| top.join(name).is_file());
        Ok(u32::from(!as_it_stands))
    }
}

/// The first hunk that patch(1) refused, in words, with its text.
///
/// patch says `patching file F`, then `Hunk #N FAILED at LINE.` for each hunk
/// that fails, then how many that were.
fn first_rejection(said: &str, patch: &str) -> Option<String> {
    let mut file = "";
    let mut lines = said.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("patching file ") {
            file = name.trim_matches('\'');
        }
        if line.starts_with("can't find file to patch at ") {
            let name = said
                .lines()
                .find_map(|line| line.split_once("+++ ").map(|(_, name)| name))
                .unwrap_or("the file it changes");
            return Some(format!("{name} is not there"));
        }
        if line.contains("Reversed (or previously applied) patch detected") {
            return Some(format!("{file}: it is already applied here"));
        }
        let Some(hunk) = line
            .strip_prefix("Hunk #")
            .filter(|rest| rest.contains(" FAILED at "))
        else {
            continue;
        };
        let (number, at) = hunk.split_once(" FAILED at ")?;
        let at = at.split('.').next().unwrap_or(at);
        let of = lines
            .find_map(|line| {
                let (_, rest) = line.split_once(" out of ")?;
                rest.split_once(" hunk")
                    .map(|(all, _)| format!(" of {all}"))
            })
            .unwrap_or_default();
        let text: String = hunk_text(patch, file, number.parse().ok()?)
            .iter()
            .map(|line| format!("\n    {line}"))
            .collect();
        return Some(format!("{file}: hunk {number}{of} (at line {at}){text}"));
    }
    None
}

/// The first lines of a file's hunk in a patch; hunks count from 1.
fn hunk_text<'a>(patch: &'a str, file: &str, number: usize) -> Vec<&'a str> {
    let mut lines = patch
        .lines()
        .skip_while(|line| !(line.starts_with("+++ ") && line.contains(file)));
    lines.next();
    let mut seen = 0;
    lines
        .take_while(|line| !line.starts_with("+++ ") && !line.starts_with("diff --git "))
        .skip_while(|line| {
            seen += usize::from(line.starts_with("@@"));
            seen < number
        })
        .enumerate()
        .take_while(|(n, line)| *n < 8 && (*n == 0 || line.starts_with([' ', '+', '-'])))
        .map(|(_, line)| line)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\neleven\ntwelve\n";

    fn case(name: &str, patch: &str) -> (PathBuf, Patch) {
        let dir = std::env::temp_dir().join(format!("pgassay-patch-{name}-{}", std::process::id()));
        fs::remove_dir_all(&dir).ok();
        fs::create_dir_all(dir.join("top/src")).unwrap();
        fs::write(dir.join("top/src/lock.c"), OLD).unwrap();
        let file = dir.join("v1-0001-x.patch");
        fs::write(&file, patch).unwrap();
        let patch = Patch::read(&file).unwrap();
        (dir, patch)
    }

    const GOOD_AND_BAD: &str = "From: somebody\n\n--- a/src/lock.c\n+++ b/src/lock.c\n\
        @@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n\
        @@ -8,3 +8,3 @@ f(void)\n eight\n-NOT THERE\n+x\n ELSE\n";

    #[test]
    fn the_hunk_that_fails_is_named_with_its_text() {
        let (dir, patch) = case("bad", GOOD_AND_BAD);
        let error = patch.apply(&dir.join("top")).unwrap_err();
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert!(
            failure
                .message
                .contains("src/lock.c: hunk 2 of 2 (at line 8)"),
            "{}",
            failure.message
        );
        assert!(
            failure.message.contains("-NOT THERE"),
            "{}",
            failure.message
        );
        assert!(failure.message.contains("v1-0001-x.patch"));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn applied_with_one_or_no_directory_stripped() {
        for (name, prefix) in [("p1", ["a/", "b/"]), ("p0", ["", ""])] {
            let text = format!(
                "--- {}src/lock.c\n+++ {}src/lock.c\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n",
                prefix[0], prefix[1]
            );
            let (dir, patch) = case(name, &text);
            assert!(patch.apply(&dir.join("top")).unwrap().is_empty());
            let now = fs::read_to_string(dir.join("top/src/lock.c")).unwrap();
            assert!(now.contains("TWO"));
            let again = patch.apply(&dir.join("top")).unwrap_err().to_string();
            assert!(again.contains("already applied"), "{again}");
            fs::remove_dir_all(&dir).unwrap();
        }
    }

    #[test]
    fn a_missing_file_and_no_patch_are_told() {
        let (dir, patch) = case(
            "missing",
            "--- a/src/gone.c\n+++ b/src/gone.c\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n",
        );
        let error = patch.apply(&dir.join("top")).unwrap_err().to_string();
        assert!(error.contains("b/src/gone.c is not there"), "{error}");
        let text = dir.join("notes");
        fs::write(&text, "no patch\n").unwrap();
        assert!(
            Patch::read(&text)
                .unwrap_err()
                .to_string()
                .contains("holds no patch")
        );
        fs::remove_dir_all(&dir).unwrap();
    }
}
