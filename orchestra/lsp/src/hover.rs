//! Hover over a pipeline: attributes, nodes, edges and agents.

use orchestra_graph::condition::parse_condition;
use orchestra_graph::{
    Attribute, AttributeFamily, AttributeOwner, Cursor, EdgeCondition, EdgeIndex, Key, Known, NodeIndex,
    Source, Span, SyntaxContext, kind, label_text,
};

use crate::cursor::Opened;
use crate::files::Files;
use crate::hover_names::{NamePlace, agent_doc, answer_doc, choice_of};
use crate::hover_node::node_doc;
use crate::markdown::{attribute, code, codes, family, kind_doc, markup};
use crate::protocol::{Hover, HoverContents, Position};

/// Returns the documentation of what is at a position; `None` if nothing there has any.
pub(crate) fn hover(opened: &Opened, files: &Files<'_>, position: Position) -> Option<Hover> {
    let loaded = &opened.analysis.loaded;
    let offset = opened.offset(position);
    let cursor = Cursor::new(&loaded.source, offset);
    let (text, span) = match &cursor.context {
        SyntaxContext::Statement { .. } | SyntaxContext::Target { .. } => {
            let id = loaded.source.slice(cursor.word);
            match loaded.graph.find(id) {
                Some(node) => (node_doc(opened, node), cursor.word),
                // `key = value` on its own begins like a node.
                None => (key_doc(id)?, cursor.word),
            }
        }
        SyntaxContext::Key { .. } => (key_doc(loaded.source.slice(cursor.word))?, cursor.word),
        SyntaxContext::Value { owner, key, .. } => {
            let place = NamePlace {
                opened,
                files,
                node: match owner {
                    AttributeOwner::Node(id) => loaded.graph.find(&id.text),
                    _ => None,
                },
                offset,
            };
            let of_value = value_doc(&place, owner, &key.text, cursor.word)?;
            match place.doc() {
                // The value may be nothing but the name.
                Some((of_name, _)) if of_value.contains(&of_name) => (of_value, cursor.word),
                Some((of_name, span)) => (format!("{of_name}\n\n---\n\n{of_value}"), span),
                None => (of_value, cursor.word),
            }
        }
        _ => {
            let edge = edge_at(opened, offset)?;
            let span = loaded.graph.edge(edge).span();
            (edge_doc(opened, edge), span)
        }
    };
    Some(Hover {
        contents: HoverContents::Markup(markup(text)),
        range: Some(opened.range(span)),
    })
}

/// Returns the documentation of an attribute by its name.
pub(crate) fn key_doc(name: &str) -> Option<String> {
    match Known::find(name) {
        Some(known) => Some(attribute(known.spec())),
        None => AttributeFamily::find(name).map(|(found, _)| family(found)),
    }
}

fn value_doc(place: &NamePlace<'_>, owner: &AttributeOwner, key: &str, word: Span) -> Option<String> {
    let opened = place.opened;
    let loaded = &opened.analysis.loaded;
    let text = loaded.source.slice(word);
    let key_doc = key_doc(key)?;
    let of_value = match Known::find(key) {
        Some(Known::Agent) => agent_doc(opened, text),
        Some(Known::DefaultChoice) => place.node.and_then(|gate| answer_doc(opened, gate, text)),
        Some(Known::RetryTarget | Known::FallbackRetryTarget) => {
            loaded.graph.find(text).map(|node| node_doc(opened, node))
        }
        Some(Known::Shape) => kind::of_shape(text).map(kind_doc),
        Some(Known::Type) if kind::BUILT_IN.contains(&text) => Some(kind_doc(text)),
        Some(
            Known::Condition
            | Known::GoalGate
            | Known::StopCondition
            | Known::GuardEscalate
            | Known::GuardIntervene,
        ) => condition_words(&loaded.source, word),
        Some(known) => meaning(known, text, place.offset.saturating_sub(word.start)),
        _ => None,
    };
    let of_edge = match owner {
        AttributeOwner::Edge(_) if matches!(Known::find(key), Some(Known::Condition | Known::Label)) => {
            edge_with(opened, word).map(|edge| edge_doc(opened, edge))
        }
        _ => None,
    };
    let parts = [of_edge.or(of_value), Some(key_doc)];
    Some(
        parts
            .into_iter()
            .flatten()
            .collect::<Vec<String>>()
            .join("\n\n---\n\n"),
    )
}

/// Returns the meaning of the word at an offset of a value, which may be a list.
fn meaning(known: Known, text: &str, offset: u32) -> Option<String> {
    let before = text.get(..offset as usize)?;
    let start = before.rfind(',').map_or(0, |at| at + 1);
    let word = text.get(start..)?.split(',').next()?.trim();
    let meaning = known.word_description(word)?;
    Some(format!("{}: {meaning}", code(word)))
}

