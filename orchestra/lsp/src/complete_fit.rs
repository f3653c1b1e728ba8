//! Which attributes and values fit at a place, so that completion does not offer what the checks then report.

use orchestra_graph::{AttributeOwner, Attributes, Edge, Key, Known, NodeIndex, Origin, kind};

use crate::candidate::Completing;

/// How an attribute fits at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Fits,
    /// It fits together with another attribute, which this text sets.
    With(&'static str),
    /// It has an effect only under this condition.
    If(&'static str),
    /// It contradicts another attribute.
    Never,
}

/// Returns how an attribute fits on an owner, some of whose attributes are set.
pub(crate) fn fit(completing: &Completing<'_>, owner: &AttributeOwner, known: Known) -> Fit {
    let graph = &completing.opened.analysis.loaded.graph;
    match owner {
        AttributeOwner::Node(id) => match graph.find(&id.text) {
            Some(node) => on_node(completing, node, known),
            None => Fit::Fits,
        },
        AttributeOwner::Edge(_) => {
            edge_of(completing, owner).map_or(Fit::Fits, |edge| on_edge(completing, edge, known))
        }
        AttributeOwner::Graph
            if known == Known::DefaultThreadId && !is_full(&graph.attributes, Known::DefaultFidelity) =>
        {
            Fit::If("needs `default_fidelity=full`")
        }
        AttributeOwner::NodeDefaults | AttributeOwner::EdgeDefaults => match known {
            Known::ThreadId if !is_full(&graph.attributes, Known::DefaultFidelity) => {
                Fit::If("needs `fidelity=full`")
            }
            Known::MaxRevisits => Fit::With("allow_revisit=true, "),
            Known::ConditionValue => Fit::With("condition_type=conditional, "),
            _ => Fit::Fits,
        },
        _ => Fit::Fits,
    }
}

/// Returns the first edge of a chain whose attribute list contains the position.
fn edge_of<'c>(completing: &'c Completing<'_>, owner: &AttributeOwner) -> Option<&'c Edge> {
    let AttributeOwner::Edge(nodes) = owner else {
        return None;
    };
    let (from, to) = nodes.first().zip(nodes.get(1))?;
    let mut edges = completing.opened.analysis.loaded.graph.edges.iter();
    edges.find(|edge| edge.from_span == from.span && edge.to_span == to.span)
}

/// Returns why a value of `condition_type` does not fit to the `condition_value` of an edge.
pub(crate) fn condition_type_misfit(
    completing: &Completing<'_>,
    owner: &AttributeOwner,
    value: &str,
) -> Option<&'static str> {
    let edge = edge_of(completing, owner);
    let has_value = edge.is_some_and(|edge| edge.attributes.filled(Known::ConditionValue).is_some());
    match (value == "conditional", has_value) {
        (true, false) => Some("needs `condition_value`"),
        (false, true) => Some("leaves `condition_value` without effect"),
        _ => None,
    }
}

fn is_full(attributes: &Attributes, known: Known) -> bool {
    attributes.filled(known) == Some("full")
}

/// Returns how an attribute fits that is read only if another one has a value.
fn with(attributes: &Attributes, other: Known, value: &str, text: &'static str) -> Fit {
    match attributes.get(other) {
        Some(own) if own.value.to_string() == value => Fit::Fits,
        Some(_) => Fit::Never,
        None => Fit::With(text),
    }
}

/// Returns how an attribute fits that another one replaces.
fn without(attributes: &Attributes, others: &[Known]) -> Fit {
    match others.iter().any(|other| attributes.filled(*other).is_some()) {
        true => Fit::Never,
        false => Fit::Fits,
    }
}

