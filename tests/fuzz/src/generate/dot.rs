//! Pipelines as DOT: sound ones of the oracle, and such as the grammar allows.

use orchestra_oracle_tests::generate::graphs;

use super::{condition, made_of, word};
use crate::Random;

/// Words and signs of the language.
pub const WORDS: &[&str] = &[
    "digraph",
    "graph",
    "subgraph",
    "node",
    "edge",
    "strict",
    "->",
    "--",
    "{",
    "}",
    "[",
    "]",
    "=",
    ";",
    ",",
    ":",
    "+",
    "\"",
    "\\\"",
    "//",
    "/*",
    "*/",
    "#",
    "<",
    ">",
    "<b>",
    "start",
    "exit",
    "shape=Mdiamond",
    "shape=Msquare",
    "shape=box",
    "shape=hexagon",
    "shape=diamond",
    "shape=component",
    "shape=tripleoctagon",
    "shape=parallelogram",
    "shape=house",
    "label=\"[Y] Yes\"",
    "prompt=\"$goal\"",
    "condition=\"outcome=success\"",
    "condition=\"context.a>1 || !(outcome=fail)\"",
    "weight=2",
    "max_retries=3",
    "timeout=900s",
    "goal_gate=true",
    "retry_target=a",
    "fidelity=full",
    "thread_id=t",
    "class=\"x,y\"",
    "model_stylesheet=\"* { llm_model: m; }\"",
    "join_policy=k_of_n",
    "join_k=2",
    "max_parallel=3",
    "default_choice=Y",
    "tool_command=\"echo\"",
    "tool_env=\"A,B\"",
    "tool_env_from.A=\"a\"",
    "tool_stdin=\"a\"",
    "inputs=\"a,b\"",
    "routing=first_match",
    "on_failure=route",
    "loop_restart=true",
    "restart_keep=\"a\"",
    "stack.child_dotfile=\"c.dot\"",
    "agent.task=t",
    "allow_partial=true",
    "outcomes=\"a,b\"",
    "max_visits=\"2\"",
    "writes=\"x\"",
    "type=custom",
    "suggested=x",
];

/// A pipeline.
pub fn text(random: &mut Random) -> String {
    match random.below(10) {
        0..4 => graphs(random.number(), 1)
            .next()
            .map(|(dot, _)| dot)
            .unwrap_or_default(),
        4..9 => Writer::default().file(random),
        _ => format!("digraph {{ {} }}", made_of(WORDS, random)),
    }
}

const IDS: &[&str] = &[
    "start",
    "exit",
    "a",
    "b",
    "c_1",
    "\"b\"",
    "\"graph\"",
    "é",
    "Work",
    "work",
    "f",
    "j",
];

const SHAPES: &[&str] = &[
    "Mdiamond",
    "Msquare",
    "box",
    "hexagon",
    "diamond",
    "component",
    "tripleoctagon",
    "parallelogram",
    "house",
    "circle",
    "doublecircle",
    "ellipse",
    "nonsense",
];

const KEYS: &[&str] = &[
    "label",
    "prompt",
    "condition",
    "weight",
    "max_retries",
    "timeout",
    "goal_gate",
    "retry_target",
    "fallback_retry_target",
    "fidelity",
    "thread_id",
    "class",
    "model_stylesheet",
    "join_policy",
    "join_k",
    "max_parallel",
    "default_choice",
    "tool_command",
    "tool_env",
    "tool_env_from.A",
    "tool_stdin",
    "inputs",
    "routing",
    "on_failure",
    "loop_restart",
    "restart_keep",
    "agent.task",
    "allow_partial",
    "outcomes",
    "max_visits",
    "writes",
    "type",
    "llm_model",
    "llm_provider",
    "reasoning_effort",
    "goal",
    "\"x.y\"",
    "a.b",
    "\"node\"",
    "color",
    "rankdir",
    "default_max_retries",
    "retry_policy",
    "max_node_visits",
    "failure_breaker",
    "human.default_choice",
    "human.timeout",
    "auto_status",
];

/// Parts of declarations of context values.
const DECLARATIONS: &[&str] = &[
    "a: int",
    "b: text?",
    "c: x|y",
    "a.b: list<list<int>>",
    "d: list<",
    "e: object",
    "f: strng",
    "é: bool",
    "context.a: any",
    "outcome: text",
    "a",
    ":",
    "?",
    "|",
    "\u{202e}",
];

