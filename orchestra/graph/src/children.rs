//! Child pipelines: finds, reads and checks the files that manager loops and sub-pipeline nodes name (Attractor 4.11
//! and 9.4). The macro and the command line share this module and differ only in how they read files.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::analysis::Analysis;
use crate::attribute::Known;
use crate::attributes::Attribute;
use crate::check::{child_cycle, child_invalid, child_nesting, child_not_found};
use crate::diagnostic::{Diagnostic, Report};
use crate::kind;
use crate::load::{LoadOptions, Loaded, load_parsed};
use crate::model::NodeIndex;
use crate::syntax::parse_bytes;
use crate::table::{Child, Pipeline, SharedPipeline};
use crate::value::Value;

/// The reason why a file could not be read.
///
/// ```
/// use orchestra_graph::{LoadOptions, ReadError, Source, load};
/// let locked = |_: &str, _: u64| Err(ReadError::Other("permission denied".to_owned()));
/// let text = r#"digraph { start -> lint -> exit; lint [shape=folder, subpipeline.file="lint.dot"] }"#;
/// let options = LoadOptions { children: Some(&locked), ..LoadOptions::default() };
/// let report = load(Source::new("a.dot", text), &options).report;
/// assert_eq!(report.diagnostics[0].message, "child pipeline `lint.dot` cannot be read: permission denied");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// There is no such file.
    Missing,
    /// The file exceeds the limit. The value is its length in bytes.
    TooLong(u64),
    /// Any other error, as the message of the system.
    Other(String),
}

/// A source of the texts of child pipelines. Functions implement it.
///
/// ```
/// use orchestra_graph::{LoadOptions, ReadError, Source, load};
/// let files = |path: &str, _limit: u64| match path {
///     "flows/lint.dot" => Ok(b"digraph lint { start -> work -> exit }".to_vec()),
///     _ => Err(ReadError::Missing),
/// };
/// let text = r#"digraph { start -> lint -> exit; lint [shape=folder, subpipeline.file="lint.dot"] }"#;
/// let options = LoadOptions { children: Some(&files), ..LoadOptions::default() };
/// let pipeline = load(Source::new("flows/a.dot", text), &options).pipeline().expect("sound");
/// let lint = pipeline.stage(pipeline.find("lint").expect("declared"));
/// assert_eq!(pipeline.child(lint.row()).expect("it is loaded").pipeline.name, "lint");
/// ```
pub trait ChildReader {
    /// Reads a file of at most `limit` bytes. The path is relative to the same directory as the name of the parent's
    /// source. Its parts are separated by `/`, and it contains no `.` and no needless `..`.
    ///
    /// # Errors
    /// Fails if the file is missing, too long or unreadable.
    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, ReadError>;
}

impl<F: Fn(&str, u64) -> Result<Vec<u8>, ReadError>> ChildReader for F {
    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, ReadError> {
        self(path, limit)
    }
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
/// assert!(loaded.report.errors().any(|fault| fault.code == "child_invalid"));
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
}

/// Parses the pairs of a `subpipeline.inputs` or `subpipeline.outputs` into new key and old key. A key alone keeps its
/// name. Returns `None` if the text is not such a list.
///
/// ```
/// use orchestra_graph::key_pairs;
/// assert_eq!(key_pairs("release, version=tag"), Some(vec![("release", "release"), ("version", "tag")]));
/// assert_eq!(key_pairs(""), Some(Vec::new()));
/// assert_eq!(key_pairs("version="), None);
/// ```
pub fn key_pairs(text: &str) -> Option<Vec<(&str, &str)>> {
    let key = |text: &str| !text.is_empty() && !text.contains(|c: char| c == '=' || c.is_whitespace());
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (new, old) = part.split_once('=').unwrap_or((part, part));
            let (new, old) = (new.trim(), old.trim());
            (key(new) && key(old)).then_some((new, old))
        })
        .collect()
}

/// The reference of a node to the pipeline that it runs.
pub(crate) enum Named<'g> {
    /// A file, set by this attribute of the node or of the graph.
    File(&'g Attribute),
    /// No file is needed: the node has a registered name, or others start the child.
    Elsewhere,
    /// No reference.
    Nothing,
}

