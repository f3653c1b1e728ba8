//! Worktrees: creating, committing, restoring, removing, and repairing them after manual changes.

use crate::common;

use std::fs;

use common::{Yard, message, read, run, shown, write};
use orchestra_workspace::{Ensured, GitWorkspaceError};

#[test]
fn a_stage_is_committed_on_a_branch_of_its_own() {
    let yard = Yard::new();
    let before = yard.untouched();
    let (repository, tree, base) = yard.ready();
    assert!(!tree.changed().unwrap());
    assert_eq!(tree.commit(&message("nothing")).unwrap(), None);
    write(&tree.root(), "src/new.txt", "new\n");
    fs::remove_file(tree.root().join("a.txt")).unwrap();
    assert!(tree.changed().unwrap());
    let commit = tree.commit(&message("build: two files")).unwrap().unwrap();
    assert!(!tree.changed().unwrap());
    assert_eq!(shown(&repository, &commit, "src/new.txt"), "new\n");
    let log = yard.git(&["log", "-1", "--format=%an <%ae>%n%cn%n%B", commit.as_str()]);
    let expected = "Orchestra <orchestra@localhost>\nOrchestra\nbuild: two files\n\nOrchestra-Run: run1\nOrchestra-Node: build\n\n";
    assert_eq!(log, expected);
    assert!(repository.is_ancestor(&base, &commit).unwrap());
    assert_eq!(repository.tip(tree.branch()).unwrap(), Some(commit));
    assert_eq!(yard.untouched(), before);
}

#[test]
fn a_second_process_finds_the_tree_as_it_is() {
    let yard = Yard::new();
    let (repository, tree, base) = yard.ready();
    write(&tree.root(), "a.txt", "edited\n");
    drop(tree);
    let again = yard.tree(&repository, "session");
    assert_eq!(again.ensure(&base, &base).unwrap(), Ensured::Existed);
    assert!(again.changed().unwrap());
    assert!(again.state().unwrap().dirty);
    assert_eq!(read(&again.root(), "a.txt"), "edited\n");
}

#[test]
fn restore_sets_aside_what_is_beyond() {
    let yard = Yard::new();
    let (repository, tree, base) = yard.ready();
    write(&tree.root(), "a.txt", "first\n");
    let first = tree.commit(&message("first")).unwrap().unwrap();
    write(&tree.root(), "a.txt", "second\n");
    write(&tree.root(), "untracked.txt", "loose\n");
    write(&tree.root(), "target/out.o", "built\n");
    let kept = tree.restore(&base).unwrap();
    assert_eq!(kept.len(), 1, "the files are on top of the commit: {kept:?}");
    assert!(kept[0].files && repository.is_ancestor(&first, &kept[0].commit).unwrap());
    assert_eq!(shown(&repository, &kept[0].commit, "untracked.txt"), "loose\n");
    assert_eq!(
        yard.git(&["rev-parse", &kept[0].reference]).trim(),
        kept[0].commit.as_str()
    );
    assert_eq!(read(&tree.root(), "a.txt"), "one\ntwo\nthree\n");
    assert_eq!(read(&tree.root(), "target/out.o"), "built\n");
    assert!(!tree.root().join("untracked.txt").exists() && !tree.changed().unwrap());
    assert_eq!(tree.restore(&base).unwrap(), []);
    assert_eq!(tree.restore(&first).unwrap(), []);
    assert_eq!(read(&tree.root(), "a.txt"), "first\n");
}

#[test]
fn what_an_agent_did_with_git_counts() {
    let yard = Yard::new();
    let (repository, tree, base) = yard.ready();
    let branch = format!("refs/heads/{}", tree.branch());
    let root = tree.root();
    // A commit made by the agent itself.
    write(&root, "a.txt", "own\n");
    run(&root, &["commit", "-q", "-am", "own commit"]);
    assert!(tree.changed().unwrap());
    let own = tree.commit(&message("agent")).unwrap().unwrap();
    assert_eq!(run(&root, &["log", "-1", "--format=%an"]), "Person\n");
    // Another branch, with a commit and an edit on top.
    run(&root, &["switch", "-q", "-c", "side", base.as_str()]);
    write(&root, "side.txt", "side\n");
    run(&root, &["add", "-A"]);
    run(&root, &["commit", "-q", "-m", "side"]);
    write(&root, "edit.txt", "edit\n");
    let side = tree.commit(&message("switched")).unwrap().unwrap();
    assert_eq!(run(&root, &["symbolic-ref", "HEAD"]).trim(), branch);
    assert_eq!(shown(&repository, &side, "edit.txt"), "edit\n");
    let kept = format!("refs/orchestra/kept/{}/{}", tree.branch(), own.short());
    assert_eq!(yard.git(&["rev-parse", &kept]).trim(), own.as_str());
    // A detached HEAD and a reset.
    run(&root, &["checkout", "-q", "--detach"]);
    run(&root, &["reset", "-q", "--hard", base.as_str()]);
    assert_eq!(tree.commit(&message("reset")).unwrap(), Some(base.clone()));
    assert_eq!(run(&root, &["symbolic-ref", "HEAD"]).trim(), branch);
    assert_eq!(repository.tip(tree.branch()).unwrap(), Some(base));
    yard.git(&[
        "rev-parse",
        &format!("refs/orchestra/kept/{}/{}", tree.branch(), side.short()),
    ]);
    // A merge in progress, with markers.
    write(&root, "a.txt", "here\n");
    run(&root, &["commit", "-q", "-am", "here"]);
    assert!(!common::try_run(&root, &["merge", "-q", own.as_str()]).0);
    let merged = tree.commit(&message("half a merge")).unwrap().unwrap();
    assert!(shown(&repository, &merged, "a.txt").contains("<<<<<<< HEAD"));
    assert!(!run(&root, &["status"]).contains("merging"));
    assert!(!tree.changed().unwrap());
    assert_eq!(common::unreachable(&yard), "");
}

