//! A git that is missing, too old, or refuses to work: each leads to a clear error.

use crate::common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use common::{Yard, copy_program, git, message, write};
use orchestra_workspace::{Git, GitCommand, GitError, GitOutput, Repository, SystemGit};

#[test]
fn git_that_is_missing_or_too_old_is_reported() {
    assert_eq!(SystemGit::at("/nowhere/git").unwrap_err().code(), "git_missing");
    #[cfg(unix)]
    {
        let folder = tempfile::tempdir().unwrap();
        let fake = |text: &str| {
            let path = folder.path().join("git");
            write(folder.path(), "staged", &format!("#!/bin/sh\n{text}\n"));
            let staged = folder.path().join("staged");
            fs::set_permissions(&staged, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            copy_program(&staged, &path);
            path
        };
        let old = SystemGit::at(fake("echo git version 2.37.9")).unwrap_err();
        assert_eq!(old.to_string(), "git 2.37.9 is too old; 2.38 or newer is needed");
        assert_eq!(
            SystemGit::at(fake("echo hello")).unwrap_err().code(),
            "git_too_old"
        );
        let vendor = SystemGit::at(fake("echo 'git version 2.39.5 (Apple Git-154)'")).unwrap();
        assert_eq!(vendor.version(), (2, 39));
        // A command that hangs is killed with all processes that it started.
        let slow = SystemGit::at(fake(
            "case \"$*\" in *--version) echo git version 2.47.3;; *) sleep 1000 & wait;; esac",
        ))
        .unwrap();
        let hung = slow.run(
            &GitCommand::new(".")
                .arg("status")
                .timeout(std::time::Duration::from_millis(50)),
        );
        assert!(matches!(hung, Err(GitError::TimedOut { .. })), "{hung:?}");
    }
}

/// A git with a fixed error message for one subcommand, and the real git for all others.
struct FailingGit(Arc<SystemGit>, &'static str, &'static str);

impl Git for FailingGit {
    fn run(&self, command: &GitCommand) -> Result<GitOutput, GitError> {
        if command.name() == self.1 {
            return Ok(GitOutput {
                status: 128,
                stdout: Vec::new(),
                stderr: self.2.to_owned(),
            });
        }
        self.0.run(command)
    }
}

#[test]
fn what_git_refuses_gets_words_of_its_own() {
    let yard = Yard::new();
    let owner = "fatal: detected dubious ownership in repository at '/srv/backend'\n";
    let opened = Repository::open(
        Arc::new(FailingGit(git(), "rev-parse", owner)),
        "backend",
        &yard.user,
    );
    let error = opened.unwrap_err();
    assert_eq!(error.code(), "repository_owner");
    assert!(error.to_string().contains("safe.directory"), "{error}");
    let refusals = [
        (
            "error: unable to create temporary file: Read-only file system\n",
            "repository_read_only",
        ),
        (
            "error: insufficient permission for adding an object to repository database\n",
            "repository_read_only",
        ),
        (
            "fatal: Unable to create '/srv/.git/index.lock': File exists.\n",
            "repository_locked",
        ),
        ("fatal: something else\n", "git_failed"),
    ];
    for (text, code) in refusals {
        let repository = yard.open_with(Arc::new(FailingGit(git(), "write-tree", text)));
        let base = repository.head().unwrap();
        let tree = yard.tree(&repository, "session");
        tree.ensure(&base, &base).unwrap();
        write(&tree.root(), "a.txt", "changed\n");
        assert_eq!(tree.commit(&message("work")).unwrap_err().code(), code, "{text}");
    }
}

#[cfg(unix)]
mod other_users {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    const NOBODY: u32 = 65_534;
    const PATH: &str = "ORCHESTRA_TEST_READ_ONLY";

    fn every(folder: &Path, change: &dyn Fn(&Path)) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                every(&entry.path(), change);
            }
            change(&entry.path());
        }
        change(folder);
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Root may write anywhere, so the test runs itself as another user.
    #[test]
    fn a_repository_that_nobody_may_write_is_reported() {
        if let Some(folder) = std::env::var_os(PATH) {
            let repository = Repository::open(git(), "backend", &Path::new(&folder).join("user")).unwrap();
            let base = repository.head().unwrap();
            let tree = repository.tree(
                Path::new(&folder).join("trees/run/session/backend"),
                "orchestra/x/1".into(),
            );
            let error = tree.ensure(&base, &base).unwrap_err();
            assert_eq!(error.code(), "repository_read_only", "{error}");
            return;
        }
        let yard = Yard::new();
        let (folder, before) = (yard.folder.path().to_owned(), yard.untouched());
        let root = fs::metadata(&folder).unwrap().uid() == 0;
        mode(&folder, 0o755);
        every(&yard.user, &|path| {
            if root {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
            mode(path, if path.is_dir() { 0o555 } else { 0o444 });
        });
        // The test program may be in a folder that only root can access.
        let program = folder.join("program");
        copy_program(std::env::current_exe().unwrap(), &program);
        mode(&program, 0o755);
        let mut child = Command::new(&program);
        child.args([
            "--exact",
            "refusals::other_users::a_repository_that_nobody_may_write_is_reported",
        ]);
        child.env(PATH, &folder).env("HOME", &folder).current_dir(&folder);
        if root {
            child.uid(NOBODY).gid(NOBODY);
        }
        let output = child.output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        every(&yard.user, &|path| {
            mode(path, if path.is_dir() { 0o755 } else { 0o644 })
        });
        if root {
            every(&yard.user, &|path| chown(path, Some(0), Some(0)).unwrap());
        }
        assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
        assert_eq!(yard.untouched(), before);
    }

    /// Only root can give a repository away. `what_git_refuses_gets_words_of_its_own` covers the message for other
    /// users.
    #[test]
    fn a_repository_of_somebody_else_is_reported() {
        let yard = Yard::new();
        if fs::metadata(yard.folder.path()).unwrap().uid() != 0 {
            return;
        }
        every(&yard.user, &|path| {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap()
        });
        let error = Repository::open(git(), "backend", &yard.user).unwrap_err();
        assert_eq!(error.code(), "repository_owner");
    }
}