/// Returns the reference of a node to the pipeline that it runs. Returns `None` if its kind runs none.
pub(crate) fn named<'g>(analysis: &Analysis<'g>, node: NodeIndex) -> Option<Named<'g>> {
    let graph = analysis.graph();
    let own = &graph.node(node).attributes;
    let filled = |known: Known, inherits: bool| {
        let own = own.filled(known).and_then(|_| own.get(known));
        let inherited = graph.attributes.filled(known).filter(|_| inherits);
        own.or_else(|| inherited.and_then(|_| graph.attributes.get(known)))
    };
    let elsewhere = |holds| if holds { Named::Elsewhere } else { Named::Nothing };
    match analysis.kind(node) {
        kind::SUBPIPELINE => Some(match filled(Known::SubpipelineFile, false) {
            Some(file) => Named::File(file),
            None => elsewhere(own.filled(Known::SubpipelineName).is_some()),
        }),
        kind::MANAGER_LOOP => Some(match filled(Known::ChildDotfile, true) {
            Some(file) => Named::File(file),
            None => {
                let known = Known::ChildAutostart;
                let starts = own.get(known).or_else(|| graph.attributes.get(known));
                elsewhere(starts.is_some_and(|starts| starts.value == Value::Boolean(false)))
            }
        }),
        _ => None,
    }
}

/// Maximum nesting depth of child pipelines, not counting the first pipeline.
pub(crate) const MAX_DEPTH: usize = 16;
/// Maximum number of files that are requested in all.
pub(crate) const MAX_FILES: usize = 256;
/// Maximum total length of all children, as a multiple of the maximum length of one file.
const MAX_SHARE: usize = 4;

/// A loaded file with all its descendants.
#[derive(Clone)]
struct Member {
    loaded: Arc<Loaded>,
    pipeline: Option<SharedPipeline>,
    /// The nesting depth of its own children.
    height: usize,
}

/// The loader of a pipeline and its descendants. Each file is read and checked once, even if many nodes name it.
pub(crate) struct Family<'o> {
    pub(crate) options: &'o LoadOptions<'o>,
    /// The result for each path.
    members: HashMap<String, Result<Member, ReadError>>,
    /// The stack of files that are being loaded. Each one is named by the previous one.
    open: Vec<String>,
    /// The number of files requested so far. `bytes` is their total length.
    asked: usize,
    bytes: usize,
}

