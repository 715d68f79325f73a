//! The contents of the tables, in COPY's text format, by clause 4.3.3 of the TPC-C specification.
//!
//! What a piece contains depends on its number alone, not on how many connections fill the tables.

use std::fmt::Write as _;

use pgassay_load::script::Random;

use super::skew::{self, last_name};
use super::tables::{CUSTOMERS, DISTRICTS, FIRST_NEW, ITEMS};

/// Pieces into which the catalogue, and the stock of each warehouse, are cut.
const PARTS: u32 = 10;

/// What is filled in one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// A part of the catalogue, from 0.
    Items(u32),
    /// A warehouse with its districts.
    Warehouse(u32),
    /// A part of the stock of a warehouse, from 0.
    Stock(u32, u32),
    /// The customers of a district, and what they paid.
    Customers(u32, u32),
    /// The orders of a district.
    Orders(u32, u32),
}

/// All pieces of so many warehouses, the largest of each first.
pub fn pieces(warehouses: u32) -> Vec<Piece> {
    let of_warehouse = |w| {
        let orders = (1..=DISTRICTS).map(move |d| Piece::Orders(w, d));
        let customers = (1..=DISTRICTS).map(move |d| Piece::Customers(w, d));
        let stock = (0..PARTS).map(move |part| Piece::Stock(w, part));
        orders
            .chain(customers)
            .chain(stock)
            .chain([Piece::Warehouse(w)])
    };
    let items = (0..PARTS).map(Piece::Items);
    items
        .chain((1..=warehouses).flat_map(of_warehouse))
        .collect()
}

impl Piece {
    /// About how many rows it has, which is what progress is told by.
    pub fn rows(self) -> u64 {
        u64::from(match self {
            Self::Items(_) | Self::Stock(..) => ITEMS / PARTS,
            Self::Warehouse(_) => 1 + DISTRICTS,
            Self::Customers(..) => 2 * CUSTOMERS,
            Self::Orders(..) => 11 * CUSTOMERS + 900,
        })
    }

    /// The tables that it has rows of, in the order in which they are written.
    pub fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Items(_) => &["item"],
            Self::Warehouse(_) => &["warehouse", "district"],
            Self::Stock(..) => &["stock"],
            Self::Customers(..) => &["customer", "history"],
            Self::Orders(..) => &["orders", "order_line", "new_order"],
        }
    }

    /// A number of its own, for its random stream.
    fn seed(self) -> u64 {
        let (kind, w, part) = match self {
            Self::Items(part) => (1, 0, part),
            Self::Warehouse(w) => (2, w, 0),
            Self::Stock(w, part) => (3, w, part),
            Self::Customers(w, d) => (4, w, d),
            Self::Orders(w, d) => (5, w, d),
        };
        u64::from(w) << 32 | u64::from(part) << 8 | kind
    }
}

/// The items of a part.
fn of_part(part: u32) -> std::ops::RangeInclusive<u32> {
    let each = ITEMS / PARTS;
    part * each + 1..=(part + 1) * each
}

/// Characters that are random once; texts are pieces of them.
const POOL: usize = 1 << 13;
/// Characters of text that are handed on at a time.
const BATCH: usize = 1 << 16;

/// The rows of a piece while they are written.
pub struct Rows {
    piece: Piece,
    random: Random,
    /// Random letters and digits.
    letters: String,
    /// Of a district's orders: whose they are, and how many lines they have.
    orders: Vec<(u32, u32)>,
    text: String,
}

impl Rows {
    /// Those of a piece, none written yet.
    pub fn of(piece: Piece) -> Self {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let mut random = Random::new(piece.seed());
        let last = LETTERS.len() as i64 - 1;
        let letters = (0..POOL).map(|_| char::from(LETTERS[random.uniform(0, last) as usize]));
        let letters = letters.collect();
        let mut rows = Self {
            piece,
            random,
            letters,
            orders: Vec::new(),
            text: String::with_capacity(BATCH + 16_000),
        };
        if matches!(piece, Piece::Orders(..)) {
            let customers = rows.permutation();
            let with_lines = |c| (c, rows.number(5, 15));
            rows.orders = customers.into_iter().map(with_lines).collect();
        }
        rows
    }

