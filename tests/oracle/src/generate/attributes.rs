//! Attributes at random.

use serde_json::{Value, json};

use super::{LABELS, chance, condition, json_value};
use crate::description::{Attributes, Graph};
use crate::random::Random;

const POLICIES: &[&str] = &["none", "standard", "aggressive", "linear", "patient"];

/// What a graph is for.
#[derive(Clone, Copy)]
pub(super) struct Mood {
    /// It is of the station dialect.
    pub(super) first_match: bool,
    /// It has many goal gates, and goes on after failures, so that runs come to the exit with unsatisfied ones.
    pub(super) gated: bool,
}

/// The attributes of a graph. Targets are for whoever knows the nodes.
pub(super) fn of_graph(random: &mut Random, mood: Mood) -> Attributes {
    let mut attributes = Attributes::new();
    let all = &mut attributes;
    let mut set = |key: &str, value: &str| all.insert(key.to_owned(), value.to_owned());
    if mood.first_match {
        set("routing", "first_match");
    }
    // The default of a thousand visits is right for users, and slow for ten thousand cases.
    if random.below(400) > 0 {
        set("max_node_visits", &random.between(1, 9).to_string());
    }
    let number = |low: i64, high: i64| move |random: &mut Random| random.between(low, high).to_string();
    let word = |words: &'static [&'static str]| move |random: &mut Random| random.pick(words).to_string();
    chance(
        random,
        60,
        all,
        "failure_breaker",
        word(&["0", "0", "1", "2", "4"]),
    );
    if mood.gated {
        chance(random, 80, all, "on_failure", word(&["route"]))
    } else {
        chance(random, 10, all, "on_failure", word(&["route", "fail"]))
    }
    chance(random, 30, all, "goal", word(&["ship", "mend all"]));
    chance(random, 70, all, "max_goal_gate_reroutes", number(0, 3));
    let retries = *random.pick(&["default_max_retries", "default_max_retry"]);
    chance(random, 15, all, retries, number(0, 2));
    retry_policy(random, all, 10);
    all.insert("max_restarts".to_owned(), random.between(0, 3).to_string());
    chance(random, 50, all, "restart_keep", |random| {
        let keys = [
            "flag",
            "tries",
            "mode",
            "error_history",
            "outcome",
            "internal.never",
        ];
        let kept: Vec<&str> = keys.into_iter().filter(|_| random.chance(40)).collect();
        kept.join([",", ", ", " ,"][random.below(3)])
    });
    attributes
}

/// The policy of retries, and what stands over it.
fn retry_policy(random: &mut Random, attributes: &mut Attributes, percent: usize) {
    let name = *random.pick(&["retry_policy", "backoff_policy"]);
    chance(random, percent, attributes, name, |random| {
        random.pick(POLICIES).to_string()
    });
    chance(random, percent, attributes, "retry_initial_delay", |random| {
        random.pick(&["0ms", "7ms", "250ms", "2s", "1m"]).to_string()
    });
    chance(random, percent, attributes, "retry_backoff_factor", |random| {
        random.pick(&["0", "0.5", "1", "1.5", "3"]).to_string()
    });
    chance(random, percent, attributes, "retry_max_delay", |random| {
        random.pick(&["0ms", "100ms", "450ms", "1s", "2m"]).to_string()
    });
    chance(random, 3 * percent, attributes, "retry_jitter", |random| {
        random.pick(&["false", "false", "true"]).to_string()
    });
}

/// What any node may say; its kind is for others to choose.
pub(super) fn of_node(random: &mut Random, mood: Mood, targets: &[String]) -> Attributes {
    let mut attributes = Attributes::new();
    let all = &mut attributes;
    let target = |random: &mut Random| {
        if random.chance(10) {
            "nowhere".to_owned()
        } else {
            random.pick(targets).clone()
        }
    };
    if !targets.is_empty() {
        chance(random, 15, all, "retry_target", target);
        chance(random, 15, all, "fallback_retry_target", target);
    }
    chance(random, 12, all, "on_failure", |random| {
        random.pick(&["route", "route", "fail"]).to_string()
    });
    chance(random, 15, all, "max_visits", |random| {
        random.between(1, 4).to_string()
    });
    chance(random, 15, all, "max_retries", |random| {
        random.between(0, 3).to_string()
    });
    retry_policy(random, all, 7);
    chance(random, 18, all, "allow_partial", |_| "true".to_owned());
    let gates = if mood.gated { 40 } else { 8 };
    chance(random, gates, all, "goal_gate", |random| match random.below(5) {
        0 => "false".to_owned(),
        1 | 2 => gate_condition(random),
        _ => "true".to_owned(),
    });
    attributes
}

