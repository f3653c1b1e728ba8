//! The routes of the server.

mod changes;
mod compare;
mod context;
mod definitions;
mod files;
mod gates;
mod graph;
mod hooks;
mod metrics;
mod once;
mod pipelines;
mod powers;
mod reachable;
mod request;
mod runs;
mod session;
mod stations;
mod submit;
mod what_if;

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Router};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;
use crate::error::ApiError;
use crate::guard::{guard, protect_page};
use crate::openapi::Description;
use crate::{openapi, page};

/// The description of the API.
static DESCRIPTION: LazyLock<Value> = LazyLock::new(|| openapi::complete(routes().into_openapi()));

/// Returns the description of the API (OpenAPI 3.1), which the server returns at `/api/v1/openapi.json`.
///
/// ```
/// let description = orchestra_server::description();
/// assert_eq!(description["paths"]["/pipelines/{id}"]["get"]["tags"][0], "attractor");
/// ```
pub fn description() -> &'static Value {
    &DESCRIPTION
}

/// Returns the routes of the API with their descriptions.
fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .merge(pipelines::routes())
        .merge(submit::routes())
        .merge(graph::routes())
        .merge(gates::routes())
        .merge(context::routes())
        .merge(session::routes())
        .merge(runs::routes())
        .merge(what_if::routes())
        .merge(reachable::routes())
        .merge(compare::routes())
        .merge(files::routes())
        .merge(definitions::routes())
        .merge(hooks::routes())
        .merge(changes::routes())
        .merge(metrics::routes())
        .merge(stations::routes())
}

/// Returns the router of a server.
pub(crate) fn router(app: Arc<App>) -> Router {
    let api = Router::from(routes())
        .layer(Extension(Description(description())))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method);
    let pages = Router::new()
        .route("/", get(page::redirect))
        .route("/ui", get(page::redirect))
        .route("/ui/", get(page::index))
        .route("/ui/{*path}", get(page::asset))
        .layer(middleware::from_fn(protect_page));
    api.merge(pages)
        .layer(middleware::from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

async fn unknown_path(State(_): State<Arc<App>>, uri: Uri) -> Response {
    let message = format!("there is nothing at `{}`", uri.path().escape_debug());
    ApiError::new(StatusCode::NOT_FOUND, "unknown_path", message).into_response()
}

async fn wrong_method(uri: Uri) -> Response {
    let message = format!("`{}` does not accept this method", uri.path().escape_debug());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message).into_response()
}
