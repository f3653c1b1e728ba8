//! Tests of model stages from the pipeline to the outcome, with a scripted model.

use crate::support;

use std::collections::BTreeMap;
use std::time::Duration;

use orchestra_agent::{
    Arguments, Message, ModelError, ModelErrorKind, ModelReply, TokenUsage, count_tokens, fidelity_budget,
};
use orchestra_engine::{Fidelity, RunStatus};
use serde_json::json;
use support::{Scripted, agents, calls, engine, pipeline, report, run};

#[tokio::test]
async fn an_agent_reads_edits_runs_and_reports() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("sum.sh"), "echo $(($1 - $2))\n").unwrap();
    let model = Scripted::list([
        calls(&[
            ("read_file", json!({"path": "sum.sh"})),
            ("glob", json!({"pattern": "*.sh"})),
        ]),
        calls(&[(
            "edit_file",
            json!({"path": "sum.sh", "edits": [{"old_text": "$1 - $2", "new_text": "$1 + $2"}]}),
        )]),
        calls(&[("shell", json!({"command": "sh sum.sh 2 3"}))]),
        report(json!({
            "status": "success",
            "notes": "The sum is a sum now.",
            "preferred_label": "Ship",
            "context_updates": {"result": 5},
        })),
    ]);
    let agents = agents("", &[], model.clone());
    let flow = pipeline(
        "digraph { goal=\"Mend the sum\"; start -> mend; mend [prompt=\"Mend sum.sh for $goal.\", output_keys=result]
            mend -> exit [label=Ship]; mend -> again [label=Again]; again [prompt=y]; again -> exit }",
    );
    let engine = engine(&agents, dir.path()).build().unwrap();
    let run = engine.start(flow, ()).await.unwrap();
    let folder = run.run_dir().unwrap().to_owned();
    let result = run.wait().await.unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.path, ["start", "mend", "exit"]);
    assert_eq!(result.context.get("result"), Some(&json!(5)));
    let mended = std::fs::read_to_string(dir.path().join("sum.sh")).unwrap();
    assert_eq!(mended, "echo $(($1 + $2))\n");
    let asked = model.asked();
    assert_eq!(asked.len(), 4);
    assert_eq!(
        (asked[0].provider.as_str(), asked[0].model.as_str()),
        ("house", "owl-7b")
    );
    let names: Vec<&str> = asked[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(
        names.contains(&"read_file") && names.ends_with(&["report_outcome"]),
        "{names:?}"
    );
    let Message::Tools { results } = asked[3].messages.last().unwrap() else {
        panic!("{:?}", asked[3].messages);
    };
    assert!(results[0].content.contains('5'), "{}", results[0].content);
    let prompt = std::fs::read_to_string(folder.join("mend/prompt.md")).unwrap();
    assert!(prompt.contains("Goal: Mend the sum"), "{prompt}");
    assert!(prompt.contains("Mend sum.sh for Mend the sum."), "{prompt}");
    let response = std::fs::read_to_string(folder.join("mend/response.md")).unwrap();
    assert_eq!(response, "The sum is a sum now.");
}

#[tokio::test]
async fn a_failure_that_is_reported_fails_the_stage_for_its_reason() {
    let model = Scripted::list([report(
        json!({"status": "fail", "notes": "Two of nine tests fail."}),
    )]);
    let text = "digraph { start -> work -> exit; work [prompt=x] }";
    let (result, _place) = run(&agents("", &[], model), text).await;
    assert_eq!(result.status, RunStatus::Fail);
    let reported = result.failure.unwrap().to_string();
    assert!(reported.contains("Two of nine tests fail."), "{reported}");
}

