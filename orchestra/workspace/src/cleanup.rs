//! Listing and removal of the branches, worktrees and refs that runs left in a repository.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::error::GitWorkspaceError;
use crate::lock::RepositoryLock;
use crate::open;
use crate::ref_names::{BASE, KEPT, OPEN, base_ref, head_ref, open_ref};
use crate::repository::Repository;
use crate::run_worktrees::{is_open, remove_stale_marks};
use crate::sha::Sha;

/// A branch that a run made.
///
/// ```
/// use std::time::Duration;
/// use orchestra_workspace::OwnBranch;
/// let tip: orchestra_workspace::Sha = "89e6c98d92887913cadf06b2adb97f26cde4849b".parse().unwrap();
/// let branch = OwnBranch {
///     name: "orchestra/poem/a1b2c3".into(),
///     tip: tip.clone(),
///     base: tip,
///     age: Duration::from_secs(60),
///     run: None,
///     merged_into: Some("HEAD".into()),
///     ahead: 0,
///     worktree: None,
/// };
/// assert_eq!(branch.ahead, 0);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnBranch {
    /// The name of the branch.
    pub name: String,
    /// The commit of the branch.
    pub tip: Sha,
    /// The commit from which the branch began.
    pub base: Sha,
    /// The age of the commit; zero if its date is in the future.
    pub age: Duration,
    /// The run that made the branch, if its worktree or its commit names it.
    pub run: Option<String>,
    /// A branch that no run made, or `HEAD`, that contains all commits of the branch.
    pub merged_into: Option<String>,
    /// The number of commits that are on no other branch, tag or HEAD.
    pub ahead: u64,
    /// The worktree in which the branch is checked out.
    pub worktree: Option<PathBuf>,
}

/// The treatment of branches and refs whose commits are reachable from nowhere else.
///
/// ```
/// use std::time::Duration;
/// use orchestra_workspace::UnmergedCommits;
/// let week = Duration::from_secs(7 * 86_400);
/// assert_ne!(UnmergedCommits::Remove { older_than: Some(week) }, UnmergedCommits::Keep);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnmergedCommits {
    /// The branches and refs stay.
    Keep,
    /// The branches and refs are removed, and their commits become unreachable.
    Remove {
        /// The minimum age of the commits to remove; `None` removes commits of any age.
        older_than: Option<Duration>,
    },
}

impl UnmergedCommits {
    fn removes(self, age: Duration) -> bool {
        match self {
            UnmergedCommits::Keep => false,
            UnmergedCommits::Remove { older_than } => older_than.is_none_or(|older_than| age >= older_than),
        }
    }
}

/// The mode of a sweep.
///
/// ```
/// use orchestra_workspace::SweepMode;
/// assert_ne!(SweepMode::DryRun, SweepMode::Remove);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepMode {
    /// Remove what is no longer needed.
    Remove,
    /// Report what would be removed without removing anything.
    DryRun,
}

/// The options of a sweep.
///
/// ```
/// use std::time::SystemTime;
/// use orchestra_workspace::{Sweep, SweepMode, UnmergedCommits};
/// let sweep = Sweep {
///     prefix: "orchestra/",
///     worktrees: ".orchestra/worktrees".into(),
///     is_live: &|run| run == "poem-1",
///     now: SystemTime::now(),
///     unmerged: UnmergedCommits::Keep,
///     mode: SweepMode::DryRun,
/// };
/// assert!((sweep.is_live)("poem-1"));
/// ```
pub struct Sweep<'s> {
    /// The prefix of the branch names.
    pub prefix: &'s str,
    /// The folder of all worktrees. The first component below it is the run of a worktree.
    pub worktrees: PathBuf,
    /// Returns whether a run is running, paused or resumable. Nothing that belongs to such a run is changed. If neither
    /// the worktree nor the commit of a branch names its run, the argument is the last component of the branch name,
    /// which begins with the short id of the run.
    pub is_live: &'s dyn Fn(&str) -> bool,
    /// The time from which ages are computed.
    pub now: SystemTime,
    /// The treatment of commits that are reachable from nowhere else.
    pub unmerged: UnmergedCommits,
    /// The mode of the sweep.
    pub mode: SweepMode,
}

