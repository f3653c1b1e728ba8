//! The changes that a run made to its repositories.

use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::Manifest;
use serde::Serialize;
use serde_json::Value;

use crate::error::GitWorkspaceError;
use crate::git::{Git, GitCommand, SystemGit};
use crate::repository::Repository;
use crate::sha::Sha;
use crate::snapshot::{SavedHeads, StoredWorkspace};

/// Size from which git does not compare a file line by line, in bytes.
const BIG_FILE: &str = "core.bigFileThreshold=256k";

/// The maximum time of a comparison.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The maximum number of files of which the lines are compared.
const COMPARED_FILES: usize = 200;

/// The changes of a run in one repository, between two of its commits.
///
/// ```
/// # use std::process::Command;
/// # use orchestra_engine::{Engine, RunFolder};
/// # use orchestra_graph::{Source, load};
/// use orchestra_workspace::{GitWorkspace, changes};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let (repository, folder) = (directory.path().join("app"), directory.path().join("run"));
/// # for arguments in [&["init", "-q", "app"][..], &["-C", "app", "-c", "user.name=A", "-c", "user.email=a@b",
/// #     "commit", "-q", "--allow-empty", "-m", "first"]] {
/// #     assert!(Command::new("git").current_dir(directory.path()).args(arguments).status()?.success());
/// # }
/// # let text = r#"digraph { start -> note -> exit; note [shape=parallelogram, tool_command="echo done > note.txt"] }"#;
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let workspace = GitWorkspace::builder(directory.path().join("worktrees")).repository("app", &repository).build()?;
/// let engine = Engine::builder().workspace(workspace).build()?;
/// engine.start(pipeline, ()).run_dir(&folder).await?.wait().await?;
/// let run = RunFolder::open(&folder)?;
/// let end = run.checkpoint()?.expect("it ended").workspace_snapshot;
/// let found = changes(run.manifest(), None, end.as_ref(), 1 << 20)?;
/// assert_eq!((found[0].repository.as_str(), found[0].files[0].path.as_str()), ("app", "note.txt"));
/// assert!(found[0].patch.contains("+done"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RepositoryChanges {
    /// The name of the repository in the workspace.
    pub repository: String,
    /// The branch of the main path.
    pub branch: String,
    /// The commit before the changes.
    pub from: String,
    /// The commit with the changes.
    pub to: String,
    /// The files that differ, sorted by path.
    pub files: Vec<ChangedFile>,
    /// The differences as a patch. Bytes that are not UTF-8 are replaced.
    pub patch: String,
    /// `true` if the patch is longer and was cut, at the end of a line.
    pub cut: bool,
}

/// A file that differs between two commits.
///
/// ```
/// # let json = r#"{"path":"a.rs","added":3,"removed":1}"#;
/// let file = orchestra_workspace::ChangedFile { path: "a.rs".to_owned(), added: Some(3), removed: Some(1) };
/// assert_eq!(serde_json::to_string(&file)?, json);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangedFile {
    /// The path in the repository.
    pub path: String,
    /// The number of lines that were added; `None` if the file is not compared by lines.
    pub added: Option<u64>,
    /// The number of lines that were removed; `None` if the file is not compared by lines.
    pub removed: Option<u64>,
}

/// Returns the changes of a run between two snapshots of its workspace, at most `most` bytes of patch for each
/// repository. Without `from`, the changes since the run began. Returns nothing if the run has no repositories, or if
/// there is no snapshot `to`.
///
/// # Errors
///
/// Returns an error if a repository or a commit no longer exists, or if git cannot be run.
pub fn changes(
    manifest: &Manifest,
    from: Option<&Value>,
    to: Option<&Value>,
    most: usize,
) -> Result<Vec<RepositoryChanges>, GitWorkspaceError> {
    let saved = |snapshot: &Value| serde_json::from_value::<SavedHeads>(snapshot.clone()).unwrap_or_default();
    let (Some(stored), Some(to)) = (StoredWorkspace::from_manifest(manifest), to.map(saved)) else {
        return Ok(Vec::new());
    };
    let from = from.map(saved).unwrap_or_default();
    let git: Arc<dyn Git> = Arc::new(SystemGit::find()?);
    let mut found = Vec::new();
    for (name, repository) in &stored.repositories {
        let Some(to) = to.get(name) else {
            continue;
        };
        let from = from.get(name).map_or(&repository.base, |head| &head.git_sha);
        // Stages may have named programs in its configuration.
        let opened = Repository::open_without_programs(git.clone(), name, &repository.path)?;
        found.push(opened.changes(&repository.branch, from, &to.git_sha, most)?);
    }
    Ok(found)
}

impl Repository {
    fn changes(
        &self,
        branch: &str,
        from: &Sha,
        to: &Sha,
        most: usize,
    ) -> Result<RepositoryChanges, GitWorkspaceError> {
        let numbers = self.difference("--numstat", from, to).args(["-z", "--"]);
        let files = files_of(&self.run(&numbers)?);
        let compared = files.iter().take(COMPARED_FILES);
        let patch = match files.is_empty() {
            true => Vec::new(),
            false => {
                let command = self.difference("--patch", from, to).arg("--");
                self.run(&command.args(compared.map(|file| format!(":(literal,top){}", file.path))))?
            }
        };
        let end = match patch.len() > most {
            true => patch[..most]
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |end| end + 1),
            false => patch.len(),
        };
        Ok(RepositoryChanges {
            repository: self.name().to_owned(),
            branch: branch.to_owned(),
            from: from.to_string(),
            to: to.to_string(),
            cut: end < patch.len() || files.len() > COMPARED_FILES,
            patch: String::from_utf8_lossy(patch.get(..end).unwrap_or_default()).into_owned(),
            files,
        })
    }

    /// Returns a command that compares two commits and runs no program.
    fn difference(&self, form: &str, from: &Sha, to: &Sha) -> GitCommand {
        // A repository may name remotes for objects that are missing. Nothing is fetched to show a difference.
        let command = self
            .command()
            .setting(BIG_FILE)
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_ALLOW_PROTOCOL", "")
            .timeout(TIMEOUT)
            .args(["diff", form]);
        let fixed = [
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--no-renames",
            "--no-relative",
        ];
        command.args(fixed).args([from.as_str(), to.as_str()])
    }
}

/// Parses the output of `git diff --numstat -z`.
fn files_of(output: &[u8]) -> Vec<ChangedFile> {
    let lines = output.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    let files = lines.filter_map(|line| {
        let mut fields = line.splitn(3, |byte| *byte == b'\t');
        let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse().ok();
        let (added, removed) = (number(), number());
        let path = String::from_utf8_lossy(fields.next()?).into_owned();
        Some(ChangedFile { path, added, removed })
    });
    files.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_files_have_no_numbers_of_lines() {
        let files = files_of(b"3\t1\tsrc/a b.rs\0-\t-\tlogo.png\0");
        let file = |path: &str, added, removed| ChangedFile {
            path: path.to_owned(),
            added,
            removed,
        };
        assert_eq!(
            files,
            [file("src/a b.rs", Some(3), Some(1)), file("logo.png", None, None)]
        );
    }
}
