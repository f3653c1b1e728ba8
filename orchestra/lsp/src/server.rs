//! The loop, the life cycle and the dispatch of messages.

use std::io::{self, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::actions::actions;
use crate::capabilities::{capabilities, edit_support, watch_registration};
use crate::formatting::format_edits;
use crate::hints::{complete_at, hover_at, replaces_placeholders};
use crate::host::Host;
use crate::lens::{LIMITS, PREVIEW, lenses, limits, preview};
use crate::outline::{folds, symbols};
use crate::paths::path_from_uri;
use crate::protocol::*;
use crate::settings::Settings;
use crate::text::Encoding;
use crate::tokens::tokens;
use crate::transport::{self, Input, Output};
use crate::workspace::Workspace;

/// Changed files are analysed after this multiple of the delay although more changes arrive.
const LONGEST_DELAY: u32 = 10;
/// The number of messages that are read ahead.
const READ_AHEAD: usize = 256;
/// The requests to the client, each with its own id.
const WATCH_REQUEST: &str = "orchestra/watch";

/// The reason why a server ended.
///
/// ```
/// assert_ne!(orchestra_lsp::Ended::Exit, orchestra_lsp::Ended::EndOfInput);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// The client sent `shutdown` and then `exit`.
    Exit,
    /// The client sent `exit` without `shutdown`.
    ExitWithoutShutdown,
    /// The input ended.
    EndOfInput,
}

/// The reason why a server could not go on.
///
/// ```
/// use orchestra_lsp::ServeError;
/// let error = ServeError::Io(std::io::Error::other("no thread"));
/// assert_eq!(error.to_string(), "the language server cannot go on: no thread");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A thread could not be started, or the output could not be written.
    #[error("the language server cannot go on: {0}")]
    Io(#[from] io::Error),
}

/// Serves a client until it sends `exit` or the input ends.
///
/// Invalid messages are answered with an error, as far as the protocol allows it; they never end the server.
///
/// ```
/// use orchestra_graph::ReadError;
/// use orchestra_lsp::{Ended, Host, serve};
/// struct Nothing;
/// impl Host for Nothing {
///     fn read(&self, _path: &str, _limit: u64) -> Result<Vec<u8>, ReadError> {
///         Err(ReadError::Missing)
///     }
/// }
/// let body = r#"{"jsonrpc":"2.0","method":"exit"}"#;
/// let input = format!("Content-Length: {}\r\n\r\n{body}", body.len());
/// let ended = serve(std::io::Cursor::new(input), std::io::sink(), &Nothing)?;
/// assert_eq!(ended, Ended::ExitWithoutShutdown);
/// # Ok::<(), orchestra_lsp::ServeError>(())
/// ```
///
/// # Errors
/// Fails if a thread cannot be started or the output cannot be written.
pub fn serve(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    host: &dyn Host,
) -> Result<Ended, ServeError> {
    let (sender, messages) = sync_channel(READ_AHEAD);
    let (output_sender, outgoing) = channel();
    // Reading and writing have threads of their own, so that a client that does not read while it writes cannot block.
    thread::Builder::new()
        .name("lsp-reader".to_owned())
        .spawn(move || read_all(input, &sender))?;
    let writer = thread::Builder::new()
        .name("lsp-writer".to_owned())
        .spawn(move || write_all(output, &outgoing))?;
    let ended = Server::new(host, output_sender).run(&messages);
    match writer.join() {
        Ok(written) => written?,
        Err(_) => return Err(io::Error::other("the writer ended").into()),
    }
    Ok(ended)
}

fn read_all(input: impl Read, sender: &SyncSender<Input>) {
    let mut input = BufReader::new(input);
    loop {
        let next = transport::read(&mut input).unwrap_or(Input::End);
        let last = match &next {
            Input::End => true,
            Input::Message(Message::Notification(notification)) => notification.method == Exit::METHOD,
            _ => false,
        };
        if sender.send(next).is_err() || last {
            return;
        }
    }
}

fn write_all(mut output: impl Write, outgoing: &Receiver<Output>) -> io::Result<()> {
    for message in outgoing {
        transport::write(&mut output, message)?;
    }
    Ok(())
}

/// The life cycle of a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Created,
    Running,
    ShutDown,
}

/// The reason why a request is not answered.
struct Failure(ErrorCode, String);

/// A result of a request.
type Answer<T> = Result<T, Failure>;

