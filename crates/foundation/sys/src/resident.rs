//! Which pages of a file are in the page cache.

use std::fs::File;
use std::io;

/// For each page of the file, in order, whether it is in the page cache now
/// (mincore(2)). The kernel tells it to the file's owner and to who may write
/// the file; to others it says that everything is there.
///
/// # Errors
/// What mapping the file or asking gave. A file that is truncated meanwhile is
/// an error, not a signal: no page of it is touched.
pub fn resident(file: &File) -> io::Result<Vec<bool>> {
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok(Vec::new());
    }
    let page = rustix::param::page_size();
    let length = usize::try_from(length).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, "larger than the address space")
    })?;
    // SAFETY: the map is read-only and shared with the page cache, and nothing
    // of it is ever read: it only names the range that mincore is asked about.
    let map = unsafe { memmap2::MmapOptions::new().len(length).map(file)? };
    let mut states = vec![0_u8; length.div_ceil(page)];
    // SAFETY: the range is that of the map, which begins at a page; the vector
    // has a byte for each of its pages, as mincore wants.
    let told =
        unsafe { libc::mincore(map.as_ptr().cast_mut().cast(), length, states.as_mut_ptr()) };
    if told != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(states.into_iter().map(|state| state & 1 == 1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn what_was_written_and_read_is_there() {
        let path = std::env::temp_dir().join(format!("pgassay-resident-{}", std::process::id()));
        let page = rustix::param::page_size();
        std::fs::File::create(&path)
            .and_then(|mut file| file.write_all(&vec![7; page * 3 + 1]))
            .unwrap();
        let mut file = File::open(&path).unwrap();
        let mut first = [0; 1];
        file.read_exact(&mut first).unwrap();
        let pages = resident(&file).unwrap();
        assert_eq!(pages.len(), 4);
        assert!(pages[0]);
        File::create(&path).unwrap();
        assert!(resident(&File::open(&path).unwrap()).unwrap().is_empty());
        std::fs::remove_file(&path).unwrap();
    }
}
