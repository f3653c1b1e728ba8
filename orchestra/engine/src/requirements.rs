//! The requirements of a pipeline for its handlers, and the check of a handler set against them.
//!
//! The same rules run twice: as a constant when a compiled pipeline is bound, where a violation is a compile error, and
//! at the start of a loaded pipeline. Therefore everything that they use is a `const fn`.

use std::fmt;

use orchestra_graph::table::Pipeline;
use orchestra_graph::{Readable, kind};

use crate::handler::{FieldSpec, FieldType, KindSpec, Kinds, Words};
use crate::registry::Registry;

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
///     readable: Readable::from_constant(&Constant::Integer(3)),
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

/// A requirement of a pipeline that its handlers do not meet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Violation<'n> {
    /// A kind has no handler.
    Kind { node: &'n NodeRequirement<'n> },
    /// A node lacks an attribute that its handler requires.
    Attribute {
        node: &'n NodeRequirement<'n>,
        field: &'n FieldSpec,
    },
    /// The value of an attribute does not have the type that its handler reads.
    Type {
        node: &'n NodeRequirement<'n>,
        attribute: &'n AttributeRequirement<'n>,
        expected: FieldType,
    },
    /// No handler returns the word that an edge requires.
    Word {
        need: &'n OutcomeRequirement<'n>,
        node: &'n NodeRequirement<'n>,
        words: &'n [&'n str],
    },
}

/// Maximum number of violations that are reported individually.
const MAX: usize = 20;

/// The first violations, each with the requirements of its file, and the number of all violations.
pub(crate) struct Violations<'n> {
    pub(crate) list: [Option<(PipelineRequirements<'n>, Violation<'n>)>; MAX],
    pub(crate) count: usize,
    /// The requirements that are being checked.
    requirements: PipelineRequirements<'n>,
}

impl<'n> Violations<'n> {
    const fn push(&mut self, violation: Violation<'n>) {
        if self.count < MAX {
            self.list[self.count] = Some((self.requirements, violation));
        }
        self.count += 1;
    }
}

/// The kinds of a handler set, or a list of kinds.
#[derive(Clone, Copy)]
pub(crate) enum Specs<'k> {
    Kinds(&'k Kinds),
    List(&'k [KindSpec]),
}

const fn equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Returns the specification of a kind. If there are two, the later one takes precedence, as in a registry.
const fn find<'k>(specs: Specs<'k>, kind: &str) -> Option<&'k KindSpec> {
    let list = match specs {
        Specs::Kinds(Kinds::Both(first, second)) => {
            return match find(Specs::Kinds(second), kind) {
                Some(found) => Some(found),
                None => find(Specs::Kinds(first), kind),
            };
        }
        Specs::Kinds(Kinds::List(list)) => *list,
        Specs::List(list) => list,
    };
    let mut at = list.len();
    while at > 0 {
        at -= 1;
        if equal(list[at].kind, kind) {
            return Some(&list[at]);
        }
    }
    None
}

const fn attribute<'n>(node: &NodeRequirement<'n>, name: &str) -> Option<&'n AttributeRequirement<'n>> {
    let mut at = 0;
    while at < node.attributes.len() {
        if equal(node.attributes[at].name, name) {
            return Some(&node.attributes[at]);
        }
        at += 1;
    }
    None
}

const fn reads(field: FieldType, value: Readable) -> bool {
    value.contains(match field {
        FieldType::String | FieldType::Any => Readable::STRING,
        FieldType::Integer => Readable::INTEGER,
        FieldType::Float => Readable::FLOAT,
        FieldType::Boolean => Readable::BOOLEAN,
        FieldType::Duration => Readable::DURATION,
    })
}

/// Checks requirements against handlers, including those of child pipelines. The build and the start of a run use the
/// same check.
pub(crate) const fn violations<'n>(
    requirements: &PipelineRequirements<'n>,
    specs: Specs<'n>,
) -> Violations<'n> {
    let mut found = Violations {
        list: [None; MAX],
        count: 0,
        requirements: *requirements,
    };
    let mut member = 0;
    while member <= requirements.children.len() {
        found.requirements = file(requirements, member);
        own(requirements, member, specs, &mut found);
        member += 1;
    }
    found
}

/// Returns the requirements of one file: index 0 is the pipeline itself, the following ones are its children.
const fn file<'n>(family: &PipelineRequirements<'n>, member: usize) -> PipelineRequirements<'n> {
    match member {
        0 => *family,
        child => family.children[child - 1],
    }
}

