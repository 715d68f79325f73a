//! The key that lets a browser in.

use std::fmt;
use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// 128 random bits, as 32 hexadecimal digits. What formats it for debugging does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// A new one.
    ///
    /// # Errors
    /// Where the kernel gives no random bytes.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0u8; 16];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
        }
        Ok(Self(
            bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        ))
    }

    /// Its digits.
    pub fn digits(&self) -> &str {
        &self.0
    }

    /// Whether this is it. How long it takes says nothing about where they differ.
    pub fn is(&self, said: &str) -> bool {
        let (own, said) = (self.0.as_bytes(), said.as_bytes());
        let differ = own.iter().zip(said).fold(0, |bits, (a, b)| bits | (a ^ b));
        // Kept from being decided early.
        std::hint::black_box(differ) == 0 && own.len() == said.len()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_itself_fits() {
        let key = Key::random().unwrap();
        assert_eq!(key.digits().len(), 32);
        assert!(key.is(key.digits()));
        assert!(!key.is(""));
        assert!(!key.is(&key.digits()[..31]));
        assert!(!key.is(&format!("{}0", key.digits())));
        assert!(!key.is(&"0".repeat(32)));
        assert_ne!(Key::random().unwrap(), key);
        assert_eq!(format!("{key:?}"), "Key");
    }
}
