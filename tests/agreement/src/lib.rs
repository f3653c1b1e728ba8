//! Compiled and loaded pipelines give the same tables and traces; see `tests`.

use orchestra_graph::Pipeline;

/// Asserts that two tables are equal, but for the functions that test their conditions and for their children.
pub fn assert_same_table(compiled: &Pipeline, loaded: &Pipeline, of: &str) {
    assert_eq!(compiled.name, loaded.name, "{of}");
    assert_eq!(compiled.settings, loaded.settings, "{of}");
    assert_eq!(
        (compiled.start, compiled.exit),
        (loaded.start, loaded.exit),
        "{of}"
    );
    assert_eq!(compiled.texts, loaded.texts, "{of}");
    assert_eq!(compiled.kinds, loaded.kinds, "{of}");
    assert_eq!(compiled.nodes, loaded.nodes, "{of}");
    assert_eq!(compiled.edges, loaded.edges, "{of}");
    assert_eq!(compiled.attributes, loaded.attributes, "{of}");
    assert_eq!(compiled.graph_attributes, loaded.graph_attributes, "{of}");
    assert_eq!(compiled.conditions, loaded.conditions, "{of}");
    assert_eq!(compiled.keys, loaded.keys, "{of}");
}
