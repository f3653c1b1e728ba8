//! Analysing a pipeline or a configuration: the same steps as `orchestra check`.

use std::collections::BTreeSet;
use std::sync::Arc;

use orchestra_config::{CONFIGURATION_FILE, Project, Resolution, ResolveOptions, paths_above};
use orchestra_graph::{ChildReader, LoadOptions, Loaded, Report, ShapeFallback, Source, load, load_bytes};

use crate::files::{Files, RootReader};
use crate::paths::{absolute, ending, file_name, folder, name_in};
use crate::settings::Settings;

/// The endings of pipelines.
pub(crate) const PIPELINES: &[&str] = &["dot", "gv"];
/// The maximum number of pipelines of a configuration that are analysed although none of them is open.
const MAX_CLOSED: usize = 100;

/// A kind of document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DocumentKind {
    Pipeline,
    /// `orchestra.yaml`.
    Configuration,
    /// Another YAML file, such as a prompt layer or the script of a simulation.
    Yaml,
    Other,
}

/// Returns the kind of a document. A document that was never saved has no ending; the client opened it as a pipeline.
pub(crate) fn document_kind(path: &str) -> DocumentKind {
    match ending(path) {
        _ if file_name(path) == CONFIGURATION_FILE => DocumentKind::Configuration,
        "yaml" | "yml" => DocumentKind::Yaml,
        "" => DocumentKind::Pipeline,
        ending if PIPELINES.contains(&ending) => DocumentKind::Pipeline,
        _ => DocumentKind::Other,
    }
}

/// A configuration with the definitions of the user.
pub(crate) struct Configured {
    pub(crate) project: Project,
    /// The agents, tools and prompt layers of the user, as options for resolving stages.
    pub(crate) user: crate::host::UserFolder,
}

/// A pipeline with its configuration, the settings of its model stages and all diagnostics.
pub(crate) struct Analysis {
    /// The absolute folder to which the names of files are relative.
    pub(crate) root: String,
    pub(crate) loaded: Loaded,
    pub(crate) configured: Configured,
    /// The settings of the model stages of the pipeline and of its descendants, in this order. They are present even if
    /// the pipeline has errors, as far as it could be read.
    pub(crate) resolutions: Vec<Resolution>,
    /// Everything that `orchestra check` reports.
    pub(crate) reports: Vec<Report>,
    /// The absolute paths of the files that were requested, whether or not they exist.
    pub(crate) requested: BTreeSet<String>,
}

/// A configuration with its diagnostics.
pub(crate) struct ConfigurationAnalysis {
    pub(crate) root: String,
    pub(crate) project: Project,
    /// The pipelines that use the configuration, none of which needs to be open.
    pub(crate) pipelines: Vec<String>,
}

/// Loads and checks a pipeline by its absolute path; `None` if the file cannot be read.
pub(crate) fn analyse(files: &Files<'_>, path: &str, settings: &Settings) -> Option<Analysis> {
    let root = files.root(path);
    let reader = RootReader::new(files, &root);
    let name = name_in(&root, path);
    let options = LoadOptions {
        // Another program may have handlers for custom types.
        transforms: vec![Arc::new(ShapeFallback::default().noted())],
        allow: settings.allow.clone(),
        deny: settings.deny.clone(),
        children: Some(&reader),
        ..LoadOptions::default()
    };
    let loaded = match files.documents.get(path) {
        Some(document) => load(Source::new(name, document.text.as_str()), &options),
        None => load_bytes(
            name,
            &files.read(path, options.limits.bytes as u64).ok()?,
            &options,
        ),
    };
    let configured = configured(files, &reader, name);
    let mut reports: Vec<Report> = loaded.reports().cloned().collect();
    let mut further = Vec::new();
    let mut resolutions = Vec::new();
    if configured.project.report.has_errors() {
        further.push(configured.project.report.clone());
    } else {
        let options = configured.options(&reader);
        resolutions = configured.project.resolve_loaded(&loaded, &options);
        further.extend(configured.user.files.reports.iter().cloned());
        further.extend(
            resolutions
                .iter()
                .flat_map(|resolution| resolution.reports.iter().cloned()),
        );
        further.extend(files.host.refusals(&loaded));
    }
    // The settings of a pipeline with errors may be incomplete.
    if !loaded.report.has_errors() {
        for report in &mut further {
            options.apply_severities(&mut report.diagnostics);
        }
        reports.append(&mut further);
    }
    let mut requested = reader.into_requested();
    requested.insert(path.to_owned());
    Some(Analysis {
        loaded,
        configured,
        resolutions,
        reports,
        requested,
        root,
    })
}

impl Configured {
    /// Returns the options with which the stages of a pipeline are resolved.
    pub(crate) fn options<'r>(&self, reader: &'r dyn ChildReader) -> ResolveOptions<'r> {
        ResolveOptions {
            reader: Some(reader),
            agents: self.user.files.agents.clone(),
            user_folder: self.user.prompts.clone(),
            ..ResolveOptions::default()
        }
    }
}

impl Analysis {
    /// Returns the absolute path of a report's text.
    pub(crate) fn path(&self, report: &Report) -> String {
        absolute(&self.root, report.source.name())
    }

    /// Returns the settings of the model stages of the pipeline itself.
    pub(crate) fn resolution(&self) -> Option<&Resolution> {
        self.resolutions.first()
    }
}

/// Finds the configuration of a pipeline, and adds the definitions of the user.
fn configured(files: &Files<'_>, reader: &RootReader<'_>, name: &str) -> Configured {
    let path = configuration_name(reader, name);
    let mut project = path.map_or_else(Project::default, |path| Project::load(&path, reader));
    let user = files.host.user();
    user.files.add_tools_to(&mut project);
    Configured { project, user }
}

/// Returns the name of the configuration of a file, relative to the root.
fn configuration_name(reader: &RootReader<'_>, name: &str) -> Option<String> {
    let mut paths = paths_above(name, CONFIGURATION_FILE, reader.parents()).into_iter();
    paths.find(|path| reader.exists(path))
}

/// Returns the absolute path of the configuration of a file.
pub(crate) fn configuration_of(files: &Files<'_>, path: &str) -> Option<String> {
    let root = files.root(path);
    let reader = RootReader::new(files, &root);
    let name = configuration_name(&reader, name_in(&root, path))?;
    Some(absolute(&root, &name))
}

/// Checks the configuration of a YAML document, and finds the pipelines that use it.
pub(crate) fn analyse_configuration(files: &Files<'_>, path: &str) -> Option<ConfigurationAnalysis> {
    let root = files.root(path);
    let reader = RootReader::new(files, &root);
    let name = configuration_name(&reader, name_in(&root, path))?;
    let project = Project::load(&name, &reader);
    let configuration = absolute(&root, &name);
    let mut pipelines = files.host.list(folder(&configuration), PIPELINES, MAX_CLOSED);
    let open = files.documents.keys();
    pipelines.extend(
        open.filter(|path| document_kind(path) == DocumentKind::Pipeline)
            .cloned(),
    );
    pipelines.retain(|pipeline| {
        let root = files.root(pipeline);
        let reader = RootReader::new(files, &root);
        let own = configuration_name(&reader, name_in(&root, pipeline));
        own.is_some_and(|own| absolute(&root, &own) == configuration)
    });
    pipelines.sort_unstable();
    pipelines.dedup();
    Some(ConfigurationAnalysis {
        root,
        project,
        pipelines,
    })
}
