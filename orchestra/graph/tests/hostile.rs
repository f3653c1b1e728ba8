//! Damaged and hostile text: diagnostics, in bounded time, never a panic.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use orchestra_graph::condition::{Facts, parse_condition};
use orchestra_graph::{Limits, LoadOptions, Loaded, Source, load, load_bytes, parse_stylesheet};

/// A small generator of pseudo-random numbers (xorshift64*): the same numbers in every run.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn pick<'t, T>(&mut self, items: &'t [T]) -> &'t T {
        &items[self.below(items.len())]
    }
}

/// Tests run unoptimised and side by side on small machines; the figure is to catch what is not linear.
const PATIENCE: Duration = Duration::from_secs(20);

fn timed(name: &str, bytes: &[u8], options: &LoadOptions<'_>) -> Loaded {
    let begun = Instant::now();
    let loaded = load_bytes(name, bytes, options);
    let took = begun.elapsed();
    println!("{name}: {} bytes in {took:?}", bytes.len());
    assert!(took < PATIENCE, "{name} took {took:?}");
    for fault in &loaded.report.diagnostics {
        let text = loaded.source.text();
        let (start, end) = (fault.span.start as usize, fault.span.end as usize);
        assert!(
            text.get(start..end).is_some(),
            "{name}: {} has a place outside the text",
            fault.code
        );
        assert!(
            !fault.message.contains('\n') && fault.message.len() < 600,
            "{name}: {}",
            fault.message
        );
    }
    loaded
}

fn codes(loaded: &Loaded) -> Vec<&'static str> {
    loaded.report.errors().map(|fault| fault.code).collect()
}

fn check(name: &str, text: &str) -> Loaded {
    timed(name, text.as_bytes(), &LoadOptions::default())
}

#[test]
fn deep_nesting_is_a_located_error() {
    let depth = 100_000;
    let open = "subgraph {".repeat(depth);
    let loaded = check(
        "closed nest",
        &format!("digraph a {{ {open}{} }}", "}".repeat(depth)),
    );
    assert!(codes(&loaded).contains(&"nesting_limit"));
    let loaded = check("open nest", &format!("digraph a {{ {open}"));
    assert!(loaded.report.has_errors());
    let loaded = check("braces", &"{".repeat(depth));
    assert!(loaded.report.has_errors());
    let loaded = check("brackets", &format!("digraph a {{ n {} }}", "[".repeat(depth)));
    assert!(loaded.report.has_errors());
    let loaded = check(
        "angles",
        &format!("digraph a {{ n [label={}] }}", "<".repeat(depth)),
    );
    assert!(loaded.report.has_errors());
}

#[test]
fn deep_conditions_are_a_located_error() {
    let depth = 100_000;
    for (open, close) in [("(", ")"), ("!", ""), ("!(", ")")] {
        let condition = format!("{}outcome=fail{}", open.repeat(depth), close.repeat(depth));
        let text = format!("digraph {{ start -> a; a -> exit [condition=\"{condition}\"] }}");
        assert_eq!(codes(&check(open, &text)), ["condition_syntax"]);
    }
}

#[test]
fn long_conditions_are_read_in_linear_time() {
    for part in [
        " && context.a=1",
        " || context.a!=2",
        " && context.b contains x",
        " word",
    ] {
        let condition = format!("outcome=fail{}", part.repeat(20_000));
        let text = format!(
            "digraph {{ start -> a; a -> exit [condition=\"{condition}\"]; a -> a [condition=\"{condition} \"] }}"
        );
        check(part, &text);
    }
    let many: String = (0..20_000).map(|key| format!(" && context.k{key}=1")).collect();
    check(
        "many keys",
        &format!("digraph {{ start -> a; a -> exit [condition=\"outcome=fail{many}\"] }}"),
    );
}

#[test]
fn what_is_never_closed_is_reported_where_it_opens() {
    for (text, code) in [
        ("digraph a { n [label=\"x] }", "unterminated_string"),
        ("digraph a { /* n }", "unterminated_comment"),
        ("digraph a { n [label=x", "unterminated_block"),
        ("digraph a { n", "unterminated_block"),
    ] {
        assert!(codes(&check(code, text)).contains(&code), "{text}");
    }
    let many = "n [label=\"".repeat(100_000);
    assert!(
        check("many strings", &format!("digraph a {{ {many}"))
            .report
            .has_errors()
    );
    let many = "/* ".repeat(100_000);
    assert!(
        check("many comments", &format!("digraph a {{ {many}"))
            .report
            .has_errors()
    );
}

