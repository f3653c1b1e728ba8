//! Pictures of the graph of a run.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use orchestra_engine::RunFolder;
use orchestra_graph::{Graph, NodeState, PictureOptions, print_mermaid};
use orchestra_picture::{Scene, scene};
use orchestra_sessions::NodeTotals;
use schemars::JsonSchema;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::request::Query;
use crate::app::{App, blocking};
use crate::error::ApiError;
use crate::openapi::described;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(graph))
}

described!(Reply: Picture);

/// The layout of a pipeline.
#[derive(Serialize, JsonSchema)]
struct Picture(Scene);

/// The policy of a picture: its styles are its own.
const SVG_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox";

/// The form of a picture.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Scene,
    Svg,
    Dot,
    Mermaid,
    Source,
}

impl Format {
    fn parse(word: &str) -> Option<Format> {
        Some(match word {
            "scene" => Format::Scene,
            "svg" => Format::Svg,
            "dot" => Format::Dot,
            "mermaid" => Format::Mermaid,
            "source" => Format::Source,
            _ => return None,
        })
    }

    const fn media_type(self) -> &'static str {
        match self {
            Format::Scene => "application/json",
            Format::Svg => "image/svg+xml",
            Format::Dot => "text/vnd.graphviz; charset=utf-8",
            Format::Mermaid | Format::Source => "text/plain; charset=utf-8",
        }
    }
}

/// Returns a picture of the pipeline of a run, with the states of its nodes (Attractor 9.5).
#[utoipa::path(
    get, path = "/pipelines/{id}/graph", operation_id = "get_graph", tag = "attractor",
    params(
        ("format" = Option<String>, Query, description =
            "`svg` (the default), `dot`, `mermaid`, `scene` (the layout without states), or `source` (the file)."),
        ("If-None-Match" = Option<String>, Header, description = "The entity tag of an earlier reply."),
    ),
    responses(
        (status = 200, description = "The picture.", content(
            (String = "image/svg+xml"), (String = "text/vnd.graphviz"), (String = "text/plain"),
            (Picture = "application/json"),
        )),
        (status = 304, description = "The picture has not changed."),
        (status = 404, description = "`unknown_run`"),
        (status = 422, description = "`picture_too_large`"),
    ),
)]
pub(super) async fn graph(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, ApiError> {
    let query = Query::of(&uri, &["format"])?;
    let format = query.text("format").unwrap_or("svg");
    let format = Format::parse(format).ok_or_else(|| {
        ApiError::malformed(format!("unknown format `{}`", format.escape_debug()))
            .help("the formats are svg, dot, mermaid, scene and source")
    })?;
    let (session, folder) = app.folder(&id).await?;
    let totals = match format {
        Format::Scene | Format::Source => Vec::new(),
        _ => {
            let run = session.run.to_string();
            app.index(move |index| index.node_totals(&run)).await?
        }
    };
    let transforms = app.project.transforms();
    let _drawing = app.drawings.acquire().await;
    let text = blocking(move || draw(&folder, transforms, format, totals)).await??;
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let tag = format!("\"{:016x}\"", hasher.finish());
    let is_known = headers
        .get(IF_NONE_MATCH)
        .is_some_and(|known| known == tag.as_str());
    let common = [(ETAG, tag), (CACHE_CONTROL, "no-cache".to_owned())];
    if is_known {
        return Ok((StatusCode::NOT_MODIFIED, common).into_response());
    }
    let own = [
        (CONTENT_TYPE, format.media_type()),
        (CONTENT_SECURITY_POLICY, SVG_POLICY),
    ];
    Ok((StatusCode::OK, common, own, text).into_response())
}

fn draw(
    folder: &RunFolder,
    transforms: Vec<Arc<dyn orchestra_graph::Transform>>,
    format: Format,
    totals: Vec<NodeTotals>,
) -> Result<String, ApiError> {
    if format == Format::Source {
        return Ok(folder.manifest().pipeline.source.clone());
    }
    let loaded = folder.load_pipeline(&transforms);
    let graph = &loaded.graph;
    let mut options = PictureOptions::default();
    if format != Format::Scene {
        let pending = graph
            .nodes
            .iter()
            .map(|node| (node.id.to_string(), NodeState::Pending));
        options.states.extend(pending);
        options
            .states
            .extend(totals.into_iter().map(|totals| (totals.node, totals.state)));
    }
    match format {
        Format::Scene => {
            let scene = scene_of(graph)?;
            Ok(serde_json::to_string(&Picture(scene)).unwrap_or_default())
        }
        Format::Dot => Ok(orchestra_picture::dot(graph, &options)),
        Format::Mermaid => Ok(print_mermaid(graph, &options)),
        _ => orchestra_picture::svg(graph, &options).map_err(|error| too_large(&error)),
    }
}

/// Returns the scene of a graph without states.
pub(super) fn scene_of(graph: &Graph) -> Result<Scene, ApiError> {
    scene(graph, &PictureOptions::default()).map_err(|error| too_large(&error))
}

fn too_large(error: &orchestra_picture::PictureError) -> ApiError {
    ApiError::unprocessable(
        "picture_too_large",
        format!("the pipeline cannot be drawn: {error}"),
    )
}
