//! Attribute families: attributes with a common prefix and a freely chosen rest of the name.

use super::scope::Scopes;

/// A row of the table of attribute families. The value of every member is text, exactly as written.
///
/// ```
/// use orchestra_graph::{AttributeFamily, Scope};
/// let (family, member) = AttributeFamily::find("tool_env.RUST_LOG").expect("it is known");
/// assert_eq!((family.prefix, member), ("tool_env.", "RUST_LOG"));
/// assert!(family.scopes.contains(Scope::Graph) && family.scopes.contains(Scope::Node));
/// assert!(AttributeFamily::find("tool_env").is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttributeFamily {
    /// The common prefix of all names, up to and including the dot.
    pub prefix: &'static str,
    /// A placeholder for the part after the prefix, in capitals, for documentation.
    pub member: &'static str,
    /// The owners on which the members are allowed.
    pub scopes: Scopes,
    /// A one-line description of a member.
    pub doc: &'static str,
}

/// The attribute families that the language defines.
///
/// ```
/// use orchestra_graph::ATTRIBUTE_FAMILIES;
/// assert!(ATTRIBUTE_FAMILIES.iter().all(|family| family.prefix.ends_with('.')));
/// ```
pub static ATTRIBUTE_FAMILIES: &[&AttributeFamily] = &[
    AttributeFamily::OUTPUTS,
    AttributeFamily::TOOL_ENV,
    AttributeFamily::TOOL_ENV_FROM,
];

impl AttributeFamily {
    /// The context values that a stage sets with one of its outcomes.
    pub const OUTPUTS: &'static AttributeFamily = &AttributeFamily {
        prefix: "outputs.",
        member: "OUTCOME",
        scopes: Scopes {
            graph: false,
            node: true,
            edge: false,
        },
        doc: "The context values that the stage sets with this outcome, with their types.",
    };

    /// The environment variables that a pipeline sets for the commands of its tool stages.
    pub const TOOL_ENV: &'static AttributeFamily = &AttributeFamily {
        prefix: "tool_env.",
        member: "NAME",
        scopes: Scopes {
            graph: true,
            node: true,
            edge: false,
        },
        doc: "The value of the environment variable `NAME` for the command of a tool stage; a node's wins over the graph's.",
    };

    /// The environment variables that hold context values for the commands of tool stages.
    pub const TOOL_ENV_FROM: &'static AttributeFamily = &AttributeFamily {
        prefix: "tool_env_from.",
        member: "NAME",
        scopes: Scopes {
            graph: true,
            node: true,
            edge: false,
        },
        doc: "The key of the context value, or `stages.ID.output`, that the environment variable `NAME` holds for the command of a tool stage; a node's wins over the graph's.",
    };

    /// Returns the family of an attribute and the part of the name after the prefix.
    pub fn find(name: &str) -> Option<(&'static AttributeFamily, &str)> {
        let member = |family: &&'static AttributeFamily| Some((*family, name.strip_prefix(family.prefix)?));
        ATTRIBUTE_FAMILIES.iter().find_map(member)
    }
}
