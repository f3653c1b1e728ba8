//! The state of the server: files, analyses and diagnostics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orchestra_graph::Report;

use crate::actions::Reported;
use crate::analysis::{
    Analysis, ConfigurationAnalysis, DocumentKind, analyse, analyse_configuration, document_kind,
};
use crate::cursor::Opened;
use crate::diagnostics::{FileDiagnostics, Published, converted};
use crate::files::{Document, Files};
use crate::host::Host;
use crate::paths::{absolute, path_from_uri, uri_from_path};
use crate::place::Place;
use crate::protocol::{
    Diagnostic, Location, Position, PublishDiagnosticsParams, TextDocumentContentChangeEvent, Uri,
};
use crate::settings::Settings;
use crate::text::{Encoding, Text};

/// Files, analyses and diagnostics.
pub(crate) struct Workspace<'h> {
    pub(crate) files: Files<'h>,
    pub(crate) settings: Settings,
    pub(crate) encoding: Encoding,
    /// Whether the client understands edits of documents with their versions.
    pub(crate) versions_edits: bool,
    /// Whether the client renames files.
    pub(crate) renames_files: bool,
    /// `true` if the client replaces the placeholders of snippets.
    pub(crate) placeholders: bool,
    /// The current analyses. A change of a file removes those that requested it.
    analyses: BTreeMap<String, Arc<Analysis>>,
    /// The analyses whose diagnostics are not in `published` yet, by the paths of their pipelines.
    unpublished: BTreeSet<String>,
    published: Published,
}

