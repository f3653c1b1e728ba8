//! The changes from one pipeline to another, for a person who wants to resume a run under the new one (rule D6).

use std::collections::{HashMap, HashSet};

use super::content::{Content, Entry};
use super::mapping::Mapping;
use super::merge::{Step, merged};
use super::{Pipeline, Rows};
use crate::model::{EdgeIndex, NodeIndex};
use crate::value::Value;

/// The changes from one pipeline to another (rule D6). It is empty if and only if their
/// [canonical](Pipeline::canonical) texts are equal.
///
/// It is displayed like the diff of a file; `{:.20}` shows at most twenty changes and counts the others.
///
/// ```
/// use orchestra_graph::{Difference, Source, load};
/// let pipeline = |text: &str| load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let old = pipeline("digraph { goal=Ship; start -> build -> exit; build [prompt=Build] }");
/// let new = pipeline("digraph { goal=Ship; start -> build -> exit; build [prompt=\"Build it\", timeout=15m] }");
/// let difference = Difference::between(&old, &new);
/// assert_eq!(difference.to_string(), "~ node build (codergen)\n    prompt: \"Build\" -> \"Build it\"\n    + timeout: 15m\n");
/// assert!(Difference::between(&old, &old).is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[serde(tag = "schema", rename = "orchestra.difference/1")]
pub struct Difference {
    /// The changes of the pipeline itself: of the graph, of nodes and of edges, each group in file order.
    pub changes: Vec<Change>,
    /// The changes of the pipelines that its stages run, directly or indirectly.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ChildDifference>,
}

/// The changes of a pipeline that a stage runs.
///
/// ```
/// use orchestra_graph::{Difference, LoadOptions, Pipeline, Source, load};
/// fn pipeline(of_child: &str) -> Pipeline {
///     let child = |_: &str, _: u64| Ok(format!("digraph {{ start -> w -> exit; w [prompt={of_child}] }}").into_bytes());
///     let text = r#"digraph { start -> lint -> exit; lint [shape=folder, subpipeline.file="lint.dot"] }"#;
///     let options = LoadOptions { children: Some(&child), ..LoadOptions::default() };
///     load(Source::new("a.dot", text), &options).pipeline().expect("sound")
/// }
/// let difference = Difference::between(&pipeline("Read"), &pipeline("Write"));
/// assert!(difference.changes.is_empty());
/// assert_eq!((&*difference.children[0].file, difference.children[0].changes.len()), ("lint.dot", 1));
/// ```
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ChildDifference {
    /// The file of the pipeline, as the new parent writes it.
    pub file: String,
    /// The changes.
    pub changes: Vec<Change>,
}

/// A single change.
///
/// ```
/// use orchestra_graph::{Difference, Source, Subject, What, load};
/// let pipeline = |text: &str| load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let old = pipeline("digraph { start -> ship -> exit; ship [prompt=Ship] }");
/// let new = pipeline("digraph { start -> ship -> exit; ship [shape=hexagon, prompt=Ship] }");
/// let change = &Difference::between(&old, &new).changes[0];
/// assert_eq!(change.what, What::Reshaped, "a stage became a human gate");
/// assert_eq!(change.subject, Subject::Node { id: "ship".into(), kind: "wait.human".into() });
/// assert_eq!(change.attributes[0].name, "kind");
/// ```
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Change {
    /// The kind of the change.
    pub what: What,
    /// The changed part of the pipeline.
    #[serde(flatten)]
    pub subject: Subject,
    /// The changed values, old and new. For an added or removed part, all of its values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<AttributeChange>,
    /// For an added node the removed node, for a removed node the added node, that has the same values and neighbours:
    /// the node may have been renamed. A run does not follow the rename.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renamed: Option<String>,
}

/// The kind of a change. Its consequences for a run depend on the position of the run.
///
/// ```
/// use orchestra_graph::{Difference, Source, What, load};
/// let pipeline = |text: &str| load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let old = pipeline("digraph { start -> a -> exit; a [label=A] }");
/// let new = pipeline("digraph { start -> a -> b -> exit; a [label=A]; b [label=B] }");
/// let difference = Difference::between(&old, &new);
/// let sorts: Vec<What> = difference.changes.iter().map(|change| change.what).collect();
/// assert_eq!(sorts, [What::Added, What::Removed, What::Added, What::Added], "b, a -> exit, a -> b, b -> exit");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum What {
    /// The part was added.
    Added,
    /// The part was removed.
    Removed,
    /// The values of the part changed.
    Changed,
    /// The function of the node in the flow changed: its role changed, or it became or ceased to be a fan-out or a
    /// human gate. A run must not be resumed in the middle of it (see [`Mapping::same_shape`]).
    Reshaped,
    /// Only the position changed, among the nodes or among the edges of a node.
    Moved,
}

