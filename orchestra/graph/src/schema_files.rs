//! The schemas of answers: reads the files that nodes name, and declares the values that answers set (rule T8).

use crate::analysis::Analysis;
use crate::answer_schema::{AnswerSchema, MAX_BYTES, OF_OUTPUTS, SchemaError};
use crate::attribute::{Key, Known};
use crate::attributes::{Attribute, Origin};
use crate::check::{output_schema, output_schema_conflict};
use crate::child_reader::{ChildReader, ReadError, joined, nearest_file};
use crate::contract::{Field, declared_fields};
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::model::{Graph, Node};
use crate::syntax::{value_fix, value_range, value_text};
use crate::text::{Source, Span};
use crate::value::Value;

/// The attributes that name the schema of an answer.
const NAMED: [Known; 2] = [Known::OutputSchema, Known::OutputSchemaFile];

/// Replaces attributes that name a schema file with the text of the file, checks the schemas, and declares the properties
/// of answers as `outputs` of their stages. Returns the paths that were read or looked up.
pub(crate) fn read(
    graph: &mut Graph,
    source: &Source,
    reader: Option<&dyn ChildReader>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<String> {
    let has_schema = |node: &Node| NAMED.iter().any(|known| node.attributes.filled(*known).is_some());
    if !graph.nodes.iter().any(has_schema) {
        return Vec::new();
    }
    // Only model stages have answers; for others `attribute_without_effect` reports the attribute.
    let analysis = Analysis::new(graph, source);
    let nodes = graph.indexed_nodes();
    let nodes = nodes.filter(|(at, node)| has_schema(node) && analysis.kind(*at) == kind::CODERGEN);
    let nodes: Vec<_> = nodes.map(|(at, _)| at).collect();
    let mut files = Files {
        source,
        reader,
        paths: Vec::new(),
    };
    for at in nodes {
        let Some(node) = graph.nodes.get_mut(at.0 as usize) else {
            continue;
        };
        let found = files.stage(node).unwrap_or_else(|diagnostic| vec![*diagnostic]);
        diagnostics.extend(found.into_iter().map(|diagnostic| diagnostic.node(&*node.id)));
    }
    files.paths
}

struct Files<'r> {
    source: &'r Source,
    reader: Option<&'r dyn ChildReader>,
    paths: Vec<String>,
}

impl Files<'_> {
    /// Reads and checks the schema of a stage. Returns diagnostics for declarations that do not agree with it.
    fn stage(&mut self, node: &mut Node) -> Result<Vec<Diagnostic>, Box<Diagnostic>> {
        let filled = |known: Known| {
            let attribute = node.attributes.get(known)?;
            let text = attribute.value.as_str().map(str::trim).unwrap_or_default();
            (!text.is_empty()).then(|| (attribute.clone(), text.to_owned()))
        };
        let (attribute, text) = match NAMED.map(filled) {
            [Some(_), Some((file, _))] => return Err(output_schema::both(file.value_span).into()),
            [Some((attribute, text)), None] if text == OF_OUTPUTS => {
                return of_outputs(node, &attribute);
            }
            [Some((attribute, text)), None] if text.starts_with('{') => {
                let schema = AnswerSchema::parse(&text)
                    .map_err(|error| invalid(None, &error, attribute.value_span))?;
                return Ok(declare(node, self.source, &attribute, &schema));
            }
            [Some(named), None] | [None, Some(named)] => named,
            [None, None] => return Ok(Vec::new()),
        };
        let Some(reader) = self.reader else {
            return Ok(Vec::new());
        };
        let schema = self.file(reader, &attribute, &text)?;
        let parsed = AnswerSchema::parse(&schema)
            .map_err(|error| invalid(Some(&text), &error, attribute.value_span))?;
        for (known, value) in NAMED.into_iter().zip([&*schema, &*text]) {
            node.attributes.set(Attribute {
                key: Key::Known(known),
                value: Value::String(value.into()),
                ..attribute.clone()
            });
        }
        Ok(declare(node, self.source, &attribute, &parsed))
    }

    /// Returns the text of a schema file.
    fn file(
        &mut self,
        reader: &dyn ChildReader,
        attribute: &Attribute,
        file: &str,
    ) -> Result<String, Box<Diagnostic>> {
        let source = self.source;
        let written = value_text(source, attribute.value_span);
        let start = written.find(file).unwrap_or_default();
        let range = start..start + file.len();
        let span = value_range(source, attribute.value_span, range.clone());
        if file.starts_with('/') {
            return Err(output_schema::absolute(file, span).into());
        }
        let path = joined(source.name(), file);
        let found = reader.read(&path, MAX_BYTES as u64);
        if !self.paths.contains(&path) {
            self.paths.push(path.clone());
        }
        let bytes = found.map_err(|error| {
            let diagnostic = output_schema::unreadable(file, &path, &error, span);
            let near = match error {
                ReadError::Missing => nearest_file(reader, source.name(), file, &path),
                _ => None,
            };
            let Some(near) = near else {
                return Box::new(diagnostic);
            };
            let fix = value_fix(source, attribute.value_span, range, &near);
            let diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
            Box::new(diagnostic.fix(fix.span, fix.replacement))
        })?;
        let text = String::from_utf8(bytes).map_err(|_| output_schema::no_text(file, span))?;
        Ok(text.trim_start_matches('\u{feff}').trim().to_owned())
    }
}

fn invalid(file: Option<&str>, error: &SchemaError, span: Span) -> Box<Diagnostic> {
    output_schema::invalid(file, error, span).into()
}

/// Checks that a stage whose schema is that of its `outputs` has some.
fn of_outputs(node: &Node, attribute: &Attribute) -> Result<Vec<Diagnostic>, Box<Diagnostic>> {
    let outputs = node.attributes.text(Known::Outputs).unwrap_or_default();
    if declared_fields(outputs).is_empty() {
        return Err(output_schema::no_outputs(attribute.value_span).into());
    }
    Ok(Vec::new())
}

/// Declares the properties of an answer as outputs of its stage. Returns diagnostics for the `outputs` and `output_keys`
/// of the stage that do not agree with the schema.
fn declare(
    node: &mut Node,
    source: &Source,
    attribute: &Attribute,
    schema: &AnswerSchema,
) -> Vec<Diagnostic> {
    let fields = schema.fields();
    let mut found = Vec::new();
    if let Some(keys) = node.attributes.get(Known::OutputKeys) {
        found.extend(output_schema_conflict::unknown_keys(source, keys, &fields));
    }
    if let Some(outputs) = node
        .attributes
        .get(Known::Outputs)
        .filter(|_| node.attributes.filled(Known::Outputs).is_some())
    {
        found.extend(output_schema_conflict::compare(source, outputs, &fields));
    } else {
        let outputs: Vec<String> = fields.iter().map(Field::to_string).collect();
        node.attributes.set(Attribute {
            key: Key::Known(Known::Outputs),
            value: Value::String(outputs.join(", ").into()),
            origin: Origin::Transform,
            ..attribute.clone()
        });
    }
    found
}
