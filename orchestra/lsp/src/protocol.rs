//! The types of the Language Server Protocol. Only this module imports the crates that define them.

pub(crate) use lsp_server::{ErrorCode, Message, Notification, Request, RequestId, Response};
pub(crate) use lsp_types::notification::{
    DidChangeConfiguration, DidChangeTextDocument, DidChangeWatchedFiles, DidChangeWorkspaceFolders,
    DidCloseTextDocument, DidOpenTextDocument, DidSaveTextDocument, Exit, Initialized,
    Notification as NotificationType, PublishDiagnostics, ShowMessage,
};
pub(crate) use lsp_types::request::{
    CodeActionRequest, CodeLensRequest, DocumentHighlightRequest, DocumentSymbolRequest, ExecuteCommand,
    FoldingRangeRequest, Formatting, GotoDefinition, Initialize, PrepareRenameRequest, References,
    RegisterCapability, Rename, Request as RequestType, SemanticTokensFullRequest, Shutdown,
};
pub(crate) use lsp_types::{
    CodeAction, CodeActionKind, CodeActionOptions, CodeActionOrCommand, CodeActionProviderCapability,
    CodeLens, CodeLensOptions, Command, Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity,
    DiagnosticTag, DidChangeWatchedFilesRegistrationOptions, DocumentChangeOperation, DocumentChanges,
    DocumentHighlight, DocumentHighlightKind, DocumentSymbol, DocumentSymbolResponse, ExecuteCommandOptions,
    ExecuteCommandParams, FileSystemWatcher, FoldingRange, FoldingRangeKind, FoldingRangeProviderCapability,
    GlobPattern, GotoDefinitionResponse, InitializeParams, InitializeResult, Location, MessageType,
    NumberOrString, OneOf, OptionalVersionedTextDocumentIdentifier, Position, PositionEncodingKind,
    PrepareRenameResponse, PublishDiagnosticsParams, Range, Registration, RegistrationParams, RenameFile,
    RenameOptions, ResourceOp, ResourceOperationKind, SemanticToken, SemanticTokenModifier,
    SemanticTokenType, SemanticTokens, SemanticTokensFullOptions, SemanticTokensLegend,
    SemanticTokensOptions, SemanticTokensResult, ServerCapabilities, ServerInfo, ShowMessageParams,
    SymbolKind, TextDocumentContentChangeEvent, TextDocumentEdit, TextDocumentSyncCapability,
    TextDocumentSyncKind, TextDocumentSyncOptions, TextDocumentSyncSaveOptions, TextEdit, Uri,
    WorkDoneProgressOptions, WorkspaceEdit, WorkspaceFoldersServerCapabilities, WorkspaceServerCapabilities,
};
