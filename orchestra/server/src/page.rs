//! The files of the page, which are part of the program.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};

use crate::bytes::hexadecimal;
use crate::error::ApiError;

/// Embeds files of the folder `page`.
macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_bytes!(concat!("../page/", $path)))),*]
    };
}

include!("page_files.rs");

/// The entity tags of the files: digests of their content.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let tag = |(_, content): &(&str, &[u8])| {
        let digest = Sha256::digest(content);
        format!("\"{}\"", hexadecimal(&digest))
    };
    FILES.iter().map(tag).collect()
});

/// Leads to the page.
pub(crate) async fn redirect() -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, "/ui/")]).into_response()
}

/// Returns the page.
pub(crate) async fn index(headers: HeaderMap) -> Response {
    file("index.html", &headers)
}

/// Returns another file of the page.
pub(crate) async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    file(&path, &headers)
}

fn file(path: &str, headers: &HeaderMap) -> Response {
    let found = FILES.iter().zip(TAGS.iter()).find(|((name, _), _)| *name == path);
    let Some(((name, content), tag)) = found else {
        return ApiError::not_found("file", path).into_response();
    };
    let common = [(ETAG, tag.as_str()), (CACHE_CONTROL, "no-cache")];
    if headers
        .get(IF_NONE_MATCH)
        .is_some_and(|known| known == tag.as_str())
    {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    let kind = match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    };
    (StatusCode::OK, common, [(CONTENT_TYPE, kind)], *content).into_response()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn below(folder: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).expect("the folder of the page").flatten() {
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            match entry.path().is_dir() {
                true => below(&entry.path(), &format!("{name}/"), found),
                false => found.push(name),
            }
        }
    }

    #[test]
    fn every_file_of_the_page_is_embedded() {
        let mut found = Vec::new();
        below(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("page"),
            "",
            &mut found,
        );
        found.sort();
        let mut embedded: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        embedded.sort_unstable();
        assert_eq!(embedded, found);
    }

    fn content(name: &str) -> &'static str {
        let found = FILES.iter().find(|(file, _)| *file == name);
        let (_, content) = found.unwrap_or_else(|| panic!("there is no `{name}`"));
        std::str::from_utf8(content).expect("text")
    }

    /// Returns the path that a module names, seen from its folder.
    fn resolved(module: &str, named: &str) -> String {
        let mut parts: Vec<&str> = module.split('/').collect();
        parts.pop();
        for part in named.split('/') {
            match part {
                "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        parts.join("/")
    }

    /// The page with the list of runs, without the screens that are loaded when they are shown.
    #[test]
    fn the_page_loads_little_at_first() {
        let mut loaded = vec!["index.html", "style.css", "theme.js", "icon.svg"]
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        let mut unread = vec!["app.js".to_owned()];
        while let Some(module) = unread.pop() {
            if loaded.contains(&module) {
                continue;
            }
            for line in content(&module).split(';') {
                let named = line
                    .rsplit_once(" from '")
                    .and_then(|(_, rest)| rest.split_once('\''));
                if let Some((named, _)) = named {
                    unread.push(resolved(&module, named));
                }
            }
            loaded.push(module);
        }
        assert!(loaded.iter().any(|module| module == "vendor/preact.module.js"));
        let size: usize = loaded.iter().map(|module| content(module).len()).sum();
        assert!(size <= 180 << 10, "{size} bytes");
    }

    /// A module that names something that is not there would leave the page empty.
    #[test]
    fn modules_import_only_what_others_export() {
        let modules = FILES
            .iter()
            .filter(|(name, _)| name.ends_with(".js") && !name.starts_with("vendor/"));
        for (module, _) in modules {
            for statement in content(module).split("import ").skip(1) {
                let Some((names, rest)) = statement.split_once(" from '") else {
                    continue;
                };
                let (named, _) = rest.split_once('\'').expect("the end of a path");
                let other = resolved(module, named);
                let exported = content(&other);
                let Some(names) = names
                    .trim()
                    .strip_prefix('{')
                    .and_then(|names| names.strip_suffix('}'))
                else {
                    continue;
                };
                if other.starts_with("vendor/") {
                    continue;
                }
                for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
                    let is_exported = ["const", "function", "async function", "class", "let"]
                        .iter()
                        .any(|kind| exported.contains(&format!("export {kind} {name}")));
                    let is_listed = exported.split("export {").skip(1).any(|list| {
                        let list = list.split('}').next().unwrap_or_default();
                        list.split(',').any(|one| one.trim() == name)
                    });
                    assert!(is_exported || is_listed, "{module} imports `{name}` of {other}");
                }
            }
            for lazy in content(module).split("import('").skip(1) {
                let (named, _) = lazy.split_once('\'').expect("the end of a path");
                content(&resolved(module, named));
            }
        }
    }

    #[test]
    fn vendored_files_are_what_their_checksums_say() {
        let (_, list) = FILES
            .iter()
            .find(|(name, _)| *name == "vendor/CHECKSUMS")
            .expect("the list");
        let list = std::str::from_utf8(list).expect("text");
        for (name, content) in FILES
            .iter()
            .filter(|(name, _)| name.starts_with("vendor/") && name.ends_with(".js"))
        {
            let hex = hexadecimal(&Sha256::digest(content));
            let name = name.trim_start_matches("vendor/");
            assert!(
                list.lines()
                    .any(|line| line.contains(&hex) && line.contains(name)),
                "{name}"
            );
        }
    }
}
