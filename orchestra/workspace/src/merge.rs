//! Merges of branches at a join. They are planned with git objects only, so that nothing changes before the whole
//! result is known.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::error::GitWorkspaceError;
use crate::hunk::{Hunk, Part, hunks, is_marked, marker_size, parts};
use crate::message::Message;
use crate::object_merge::{Entry, Files, Merged, ObjectMerger};
use crate::open;
use crate::repository::Repository;
use crate::sha::Sha;

/// The message of intermediate commits, which no ref ever names.
const STEP: &str = "orchestra: step of a merge\n";

/// A branch to merge.
///
/// ```
/// use orchestra_workspace::Side;
/// let sha = "89e6c98d92887913cadf06b2adb97f26cde4849b".parse().unwrap();
/// assert_eq!(Side { name: "left".into(), sha }.name, "left");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// The name of the branch in conflict markers and messages.
    pub name: String,
    /// The tip of the branch.
    pub sha: Sha,
}

/// The planned result of merging branches. Only objects were written; no ref names them yet.
///
/// ```
/// use orchestra_workspace::Plan;
/// let clean = "89e6c98d92887913cadf06b2adb97f26cde4849b".parse().unwrap();
/// let plan = Plan { clean, merged: vec!["left".into()], open: None };
/// assert!(plan.open.is_none());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The commit with all branches that do not conflict.
    pub clean: Sha,
    /// The names of these branches, in the order in which they were merged. Branches without commits of their own are
    /// included.
    pub merged: Vec<String>,
    /// The merge of the remaining branches, if any conflict.
    pub open: Option<Open>,
}

/// A merge that waits for its conflicts to be resolved.
///
/// ```
/// use orchestra_workspace::Open;
/// let commit = "89e6c98d92887913cadf06b2adb97f26cde4849b".parse().unwrap();
/// let open = Open { commit, sides: vec!["right".into()], files: Vec::new() };
/// assert_eq!(open.sides, ["right"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// The commit that holds the files with conflict markers. Its parents are the clean part and the tips.
    pub commit: Sha,
    /// The branches that conflict.
    pub sides: Vec<String>,
    /// The conflicts. A file is listed once for each branch that conflicts in it.
    pub files: Vec<Conflict>,
}

/// A file in which a branch conflicts with the branches merged before it.
///
/// ```
/// use orchestra_workspace::{Blobs, Conflict};
/// let blobs = Blobs { base: None, ours: None, theirs: None };
/// let conflict = Conflict { path: "a.txt".into(), kind: "content".into(), sides: vec![], hunks: vec![], blobs };
/// assert_eq!(serde_json::to_value(&conflict).unwrap()["kind"], "content");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// The path relative to the top of the repository.
    pub path: String,
    /// `content`, `add/add`, `modify/delete`, `binary`, `rename/rename`, `submodule`, or another kind that git names.
    pub kind: String,
    /// The branches that changed the file. The branch that conflicts comes last.
    pub sides: Vec<String>,
    /// The parts that conflict, at most 64. Empty if the file conflicts as a whole.
    pub hunks: Vec<Hunk>,
    /// The object of the file on each side.
    pub blobs: Blobs,
}

/// The object of a file on each side of a conflict; `None` if the file does not exist there.
///
/// ```
/// use orchestra_workspace::Blobs;
/// let blobs = Blobs { base: Some("89e6c98d".into()), ours: None, theirs: None };
/// assert_eq!(serde_json::to_value(&blobs).unwrap()["base"], "89e6c98d");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Blobs {
    /// The object in the merge base.
    pub base: Option<String>,
    /// The object in the result of the previous merges.
    pub ours: Option<String>,
    /// The object on the branch that conflicts.
    pub theirs: Option<String>,
}

/// The side to take of every conflict.
///
/// ```
/// use orchestra_workspace::Favour;
/// assert_ne!(Favour::Ours, Favour::Theirs);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Favour {
    /// The result of the previous merges.
    Ours,
    /// The branch that conflicts. If several conflict, the later one.
    Theirs,
}

