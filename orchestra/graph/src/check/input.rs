//! The properties of a pipeline that several checks need, computed once.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, HashSet};

use crate::analysis::Analysis;
use crate::attribute::{Key, Known};
use crate::attributes::{Attribute, Attributes};
use crate::check::outcomes::Outcomes;
use crate::check::space::Space;
use crate::condition::Expression;
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::joins::Joins;
use crate::kind;
use crate::load::LoadOptions;
use crate::model::{Edge, EdgeIndex, Graph, Node, NodeIndex};
use crate::text::Span;
use crate::ways::Ways;

/// Maximum number of misspelt names that are compared with all nodes. `MAX_COMPARISONS` limits the comparisons in all.
const MAX_SUGGESTIONS: usize = 32;
const MAX_COMPARISONS: usize = 200_000;

/// Maximum number of points that all checks together examine. A pipeline with more is checked less closely.
const MAX_POINTS: usize = 500_000;

/// The input of the checks.
pub(crate) struct Input<'c> {
    pub(crate) analysis: &'c Analysis<'c>,
    pub(crate) options: &'c LoadOptions<'c>,
    /// `true` if no statement of the text was lost.
    pub(crate) whole: bool,
    /// The handler kind of each node.
    pub(crate) kinds: Vec<&'c str>,
    /// The known attributes of each node.
    nodes: Vec<Present>,
    /// The known attributes of each edge.
    edges: Vec<Present>,
    /// The nodes that a run can reach next from each node: by edges, by jumps, and through the probable meaning of a
    /// misspelt name.
    pub(crate) forward: Ways,
    /// The same, in reverse.
    pub(crate) backward: Ways,
    /// `true` for each node that a run can reach.
    pub(crate) reached: Vec<bool>,
    /// Pairs of nodes whose ids differ only in case, the later one first.
    pub(crate) twins: Vec<(NodeIndex, NodeIndex)>,
    /// `true` for each node of such a pair.
    pub(crate) is_twin: Vec<bool>,
    near: RefCell<HashMap<String, Option<NodeIndex>>>,
    points: Cell<usize>,
    joins: OnceCell<Joins>,
    pub(crate) outcomes: Outcomes<'c>,
}

