//! The files of pipelines below the current folder.

use std::fs;
use std::path::Path;

/// Maximum depth of folders that are searched for pipelines.
const MAX_DEPTH: usize = 4;

/// Maximum number of files that are offered.
const MAX_FILES: usize = 500;

/// Folders that contain no pipelines of the project itself.
const SKIPPED: [&str; 3] = ["target", "node_modules", "vendor"];

/// Returns the DOT files below the current folder, sorted.
pub(super) fn pipeline_files() -> Vec<String> {
    let mut files = Vec::new();
    find_files(Path::new("."), "", 0, &mut files);
    files.sort();
    files
}

/// Adds the DOT files below a folder. Links and hidden folders are skipped.
fn find_files(folder: &Path, prefix: &str, depth: usize, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else {
            continue;
        };
        if name.starts_with('.') || SKIPPED.contains(&name.as_str()) {
            continue;
        }
        let path = format!("{prefix}{name}");
        if kind.is_dir() && depth < MAX_DEPTH {
            find_files(&entry.path(), &format!("{path}/"), depth + 1, found);
        } else if kind.is_file() && path.ends_with(".dot") && found.len() < MAX_FILES {
            found.push(path);
        }
    }
}