/// Parts of assertions.
const ASSERTIONS: &[&str] = &[
    "requires(work, Work)",
    "requires(f, j=success, since=work)",
    "handled(work)",
    "at_most(work, 3)",
    "total(attempts) <= 9",
    "total(visits)",
    "requires(",
    "'",
    ")",
    ";",
    "99999999999999999999",
];

#[derive(Default)]
struct Writer {
    text: String,
    comments: usize,
}

impl Writer {
    fn file(mut self, random: &mut Random) -> String {
        self.space(random);
        self.word(random, &["digraph", "digraph", "DIGRAPH"]);
        self.word(random, &["a", "", "\"two words\"", "\"strict\""]);
        self.word(random, &["{"]);
        self.statements(random, 0);
        self.word(random, &["}"]);
        self.text
    }

    /// White space and comments; at least one character where two words meet.
    fn space(&mut self, random: &mut Random) {
        for _ in 0..=random.weighted(&[80, 15, 5]) {
            self.comments += 1;
            let n = self.comments;
            let piece = match random.below(40) {
                0 => format!("/* {n} */"),
                1 => format!("// {n}\n"),
                2 => format!("\n# {n}\r\n"),
                3 => format!(" /* {n}\n  more */ "),
                4 => "\n\n\n".to_owned(),
                5 => "\r\n".to_owned(),
                6..12 => "\n".to_owned(),
                12 => "\t".to_owned(),
                13 => format!("/*{n}*/\n"),
                _ => " ".to_owned(),
            };
            self.text.push_str(&piece);
        }
    }

    fn word(&mut self, random: &mut Random, words: &[&str]) {
        self.text.push_str(random.pick::<&str>(words));
        self.space(random);
    }

    fn quoted(&mut self, random: &mut Random, text: &str) {
        self.text.push('"');
        self.text
            .push_str(&text.replace('\\', "\\\\").replace('"', "\\\""));
        self.text.push('"');
        self.space(random);
    }

    fn attributes(&mut self, random: &mut Random) {
        self.word(random, &["["]);
        for _ in 0..random.below(5) {
            self.attribute(random);
            self.word(random, &[",", ",", ";", ""]);
        }
        self.word(random, &["]"]);
    }

    fn attribute(&mut self, random: &mut Random) {
        match random.below(6) {
            5 => {
                let (key, parts) = *random.pick(&[
                    ("inputs", DECLARATIONS),
                    ("outputs", DECLARATIONS),
                    ("outputs.fail", DECLARATIONS),
                    ("assert", ASSERTIONS),
                ]);
                self.word(random, &[key]);
                self.word(random, &["="]);
                let parts: Vec<&str> = (0..random.below(6)).map(|_| *random.pick(parts)).collect();
                let between = *random.pick(&[", ", "; ", "", " "]);
                self.quoted(random, &parts.join(between));
            }
            0 => {
                self.word(random, &["shape", "Shape"]);
                self.word(random, &["="]);
                self.word(random, SHAPES);
            }
            1 => {
                self.word(random, &["condition"]);
                self.word(random, &["="]);
                let text = condition::text(random);
                self.quoted(random, &text);
            }
            _ => {
                self.word(random, KEYS);
                self.word(random, &["="]);
                match random.below(3) {
                    0 => {
                        let text = word(random);
                        self.quoted(random, &text);
                    }
                    1 => self.word(
                        random,
                        &[
                            "1",
                            "-2.50",
                            "15m",
                            "900s",
                            "word",
                            "true",
                            "false",
                            "99999999999999999999",
                        ],
                    ),
                    _ => self.word(random, IDS),
                }
            }
        }
    }

    fn statements(&mut self, random: &mut Random, depth: u16) {
        for _ in 0..random.below(9) {
            match random.below(8) {
                0 => {
                    self.word(random, &["graph", "Node", "EDGE", "node"]);
                    self.attributes(random);
                }
                1 => self.attribute(random),
                2 if depth < 4 => {
                    if random.chance(50) {
                        self.word(random, &["subgraph", "SubGraph"]);
                        self.word(random, &["", "s", "\"cluster x\"", "\"subgraph\""]);
                    }
                    self.word(random, &["{"]);
                    self.statements(random, depth + 1);
                    self.word(random, &["}"]);
                }
                kind => {
                    self.word(random, IDS);
                    for _ in 0..kind.saturating_sub(4) {
                        self.word(random, &["->"]);
                        self.word(random, IDS);
                    }
                    for _ in 0..random.below(3) {
                        self.attributes(random);
                    }
                }
            }
            self.word(random, &["", ";", "\n", ";;"]);
        }
    }
}
