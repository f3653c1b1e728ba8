//! The text of Rust tokens, restored so that one lexer reads both forms of a pipeline.

use proc_macro2::{Delimiter, LineColumn, Literal, Span, TokenStream, TokenTree};

/// The text of inline tokens, and the token of each part of it.
pub(crate) struct Inline {
    /// The text, padded with as many lines and blanks as precede the first token in its file.
    pub(crate) text: String,
    /// The offset at which the pipeline itself begins in the text.
    pub(crate) start: usize,
    /// The tokens, in order of their positions in the text.
    tokens: Vec<TokenSpan>,
}

struct TokenSpan {
    start: u32,
    end: u32,
    span: Span,
}

/// Groups nested deeper are omitted; the limit of the pipeline language is far lower.
const MAX_DEPTH: usize = 2_000;

impl Inline {
    pub(crate) fn new(tokens: TokenStream) -> Inline {
        let mut writer = Writer {
            text: String::new(),
            tokens: Vec::new(),
            column: 0,
            line: 1,
            previous: None,
            joint: false,
        };
        writer.stream(tokens);
        let start = writer.tokens.first().map_or(0, |token| token.start as usize);
        Inline {
            text: writer.text,
            start,
            tokens: writer.tokens,
        }
    }

    /// Returns the first and the last token that overlap a range of the text, or the token before an empty range.
    pub(crate) fn spans(&self, start: u32, end: u32) -> (Span, Span) {
        let first = self.tokens.partition_point(|token| token.end <= start);
        let last = self
            .tokens
            .partition_point(|token| token.start < end.max(start + 1));
        let at = |index: usize| self.tokens.get(index).map(|token| token.span);
        let touched = |index: usize| self.tokens.get(index).is_some_and(|token| token.start <= start);
        let first = if touched(first) || first + 1 < last {
            first
        } else {
            first.saturating_sub(1)
        };
        let last = last.saturating_sub(1).max(first);
        let open = at(first).or_else(|| self.tokens.last().map(|token| token.span));
        let open = open.unwrap_or_else(Span::call_site);
        (open, at(last).unwrap_or(open))
    }
}

struct Writer {
    text: String,
    tokens: Vec<TokenSpan>,
    line: usize,
    column: usize,
    /// The end of the previous token and the file that it is in.
    previous: Option<(LineColumn, String)>,
    /// `true` if the previous token is a mark that another mark follows immediately.
    joint: bool,
}

impl Writer {
    /// Writes a stream without recursion, so that no nesting can exhaust the stack.
    fn stream(&mut self, tokens: TokenStream) {
        let mut open: Vec<(proc_macro2::token_stream::IntoIter, Option<(char, Span)>)> =
            vec![(tokens.into_iter(), None)];
        while let Some((tokens, close)) = open.last_mut() {
            let Some(token) = tokens.next() else {
                if let Some((character, span)) = close.take() {
                    self.token(&character.to_string(), span);
                }
                open.pop();
                continue;
            };
            match token {
                TokenTree::Group(group) => {
                    let (left, right) = match group.delimiter() {
                        Delimiter::Brace => ('{', '}'),
                        Delimiter::Bracket => ('[', ']'),
                        Delimiter::Parenthesis => ('(', ')'),
                        Delimiter::None => {
                            open.push((group.stream().into_iter(), None));
                            continue;
                        }
                    };
                    self.token(&left.to_string(), group.span_open());
                    if open.len() < MAX_DEPTH {
                        open.push((group.stream().into_iter(), Some((right, group.span_close()))));
                    }
                }
                TokenTree::Punct(punct) if punct.as_char() == '#' && is_doc(punct.span()) => {
                    // A Rust doc comment is also a comment of the pipeline; its bracket follows.
                    tokens.next();
                }
                TokenTree::Punct(punct) => {
                    self.token(&punct.as_char().to_string(), punct.span());
                    self.joint = punct.spacing() == proc_macro2::Spacing::Joint;
                }
                TokenTree::Ident(ident) => {
                    let text = ident.to_string();
                    self.token(text.strip_prefix("r#").unwrap_or(&text), ident.span());
                }
                TokenTree::Literal(literal) => self.token(&literal_text(&literal), literal.span()),
            }
        }
    }

