//! The parser: tokens to a syntax tree. Parsing always returns a tree and a list of diagnostics (rules L1-L5, L10).

use crate::ast::{Attribute, File};
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::syntax::lexer::{Kind, Lexer, Token};
use crate::syntax::rules;
use crate::syntax::strings::unterminated;
use crate::syntax::words::shorten;
use crate::text::{Source, Span};

/// The limits on the size of a pipeline (rule L10).
///
/// ```
/// use orchestra_graph::{Limits, LoadOptions, Source, load};
/// let limits = Limits { bytes: 20, ..Limits::default() };
/// let options = LoadOptions { limits, ..LoadOptions::default() };
/// let report = load(Source::new("a.dot", "digraph { start -> exit }"), &options).report;
/// assert_eq!(report.diagnostics[0].code, "size_limit");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of a text in bytes; 16 MiB by default.
    pub bytes: usize,
    /// Maximum nesting depth of subgraphs; 256 by default, and never more than 1,000.
    pub nesting: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bytes: 16 << 20,
            nesting: 256,
        }
    }
}

/// The result of parsing: the text, the tree and the diagnostics.
///
/// ```
/// use orchestra_graph::{Limits, Source, parse};
/// let parsed = parse(&Source::new("a.dot", "digraph a { start -- work; work -> exit }"), &Limits::default());
/// assert_eq!(parsed.diagnostics[0].code, "undirected_edge");
/// assert_eq!(parsed.file.statements.len(), 2, "what was understood is there all the same");
/// ```
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The text that the spans refer to.
    pub source: Source,
    /// The tree of everything that was understood.
    pub file: File,
    /// The diagnostics, in no particular order.
    pub diagnostics: Vec<Diagnostic>,
}

const MAX_REPORTED: usize = 1_000;
const MAX_NESTING: usize = 1_000;
pub(super) const DOT_SUBSET: &str =
    "a pipeline is one `digraph NAME { .. }` whose edges are written `->` (Attractor 2.3)";

/// Parses a text.
///
/// ```
/// use orchestra_graph::{Limits, Source, parse};
/// let parsed = parse(&Source::new("a.dot", "digraph a { start -> exit }"), &Limits::default());
/// assert!(parsed.diagnostics.is_empty());
/// assert_eq!(parsed.file.statements.len(), 1);
/// ```
pub fn parse(source: &Source, limits: &Limits) -> Parsed {
    let length = source.text().len();
    if length > limits.bytes.min(u32::MAX as usize - 1) {
        let diagnostic = Diagnostic::from_rule(
            &rules::SIZE_LIMIT,
            format!("the file has {length} bytes; the limit is {}", limits.bytes),
            Span::default(),
        )
        .note("the limit keeps a damaged or hostile file from using up the machine")
        .help("split the pipeline into sub-pipelines, or raise the limit in code");
        return Parsed {
            source: source.clone(),
            file: File::default(),
            diagnostics: vec![diagnostic],
        };
    }
    let mut parser = Parser::new(source.text(), limits.nesting.min(MAX_NESTING));
    let mut file = parser.file();
    file.comments = std::mem::take(&mut parser.lexer.comments);
    parser.forgotten_quote();
    let mut diagnostics = parser.diagnostics;
    // After an unclosed string, or after the position where its quote was probably lost, no other error is reliable.
    if let Some(open) = parser
        .lexer
        .diagnostics
        .iter()
        .find(|diagnostic| diagnostic.code == rules::UNTERMINATED_STRING.code)
    {
        let lost = open.span.start;
        let swallowed = rules::UNTERMINATED_BLOCK.code;
        diagnostics.retain(|diagnostic| diagnostic.span.start < lost && diagnostic.code != swallowed);
    }
    diagnostics.append(&mut parser.lexer.diagnostics);
    diagnostics.extend(reversing_characters(source.text()));
    Parsed {
        source: source.clone(),
        file,
        diagnostics,
    }
}

