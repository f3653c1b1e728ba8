//! Merges of branches at a join: planned among objects, so that nothing is touched before all of it is known.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::fault::WorkspaceFault;
use crate::hunk::{Hunk, Part, hunks, is_marked, marker_size, parts};
use crate::lab::{Entry, Files, Lab, Merged};
use crate::message::Message;
use crate::open;
use crate::repository::{Repository, Sha};

/// The message of commits that are only merged into, never named.
const STEP: &str = "orchestra: step of a merge\n";

/// A branch that is to be merged.
///
/// ```
/// use orchestra_workspace::Side;
/// let sha = "89e6c98d92887913cadf06b2adb97f26cde4849b".parse().unwrap();
/// assert_eq!(Side { name: "left".into(), sha }.name, "left");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// What it is called in markers and messages.
    pub name: String,
    /// Its tip.
    pub sha: Sha,
}

/// What merging some branches gives. Only objects were written; no ref names them yet.
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
    /// These branches, in the order in which they were merged. Branches without commits of their own are among them.
    pub merged: Vec<String>,
    /// The rest, if any conflict.
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
    /// The commit that holds the files with markers; its parents are the clean part and the tips.
    pub commit: Sha,
    /// The branches that conflict.
    pub sides: Vec<String>,
    /// What conflicts, a file once for each branch that conflicts in it.
    pub files: Vec<Conflict>,
}

/// A file in which a branch conflicts with what was merged before it.
///
/// ```
/// use orchestra_workspace::{Blobs, Conflict};
/// let blobs = Blobs { base: None, ours: None, theirs: None };
/// let conflict = Conflict { path: "a.txt".into(), kind: "content".into(), sides: vec![], hunks: vec![], blobs };
/// assert_eq!(serde_json::to_value(&conflict).unwrap()["kind"], "content");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// Its path below the top of the repository.
    pub path: String,
    /// `content`, `add/add`, `modify/delete`, `binary`, `rename/rename`, `submodule`, or what else git calls it.
    pub kind: String,
    /// The branches that changed it, the one that conflicts last.
    pub sides: Vec<String>,
    /// The parts that conflict, at most 64; none where the file as a whole does.
    pub hunks: Vec<Hunk>,
    /// The file as it is on each side.
    pub blobs: Blobs,
}

/// The object of a file on each side of a conflict; none where it is not there.
///
/// ```
/// use orchestra_workspace::Blobs;
/// let blobs = Blobs { base: Some("89e6c98d".into()), ours: None, theirs: None };
/// assert_eq!(serde_json::to_value(&blobs).unwrap()["base"], "89e6c98d");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Blobs {
    /// Where both began.
    pub base: Option<String>,
    /// In what was merged before.
    pub ours: Option<String>,
    /// On the branch that conflicts.
    pub theirs: Option<String>,
}

/// Which side of every conflict is taken.
///
/// ```
/// use orchestra_workspace::Favour;
/// assert_ne!(Favour::Ours, Favour::Theirs);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Favour {
    /// What was merged before.
    Ours,
    /// The branch that conflicts; of several, the later.
    Theirs,
}