    /// Writes the rows of one of the piece's tables; `take` gets their text by and by. Says how many
    /// there were.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn write<E>(
        &mut self,
        table: &str,
        take: &mut dyn FnMut(&str) -> Result<(), E>,
    ) -> Result<u64, E> {
        let numbers = match (self.piece, table) {
            (Piece::Items(part) | Piece::Stock(_, part), _) => of_part(part),
            (Piece::Warehouse(w), "warehouse") => w..=w,
            (Piece::Warehouse(_), _) => 1..=DISTRICTS,
            (Piece::Customers(..), _) => 1..=CUSTOMERS,
            (Piece::Orders(..), "new_order") => FIRST_NEW..=CUSTOMERS,
            (Piece::Orders(..), _) => 1..=CUSTOMERS,
        };
        let mut written = 0;
        for number in numbers {
            written += self.row(table, number);
            if self.text.len() >= BATCH {
                take(&self.text)?;
                self.text.clear();
            }
        }
        take(&self.text)?;
        self.text.clear();
        Ok(written)
    }

    /// One row of a table, or the lines of one order; how many rows those are.
    fn row(&mut self, table: &str, number: u32) -> u64 {
        match self.piece {
            Piece::Items(_) => self.item(number),
            Piece::Warehouse(w) if table == "warehouse" => self.warehouse(w),
            Piece::Warehouse(w) => self.district(w, number),
            Piece::Stock(w, _) => self.stock(w, number),
            Piece::Customers(w, d) if table == "customer" => self.customer(w, d, number),
            Piece::Customers(w, d) => self.history(w, d, number),
            Piece::Orders(w, d) => {
                let (customer, lines) = self.orders[(number - 1) as usize];
                match table {
                    "orders" => self.order(w, d, number, customer, lines),
                    "new_order" => self.new_order(w, d, number),
                    _ => {
                        self.order_lines(w, d, number, lines);
                        return u64::from(lines);
                    }
                }
            }
        }
        1
    }

    fn number(&mut self, low: u32, high: u32) -> u32 {
        self.random.uniform(i64::from(low), i64::from(high)) as u32
    }

    /// Whether something holds that holds once in ten.
    fn once_in_ten(&mut self) -> bool {
        self.number(1, 10) == 1
    }

    /// Writes values between tabs; a row ends with [`Rows::end`].
    fn put(&mut self, values: std::fmt::Arguments<'_>) {
        let written = self.text.write_fmt(values);
        debug_assert!(written.is_ok(), "a text takes all that is written");
        self.text.push('\t');
    }

    fn end(&mut self) {
        self.text.pop();
        self.text.push('\n');
    }

    /// Letters and digits.
    fn letters(&mut self, least: u32, most: u32) {
        let length = self.number(least, most) as usize;
        let at = self.number(0, (POOL - length) as u32) as usize;
        self.text.push_str(&self.letters[at..at + length]);
        self.text.push('\t');
    }

    /// Two capital letters.
    fn state(&mut self) {
        for _ in 0..2 {
            let letter = b'A' + self.number(0, 25) as u8;
            self.text.push(char::from(letter));
        }
        self.text.push('\t');
    }

    /// A number with so many digits after the point.
    fn decimal(&mut self, low: u32, high: u32, digits: usize) {
        let number = self.number(low, high);
        let unit = 10_u32.pow(digits as u32);
        self.put(format_args!("{}.{:0digits$}", number / unit, number % unit));
    }

    /// Two lines of street, city, state and postal code.
    fn address(&mut self) {
        for _ in 0..3 {
            self.letters(10, 20);
        }
        self.state();
        let code = self.number(0, 9_999);
        self.put(format_args!("{code:04}11111"));
    }

    /// What is known of an item, a tenth of it by its maker.
    fn data(&mut self) {
        let from = self.text.len();
        self.letters(26, 50);
        if self.once_in_ten() {
            const MARK: &str = "ORIGINAL";
            let length = self.text.len() - 1 - from;
            let at = from + self.number(0, (length - MARK.len()) as u32) as usize;
            self.text.replace_range(at..at + MARK.len(), MARK);
        }
    }

    fn item(&mut self, i: u32) {
        let image = self.number(1, 10_000);
        self.put(format_args!("{i}\t{image}"));
        self.letters(14, 24);
        self.decimal(100, 10_000, 2);
        self.data();
        self.end();
    }

    fn warehouse(&mut self, w: u32) {
        self.put(format_args!("{w}"));
        self.letters(6, 10);
        self.address();
        self.decimal(0, 2_000, 4);
        self.put(format_args!("300000.00"));
        self.end();
    }

    fn district(&mut self, w: u32, d: u32) {
        self.put(format_args!("{d}\t{w}"));
        self.letters(6, 10);
        self.address();
        self.decimal(0, 2_000, 4);
        self.put(format_args!("30000.00\t{}", CUSTOMERS + 1));
        self.end();
    }

    fn stock(&mut self, w: u32, i: u32) {
        let quantity = self.number(10, 100);
        self.put(format_args!("{i}\t{w}\t{quantity}"));
        for _ in 0..DISTRICTS {
            self.letters(24, 24);
        }
        self.put(format_args!("0\t0\t0"));
        self.data();
        self.end();
    }

    fn customer(&mut self, w: u32, d: u32, c: u32) {
        self.put(format_args!("{c}\t{d}\t{w}"));
        self.letters(8, 16);
        let name = match c {
            1..=1_000 => i64::from(c) - 1,
            _ => skew::skewed(&mut self.random, 255, 0, 999, skew::FILLING),
        };
        let [first, second, third] = last_name(name as usize);
        self.put(format_args!("OE\t{first}{second}{third}"));
        self.address();
        let (head, tail) = (self.number(0, 99_999_999), self.number(0, 99_999_999));
        let credit = if self.once_in_ten() { "BC" } else { "GC" };
        self.put(format_args!("{head:08}{tail:08}\tnow\t{credit}\t50000.00"));
        self.decimal(0, 5_000, 4);
        self.put(format_args!("-10.00\t10.00\t1\t0"));
        self.letters(300, 500);
        self.end();
    }

    fn history(&mut self, w: u32, d: u32, c: u32) {
        self.put(format_args!("{c}\t{d}\t{w}\t{d}\t{w}\tnow\t10.00"));
        self.letters(12, 24);
        self.end();
    }

    /// All customers of a district in random order.
    fn permutation(&mut self) -> Vec<u32> {
        let mut all: Vec<u32> = (1..=CUSTOMERS).collect();
        for at in (1..all.len()).rev() {
            let other = self.number(0, at as u32) as usize;
            all.swap(at, other);
        }
        all
    }

    fn order(&mut self, w: u32, d: u32, o: u32, customer: u32, lines: u32) {
        self.put(format_args!("{o}\t{d}\t{w}\t{customer}\tnow"));
        match o < FIRST_NEW {
            true => {
                let carrier = self.number(1, 10);
                self.put(format_args!("{carrier}"));
            }
            false => self.put(format_args!("\\N")),
        }
        self.put(format_args!("{lines}\t1"));
        self.end();
    }

    fn order_lines(&mut self, w: u32, d: u32, o: u32, lines: u32) {
        let delivered = o < FIRST_NEW;
        for number in 1..=lines {
            let item = self.number(1, ITEMS);
            let date = if delivered { "now" } else { "\\N" };
            self.put(format_args!(
                "{o}\t{d}\t{w}\t{number}\t{item}\t{w}\t{date}\t5"
            ));
            match delivered {
                true => self.put(format_args!("0.00")),
                false => self.decimal(1, 999_999, 2),
            }
            self.letters(24, 24);
            self.end();
        }
    }

    fn new_order(&mut self, w: u32, d: u32, o: u32) {
        self.put(format_args!("{o}\t{d}\t{w}"));
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    type Table = Vec<Vec<String>>;

    fn written(piece: Piece) -> BTreeMap<&'static str, Table> {
        let mut rows = Rows::of(piece);
        let cut = |text: &str| -> Table {
            let row = |line: &str| line.split('\t').map(str::to_owned).collect();
            text.lines().map(row).collect()
        };
        let table = |name: &&'static str| {
            let mut all = String::new();
            let taken: Result<u64, ()> = rows.write(name, &mut |text| {
                all.push_str(text);
                Ok(())
            });
            let table = cut(&all);
            assert_eq!(taken, Ok(table.len() as u64));
            (*name, table)
        };
        piece.tables().iter().map(table).collect()
    }

    #[test]
    fn every_row_has_its_tables_columns() {
        for piece in [
            Piece::Items(3),
            Piece::Warehouse(2),
            Piece::Stock(2, 0),
            Piece::Customers(2, 10),
            Piece::Orders(2, 10),
        ] {
            for (name, rows) in written(piece) {
                let known = super::super::tables::TABLES;
                let (_, columns) = known.iter().find(|(table, _)| *table == name).unwrap();
                let columns = columns.replace("4,4", "").replace("2,2", "");
                let count = columns.matches(" numeric").count()
                    + columns.matches(" int").count()
                    + columns.matches(" varchar").count()
                    + columns.matches(" char").count()
                    + columns.matches(" timestamp").count();
                assert!(rows.iter().all(|row| row.len() == count), "{name}: {count}");
            }
        }
    }

    #[test]
    fn the_counts_are_those_of_the_specification() {
        let all = pieces(2);
        let of = |kind: fn(&Piece) -> bool| all.iter().filter(|piece| kind(piece)).count();
        assert_eq!(of(|p| matches!(p, Piece::Items(_))), 10);
        assert_eq!(of(|p| matches!(p, Piece::Orders(2, _))), 10);
        let orders = written(Piece::Orders(1, 4));
        assert_eq!(orders["orders"].len(), 3_000);
        assert_eq!(orders["new_order"].len(), 900);
        let lines = orders["orders"].iter().map(|row| row[6].parse::<usize>());
        let lines: usize = lines.map(Result::unwrap).sum();
        assert_eq!(orders["order_line"].len(), lines);
        assert!((29_000..31_000).contains(&lines), "{lines}");
        let mut customers: Vec<u32> = orders["orders"]
            .iter()
            .map(|row| row[3].parse().unwrap())
            .collect();
        customers.sort_unstable();
        assert!(customers.into_iter().eq(1..=3_000), "each has one order");
        let customers = written(Piece::Customers(1, 4));
        assert_eq!(customers["customer"][371][5], "PRICALLYOUGHT");
        let bad = customers["customer"]
            .iter()
            .filter(|row| row[13] == "BC")
            .count();
        assert!((240..360).contains(&bad), "{bad}");
        let items = &written(Piece::Items(9))["item"];
        assert_eq!(items.last().unwrap()[0], "100000");
        let marked = items
            .iter()
            .filter(|row| row[4].contains("ORIGINAL"))
            .count();
        assert!((900..1_100).contains(&marked), "{marked}");
        let long = |row: &Vec<String>| (26..=50).contains(&row[4].len());
        assert!(items.iter().all(long));
    }

    #[test]
    fn a_piece_is_the_same_each_time_and_like_no_other() {
        let one = written(Piece::Stock(1, 0));
        assert_eq!(one, written(Piece::Stock(1, 0)));
        assert_ne!(
            one["stock"][0][3],
            written(Piece::Stock(2, 0))["stock"][0][3]
        );
    }
}
