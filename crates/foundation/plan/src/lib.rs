//! Plans of PostgreSQL: EXPLAIN's JSON as typed nodes, and the expressions in them. It does no I/O and draws no conclusions.

mod names;

pub mod explain;
pub mod expr;
pub mod node;

pub use expr::Expr;
pub use names::{Clause, JoinType, NodeType, Operation, Relationship};
pub use node::{Node, Work};
