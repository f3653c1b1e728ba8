//! The generated module as text: source, table, nodes, choices, transitions and requirements.

use orchestra_graph::table::{Pipeline, Stage};
use orchestra_graph::{NodeIndex, RunLimits, choices, is_drawing_attribute, kind, label_text};

use crate::code::{Code, type_of, value};
use crate::docs::plain;
use crate::names::{NameScope, pascal, screaming};
use crate::{contract, limits, table};

/// The input for a generated module.
pub(crate) struct Module<'m> {
    pub(crate) pipeline: &'m Pipeline,
    /// The code of the expression for the text: an include of the file, or a literal.
    pub(crate) source: String,
    /// The code of `REQUIREMENTS`.
    pub(crate) requirements: String,
    /// The paths of the child tables, relative to the module of the table.
    pub(crate) tables: Vec<String>,
    /// The code of the child pipelines.
    pub(crate) children: String,
    /// Returns whether a declared value may be missing when a run has succeeded.
    pub(crate) may_be_missing: &'m dyn Fn(&str) -> bool,
    /// The limits of its runs. `None` if it has errors.
    pub(crate) limits: Option<&'m RunLimits>,
    /// The code of the expression for the files of the configuration; empty if there is none.
    pub(crate) config: String,
    /// The code of the locked versions.
    pub(crate) locked: String,
    /// `true` if that code contains `VERSIONS`.
    pub(crate) has_versions: bool,
    /// The code of the generated tests; empty if there are none.
    pub(crate) paths: String,
}

/// Writes the body of the module, which has `__orchestra` in scope.
pub(crate) fn write(module: &Module<'_>) -> String {
    let pipeline = module.pipeline;
    let mut code = Code::default();
    code.doc("The text of the pipeline.");
    code.push("pub const SOURCE:&str=").push(&module.source).push(";");
    code.doc("The pipeline as constant data, in the form that the engine runs.");
    code.push("pub static PIPELINE:__orchestra::engine::Compiled<Mark>=__orchestra::engine::Compiled::new(&__table::TABLE)");
    if !module.config.is_empty() {
        code.push(".configured(CONFIG.configuration(),CONFIG.files())");
    }
    if module.has_versions {
        code.push(".with_versions(VERSIONS)");
    }
    code.push(";");
    code.doc("Tells the engine which handlers the pipeline is bound to.");
    code.push("pub enum Mark{}");
    code.doc("The edges, with their conditions.");
    code.push("pub static TRANSITIONS:__orchestra::compiled::Transitions<Node>=");
    code.push("__orchestra::compiled::Transitions::new(&__table::TABLE,Node::ALL);");
    code.doc("What the pipeline needs of its handlers.");
    code.push("pub const REQUIREMENTS:__orchestra::engine::PipelineRequirements<'static>=")
        .push(&module.requirements)
        .push(";");
    code.push("__orchestra::__private::simulate!{Node,__table::TABLE}");
    code.push(&module.paths);
    contract::write(&mut code, pipeline, module.may_be_missing);
    let variants = variants(pipeline);
    node_enum(&mut code, &variants);
    nodes(&mut code, pipeline, &variants);
    gates(&mut code, pipeline, &variants);
    limits::write(&mut code, module.limits);
    table::write(&mut code, pipeline, &module.tables);
    code.push(&module.children);
    code.push(&module.locked);
    if !module.config.is_empty() {
        code.doc("The configuration that the pipeline was checked with, and all files that it needs.");
        code.push("pub const CONFIG:__orchestra::config::Sources=")
            .push(&module.config)
            .push(";");
    }
    code.text
}

/// Returns the variant name of each node.
pub(crate) fn variants(pipeline: &Pipeline) -> Vec<String> {
    let mut scope = NameScope::default();
    // `ALL` is the list of all nodes.
    scope.claim("ALL".to_owned());
    pipeline
        .stages()
        .map(|stage| scope.claim(pascal(stage.id())))
        .collect()
}

