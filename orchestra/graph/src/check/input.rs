//! The input of the checks: the properties of a pipeline that several of them need, computed once.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ops::{Deref, Range};

use crate::analysis::Analysis;
use crate::attribute::Known;
use crate::attributes::Attribute;
use crate::check::declared::{Written, written};
use crate::check::outcomes::Outcomes;
use crate::check::properties::Properties;
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::model::{Graph, NodeIndex};
use crate::search::Digraph;
use crate::syntax::value_fix;
use crate::text::{Source, Span};

/// Maximum number of misspelt names that are compared with all nodes. `MAX_COMPARISONS` limits the comparisons in all.
const MAX_SUGGESTIONS: usize = 32;
const MAX_COMPARISONS: usize = 200_000;

/// The input of the checks. It dereferences to the [`Properties`] of the graph.
pub(crate) struct Input<'c> {
    properties: Properties<'c>,
    /// The handler kinds that exist in addition to the built-in ones; `None` if they are not known yet.
    pub(crate) custom_kinds: Option<&'c [String]>,
    /// `true` if no statement of the text was lost.
    pub(crate) whole: bool,
    /// The nodes that a run can reach next from each node: by edges, by jumps, and through the probable meaning of a
    /// misspelt name.
    pub(crate) forward: Digraph,
    /// The same, in reverse.
    pub(crate) backward: Digraph,
    /// `true` for each node that a run can reach.
    pub(crate) reached: Vec<bool>,
    /// Pairs of nodes whose ids differ only in case, the later one first.
    pub(crate) twins: Vec<(NodeIndex, NodeIndex)>,
    /// `true` for each node of such a pair.
    pub(crate) is_twin: Vec<bool>,
    near: RefCell<HashMap<String, Option<NodeIndex>>>,
    declarations: OnceCell<Vec<Written<'c>>>,
    pub(crate) outcomes: Outcomes<'c>,
}

impl<'c> Deref for Input<'c> {
    type Target = Properties<'c>;

    fn deref(&self) -> &Properties<'c> {
        &self.properties
    }
}

impl<'c> Input<'c> {
    pub(crate) fn new(
        analysis: &'c Analysis<'c>,
        custom_kinds: Option<&'c [String]>,
        whole: bool,
    ) -> Input<'c> {
        let graph = analysis.graph();
        let properties = Properties::new(analysis);
        let mut input = Input {
            outcomes: Outcomes::new(&properties),
            properties,
            custom_kinds,
            whole,
            forward: Digraph::default(),
            backward: Digraph::default(),
            reached: Vec::new(),
            twins: twins(graph),
            is_twin: vec![false; graph.nodes.len()],
            near: RefCell::default(),
            declarations: OnceCell::new(),
        };
        for (later, first) in &input.twins {
            input.is_twin[later.at()] = true;
            input.is_twin[first.at()] = true;
        }
        let jumps = input.jumps();
        let steps = || {
            let edges = graph.edges.iter().map(|edge| (edge.from.0, edge.to.0));
            edges.chain(jumps.iter().copied())
        };
        input.forward = Digraph::new(graph.nodes.len(), steps);
        input.backward = Digraph::new(graph.nodes.len(), || steps().map(|(from, to)| (to, from)));
        let roots = analysis
            .starts()
            .iter()
            .copied()
            .chain(analysis.graph_retry_targets());
        input.reached = input.forward.walk(roots.map(NodeIndex::at));
        input
    }

    /// Returns the declarations of context values.
    pub(crate) fn declarations(&self) -> &[Written<'c>] {
        self.declarations.get_or_init(|| written(&self.properties))
    }

    /// Returns whether a node is mentioned only by edges, and its id alone does not make it the start or exit.
    pub(crate) fn is_implicit(&self, at: NodeIndex) -> bool {
        !self.node(at).declared && !self.is_start(at) && !self.is_exit(at)
    }

    /// Returns whether a node is probably a misspelt name: never declared, and without outgoing edges (rule L8).
    pub(crate) fn is_ghost(&self, at: NodeIndex) -> bool {
        self.is_implicit(at) && self.analysis.outgoing(at).is_empty()
    }

    /// Returns the node that is probably the exit of a pipeline without one.
    pub(crate) fn exit_candidate(&self) -> Option<NodeIndex> {
        if !self.analysis.exits().is_empty() {
            return None;
        }
        let mut ends = self
            .nodes()
            .map(|(at, _)| at)
            .filter(|at| self.analysis.outgoing(*at).is_empty() && !self.analysis.incoming(*at).is_empty());
        match (ends.next(), ends.next()) {
            (Some(end), None) => Some(end),
            _ => None,
        }
    }

    /// Returns the declared node whose id is nearest to a word.
    pub(crate) fn near(&self, word: &str) -> Option<NodeIndex> {
        let mut known = self.near.borrow_mut();
        if let Some(found) = known.get(word) {
            return *found;
        }
        let nodes = self.graph().nodes.len();
        if known.len() >= MAX_SUGGESTIONS || known.len() * nodes > MAX_COMPARISONS {
            return None;
        }
        let declared = self.graph().nodes.iter().filter(|node| node.declared);
        let found = did_you_mean(word, declared.map(|node| &*node.id)).and_then(|id| self.graph().find(id));
        known.insert(word.to_owned(), found);
        found
    }

    /// Returns whether a name is certainly undeclared. If statements were lost, its declaration may be among them.
    pub(crate) fn is_surely_undeclared(&self, at: NodeIndex) -> bool {
        if self.whole {
            return true;
        }
        let id = self.id(at);
        if self.near(id).is_none() {
            return false;
        }
        let graph = self.graph();
        let into = self.analysis.incoming(at).iter();
        let out = self.analysis.outgoing(at).iter();
        let into = into.map(|edge| graph.edge(*edge).to_span);
        let mentions: HashSet<Span> = into.chain(out.map(|edge| graph.edge(*edge).from_span)).collect();
        let text = self.analysis.source().text();
        let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
        let words = text.match_indices(id).filter(|(at, _)| {
            let before = text[..*at].chars().next_back();
            let after = text[*at + id.len()..].chars().next();
            !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
        });
        words.count() <= mentions.len()
    }

    /// Returns the jumps to retry targets, and from misspelt names to the nodes that were probably meant.
    ///
    /// Because of the latter, a misspelling is reported only once, and not also as unreachable nodes after it.
    fn jumps(&self) -> Vec<(u32, u32)> {
        let mut jumps = Vec::new();
        for (at, node) in self.nodes_with(&[Known::RetryTarget, Known::FallbackRetryTarget]) {
            for known in [Known::RetryTarget, Known::FallbackRetryTarget] {
                let Some(target) = node.attributes.filled(known).map(str::trim) else {
                    continue;
                };
                if let Some(target) = self.graph().find(target).or_else(|| self.near(target)) {
                    jumps.push((at.0, target.0));
                }
            }
        }
        for (at, node) in self.nodes() {
            if self.is_implicit(at)
                && let Some(meant) = self.near(&node.id)
            {
                jumps.push((at.0, meant.0));
            }
        }
        jumps
    }
}

