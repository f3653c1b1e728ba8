//! What a pipeline needs of its handlers, and whether a handler set gives it.
//!
//! The same rules run twice: as a constant when a compiled pipeline is bound, where a fault keeps the program from
//! building, and at the start of a loaded one. Everything they use is therefore a `const fn`.

use std::fmt;

use orchestra_graph::table::Pipeline;
use orchestra_graph::{Readable, kind};

use crate::handler::{FieldSpec, FieldType, KindSpec, Kinds, Words};
use crate::registry::Registry;

/// A place in the text of a pipeline.
///
/// ```
/// use orchestra_engine::Place;
/// let source = "digraph {\n  ship [type=deploy]\n}";
/// let place = Place { line: 2, column: 14, offset: 23, length: 6 };
/// assert!(source[place.offset as usize..].starts_with("deploy"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
    /// Offset of the first byte in [`Needs::source`].
    pub offset: u32,
    /// How many characters are meant; 0 where the place is not known exactly.
    pub length: u32,
}

/// What a pipeline needs of the handlers of its custom kinds; `pipeline!` makes one for each pipeline.
///
/// ```
/// use orchestra_engine::{Needs, NodeNeed, Place};
/// const PLACE: Place = Place { line: 2, column: 3, offset: 14, length: 4 };
/// const NEEDS: Needs<'static> = Needs {
///     file: "release.dot",
///     source: "digraph {\n  ship [type=deploy]\n}",
///     nodes: &[NodeNeed { id: "ship", kind: "deploy", place: PLACE, kind_place: PLACE, attributes: &[] }],
///     words: &[],
///     children: &[],
/// };
/// assert_eq!(NEEDS.nodes[0].kind, "deploy");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs<'n> {
    /// The file, for messages.
    pub file: &'n str,
    /// The text of the pipeline.
    pub source: &'n str,
    /// The nodes of custom kinds.
    pub nodes: &'n [NodeNeed<'n>],
    /// The outcome words that edges wait for.
    pub words: &'n [WordNeed<'n>],
    /// What the pipelines need that its stages run, and that these run in turn: each file once. They name no children
    /// themselves.
    pub children: &'n [Needs<'n>],
}

/// A node that needs a custom handler.
///
/// ```
/// use orchestra_engine::{AttributeNeed, NodeNeed, Place};
/// use orchestra_graph::Readable;
/// const PLACE: Place = Place { line: 2, column: 3, offset: 14, length: 4 };
/// const SHIP: NodeNeed<'static> = NodeNeed {
///     id: "ship",
///     kind: "deploy",
///     place: PLACE,
///     kind_place: PLACE,
///     attributes: &[AttributeNeed { name: "target", value: "eu", readable: Readable::STRING, place: PLACE }],
/// };
/// assert_eq!((SHIP.kind, SHIP.attributes[0].name), ("deploy", "target"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NodeNeed<'n> {
    /// The node's id.
    pub id: &'n str,
    /// The handler kind.
    pub kind: &'n str,
    /// Where the node is declared.
    pub place: Place,
    /// Where the kind is named.
    pub kind_place: Place,
    /// The attributes that the node gives.
    pub attributes: &'n [AttributeNeed<'n>],
}

/// An attribute that a node gives to its handler.
///
/// ```
/// use orchestra_engine::{AttributeNeed, Place};
/// use orchestra_graph::{Readable, table::Constant};
/// let need = AttributeNeed {
///     name: "replicas",
///     value: "3",
///     readable: Readable::of(&Constant::Integer(3)),
///     place: Place { line: 2, column: 31, offset: 40, length: 1 },
/// };
/// assert!(need.readable.contains(Readable::FLOAT) && !need.readable.contains(Readable::BOOLEAN));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AttributeNeed<'n> {
    /// The name.
    pub name: &'n str,
    /// The value as text.
    pub value: &'n str,
    /// As what the value can be read.
    pub readable: Readable,
    /// Where the value stands.
    pub place: Place,
}

/// An edge that can only be taken when one of some outcome words is returned.
///
/// ```
/// use orchestra_engine::{Needs, NodeNeed, Place, WordNeed};
/// const PLACE: Place = Place { line: 2, column: 3, offset: 14, length: 0 };
/// const NEEDS: Needs<'static> = Needs {
///     file: "release.dot",
///     source: "",
///     nodes: &[NodeNeed { id: "review", kind: "ask", place: PLACE, kind_place: PLACE, attributes: &[] }],
///     words: &[WordNeed { words: &["approved"], nodes: &[0], target: "ship", place: PLACE }],
///     children: &[],
/// };
/// let need = NEEDS.words[0];
/// assert_eq!((NEEDS.nodes[need.nodes[0] as usize].id, need.target), ("review", "ship"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WordNeed<'n> {
    /// The words; any of them is enough.
    pub words: &'n [&'n str],
    /// The nodes that may return it, as indices of [`Needs::nodes`]; any of them is enough.
    pub nodes: &'n [u32],
    /// Where the edge leads.
    pub target: &'n str,
    /// Where the word stands.
    pub place: Place,
}