fn node_enum(code: &mut Code, variants: &[String]) {
    code.doc("The nodes of the pipeline.");
    code.push(
        "#[::core::prelude::v1::derive(::core::clone::Clone,::core::marker::Copy,::core::cmp::PartialEq,",
    );
    code.push("::core::cmp::Eq,::core::hash::Hash)]#[repr(u32)]pub enum Node{");
    for variant in variants {
        code.push(variant).push(",");
    }
    if variants.is_empty() {
        code.push("#[doc(hidden)]__None");
    }
    code.push("}impl Node{");
    code.doc("All nodes, in the order of the file.");
    code.push("pub const ALL:&'static[Node]={use self::Node::*;&[");
    for variant in variants {
        code.push(variant).push(",");
    }
    code.push("]};");
    code.doc("The id in the file.");
    code.push("pub fn id(self)->&'static str{__orchestra::__private::id(&__table::TABLE,self as usize)}}");
    code.push("impl ::core::fmt::Display for Node{fn fmt(&self,f:&mut ::core::fmt::Formatter<'_>)");
    code.push("->::core::fmt::Result{f.write_str(self.id())}}");
    // A derived impl would be one match over all nodes, which takes quadratic time to check.
    code.push("impl ::core::fmt::Debug for Node{fn fmt(&self,f:&mut ::core::fmt::Formatter<'_>)");
    code.push("->::core::fmt::Result{f.write_str(self.id())}}");
    code.push("impl ::core::convert::AsRef<str> for Node{fn as_ref(&self)->&str{self.id()}}");
    code.push("impl ::core::str::FromStr for Node{type Err=__orchestra::compiled::UnknownNode;");
    code.push("fn from_str(id:&str)->::core::result::Result<Node,__orchestra::compiled::UnknownNode>");
    code.push("{__orchestra::__private::parse(&__table::TABLE,Node::ALL,id)}}");
}

/// Writes the marker types, with the attributes as constants.
fn nodes(code: &mut Code, pipeline: &Pipeline, variants: &[String]) {
    code.doc("A type for each node, with its attributes as constants.");
    code.push("pub mod nodes{");
    for (at, variant) in variants.iter().enumerate() {
        let stage = pipeline.stage(NodeIndex(at as u32));
        code.doc(&format!("{}: {}", plain(stage.id()), plain(stage.label())));
        code.push("pub enum ").push(variant).push("{}");
        constants(code, stage, variant);
    }
    code.push("}");
}

/// Returns whether an attribute is of use to a program; those for drawing and for the choice of a handler are not.
fn is_constant(key: &str) -> bool {
    !matches!(key, "shape" | "type" | "class") && !is_drawing_attribute(key)
}

fn constants(code: &mut Code, stage: Stage<'_>, variant: &str) {
    let mut scope = NameScope::default();
    code.push("impl ").push(variant).push("{");
    if stage.attribute("label").is_none() {
        scope.claim("LABEL".to_owned());
        code.push("pub const LABEL:&'static str=")
            .string(stage.label())
            .push(";");
    }
    for (key, constant) in stage.attributes().filter(|(key, _)| is_constant(key)) {
        let name = scope.claim(screaming(key));
        code.push("pub const ")
            .push(&name)
            .push(": ")
            .push(type_of(constant))
            .push("=");
        value(code, constant);
        code.push(";");
    }
    code.push("}");
}

/// Writes an enum for each human gate, with one variant per answer.
fn gates(code: &mut Code, pipeline: &Pipeline, variants: &[String]) {
    let gate = |at: &usize| pipeline.stage(NodeIndex(*at as u32)).kind() == kind::WAIT_HUMAN;
    let gates: Vec<usize> = (0..variants.len()).filter(gate).collect();
    code.doc("The answers of each human gate.");
    code.push("pub mod choices{use super::__orchestra::__private::gate as g;");
    for at in gates {
        let stage = pipeline.stage(NodeIndex(at as u32));
        let mut scope = NameScope::default();
        scope.claim("ALL".to_owned());
        let answers: Vec<Answer> = choices(pipeline, NodeIndex(at as u32))
            .into_iter()
            .map(|choice| Answer {
                variant: scope.claim(pascal(label_text(&choice.label))),
                target: variants.get(choice.to.at()).cloned().unwrap_or_default(),
                key: choice.key,
                label: choice.label,
            })
            .collect();
        if !answers.is_empty()
            && let Some(variant) = variants.get(at)
        {
            gate_enum(code, stage, variant, &answers);
        }
    }
    code.push("}");
}

struct Answer {
    variant: String,
    label: String,
    key: String,
    target: String,
}

fn gate_enum(code: &mut Code, stage: Stage<'_>, name: &str, answers: &[Answer]) {
    code.doc(&format!(
        "The answers of {}: {}",
        plain(stage.id()),
        plain(stage.label())
    ));
    code.push("pub enum ").push(name).push("{");
    for answer in answers {
        code.doc(&plain(&answer.label));
        code.push(&answer.variant).push(",");
    }
    // A few small impls and a table per gate; derives and separate methods would take ten times as long to compile.
    code.push("}g!(").push(name).push(" ");
    for answer in answers {
        code.push(&answer.variant).push("=");
        code.string(&answer.label)
            .push(",")
            .string(&answer.key)
            .push(",")
            .push(&answer.target)
            .push(";");
    }
    code.push(");");
}
