//! Tests of damaged and hostile text: diagnostics in bounded time, and never a panic.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

use std::time::{Duration, Instant};

use orchestra_graph::{Limits, LoadOptions, Loaded, Source, load, load_bytes};

/// The time limit. Tests run unoptimised and in parallel on small machines, so it only detects non-linear time.
const PATIENCE: Duration = Duration::from_secs(20);

fn timed(name: &str, bytes: &[u8], options: &LoadOptions<'_>) -> Loaded {
    let begun = Instant::now();
    let loaded = load_bytes(name, bytes, options);
    let took = begun.elapsed();
    println!("{name}: {} bytes in {took:?}", bytes.len());
    assert!(took < PATIENCE, "{name} took {took:?}");
    for diagnostic in &loaded.report.diagnostics {
        let text = loaded.source.text();
        let (start, end) = (diagnostic.span.start as usize, diagnostic.span.end as usize);
        assert!(
            text.get(start..end).is_some(),
            "{name}: {} has a place outside the text",
            diagnostic.code
        );
        assert!(
            !diagnostic.message.contains('\n') && diagnostic.message.len() < 600,
            "{name}: {}",
            diagnostic.message
        );
    }
    loaded
}

fn codes(loaded: &Loaded) -> Vec<&'static str> {
    loaded.report.errors().map(|diagnostic| diagnostic.code).collect()
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
    let many: String = (0..100_000).map(|key| format!(" && context.k{key}=1")).collect();
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
    // The closing quote is missing in the second line; everything after it is turned inside out.
    let turned = "digraph a { start -> ask -> exit\n    ask [label=\"[Y] Go on?]\n    b [label=\"[N] No\"]\n    c [label=\"d\"] }";
    let checked = check("a forgotten quote", turned);
    let found = &checked.report.diagnostics;
    assert_eq!(codes(&checked), ["unterminated_string"]);
    assert_eq!(checked.source.position(found[0].span.start).line, 2);
    assert_eq!(
        codes(&check("one mistake", "digraph { start --> exit }")),
        ["undirected_edge"]
    );
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

#[test]
fn a_stylesheet_of_faults_alone_is_read_in_linear_time() {
    let sheet = format!("{}{}", "{".repeat(100_000), "}".repeat(100_000));
    let loaded = check(
        "faulty sheet",
        &format!("digraph {{ model_stylesheet=\"{sheet}\" start -> exit }}"),
    );
    assert_eq!(codes(&loaded), ["stylesheet_syntax"; 50]);
    let last = loaded
        .report
        .diagnostics
        .iter()
        .find(|diagnostic| !diagnostic.notes.is_empty());
    assert!(last.is_some_and(|diagnostic| diagnostic.notes[0].ends_with("are not shown")));
    // An error before a multi-byte character points at a whole character.
    let loaded = check(
        "wide space",
        "digraph { model_stylesheet=\"n{provider:\u{3000}\" start -> exit }",
    );
    assert!(codes(&loaded).contains(&"stylesheet_syntax"));
}

#[test]
fn a_message_is_one_line_whatever_it_quotes() {
    let long = "x".repeat(5_000);
    for quoted in ["two\nlines", "two\r\nlines", &long] {
        let sheet = format!("* {{ reasoning_effort: '{quoted}'; {quoted}: low; }}");
        let text = format!(
            "digraph {{ model_stylesheet=\"{sheet}\" max_visits=\"{quoted}\" start -> a -> exit; a [shape=\"{quoted}\", timeout=\"{quoted}\"] }}"
        );
        let loaded = check("quoted", &text);
        assert!(loaded.report.diagnostics.len() >= 3, "{:?}", codes(&loaded));
        for diagnostic in &loaded.report.diagnostics {
            assert!(
                !diagnostic.message.contains(['\n', '\r']),
                "{:?}",
                diagnostic.message
            );
        }
    }
}
