//! Tests of rendered diagnostics, and that no text can break their layout.

use orchestra_graph::render::{self, Style};
use orchestra_graph::{Diagnostic, Report, Source, Span};

fn span_of(source: &str, word: &str) -> Span {
    let at = source.find(word).unwrap();
    Span::new(at as u32, (at + word.len()) as u32)
}

fn plain(text: &str, diagnostic: Diagnostic) -> String {
    render::text_one(&Source::new("flows/a.dot", text), &diagnostic, Style::Plain)
}

fn full(text: &str) -> Diagnostic {
    Diagnostic::error(
        "edge_target_exists",
        "edge points to unknown node `Buidl`",
        span_of(text, "Buidl"),
    )
    .label("no node has this id")
    .note("the node is never declared and leads nowhere")
    .help("did you mean `Build`?")
    .related(span_of(text, "Build"), "`Build` is declared here")
    .fix(span_of(text, "Buidl"), "Build")
    .edge("start", "Buidl")
}

const SMALL: &str = "digraph a {\n    Build [label=\"Build\"]\n\n    start -> Buidl\n    Build -> exit\n}\n";

#[test]
fn a_diagnostic_reads_like_one_of_rustc() {
    insta::assert_snapshot!(plain(SMALL, full(SMALL)), @r#"
error[edge_target_exists]: edge points to unknown node `Buidl`
 --> flows/a.dot:4:14
  |
2 |     Build [label="Build"]
  |     ----- `Build` is declared here
3 |
4 |     start -> Buidl
  |              ^^^^^ no node has this id
  |
  = note: the node is never declared and leads nowhere
  = help: did you mean `Build`?
"#);
}

#[test]
fn places_far_apart_get_a_picture_each() {
    let text = SMALL.replace("\n\n", &"\n".repeat(5_000));
    insta::assert_snapshot!(plain(&text, full(&text)), @r#"
error[edge_target_exists]: edge points to unknown node `Buidl`
    --> flows/a.dot:5002:14
     |
5002 |     start -> Buidl
     |              ^^^^^ no node has this id
     |
    ::: flows/a.dot:2:5
     |
   2 |     Build [label="Build"]
     |     ^^^^^ `Build` is declared here
     |
     = note: the node is never declared and leads nowhere
     = help: did you mean `Build`?
"#);
}

#[test]
fn a_terminal_gets_colours() {
    let text = render::text_one(&Source::new("a.dot", SMALL), &full(SMALL), Style::Coloured);
    assert!(text.contains("\u{1b}["));
    assert!(!plain(SMALL, full(SMALL)).contains('\u{1b}'));
}

#[test]
fn concise_is_one_line_each() {
    let report = Report::new(
        Source::new("a.dot", SMALL),
        vec![full(SMALL), Diagnostic::info("x", "two\nlines", Span::new(0, 0))],
    );
    insta::assert_snapshot!(render::concise(&report), @r#"
a.dot:1:1: note[x]: two\nlines
a.dot:4:14: error[edge_target_exists]: edge points to unknown node `Buidl`
"#);
}

#[test]
fn a_report_is_its_diagnostics_in_order() {
    let report = Report::new(
        Source::new("a.dot", "digraph a {}\n"),
        vec![
            Diagnostic::warning("second", "this comes second", Span::new(11, 12)),
            Diagnostic::error("first", "this comes first", Span::new(8, 9)),
        ],
    );
    insta::assert_snapshot!(render::text(&report, Style::Plain), @r#"
error[first]: this comes first
 --> a.dot:1:9
  |
1 | digraph a {}
  |         ^

warning[second]: this comes second
 --> a.dot:1:12
  |
1 | digraph a {}
  |            ^
"#);
}

#[test]
fn tabs_and_control_characters_are_shown_and_counted_once() {
    let text = "digraph a {\r\n\tx\0\u{7} [label=\u{202e}é]\r\n}\r\n";
    let diagnostic =
        Diagnostic::error("odd", "odd\u{1b}[31m character", span_of(text, "é")).label("here\r\n");
    insta::assert_snapshot!(plain(text, diagnostic), @r#"
error[odd]: odd␛[31m character
 --> flows/a.dot:2:14
  |
2 |     x␀␇ [label=�é]
  |                 ^ here
"#);
}

#[test]
fn the_end_of_the_file_and_empty_spans_have_a_caret() {
    let text = "digraph a {\n";
    let end = text.len() as u32;
    insta::assert_snapshot!(plain(text, Diagnostic::error("end", "expected `}`", Span::new(end, end))), @r#"
error[end]: expected `}`
 --> flows/a.dot:2:1
  |
2 |
  | ^
"#);
    insta::assert_snapshot!(plain("", Diagnostic::error("end", "nothing here", Span::new(0, 0))), @r#"
error[end]: nothing here
 --> flows/a.dot:1:1
  |
1 |
  | ^
"#);
}

#[test]
fn a_span_over_many_lines_shows_the_first() {
    let text = format!("digraph a {{\n    x [prompt=\"{}\"]\n}}", "line\n".repeat(500));
    let diagnostic =
        Diagnostic::error("long", "a long value", Span::new(26, text.len() as u32)).label("all of this");
    insta::assert_snapshot!(plain(&text, diagnostic), @r#"
error[long]: a long value
 --> flows/a.dot:2:15
  |
2 |     x [prompt="line
  |               ^^^^^ all of this
"#);
}

#[test]
fn a_file_of_one_endless_line_is_cut_around_the_caret() {
    let mut text = "a -> b; ".repeat(12 << 20);
    text.replace_range(64 << 20..(64 << 20) + 8, "é -> oh;");
    let at = (64 << 20) as u32;
    let source = Source::new("big.dot", text);
    let diagnostics: Vec<Diagnostic> = (0..500)
        .map(|more| {
            Diagnostic::error(
                "odd",
                "odd character",
                Span::new(at + more * 8, at + more * 8 + 2),
            )
            .related(Span::new(8, 12), "unlike this")
        })
        .collect();
    let report = Report::new(source, diagnostics);
    let begun = std::time::Instant::now();
    let rendered = render::text(&report, Style::Plain);
    assert!(
        rendered.contains("--> big.dot:1:67108865"),
        "{}",
        &rendered[..600]
    );
    assert!(rendered.len() < 500 * 1_500, "{}", rendered.len());
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
}

#[test]
fn no_span_and_no_text_can_break_it() {
    let texts = [
        "",
        "\n",
        "\r\n",
        "\r",
        "é",
        "\t\t\t",
        "a\n\n\nb",
        "\u{feff}x",
        "x\u{202e}\u{0}",
        "日本語 👩‍👩‍👧\nb",
        "x\n\r\n\r\ny\r",
        "\u{e000}0:1",
    ];
    for text in texts {
        let source = Source::new("\u{1b}odd\nname.dot", text);
        for start in 0..text.len() as u32 + 3 {
            for end in [0, start, start + 1, start + 2, text.len() as u32, u32::MAX] {
                let diagnostic = Diagnostic::error("c", "m", Span::new(start, end))
                    .label("l\n\u{0}")
                    .note("")
                    .help("h\nh")
                    .related(Span::new(end, start), "r")
                    .related(Span::new(start, end), "");
                for style in [Style::Plain, Style::Coloured] {
                    assert!(render::text_one(&source, &diagnostic, style).contains("error"));
                }
                assert_eq!(render::concise_one(&source, &diagnostic).lines().count(), 1);
                assert_eq!(
                    render::json(&Report::new(source.clone(), vec![diagnostic]))
                        .lines()
                        .count(),
                    1
                );
            }
        }
    }
}

#[test]
fn json_has_every_field() {
    let report = Report::new(Source::new("a.dot", SMALL), vec![full(SMALL)]);
    insta::assert_snapshot!(render::json(&report), @r#"{"schema":"orchestra.diagnostic/1","code":"edge_target_exists","severity":"error","message":"edge points to unknown node `Buidl`","file":"a.dot","line":4,"column":14,"end_line":4,"end_column":19,"node":null,"edge":["start","Buidl"],"label":"no node has this id","notes":["the node is never declared and leads nowhere"],"help":"did you mean `Build`?","fix":{"line":4,"column":14,"end_line":4,"end_column":19,"replacement":"Build"},"related":[{"line":2,"column":5,"end_line":2,"end_column":10,"label":"`Build` is declared here"}]}"#);
}
