//! Repositories in unusual states: each leads to a clear error or to correct work, and the user's own files stay
//! unchanged.

use crate::common;

use std::fs;
use std::path::Path;

use common::{Yard, git, message, read, run, shown, write};
use orchestra_workspace::{Ensured, GitWorkspaceError, Repository, Sha, Tree};

/// Performs the operations of a run: creates a worktree, changes a file, commits, restores and removes. Checks that the
/// user's files are unchanged.
fn works(yard: &Yard) -> (Repository, Sha) {
    let before = yard.untouched();
    let repository = yard.open();
    let base = repository.head().unwrap();
    let tree = yard.tree(&repository, "session");
    assert_eq!(tree.ensure(&base, &base).unwrap(), Ensured::Created);
    assert!(!tree.changed().unwrap(), "a new tree is clean");
    write(&tree.root(), "a.txt", "of the run\n");
    write(&tree.root(), "of/the/run.txt", "new\n");
    let commit = tree.commit(&message("work")).unwrap().unwrap();
    assert!(!tree.changed().unwrap());
    write(&tree.root(), "loose.txt", "loose\n");
    assert_eq!(tree.restore(&base).unwrap().len(), 1);
    assert_eq!(tree.restore(&commit).unwrap(), []);
    assert_eq!(read(&tree.root(), "of/the/run.txt"), "new\n");
    tree.remove().unwrap();
    assert_eq!(shown(&repository, &commit, "a.txt"), "of the run\n");
    assert_eq!(yard.untouched(), before);
    (repository, commit)
}

fn error(path: &Path) -> GitWorkspaceError {
    Repository::open(git(), "backend", path).unwrap_err()
}

#[test]
fn a_dirty_work_tree_is_left_as_it_is() {
    let yard = Yard::new();
    yard.write("a.txt", "edited by the user\n");
    yard.write("src/b.txt", "staged by the user\n");
    yard.git(&["add", "src/b.txt"]);
    yard.write("untracked.txt", "of the user\n");
    let (repository, commit) = works(&yard);
    assert_eq!(shown(&repository, &commit, "src/b.txt"), "b\n");
}

#[test]
fn a_detached_head_is_a_base() {
    let yard = Yard::new();
    yard.git(&["checkout", "-q", "--detach"]);
    works(&yard);
}

#[test]
fn a_base_that_the_user_rewrites_stays() {
    let yard = Yard::new();
    let (repository, tree, base) = yard.ready();
    yard.git(&["commit", "-q", "--amend", "-m", "rewritten"]);
    yard.git(&["reflog", "expire", "--expire=now", "--all"]);
    yard.git(&["gc", "-q", "--prune=now"]);
    write(&tree.root(), "a.txt", "on top of the old base\n");
    let commit = tree.commit(&message("work")).unwrap().unwrap();
    assert!(repository.is_ancestor(&base, &commit).unwrap());
    assert!(
        !repository
            .is_ancestor(&base, &repository.head().unwrap())
            .unwrap()
    );
    tree.restore(&base).unwrap();
}

#[test]
fn a_repository_without_a_commit_is_reported() {
    let yard = Yard::bare_start(&[]);
    let error = yard.open().head().unwrap_err();
    assert_eq!(error.code(), "no_commit");
    assert!(error.to_string().contains("git commit --allow-empty"), "{error}");
}

#[test]
fn what_is_no_repository_is_reported() {
    let yard = Yard::new();
    let folder = yard.folder.path();
    assert_eq!(error(&folder.join("nowhere")).code(), "repository_missing");
    assert_eq!(error(&yard.user.join("a.txt")).code(), "repository_missing");
    assert_eq!(error(folder).code(), "not_a_repository");
    assert_eq!(error(&yard.user.join(".git")).code(), "not_a_repository");
    run(folder, &["init", "-q", "--bare", "bare.git"]);
    assert_eq!(error(&folder.join("bare.git")).code(), "repository_bare");
}

#[test]
fn a_folder_below_the_top_is_a_repository_with_a_prefix() {
    let yard = Yard::new();
    let repository = Repository::open(git(), "backend", &yard.user.join("src")).unwrap();
    assert_eq!(
        (repository.top(), repository.prefix()),
        (yard.user.as_path(), Path::new("src/"))
    );
    let base = repository.head().unwrap();
    let tree = yard.tree(&repository, "session");
    tree.ensure(&base, &base).unwrap();
    assert_eq!(read(&tree.root(), "b.txt"), "b\n");
    write(&tree.root(), "../a.txt", "changed beside\n");
    let commit = tree.commit(&message("all of it")).unwrap().unwrap();
    assert_eq!(shown(&repository, &commit, "a.txt"), "changed beside\n");
}

