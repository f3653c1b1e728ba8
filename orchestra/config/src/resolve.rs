//! The entry points of resolution.

use std::collections::BTreeSet;

use orchestra_graph::{Analysis, Loaded, MissingValues, Pipeline, Report};

use crate::choose::Resolver;
use crate::files::{FileUse, Files, folder_of, join};
use crate::layers::Library;
use crate::names::tool_name;
use crate::project::{Project, ResolveOptions};
use crate::reports::Reports;
use crate::resolved::Resolution;
use crate::stage::{Stages, Table};

impl Project {
    /// Resolves the settings of the model stages of a checked graph. The reports include the diagnostics of the
    /// configuration.
    ///
    /// ```
    /// use orchestra_config::{Project, ResolveOptions};
    /// use orchestra_graph::{Source, load};
    /// let text = "digraph { start -> work -> exit; work [backend=simulation] }";
    /// let loaded = load(Source::new("a.dot", text), &Default::default());
    /// let analysis = loaded.analysis();
    /// let resolution = Project::default().resolve_graph(&analysis, &ResolveOptions::default());
    /// assert_eq!(resolution.stages[0].backend.to_string(), "simulation [node]");
    /// ```
    pub fn resolve_graph(&self, analysis: &Analysis<'_>, options: &ResolveOptions<'_>) -> Resolution {
        self.resolved(analysis, MissingValues::new(analysis), options)
    }

    /// Like [`resolve_graph`](Project::resolve_graph), for a loaded pipeline and its descendants, in this order.
    ///
    /// ```
    /// use orchestra_config::{Project, ResolveOptions};
    /// use orchestra_graph::{Source, load};
    /// let loaded = load(Source::new("a.dot", "digraph { start -> work -> exit }"), &Default::default());
    /// let resolutions = Project::default().resolve_loaded(&loaded, &ResolveOptions::default());
    /// assert_eq!(resolutions.len(), 1);
    /// ```
    pub fn resolve_loaded(&self, loaded: &Loaded, options: &ResolveOptions<'_>) -> Vec<Resolution> {
        let descendants = loaded.descendants().into_iter().map(|child| &*child.loaded);
        let resolve = |loaded: &Loaded| self.resolve_graph(&loaded.analysis(), options);
        std::iter::once(loaded).chain(descendants).map(resolve).collect()
    }

    /// Returns the errors (`resume_unset`) for the declared values that templates read, although the unfinished runs of a
    /// locked version of the pipeline may lack them.
    pub fn resumed_reads(
        &self,
        locked: &Loaded,
        today: &Loaded,
        options: &ResolveOptions<'_>,
    ) -> Vec<Report> {
        let analysis = today.analysis();
        let Some(missing) = MissingValues::resumed(&analysis, locked) else {
            return Vec::new();
        };
        let mut reports = self.resolved(&analysis, Some(missing), options).reports;
        for report in &mut reports {
            report
                .diagnostics
                .retain(|diagnostic| diagnostic.code == "resume_unset");
        }
        reports.retain(|report| !report.diagnostics.is_empty());
        reports
    }

    /// Resolves the settings of the model stages of a pipeline for a run. The result is the same as for its
    /// [graph](Project::resolve_graph), except that a value of a stylesheet counts as the node's.
    pub fn resolve(&self, pipeline: &Pipeline, options: &ResolveOptions<'_>) -> Resolution {
        self.resolved(&Table::new(pipeline), None, options)
    }

    fn resolved(
        &self,
        stages: &dyn Stages,
        missing: Option<MissingValues<'_>>,
        options: &ResolveOptions<'_>,
    ) -> Resolution {
        // After a syntax error every stage would be reported as incomplete.
        if self
            .report
            .diagnostics
            .iter()
            .any(|diagnostic| diagnostic.code == "config_syntax")
        {
            return Resolution {
                reports: vec![self.report.clone()],
                ..Resolution::default()
            };
        }
        let source = stages.source();
        let files = Files::new(options.reader);
        let library = Library::new(&files, self.prompt_folders(source.name(), options));
        let mut reports = Reports::default();
        reports.add_all(&self.report.source, self.report.diagnostics.clone());
        self.check_mcp(&mut reports);
        let mut tools = self.configuration.tool_names();
        tools.extend(options.tools.iter().map(|name| tool_name(name)));
        tools.sort_unstable();
        tools.dedup();
        let mut resolver = Resolver {
            project: self,
            defined: &options.agents,
            tools,
            stages,
            missing,
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
        used.extend(self.mcp.as_ref().map(|lock| lock.file_use()));
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
    ///
    /// ```
    /// use orchestra_config::{Project, ResolveOptions};
    /// let folders = Project::default().prompt_folders("flows/a.dot", &ResolveOptions::default());
    /// assert_eq!(folders, ["flows/prompts"]);
    /// ```
    pub fn prompt_folders(&self, pipeline: &str, options: &ResolveOptions<'_>) -> Vec<String> {
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
