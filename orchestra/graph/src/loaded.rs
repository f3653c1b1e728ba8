//! Loaded pipelines with the child pipelines that they run.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use crate::analysis::{Analysis, DerivedProperties};
use crate::assertion::parse_assertions;
use crate::ast;
use crate::attribute::Known;
use crate::attributes::Attribute;
use crate::diagnostic::Report;
use crate::model::{Graph, NodeIndex};
use crate::table::{Child, Pipeline, SharedPipeline};
use crate::text::Source;

/// A loaded pipeline with its diagnostics.
///
/// ```
/// use orchestra_graph::{LoadOptions, Source, load, render};
/// let loaded = load(Source::new("a.dot", "digraph { start -> wrok; work -> exit }"), &LoadOptions::default());
/// assert!(loaded.pipeline().is_none());
/// assert!(render::concise(&loaded.report).contains("edge points to unknown node `wrok`"));
/// ```
pub struct Loaded {
    /// The text.
    pub source: Source,
    /// The syntax tree.
    pub file: ast::File,
    /// The graph after all transforms.
    pub graph: Graph,
    /// The properties of the graph.
    pub(crate) properties: Arc<DerivedProperties>,
    /// The diagnostics, in the order of the text.
    pub report: Report,
    /// The pipelines that its stages run, each once, in the order in which they are named.
    /// [`descendants`](Loaded::descendants) also returns the pipelines that these run in turn.
    pub children: Vec<LoadedChild>,
    /// The files with prompts and schemas that its nodes name, each once, whether or not they could be read.
    pub prompt_files: Vec<String>,
}

/// A child pipeline of a [loaded](Loaded) one.
///
/// ```
/// use orchestra_graph::{LoadOptions, Source, load};
/// let text = r#"digraph { start -> lint -> exit; lint [shape=folder, subpipeline.file="./lint.dot"] }"#;
/// let broken = |_: &str, _: u64| Ok(b"digraph lint { start -> exit".to_vec());
/// let options = LoadOptions { children: Some(&broken), ..LoadOptions::default() };
/// let loaded = load(Source::new("a.dot", text), &options);
/// let child = &loaded.children[0];
/// assert_eq!((&*child.file, child.loaded.source.name()), ("./lint.dot", "lint.dot"));
/// assert!(child.loaded.report.has_errors() && child.pipeline.is_none());
/// assert!(loaded.report.errors().any(|diagnostic| diagnostic.code == "child_invalid"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct LoadedChild {
    /// The file as the parent first writes it.
    pub file: String,
    /// The attribute that first names the file, on a node or on the graph.
    pub attribute: Attribute,
    /// The nodes that run it.
    pub nodes: Vec<NodeIndex>,
    /// The loaded pipeline. The name of its source is the path that was read. Parents that name the same file share it.
    pub loaded: Arc<Loaded>,
    /// The table; `None` if the pipeline has errors.
    pub pipeline: Option<SharedPipeline>,
}

impl Loaded {
    /// Returns the child pipelines and their descendants, depth first. Each file appears once, in the order in which
    /// the files are named.
    ///
    /// ```
    /// use orchestra_graph::{LoadOptions, Source, load};
    /// let node = |file: &str| format!("digraph {{ start -> a -> exit; a [shape=folder, subpipeline.file={file:?}] }}");
    /// let files = |path: &str, _: u64| Ok(match path {
    ///     "b.dot" => node("c.dot").into_bytes(),
    ///     _ => b"digraph { start -> exit }".to_vec(),
    /// });
    /// let options = LoadOptions { children: Some(&files), ..LoadOptions::default() };
    /// let loaded = load(Source::new("a.dot", node("b.dot")), &options);
    /// let names: Vec<&str> = loaded.descendants().iter().map(|child| child.loaded.source.name()).collect();
    /// assert_eq!(names, ["b.dot", "c.dot"]);
    /// ```
    pub fn descendants(&self) -> Vec<&LoadedChild> {
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut ahead: Vec<&LoadedChild> = self.children.iter().rev().collect();
        while let Some(child) = ahead.pop() {
            if seen.insert(Arc::as_ptr(&child.loaded)) {
                found.push(child);
                ahead.extend(child.loaded.children.iter().rev());
            }
        }
        found
    }

    /// Returns the report of this pipeline and those of its [descendants](Loaded::descendants).
    ///
    /// ```
    /// use orchestra_graph::{LoadOptions, Source, load, render};
    /// let text = r#"digraph { start -> a -> exit; a [shape=folder, subpipeline.file="b.dot"] }"#;
    /// let broken = |_: &str, _: u64| Ok(b"digraph { start -> exit".to_vec());
    /// let options = LoadOptions { children: Some(&broken), ..LoadOptions::default() };
    /// let loaded = load(Source::new("a.dot", text), &options);
    /// let all: String = loaded.reports().map(render::concise).collect();
    /// assert!(all.starts_with("a.dot:1:") && all.contains("\nb.dot:1:9: error[unterminated_block]"));
    /// ```
    pub fn reports(&self) -> impl Iterator<Item = &Report> {
        let descendants = self.descendants().into_iter();
        std::iter::once(&self.report).chain(descendants.map(|child| &child.loaded.report))
    }

    /// Returns the number of assertions that were proved for the pipeline itself; 0 if its report has errors (rule V1).
    ///
    /// ```
    /// use orchestra_graph::{Source, load};
    /// let text = r#"digraph { assert="requires(exit, work)"; start -> work -> exit }"#;
    /// assert_eq!(load(Source::new("a.dot", text), &Default::default()).proved_assertions(), 1);
    /// ```
    pub fn proved_assertions(&self) -> usize {
        match self.graph.attributes.text(Known::Assert) {
            Some(text) if !self.report.has_errors() => parse_assertions(text).len(),
            _ => 0,
        }
    }

    /// Returns the analysis of the graph, as the checks used it. A graph that is changed after loading needs a
    /// [new one](Analysis::new).
    ///
    /// ```
    /// use orchestra_graph::{LoadOptions, Source, load};
    /// let loaded = load(Source::new("a.dot", "digraph { start -> work -> exit }"), &LoadOptions::default());
    /// let analysis = loaded.analysis();
    /// assert_eq!(analysis.kind(analysis.start().unwrap()), "start");
    /// ```
    pub fn analysis(&self) -> Analysis<'_> {
        Analysis::from_properties(&self.graph, &self.source, self.properties.clone())
    }

    /// Returns the table of the pipeline with the tables of its children; `None` if the report has errors.
    pub fn pipeline(&self) -> Option<Pipeline> {
        if self.report.has_errors() {
            return None;
        }
        let mut pipeline = Pipeline::from_analysis(&self.analysis())?;
        attach(&self.children, &mut pipeline);
        Some(pipeline)
    }
}

/// Adds the children to the table of their parent.
fn attach(children: &[LoadedChild], pipeline: &mut Pipeline) {
    let mut rows = Vec::new();
    for child in children {
        let Some(table) = &child.pipeline else {
            continue;
        };
        let nodes = pipeline.nodes.to_mut();
        for node in &child.nodes {
            if let Some(row) = nodes.get_mut(node.at()) {
                row.child = Some(rows.len() as u32);
            }
        }
        rows.push(Child {
            file: Cow::Owned(child.file.clone()),
            pipeline: table.clone(),
        });
    }
    pipeline.children = Cow::Owned(rows);
}