/// The branches, worktrees and refs that a sweep removed, or would remove.
///
/// ```
/// assert!(orchestra_workspace::Swept::default().branches.is_empty());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// The removed branches.
    pub branches: Vec<String>,
    /// The removed worktrees.
    pub worktrees: Vec<PathBuf>,
    /// The removed refs: set-aside work that is also reachable elsewhere or that the options remove, and refs without
    /// their branch.
    pub refs: Vec<String>,
    /// The branches and refs that stay, each with the reason.
    pub kept: Vec<(String, String)>,
}

/// Returns the branches with a prefix that runs made, by name.
///
/// # Errors
///
/// Returns an error if git fails.
pub fn branches(repository: &Repository, prefix: &str) -> Result<Vec<OwnBranch>, GitWorkspaceError> {
    list(repository, prefix, SystemTime::now(), None)
}

fn list(
    repository: &Repository,
    prefix: &str,
    now: SystemTime,
    worktrees: Option<&Path>,
) -> Result<Vec<OwnBranch>, GitWorkspaceError> {
    let bases = refs(repository, BASE)?;
    let tips = refs(repository, "refs/heads/")?;
    let trees = repository.worktrees()?;
    let mut list = Vec::new();
    for (name, base) in bases.iter().filter(|(name, _)| name.starts_with(prefix)) {
        let Some(tip) = tips.get(name) else { continue };
        let worktree = trees
            .iter()
            .find(|tree| tree.branch.as_ref() == Some(name))
            .map(|tree| tree.path.clone());
        let (age, run) = commit_info(repository, tip, now)?;
        let of_tree = worktrees
            .zip(worktree.as_deref())
            .and_then(|(all, path)| run_of(all, path));
        list.push(OwnBranch {
            name: name.clone(),
            tip: tip.clone(),
            base: base.clone(),
            age,
            run: of_tree.or(run),
            merged_into: merged_into(repository, tip, &bases)?,
            ahead: ahead(repository, tip, &[head_ref(name)])?,
            worktree,
        });
    }
    Ok(list)
}

/// Removes the worktrees of runs that have ended, and their merged branches. No commit becomes unreachable unless the
/// options remove unmerged commits.
///
/// # Errors
///
/// Returns an error if git fails, or if a worktree cannot be removed.
pub fn sweep(repository: &Repository, options: &Sweep<'_>) -> Result<Swept, GitWorkspaceError> {
    let mut swept = Swept::default();
    sweep_trees(repository, options, &mut swept)?;
    for mut branch in list(repository, options.prefix, options.now, Some(&options.worktrees))? {
        // A branch that was removed earlier in this sweep keeps no commit reachable.
        let gone = swept
            .branches
            .iter()
            .chain([&branch.name])
            .map(|name| head_ref(name));
        branch.ahead = ahead(repository, &branch.tip, &gone.collect::<Vec<_>>())?;
        if let Some(reason) = reason_to_keep(&branch, options, &swept) {
            swept.kept.push((branch.name, reason));
            continue;
        }
        if options.mode == SweepMode::Remove {
            let lock = repository.lock(&format!("sweep {}", branch.name))?;
            repository.unlock_refs(&lock, &branch.name);
            // Delete the branch only if it was not moved since it was examined.
            if repository.tip(&branch.name)?.as_ref() != Some(&branch.tip) {
                swept.kept.push((branch.name, "it moved meanwhile".to_owned()));
                continue;
            }
            repository.delete_branch_locked(&lock, &branch.name, &branch.tip)?;
            delete_base_ref(repository, &lock, &branch.name)?;
        }
        swept.branches.push(branch.name);
    }
    sweep_refs(repository, options, &mut swept)?;
    if options.mode == SweepMode::Remove {
        remove_stale_marks(&options.worktrees);
    }
    Ok(swept)
}

/// Returns the reason why a branch stays, or `None` if it can be removed.
fn reason_to_keep(branch: &OwnBranch, options: &Sweep<'_>, swept: &Swept) -> Option<String> {
    if is_live(branch.run.as_deref(), &branch.name, options) {
        return Some("its run goes on".to_owned());
    }
    if let Some(tree) = branch
        .worktree
        .as_ref()
        .filter(|tree| tree.exists() && !swept.worktrees.contains(tree))
    {
        return Some(format!("it is checked out in `{}`", tree.display()));
    }
    if branch.ahead == 0 {
        return None;
    }
    let commits = if branch.ahead == 1 {
        "one commit".to_owned()
    } else {
        format!("{} commits", branch.ahead)
    };
    match options.unmerged {
        unmerged if unmerged.removes(branch.age) => None,
        UnmergedCommits::Remove { .. } => {
            Some(format!("{commits} would be lost, and it is not older than asked"))
        }
        UnmergedCommits::Keep => Some(format!("{commits} would be lost; merge it, or force its removal")),
    }
}

