//! The occurrences of names: where a pipeline declares and uses its nodes, context keys, agents and other names.

mod collect;
mod labels;
mod rename;
mod symbol;
mod values;

pub use rename::{RenameError, Renaming, TextEdit};
pub use symbol::{Occurrence, OccurrenceRole, Symbol};

use crate::loaded::Loaded;

/// Returns the occurrences of names in the text of a pipeline, in the order of the text. Of a text with errors, returns
/// those in the statements that can be read.
///
/// Names in prompts that are templates are not included, because the configuration determines which prompts are.
///
/// ```
/// use orchestra_graph::{Source, Symbol, load, occurrences};
/// let text = r#"digraph {
///     graph [assert="requires(exit, review)"]
///     start -> review -> exit [condition="visits.review >= 1"]
/// }"#;
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let review = Symbol::Node("review".to_owned());
/// let found = occurrences(&loaded).into_iter().filter(|found| found.symbol == review);
/// let lines: Vec<u32> = found.map(|found| loaded.source.position(found.span.start).line).collect();
/// assert_eq!(lines, [2, 3, 3]);
/// ```
pub fn occurrences(loaded: &Loaded) -> Vec<Occurrence> {
    let mut found = collect::collect(loaded);
    found.sort_by_key(|occurrence| (occurrence.span, occurrence.symbol.clone()));
    found
}
