//! The types of the Language Server Protocol. Only this module imports the crates that define them.

pub(crate) use lsp_server::{ErrorCode, Message, Notification, Request, RequestId, Response};
pub(crate) use lsp_types::notification::{
    DidChangeConfiguration, DidChangeTextDocument, DidChangeWatchedFiles, DidChangeWorkspaceFolders,
    DidCloseTextDocument, DidOpenTextDocument, DidSaveTextDocument, Exit, Initialized,
    Notification as NotificationType, PublishDiagnostics, ShowMessage,
};
pub(crate) use lsp_types::request::{
    CodeActionRequest, CodeLensRequest, DocumentSymbolRequest, ExecuteCommand, FoldingRangeRequest,
    Formatting, Initialize, RegisterCapability, Request as RequestType, SemanticTokensFullRequest, Shutdown,
};
pub(crate) use lsp_types::{
    CodeAction, CodeActionKind, CodeActionOptions, CodeActionOrCommand, CodeActionProviderCapability,
    CodeLens, CodeLensOptions, Command, Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity,
    DiagnosticTag, DidChangeWatchedFilesRegistrationOptions, DocumentSymbol, DocumentSymbolResponse,
    ExecuteCommandOptions, ExecuteCommandParams, FileSystemWatcher, FoldingRange, FoldingRangeKind,
    FoldingRangeProviderCapability, GlobPattern, InitializeParams, InitializeResult, Location, MessageType,
    NumberOrString, OneOf, Position, PositionEncodingKind, PublishDiagnosticsParams, Range, Registration,
    RegistrationParams, SemanticToken, SemanticTokenModifier, SemanticTokenType, SemanticTokens,
    SemanticTokensFullOptions, SemanticTokensLegend, SemanticTokensOptions, SemanticTokensResult,
    ServerCapabilities, ServerInfo, ShowMessageParams, SymbolKind, TextDocumentContentChangeEvent,
    TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions, TextDocumentSyncSaveOptions,
    TextEdit, Uri, WorkspaceEdit, WorkspaceFoldersServerCapabilities, WorkspaceServerCapabilities,
};