fn is_live(run: Option<&str>, branch: &str, options: &Sweep<'_>) -> bool {
    let open = run.is_some_and(|run| is_open(&options.worktrees, run));
    open || (options.is_live)(run.unwrap_or_else(|| branch.rsplit('/').next().unwrap_or(branch)))
}

/// Returns the first component of a worktree's path below the folder of all worktrees.
fn run_of(worktrees: &Path, tree: &Path) -> Option<String> {
    let worktrees = worktrees.canonicalize().unwrap_or_else(|_| worktrees.to_owned());
    let inside = tree.strip_prefix(worktrees).ok()?;
    Some(
        inside
            .components()
            .next()?
            .as_os_str()
            .to_string_lossy()
            .into_owned(),
    )
}

fn sweep_trees(
    repository: &Repository,
    options: &Sweep<'_>,
    swept: &mut Swept,
) -> Result<(), GitWorkspaceError> {
    for tree in repository.worktrees()? {
        let Some(run) = run_of(&options.worktrees, &tree.path) else {
            continue;
        };
        if (options.is_live)(&run) || is_open(&options.worktrees, &run) {
            continue;
        }
        if options.mode == SweepMode::Remove {
            // The work in a worktree whose HEAD is detached is set aside under this name.
            let branch = tree.branch.unwrap_or_else(|| format!("{}{run}", options.prefix));
            let handle = repository.tree(tree.path.clone(), branch.clone());
            if let Err(error) = handle.remove() {
                swept.kept.push((branch, error.to_string()));
                continue;
            }
        }
        swept.worktrees.push(tree.path);
    }
    Ok(())
}

/// Deletes the ref that marks a branch, but not the ref of an open merge, which may hold work.
fn delete_base_ref(
    repository: &Repository,
    lock: &RepositoryLock,
    branch: &str,
) -> Result<(), GitWorkspaceError> {
    match repository.resolve(&base_ref(branch))? {
        Some(base) => repository.delete_ref(lock, &base_ref(branch), &base),
        None => Ok(()),
    }
}

/// Sweeps the refs beside branches: marks without a branch, and work that was set aside.
fn sweep_refs(
    repository: &Repository,
    options: &Sweep<'_>,
    swept: &mut Swept,
) -> Result<(), GitWorkspaceError> {
    let tips = refs(repository, "refs/heads/")?;
    let gone = |branch: &String, swept: &Swept| !tips.contains_key(branch) || swept.branches.contains(branch);
    for (branch, sha) in refs(repository, BASE)? {
        let live = is_live(None, &branch, options);
        // A run that starts writes the mark before the branch, so look for the branch again.
        let alone = !tips.contains_key(&branch) && repository.tip(&branch)?.is_none();
        if branch.starts_with(options.prefix) && alone && !live {
            remove(repository, options, swept, &base_ref(&branch), &sha)?;
        }
    }
    let kept = refs(repository, KEPT)?.into_iter().filter_map(|(name, sha)| {
        let branch = name.rsplit_once('/')?.0.to_owned();
        Some((format!("{KEPT}{name}"), branch, sha))
    });
    let open = refs(repository, OPEN)?
        .into_iter()
        .map(|(branch, sha)| (open_ref(&branch), branch, sha));
    for (name, branch, sha) in kept.chain(open).collect::<Vec<_>>() {
        if !branch.starts_with(options.prefix) {
            continue;
        }
        let (age, run) = commit_info(repository, &sha, options.now)?;
        if is_live(run.as_deref(), &branch, options) || swept.kept.iter().any(|(kept, _)| *kept == branch) {
            continue;
        }
        let held = is_held(repository, &name, &sha, swept)?;
        if held || (options.unmerged.removes(age) && gone(&branch, swept)) {
            remove(repository, options, swept, &name, &sha)?;
        } else {
            swept.kept.push((
                name,
                "it holds work that was set aside; force its removal".to_owned(),
            ));
        }
    }
    Ok(())
}

fn remove(
    repository: &Repository,
    options: &Sweep<'_>,
    swept: &mut Swept,
    name: &str,
    sha: &Sha,
) -> Result<(), GitWorkspaceError> {
    if options.mode == SweepMode::Remove {
        let lock = repository.lock(&format!("sweep {name}"))?;
        let file = repository.common().join(format!("{name}.lock"));
        if file.exists() {
            lock.unlock(&file);
        }
        repository.delete_ref(&lock, name, sha)?;
    }
    swept.refs.push(name.to_owned());
    Ok(())
}

