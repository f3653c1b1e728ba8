//! The one text of a pipeline: what a run depends on, and nothing else.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::rc::Rc;

use super::Pipeline;
use super::content::{Content, Entry, quote};
use crate::model::{EdgeIndex, NodeIndex};

/// The version of the form. A column that is added to the table is written only where it differs from what held before
/// it, so that the texts of older pipelines stay; anything else makes a new version.
const VERSION: &str = "orchestra.pipeline/1";

impl Pipeline {
    /// All that can change what a run of the pipeline does or says, as one text; a run is pinned to its hash (rule D6).
    ///
    /// It is the same for a compiled and a loaded form of one file. Not in it are places and the name of the file,
    /// comments, the spaces of conditions, the order of attributes, Graphviz' drawing attributes (except on nodes of
    /// custom kinds, whose handlers may read them), and attributes whose effect is in the table anyway: `shape`,
    /// `type`, `class` and `model_stylesheet`. What is written counts, also where it says what holds anyway.
    ///
    /// Two orders are in it. The order of nodes decides which of several unsatisfied goal gates leads back, how long
    /// each retry waits, and what the indices of a saved state mean. The order of the edges of one node decides among
    /// equals, and is the order of branches and answers. How edges of different nodes are interleaved is not in it.
    ///
    /// The pipelines that stages run are in it, each once; those that no stage runs are not.
    ///
    /// ```
    /// use orchestra_graph::{Source, load};
    /// let canonical = |text: &str| {
    ///     let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    ///     pipeline.canonical()
    /// };
    /// let one = canonical("digraph { start -> work -> exit; work [prompt=Sing, max_visits=2] }");
    /// let drawn = canonical("digraph { rankdir=LR\n start->work->exit // go\n work [max_visits=\"2\", prompt=Sing, color=red] }");
    /// let other = canonical("digraph { start -> work -> exit; work [prompt=Dance, max_visits=2] }");
    /// assert!(one.starts_with("orchestra.pipeline/1\n"));
    /// assert_eq!(one, drawn);
    /// assert_ne!(one, other);
    /// ```
    pub fn canonical(&self) -> String {
        let mut family = Family::default();
        family.number(self);
        let mut out = VERSION.to_owned();
        for text in &family.texts {
            out.push_str("\npipeline\n");
            out.push_str(text);
        }
        out
    }
}

/// The texts of a pipeline and all that it runs, children before their parents.
#[derive(Default)]
struct Family {
    texts: Vec<Rc<str>>,
    by_text: HashMap<Rc<str>, usize>,
    /// The number of each; `None` while its own children are written.
    seen: HashMap<*const Pipeline, Option<usize>>,
}

impl Family {
    /// The number of a pipeline: equal ones have one, whether they are shared or not. `None` for one that runs itself,
    /// which loading refuses.
    fn number(&mut self, pipeline: &Pipeline) -> Option<usize> {
        if let Some(known) = self.seen.get(&std::ptr::from_ref(pipeline)) {
            return *known;
        }
        self.seen.insert(pipeline, None);
        let text: Rc<str> = self.text(pipeline).into();
        let number = match self.by_text.get(&text) {
            Some(number) => *number,
            None => {
                self.texts.push(text.clone());
                self.by_text.insert(text, self.texts.len() - 1);
                self.texts.len() - 1
            }
        };
        self.seen.insert(pipeline, Some(number));
        Some(number)
    }

    fn text(&mut self, pipeline: &Pipeline) -> String {
        let content = Content::of(pipeline);
        let mut out = String::with_capacity(pipeline.source.len() * 2);
        let all = |entries: &[Entry<'_>], out: &mut String| {
            for entry in entries {
                entry.write(out);
            }
        };
        all(&content.graph(), &mut out);
        for (at, row) in pipeline.nodes.iter().enumerate() {
            out.push_str("node ");
            quote(&row.id, &mut out);
            out.push('\n');
            all(&content.node(NodeIndex(at as u32)), &mut out);
            if let Some(child) = pipeline.child(row) {
                let _ = match self.number(&child.pipeline) {
                    Some(number) => writeln!(out, "  .child={number}"),
                    None => writeln!(out, "  .child=itself"),
                };
            }
        }
        for (at, row) in pipeline.edges.iter().enumerate() {
            out.push_str("edge ");
            quote(pipeline.stage(row.from).id(), &mut out);
            out.push(' ');
            quote(pipeline.stage(row.to).id(), &mut out);
            out.push('\n');
            all(&content.edge(EdgeIndex(at as u32)), &mut out);
        }
        out
    }
}
