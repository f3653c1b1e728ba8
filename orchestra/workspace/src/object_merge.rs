//! Merges of git objects, without touching a worktree, index or ref.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::GitWorkspaceError;
use crate::git::GitCommand;
use crate::git_path::os_path;
use crate::hunk::marker_size;
use crate::lock::RepositoryLock;
use crate::repository::Repository;
use crate::sha::Sha;

/// Time limit of a merge.
const MERGE_TIMEOUT: Duration = Duration::from_secs(600);

/// Mode and object of a file.
pub(crate) type Entry = (String, Sha);

/// All files of a tree, by the bytes of their paths.
pub(crate) type Files = BTreeMap<Vec<u8>, Entry>;

/// The result of `merge-tree` for two commits.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) tree: Sha,
    pub(crate) clean: bool,
    /// The files that conflict, with their entries in base, ours and theirs.
    pub(crate) stages: BTreeMap<Vec<u8>, [Option<Entry>; 3]>,
    /// The kind of each conflict as named by git.
    pub(crate) kinds: BTreeMap<Vec<u8>, String>,
}

/// A temporary folder for merges in the common git folder. The repository is locked while it exists.
///
/// Git reads attributes from the folder in which it runs, so this folder contains the attributes files of the commit
/// that is merged into.
#[derive(Debug)]
pub(crate) struct ObjectMerger<'r> {
    pub(crate) repository: &'r Repository,
    folder: PathBuf,
    /// The user's attributes, to which the marker size is added.
    attributes: Vec<u8>,
    _lock: RepositoryLock,
}

impl<'r> ObjectMerger<'r> {
    pub(crate) fn new(repository: &'r Repository, onto: &Sha) -> Result<ObjectMerger<'r>, GitWorkspaceError> {
        let lock = repository.lock("merge")?;
        let folder = repository.common().join("orchestra.tmp");
        // A killed merge may have left it.
        let _ = fs::remove_dir_all(&folder);
        let mut merger = ObjectMerger {
            repository,
            folder,
            attributes: Vec::new(),
            _lock: lock,
        };
        merger.write("tree/.gitattributes", b"")?;
        for (path, (_, sha)) in merger.files(onto)? {
            if path == b".gitattributes" || path.ends_with(b"/.gitattributes") {
                let text = merger
                    .blobs(std::slice::from_ref(&sha))?
                    .pop()
                    .unwrap_or_default();
                merger.write_at(merger.folder.join("tree").join(os_path(&path)), &text)?;
            }
        }
        let query = repository
            .command()
            .args(["config", "--type=path", "--get", "core.attributesFile"]);
        let output = repository.try_run(&query)?;
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
        let folder = || {
            std::env::var_os("XDG_CONFIG_HOME")
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let file = match output.status {
            0 => Some(os_path(output.stdout.trim_ascii_end())),
            _ => folder().or_else(home).map(|folder| folder.join("git/attributes")),
        };
        merger.attributes = file.and_then(|file| fs::read(file).ok()).unwrap_or_default();
        Ok(merger)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), GitWorkspaceError> {
        self.write_at(self.folder.join(name), bytes)
    }

    fn write_at(&self, path: PathBuf, bytes: &[u8]) -> Result<(), GitWorkspaceError> {
        let written = path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, bytes));
        written.map_err(|source| GitWorkspaceError::io(self.repository.name(), &path, source))
    }

    fn command(&self) -> GitCommand {
        let tree = self.folder.join("tree");
        let command = GitCommand::new(&tree)
            .env("GIT_DIR", self.repository.common())
            .env("GIT_WORK_TREE", &tree);
        command
            .env("GIT_INDEX_FILE", self.folder.join("index"))
            .timeout(MERGE_TIMEOUT)
    }

    /// Merges two commits. `open` is the number of sides that are already merged with markers.
    pub(crate) fn merge(&self, ours: &Sha, theirs: &Sha, open: usize) -> Result<Merged, GitWorkspaceError> {
        let mut attributes = self.attributes.clone();
        attributes.extend_from_slice(format!("\n* conflict-marker-size={}\n", marker_size(open)).as_bytes());
        self.write("attributes", &attributes)?;
        let file = self.folder.join("attributes");
        let with = |more: &[&str]| {
            let command = self.command().setting("merge.conflictStyle=diff3");
            let command = command.setting(format!("core.attributesFile={}", file.display()));
            let command = command.args(["merge-tree", "--write-tree", "-z", "--messages"]);
            command.args(more).args([ours.as_str(), theirs.as_str()])
        };
        let mut command = with(&[]);
        let mut output = self.repository.try_run(&command)?;
        if output.status > 1 && output.stderr.contains("unrelated histories") {
            command = with(&["--allow-unrelated-histories"]);
            output = self.repository.try_run(&command)?;
        }
        if output.status > 1 || output.status < 0 {
            return Err(self.repository.error(&command, &output));
        }
        parse(&output.stdout, output.status == 0).ok_or_else(|| self.repository.unreadable(&command))
    }

    /// Returns all files of a commit or tree. Rejects paths that lead out of the tree, because files are written to
    /// these paths. Git itself would not check them out either.
    pub(crate) fn files(&self, tree: &Sha) -> Result<Files, GitWorkspaceError> {
        let command = self
            .repository
            .command()
            .args(["ls-tree", "-r", "-z", "--full-tree", tree.as_str()]);
        let output = self.repository.run(&command.timeout(MERGE_TIMEOUT))?;
        let lines = output.split(|byte| *byte == 0).filter(|line| !line.is_empty());
        let entry = |line: &[u8]| {
            let at = line.iter().position(|byte| *byte == b'\t')?;
            let (words, path) = (std::str::from_utf8(line.get(..at)?).ok()?, line.get(at + 1..)?);
            let mut words = words.split(' ');
            Some((
                path.to_vec(),
                (words.next()?.to_owned(), words.nth(1)?.parse().ok()?),
            ))
        };
        let files: Files = lines.filter_map(entry).collect();
        if files.keys().all(|path| stays_below(path)) {
            Ok(files)
        } else {
            Err(self.repository.unreadable(&self.command().arg("ls-tree")))
        }
    }

