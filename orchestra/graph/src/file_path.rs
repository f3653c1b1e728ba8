//! Paths of files as text alone: nothing is read.

use std::path::{Component, Path, PathBuf};

/// Removes `.` from a path and, as far as the text alone allows it, `..`.
///
/// ```
/// use std::path::Path;
/// let path = orchestra_graph::normal_path(Path::new("/app/flows/./../a.dot"));
/// assert_eq!(path, Path::new("/app/a.dot"));
/// ```
pub fn normal_path(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(normal.components().next_back(), Some(Component::Normal(_))) => {
                normal.pop();
            }
            // There is nothing above the root.
            Component::ParentDir if normal.has_root() => {}
            other => normal.push(other),
        }
    }
    normal
}

/// Returns a path relative to a folder, with forward slashes. Both must be absolute.
///
/// ```
/// use std::path::Path;
/// let of = |path| orchestra_graph::relative_path(Path::new(path), Path::new("/app/x/.."));
/// assert_eq!(of("/app/flows/./a.dot"), "flows/a.dot");
/// assert_eq!(of("/app/flows/../../shared/a.dot"), "../shared/a.dot");
/// ```
pub fn relative_path(path: &Path, folder: &Path) -> String {
    let (path, folder) = (normal_path(path), normal_path(folder));
    let mut target = path.components().peekable();
    let mut base = folder.components().peekable();
    while let (Some(a), Some(b)) = (target.peek(), base.peek()) {
        if a != b {
            break;
        }
        target.next();
        base.next();
    }
    let mut parts: Vec<String> = base.map(|_| "..".to_owned()).collect();
    parts.extend(target.map(|component| component.as_os_str().to_string_lossy().into_owned()));
    parts.join("/")
}