impl<'h> Workspace<'h> {
    pub(crate) fn new(host: &'h dyn Host) -> Workspace<'h> {
        Workspace {
            files: Files::new(host),
            settings: Settings::default(),
            encoding: Encoding::default(),
            versions_edits: false,
            renames_files: false,
            placeholders: false,
            analyses: BTreeMap::new(),
            unpublished: BTreeSet::new(),
            published: Published::default(),
        }
    }

    pub(crate) fn open(&mut self, uri: Uri, version: i32, text: String) {
        let text = Arc::new(Text::new(text));
        let path = path_from_uri(&uri);
        self.files
            .documents
            .insert(path.clone(), Document { uri, version, text });
        self.changed(&path);
        self.republish();
    }

    pub(crate) fn change(&mut self, uri: &Uri, version: i32, changes: Vec<TextDocumentContentChangeEvent>) {
        let path = path_from_uri(uri);
        self.files.change(&path, version, changes, self.encoding);
        self.changed(&path);
    }

    pub(crate) fn close(&mut self, uri: &Uri) {
        let path = path_from_uri(uri);
        self.files.documents.remove(&path);
        self.changed(&path);
        self.republish();
    }

    /// Removes the analyses that requested a file.
    pub(crate) fn changed(&mut self, path: &str) {
        self.analyses
            .retain(|_, analysis| !analysis.requested.contains(path));
    }

    /// Removes all analyses: the settings, or the folders to which files belong, have changed.
    pub(crate) fn changed_all(&mut self) {
        self.analyses.clear();
    }

    /// Converts the diagnostics of all analyses again: other documents are open.
    fn republish(&mut self) {
        self.unpublished.extend(self.analyses.keys().cloned());
    }

    /// Returns the analysis of a pipeline, by its absolute path.
    pub(crate) fn analysis(&mut self, path: &str) -> Option<Arc<Analysis>> {
        if let Some(known) = self.analyses.get(path) {
            return Some(known.clone());
        }
        let analysis = Arc::new(analyse(&self.files, path, &self.settings)?);
        self.analyses.insert(path.to_owned(), analysis.clone());
        self.unpublished.insert(path.to_owned());
        Some(analysis)
    }

    /// Returns an open pipeline with its analysis; `None` if the document is not open, or no pipeline.
    pub(crate) fn opened(&mut self, uri: &Uri) -> Option<Opened> {
        let path = path_from_uri(uri);
        if document_kind(&path) != DocumentKind::Pipeline {
            return None;
        }
        let document = self.files.documents.get(&path)?;
        let (uri, text) = (document.uri.clone(), document.text.clone());
        let analysis = self.analysis(&path)?;
        Some(Opened {
            uri,
            path,
            text,
            analysis,
            encoding: self.encoding,
        })
    }

    /// Returns an open document with everything that is reported about it; `None` if the document is not open.
    pub(crate) fn reported(&mut self, uri: &Uri) -> Option<Reported> {
        let path = path_from_uri(uri);
        let uri = self.files.documents.get(&path)?.uri.clone();
        let mut pipelines = vec![path.clone()];
        let mut reports = Vec::new();
        match document_kind(&path) {
            DocumentKind::Pipeline => {}
            DocumentKind::Configuration | DocumentKind::Yaml => {
                let configuration = analyse_configuration(&self.files, &path)?;
                let report = configuration.project.report;
                if absolute(&configuration.root, report.source.name()) == path {
                    reports.push(report);
                }
                pipelines = configuration.pipelines;
            }
            DocumentKind::Other => return None,
        }
        for pipeline in pipelines {
            if let Some(analysis) = self.analysis(&pipeline) {
                let own = analysis.reports.iter();
                reports.extend(own.filter(|report| analysis.path(report) == path).cloned());
            }
        }
        Some(Reported {
            uri,
            reports,
            encoding: self.encoding,
        })
    }

    /// Returns the path of a document, and the byte offset of a position in it; `None` if the document is not open.
    pub(crate) fn place_of(&self, uri: &Uri, position: Position) -> Option<(String, u32)> {
        let path = path_from_uri(uri);
        let document = self.files.documents.get(&path)?;
        Some((path, document.text.offset(position, self.encoding)))
    }

    /// Returns the text of a file.
    pub(crate) fn text(&self, path: &str) -> Option<Text> {
        let bytes = self.files.read(path, u64::from(u32::MAX)).ok()?;
        Some(Text::new(String::from_utf8_lossy(&bytes)))
    }

    /// Returns the location of a place; `None` if its file cannot be read.
    pub(crate) fn location(&self, place: &Place) -> Option<Location> {
        let range = self.text(&place.path)?.range(place.span, self.encoding);
        Some(Location::new(self.uri(&place.path)?, range))
    }

    /// Analyses what changed, and returns the diagnostics that the client must get.
    pub(crate) fn diagnostics(&mut self) -> Vec<PublishDiagnosticsParams> {
        let documents: Vec<String> = self.files.documents.keys().cloned().collect();
        let mut analysed = BTreeSet::new();
        let mut closed = BTreeSet::new();
        for path in &documents {
            match document_kind(path) {
                DocumentKind::Pipeline => {
                    analysed.insert(path.clone());
                }
                DocumentKind::Configuration | DocumentKind::Yaml => {
                    if let Some(configuration) = analyse_configuration(&self.files, path) {
                        closed.extend(configuration.pipelines.iter().cloned());
                        // Several documents may have the same configuration; all of them report the same.
                        self.published
                            .set(path, self.configuration_diagnostics(&configuration));
                        analysed.insert(path.clone());
                    }
                }
                DocumentKind::Other => {}
            }
        }
        closed.retain(|path| !analysed.contains(path));
        analysed.extend(closed.iter().cloned());
        for path in &analysed {
            if document_kind(path) != DocumentKind::Pipeline {
                continue;
            }
            let Some(analysis) = self.analysis(path) else {
                continue;
            };
            if self.unpublished.remove(path) {
                let diagnostics = self.analysis_diagnostics(&analysis, closed.contains(path));
                self.published.set(path, diagnostics);
            }
        }
        self.analyses.retain(|path, _| analysed.contains(path));
        self.unpublished.clear();
        self.published.retain(&analysed);
        let changes = self.published.changes();
        changes
            .into_iter()
            .filter_map(|(path, list)| self.publication(&path, list))
            .collect()
    }

    fn publication(&self, path: &str, list: Vec<Diagnostic>) -> Option<PublishDiagnosticsParams> {
        let version = self.files.documents.get(path).map(|document| document.version);
        Some(PublishDiagnosticsParams::new(self.uri(path)?, list, version))
    }

    /// Returns the URI of a path, as the client writes it.
    pub(crate) fn uri(&self, path: &str) -> Option<Uri> {
        match self.files.documents.get(path) {
            Some(document) => Some(document.uri.clone()),
            None => uri_from_path(path),
        }
    }

    /// Returns the diagnostics of an analysis. A pipeline that is not open was analysed only because of its
    /// configuration, so only open documents matter.
    fn analysis_diagnostics(&self, analysis: &Analysis, only_open: bool) -> FileDiagnostics {
        let mut files = FileDiagnostics::new();
        for report in &analysis.reports {
            let path = analysis.path(report);
            if !only_open || self.files.documents.contains_key(&path) {
                self.add(&mut files, path, report);
            }
        }
        files
    }

    fn configuration_diagnostics(&self, configuration: &ConfigurationAnalysis) -> FileDiagnostics {
        let report = &configuration.project.report;
        let path = absolute(&configuration.root, report.source.name());
        let mut files = FileDiagnostics::new();
        if self.files.documents.contains_key(&path) {
            self.add(&mut files, path, report);
        }
        files
    }

    fn add(&self, files: &mut FileDiagnostics, path: String, report: &Report) {
        if let Some(uri) = self.uri(&path) {
            let diagnostics = converted(report, &uri, self.encoding);
            files.entry(path).or_default().extend(diagnostics);
        }
    }
}
