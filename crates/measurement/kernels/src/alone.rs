//! The forms as a program of their own, for a processor that is emulated. It is compiled where it is needed,
//! from [the text](crate::source) of the same forms.
//!
//! ```text
//! list                     the forms that this processor has, FAMILY:NAME a line
//! count FAMILY:NAME N      N operations in one thread; `nothing` is the loop alone
//! prove THREADS N          N operations of each form in each thread, and whether they left what they must
//! ```

// Parts of the forms are for those who measure.
#![allow(dead_code, unused_imports)]

extern crate self as pgassay_sys;

mod catalogue;
#[cfg(any(target_arch = "aarch64", target_arch = "powerpc64"))]
pub mod exclusive;
mod forms;
mod kernel;
mod pinned;
mod session;
mod sync;

use std::process::ExitCode;

use catalogue::{Form, find, forms};
use kernel::{Kernel, Me};

/// Of the random numbers.
const SEED: u64 = 1;

/// A loop around no operation.
struct Nothing;

impl Kernel for Nothing {
    #[inline(always)]
    fn operate(&self, _: &mut Me) {}

    fn proof(&self, _: u64) -> Result<(), String> {
        Ok(())
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = match words[..] {
        ["list"] => {
            for form in forms().filter(|form| form.is_here()) {
                println!("{}:{}", form.family, form.name);
            }
            Ok(())
        }
        ["count", form, operations] => count(form, operations),
        ["prove", threads, operations] => prove(threads, operations),
        _ => Err("list, count FAMILY:NAME N, or prove THREADS N".to_owned()),
    };
    match said {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

fn made(form: &Form, threads: usize) -> Result<Box<dyn Kernel>, String> {
    let none = || format!("this processor has no {}", form.title());
    form.make(threads).ok_or_else(none)
}

fn count(name: &str, operations: &str) -> Result<(), String> {
    let operations = number(operations)?;
    let kernel = match (name, &find(name)[..]) {
        ("nothing", _) => Box::new(Nothing),
        (_, [form]) => made(form, 1)?,
        _ => return Err(format!("there is no form `{name}`")),
    };
    kernel.times(&mut Me::new(0, SEED), operations);
    kernel.proof(operations)
}

fn prove(threads: &str, operations: &str) -> Result<(), String> {
    let (threads, operations): (usize, u64) = (number(threads)?, number(operations)?);
    for form in forms().filter(|form| form.is_here()) {
        let kernel = &made(form, threads)?;
        std::thread::scope(|scope| {
            for slot in 0..threads {
                scope.spawn(move || kernel.times(&mut Me::new(slot, SEED), operations));
            }
        });
        kernel
            .proof(operations * threads as u64)
            .map_err(|what| format!("{}: {what}", form.title()))?;
        println!("{}: {threads} threads", form.title());
    }
    Ok(())
}
