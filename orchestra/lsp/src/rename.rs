//! Renaming a name in all files.

use std::collections::{BTreeMap, BTreeSet};

use orchestra_config::{BUILT_IN_TOOLS, BUILT_IN_VARIABLES};
use orchestra_graph::{KeyOwner, OccurrenceRole, RenameError, Renaming, Span, Symbol, occurrences};

use crate::analysis::{DocumentKind, document_kind};
use crate::handlers::uses_in_rust;
use crate::paths::{file_name, folder, name_in};
use crate::place::{Name, Place, is_configured, layer_folder};
use crate::protocol::{
    DocumentChangeOperation, DocumentChanges, OneOf, OptionalVersionedTextDocumentIdentifier, Position,
    PrepareRenameResponse, RenameFile, ResourceOp, TextDocumentEdit, TextEdit, Uri, WorkspaceEdit,
};
use crate::workspace::Workspace;
use crate::yaml::yaml_name;

/// A renaming with what the user should know about it.
pub(crate) struct Renamed {
    pub(crate) edit: WorkspaceEdit,
    pub(crate) notes: Vec<String>,
}

/// The replacements in each file.
type Edits = BTreeMap<String, BTreeSet<(Span, String)>>;

impl Workspace<'_> {
    /// Returns the range of the name at a position, if it can be renamed.
    ///
    /// # Errors
    /// Fails with the reason why it cannot.
    pub(crate) fn prepare_rename(
        &mut self,
        uri: &Uri,
        position: Position,
    ) -> Result<Option<PrepareRenameResponse>, String> {
        let Some((path, offset)) = self.place_of(uri, position) else {
            return Ok(None);
        };
        let Some((name, place)) = self.name_at(&path, offset) else {
            return Ok(None);
        };
        self.check_renameable(&name)?;
        let range = self.location(&place).map(|location| location.range);
        Ok(range.map(|range| PrepareRenameResponse::RangeWithPlaceholder {
            range,
            placeholder: name.symbol.name().to_owned(),
        }))
    }

    /// Fails with the reason why no name can replace this one.
    fn check_renameable(&mut self, name: &Name) -> Result<(), String> {
        match &name.symbol {
            Symbol::ChildFile(_) | Symbol::PromptFile(_) => Err("rename the file instead".to_owned()),
            Symbol::Kind(kind) => Err(format!(
                "the type `{kind}` is that of a handler; rename it in the Rust program and here"
            )),
            symbol if is_layer(symbol) => match self.layer_file(name) {
                Some(_) => Ok(()),
                None => Err(format!("no file of this project contains the {symbol}")),
            },
            symbol if is_configured(symbol) => {
                let places = self.places(name);
                let is_declared = places
                    .iter()
                    .any(|place| place.role == OccurrenceRole::Declaration);
                if is_declared {
                    return Ok(());
                }
                Err(format!(
                    "the {symbol} is not defined by the configuration of the project"
                ))
            }
            Symbol::Key(key) if KeyOwner::of_key(key).is_some() => Err(format!(
                "`{key}` is a key of the engine; only keys that stages set can be renamed"
            )),
            Symbol::Key(key) if BUILT_IN_VARIABLES.contains(&key.as_str()) => {
                let places = self.places(name);
                if places
                    .iter()
                    .any(|place| place.role == OccurrenceRole::Declaration)
                {
                    return Ok(());
                }
                Err(format!("`{key}` is a variable that every template has"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the edits that rename the name at a position in all files.
    ///
    /// # Errors
    /// Fails with the reason why the new name cannot replace it.
    pub(crate) fn rename(
        &mut self,
        uri: &Uri,
        position: Position,
        new: &str,
    ) -> Result<Option<Renamed>, String> {
        let Some((path, offset)) = self.place_of(uri, position) else {
            return Ok(None);
        };
        let Some((name, _)) = self.name_at(&path, offset) else {
            return Ok(None);
        };
        self.check_renameable(&name)?;
        if name.symbol.name() == new {
            return Ok(None);
        }
        let places = self.places(&name);
        if is_configured(&name.symbol) {
            self.check_configured(&name, new)?;
        } else if let Some(analysis) = self.analysis(&name.home) {
            let report = &analysis.configured.project.report;
            if report.has_errors() {
                return Err(format!(
                    "`{}` has errors; fix them first, so that every use is found",
                    report.source.name()
                ));
            }
        }
        let mut edits = Edits::new();
        let mut notes = Vec::new();
        let mut pipelines: BTreeSet<&str> = places
            .iter()
            .map(|place| place.path.as_str())
            .filter(|path| document_kind(path) == DocumentKind::Pipeline)
            .collect();
        if !is_configured(&name.symbol) {
            pipelines.insert(&name.home);
        }
        for pipeline in pipelines {
            let Some(analysis) = self.analysis(pipeline) else {
                continue;
            };
            let symbol = match &name.symbol {
                Symbol::Key(key) if pipeline != name.home => Symbol::ChildKey {
                    file: name_in(&analysis.root, &name.home).to_owned(),
                    key: key.clone(),
                },
                symbol => symbol.clone(),
            };
            let renaming = Renaming::new(&analysis.loaded, &symbol, new)
                .map_err(|error: RenameError| error.to_string())?;
            let list = edits.entry(pipeline.to_owned()).or_default();
            list.extend(renaming.edits.into_iter().map(|edit| (edit.span, edit.new_text)));
            notes.extend(renaming.notes);
        }
        for place in &places {
            let list = edits.entry(place.path.clone()).or_default();
            let covers =
                |(span, _): &(Span, String)| span.start <= place.span.start && place.span.end <= span.end;
            if !list.iter().any(covers) {
                self.check_side(place, new)?;
                let text = self.text(&place.path).unwrap_or_default();
                let is_yaml = matches!(
                    document_kind(&place.path),
                    DocumentKind::Yaml | DocumentKind::Configuration
                );
                let is_template = layer_folder(&place.path) == Some("tasks");
                list.insert(if is_yaml && !is_template {
                    (place.span, yaml_name(text.as_str(), place.span, new))
                } else {
                    (place.span, new.to_owned())
                });
            }
        }
        if !is_configured(&name.symbol) {
            notes.extend(self.other_users(&name, edits.keys()));
        }
        let mut files = Vec::new();
        if is_layer(&name.symbol)
            && let Some(file) = self.layer_file(&name)
        {
            files.push((file.clone(), format!("{}/{new}.yaml", folder(&file))));
        }
        let uses = uses_in_rust(&self.files, &name.home, &name.symbol);
        if uses > 0 {
            let (uses, verb) = match uses {
                1 => ("1 use".to_owned(), "is"),
                uses => (format!("{uses} uses"), "are"),
            };
            notes.push(format!(
                "{uses} of the {} in Rust {verb} not renamed{}",
                name.symbol,
                match name.symbol {
                    Symbol::Node(_) => "; the next build reports what does not fit",
                    _ => "",
                }
            ));
        }
        let edit = self.workspace_edit(edits, files)?;
        Ok(Some(Renamed { edit, notes }))
    }

    /// Returns a note for each file with edits that other pipelines use too, because their own names stay as they are.
    fn other_users<'p>(&mut self, name: &Name, paths: impl Iterator<Item = &'p String>) -> Vec<String> {
        let sides: Vec<&String> = paths
            .filter(|path| document_kind(path) != DocumentKind::Pipeline)
            .collect();
        if sides.is_empty() {
            return Vec::new();
        }
        let mut notes = Vec::new();
        for pipeline in self.pipelines(&name.home) {
            let analysis = self.analysis(&pipeline).filter(|_| pipeline != name.home);
            let found = analysis
                .map(|analysis| occurrences(&analysis.loaded))
                .unwrap_or_default();
            if !found.iter().any(|found| found.symbol == name.symbol) {
                continue;
            }
            let used = self.side_files(&pipeline, &name.symbol);
            notes.extend(sides.iter().filter(|side| used.contains(side)).map(|side| {
                format!(
                    "`{}` is also used by `{}`, whose names are not changed",
                    file_name(side),
                    file_name(&pipeline)
                )
            }));
        }
        notes
    }

    /// Checks a new name of something in the configuration.
    fn check_configured(&mut self, name: &Name, new: &str) -> Result<(), String> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if new.is_empty() || !new.chars().all(is_part) {
            return Err(format!(
                "`{new}` is not a name; use letters, digits, `_`, `-` and `.`"
            ));
        }
        let symbol = match &name.symbol {
            Symbol::Tool(_) if BUILT_IN_TOOLS.contains(&new) => {
                return Err(format!("the tool `{new}` is built in; choose another name"));
            }
            Symbol::Agent(_) => Symbol::Agent(new.to_owned()),
            Symbol::Tool(_) => Symbol::Tool(new.to_owned()),
            Symbol::Backend(_) => Symbol::Backend(new.to_owned()),
            Symbol::Model(_) => Symbol::Model(new.to_owned()),
            Symbol::Provider(_) => Symbol::Provider(new.to_owned()),
            Symbol::Repository(_) => Symbol::Repository(new.to_owned()),
            Symbol::Role(_) => Symbol::Role(new.to_owned()),
            Symbol::Persona(_) => Symbol::Persona(new.to_owned()),
            Symbol::Personality(_) => Symbol::Personality(new.to_owned()),
            Symbol::Task(_) => Symbol::Task(new.to_owned()),
            _ => return Ok(()),
        };
        let other = Name {
            symbol,
            home: name.home.clone(),
        };
        let exists = if is_layer(&other.symbol) {
            self.layer_file(&other).is_some()
        } else {
            !self.places(&other).is_empty()
        };
        if exists {
            return Err(format!(
                "the {} exists already; choose another name",
                other.symbol
            ));
        }
        Ok(())
    }

    /// Checks a new name at a place outside of the statements of a pipeline.
    fn check_side(&self, place: &Place, new: &str) -> Result<(), String> {
        let is_template = document_kind(&place.path) != DocumentKind::Configuration
            && layer_folder(&place.path).is_none_or(|folder| folder == "tasks");
        let is_key = matches!(place.symbol, Symbol::Key(_));
        if is_template && is_key && !new.split('.').all(orchestra_graph::is_identifier) {
            return Err(format!(
                "the template in `{}` cannot name a variable `{new}`; use letters, digits and `_`",
                file_name(&place.path)
            ));
        }
        if matches!(place.symbol, Symbol::Label { .. }) {
            let text = self.text(&place.path).unwrap_or_default();
            let before = text.as_str().get(..place.span.start as usize).unwrap_or_default();
            let dashed = before.strip_suffix(" - ").unwrap_or_default();
            let is_part = before.ends_with(") ") || dashed.ends_with(char::is_alphanumeric);
            // Quotes around a part of a scalar would belong to its text.
            if is_part && yaml_name(text.as_str(), place.span, new) != new {
                return Err(format!(
                    "put the answers with a key in `{}` in quotes first",
                    file_name(&place.path)
                ));
            }
        }
        Ok(())
    }

    fn workspace_edit(&self, edits: Edits, files: Vec<(String, String)>) -> Result<WorkspaceEdit, String> {
        let mut operations = Vec::new();
        for (path, list) in edits {
            let Some(uri) = self.uri(&path) else {
                continue;
            };
            let text = self.text(&path).unwrap_or_default();
            let edits = list.into_iter().map(|(span, new_text)| {
                OneOf::Left(TextEdit::new(text.range(span, self.encoding), new_text))
            });
            let version = self.files.documents.get(&path).map(|document| document.version);
            operations.push(DocumentChangeOperation::Edit(TextDocumentEdit {
                text_document: OptionalVersionedTextDocumentIdentifier { uri, version },
                edits: edits.collect(),
            }));
        }
        if !files.is_empty() && !self.renames_files {
            return Err(
                "the editor cannot rename files; rename the file of the layer and its uses".to_owned(),
            );
        }
        for (old, new) in files {
            if let (Some(old_uri), Some(new_uri)) = (self.uri(&old), self.uri(&new)) {
                operations.push(DocumentChangeOperation::Op(ResourceOp::Rename(RenameFile {
                    old_uri,
                    new_uri,
                    options: None,
                    annotation_id: None,
                })));
            }
        }
        Ok(self.edit_of(operations))
    }

    /// Returns operations in the form that the client understands.
    fn edit_of(&self, operations: Vec<DocumentChangeOperation>) -> WorkspaceEdit {
        if self.versions_edits {
            return WorkspaceEdit {
                document_changes: Some(DocumentChanges::Operations(operations)),
                ..WorkspaceEdit::default()
            };
        }
        let edits = operations.into_iter().filter_map(|operation| match operation {
            DocumentChangeOperation::Edit(edit) => Some((edit.text_document.uri, edit.edits)),
            DocumentChangeOperation::Op(_) => None,
        });
        let plain = |edit: OneOf<TextEdit, _>| match edit {
            OneOf::Left(edit) => Some(edit),
            OneOf::Right(_) => None,
        };
        #[expect(
            clippy::mutable_key_type,
            reason = "the type of the protocol; nothing changes the keys"
        )]
        let changes = edits
            .map(|(uri, edits)| (uri, edits.into_iter().filter_map(plain).collect()))
            .collect();
        WorkspaceEdit::new(changes)
    }
}

fn is_layer(symbol: &Symbol) -> bool {
    matches!(
        symbol,
        Symbol::Role(_) | Symbol::Persona(_) | Symbol::Personality(_) | Symbol::Task(_)
    )
}