fn condition_words(source: &Source, word: Span) -> Option<String> {
    let condition = parse_condition(source.slice(word)).ok()?;
    Some(format!("If {}.", condition.describe()))
}

/// Returns the edge whose arrow is at an offset.
fn edge_at(opened: &Opened, offset: u32) -> Option<EdgeIndex> {
    let mut edges = opened.analysis.loaded.graph.indexed_edges();
    edges
        .find(|(_, edge)| edge.from_span.end <= offset && offset <= edge.to_span.start)
        .map(|(at, _)| at)
}

/// Returns the first edge with an attribute whose value is at a span.
fn edge_with(opened: &Opened, word: Span) -> Option<EdgeIndex> {
    let holds = |attribute: &Attribute| {
        attribute.value_span.start <= word.start && word.end <= attribute.value_span.end
    };
    let mut edges = opened.analysis.loaded.graph.indexed_edges();
    edges
        .find(|(_, edge)| edge.attributes.iter().any(holds))
        .map(|(at, _)| at)
}

/// Returns the documentation of an edge: when a run takes it.
fn edge_doc(opened: &Opened, at: EdgeIndex) -> String {
    let loaded = &opened.analysis.loaded;
    let analysis = loaded.analysis();
    let edge = loaded.graph.edge(at);
    let id = |node: NodeIndex| code(&loaded.graph.node(node).id);
    let mut lines = vec![
        format!("**edge** {} → {}", id(edge.from), id(edge.to)),
        String::new(),
    ];
    let siblings = analysis.outgoing(edge.from);
    let first_match = loaded.graph.attributes.text(Known::Routing) == Some("first_match");
    let kind = analysis.kind(edge.from);
    lines.push(match analysis.condition(at) {
        EdgeCondition::Parsed(condition) if kind == kind::WAIT_HUMAN => {
            format!(
                "- taken if a person chooses it; offered if {}",
                condition.describe()
            )
        }
        EdgeCondition::Parsed(condition) => format!("- taken if {}", condition.describe()),
        EdgeCondition::Invalid(..) => "- its condition is invalid".to_owned(),
        EdgeCondition::None if kind == kind::PARALLEL => "- starts a branch".to_owned(),
        EdgeCondition::None if kind == kind::WAIT_HUMAN => "- taken if a person chooses it".to_owned(),
        EdgeCondition::None if siblings.len() > 1 => "- has no condition".to_owned(),
        EdgeCondition::None => "- the only edge, without a condition".to_owned(),
    });
    let conditional = siblings
        .iter()
        .filter(|edge| !matches!(analysis.condition(**edge), EdgeCondition::None))
        .count();
    let own = usize::from(!matches!(analysis.condition(at), EdgeCondition::None));
    // A person decides between the edges of a gate.
    let is_choice = kind == kind::WAIT_HUMAN;
    if kind != kind::PARALLEL && !is_choice && siblings.len() > 1 {
        lines.push(if first_match {
            let position = siblings.iter().position(|edge| *edge == at).unwrap_or_default();
            format!(
                "- priority: number {} of {} in the order of the file",
                position + 1,
                siblings.len()
            )
        } else {
            let weight = edge.attributes.integer(Known::Weight).unwrap_or_default();
            let before = match (own, conditional) {
                (1, 1) => "the only edge with a condition".to_owned(),
                (1, count) => format!("one of {count} edges with a condition, which come first"),
                (_, 0) => format!("one of {} edges", siblings.len()),
                (_, 1) => "after the edge with a condition".to_owned(),
                (_, count) => format!("after the {count} edges with a condition"),
            };
            format!("- priority: {before}; weight {weight}")
        });
    }
    match choice_of(loaded, at).filter(|_| is_choice) {
        Some(choice) => lines.push(format!(
            "- answer {} with the key {}",
            code(label_text(&choice.label)),
            code(&choice.key)
        )),
        None => lines.extend(
            edge.attributes
                .filled(Known::Label)
                .map(|label| format!("- label: {}", code(label))),
        ),
    }
    for (known, text) in [
        (Known::LoopRestart, "restarts the run"),
        (Known::Freeform, "accepts any text as the answer"),
    ] {
        if edge.attributes.flag(known) {
            lines.push(format!("- {text}"));
        }
    }
    let others = edge.attributes.iter().filter(|attribute| {
        let shown = [
            Known::Condition,
            Known::Label,
            Known::Weight,
            Known::LoopRestart,
            Known::Freeform,
        ];
        !shown.iter().any(|known| attribute.key == Key::Known(*known))
    });
    let others = codes(others.map(|attribute| format!("{}={}", attribute.key, attribute.value)));
    if !others.is_empty() {
        lines.push(format!("- {others}"));
    }
    lines.join("\n")
}
