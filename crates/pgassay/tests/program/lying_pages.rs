//! Files of tables whose pages claim to be larger than they can be: they are refused before anything is read.

use std::fs;

use pgassay_records::{Archive, Error, past};

use crate::export;
use crate::runs::Runs;

/// A number as Thrift's compact protocol writes it, in that many bytes or more.
fn number(value: u32, least: usize) -> Vec<u8> {
    let mut left = u64::from(value) * 2;
    let mut bytes = Vec::new();
    while left > 0x7f || bytes.len() + 1 < least {
        bytes.push(left as u8 & 0x7f | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes
}

/// The number at a place, and the bytes that it takes.
fn at(bytes: &[u8], place: usize) -> (u32, usize) {
    let long = bytes[place..]
        .iter()
        .position(|byte| byte & 0x80 == 0)
        .unwrap()
        + 1;
    let parts = bytes[place..place + long].iter().rev();
    let zigzag = parts.fold(0_u64, |value, byte| value << 7 | u64::from(byte & 0x7f));
    ((zigzag / 2) as u32, long)
}

/// The file with another size and number of values in its first page's header, which is that of a dictionary. The
/// file is as long as before: what the header takes more, its page has less.
pub fn lying(whole: &[u8], size: u32, values: u32) -> Vec<u8> {
    const KIND: [u8; 4] = [0x15, 0x04, 0x15, 0];
    assert_eq!(whole[4..7], KIND[..3], "a dictionary is first");
    let (_, of_size) = at(whole, 7);
    let (stored, of_stored) = at(whole, 8 + of_size);
    let then = 8 + of_size + of_stored;
    assert_eq!(whole[then..then + 2], [0x4c, 0x15]);
    let (_, of_values) = at(whole, then + 2);
    let rest = then + 2 + of_values;
    let end = whole[rest..]
        .windows(2)
        .position(|two| two == [0, 0])
        .unwrap();
    let body = rest + end + 2;
    let (size, values) = (number(size, of_size), number(values, of_values));
    let more = size.len() + values.len() - of_size - of_values;
    let stored = number(stored - more as u32, of_stored);
    assert_eq!(stored.len(), of_stored);
    let mut lying = whole[..7].to_vec();
    for part in [
        &size[..],
        &[0x15],
        &stored,
        &[0x4c, 0x15],
        &values,
        &whole[rest..body],
    ] {
        lying.extend_from_slice(part);
    }
    lying.extend_from_slice(&whole[body + more..]);
    assert_eq!(lying.len(), whole.len());
    lying
}

/// What is planted, and what is said of it.
pub const LIES: [(u32, u32, &str); 3] = [
    (i32::MAX as u32, 1, "a page in it claims 2147483647 bytes"),
    (1 << 20, 1, "a page in it claims 1048576 bytes"),
    (16, i32::MAX as u32, "contradicts its contents"),
];

#[test]
fn pages_that_claim_too_much_are_refused_before_they_are_read() {
    let dir = Runs::new("lying-pages");
    let dir = &dir.0;
    let a = export::rows("20261121T030000Z-a", "2026-11-21T03:00:00Z");
    export::write(dir, &[&a]);
    for table in ["runs", "servers", "metrics"] {
        let path = export::at(dir, table, "2026-11-21");
        let whole = fs::read(&path).unwrap();
        for (size, values, said) in LIES {
            fs::write(&path, lying(&whole, size, values)).unwrap();
            let error = past(dir).unwrap_err();
            let Error::Damaged { path: named, why } = &error else {
                panic!("{error:?}");
            };
            assert!(*named == path && why.contains(said), "{said}: {error:?}");
        }
        fs::write(&path, &whole).unwrap();
        assert_eq!(past(dir).unwrap().len(), 1);
    }
    // Room for another value, but nothing of it: only decoding shows that.
    for table in ["servers", "metrics"] {
        let path = export::at(dir, table, "2026-11-21");
        let whole = fs::read(&path).unwrap();
        let (size, _) = at(&whole, 7);
        fs::write(&path, lying(&whole, size, 2)).unwrap();
        let error = past(dir).unwrap_err();
        assert!(error.to_string().contains("can't be decoded"), "{error:?}");
        fs::write(&path, &whole).unwrap();
    }
    // Nor is such a day written anew.
    let path = export::at(dir, "points", "2026-11-21");
    fs::write(&path, lying(&fs::read(&path).unwrap(), i32::MAX as u32, 1)).unwrap();
    let before = export::files(dir);
    let b = export::rows("20261121T040000Z-b", "2026-11-21T04:00:00Z");
    let mut archive = Archive::open(dir).unwrap().expect("nobody else writes");
    archive.add(&b).unwrap();
    assert!(archive.finish().is_err());
    assert_eq!(export::files(dir), before);
}