/// The changed part of a pipeline.
///
/// ```
/// use orchestra_graph::{Difference, Source, Subject, load};
/// let pipeline = |text: &str| load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let old = pipeline("digraph { goal=Ship; start -> exit }");
/// let new = pipeline("digraph { goal=\"Ship it\"; start -> exit }");
/// assert_eq!(Difference::between(&old, &new).changes[0].subject, Subject::Graph);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "subject", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Subject {
    /// The graph: its name, its attributes, its start and its exit.
    Graph,
    /// A node.
    Node {
        /// The id.
        id: String,
        /// The handler kind; that of the new node if there is one.
        kind: String,
    },
    /// An edge.
    Edge {
        /// The id of the source node.
        from: String,
        /// The id of the target node.
        to: String,
        /// The label; that of the old edge if there is one.
        #[serde(skip_serializing_if = "String::is_empty")]
        label: String,
        /// The condition; that of the old edge if there is one.
        #[serde(skip_serializing_if = "String::is_empty")]
        condition: String,
    },
}

/// A value that was added, removed or changed. In JSON it has its own type; a duration is text such as `15m`.
///
/// ```
/// use orchestra_graph::{Difference, Source, Value, load};
/// let pipeline = |text: &str| load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let old = pipeline("digraph { start -> ship -> exit; ship [type=deploy, replicas=2] }");
/// let new = pipeline("digraph { start -> ship -> exit; ship [type=deploy, replicas=3] }");
/// let change = &Difference::between(&old, &new).changes[0].attributes[0];
/// assert_eq!((&*change.name, &change.old, &change.new), ("replicas", &Some(Value::Integer(2)), &Some(Value::Integer(3))));
/// ```
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct AttributeChange {
    /// The name of the attribute or of another value of the table: `kind`, `role`, `attempts`, `join`, `child`, `place`
    /// and the like.
    pub name: String,
    /// The old value; `None` if the value was added.
    #[serde(serialize_with = "json", skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// The new value; `None` if the value was removed.
    #[serde(serialize_with = "json", skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}

fn json<S: serde::Serializer>(value: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        None => serializer.serialize_none(),
        Some(Value::String(text)) => serializer.serialize_str(text),
        Some(Value::Integer(number)) => serializer.serialize_i64(*number),
        Some(Value::Float(number)) => serializer.serialize_f64(*number),
        Some(Value::Boolean(value)) => serializer.serialize_bool(*value),
        Some(duration @ Value::Duration(_)) => serializer.collect_str(duration),
    }
}

impl Difference {
    /// Returns the changes from an old pipeline to a new one.
    pub fn between(old: &Pipeline, new: &Pipeline) -> Difference {
        let mut difference = Difference::default();
        let mut pairs = vec![(None, old, new)];
        let mut seen = HashSet::new();
        let mut at = 0;
        while let Some((file, old, new)) = pairs.get(at).copied() {
            at += 1;
            if !seen.insert((std::ptr::from_ref(old), std::ptr::from_ref(new))) || std::ptr::eq(old, new) {
                continue;
            }
            let pair = Pair::new(old, new);
            let changes = pair.changes();
            match file {
                None => difference.changes = changes,
                Some(_) if changes.is_empty() => {}
                Some(file) => difference.children.push(ChildDifference {
                    file: str::to_owned(file),
                    changes,
                }),
            }
            for (row, index) in old.nodes.iter().zip(0..) {
                let kept = pair.mapping.node(NodeIndex(index));
                let other = kept.and_then(|node| new.child(new.stage(node).row()));
                if let (Some(old), Some(new)) = (old.child(row), other) {
                    pairs.push((Some(&*new.file), &*old.pipeline, &*new.pipeline));
                }
            }
        }
        difference
    }

