//! The syntax around a position in a text that is being edited, which need not be complete.
//!
//! The tokens before the position are followed as the parser follows them, with the same recovery from a list that is
//! not closed. An attribute list or a string that nobody has closed yet thus does not hide where the position stands.

use smol_str::SmolStr;

use crate::ast::{DefaultsTarget, Identifier};
use crate::attribute::Scope;
use crate::syntax::lexer::{Kind, Lexer, Token, decode};
use crate::syntax::words::is_identifier;
use crate::text::{Source, Span};

/// The owner of the attribute list around a position.
///
/// ```
/// use orchestra_graph::{AttributeOwner, Cursor, Scope, Source, SyntaxContext};
/// let cursor = Cursor::new(&Source::new("a.dot", "digraph { edge [wei"), 19);
/// let SyntaxContext::Key { owner, .. } = cursor.context else { panic!("a key is being typed") };
/// assert_eq!(owner, AttributeOwner::EdgeDefaults);
/// assert_eq!(owner.scope(), Scope::Edge);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeOwner {
    /// The graph: `graph [..]`, or `key = value` on its own.
    Graph,
    /// A subgraph: `key = value` inside of it.
    Subgraph,
    /// All nodes that follow: `node [..]`.
    NodeDefaults,
    /// All edges that follow: `edge [..]`.
    EdgeDefaults,
    /// A node.
    Node(Identifier),
    /// The edges of a chain, by their nodes.
    Edge(Vec<Identifier>),
}

impl AttributeOwner {
    /// Returns the kind of the owner.
    pub fn scope(&self) -> Scope {
        match self {
            AttributeOwner::Graph | AttributeOwner::Subgraph => Scope::Graph,
            AttributeOwner::NodeDefaults | AttributeOwner::Node(_) => Scope::Node,
            AttributeOwner::EdgeDefaults | AttributeOwner::Edge(_) => Scope::Edge,
        }
    }
}

/// The syntax that a [`Cursor`] is in.
///
/// ```
/// use orchestra_graph::{Cursor, Source, SyntaxContext};
/// let context = |text: &str| Cursor::new(&Source::new("a.dot", text), text.len() as u32).context;
/// assert_eq!(context("digraph { sta"), SyntaxContext::Statement { nested: false });
/// assert!(matches!(context("digraph { start -> "), SyntaxContext::Target { from } if from.len() == 1));
/// assert_eq!(context("digraph { // sta"), SyntaxContext::Comment);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SyntaxContext {
    /// Outside of the braces of the graph.
    Outside,
    /// A comment.
    Comment,
    /// The begin of a statement: the id of a node, a keyword, or the key of an attribute of the graph.
    Statement {
        /// `true` inside a subgraph.
        nested: bool,
    },
    /// A node that an edge leads to.
    Target {
        /// The nodes of the chain so far.
        from: Vec<Identifier>,
    },
    /// The key of an attribute.
    Key {
        /// The owner of the attribute.
        owner: AttributeOwner,
        /// The other keys of the same list.
        set: Vec<SmolStr>,
    },
    /// The value of an attribute.
    Value {
        /// The owner of the attribute.
        owner: AttributeOwner,
        /// The key, as written.
        key: Identifier,
        /// The text between the begin of the value and the position, without quotes and escapes.
        before: String,
        /// `true` inside double quotes.
        quoted: bool,
    },
    /// A position at which nothing is named, such as between a key and its `=`.
    Other,
}

/// A position in a text, with the syntax that it is in.
///
/// ```
/// use orchestra_graph::{Cursor, Source, SyntaxContext};
/// let source = Source::new("a.dot", r#"digraph { start -> exit [condition="outcome=suc"#);
/// let cursor = Cursor::new(&source, source.text().len() as u32);
/// let SyntaxContext::Value { key, before, quoted, .. } = &cursor.context else { panic!("a value is typed") };
/// assert_eq!((&*key.text, before.as_str(), *quoted), ("condition", "outcome=suc", true));
/// assert_eq!(source.slice(cursor.word), "outcome=suc");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Cursor {
    /// The syntax.
    pub context: SyntaxContext,
    /// The name or value at the position, without quotes; empty if nothing is written there.
    pub word: Span,
}

