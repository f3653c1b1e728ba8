//! W9: what a large pipeline costs a build: the expansion by itself, and `cargo check` with and without the macro.
//!
//! The expansion here is an optimised one; builds of users run it unoptimised unless they set an override.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use orchestra_benches::generate;
use orchestra_benches::measure::{Bench, median, seconds};
use orchestra_codegen::{ReadError, Reader, expand_pipeline};
use orchestra_compile_fail_tests::Package;
use orchestra_graph::{LoadOptions, Source, load};
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

/// Returns the shortest time of some rounds.
fn best(times: usize, mut run: impl FnMut() -> f64) -> f64 {
    (0..times).map(|_| run()).fold(f64::INFINITY, f64::min)
}

pub(crate) fn measure(bench: &mut Bench) {
    if !bench.wants("W9 ") {
        return;
    }
    for (nodes, target) in [(20, Some(15.0)), (1_000, None), (4_000, None)] {
        let reader = Memory(generate::large(nodes));
        let source = Source::new("large.dot", reader.0.clone());
        let limit = median(5, 1_000, || {
            black_box(load(source.clone(), &LoadOptions::default()));
        });
        let time = median(5, 1_000, || {
            let tokens = expand_pipeline("\"large.dot\"".parse().expect("tokens"), &reader);
            assert!(!tokens.is_empty());
        });
        bench.record(
            &format!("W9 expansion of {nodes} nodes"),
            "ms",
            time,
            limit,
            target,
        );
    }
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "large").incremental();
    package.write("large.dot", generate::large(1_000));
    let check = |program: &str| {
        // A text that no build before had, so that the package is checked again.
        package.write("src/lib.rs", format!("{program}// {:?}\n", Instant::now()));
        1e3 * seconds(|| assert!(package.check().built))
    };
    let with = "orchestra::pipeline!(\"large.dot\");\npub fn f() {}\n";
    let without = "pub fn f() {}\n";
    check(with);
    let without = best(5, || check(without));
    let with = best(5, || check(with));
    bench.record(
        "W9 added to `cargo check` by 1,000 nodes",
        "ms",
        with - without,
        without,
        200.0,
    );
}
