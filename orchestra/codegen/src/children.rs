//! The child pipelines of a module (Attractor 4.11, 9.4): one table with its requirements for each file.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use orchestra_graph::table::Pipeline;
use orchestra_graph::{Loaded, LoadedChild, Span};

use crate::code::Code;
use crate::text::include;
use crate::{requirements, table};

/// All pipelines that a pipeline runs, directly or indirectly.
pub(crate) struct Descendants<'l> {
    all: Vec<Descendant<'l>>,
    /// The index of each file among the descendants.
    locations: HashMap<*const Loaded, usize>,
    /// `true` if the pipeline and its children have no errors.
    sound: bool,
    /// The files that hold prompts, including those of the pipeline itself.
    prompts: BTreeSet<&'l str>,
}

/// A pipeline that another one runs.
pub(crate) struct Descendant<'l> {
    pub(crate) child: &'l LoadedChild,
    /// The span in the first pipeline that names this child, or the child that leads to it.
    pub(crate) named: Span,
}

impl<'l> Descendants<'l> {
    pub(crate) fn new(loaded: &'l Loaded) -> Descendants<'l> {
        let mut descendants = Descendants {
            all: Vec::new(),
            locations: HashMap::new(),
            sound: !loaded.report.has_errors(),
            prompts: loaded.prompt_files.iter().map(String::as_str).collect(),
        };
        for first in &loaded.children {
            for child in std::iter::once(first).chain(first.loaded.descendants()) {
                let location = descendants.all.len();
                if *descendants
                    .locations
                    .entry(Arc::as_ptr(&child.loaded))
                    .or_insert(location)
                    == location
                {
                    let named = first.attribute.value_span;
                    descendants.all.push(Descendant { child, named });
                    let prompts = child.loaded.prompt_files.iter();
                    descendants.prompts.extend(prompts.map(String::as_str));
                }
            }
        }
        descendants
    }

    pub(crate) fn all(&self) -> &[Descendant<'l>] {
        &self.all
    }

    /// Returns the tables of the descendants without errors.
    pub(crate) fn pipelines(&self) -> impl Iterator<Item = &Pipeline> {
        self.all
            .iter()
            .filter_map(|descendant| descendant.child.pipeline.as_deref())
    }

    /// Returns the paths of the tables of a file's direct children. `up` leads from its table to the modules of the
    /// children.
    pub(crate) fn tables(&self, loaded: &Loaded, up: &str) -> Vec<String> {
        let locations = loaded
            .children
            .iter()
            .map(|child| self.locations.get(&Arc::as_ptr(&child.loaded)));
        locations
            .flatten()
            .map(|location| format!("{up}child{location}::__table::TABLE"))
            .collect()
    }

    /// Returns the paths of the children's requirements, relative to the module. Returns none if there are errors.
    pub(crate) fn requirements(&self) -> Vec<String> {
        let count = if self.sound { self.all.len() } else { 0 };
        (0..count)
            .map(|location| format!("__children::child{location}::REQUIREMENTS"))
            .collect()
    }

    /// Writes the private module of the children. If there are errors, the module only tracks their files.
    pub(crate) fn write(&self) -> String {
        self.write_as(&str::to_owned)
    }

    /// Like [`write`](Descendants::write), with other paths of the files.
    pub(crate) fn write_as(&self, path: &dyn Fn(&str) -> String) -> String {
        let mut code = Code::default();
        // The tables hold these texts; the constants make cargo rebuild the program when one of the files changes.
        if self.sound {
            for prompt in &self.prompts {
                code.push("const _:&str=").push(&include(&path(prompt))).push(";");
            }
        }
        if self.all.is_empty() {
            return code.text;
        }
        code.push("mod __children{use super::__orchestra;");
        for (location, descendant) in self.all.iter().enumerate() {
            let loaded = &descendant.child.loaded;
            let is_text = !loaded
                .report
                .errors()
                .any(|diagnostic| diagnostic.code == "invalid_utf8");
            let source = if is_text {
                include(&path(loaded.source.name()))
            } else {
                "\"\"".to_owned()
            };
            code.push("pub mod child")
                .show(location)
                .push("{use super::__orchestra;");
            code.push("pub const SOURCE:&str=").push(&source).push(";");
            if self.sound
                && let Some(pipeline) = descendant.child.pipeline.as_deref()
            {
                let analysis = loaded.analysis();
                code.push("pub const REQUIREMENTS:__orchestra::engine::PipelineRequirements<'static>=");
                code.push(&requirements::write(pipeline, &analysis, 0, &[]))
                    .push(";");
                code.push("pub ");
                table::write(&mut code, pipeline, &self.tables(loaded, "super::super::"));
            }
            code.push("}");
        }
        code.push("}");
        code.text
    }
}
