//! Diagnostics as text in the style of rustc.

use annotate_snippets::renderer::{DecorStyle, Renderer};
use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Snippet};

use super::clip::clip;
use super::{Positions, SLOT, readable};
use crate::diagnostic::{Diagnostic, Report};
use crate::severity::Severity;
use crate::text::{Position, Source, Span};

/// The style of a rendered diagnostic.
///
/// ```
/// use orchestra_graph::render::{Style, text};
/// use orchestra_graph::{Source, load};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> exit"), &Default::default());
/// assert!(text(&loaded.report, Style::Coloured).contains('\u{1b}'));
/// assert!(!text(&loaded.report, Style::Plain).contains('\u{1b}'));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// No colours; for `compile_error!`, files and pipes.
    #[default]
    Plain,
    /// ANSI colours; for terminals.
    Coloured,
}

/// Returns all diagnostics of a report as text, each followed by an empty line.
///
/// ```
/// use orchestra_graph::{LoadOptions, Source, load, render};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> exit"), &LoadOptions::default());
/// let text = render::text(&loaded.report, render::Style::Plain);
/// assert!(text.starts_with("error[unterminated_block]: "));
/// assert!(text.contains("--> a.dot:1:11"));
/// ```
pub fn text(report: &Report, style: Style) -> String {
    let mut positions = Positions::new(&report.source);
    let mut text = String::new();
    for diagnostic in &report.diagnostics {
        text.push_str(&rendered(&mut positions, diagnostic, style));
        text.push_str("\n\n");
    }
    text
}

/// Returns one diagnostic as text, without a line end.
///
/// ```
/// use orchestra_graph::{Diagnostic, Source, Span, render};
/// let diagnostic = Diagnostic::warning("demo", "this is odd", Span::new(8, 9)).label("here");
/// let source = Source::new("a.dot", "digraph a {}");
/// let text = render::text_one(&source, &diagnostic, render::Style::Plain);
/// assert!(text.contains("^ here"));
/// ```
pub fn text_one(source: &Source, diagnostic: &Diagnostic, style: Style) -> String {
    rendered(&mut Positions::new(source), diagnostic, style)
}

/// Returns all diagnostics of a report, one per line, as `file:line:column: severity[code]: message`.
///
/// ```
/// use orchestra_graph::{LoadOptions, Source, load, render};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> exit"), &LoadOptions::default());
/// assert!(render::concise(&loaded.report).starts_with("a.dot:1:11: error[unterminated_block]: "));
/// ```
pub fn concise(report: &Report) -> String {
    let mut positions = Positions::new(&report.source);
    let mut text = String::new();
    for diagnostic in &report.diagnostics {
        text.push_str(&concise_line(&mut positions, diagnostic));
        text.push('\n');
    }
    text
}

/// Returns one diagnostic in the format of [`concise`], without a line end.
///
/// ```
/// use orchestra_graph::{Diagnostic, Source, Span, render};
/// let diagnostic = Diagnostic::warning("demo", "this is odd", Span::new(8, 9));
/// let line = render::concise_one(&Source::new("a.dot", "digraph a {}"), &diagnostic);
/// assert_eq!(line, "a.dot:1:9: warning[demo]: this is odd");
/// ```
pub fn concise_one(source: &Source, diagnostic: &Diagnostic) -> String {
    concise_line(&mut Positions::new(source), diagnostic)
}

fn concise_line(positions: &mut Positions<'_>, diagnostic: &Diagnostic) -> String {
    let position = positions.position(diagnostic.span.start);
    format!(
        "{}:{}:{}: {}[{}]: {}",
        readable(positions.source.name(), false),
        position.line,
        position.column,
        diagnostic.severity.word(),
        diagnostic.code,
        readable(&diagnostic.message, false),
    )
}

/// A marked range of one line with its label.
struct Mark {
    line: u32,
    /// The byte range of the line in the source.
    bytes: std::ops::Range<usize>,
    /// The marked byte range in the line.
    range: std::ops::Range<usize>,
    kind: AnnotationKind,
    label: String,
}

/// Maximum distance in lines of locations that share one snippet of the source, in which the lines between are omitted.
const NEAR: u32 = 100;

