//! Prompts in separate files: `prompt="@FILE"` and `prompt_file` (rule F3).

use crate::attribute::{Key, Known};
use crate::attributes::Attribute;
use crate::check::prompt_file;
use crate::child_reader::{ChildReader, ReadError, joined, nearest_file};
use crate::diagnostic::Diagnostic;
use crate::model::Graph;
use crate::syntax::{value_fix, value_range, value_text};
use crate::text::Source;
use crate::value::Value;

/// Replaces attributes that name a prompt file with the text of the file. Returns the paths that were read or looked
/// up.
pub(crate) fn read(
    graph: &mut Graph,
    source: &Source,
    reader: &dyn ChildReader,
    limit: usize,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for node in &mut graph.nodes {
        let prompt = node
            .attributes
            .get(Known::Prompt)
            .filter(|prompt| is_filled(prompt));
        let written = prompt.and_then(|prompt| {
            let file = named(prompt.value.as_str()?)?;
            Some((prompt.clone(), file.to_owned()))
        });
        let named_file = node
            .attributes
            .get(Known::PromptFile)
            .filter(|file| is_filled(file));
        let (attribute, file) = match (named_file, written) {
            (Some(attribute), None) => {
                if prompt.is_some() {
                    diagnostics.push(prompt_file::both(attribute.value_span).node(&*node.id));
                    continue;
                }
                (
                    attribute.clone(),
                    attribute.value.as_str().unwrap_or_default().trim().to_owned(),
                )
            }
            (Some(attribute), Some(_)) => {
                diagnostics.push(prompt_file::both(attribute.value_span).node(&*node.id));
                continue;
            }
            (None, Some((attribute, file))) => (attribute, file),
            (None, None) => continue,
        };
        let written = value_text(source, attribute.value_span);
        let start = written.find(&file).unwrap_or_default();
        let range = start..start + file.len();
        let span = value_range(source, attribute.value_span, range.clone());
        if file.starts_with('/') {
            diagnostics.push(prompt_file::absolute(&file, span).node(&*node.id));
            continue;
        }
        let path = joined(source.name(), &file);
        let found = reader.read(&path, limit as u64);
        if !paths.contains(&path) {
            paths.push(path.clone());
        }
        let text = match found {
            Ok(bytes) => String::from_utf8(bytes).ok(),
            Err(error) => {
                let mut diagnostic = prompt_file::diagnostic(&file, &path, &error, limit, span);
                if error == ReadError::Missing
                    && let Some(near) = nearest_file(reader, source.name(), &file, &path)
                {
                    let fix = value_fix(source, attribute.value_span, range, &near);
                    let help = format!("did you mean `{near}`?");
                    diagnostic = diagnostic.help(help).fix(fix.span, fix.replacement);
                }
                diagnostics.push(diagnostic.node(&*node.id));
                continue;
            }
        };
        let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
            diagnostics.push(prompt_file::no_text(&file, span).node(&*node.id));
            continue;
        };
        let mut set = |known: Known, value: &str| {
            node.attributes.set(Attribute {
                key: Key::Known(known),
                value: Value::String(value.into()),
                ..attribute.clone()
            });
        };
        set(Known::Prompt, text.trim_end());
        set(Known::PromptFile, &file);
    }
    paths
}

fn is_filled(attribute: &Attribute) -> bool {
    attribute
        .value
        .as_str()
        .is_some_and(|text| !text.trim().is_empty())
}

/// Returns the file that a prompt of the form `@FILE` names.
pub(crate) fn named(prompt: &str) -> Option<&str> {
    let file = prompt.trim().strip_prefix('@')?;
    let is_path = !file.is_empty() && !file.contains(char::is_whitespace);
    is_path.then_some(file)
}