/// Merges branches into a commit, in their order: those that do not conflict by one merge commit each, then the others one
/// on top of the other into one tree with markers. Merge commits get the message for their branch's name.
///
/// # Errors
///
/// If a commit is not there, or git fails.
pub fn plan(
    repository: &Repository,
    onto: &Sha,
    sides: &[Side],
    message: &dyn Fn(&[&str]) -> Message,
) -> Result<Plan, WorkspaceFault> {
    for sha in sides.iter().map(|side| &side.sha).chain([onto]) {
        if !repository.has_commit(sha)? {
            return Err(repository.missing(sha));
        }
    }
    let lab = Lab::new(repository, onto)?;
    let (mut clean, mut merged) = (onto.clone(), Vec::new());
    let mut rest: Vec<&Side> = sides.iter().collect();
    // What conflicts is tried again once more is merged, until nothing more fits.
    loop {
        let before = rest.len();
        let mut open = Vec::new();
        for side in rest {
            if !repository.is_ancestor(&side.sha, &clean)? {
                let result = lab.merge(&clean, &side.sha, 0)?;
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
        Some(pile(&lab, onto, &clean, &merged, &rest)?)
    };
    let merged = merged.iter().map(|side| side.name.clone()).collect();
    Ok(Plan { clean, merged, open })
}

/// Takes one side of every conflict of an open merge: a commit with the same parents, which no ref names yet.
///
/// # Errors
///
/// If it is no open merge, a commit is not there, or git fails.
pub fn resolve(
    repository: &Repository,
    open: &Sha,
    favour: Favour,
    message: &Message,
) -> Result<Sha, WorkspaceFault> {
    let note = open::Note::read(repository, open)?;
    let mut parents = note.parents.iter();
    let Some(clean) = parents.next() else {
        return Err(repository.missing(open));
    };
    let lab = Lab::new(repository, clean)?;
    let mut top = clean.clone();
    let mut tree = repository.tree_of(clean)?;
    for (number, tip) in parents.enumerate() {
        if number > 0 {
            let last = note.parents.get(number).cloned();
            let parents: Vec<Sha> = [top].into_iter().chain(last).collect();
            top = repository.write_commit(&tree, &parents, STEP)?;
        }
        tree = decide(&lab, &lab.merge(&top, tip, 0)?, favour)?;
    }
    repository.write_commit(&tree, &note.parents, &message.to_text())
}

/// The tree of a merge with one side of each conflict.
fn decide(lab: &Lab<'_>, merged: &Merged, favour: Favour) -> Result<Sha, WorkspaceFault> {
    let files = lab.files(&merged.tree)?;
    let mut edits: BTreeMap<Vec<u8>, Option<Entry>> = BTreeMap::new();
    for (path, stages) in &merged.stages {
        let [_, ours, theirs] = stages;
        let side = if favour == Favour::Ours { ours } else { theirs };
        let there = files.get(path).filter(|(mode, _)| mode.starts_with("100"));
        let text = match (there, ours, theirs) {
            (Some((_, sha)), Some(_), Some(_)) => {
                lab.blobs(std::slice::from_ref(sha))?.pop().unwrap_or_default()
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
                Some((mode.clone(), lab.write_blob(bytes.copied().collect())?))
            }
            (_, side) => side.clone(),
        };
        edits.insert(path.clone(), entry);
    }
    lab.edit(&merged.tree, &edits)
}

/// A conflict while it is put together.
struct Found {
    path: Vec<u8>,
    size: usize,
    conflict: Conflict,
}

/// Merges the sides that conflict one on top of the other.
fn pile(
    lab: &Lab<'_>,
    onto: &Sha,
    clean: &Sha,
    merged: &[&Side],
    open: &[&Side],
) -> Result<Open, WorkspaceFault> {
    let repository = lab.repository;
    let mut top = clean.clone();
    let mut before = lab.files(clean)?;
    let mut found: Vec<Found> = Vec::new();
    let mut below: Vec<&Side> = merged.to_vec();
    let mut tree = None;
    for (number, side) in open.iter().enumerate() {
        // Each step but the first is merged into a commit with all before it, which no ref ever names.
        if let Some(tree) = &tree {
            let last = below.last().map(|side| side.sha.clone());
            let parents: Vec<Sha> = [top].into_iter().chain(last).collect();
            top = repository.write_merge(tree, &parents, STEP)?;
        }
        let step = Step {
            lab,
            side,
            number,
            below: &below,
        };
        let made = step.take(&top, &before, &mut found)?;
        before = lab.files(&made)?;
        tree = Some(made);
        below.push(side);
    }
    let tree = tree.map_or_else(|| repository.tree_of(clean), Ok)?;
    let mut touched = Vec::new();
    for side in &below {
        touched.push((side.name.clone(), changed_paths(repository, onto, &side.sha)?));
    }
    for Found { path, size, conflict } in &mut found {
        let entry = before
            .get(path.as_slice())
            .filter(|(mode, _)| mode.starts_with("100"));
        if let Some((_, sha)) = entry {
            let text = lab.blobs(std::slice::from_ref(sha))?.pop().unwrap_or_default();
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

/// One side that is merged on top of others with markers.
struct Step<'s> {
    lab: &'s Lab<'s>,
    side: &'s Side,
    number: usize,
    below: &'s [&'s Side],
}

impl Step<'_> {
    fn take(&self, top: &Sha, before: &Files, found: &mut Vec<Found>) -> Result<Sha, WorkspaceFault> {
        let lab = self.lab;
        let result = lab.merge(top, &self.side.sha, self.number)?;
        let files = lab.files(&result.tree)?;
        let mut edits: BTreeMap<Vec<u8>, Option<Entry>> = BTreeMap::new();
        let size = marker_size(self.number);
        let earlier: BTreeSet<Vec<u8>> = found.iter().map(|found| found.path.clone()).collect();
        for path in &earlier {
            self.hold(path, before, &files, &result, &mut edits, found)?;
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
            let text = lab.blobs(std::slice::from_ref(sha))?.pop().unwrap_or_default();
            let named = self.name_sides(&text, top);
            if named != text {
                edits.insert(path.clone(), Some((mode.clone(), lab.write_blob(named)?)));
            }
        }
        lab.edit(&result.tree, &edits)
    }

    fn conflict(&self, path: &[u8], kind: &str, blobs: Blobs) -> Found {
        let conflict = Conflict {
            path: String::from_utf8_lossy(path).into_owned(),
            kind: kind.to_owned(),
            sides: vec![self.side.name.clone()],
            hunks: Vec::new(),
            blobs,
        };
        Found {
            path: path.to_vec(),
            size: marker_size(self.number),
            conflict,
        }
    }

    /// Holds an earlier conflict in a file together. Git merges into the lines between markers as into any others, so a
    /// side may end up inside the part that is thrown away; then its whole file stands beside what was there.
    fn hold(
        &self,
        path: &[u8],
        before: &Files,
        files: &Files,
        result: &Merged,
        edits: &mut BTreeMap<Vec<u8>, Option<Entry>>,
        found: &mut Vec<Found>,
    ) -> Result<(), WorkspaceFault> {
        let lab = self.lab;
        let Some((mode, old)) = before.get(path) else {
            return Ok(());
        };
        let now = files.get(path);
        if now.is_some_and(|(_, sha)| sha == old) {
            return Ok(());
        }
        let text = |sha: &Sha| {
            Ok::<_, WorkspaceFault>(lab.blobs(std::slice::from_ref(sha))?.pop().unwrap_or_default())
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
            // The side gave the file another name, under which the markers are now; or the file stays.
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
            None => lab.files(&self.side.sha)?.get(path).cloned(),
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
        edits.insert(path.to_vec(), Some((mode.clone(), lab.write_blob(bytes)?)));
        let blobs = Blobs {
            base: base.map(|sha| sha.to_string()),
            ours: Some(old.to_string()),
            theirs: Some(theirs.to_string()),
        };
        found.push(self.conflict(path, "content", blobs));
        Ok(())
    }

    /// What the part that was merged before is called.
    fn ours(&self) -> String {
        let names: Vec<&str> = self.below.iter().map(|side| side.name.as_str()).collect();
        if names.is_empty() {
            "before".to_owned()
        } else {
            names.join("+").chars().take(100).collect()
        }
    }

    /// Puts names in place of the commits that git labels its markers with.
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

/// What a branch changed since it began.
fn changed_paths(
    repository: &Repository,
    onto: &Sha,
    tip: &Sha,
) -> Result<BTreeSet<Vec<u8>>, WorkspaceFault> {
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