fn rendered(positions: &mut Positions<'_>, diagnostic: &Diagnostic, style: Style) -> String {
    let source = positions.source;
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Info => Level::NOTE,
    };
    let primary = mark(
        source,
        diagnostic.span,
        AnnotationKind::Primary,
        &diagnostic.label,
    );
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for related in &diagnostic.related {
        let mark = mark(source, related.span, AnnotationKind::Context, &related.label);
        if mark.line.abs_diff(primary.line) <= NEAR {
            near.push(mark)
        } else {
            far.push((mark, related.span))
        }
    }
    let start = positions.position(diagnostic.span.start);
    near.push(primary);
    let mut group: Group<'_> = level
        .primary_title(readable(&diagnostic.message, true))
        .id(diagnostic.code)
        .element(snippet(source, near).path(slot(0)));
    let mut locations = vec![start];
    for (mut mark, span) in far {
        // In a snippet of its own the location needs a caret and its label.
        mark.kind = AnnotationKind::Primary;
        group = group.element(snippet(source, vec![mark]).path(slot(locations.len())));
        locations.push(positions.position(span.start));
    }
    for note in &diagnostic.notes {
        group = group.element(Level::NOTE.message(readable(note, true)));
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(readable(help, true)));
    }
    let renderer = match style {
        Style::Plain => Renderer::plain(),
        Style::Coloured => Renderer::styled(),
    };
    let text = renderer
        .decor_style(DecorStyle::Ascii)
        .term_width(usize::from(u16::MAX))
        .render(&[group]);
    located(&text, &readable(source.name(), false), &locations)
}

/// Returns the placeholder for a location. The columns of a clipped line are not those of the file.
fn slot(index: usize) -> String {
    format!("{SLOT}{index}")
}

/// Replaces the placeholders with the locations.
fn located(text: &str, name: &str, locations: &[Position]) -> String {
    let mut parts = text.split(SLOT);
    let mut located = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let length = part
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || *byte == b':')
            .count();
        let (range, rest) = part.split_at(length);
        let index = range.split(':').next().and_then(|index| index.parse().ok());
        if let Some(position) = index.and_then(|index: usize| locations.get(index)) {
            located.push_str(&format!("{name}:{}:{}", position.line, position.column));
        }
        located.push_str(rest);
    }
    located
}

/// Maps a span to its first line.
fn mark(source: &Source, span: Span, kind: AnnotationKind, label: &str) -> Mark {
    let text = source.text();
    let start = span.start.min(text.len() as u32);
    let (line, bytes) = source.line_around(start);
    let inside = |offset: u32| {
        let mut at = (offset as usize).clamp(bytes.start, bytes.end);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at - bytes.start
    };
    let from = inside(start);
    Mark {
        line,
        range: from..inside(span.end).max(from),
        bytes,
        kind,
        label: readable(label.trim_end(), false),
    }
}

/// Builds the snippet of the marked lines. The lines between are empty and get folded.
fn snippet(source: &Source, mut marks: Vec<Mark>) -> Snippet<'static, Annotation<'static>> {
    marks.sort_by_key(|mark| mark.line);
    let first = marks.first().map_or(1, |mark| mark.line);
    let mut text = String::new();
    let mut annotations = Vec::new();
    let mut line = first;
    let mut rest = marks.as_slice();
    while let Some(next) = rest.first() {
        while line < next.line {
            // A gap of one line is not folded, so it needs its text.
            text.push_str(&clip(source.line(line), &[]).text);
            text.push('\n');
            line += 1;
        }
        let count = rest.iter().take_while(|mark| mark.line == line).count();
        let (here, later) = rest.split_at(count);
        let positions: Vec<_> = here.iter().map(|mark| mark.range.clone()).collect();
        let clipped = clip(
            source.text().get(next.bytes.clone()).unwrap_or_default(),
            &positions,
        );
        for (mark, range) in here.iter().zip(clipped.positions) {
            let span = text.len() + range.start..text.len() + range.end;
            let annotation = mark.kind.span(span);
            annotations.push(if mark.label.is_empty() {
                annotation
            } else {
                annotation.label(mark.label.clone())
            });
        }
        text.push_str(&clipped.text);
        rest = later;
        if !rest.is_empty() {
            text.push('\n');
            line += 1;
        }
    }
    Snippet::source(text)
        .line_start(first as usize)
        .fold(true)
        .annotations(annotations)
}
