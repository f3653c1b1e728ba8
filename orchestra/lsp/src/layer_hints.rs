//! Hover and completion in the files of prompt layers: their keys, the layers that they extend, and the variables of
//! templates.

use orchestra_config::{LayerKind, ResolveOptions, task_variables};
use orchestra_graph::Span;

use crate::analysis::analyse_configuration;
use crate::candidate::{Candidate, Candidates};
use crate::complete_templates::template_in_file;
use crate::files::Files;
use crate::layer_doc::layer_doc;
use crate::paths::{file_name, folder, name_in};
use crate::place::layer_folder;
use crate::protocol::CompletionItemKind;
use crate::template_scope::TemplateScope;
use crate::value_lists::layer_names;
use crate::workspace::Workspace;
use crate::yaml_cursor::{YamlCursor, YamlPart};
use crate::yaml_hints::key_text;

/// The maximum number of pipelines whose names a template offers.
const MAX_PIPELINES: usize = 100;

/// The file of a prompt layer, with a position in it.
pub(crate) struct LayerPosition<'t> {
    pub(crate) path: &'t str,
    pub(crate) kind: LayerKind,
    pub(crate) text: &'t str,
    pub(crate) offset: u32,
}

/// Returns the kind of a prompt layer by the folder of its file; `None` for other files.
pub(crate) fn layer_kind(path: &str) -> Option<LayerKind> {
    let own = layer_folder(path)?;
    let mut kinds = LayerKind::WORDS
        .iter()
        .filter_map(|word| LayerKind::from_name(word));
    kinds.find(|kind| kind.folder() == own)
}

/// Returns the names that the template of a task may use: those of the pipelines whose stages use it.
pub(crate) fn scope_of_task(workspace: &mut Workspace<'_>, path: &str) -> TemplateScope {
    let mut pipelines = match analyse_configuration(&workspace.files, path) {
        Some(configuration) => configuration.pipelines,
        None => workspace.pipelines(path),
    };
    pipelines.truncate(MAX_PIPELINES);
    let mut scope = TemplateScope::default();
    for pipeline in pipelines {
        let Some(analysis) = workspace.analysis(&pipeline) else {
            continue;
        };
        let stages = analysis
            .resolution()
            .map_or(&[][..], |resolution| &resolution.stages);
        let own = name_in(&analysis.root, path);
        for stage in stages {
            if stage.layers.iter().any(|layer| layer.path == own) {
                scope.add(&analysis, analysis.loaded.graph.find(&stage.node));
            }
        }
    }
    scope
}

/// Returns the candidates for a position in a layer.
pub(crate) fn layer_candidates(workspace: &mut Workspace<'_>, at: &LayerPosition<'_>) -> Candidates {
    let cursor = YamlCursor::new(at.text, at.offset);
    if is_template(at, &cursor) {
        let scope = scope_of_task(workspace, at.path);
        return template_in_file(at.text, at.offset, &scope);
    }
    let path: Vec<&str> = cursor.path.iter().map(String::as_str).collect();
    let of_kind = at.kind.word();
    let mut list = match (cursor.part, path.as_slice()) {
        (YamlPart::Key, []) => {
            let insert = key_text(of_kind, true, at.text, &cursor);
            let detail = format!("the {} of this file", at.kind);
            vec![Candidate::new(of_kind, CompletionItemKind::PROPERTY, detail).insert(insert)]
        }
        (YamlPart::Key, [kind]) if *kind == of_kind => {
            let keys = at.kind.keys().iter();
            keys.map(|(key, doc)| {
                let is_text = matches!(*key, "system" | "modifiers" | "template");
                let mut insert = key_text(key, false, at.text, &cursor);
                if is_text && insert.ends_with(' ') && !cursor.is_flow {
                    insert.push('|');
                }
                Candidate::new(*key, CompletionItemKind::PROPERTY, *doc).insert(insert)
            })
            .collect()
        }
        (YamlPart::Value, [_, "extends"]) => bases(&workspace.files, at),
        (YamlPart::Value, [_, "name"]) => {
            vec![Candidate::new(
                own_name(at.path),
                CompletionItemKind::VALUE,
                "the name of the file",
            )]
        }
        _ => Vec::new(),
    };
    if cursor.part == YamlPart::Key {
        let set = cursor.other_keys(at.text);
        list.retain(|candidate| !set.contains(&candidate.label));
    }
    Candidates {
        list,
        replaced: cursor.word,
    }
}