/// The condition of a goal gate, which cannot ask for a label.
fn gate_condition(random: &mut Random) -> String {
    loop {
        let text = condition(random);
        if !text.contains("preferred_label") {
            return text;
        }
    }
}

/// The shape or type of a node that does work or routes.
pub(super) fn kind(random: &mut Random, attributes: &mut Attributes) {
    let mut set = |key: &str, value: &str| attributes.insert(key.to_owned(), value.to_owned());
    match random.weighted(&[45, 20, 10, 5, 5, 5, 5, 8]) {
        0 => {}
        1 => {
            set("shape", "diamond");
        }
        2 => {
            set("shape", "parallelogram");
            set("tool_command", "make");
        }
        3 => {
            set("shape", "box");
        }
        4 => {
            set("type", "conditional");
        }
        5 => {
            set("shape", "diamond");
            set("type", "team.judge");
        }
        6 => {
            set("type", "team.work");
        }
        _ => {
            if random.chance(80) {
                set("shape", "hexagon")
            } else {
                set("type", "wait.human")
            };
        }
    }
    chance(random, 20, attributes, "outcomes", |_| "needs_work".to_owned());
}

/// The targets that a graph names for all of its nodes.
pub(super) fn targets(random: &mut Random, mood: Mood, graph: &mut Graph, nodes: &[String]) {
    let (first, second) = if mood.gated { (50, 30) } else { (10, 10) };
    for (name, percent) in [("retry_target", first), ("fallback_retry_target", second)] {
        chance(random, percent, &mut graph.attributes, name, |random| {
            random.pick(nodes).clone()
        });
    }
}

/// The attributes of an edge; a free one has no condition.
pub(super) fn of_edge(random: &mut Random, mood: Mood, free: bool) -> Attributes {
    let mut attributes = Attributes::new();
    let mut set = |key: &str, value: String| attributes.insert(key.to_owned(), value);
    if random.chance(30) {
        set("weight", random.between(-1, 3).to_string());
    }
    if random.chance(60) {
        set("label", label(random));
    }
    if random.chance(3) {
        set("loop_restart", "true".to_owned());
    }
    if mood.first_match {
        if random.chance(70) && !free {
            match random.below(8) {
                0 => set("condition_type", "always".to_owned()),
                1 => set("condition_type", "unconditional".to_owned()),
                2 => set("condition_type", "success".to_owned()),
                3 => set("condition_type", "failure".to_owned()),
                _ => {
                    set("condition_value", condition_value(random));
                    set("condition_type", "conditional".to_owned())
                }
            };
        } else if random.chance(30) && !free {
            set("condition", condition(random));
        }
        if random.chance(50) {
            let allowed = *random.pick(&["true", "true", "true", "false"]);
            set("allow_revisit", allowed.to_owned());
            if random.chance(50) {
                set("max_revisits", random.between(1, 3).to_string());
            }
        }
    } else if random.chance(50) && !free {
        set("condition", condition(random));
    }
    attributes
}

/// A label, in one of the forms that name a key or in none.
pub(super) fn label(random: &mut Random) -> String {
    let word = *random.pick(LABELS);
    let first = word.chars().next().unwrap();
    match random.below(8) {
        0 => format!("[{}] {word}", first.to_uppercase()),
        1 => format!("{first}) {word}"),
        2 => format!("{first} - {word}"),
        3 => format!("  {word} "),
        4 => word.to_uppercase(),
        5 => format!("[7]   {word}"),
        _ => word.to_owned(),
    }
}

fn condition_value(random: &mut Random) -> String {
    let key = *random.pick(&["flag", "tries", "mode", "score", "empty", "never"]);
    let value: Value = json_value(random);
    match random.below(6) {
        0 => key.to_owned(),
        1 => format!(" {key} "),
        2 => format!("\"{key}\""),
        3 => json!({"check_output_key": key, "expected_value": value}).to_string(),
        _ => json!({"key": key, "value": value}).to_string(),
    }
}
