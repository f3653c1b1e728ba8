//! The check of handlers against the requirements of a pipeline.
//!
//! The same rules run twice: as a constant when a compiled pipeline is bound, where a violation is a compile error, and
//! at the start of a loaded pipeline. Therefore everything that they use is a `const fn`.

use orchestra_graph::Readable;

use crate::handlers::kinds::{FieldSpec, FieldType, KindSpec, Kinds};
use crate::handlers::requirements::{
    AttributeRequirement, NodeRequirement, OutcomeRequirement, PipelineRequirements,
};
use crate::into_outcome::Words;

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