/// Something that a pipeline needs and its handlers do not give.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lack<'n> {
    /// No handler is there for a kind.
    Kind { node: &'n NodeNeed<'n> },
    /// A node lacks an attribute that its handler requires.
    Attribute {
        node: &'n NodeNeed<'n>,
        field: &'n FieldSpec,
    },
    /// An attribute's value is not what its handler reads.
    Type {
        node: &'n NodeNeed<'n>,
        attribute: &'n AttributeNeed<'n>,
        expected: FieldType,
    },
    /// No handler returns the word that an edge waits for.
    Word {
        need: &'n WordNeed<'n>,
        node: &'n NodeNeed<'n>,
        words: &'n [&'n str],
    },
}

/// The most faults that are told one by one.
const MAX: usize = 20;

/// The first faults, each with the needs of its file, and how many there are.
pub(crate) struct Lacks<'n> {
    pub(crate) list: [Option<(Needs<'n>, Lack<'n>)>; MAX],
    pub(crate) count: usize,
    /// The needs that are compared at the moment.
    needs: Needs<'n>,
}

impl<'n> Lacks<'n> {
    const fn push(&mut self, lack: Lack<'n>) {
        if self.count < MAX {
            self.list[self.count] = Some((self.needs, lack));
        }
        self.count += 1;
    }
}

/// Where the kinds of a handler set are looked up.
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

/// The specification of a kind; of two, the later one holds, as in a registry.
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

const fn attribute<'n>(node: &NodeNeed<'n>, name: &str) -> Option<&'n AttributeNeed<'n>> {
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

/// Compares needs with handlers, those of children too: one rule for the build and for the start of a run.
pub(crate) const fn lacks<'n>(needs: &Needs<'n>, specs: Specs<'n>) -> Lacks<'n> {
    let mut found = Lacks {
        list: [None; MAX],
        count: 0,
        needs: *needs,
    };
    let mut member = 0;
    while member <= needs.children.len() {
        found.needs = file(needs, member);
        own(needs, member, specs, &mut found);
        member += 1;
    }
    found
}

/// The needs of one file of a family: first the pipeline itself, then its children.
const fn file<'n>(family: &Needs<'n>, member: usize) -> Needs<'n> {
    match member {
        0 => *family,
        child => family.children[child - 1],
    }
}

const fn own<'n>(family: &Needs<'n>, member: usize, specs: Specs<'n>, found: &mut Lacks<'n>) {
    let needs = file(family, member);
    let mut at = 0;
    while at < needs.nodes.len() {
        let node = &needs.nodes[at];
        match find(specs, node.kind) {
            Some(spec) => fields(node, spec, found),
            // A kind that nothing handles is told once, at the first node that names it.
            None if !named_before(family, member, at) => found.push(Lack::Kind { node }),
            None => {}
        }
        at += 1;
    }
    at = 0;
    while at < needs.words.len() {
        word(&needs, &needs.words[at], specs, found);
        at += 1;
    }
}

/// Whether a node of an earlier file, or an earlier node of the same file, is of the kind of a node.
const fn named_before(family: &Needs<'_>, last: usize, end: usize) -> bool {
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

const fn fields<'n>(node: &'n NodeNeed<'n>, spec: &'n KindSpec, found: &mut Lacks<'n>) {
    let mut argument = 0;
    while argument < spec.fields.len() {
        let fields = spec.fields[argument];
        let mut at = 0;
        while at < fields.len() {
            let field = &fields[at];
            match attribute(node, field.name) {
                Some(attribute) if !reads(field.ty, attribute.readable) => found.push(Lack::Type {
                    node,
                    attribute,
                    expected: field.ty,
                }),
                None if field.required => found.push(Lack::Attribute { node, field }),
                _ => {}
            }
            at += 1;
        }
        argument += 1;
    }
}

