//! Hover and completion in `orchestra.yaml`, by the schema of the configuration.

use std::sync::LazyLock;

use orchestra_config::{Configuration, LayerKind, ResolveOptions, SCHEMA};
use orchestra_graph::{Limits, parse_bytes};
use serde_json::Value;

use crate::analysis::ConfigurationAnalysis;
use crate::candidate::{Candidate, Candidates};
use crate::files::Files;
use crate::layer_doc::layer_doc;
use crate::markdown::{agent, code, model};
use crate::place::MAX_BYTES;
use crate::protocol::CompletionItemKind;
use crate::value_lists::{layer_names, model_names};
use crate::yaml_cursor::{YamlCursor, YamlPart};

/// The schema as JSON.
static PARSED: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(SCHEMA).unwrap_or_default());

/// Follows references, and the first alternative of a union that is not null.
fn resolved(mut schema: &'static Value) -> &'static Value {
    // A reference leads to a definition, whose alternatives may be references again.
    for _ in 0..8 {
        let reference = schema.get("$ref").and_then(Value::as_str);
        if let Some(path) = reference.and_then(|reference| reference.strip_prefix('#')) {
            schema = PARSED.pointer(path).unwrap_or(&Value::Null);
            continue;
        }
        let is_null = |schema: &Value| schema.get("type").and_then(Value::as_str) == Some("null");
        let alternatives = schema.get("anyOf").and_then(Value::as_array);
        match alternatives.and_then(|list| list.iter().find(|schema| !is_null(schema))) {
            Some(found) => schema = found,
            None => break,
        }
    }
    schema
}

/// Returns the alternatives of a schema.
fn alternatives(schema: &'static Value) -> Vec<&'static Value> {
    let schema = match schema.get("$ref") {
        Some(_) => {
            let path = schema
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|path| path.strip_prefix('#'));
            path.and_then(|path| PARSED.pointer(path)).unwrap_or(&Value::Null)
        }
        None => schema,
    };
    match schema.get("anyOf").and_then(Value::as_array) {
        Some(list) => list.iter().map(resolved).collect(),
        None => vec![schema],
    }
}

/// Returns the schema of a key.
fn schema_of_key(schema: &'static Value, key: &str) -> Option<&'static Value> {
    alternatives(schema).into_iter().find_map(|schema| {
        let named = schema
            .get("properties")
            .and_then(|properties| properties.get(key));
        named.or_else(|| {
            schema
                .get("additionalProperties")
                .filter(|schema| schema.is_object())
        })
    })
}

/// Returns the schema of the value of a path of keys.
fn schema_at(path: &[String]) -> Option<&'static Value> {
    let mut schema: &'static Value = &PARSED;
    for key in path {
        let list = alternatives(schema).into_iter();
        // Keys in the items of a list belong to the list.
        let mut items = list.filter_map(|schema| schema.get("items"));
        let own = schema_of_key(schema, key);
        schema = own.or_else(|| items.find_map(|items| schema_of_key(items, key)))?;
    }
    Some(schema)
}

fn description(schema: &'static Value) -> Option<&'static str> {
    let own = schema.get("description").and_then(Value::as_str);
    own.or_else(|| resolved(schema).get("description").and_then(Value::as_str))
}

/// Returns the documentation of what is at a position in a configuration.
pub(crate) fn yaml_hover(
    text: &str,
    offset: u32,
    analysis: &ConfigurationAnalysis,
    files: &Files<'_>,
) -> Option<(String, orchestra_graph::Span)> {
    let cursor = YamlCursor::new(text, offset);
    let word = text.get(cursor.word.start as usize..cursor.word.end as usize)?;
    let mut path = cursor.path.clone();
    match cursor.part {
        YamlPart::Key => path.push(word.to_owned()),
        YamlPart::Value | YamlPart::Item => {}
        YamlPart::Text => return None,
    }
    let own = schema_at(&path).and_then(description);
    let name = path.last()?;
    let mut parts = Vec::new();
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let configuration = &analysis.project.configuration;
    match path.as_slice() {
        ["agents", name] => {
            let found = configuration.agents.get(*name)?;
            parts.push(agent(name, &found.value, configuration));
        }
        ["tools", name] => parts.push(tool(name, configuration)?),
        _ => parts.push(format!("**{name}**")),
    }
    parts.extend(own.map(str::to_owned));
    match path.as_slice() {
        ["agents", _, "tools" | "only_tools"] if cursor.part == YamlPart::Item => {
            parts.extend(tool(word, configuration));
        }
        ["agents", _, kind] if cursor.part == YamlPart::Value => {
            let folders = folders(analysis, files);
            let kind = LayerKind::from_name(kind);
            parts.extend(kind.and_then(|kind| layer_doc(files, (&analysis.root, &folders), kind, word)));
        }
        _ => {}
    }
    if cursor.part == YamlPart::Value {
        if matches!(path.as_slice(), [.., "model" | "default_model"]) && !word.is_empty() {
            parts.push(model(word, configuration));
        }
        parts.extend(word_description(&cursor.path, word).map(|doc| format!("{}: {doc}", code(word))));
    }
    (parts.len() > 1).then(|| (parts.join("\n\n"), cursor.word))
}

/// Returns the documentation of a tool of the project; `None` for other tools.
fn tool(name: &str, configuration: &Configuration) -> Option<String> {
    let found = &configuration.tools.get(name)?.value;
    let mut parts = vec![format!("**tool** {}", code(name))];
    parts.extend(
        found
            .description
            .as_ref()
            .map(|description| description.value.clone()),
    );
    parts.extend(found.command.as_ref().map(|command| code(&command.value)));
    Some(parts.join("\n\n"))
}

/// Returns the folders of the prompt layers of a configuration.
fn folders(analysis: &ConfigurationAnalysis, files: &Files<'_>) -> Vec<String> {
    let configuration = analysis.project.path.as_deref().unwrap_or_default();
    let options = ResolveOptions {
        user_folder: files.host.user().prompts,
        ..ResolveOptions::default()
    };
    analysis.project.prompt_folders(configuration, &options)
}

/// Returns the description of one of the fixed values of a key.
fn word_description(path: &[String], word: &str) -> Option<&'static str> {
    let words = resolved(schema_at(path)?)
        .get("oneOf")
        .and_then(Value::as_array)?;
    let own = words
        .iter()
        .find(|value| value.get("const").and_then(Value::as_str) == Some(word))?;
    own.get("description").and_then(Value::as_str)
}

/// Returns the candidates for a position in a configuration.
pub(crate) fn yaml_candidates(
    text: &str,
    offset: u32,
    analysis: &ConfigurationAnalysis,
    files: &Files<'_>,
) -> Candidates {
    let cursor = YamlCursor::new(text, offset);
    let list = match cursor.part {
        YamlPart::Key => keys(text, &cursor, analysis, files),
        YamlPart::Value | YamlPart::Item => values(&cursor, analysis, files)
            .into_iter()
            .map(|candidate| behind_colon(candidate, &cursor, text))
            .collect(),
        YamlPart::Text => Vec::new(),
    };
    Candidates {
        list,
        replaced: cursor.word,
    }
}

/// Returns a candidate for a value with the space before it, if that is missing.
pub(crate) fn behind_colon(candidate: Candidate, cursor: &YamlCursor, text: &str) -> Candidate {
    let before = text.get(..cursor.word.start as usize).unwrap_or_default();
    if cursor.part != YamlPart::Value || !before.ends_with(':') {
        return candidate;
    }
    let insert = format!(" {}", candidate.insert.as_deref().unwrap_or(&candidate.label));
    candidate.insert(insert)
}

fn keys(
    text: &str,
    cursor: &YamlCursor,
    analysis: &ConfigurationAnalysis,
    files: &Files<'_>,
) -> Vec<Candidate> {
    let Some(schema) = schema_at(&cursor.path) else {
        return Vec::new();
    };
    let mut list = Vec::new();
    for schema in alternatives(schema) {
        let properties = schema.get("properties").and_then(Value::as_object);
        for (key, value) in properties.into_iter().flatten() {
            let candidate = Candidate::new(key, CompletionItemKind::PROPERTY, type_of(value))
                .insert(key_text(key, type_of(value) == "object", text, cursor));
            list.push(candidate.doc(description(value).unwrap_or_default()));
        }
    }
    let is_map = cursor.path.len() < 3;
    for (name, detail) in names(cursor, analysis, files) {
        let insert = key_text(&name, is_map, text, cursor);
        list.push(Candidate::new(name, CompletionItemKind::VALUE, detail).insert(insert));
    }
    let set = cursor.other_keys(text);
    list.retain(|candidate| !set.contains(&candidate.label));
    list
}

/// Returns the text of a key with its colon, unless that is written already. A map begins in the next line, any other
/// value after a space.
pub(crate) fn key_text(key: &str, is_map: bool, text: &str, cursor: &YamlCursor) -> String {
    match (cursor.is_before_colon(text), is_map && !cursor.is_flow) {
        (true, _) => key.to_owned(),
        (false, true) => format!("{key}:"),
        (false, false) => format!("{key}: "),
    }
}

/// Returns the names that a map has as keys, each with its description: providers, pipelines, repositories and models.
fn names(
    cursor: &YamlCursor,
    analysis: &ConfigurationAnalysis,
    files: &Files<'_>,
) -> Vec<(String, &'static str)> {
    let configuration = &analysis.project.configuration;
    let path: Vec<&str> = cursor.path.iter().map(String::as_str).collect();
    let owned = |names: Vec<&str>, detail: &'static str| -> Vec<(String, &'static str)> {
        names.into_iter().map(|name| (name.to_owned(), detail)).collect()
    };
    match path.as_slice() {
        ["providers"] => owned(configuration.provider_names(), "provider"),
        ["backends"] => owned(configuration.backend_names(), "backend"),
        ["pipelines"] => pipeline_names(analysis, files),
        ["workspace", "tools"] => {
            let repositories = configuration.workspace.repos.keys();
            owned(repositories.map(String::as_str).collect(), "repository")
        }
        ["providers", provider, "prices"] => {
            let named = configuration.providers.named.get(*provider);
            let models = named.into_iter().flat_map(|named| named.value.models.values());
            owned(models.map(|chain| chain.model.as_str()).collect(), "model")
        }
        _ => Vec::new(),
    }
}

