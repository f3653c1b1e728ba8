//! Symbols, and their occurrences in a text.

use std::fmt;

use crate::text::Span;

/// A named thing of a pipeline, or of the configuration and the program that a pipeline belongs to.
///
/// ```
/// use orchestra_graph::Symbol;
/// assert_eq!(Symbol::Node("review".into()).to_string(), "node `review`");
/// assert_eq!(Symbol::Key("score".into()).name(), "score");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Symbol {
    /// A node, by its id.
    Node(String),
    /// A context key, without `context.`.
    Key(String),
    /// A context key of a child pipeline.
    ChildKey {
        /// The path of the child's file.
        file: String,
        /// The key.
        key: String,
    },
    /// An outcome.
    Outcome(String),
    /// A label of edges, such as an answer of a human gate, without its accelerator key.
    Label {
        /// The node whose edges have the label; `None` for a label that is one name for the whole pipeline.
        node: Option<String>,
        /// The label as its first edge has it.
        label: String,
    },
    /// A class of the model stylesheet.
    Class(String),
    /// The kind of a handler: the value of `type`.
    Kind(String),
    /// The path of the file of a child pipeline.
    ChildFile(String),
    /// The path of a prompt file.
    PromptFile(String),
    /// An agent of the configuration.
    Agent(String),
    /// A role layer of prompts.
    Role(String),
    /// A persona layer of prompts.
    Persona(String),
    /// A personality layer of prompts.
    Personality(String),
    /// A task template.
    Task(String),
    /// A tool of the configuration.
    Tool(String),
    /// A backend of the configuration.
    Backend(String),
    /// A model, or an alias of one.
    Model(String),
    /// A provider of models.
    Provider(String),
    /// A repository of the configuration's workspace.
    Repository(String),
}

impl Symbol {
    /// Returns the name; of a file its path.
    pub fn name(&self) -> &str {
        self.parts().1
    }

    fn parts(&self) -> (&'static str, &str) {
        match self {
            Symbol::Node(name) => ("node", name),
            Symbol::Key(name) => ("context key", name),
            Symbol::ChildKey { key, .. } => ("context key of the child", key),
            Symbol::Outcome(name) => ("outcome", name),
            Symbol::Label { label, .. } => ("label", label),
            Symbol::Class(name) => ("class", name),
            Symbol::Kind(name) => ("handler kind", name),
            Symbol::ChildFile(name) => ("child pipeline", name),
            Symbol::PromptFile(name) => ("prompt file", name),
            Symbol::Agent(name) => ("agent", name),
            Symbol::Role(name) => ("role", name),
            Symbol::Persona(name) => ("persona", name),
            Symbol::Personality(name) => ("personality", name),
            Symbol::Task(name) => ("task", name),
            Symbol::Tool(name) => ("tool", name),
            Symbol::Backend(name) => ("backend", name),
            Symbol::Model(name) => ("model", name),
            Symbol::Provider(name) => ("provider", name),
            Symbol::Repository(name) => ("repository", name),
        }
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, name) = self.parts();
        write!(f, "{what} `{name}`")
    }
}

/// Whether an occurrence of a name introduces it or uses it.
///
/// ```
/// use orchestra_graph::{OccurrenceRole, Source, load, occurrences};
/// let loaded = load(Source::new("a.dot", "digraph { start -> work -> exit; work [prompt=Go] }"), &Default::default());
/// let found = occurrences(&loaded).into_iter().filter(|found| found.symbol.name() == "work");
/// let roles: Vec<_> = found.map(|found| found.role).collect();
/// assert_eq!(roles, [OccurrenceRole::Reference, OccurrenceRole::Declaration]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OccurrenceRole {
    /// The name is declared or set here. A node has one declaration; a context key has one for each stage that sets it.
    Declaration,
    /// The name is used here.
    Reference,
}

/// The form in which a name is written, which determines how it can be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// The name alone.
    Plain,
    /// A node id in a statement, where the keywords of the language need quotes.
    Id {
        /// `true` for the first id of a statement.
        first: bool,
    },
    /// A literal of a condition or an assertion, which needs quotes unless it is a word.
    Literal {
        /// `true` inside of quotes.
        quoted: bool,
    },
    /// The key of a human gate's choice, derived from the id of a node.
    ChoiceKey,
    /// A key of a list of pairs that stands for both keys of a pair; this is the new key, on the left of `new=old`.
    New,
    /// The same; this is the old key, on the right.
    Old,
    /// A key of a condition that is written without `context.`.
    BareKey,
}

/// A place in the text of a pipeline where a name is written.
///
/// ```
/// use orchestra_graph::{Source, Symbol, load, occurrences};
/// let text = r#"digraph { start -> work -> exit; work [retry_target="work", prompt=Go] }"#;
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let found = occurrences(&loaded);
/// let work = found.iter().filter(|found| found.symbol == Symbol::Node("work".into()));
/// assert_eq!(work.map(|found| loaded.source.slice(found.span)).collect::<Vec<_>>(), ["work"; 3]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occurrence {
    /// The named thing.
    pub symbol: Symbol,
    /// The span of the name in the text, without quotes.
    pub span: Span,
    /// Whether the name is declared or used here.
    pub role: OccurrenceRole,
    pub(crate) form: Form,
    /// The span of the word or string that contains the name.
    pub(crate) literal: Span,
}
