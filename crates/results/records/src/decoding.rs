//! Decoding what somebody else may have written.
//!
//! The crate that decodes takes some things for granted of what a page holds, such as that a value ends within it, and
//! panics where that is not so. Such a file is damaged like any other, and there is nothing to report.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// What was decoded; none where that panicked, of which nothing is shown.
pub(crate) fn decoding<T>(decode: impl FnOnce() -> T) -> Option<T> {
    static SILENT: Once = Once::new();
    SILENT.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !DECODING.get() {
                usual(panic);
            }
        }));
    });
    DECODING.set(true);
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    DECODING.set(false);
    decoded.ok()
}