#[tokio::test]
async fn calls_that_cannot_be_made_are_reported_and_mended() {
    let mut broken = calls(&[("read_file", json!({}))]);
    broken.tool_calls[0].arguments = Arguments::parse("{\"path\": ");
    let model = Scripted::list([
        broken,
        calls(&[("raed_file", json!({"path": "a"}))]),
        report(json!({"outcome": "success"})),
        ModelReply::text("I am done."),
        report(json!({"status": "success", "notes": "Done."})),
    ]);
    let text = "digraph { start -> work; work [prompt=x]; work -> exit [condition=\"outcome=success\"] }";
    let (result, _place) = run(&agents("", &[], model.clone()), text).await;
    assert!(result.is_success(), "{:?}", result.failure);
    let asked = model.asked();
    let reported = asked[1..]
        .iter()
        .map(|request| match request.messages.last().unwrap() {
            Message::Tools { results } => results[0].content.clone(),
            Message::User { text } => text.clone(),
            Message::Assistant { .. } => panic!("the model answers itself"),
        });
    let reported: Vec<String> = reported.collect();
    assert!(reported[0].contains("not a JSON object"), "{}", reported[0]);
    assert!(
        reported[1].contains("did you mean `read_file`?"),
        "{}",
        reported[1]
    );
    assert!(reported[2].contains("Unknown field `outcome`"), "{}", reported[2]);
    assert!(reported[3].contains("report_outcome"), "{}", reported[3]);
}

#[tokio::test]
async fn a_model_that_never_ends_is_stopped() {
    let model = Scripted::new(|_| Ok(calls(&[("glob", json!({"pattern": "*"}))])));
    let yaml = "backends: {short: {kind: agent, max_turns: 3}}\nbackend: short\n";
    let agents = agents(yaml, &[], model.clone());
    let text = "digraph { start -> work -> exit; work [prompt=x, max_retries=5] }";
    let (result, _place) = run(&agents, text).await;
    let reported = result.failure.unwrap().to_string();
    assert!(
        reported.contains("did not come to an end in 3 turns"),
        "{reported}"
    );
    let asked = model.asked();
    assert_eq!(asked.len(), 3, "it is terminal, so there are no retries");
    assert_eq!(asked[2].tools.len(), 1, "in the last turn it can only report");
}

#[tokio::test]
async fn direct_stages_make_one_call_without_tools() {
    let mut reply = ModelReply::text("Leaves fall.");
    reply.usage = Some(TokenUsage {
        input: 1_000,
        output: 500,
        ..TokenUsage::default()
    });
    let model = Scripted::list([reply]);
    let text = "digraph { start -> write -> exit; write [prompt=\"A poem.\", backend=direct] }";
    let (result, _place) = run(&agents("", &[], model.clone()), text).await;
    assert!(result.is_success());
    assert_eq!(result.context.text("last_response"), "Leaves fall.");
    assert!(model.asked()[0].tools.is_empty());
    assert_eq!((result.usage.tokens(), result.usage.cost_micros), (1_500, 2_000));
}

#[tokio::test]
async fn a_provider_that_refuses_the_key_is_not_asked_again() {
    let text = "digraph { start -> ask -> exit; ask [prompt=x, backend=direct, max_retries=2, retry_initial_delay=1ms] }";
    let refuses = Scripted::new(|_| Err(ModelError::new(ModelErrorKind::Authentication, "no such key")));
    let (result, _place) = run(&agents("", &[], refuses.clone()), text).await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `ask` failed: no such key"
    );
    assert_eq!(refuses.asked().len(), 1);
}

#[tokio::test]
async fn a_stage_that_is_retried_has_its_five_tries_again() {
    let model = Scripted::new(|_| {
        let slow = ModelError::new(ModelErrorKind::RateLimited, "slow down");
        Err(slow.retry_after(Duration::from_millis(1)))
    });
    let text = "digraph { start -> ask -> exit; ask [prompt=x, backend=direct, max_retries=1, retry_initial_delay=1ms] }";
    let (result, _place) = run(&agents("", &[], model.clone()), text).await;
    assert!(!result.is_success());
    assert_eq!(model.asked().len(), 10);
}

/// Returns the duration of a stage whose model is always rate limited, the number of model calls, and the failure.
async fn asked_in_vain(attributes: &str, retry_after: Option<u64>) -> (Duration, usize, String) {
    let model = Scripted::new(move |_| {
        let slow = ModelError::new(ModelErrorKind::RateLimited, "slow down");
        Err(match retry_after {
            Some(seconds) => slow.retry_after(Duration::from_secs(seconds)),
            None => slow,
        })
    });
    let began = tokio::time::Instant::now();
    let text = format!("digraph {{ start -> ask -> exit; ask [prompt=x, backend=direct, {attributes}] }}");
    let (result, _place) = run(&agents("", &[], model.clone()), &text).await;
    let failure = result.failure.unwrap().to_string();
    (began.elapsed(), model.asked().len(), failure)
}

