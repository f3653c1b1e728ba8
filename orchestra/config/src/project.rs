//! A project: a configuration with its path, and the input for its resolution.

use std::collections::BTreeMap;

use orchestra_graph::{ChildReader, Diagnostic, ReadError, Report, Source, Span};

use crate::mcp_lock_file::ProjectLock;
use crate::rules;
use crate::settings::{Agent, Configuration};
use crate::tree::MAX_BYTES;

/// A configuration with its path.
///
/// ```
/// use orchestra_config::Project;
/// let files = |path: &str, _: u64| match path {
///     "orchestra.yaml" => Ok(b"backend: drect\n".to_vec()),
///     _ => Err(orchestra_graph::ReadError::Missing),
/// };
/// let project = Project::load("orchestra.yaml", &files);
/// assert!(project.report.has_errors());
/// assert!(Project::load("other.yaml", &files).report.has_errors(), "it is not there");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Project {
    /// The part of the file that could be decoded.
    pub configuration: Configuration,
    /// The path of the file; `None` if there is none.
    pub path: Option<String>,
    /// The diagnostics of the file.
    pub report: Report,
    /// The lock file of the MCP servers; `None` for a configuration without servers.
    pub(crate) mcp: Option<ProjectLock>,
}

/// Returns a project without a configuration file, in which nothing is set.
impl Default for Project {
    fn default() -> Project {
        Project {
            configuration: Configuration::default(),
            path: None,
            report: Report::new(Source::new("", ""), Vec::new()),
            mcp: None,
        }
    }
}

/// Input for resolving besides the pipeline and the configuration.
///
/// ```
/// use orchestra_config::{Agent, ResolveOptions};
/// let options = ResolveOptions {
///     agents: [("critic".to_owned(), Agent::default())].into(),
///     tools: vec!["query-database".to_owned()],
///     ..ResolveOptions::default()
/// };
/// assert!(options.reader.is_none(), "only the layers that come with Orchestra are found");
/// ```
#[derive(Clone, Default)]
pub struct ResolveOptions<'r> {
    /// The reader of prompt layers. Its paths are relative to the same folder as those of the configuration and the
    /// pipeline.
    pub reader: Option<&'r dyn ChildReader>,
    /// Agents that the program or the [user](crate::UserFiles) defines. An agent of the same name in the configuration
    /// replaces them.
    pub agents: BTreeMap<String, Agent>,
    /// Tools that the program defines.
    pub tools: Vec<String>,
    /// The user's folder of prompts, which is searched last, such as `/home/ada/.orchestra/prompts`.
    pub user_folder: Option<String>,
}

impl Project {
    /// Reads the configuration of a project. A file that cannot be read is reported in [`report`](Project::report).
    pub fn load(path: &str, reader: &dyn ChildReader) -> Project {
        let (configuration, report) = match reader.read(path, MAX_BYTES) {
            Ok(bytes) => Configuration::parse(path, &bytes),
            Err(error) => {
                let why = match error {
                    ReadError::Missing => "there is no such file".to_owned(),
                    ReadError::TooLong(length) => format!("it has {length} bytes, and may have {MAX_BYTES}"),
                    ReadError::Other(why) => why,
                };
                let message = format!("the configuration `{path}` cannot be read: {why}");
                let diagnostic = Diagnostic::from_rule(&rules::CONFIG_SYNTAX, message, Span::default());
                let report = Report::new(Source::new(path, ""), vec![diagnostic]);
                (Configuration::default(), report)
            }
        };
        let has_servers = !configuration.mcp_servers.is_empty();
        Project {
            configuration,
            path: Some(path.to_owned()),
            report,
            mcp: has_servers.then(|| ProjectLock::read(path, reader)),
        }
    }
}
