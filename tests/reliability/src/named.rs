//! Names of tests in documents, and the tests that sources have.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A test, named in documents as `PATH::NAME` with its file's path from the root of the repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TestName {
    /// The path of the source file.
    pub file: String,
    /// The name of the function.
    pub function: String,
}

impl TestName {
    /// Parses `PATH.rs::NAME`; anything else is no name of a test.
    pub fn parse(text: &str) -> Option<TestName> {
        let (file, function) = text.split_once("::")?;
        let is_name = !function.is_empty()
            && function
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        (file.contains('/') && file.ends_with(".rs") && is_name).then(|| TestName {
            file: file.to_owned(),
            function: function.to_owned(),
        })
    }

    /// Says what is wrong where the file does not have the test.
    ///
    /// # Errors
    /// The file cannot be read, or has no such test.
    pub fn check(&self) -> Result<(), String> {
        let source = std::fs::read_to_string(root().join(&self.file))
            .map_err(|error| format!("cannot read `{}`: {error}", self.file))?;
        if tests_in(&source).contains(&self.function) {
            Ok(())
        } else {
            Err(format!("`{}` has no test `{}`", self.file, self.function))
        }
    }

    /// Returns the target of the test: the tests of the libraries, a file of tests, or a module of the tests of a crate.
    ///
    /// # Errors
    /// The file belongs to no package, or is no target.
    pub fn target(&self) -> Result<Target, String> {
        let path = Path::new(&self.file);
        let is_package = |folder: &&Path| root().join(folder).join("Cargo.toml").is_file();
        let package = path.ancestors().skip(1).find(is_package);
        let below = package.and_then(|package| path.strip_prefix(package).ok());
        let parts: Vec<&str> = below
            .into_iter()
            .flatten()
            .filter_map(|part| part.to_str())
            .collect();
        let target = |program: &str, module: Option<&str>| Target {
            program: program.to_owned(),
            module: module.map(str::to_owned),
        };
        match (&parts[..], path.file_stem().and_then(|stem| stem.to_str())) {
            (["src", ..], _) => Ok(target("--lib", None)),
            (["tests", "it", module, _], _) => Ok(target("--test it", Some(module))),
            (["tests", "it", _], Some(stem)) => Ok(target("--test it", Some(stem))),
            (["tests", ..], Some(stem)) => Ok(target(&format!("--test {stem}"), None)),
            _ => Err(format!("`{}` is in no `src` or `tests` of a package", self.file)),
        }
    }
}

/// The tests that one command of `cargo` runs. They are those of the suite with one target chosen, so that nothing is
/// compiled anew with other features.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The option that chooses the program, such as `--test machine`.
    program: String,
    /// The module of the tests, for a program with the tests of a whole crate.
    module: Option<String>,
}

impl Target {
    /// Returns the command that runs tests of the target.
    pub fn command(&self, names: &[String]) -> String {
        let names = names.iter().map(|name| match &self.module {
            Some(module) => format!("{module}::{name}"),
            None => name.clone(),
        });
        let names: Vec<String> = names.collect();
        format!("cargo test --workspace {} -- {}", self.program, names.join(" "))
    }
}

impl fmt::Display for TestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.file, self.function)
    }
}

/// Returns the tests that a Markdown text names in code spans, in their order.
pub fn named_in(text: &str) -> Vec<TestName> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter_map(TestName::parse)
        .collect()
}

/// Returns the names of the tests of a source that `cargo test` runs; ignored ones are left out.
pub fn tests_in(source: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut marks: Vec<&str> = Vec::new();
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[") {
            marks.push(line);
            continue;
        }
        let declared = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        if let Some(name) = declared.and_then(|rest| rest.split(['(', '<']).next()) {
            let is_test = marks
                .iter()
                .any(|mark| mark.starts_with("#[test]") || mark.starts_with("#[tokio::test"));
            if is_test && !marks.iter().any(|mark| mark.starts_with("#[ignore")) {
                found.insert(name.to_owned());
            }
        }
        if !line.starts_with("//") {
            marks.clear();
        }
    }
    found
}
