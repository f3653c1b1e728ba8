//! Hover and completion for each kind of document.

use crate::analysis::{DocumentKind, analyse_configuration, document_kind};
use crate::candidate::items;
use crate::completion::{CompletionSettings, complete};
use crate::hover::hover;
use crate::layer_hints::{LayerPosition, layer_candidates, layer_hover, layer_kind};
use crate::markdown::markup;
use crate::paths::path_from_uri;
use crate::protocol::{
    CompletionItem, CompletionParams, Hover, HoverContents, InitializeParams, TextDocumentPositionParams,
};
use crate::workspace::Workspace;
use crate::yaml_cursor::{YamlCursor, YamlPart};
use crate::yaml_hints::{yaml_candidates, yaml_hover};

/// Returns whether a client replaces the placeholders of snippets.
pub(crate) fn replaces_placeholders(params: &InitializeParams) -> bool {
    let document = params.capabilities.text_document.as_ref();
    let completion = document.and_then(|document| document.completion.as_ref());
    let item = completion.and_then(|completion| completion.completion_item.as_ref());
    item.and_then(|item| item.snippet_support).unwrap_or_default()
}

/// Returns the documentation of what is at a position.
pub(crate) fn hover_at(workspace: &mut Workspace<'_>, at: &TextDocumentPositionParams) -> Option<Hover> {
    if let Some(opened) = workspace.opened(&at.text_document.uri) {
        return hover(&opened, &workspace.files, at.position);
    }
    let path = path_from_uri(&at.text_document.uri);
    let document = workspace.files.documents.get(&path)?;
    let document = document.text.clone();
    let offset = document.offset(at.position, workspace.encoding);
    let (text, span) = if document_kind(&path) == DocumentKind::Configuration {
        let analysis = analyse_configuration(&workspace.files, &path)?;
        yaml_hover(document.as_str(), offset, &analysis, &workspace.files)?
    } else {
        let position = LayerPosition {
            path: &path,
            kind: layer_kind(&path)?,
            text: document.as_str(),
            offset,
        };
        layer_hover(workspace, &position)?
    };
    Some(Hover {
        contents: HoverContents::Markup(markup(text)),
        range: Some(document.range(span, workspace.encoding)),
    })
}

/// Returns what fits at a position.
pub(crate) fn complete_at(
    workspace: &mut Workspace<'_>,
    params: &CompletionParams,
) -> Option<Vec<CompletionItem>> {
    let at = &params.text_document_position;
    let options = CompletionSettings {
        placeholders: workspace.placeholders,
        after_blank: params
            .context
            .as_ref()
            .is_some_and(|context| context.trigger_character.as_deref() == Some(" ")),
    };
    if let Some(opened) = workspace.opened(&at.text_document.uri) {
        return Some(complete(&opened, &workspace.files, at.position, options));
    }
    let path = path_from_uri(&at.text_document.uri);
    let document = workspace.files.documents.get(&path)?;
    let document = document.text.clone();
    let offset = document.offset(at.position, workspace.encoding);
    let is_indentation = YamlCursor::new(document.as_str(), offset).part == YamlPart::Key;
    if options.after_blank && is_indentation {
        return None;
    }
    let found = if document_kind(&path) == DocumentKind::Configuration {
        let analysis = analyse_configuration(&workspace.files, &path)?;
        yaml_candidates(document.as_str(), offset, &analysis, &workspace.files)
    } else {
        let position = LayerPosition {
            path: &path,
            kind: layer_kind(&path)?,
            text: document.as_str(),
            offset,
        };
        layer_candidates(workspace, &position)
    };
    let encoding = workspace.encoding;
    Some(items(
        found,
        |span| document.range(span, encoding),
        options.placeholders,
    ))
}
