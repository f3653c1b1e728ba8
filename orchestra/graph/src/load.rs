//! Loading: from text to a checked graph, with the files that it names. The macro, the engine and the command line use
//! it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::analysis::Analysis;
use crate::attributes::Attribute;
use crate::check::child_nesting::{MAX_DEPTH, MAX_FILES};
use crate::check::{
    self, child_cycle, child_invalid, child_nesting, child_not_found, edge_target_exists, input_unmet,
};
use crate::child_reader::{ChildReader, ReadError, joined, nearest_file};
use crate::child_reference::{Named, named};
use crate::diagnostic::{Diagnostic, Report};
use crate::load_options::LoadOptions;
use crate::loaded::{Loaded, LoadedChild};
use crate::lower::lower;
use crate::model::Edge;
use crate::prompt_files;
use crate::schema_files;
use crate::syntax::{Parsed, parse, parse_bytes, value_fix, value_range};
use crate::table::SharedPipeline;
use crate::text::{Source, trimmed};
use crate::transform::{apply_stylesheet, expand_goal};

/// Parses, lowers, transforms and checks a text (Attractor 7.3) and the pipelines that it runs (Attractor 9.4). It
/// never fails: all problems are in the report.
///
/// ```
/// use orchestra_graph::{LoadOptions, Source, load};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> work -> exit }"), &LoadOptions::default());
/// assert!(!loaded.report.has_errors());
/// assert_eq!(loaded.graph.nodes.len(), 3);
/// ```
pub fn load(source: Source, options: &LoadOptions<'_>) -> Loaded {
    load_parsed(parse(&source, &options.limits), options)
}

/// Like [`load`], for bytes that may not be valid UTF-8.
///
/// ```
/// use orchestra_graph::{LoadOptions, load_bytes};
/// assert!(load_bytes("a.dot", b"\xff", &LoadOptions::default()).report.has_errors());
/// ```
pub fn load_bytes(name: &str, bytes: &[u8], options: &LoadOptions<'_>) -> Loaded {
    load_parsed(parse_bytes(name, bytes, &options.limits), options)
}

fn load_parsed(parsed: Parsed, options: &LoadOptions<'_>) -> Loaded {
    Loader::new(parsed.source.name(), options).load(parsed).0
}

/// Returns the error for an edge whose end a transform removed.
fn torn(transform: &str, edge: &Edge) -> Diagnostic {
    Diagnostic::from_rule(
        &edge_target_exists::RULE,
        format!("the transform `{transform}` left an edge without one of its ends"),
        edge.span(),
    )
    .help("take away the edges of a node together with the node")
}

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
struct Loader<'o> {
    options: &'o LoadOptions<'o>,
    /// The result for each path.
    members: HashMap<String, Result<Member, ReadError>>,
    /// The stack of files that are being loaded. Each one is named by the previous one.
    open: Vec<String>,
    /// The number of files requested so far. `bytes` is their total length.
    asked: usize,
    bytes: usize,
}

