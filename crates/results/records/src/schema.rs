//! What a table is: a struct whose fields are its columns, each with its kind and what it means.

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A whole number of 64 bits.
    Int,
    /// A floating-point number; never NaN or infinite.
    Float,
    /// True or false.
    Bool,
    /// A time in UTC, microseconds since 1970.
    Time,
}

impl Kind {
    /// Its name in SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Self::Text => "VARCHAR",
            Self::Int => "BIGINT",
            Self::Float => "DOUBLE",
            Self::Bool => "BOOLEAN",
            Self::Time => "TIMESTAMP WITH TIME ZONE",
        }
    }
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether it may be missing.
    pub nullable: bool,
    /// What it means.
    pub about: &'static str,
}

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSpec {
    /// Its name, and that of its directory.
    pub name: &'static str,
    /// What a row is.
    pub about: &'static str,
    /// Its columns, in their order.
    pub columns: &'static [Column],
}

/// A value on its way into a column or out of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Missing.
    Null,
    /// Text.
    Text(&'a str),
    /// A whole number, or a time.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// True or false.
    Bool(bool),
}

/// A row of a table.
pub trait Table: Sized {
    /// The table.
    const SPEC: TableSpec;

    /// The values of its columns, in their order.
    fn values(&self) -> Vec<Value<'_>>;

    /// The row of such values; none where one is missing that must not be, or of another kind.
    fn of(values: &[Value<'_>]) -> Option<Self>;
}

/// What a field of a row may be.
pub trait Cell: Sized {
    /// The kind of its column.
    const KIND: Kind;
    /// Whether it may be missing.
    const NULLABLE: bool = false;

    /// Its value.
    fn value(&self) -> Value<'_>;

    /// The field of such a value.
    fn of(value: Value<'_>) -> Option<Self>;
}

/// A time in UTC, microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub i64);

impl Cell for Time {
    const KIND: Kind = Kind::Time;

    fn value(&self) -> Value<'_> {
        Value::Int(self.0)
    }

    fn of(value: Value<'_>) -> Option<Self> {
        i64::of(value).map(Self)
    }
}

impl Cell for String {
    const KIND: Kind = Kind::Text;

    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }

    fn of(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.to_owned()),
            _ => None,
        }
    }
}

impl Cell for i64 {
    const KIND: Kind = Kind::Int;

    fn value(&self) -> Value<'_> {
        Value::Int(*self)
    }

    fn of(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Int(number) => Some(number),
            _ => None,
        }
    }
}

impl Cell for f64 {
    const KIND: Kind = Kind::Float;
    // Engines sort and average NaN each in its way: what is no number is missing.
    const NULLABLE: bool = true;

    fn value(&self) -> Value<'_> {
        match self.is_finite() {
            true => Value::Float(*self),
            false => Value::Null,
        }
    }

    fn of(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Float(number) => Some(number),
            Value::Null => Some(f64::NAN),
            _ => None,
        }
    }
}

impl Cell for bool {
    const KIND: Kind = Kind::Bool;

    fn value(&self) -> Value<'_> {
        Value::Bool(*self)
    }

    fn of(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Bool(is) => Some(is),
            _ => None,
        }
    }
}

impl<T: Cell> Cell for Option<T> {
    const KIND: Kind = T::KIND;
    const NULLABLE: bool = true;

    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, Cell::value)
    }

    fn of(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::of(value).map(Some),
        }
    }
}

/// Makes a struct a table: the fields are its columns, their comments what they mean.
macro_rules! table {
    (
        $(#[doc = $about:literal])*
        $table:literal => $row:ident {
            $($(#[doc = $means:literal])* $column:ident: $type:ty,)*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $row {
            $($(#[doc = $means])* pub $column: $type,)*
        }

        impl $crate::schema::Table for $row {
            const SPEC: $crate::schema::TableSpec = $crate::schema::TableSpec {
                name: $table,
                about: concat!($($about,)*),
                columns: &[$($crate::schema::Column {
                    name: stringify!($column),
                    kind: <$type as $crate::schema::Cell>::KIND,
                    nullable: <$type as $crate::schema::Cell>::NULLABLE,
                    about: concat!($($means,)*),
                },)*],
            };

            fn values(&self) -> Vec<$crate::schema::Value<'_>> {
                vec![$($crate::schema::Cell::value(&self.$column),)*]
            }

            fn of(values: &[$crate::schema::Value<'_>]) -> Option<Self> {
                let mut values = values.iter().copied();
                Some(Self {
                    $($column: <$type as $crate::schema::Cell>::of(values.next()?)?,)*
                })
            }
        }
    };
}
pub(crate) use table;
