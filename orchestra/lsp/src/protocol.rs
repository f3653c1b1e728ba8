//! The types of the Language Server Protocol. Only this module imports the crates that define them.

pub(crate) use lsp_server::{ErrorCode, Message, Notification, Request, RequestId, Response};
pub(crate) use lsp_types::notification::{
    DidChangeConfiguration, DidChangeTextDocument, DidChangeWatchedFiles, DidChangeWorkspaceFolders,
    DidCloseTextDocument, DidOpenTextDocument, DidSaveTextDocument, Exit, Initialized,
    Notification as NotificationType, PublishDiagnostics, ShowMessage,
};
pub(crate) use lsp_types::request::{
    CodeActionRequest, CodeLensRequest, Completion, DocumentHighlightRequest, DocumentSymbolRequest,
    ExecuteCommand, FoldingRangeRequest, Formatting, GotoDefinition, HoverRequest, Initialize,
    PrepareRenameRequest, References, RegisterCapability, Rename, Request as RequestType,
    SemanticTokensFullRequest, Shutdown,
};
pub(crate) use lsp_types::{
    CodeAction, CodeActionKind, CodeActionOptions, CodeActionOrCommand, CodeActionProviderCapability,
    CodeLens, CodeLensOptions, Command, CompletionItem, CompletionItemKind, CompletionOptions,
    CompletionParams, CompletionResponse, CompletionTextEdit, Diagnostic, DiagnosticRelatedInformation,
    DiagnosticSeverity, DiagnosticTag, DidChangeWatchedFilesRegistrationOptions, DocumentChangeOperation,
    DocumentChanges, DocumentHighlight, DocumentHighlightKind, DocumentSymbol, DocumentSymbolResponse,
    Documentation, ExecuteCommandOptions, ExecuteCommandParams, FileSystemWatcher, FoldingRange,
    FoldingRangeKind, FoldingRangeProviderCapability, GlobPattern, GotoDefinitionResponse, Hover,
    HoverContents, HoverProviderCapability, InitializeParams, InitializeResult, InsertTextFormat, Location,
    MarkupContent, MarkupKind, MessageType, NumberOrString, OneOf, OptionalVersionedTextDocumentIdentifier,
    Position, PositionEncodingKind, PrepareRenameResponse, PublishDiagnosticsParams, Range, Registration,
    RegistrationParams, RenameFile, RenameOptions, ResourceOp, ResourceOperationKind, SemanticToken,
    SemanticTokenModifier, SemanticTokenType, SemanticTokens, SemanticTokensFullOptions,
    SemanticTokensLegend, SemanticTokensOptions, SemanticTokensResult, ServerCapabilities, ServerInfo,
    ShowMessageParams, SymbolKind, TextDocumentContentChangeEvent, TextDocumentEdit,
    TextDocumentPositionParams, TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions,
    TextDocumentSyncSaveOptions, TextEdit, Uri, WorkDoneProgressOptions, WorkspaceEdit,
    WorkspaceFoldersServerCapabilities, WorkspaceServerCapabilities,
};