    /// Returns `true` if nothing changed that a run depends on.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.children.is_empty()
    }
}

/// Two pipelines in a comparison.
struct Pair<'p> {
    old: Content<'p>,
    new: Content<'p>,
    mapping: Mapping,
}

/// The ids of nodes that may have been renamed, each with the id of its counterpart.
type Renames = HashMap<String, String>;

impl<'p> Pair<'p> {
    fn new(old: &'p Pipeline, new: &'p Pipeline) -> Pair<'p> {
        let (old, new) = (Content::new(old), Content::new(new));
        Pair {
            mapping: Mapping::new(&old, &new),
            old,
            new,
        }
    }

    fn changes(&self) -> Vec<Change> {
        let (old, new) = (self.old.pipeline(), self.new.pipeline());
        let of_graph = compare(&self.old.graph(), &self.new.graph(), &HashSet::new());
        let reported: HashSet<&str> = of_graph.iter().map(|change| change.name.as_str()).collect();
        let positions = indices(old.nodes.len()).map(|at| Some(self.mapping.node(NodeIndex(at))?.at()));
        let steps = merged(&positions.collect::<Vec<_>>(), new.nodes.len());
        let renames = self.renames(&steps);
        let of_nodes = steps
            .iter()
            .filter_map(|step| self.node(*step, &reported, &renames));
        let of_edges = steps.iter().flat_map(|step| self.edges(*step));
        let mut changes: Vec<Change> = of_nodes.chain(of_edges).collect();
        if !of_graph.is_empty() {
            let graph = Change {
                what: What::Changed,
                subject: Subject::Graph,
                attributes: of_graph,
                renamed: None,
            };
            changes.insert(0, graph);
        }
        changes
    }

    fn node(&self, step: Step, reported: &HashSet<&str>, renames: &Renames) -> Option<Change> {
        let one = |content: &Content<'_>, at: usize, what, side: Side| {
            let stage = content.pipeline().stage(node_at(at));
            let child = content.pipeline().child(stage.row());
            let own = content.node(node_at(at));
            let attributes = own
                .iter()
                .map(|entry| side.change(entry.name, entry.value.to_value()));
            Change {
                what,
                subject: Subject::Node {
                    id: stage.id().to_owned(),
                    kind: stage.kind().to_owned(),
                },
                attributes: attributes
                    .chain(child.map(|child| side.change("child", string(&child.file))))
                    .collect(),
                renamed: renames.get(stage.id()).cloned(),
            }
        };
        let (old, new, moved) = match step {
            Step::Removed(at) => return Some(one(&self.old, at, What::Removed, Side::Old)),
            Step::Added(at) => return Some(one(&self.new, at, What::Added, Side::New)),
            Step::Kept { old, new, moved } => (old, new, moved),
        };
        let (at, now) = (node_at(old), node_at(new));
        let mut attributes = compare(&self.old.node(at), &self.new.node(now), reported);
        let stages = [self.old.pipeline().stage(at), self.new.pipeline().stage(now)];
        let child = |content: &Content<'p>, stage: super::Stage<'p>| {
            let child = content.pipeline().child(stage.row())?;
            Some(string(&child.file))
        };
        let children = [child(&self.old, stages[0]), child(&self.new, stages[1])];
        if children[0].is_some() != children[1].is_some() {
            let [old, new] = children;
            attributes.push(change("child", old, new));
        }
        let says_the_same = attributes.is_empty();
        if let Some(behind) = moved {
            let id = |content: &Content<'p>, at| content.pipeline().stage(node_at(at)).id();
            attributes.push(position(
                behind.old.map(|at| id(&self.old, at)),
                behind.new.map(|at| id(&self.new, at)),
            ));
        }
        (!attributes.is_empty()).then(|| Change {
            what: if says_the_same {
                What::Moved
            } else if self.mapping.same_shape(at) {
                What::Changed
            } else {
                What::Reshaped
            },
            subject: Subject::Node {
                id: stages[1].id().to_owned(),
                kind: stages[1].kind().to_owned(),
            },
            attributes,
            renamed: None,
        })
    }

    /// Returns the changes of the edges of a node.
    fn edges(&self, step: Step) -> Vec<Change> {
        let rows = |content: &Content<'_>, at| content.pipeline().stage(node_at(at)).row().edges;
        let (before, after) = match step {
            Step::Removed(old) => (rows(&self.old, old), Rows::default()),
            Step::Added(new) => (Rows::default(), rows(&self.new, new)),
            Step::Kept { old, new, .. } => (rows(&self.old, old), rows(&self.new, new)),
        };
        let positions = before.range().map(|at| {
            let new = self.mapping.edge(edge_at(at))?.at();
            new.checked_sub(after.range().start)
        });
        let steps = merged(&positions.collect::<Vec<_>>(), after.range().len());
        let old = |at: usize| edge_at(before.range().start + at);
        let new = |at: usize| edge_at(after.range().start + at);
        let changes = steps.into_iter().filter_map(|step| match step {
            Step::Removed(at) => Some(edge(&self.old, old(at), What::Removed, Side::Old)),
            Step::Added(at) => Some(edge(&self.new, new(at), What::Added, Side::New)),
            Step::Kept {
                old: at,
                new: now,
                moved,
            } => {
                let (at, now) = (old(at), new(now));
                let mut attributes = compare(&self.old.edge(at), &self.new.edge(now), &HashSet::new());
                let what = if attributes.is_empty() {
                    What::Moved
                } else {
                    What::Changed
                };
                if let Some(behind) = moved {
                    attributes.push(position(
                        behind.old.map(|at| way(&self.old, old(at))).as_deref(),
                        behind.new.map(|at| way(&self.new, new(at))).as_deref(),
                    ));
                }
                (!attributes.is_empty()).then(|| Change {
                    attributes,
                    ..edge(&self.old, at, what, Side::Old)
                })
            }
        });
        changes.collect()
    }

    /// Pairs removed and added nodes that have the same values and neighbours, if there is exactly one of each.
    fn renames(&self, steps: &[Step]) -> Renames {
        let mut removed: HashMap<NodeIndex, Vec<String>> = HashMap::new();
        let mut added: HashMap<NodeIndex, Vec<String>> = HashMap::new();
        let mut kept = HashSet::new();
        for step in steps {
            match step {
                Step::Removed(old) => drop(removed.insert(node_at(*old), Vec::new())),
                Step::Added(new) => drop(added.insert(node_at(*new), Vec::new())),
                Step::Kept { old, .. } => drop(kept.insert(self.old.pipeline().stage(node_at(*old)).id())),
            }
        }
        if removed.is_empty() || added.is_empty() {
            return Renames::new();
        }
        let mut alike: HashMap<String, [Vec<&str>; 2]> = HashMap::new();
        for (side, content, nodes) in [(0, &self.old, removed), (1, &self.new, added)] {
            for (id, says) in signatures(content, nodes, &kept) {
                alike.entry(says).or_default()[side].push(id);
            }
        }
        let pairs = alike
            .into_values()
            .filter_map(|sides| match sides.map(Vec::into_boxed_slice) {
                [old, new] if old.len() == 1 && new.len() == 1 => {
                    Some((old[0].to_owned(), new[0].to_owned()))
                }
                _ => None,
            });
        pairs
            .flat_map(|(old, new)| [(old.clone(), new.clone()), (new, old)])
            .collect()
    }
}

