//! The names that a template may use, from the pipelines that it belongs to.

use std::collections::BTreeMap;

use orchestra_config::{
    BUILT_IN_VARIABLES, ENGINE_KEYS, STAGE_FIELDS, TemplateVariable, variable_description,
};
use orchestra_graph::{MissingValues, NodeIndex, kind};

use crate::analysis::Analysis;
use crate::markdown::code;

/// The names that a template may use.
pub(crate) struct TemplateScope {
    /// The variables by their names.
    pub(crate) variables: BTreeMap<String, Variable>,
    /// The stages by their ids.
    pub(crate) stages: BTreeMap<String, TemplateStage>,
}

/// A variable of templates.
#[derive(Clone)]
pub(crate) struct Variable {
    pub(crate) detail: String,
    pub(crate) doc: String,
    pub(crate) rank: u8,
}

/// A stage whose results a template may use.
#[derive(Clone, Copy)]
pub(crate) struct TemplateStage {
    /// The kind of the stage.
    pub(crate) detail: &'static str,
    /// `true` for the stage of the template itself, which has no result at its first visit.
    pub(crate) is_own: bool,
}

/// The scope of a template that belongs to no pipeline.
impl Default for TemplateScope {
    fn default() -> TemplateScope {
        let variable = |detail: &str, name: &str, rank| Variable {
            detail: detail.to_owned(),
            doc: variable_description(name).unwrap_or_default().to_owned(),
            rank,
        };
        let built_in = BUILT_IN_VARIABLES
            .iter()
            .map(|name| ((*name).to_owned(), variable("in every template", name, 2)));
        let of_engine = ENGINE_KEYS.iter().map(|name| {
            // It is undefined until the engine sets it.
            ((*name).to_owned(), variable("set by the engine", name, 4))
        });
        TemplateScope {
            variables: built_in.chain(of_engine).collect(),
            stages: BTreeMap::new(),
        }
    }
}

impl TemplateScope {
    /// Adds the names of a pipeline, for the template of one of its nodes.
    pub(crate) fn add(&mut self, analysis: &Analysis, node: Option<NodeIndex>) {
        let loaded = &analysis.loaded;
        let graph = loaded.analysis();
        let names = analysis.configured.project.template_names(&graph);
        let declared: BTreeMap<String, String> = loaded
            .condition_names(node.unwrap_or(NodeIndex(u32::MAX)))
            .keys
            .into_iter()
            .filter_map(|(key, doc)| Some((key.strip_prefix("context.")?.to_owned(), doc)))
            .collect();
        let missing = MissingValues::new(&graph).zip(node);
        for key in names.keys {
            if self.variables.contains_key(&key) {
                continue;
            }
            let is_of_graph = key.starts_with("graph.");
            let may_be_missing = missing.as_ref().is_some_and(|(missing, node)| {
                let mut keys = missing.contract().keys();
                keys.any(|(declared, _)| declared == key) && missing.may_be_missing(*node, &key)
            });
            let (detail, rank) = match (is_of_graph, may_be_missing) {
                (true, _) => ("attribute of the graph".to_owned(), 3),
                (_, true) => (not_set(), 6),
                (false, false) => ("context value".to_owned(), 0),
            };
            let doc = declared.get(&key).cloned().unwrap_or_default();
            self.variables.insert(key, Variable { detail, doc, rank });
        }
        for (at, own) in loaded.graph.indexed_nodes() {
            let stage = TemplateStage {
                detail: kind::title(graph.kind(at)),
                is_own: Some(at) == node,
            };
            self.stages.entry(own.id.to_string()).or_insert(stage);
        }
    }

    /// Returns the documentation of a variable.
    pub(crate) fn describe(&self, variable: &TemplateVariable) -> Option<String> {
        let path: Vec<&str> = variable.path.iter().map(String::as_str).collect();
        if let ["stages", id, rest @ ..] = path.as_slice() {
            let stage = self.stages.get(*id)?;
            let field = rest.first().copied().unwrap_or("response");
            let field = STAGE_FIELDS.iter().find(|known| **known == field)?;
            let doc = variable_description(field).unwrap_or_default();
            return Some(format!(
                "**result of a stage** {}\n\nOf the latest visit of {} ({}). {doc}",
                code(&path.join(".")),
                code(id),
                stage.detail
            ));
        }
        // A variable may be a part of a value.
        let found = (1..=path.len()).rev().find_map(|length| {
            let name = path.get(..length)?.join(".");
            let variable = self.variables.get(&name)?;
            Some((name, variable))
        });
        let (name, known) = found?;
        let doc = if known.doc.is_empty() {
            String::new()
        } else {
            format!("\n\n{}", known.doc)
        };
        Some(format!("**variable** {}: {}{doc}", code(&name), known.detail))
    }
}

/// Returns why a value that may be missing comes last.
pub(crate) fn not_set() -> String {
    "may not be set here".to_owned()
}