#[test]
fn one_repository_under_two_names_is_reported() {
    let yard = Yard::new();
    yard.git(&["worktree", "add", "-q", "../second"]);
    let first = yard.open();
    let second = Repository::open(git(), "frontend", &yard.user.join("../second")).unwrap();
    let error = Repository::check_distinct(&[first, second]).unwrap_err();
    assert_eq!(error.code(), "repository_twice");
    assert!(error.to_string().contains("`backend` and `frontend`"), "{error}");
}

/// A repository with another repository as its submodule `lib`.
fn with_submodule() -> Yard {
    let yard = Yard::new();
    let library = yard.folder.path().join("library");
    run(yard.folder.path(), &["init", "-q", "library"]);
    write(&library, "lib.txt", "lib\n");
    run(&library, &["add", "-A"]);
    run(&library, &["commit", "-q", "-m", "library"]);
    yard.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        "../library",
        "lib",
    ]);
    yard.commit_all("submodule");
    yard
}

#[test]
fn a_submodule_keeps_its_commit() {
    let yard = with_submodule();
    let pointer = yard.git(&["rev-parse", "HEAD:lib"]);
    let (_, commit) = works(&yard);
    assert_eq!(yard.git(&["rev-parse", &format!("{commit}:lib")]), pointer);
}

fn nested(tree: &Tree, file: &str) {
    for _ in 0..2 {
        let error = tree.commit(&message("nested")).unwrap_err();
        assert!(
            matches!(error, GitWorkspaceError::NestedRepository { .. }),
            "{error}"
        );
    }
    assert_eq!(tree.remove().unwrap_err().code(), "nested_repository");
    assert_eq!(
        tree.restore(&tree.state().unwrap().head).unwrap_err().code(),
        "nested_repository"
    );
    assert!(tree.root().join(file).exists(), "nothing is lost");
}

#[test]
fn a_submodule_that_a_stage_changes_is_reported() {
    let yard = with_submodule();
    let (_, tree, _) = yard.ready();
    let root = tree.root();
    run(
        &root,
        &[
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "update",
            "--init",
        ],
    );
    write(&root, "a.txt", "beside it\n");
    assert!(tree.commit(&message("populated only")).unwrap().is_some());
    write(&root, "lib/lib.txt", "changed\n");
    nested(&tree, "lib/lib.txt");
    run(&root.join("lib"), &["commit", "-q", "-am", "moved"]);
    nested(&tree, "lib/lib.txt");
}

#[test]
fn files_in_the_empty_folder_of_a_submodule_are_reported() {
    let yard = with_submodule();
    let (_, tree, _) = yard.ready();
    write(&tree.root(), "lib/hidden.txt", "git does not see me\n");
    nested(&tree, "lib/hidden.txt");
}

#[test]
fn a_repository_inside_the_tree_is_reported() {
    let yard = Yard::new();
    let (_, tree, _) = yard.ready();
    let root = tree.root();
    run(&root, &["init", "-q", "deep/cloned"]);
    write(&root, "deep/cloned/file.txt", "inside\n");
    nested(&tree, "deep/cloned/file.txt");
    run(&root.join("deep/cloned"), &["add", "-A"]);
    run(&root.join("deep/cloned"), &["commit", "-q", "-m", "inside"]);
    nested(&tree, "deep/cloned/file.txt");
    // Inside an ignored folder the nested repository causes no error.
    fs::create_dir_all(root.join("target")).unwrap();
    fs::rename(root.join("deep/cloned"), root.join("target/cloned")).unwrap();
    assert_eq!(tree.commit(&message("mended")).unwrap(), None);
    // A worktree that becomes a repository of its own.
    fs::remove_file(root.join(".git")).unwrap();
    run(&root, &["init", "-q"]);
    assert_eq!(
        tree.commit(&message("own")).unwrap_err().code(),
        "nested_repository"
    );
}

#[test]
fn a_shallow_clone_works() {
    let mut yard = Yard::new();
    yard.write("a.txt", "second\n");
    yard.commit_all("second");
    let url = format!("file://{}", yard.user.display());
    run(
        yard.folder.path(),
        &["clone", "-q", "--depth", "1", &url, "shallow"],
    );
    yard.user = yard.user.with_file_name("shallow");
    works(&yard);
}

