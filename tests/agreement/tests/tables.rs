//! The tables of a compiled pipeline are those of the loaded one with its children, and the inline form gives those of a
//! file.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use orchestra::graph::{Difference, LoadOptions, Pipeline, ReadError, load_bytes};
use orchestra_agreement_tests::assert_same_table;

orchestra::pipeline! { pub mod release = "flows/release.dot", deny(warnings); }

// rustfmt would indent the lines of the string.
#[rustfmt::skip]
mod written {
    orchestra::pipeline! {
        allow(attribute_without_effect);
        pub mod in_a_file = "flows/words.dot";
        pub mod inline = digraph words {
    graph [goal="Größe\n\"1\""]
    # a comment
    rankdir=LR
    start -> work /* here */ -> exit
    work [llm_model=gpt-5.2-codex, timeout=15m, human.default_choice=yes, retry_backoff_factor=1.5,
        prompt="over
  two lines"]
};
    }
}

/// Reads a file of this package.
fn read(path: &str, _: u64) -> Result<Vec<u8>, ReadError> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read(path).map_err(|error| ReadError::Other(error.to_string()))
}

/// Compares two tables and those of their children; gives the names in the order in which they are met.
fn same(compiled: &Pipeline, loaded: &Pipeline, met: &mut Vec<String>) {
    let name = &compiled.name;
    met.push(name.to_string());
    assert_eq!(compiled.file, loaded.file);
    assert_eq!(compiled.source, loaded.source, "{name}");
    assert_same_table(compiled, loaded, name);
    assert_eq!(compiled.children.len(), loaded.children.len(), "{name}");
    for (compiled, loaded) in compiled.children.iter().zip(loaded.children.iter()) {
        assert_eq!(compiled.file, loaded.file, "{name}");
        same(&compiled.pipeline, &loaded.pipeline, met);
    }
}

#[test]
fn compiled_children_equal_loaded_ones() {
    let options = LoadOptions {
        children: Some(&read),
        ..LoadOptions::default()
    };
    let file = "flows/release.dot";
    let loaded = load_bytes(file, &read(file, u64::MAX).unwrap(), &options);
    let loaded = loaded.pipeline().unwrap();
    let mut met = Vec::new();
    same(&release::PIPELINE, &loaded, &mut met);
    assert_eq!(met, ["release", "lint", "build", "lint"]);
    assert_eq!(release::PIPELINE.canonical(), loaded.canonical());
    assert!(Difference::between(&release::PIPELINE, &loaded).is_empty());
    for pipeline in [&release::PIPELINE, &loaded] {
        let row = |node: &str| pipeline.stage(pipeline.find(node).unwrap()).row();
        let runs = ["lint", "watch", "again", "named"].map(|node| row(node).child);
        assert_eq!(runs, [Some(0), Some(1), Some(0), None]);
        // One file is one table, whoever runs it.
        let (own, of_child) = (&pipeline.children[0], &pipeline.children[1].pipeline.children[0]);
        assert!(std::ptr::eq(&*own.pipeline, &*of_child.pipeline));
    }
}

#[test]
fn a_pipeline_written_inline_is_the_one_in_a_file() {
    use written::{in_a_file, inline};
    let (file, here) = (&in_a_file::PIPELINE, &inline::PIPELINE);
    assert_eq!(file.texts, here.texts);
    assert_eq!(file.canonical(), here.canonical());
    assert!(Difference::between(file, here).is_empty());
    assert_eq!(in_a_file::nodes::Work::PROMPT, inline::nodes::Work::PROMPT);
    assert_eq!(inline::nodes::Work::LLM_MODEL, "gpt-5.2-codex");
    // A place in the inline form is a place in this file.
    let above = include_str!("tables.rs")
        .lines()
        .position(|line| line.contains("inline = digraph"))
        .unwrap();
    let line = |pipeline: &Pipeline| pipeline.nodes[1].position.line;
    assert_eq!(line(here) as usize, above + line(file) as usize);
}
