//! Writes the pages in docs/ that are made from the catalogue: `make docs`.

use std::path::PathBuf;

use pgassay_rules::docs;

fn main() -> std::io::Result<()> {
    let directory = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "docs".to_owned()));
    std::fs::create_dir_all(&directory)?;
    for (path, text) in docs::files() {
        std::fs::write(directory.join(path), text)?;
    }
    Ok(())
}