impl<'c> Input<'c> {
    pub(crate) fn new(analysis: &'c Analysis<'c>, options: &'c LoadOptions<'c>, whole: bool) -> Input<'c> {
        let graph = analysis.graph();
        let mut input = Input {
            analysis,
            options,
            whole,
            kinds: graph.indexed_nodes().map(|(at, _)| analysis.kind(at)).collect(),
            nodes: graph
                .nodes
                .iter()
                .map(|node| Present::from_attributes(&node.attributes))
                .collect(),
            edges: graph
                .edges
                .iter()
                .map(|edge| Present::from_attributes(&edge.attributes))
                .collect(),
            forward: Ways::default(),
            backward: Ways::default(),
            reached: Vec::new(),
            twins: twins(graph),
            is_twin: vec![false; graph.nodes.len()],
            near: RefCell::default(),
            points: Cell::new(MAX_POINTS),
            joins: OnceCell::new(),
            outcomes: Outcomes::default(),
        };
        for (later, first) in &input.twins {
            input.is_twin[later.at()] = true;
            input.is_twin[first.at()] = true;
        }
        let jumps = input.jumps();
        let ways = || {
            let edges = graph.edges.iter().map(|edge| (edge.from.0, edge.to.0));
            edges.chain(jumps.iter().copied())
        };
        input.forward = Ways::new(graph.nodes.len(), ways);
        input.backward = Ways::new(graph.nodes.len(), || ways().map(|(from, to)| (to, from)));
        let roots = analysis
            .starts()
            .iter()
            .copied()
            .chain(analysis.graph_retry_targets());
        input.reached = input.forward.walk(roots.map(NodeIndex::at));
        input.outcomes = Outcomes::new(&input);
        input
    }

    pub(crate) fn graph(&self) -> &'c Graph {
        self.analysis.graph()
    }

    pub(crate) fn node(&self, at: NodeIndex) -> &'c Node {
        self.graph().node(at)
    }

    pub(crate) fn edge(&self, at: EdgeIndex) -> &'c Edge {
        self.graph().edge(at)
    }

    pub(crate) fn id(&self, at: NodeIndex) -> &'c str {
        &self.node(at).id
    }

    pub(crate) fn kind(&self, at: NodeIndex) -> &'c str {
        self.kinds.get(at.at()).copied().unwrap_or(kind::CODERGEN)
    }

    /// Returns the joins of the fan-outs.
    pub(crate) fn joins(&self) -> &Joins {
        self.joins.get_or_init(|| Joins::new(self.analysis))
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (NodeIndex, &'c Node)> {
        self.graph().indexed_nodes()
    }

    /// Returns the nodes that have at least one of some attributes.
    pub(crate) fn nodes_with(&self, wanted: &[Known]) -> impl Iterator<Item = (NodeIndex, &'c Node)> {
        let wanted = Present::all(wanted);
        let hit = move |at: usize| self.nodes.get(at).is_some_and(|present| present.meets(wanted));
        self.graph().indexed_nodes().filter(move |(at, _)| hit(at.at()))
    }

    /// Returns the edges that have at least one of some attributes.
    pub(crate) fn edges_with(&self, wanted: &[Known]) -> impl Iterator<Item = (EdgeIndex, &'c Edge)> {
        let wanted = Present::all(wanted);
        let hit = move |at: usize| self.edges.get(at).is_some_and(|present| present.meets(wanted));
        self.graph().indexed_edges().filter(move |(at, _)| hit(at.at()))
    }

    /// Returns whether a node has at least one of some attributes.
    pub(crate) fn has(&self, at: NodeIndex, wanted: &[Known]) -> bool {
        let wanted = Present::all(wanted);
        self.nodes
            .get(at.at())
            .is_some_and(|present| present.meets(wanted))
    }

    /// Returns whether an edge has at least one of some attributes.
    pub(crate) fn edge_has(&self, at: EdgeIndex, wanted: &[Known]) -> bool {
        let wanted = Present::all(wanted);
        self.edges
            .get(at.at())
            .is_some_and(|present| present.meets(wanted))
    }

    /// Returns the weight of an edge.
    pub(crate) fn weight(&self, at: EdgeIndex) -> i64 {
        if !self.edge_has(at, &[Known::Weight]) {
            return 0;
        }
        self.edge(at).attributes.integer(Known::Weight).unwrap_or(0)
    }

    /// Returns whether edges are chosen in the order of the file (rule R11).
    pub(crate) fn first_match(&self) -> bool {
        self.graph().attributes.text(Known::Routing) == Some("first_match")
    }

    pub(crate) fn is_start(&self, at: NodeIndex) -> bool {
        self.analysis.is_start(at)
    }

    pub(crate) fn is_exit(&self, at: NodeIndex) -> bool {
        self.analysis.is_exit(at)
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
        ends.next().filter(|_| ends.next().is_none())
    }

    /// Returns the points of some conditions. Returns `None` if they are too many, or if the limit of all checks is
    /// used up.
    pub(crate) fn space<'e>(
        &self,
        expressions: &[&'e Expression],
        words: Option<&[&str]>,
    ) -> Option<Space<'e>> {
        let space = Space::new(expressions, words)?;
        self.points.set(self.points.get().checked_sub(space.size())?);
        Some(space)
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

/// A set of known attributes.
#[derive(Clone, Copy, Default)]
struct Present(u128);

impl Present {
    fn from_attributes(attributes: &Attributes) -> Present {
        attributes
            .iter()
            .fold(Present(0), |set, attribute| match attribute.key {
                Key::Known(known) => Present(set.0 | 1 << (known as u32)),
                Key::Other(_) => set,
            })
    }

    fn all(wanted: &[Known]) -> Present {
        Present(wanted.iter().fold(0, |set, known| set | 1 << (*known as u32)))
    }

    const fn meets(self, wanted: Present) -> bool {
        self.0 & wanted.0 != 0
    }
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