/// Merges branches into a commit, in their order. Branches that do not conflict get one merge commit each. The others
/// are then merged one after the other into one tree with conflict markers. `message` returns the message of the merge
/// commit of a branch.
///
/// # Errors
///
/// Returns an error if a commit is missing, or if git fails.
pub fn plan(
    repository: &Repository,
    onto: &Sha,
    sides: &[Side],
    message: &dyn Fn(&[&str]) -> Message,
) -> Result<Plan, GitWorkspaceError> {
    for sha in sides.iter().map(|side| &side.sha).chain([onto]) {
        if !repository.has_commit(sha)? {
            return Err(repository.missing(sha));
        }
    }
    let merger = ObjectMerger::new(repository, onto)?;
    let (mut clean, mut merged) = (onto.clone(), Vec::new());
    let mut rest: Vec<&Side> = sides.iter().collect();
    // Conflicting branches are tried again after each round of merges, until no further branch merges cleanly.
    loop {
        let before = rest.len();
        let mut open = Vec::new();
        for side in rest {
            if !repository.is_ancestor(&side.sha, &clean)? {
                let result = merger.merge(&clean, &side.sha, 0)?;
                if !result.clean {
                    open.push(side);
                    continue;
                }
                let text = message(&[&side.name]).to_text();
                clean = repository.write_merge(&result.tree, &[clean, side.sha.clone()], &text)?;
            }
            merged.push(side);
        }
        rest = open;
        if rest.is_empty() || rest.len() == before || merged.is_empty() {
            break;
        }
    }
    let open = if rest.is_empty() {
        None
    } else {
        Some(merge_with_markers(&merger, onto, &clean, &merged, &rest)?)
    };
    let merged = merged.iter().map(|side| side.name.clone()).collect();
    Ok(Plan { clean, merged, open })
}

/// Resolves an open merge by taking one side of every conflict. Returns a commit with the same parents, which no ref
/// names yet.
///
/// # Errors
///
/// Returns an error if `open` is not an open merge, if a commit is missing, or if git fails.
pub fn resolve(
    repository: &Repository,
    open: &Sha,
    favour: Favour,
    message: &Message,
) -> Result<Sha, GitWorkspaceError> {
    let open_merge = open::OpenMerge::read(repository, open)?;
    let mut parents = open_merge.parents.iter();
    let Some(clean) = parents.next() else {
        return Err(repository.missing(open));
    };
    let merger = ObjectMerger::new(repository, clean)?;
    let mut top = clean.clone();
    let mut tree = repository.tree_of(clean)?;
    for (number, tip) in parents.enumerate() {
        if number > 0 {
            let last = open_merge.parents.get(number).cloned();
            let parents: Vec<Sha> = [top].into_iter().chain(last).collect();
            top = repository.write_commit(&tree, &parents, STEP)?;
        }
        tree = take_side(&merger, &merger.merge(&top, tip, 0)?, favour)?;
    }
    repository.write_commit(&tree, &open_merge.parents, &message.to_text())
}

/// Returns the tree of a merge with one side taken of each conflict.
fn take_side(merger: &ObjectMerger<'_>, merged: &Merged, favour: Favour) -> Result<Sha, GitWorkspaceError> {
    let files = merger.files(&merged.tree)?;
    let mut edits: BTreeMap<Vec<u8>, Option<Entry>> = BTreeMap::new();
    for (path, stages) in &merged.stages {
        let [_, ours, theirs] = stages;
        let side = if favour == Favour::Ours { ours } else { theirs };
        let there = files.get(path).filter(|(mode, _)| mode.starts_with("100"));
        let text = match (there, ours, theirs) {
            (Some((_, sha)), Some(_), Some(_)) => {
                merger.blobs(std::slice::from_ref(sha))?.pop().unwrap_or_default()
            }
            _ => Vec::new(),
        };
        let taken = parts(&text, marker_size(0)).filter(|parts| parts.len() > 1);
        let entry = match (taken, side) {
            (Some(parts), Some((mode, _))) => {
                let bytes = parts.iter().flat_map(|part| match (part, favour) {
                    (Part::Plain(bytes), _) => *bytes,
                    (Part::Conflict { ours, .. }, Favour::Ours) => *ours,
                    (Part::Conflict { theirs, .. }, Favour::Theirs) => *theirs,
                });
                Some((mode.clone(), merger.write_blob(bytes.copied().collect())?))
            }
            (_, side) => side.clone(),
        };
        edits.insert(path.clone(), entry);
    }
    merger.edit(&merged.tree, &edits)
}

