//! The errors of requests to a Restate server.

use orchestra_restate::{BlobError, ClientError, LocalServer, LocalServerError, WorkerError};

use crate::error::{CliError, Exit};

/// Converts the error of a request.
pub(in crate::commands) fn client_error(error: &ClientError, program: &str) -> CliError {
    let converted = |code: &str| CliError::usage(code.to_owned(), error.to_string());
    match error {
        ClientError::Refused { code, status, .. } => match code.as_str() {
            "" => converted("refused").exit(Exit::RunFailed).help(format!(
                "the server answered {status}; is it a Restate server with workers of this version?"
            )),
            "no_worker" => converted(code)
                .exit(Exit::RunFailed)
                .help(format!("`{program} serve-restate` does both")),
            "unknown_pipeline" => converted(code).help(format!(
                "start a worker that has it with `{program} serve-restate`"
            )),
            "unknown_run" => converted(code).help("name the run by its complete id, as `run --on` printed it"),
            "worker_unreachable" => converted(code).exit(Exit::RunFailed).help(
                "`--url http://HOST:PORT` names the address at which the server reaches this machine; `--on` and `--admin` \
                 are addresses of the same server",
            ),
            "run_parked" => converted(code).exit(Exit::RunFailed),
            "pipeline_changed" => converted(code)
                .exit(Exit::Invalid)
                .help("undo the change; workers of the version before go on with the run"),
            "incompatible_state" => converted(code)
                .exit(Exit::Invalid)
                .help("`export` copies the run to a run folder, from which it can be replayed"),
            "contract_changed" => converted(code)
                .exit(Exit::Invalid)
                .help("start a new run, or make the inputs of the pipeline optional"),
            "child_in_progress" => converted(code)
                .help("resume the run as it is, and pause it again when the child run has ended"),
            _ => converted(code),
        },
        ClientError::Blob(error) => blob_error(error),
        // A request that was sent is kept until a worker runs.
        _ if error.to_string().contains("timed out") => {
            converted("no_answer").exit(Exit::RunFailed).help(format!(
                "perhaps no worker runs: start one with `{program} serve-restate`; the request may still take effect"
            ))
        }
        _ => converted("no_server").exit(Exit::RunFailed).help(format!(
            "start a server and a worker with `{program} serve-restate --with-server`; if no server is installed, \
             `{}`",
            LocalServer::INSTALL
        )),
    }
}

/// Converts an error of the store of blobs.
pub(in crate::commands) fn blob_error(error: &BlobError) -> CliError {
    let converted = CliError::usage("blobs", error.to_string());
    if let BlobError::Location { .. } = error {
        return converted
            .help("`--blobs` takes a folder, or `s3://BUCKET/PREFIX` with the feature `restate-s3`");
    }
    converted
        .exit(Exit::RunFailed)
        .help("`--blobs` names the store that all workers and clients of the server share")
}

/// Converts the error of a server on this machine.
pub(in crate::commands) fn local_server_error(error: &LocalServerError) -> CliError {
    let source = std::error::Error::source(error).map(|source| format!(": {source}"));
    let message = format!("{error}{}", source.unwrap_or_default());
    let converted = |code: &'static str| CliError::usage(code, message.clone()).exit(Exit::RunFailed);
    match error {
        LocalServerError::Port { .. } => converted("listen")
            .help("`--on http://127.0.0.1:PORT` and `--admin http://127.0.0.1:PORT` choose the ports"),
        LocalServerError::NotInstalled | LocalServerError::NotAFile { .. } => {
            converted("no_server").help("`ORCHESTRA_RESTATE_SERVER` names its program, if it is elsewhere")
        }
        LocalServerError::TooOld { .. } => converted("server_too_old"),
        _ => converted("server"),
    }
}

/// Converts the error of a worker that cannot work.
pub(in crate::commands) fn worker_error(error: &WorkerError) -> CliError {
    let converted = |code: &'static str| CliError::usage(code, error.to_string());
    match error {
        WorkerError::Pipeline(refusals) => {
            let no_model = refusals.list.iter().all(|refusal| refusal.code == "no_backend");
            converted("refused").exit(if no_model {
                Exit::Credentials
            } else {
                Exit::Invalid
            })
        }
        WorkerError::Pool(_) => converted("pool"),
        _ => converted("server").exit(Exit::RunFailed),
    }
}
