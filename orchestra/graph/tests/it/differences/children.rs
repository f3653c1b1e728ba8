//! Tests of differences between the pipelines that stages run.

use orchestra_graph::{Difference, LoadOptions, Pipeline, ReadError, Source, load};

use super::shows;

/// Returns a pipeline with two stages that run a child, which in turn runs a child.
fn family(child: &str, grandchild: &str) -> Pipeline {
    let text = |body: &str| format!("digraph {{ start -> w -> exit; w {body} }}").into_bytes();
    let files = |path: &str, _: u64| match path {
        "child.dot" | "copy.dot" => Ok(text(&format!(
            "[shape=folder, label=\"{child}\", subpipeline.file=\"sub/grand.dot\"]"
        ))),
        "sub/grand.dot" => Ok(text(&format!("[prompt=\"{grandchild}\"]"))),
        _ => Err(ReadError::Missing),
    };
    let options = LoadOptions {
        children: Some(&files),
        ..LoadOptions::default()
    };
    let text = "digraph { start -> a -> b -> c -> exit; node [shape=folder, label=A]
        a [subpipeline.file=\"child.dot\"]; b [subpipeline.file=\"./child.dot\"]; c [subpipeline.file=\"copy.dot\"]
        start [shape=Mdiamond]; exit [shape=Msquare] }";
    load(Source::new("a.dot", text), &options)
        .pipeline()
        .expect("sound")
}

#[test]
fn children_are_compared_too() {
    let old = family("one", "deep");
    assert_eq!(old.canonical(), family("one", "deep").canonical());
    assert_eq!(
        old.canonical().matches("\npipeline\n").count(),
        3,
        "equal files are written once"
    );
    let deep = family("one", "deeper");
    assert_ne!(old.canonical(), deep.canonical());
    shows(
        &Difference::between(&old, &deep).to_string(),
        "
  child sub/grand.dot
  ~ node w (codergen)
      prompt: \"deep\" -> \"deeper\"
",
    );
    let both = Difference::between(&old, &family("two", "deeper"));
    let files: Vec<&str> = both.children.iter().map(|child| &*child.file).collect();
    assert_eq!(files, ["child.dot", "copy.dot", "sub/grand.dot"]);
    // A child that is not loaded differs from one that is.
    let mut bare = family("one", "deep");
    bare.nodes.to_mut().iter_mut().for_each(|row| row.child = None);
    assert_ne!(old.canonical(), bare.canonical());
    assert!(
        Difference::between(&old, &bare)
            .to_string()
            .contains("    - child: \"child.dot\"\n")
    );
    // A child that no stage runs is ignored.
    let mut idle = bare.clone();
    idle.children.to_mut().clear();
    assert_eq!(idle.canonical(), bare.canonical());
}