#[test]
fn a_tree_that_is_removed_keeps_what_was_not_committed() {
    let yard = Yard::new();
    let before = yard.untouched();
    let (repository, tree, base) = yard.ready();
    write(&tree.root(), "loose.txt", "loose\n");
    write(&tree.root(), "target/big.o", "built\n");
    let kept = tree.remove().unwrap();
    assert_eq!(shown(&repository, &kept[0].commit, "loose.txt"), "loose\n");
    assert!(!tree.path().exists() && !yard.folder.path().join("trees/run1").exists());
    assert!(!yard.git(&["worktree", "list"]).contains("trees"));
    assert_eq!(tree.remove().unwrap(), []);
    assert!(repository.branch_exists(tree.branch()).unwrap());
    repository.delete_branch(tree.branch(), &base).unwrap();
    repository.delete_branch(tree.branch(), &base).unwrap();
    assert!(!repository.branch_exists(tree.branch()).unwrap());
    assert_eq!(yard.git(&["for-each-ref", "refs/orchestra/base"]), "");
    assert_eq!(yard.untouched(), before);
}

#[test]
fn leftovers_of_every_kind_are_mended() {
    let yard = Yard::new();
    let (repository, tree, base) = yard.ready();
    write(&tree.root(), "a.txt", "done\n");
    let done = tree.commit(&message("done")).unwrap().unwrap();
    let (path, root) = (tree.path().to_owned(), tree.root());
    let entry = yard.user.join(".git/worktrees/backend");
    let again = || {
        let tree = yard.tree(&repository, "session");
        let ensured = tree.ensure(&done, &base).unwrap();
        assert_eq!(read(&root, "a.txt"), "done\n");
        assert!(!tree.changed().unwrap());
        ensured
    };
    // The folder was deleted manually.
    fs::remove_dir_all(&path).unwrap();
    assert_eq!(tree.state().unwrap_err().code(), "tree_missing");
    assert_eq!(again(), Ensured::Created);
    // Deleted while its entry was locked.
    yard.git(&["worktree", "lock", path.to_str().unwrap()]);
    fs::remove_dir_all(&path).unwrap();
    assert_eq!(again(), Ensured::Created);
    // Killed during checkout.
    fs::write(entry.join("locked"), "initializing\n").unwrap();
    fs::remove_file(root.join("a.txt")).unwrap();
    fs::remove_file(entry.join("index")).unwrap();
    fs::write(entry.join("index.lock"), "half").unwrap();
    assert_eq!(again(), Ensured::Created);
    // The entry was pruned, but the files exist.
    fs::remove_dir_all(&entry).unwrap();
    assert_eq!(again(), Ensured::Existed);
    // The link is missing, or points into the user's repository.
    fs::remove_file(path.join(".git")).unwrap();
    assert_eq!(again(), Ensured::Existed);
    fs::write(
        path.join(".git"),
        format!("gitdir: {}\n", yard.user.join(".git").display()),
    )
    .unwrap();
    assert_eq!(again(), Ensured::Existed);
    assert_eq!(
        run(&path, &["rev-parse", "--show-toplevel"]).trim(),
        path.canonicalize().unwrap().to_str().unwrap()
    );
    // Lock files of a git that was killed.
    fs::write(entry.join("index.lock"), "").unwrap();
    fs::write(entry.join("HEAD.lock"), "").unwrap();
    fs::write(yard.user.join(".git/refs/heads/orchestra/poem/ab12.lock"), "").unwrap();
    fs::write(yard.user.join(".git/orchestra.lock"), "1 commit\n").unwrap();
    assert_eq!(again(), Ensured::Existed);
    write(&root, "a.txt", "more\n");
    let tree = yard.tree(&repository, "session");
    tree.ensure(&done, &base).unwrap();
    assert!(tree.commit(&message("more")).unwrap().is_some());
    // An empty folder, and a partly removed one.
    tree.remove().unwrap();
    fs::create_dir_all(path.parent().unwrap().join(".removed-backend-0/x")).unwrap();
    fs::create_dir_all(&path).unwrap();
    let tree = yard.tree(&repository, "session");
    assert_eq!(tree.ensure(&done, &base).unwrap(), Ensured::Created);
    assert!(!path.parent().unwrap().join(".removed-backend-0").exists());
    assert_eq!(read(&root, "a.txt"), "more\n", "the branch is where it was");
}

