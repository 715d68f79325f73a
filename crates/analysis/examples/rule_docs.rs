//! Writes the rules' pages into a directory: `make docs`.

use std::path::PathBuf;

use pgassay_analysis::check::docs;

fn main() -> std::io::Result<()> {
    let directory = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "docs".to_owned()));
    std::fs::create_dir_all(directory.join("rules"))?;
    for entry in std::fs::read_dir(directory.join("rules"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "md") {
            std::fs::remove_file(path)?;
        }
    }
    for (path, text) in docs::files() {
        std::fs::write(directory.join(path), text)?;
    }
    Ok(())
}