/// A conflict that is being assembled.
struct FoundConflict {
    path: Vec<u8>,
    size: usize,
    conflict: Conflict,
}

/// Merges the conflicting sides one on top of the other.
fn merge_with_markers(
    merger: &ObjectMerger<'_>,
    onto: &Sha,
    clean: &Sha,
    merged: &[&Side],
    open: &[&Side],
) -> Result<Open, GitWorkspaceError> {
    let repository = merger.repository;
    let mut top = clean.clone();
    let mut before = merger.files(clean)?;
    let mut found: Vec<FoundConflict> = Vec::new();
    let mut below: Vec<&Side> = merged.to_vec();
    let mut tree = None;
    for (number, side) in open.iter().enumerate() {
        // Each step but the first merges into an intermediate commit with all previous sides.
        if let Some(tree) = &tree {
            let last = below.last().map(|side| side.sha.clone());
            let parents: Vec<Sha> = [top].into_iter().chain(last).collect();
            top = repository.write_merge(tree, &parents, STEP)?;
        }
        let step = Step {
            merger,
            side,
            number,
            below: &below,
        };
        let merged_tree = step.merge_side(&top, &before, &mut found)?;
        before = merger.files(&merged_tree)?;
        tree = Some(merged_tree);
        below.push(side);
    }
    let tree = tree.map_or_else(|| repository.tree_of(clean), Ok)?;
    let mut touched = Vec::new();
    for side in &below {
        touched.push((side.name.clone(), changed_paths(repository, onto, &side.sha)?));
    }
    for FoundConflict { path, size, conflict } in &mut found {
        let entry = before
            .get(path.as_slice())
            .filter(|(mode, _)| mode.starts_with("100"));
        if let Some((_, sha)) = entry {
            let text = merger.blobs(std::slice::from_ref(sha))?.pop().unwrap_or_default();
            conflict.hunks = hunks(&text, *size);
        }
        let last = conflict.sides.clone();
        let others = touched.iter().take_while(|(name, _)| !last.contains(name));
        let others = others
            .filter(|(_, paths)| paths.contains(path.as_slice()))
            .map(|(name, _)| name.clone());
        conflict.sides = others.chain(last.iter().cloned()).collect();
    }
    let sides: Vec<String> = open.iter().map(|side| side.name.clone()).collect();
    let paths: BTreeSet<Vec<u8>> = found.iter().map(|found| found.path.clone()).collect();
    let paths: Vec<Vec<u8>> = paths.into_iter().collect();
    let parents: Vec<Sha> = [clean.clone()]
        .into_iter()
        .chain(open.iter().map(|side| side.sha.clone()))
        .collect();
    let commit = repository.write_merge(&tree, &parents, &open::text(&sides, &paths))?;
    Ok(Open {
        commit,
        sides,
        files: found.into_iter().map(|found| found.conflict).collect(),
    })
}

/// The merge of one side on top of others, with conflict markers.
struct Step<'s> {
    merger: &'s ObjectMerger<'s>,
    side: &'s Side,
    number: usize,
    below: &'s [&'s Side],
}

