//! A password that can be used but neither printed nor stored by accident.

use std::fmt;

/// A password or passphrase. `Debug` and `Display` print `***`, it is not
/// serializable, and its memory is overwritten when it is dropped as far as
/// safe code can do that.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Takes a password as it was typed or read.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into().into_bytes())
    }

    /// The bytes, for the authentication exchange only.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        std::hint::black_box(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_prints_nothing_of_itself() {
        let secret = Secret::new("hunter2");
        assert_eq!(
            format!("{secret} {secret:?} {:?}", Some(&secret)),
            "*** *** Some(***)"
        );
        assert_eq!(secret.reveal(), b"hunter2");
    }
}