/// Returns the values and the neighbours of some nodes as text, with the ids of the nodes.
fn signatures<'p>(
    content: &Content<'p>,
    mut nodes: HashMap<NodeIndex, Vec<String>>,
    kept: &HashSet<&str>,
) -> Vec<(&'p str, String)> {
    let pipeline = content.pipeline();
    for (row, at) in pipeline.edges.iter().zip(0..) {
        for (own, other, sign) in [(row.from, row.to, '>'), (row.to, row.from, '<')] {
            let Some(ties) = nodes.get_mut(&own) else {
                continue;
            };
            let other = match pipeline.stage(other).id() {
                _ if own == other => "=",
                id if kept.contains(id) => id,
                // The neighbour may have been renamed too.
                _ => "?",
            };
            let mut tie = format!("{sign}{other}\n");
            for entry in content.edge(EdgeIndex(at)) {
                entry.write(&mut tie);
            }
            ties.push(tie);
        }
    }
    let signed = nodes.into_iter().map(|(at, mut ties)| {
        let mut text = String::new();
        for entry in content.node(at) {
            entry.write(&mut text);
        }
        ties.sort_unstable();
        (pipeline.stage(at).id(), text + &ties.concat())
    });
    signed.collect()
}

/// One of the two pipelines in a comparison.
#[derive(Clone, Copy)]
enum Side {
    Old,
    New,
}