#[test]
fn nobody_needs_an_identity() {
    let yard = Yard::new();
    yard.git(&["config", "user.useConfigOnly", "true"]);
    works(&yard);
}

#[test]
fn no_hook_runs_and_nothing_is_signed() {
    let yard = Yard::new();
    let hooks = [
        "pre-commit",
        "commit-msg",
        "prepare-commit-msg",
        "post-commit",
        "post-checkout",
        "pre-merge-commit",
        "post-merge",
        "reference-transaction",
        "post-index-change",
        "pre-auto-gc",
        "post-rewrite",
    ];
    for name in hooks {
        let path = yard.user.join(".git/hooks").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(
            &path,
            format!(
                "#!/bin/sh\ntouch '{}'\nexit 1\n",
                yard.folder.path().join("ran").display()
            ),
        )
        .unwrap();
        #[cfg(unix)]
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    for setting in ["commit.gpgSign", "tag.gpgSign"] {
        yard.git(&["config", setting, "true"]);
    }
    yard.git(&["config", "gpg.program", "false"]);
    yard.git(&["config", "core.hooksPath", ".git/hooks"]);
    let before = yard.untouched();
    let repository = yard.open();
    let base = repository.head().unwrap();
    let tree = yard.tree(&repository, "session");
    tree.ensure(&base, &base).unwrap();
    write(&tree.root(), "a.txt", "hooked?\n");
    tree.commit(&message("work")).unwrap().unwrap();
    tree.restore(&base).unwrap();
    tree.remove().unwrap();
    assert!(!yard.folder.path().join("ran").exists());
    assert_eq!(yard.untouched(), before);
}

#[test]
fn line_ends_and_filters_are_those_of_the_repository() {
    let yard = Yard::new();
    yard.git(&["config", "core.autocrlf", "true"]);
    yard.git(&["config", "core.safecrlf", "true"]);
    yard.git(&["config", "filter.upper.clean", "tr a-z A-Z"]);
    yard.git(&["config", "filter.upper.smudge", "tr A-Z a-z"]);
    yard.git(&["-c", "core.safecrlf=false", "add", "-A"]);
    yard.write(".gitattributes", "*.up filter=upper\n*.raw -text\n");
    yard.write("word.up", "word\n");
    yard.write("data.raw", "one\r\ntwo\n");
    yard.git(&["-c", "core.safecrlf=false", "add", "-A"]);
    yard.git(&["-c", "core.safecrlf=false", "commit", "-q", "-m", "attributes"]);
    let (repository, tree, base) = yard.ready();
    assert!(!tree.changed().unwrap());
    assert_eq!(shown(&repository, &base, "word.up"), "WORD\n");
    assert_eq!(
        (read(&tree.root(), "word.up"), read(&tree.root(), "a.txt")),
        ("word\r\n".into(), "one\r\ntwo\r\nthree\r\n".into())
    );
    write(&tree.root(), "word.up", "other\r\n");
    write(&tree.root(), "a.txt", "mixed\r\nends\n");
    let commit = tree.commit(&message("work")).unwrap().unwrap();
    assert_eq!(shown(&repository, &commit, "word.up"), "OTHER\n");
    assert_eq!(shown(&repository, &commit, "a.txt"), "mixed\nends\n");
    assert_eq!(shown(&repository, &commit, "data.raw"), "one\r\ntwo\n");
}

#[test]
fn ignored_files_are_neither_committed_nor_removed() {
    let yard = Yard::new();
    let (_, tree, base) = yard.ready();
    write(&tree.root(), "target/debug/out.o", "built\n");
    assert!(!tree.changed().unwrap());
    assert_eq!(tree.commit(&message("nothing")).unwrap(), None);
    write(&tree.root(), "a.txt", "changed\n");
    let commit = tree.commit(&message("work")).unwrap().unwrap();
    assert!(
        !yard
            .git(&["ls-tree", "-r", "--name-only", commit.as_str()])
            .contains("target")
    );
    tree.restore(&base).unwrap();
    assert_eq!(read(&tree.root(), "target/debug/out.o"), "built\n");
}

#[cfg(unix)]
#[test]
fn file_names_of_any_bytes_work() {
    use std::os::unix::ffi::OsStrExt;
    let yard = Yard::new();
    let (repository, tree, base) = yard.ready();
    let names: [&[u8]; 6] = [
        b"new\nline",
        b"two  spaces ",
        b"-dash",
        b"quote\"\\",
        b"caf\xc3\xa9",
        b"not-utf8-\xff",
    ];
    for name in names {
        fs::write(tree.root().join(std::ffi::OsStr::from_bytes(name)), "odd\n").unwrap();
    }
    let commit = tree.commit(&message("odd names")).unwrap().unwrap();
    assert_eq!(
        yard.git(&["ls-tree", "-r", "-z", "--name-only", commit.as_str()])
            .split('\0')
            .count(),
        3 + names.len() + 1
    );
    assert!(!tree.changed().unwrap());
    tree.restore(&base).unwrap();
    tree.restore(&commit).unwrap();
    for name in names {
        assert!(tree.root().join(std::ffi::OsStr::from_bytes(name)).exists());
    }
    // The repository itself may also have such a name.
    let odd = yard.folder.path().join("odd\nname\u{e9} ");
    run(
        yard.folder.path(),
        &["clone", "-q", yard.user.to_str().unwrap(), odd.to_str().unwrap()],
    );
    let other = Repository::open(git(), "odd", &odd).unwrap();
    assert_eq!(other.top(), odd.canonicalize().unwrap());
    let tree = other.tree(
        yard.folder.path().join("odd\ntrees/run/session/odd"),
        "orchestra/odd/1".into(),
    );
    tree.ensure(&base, &base).unwrap();
    write(&tree.root(), "a.txt", "odd\n");
    assert!(tree.commit(&message("odd")).unwrap().is_some());
    tree.remove().unwrap();
    drop(repository);
}

#[cfg(unix)]
#[test]
fn modes_and_links_are_kept() {
    use std::os::unix::fs::PermissionsExt;
    let yard = Yard::new();
    let (_, tree, base) = yard.ready();
    let root = tree.root();
    fs::set_permissions(root.join("a.txt"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("/nowhere/at all", root.join("link")).unwrap();
    assert!(tree.changed().unwrap());
    let commit = tree.commit(&message("modes")).unwrap().unwrap();
    tree.restore(&base).unwrap();
    assert_eq!(
        fs::metadata(root.join("a.txt")).unwrap().permissions().mode() & 0o111,
        0
    );
    tree.restore(&commit).unwrap();
    assert_eq!(
        fs::metadata(root.join("a.txt")).unwrap().permissions().mode() & 0o111,
        0o111
    );
    assert_eq!(
        fs::read_link(root.join("link")).unwrap(),
        Path::new("/nowhere/at all")
    );
}

#[test]
fn a_sparse_checkout_is_sparse_for_the_run_too() {
    let yard = Yard::new();
    yard.write("other/c.txt", "c\n");
    yard.commit_all("other");
    yard.git(&["sparse-checkout", "set", "src"]);
    let (repository, tree, _) = yard.ready();
    assert!(!tree.root().join("other").exists() && !tree.changed().unwrap());
    write(&tree.root(), "a.txt", "changed\n");
    write(&tree.root(), "other/new.txt", "beyond the cone\n");
    let commit = tree.commit(&message("sparse")).unwrap().unwrap();
    assert_eq!(shown(&repository, &commit, "other/c.txt"), "c\n");
    assert_eq!(shown(&repository, &commit, "other/new.txt"), "beyond the cone\n");
}

#[test]
fn a_repository_with_long_names_of_objects_works() {
    let yard = Yard::with(&["--object-format=sha256"]);
    let (_, commit) = works(&yard);
    assert_eq!(commit.as_str().len(), 64);
}

#[test]
fn runs_that_go_at_once_do_not_disturb_each_other() {
    let yard = Yard::new();
    let repository = yard.open();
    let base = repository.head().unwrap();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (yard, repository, base) = (&yard, &repository, &base);
            scope.spawn(move || {
                let tree = yard.tree(repository, &format!("line-{number}"));
                tree.ensure(base, base).unwrap();
                for step in 0..3 {
                    write(&tree.root(), "a.txt", &format!("{number} {step}\n"));
                    assert!(tree.commit(&message("step")).unwrap().is_some());
                }
                tree.remove().unwrap();
            });
        }
    });
    for number in 0..4 {
        let tip = repository
            .tip(&format!("orchestra/poem/ab12-line-{number}"))
            .unwrap()
            .unwrap();
        assert_eq!(shown(&repository, &tip, "a.txt"), format!("{number} 2\n"));
    }
}