#[test]
fn bytes_that_are_no_text_are_located() {
    let loaded = check("nul", "digraph a { start -> \0 -> exit }");
    assert!(codes(&loaded).contains(&"invalid_character"));
    let loaded = timed(
        "bytes",
        b"digraph a {\n  start -> \xff\xfe\n}",
        &LoadOptions::default(),
    );
    assert_eq!(codes(&loaded), ["invalid_utf8"]);
    assert_eq!(
        loaded
            .source
            .position(loaded.report.diagnostics[0].span.start)
            .line,
        2
    );
    for end in 0..3 {
        timed(
            "cut",
            &"digraph ä€😀".as_bytes()[..12 - end],
            &LoadOptions::default(),
        );
    }
    assert!(check("empty", "").report.has_errors());
    assert!(
        check("mark", "\u{feff}digraph { start -> exit }")
            .report
            .errors()
            .next()
            .is_none()
    );
}

#[test]
fn a_large_text_is_refused_at_once_and_read_in_time_with_the_cap_lifted() {
    let bytes = "a".repeat(100 << 20);
    let begun = Instant::now();
    let loaded = load(Source::new("large", bytes), &LoadOptions::default());
    let took = begun.elapsed();
    println!("100 MB, capped: {took:?}");
    assert_eq!(codes(&loaded), ["size_limit"]);
    assert!(took < Duration::from_secs(5), "{took:?}");
    let lifted = LoadOptions {
        limits: Limits {
            bytes: usize::MAX,
            ..Limits::default()
        },
        ..LoadOptions::default()
    };
    let begun = Instant::now();
    let loaded = load(loaded.source, &lifted);
    let took = begun.elapsed();
    println!("100 MB, cap lifted: {took:?}");
    assert!(loaded.report.has_errors() && took < PATIENCE, "{took:?}");
}

