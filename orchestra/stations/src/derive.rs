//! The rows of a pipeline.

use std::sync::Arc;

use orchestra_graph::{
    Attributes, Diagnostic, Difference, Graph, Key, Known, Limits, LoadOptions, Loaded, Origin, Source,
    Transform, Value, load, lower, parse,
};
use serde_json::json;

use crate::error::StationError;
use crate::print::print;
use crate::rows::{AttributeValues, StationRow, TransitionRow, WorkflowRows};

/// The attributes of a station that have a field of their own.
const OF_STATION: [Known; 4] = [Known::Label, Known::Type, Known::Prompt, Known::OutputKeys];
/// The attributes of a transition that have a field of their own.
const OF_TRANSITION: [Known; 6] = [
    Known::Label,
    Known::Condition,
    Known::ConditionType,
    Known::ConditionValue,
    Known::AllowRevisit,
    Known::MaxRevisits,
];

/// Returns the rows of a text. Whatever could not be understood is left out.
pub(crate) fn rows_of(source: &Source) -> WorkflowRows {
    let parsed = parse(source, &Limits::default());
    let (graph, _) = lower(&parsed.source, &parsed.file);
    rows_of_graph(&graph)
}

fn rows_of_graph(graph: &Graph) -> WorkflowRows {
    let stations = graph.nodes.iter().map(|node| StationRow {
        node: node.id.to_string(),
        name: text(&node.attributes, Known::Label),
        kind: text(&node.attributes, Known::Type),
        prompt: text(&node.attributes, Known::Prompt),
        output_context_keys: keys_of(&node.attributes),
        attributes: others(&node.attributes, &OF_STATION),
    });
    let id = |index| graph.node(index).id.to_string();
    let transitions = graph.edges.iter().map(|edge| {
        let attributes = &edge.attributes;
        let limit = attributes.integer(Known::MaxRevisits);
        TransitionRow {
            source: id(edge.from),
            target: id(edge.to),
            label: text(attributes, Known::Label),
            condition: text(attributes, Known::Condition),
            condition_type: text(attributes, Known::ConditionType),
            condition_value: text(attributes, Known::ConditionValue),
            allow_revisit: attributes.flag(Known::AllowRevisit),
            max_revisits: limit.and_then(|limit| u32::try_from(limit).ok()),
            attributes: others(attributes, &OF_TRANSITION),
        }
    });
    WorkflowRows {
        graph: graph.name.clone(),
        attributes: others(&graph.attributes, &[]),
        stations: stations.collect(),
        transitions: transitions.collect(),
    }
}

fn text(attributes: &Attributes, known: Known) -> Option<String> {
    attributes.text(known).map(str::to_owned)
}

fn keys_of(attributes: &Attributes) -> Vec<String> {
    attributes.words(Known::OutputKeys).map(str::to_owned).collect()
}

fn others(attributes: &Attributes, with_field: &[Known]) -> AttributeValues {
    let has_field = |key: &Key| matches!(key, Key::Known(known) if with_field.contains(known));
    let of_text = attributes.iter().filter(|attribute| {
        matches!(attribute.origin, Origin::Explicit | Origin::Default) && !has_field(&attribute.key)
    });
    of_text
        .map(|attribute| {
            let value = json_of(&attribute.key, &attribute.value);
            (attribute.key.name().to_owned(), value)
        })
        .collect()
}

/// Returns a value as JSON, from which [`print`] writes the same value again.
fn json_of(key: &Key, value: &Value) -> serde_json::Value {
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Boolean(value) => (*value).into(),
        Value::Duration(_) if matches!(key, Key::Known(_)) => value.to_string().into(),
        Value::Duration(_) => json!({"duration": value.to_string()}),
    }
}

/// Checks that the rows of a text hold all of it: the text that is printed from them is the same pipeline.
///
/// # Errors
///
/// Returns an error if the text has errors, or contains something that rows cannot hold.
pub(crate) fn check_representable(source: &Source) -> Result<(), StationError> {
    let original = valid(source)?;
    let printed = print(&rows_of(source))?;
    let printed = valid(&Source::new(source.name(), printed))?;
    let (Some(before), Some(after)) = (original.pipeline(), printed.pipeline()) else {
        return Ok(());
    };
    let difference = Difference::between(&before, &after);
    if difference.is_empty() {
        return Ok(());
    }
    Err(StationError::NotRepresentable {
        difference: format!("{difference:.20}"),
    })
}

/// Loads a text.
///
/// # Errors
///
/// Returns an error with the diagnostics if the text has errors.
pub(crate) fn valid(source: &Source) -> Result<Loaded, StationError> {
    let options = LoadOptions {
        transforms: vec![Arc::new(PlainKeys)],
        ..LoadOptions::default()
    };
    let loaded = load(source.clone(), &options);
    if loaded.report.has_errors() {
        return Err(StationError::Invalid {
            report: Box::new(loaded.report),
        });
    }
    Ok(loaded)
}

/// Writes lists of output keys in one form, because blanks in them mean nothing.
struct PlainKeys;

impl Transform for PlainKeys {
    fn name(&self) -> &str {
        "plain_keys"
    }

    fn apply(&self, mut graph: Graph, _: &mut Vec<Diagnostic>) -> Graph {
        for node in &mut graph.nodes {
            let keys = keys_of(&node.attributes).join(", ");
            if let Some(mut attribute) = node.attributes.get(Known::OutputKeys).cloned() {
                attribute.value = Value::String(keys.into());
                node.attributes.set(attribute);
            }
        }
        graph
    }
}