/// Reports the characters that make the text after them look like another.
fn reversing_characters(text: &str) -> impl Iterator<Item = Diagnostic> {
    // Of most pipelines, this takes only the first test.
    let text = if text.is_ascii() { "" } else { text };
    let is_reversing = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let found = text.char_indices().filter(move |(_, c)| is_reversing(*c));
    found.take(MAX_REPORTED).map(|(at, c)| {
        Diagnostic::from_rule(
            &rules::TEXT_DIRECTION,
            format!("U+{:04X} reverses the text after it", u32::from(c)),
            Span::from_offsets(at, at + c.len_utf8()),
        )
        .label("the text does not run as it is shown")
        .note("a command, a condition or a label can look like another one")
        .help("remove the character; text from right to left needs none")
    })
}

/// Parses bytes that may not be text. An error reports the first byte that is not UTF-8.
///
/// ```
/// use orchestra_graph::{Limits, parse_bytes};
/// let parsed = parse_bytes("a.dot", b"digraph a { \xff }", &Limits::default());
/// assert_eq!(parsed.diagnostics[0].code, "invalid_utf8");
/// ```
pub fn parse_bytes(name: &str, bytes: &[u8], limits: &Limits) -> Parsed {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(&Source::new(name, text), limits),
        Err(error) => {
            let at = error.valid_up_to();
            let source = Source::new(name, String::from_utf8_lossy(bytes));
            let diagnostic = Diagnostic::from_rule(
                &rules::INVALID_UTF8,
                "the file is not valid UTF-8",
                Span::from_offsets(at, at + 3),
            )
            .label(format!("byte {at} does not belong to any character"))
            .help("save the file as UTF-8");
            Parsed {
                source,
                file: File::default(),
                diagnostics: vec![diagnostic],
            }
        }
    }
}

