//! The references of nodes to the pipelines that they run (Attractor 4.11 and 9.4).

use crate::analysis::Analysis;
use crate::attribute::Known;
use crate::attributes::Attribute;
use crate::kind;
use crate::model::NodeIndex;
use crate::value::Value;

/// The reference of a node to the pipeline that it runs.
pub(crate) enum Named<'g> {
    /// A file, set by this attribute of the node or of the graph.
    File(&'g Attribute),
    /// No file is needed: the node has a registered name, or others start the child.
    Elsewhere,
    /// No reference.
    Nothing,
}

/// Returns the reference of a node to the pipeline that it runs. Returns `None` if its kind runs none.
pub(crate) fn named<'g>(analysis: &Analysis<'g>, node: NodeIndex) -> Option<Named<'g>> {
    let graph = analysis.graph();
    let own = &graph.node(node).attributes;
    let filled = |known: Known, inherits: bool| {
        let own = own.filled(known).and_then(|_| own.get(known));
        let is_inherited = inherits && graph.attributes.filled(known).is_some();
        own.or_else(|| {
            if is_inherited {
                graph.attributes.get(known)
            } else {
                None
            }
        })
    };
    let elsewhere = |holds| if holds { Named::Elsewhere } else { Named::Nothing };
    match analysis.kind(node) {
        kind::SUBPIPELINE => Some(match filled(Known::SubpipelineFile, false) {
            Some(file) => Named::File(file),
            None => elsewhere(own.filled(Known::SubpipelineName).is_some()),
        }),
        kind::MANAGER_LOOP => Some(match filled(Known::ChildDotfile, true) {
            Some(file) => Named::File(file),
            None => {
                let known = Known::ChildAutostart;
                let starts = own.get(known).or_else(|| graph.attributes.get(known));
                let starts = starts.map_or(known.default_flag(), |starts| {
                    starts.value != Value::Boolean(false)
                });
                elsewhere(!starts)
            }
        }),
        _ => None,
    }
}
