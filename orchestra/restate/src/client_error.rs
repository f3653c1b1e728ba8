//! The errors of requests about runs.

use orchestra_engine::error_chain;

use crate::blobs::BlobError;
use crate::ingress::RequestError;

/// The code of the error that the server does not reach a worker.
pub(crate) const WORKER_UNREACHABLE: &str = "worker_unreachable";

/// An error of a request about a run.
///
/// ```
/// # fn print(error: orchestra_restate::ClientError) {
/// use orchestra_restate::ClientError;
/// if let ClientError::Refused { status, code, message } = &error {
///     println!("{status} {code}: {message}");
/// }
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The request was refused.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The code, such as `run_exists`.
        code: String,
        /// The reason.
        message: String,
    },
    /// No server answered, or it failed.
    #[error("{0}")]
    Server(String),
    /// A blob cannot be stored or read.
    #[error(transparent)]
    Blob(#[from] BlobError),
}

impl ClientError {
    pub(crate) fn http(error: reqwest::Error) -> ClientError {
        ClientError::Server(format!("no HTTP client can be created: {error}"))
    }

    pub(crate) fn unreadable(url: &str) -> ClientError {
        ClientError::Server(format!(
            "`{url}` gave an answer that cannot be understood; is it a Restate server of version 1.7 or newer?"
        ))
    }
}

impl From<RequestError> for ClientError {
    fn from(error: RequestError) -> ClientError {
        match error {
            RequestError::Refused { status, message } => {
                let (code, rest) = match message.split_once(": ") {
                    Some((code, rest)) if !code.contains(' ') => (code.to_owned(), rest.to_owned()),
                    // The server itself answers so where no worker was registered.
                    _ if status == 404 => ("no_worker".to_owned(), no_worker(&message)),
                    _ => (String::new(), message),
                };
                ClientError::Refused {
                    status,
                    code,
                    message: rest,
                }
            }
            error => ClientError::Server(error_chain(&error)),
        }
    }
}

fn no_worker(message: &str) -> String {
    format!("the server knows no worker of runs; start one and register it ({message})")
}