/// Returns the names of the graphs that use a configuration.
fn pipeline_names(analysis: &ConfigurationAnalysis, files: &Files<'_>) -> Vec<(String, &'static str)> {
    let mut names = Vec::new();
    for path in &analysis.pipelines {
        let bytes = files.read(path, MAX_BYTES).unwrap_or_default();
        let parsed = parse_bytes(path.as_str(), &bytes, &Limits::default());
        let name = parsed
            .file
            .name
            .map(|name| name.text.to_string())
            .unwrap_or_default();
        if !name.is_empty() && !names.iter().any(|(known, _)| *known == name) {
            names.push((name, "pipeline"));
        }
    }
    names
}

/// Returns a short name of the type of a value.
fn type_of(schema: &'static Value) -> String {
    let schema = resolved(schema);
    if let Some(words) = schema.get("oneOf").and_then(Value::as_array) {
        let words: Vec<&str> = words
            .iter()
            .filter_map(|word| word.get("const").and_then(Value::as_str))
            .collect();
        return words.join(" | ");
    }
    match schema.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => {
            let mut names = names.iter().filter_map(Value::as_str);
            names.find(|name| *name != "null").unwrap_or_default().to_owned()
        }
        _ => String::new(),
    }
}

fn values(cursor: &YamlCursor, analysis: &ConfigurationAnalysis, files: &Files<'_>) -> Vec<Candidate> {
    let configuration = &analysis.project.configuration;
    let named = |names: Vec<String>, kind: CompletionItemKind, detail: &str| -> Vec<Candidate> {
        names
            .into_iter()
            .map(|name| Candidate::new(name, kind, detail))
            .collect()
    };
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<String>>();
    let path: Vec<&str> = cursor.path.iter().map(String::as_str).collect();
    let layer = |kind: LayerKind| layer_names(files, &analysis.root, &folders(analysis, files), kind);
    match path.as_slice() {
        ["agents", _, "tools" | "only_tools"] => {
            named(configuration.tool_names(), CompletionItemKind::FUNCTION, "tool")
        }
        ["agents", _, key @ ("role" | "persona" | "personality" | "task")] => {
            LayerKind::from_name(key).map_or_else(Vec::new, layer)
        }
        ["agents" | "pipelines", _, "model"] | ["providers", _, "default_model"] => {
            model_names(configuration)
        }
        ["agents" | "pipelines", _, "provider"] | ["providers", "default"] => named(
            owned(configuration.provider_names()),
            CompletionItemKind::VALUE,
            "provider",
        ),
        ["agents" | "pipelines", _, "backend"] | ["backend"] => named(
            owned(configuration.backend_names()),
            CompletionItemKind::VALUE,
            "backend",
        ),
        _ => schema_at(&cursor.path).map_or_else(Vec::new, fixed),
    }
}

/// Returns the fixed values of a schema.
fn fixed(schema: &'static Value) -> Vec<Candidate> {
    let mut list = Vec::new();
    for schema in alternatives(schema).into_iter().map(resolved) {
        let words = schema.get("oneOf").and_then(Value::as_array);
        for word in words.into_iter().flatten() {
            if let Some(name) = word.get("const").and_then(Value::as_str) {
                let doc = word
                    .get("description")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                list.push(Candidate::new(name, CompletionItemKind::ENUM_MEMBER, doc));
            }
        }
        if type_of(schema) == "boolean" {
            list.extend(
                ["true", "false"].map(|word| Candidate::new(word, CompletionItemKind::ENUM_MEMBER, "")),
            );
        }
    }
    list
}
