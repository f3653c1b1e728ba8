//! The names that the templates of a pipeline may use.

use std::collections::BTreeSet;

use orchestra_graph::{Analysis, NodeIndex, declared_keys};

use crate::project::Project;
use crate::stage::Stages;
use crate::variables::Variables;

/// The names that the templates of a pipeline may use.
///
/// ```
/// use orchestra_config::Project;
/// use orchestra_graph::{Source, load};
/// let text = r#"digraph { inputs="pr: text"; start -> work -> exit; work [prompt="Go."] }"#;
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let names = Project::default().template_names(&loaded.analysis());
/// assert!(names.keys.contains("pr") && names.keys.contains("graph.inputs") && names.keys.contains("goal"));
/// assert!(names.stages.contains("work"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TemplateNames {
    /// The context keys, and the variables that every template has.
    pub keys: BTreeSet<String>,
    /// The IDs of the nodes, for `stages.ID`.
    pub stages: BTreeSet<String>,
}

impl Project {
    /// Returns the names that the templates of a pipeline may use. The check of templates accepts exactly these.
    pub fn template_names(&self, analysis: &Analysis<'_>) -> TemplateNames {
        let Variables { keys, nodes } = variables(self, analysis);
        TemplateNames { keys, stages: nodes }
    }
}

/// Returns the variables that the templates of a pipeline may use.
pub(crate) fn variables(project: &Project, stages: &dyn Stages) -> Variables {
    let mut variables = Variables::built_in();
    for key in stages.graph_keys() {
        variables.add(&format!("graph.{key}"));
    }
    variables.add("graph.goal");
    let own = project.configuration.pipelines.get(stages.name());
    for input in own.iter().flat_map(|own| &own.inputs) {
        variables.add(input);
    }
    let inputs = stages.of_graph("inputs");
    for input in inputs.iter().flat_map(|attribute| declared_keys(&attribute.text)) {
        variables.add(input);
    }
    for at in 0..stages.count() {
        let node = NodeIndex(u32::try_from(at).unwrap_or(u32::MAX));
        variables.add_node(stages.id(node));
        let keys = stages.of_node(node, "output_keys");
        for key in keys.iter().flat_map(|attribute| attribute.text.split(',')) {
            variables.add(key);
        }
        for text in stages.outputs(node) {
            declared_keys(&text).for_each(|key| variables.add(key));
        }
    }
    variables
}