fn on_node(completing: &Completing<'_>, at: NodeIndex, known: Known) -> Fit {
    let loaded = &completing.opened.analysis.loaded;
    let analysis = loaded.analysis();
    let attributes = &loaded.graph.node(at).attributes;
    let by_default = is_full(&loaded.graph.attributes, Known::DefaultFidelity);
    let kind = analysis.kind(at);
    match known {
        Known::JoinK => with(attributes, Known::JoinPolicy, "k_of_n", "join_policy=k_of_n, "),
        Known::JoinQuorum => with(attributes, Known::JoinPolicy, "quorum", "join_policy=quorum, "),
        Known::ThreadId if attributes.get(Known::Fidelity).is_none() && by_default => Fit::Fits,
        Known::ThreadId => with(attributes, Known::Fidelity, "full", "fidelity=full, "),
        Known::Prompt => without(attributes, &[Known::PromptFile]),
        Known::PromptFile => without(attributes, &[Known::Prompt]),
        Known::OutputSchema => without(attributes, &[Known::OutputSchemaFile]),
        Known::OutputSchemaFile => without(attributes, &[Known::OutputSchema]),
        Known::SubpipelineName => without(attributes, &[Known::SubpipelineFile]),
        Known::SubpipelineFile => without(attributes, &[Known::SubpipelineName]),
        Known::Type
            if attributes
                .get(Known::Shape)
                .is_some_and(|shape| shape.origin == Origin::Explicit) =>
        {
            Fit::If("`shape` selects the kind already")
        }
        Known::End if !analysis.outgoing(at).is_empty() => Fit::If("read only without outgoing edges"),
        _ if kind == kind::FAN_IN
            && known.is_read_by(kind::CODERGEN)
            && !known.is_read_by(kind::WAIT_HUMAN)
            && !known.is_read_by(kind::MANAGER_LOOP)
            && attributes.filled(Known::Prompt).is_none()
            && attributes.filled(Known::PromptFile).is_none() =>
        {
            Fit::If("needs a `prompt`")
        }
        _ => Fit::Fits,
    }
}

fn on_edge(completing: &Completing<'_>, edge: &Edge, known: Known) -> Fit {
    let graph = &completing.opened.analysis.loaded.graph;
    let attributes = &edge.attributes;
    match known {
        Known::ThreadId => {
            let to = &graph.node(edge.to).attributes;
            let is_full_there = match to.get(Known::Fidelity) {
                Some(_) => is_full(to, Known::Fidelity),
                None => is_full(&graph.attributes, Known::DefaultFidelity),
            };
            if attributes.get(Known::Fidelity).is_none() && is_full_there {
                return Fit::Fits;
            }
            with(attributes, Known::Fidelity, "full", "fidelity=full, ")
        }
        Known::Condition => without(attributes, &[Known::ConditionType, Known::ConditionValue]),
        Known::ConditionType => without(attributes, &[Known::Condition]),
        Known::ConditionValue if attributes.filled(Known::Condition).is_some() => Fit::Never,
        Known::ConditionValue => with(
            attributes,
            Known::ConditionType,
            "conditional",
            "condition_type=conditional, ",
        ),
        Known::MaxRevisits => with(attributes, Known::AllowRevisit, "true", "allow_revisit=true, "),
        _ => Fit::Fits,
    }
}

/// Returns whether a fixed value fits: a pipeline has one start and one exit.
pub(crate) fn value_fits(
    completing: &Completing<'_>,
    known: Known,
    node: Option<NodeIndex>,
    value: &str,
) -> bool {
    let analysis = completing.opened.analysis.loaded.analysis();
    let others = match kind_of(known, value) {
        Some(kind::START) => analysis.starts(),
        Some(kind::EXIT) => analysis.exits(),
        _ => return true,
    };
    // The defaults of `node [..]` apply to many nodes.
    node.is_some() && others.iter().all(|other| Some(*other) == node)
}

/// Returns the kind that a value of `shape` or `type` selects.
fn kind_of(known: Known, value: &str) -> Option<&str> {
    match known {
        Known::Shape => kind::of_shape(value),
        Known::Type => Some(value),
        _ => None,
    }
}

/// Returns the attribute of a node that would have no effect with a value of another attribute.
pub(crate) fn left_without_effect(
    completing: &Completing<'_>,
    known: Known,
    node: Option<NodeIndex>,
    value: &str,
) -> Option<&'static str> {
    let loaded = &completing.opened.analysis.loaded;
    let attributes = &loaded.graph.node(node?).attributes;
    let own = loaded.analysis().kind(node?);
    let has = |known: Known| attributes.get(known).is_some();
    match known {
        Known::Shape if has(Known::Type) => None,
        Known::Shape | Known::Type => {
            let kind = kind_of(known, value)?;
            let mut set = attributes
                .iter()
                .filter(|attribute| attribute.origin == Origin::Explicit);
            set.find_map(|attribute| match &attribute.key {
                Key::Known(set) if set.is_read_by(own) && !set.is_read_by(kind) => Some(set.name()),
                _ => None,
            })
        }
        Known::JoinPolicy if has(Known::JoinK) && value != "k_of_n" => Some(Known::JoinK.name()),
        Known::JoinPolicy if has(Known::JoinQuorum) && value != "quorum" => Some(Known::JoinQuorum.name()),
        Known::Fidelity if has(Known::ThreadId) && value != "full" => Some(Known::ThreadId.name()),
        _ => None,
    }
}
