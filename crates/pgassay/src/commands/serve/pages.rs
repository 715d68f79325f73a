//! Pages that were rendered, kept as long as there is room.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::kept::Stamp;

/// Bytes of all pages together.
const MOST: usize = 32 << 20;

/// The newest pages.
#[derive(Default)]
pub(super) struct Pages(Mutex<VecDeque<Page>>);

struct Page {
    name: String,
    stamp: Stamp,
    content: bytes::Bytes,
}

impl Pages {
    /// The page of that name as of that stamp, made unless it is here.
    ///
    /// # Errors
    /// What making it gave.
    pub(super) fn get<E>(
        &self,
        name: &str,
        stamp: Stamp,
        make: impl FnOnce() -> Result<String, E>,
    ) -> Result<bytes::Bytes, E> {
        let fits = |page: &Page| page.name == name && page.stamp == stamp;
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut pages = lock();
            if let Some(at) = pages.iter().position(fits)
                && let Some(page) = pages.remove(at)
            {
                let content = page.content.clone();
                pages.push_back(page);
                return Ok(content);
            }
        }
        let content = bytes::Bytes::from(make()?);
        let mut pages = lock();
        pages.retain(|page| page.name != name);
        pages.push_back(Page {
            name: name.to_owned(),
            stamp,
            content: content.clone(),
        });
        let mut all: usize = pages.iter().map(|page| page.content.len()).sum();
        while all > MOST
            && let Some(oldest) = pages.pop_front()
        {
            all -= oldest.content.len();
        }
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(pages: &Pages, name: &str, length: u64, size: usize) -> (bool, usize) {
        let stamp = Stamp {
            length,
            ..Stamp::default()
        };
        let mut made = false;
        let page = pages.get(name, stamp, || {
            made = true;
            Ok::<_, ()>("x".repeat(size))
        });
        (made, page.unwrap().len())
    }

    #[test]
    fn pages_are_made_once_and_the_oldest_go() {
        let pages = Pages::default();
        assert_eq!(get(&pages, "a", 1, 10), (true, 10));
        assert_eq!(get(&pages, "a", 1, 20), (false, 10));
        // The run has changed.
        assert_eq!(get(&pages, "a", 2, 20), (true, 20));
        for page in ["b", "c", "d"] {
            assert!(get(&pages, page, 1, MOST / 3).0);
        }
        assert!(!get(&pages, "d", 1, 1).0);
        assert!(get(&pages, "a", 2, 20).0, "it was the oldest");
        // One larger than all the room is shown and not kept.
        assert_eq!(get(&pages, "e", 1, MOST + 1), (true, MOST + 1));
        assert!(get(&pages, "e", 1, 1).0);
        let kept: usize = pages
            .0
            .lock()
            .unwrap()
            .iter()
            .map(|p| p.content.len())
            .sum();
        assert!(kept <= MOST);
    }
}
