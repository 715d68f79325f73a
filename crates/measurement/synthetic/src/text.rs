//! Texts between two others, of about the length that the column's have.

use crate::described::Column;
use crate::order::{hash, scaled};

/// Bits of a number of texts that is counted exactly; characters beyond are drawn.
const BITS: u32 = 100;
/// The longest text that is made.
const LONGEST: f64 = 100_000.0;
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";

/// How texts are made.
#[derive(Debug, Clone)]
pub struct TextScale {
    /// All characters of known values, in order.
    characters: Vec<char>,
    /// Those that texts are made of, and the place of each among all.
    fill: Vec<(usize, char)>,
    /// Characters of a made text, on average.
    length: f64,
    /// Characters at most.
    most: usize,
    /// Of bytea: two figures a byte, after `\x`.
    bytes: bool,
}

impl TextScale {
    /// Of a column.
    pub fn of(column: &Column) -> Self {
        let bytes = column.type_name == "bytea";
        let mut characters: Vec<char> = match bytes {
            true => "0123456789abcdef".chars().collect(),
            false => column.alphabet.chars().collect(),
        };
        let usable =
            |characters: &[char]| characters.iter().filter(|c| c.is_alphanumeric()).count();
        if usable(&characters) < 2 {
            characters = LETTERS.chars().collect();
        }
        let fill = characters
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, c)| c.is_alphanumeric());
        let limit = column
            .type_name
            .split_once('(')
            .and_then(|(_, rest)| rest.trim_end_matches(')').parse().ok());
        Self {
            fill: fill.collect(),
            characters,
            length: Self::length_of_others(column, bytes),
            most: limit.unwrap_or(LONGEST as usize),
            bytes,
        }
    }

    /// The mean length of the values that are not among the most common.
    fn length_of_others(column: &Column, bytes: bool) -> f64 {
        // A short one has one byte of header, a long one four.
        let header = if column.width > 127.0 { 4.0 } else { 1.0 };
        let size = |text: &str| match bytes {
            true => (text.len() as f64 - 2.0).max(0.0) / 2.0,
            false => text.len() as f64,
        };
        let (mut common, mut of_common, mut all, mut letters) = (0.0, 0.0, 0.0, 0.0);
        for point in &column.points {
            let share = point.share.unwrap_or(0.0);
            common += share;
            of_common += share * size(&point.value);
            all += size(&point.value);
            letters += point.value.chars().count() as f64;
        }
        let filled = (1.0 - column.null_fraction).max(0.0);
        let rest = (filled - common).max(1e-6);
        let mean = ((column.width - header).max(0.0) * filled - of_common) / rest;
        let per_character = match (bytes, all > 0.0) {
            (true, _) => 0.5,
            (_, true) => all / letters.max(1.0),
            _ => 1.0,
        };
        (mean.max(1.0) / per_character).min(LONGEST)
    }

    /// How many texts there are between two, at most so many as are wanted.
    pub fn room(&self, low: &str, high: &str, wanted: u64) -> u64 {
        let tails = self.tails(low, high, wanted);
        let room = (tails.to - tails.from - 1).max(0);
        u64::try_from(room).unwrap_or(u64::MAX).min(wanted)
    }

    /// One of `count` between two.
    pub fn between(&self, low: &str, high: &str, at: u64, count: u64) -> String {
        let tails = self.tails(low, high, count);
        let units = tails.to - tails.from;
        let mut place = tails.from + scaled(units, at + 1, count + 1);
        let base = self.fill.len() as i128;
        let mut tail = vec![' '; tails.counted];
        for c in tail.iter_mut().rev() {
            *c = self.fill[place.rem_euclid(base) as usize].1;
            place = place.div_euclid(base);
        }
        let mut text: String = low.chars().take(tails.common).chain(tail).collect();
        let seed =
            hash(at) ^ hash(count) ^ low.bytes().fold(0, |sum, byte| hash(sum ^ u64::from(byte)));
        // A mean length that is no whole number: some texts have one more.
        let extra = usize::from(crate::order::share(seed) < self.length.fract() && !self.bytes);
        let length = (self.length as usize + extra + 2 * usize::from(self.bytes)).min(self.most);
        let length = if self.bytes { length / 2 * 2 } else { length };
        for n in (tails.common + tails.counted)..length {
            let drawn = hash(seed ^ hash(n as u64)) % self.fill.len() as u64;
            text.push(self.fill[drawn as usize].1);
        }
        text
    }

    /// The first and the last where none is known.
    pub fn ends(&self) -> (String, String) {
        let one = |at: Option<&(usize, char)>, n: usize| -> String {
            let c = at.map_or('a', |(_, c)| *c);
            let prefix = if self.bytes { "\\x" } else { "" };
            format!("{prefix}{}", c.to_string().repeat(n.min(self.most)))
        };
        let n = 2 * (self.length as usize).clamp(1, 20).div_ceil(2);
        (one(self.fill.first(), n), one(self.fill.last(), n))
    }

    /// What follows the common beginning of two texts, as numbers of so many figures that there is room for `wanted`
    /// between them, if their length allows.
    fn tails(&self, low: &str, high: &str, wanted: u64) -> Tails {
        let (low, high): (Vec<char>, Vec<char>) = (low.chars().collect(), high.chars().collect());
        let mut common = low.iter().zip(&high).take_while(|(a, b)| a == b).count();
        if self.bytes {
            common = (common / 2 * 2).max(2);
        }
        let base = self.fill.len() as i128;
        let most = self
            .most
            .max(low.len())
            .max(high.len())
            .saturating_sub(common);
        let most = most.min((f64::from(BITS) / (base as f64).log2()) as usize);
        let (mut from, mut to) = (0, 0);
        let mut counted = 0;
        let usual = (self.length as usize + 2 * usize::from(self.bytes))
            .saturating_sub(common)
            .clamp(1, most.max(1));
        while counted < most {
            let (a, b) = (low.get(common + counted), high.get(common + counted));
            from = from * base + self.figure(a);
            to = to * base + self.figure(b);
            counted += 1;
            let even = !self.bytes || counted % 2 == 0;
            // Beyond both texts' ends a difference only grows where there is one.
            let hopeless = to <= from && common + counted >= low.len().max(high.len());
            if counted >= usual && even && (to - from > i128::from(wanted) || hopeless) {
                break;
            }
        }
        Tails {
            common,
            counted,
            from,
            to,
        }
    }

    /// The place of a character among those that texts are made of: of the first that is not before it.
    fn figure(&self, c: Option<&char>) -> i128 {
        let Some(c) = c else {
            return 0;
        };
        let at = match self.characters.iter().position(|known| known == c) {
            Some(at) => self.fill.partition_point(|(place, _)| *place < at),
            None => self.fill.partition_point(|(_, known)| known < c),
        };
        at.min(self.fill.len() - 1) as i128
    }
}

