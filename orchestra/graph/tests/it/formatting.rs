//! Tests of the formatter: its canonical form, and that it never loses or changes anything.

use orchestra_graph::{Graph, Limits, Parsed, Source, format, lower, parse};
use proptest::prelude::*;

fn parsed(text: &str) -> Parsed {
    parse(&Source::new("a.dot", text), &Limits::default())
}

fn formatted(text: &str) -> String {
    format(&parsed(text)).unwrap_or_else(|| panic!("{:?}\n{text}", parsed(text).diagnostics))
}

#[test]
fn the_canonical_form() {
    let text = r#"
// A pipeline.
# old style


DiGraph "review" { goal = "ship \"it\"" ; rankdir=LR  // left to right
   node[shape=box];;
   /* of start */ start [ shape = Mdiamond ; "label"="Start" ] // begin


   "work" [llm_prompt="a very long prompt that will not fit into one line", max_retries=3, timeout = 900s, class="fast"]
   subgraph "cluster a" { label="Loop A" // the loop
     // inside
     a->b -> "c d" [condition="outcome=success"][weight=2] }
   { node }
   subgraph{}
   "node" [x=1, /* about y */ y=2 /* two */, // three
     z=3
     // last
   ]
   exit }// end
// after
"#;
    let text = text
        .replace("   { node }\n", "   { q }\n")
        .replace("\"c d\"", "c");
    insta::assert_snapshot!(formatted(&text), @r#"
// A pipeline.
# old style

digraph review {
    goal="ship \"it\""
    rankdir=LR // left to right
    node [shape=box]
    /* of start */
    start [shape=Mdiamond, label="Start"] // begin

    work [
        llm_prompt="a very long prompt that will not fit into one line",
        max_retries=3,
        timeout=900s,
        class="fast"
    ]
    subgraph "cluster a" {
        label="Loop A" // the loop
        // inside
        a -> b -> c [condition="outcome=success", weight=2]
    }
    {
        q
    }
    subgraph {}
    "node" [
        x=1,
        /* about y */
        y=2, /* two */ // three
        z=3
        // last
    ]
    exit
} // end
// after
"#);
}

#[test]
fn comments_in_odd_places_stay() {
    let text = "/*1*/digraph/*2*/a/*3*/{/*4*/a/*5*/->/*6*/b/*7*/[/*8*/x/*9*/=/*10*/1/*11*/,/*12*/]/*13*/;/*14*/k/*15*/=/*16*/v/*17*/subgraph/*18*/s/*19*/{/*20*/}/*21*/}/*22*/";
    insta::assert_snapshot!(formatted(text), @r#"
/*1*/
/*2*/
/*3*/
digraph a {
    /*4*/
    /*5*/
    /*6*/
    a -> b [
        /*7*/
        /*8*/
        /*9*/
        /*10*/
        x=1 /*11*/
        /*12*/
    ] /*13*/
    /*14*/
    /*15*/
    /*16*/
    k=v /*17*/
    /*18*/
    /*19*/
    subgraph s {
        /*20*/
    } /*21*/
} /*22*/
"#);
}

#[test]
fn a_file_with_errors_is_refused() {
    assert_eq!(format(&parsed("digraph a { b [x=] }")), None);
    assert_eq!(format(&parsed("")), None);
    assert_eq!(format(&parsed("digraph a { } /* open")), None);
}

#[test]
fn the_line_end_of_the_file_stays() {
    assert_eq!(
        formatted("digraph a {\r\n  b\r\n}\r\n"),
        "digraph a {\r\n    b\r\n}\r\n"
    );
    assert_eq!(formatted("\u{feff}digraph{}"), "digraph {}\n");
}

#[test]
fn a_hostile_line_of_comments_takes_no_time() {
    let text = format!("digraph a {{ b;{}\n c }}", "/**/;".repeat(400_000));
    let begun = std::time::Instant::now();
    assert_eq!(formatted(&text).matches("/**/").count(), 400_000);
    assert!(begun.elapsed().as_secs() < 10);
}

#[test]
fn deep_nesting_is_no_problem() {
    let text = format!("digraph a {}b{}", "{".repeat(250), "}".repeat(250));
    assert_eq!(formatted(&formatted(&text)), formatted(&text));
}

/// Returns the contents of a graph without spans.
fn outline(graph: &Graph) -> String {
    let attributes = |attributes: &orchestra_graph::Attributes| {
        attributes
            .iter()
            .map(|a| format!("{}={:?}/{:?} ", a.key, a.value, a.origin))
            .collect::<String>()
    };
    let mut text = format!("{} {}\n", graph.name, attributes(&graph.attributes));
    for node in &graph.nodes {
        text += &format!(
            "{} {} {:?} {:?} {}\n",
            node.id,
            node.declared,
            node.classes,
            node.subgraph,
            attributes(&node.attributes)
        );
    }
    for edge in &graph.edges {
        text += &format!("{:?} {:?} {}\n", edge.from, edge.to, attributes(&edge.attributes));
    }
    for subgraph in &graph.subgraphs {
        text += &format!("{:?} {:?} {:?}\n", subgraph.name, subgraph.label, subgraph.parent);
    }
    text
}

/// Writes a file from a list of choices, so that proptest can shrink a failing file.
struct Writer<'c> {
    choices: std::slice::Iter<'c, u16>,
    text: String,
    comments: usize,
}

impl Writer<'_> {
    fn choose(&mut self, count: u16) -> u16 {
        self.choices.next().map_or(0, |choice| choice % count)
    }

    /// Writes white space and comments, at least one character where two words meet.
    fn space(&mut self) {
        for _ in 0..=self.choose(3) {
            self.comments += 1;
            let n = self.comments;
            let piece = match self.choose(20) {
                0 => format!("/* {n} */"),
                1 => format!("// {n}\n"),
                2 => format!("\n# {n}\r\n"),
                3 => format!(" /* {n}\n  more */ "),
                4 => "\n\n\n".to_owned(),
                5 => "\r\n".to_owned(),
                6..9 => "\n".to_owned(),
                9 => "\t".to_owned(),
                10 => format!("/*{n}*/\n"),
                _ => " ".to_owned(),
            };
            self.text.push_str(&piece);
        }
    }

    fn word(&mut self, words: &[&str]) {
        let word = words[self.choose(words.len() as u16) as usize];
        self.text.push_str(word);
        self.space();
    }

    fn list(&mut self) {
        self.word(&["["]);
        for _ in 0..self.choose(5) {
            self.word(&[
                "label",
                "\"x.y\"",
                "a.b",
                "llm_prompt",
                "\"node\"",
                "class",
                "weight",
            ]);
            self.word(&["="]);
            self.word(&[
                "1",
                "-2.50",
                "15m",
                "word",
                "\"two\nlines\"",
                "\"a \\\" // no comment\"",
                "\"\"",
                "\"a rather long text, that will make the list too long for one line of the file\"",
            ]);
            self.word(&[",", ",", ";", ""]);
        }
        self.word(&["]"]);
    }

    fn statements(&mut self, depth: u16) {
        let ids = ["a", "\"b\"", "c_1", "\"graph\"", "é"];
        for _ in 0..self.choose(6) {
            match self.choose(8) {
                0 => {
                    self.word(&["graph", "Node", "EDGE"]);
                    self.list();
                }
                1 => {
                    self.word(&["goal", "\"x\"", "a.b", "\"edge\""]);
                    self.word(&["="]);
                    self.word(&["v", "\"t\"", "900s", "-1"]);
                }
                2 if depth < 4 => {
                    if self.choose(2) == 0 {
                        self.word(&["subgraph", "SubGraph"]);
                        self.word(&["", "s", "\"cluster x\"", "\"subgraph\""]);
                    }
                    self.word(&["{"]);
                    self.statements(depth + 1);
                    self.word(&["}"]);
                }
                kind => {
                    self.word(&ids[..4]);
                    for _ in 0..kind.saturating_sub(4) {
                        self.word(&["->"]);
                        self.word(&ids[..4]);
                    }
                    for _ in 0..self.choose(3) {
                        self.list();
                    }
                }
            }
            self.word(&["", ";", "", ";;"]);
        }
    }
}

