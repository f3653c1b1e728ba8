//! Templates that were written to do harm, or by accident do.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use orchestra_config::{Project, ResolveOptions, TaskTemplate};
use orchestra_graph::{LoadOptions, ReadFault, Source, load};
use serde_json::{Map, Value, json};

/// Small and large numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % limit.max(1)
    }
}

const SOUND: &str = "Review {{ goal | upper }} of {{ human.gate['text'] }}.
{% for step in plan.steps if step is defined %}{{ loop.index }}. {{ step.title ~ '!' }}{% else %}none{% endfor %}
{# a comment with {{ braces }} #}{% raw %}{{ kept }}{% endraw %}{%- set n = [1, {'a': 2}] -%}{{ n[0] + 1 }}
{% if outcome == 'success' and not (last_stage in ['a', 'b']) %}{{ prompt | replace('a', 'b') | indent(2) }}{% endif %}
";

fn values() -> Map<String, Value> {
    let values = json!({
        "goal": "it", "human.gate.text": "yes", "plan": {"steps": [{"title": "a"}, {"title": "b"}]}, "outcome": "success",
    });
    values.as_object().expect("a map").clone()
}

/// Checks a pipeline whose one stage has the task.
fn check(layer: &str) -> usize {
    let files = |path: &str, _: u64| match path {
        "prompts/tasks/one.yaml" => Ok(layer.as_bytes().to_vec()),
        _ => Err(ReadFault::Missing),
    };
    let text = "digraph { inputs=plan; start -> work -> exit; work [agent.task=one, backend=simulation] }";
    let pipeline = load(Source::new("a.dot", text), &LoadOptions::default())
        .pipeline()
        .expect("it is sound");
    let options = ResolveOptions {
        reader: Some(&files),
        ..ResolveOptions::default()
    };
    let resolution = Project::default().resolve(&pipeline, &options);
    for report in &resolution.reports {
        for fault in &report.diagnostics {
            assert!(
                orchestra_config::explain(fault.code).is_some(),
                "`{}` has no page",
                fault.code
            );
            assert!(fault.span.end as usize <= report.source.text().len(), "{layer}");
        }
    }
    resolution
        .reports
        .iter()
        .map(|report| report.diagnostics.len())
        .sum()
}

#[test]
fn ten_thousand_broken_templates_neither_panic_nor_hang() {
    let marks = [
        "{{",
        "}}",
        "{%",
        "%}",
        "{#",
        "#}",
        "{% raw %}",
        "|",
        ".",
        "[",
        "]",
        "(",
        ")",
        "'",
        "\"",
        " is ",
        " if ",
        "for",
        "endfor",
        "\\",
        "~",
        "**",
        "9999999999",
        "é",
        "\u{200b}",
        "-",
        "set",
        "None",
        ":",
        "{% filter ",
    ];
    let mut dice = Dice(11);
    let begin = Instant::now();
    for round in 0..10_000 {
        let mut text: Vec<char> = SOUND.chars().collect();
        for _ in 0..=dice.below(5) {
            let at = dice.below(text.len());
            let end = (at + dice.below(20)).min(text.len());
            match dice.below(2) {
                0 => drop(text.drain(at..end)),
                _ => drop(text.splice(at..at, marks[dice.below(marks.len())].chars())),
            }
        }
        let text: String = text.into_iter().collect();
        // What it gives is of no matter.
        let _ = TaskTemplate::new("one", "one.yaml", text.as_str()).render(&values());
        if round % 10 == 0 {
            let body: String = text.lines().map(|line| format!("    {line}\n")).collect();
            check(&format!("task:\n  template: |\n{body}"));
        }
    }
    assert!(begin.elapsed() < Duration::from_secs(300));
}

#[test]
fn a_sound_template_is_sound() {
    let body: String = SOUND.lines().map(|line| format!("    {line}\n")).collect();
    assert_eq!(check(&format!("task:\n  template: |\n{body}")), 0);
    let text = TaskTemplate::new("one", "one.yaml", SOUND)
        .render(&values())
        .expect("it renders");
    assert!(
        text.starts_with("Review IT of yes.\n1. a!2. b!\n{{ kept }}2"),
        "{text}"
    );
}

#[test]
fn templates_that_would_not_end_do() {
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000));
    let nested = format!("{}{}", "{% if 1 %}".repeat(20_000), "{% endif %}".repeat(20_000));
    let chain = format!("{{{{ goal{} }}}}", " | upper".repeat(50_000));
    let sum = format!("{{{{ 1{} }}}}", " + 1".repeat(100_000));
    let not = format!("{{{{ {}1 }}}}", "not ".repeat(100_000));
    let minus = format!("{{{{ {}1 }}}}", "-".repeat(100_000));
    let dots = format!("{{{{ goal{} }}}}", ".a".repeat(100_000));
    let elif = format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(50_000));
    let hidden = format!("{{{{ {{'a': {{}}}}{} }}}}", " ~ 1".repeat(100_000));
    let unknown = "{{ a | b }}".repeat(50_000);
    let power = "{{ 9 ** 9 ** 9 }}{{ 10 ** 400 }}".to_owned();
    let loops = "{% for a in range(99999) %}{% for b in range(99999) %}{{ a * b }}{% endfor %}{% endfor %}"
        .to_owned();
    let double = format!(
        "{{% set a = 'x' * 1000 %}}{}{{{{ a | length }}}}",
        "{% set a = a ~ a %}".repeat(12)
    );
    for (what, text) in [
        ("deep", deep),
        ("nested", nested),
        ("chain", chain),
        ("sum", sum),
        ("not", not),
        ("minus", minus),
        ("dots", dots),
        ("elif", elif),
        ("hidden", hidden),
        ("unknown", unknown),
        ("power", power),
        ("loops", loops),
        ("double", double),
    ] {
        let begin = Instant::now();
        let _ = TaskTemplate::new("one", "one.yaml", text.as_str()).render(&values());
        let faults = check(&format!("task:\n  template: \"{text}\"\n"));
        assert!(faults <= 20, "{what} has {faults} faults");
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "{what} took {:?}",
            begin.elapsed()
        );
    }
}

#[test]
fn what_is_just_allowed_is_rendered() {
    let sum = format!("{{{{ 1{} }}}}", " + 1".repeat(199));
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(32), ")".repeat(32));
    let lists = format!("{{{{ {}1{} }}}}", "[".repeat(32), "]".repeat(32));
    let nested = format!(
        "{}x{}",
        "{% for i in [1] %}".repeat(32),
        "{% endfor %}".repeat(32)
    );
    let elif = format!(
        "{{% if 0 %}}{}{{% else %}}y{{% endif %}}",
        "{% elif 0 %}".repeat(100)
    );
    let filters = format!("{{{{ goal{} }}}}", " | upper".repeat(199));
    let not = format!("{{{{ {}0 }}}}", "not ".repeat(398));
    for (text, rendered) in [
        (sum, "200".to_owned()),
        (deep, "1".to_owned()),
        (lists, format!("{}1{}", "[".repeat(32), "]".repeat(32))),
        (nested, "x".to_owned()),
        (elif, "y".to_owned()),
        (filters, "IT".to_owned()),
        (not, "False".to_owned()),
    ] {
        let task = TaskTemplate::new("one", "one.yaml", text.as_str());
        assert_eq!(task.render(&values()).as_deref(), Ok(rendered.as_str()), "{text}");
    }
}