impl Cursor {
    /// Finds the syntax around a byte offset. An offset beyond the end counts as the end.
    ///
    /// ```
    /// use orchestra_graph::{AttributeOwner, Cursor, Source, SyntaxContext};
    /// let source = Source::new("a.dot", "digraph { work [timeout=5m, retry_tar\n work -> exit }");
    /// let cursor = Cursor::new(&source, 37);
    /// let SyntaxContext::Key { owner: AttributeOwner::Node(id), set } = cursor.context else { panic!("a key") };
    /// assert_eq!((&*id.text, set[0].as_str(), source.slice(cursor.word)), ("work", "timeout", "retry_tar"));
    /// ```
    pub fn new(source: &Source, offset: u32) -> Cursor {
        let text = source.text();
        let mut at = (offset as usize).min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let offset = Span::from_offsets(at, at).start;
        let mut scanner = Scanner::new(text, offset);
        scanner.run()
    }
}

/// The state of a scan, between two tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first brace, or after the last one.
    Outside,
    /// A statement may begin.
    Start,
    /// After the keyword `subgraph`.
    SubgraphName,
    /// After a node or a keyword, or after its attribute list.
    Head,
    /// After `->`.
    Target,
    /// After the colon of a port.
    Port,
    /// After `key =` without a list.
    Assigned,
    /// In a list, where a key may begin.
    Key,
    /// In a list, after a key.
    AfterKey,
    /// In a list, after `key =`.
    Value,
    /// In a list, after a value.
    AfterValue,
}

impl State {
    fn is_in_list(self) -> bool {
        matches!(
            self,
            State::Key | State::AfterKey | State::Value | State::AfterValue
        )
    }
}

struct Scanner<'s> {
    text: &'s str,
    offset: u32,
    lexer: Lexer<'s>,
    ahead: Option<Token>,
    state: State,
    depth: usize,
    /// The nodes of the statement.
    nodes: Vec<Identifier>,
    /// The target of a block of defaults.
    defaults: Option<DefaultsTarget>,
    /// The key of the attribute.
    key: Option<Identifier>,
    /// The keys of the list.
    set: Vec<SmolStr>,
}

impl<'s> Scanner<'s> {
    fn new(text: &'s str, offset: u32) -> Scanner<'s> {
        Scanner {
            text,
            offset,
            lexer: Lexer::new(text),
            ahead: None,
            state: State::Outside,
            depth: 0,
            nodes: Vec::new(),
            defaults: None,
            key: None,
            set: Vec::new(),
        }
    }

    fn bump(&mut self) -> Token {
        match self.ahead.take() {
            Some(token) => token,
            None => self.lexer.next(),
        }
    }

    fn peek(&mut self) -> Token {
        match self.ahead {
            Some(token) => token,
            None => *self.ahead.insert(self.lexer.next()),
        }
    }

    fn slice(&self, span: Span) -> &'s str {
        self.text
            .get(span.start as usize..span.end as usize)
            .unwrap_or_default()
    }

    fn run(&mut self) -> Cursor {
        let mut behind = 0;
        loop {
            let token = self.bump();
            let is_ahead = token.kind == Kind::End || token.span.start >= self.offset;
            if is_ahead && self.is_in_comment() {
                return self.cursor(SyntaxContext::Comment, None);
            }
            if self.touches(token) {
                self.recover(token);
                return self.classify(Some(token));
            }
            if is_ahead {
                let gap = self.text.get(behind as usize..self.offset as usize);
                // A statement needs no semicolon at the end of its line.
                if self.state == State::Head && gap.is_some_and(|gap| gap.contains('\n')) {
                    self.begin();
                }
                // The keys after the position are those of the same list.
                self.ahead = Some(token);
                return self.classify(None);
            }
            if token.span.end > self.offset {
                return self.cursor(SyntaxContext::Other, None);
            }
            behind = token.span.end;
            self.recover(token);
            self.step(token);
        }
    }

