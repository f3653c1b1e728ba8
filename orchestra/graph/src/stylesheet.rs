//! The model stylesheet (Attractor 8, rule L12).

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use crate::attribute::{Key, Known};
use crate::attributes::{Attribute, Origin};
use crate::diagnostic::did_you_mean;
use crate::model::{Graph, Node};
use crate::syntax::shorten;
use crate::value::Value;

/// The nodes that a rule applies to (Attractor 8.3, rule L12).
///
/// ```
/// use orchestra_graph::{Selector, parse_stylesheet};
/// let (rules, _) = parse_stylesheet("* { llm_model: small; } #review { llm_model: large; }");
/// assert_eq!(rules[1].selector, Selector::Id("review".to_owned()));
/// assert!(rules[1].selector.specificity() > rules[0].selector.specificity());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// `*`: every node.
    All,
    /// `box`: nodes with a shape.
    Shape(String),
    /// `.name`: nodes with a class.
    Class(String),
    /// `#name`: the node with an id.
    Id(String),
}

impl Selector {
    /// Returns the specificity. The rule with the higher one wins.
    pub const fn specificity(&self) -> u8 {
        match self {
            Selector::All => 0,
            Selector::Shape(_) => 1,
            Selector::Class(_) => 2,
            Selector::Id(_) => 3,
        }
    }

    /// Returns whether the selector matches a node.
    pub fn matches(&self, node: &Node) -> bool {
        match self {
            Selector::All => true,
            Selector::Shape(shape) => node.shape() == shape,
            Selector::Class(class) => node.classes.iter().any(|own| **own == **class),
            Selector::Id(id) => *node.id == **id,
        }
    }
}

/// One declaration of a rule (Attractor 8.4).
///
/// ```
/// use orchestra_graph::{Known, parse_stylesheet};
/// let text = ".code { model: large; }";
/// let (rules, _) = parse_stylesheet(text);
/// let declaration = &rules[0].declarations[0];
/// assert_eq!((declaration.property, &text[declaration.range.clone()]), (Known::LlmModel, "large"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    /// The attribute that it sets.
    pub property: Known,
    /// The value.
    pub value: String,
    /// The byte range of the value in the stylesheet.
    pub range: Range<usize>,
}

/// One rule: a selector and its declarations (Attractor 8.2).
///
/// ```
/// use orchestra_graph::{Source, load, parse_stylesheet};
/// let graph = load(Source::new("a.dot", "digraph { start -> work -> exit }"), &Default::default()).graph;
/// let (rules, _) = parse_stylesheet("#work { llm_model: large; reasoning_effort: low; }");
/// let hit: Vec<_> = graph.nodes.iter().filter(|node| rules[0].selector.matches(node)).collect();
/// assert_eq!((hit.len(), &*hit[0].id, rules[0].declarations.len()), (1, "work", 2));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct StyleRule {
    /// The nodes that it applies to.
    pub selector: Selector,
    /// The byte range of the selector in the stylesheet.
    pub range: Range<usize>,
    /// The attributes that it sets.
    pub declarations: Vec<Declaration>,
}

/// An error in a stylesheet (Attractor 8.2).
///
/// ```
/// let text = "* { llm_modle: large; }";
/// let (_, errors) = orchestra_graph::parse_stylesheet(text);
/// assert_eq!(&text[errors[0].range.clone()], "llm_modle");
/// assert!(errors[0].help.contains("llm_model"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StylesheetError {
    /// The problem, in one line.
    pub message: String,
    /// The byte range of the error in the stylesheet.
    pub range: Range<usize>,
    /// A hint on how to fix the problem.
    pub help: String,
    /// The replacement for the range, if it fixes the error.
    pub replacement: Option<String>,
}

impl fmt::Display for StylesheetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StylesheetError {}

/// The properties with their aliases; the shorter names come from other tools (rule L12).
const PROPERTIES: &[(&str, Known)] = &[
    ("llm_model", Known::LlmModel),
    ("llm_provider", Known::LlmProvider),
    ("reasoning_effort", Known::ReasoningEffort),
    ("model", Known::LlmModel),
    ("provider", Known::LlmProvider),
];

/// Returns the attribute that a property sets.
pub(crate) fn property(name: &str) -> Option<Known> {
    let found = PROPERTIES.iter().find(|(own, _)| *own == name);
    found.map(|(_, known)| *known)
}

