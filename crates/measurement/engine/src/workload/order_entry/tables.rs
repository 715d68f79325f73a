//! The nine tables: how they are made, and what a warehouse takes on disk.

use super::SCHEMA;

/// Items in the catalogue, whatever the number of warehouses.
pub const ITEMS: u32 = 100_000;
/// Districts of a warehouse.
pub const DISTRICTS: u32 = 10;
/// Customers of a district, and orders of each in the beginning.
pub const CUSTOMERS: u32 = 3_000;
/// The first order of a district that is not yet delivered.
pub const FIRST_NEW: u32 = 2_101;

/// Bytes of heap and indexes of a warehouse, seen on PostgreSQL 15 with blocks of 8 KiB after loading.
pub const BYTES_PER_WAREHOUSE: u64 = 104_669_184;
/// The same of the catalogue.
pub const BYTES_OF_ITEMS: u64 = 12_943_360;

/// The tables' names and columns.
pub const TABLES: [(&str, &str); 9] = [
    (
        "warehouse",
        "w_id int NOT NULL, w_name varchar(10), w_street_1 varchar(20), w_street_2 varchar(20), \
         w_city varchar(20), w_state char(2), w_zip char(9), w_tax numeric(4,4), w_ytd numeric(12,2)",
    ),
    (
        "district",
        "d_id int NOT NULL, d_w_id int NOT NULL, d_name varchar(10), d_street_1 varchar(20), \
         d_street_2 varchar(20), d_city varchar(20), d_state char(2), d_zip char(9), \
         d_tax numeric(4,4), d_ytd numeric(12,2), d_next_o_id int",
    ),
    (
        "customer",
        "c_id int NOT NULL, c_d_id int NOT NULL, c_w_id int NOT NULL, c_first varchar(16), \
         c_middle char(2), c_last varchar(16), c_street_1 varchar(20), c_street_2 varchar(20), \
         c_city varchar(20), c_state char(2), c_zip char(9), c_phone char(16), c_since timestamp, \
         c_credit char(2), c_credit_lim numeric(12,2), c_discount numeric(4,4), \
         c_balance numeric(12,2), c_ytd_payment numeric(12,2), c_payment_cnt int, \
         c_delivery_cnt int, c_data varchar(500)",
    ),
    (
        "history",
        "h_c_id int NOT NULL, h_c_d_id int NOT NULL, h_c_w_id int NOT NULL, h_d_id int NOT NULL, \
         h_w_id int NOT NULL, h_date timestamp, h_amount numeric(6,2), h_data varchar(24)",
    ),
    (
        "new_order",
        "no_o_id int NOT NULL, no_d_id int NOT NULL, no_w_id int NOT NULL",
    ),
    (
        "orders",
        "o_id int NOT NULL, o_d_id int NOT NULL, o_w_id int NOT NULL, o_c_id int, \
         o_entry_d timestamp, o_carrier_id int, o_ol_cnt int, o_all_local int",
    ),
    (
        "order_line",
        "ol_o_id int NOT NULL, ol_d_id int NOT NULL, ol_w_id int NOT NULL, ol_number int NOT NULL, \
         ol_i_id int NOT NULL, ol_supply_w_id int, ol_delivery_d timestamp, ol_quantity int, \
         ol_amount numeric(6,2), ol_dist_info char(24)",
    ),
    (
        "item",
        "i_id int NOT NULL, i_im_id int, i_name varchar(24), i_price numeric(5,2), i_data varchar(50)",
    ),
    (
        "stock",
        "s_i_id int NOT NULL, s_w_id int NOT NULL, s_quantity int, s_dist_01 char(24), \
         s_dist_02 char(24), s_dist_03 char(24), s_dist_04 char(24), s_dist_05 char(24), \
         s_dist_06 char(24), s_dist_07 char(24), s_dist_08 char(24), s_dist_09 char(24), \
         s_dist_10 char(24), s_ytd int, s_order_cnt int, s_remote_cnt int, s_data varchar(50)",
    ),
];

/// The keys and indexes, the largest first.
const INDEXES: [&str; 10] = [
    "ALTER TABLE {}.order_line ADD PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)",
    "ALTER TABLE {}.stock ADD PRIMARY KEY (s_w_id, s_i_id)",
    "CREATE INDEX customer_last ON {}.customer (c_w_id, c_d_id, c_last, c_first)",
    "ALTER TABLE {}.customer ADD PRIMARY KEY (c_w_id, c_d_id, c_id)",
    "ALTER TABLE {}.orders ADD PRIMARY KEY (o_w_id, o_d_id, o_id)",
    "CREATE INDEX orders_customer ON {}.orders (o_w_id, o_d_id, o_c_id, o_id)",
    "ALTER TABLE {}.item ADD PRIMARY KEY (i_id)",
    "ALTER TABLE {}.new_order ADD PRIMARY KEY (no_w_id, no_d_id, no_o_id)",
    "ALTER TABLE {}.district ADD PRIMARY KEY (d_w_id, d_id)",
    "ALTER TABLE {}.warehouse ADD PRIMARY KEY (w_id)",
];

/// The statements that make the tables.
pub fn create() -> Vec<String> {
    let make = |(name, columns)| format!("CREATE TABLE {SCHEMA}.{name} ({columns})");
    TABLES.into_iter().map(make).collect()
}

/// The statements that give the filled tables their keys and indexes. Two of one
/// table wait for each other.
pub fn indexes() -> Vec<String> {
    INDEXES.map(|text| text.replace("{}", SCHEMA)).to_vec()
}

/// The statements after which nothing is left to be set or counted while something is measured.
pub fn vacuum() -> Vec<String> {
    let vacuum = |(name, _)| format!("VACUUM (ANALYZE) {SCHEMA}.{name}");
    TABLES.into_iter().map(vacuum).collect()
}

/// Bytes on disk of so many warehouses.
pub fn bytes(warehouses: u32) -> u64 {
    BYTES_OF_ITEMS + u64::from(warehouses) * BYTES_PER_WAREHOUSE
}