/// Returns the documentation of what is at a position in a layer.
pub(crate) fn layer_hover(workspace: &mut Workspace<'_>, at: &LayerPosition<'_>) -> Option<(String, Span)> {
    let cursor = YamlCursor::new(at.text, at.offset);
    if is_template(at, &cursor) {
        let variables = task_variables(at.path, at.text.as_bytes());
        let (variable, span) = variables.into_iter().find_map(|variable| {
            let parts = variable.parts.first().zip(variable.parts.last());
            let (first, last) = parts?;
            let span = Span::new(u32::try_from(first.start).ok()?, u32::try_from(last.end).ok()?);
            (span.start <= at.offset && at.offset <= span.end).then_some((variable, span))
        })?;
        let doc = scope_of_task(workspace, at.path).describe(&variable)?;
        return Some((doc, span));
    }
    let word = at
        .text
        .get(cursor.word.start as usize..cursor.word.end as usize)?;
    let mut path: Vec<&str> = cursor.path.iter().map(String::as_str).collect();
    if cursor.part == YamlPart::Key {
        path.push(word);
    }
    let [kind, key] = path.as_slice() else {
        return None;
    };
    if *kind != at.kind.word() {
        return None;
    }
    if cursor.part == YamlPart::Value && *key == "extends" {
        let files = &workspace.files;
        let kinds = base_kinds(at.kind).iter();
        let (root, folders) = (files.root(at.path), folders_of(files, at.path));
        let mut found = kinds.filter_map(|kind| layer_doc(files, (&root, &folders), *kind, word));
        if let Some(doc) = found.next() {
            return Some((doc, cursor.word));
        }
    }
    let (_, doc) = at.kind.keys().iter().find(|(known, _)| known == key)?;
    Some((format!("**{key}**\n\n{doc}"), cursor.word))
}

fn is_template(at: &LayerPosition<'_>, cursor: &YamlCursor) -> bool {
    let is_text = matches!(cursor.part, YamlPart::Text | YamlPart::Value);
    at.kind == LayerKind::Task && is_text && cursor.path == ["task", "template"]
}

fn own_name(path: &str) -> &str {
    file_name(path).rsplit_once('.').map_or("", |(name, _)| name)
}

/// Returns the kinds of layers that a layer may extend.
fn base_kinds(kind: LayerKind) -> &'static [LayerKind] {
    match kind {
        LayerKind::Role => &[LayerKind::Role],
        LayerKind::Persona => &[LayerKind::Persona, LayerKind::Role],
        LayerKind::Personality => &[LayerKind::Personality],
        LayerKind::Task => &[],
    }
}

/// Returns the layers that a layer may extend.
fn bases(files: &Files<'_>, at: &LayerPosition<'_>) -> Vec<Candidate> {
    let mut list: Vec<Candidate> = Vec::new();
    for kind in base_kinds(at.kind) {
        for candidate in layer_names(files, &files.root(at.path), &folders_of(files, at.path), *kind) {
            let is_own = *kind == at.kind && candidate.label == own_name(at.path);
            if !is_own && !list.iter().any(|known| known.label == candidate.label) {
                list.push(candidate);
            }
        }
    }
    list
}

/// Returns the folders of prompts that a layer belongs to.
fn folders_of(files: &Files<'_>, path: &str) -> Vec<String> {
    let root = files.root(path);
    let own = name_in(&root, folder(folder(path))).to_owned();
    let mut folders = vec![own];
    if let Some(analysis) = analyse_configuration(files, path) {
        let options = ResolveOptions {
            user_folder: files.host.user().prompts,
            ..ResolveOptions::default()
        };
        let configuration = analysis.project.path.as_deref().unwrap_or_default();
        folders.extend(analysis.project.prompt_folders(configuration, &options));
    }
    folders
}