const fn own<'n>(
    family: &PipelineRequirements<'n>,
    member: usize,
    specs: Specs<'n>,
    found: &mut Violations<'n>,
) {
    let requirements = file(family, member);
    let mut at = 0;
    while at < requirements.nodes.len() {
        let node = &requirements.nodes[at];
        match find(specs, node.kind) {
            Some(spec) => fields(node, spec, found),
            // A kind without a handler is reported once, at the first node of that kind.
            None if !named_before(family, member, at) => found.push(Violation::Kind { node }),
            None => {}
        }
        at += 1;
    }
    at = 0;
    while at < requirements.words.len() {
        word(&requirements, &requirements.words[at], specs, found);
        at += 1;
    }
}

/// Returns whether an earlier node, of this file or an earlier one, has the same kind as a node.
const fn named_before(family: &PipelineRequirements<'_>, last: usize, end: usize) -> bool {
    let kind = file(family, last).nodes[end].kind;
    let mut member = 0;
    while member <= last {
        let nodes = file(family, member).nodes;
        let end = if member == last { end } else { nodes.len() };
        let mut at = 0;
        while at < end {
            if equal(nodes[at].kind, kind) {
                return true;
            }
            at += 1;
        }
        member += 1;
    }
    false
}

const fn fields<'n>(node: &'n NodeRequirement<'n>, spec: &'n KindSpec, found: &mut Violations<'n>) {
    let mut argument = 0;
    while argument < spec.fields.len() {
        let fields = spec.fields[argument];
        let mut at = 0;
        while at < fields.len() {
            let field = &fields[at];
            match attribute(node, field.name) {
                Some(attribute) if !reads(field.ty, attribute.readable) => found.push(Violation::Type {
                    node,
                    attribute,
                    expected: field.ty,
                }),
                None if field.required => found.push(Violation::Attribute { node, field }),
                _ => {}
            }
            at += 1;
        }
        argument += 1;
    }
}

const fn word<'n>(
    requirements: &PipelineRequirements<'n>,
    need: &'n OutcomeRequirement<'n>,
    specs: Specs<'n>,
    found: &mut Violations<'n>,
) {
    let mut returned: &'n [&'n str] = &[];
    let mut at = 0;
    while at < need.nodes.len() {
        match find(specs, requirements.nodes[need.nodes[at] as usize].kind) {
            Some(KindSpec {
                words: Words::Only(words),
                ..
            }) => {
                if meet(words, need.words) {
                    return;
                }
                returned = words;
            }
            // An open handler may return any word, and a missing handler has been reported already.
            _ => return,
        }
        at += 1;
    }
    if let Some(last) = need.nodes.last() {
        found.push(Violation::Word {
            need,
            node: &requirements.nodes[*last as usize],
            words: returned,
        });
    }
}

const fn meet(a: &[&str], b: &[&str]) -> bool {
    let mut i = 0;
    while i < a.len() {
        let mut j = 0;
        while j < b.len() {
            if equal(a[i], b[j]) {
                return true;
            }
            j += 1;
        }
        i += 1;
    }
    false
}

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
        let page = crate::violations_text::page(requirements, &found);
        panic!("{}", page.as_str());
    }
}

/// A requirement of a pipeline that a registry does not meet.
///
/// ```
/// use orchestra_engine::{Registry, check_registry};
/// # use orchestra_graph::{Source, load};
/// let text = "digraph {\n    start -> ship -> exit\n    ship [type=deploy]\n}";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let faults = check_registry(&pipeline, &Registry::default());
/// assert_eq!((faults[0].code, faults[0].line), ("missing_handler", 3));
/// assert!(faults[0].to_string().starts_with("3:5: "));
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

/// Checks the requirements of a pipeline against a registry. Returns an empty list if every handler exists and gets the
/// attributes that it reads. Child pipelines are not checked; call this function for each of them.
///
/// ```
/// use orchestra_engine::{Registry, check_registry};
/// use orchestra_graph::{LoadOptions, Source, load};
/// let text = "digraph { start -> ship -> exit; ship [type=deploy] }";
/// let pipeline = load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let faults = check_registry(&pipeline, &Registry::default());
/// assert_eq!(faults[0].code, "missing_handler");
/// ```
pub fn check_registry(pipeline: &Pipeline, registry: &Registry) -> Vec<UnmetRequirement> {
    let requirements = orchestra_graph::Requirements::new(pipeline, |name| !kind::BUILT_IN.contains(&name));
    let specs: Vec<KindSpec> = pipeline
        .kinds
        .iter()
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
                .iter()
                .map(|row| row.value.to_value().to_string())
                .collect()
        })
        .collect();
    let attributes: Vec<Vec<AttributeRequirement<'_>>> = stages
        .iter()
        .zip(&values)
        .map(|(stage, values)| {
            let rows = stage.attributes().iter().zip(values);
            rows.map(|(row, value)| AttributeRequirement {
                name: &row.key,
                value,
                readable: Readable::from_constant(&row.value),
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
        .map(|(_, violation)| crate::violations_text::error(violation))
        .collect()
}
