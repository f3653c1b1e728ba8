//! The comparison of two versions of a pipeline: which of the unfinished runs of the earlier one can go on.
//!
//! What a run needs is decided by the carry-over of its saved state, not here: each position at which a run may wait must
//! still exist and have the same function, open blocks must have the same branches and join, and the context must meet
//! the contract.

use std::collections::HashSet;

use super::changes::{ChangeClass, VersionChange, describe};
use super::positions::Positions;
use crate::attribute::Known;
use crate::contract::Contract;
use crate::loaded::Loaded;
use crate::model::NodeIndex;
use crate::table::{Change, Difference, Mapping, Pipeline, Stage, Subject, What};
use crate::text::Span;

/// The changes from a locked version of a pipeline to the pipeline of today, with what each means for unfinished runs.
///
/// ```
/// use orchestra_graph::{ChangeClass, Compatibility, Source, load};
/// let of = |text: &str| load(Source::new("a.dot", text), &Default::default());
/// let old = of("digraph { start -> build -> exit; build [prompt=Build] }");
/// let new = of("digraph { start -> lint -> build -> exit; lint [prompt=Lint]; build [prompt=Build] }");
/// let found = Compatibility::between(&old, &new).expect("both are sound");
/// assert_eq!(found.class(), ChangeClass::Compatible);
/// assert_eq!(found.changes[0].to_string(), "`lint` was added");
/// ```
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Compatibility {
    /// The changes, those that break runs first.
    pub changes: Vec<VersionChange>,
}

impl Compatibility {
    /// Compares two versions of a pipeline, and the child pipelines that they run. Returns `None` if one of them has
    /// errors.
    pub fn between(old: &Loaded, new: &Loaded) -> Option<Compatibility> {
        let mut found = Compatibility::default();
        for pair in pairs(old, new)? {
            pair.compare(&mut found.changes);
        }
        found
            .changes
            .sort_by_key(|change| std::cmp::Reverse(change.class));
        Some(found)
    }

    /// Returns the two versions of each file whose waiting runs go on: the pipeline, and its child pipelines.
    pub fn pairs<'l>(old: &'l Loaded, new: &'l Loaded) -> Vec<(&'l Loaded, &'l Loaded)> {
        let pairs = pairs(old, new).unwrap_or_default().into_iter();
        pairs.map(|pair| (pair.old.loaded, pair.new.loaded)).collect()
    }

    /// Returns the class of all changes together.
    pub fn class(&self) -> ChangeClass {
        let classes = self.changes.iter().map(|change| change.class);
        classes.max().unwrap_or(ChangeClass::Same)
    }

    /// Iterates over the changes that break unfinished runs.
    pub fn breaking(&self) -> impl Iterator<Item = &VersionChange> {
        self.changes
            .iter()
            .filter(|change| change.class == ChangeClass::Breaks)
    }
}

/// Returns the versions of a pipeline, and those of the child pipelines in which runs may wait. Returns `None` if one of
/// them has errors.
fn pairs<'l>(old: &'l Loaded, new: &'l Loaded) -> Option<Vec<Pair<'l>>> {
    let mut pairs: Vec<Pair<'l>> = Vec::new();
    let mut ahead = vec![(old, new)];
    let mut seen = HashSet::new();
    let mut at = 0;
    while let Some((old, new)) = ahead.get(at).copied() {
        at += 1;
        if seen.insert((std::ptr::from_ref(old), std::ptr::from_ref(new))) {
            let pair = Pair::new(old, new)?;
            ahead.extend(pair.children());
            pairs.push(pair);
        }
    }
    Some(pairs)
}

/// One version in a comparison.
struct Side<'l> {
    loaded: &'l Loaded,
    pipeline: Pipeline,
    contract: Contract,
}