struct Tails {
    common: usize,
    counted: usize,
    from: i128,
    to: i128,
}

/// Letters that no compression makes much shorter.
pub fn filler(seed: u64, length: usize) -> String {
    let letters = LETTERS.as_bytes();
    let letter = |n: usize| char::from(letters[(hash(hash(seed) ^ n as u64) % 26) as usize]);
    (0..length).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::described::Point;

    fn scale(values: &[&str], width: f64, type_name: &str) -> TextScale {
        let mut alphabet: Vec<char> = values.join("").chars().collect();
        alphabet.sort_unstable();
        alphabet.dedup();
        TextScale::of(&Column {
            type_name: type_name.to_owned(),
            width,
            points: values
                .iter()
                .map(|value| Point {
                    value: (*value).to_owned(),
                    bounds: 1,
                    share: None,
                })
                .collect(),
            alphabet: alphabet.into_iter().collect(),
            ..Column::default()
        })
    }

    fn check(scale: &TextScale, low: &str, high: &str, count: u64) -> Vec<String> {
        assert!(scale.room(low, high, count) >= count, "{low} {high}");
        let texts: Vec<String> = (0..count)
            .map(|at| scale.between(low, high, at, count))
            .collect();
        for pair in texts.windows(2) {
            assert!(pair[0] < pair[1], "{pair:?}");
        }
        assert!(
            texts[0].as_str() > low && texts[texts.len() - 1].as_str() < high,
            "{low} {texts:?} {high}"
        );
        texts
    }

    #[test]
    fn texts_lie_between_and_have_their_length() {
        let names = scale(&["name 1", "name 19", "name 5023", "name 99"], 10.0, "text");
        let made = check(&names, "name 19", "name 5023", 500);
        assert!(
            made.iter()
                .all(|text| text.starts_with("name ") && text.len() == 9),
            "{made:?}"
        );
        let hex = scale(&["0a3f", "77bc", "ffe0"], 33.0, "text");
        let made = check(&hex, "0a3f", "77bc", 1000);
        assert!(made.iter().all(|text| text.len() == 32), "{made:?}");
        let short = scale(&["a", "b"], 2.0, "character varying(1)");
        assert_eq!(short.room("a", "b", 10), 0);
        let longer = scale(&["a", "b"], 2.0, "text");
        check(&longer, "a", "b", 100);
        let (first, last) = scale(&[], 8.0, "text").ends();
        check(&scale(&[], 8.0, "text"), &first, &last, 10_000);
    }

    #[test]
    fn bytes_are_whole() {
        let bytes = scale(&["\\x00ff", "\\xff"], 9.0, "bytea");
        for text in check(&bytes, "\\x00ff", "\\xff", 300) {
            assert!(text.starts_with("\\x") && text.len() % 2 == 0, "{text}");
        }
    }

    #[test]
    fn a_fraction_of_a_character_is_one_in_some_texts() {
        let scale = scale(&["aaaaa", "mkbcq", "zzzzz"], 7.5, "text");
        let all: usize = (0..1000)
            .map(|at| scale.between("aaaaa", "zzzzz", at, 1000).len())
            .sum();
        assert!((6300..6700).contains(&all), "{all}");
    }
}
