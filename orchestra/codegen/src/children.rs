//! The child pipelines of a module (Attractor 4.11, 9.4): a table and needs for each file, once.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use orchestra_graph::table::Pipeline;
use orchestra_graph::{Analysis, Loaded, LoadedChild, Span};

use crate::code::Code;
use crate::{needs, pipeline, table};

/// All pipelines that one runs, directly and by way of others.
pub(crate) struct Family<'l> {
    members: Vec<Member<'l>>,
    /// The place of each file among them.
    places: HashMap<*const Loaded, usize>,
    /// Whether no file of them has an error.
    sound: bool,
    /// The files that hold prompts, of the pipeline itself too.
    prompts: BTreeSet<&'l str>,
}

/// A pipeline that another one runs.
pub(crate) struct Member<'l> {
    pub(crate) child: &'l LoadedChild,
    /// Where the first pipeline names it, or the one that leads to it.
    pub(crate) named: Span,
}

impl<'l> Family<'l> {
    pub(crate) fn of(loaded: &'l Loaded) -> Family<'l> {
        let mut family = Family {
            members: Vec::new(),
            places: HashMap::new(),
            sound: !loaded.report.has_errors(),
            prompts: loaded.prompt_files.iter().map(String::as_str).collect(),
        };
        for first in &loaded.children {
            for child in std::iter::once(first).chain(first.loaded.descendants()) {
                let place = family.members.len();
                if *family.places.entry(Arc::as_ptr(&child.loaded)).or_insert(place) == place {
                    let named = first.attribute.value_span;
                    family.members.push(Member { child, named });
                    let prompts = child.loaded.prompt_files.iter();
                    family.prompts.extend(prompts.map(String::as_str));
                }
            }
        }
        family
    }

    pub(crate) fn members(&self) -> &[Member<'l>] {
        &self.members
    }

    /// The tables of those that have no errors.
    pub(crate) fn pipelines(&self) -> impl Iterator<Item = &Pipeline> {
        self.members
            .iter()
            .filter_map(|member| member.child.pipeline.as_deref())
    }

    /// The paths of the tables of a file's own children, where `up` leads from its table to the children's modules.
    pub(crate) fn tables(&self, loaded: &Loaded, up: &str) -> Vec<String> {
        let places = loaded
            .children
            .iter()
            .map(|child| self.places.get(&Arc::as_ptr(&child.loaded)));
        places
            .flatten()
            .map(|place| format!("{up}child{place}::__table::TABLE"))
            .collect()
    }

    /// The paths of what they need of handlers, as seen from the module; none where not all is sound.
    pub(crate) fn needs(&self) -> Vec<String> {
        let count = if self.sound { self.members.len() } else { 0 };
        (0..count)
            .map(|place| format!("__children::child{place}::NEEDS"))
            .collect()
    }

    /// Writes the private module of the children. Where not all is sound, their files are only tracked.
    pub(crate) fn write(&self) -> String {
        let mut code = Code::default();
        // Their texts stand in the tables; who changes one has the program built anew.
        for prompt in self.prompts.iter().filter(|_| self.sound) {
            code.push("const _:&str=")
                .push(&pipeline::include(prompt))
                .push(";");
        }
        if self.members.is_empty() {
            return code.text;
        }
        code.push("mod __children{use super::__orchestra;");
        for (place, member) in self.members.iter().enumerate() {
            let loaded = &member.child.loaded;
            let is_text = !loaded.report.errors().any(|fault| fault.code == "invalid_utf8");
            let source = if is_text {
                pipeline::include(loaded.source.name())
            } else {
                "\"\"".to_owned()
            };
            code.push("pub mod child")
                .show(place)
                .push("{use super::__orchestra;");
            code.push("pub const SOURCE:&str=").push(&source).push(";");
            if let Some(pipeline) = member.child.pipeline.as_deref().filter(|_| self.sound) {
                let analysis = Analysis::new(&loaded.graph, &loaded.source);
                code.push("pub const NEEDS:__orchestra::Needs<'static>=");
                code.push(&needs::write(pipeline, &analysis, 0, &[])).push(";");
                code.push("pub ");
                table::write(&mut code, pipeline, &self.tables(loaded, "super::super::"));
            }
            code.push("}");
        }
        code.push("}");
        code.text
    }
}
