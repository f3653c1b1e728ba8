//! Families of attributes: names that begin alike and end as the pipeline likes.

use crate::attribute::Scopes;

/// A row of the table of attribute families. The value of every member is text, as it is written.
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
    /// How the names of all members begin, up to and including the dot.
    pub prefix: &'static str,
    /// What stands behind the prefix, in capitals, for documentation.
    pub member: &'static str,
    /// Where the members may stand.
    pub scopes: Scopes,
    /// What a member does, in one line.
    pub doc: &'static str,
}

/// The attribute families that the language knows.
///
/// ```
/// use orchestra_graph::ATTRIBUTE_FAMILIES;
/// assert!(ATTRIBUTE_FAMILIES.iter().all(|family| family.prefix.ends_with('.')));
/// ```
pub static ATTRIBUTE_FAMILIES: &[&AttributeFamily] = &[AttributeFamily::TOOL_ENV];

impl AttributeFamily {
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

    /// Returns the family of an attribute, with the part of its name behind the prefix.
    pub fn find(name: &str) -> Option<(&'static AttributeFamily, &str)> {
        let member = |family: &&'static AttributeFamily| Some((*family, name.strip_prefix(family.prefix)?));
        ATTRIBUTE_FAMILIES.iter().find_map(member)
    }
}
