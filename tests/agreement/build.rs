//! Writes pipelines made at random, and a module for each of them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write as _;
use std::path::PathBuf;

use orchestra_oracle_tests::{generate, load_pipeline};

include!("cases.rs");

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=cases.rs");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names a folder"));
    let mut modules = String::new();
    let mut list =
        String::from("fn compiled() -> Vec<(u64, &'static orchestra::graph::Pipeline)> {\n    vec![\n");
    let cases = (FIRST_SEED..).flat_map(|seed| generate::cases(seed, 1));
    for case in cases.filter(|case| load_pipeline(&case.dot).is_ok()).take(GRAPHS) {
        let (seed, dot) = (case.seed, case.dot);
        std::fs::write(folder.join(format!("g{seed}.dot")), dot).unwrap();
        writeln!(
            modules,
            "orchestra::pipeline! {{ pub mod g{seed} = \"./g{seed}.dot\"; }}"
        )
        .unwrap();
        writeln!(list, "        ({seed}, &*g{seed}::PIPELINE),").unwrap();
    }
    list.push_str("    ]\n}\n");
    std::fs::write(folder.join("pipelines.rs"), modules + &list).unwrap();
}
