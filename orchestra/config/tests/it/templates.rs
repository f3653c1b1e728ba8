//! Templates that do harm, on purpose or by accident.

use std::time::{Duration, Instant};

use orchestra_config::{Project, ResolveOptions, TaskTemplate};
use orchestra_graph::{LoadOptions, ReadError, Source, load};
use serde_json::{Map, Value, json};

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

/// Checks a pipeline with one stage that has the task. Returns the number of diagnostics.
fn check(layer: &str) -> usize {
    let files = |path: &str, _: u64| match path {
        "prompts/tasks/one.yaml" => Ok(layer.as_bytes().to_vec()),
        _ => Err(ReadError::Missing),
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
        for diagnostic in &report.diagnostics {
            assert!(
                orchestra_config::explain(diagnostic.code).is_some(),
                "`{}` has no page",
                diagnostic.code
            );
            assert!(
                diagnostic.span.end as usize <= report.source.text().len(),
                "{layer}"
            );
        }
    }
    resolution
        .reports
        .iter()
        .map(|report| report.diagnostics.len())
        .sum()
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
        let diagnostics = check(&format!("task:\n  template: \"{text}\"\n"));
        assert!(diagnostics <= 20, "{what} has {diagnostics} faults");
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "{what} took {:?}",
            begin.elapsed()
        );
    }
}

#[test]
fn a_panic_of_the_template_engine_is_an_error_of_the_template() {
    for text in [
        "{{ [][::-1] | list }}",
        "{{ (1, 2)[5:][::-1] | join }}",
        "{% for v in [][::-1] %}{% endfor %}",
    ] {
        let error = TaskTemplate::new("one", "one.yaml", text).render(&values());
        if let Err(error) = error {
            assert!(error.to_string().starts_with("one.yaml:1:1: "), "{error}");
        }
    }
    let error = TaskTemplate::new("one", "one.yaml", "{% for v in [][::-1] %}{% endfor %}")
        .render(&values())
        .expect_err("the engine panics");
    assert!(error.message.contains("cannot evaluate"), "{error}");
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