impl Step<'_> {
    fn merge_side(
        &self,
        top: &Sha,
        before: &Files,
        found: &mut Vec<FoundConflict>,
    ) -> Result<Sha, GitWorkspaceError> {
        let merger = self.merger;
        let result = merger.merge(top, &self.side.sha, self.number)?;
        let files = merger.files(&result.tree)?;
        let mut edits: BTreeMap<Vec<u8>, Option<Entry>> = BTreeMap::new();
        let size = marker_size(self.number);
        let earlier: BTreeSet<Vec<u8>> = found.iter().map(|found| found.path.clone()).collect();
        for path in &earlier {
            self.preserve_conflicts(path, before, &files, &result, &mut edits, found)?;
        }
        let paths: BTreeSet<&Vec<u8>> = result.stages.keys().chain(result.kinds.keys()).collect();
        for path in paths {
            let stages = result.stages.get(path).cloned().unwrap_or_default();
            let [base, ours, theirs] = &stages;
            let kind = match result.kinds.get(path).map(String::as_str) {
                Some("contents") | None if base.is_none() && ours.is_some() && theirs.is_some() => "add/add",
                Some("contents") | None => "content",
                Some(other) => other,
            };
            let object = |entry: &Option<Entry>| entry.as_ref().map(|(_, sha)| sha.to_string());
            let blobs = Blobs {
                base: object(base),
                ours: object(ours),
                theirs: object(theirs),
            };
            if !found
                .iter()
                .any(|known| known.size == size && known.path == *path)
            {
                found.push(self.conflict(path, kind, blobs));
            }
            let Some((mode, sha)) = files.get(path).filter(|(mode, _)| mode.starts_with("100")) else {
                continue;
            };
            if edits.contains_key(path) {
                continue;
            }
            let text = merger.blobs(std::slice::from_ref(sha))?.pop().unwrap_or_default();
            let named = self.name_sides(&text, top);
            if named != text {
                edits.insert(path.clone(), Some((mode.clone(), merger.write_blob(named)?)));
            }
        }
        merger.edit(&result.tree, &edits)
    }

    fn conflict(&self, path: &[u8], kind: &str, blobs: Blobs) -> FoundConflict {
        let conflict = Conflict {
            path: String::from_utf8_lossy(path).into_owned(),
            kind: kind.to_owned(),
            sides: vec![self.side.name.clone()],
            hunks: Vec::new(),
            blobs,
        };
        FoundConflict {
            path: path.to_vec(),
            size: marker_size(self.number),
            conflict,
        }
    }

    /// Preserves the earlier conflicts of a file. Git merges into the lines between markers like into any others, so a
    /// change could end up inside a part that is discarded later. In that case, the complete file of the side becomes a
    /// new conflict around the previous text.
    fn preserve_conflicts(
        &self,
        path: &[u8],
        before: &Files,
        files: &Files,
        result: &Merged,
        edits: &mut BTreeMap<Vec<u8>, Option<Entry>>,
        found: &mut Vec<FoundConflict>,
    ) -> Result<(), GitWorkspaceError> {
        let merger = self.merger;
        let Some((mode, old)) = before.get(path) else {
            return Ok(());
        };
        let now = files.get(path);
        if now.is_some_and(|(_, sha)| sha == old) {
            return Ok(());
        }
        let text = |sha: &Sha| {
            Ok::<_, GitWorkspaceError>(merger.blobs(std::slice::from_ref(sha))?.pop().unwrap_or_default())
        };
        let earlier = text(old)?;
        let blocks: Vec<&[u8]> = (0..self.number)
            .flat_map(|number| parts(&earlier, marker_size(number)).unwrap_or_default())
            .filter_map(|part| match part {
                Part::Conflict { whole, .. } => Some(whole),
                Part::Plain(_) => None,
            })
            .collect();
        if blocks.is_empty() {
            return Ok(());
        }
        let whole = |text: &[u8]| {
            blocks
                .iter()
                .all(|block| text.windows(block.len()).any(|part| part == *block))
        };
        let Some((_, new)) = now else {
            // Either the side renamed the file, so the markers are in the renamed file now, or the old file is
            // restored.
            for (other, (_, sha)) in files.iter().filter(|(other, _)| !before.contains_key(*other)) {
                if whole(&text(sha)?) {
                    for known in found.iter_mut().filter(|known| known.path == path) {
                        known.path.clone_from(other);
                        known.conflict.path = String::from_utf8_lossy(other).into_owned();
                    }
                    return Ok(());
                }
            }
            edits.insert(path.to_vec(), Some((mode.clone(), old.clone())));
            return Ok(());
        };
        if whole(&text(new)?) {
            return Ok(());
        }
        let theirs = match result.stages.get(path) {
            Some([_, _, theirs]) => theirs.clone(),
            None => merger.files(&self.side.sha)?.get(path).cloned(),
        };
        let Some((_, theirs)) = theirs else {
            edits.insert(path.to_vec(), Some((mode.clone(), old.clone())));
            return Ok(());
        };
        let base = result
            .stages
            .get(path)
            .and_then(|[base, _, _]| base.clone())
            .map(|(_, sha)| sha);
        let size = marker_size(self.number);
        let mut bytes = Vec::new();
        let mut put = |sign: &str, label: &str, part: &[u8]| {
            bytes.extend_from_slice(format!("{}{label}\n", sign.repeat(size)).as_bytes());
            bytes.extend_from_slice(part);
            if !part.is_empty() && !part.ends_with(b"\n") {
                bytes.push(b'\n');
            }
        };
        put("<", &format!(" {}", self.ours()), &earlier);
        put(
            "|",
            " base",
            &base.as_ref().map(text).transpose()?.unwrap_or_default(),
        );
        put("=", "", &text(&theirs)?);
        put(">", &format!(" {}", self.side.name), &[]);
        edits.insert(path.to_vec(), Some((mode.clone(), merger.write_blob(bytes)?)));
        let blobs = Blobs {
            base: base.map(|sha| sha.to_string()),
            ours: Some(old.to_string()),
            theirs: Some(theirs.to_string()),
        };
        found.push(self.conflict(path, "content", blobs));
        Ok(())
    }

    /// Returns the marker label of the sides that were merged before.
    fn ours(&self) -> String {
        let names: Vec<&str> = self.below.iter().map(|side| side.name.as_str()).collect();
        if names.is_empty() {
            "before".to_owned()
        } else {
            names.join("+").chars().take(100).collect()
        }
    }

    /// Replaces the commit ids in git's marker labels with the names of the sides.
    fn name_sides(&self, text: &[u8], top: &Sha) -> Vec<u8> {
        let size = marker_size(self.number);
        let labels = [
            (
                format!("{} {top}", "<".repeat(size)),
                format!("{} {}", "<".repeat(size), self.ours()),
            ),
            (
                format!("{} {}", ">".repeat(size), self.side.sha),
                format!("{} {}", ">".repeat(size), self.side.name),
            ),
        ];
        if !is_marked(text, self.number + 1) {
            return text.to_vec();
        }
        let mut named = Vec::with_capacity(text.len());
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            match labels.iter().find(|(from, _)| line.starts_with(from.as_bytes())) {
                Some((from, to)) => {
                    named.extend_from_slice(to.as_bytes());
                    named.extend_from_slice(line.get(from.len()..).unwrap_or_default());
                }
                None => named.extend_from_slice(line),
            }
        }
        named
    }
}

/// Returns the paths that a branch changed since its merge base.
fn changed_paths(
    repository: &Repository,
    onto: &Sha,
    tip: &Sha,
) -> Result<BTreeSet<Vec<u8>>, GitWorkspaceError> {
    let base = repository.try_run(
        &repository
            .command()
            .args(["merge-base", onto.as_str(), tip.as_str()]),
    )?;
    let from = String::from_utf8_lossy(&base.stdout).trim().to_owned();
    if base.status != 0 {
        return Ok(BTreeSet::new());
    }
    let command = repository
        .command()
        .args(["diff-tree", "-r", "-z", "--name-only", "--no-renames"]);
    let output = repository.run(&command.args([from.as_str(), tip.as_str()]))?;
    Ok(output
        .split(|byte| *byte == 0)
        .filter(|path| !path.is_empty())
        .map(<[u8]>::to_vec)
        .collect())
}
