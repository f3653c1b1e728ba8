//! The HTTP server of Orchestra: shows runs, starts them, and answers their questions, for browsers and programs.
//!
//! # Glossary
//!
//! - **Page** (`/ui/`): the web page; its files are part of the program.
//! - **Token**: the secret that lets a program or a page in.
//! - **Session**: what a page receives in exchange for the token: a random cookie, and a key that requests send beside it.
//! - **Project** ([`Project`]): where the server finds pipelines, and how it runs them.
//! - **Definition** ([`Definition`]): a pipeline that can be started by name.
//! - **Workflow**: a station workflow of the project's database, with versions that never change.
//! - **Submission**: a pipeline that a client sends as text.
//! - **Webhook** ([`Webhook`]): the deliveries of another program that start runs of one pipeline.
//! - **Power**: what a pipeline does beyond asking models and people; submissions may have none by default.
//! - **Update**: the rows of a run that changed after a position in its events.
//! - **Feed**: the latest events of a run, which all its clients share.
//!
//! # Modules, in reading order
//!
//! - `error`: the errors of requests.
//! - `options`: the options of a server.
//! - `project`: [`Project`], and the compiled pipelines of a program.
//! - `webhook`: [`Webhook`].
//! - `stations`: the database of station workflows.
//! - `access`: hosts, origins, tokens and sessions.
//! - `live`: what clients receive while runs go on.
//! - `counters`: counters that never decrease.
//! - `app`: the state that all requests share.
//! - `guard`: the checks that every request passes.
//! - `reports`: what pages and programs read about runs.
//! - `page`: the files of the page.
//! - `routes`: the routes.
//! - `connections`: the connections and their limits.
//! - `server`: [`Server`].

mod access;
mod app;
mod bytes;
mod connections;
mod counters;
mod error;
mod guard;
mod live;
mod openapi;
mod options;
mod page;
mod project;
mod reports;
mod routes;
mod server;
mod stations;
mod webhook;

pub use options::{Submit, UnknownSubmit};
pub use project::{Definition, DefinitionKind, LoadedDefinition, Project, ProjectError};
pub use routes::description;
pub use server::{ListeningServer, Server, ServerError};
pub use webhook::{Webhook, WebhookError};
