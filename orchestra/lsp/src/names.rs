//! The names of a project: what is named at a position, and all places where it is named, over all files.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use orchestra_config::{InlinePrompts, TemplateVariable, task_variables, template_variables, yaml_words};
use orchestra_graph::ast::{Attribute, Defaults, DefaultsTarget, Statement};
use orchestra_graph::{Known, OccurrenceRole, Span, Symbol, graph_choices, kind, occurrences};

use crate::analysis::{Analysis, DocumentKind, PIPELINES, configuration_of, document_kind};
use crate::handlers::handlers;
use crate::paths::{absolute, file_name, folder};
use crate::place::{MAX_BYTES, MAX_SEARCHED, Name, Place, Word, is_configured, layer_folder};
use crate::workspace::Workspace;
use crate::yaml::{configuration_words, layer_words, script_labels, script_words};

/// Returns a symbol with absolute paths.
fn with_absolute_paths(symbol: Symbol, root: &str) -> Symbol {
    match symbol {
        Symbol::ChildFile(file) => Symbol::ChildFile(absolute(root, &file)),
        Symbol::PromptFile(file) => Symbol::PromptFile(absolute(root, &file)),
        Symbol::ChildKey { file, key } => Symbol::ChildKey {
            file: absolute(root, &file),
            key,
        },
        other => other,
    }
}