const fn word<'n>(needs: &Needs<'n>, need: &'n WordNeed<'n>, specs: Specs<'n>, found: &mut Lacks<'n>) {
    let mut returned: &'n [&'n str] = &[];
    let mut at = 0;
    while at < need.nodes.len() {
        match find(specs, needs.nodes[need.nodes[at] as usize].kind) {
            Some(KindSpec {
                words: Words::Only(words),
                ..
            }) => {
                if meet(words, need.words) {
                    return;
                }
                returned = words;
            }
            // An open handler may return any word; a missing one has been told already.
            _ => return,
        }
        at += 1;
    }
    if let Some(last) = need.nodes.last() {
        found.push(Lack::Word {
            need,
            node: &needs.nodes[*last as usize],
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

/// Keeps a program from building when its handlers do not give what a pipeline needs. Used by generated code.
///
/// # Panics
/// In a constant, where the panic is a compile error that lists every fault.
#[doc(hidden)]
#[track_caller]
#[allow(clippy::panic)] // A panic in a constant is the only way to a compile error there.
pub const fn verify(needs: &Needs<'_>, kinds: &Kinds) {
    let found = lacks(needs, Specs::Kinds(kinds));
    if found.count > 0 {
        let page = crate::needs_text::page(needs, &found);
        panic!("{}", page.as_str());
    }
}

/// Something that a pipeline needs and a registry does not give.
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
pub struct NeedFault {
    /// The stable identifier: `missing_handler`, `missing_attribute`, `attribute_value` or `outcome_never_returned`.
    pub code: &'static str,
    /// The node it concerns.
    pub node: String,
    /// Line in the pipeline's file, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
    /// What is wrong, in one line.
    pub message: String,
    /// How to mend it.
    pub help: String,
}

impl fmt::Display for NeedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}; {}",
            self.line, self.column, self.message, self.help
        )
    }
}

/// Compares what a pipeline needs with a registry; empty where every handler is there and gets what it reads.
/// Its children are not looked at; each of them can be asked for in the same way.
///
/// ```
/// use orchestra_engine::{Registry, check_registry};
/// use orchestra_graph::{LoadOptions, Source, load};
/// let text = "digraph { start -> ship -> exit; ship [type=deploy] }";
/// let pipeline = load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let faults = check_registry(&pipeline, &Registry::default());
/// assert_eq!(faults[0].code, "missing_handler");
/// ```
pub fn check_registry(pipeline: &Pipeline, registry: &Registry) -> Vec<NeedFault> {
    let needs = orchestra_graph::Needs::of(pipeline, |name| !kind::BUILT_IN.contains(&name));
    let specs: Vec<KindSpec> = pipeline
        .kinds
        .iter()
        .filter_map(|kind| registry.spec(kind).copied())
        .collect();
    let place = |position: orchestra_graph::Position| Place {
        line: position.line,
        column: position.column,
        ..Place::default()
    };
    let stages: Vec<_> = needs.nodes.iter().map(|node| pipeline.stage(*node)).collect();
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
    let attributes: Vec<Vec<AttributeNeed<'_>>> = stages
        .iter()
        .zip(&values)
        .map(|(stage, values)| {
            let rows = stage.attributes().iter().zip(values);
            rows.map(|(row, value)| AttributeNeed {
                name: &row.key,
                value,
                readable: Readable::of(&row.value),
                place: place(stage.row().position),
            })
            .collect()
        })
        .collect();
    let nodes: Vec<NodeNeed<'_>> = stages
        .iter()
        .zip(&attributes)
        .map(|(stage, attributes)| NodeNeed {
            id: stage.id(),
            kind: stage.kind(),
            place: place(stage.row().position),
            kind_place: place(stage.row().position),
            attributes,
        })
        .collect();
    let words: Vec<Vec<&str>> = needs
        .words
        .iter()
        .map(|need| need.words.iter().map(String::as_str).collect())
        .collect();
    let sources: Vec<Vec<u32>> = needs
        .words
        .iter()
        .map(|need| need.nodes.iter().map(|node| *node as u32).collect())
        .collect();
    let words: Vec<WordNeed<'_>> = needs
        .words
        .iter()
        .zip(words.iter().zip(&sources))
        .map(|(need, (words, nodes))| {
            let edge = pipeline.edge(need.edge);
            WordNeed {
                words,
                nodes,
                target: pipeline.stage(edge.to).id(),
                place: place(edge.position),
            }
        })
        .collect();
    let needs = Needs {
        file: &pipeline.file,
        source: &pipeline.source,
        nodes: &nodes,
        words: &words,
        children: &[],
    };
    let found = lacks(&needs, Specs::List(&specs));
    found
        .list
        .iter()
        .flatten()
        .map(|(_, lack)| crate::needs_text::fault(lack))
        .collect()
}
