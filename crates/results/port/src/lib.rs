//! What keeps an extension from another processor: C, C++ and Rust sources, build files and binaries.
//!
//! Bytes in, findings out: this crate opens no file and starts no process. [`project::read`] reads
//! one file by itself, so that many can be read side by side; [`project::Project`] puts them together,
//! because a macro, a field or an `#include` of one file decides what a line of another means.
//!
//! ```
//! use pgassay_port::guards::known::Processor;
//! use pgassay_port::project::{Project, read};
//!
//! let source = b"#include <nmmintrin.h>\nint f(int a) { return _mm_crc32_u32(0, a); }\n";
//! let mut project = Project::default();
//! project.add("crc.c", read("crc.c", source).expect("C is looked at"));
//! let porting = project.finish("crc.c", Processor::Aarch64);
//! assert_eq!(porting.findings.len(), 2);
//! ```

pub mod binary;
mod context;
mod detect;
mod document;
mod facts;
pub mod flags;
pub mod guards;
pub mod porting;
pub mod project;
pub mod rules;
mod rust;
mod syntax;
mod types;
mod walk;
mod x86;