#[tokio::test(start_paused = true)]
async fn the_delays_between_tries_double_and_a_server_may_ask_for_at_most_a_minute() {
    let (took, tries, failure) = asked_in_vain("max_retries=0", None).await;
    assert_eq!((took.as_secs(), tries), (1 + 2 + 4 + 8, 5));
    assert!(failure.ends_with("slow down"), "{failure}");
    let (took, tries, _) = asked_in_vain("max_retries=0", Some(20)).await;
    assert_eq!((took.as_secs(), tries), (4 * 20, 5));
    let (took, tries, _) = asked_in_vain("max_retries=0", Some(3_600)).await;
    assert_eq!((took.as_secs(), tries), (4 * 60, 5));
}

#[tokio::test(start_paused = true)]
async fn the_time_out_of_the_stage_bounds_all_tries() {
    let (took, tries, failure) = asked_in_vain("timeout=30s", Some(20)).await;
    // The engine's clock is not paused, so the milliseconds that a loaded machine needs to begin the stage count too.
    assert_eq!((took.as_secs_f64().round(), tries), (30.0, 2));
    assert!(failure.contains("timed out after 30s"), "{failure}");
}

#[tokio::test]
async fn layers_and_task_make_the_prompt() {
    let layers = [
        (
            "prompts/roles/poet.yaml",
            "role: {name: poet, system: You write poems.}",
        ),
        (
            "prompts/personas/old.yaml",
            "persona: {name: old, extends: poet, modifiers: You are old.}",
        ),
        (
            "prompts/personalities/terse.yaml",
            "personality: {name: terse, modifiers: You are terse.}",
        ),
        (
            "prompts/tasks/poem.yaml",
            "task: {name: poem, template: \"On {{ goal }}, in {{ mood }}, after {{ last_stage }}.\"}",
        ),
    ];
    let yaml = "agents: {poet: {role: poet, persona: old, personality: terse, task: poem, tools: []}}\n\
        pipelines: {flow: {inputs: [mood]}}\n";
    let model = Scripted::list([ModelReply::text("Leaves fall.")]);
    let agents = agents(yaml, &layers, model.clone());
    let dir = tempfile::tempdir().unwrap();
    let flow = "digraph flow { goal=autumn; start -> write -> exit; write [agent=poet, fidelity=truncate] }";
    let flow = pipeline(flow);
    assert!(
        !agents.resolve(&flow).has_errors(),
        "{:#?}",
        agents.resolve(&flow).reports
    );
    let engine = engine(&agents, dir.path()).build().unwrap();
    let run = engine.start(flow, ()).param("mood", "gloom").await.unwrap();
    assert!(run.wait().await.unwrap().is_success());
    let asked = &model.asked()[0];
    let system =
        "You write poems.\n\nYou are old.\n\nYou are terse.\n\nYou do one stage of an automated pipeline.";
    assert!(asked.system.starts_with(system), "{}", asked.system);
    let [Message::User { text }] = &asked.messages[..] else {
        panic!("{:?}", asked.messages);
    };
    assert!(
        text.ends_with("# Your task\n\nOn autumn, in gloom, after start."),
        "{text}"
    );
}

#[tokio::test]
async fn many_short_answers_are_all_told() {
    const STAGES: usize = 14;
    let model = Scripted::list((0..STAGES).map(|n| ModelReply::text(format!("Answer {n}."))));
    let nodes: String = (0..STAGES)
        .map(|n| format!("s{n} [prompt=\"Do {n}.\", fidelity=\"summary:medium\"]\n"))
        .collect();
    let chain: String = (0..STAGES).map(|n| format!("s{n} -> ")).collect();
    let text = format!("digraph {{ {nodes} start -> {chain} exit }}");
    let (result, _place) = run(&agents("", &[], model.clone()), &text).await;
    assert!(result.is_success(), "{:?}", result.failure);
    let asked = model.asked();
    let [Message::User { text }] = &asked[STAGES - 1].messages[..] else {
        panic!("{:?}", asked[STAGES - 1].messages);
    };
    for n in 0..STAGES - 1 {
        assert!(text.contains(&format!("Answer {n}.")), "{n} is missing:\n{text}");
    }
}