impl<'o> Loader<'o> {
    /// Creates the loader for a first pipeline whose source has this name.
    fn new(name: &str, options: &'o LoadOptions<'o>) -> Loader<'o> {
        let file = name.rsplit('/').next().unwrap_or_default();
        Loader {
            options,
            members: HashMap::new(),
            open: vec![joined(name, file)],
            asked: 0,
            bytes: 0,
        }
    }

    /// Loads the file opened last. Returns it and the nesting depth of its children.
    fn load(&mut self, parsed: Parsed) -> (Loaded, usize) {
        let options = self.options;
        let Parsed {
            source,
            file,
            mut diagnostics,
        } = parsed;
        let unreadable = file.statements.is_empty() && diagnostics.iter().any(Diagnostic::is_error);
        let (mut graph, mut lowering) = lower(&source, &file);
        diagnostics.append(&mut lowering);
        let mut prompt_files = match options.children {
            Some(reader) => prompt_files::read(
                &mut graph,
                &source,
                reader,
                options.limits.bytes,
                &mut diagnostics,
            ),
            None => Vec::new(),
        };
        prompt_files.extend(schema_files::read(
            &mut graph,
            &source,
            options.children,
            &mut diagnostics,
        ));
        expand_goal(&mut graph);
        apply_stylesheet(&mut graph);
        for transform in &options.transforms {
            graph = transform.apply(graph, &mut diagnostics);
            diagnostics.extend(
                graph
                    .rebuild_index()
                    .iter()
                    .map(|edge| torn(transform.name(), edge)),
            );
        }
        // A text without any statement has no start either, but reporting that would hide the real error.
        let (mut children, mut height) = (Vec::new(), 0);
        let analysis = Analysis::new(&graph, &source);
        if !unreadable {
            check::run(&analysis, options, &mut diagnostics);
            (children, height) = self.children(&analysis, &mut diagnostics);
            if !children.is_empty() {
                diagnostics.extend(input_unmet::diagnostics(&analysis, &children));
            }
        }
        let properties = analysis.into_properties();
        options.apply_severities(&mut diagnostics);
        let loaded = Loaded {
            report: Report::new(source.clone(), diagnostics),
            source,
            file,
            graph,
            properties,
            children,
            prompt_files,
        };
        (loaded, height)
    }

    /// Loads the children of the file opened last. Returns them and their nesting depth.
    fn children(
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
                let found = self.member(&path, attribute, analysis.source(), reader);
                let own = node.attributes.iter().any(|own| std::ptr::eq(own, attribute));
                let mut report = |diagnostic: Diagnostic| {
                    diagnostics.push(if own {
                        diagnostic.node(&*node.id)
                    } else {
                        diagnostic
                    })
                };
                let member = found.map_err(|diagnostic| report(*diagnostic)).ok()?;
                if member.loaded.report.has_errors() {
                    report(child_invalid::diagnostic(
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
        attribute: &Attribute,
        source: &Source,
        reader: &dyn ChildReader,
    ) -> Result<Member, Box<Diagnostic>> {
        let text = attribute.value.as_str().unwrap_or_default();
        let file = text.trim();
        let range = trimmed(text, 0..text.len());
        let span = value_range(source, attribute.value_span, range.clone());
        if file.starts_with('/') {
            return Err(child_not_found::absolute(file, span).into());
        }
        if let Some(at) = self.open.iter().position(|open| open == path) {
            return Err(child_cycle::diagnostic(&self.open[at..], attribute.value_span).into());
        }
        let depth = self.open.len();
        let known = self.members.get(path);
        let height = known
            .and_then(|known| known.as_ref().ok())
            .map_or(0, |known| known.height);
        if depth + height > MAX_DEPTH {
            return Err(child_nesting::deep(file, attribute.value_span).into());
        }
        let found = match known {
            Some(found) => found.clone(),
            None => {
                let limits = self.options.limits;
                let share = limits.bytes.saturating_mul(MAX_SHARE);
                if self.asked == MAX_FILES {
                    return Err(child_nesting::many(file, attribute.value_span).into());
                }
                if self.bytes > share {
                    return Err(child_nesting::long(file, share, attribute.value_span).into());
                }
                self.asked += 1;
                let found = reader.read(path, limits.bytes as u64);
                self.bytes = self.bytes.saturating_add(found.as_ref().map_or(0, Vec::len));
                let found = found.map(|bytes| {
                    self.open.push(path.to_owned());
                    let (loaded, height) = self.load(parse_bytes(path, &bytes, &limits));
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
        found.map_err(|error| {
            let parent = self.open.last().map_or("", String::as_str);
            let diagnostic = child_not_found::diagnostic(file, path, &error, limit, span);
            let near = match error {
                ReadError::Missing => nearest_file(reader, parent, file, path),
                _ => None,
            };
            let Some(near) = near else {
                return diagnostic.into();
            };
            let fix = value_fix(source, attribute.value_span, range, &near);
            let diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
            diagnostic.fix(fix.span, fix.replacement).into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Graph, NodeIndex};
    use crate::transform::Transform;

    /// A transform that removes the last node, but not its edges.
    struct Careless;

    impl Transform for Careless {
        fn name(&self) -> &str {
            "careless"
        }

        fn apply(&self, mut graph: Graph, _: &mut Vec<Diagnostic>) -> Graph {
            graph.nodes.pop();
            graph
        }
    }

    #[test]
    fn an_edge_that_a_transform_left_without_an_end_is_a_fault_and_no_panic() {
        let options = LoadOptions {
            transforms: vec![Arc::new(Careless)],
            ..LoadOptions::default()
        };
        let loaded = load(
            Source::new("a.dot", "digraph { start -> exit -> work }"),
            &options,
        );
        let torn: Vec<&str> = loaded
            .report
            .errors()
            .map(|diagnostic| diagnostic.message.as_str())
            .collect();
        assert_eq!(
            torn,
            ["the transform `careless` left an edge without one of its ends"]
        );
        assert_eq!(loaded.graph.find("work"), None);
        assert_eq!(loaded.graph.edges.len(), 1);
    }

    #[test]
    fn a_graph_changed_by_hand_can_be_analysed() {
        let mut loaded = load(
            Source::new("a.dot", "digraph { start -> exit }"),
            &LoadOptions::default(),
        );
        loaded.graph.edges[0].to = NodeIndex(9);
        let analysis = Analysis::new(&loaded.graph, &loaded.source);
        assert!(analysis.outgoing(NodeIndex(0)).is_empty());
        assert_eq!(analysis.kind(NodeIndex(9)), crate::kind::CODERGEN);
        assert!(crate::Pipeline::from_analysis(&analysis).is_some_and(|pipeline| pipeline.edges.is_empty()));
    }
}
