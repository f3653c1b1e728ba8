//! The part of the parser for names, strings and attribute lists (rules L2, L4, L5).

use std::borrow::Cow;

use smol_str::SmolStr;

use crate::ast::{Attribute, Identifier};
use crate::diagnostic::Diagnostic;
use crate::syntax::lexer::{Kind, Token, decode};
use crate::syntax::parser::Parser;
use crate::syntax::rules;
use crate::syntax::words::{is_key, shorten};
use crate::text::Span;
use crate::value::Value;

impl<'s> Parser<'s> {
    /// Parses a word or string as a name. The current token must be one of these.
    pub(super) fn identifier(&mut self) -> Identifier {
        let token = self.bump();
        let text = match token.kind {
            Kind::String => SmolStr::new(self.decode(token)),
            _ => SmolStr::new(self.slice(token.span)),
        };
        self.concatenation();
        Identifier {
            text,
            span: token.span,
        }
    }

    pub(super) fn decode(&mut self, token: Token) -> Cow<'s, str> {
        let (text, unknown) = decode(self.slice(token.span), token.span.start);
        for span in unknown {
            let escape = shorten(self.slice(span));
            let diagnostic = Diagnostic::from_rule(
                &rules::UNKNOWN_ESCAPE,
                format!("`{escape}` is not an escape"),
                span,
            )
            .note("the escapes are `\\\"`, `\\n`, `\\t` and `\\\\`; anything else is kept as written")
            .help("write `\\\\` where a backslash is meant");
            self.diagnostic(diagnostic);
        }
        text
    }

    pub(super) fn concatenation(&mut self) {
        while self.at(Kind::Plus) {
            let start = self.bump().span;
            if matches!(self.token.kind, Kind::String | Kind::Word) {
                self.bump();
            }
            let span = Span::new(start.start, self.behind);
            self.diagnostic(
                Diagnostic::from_rule(
                    &rules::STRING_CONCATENATION,
                    "`+` does not join strings here",
                    span,
                )
                .note("a string may span several lines")
                .help("write one string"),
            );
        }
    }

    pub(super) fn attribute_lists(&mut self) -> Vec<Attribute> {
        while self.at(Kind::LeftBracket) {
            self.attribute_list();
        }
        self.attributes.drain(..).collect()
    }

    /// Parses a list and adds its attributes to those of the statement.
    fn attribute_list(&mut self) {
        let opening = self.bump().span;
        let mut warned = false;
        loop {
            match self.token.kind {
                Kind::RightBracket => {
                    self.bump();
                    return;
                }
                Kind::Comma => {
                    self.expected("an attribute", "remove the comma");
                    self.bump();
                    continue;
                }
                Kind::Word | Kind::String => {}
                Kind::End | Kind::RightBrace | Kind::Arrow | Kind::LeftBracket => {
                    self.unclosed_list(opening);
                    return;
                }
                _ => {
                    self.expected(
                        "an attribute",
                        "attributes are written `[key = value, key = value]`",
                    );
                    self.skip_in_list();
                    continue;
                }
            }
            if self.token.first && matches!(self.peek().kind, Kind::Arrow | Kind::LeftBracket) {
                self.unclosed_list(opening);
                return;
            }
            match self.attribute(true) {
                Some(attribute) => self.attributes.push(attribute),
                // The separator belongs to what was skipped.
                None if self.skip_in_list() => continue,
                None => {}
            }
            self.separator(&mut warned);
        }
    }

    /// Parses a separator (rule L2): `,` is canonical; `;` and white space are accepted with one warning per list.
    pub(super) fn separator(&mut self, warned: &mut bool) {
        let token = self.token;
        let (span, replacement, found) = match token.kind {
            Kind::Comma => {
                self.bump();
                return;
            }
            Kind::Semicolon => {
                self.bump();
                if self.at(Kind::RightBracket) {
                    return;
                }
                (token.span, ",", "`;`")
            }
            Kind::Word | Kind::String
                if !(token.first && matches!(self.peek().kind, Kind::Arrow | Kind::LeftBracket)) =>
            {
                (Span::new(self.behind, self.behind), ",", "white space")
            }
            _ => return,
        };
        if !std::mem::replace(warned, true) {
            let shown = if span.is_empty() { token.span } else { span };
            // What follows a string at once was probably meant as a part of it.
            let is_adjacent = span.is_empty() && span.start == token.span.start;
            let found = if is_adjacent { "nothing" } else { found };
            let diagnostic = Diagnostic::from_rule(
                &rules::ATTR_SEPARATOR,
                format!("attributes are separated by {found} instead of `,`"),
                shown,
            )
            .label("expected `,` before this");
            self.diagnostic(match is_adjacent {
                true => diagnostic.help("put a `,` between attributes; a quote inside a string is written `\\\"`, and names in conditions and assertions may have single quotes"),
                false => diagnostic
                    .help("put a `,` between attributes; `orchestra fmt` does it for the whole file")
                    .fix(span, replacement),
            });
        }
    }

    pub(super) fn unclosed_list(&mut self, opening: Span) {
        if self
            .lexer
            .diagnostics
            .iter()
            .any(|diagnostic| diagnostic.code == rules::UNTERMINATED_STRING.code)
        {
            return;
        }
        self.diagnostic(
            Diagnostic::from_rule(
                &rules::UNTERMINATED_BLOCK,
                "the `[` of this attribute list is never closed",
                opening,
            )
            .label("opened here")
            .help("add a `]`"),
        );
    }

    /// Skips to the next position in a list where an attribute may begin. Returns whether it is behind a separator.
    pub(super) fn skip_in_list(&mut self) -> bool {
        loop {
            match self.token.kind {
                Kind::RightBracket | Kind::RightBrace | Kind::End => return false,
                Kind::Comma | Kind::Semicolon => {
                    self.bump();
                    return true;
                }
                Kind::Word if self.token.first => return false,
                _ => {}
            }
            self.bump();
        }
    }

    pub(super) fn attribute(&mut self, in_list: bool) -> Option<Attribute> {
        let key = self.identifier();
        if !is_key(&key.text) {
            let diagnostic = Diagnostic::from_rule(
                &rules::SYNTAX_ERROR,
                format!("`{}` is not an attribute key", shorten(&key.text)),
                key.span,
            )
            .help("a key is made of letters, digits and `_`, in parts joined by dots, such as `human.default_choice`");
            self.diagnostic(diagnostic);
            if !self.at(Kind::Equals) {
                return None;
            }
        }
        if self.eat(Kind::Equals).is_none() {
            let name = shorten(&key.text);
            self.expected(
                &format!("`=` after `{name}`"),
                &format!("write `{name}=value`; a flag is written `{name}=true`"),
            );
            return None;
        }
        let token = self.token;
        let on_next_line = in_list && token.first && self.peek().kind == Kind::Equals;
        if !on_next_line && let Some(value) = self.unquoted(&key, in_list) {
            return value;
        }
        let value = match token.kind {
            Kind::Word if !on_next_line => {
                self.bump();
                let value = Value::of_word(self.slice(token.span));
                self.concatenation();
                value
            }
            Kind::String => {
                self.bump();
                let text = self.decode(token);
                self.concatenation();
                Value::String(text.into())
            }
            Kind::Html => {
                let diagnostic = self.html_label(token);
                self.diagnostic(diagnostic);
                self.bump();
                Value::String("".into())
            }
            _ => {
                self.expected(
                    &format!("a value for `{}`", shorten(&key.text)),
                    "a value is a word, a number, a duration such as `15m`, or text in double quotes",
                );
                return None;
            }
        };
        let quoted = token.kind == Kind::String;
        Some(Attribute {
            key,
            value,
            value_span: token.span,
            quoted,
        })
    }
}
