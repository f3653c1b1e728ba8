//! Cleanup: the refs and worktrees that are removed after runs, and those that must stay.

use crate::common;

use std::fs;
use std::time::{Duration, SystemTime};

use common::{Yard, message, shown, write};
use orchestra_workspace::{Repository, Sweep, SweepMode, Swept, UnmergedCommits, branches, sweep};

/// One day after the commits of the tests were made.
fn tomorrow() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_086_400)
}

fn swept(yard: &Yard, repository: &Repository, change: impl FnOnce(&mut Sweep<'_>)) -> Swept {
    let mut options = Sweep {
        prefix: "orchestra/",
        worktrees: yard.folder.path().join("trees"),
        is_live: &|_| false,
        now: tomorrow(),
        unmerged: UnmergedCommits::Keep,
        mode: SweepMode::Remove,
    };
    change(&mut options);
    let before = yard.untouched();
    let swept = sweep(repository, &options).unwrap();
    assert_eq!(yard.untouched(), before);
    swept
}

fn older_than(seconds: u64) -> UnmergedCommits {
    UnmergedCommits::Remove {
        older_than: Some(Duration::from_secs(seconds)),
    }
}

fn refs(yard: &Yard) -> String {
    yard.git(&[
        "for-each-ref",
        "--format=%(refname)",
        "refs/heads/orchestra",
        "refs/orchestra",
    ])
}

#[test]
fn merged_branches_and_stale_trees_go_and_work_stays() {
    let yard = Yard::new();
    let (repository, tree, base) = yard.ready();
    write(&tree.root(), "a.txt", "work\n");
    let work = tree.commit(&message("work")).unwrap().unwrap();
    write(&tree.root(), "loose.txt", "loose\n");
    let idle = yard.tree(&repository, "idle");
    idle.ensure(&base, &base).unwrap();

    let list = branches(&repository, "orchestra/").unwrap();
    assert_eq!(list.iter().map(|branch| branch.ahead).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(list[0].run.as_deref(), Some("run1"));
    assert_eq!((&list[0].base, &list[0].tip), (&base, &work));
    assert_eq!(list[1].merged_into.as_deref(), Some("main"));
    assert!(list[1].worktree.is_some());

    let before = refs(&yard);
    let planned = swept(&yard, &repository, |options| options.mode = SweepMode::DryRun);
    assert_eq!(refs(&yard), before);
    assert!(tree.path().exists());
    let done = swept(&yard, &repository, |_| {});
    assert_eq!(
        (&done.branches, &done.worktrees),
        (&planned.branches, &planned.worktrees)
    );
    assert_eq!(done.branches, ["orchestra/poem/ab12-idle"]);
    assert_eq!(done.worktrees.len(), 2);
    assert!(!tree.path().exists() && !idle.path().exists());
    assert!(done.kept[0].1.contains("one commit would be lost"), "{done:?}");
    let kept = yard.git(&["for-each-ref", "--format=%(objectname)", "refs/orchestra/kept"]);
    assert_eq!(
        shown(&repository, &kept.trim().parse().unwrap(), "loose.txt"),
        "loose\n"
    );
    assert_eq!(common::unreachable(&yard), "");

    // Too young, then old enough.
    let none = swept(&yard, &repository, |options| {
        options.unmerged = older_than(7 * 86_400);
    });
    assert_eq!((none.branches.len(), none.refs.len()), (0, 0), "{none:?}");
    let all = swept(&yard, &repository, |options| {
        options.unmerged = older_than(3_600);
    });
    assert_eq!(all.branches, ["orchestra/poem/ab12"]);
    assert_eq!(refs(&yard), "");
}

#[test]
fn nothing_of_a_live_run_is_touched() {
    let yard = Yard::new();
    let (repository, tree, base) = yard.ready();
    write(&tree.root(), "a.txt", "work\n");
    tree.commit(&message("work")).unwrap();
    tree.restore(&base).unwrap();
    let gone = yard.tree(&repository, "gone");
    gone.ensure(&base, &base).unwrap();
    gone.remove().unwrap();
    let before = refs(&yard);
    let done = swept(&yard, &repository, |options| {
        options.is_live = &|run| run == "run1" || run.starts_with("ab12");
        options.unmerged = UnmergedCommits::Remove { older_than: None };
    });
    assert_eq!(refs(&yard), before);
    assert_eq!(
        (done.branches.len(), done.worktrees.len(), done.refs.len()),
        (0, 0, 0)
    );
    assert!(tree.path().exists());
}

#[test]
fn of_two_branches_with_the_same_work_one_stays() {
    let yard = Yard::new();
    let (repository, tree, base) = yard.ready();
    write(&tree.root(), "a.txt", "work\n");
    let work = tree.commit(&message("work")).unwrap().unwrap();
    tree.remove().unwrap();
    let twin = yard.tree(&repository, "twin");
    twin.ensure(&work, &base).unwrap();
    twin.remove().unwrap();
    let planned = swept(&yard, &repository, |options| options.mode = SweepMode::DryRun);
    let done = swept(&yard, &repository, |_| {});
    assert_eq!(planned, done);
    assert_eq!((done.branches.len(), done.kept.len()), (1, 1), "{done:?}");
    assert_eq!(common::unreachable(&yard), "");
    // After the user merged it, it is removed too.
    yard.git(&["merge", "-q", "--ff-only", work.as_str()]);
    let done = swept(&yard, &repository, |_| {});
    assert_eq!((done.branches.len(), refs(&yard).as_str()), (1, ""), "{done:?}");
}

#[test]
fn branches_of_others_and_dangling_entries_are_left_or_mended() {
    let yard = Yard::new();
    let (repository, tree, _) = yard.ready();
    yard.git(&["branch", "orchestra/mine"]);
    fs::remove_dir_all(tree.path()).unwrap();
    let done = swept(&yard, &repository, |options| {
        options.unmerged = UnmergedCommits::Remove { older_than: None };
    });
    assert_eq!(done.branches, ["orchestra/poem/ab12"]);
    assert_eq!(refs(&yard), "refs/heads/orchestra/mine\n");
    assert!(!yard.git(&["worktree", "list"]).contains("trees"));
}

#[test]
fn what_a_frozen_process_makes_behind_the_end_of_its_run_is_removed() {
    let yard = Yard::new();
    let (repository, ..) = yard.ready();
    let trees = yard.folder.path().join("trees");
    for run in ["gone", "filled", "open"] {
        fs::create_dir_all(trees.join(run)).unwrap();
        fs::write(trees.join(format!("{run}.lock")), "").unwrap();
    }
    fs::write(trees.join("filled/file"), "").unwrap();
    let open = fs::File::open(trees.join("open.lock")).unwrap();
    open.try_lock().unwrap();
    swept(&yard, &repository, |options| options.mode = SweepMode::DryRun);
    assert!(trees.join("gone").exists());
    swept(&yard, &repository, |_| {});
    let is_there = |name: &str| trees.join(name).exists();
    assert!(!is_there("gone") && !is_there("gone.lock"));
    assert!(is_there("filled/file") && is_there("filled.lock"));
    assert!(is_there("open") && is_there("open.lock"));
}