/// Returns the pairs of ids that differ only in case. Ids without capitals are looked up in the index of the graph.
fn twins(graph: &Graph) -> Vec<(NodeIndex, NodeIndex)> {
    let mut twins = Vec::new();
    let mut lowered: HashMap<String, NodeIndex> = HashMap::new();
    for (at, node) in graph.indexed_nodes() {
        if node
            .id
            .bytes()
            .all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase())
        {
            continue;
        }
        let lower = node.id.to_lowercase();
        if lower != *node.id
            && let Some(twin) = graph.find(&lower)
        {
            twins.push((at.max(twin), at.min(twin)));
        }
        if let Some(twin) = lowered.get(&lower) {
            twins.push((at, *twin));
        } else {
            lowered.insert(lower, at);
        }
    }
    twins
}

/// A filter that passes each attribute of the text once. A block of defaults or a chain puts one attribute on many
/// owners.
#[derive(Default)]
pub(crate) struct Once(HashSet<Span>);

impl Once {
    pub(crate) fn first(&mut self, attribute: &Attribute) -> bool {
        self.0.insert(attribute.value_span)
    }
}

/// Adds the hint "did you mean" with the fix of a range of the text of an attribute, or another hint if there is no
/// suggestion.
pub(crate) fn meant_in(
    source: &Source,
    diagnostic: Diagnostic,
    (attribute, range): (&Attribute, Range<usize>),
    word: Option<&str>,
    otherwise: impl Into<String>,
) -> Diagnostic {
    let Some(word) = word else {
        return diagnostic.help(otherwise);
    };
    let fix = value_fix(source, attribute.value_span, range, word);
    diagnostic
        .help(format!("did you mean `{word}`?"))
        .fix(fix.span, fix.replacement)
}

/// Adds the hint "did you mean" with its fix, or another hint if there is no suggestion.
pub(crate) fn meant(
    diagnostic: Diagnostic,
    span: Span,
    word: Option<&str>,
    otherwise: impl Into<String>,
) -> Diagnostic {
    match word {
        Some(word) => diagnostic.help(format!("did you mean `{word}`?")).fix(span, word),
        None => diagnostic.help(otherwise),
    }
}
