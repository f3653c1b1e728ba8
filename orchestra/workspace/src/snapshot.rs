//! The stored state of the files of a run, as JSON: one value for the run, and one snapshot for each execution path.

use std::collections::BTreeMap;
use std::path::PathBuf;

use orchestra_engine::Manifest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::configuration::Configuration;
use crate::sha::Sha;

/// The workspace data that is stored in the manifest of a run when it begins.
///
/// ```
/// use orchestra_workspace::StoredWorkspace;
/// use serde_json::json;
/// let stored: StoredWorkspace = serde_json::from_value(json!({
///     "run": "nightly",
///     "worktrees": ".orchestra/worktrees",
///     "repositories": {
///         "backend": {
///             "path": "/home/me/backend",
///             "base": "89e6c98d92887913cadf06b2adb97f26cde4849b",
///             "branch": "orchestra/review/nightly",
///         },
///     },
/// }))?;
/// assert_eq!(stored.repositories["backend"].branch, "orchestra/review/nightly");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredWorkspace {
    /// The run for which the data was stored. A replay reads the data of another run.
    pub run: String,
    /// The folder of the worktrees of all runs.
    pub worktrees: PathBuf,
    /// The repositories by name.
    pub repositories: BTreeMap<String, StoredRepository>,
}

impl StoredWorkspace {
    /// Returns the data in the manifest of a run. Returns `None` if the run has no repositories.
    pub fn from_manifest(manifest: &Manifest) -> Option<StoredWorkspace> {
        serde_json::from_value(manifest.workspace.clone()?).ok()
    }
}

/// A repository as it was when the run began.
///
/// ```
/// use orchestra_workspace::StoredRepository;
/// let stored = r#"{"path":"backend","base":"89e6c98d92887913cadf06b2adb97f26cde4849b","branch":"orchestra/review/1"}"#;
/// let stored: StoredRepository = serde_json::from_str(stored)?;
/// assert_eq!(stored.base.short(), "89e6c98d9288");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredRepository {
    /// The top folder of the user's worktree.
    pub path: PathBuf,
    /// The commit from which the run started.
    pub base: Sha,
    /// The branch of the main path.
    pub branch: String,
    /// The git configuration before any stage ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) configuration: Option<Configuration>,
}

/// The state of a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) sha: Sha,
    /// The commit that holds an open merge.
    pub(crate) merging: Option<Sha>,
    /// The commit before branches were merged. Set while a merge is open in any repository.
    pub(crate) before: Option<Sha>,
}

impl Head {
    pub(crate) fn at(sha: &Sha) -> Head {
        Head {
            sha: sha.clone(),
            merging: None,
            before: None,
        }
    }
}

/// A repository in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedHead {
    pub(crate) git_sha: Sha,
    pub(crate) branch: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) merging: Option<Sha>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<Sha>,
}

/// A snapshot of all repositories.
pub(crate) type SavedHeads = BTreeMap<String, SavedHead>;

/// Reads the snapshot of an execution path for these repositories, in their order.
///
/// # Errors
///
/// Returns a message if the snapshot cannot be parsed or lacks a repository.
pub(crate) fn heads_of<'n>(
    snapshot: &Value,
    names: impl Iterator<Item = &'n str>,
) -> Result<Vec<Head>, String> {
    let mut saved: SavedHeads =
        serde_json::from_value(snapshot.clone()).map_err(|error| format!("it cannot be read: {error}"))?;
    let heads = names.map(|name| {
        let head = saved
            .remove(name)
            .ok_or_else(|| format!("it does not name the repository `{name}`"))?;
        Ok(Head {
            sha: head.git_sha,
            merging: head.merging,
            before: head.before,
        })
    });
    let heads: Vec<Head> = heads.collect::<Result<_, String>>()?;
    match saved.keys().next() {
        None => Ok(heads),
        Some(other) => Err(format!(
            "it names the repository `{other}`, which the workspace does not have"
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::heads_of;

    const A: &str = "1111111111111111111111111111111111111111";
    const B: &str = "2222222222222222222222222222222222222222";

    #[test]
    fn a_snapshot_names_all_repositories_and_no_others() {
        let snapshot = json!({
            "backend": {"git_sha": A, "branch": "orchestra/p/1"},
            "frontend": {"git_sha": B, "branch": "orchestra/p/1", "merging": A},
        });
        let heads = heads_of(&snapshot, ["backend", "frontend"].into_iter()).unwrap();
        assert_eq!(heads[0].sha.as_str(), A);
        assert_eq!(heads[1].merging.as_ref().map(|sha| sha.as_str()), Some(A));
        let fewer = heads_of(&snapshot, ["backend"].into_iter()).unwrap_err();
        assert!(fewer.contains("`frontend`"), "{fewer}");
        let more = heads_of(&snapshot, ["backend", "docs", "frontend"].into_iter()).unwrap_err();
        assert!(more.contains("`docs`"), "{more}");
        assert!(
            heads_of(
                &json!({"backend": {"git_sha": "--all", "branch": "x"}}),
                ["backend"].into_iter()
            )
            .is_err()
        );
    }
}