impl Workspace<'_> {
    /// Returns the places at an offset of a file, the innermost first.
    pub(crate) fn places_at(&mut self, path: &str, offset: u32) -> Vec<Place> {
        let touches = |place: &Place| place.span.start <= offset && offset <= place.span.end;
        let mut places: Vec<Place> = self.places_in(path).into_iter().filter(touches).collect();
        places.sort_by_key(|place| place.span.len());
        places
    }

    /// Returns the name at an offset of a file, with its place.
    pub(crate) fn name_at(&mut self, path: &str, offset: u32) -> Option<(Name, Place)> {
        let places = self.places_at(path, offset);
        places
            .into_iter()
            .find_map(|place| Some((self.name_of(&place)?, place)))
    }

    /// Returns the name that is written at a place; `None` if no pipeline has it.
    fn name_of(&mut self, place: &Place) -> Option<Name> {
        let (symbol, home) = match &place.symbol {
            Symbol::ChildKey { file, key } => (Symbol::Key(key.clone()), file.clone()),
            symbol if is_configured(symbol) => {
                let configuration = configuration_of(&self.files, &place.path);
                (symbol.clone(), configuration.unwrap_or_default())
            }
            symbol => (symbol.clone(), self.home(&place.path, symbol)?),
        };
        Some(Name { symbol, home })
    }

    /// Returns the pipeline to which a name in a file belongs.
    fn home(&mut self, path: &str, symbol: &Symbol) -> Option<String> {
        if document_kind(path) == DocumentKind::Pipeline {
            return Some(path.to_owned());
        }
        let pipelines = self.pipelines(path);
        pipelines.into_iter().find(|pipeline| {
            let analysis = self.analysis(pipeline);
            let has_name = analysis.is_some_and(|analysis| {
                let found = occurrences(&analysis.loaded);
                found.iter().any(|found| found.symbol == *symbol)
            });
            has_name && self.side_files(pipeline, symbol).iter().any(|side| side == path)
        })
    }

    /// Returns all places of a name, over all files.
    pub(crate) fn places(&mut self, name: &Name) -> Vec<Place> {
        let mut files: BTreeSet<String> = BTreeSet::new();
        let mut found = Vec::new();
        match &name.symbol {
            symbol if is_configured(symbol) => {
                files.insert(name.home.clone());
                files.extend(self.layer_files(&name.home));
                let pipelines = self.pipelines(&name.home);
                files.extend(pipelines.into_iter().filter(|pipeline| {
                    configuration_of(&self.files, pipeline).as_deref() == Some(&name.home)
                }));
            }
            Symbol::ChildFile(_) | Symbol::PromptFile(_) => files.extend(self.pipelines(&name.home)),
            Symbol::Kind(kind) => {
                found.extend(handlers(&self.files, &name.home, kind));
                files.extend(self.pipelines(&name.home));
            }
            symbol => {
                files.insert(name.home.clone());
                files.extend(self.side_files(&name.home, symbol));
                if matches!(symbol, Symbol::Label { .. }) {
                    found.extend(self.answers(name));
                }
                if let Symbol::Key(key) = symbol {
                    let wanted = Symbol::ChildKey {
                        file: name.home.clone(),
                        key: key.clone(),
                    };
                    for pipeline in self.pipelines(&name.home) {
                        let places = self.places_in(&pipeline).into_iter();
                        found.extend(places.filter(|place| place.symbol == wanted));
                    }
                }
            }
        }
        for file in files {
            let places = self.places_in(&file).into_iter();
            found.extend(places.filter(|place| place.symbol == name.symbol));
        }
        found.sort_by(|a, b| (&a.path, a.span).cmp(&(&b.path, b.span)));
        found.dedup();
        found
    }

    /// Returns the places of a label in the scripts of simulations of its pipeline.
    fn answers(&mut self, name: &Name) -> Vec<Place> {
        let Some(analysis) = self.analysis(&name.home) else {
            return Vec::new();
        };
        let graph = analysis.loaded.analysis();
        let keys_of = |id: &str| {
            let node = analysis.loaded.graph.find(id)?;
            let choices = graph_choices(&graph, node).into_iter();
            (graph.kind(node) == kind::WAIT_HUMAN).then(|| choices.map(|choice| choice.key).collect())
        };
        let mut found = Vec::new();
        for path in self.side_files(&name.home, &name.symbol) {
            let bytes = self.files.read(&path, MAX_BYTES).unwrap_or_default();
            for (symbol, span, role) in script_labels(&bytes, &name.symbol, &keys_of) {
                found.push(Place {
                    path: path.clone(),
                    span,
                    role,
                    symbol,
                });
            }
        }
        found
    }

    /// Returns the pipelines of the workspace of a file.
    pub(crate) fn pipelines(&self, path: &str) -> Vec<String> {
        let root = self.files.root(path);
        let mut found = self.files.host.list(&root, PIPELINES, MAX_SEARCHED);
        let open = self.files.documents.keys();
        found.extend(
            open.filter(|path| document_kind(path) == DocumentKind::Pipeline)
                .cloned(),
        );
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the layer files of a configuration.
    pub(crate) fn layer_files(&self, configuration: &str) -> Vec<String> {
        let yaml = self
            .files
            .host
            .list(folder(configuration), &["yaml", "yml"], MAX_SEARCHED);
        yaml.into_iter()
            .filter(|path| layer_folder(path).is_some())
            .collect()
    }

    /// Returns the files that name nodes or keys of a pipeline, besides the pipeline itself: the templates of its prompts,
    /// and the scripts of its simulations.
    pub(crate) fn side_files(&mut self, pipeline: &str, symbol: &Symbol) -> Vec<String> {
        let mut files = Vec::new();
        if matches!(
            symbol,
            Symbol::Node(_) | Symbol::Outcome(_) | Symbol::Label { .. }
        ) {
            files.extend(self.scripts(pipeline));
        }
        if !matches!(symbol, Symbol::Node(_) | Symbol::Key(_)) {
            return files;
        }
        if let Some(analysis) = self.analysis(pipeline) {
            let stages = analysis
                .resolution()
                .map_or(&[][..], |resolution| &resolution.stages);
            let layers = stages.iter().flat_map(|stage| &stage.layers);
            let tasks = layers.filter(|layer| layer_folder(&layer.path) == Some("tasks"));
            files.extend(tasks.map(|layer| absolute(&analysis.root, &layer.path)));
            if has_templates(&analysis) {
                let prompts = analysis.loaded.prompt_files.iter();
                files.extend(prompts.map(|file| absolute(&analysis.root, file)));
            }
        }
        files.sort_unstable();
        files.dedup();
        files
    }

    /// Returns the scripts of simulations of a pipeline: the YAML files beside and below it that name only nodes of it, of
    /// its children, and of the pipelines that run it.
    fn scripts(&mut self, pipeline: &str) -> Vec<String> {
        let mut nodes: HashSet<String> = HashSet::new();
        for other in self.pipelines(pipeline) {
            let Some(analysis) = self.analysis(&other) else {
                continue;
            };
            let children = analysis.loaded.descendants();
            let names = |name: &str| absolute(&analysis.root, name) == pipeline;
            let family = children.iter().any(|child| names(child.loaded.source.name()));
            if other == pipeline || family {
                let own = std::iter::once(&analysis.loaded.graph);
                let graphs = own.chain(children.iter().map(|child| &child.loaded.graph));
                nodes.extend(
                    graphs
                        .flat_map(|graph| &graph.nodes)
                        .map(|node| node.id.to_string()),
                );
            }
        }
        let yaml = self
            .files
            .host
            .list(folder(pipeline), &["yaml", "yml"], MAX_SEARCHED);
        let inside = format!("{}/", folder(pipeline));
        let open = self
            .files
            .documents
            .keys()
            .filter(|path| path.starts_with(&inside));
        let mut scripts: Vec<String> = yaml.into_iter().chain(open.cloned()).collect();
        scripts.retain(|path| {
            if document_kind(path) != DocumentKind::Yaml || layer_folder(path).is_some() {
                return false;
            }
            let words = yaml_words(&self.files.read(path, MAX_BYTES).unwrap_or_default());
            let mut keys = words
                .iter()
                .filter(|word| word.is_key && word.path.len() == 1)
                .peekable();
            keys.peek().is_some() && keys.all(|key| nodes.contains(&key.text))
        });
        scripts
    }

    /// Returns the places of all names in a file.
    pub(crate) fn places_in(&mut self, path: &str) -> Vec<Place> {
        let place = |(symbol, span, role): (Symbol, Span, OccurrenceRole)| Place {
            path: path.to_owned(),
            span,
            role,
            symbol,
        };
        if document_kind(path) == DocumentKind::Pipeline {
            let Some(analysis) = self.analysis(path) else {
                return Vec::new();
            };
            return in_pipeline(&analysis).into_iter().map(place).collect();
        }
        let Ok(bytes) = self.files.read(path, MAX_BYTES) else {
            return Vec::new();
        };
        let found = match (document_kind(path), layer_folder(path)) {
            (DocumentKind::Configuration, _) => configuration_words(&bytes),
            (DocumentKind::Yaml, Some("tasks")) => in_template(task_variables(path, &bytes)),
            (DocumentKind::Yaml, Some(_)) => {
                let name = file_name(path).rsplit_once('.').map_or("", |(name, _)| name);
                let personas = format!("{}/personas", folder(folder(path)));
                let has_persona = |name: &str| {
                    let file = format!("{personas}/{name}.yaml");
                    self.files.read(&file, MAX_BYTES).is_ok()
                };
                layer_words(name, &bytes, &has_persona)
            }
            (DocumentKind::Yaml, None) => script_words(&bytes),
            // Which variables are keys depends on the pipeline; the caller selects them.
            _ => in_template(template_variables(&String::from_utf8_lossy(&bytes))),
        };
        found.into_iter().map(place).collect()
    }
}