struct Server<'h> {
    workspace: Workspace<'h>,
    output: Sender<Output>,
    phase: Phase,
    /// The request that is sent after the client is initialized.
    watch: Option<RegistrationParams>,
    /// The first and the last change that is not analysed yet.
    changes: Option<(Instant, Instant)>,
}

impl<'h> Server<'h> {
    fn new(host: &'h dyn Host, output: Sender<Output>) -> Server<'h> {
        Server {
            workspace: Workspace::new(host),
            output,
            phase: Phase::Created,
            watch: None,
            changes: None,
        }
    }

    fn run(mut self, messages: &Receiver<Input>) -> Ended {
        loop {
            let next = match self.wait() {
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(wait) => messages.recv_timeout(wait),
            };
            match next {
                Ok(Input::Message(Message::Notification(notification)))
                    if notification.method == Exit::METHOD =>
                {
                    return match self.phase {
                        Phase::ShutDown => Ended::Exit,
                        _ => Ended::ExitWithoutShutdown,
                    };
                }
                Ok(Input::Message(message)) => self.message(message),
                Ok(Input::Invalid(reason)) => self.output(Output::Invalid(reason)),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => return Ended::EndOfInput,
            }
            if self.wait().is_some_and(|wait| wait.is_zero()) {
                self.publish();
            }
        }
    }

    /// Returns the time to wait until changed files are analysed; `None` if there are none.
    fn wait(&self) -> Option<Duration> {
        let (first, last) = self.changes?;
        let delay = Duration::from_millis(self.workspace.settings.delay.min(60_000));
        let due = (last + delay).min(first + delay * LONGEST_DELAY);
        Some(due.saturating_duration_since(Instant::now()))
    }

    fn changed(&mut self) {
        let now = Instant::now();
        let first = self.changes.map_or(now, |(first, _)| first);
        self.changes = Some((first, now));
    }

    fn publish(&mut self) {
        self.changes = None;
        for params in self.workspace.diagnostics() {
            self.notify::<PublishDiagnostics>(params);
        }
    }

    fn send(&self, message: impl Into<Message>) {
        self.output(Output::Message(message.into()));
    }

    fn output(&self, output: Output) {
        // The writer ends only if the output cannot be written. The reason is returned at the end.
        let _ = self.output.send(output);
    }

    fn notify<N: NotificationType>(&self, params: N::Params)
    where
        N::Params: serde::Serialize,
    {
        let params = serde_json::to_value(params).unwrap_or_default();
        self.send(Notification {
            method: N::METHOD.to_owned(),
            params,
        });
    }

    fn show(&self, typ: MessageType, message: String) {
        self.notify::<ShowMessage>(ShowMessageParams { typ, message });
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::Request(request) => {
                let id = request.id.clone();
                let response = match self.request(request) {
                    Ok(value) => Response::new_ok(id, value),
                    Err(Failure(code, message)) => Response::new_err(id, code as i32, message),
                };
                self.send(response);
            }
            Message::Notification(notification) => self.notification(notification),
            Message::Response(_) => {}
        }
    }

