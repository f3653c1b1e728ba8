//! The two uses of the check: in the build of a compiled pipeline, and at the start of a loaded one.

use orchestra_graph::table::Pipeline;
use orchestra_graph::{Readable, kind};

use crate::handlers::kinds::{KindSpec, Kinds};
use crate::handlers::registry::Registry;
use crate::handlers::requirements::{
    AttributeRequirement, NodeRequirement, OutcomeRequirement, PipelineRequirements, SourceLocation,
    UnmetRequirement,
};
use crate::handlers::violations::{Specs, violations};
use crate::handlers::violations_text;

/// Fails the build of a program whose handlers do not meet the requirements of a pipeline. Used by generated code.
///
/// # Panics
/// Panics if there is a violation. In a constant, the panic is a compile error that lists all violations.
#[doc(hidden)]
#[track_caller]
#[allow(clippy::panic)] // A panic in a constant is the only way to a compile error there.
pub const fn verify(requirements: &PipelineRequirements<'_>, kinds: &Kinds) {
    let found = violations(requirements, Specs::Kinds(kinds));
    if found.count > 0 {
        let page = violations_text::page(requirements, &found);
        panic!("{}", page.as_str());
    }
}

/// Checks the requirements of a pipeline against a registry. Returns an empty list if every handler exists and gets the
/// attributes that it reads. Child pipelines are not checked; call this function for each of them.
///
/// ```
/// use orchestra_engine::{Registry, check_registry};
/// use orchestra_graph::{LoadOptions, Source, load};
/// let text = "digraph { start -> ship -> exit; ship [type=deploy] }";
/// let pipeline = load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let violations = check_registry(&pipeline, &Registry::default());
/// assert_eq!(violations[0].code, "missing_handler");
/// ```
pub fn check_registry(pipeline: &Pipeline, registry: &Registry) -> Vec<UnmetRequirement> {
    let requirements = orchestra_graph::Requirements::new(pipeline, |name| !kind::BUILT_IN.contains(&name));
    let specs: Vec<KindSpec> = pipeline
        .kinds()
        .filter_map(|kind| registry.spec(kind).copied())
        .collect();
    let location = |position: orchestra_graph::Position| SourceLocation {
        line: position.line,
        column: position.column,
        ..SourceLocation::default()
    };
    let stages: Vec<_> = requirements
        .nodes
        .iter()
        .map(|node| pipeline.stage(*node))
        .collect();
    let values: Vec<Vec<String>> = stages
        .iter()
        .map(|stage| {
            stage
                .attributes()
                .map(|(_, value)| value.to_value().to_string())
                .collect()
        })
        .collect();
    let attributes: Vec<Vec<AttributeRequirement<'_>>> = stages
        .iter()
        .zip(&values)
        .map(|(stage, values)| {
            let attributes = stage.attributes().zip(values);
            attributes
                .map(|((name, value), text)| AttributeRequirement {
                    name,
                    value: text,
                    readable: Readable::from_constant(value),
                    location: location(stage.row().position),
                })
                .collect()
        })
        .collect();
    let nodes: Vec<NodeRequirement<'_>> = stages
        .iter()
        .zip(&attributes)
        .map(|(stage, attributes)| NodeRequirement {
            id: stage.id(),
            kind: stage.kind(),
            location: location(stage.row().position),
            kind_location: location(stage.row().position),
            attributes,
        })
        .collect();
    let words: Vec<Vec<&str>> = requirements
        .words
        .iter()
        .map(|need| need.words.iter().map(String::as_str).collect())
        .collect();
    let sources: Vec<Vec<u32>> = requirements
        .words
        .iter()
        .map(|need| need.nodes.iter().map(|node| *node as u32).collect())
        .collect();
    let words: Vec<OutcomeRequirement<'_>> = requirements
        .words
        .iter()
        .zip(words.iter().zip(&sources))
        .map(|(need, (words, nodes))| {
            let edge = pipeline.edge(need.edge);
            OutcomeRequirement {
                words,
                nodes,
                target: pipeline.stage(edge.to).id(),
                location: location(edge.position),
            }
        })
        .collect();
    let requirements = PipelineRequirements {
        file: &pipeline.file,
        source: &pipeline.source,
        nodes: &nodes,
        words: &words,
        children: &[],
    };
    let found = violations(&requirements, Specs::List(&specs));
    found
        .list
        .iter()
        .flatten()
        .map(|(_, violation)| violations_text::error(violation))
        .collect()
}