/// Parses a stylesheet. Returns the valid rules and all errors.
///
/// ```
/// let (rules, errors) = orchestra_graph::parse_stylesheet("* { llm_model: smart; } .code { model = \"x\" }");
/// assert_eq!((rules.len(), errors.len()), (2, 0));
/// ```
pub fn parse_stylesheet(text: &str) -> (Vec<StyleRule>, Vec<StylesheetError>) {
    let mut parser = Parser {
        text,
        at: 0,
        errors: Vec::new(),
    };
    let mut rules = Vec::new();
    loop {
        parser.blank();
        if parser.at >= text.len() {
            return (rules, parser.errors);
        }
        if let Some(rule) = parser.rule() {
            rules.push(rule);
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    errors: Vec<StylesheetError>,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn blank(&mut self) {
        loop {
            self.at = self.text.len() - self.rest().trim_start().len();
            let Some(comment) = self.rest().strip_prefix("/*") else {
                return;
            };
            match comment.find("*/") {
                Some(end) => self.at += end + 4,
                None => {
                    self.error(
                        "this comment is never closed",
                        self.at..self.at + 2,
                        "close it with `*/`",
                    );
                    self.at = self.text.len();
                }
            }
        }
    }

    fn error(&mut self, message: impl Into<String>, range: Range<usize>, help: impl Into<String>) {
        self.errors.push(StylesheetError {
            message: message.into(),
            range,
            help: help.into(),
            replacement: None,
        });
    }

    fn take(&mut self, inside: impl Fn(char) -> bool) -> Range<usize> {
        let length = self.rest().find(|c| !inside(c)).unwrap_or(self.rest().len());
        self.at += length;
        self.at - length..self.at
    }

    fn name(&mut self) -> Range<usize> {
        self.take(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
    }

    fn eat(&mut self, character: char) -> bool {
        let found = self.rest().starts_with(character);
        if found {
            self.at += character.len_utf8();
        }
        found
    }

    /// Returns the range of the next character, for messages.
    fn here(&self) -> Range<usize> {
        let length = self.rest().chars().next().map_or(0, char::len_utf8);
        self.at..self.at + length
    }

    fn rule(&mut self) -> Option<StyleRule> {
        let start = self.at;
        let selector = match self.rest().chars().next() {
            Some('*') => {
                self.at += 1;
                Some(Selector::All)
            }
            Some(mark @ ('.' | '#')) => {
                self.at += 1;
                let name = self.text[self.name()].to_owned();
                let make = if mark == '.' {
                    Selector::Class
                } else {
                    Selector::Id
                };
                (!name.is_empty()).then(|| make(name))
            }
            _ => {
                let name = self.text[self.name()].to_owned();
                (!name.is_empty()).then_some(Selector::Shape(name))
            }
        };
        let range = start..self.at;
        self.blank();
        if selector.is_none() || !self.rest().starts_with('{') {
            let here = self.here();
            let (message, range) = match selector {
                None => (
                    "expected a selector".to_owned(),
                    if range.is_empty() { here } else { range },
                ),
                Some(_) if here.is_empty() => {
                    ("expected `{` before the end of the stylesheet".to_owned(), range)
                }
                Some(_) => (
                    format!("expected `{{`, found `{}`", &self.text[here.clone()]),
                    here,
                ),
            };
            self.error(message, range, "a rule is written `* { llm_model: NAME; }`; selectors are `*`, a shape, `.class` and `#node`");
            self.skip_rule();
            return None;
        }
        let selector = selector?;
        let opening = self.at..self.at + 1;
        self.at += 1;
        let mut declarations = Vec::new();
        loop {
            self.blank();
            while self.eat(';') {
                self.blank();
            }
            if self.eat('}') {
                return Some(StyleRule {
                    selector,
                    range,
                    declarations,
                });
            }
            if self.rest().is_empty() {
                self.error("this rule is never closed", opening, "add a `}`");
                return Some(StyleRule {
                    selector,
                    range,
                    declarations,
                });
            }
            match self.declaration() {
                Some(declaration) => declarations.push(declaration),
                None => {
                    self.take(|c| c != ';' && c != '}');
                }
            }
        }
    }

    fn skip_rule(&mut self) {
        self.take(|c| c != '}');
        self.eat('}');
        // Ensure progress, so that parsing always ends.
        if self.at == 0 {
            self.at = self.text.len();
        }
    }

    fn declaration(&mut self) -> Option<Declaration> {
        let name = self.name();
        let property = self.text[name.clone()].to_owned();
        let known = self::property(&property);
        if known.is_none() {
            let range = if name.is_empty() { self.here() } else { name };
            let near = did_you_mean(&property, PROPERTIES.iter().map(|(own, _)| *own));
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "the properties are `llm_model`, `llm_provider` and `reasoning_effort`".to_owned(),
            };
            self.error(
                format!("unknown property `{}`", shorten(&self.text[range.clone()])),
                range,
                help,
            );
            if let Some(error) = self.errors.last_mut() {
                error.replacement = near.map(str::to_owned);
            }
        }
        self.blank();
        if !self.eat(':') && !self.eat('=') {
            if known.is_some() {
                let help = format!("write `{property}: VALUE;`");
                self.error(format!("expected `:` after `{property}`"), self.here(), help);
            }
            return None;
        }
        self.blank();
        let range = match self.rest().chars().next() {
            Some(quote @ ('"' | '\'')) => {
                self.at += 1;
                let range = self.take(|c| c != quote);
                if !self.eat(quote) {
                    self.error(
                        "this quoted value is never closed",
                        range.start - 1..range.start,
                        "add the closing quote",
                    );
                }
                range
            }
            _ => {
                let range = self.take(|c| !matches!(c, ';' | '}' | '{' | '\n'));
                range.start..range.start + self.text[range].trim_end().len()
            }
        };
        let value = self.text[range.clone()].to_owned();
        let property = known?;
        if value.is_empty() {
            let before = self.text[..range.start].chars().next_back();
            self.error(
                format!("`{}` has no value", property.name()),
                range.start - before.map_or(0, char::len_utf8)..range.start,
                "write a value",
            );
            return None;
        }
        if property
            .spec()
            .ty
            .coerce(&Value::String(value.as_str().into()))
            .is_none()
        {
            self.error(
                format!("`{}` is not a value of `{}`", shorten(&value), property.name()),
                range,
                format!("write {}", property.spec().ty.describe()),
            );
            return None;
        }
        self.blank();
        if !matches!(self.rest().chars().next(), None | Some(';' | '}'))
            && !self.text[range.end..self.at].contains('\n')
        {
            let here = self.here();
            self.error(
                format!("expected `;`, found `{}`", &self.text[here.clone()]),
                here,
                "separate declarations with `;`",
            );
        }
        Some(Declaration {
            property,
            value,
            range,
        })
    }
}

/// Sets the attributes of the rules on every node that does not set them itself (Attractor 8.5).
pub(crate) fn apply(graph: &mut Graph, rules: &[StyleRule]) {
    let Some(sheet) = graph.attributes.get(Known::ModelStylesheet).cloned() else {
        return;
    };
    let styles = Styles::new(rules);
    for node in &mut graph.nodes {
        for (at, property) in SET.into_iter().enumerate() {
            let Some(value) = styles.value(node, at) else {
                continue;
            };
            let present = node.attributes.get(property).map(|present| present.origin);
            // Defaults apply to many nodes, so a rule that selects this node is more specific.
            if matches!(present, Some(Origin::Explicit | Origin::Transform)) {
                continue;
            }
            let value = value.clone();
            node.attributes.set(Attribute {
                key: Key::Known(property),
                value,
                key_span: sheet.key_span,
                value_span: sheet.value_span,
                origin: Origin::Stylesheet,
            });
        }
    }
}

/// The properties that rules set.
const SET: [Known; 3] = [Known::LlmModel, Known::LlmProvider, Known::ReasoningEffort];

/// The last value set for each property, with the index of its rule.
type Values = [Option<(usize, Value)>; 3];

/// The rules grouped by selector, so that only the rules that match a node are visited.
#[derive(Default)]
struct Styles<'r> {
    all: Values,
    shapes: HashMap<&'r str, Values>,
    classes: HashMap<&'r str, Values>,
    ids: HashMap<&'r str, Values>,
}

impl<'r> Styles<'r> {
    fn new(rules: &'r [StyleRule]) -> Styles<'r> {
        let mut styles = Styles::default();
        for (order, rule) in rules.iter().enumerate() {
            let values = match &rule.selector {
                Selector::All => &mut styles.all,
                Selector::Shape(shape) => styles.shapes.entry(shape).or_default(),
                Selector::Class(class) => styles.classes.entry(class).or_default(),
                Selector::Id(id) => styles.ids.entry(id).or_default(),
            };
            for set in &rule.declarations {
                if let Some(at) = SET.iter().position(|property| *property == set.property) {
                    values[at] = Some((order, Value::String(set.value.as_str().into())));
                }
            }
        }
        styles
    }

    /// Returns the value of a property for a node: the most specific one, and among equals the last one.
    fn value(&self, node: &Node, at: usize) -> Option<&Value> {
        fn entry(values: Option<&Values>, at: usize) -> Option<&(usize, Value)> {
            values.and_then(|values| values[at].as_ref())
        }
        let of_id = || entry(self.ids.get(&*node.id), at);
        let of_class = || {
            let classes = node.classes.iter();
            classes
                .filter_map(|class| entry(self.classes.get(&**class), at))
                .max_by_key(|(order, _)| *order)
        };
        let of_shape = || entry(self.shapes.get(node.shape()), at);
        let found = of_id()
            .or_else(of_class)
            .or_else(of_shape)
            .or(self.all[at].as_ref());
        found.map(|(_, value)| value)
    }
}
