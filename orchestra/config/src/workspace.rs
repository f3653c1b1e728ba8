//! Consistency checks of the workspace of a configuration.

use std::collections::BTreeMap;

use orchestra_graph::{DEFAULT_BRANCH_PREFIX, Diagnostic, Span};

use crate::command_tool::check_tool;
use crate::decode::Diagnostics;
use crate::names::{is_name, tool_name};
use crate::settings::{Repository, Workspace};
use crate::suggestion::suggestion;

/// Maximum length of a branch prefix in bytes; the whole name is a path of a file.
const MAX_PREFIX_BYTES: usize = 100;

impl Repository {
    /// Returns the prefix of the branch names of runs: `branch_prefix`, else `orchestra/`.
    ///
    /// ```
    /// use orchestra_config::{DEFAULT_BRANCH_PREFIX, Repository};
    /// let repository = Repository { branch_prefix: Some("bot/".to_owned().into()), ..Repository::default() };
    /// assert_eq!(repository.prefix(), "bot/");
    /// assert_eq!(Repository::default().prefix(), DEFAULT_BRANCH_PREFIX);
    /// ```
    pub fn prefix(&self) -> &str {
        let configured = self.branch_prefix.as_ref();
        configured.map_or(DEFAULT_BRANCH_PREFIX, |prefix| prefix.as_str())
    }
}

pub(crate) fn check(workspace: &Workspace, diagnostics: &mut Diagnostics) {
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    let mut paths: BTreeMap<String, &str> = BTreeMap::new();
    for (name, repository) in &workspace.repos {
        if !is_name(name) {
            diagnostics.value(
                format!("`{name}` is not a valid repository name"),
                repository.span,
                "use letters, digits, `-`, `_` and `.`, and begin with a letter or digit",
            );
        }
        // Both would be the same folder on some systems, and their tools would have the same names.
        if let Some(other) = names.insert(tool_name(name).to_lowercase(), name) {
            diagnostics.value(
                format!("the repositories `{other}` and `{name}` cannot be distinguished"),
                repository.span,
                "give one of them a name that differs in more than capitals, `-` and `_`",
            );
        }
        match repository.path.as_ref().filter(|path| !path.trim().is_empty()) {
            None => diagnostics.value(
                format!("the repository `{name}` has no `path`"),
                repository.span,
                "add `path:`, relative to this file",
            ),
            Some(path) => {
                if let Some(other) = paths.insert(plain(path), name) {
                    diagnostics.value(
                        format!("the repositories `{other}` and `{name}` are the same folder"),
                        path.span,
                        "take one of them away",
                    );
                }
            }
        }
        if let Some(prefix) = &repository.branch_prefix
            && let Some(why) = prefix_diagnostic(prefix)
        {
            diagnostics.value(
                format!("`{}` is not a valid branch prefix: {why}", prefix.value),
                prefix.span,
                format!("write the beginning of a branch name, such as `{DEFAULT_BRANCH_PREFIX}`"),
            );
        }
    }
    let names: Vec<&str> = workspace.repos.keys().map(String::as_str).collect();
    for (repository, tools) in &workspace.tools {
        if !workspace.repos.contains_key(repository) {
            unknown(repository, tools.span, &names, diagnostics);
        }
        for (name, tool) in tools.value.iter() {
            check_tool(name, tool, diagnostics);
        }
    }
}

fn unknown(repository: &str, span: Span, names: &[&str], diagnostics: &mut Diagnostics) {
    let message = format!("the workspace has no repository `{repository}`");
    let diagnostic = Diagnostic::from_rule(diagnostics.rules.value, message, span);
    diagnostics.name(diagnostic, repository, suggestion(repository, names));
}

/// Returns a normal form of a path, so that equivalent spellings are equal.
fn plain(path: &str) -> String {
    let path = path.trim().replace('\\', "/");
    let root = if path.starts_with('/') { "/" } else { "" };
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    format!("{root}{}", parts.join("/"))
}

/// Returns the reason why no branch name can begin with a prefix, or `None` if one can. The rules are those of
/// `git check-ref-format` and `git branch`.
fn prefix_diagnostic(prefix: &str) -> Option<String> {
    let wrong = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    if prefix.is_empty() {
        return Some("it is empty".to_owned());
    }
    if prefix.len() > MAX_PREFIX_BYTES {
        return Some(format!("it has more than {MAX_PREFIX_BYTES} bytes"));
    }
    if let Some(found) = prefix.chars().find(|c| wrong(*c)) {
        return Some(format!("it holds {found:?}"));
    }
    if let Some(found) = ["..", "//", "@{"]
        .into_iter()
        .find(|found| prefix.contains(found))
    {
        return Some(format!("it holds `{found}`"));
    }
    if let Some(found) = ["/", "-"].into_iter().find(|found| prefix.starts_with(found)) {
        return Some(format!("it begins with `{found}`"));
    }
    // The part after the last `/` is continued by the name of the pipeline.
    let whole = prefix.rsplit_once('/').map_or("", |(whole, _)| whole);
    if whole.split('/').any(|part| part.ends_with(".lock")) {
        return Some("a part of it ends with `.lock`".to_owned());
    }
    let hidden = prefix.split('/').any(|part| part.starts_with('.'));
    hidden.then(|| "a part of it begins with `.`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{plain, prefix_diagnostic};

    #[test]
    fn beginnings_of_branch_names_follow_git() {
        for prefix in [
            "orchestra/",
            "bot-",
            "a/b/",
            "x",
            "prüfung/",
            "a.lock",
            "a@b/",
            "a./",
            "@/",
            "{x}/",
        ] {
            assert_eq!(prefix_diagnostic(prefix), None, "{prefix:?}");
        }
        for prefix in [
            "",
            "/a",
            "a//",
            "//",
            "-a/",
            ".a/",
            "a/.b",
            "a/.",
            ".",
            "a..",
            "a/../",
            "a b/",
            "a\t",
            "a~1/",
            "a^/",
            "a:b/",
            "a?/",
            "a*/",
            "a[1]/",
            "a\\b",
            "a@{u}/",
            "a.lock/",
            "b/a.lock/c",
            "a\u{7f}",
            &"x".repeat(101),
        ] {
            assert!(prefix_diagnostic(prefix).is_some(), "{prefix:?}");
        }
    }

    #[test]
    fn the_same_folder_is_known_again() {
        assert_eq!(plain("./a//b/"), plain("a/b"));
        assert_ne!(plain("/a"), plain("a"));
        assert_ne!(plain("../a"), plain("a"));
    }
}