impl<'l> Side<'l> {
    fn new(loaded: &'l Loaded) -> Option<Side<'l>> {
        if loaded.report.has_errors() {
            return None;
        }
        let pipeline = Pipeline::from_analysis(&loaded.analysis())?;
        Some(Side {
            contract: Contract::from_pipeline(&pipeline),
            pipeline,
            loaded,
        })
    }

    fn id(&self, node: NodeIndex) -> &str {
        self.pipeline.stage(node).id()
    }

    /// Returns the line and column at which a node of this version is declared.
    fn declared_at(&self, node: NodeIndex) -> String {
        let position = self.pipeline.stage(node).row().position;
        format!("{}:{}", position.line, position.column)
    }
}

/// Two versions of one file.
struct Pair<'l> {
    old: Side<'l>,
    new: Side<'l>,
    mapping: Mapping,
    positions: Positions,
}

impl<'l> Pair<'l> {
    fn new(old: &'l Loaded, new: &'l Loaded) -> Option<Pair<'l>> {
        let positions = Positions::new(old)?;
        let (old, new) = (Side::new(old)?, Side::new(new)?);
        Some(Pair {
            mapping: Mapping::between(&old.pipeline, &new.pipeline),
            positions,
            old,
            new,
        })
    }

    /// Returns the child pipelines whose runs go on as those of other child pipelines.
    fn children(&self) -> Vec<(&'l Loaded, &'l Loaded)> {
        let mut pairs = Vec::new();
        for child in &self.old.loaded.children {
            let waiting = child
                .nodes
                .iter()
                .filter(|node| self.positions.may_wait_at(**node));
            for node in waiting.filter_map(|node| self.mapping.node(*node)) {
                let mut children = self.new.loaded.children.iter();
                if let Some(now) = children.find(|now| now.nodes.contains(&node)) {
                    pairs.push((&*child.loaded, &*now.loaded));
                }
            }
        }
        pairs
    }

    fn compare(&self, changes: &mut Vec<VersionChange>) {
        let first = changes.len();
        for stage in self.old.pipeline.stages() {
            self.node(stage, changes);
            self.block(stage, changes);
        }
        self.contracts(changes);
        let broken: Vec<Subject> = changes
            .iter()
            .skip(first)
            .map(|change| change.subject.clone())
            .collect();
        for change in Difference::between(&self.old.pipeline, &self.new.pipeline).changes {
            let is_part = matches!(change.what, What::Removed | What::Reshaped | What::Moved);
            if !(is_part && broken.iter().any(|broken| is_same(broken, &change.subject))) {
                changes.push(self.compatible(&change));
            }
        }
    }

    fn change(&self, class: ChangeClass, subject: Subject, span: Span, message: String) -> VersionChange {
        let source = &self.new.loaded.source;
        VersionChange {
            class,
            file: source.name().to_owned(),
            position: source.position(span.start),
            subject,
            message,
            notes: Vec::new(),
            keep: String::new(),
            span,
        }
    }

    fn breaks(&self, subject: Subject, span: Span, message: String, keep: &str) -> VersionChange {
        VersionChange {
            keep: keep.to_owned(),
            ..self.change(ChangeClass::Breaks, subject, span, message)
        }
    }

    /// Returns the span of a node of today's version; that of the graph without one.
    fn span(&self, node: Option<NodeIndex>) -> Span {
        let graph = &self.new.loaded.graph;
        node.map_or(graph.span, |node| graph.node(node).span)
    }

    /// Returns the subject of a node of the old version.
    fn subject(&self, stage: Stage<'_>) -> Subject {
        Subject::Node {
            id: stage.id().to_owned(),
            kind: stage.kind().to_owned(),
        }
    }

    /// Compares a node at which a run may wait.
    fn node(&self, stage: Stage<'_>, changes: &mut Vec<VersionChange>) {
        let (at, id) = (stage.index(), stage.id());
        if !self.positions.may_wait_at(at) {
            return;
        }
        let is_open = self.positions.may_be_open(at);
        let Some(now) = self.mapping.node(at) else {
            // The text of today has no position for it; the nodes that led to it are nearest.
            let nearest = self.before(at);
            let waits = if is_open {
                "a run with open branches there cannot go on"
            } else {
                "a run that waits there cannot go on"
            };
            let mut change = self.breaks(
                self.subject(stage),
                self.span(nearest),
                format!("`{id}` was removed; {waits}"),
                &format!("keep the node `{id}`"),
            );
            change.notes.push(format!(
                "it was declared at {}, as `{}`",
                self.old.declared_at(at),
                stage.kind()
            ));
            if let Some(renamed) = self.renamed(id) {
                change.notes.push(format!(
                    "`{renamed}` has its values and neighbours, but a run does not follow a rename"
                ));
            }
            changes.push(change);
            return;
        };
        if !self.mapping.same_shape(at) {
            let [before, after] = [stage.kind(), self.new.pipeline.stage(now).kind()];
            changes.push(self.breaks(
                self.subject(stage),
                self.span(Some(now)),
                format!("`{id}` was `{before}` and is `{after}` now; a run that waits there cannot go on"),
                &format!("keep `{id}` as it was, and give the new node another id"),
            ));
        }
    }

    /// Returns the nearest node of today that led to a removed node.
    fn before(&self, removed: NodeIndex) -> Option<NodeIndex> {
        let mut ahead = vec![removed];
        let mut at = 0;
        while let Some(node) = ahead.get(at).copied() {
            at += 1;
            for edge in self.old.pipeline.edges.iter().filter(|edge| edge.to == node) {
                if let Some(now) = self.mapping.node(edge.from) {
                    return Some(now);
                }
                if !ahead.contains(&edge.from) {
                    ahead.push(edge.from);
                }
            }
        }
        None
    }

    /// Returns the id to which a removed node was probably renamed.
    fn renamed(&self, id: &str) -> Option<String> {
        let changes = Difference::between(&self.old.pipeline, &self.new.pipeline).changes;
        changes.into_iter().find_map(|change| match change.subject {
            Subject::Node { id: other, .. } if change.what == What::Removed && other == id => change.renamed,
            _ => None,
        })
    }

    /// Compares the branches of a fan-out that may be open.
    fn block(&self, stage: Stage<'_>, changes: &mut Vec<VersionChange>) {
        let (at, id) = (stage.index(), stage.id());
        let Some(now) = self.mapping.node(at) else {
            return;
        };
        if !self.positions.may_be_open(at) || !self.mapping.same_shape(at) {
            return;
        }
        let span = self.span(Some(now));
        if !self.mapping.same_join(at) {
            let join = |side: &Side<'_>, node| {
                let fan_out = side.pipeline.stage(node).row().fan_out;
                fan_out.map_or_else(String::new, |fan_out| side.id(fan_out.join).to_owned())
            };
            changes.push(self.breaks(
                self.subject(stage),
                span,
                format!(
                    "the branches of `{id}` joined at `{}` and join at `{}` now; a run with open branches cannot go on",
                    join(&self.old, at),
                    join(&self.new, now)
                ),
                "keep the join",
            ));
        }
        let mut last = None;
        for (edge, row) in stage.edges() {
            let to = self.old.id(row.to);
            let subject = || self.edge(row);
            let Some(mapped) = self.mapping.edge(edge) else {
                changes.push(self.breaks(
                    subject(),
                    span,
                    format!("the branch `{id} -> {to}` was removed; a run with open branches cannot go on"),
                    &format!("keep the edge `{id} -> {to}`"),
                ));
                continue;
            };
            if last.is_some_and(|last| last > mapped) {
                changes.push(self.breaks(
                    subject(),
                    span,
                    format!(
                        "the branch `{id} -> {to}` is in another order now; a run with open branches cannot go on"
                    ),
                    &format!("keep the order of the edges of `{id}`"),
                ));
            }
            last = last.max(Some(mapped));
        }
    }

    fn edge(&self, row: &crate::table::EdgeRow) -> Subject {
        let pipeline = &self.old.pipeline;
        let condition = pipeline.condition(row);
        Subject::Edge {
            from: self.old.id(row.from).to_owned(),
            to: self.old.id(row.to).to_owned(),
            label: pipeline.text(row.label).to_owned(),
            condition: condition.map_or_else(String::new, |condition| condition.text().to_owned()),
        }
    }

    /// Compares the contracts at the positions at which a run may wait.
    fn contracts(&self, changes: &mut Vec<VersionChange>) {
        let presence = &self.positions.presence;
        let states = || {
            let states = self.positions.nodes().flat_map(|node| {
                presence
                    .states_of(node)
                    .into_iter()
                    .map(move |state| (node, state))
            });
            states.filter_map(|(node, state)| Some((node, presence.known(state)?)))
        };
        let graph = &self.new.loaded.graph;
        let inputs = graph.attributes.get(Known::Inputs);
        for (key, now) in self.new.contract.keys() {
            let Some(before) = self.old.contract.type_of(key).filter(|before| *before != now) else {
                continue;
            };
            let position = presence.declared().position(key);
            let has_value = |known: &crate::flow::KnownValues| {
                position.is_some_and(|position| known.may_be_set(position))
            };
            let set_at = states().find(|(_, known)| has_value(known));
            if before.fits(now) {
                continue;
            }
            let Some((node, _)) = set_at else {
                continue;
            };
            let is_input = self.new.contract.inputs().iter().any(|input| input.key == key);
            let setter = self.new.pipeline.stages().find(|stage| {
                let outputs = self.new.contract.all_outputs(stage.index());
                outputs.iter().any(|field| field.key == key)
            });
            let (subject, span) = match (is_input, inputs, setter) {
                (true, Some(inputs), _) => (Subject::Graph, inputs.value_span),
                (_, _, Some(stage)) => (self.subject(stage), self.span(Some(stage.index()))),
                _ => (Subject::Graph, graph.span),
            };
            let mut change = self.breaks(
                subject,
                span,
                format!(
                    "`{key}` was `{before}` and is `{now}` now; a run that has a value of it cannot go on"
                ),
                &format!("keep the type of `{key}`, or give the new value another key"),
            );
            change.notes.push(format!(
                "a run that waits at `{}` may have one",
                self.old.id(node)
            ));
            changes.push(change);
        }
        for input in self.new.contract.inputs().iter().filter(|input| !input.optional) {
            let key = &input.key;
            if self.old.contract.requires_input(key) {
                continue;
            }
            let position = presence.declared().position(key);
            let may_lack = |known: &crate::flow::KnownValues| {
                position.is_none_or(|position| known.may_be_missing(position))
            };
            let Some((node, _)) = states().find(|(_, known)| may_lack(known)) else {
                continue;
            };
            let mut change = self.breaks(
                Subject::Graph,
                inputs.map_or(graph.span, |inputs| inputs.value_span),
                format!(
                    "the input `{input}` is required now; a run that was started without it cannot go on"
                ),
                &format!("make `{key}` optional with a `?` after its type"),
            );
            change
                .notes
                .push(format!("a run that waits at `{}` may lack it", self.old.id(node)));
            changes.push(change);
        }
    }

    /// Converts a change that breaks no run.
    fn compatible(&self, change: &Change) -> VersionChange {
        let graph = &self.new.loaded.graph;
        let node = |id: &str| graph.find(id);
        let span = match &change.subject {
            Subject::Graph => None,
            Subject::Node { id, .. } => node(id).map(|node| graph.node(node).span),
            Subject::Edge { from, to, .. } => {
                let is_it =
                    |edge: &&crate::model::Edge| Some(edge.from) == node(from) && Some(edge.to) == node(to);
                let edge = graph.edges.iter().find(is_it).map(crate::model::Edge::span);
                edge.or_else(|| node(from).map(|node| graph.node(node).span))
            }
        };
        self.change(
            ChangeClass::Compatible,
            change.subject.clone(),
            span.unwrap_or(graph.span),
            describe(change),
        )
    }
}

/// Returns whether two subjects are the same part. The kind of a node may differ.
fn is_same(one: &Subject, other: &Subject) -> bool {
    match (one, other) {
        (Subject::Node { id: one, .. }, Subject::Node { id: other, .. }) => one == other,
        (one, other) => one == other,
    }
}
