//! What the server offers to a client.

use crate::lens::{LIMITS, PREVIEW};
use crate::protocol::{
    CodeActionKind, CodeActionOptions, CodeActionProviderCapability, CodeLensOptions, CompletionOptions,
    DidChangeWatchedFiles, DidChangeWatchedFilesRegistrationOptions, ExecuteCommandOptions,
    FileSystemWatcher, FoldingRangeProviderCapability, GlobPattern, HoverProviderCapability,
    InitializeParams, NotificationType, OneOf, Registration, RegistrationParams, RenameOptions,
    ResourceOperationKind, SemanticTokensFullOptions, SemanticTokensOptions, ServerCapabilities,
    TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions, TextDocumentSyncSaveOptions,
    WorkDoneProgressOptions, WorkspaceFoldersServerCapabilities, WorkspaceServerCapabilities,
};
use crate::text::Encoding;
use crate::tokens::legend;

/// The files whose changes on disk matter: pipelines, configurations, prompts, and handlers.
const WATCHED: &str = "**/*.{dot,gv,yaml,yml,md,txt,rs}";

/// The characters after which a client asks for completion, besides letters.
const TRIGGERS: &[&str] = &[
    "[", "=", "\"", "'", ".", ">", " ", ",", "(", ":", "<", "|", "&", "!",
];

/// Returns what the server offers.
pub(crate) fn capabilities(encoding: Encoding) -> ServerCapabilities {
    ServerCapabilities {
        position_encoding: Some(encoding.kind()),
        text_document_sync: Some(TextDocumentSyncCapability::Options(TextDocumentSyncOptions {
            open_close: Some(true),
            change: Some(TextDocumentSyncKind::INCREMENTAL),
            save: Some(TextDocumentSyncSaveOptions::Supported(true)),
            ..TextDocumentSyncOptions::default()
        })),
        document_formatting_provider: Some(OneOf::Left(true)),
        definition_provider: Some(OneOf::Left(true)),
        references_provider: Some(OneOf::Left(true)),
        document_highlight_provider: Some(OneOf::Left(true)),
        rename_provider: Some(OneOf::Right(RenameOptions {
            prepare_provider: Some(true),
            work_done_progress_options: WorkDoneProgressOptions::default(),
        })),
        document_symbol_provider: Some(OneOf::Left(true)),
        folding_range_provider: Some(FoldingRangeProviderCapability::Simple(true)),
        semantic_tokens_provider: Some(
            SemanticTokensOptions {
                legend: legend(),
                full: Some(SemanticTokensFullOptions::Bool(true)),
                ..SemanticTokensOptions::default()
            }
            .into(),
        ),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some(TRIGGERS.iter().map(|trigger| (*trigger).to_owned()).collect()),
            ..CompletionOptions::default()
        }),
        code_action_provider: Some(CodeActionProviderCapability::Options(CodeActionOptions {
            code_action_kinds: Some(vec![CodeActionKind::QUICKFIX, CodeActionKind::SOURCE_FIX_ALL]),
            ..CodeActionOptions::default()
        })),
        code_lens_provider: Some(CodeLensOptions {
            resolve_provider: Some(false),
        }),
        execute_command_provider: Some(ExecuteCommandOptions {
            commands: vec![PREVIEW.to_owned(), LIMITS.to_owned()],
            ..ExecuteCommandOptions::default()
        }),
        workspace: Some(WorkspaceServerCapabilities {
            workspace_folders: Some(WorkspaceFoldersServerCapabilities {
                supported: Some(true),
                change_notifications: Some(OneOf::Left(true)),
            }),
            file_operations: None,
        }),
        ..ServerCapabilities::default()
    }
}

/// Returns whether a client understands edits with the versions of documents, and whether it renames files.
pub(crate) fn edit_support(params: &InitializeParams) -> (bool, bool) {
    let workspace = params.capabilities.workspace.as_ref();
    let Some(edit) = workspace.and_then(|workspace| workspace.workspace_edit.as_ref()) else {
        return (false, false);
    };
    let has_versions = edit.document_changes.unwrap_or_default();
    let operations = edit.resource_operations.as_deref().unwrap_or_default();
    let renames = has_versions && operations.contains(&ResourceOperationKind::Rename);
    (has_versions, renames)
}

/// Returns the request to report changes of files; `None` if the client cannot.
pub(crate) fn watch_registration(params: &InitializeParams) -> Option<RegistrationParams> {
    let workspace = params.capabilities.workspace.as_ref()?;
    let watched = workspace.did_change_watched_files.as_ref()?;
    watched.dynamic_registration.filter(|supported| *supported)?;
    let options = DidChangeWatchedFilesRegistrationOptions {
        watchers: vec![FileSystemWatcher {
            glob_pattern: GlobPattern::String(WATCHED.to_owned()),
            kind: None,
        }],
    };
    Some(RegistrationParams {
        registrations: vec![Registration {
            id: "files".to_owned(),
            method: DidChangeWatchedFiles::METHOD.to_owned(),
            register_options: serde_json::to_value(options).ok(),
        }],
    })
}