    /// Returns whether the position is in a comment that the lexer has passed.
    fn is_in_comment(&self) -> bool {
        let around = self.lexer.comments.iter().rev().find(|comment| {
            let Span { start, end } = comment.span;
            start < self.offset && self.offset <= end
        });
        around.is_some_and(|comment| {
            let is_closed =
                self.slice(comment.span).starts_with("/*") && self.slice(comment.span).ends_with("*/");
            !is_closed || self.offset < comment.span.end
        })
    }

    /// Returns whether a token is the name or the value at the position.
    fn touches(&self, token: Token) -> bool {
        let Span { start, end } = token.span;
        match token.kind {
            Kind::Word => start <= self.offset && self.offset <= end,
            Kind::String => {
                start < self.offset && (self.offset < end || self.offset == end && !self.is_closed(token))
            }
            Kind::Html => start < self.offset && self.offset < end,
            _ => false,
        }
    }

    /// Returns whether a string ends with its closing quote. Only the last string of a text may not.
    fn is_closed(&self, token: Token) -> bool {
        let text = self.slice(token.span);
        let inner = text.strip_prefix('"').unwrap_or(text);
        let Some(inner) = inner.strip_suffix('"') else {
            return false;
        };
        let escapes = inner.bytes().rev().take_while(|byte| *byte == b'\\').count();
        escapes % 2 == 0
    }

    /// Leaves a list or a statement that ends before a token, as the parser does.
    fn recover(&mut self, token: Token) {
        let is_name = matches!(token.kind, Kind::Word | Kind::String);
        if !is_name {
            return;
        }
        let state = self.state;
        match state {
            State::Head => self.begin(),
            State::Key | State::AfterKey | State::AfterValue if token.first => {
                if matches!(self.peek().kind, Kind::Arrow | Kind::LeftBracket) {
                    self.begin();
                }
            }
            State::Value if token.first && token.kind == Kind::Word && self.peek().kind == Kind::Equals => {
                self.state = State::Key;
            }
            _ => {}
        }
    }

    /// Begins a statement.
    fn begin(&mut self) {
        self.nodes.clear();
        self.set.clear();
        self.defaults = None;
        self.key = None;
        self.state = if self.depth == 0 {
            State::Outside
        } else {
            State::Start
        };
    }

    fn step(&mut self, token: Token) {
        match (token.kind, self.state) {
            (Kind::LeftBrace, state) if !state.is_in_list() => {
                self.depth += 1;
                self.begin();
            }
            (Kind::RightBrace, _) => {
                self.depth = self.depth.saturating_sub(1);
                self.begin();
            }
            (_, State::Outside) => {}
            (Kind::LeftBracket, _) => self.state = State::Key,
            (Kind::RightBracket, state) if state.is_in_list() => self.state = State::Head,
            (Kind::Comma | Kind::Semicolon, state) if state.is_in_list() => self.state = State::Key,
            (Kind::Comma | Kind::Semicolon, _) => self.begin(),
            (Kind::Arrow | Kind::DoubleDash, state) => {
                if state.is_in_list() {
                    self.begin();
                }
                self.state = State::Target;
            }
            (Kind::Equals, State::AfterKey) => {
                self.set.extend(self.key.as_ref().map(|key| key.text.clone()));
                self.state = State::Value;
            }
            (Kind::Equals, State::Head) if self.nodes.len() == 1 => {
                self.key = self.nodes.pop();
                self.state = State::Assigned;
            }
            (Kind::Colon, State::Head) => self.state = State::Port,
            (Kind::Word | Kind::String | Kind::Html, _) => self.name(token),
            _ => {}
        }
    }

    /// Reads a name or a value.
    fn name(&mut self, token: Token) {
        let name = self.identifier(token);
        match self.state {
            State::Key | State::AfterKey | State::AfterValue => {
                self.key = Some(name);
                self.state = State::AfterKey;
            }
            State::Value => self.state = State::AfterValue,
            State::Assigned => self.begin(),
            State::Target => {
                self.nodes.push(name);
                self.state = State::Head;
            }
            State::Port | State::SubgraphName => self.state = State::Head,
            State::Start | State::Head => {
                self.begin();
                self.state = State::Head;
                let keyword = name.text.to_ascii_lowercase();
                match keyword.as_str() {
                    _ if token.kind != Kind::Word => self.nodes.push(name),
                    "subgraph" => self.state = State::SubgraphName,
                    "graph" => self.defaults = Some(DefaultsTarget::Graph),
                    "node" => self.defaults = Some(DefaultsTarget::Node),
                    "edge" => self.defaults = Some(DefaultsTarget::Edge),
                    _ => self.nodes.push(name),
                }
            }
            State::Outside => {}
        }
    }

