//! Runs of Orchestra on a distributed engine: the same compiled pipeline, on many workers.
//!
//! A run is an object of the durable engine. Each event of its machine is a *turn*: the state is loaded, the message is
//! applied, the state is stored, and what follows is sent. Attempts of stages are executed by workers, with an
//! [`AttemptHost`](orchestra_engine::AttemptHost).
//!
//! # Modules, in reading order
//!
//! Pure:
//!
//! - `state`: the state of a run between two turns.
//! - `message`: the messages of a run, and what a turn sends.
//! - `change`: the adaptation of a state and of messages to a changed pipeline.
//! - `turn`: one turn, without effects of its own.
//!
//! Storage and requests:
//!
//! - `blobs`: the store of large values, texts and events.
//! - `blob_location`: the store at a location that a person names.
//! - `packing`: the replacement of large values by references to blobs.
//! - `wire`: the requests between clients, workers and objects.
//! - `names`: numbered keys of the state of an object.
//! - `secret`: unpredictable names.
//! - `refusal`: the refusals of requests, with their HTTP statuses and codes.
//! - `ingress`: the HTTP client of handlers.
//! - `client_error`: the errors of requests about runs.
//!
//! Workers:
//!
//! - `hosts`: the pipelines of a worker, and the versions that runs began with.
//! - `workspaces`: the files on which the runs of a pool work.
//! - `served_pools`: the pools for which workers are registered.
//! - `shared`: what all services of a worker share.
//! - `inline`: the attempts that a turn executes itself.
//! - `run_object`: the object of a run, which takes turns.
//! - `attempt_object`: the object of an attempt, which keeps its notes.
//! - `reporter`: the reports of a worker, of which those to one run are sent together.
//! - `port`: the connection of an attempt to its run.
//! - `stage_service`: the service that executes attempts.
//! - `readiness`: the service that shows that a worker is reached.
//! - `worker`: the server of these objects and services.
//!
//! Clients and servers:
//!
//! - `admin`: the administration of a server.
//! - `client`: the client of runs.
//! - `export`: copies of runs as run folders.
//! - `local_server`: a Restate server on this machine, as a child process.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod admin;
mod attempt_object;
mod blob_location;
mod blobs;
mod change;
mod client;
mod client_error;
mod export;
mod hosts;
mod ingress;
mod inline;
mod local_server;
mod message;
mod names;
mod packing;
mod port;
mod readiness;
mod refusal;
mod reporter;
mod run_object;
mod secret;
mod served_pools;
mod shared;
mod stage_service;
mod state;
mod turn;
mod wire;
mod worker;
mod workspaces;

pub use admin::Admin;
pub use blobs::{BlobError, Blobs};
pub use client::{Client, RemoteStart};
pub use client_error::ClientError;
pub use export::{ExportError, Exported, Exporter, SyncReport};
pub use local_server::{LocalServer, LocalServerBuilder, LocalServerError};
pub use message::{Finished, Message, Outgoing, Refused, Reply, Report, Sent, Turn};
pub use state::{AttemptQuestion, LiveStage, LiveTimer, PROTOCOL, Phase, Reserved, RunState, Withheld};
pub use turn::{Start, start, turn};
pub use wire::{RemoteResult, RemoteStatus};
pub use worker::{Worker, WorkerBuilder, WorkerError};