#[test]
fn large_graphs_of_awkward_shape_are_checked_in_linear_time() {
    let size = 20_000;
    let lines = |line: &dyn Fn(usize) -> String| (0..size).map(line).collect::<String>();
    let graph =
        |body: &str| format!("digraph big {{ start [shape=Mdiamond]; exit [shape=Msquare];\n{body}}}");
    let shapes = [
        (
            "star",
            lines(&|at| format!("start -> n{at} [condition=\"context.a={at}\"]; n{at} -> exit;\n")),
        ),
        (
            "plain star",
            lines(&|at| format!("start -> n{at}; n{at} -> exit;\n")),
        ),
        (
            "same edge",
            lines(&|_| "start -> n; n -> exit [label=a];\n".to_owned()),
        ),
        (
            "same condition",
            lines(&|at| format!("start -> n{at} [condition=\"outcome=success\"]; n{at} -> exit;\n")),
        ),
        ("ghosts", lines(&|at| format!("start -> n{at};\n"))),
        (
            "misspelt",
            lines(&|at| format!("node{at} [label=x]; start -> nodee{at}; nodee{at} -> exit;\n")),
        ),
        ("unreachable", lines(&|at| format!("n{at} -> n{};\n", at + 1))),
        (
            "back edges",
            lines(&|at| format!("n{at} -> n{}; n{at} -> n{};\n", at + 1, at / 2)),
        ),
        (
            "fan-outs",
            lines(&|at| {
                format!(
                    "f{at} [shape=component]; start -> f{at}; f{at} -> a{at}; f{at} -> b{at}; a{at} -> exit;\n"
                )
            }),
        ),
        (
            "fan-out chain",
            lines(&|at| format!("f{at} [shape=component]; f{at} -> f{}; f{at} -> x; \n", at + 1))
                + "start -> f0;\n",
        ),
        (
            "blocks in a loop",
            lines(&|at| {
                format!(
                    "f{at} [shape=component, join_policy=k_of_n, join_k=9]; j{at} [shape=tripleoctagon]; f{at} -> a{at} -> j{at}; a{at} -> f{at}; a{at} -> start; f{at} -> j{at} -> f{}; j{at} -> start;\n",
                    at + 1
                )
            }) + "start -> f0; f20000 -> exit;\n",
        ),
        (
            "blocks in blocks",
            lines(&|at| {
                format!(
                    "f{at} [shape=component]; f{at} -> a{at} -> m{at}; a{at} -> f{}; f{at} -> f{}; m{} -> m{at};\n",
                    at / 2,
                    at + 1,
                    at + 1
                )
            }) + "start -> f0; f20000 -> m20000; m0 -> exit;\n",
        ),
        (
            "gates",
            lines(&|at| {
                format!(
                    "n{at} [goal_gate=true]; n{at} -> n{}; n{at} -> n{};\n",
                    at + 1,
                    at + 2
                )
            }) + "start -> n0;\n",
        ),
        (
            "choices",
            "g [shape=hexagon]; start -> g;\n".to_owned()
                + &lines(&|at| format!("g -> n{at} [label=\"a{at}\"];\n")),
        ),
        (
            "diamonds",
            lines(&|at| {
                format!(
                    "d{at} [shape=diamond]; d{at} -> d{} [condition=\"outcome=w{at}\"]; d{at} -> d{};\n",
                    at + 1,
                    at / 3
                )
            }) + "start -> d0;\n",
        ),
        (
            "jumps",
            lines(&|at| format!("n{at} [retry_target=n{}, fallback_retry_target=m{at}];\n", at + 1))
                + "start -> n0;\n",
        ),
        ("case twins", lines(&|at| format!("Node{at} -> nODE{at};\n"))),
        (
            "starts",
            lines(&|at| format!("s{at} [shape=Mdiamond]; e{at} [shape=Msquare];\n")),
        ),
        (
            "exhaustive",
            lines(&|at| {
                format!(
                    "n{at} -> n{} [condition=\"context.a>{at} || context.b<{at}\"]; n{at} -> exit [condition=\"context.a={at}\"];\n",
                    at + 1
                )
            }) + "start -> n0;\n",
        ),
    ];
    for (name, body) in shapes {
        check(name, &graph(&body));
    }
    let rules: String = (0..size)
        .map(|at| format!("#n{at} {{ llm_model: m{at}; }} .c{at} {{ model: x }} * {{ llm_provider: p }}\n"))
        .collect();
    let nodes = lines(&|at| format!("n{at} [class=\"c{at}\"]; start -> n{at} -> exit;\n"));
    check(
        "stylesheet",
        &graph(&format!("graph [model_stylesheet=\"{rules}\"];\n{nodes}")),
    );
}

fn corpus() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("the corpus")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read_to_string(path).expect("text"))
        .collect()
}

/// The bounds of a text's words and signs.
fn tokens(text: &[u8]) -> Vec<(usize, usize)> {
    let class = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80 => 0,
        byte if byte.is_ascii_whitespace() => 1,
        _ => 2,
    };
    let mut found = Vec::new();
    let mut start = 0;
    for at in 1..=text.len() {
        if at == text.len() || class(text[at]) != class(text[start]) || class(text[at]) == 2 {
            found.push((start, at));
            start = at;
        }
    }
    found
}

