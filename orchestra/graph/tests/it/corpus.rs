//! Checks that hand-written pipelines, in every style of the documents that describe the language, load as expected.
//!
//! The first line with `expect:` in each file lists the codes that the file raises, or `nothing`.

use std::path::Path;

use orchestra_graph::{LoadOptions, Source, load};

pub(crate) fn corpus() -> Vec<(String, String)> {
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
        let diagnostics = &loaded.report.diagnostics;
        let mut codes: Vec<&str> = diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
        codes.sort_unstable();
        if codes != expected || loaded.report.has_errors() {
            let found: Vec<String> = diagnostics
                .iter()
                .map(|diagnostic| {
                    let at = loaded.source.position(diagnostic.span.start);
                    format!(
                        "  {name}:{}:{} {} {}: {}",
                        at.line,
                        at.column,
                        diagnostic.severity.word(),
                        diagnostic.code,
                        diagnostic.message
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