    /// Returns the contents of blobs, in order. The content of an object that is missing or not a blob is empty.
    pub(crate) fn blobs(&self, shas: &[Sha]) -> Result<Vec<Vec<u8>>, GitWorkspaceError> {
        if shas.is_empty() {
            return Ok(Vec::new());
        }
        let input: String = shas.iter().map(|sha| format!("{sha}\n")).collect();
        let command = self
            .repository
            .command()
            .args(["cat-file", "--batch"])
            .stdin(input)
            .timeout(MERGE_TIMEOUT);
        let output = self.repository.run(&command)?;
        let mut rest = output.as_slice();
        let mut blobs = Vec::new();
        for _ in shas {
            let unreadable = || self.repository.unreadable(&command);
            let end = rest
                .iter()
                .position(|byte| *byte == b'\n')
                .ok_or_else(unreadable)?;
            let head = String::from_utf8_lossy(rest.get(..end).unwrap_or_default()).into_owned();
            rest = rest.get(end + 1..).unwrap_or_default();
            let mut words = head.split(' ').skip(1);
            let (kind, size) = (
                words.next(),
                words.next().and_then(|size| size.parse::<usize>().ok()),
            );
            let bytes = match size {
                Some(size) => {
                    let bytes = rest.get(..size).ok_or_else(unreadable)?;
                    rest = rest.get(size + 1..).unwrap_or_default();
                    bytes
                }
                None => &[],
            };
            blobs.push(if kind == Some("blob") {
                bytes.to_vec()
            } else {
                Vec::new()
            });
        }
        Ok(blobs)
    }

    /// Writes a blob.
    pub(crate) fn write_blob(&self, bytes: Vec<u8>) -> Result<Sha, GitWorkspaceError> {
        let command = self
            .command()
            .args(["hash-object", "-w", "--no-filters", "--stdin"]);
        self.repository.run_sha(&command.stdin(bytes))
    }

    /// Returns a tree with some files replaced or removed.
    pub(crate) fn edit(
        &self,
        tree: &Sha,
        edits: &BTreeMap<Vec<u8>, Option<Entry>>,
    ) -> Result<Sha, GitWorkspaceError> {
        if edits.is_empty() {
            return Ok(tree.clone());
        }
        let mut lines = Vec::new();
        // Removals come first, so that a file can replace a folder.
        for removal in [true, false] {
            for (path, entry) in edits.iter().filter(|(_, entry)| entry.is_none() == removal) {
                let head = match entry {
                    Some((mode, sha)) => format!("{mode} {sha}\t"),
                    None => format!("0 {}\t", "0".repeat(tree.as_str().len())),
                };
                lines.extend_from_slice(head.as_bytes());
                lines.extend_from_slice(path);
                lines.push(0);
            }
        }
        self.repository
            .run(&self.command().args(["read-tree", tree.as_str()]))?;
        self.repository.run(
            &self
                .command()
                .args(["update-index", "-z", "--index-info"])
                .stdin(lines),
        )?;
        self.repository.run_sha(&self.command().arg("write-tree"))
    }
}

impl Drop for ObjectMerger<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns whether a path in a tree stays below its root.
fn stays_below(path: &[u8]) -> bool {
    let mut names = path.split(|byte| *byte == b'/');
    names.all(|name| !matches!(name, b"" | b"." | b".."))
}

/// Parses the output of `merge-tree -z --messages`.
fn parse(output: &[u8], clean: bool) -> Option<Merged> {
    let mut parts = output.split(|byte| *byte == 0);
    let tree = std::str::from_utf8(parts.next()?).ok()?.trim().parse().ok()?;
    let mut merged = Merged {
        tree,
        clean,
        stages: BTreeMap::new(),
        kinds: BTreeMap::new(),
    };
    if !clean {
        for line in parts.by_ref().take_while(|line| !line.is_empty()) {
            let at = line.iter().position(|byte| *byte == b'\t')?;
            let (words, path) = (std::str::from_utf8(line.get(..at)?).ok()?, line.get(at + 1..)?);
            let words: Vec<&str> = words.split(' ').collect();
            let [mode, sha, stage] = words.as_slice() else {
                return None;
            };
            let stage: usize = stage.parse().ok()?;
            let stages = merged.stages.entry(path.to_vec()).or_default();
            *stages.get_mut(stage.checked_sub(1)?)? = Some(((*mode).to_owned(), sha.parse().ok()?));
        }
        while let Some(count) = parts.next().filter(|count| !count.is_empty()) {
            let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
            let paths: Vec<&[u8]> = parts.by_ref().take(count).collect();
            let kind = String::from_utf8_lossy(parts.next()?).into_owned();
            parts.next()?;
            let Some(kind) = kind
                .strip_prefix("CONFLICT (")
                .and_then(|kind| kind.strip_suffix(')'))
            else {
                continue;
            };
            for path in paths {
                let known = merged
                    .kinds
                    .entry(path.to_vec())
                    .or_insert_with(|| kind.to_owned());
                // Prefer a kind that is more specific than `contents`.
                if known == "contents" {
                    kind.clone_into(known);
                }
            }
        }
    }
    Some(merged)
}