/// The state of the parser: its position in the tokens, the nesting, and the diagnostics so far.
pub(super) struct Parser<'s> {
    pub(super) text: &'s str,
    pub(super) lexer: Lexer<'s>,
    pub(super) token: Token,
    pub(super) ahead: Option<Token>,
    /// The end of the previous token, where a missing token is reported.
    pub(super) behind: u32,
    pub(super) depth: usize,
    pub(super) nesting: usize,
    pub(super) undirected: bool,
    /// The attributes of the statement that is being parsed, so that the list of each statement has its exact size.
    pub(super) attributes: Vec<Attribute>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl<'s> Parser<'s> {
    pub(super) fn new(text: &'s str, nesting: usize) -> Parser<'s> {
        let mut lexer = Lexer::new(text);
        let token = lexer.next();
        let diagnostics = Vec::new();
        Parser {
            text,
            lexer,
            token,
            ahead: None,
            behind: 0,
            depth: 0,
            nesting,
            undirected: false,
            attributes: Vec::new(),
            diagnostics,
        }
    }

    pub(super) fn bump(&mut self) -> Token {
        let next = match self.ahead.take() {
            Some(token) => token,
            None => self.lexer.next(),
        };
        self.behind = self.token.span.end;
        std::mem::replace(&mut self.token, next)
    }

    pub(super) fn peek(&mut self) -> Token {
        match self.ahead {
            Some(token) => token,
            None => *self.ahead.insert(self.lexer.next()),
        }
    }

    pub(super) fn at(&self, kind: Kind) -> bool {
        self.token.kind == kind
    }

    pub(super) fn eat(&mut self, kind: Kind) -> Option<Token> {
        self.at(kind).then(|| self.bump())
    }

    pub(super) fn slice(&self, span: Span) -> &'s str {
        self.text
            .get(span.start as usize..span.end as usize)
            .unwrap_or_default()
    }

    pub(super) fn at_word(&self, word: &str) -> bool {
        self.at(Kind::Word) && self.slice(self.token.span).eq_ignore_ascii_case(word)
    }

    /// Returns whether the current token is a misspelt keyword that begins a graph.
    fn at_misspelt(&mut self, keyword: &str) -> bool {
        let word = self.slice(self.token.span).to_ascii_lowercase();
        self.at(Kind::Word)
            && did_you_mean(&word, [keyword]).is_some()
            && matches!(self.peek().kind, Kind::Word | Kind::String | Kind::LeftBrace)
    }

    pub(super) fn diagnostic(&mut self, diagnostic: Diagnostic) {
        match self.diagnostics.len() {
            0..MAX_REPORTED => self.diagnostics.push(diagnostic),
            MAX_REPORTED => self.diagnostics.push(Diagnostic::from_rule(
                &rules::SYNTAX_ERROR,
                format!("more than {MAX_REPORTED} errors; further ones are not reported"),
                diagnostic.span,
            )),
            _ => {}
        }
    }

    /// Reports that something else was expected at the current token.
    pub(super) fn expected(&mut self, what: &str, help: &str) {
        let token = self.token;
        let diagnostic = match token.kind {
            Kind::End => Diagnostic::from_rule(
                &rules::SYNTAX_ERROR,
                format!("expected {what}, found the end of the file"),
                token.span,
            ),
            Kind::Html => self.html_label(token),
            Kind::Unknown => self.invalid_character(token),
            _ => {
                let found = shorten(self.slice(token.span));
                Diagnostic::from_rule(
                    &rules::SYNTAX_ERROR,
                    format!("expected {what}, found `{found}`"),
                    token.span,
                )
                .label(format!("expected {what}"))
            }
        };
        let diagnostic = if diagnostic.help.is_none() && !help.is_empty() {
            diagnostic.help(help)
        } else {
            diagnostic
        };
        self.diagnostic(diagnostic);
    }

    pub(super) fn html_label(&self, token: Token) -> Diagnostic {
        Diagnostic::from_rule(
            &rules::HTML_LABEL,
            "HTML labels are not part of the pipeline language",
            token.span,
        )
        .note("values are typed: text, numbers, booleans and durations (Attractor 2.3)")
        .help("write the label as text in double quotes")
    }

    pub(super) fn invalid_character(&self, token: Token) -> Diagnostic {
        let text = self.slice(token.span);
        let character = text.chars().next().unwrap_or('\0');
        let shown = if character.is_control() {
            format!("U+{:04X}", character as u32)
        } else {
            format!("`{character}`")
        };
        if character == '>' {
            let before = self.text.get(..token.span.start as usize).unwrap_or_default();
            let arrow = if before.ends_with('=') { "=>" } else { ">" };
            let span = Span::new(token.span.end - arrow.len() as u32, token.span.end);
            let message = match arrow {
                ">" => "`>` alone is not an edge",
                _ => "`=>` is not an edge",
            };
            return Diagnostic::from_rule(&rules::INVALID_CHARACTER, message, span)
                .help("write `->`")
                .fix(span, "->");
        }
        Diagnostic::from_rule(
            &rules::INVALID_CHARACTER,
            format!("the character {shown} has no meaning here"),
            token.span,
        )
        .help("remove it, or put the text that holds it in double quotes")
    }

    pub(super) fn file(&mut self) -> File {
        let mut file = File::default();
        if self.at_word("strict") {
            let span = self.bump().span;
            let diagnostic = Diagnostic::from_rule(
                &rules::STRICT_GRAPH,
                "`strict` graphs are not part of the pipeline language",
                span,
            )
            .note("a pipeline may have several edges between the same nodes, with different conditions")
            .help("remove `strict`")
            .fix(Span::new(span.start, self.token.span.start), "");
            self.diagnostic(diagnostic);
        }
        if self.at_word("digraph") {
            file.keyword = self.bump().span;
        } else if self.at_word("graph") {
            let span = self.bump().span;
            file.keyword = span;
            self.undirected = true;
            let diagnostic = Diagnostic::from_rule(
                &rules::UNDIRECTED_GRAPH,
                "undirected graphs are not pipelines",
                span,
            )
            .note(DOT_SUBSET)
            .help("write `digraph`")
            .fix(span, "digraph");
            self.diagnostic(diagnostic);
        } else if self.at_misspelt("digraph") {
            let span = self.bump().span;
            file.keyword = span;
            let found = shorten(self.slice(span));
            let diagnostic = Diagnostic::from_rule(
                &rules::SYNTAX_ERROR,
                format!("expected `digraph`, found `{found}`"),
                span,
            )
            .label("expected `digraph`")
            .help("did you mean `digraph`?")
            .fix(span, "digraph");
            self.diagnostic(diagnostic);
        } else {
            self.expected("`digraph`", DOT_SUBSET);
            self.skip_to_graph();
            if self.at(Kind::End) {
                return file;
            }
            file.keyword = Span::new(self.token.span.start, self.token.span.start);
            if self.at_word("digraph") {
                file.keyword = self.bump().span;
            }
        }
        if matches!(self.token.kind, Kind::Word | Kind::String) {
            file.name = Some(self.identifier());
        }
        let start = self.token.span;
        if self.eat(Kind::LeftBrace).is_none() {
            self.expected("`{`", DOT_SUBSET);
            return file;
        }
        file.statements = self.statements();
        file.body = self.close(start, "digraph");
        self.trailing();
        file
    }

    /// Reports a string whose closing quote was forgotten if another one is missing too, so that the last string of the
    /// text is closed. The parser then fails at the text that was meant as the next string.
    fn forgotten_quote(&mut self) {
        let is_reported = |diagnostic: &Diagnostic| diagnostic.code == rules::UNTERMINATED_STRING.code;
        let Some(string) = self
            .lexer
            .suspect
            .filter(|_| !self.lexer.diagnostics.iter().any(is_reported))
        else {
            return;
        };
        let next = self.text.get(string.end as usize..).unwrap_or_default();
        let next = string.end + (next.len() - next.trim_start().len()) as u32;
        let fails = |diagnostic: &Diagnostic| diagnostic.span.start >= next && diagnostic.is_error();
        if !self.diagnostics.iter().any(|found| found.span.start == next)
            || !self.diagnostics.iter().any(fails)
        {
            return;
        }
        let diagnostic = unterminated(self.text, string, true);
        if diagnostic.fix.is_some() {
            self.lexer.diagnostics.push(diagnostic);
        }
    }

    pub(super) fn skip_to_graph(&mut self) {
        while !self.at(Kind::End) && !self.at_word("digraph") && !self.at(Kind::LeftBrace) {
            self.bump();
        }
    }

    pub(super) fn trailing(&mut self) {
        if self.at(Kind::End) {
            return;
        }
        let span = self.token.span;
        if ["digraph", "graph", "strict"]
            .iter()
            .any(|word| self.at_word(word))
        {
            self.diagnostic(
                Diagnostic::from_rule(
                    &rules::SECOND_GRAPH,
                    "a file holds one graph, but a second one begins here",
                    span,
                )
                .note(DOT_SUBSET)
                .help("move the second graph to a file of its own"),
            );
        } else if self.at(Kind::RightBrace) {
            self.expected(
                "the end of the file",
                "this `}` closes nothing; remove it or look for a missing `{`",
            );
        } else {
            self.expected(
                "the end of the file",
                "move statements inside the braces of the graph",
            );
        }
    }

    /// Parses the closing brace of a block, or reports that it is missing. Returns the span of the block.
    pub(super) fn close(&mut self, opening: Span, what: &str) -> Span {
        if let Some(token) = self.eat(Kind::RightBrace) {
            return opening.to(token.span);
        }
        // An unterminated string or comment swallows the brace; a second report would not help.
        let swallowing = [rules::UNTERMINATED_STRING.code, rules::UNTERMINATED_COMMENT.code];
        let swallows = |diagnostic: &Diagnostic| swallowing.contains(&diagnostic.code);
        if !self.lexer.diagnostics.iter().any(swallows) {
            let diagnostic = Diagnostic::from_rule(
                &rules::UNTERMINATED_BLOCK,
                format!("the `{{` of this {what} is never closed"),
                opening,
            )
            .label("opened here")
            .help("add a `}`");
            self.diagnostic(diagnostic);
        }
        opening.to(Span::new(opening.start, self.behind))
    }
}

/// Derives an identifier from any text. The result is empty if no character can be used.
pub(crate) fn suggest_identifier(text: &str) -> String {
    let mut id = String::new();
    for character in text.chars().take(60) {
        if character.is_ascii_alphanumeric() || character == '_' {
            id.push(character);
        } else if !id.is_empty() && !id.ends_with('_') {
            id.push('_');
        }
    }
    let id = id.trim_end_matches('_');
    if id.starts_with(|c: char| c.is_ascii_digit()) {
        format!("n{id}")
    } else {
        id.to_owned()
    }
}
