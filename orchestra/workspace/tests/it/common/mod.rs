//! Repositories for tests, created by the real git without the configuration of this machine.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orchestra_workspace::{Git, GitCommand, Message, Plan, Repository, Sha, Side, SystemGit, Tree, plan};
use tempfile::TempDir;

/// The real git, without the configuration of this machine and with a fixed date.
pub fn git() -> Arc<SystemGit> {
    let git = SystemGit::find()
        .unwrap()
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null");
    Arc::new(
        git.env("GIT_AUTHOR_DATE", "1700000000 +0000")
            .env("GIT_COMMITTER_DATE", "1700000000 +0000"),
    )
}

/// A temporary folder that contains a user's repository.
pub struct Yard {
    pub folder: Folder,
    pub user: PathBuf,
}

/// A folder that is removed only by its creator.
pub struct Folder {
    path: PathBuf,
    _guard: Option<TempDir>,
}

impl Folder {
    fn new() -> Folder {
        let guard = TempDir::new().unwrap();
        Folder {
            path: guard.path().to_owned(),
            _guard: Some(guard),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The state of the user's repository that must never change.
#[derive(Debug, PartialEq, Eq)]
pub struct Untouched {
    head: Vec<u8>,
    index: Option<Vec<u8>>,
    refs: String,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Yard {
    /// Creates a repository without a commit.
    pub fn bare_start(options: &[&str]) -> Yard {
        let folder = Folder::new();
        let user = folder.path().canonicalize().unwrap().join("user");
        fs::create_dir(&user).unwrap();
        let yard = Yard { folder, user };
        yard.git(&[&["init", "-q", "-b", "main"], options].concat());
        yard
    }

    /// Opens the yard that another process created and will remove.
    pub fn at(user: &Path) -> Yard {
        let path = user.parent().unwrap().to_owned();
        Yard {
            folder: Folder { path, _guard: None },
            user: user.to_owned(),
        }
    }

    /// Returns a copy with the same repository and without worktrees.
    pub fn copy(&self) -> Yard {
        let folder = Folder::new();
        let user = folder.path().canonicalize().unwrap().join("user");
        copy(&self.user, &user);
        Yard { folder, user }
    }

    /// Creates a repository with a few files and one commit.
    pub fn new() -> Yard {
        Yard::with(&[])
    }

    pub fn with(options: &[&str]) -> Yard {
        let yard = Yard::bare_start(options);
        yard.write("a.txt", "one\ntwo\nthree\n");
        yard.write("src/b.txt", "b\n");
        yard.write(".gitignore", "target/\n");
        yard.commit_all("start");
        yard
    }

    pub fn write(&self, path: &str, text: &str) {
        write(&self.user, path, text);
    }

    pub fn commit_all(&self, message: &str) -> Sha {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--no-verify", "--no-gpg-sign", "-m", message]);
        self.git(&["rev-parse", "HEAD"]).trim().parse().unwrap()
    }

    /// Runs a git command that must succeed in the user's worktree.
    pub fn git(&self, words: &[&str]) -> String {
        run(&self.user, words)
    }

    pub fn open(&self) -> Repository {
        self.open_with(git())
    }

    pub fn open_with(&self, git: Arc<dyn Git>) -> Repository {
        Repository::open(git, "backend", &self.user).unwrap()
    }

    pub fn tree(&self, repository: &Repository, line: &str) -> Tree {
        let path = self.folder.path().join("trees/run1").join(line).join("backend");
        let branch = if line == "session" {
            "orchestra/poem/ab12".into()
        } else {
            format!("orchestra/poem/ab12-{line}")
        };
        repository.tree(path, branch)
    }

    /// Returns a worktree that exists and is at the user's HEAD.
    pub fn ready(&self) -> (Repository, Tree, Sha) {
        let repository = self.open();
        let base = repository.head().unwrap();
        let tree = self.tree(&repository, "session");
        tree.ensure(&base, &base).unwrap();
        (repository, tree, base)
    }

    pub fn untouched(&self) -> Untouched {
        let dot = PathBuf::from(self.git(&["rev-parse", "--absolute-git-dir"]).trim_end());
        let mut files = BTreeMap::new();
        collect(&self.user, &mut files);
        let refs = self.git(&[
            "for-each-ref",
            "refs/heads",
            "refs/tags",
            "refs/remotes",
            "refs/stash",
        ]);
        Untouched {
            head: fs::read(dot.join("HEAD")).unwrap(),
            index: fs::read(dot.join("index")).ok(),
            refs: refs
                .lines()
                .filter(|line| !line.contains("refs/heads/orchestra/"))
                .collect(),
            files,
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), &to).unwrap();
        }
    }
}

fn collect(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if entry.file_name() == ".git" {
            continue;
        }
        if kind.is_dir() {
            collect(&path, files);
        } else if kind.is_symlink() {
            files.insert(
                path.clone(),
                fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes(),
            );
        } else if kind.is_file() {
            files.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
}

pub fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub fn read(folder: &Path, path: &str) -> String {
    fs::read_to_string(folder.join(path)).unwrap()
}

/// Runs git in a folder as a person would, with the hooks and settings of the repository.
pub fn run(folder: &Path, words: &[&str]) -> String {
    let (success, text) = try_run(folder, words);
    assert!(success, "git {words:?}: {text}");
    text
}

pub fn try_run(folder: &Path, words: &[&str]) -> (bool, String) {
    let mut command = std::process::Command::new("git");
    command
        .arg("-C")
        .arg(folder)
        .args(words)
        .stdin(std::process::Stdio::null());
    for (name, value) in [("CONFIG_GLOBAL", "/dev/null"), ("CONFIG_SYSTEM", "/dev/null")] {
        command.env(format!("GIT_{name}"), value);
    }
    for role in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{role}_NAME"), "Person")
            .env(format!("GIT_{role}_EMAIL"), "person@localhost");
        command.env(format!("GIT_{role}_DATE"), "1700000000 +0000");
    }
    let output = command.output().unwrap();
    let success = output.status.success();
    let text = if success { output.stdout } else { output.stderr };
    (success, String::from_utf8_lossy(&text).into_owned())
}

pub fn message(summary: &str) -> Message {
    let trailers = vec![
        ("Orchestra-Run".into(), "run1".into()),
        ("Orchestra-Node".into(), "build".into()),
    ];
    Message {
        summary: summary.into(),
        body: String::new(),
        trailers,
    }
}

/// Returns the text of a file in a commit.
pub fn shown(repository: &Repository, sha: &Sha, path: &str) -> String {
    let command = GitCommand::new(repository.top()).args(["show", &format!("{sha}:{path}")]);
    let output = git().run(&command).unwrap();
    assert_eq!(output.status, 0, "{}", output.stderr);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the errors and the unreachable objects of a repository.
pub fn unreachable(yard: &Yard) -> String {
    yard.git(&["fsck", "--unreachable", "--no-reflogs", "--no-progress"])
}

/// Plans the merge of some sides.
pub fn joined(repository: &Repository, onto: &Sha, sides: &[Side]) -> Plan {
    plan(repository, onto, sides, &|names| {
        message(&format!("join: {}", names.join(", ")))
    })
    .unwrap()
}

/// Copies a program. A child process does it: a program that this process has open for writing cannot be started, and
/// children that other threads start at that moment inherit the open file.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let copied = std::process::Command::new("cp")
        .arg(from.as_ref())
        .arg(to.as_ref())
        .status();
    assert!(copied.unwrap().success());
}
