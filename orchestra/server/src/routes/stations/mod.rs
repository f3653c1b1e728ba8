//! Station workflows: their versions, their executions and their analytics.

mod analytics;
mod conditions;
mod executions;
mod running;
mod store;
mod versions;
mod workflows;

use std::sync::Arc;

use utoipa_axum::router::OpenApiRouter;

use crate::app::App;

pub(super) use running::{
    definitions, entry_of_run, files, is_of_version, load_definition, named, names, start,
};

/// Returns the routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .merge(workflows::routes())
        .merge(versions::routes())
        .merge(analytics::routes())
        .merge(executions::routes())
}