    fn identifier(&self, token: Token) -> Identifier {
        let text = self.slice(token.span);
        let text = match token.kind {
            Kind::String => SmolStr::new(decode(text, token.span.start).0),
            // The parser drops ports. No key or value is a name before a colon.
            _ => match text.split_once(':') {
                Some((node, _)) if is_identifier(node) => SmolStr::new(node),
                _ => SmolStr::new(text),
            },
        };
        Identifier {
            text,
            span: token.span,
        }
    }

    fn owner(&self) -> AttributeOwner {
        match (self.defaults, self.nodes.as_slice()) {
            (Some(DefaultsTarget::Node), _) => AttributeOwner::NodeDefaults,
            (Some(DefaultsTarget::Edge), _) => AttributeOwner::EdgeDefaults,
            (Some(DefaultsTarget::Graph), _) | (None, []) if self.depth <= 1 => AttributeOwner::Graph,
            (Some(DefaultsTarget::Graph), _) | (None, []) => AttributeOwner::Subgraph,
            (None, [node]) => AttributeOwner::Node(node.clone()),
            (None, nodes) => AttributeOwner::Edge(nodes.to_vec()),
        }
    }

    /// Returns the cursor at a token, or between two.
    fn classify(&mut self, token: Option<Token>) -> Cursor {
        if token.is_some_and(|token| token.kind == Kind::Html) {
            return self.cursor(SyntaxContext::Other, None);
        }
        let context = match self.state {
            State::Outside => SyntaxContext::Outside,
            State::Start => SyntaxContext::Statement {
                nested: self.depth > 1,
            },
            State::Target => SyntaxContext::Target {
                from: self.nodes.clone(),
            },
            State::Value | State::Assigned => match self.key.clone() {
                Some(key) => {
                    let owner = self.owner();
                    let quoted = token.is_some_and(|token| token.kind == Kind::String);
                    let before = self.text_before(token);
                    SyntaxContext::Value {
                        owner,
                        key,
                        before,
                        quoted,
                    }
                }
                None => SyntaxContext::Other,
            },
            State::Key | State::AfterValue => self.key_context(),
            State::AfterKey if token.is_some() => self.key_context(),
            State::AfterKey | State::Head | State::Port | State::SubgraphName => SyntaxContext::Other,
        };
        self.cursor(context, token)
    }

    fn key_context(&mut self) -> SyntaxContext {
        let owner = self.owner();
        let mut set = std::mem::take(&mut self.set);
        let mut last = None;
        loop {
            let token = self.bump();
            match token.kind {
                Kind::Word | Kind::String
                    if token.first && matches!(self.peek().kind, Kind::Arrow | Kind::LeftBracket) =>
                {
                    break;
                }
                Kind::Word | Kind::String => last = Some(token),
                Kind::Equals => set.extend(last.take().map(|token| self.identifier(token).text)),
                Kind::Comma | Kind::Semicolon | Kind::Html => last = None,
                _ => break,
            }
        }
        SyntaxContext::Key { owner, set }
    }

    /// Returns the text of a value before the position, without its quote and its escapes.
    fn text_before(&self, token: Option<Token>) -> String {
        let Some(token) = token else {
            return String::new();
        };
        let before = self.slice(Span::new(token.span.start, self.offset));
        match token.kind {
            Kind::String => decode(&format!("{before}\""), token.span.start).0.into_owned(),
            _ => before.to_owned(),
        }
    }

    fn cursor(&self, context: SyntaxContext, token: Option<Token>) -> Cursor {
        let word = match token {
            Some(token) if token.kind == Kind::String => {
                let end = token.span.end - u32::from(self.is_closed(token));
                Span::new(token.span.start + 1, end.max(self.offset))
            }
            Some(token) => token.span,
            None => Span::new(self.offset, self.offset),
        };
        Cursor { context, word }
    }
}