fn write(choices: &[u16]) -> String {
    let mut writer = Writer {
        choices: choices.iter(),
        text: String::new(),
        comments: 0,
    };
    writer.space();
    writer.word(&["digraph", "DIGRAPH"]);
    writer.word(&["a", "", "\"two words\"", "\"strict\""]);
    writer.word(&["{"]);
    writer.statements(0);
    writer.word(&["}"]);
    writer.text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn formatting_keeps_the_graph_and_every_comment(choices in proptest::collection::vec(any::<u16>(), 0..400)) {
        let text = write(&choices);
        let before = parsed(&text);
        // A keyword in quotes is a valid id. Everything else that the writer creates is valid too.
        prop_assert!(!before.diagnostics.iter().any(|diagnostic| diagnostic.is_error()), "{text}\n{:?}", before.diagnostics);
        let once = formatted(&text);
        let after = parsed(&once);
        prop_assert!(!after.diagnostics.iter().any(|diagnostic| diagnostic.is_error()), "{text}\n---\n{once}");
        let comments = |parsed: &Parsed| -> Vec<String> {
            let all = parsed.file.comments.iter();
            all.map(|comment| parsed.source.slice(comment.span).to_owned()).collect()
        };
        prop_assert_eq!(comments(&before), comments(&after), "{}\n---\n{}", text, once);
        prop_assert_eq!(
            outline(&lower(&before.source, &before.file).0),
            outline(&lower(&after.source, &after.file).0),
            "{}\n---\n{}", text, once
        );
        prop_assert_eq!(formatted(&once), once.clone(), "{}", text);
        prop_assert!(!once.contains("\n\n\n") && !once.contains("\r\n\r\n\r\n"), "{}", once);
    }
}