#[tokio::test]
async fn every_fidelity_stays_within_its_tokens_over_a_long_run() {
    let modes = [
        "truncate",
        "compact",
        "summary:low",
        "summary:medium",
        "summary:high",
    ];
    let mut said = 0;
    let model = Scripted::new(move |_| {
        said += 1;
        let words = "The quick brown fox jumps over the lazy dog, again and again. ".repeat(40);
        Ok(report(json!({
            "status": "success",
            "notes": format!("Stage {said}: {words}"),
            "context_updates": {format!("value_{said}"): format!("Wert {said}: äöü {words}")},
        })))
    });
    let nodes: String = (0..40)
        .map(|n| {
            format!(
                "s{n} [prompt=\"Do {n}.\", fidelity=\"{}\"]\n",
                modes[n % modes.len()]
            )
        })
        .collect();
    let chain: String = (0..40).map(|n| format!("s{n} -> ")).collect();
    let text = format!("digraph {{ goal=\"Go on\"; {nodes} start -> {chain} exit }}");
    let (result, _place) = run(&agents("", &[], model.clone()), &text).await;
    assert!(result.is_success(), "{:?}", result.failure);
    let asked = model.asked();
    assert_eq!(asked.len(), 40);
    let mut longest: BTreeMap<&str, u64> = BTreeMap::new();
    for (n, request) in asked.iter().enumerate() {
        let mode = modes[n % modes.len()];
        let [Message::User { text }] = &request.messages[..] else {
            panic!("{:?}", request.messages);
        };
        let (before, task) = text.split_once("\n\n# Your task\n\n").unwrap();
        assert_eq!(task, format!("Do {n}."));
        let budget = fidelity_budget(mode.parse::<Fidelity>().unwrap()).unwrap();
        let tokens = count_tokens(before);
        assert!(tokens <= budget, "{mode} at stage {n} takes {tokens} of {budget}");
        let most = longest.entry(mode).or_default();
        *most = tokens.max(*most);
        assert!(
            before.contains("Goal: Go on") && before.contains("Run: "),
            "{before}"
        );
        if n > 0 {
            let tells = before.contains(&format!("s{}: success", n - 1));
            assert_eq!(tells, mode != "truncate", "{mode}: {before}");
        }
    }
    for (mode, tokens) in longest {
        let budget = fidelity_budget(mode.parse::<Fidelity>().unwrap()).unwrap();
        let fills = mode == "truncate" || tokens * 10 > budget * 8;
        assert!(fills, "{mode} uses only {tokens} of {budget}");
    }
}

#[tokio::test]
async fn under_full_fidelity_a_thread_goes_on() {
    let mut said = 0;
    let model = Scripted::new(move |_| {
        said += 1;
        Ok(ModelReply::text(format!("answer {said}")))
    });
    let text = "digraph { default_fidelity=full; node [backend=direct]
        start -> a -> b -> c -> exit
        a [prompt=first, thread_id=x]; b [prompt=second, thread_id=y]; c [prompt=third, thread_id=x] }";
    let (result, _place) = run(&agents("", &[], model.clone()), text).await;
    assert!(result.is_success());
    let asked = model.asked();
    assert_eq!(asked[1].messages.len(), 1);
    let texts = asked[2].messages.iter().map(|message| match message {
        Message::User { text } | Message::Assistant { text, .. } => text.clone(),
        Message::Tools { .. } => panic!("nobody calls tools"),
    });
    let texts: Vec<String> = texts.collect();
    assert!(
        texts[0].ends_with("first") && texts[0].contains("# Where you are"),
        "{texts:?}"
    );
    assert_eq!(texts[1], "answer 1");
    assert!(
        texts[2].contains("answer 2") && texts[2].ends_with("# Your task\n\nthird"),
        "{texts:?}"
    );
}