    fn request(&mut self, request: Request) -> Answer<Value> {
        match self.phase {
            Phase::Created if request.method == Initialize::METHOD => {
                return answer::<Initialize>(request, |params| Ok(self.initialize(params)));
            }
            Phase::Created => {
                let message = "the first request must be `initialize`".to_owned();
                return Err(Failure(ErrorCode::ServerNotInitialized, message));
            }
            Phase::Running => {}
            Phase::ShutDown => {
                let message = "the server is shut down; only `exit` may follow".to_owned();
                return Err(Failure(ErrorCode::InvalidRequest, message));
            }
        }
        match request.method.as_str() {
            Initialize::METHOD => {
                let message = "the server is already initialized".to_owned();
                Err(Failure(ErrorCode::InvalidRequest, message))
            }
            Shutdown::METHOD => {
                self.phase = Phase::ShutDown;
                Ok(Value::Null)
            }
            HoverRequest::METHOD => answer::<HoverRequest>(request, |params| {
                Ok(hover_at(
                    &mut self.workspace,
                    &params.text_document_position_params,
                ))
            }),
            Completion::METHOD => answer::<Completion>(request, |params| {
                let items = complete_at(&mut self.workspace, &params);
                Ok(items.map(CompletionResponse::Array))
            }),
            Formatting::METHOD => answer::<Formatting>(request, |params| {
                let opened = self.workspace.opened(&params.text_document.uri);
                Ok(opened.map(|opened| format_edits(&opened.text, opened.encoding)))
            }),
            DocumentSymbolRequest::METHOD => answer::<DocumentSymbolRequest>(request, |params| {
                let opened = self.workspace.opened(&params.text_document.uri);
                Ok(opened.map(|opened| DocumentSymbolResponse::Nested(symbols(&opened))))
            }),
            FoldingRangeRequest::METHOD => answer::<FoldingRangeRequest>(request, |params| {
                let opened = self.workspace.opened(&params.text_document.uri);
                Ok(opened.map(|opened| folds(&opened)))
            }),
            SemanticTokensFullRequest::METHOD => answer::<SemanticTokensFullRequest>(request, |params| {
                let opened = self.workspace.opened(&params.text_document.uri);
                Ok(opened.map(|opened| {
                    SemanticTokensResult::Tokens(SemanticTokens {
                        result_id: None,
                        data: tokens(&opened),
                    })
                }))
            }),
            CodeActionRequest::METHOD => answer::<CodeActionRequest>(request, |params| {
                let wanted = params.context.only.as_deref();
                let document = self.workspace.reported(&params.text_document.uri);
                let list = document.map(|document| actions(&document, params.range, wanted));
                Ok(list.map(|list| list.into_iter().map(CodeActionOrCommand::CodeAction).collect()))
            }),
            CodeLensRequest::METHOD => answer::<CodeLensRequest>(request, |params| {
                let opened = self.workspace.opened(&params.text_document.uri);
                Ok(opened.map(|opened| lenses(&opened, &self.workspace.settings)))
            }),
            GotoDefinition::METHOD => answer::<GotoDefinition>(request, |params| {
                let at = params.text_document_position_params;
                Ok(self.workspace.definition(&at.text_document.uri, at.position))
            }),
            References::METHOD => answer::<References>(request, |params| {
                let at = params.text_document_position;
                let with_declarations = params.context.include_declaration;
                Ok(self
                    .workspace
                    .references(&at.text_document.uri, at.position, with_declarations))
            }),
            DocumentHighlightRequest::METHOD => answer::<DocumentHighlightRequest>(request, |params| {
                let at = params.text_document_position_params;
                Ok(self.workspace.highlights(&at.text_document.uri, at.position))
            }),
            PrepareRenameRequest::METHOD => answer::<PrepareRenameRequest>(request, |params| {
                let found = self
                    .workspace
                    .prepare_rename(&params.text_document.uri, params.position);
                found.map_err(refused)
            }),
            Rename::METHOD => answer::<Rename>(request, |params| {
                let at = params.text_document_position;
                let renamed = self
                    .workspace
                    .rename(&at.text_document.uri, at.position, &params.new_name)
                    .map_err(refused)?;
                Ok(renamed.map(|renamed| {
                    for note in renamed.notes {
                        self.show(MessageType::INFO, note);
                    }
                    renamed.edit
                }))
            }),
            ExecuteCommand::METHOD => answer::<ExecuteCommand>(request, |params| self.execute(&params)),
            method => {
                let message = format!("unknown request `{method}`");
                Err(Failure(ErrorCode::MethodNotFound, message))
            }
        }
    }

    fn initialize(&mut self, params: InitializeParams) -> InitializeResult {
        self.phase = Phase::Running;
        self.watch = watch_registration(&params);
        (self.workspace.versions_edits, self.workspace.renames_files) = edit_support(&params);
        self.workspace.placeholders = replaces_placeholders(&params);
        let general = params.capabilities.general.as_ref();
        let offered = general.and_then(|general| general.position_encodings.as_deref());
        self.workspace.encoding = Encoding::negotiate(offered.unwrap_or_default());
        if let Some(settings) = params.initialization_options.and_then(Settings::from_json) {
            self.workspace.settings = settings;
        }
        let folders = params.workspace_folders.unwrap_or_default();
        let mut folders: Vec<String> = folders.iter().map(|folder| path_from_uri(&folder.uri)).collect();
        #[expect(deprecated, reason = "older clients send nothing else")]
        if let (true, Some(root)) = (folders.is_empty(), &params.root_uri) {
            folders.push(path_from_uri(root));
        }
        self.workspace.files.folders = folders;
        InitializeResult {
            capabilities: capabilities(self.workspace.encoding),
            server_info: Some(ServerInfo {
                name: "orchestra".to_owned(),
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            }),
        }
    }

