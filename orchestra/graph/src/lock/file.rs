//! `orchestra.lock`: its content, its parser and its writer.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::contract::Contract;
use crate::table::Pipeline;

/// The name of the lock file of a project.
pub const LOCK_FILE: &str = "orchestra.lock";

/// The schema of the file.
const SCHEMA: &str = "orchestra.lock/1";

/// The comment at the top of the file.
const HEAD: &str = "\
# The locked versions of the pipelines of this project. Keep this file, and the folder `orchestra.lock.d` with the texts of
# the versions, in version control. `orchestra lock` writes both; do not edit them. `orchestra check --locked` and
# `pipeline!(.., lock)` compare the pipelines of today with the last version of each.
";

/// The content of a lock file: the locked versions of each pipeline of a project.
///
/// The file is JSON after comment lines that begin with `#`. Writing is deterministic: pipelines are sorted by name.
///
/// ```
/// use orchestra_graph::{LockFile, LockedVersion};
/// let mut lock = LockFile::default();
/// let files = [("release.dot".to_owned(), "orchestra.lock.d/release-1.dot".to_owned())].into();
/// let version = LockedVersion { version: 1, hash: "sha256:00".to_owned(), files, ..LockedVersion::default() };
/// lock.pipeline_mut("release.dot").versions.push(version);
/// let text = lock.to_string();
/// assert!(text.starts_with("# The locked versions"));
/// assert_eq!(LockFile::parse(&text), Ok(lock));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockFile {
    /// The pipelines, sorted by name.
    pub pipelines: Vec<LockedPipeline>,
}

/// The locked versions of a pipeline.
///
/// ```
/// let mut lock = orchestra_graph::LockFile::default();
/// assert!(lock.pipeline_mut("release.dot").latest().is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedPipeline {
    /// The path of the DOT file, relative to the folder of the lock file.
    pub name: String,
    /// The versions, in ascending order. The last one is the released one. The others are kept for runs that are not
    /// finished.
    pub versions: Vec<LockedVersion>,
}

/// A locked version of a pipeline.
///
/// ```
/// use orchestra_graph::{LockedVersion, Source, load};
/// let text = r#"digraph { inputs="pr: text"; start -> a -> exit; a [type=a, outputs="x: int", outputs.fail="y: text"] }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let version = LockedVersion::default().with_contract(&pipeline);
/// assert_eq!(version.inputs, ["pr: text"]);
/// assert_eq!(version.outputs["a"], ["x: int"]);
/// assert_eq!(version.outputs["a.fail"], ["y: text"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedVersion {
    /// The number of the version, counted from 1. A number is not used again.
    pub version: u32,
    /// The hash of the [canonical text](Pipeline::canonical), to which runs are pinned.
    pub hash: String,
    /// The declared inputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// The declared outputs: those of each success of a node by its id, those of one outcome by `NODE.OUTCOME`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, Vec<String>>,
    /// The files of the version: the pipeline, its child pipelines and its prompts. Maps the path of each file to the
    /// path of its text as it was locked. Both are relative to the folder of the lock file.
    pub files: BTreeMap<String, String>,
}

/// An error in a lock file, with its position.
///
/// ```
/// let error = orchestra_graph::LockFile::parse("# comment\n{\"schema\": 1}").unwrap_err();
/// assert_eq!((error.line, error.column > 1), (2, true));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1.
    pub column: usize,
    /// The problem.
    pub message: String,
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for LockError {}

/// The JSON of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    schema: String,
    pipelines: Vec<LockedPipeline>,
}

impl LockFile {
    /// Parses the text of a lock file.
    ///
    /// # Errors
    /// The text is not a lock file, or of a later version of Orchestra.
    pub fn parse(text: &str) -> Result<LockFile, LockError> {
        let comments = text.lines().take_while(|line| line.starts_with('#')).count();
        let body: usize = text.split_inclusive('\n').take(comments).map(str::len).sum();
        let error = |line: usize, column: usize, message: String| LockError {
            line: line + comments,
            column: column.max(1),
            message,
        };
        let document: Document =
            serde_json::from_str(text.get(body..).unwrap_or_default()).map_err(|found| {
                let message = found.to_string();
                let message = message.split(" at line ").next().unwrap_or_default();
                error(found.line().max(1), found.column(), message.to_owned())
            })?;
        if document.schema != SCHEMA {
            let message = format!(
                "unknown schema `{}`; this version reads `{SCHEMA}`",
                document.schema
            );
            return Err(error(1, 1, message));
        }
        for (pipeline, next) in document.pipelines.iter().zip(document.pipelines.iter().skip(1)) {
            if pipeline.name >= next.name {
                let message = format!("`{}` is not in the order of names", next.name);
                return Err(error(1, 1, message));
            }
        }
        for pipeline in &document.pipelines {
            let ascending = pipeline
                .versions
                .is_sorted_by(|one, next| one.version < next.version);
            if pipeline.versions.is_empty() || !ascending {
                let message = format!("the versions of `{}` are missing or not in order", pipeline.name);
                return Err(error(1, 1, message));
            }
            if let Some(version) = pipeline
                .versions
                .iter()
                .find(|version| !version.files.contains_key(&pipeline.name))
            {
                let number = version.version;
                let message = format!("version {number} of `{}` does not name its text", pipeline.name);
                return Err(error(1, 1, message));
            }
        }
        Ok(LockFile {
            pipelines: document.pipelines,
        })
    }

    /// Returns the locked versions of a pipeline.
    pub fn pipeline(&self, name: &str) -> Option<&LockedPipeline> {
        self.pipelines.iter().find(|pipeline| pipeline.name == name)
    }

    /// Returns the locked versions of a pipeline, to change them. A pipeline without a version must get one.
    pub fn pipeline_mut(&mut self, name: &str) -> &mut LockedPipeline {
        let at = self
            .pipelines
            .partition_point(|pipeline| pipeline.name.as_str() < name);
        if self
            .pipelines
            .get(at)
            .is_none_or(|pipeline| pipeline.name != name)
        {
            let pipeline = LockedPipeline {
                name: name.to_owned(),
                versions: Vec::new(),
            };
            self.pipelines.insert(at, pipeline);
        }
        &mut self.pipelines[at]
    }
}

impl fmt::Display for LockFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let document = Document {
            schema: SCHEMA.to_owned(),
            pipelines: self.pipelines.clone(),
        };
        let body = serde_json::to_string_pretty(&document).map_err(|_| fmt::Error)?;
        writeln!(f, "{HEAD}{body}")
    }
}

impl LockedPipeline {
    /// Returns the released version.
    pub fn latest(&self) -> Option<&LockedVersion> {
        self.versions.last()
    }
}

impl LockedVersion {
    /// Records the contract of the pipeline.
    #[must_use]
    pub fn with_contract(mut self, pipeline: &Pipeline) -> LockedVersion {
        let contract = Contract::from_pipeline(pipeline);
        self.inputs = contract.inputs().iter().map(ToString::to_string).collect();
        self.outputs = contract
            .declared_outputs()
            .map(|(node, word, fields)| {
                let id = pipeline.stage(node).id();
                let owner = word.map_or_else(|| id.to_owned(), |word| format!("{id}.{word}"));
                (owner, fields.iter().map(ToString::to_string).collect())
            })
            .collect();
        self
    }
}
