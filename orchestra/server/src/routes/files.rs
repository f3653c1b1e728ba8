//! The files of a run: prompts, responses, outputs and artifacts.

use std::io::Read as _;
use std::path::{Component, Path as FilePath};
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use schemars::JsonSchema;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::request::Query;
use crate::app::{App, blocking};
use crate::bytes::{from_hexadecimal, hexadecimal};
use crate::error::{ApiError, json_response};
use crate::openapi::described;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(file))
}

described!(Reply: Files);

/// Maximum number of files in the list.
const MAX_FILES: usize = 5_000;

/// Maximum depth of folders.
const MAX_DEPTH: usize = 12;

/// Maximum size of a file that is sent, in bytes.
const MAX_SIZE: u64 = 16 << 20;

/// A file of a run.
#[derive(Serialize, JsonSchema)]
struct RunFileRow {
    /// The id, by which the file is read.
    id: String,
    /// The path in the folder of the run.
    path: String,
    /// The size in bytes.
    size: u64,
    /// The media type.
    media_type: &'static str,
    /// `true` if a browser may show the file; otherwise it is downloaded.
    inline: bool,
}

/// The files of a run.
#[derive(Serialize, JsonSchema)]
struct Files {
    /// The files, sorted by path.
    files: Vec<RunFileRow>,
}

/// Lists the files of a run.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}/files", operation_id = "list_files", tag = "runs",
    responses(
        (status = 200, description = "The files.", body = Files),
        (status = 404, description = "`unknown_run`"),
    ),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let folder = app.session(&id).await?.folder;
    let files = blocking(move || {
        let root = Dir::open_ambient_dir(folder, ambient_authority()).map_err(unreadable)?;
        let mut files = Vec::new();
        collect(&root, "", 0, &mut files);
        files.sort_by(|a: &RunFileRow, b| a.path.cmp(&b.path));
        Ok::<_, ApiError>(files)
    });
    let files = files.await??;
    Ok(json_response(StatusCode::OK, &Files { files }))
}

/// Adds the files below a folder. Links are not followed, and names that are not text are left out.
fn collect(folder: &Dir, prefix: &str, depth: usize, files: &mut Vec<RunFileRow>) {
    let Ok(entries) = folder.entries() else {
        return;
    };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let path = format!("{prefix}{name}");
        if kind.is_dir() && depth < MAX_DEPTH {
            if let Ok(below) = entry.open_dir() {
                collect(&below, &format!("{path}/"), depth + 1, files);
            }
        } else if kind.is_file() && files.len() < MAX_FILES {
            let (media_type, inline) = media_type(&path);
            files.push(RunFileRow {
                id: hexadecimal(path.as_bytes()),
                size: entry.metadata().map_or(0, |found| found.len()),
                media_type,
                inline,
                path,
            });
        }
    }
}

/// Returns a file of the list. What a browser might execute is an attachment.
#[utoipa::path(
    get, path = "/api/v1/runs/{id}/files/{file}", operation_id = "get_file", tag = "runs",
    responses(
        (status = 200, description = "The content.", content_type = "application/octet-stream"),
        (status = 404, description = "`unknown_run` or `unknown_file`"),
    ),
)]
pub(super) async fn file(
    State(app): State<Arc<App>>,
    Path((id, file)): Path<(String, String)>,
    uri: Uri,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let unknown = || ApiError::not_found("file", &file);
    let path = from_hexadecimal(file.as_bytes()).and_then(|bytes| String::from_utf8(bytes).ok());
    let path = path.filter(|path| is_plain(path)).ok_or_else(unknown)?;
    let folder = app.session(&id).await?.folder;
    let (media_type, inline) = media_type(&path);
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    let content = blocking(move || read(&folder, &path))
        .await?
        .ok_or_else(unknown)?;
    let disposition = if inline {
        "inline".to_owned()
    } else {
        let safe: String = name
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || "._-".contains(c) {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        format!("attachment; filename=\"{safe}\"")
    };
    let headers = [
        (CONTENT_TYPE, media_type.to_owned()),
        (CONTENT_DISPOSITION, disposition),
        (CONTENT_SECURITY_POLICY, "sandbox".to_owned()),
        (CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((StatusCode::OK, headers, content).into_response())
}

/// Reads a file beneath a folder. The path is resolved step by step, and no step may be a link, so that it cannot lead
/// out of the folder even if somebody replaces a part of it meanwhile.
fn read(folder: &FilePath, path: &str) -> Option<Vec<u8>> {
    let mut at = Dir::open_ambient_dir(folder, ambient_authority()).ok()?;
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    for step in folders.split('/').filter(|step| !step.is_empty()) {
        let found = at.symlink_metadata(step).ok()?;
        if !found.is_dir() {
            return None;
        }
        at = at.open_dir_nofollow(step).ok()?;
    }
    let mut options = cap_std::fs::OpenOptions::new();
    options.read(true);
    options.follow(FollowSymlinks::No);
    // Somebody may put a pipe in the place of the file at any moment, and opening it would block.
    options.nonblock(true);
    let file = at.open_with(name, &options).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut content = Vec::new();
    file.take(MAX_SIZE).read_to_end(&mut content).ok()?;
    Some(content)
}

fn is_plain(path: &str) -> bool {
    !path.is_empty()
        && !path.contains(['\0', '\\'])
        && FilePath::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
}

/// Returns the media type of a file, and whether a browser may show it.
fn media_type(path: &str) -> (&'static str, bool) {
    let name = path.rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    match ending {
        "json" | "jsonl" => ("application/json", true),
        "md" | "txt" | "log" | "dot" | "diff" | "patch" | "yaml" | "toml" | "rs" | "lock" => {
            ("text/plain; charset=utf-8", true)
        }
        "png" => ("image/png", true),
        "jpg" | "jpeg" => ("image/jpeg", true),
        "webp" => ("image/webp", true),
        // The outputs of tools have no ending.
        "" => ("text/plain; charset=utf-8", true),
        _ => ("application/octet-stream", false),
    }
}

fn unreadable(error: std::io::Error) -> ApiError {
    ApiError::internal("store_io", format!("the run folder cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_are_ids() {
        for path in ["a.md", "stages/plan#1/prompt.md"] {
            assert!(is_plain(path));
        }
        for path in ["", "../a", "/etc/passwd", "a/../b", "a\0b", "a\\..\\b"] {
            assert!(!is_plain(path), "{path:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_leads_nowhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let outside = tempfile::tempdir().expect("another one");
        std::fs::write(outside.path().join("secret"), "x").expect("written");
        std::fs::create_dir(folder.path().join("in")).expect("made");
        std::fs::write(folder.path().join("in/plain"), "y").expect("written");
        std::os::unix::fs::symlink(outside.path(), folder.path().join("out")).expect("linked");
        std::os::unix::fs::symlink(outside.path().join("secret"), folder.path().join("file"))
            .expect("linked");
        assert_eq!(read(folder.path(), "in/plain"), Some(b"y".to_vec()));
        for path in ["out/secret", "file", "in", "missing", "in/../out/secret"] {
            assert_eq!(read(folder.path(), path), None, "{path}");
        }
        let root = Dir::open_ambient_dir(folder.path(), ambient_authority()).expect("open");
        let mut files = Vec::new();
        collect(&root, "", 0, &mut files);
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["in/plain"]);
    }
}
