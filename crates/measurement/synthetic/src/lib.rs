//! Data like a database's, made from its statistics alone.
//!
//! [`described`] is what is known of a database: for each column what `pg_stats` has, and the keys. A column's
//! values make a [`domain`](mod@domain): the known ones in the order of their type, and made-up ones between them
//! ([`parts`](mod@parts), [`scale`], [`text`]). Each row has a rank in the domain of each column; a column's [`order`](mod@order) says which,
//! so that frequencies are exact, unique values stay unique, and rows lie as the correlation says. Keys of several
//! columns are [`spread`](mod@spread) level by level. [`rows`] makes the rows of a table, [`tables`] all tables, with the
//! values that foreign keys refer to. The same description and seed give the same rows anywhere. Pure.

pub mod anonymise;
pub mod described;
pub mod domain;
pub mod order;
pub mod parts;
pub mod rows;
pub mod scale;
pub mod spread;
pub mod tables;
pub mod text;