impl<'o> Family<'o> {
    /// Creates the loader for a first pipeline whose source has this name.
    pub(crate) fn new(name: &str, options: &'o LoadOptions<'o>) -> Family<'o> {
        let file = name.rsplit('/').next().unwrap_or_default();
        Family {
            options,
            members: HashMap::new(),
            open: vec![joined(name, file)],
            asked: 0,
            bytes: 0,
        }
    }

    /// Loads the children of the file opened last. Returns them and their nesting depth.
    pub(crate) fn children(
        &mut self,
        analysis: &Analysis<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> (Vec<LoadedChild>, usize) {
        let mut children: Vec<LoadedChild> = Vec::new();
        let mut height = 0;
        let Some(reader) = self.options.children else {
            return (children, height);
        };
        // Many nodes may name the same file; load and report it only once.
        let mut slots: HashMap<String, Option<usize>> = HashMap::new();
        for (index, node) in analysis.graph().indexed_nodes() {
            let Some(Named::File(attribute)) = named(analysis, index) else {
                continue;
            };
            let file = attribute.value.as_str().unwrap_or_default().trim();
            let path = self.path(file);
            if slots.len() == MAX_FILES && !slots.contains_key(&path) {
                diagnostics.push(child_nesting::many(file, attribute.value_span));
                break;
            }
            let slot = slots.entry(path.clone()).or_insert_with(|| {
                let found = self.member(&path, file, attribute, reader);
                let own = node.attributes.iter().any(|own| std::ptr::eq(own, attribute));
                let mut tell = |diagnostic: Diagnostic| {
                    diagnostics.push(if own {
                        diagnostic.node(&*node.id)
                    } else {
                        diagnostic
                    })
                };
                let member = found.map_err(|diagnostic| tell(*diagnostic)).ok()?;
                if member.loaded.report.has_errors() {
                    tell(child_invalid::diagnostic(
                        file,
                        &member.loaded.report,
                        attribute.value_span,
                    ));
                }
                height = height.max(member.height + 1);
                children.push(LoadedChild {
                    file: file.to_owned(),
                    attribute: attribute.clone(),
                    nodes: Vec::new(),
                    loaded: member.loaded,
                    pipeline: member.pipeline,
                });
                Some(children.len() - 1)
            });
            if let Some(child) = slot.and_then(|at| children.get_mut(at)) {
                child.nodes.push(index);
            }
        }
        (children, height)
    }

    /// Returns the path of a file that the file opened last names.
    fn path(&self, file: &str) -> String {
        joined(self.open.last().map_or("", String::as_str), file)
    }

    fn member(
        &mut self,
        path: &str,
        file: &str,
        attribute: &Attribute,
        reader: &dyn ChildReader,
    ) -> Result<Member, Box<Diagnostic>> {
        let span = attribute.value_span;
        if file.starts_with('/') {
            return Err(child_not_found::absolute(file, span).into());
        }
        if let Some(at) = self.open.iter().position(|open| open == path) {
            return Err(child_cycle::diagnostic(&self.open[at..], span).into());
        }
        let depth = self.open.len();
        let known = self.members.get(path);
        let height = known
            .and_then(|known| known.as_ref().ok())
            .map_or(0, |known| known.height);
        if depth + height > MAX_DEPTH {
            return Err(child_nesting::deep(file, span).into());
        }
        let found = match known {
            Some(found) => found.clone(),
            None => {
                let limits = self.options.limits;
                let share = limits.bytes.saturating_mul(MAX_SHARE);
                if self.asked == MAX_FILES {
                    return Err(child_nesting::many(file, span).into());
                }
                if self.bytes > share {
                    return Err(child_nesting::long(file, share, span).into());
                }
                self.asked += 1;
                let found = reader.read(path, limits.bytes as u64);
                self.bytes = self.bytes.saturating_add(found.as_ref().map_or(0, Vec::len));
                let found = found.map(|bytes| {
                    self.open.push(path.to_owned());
                    let (loaded, height) = load_parsed(parse_bytes(path, &bytes, &limits), self);
                    self.open.pop();
                    Member {
                        pipeline: loaded.pipeline().map(SharedPipeline::from),
                        loaded: Arc::new(loaded),
                        height,
                    }
                });
                self.members.insert(path.to_owned(), found.clone());
                found
            }
        };
        let limit = self.options.limits.bytes;
        found.map_err(|diagnostic| child_not_found::diagnostic(file, path, &diagnostic, limit, span).into())
    }
}

/// Returns the path of a file that a parent names.
pub(crate) fn joined(parent: &str, file: &str) -> String {
    let file = file.trim_start_matches('/');
    match parent.rsplit_once('/') {
        Some((folder, _)) => plain_path(&format!("{folder}/{file}")),
        None => plain_path(file),
    }
}

/// Normalizes a path: removes `.` and needless `..`, so that each file has exactly one path. Parts are separated by
/// `/`.
///
/// ```
/// use orchestra_graph::plain_path;
/// assert_eq!(plain_path("flows/./parts/../lint.dot"), "flows/lint.dot");
/// assert_eq!(plain_path("../lint.dot"), "../lint.dot");
/// assert_eq!(plain_path("/../lint.dot"), "/lint.dot", "there is nothing above the root");
/// ```
pub fn plain_path(path: &str) -> String {
    let root = if path.starts_with('/') { "/" } else { "" };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            ("" | ".", _) => {}
            ("..", Some(last)) if *last != ".." => {
                parts.pop();
            }
            ("..", None) if !root.is_empty() => {}
            _ => parts.push(part),
        }
    }
    format!("{root}{}", parts.join("/"))
}

/// Adds the children to the table of their parent.
pub(crate) fn attach(children: &[LoadedChild], pipeline: &mut Pipeline) {
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

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn one_file_has_one_path() {
        for (parent, file, path) in [
            ("a.dot", "b.dot", "b.dot"),
            ("./a.dot", "./b.dot", "b.dot"),
            ("flows/a.dot", "b.dot", "flows/b.dot"),
            ("flows/a.dot", "sub/../b.dot", "flows/b.dot"),
            ("flows/a.dot", "../b.dot", "b.dot"),
            ("flows/a.dot", "../../b.dot", "../b.dot"),
            ("../a.dot", "../b.dot", "../../b.dot"),
            ("/work/flows/a.dot", "..//b.dot", "/work/b.dot"),
            ("/a.dot", "../b.dot", "/b.dot"),
        ] {
            assert_eq!(joined(parent, file), path, "{parent} names {file}");
        }
    }
}
