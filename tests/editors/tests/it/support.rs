//! Projects, and what the program itself says about them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The program that editors start.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_orchestra-editor-program");

/// Returns the root of the repository.
pub(crate) fn repository() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

/// A copy of `examples/pr_review`.
pub(crate) struct Project {
    pub(crate) folder: tempfile::TempDir,
}

/// The pipeline of [`Project`].
pub(crate) const PIPELINE: &str = "pr_review.dot";

impl Project {
    pub(crate) fn new() -> Project {
        let folder = tempfile::tempdir().unwrap();
        let example = repository().join("examples/pr_review");
        for name in [PIPELINE, "orchestra.yaml"] {
            std::fs::copy(example.join(name), folder.path().join(name)).unwrap();
        }
        copy_folder(&example.join("prompts"), &folder.path().join("prompts"));
        Project { folder }
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    /// Replaces a text that a file contains once.
    pub(crate) fn replace(&self, name: &str, old: &str, new: &str) -> String {
        let text = self.read(name);
        assert_eq!(text.matches(old).count(), 1, "{old}");
        let changed = text.replace(old, new);
        std::fs::write(self.folder.path().join(name), &changed).unwrap();
        changed
    }

    /// Runs `orchestra` in the folder, and returns what it writes.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new(PROGRAM)
            .args(arguments)
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the errors and warnings of `orchestra check` as `LINE:COLUMN CODE`, in order.
    pub(crate) fn checked(&self, name: &str) -> Vec<String> {
        let output = self.run(&["check", "--json", name]);
        let reports = output
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut found: Vec<String> = reports
            .filter(|report| report["code"].is_string() && report["severity"] != "note")
            .map(|report| {
                format!(
                    "{}:{} {}",
                    report["line"],
                    report["column"],
                    report["code"].as_str().unwrap()
                )
            })
            .collect();
        found.sort();
        found
    }
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