fn mutate(text: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for _ in 0..=chance.below(3) {
        let at = chance.below(bytes.len());
        let end = (at + 1 + chance.below(40)).min(bytes.len());
        match chance.below(6) {
            0 => bytes[at] ^= 1 << chance.below(8),
            1 => bytes[at] = *chance.pick(b"{}[]()\"\\;,=->#/*.:\0\n\xff0a_&|!<"),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            4 => {
                let tokens = tokens(&bytes);
                let (a, b) = (*chance.pick(&tokens), *chance.pick(&tokens));
                let (first, second) = (a.min(b), a.max(b));
                if first.1 <= second.0 {
                    let moved = [
                        &bytes[second.0..second.1],
                        &bytes[first.1..second.0],
                        &bytes[first.0..first.1],
                    ]
                    .concat();
                    bytes.splice(first.0..second.1, moved);
                }
            }
            _ => bytes.truncate(at),
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

/// Runs a case; a panic names the input.
fn survives(shown: &str, case: impl FnOnce()) {
    let begun = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(case));
    assert!(result.is_ok(), "panicked on:\n{shown}");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "took {took:?} on:\n{shown}");
}

#[test]
fn ten_thousand_mutations_never_panic() {
    let corpus = corpus();
    let mut chance = Chance(0x0bad_5eed_0bad_5eed);
    for _ in 0..10_000 {
        let text = chance.pick(&corpus).as_bytes();
        let bytes = mutate(text, &mut chance);
        survives(&String::from_utf8_lossy(&bytes), || {
            let loaded = load_bytes("mutated.dot", &bytes, &LoadOptions::default());
            for fault in &loaded.report.diagnostics {
                let (start, end) = (fault.span.start as usize, fault.span.end as usize);
                assert!(
                    loaded.source.text().get(start..end).is_some(),
                    "{} lies outside",
                    fault.code
                );
                let related = fault.related.iter().map(|related| related.span);
                for span in related.chain(fault.fix.iter().map(|fix| fix.span)) {
                    let (start, end) = (span.start as usize, span.end as usize);
                    assert!(
                        loaded.source.text().get(start..end).is_some(),
                        "{} points outside",
                        fault.code
                    );
                }
            }
            if !loaded.report.has_errors() {
                assert!(loaded.pipeline().is_some());
            }
        });
    }
}

/// A text made of some words and signs.
fn made_of(words: &[&str], chance: &mut Chance) -> String {
    let mut text = String::new();
    for _ in 0..chance.below(24) {
        let word: &str = chance.pick::<&str>(words);
        text.push_str(word);
        if chance.below(3) > 0 {
            text.push(' ');
        }
    }
    text
}

#[test]
fn ten_thousand_conditions_never_panic() {
    let words = [
        "outcome",
        "preferred_label",
        "context.a",
        "context.b.c",
        "context",
        "=",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "==",
        "&&",
        "||",
        "&",
        "!",
        "(",
        ")",
        "success",
        "fail",
        "\"x y\"",
        "'",
        "\"",
        "contains",
        "matches",
        "^a(b",
        "1",
        "-0.5",
        "1e9",
        "true",
        "ü",
        "and",
        "",
        "\n",
        "..",
        "a.",
    ];
    let mut chance = Chance(0x5eed_0fc0_5eed_0fc0);
    for _ in 0..10_000 {
        let text = made_of(&words, &mut chance);
        survives(&text, || match parse_condition(&text) {
            Ok(condition) => {
                condition.holds(&Facts::default());
            }
            Err(fault) => assert!(text.get(fault.range.clone()).is_some(), "{fault:?}"),
        });
        // The same text as two edges of a pipeline, which the checks compare.
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        let dot = format!(
            "digraph {{ start -> d; d [shape=diamond]; d -> exit [condition=\"{quoted}\"]; d -> d [condition=\"!({quoted})\"]; d -> exit }}"
        );
        survives(&dot, || {
            load(Source::new("condition.dot", &*dot), &LoadOptions::default());
        });
    }
}

#[test]
fn ten_thousand_stylesheets_never_panic() {
    let words = [
        "*",
        ".",
        "#",
        "box",
        ".code",
        "#n0",
        "{",
        "}",
        ":",
        "=",
        ";",
        "llm_model",
        "model",
        "reasoning_effort",
        "llm_provider",
        "high",
        "extreme",
        "gpt-5.2",
        "\"",
        "'",
        "/*",
        "*/",
        "\n",
        "ü",
        ",",
        "",
    ];
    let mut chance = Chance(0x57f1_e5ee_d57f_1e5e);
    for _ in 0..10_000 {
        let text = made_of(&words, &mut chance);
        survives(&text, || {
            for fault in parse_stylesheet(&text).1 {
                assert!(text.get(fault.range.clone()).is_some(), "{fault:?}");
            }
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
            let dot =
                format!("digraph {{ model_stylesheet=\"{quoted}\" start -> n0 -> exit; n0 [class=code] }}");
            load(Source::new("sheet.dot", &*dot), &LoadOptions::default());
        });
    }
}
