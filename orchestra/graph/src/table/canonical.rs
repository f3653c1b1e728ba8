//! The canonical text of a pipeline: everything that a run depends on, and nothing else.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::rc::Rc;

use super::Pipeline;
use super::content::{Content, Entry, quote};
use crate::model::{EdgeIndex, NodeIndex};

/// The version of the form. A column that is added to the table is written only if it differs from the earlier
/// behaviour, so that the texts of older pipelines stay the same. Any other change requires a new version.
const VERSION: &str = "orchestra.pipeline/1";

impl Pipeline {
    /// Returns everything that can change the behaviour or the messages of a run of the pipeline, as one text. A run is
    /// pinned to the hash of this text (rule D6).
    ///
    /// The text is the same for the compiled and the loaded form of a file. It does not contain source positions, the
    /// name of the file, comments, the spaces of conditions, the order of attributes, Graphviz' drawing attributes
    /// (except on nodes of custom kinds, whose handlers may read them), or attributes whose effect is in the table
    /// anyway: `shape`, `type`, `class` and `model_stylesheet`. It contains attributes that are set explicitly, even if
    /// they equal the default.
    ///
    /// It contains two orders. The order of nodes decides which of several unsatisfied goal gates leads back, how long
    /// each retry waits, and what the indices of a saved state mean. The order of the edges of a node breaks ties, and
    /// is the order of branches and answers. It does not contain how the edges of different nodes are interleaved.
    ///
    /// It contains each pipeline that stages run once, and no pipeline that no stage runs.
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
        let mut texts = CanonicalTexts::default();
        texts.number(self);
        let mut out = VERSION.to_owned();
        for text in &texts.texts {
            out.push_str("\npipeline\n");
            out.push_str(text);
        }
        out
    }
}

/// The texts of a pipeline and of all pipelines that it runs, children before their parents.
#[derive(Default)]
struct CanonicalTexts {
    texts: Vec<Rc<str>>,
    by_text: HashMap<Rc<str>, usize>,
    /// The number of each pipeline; `None` while its own children are written.
    seen: HashMap<*const Pipeline, Option<usize>>,
}

impl CanonicalTexts {
    /// Returns the number of a pipeline. Equal pipelines have the same number, whether they are shared or not. Returns
    /// `None` for a pipeline that runs itself, which loading rejects.
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
        let content = Content::new(pipeline);
        let mut out = String::with_capacity(pipeline.source.len() * 2);
        let all = |entries: &[Entry<'_>], out: &mut String| {
            for entry in entries {
                entry.write(out);
            }
        };
        all(&content.graph(), &mut out);
        for (at, row) in pipeline.nodes.iter().enumerate() {
            out.push_str("node ");
            quote(pipeline.text(row.id), &mut out);
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
