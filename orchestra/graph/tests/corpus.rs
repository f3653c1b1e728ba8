//! Pipelines as people write them, in every shape of the documents that describe the language, check clean.
//!
//! The first line of each file with `expect:` lists the codes that it raises, in the order of the text.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use orchestra_graph::{LoadOptions, Source, load};

fn corpus() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<(String, String)> = std::fs::read_dir(folder)
        .expect("the corpus")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).expect("text"))
        })
        .collect();
    files.sort();
    files
}

#[test]
fn the_corpus_has_no_errors_and_only_the_warnings_it_expects() {
    let mut mistakes = Vec::new();
    for (name, text) in corpus() {
        let wish = text
            .lines()
            .find_map(|line| line.split_once("expect:"))
            .unwrap_or_else(|| panic!("{name} does not say what it expects"));
        let mut expected: Vec<&str> = wish.1.split_whitespace().collect();
        expected.retain(|code| *code != "nothing");
        expected.sort_unstable();
        let loaded = load(Source::new(&*name, &*text), &LoadOptions::default());
        let faults = &loaded.report.diagnostics;
        let mut codes: Vec<&str> = faults.iter().map(|fault| fault.code).collect();
        codes.sort_unstable();
        if codes != expected || loaded.report.has_errors() {
            let found: Vec<String> = faults
                .iter()
                .map(|fault| {
                    let at = loaded.source.position(fault.span.start);
                    format!(
                        "  {name}:{}:{} {} {}: {}",
                        at.line,
                        at.column,
                        fault.severity.word(),
                        fault.code,
                        fault.message
                    )
                })
                .collect();
            mistakes.push(format!("{name} expects {expected:?}, has\n{}", found.join("\n")));
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn every_file_of_the_corpus_becomes_a_pipeline() {
    for (name, text) in corpus() {
        let loaded = load(Source::new(&*name, &*text), &LoadOptions::default());
        assert!(loaded.pipeline().is_some(), "{name}");
    }
}