#[test]
fn a_branch_that_no_run_made_is_refused() {
    let yard = Yard::new();
    yard.git(&["branch", "orchestra/poem/ab12"]);
    let repository = yard.open();
    let base = repository.head().unwrap();
    let tree = yard.tree(&repository, "session");
    let error = tree.ensure(&base, &base).unwrap_err();
    assert!(matches!(error, GitWorkspaceError::BranchTaken { .. }), "{error}");
    assert_eq!(
        repository.delete_branch(tree.branch(), &base).unwrap_err().code(),
        "branch_not_ours"
    );
    yard.git(&["branch", "-m", "orchestra/poem/ab12", "orchestra"]);
    let error = tree.ensure(&base, &base).unwrap_err();
    assert_eq!(error.code(), "branch_taken", "{error}");
    assert_eq!(yard.git(&["for-each-ref", "refs/orchestra"]), "");
}

#[test]
fn a_tree_advances_only_from_where_it_is() {
    let yard = Yard::new();
    let (_, tree, base) = yard.ready();
    write(&tree.root(), "a.txt", "next\n");
    let next = tree.commit(&message("next")).unwrap().unwrap();
    tree.restore(&base).unwrap();
    tree.advance(&base, &next).unwrap();
    assert_eq!(read(&tree.root(), "a.txt"), "next\n");
    tree.advance(&base, &next).unwrap();
    write(&tree.root(), "a.txt", "dirty\n");
    assert_eq!(tree.advance(&next, &base).unwrap_err().code(), "tree_moved");
    assert_eq!(read(&tree.root(), "a.txt"), "dirty\n");
    tree.restore(&base).unwrap();
    assert_eq!(
        tree.advance(&next, &next).map_err(|error| error.code()),
        Err("tree_moved")
    );
}

#[test]
fn a_lock_that_is_shared_with_the_user_goes_only_if_it_is_ours() {
    let yard = Yard::new();
    let (repository, tree, base) = yard.ready();
    tree.remove().unwrap();
    let (note, lock) = (
        yard.user.join(".git/orchestra.lock"),
        yard.user.join(".git/packed-refs.lock"),
    );
    // The user is packing refs at this moment.
    fs::write(&lock, "").unwrap();
    assert_eq!(fs::read(&note).unwrap(), b"", "nothing of ours was killed");
    let error = repository.delete_branch(tree.branch(), &base).unwrap_err();
    assert_eq!(error.code(), "repository_locked", "{error}");
    assert!(lock.exists());
    fs::remove_file(&lock).unwrap();
    // The lock appeared while one of our operations was killed.
    fs::write(&note, "1 delete branch\n").unwrap();
    fs::write(&lock, "").unwrap();
    repository.delete_branch(tree.branch(), &base).unwrap();
    assert!(!lock.exists() && !repository.branch_exists(tree.branch()).unwrap());
}

#[test]
fn whatever_happens_to_files_is_noticed() {
    use std::io::Write;
    let yard = Yard::new();
    let (_, tree, _) = yard.ready();
    let root = tree.root();
    let quiet = |what: &str| {
        tree.commit(&message(what)).unwrap();
        assert!(!tree.changed().unwrap(), "after {what}");
    };
    // Git ignores empty folders, but not files that are added to them later.
    fs::create_dir_all(root.join("empty/inner")).unwrap();
    assert!(!tree.changed().unwrap());
    write(&root, "empty/inner/file.txt", "new\n");
    assert!(tree.changed().unwrap());
    quiet("a file in a folder that was empty");
    fs::rename(root.join("empty"), root.join("renamed")).unwrap();
    assert!(tree.changed().unwrap());
    quiet("a folder that was renamed");
    write(&root, "renamed/inner/file.txt", "more\n");
    assert!(tree.changed().unwrap());
    // A file that was opened before.
    let mut open = fs::OpenOptions::new()
        .append(true)
        .open(root.join("a.txt"))
        .unwrap();
    quiet("an edit below it");
    open.write_all(b"late\n").unwrap();
    assert!(tree.changed().unwrap());
    quiet("a late edit");
    // Writing the same bytes again is not a change.
    write(&root, "renamed/inner/file.txt", "more\n");
    assert!(!tree.changed().unwrap());
    write(&root, "target/built.o", "built\n");
    assert!(!tree.changed().unwrap());
    write(&root, ".gitignore", "nothing\n");
    let commit = tree.commit(&message("nothing is ignored")).unwrap().unwrap();
    assert!(
        yard.git(&["ls-tree", "-r", "--name-only", commit.as_str()])
            .contains("target/built.o")
    );
    fs::remove_dir_all(root.join("renamed")).unwrap();
    assert!(tree.changed().unwrap());
    quiet("a folder that was deleted");
}