/// Returns whether the prompts of a pipeline are templates.
fn has_templates(analysis: &Analysis) -> bool {
    if analysis
        .loaded
        .graph
        .attributes
        .get(Known::PromptTemplates)
        .is_some()
    {
        return analysis.loaded.graph.attributes.flag(Known::PromptTemplates);
    }
    let prompts = &analysis.configured.project.configuration.prompts;
    let inline = prompts.inline.as_ref();
    inline.is_some_and(|inline| inline.value == InlinePrompts::Template)
}

fn in_pipeline(analysis: &Arc<Analysis>) -> Vec<Word> {
    let mut words: Vec<Word> = occurrences(&analysis.loaded)
        .into_iter()
        .map(|found| {
            let symbol = with_absolute_paths(found.symbol, &analysis.root);
            (symbol, found.span, found.role)
        })
        .collect();
    if has_templates(analysis) {
        let mut prompts = Vec::new();
        find_prompts(&analysis.loaded.file.statements, &mut prompts);
        let graph = analysis.loaded.analysis();
        for prompt in prompts {
            let text = prompt.value.as_str().unwrap_or_default();
            for (symbol, span, role) in in_template(template_variables(text)) {
                let range = span.start as usize..span.end as usize;
                words.push((symbol, graph.inside(prompt.value_span, range), role));
            }
        }
        words.sort_by_key(|(_, span, _)| *span);
    }
    words
}

/// Finds the prompts that are written in a pipeline.
fn find_prompts<'f>(statements: &'f [Statement], prompts: &mut Vec<&'f Attribute>) {
    for statement in statements {
        let attributes = match statement {
            Statement::Node(node) => &node.attributes,
            Statement::Defaults(Defaults {
                target: DefaultsTarget::Node,
                attributes,
                ..
            }) => attributes,
            Statement::Subgraph(subgraph) => {
                find_prompts(&subgraph.statements, prompts);
                continue;
            }
            _ => continue,
        };
        prompts.extend(
            attributes
                .iter()
                .filter(|attribute| attribute.quoted && attribute.key.text == Known::Prompt.name()),
        );
    }
}

/// Returns the nodes and the possible context keys among the variables of a template.
fn in_template(variables: Vec<TemplateVariable>) -> Vec<Word> {
    let mut words = Vec::new();
    for variable in variables {
        let TemplateVariable { path, parts, .. } = variable;
        let parts: Vec<Span> = parts
            .iter()
            .map(|part| Span::new(part.start as u32, part.end as u32))
            .collect();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let mut add = |symbol: Symbol, span: Option<Span>| {
            if let Some(span) = span.filter(|span| !span.is_empty()) {
                words.push((symbol, span, OccurrenceRole::Reference));
            }
        };
        match path.as_slice() {
            ["stages", id, ..] => add(Symbol::Node((*id).to_owned()), parts.get(1).copied()),
            ["parallel", "branch", id, ..] => add(Symbol::Node((*id).to_owned()), parts.get(2).copied()),
            [first, rest @ ..] => {
                // A key may have dots.
                for length in 0..=rest.len() {
                    let key = std::iter::once(first).chain(rest.iter().take(length)).copied();
                    let key = key.collect::<Vec<_>>().join(".");
                    let span = parts
                        .first()
                        .zip(parts.get(length))
                        .map(|(first, last)| first.to(*last));
                    let span = span.filter(|span| span.len() as usize == key.len());
                    add(Symbol::Key(key), span);
                }
            }
            [] => {}
        }
    }
    words
}
