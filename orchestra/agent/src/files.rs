//! Describes the files of a stage to its model: the folders of the repositories, and the files with conflicts.

use std::path::Path;

use orchestra_engine::{Context, Workplace};
use serde_json::{Map, Value};

use crate::fidelity::excerpt;

/// Maximum number of repositories that are listed.
const MAX_REPOSITORIES: usize = 20;
/// Maximum number of files with conflicts that are listed, and of lines and branches of each.
const MAX_FILES: usize = 30;
const MAX_LISTED: usize = 8;
/// Maximum length of a path, in characters.
const MAX_PATH_CHARS: usize = 200;

/// Returns the description of the files. Returns an empty text if there is nothing to describe.
pub(crate) fn files(
    workplace: Option<&Workplace>,
    here: Option<&Path>,
    context: &Context,
    may_write: bool,
) -> String {
    let parts = [
        repositories(workplace, here),
        conflicts(workplace, here, context, may_write),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}

/// Returns the list of repositories and their folders, if there are several.
fn repositories(workplace: Option<&Workplace>, here: Option<&Path>) -> String {
    let Some(workplace) = workplace.filter(|workplace| workplace.repositories().count() > 1) else {
        return String::new();
    };
    let own = workplace.repositories().find(|(_, folder)| Some(*folder) == here);
    let at_root = here.is_none_or(|here| here == workplace.root());
    let others = workplace
        .repositories()
        .filter(|(name, _)| own.is_none_or(|(own, _)| own != *name));
    let named: Vec<String> = others
        .map(|(name, folder)| match folder.strip_prefix(workplace.root()) {
            _ if own.is_some() => format!("`{name}`"),
            Ok(below) if at_root => format!("`{name}` in `{}/`", below.display()),
            _ => format!("`{name}` in `{}`", folder.display()),
        })
        .collect();
    let named = listed(&named, MAX_REPOSITORIES);
    let text = match own {
        Some((name, _)) => format!(
            "The working folder is that of the repository `{name}`; of the project there are also {named}, in folders of \
             their own."
        ),
        None if at_root => {
            format!(
                "The working folder holds a folder for each repository of the project: {named}. \
             Files beside these folders are not kept."
            )
        }
        None => format!("The project has several repositories: {named}."),
    };
    format!("# Where the files are\n\n{text}")
}

/// Returns the list of files with conflicts between branches, taken from the context.
fn conflicts(
    workplace: Option<&Workplace>,
    here: Option<&Path>,
    context: &Context,
    may_write: bool,
) -> String {
    let listed: &[Value] = match context.get("workspace.conflicts") {
        Some(Value::Array(listed)) => listed,
        _ => &[],
    };
    let count = context.get("workspace.conflict_count").and_then(Value::as_u64);
    let count = count.map_or(0, |count| usize::try_from(count).unwrap_or(usize::MAX));
    if count == 0 {
        return String::new();
    }
    let shown: Vec<&Map<String, Value>> = listed
        .iter()
        .filter_map(Value::as_object)
        .take(MAX_FILES)
        .collect();
    let mut lines: Vec<String> = shown
        .iter()
        .map(|conflict| line(conflict, workplace, here))
        .collect();
    if let missing @ 1.. = count.saturating_sub(lines.len()) {
        lines.push(format!("- [{missing} more are left out; search for `<<<<<<<`]"));
    }
    let found = match count {
        1 => "One file holds".to_owned(),
        count => format!("{count} files hold"),
    };
    let intro = format!(
        "Branches that ran before changed the same files in different ways. {found} what both say, between lines that \
         begin with `<<<<<<<`, `|||||||` (what was there before both), `=======` and `>>>>>>>`, or with more of these \
         signs where a further branch conflicts:"
    );
    let unmarked = shown.iter().any(|conflict| hunks(conflict).is_empty());
    let unmarked = if unmarked {
        " A file without such lines was removed or renamed by one side, or is not text: leave there what should stay."
    } else {
        ""
    };
    let (heading, instruction) = if may_write {
        (
            "# Conflicts to resolve",
            format!(
                "Resolve them all: make of each file what all sides meant, and leave none of these lines in any file, or \
                 this stage fails. Only change the files; the merge is committed for you.{unmarked}"
            ),
        )
    } else {
        (
            "# Conflicts in the files",
            "A later stage resolves them; take what stands there for what the branches say, not for what holds.".to_owned(),
        )
    };
    format!("{heading}\n\n{intro}\n\n{}\n\n{instruction}", lines.join("\n"))
}

/// Returns the line of a file with its conflicts.
fn line(conflict: &Map<String, Value>, workplace: Option<&Workplace>, here: Option<&Path>) -> String {
    let text = |key: &str| conflict.get(key).and_then(Value::as_str).unwrap_or_default();
    let (repository, path) = (text("repository"), excerpt(text("path"), MAX_PATH_CHARS));
    let folder = workplace.and_then(|workplace| workplace.repository(repository));
    let file = match (folder, here) {
        (Some(folder), Some(here)) if folder == here => format!("`{path}`"),
        (Some(folder), Some(here)) => match folder.strip_prefix(here) {
            Ok(below) => format!("`{}/{path}`", below.display()),
            Err(_) => format!("`{path}` of the repository `{repository}`"),
        },
        _ if repository.is_empty() => format!("`{path}`"),
        _ => format!("`{path}` of the repository `{repository}`"),
    };
    let spans: Vec<String> = hunks(conflict)
        .iter()
        .filter_map(|hunk| Some(hunk.get("line")?.as_u64()?.to_string()))
        .collect();
    let spans = match spans.as_slice() {
        [] => String::new(),
        [one] => format!(", at line {one}"),
        many => format!(", at lines {}", listed(many, MAX_LISTED)),
    };
    let branches = conflict.get("branches").and_then(Value::as_array);
    let branches = branches.into_iter().flatten().filter_map(Value::as_str);
    let branches: Vec<String> = branches
        .map(|branch| format!("`{}`", excerpt(branch, 60)))
        .collect();
    let by = if branches.is_empty() {
        String::new()
    } else {
        format!(", by {}", listed(&branches, MAX_LISTED))
    };
    let kind = match text("kind") {
        "" => String::new(),
        kind => format!(" ({})", excerpt(kind, 60)),
    };
    format!("- {file}{kind}{spans}{by}")
}

fn hunks(conflict: &Map<String, Value>) -> &[Value] {
    match conflict.get("hunks") {
        Some(Value::Array(hunks)) => hunks,
        _ => &[],
    }
}

/// Joins words in one line: `a`, `a and b`, `a, b and 3 more`.
fn listed(words: &[String], limit: usize) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        _ if words.len() > limit => {
            let shown = words.get(..limit).unwrap_or_default();
            format!("{} and {} more", shown.join(", "), words.len() - limit)
        }
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn two() -> Workplace {
        let folders = [("backend", "/work/backend"), ("frontend", "/work/frontend")];
        let folders = folders.map(|(name, folder)| (name.to_owned(), folder.into()));
        Workplace::new("/work", folders.into())
    }

    fn description(workplace: &Workplace, here: &str) -> String {
        files(Some(workplace), Some(Path::new(here)), &Context::new(), true)
    }

    #[test]
    fn several_repositories_are_reported_with_their_folders() {
        assert_eq!(
            description(&two(), "/work"),
            "# Where the files are\n\nThe working folder holds a folder for each repository of the project: `backend` in \
             `backend/` and `frontend` in `frontend/`. Files beside these folders are not kept."
        );
        assert_eq!(
            description(&two(), "/work/backend"),
            "# Where the files are\n\nThe working folder is that of the repository `backend`; of the project there are \
             also `frontend`, in folders of their own."
        );
        assert_eq!(
            description(&two(), "/work/backend/part"),
            "# Where the files are\n\nThe project has several repositories: `backend` in `/work/backend` and `frontend` in \
             `/work/frontend`."
        );
        let one = Workplace::new("/work", [("backend".to_owned(), "/work".into())].into());
        assert_eq!(
            description(&one, "/work"),
            "",
            "of a single one there is nothing to tell"
        );
        assert_eq!(files(None, None, &Context::new(), true), "");
    }

    fn conflicts_of(listed: Value, count: u64) -> Context {
        let pairs = [
            ("workspace.conflicts", listed),
            ("workspace.conflict_count", count.into()),
        ];
        pairs.into_iter().collect()
    }

    #[test]
    fn open_conflicts_are_reported_with_their_files() {
        let context = conflicts_of(
            json!([
                {"repository": "backend", "path": "src/sum.rs", "kind": "content", "branches": ["left", "right"],
                 "hunks": [{"line": 3, "ours": "a", "base": "b", "theirs": "c"}, {"line": 40}]},
                {"repository": "frontend", "path": "logo.png", "kind": "modify/delete", "branches": ["left"], "hunks": []},
            ]),
            2,
        );
        let text = files(Some(&two()), Some(Path::new("/work")), &context, true);
        let (_, text) = text.split_once("\n\n# ").unwrap();
        assert_eq!(
            text,
            "Conflicts to resolve\n\n\
             Branches that ran before changed the same files in different ways. 2 files hold what both say, between lines \
             that begin with `<<<<<<<`, `|||||||` (what was there before both), `=======` and `>>>>>>>`, or with more of \
             these signs where a further branch conflicts:\n\n\
             - `backend/src/sum.rs` (content), at lines 3 and 40, by `left` and `right`\n\
             - `frontend/logo.png` (modify/delete), by `left`\n\n\
             Resolve them all: make of each file what all sides meant, and leave none of these lines in any file, or this \
             stage fails. Only change the files; the merge is committed for you. A file without such lines was removed or \
             renamed by one side, or is not text: leave there what should stay."
        );
        let inside = files(Some(&two()), Some(Path::new("/work/backend")), &context, true);
        assert!(inside.contains("- `src/sum.rs` (content)"), "{inside}");
        assert!(
            inside.contains("- `logo.png` of the repository `frontend` (modify/delete)"),
            "{inside}"
        );
        let reads = files(Some(&two()), Some(Path::new("/work")), &context, false);
        assert!(
            reads.contains("# Conflicts in the files") && !reads.contains("Resolve"),
            "{reads}"
        );
        let resolved = conflicts_of(json!([{"path": "a"}]), 0);
        assert_eq!(files(None, None, &resolved, true), "");
    }

    #[test]
    fn what_is_told_of_conflicts_is_bounded() {
        let hunks: Vec<Value> = (0..500).map(|line| json!({"line": line})).collect();
        let branches: Vec<String> = (0..100)
            .map(|n| format!("branch-{n}-{}", "x".repeat(500)))
            .collect();
        let one = json!({
            "repository": "backend", "path": "long\n".repeat(900), "kind": "k".repeat(900), "branches": branches,
            "hunks": hunks,
        });
        let context = conflicts_of(Value::Array(vec![one; 400]), 400);
        let text = files(Some(&two()), Some(Path::new("/work")), &context, true);
        assert!(text.len() < 40_000, "{} bytes", text.len());
        assert!(
            text.contains("- [370 more are left out; search for `<<<<<<<`]"),
            "{text}"
        );
        // An invalid list of conflicts is ignored, but the number of conflicts is still reported.
        let odd = files(None, None, &conflicts_of(json!("many"), 3), true);
        assert!(odd.contains("- [3 more are left out"), "{odd}");
    }
}
