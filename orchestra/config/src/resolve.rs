//! A project: its configuration, resolved for the model stages of pipelines.

use std::collections::{BTreeMap, BTreeSet};

use orchestra_graph::{Analysis, ChildReader, Diagnostic, Pipeline, ReadError, Report, Source, Span};

use crate::choose::Resolver;
use crate::files::{FileUse, Files, folder_of, join};
use crate::layers::Library;
use crate::names::tool_name;
use crate::reports::Reports;
use crate::resolved::Resolution;
use crate::rules;
use crate::settings::{Agent, Configuration};
use crate::stage::{Stages, Table};
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
}

/// Returns a project without a configuration file, in which nothing is set.
impl Default for Project {
    fn default() -> Project {
        Project {
            configuration: Configuration::default(),
            path: None,
            report: Report::new(Source::new("", ""), Vec::new()),
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
            Err(diagnostic) => {
                let why = match diagnostic {
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
        Project {
            configuration,
            path: Some(path.to_owned()),
            report,
        }
    }

    /// Resolves the settings of the model stages of a checked graph. The reports include the diagnostics of the
    /// configuration.
    ///
    /// ```
    /// use orchestra_config::{Project, ResolveOptions};
    /// use orchestra_graph::{Analysis, Source, load};
    /// let text = "digraph { start -> work -> exit; work [backend=simulation] }";
    /// let loaded = load(Source::new("a.dot", text), &Default::default());
    /// let analysis = Analysis::new(&loaded.graph, &loaded.source);
    /// let resolution = Project::default().resolve_graph(&analysis, &ResolveOptions::default());
    /// assert_eq!(resolution.stages[0].backend.to_string(), "simulation [node]");
    /// ```
    pub fn resolve_graph(&self, analysis: &Analysis<'_>, options: &ResolveOptions<'_>) -> Resolution {
        self.resolved(analysis, options)
    }

    /// Resolves the settings of the model stages of a pipeline for a run. The result is the same as for its
    /// [graph](Project::resolve_graph), except that a value of a stylesheet counts as the node's.
    pub fn resolve(&self, pipeline: &Pipeline, options: &ResolveOptions<'_>) -> Resolution {
        self.resolved(&Table::new(pipeline), options)
    }

    fn resolved(&self, stages: &dyn Stages, options: &ResolveOptions<'_>) -> Resolution {
        // After a syntax error every stage would be reported as incomplete.
        if self
            .report
            .diagnostics
            .iter()
            .any(|diagnostic| diagnostic.code == rules::CONFIG_SYNTAX.code)
        {
            return Resolution {
                reports: vec![self.report.clone()],
                ..Resolution::default()
            };
        }
        let source = stages.source();
        let files = Files::new(options.reader);
        let library = Library::new(&files, self.folders(source.name(), options));
        let mut reports = Reports::default();
        reports.add_all(&self.report.source, self.report.diagnostics.clone());
        let mut tools = self.configuration.tool_names();
        tools.extend(options.tools.iter().map(|name| tool_name(name)));
        tools.sort_unstable();
        tools.dedup();
        let mut resolver = Resolver {
            project: self,
            defined: &options.agents,
            tools,
            stages,
            source,
            library: &library,
            reports: &mut reports,
            unknown_tools: Vec::new(),
            checked: BTreeSet::new(),
        };
        let resolved = resolver.run();
        let unknown_tools = std::mem::take(&mut resolver.unknown_tools);
        let mut used: Vec<FileUse> = files.used();
        used.extend(self.path.iter().map(|path| FileUse {
            path: path.clone(),
            found: true,
        }));
        used.sort();
        used.dedup();
        Resolution {
            stages: resolved,
            reports: reports.into_reports(),
            files: used,
            unknown_tools,
        }
    }

    /// Returns the folders of prompts in search order: beside the pipeline, those that the configuration names, beside
    /// the configuration, and the user's.
    fn folders(&self, pipeline: &str, options: &ResolveOptions<'_>) -> Vec<String> {
        let mut folders = vec![join(folder_of(pipeline), "prompts")];
        if let Some(path) = &self.path {
            let folder = folder_of(path);
            let named = self.configuration.prompts.folders.iter();
            folders.extend(named.map(|named| join(folder, named)));
            folders.push(join(folder, "prompts"));
        }
        folders.extend(options.user_folder.clone());
        folders
    }
}
