//! The stored state of the files of a run, as JSON: one value for the run, and one snapshot for each execution path.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::configuration::Configuration;
use crate::sha::Sha;

/// The workspace data that is stored with a run when it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredRun {
    /// The run for which the data was stored. A replay reads the data of another run.
    pub(crate) run: String,
    /// The folder of the worktrees of all runs.
    pub(crate) worktrees: PathBuf,
    /// The repositories by name.
    pub(crate) repositories: BTreeMap<String, StoredRepository>,
}

/// A repository as it was when the run began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredRepository {
    /// The top folder of the user's worktree.
    pub(crate) path: PathBuf,
    /// The commit from which the run started.
    pub(crate) base: Sha,
    /// The branch of the main path.
    pub(crate) branch: String,
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
