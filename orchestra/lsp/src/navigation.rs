//! Definition, references and highlights.

use orchestra_graph::{OccurrenceRole, Span, Symbol};

use crate::paths::{absolute, file_name};
use crate::place::{Name, Place, layer_folder};
use crate::protocol::{
    DocumentHighlight, DocumentHighlightKind, GotoDefinitionResponse, Location, Position, Uri,
};
use crate::workspace::Workspace;

impl Workspace<'_> {
    /// Returns where the name at a position is declared.
    pub(crate) fn definition(&mut self, uri: &Uri, position: Position) -> Option<GotoDefinitionResponse> {
        let (path, offset) = self.place_of(uri, position)?;
        let (name, place) = self.name_at(&path, offset)?;
        let mut declared = self.declarations(&name);
        if declared.is_empty() && place.role == OccurrenceRole::Declaration {
            declared.push(place);
        }
        Some(GotoDefinitionResponse::Array(self.locations(&declared)))
    }

    fn declarations(&mut self, name: &Name) -> Vec<Place> {
        let beginning = |path: String| Place {
            path,
            span: Span::default(),
            role: OccurrenceRole::Declaration,
            symbol: name.symbol.clone(),
        };
        match &name.symbol {
            Symbol::ChildFile(file) | Symbol::PromptFile(file) => vec![beginning(file.clone())],
            Symbol::Role(_) | Symbol::Persona(_) | Symbol::Personality(_) | Symbol::Task(_) => {
                self.layer_file(name).into_iter().map(beginning).collect()
            }
            _ => {
                let places = self.places(name).into_iter();
                places
                    .filter(|place| place.role == OccurrenceRole::Declaration)
                    .collect()
            }
        }
    }

    /// Returns the file of a prompt layer that a stage uses, or that is beside the configuration. Built-in layers have none.
    pub(crate) fn layer_file(&mut self, name: &Name) -> Option<String> {
        let folders = match &name.symbol {
            Symbol::Role(_) => ["roles", "roles"],
            // A persona extends a persona or a role.
            Symbol::Persona(_) => ["personas", "roles"],
            Symbol::Personality(_) => ["personalities", "personalities"],
            Symbol::Task(_) => ["tasks", "tasks"],
            _ => return None,
        };
        let wanted = |path: &str, folder: &str| {
            let stem = file_name(path).rsplit_once('.').map(|(stem, _)| stem);
            layer_folder(path) == Some(folder) && stem == Some(name.symbol.name())
        };
        let mut used = Vec::new();
        for pipeline in self.pipelines(&name.home) {
            let Some(analysis) = self.analysis(&pipeline) else {
                continue;
            };
            let stages = analysis
                .resolutions
                .iter()
                .flat_map(|resolution| &resolution.stages);
            let layers = stages.flat_map(|stage| &stage.layers);
            let own = layers.filter(|layer| !layer.path.starts_with("orchestra:"));
            used.extend(own.map(|layer| absolute(&analysis.root, &layer.path)));
        }
        used.extend(self.layer_files(&name.home));
        folders
            .into_iter()
            .find_map(|folder| used.iter().find(|path| wanted(path, folder)).cloned())
    }

    /// Returns the places where the name at a position is used.
    pub(crate) fn references(
        &mut self,
        uri: &Uri,
        position: Position,
        with_declarations: bool,
    ) -> Option<Vec<Location>> {
        let (path, offset) = self.place_of(uri, position)?;
        let (name, _) = self.name_at(&path, offset)?;
        let places = self.places(&name).into_iter();
        let wanted = places.filter(|place| with_declarations || place.role == OccurrenceRole::Reference);
        let found: Vec<Place> = wanted.collect();
        Some(self.locations(&found))
    }

    /// Returns the places in the same file where the name at a position is written.
    pub(crate) fn highlights(&mut self, uri: &Uri, position: Position) -> Option<Vec<DocumentHighlight>> {
        let (path, offset) = self.place_of(uri, position)?;
        let here = self.places_at(&path, offset).into_iter().next()?;
        let text = self.text(&path)?;
        let places = self.places_in(&path).into_iter();
        let shown = places.filter(|place| place.symbol == here.symbol).map(|place| {
            let kind = match place.role {
                OccurrenceRole::Declaration => DocumentHighlightKind::WRITE,
                OccurrenceRole::Reference => DocumentHighlightKind::READ,
            };
            DocumentHighlight {
                range: text.range(place.span, self.encoding),
                kind: Some(kind),
            }
        });
        Some(shown.collect())
    }

    /// Returns the locations of places. Files that cannot be read have none.
    fn locations(&self, places: &[Place]) -> Vec<Location> {
        // The places of one file are behind each other.
        let mut text = None;
        let mut found = Vec::new();
        for place in places {
            if text.as_ref().is_none_or(|(path, _)| *path != place.path) {
                text = self.text(&place.path).map(|text| (place.path.clone(), text));
            }
            if let Some(((_, text), uri)) = text.as_ref().zip(self.uri(&place.path)) {
                found.push(Location::new(uri, text.range(place.span, self.encoding)));
            }
        }
        found
    }
}