impl Side {
    fn change(self, name: &str, value: Value) -> AttributeChange {
        match self {
            Side::Old => change(name, Some(value), None),
            Side::New => change(name, None, Some(value)),
        }
    }
}

fn edge(content: &Content<'_>, at: EdgeIndex, what: What, side: Side) -> Change {
    let pipeline = content.pipeline();
    let row = pipeline.edge(at);
    let entries = content.edge(at).into_iter();
    Change {
        what,
        subject: Subject::Edge {
            from: pipeline.stage(row.from).id().to_owned(),
            to: pipeline.stage(row.to).id().to_owned(),
            label: pipeline.text(row.label).to_owned(),
            condition: pipeline
                .condition(row)
                .map_or_else(String::new, |condition| condition.text().to_owned()),
        },
        attributes: entries
            .map(|entry| side.change(entry.name, entry.value.to_value()))
            .collect(),
        renamed: None,
    }
}

/// Describes an edge so that it can be distinguished from its siblings.
fn way(content: &Content<'_>, at: EdgeIndex) -> String {
    let pipeline = content.pipeline();
    let row = pipeline.edge(at);
    let condition = pipeline.condition(row).map_or("", |condition| condition.text());
    let said = [pipeline.text(row.label), condition]
        .into_iter()
        .find(|text| !text.is_empty());
    let to = pipeline.stage(row.to).id();
    said.map_or_else(|| format!("-> {to}"), |said| format!("-> {to} [{said}]"))
}

/// Returns the differences between two lists of entries. Leaves a column out if a change of an entry from which it
/// follows is reported, of its owner or of the graph.
fn compare(old: &[Entry<'_>], new: &[Entry<'_>], reported: &HashSet<&str>) -> Vec<AttributeChange> {
    if old == new {
        return Vec::new();
    }
    let before: HashMap<_, &Entry<'_>> = old.iter().map(|entry| (entry.key(), entry)).collect();
    let after: HashSet<_> = new.iter().map(Entry::key).collect();
    let gone = old.iter().filter(|entry| !after.contains(&entry.key()));
    let gone = gone.map(|entry| (Some(entry), None));
    let rest = new
        .iter()
        .map(|entry| (before.get(&entry.key()).copied(), Some(entry)));
    let differing: Vec<_> = rest.chain(gone).filter(|(old, new)| old != new).collect();
    let name = |(old, new): &(Option<&Entry<'_>>, Option<&Entry<'_>>)| {
        let entry = old.or(*new);
        entry.map(|entry| (entry.name.to_owned(), entry.from))
    };
    let own: HashSet<String> = differing
        .iter()
        .filter_map(name)
        .filter(|(_, from)| from.is_empty())
        .map(|(name, _)| name)
        .collect();
    let is_reported = |from: &[&str]| {
        from.iter()
            .any(|name| own.contains(*name) || reported.contains(name))
    };
    let value = |entry: Option<&Entry<'_>>| entry.map(|entry| entry.value.to_value());
    differing
        .iter()
        .filter_map(|pair| {
            let (name, from) = name(pair)?;
            (!is_reported(from)).then(|| change(&name, value(pair.0), value(pair.1)))
        })
        .collect()
}

fn change(name: &str, old: Option<Value>, new: Option<Value>) -> AttributeChange {
    AttributeChange {
        name: name.to_owned(),
        old,
        new,
    }
}

fn position(old: Option<&str>, new: Option<&str>) -> AttributeChange {
    let position =
        |behind: Option<&str>| behind.map_or("first".to_owned(), |other| format!("behind {other}"));
    change(
        "place",
        Some(string(&position(old))),
        Some(string(&position(new))),
    )
}

fn string(text: &str) -> Value {
    Value::String(text.into())
}

fn indices(count: usize) -> std::ops::Range<u32> {
    0..count as u32
}

fn node_at(at: usize) -> NodeIndex {
    NodeIndex(at as u32)
}

fn edge_at(at: usize) -> EdgeIndex {
    EdgeIndex(at as u32)
}