/// Returns the refs below a prefix, by their names without the prefix.
fn refs(repository: &Repository, below: &str) -> Result<BTreeMap<String, Sha>, GitWorkspaceError> {
    let command = repository
        .command()
        .args(["for-each-ref", "--format=%(objectname) %(refname)", below]);
    let output = repository.run(&command)?;
    let text = String::from_utf8_lossy(&output).into_owned();
    let entry = |line: &str| {
        let (sha, name) = line.split_once(' ')?;
        Some((name.strip_prefix(below)?.to_owned(), sha.parse().ok()?))
    };
    Ok(text.lines().filter_map(entry).collect())
}

/// Returns the age of a commit, and the run that its trailers name.
fn commit_info(
    repository: &Repository,
    commit: &Sha,
    now: SystemTime,
) -> Result<(Duration, Option<String>), GitWorkspaceError> {
    let format = "--format=%ct %(trailers:key=Orchestra-Run,valueonly,separator=%x2C)";
    let output = repository.run(&repository.command().args(["log", "-1", format, commit.as_str()]))?;
    let text = String::from_utf8_lossy(&output).trim().to_owned();
    let (seconds, run) = text.split_once(' ').unwrap_or((&text, ""));
    let made = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds.parse().unwrap_or(0)));
    let age = made
        .and_then(|made| now.duration_since(made).ok())
        .unwrap_or_default();
    let run = run
        .split(',')
        .next()
        .map(str::trim)
        .filter(|run| !run.is_empty())
        .map(str::to_owned);
    Ok((age, run))
}

/// Returns a ref that no run made, or `HEAD`, that contains a commit.
fn merged_into(
    repository: &Repository,
    tip: &Sha,
    ours: &BTreeMap<String, Sha>,
) -> Result<Option<String>, GitWorkspaceError> {
    let contains = format!("--contains={tip}");
    let words = [
        "for-each-ref",
        "--format=%(refname)",
        &contains,
        "refs/heads",
        "refs/remotes",
        "refs/tags",
    ];
    let output = repository.run(&repository.command().args(words))?;
    let text = String::from_utf8_lossy(&output).into_owned();
    let own = |name: &&str| {
        name.strip_prefix("refs/heads/")
            .is_some_and(|branch| ours.contains_key(branch))
    };
    let holder = text.lines().find(|name| !own(name)).map(|name| {
        let short = name
            .strip_prefix("refs/heads/")
            .or_else(|| name.strip_prefix("refs/"));
        short.unwrap_or(name).to_owned()
    });
    if holder.is_some() {
        return Ok(holder);
    }
    match repository.resolve("HEAD^{commit}")? {
        Some(head) if repository.is_ancestor(tip, &head)? => Ok(Some("HEAD".to_owned())),
        _ => Ok(None),
    }
}

/// Returns the number of commits that are reachable only from `tip` and the refs in `without`. Refs under
/// `refs/orchestra/` do not count as reachable.
fn ahead(repository: &Repository, tip: &Sha, without: &[String]) -> Result<u64, GitWorkspaceError> {
    let mut command = repository
        .command()
        .args(["rev-list", "--count", tip.as_str(), "--not"]);
    for name in without {
        command = command.arg(format!("--exclude={name}"));
    }
    // `--all` would also count the HEADs of other worktrees.
    command = command.args(["--exclude=refs/orchestra/*", "--glob=refs/*"]);
    if let Some(head) = repository.resolve("HEAD^{commit}")? {
        command = command.arg(head.as_str());
    }
    let output = repository.run(&command)?;
    String::from_utf8_lossy(&output)
        .trim()
        .parse()
        .map_err(|_| repository.unreadable(&command))
}

/// Returns whether the commit of a ref is reachable elsewhere, or is an open merge that can be computed again.
fn is_held(repository: &Repository, name: &str, sha: &Sha, swept: &Swept) -> Result<bool, GitWorkspaceError> {
    let gone: Vec<String> = swept.branches.iter().map(|name| head_ref(name)).collect();
    Ok(match ahead(repository, sha, &gone)? {
        0 => true,
        1 => name.starts_with(KEPT) && open::OpenMerge::read(repository, sha).is_ok(),
        _ => false,
    })
}