    fn execute(&mut self, params: &ExecuteCommandParams) -> Answer<Option<Value>> {
        let invalid = |message: String| Failure(ErrorCode::InvalidParams, message);
        let argument = params
            .arguments
            .first()
            .and_then(Value::as_str)
            .unwrap_or_default();
        let opened = argument.parse().ok().and_then(|uri| self.workspace.opened(&uri));
        let opened = || {
            opened
                .as_ref()
                .ok_or_else(|| invalid(format!("`{argument}` is not an open pipeline")))
        };
        match params.command.as_str() {
            PREVIEW => preview(opened()?).map(Some).map_err(invalid),
            LIMITS => {
                let text = limits(opened()?).map_err(invalid)?;
                self.show(MessageType::INFO, text.clone());
                Ok(Some(text.into()))
            }
            command => Err(invalid(format!("unknown command `{command}`"))),
        }
    }

    fn notification(&mut self, notification: Notification) {
        if self.phase != Phase::Running {
            return;
        }
        match notification.method.as_str() {
            Initialized::METHOD => {
                if let Some(params) = self.watch.take() {
                    let params = serde_json::to_value(params).unwrap_or_default();
                    self.send(Request {
                        id: RequestId::from(WATCH_REQUEST.to_owned()),
                        method: RegisterCapability::METHOD.to_owned(),
                        params,
                    });
                }
            }
            DidOpenTextDocument::METHOD => {
                if let Some(params) = self.params::<DidOpenTextDocument>(notification) {
                    let document = params.text_document;
                    self.workspace.open(document.uri, document.version, document.text);
                    self.changed();
                }
            }
            DidChangeTextDocument::METHOD => {
                if let Some(params) = self.params::<DidChangeTextDocument>(notification) {
                    let document = params.text_document;
                    self.workspace
                        .change(&document.uri, document.version, params.content_changes);
                    self.changed();
                }
            }
            DidCloseTextDocument::METHOD => {
                if let Some(params) = self.params::<DidCloseTextDocument>(notification) {
                    self.workspace.close(&params.text_document.uri);
                    self.changed();
                }
            }
            DidSaveTextDocument::METHOD => {
                if let Some(params) = self.params::<DidSaveTextDocument>(notification) {
                    self.workspace.changed(&path_from_uri(&params.text_document.uri));
                    self.changed();
                }
            }
            DidChangeWatchedFiles::METHOD => {
                if let Some(params) = self.params::<DidChangeWatchedFiles>(notification) {
                    for change in params.changes {
                        self.workspace.changed(&path_from_uri(&change.uri));
                    }
                    self.changed();
                }
            }
            DidChangeWorkspaceFolders::METHOD => {
                if let Some(params) = self.params::<DidChangeWorkspaceFolders>(notification) {
                    let removed: Vec<String> = params
                        .event
                        .removed
                        .iter()
                        .map(|folder| path_from_uri(&folder.uri))
                        .collect();
                    let folders = &mut self.workspace.files.folders;
                    folders.retain(|folder| !removed.contains(folder));
                    folders.extend(params.event.added.iter().map(|folder| path_from_uri(&folder.uri)));
                    self.workspace.changed_all();
                    self.changed();
                }
            }
            DidChangeConfiguration::METHOD => {
                if let Some(params) = self.params::<DidChangeConfiguration>(notification)
                    && let Some(settings) = Settings::from_json(params.settings)
                {
                    self.workspace.settings = settings;
                    self.workspace.changed_all();
                    self.changed();
                }
            }
            _ => {}
        }
    }

    /// Returns the parameters of a notification. Notifications have no answer, so invalid ones are shown.
    fn params<N: NotificationType>(&self, notification: Notification) -> Option<N::Params>
    where
        N::Params: serde::de::DeserializeOwned,
    {
        match serde_json::from_value(notification.params) {
            Ok(params) => Some(params),
            Err(error) => {
                self.show(MessageType::ERROR, format!("invalid `{}`: {error}", N::METHOD));
                None
            }
        }
    }
}

/// Returns the failure of a request that cannot be fulfilled, with its reason.
fn refused(reason: String) -> Failure {
    Failure(ErrorCode::RequestFailed, reason)
}

/// Decodes the parameters of a request, and encodes its result.
fn answer<R: RequestType>(
    request: Request,
    handle: impl FnOnce(R::Params) -> Answer<R::Result>,
) -> Answer<Value>
where
    R::Params: serde::de::DeserializeOwned,
    R::Result: serde::Serialize,
{
    let params = serde_json::from_value(request.params).map_err(|error| {
        Failure(
            ErrorCode::InvalidParams,
            format!("invalid `{}`: {error}", R::METHOD),
        )
    })?;
    let result = handle(params)?;
    serde_json::to_value(result).map_err(|error| Failure(ErrorCode::InternalError, error.to_string()))
}
