//! Names that EXPLAIN prints (PostgreSQL's explain.c), of releases 9.5 to 19; others are kept as their text.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Declares an enum of names. JSON has each as its text.
macro_rules! names {
    ($(#[$doc:meta])* $of:ident { $($name:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum $of {
            $($name,)+
            /// One that this release of the program does not know.
            Other(String),
        }

        impl $of {
            /// Those that are known.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Its text.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $text,)+
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $of {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$name,)+
                    text => Self::Other(text.to_owned()),
                }
            }
        }

        impl Default for $of {
            fn default() -> Self {
                Self::Other(String::new())
            }
        }

        impl fmt::Display for $of {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl Serialize for $of {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $of {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(|text| Self::from(text.as_str()))
            }
        }

        crate::names::string_schema!($of);
    };
}

/// In JSON Schemas such a type is a string.
macro_rules! string_schema {
    ($of:ident) => {
        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $of {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                String::schema_name()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                String::json_schema(generator)
            }
        }
    };
}
pub(crate) use string_schema;

names! {
    /// `Node Type`: the executor's node.
    NodeType {
        Aggregate = "Aggregate",
        Append = "Append",
        BitmapAnd = "BitmapAnd",
        BitmapHeapScan = "Bitmap Heap Scan",
        BitmapIndexScan = "Bitmap Index Scan",
        BitmapOr = "BitmapOr",
        CteScan = "CTE Scan",
        CustomScan = "Custom Scan",
        ForeignScan = "Foreign Scan",
        FunctionScan = "Function Scan",
        Gather = "Gather",
        GatherMerge = "Gather Merge",
        Group = "Group",
        Hash = "Hash",
        HashJoin = "Hash Join",
        IncrementalSort = "Incremental Sort",
        IndexOnlyScan = "Index Only Scan",
        IndexScan = "Index Scan",
        Limit = "Limit",
        LockRows = "LockRows",
        Materialize = "Materialize",
        Memoize = "Memoize",
        MergeAppend = "Merge Append",
        MergeJoin = "Merge Join",
        ModifyTable = "ModifyTable",
        NamedTuplestoreScan = "Named Tuplestore Scan",
        NestedLoop = "Nested Loop",
        ProjectSet = "ProjectSet",
        RecursiveUnion = "Recursive Union",
        Result = "Result",
        SampleScan = "Sample Scan",
        SeqScan = "Seq Scan",
        SetOp = "SetOp",
        Sort = "Sort",
        SubqueryScan = "Subquery Scan",
        TableFunctionScan = "Table Function Scan",
        TidRangeScan = "Tid Range Scan",
        TidScan = "Tid Scan",
        Unique = "Unique",
        ValuesScan = "Values Scan",
        WindowAgg = "WindowAgg",
        WorkTableScan = "WorkTable Scan",
    }
}

names! {
    /// `Operation`: what a node that writes does.
    Operation {
        Delete = "Delete",
        Insert = "Insert",
        Merge = "Merge",
        Select = "Select",
        Update = "Update",
    }
}

names! {
    /// `Parent Relationship`: what a node is to the one above it.
    Relationship {
        InitPlan = "InitPlan",
        Inner = "Inner",
        Member = "Member",
        Outer = "Outer",
        SubPlan = "SubPlan",
        Subquery = "Subquery",
    }
}

names! {
    /// `Join Type`: which rows a join keeps.
    JoinType {
        Anti = "Anti",
        Full = "Full",
        Inner = "Inner",
        Left = "Left",
        Right = "Right",
        RightAnti = "Right Anti",
        RightSemi = "Right Semi",
        Semi = "Semi",
    }
}

names! {
    /// A property of a node that holds an expression.
    Clause {
        ConflictFilter = "Conflict Filter",
        Filter = "Filter",
        HashCond = "Hash Cond",
        IndexCond = "Index Cond",
        JoinFilter = "Join Filter",
        MergeCond = "Merge Cond",
        OneTimeFilter = "One-Time Filter",
        OrderBy = "Order By",
        Output = "Output",
        RecheckCond = "Recheck Cond",
        TidCond = "TID Cond",
        Window = "Window",
    }
}
