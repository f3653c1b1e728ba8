//! What a large pipeline costs a build: the expansion by itself, and `cargo check` with and without the macro.
//!
//! `cargo bench -p orchestra-compile-fail-tests` for figures of an optimised macro; builds of users run it
//! unoptimised, as `cargo bench --profile dev` does.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a program that prints figures"
)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orchestra_codegen::{ReadError, Reader, expand_pipeline};
use orchestra_compile_fail_tests::{Package, generate};
use proc_macro2::Span;

struct Memory(String);

impl Reader for Memory {
    fn manifest(&self) -> PathBuf {
        PathBuf::from("/package")
    }

    fn source_file(&self, _: Span) -> Option<PathBuf> {
        None
    }

    fn read(&self, _: &Path, _: u64) -> Result<Vec<u8>, ReadError> {
        Ok(self.0.clone().into_bytes())
    }

    fn list(&self, _: &Path) -> Vec<String> {
        Vec::new()
    }
}

fn best(times: usize, mut run: impl FnMut() -> Duration) -> Duration {
    (0..times).map(|_| run()).min().unwrap_or_default()
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let profile = if cfg!(debug_assertions) {
        "unoptimised"
    } else {
        "optimised"
    };
    for nodes in [100, 1_000, 4_000] {
        let reader = Memory(generate::large(nodes));
        let time = best(5, || {
            let begin = Instant::now();
            let tokens = expand_pipeline("\"large.dot\"".parse().expect("tokens"), &reader);
            let time = begin.elapsed();
            assert!(!tokens.is_empty());
            time
        });
        println!(
            "expansion, {profile}, {nodes} nodes, {} bytes: {time:.1?}",
            reader.0.len()
        );
    }
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "large");
    package.write("large.dot", generate::large(1_000));
    let check = |program: &str| {
        package.write("src/lib.rs", program);
        let begin = Instant::now();
        assert!(package.check().built);
        begin.elapsed()
    };
    let with = "orchestra::pipeline!(\"large.dot\");\npub fn f() {}\n";
    let without = "pub fn f() {}\n";
    check(with);
    let without = best(5, || check(&format!("{without}// {:?}\n", Instant::now())));
    let with = best(5, || check(&format!("{with}// {:?}\n", Instant::now())));
    println!("cargo check without the pipeline: {without:.1?}");
    println!(
        "cargo check with 1,000 nodes: {with:.1?}, {:.1?} more",
        with.saturating_sub(without)
    );
}
