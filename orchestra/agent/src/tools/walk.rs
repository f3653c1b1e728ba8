//! The files of a folder as the search tools see them: sorted, without ignored files, and without following links.

use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use globset::{Glob, GlobBuilder, GlobMatcher};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use orchestra_engine::CancellationToken;

use super::confined::Confined;
use crate::tool::ToolError;

/// The names of ignore files; in a folder the later one has precedence.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];
/// Maximum number of bytes read from an ignore file.
const IGNORE_SIZE: u64 = 1024 * 1024;
/// Maximum depth of folders. Sources are hardly deeper, but circular links might be.
const MAX_DEPTH: usize = 64;
/// Maximum number of entries of a walk.
const MAX_ENTRIES: usize = 500_000;

/// The way in which a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It visited all files.
    Complete,
    /// The visitor stopped it.
    Enough,
    /// It reached the maximum number of entries.
    TooMany,
}

/// Calls `visit` with the path of each file below `start`, relative to the working folder, sorted by name.
///
/// `start` may be a file, which is visited even if it is ignored.
pub(crate) fn files(
    folder: &Confined,
    start: &Path,
    stop: &CancellationToken,
    visit: &mut dyn FnMut(&Path) -> ControlFlow<()>,
) -> Result<Ended, ToolError> {
    let start = if start == Path::new(".") {
        PathBuf::new()
    } else {
        normal(start)
    };
    let here = if start.as_os_str().is_empty() {
        Path::new(".")
    } else {
        &start
    };
    let found = folder
        .dir()
        .metadata(here)
        .map_err(|error| folder.error(here, &error))?;
    folder.readable(here)?;
    if !found.is_dir() {
        return Ok(match visit(&start) {
            ControlFlow::Continue(()) => Ended::Complete,
            ControlFlow::Break(()) => Ended::Enough,
        });
    }
    let mut walk = Walk {
        folder,
        stop,
        visit,
        ignored: Vec::new(),
        seen: 0,
    };
    let above: Vec<PathBuf> = start.ancestors().skip(1).map(Path::to_owned).collect();
    for folder in above.iter().rev() {
        walk.enter(folder);
    }
    match walk.below(&start, 0) {
        ControlFlow::Continue(()) => Ok(Ended::Complete),
        ControlFlow::Break(_) if stop.is_cancelled() => Err(ToolError::new("cancelled")),
        ControlFlow::Break(ended) => Ok(ended),
    }
}

/// Returns a path without `.` components, so that it can be matched with patterns.
fn normal(path: &Path) -> PathBuf {
    path.components()
        .filter(|component| !matches!(component, std::path::Component::CurDir))
        .collect()
}

struct Walk<'w> {
    folder: &'w Confined,
    stop: &'w CancellationToken,
    visit: &'w mut dyn FnMut(&Path) -> ControlFlow<()>,
    /// The folders from the root to the current one, with their ignore files.
    ignored: Vec<(PathBuf, Vec<Gitignore>)>,
    seen: usize,
}

impl Walk<'_> {
    fn below(&mut self, path: &Path, depth: usize) -> ControlFlow<Ended> {
        let here = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        // Skip a folder that is unreadable or has been deleted.
        let Ok(entries) = self.folder.dir().read_dir(here) else {
            return ControlFlow::Continue(());
        };
        self.enter(path);
        let mut names = Vec::new();
        for entry in entries.flatten() {
            self.seen += 1;
            if self.seen > MAX_ENTRIES || self.stop.is_cancelled() {
                return ControlFlow::Break(Ended::TooMany);
            }
            if let Ok(kind) = entry.file_type() {
                names.push((entry.file_name(), kind));
            }
        }
        names.sort_by(|(left, _), (right, _)| left.cmp(right));
        for (name, kind) in names {
            let path = path.join(&name);
            if name == ".git" || self.is_ignored(&path, kind.is_dir()) {
                continue;
            }
            if kind.is_file() {
                if (self.visit)(&path).is_break() {
                    return ControlFlow::Break(Ended::Enough);
                }
            } else if kind.is_dir() && depth < MAX_DEPTH && !self.folder.is_passed_over(&path) {
                self.below(&path, depth + 1)?;
            }
        }
        self.ignored.pop();
        ControlFlow::Continue(())
    }

    fn enter(&mut self, path: &Path) {
        let found = IGNORE_FILES
            .iter()
            .filter_map(|name| self.ignore_file(&path.join(name)));
        let found = found.collect();
        self.ignored.push((path.to_owned(), found));
    }

    /// Parses an ignore file. Invalid lines are skipped, as git does.
    fn ignore_file(&self, path: &Path) -> Option<Gitignore> {
        // Nearly every folder has no ignore file, so check that first.
        self.folder.dir().symlink_metadata(path).ok()?;
        let (file, _) = self.folder.walked_file(path).ok()?;
        let mut bytes = Vec::new();
        file.take(IGNORE_SIZE).read_to_end(&mut bytes).ok()?;
        let mut builder = GitignoreBuilder::new(".");
        for line in String::from_utf8_lossy(&bytes).lines() {
            if let Err(error) = builder.add_line(None, line) {
                tracing::debug!(%error, path = %path.display(), "a line of ignored names is passed over");
            }
        }
        builder.build().ok()
    }

    /// Returns whether git would ignore a path. The innermost ignore file with a matching pattern decides.
    fn is_ignored(&self, path: &Path, is_folder: bool) -> bool {
        for (folder, files) in self.ignored.iter().rev() {
            let inside = path.strip_prefix(folder).unwrap_or(path);
            for file in files.iter().rev() {
                match file.matched(inside, is_folder) {
                    Match::Ignore(_) => return true,
                    Match::Whitelist(_) => return false,
                    Match::None => {}
                }
            }
        }
        false
    }
}

/// A pattern for paths: `*.rs` matches files in any folder, `src/**/*.rs` matches those below `src`.
pub(crate) struct Pattern(GlobMatcher);

impl Pattern {
    pub(crate) fn new(text: &str) -> Result<Pattern, ToolError> {
        let text = text.strip_prefix("./").unwrap_or(text);
        let whole = if text.contains('/') {
            text.to_owned()
        } else {
            format!("**/{text}")
        };
        let made: Result<Glob, _> = GlobBuilder::new(&whole).literal_separator(true).build();
        made.map(|glob| Pattern(glob.compile_matcher())).map_err(|error| {
            ToolError::new(format!(
                "`{text}` is not a pattern for paths: {}; `*`, `?`, `**`, `[a-z]` and `{{a,b}}` have a meaning",
                error.kind()
            ))
        })
    }

    pub(crate) fn matches(&self, path: &Path) -> bool {
        self.0.is_match(path)
    }
}
