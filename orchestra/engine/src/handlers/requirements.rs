//! The requirements of a pipeline for its handlers, as constant data.

use std::fmt;

use orchestra_graph::Readable;

/// A position in the text of a pipeline.
///
/// ```
/// use orchestra_engine::SourceLocation;
/// let source = "digraph {\n  ship [type=deploy]\n}";
/// let location = SourceLocation { line: 2, column: 14, offset: 23, length: 6 };
/// assert!(source[location.offset as usize..].starts_with("deploy"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceLocation {
    /// The line, starting at 1.
    pub line: u32,
    /// The column in characters, starting at 1.
    pub column: u32,
    /// The offset of the first byte in [`PipelineRequirements::source`].
    pub offset: u32,
    /// The number of characters; 0 if the position is not known exactly.
    pub length: u32,
}

/// The requirements of a pipeline for the handlers of its custom kinds; `pipeline!` generates them for each pipeline.
///
/// ```
/// use orchestra_engine::{PipelineRequirements, NodeRequirement, SourceLocation};
/// const LOCATION: SourceLocation = SourceLocation { line: 2, column: 3, offset: 14, length: 4 };
/// const REQUIREMENTS: PipelineRequirements<'static> = PipelineRequirements {
///     file: "release.dot",
///     source: "digraph {\n  ship [type=deploy]\n}",
///     nodes: &[NodeRequirement { id: "ship", kind: "deploy", location: LOCATION, kind_location: LOCATION, attributes: &[] }],
///     words: &[],
///     children: &[],
/// };
/// assert_eq!(REQUIREMENTS.nodes[0].kind, "deploy");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PipelineRequirements<'n> {
    /// The file, for messages.
    pub file: &'n str,
    /// The text of the pipeline.
    pub source: &'n str,
    /// The nodes of custom kinds.
    pub nodes: &'n [NodeRequirement<'n>],
    /// The outcome words that conditions of edges require.
    pub words: &'n [OutcomeRequirement<'n>],
    /// The requirements of all child pipelines, including their children; each file occurs once. Their own `children`
    /// are empty.
    pub children: &'n [PipelineRequirements<'n>],
}

/// A node that needs a custom handler.
///
/// ```
/// use orchestra_engine::{AttributeRequirement, NodeRequirement, SourceLocation};
/// use orchestra_graph::Readable;
/// const LOCATION: SourceLocation = SourceLocation { line: 2, column: 3, offset: 14, length: 4 };
/// const SHIP: NodeRequirement<'static> = NodeRequirement {
///     id: "ship",
///     kind: "deploy",
///     location: LOCATION,
///     kind_location: LOCATION,
///     attributes: &[AttributeRequirement { name: "target", value: "eu", readable: Readable::STRING, location: LOCATION }],
/// };
/// assert_eq!((SHIP.kind, SHIP.attributes[0].name), ("deploy", "target"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NodeRequirement<'n> {
    /// The id of the node.
    pub id: &'n str,
    /// The handler kind.
    pub kind: &'n str,
    /// The position of the declaration of the node.
    pub location: SourceLocation,
    /// The position of the kind.
    pub kind_location: SourceLocation,
    /// The attributes that the node has.
    pub attributes: &'n [AttributeRequirement<'n>],
}

/// An attribute that a node passes to its handler.
///
/// ```
/// use orchestra_engine::{AttributeRequirement, SourceLocation};
/// use orchestra_graph::{Readable, table::Constant};
/// let need = AttributeRequirement {
///     name: "replicas",
///     value: "3",
///     readable: Readable::from_constant(Constant::Integer(3)),
///     location: SourceLocation { line: 2, column: 31, offset: 40, length: 1 },
/// };
/// assert!(need.readable.contains(Readable::FLOAT) && !need.readable.contains(Readable::BOOLEAN));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AttributeRequirement<'n> {
    /// The name of the attribute.
    pub name: &'n str,
    /// The value as text.
    pub value: &'n str,
    /// The types as which the value can be read.
    pub readable: Readable,
    /// The position of the value.
    pub location: SourceLocation,
}

/// An edge that can only be taken when one of some outcome words is returned.
///
/// ```
/// use orchestra_engine::{PipelineRequirements, NodeRequirement, SourceLocation, OutcomeRequirement};
/// const LOCATION: SourceLocation = SourceLocation { line: 2, column: 3, offset: 14, length: 0 };
/// const REQUIREMENTS: PipelineRequirements<'static> = PipelineRequirements {
///     file: "release.dot",
///     source: "",
///     nodes: &[NodeRequirement { id: "review", kind: "ask", location: LOCATION, kind_location: LOCATION, attributes: &[] }],
///     words: &[OutcomeRequirement { words: &["approved"], nodes: &[0], target: "ship", location: LOCATION }],
///     children: &[],
/// };
/// let need = REQUIREMENTS.words[0];
/// assert_eq!((REQUIREMENTS.nodes[need.nodes[0] as usize].id, need.target), ("review", "ship"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OutcomeRequirement<'n> {
    /// The words; one of them is sufficient.
    pub words: &'n [&'n str],
    /// The nodes that may return a word, as indices of [`PipelineRequirements::nodes`]; one of them is sufficient.
    pub nodes: &'n [u32],
    /// The id of the node that the edge leads to.
    pub target: &'n str,
    /// The position of the word.
    pub location: SourceLocation,
}

/// A requirement of a pipeline that a registry does not meet.
///
/// ```
/// use orchestra_engine::{Registry, check_registry};
/// # use orchestra_graph::{Source, load};
/// let text = "digraph {\n    start -> ship -> exit\n    ship [type=deploy]\n}";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let violations = check_registry(&pipeline, &Registry::default());
/// assert_eq!((violations[0].code, violations[0].line), ("missing_handler", 3));
/// assert!(violations[0].to_string().starts_with("3:5: "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnmetRequirement {
    /// The stable identifier: `missing_handler`, `missing_attribute`, `attribute_value` or `outcome_never_returned`.
    pub code: &'static str,
    /// The id of the node that it concerns.
    pub node: String,
    /// The line in the file of the pipeline, starting at 1.
    pub line: u32,
    /// The column in characters, starting at 1.
    pub column: u32,
    /// A one-line message that says what is wrong.
    pub message: String,
    /// A message that says how to fix it.
    pub help: String,
}

impl fmt::Display for UnmetRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}; {}",
            self.line, self.column, self.message, self.help
        )
    }
}