    fn token(&mut self, text: &str, span: Span) {
        let (start, end) = (span.start(), span.end());
        let file = span.file();
        self.space(start, &file);
        let from = self.text.len();
        self.push(text);
        self.tokens.push(TokenSpan {
            start: from as u32,
            end: self.text.len() as u32,
            span,
        });
        self.previous = Some((end, file));
        self.joint = false;
    }

    /// Writes the whitespace between the previous token and one that begins here.
    fn space(&mut self, start: LineColumn, file: &str) {
        let Some((previous, known)) = self
            .previous
            .as_ref()
            .map(|(previous, before)| (*previous, before == file))
        else {
            // Add the lines above the first token, so that positions are those of the file.
            self.advance(start);
            return;
        };
        // Tokens that a macro combined have unrelated positions, and an editor may report that every token ends at the
        // start of its file.
        let known = known && previous.line > 0 && (previous.line, previous.column) != (1, 0);
        let follows = known && (start.line, start.column) >= (previous.line, previous.column);
        if !follows {
            if !self.joint {
                self.push(" ");
            }
            return;
        }
        if start == previous {
            return;
        }
        let before = self.text.len();
        self.advance(start);
        if self.text.len() == before {
            self.push(if start.line > previous.line { "\n" } else { " " });
        }
    }

    /// Writes line breaks and blanks up to a position. Writes nothing if the position has been passed.
    fn advance(&mut self, to: LineColumn) {
        const MAX_POSITION: usize = 1 << 20;
        if to.line > MAX_POSITION || to.column > MAX_POSITION {
            return;
        }
        while self.line < to.line {
            self.push("\n");
        }
        if self.line == to.line && self.column < to.column {
            let blanks = " ".repeat(to.column - self.column);
            self.push(&blanks);
        }
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        match text.rsplit_once('\n') {
            Some((above, last)) => {
                self.line += above.matches('\n').count() + 1;
                self.column = last.chars().count();
            }
            None => self.column += text.chars().count(),
        }
    }
}

/// Returns whether a `#` is the beginning of a doc comment.
fn is_doc(span: Span) -> bool {
    span.source_text()
        .is_some_and(|text| text.starts_with("//") || text.starts_with("/*"))
}

/// Returns a literal in the syntax of the pipeline language; raw and byte strings become plain ones.
fn literal_text(literal: &Literal) -> String {
    let text = literal.to_string();
    let raw = ["r", "br", "cr"].iter().find_map(|prefix| {
        let rest = text.strip_prefix(prefix)?;
        let inner = rest.trim_start_matches('#');
        let marks = rest.len() - inner.len();
        inner
            .strip_prefix('"')?
            .strip_suffix(&format!("\"{}", "#".repeat(marks)))
    });
    if let Some(raw) = raw {
        return format!("\"{}\"", raw.replace('\\', "\\\\").replace('"', "\\\""));
    }
    for prefix in ["b\"", "c\""] {
        if let Some(rest) = text.strip_prefix(prefix) {
            return format!("\"{rest}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inline(text: &str) -> Inline {
        Inline::new(text.parse().expect("the text lexes"))
    }

    #[test]
    fn the_text_is_what_was_written() {
        let text =
            "digraph a {\n  # note\n  x [model=gpt-5.2, timeout=15m] // why\n  x -> y [condition=\"a=b\"]\n}";
        let expected = text.replace(" // why", "");
        assert_eq!(inline(text).text, expected);
    }

    #[test]
    fn raw_strings_become_plain_ones() {
        assert_eq!(inline(r###"r#"a "b" \d"#"###).text, r#""a \"b\" \\d""#);
    }

    #[test]
    fn a_range_of_the_text_leads_back_to_its_token() {
        let inline = inline("digraph a { one -> two }");
        let at = inline.text.find("two").expect("written") as u32;
        let (first, last) = inline.spans(at, at + 3);
        assert_eq!(first.start().column, at as usize);
        assert_eq!(last.end().column, at as usize + 3);
        let arrow = inline.text.find("->").expect("written") as u32;
        let (first, last) = inline.spans(arrow, arrow + 2);
        assert_eq!(
            (first.start().column, last.end().column),
            (arrow as usize, arrow as usize + 2)
        );
        let end = inline.text.len() as u32;
        assert_eq!(inline.spans(end, end).0.start().column, end as usize - 1);
    }
}
