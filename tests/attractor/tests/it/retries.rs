//! Attractor 11.5: retries. Time is turned on by the waits alone, so each delay is exact.

use orchestra::engine::{EventKind, RunEvent};
use orchestra::prelude::*;
use orchestra_attractor_tests::{Model, Ran, Ticks, listening, pipeline};
use serde_json::Value;

/// Runs `start -> a -> exit` with attributes of `a`, on a clock that waits turn on; gives what was waited.
async fn retried(attributes: &str, model: &Model, seed: u64) -> (Ran, Vec<u128>) {
    let clock = Ticks::default();
    let builder = Engine::builder().backend(model.clone()).clock(clock.clone());
    let (engine, heard) = listening(builder);
    let text = format!("digraph {{ start -> a -> exit; a [{attributes}] }}");
    let ran = heard.end(engine.start(pipeline(&text), ()).seed(seed)).await;
    (ran, clock.waits())
}

/// The delays of a node that never succeeds.
async fn delays(attributes: &str, seed: u64) -> Vec<u128> {
    let (ran, waits) = retried(attributes, &Model::new().fails("a", "busy"), seed).await;
    let reported: Vec<u128> = ran.retries().into_iter().map(|(.., delay)| delay).collect();
    assert_eq!(reported, waits, "what is reported is what is waited");
    reported
}

#[tokio::test]
async fn retry_and_fail_are_tried_again() {
    // Rule Y2: a FAIL is tried again too, unless it is terminal.
    let outcomes = [
        Outcome::retry("not yet"),
        Outcome::fail("red"),
        Outcome::success(),
    ];
    let model = Model::new().gives("a", outcomes);
    let (ran, _) = retried("max_retries=2", &model, 1).await;
    ran.succeeds_by("start a exit");
    let attempts: Vec<u32> = model.calls().iter().map(|call| call.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);

    let none = model.anew();
    let (ran, waits) = retried("max_retries=0", &none, 1).await;
    assert_eq!(
        (ran.path().as_str(), none.count("a"), waits.len()),
        ("start a", 1, 0)
    );

    let terminal = Model::new().gives("a", [Outcome::fail_terminal("no key"), Outcome::success()]);
    let (ran, _) = retried("max_retries=2", &terminal, 1).await;
    assert_eq!(
        (ran.failure().as_str(), terminal.count("a")),
        ("stage `a` failed: no key", 1)
    );
}

#[tokio::test]
async fn the_count_is_kept_for_each_node_and_bounded_by_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"digraph { graph [default_max_retries=3]; start -> a
        a [max_retries=1]; a -> b [condition="outcome=fail"]; a -> exit
        b -> c; b -> exit [condition="outcome=fail"]; c -> exit }"#;
    let b = [Outcome::retry("one"), Outcome::retry("two"), Outcome::success()];
    let model = Model::new().fails("a", "red").gives("b", b);
    let builder = Engine::builder().backend(model.clone()).clock(Ticks::default());
    let (engine, heard) = listening(builder);
    let folder = dir.path().join("run");
    let ran = heard.end(engine.start(pipeline(text), ()).run_dir(&folder)).await;
    ran.succeeds_by("start a b c exit");

    let retries = ran
        .retries()
        .into_iter()
        .map(|(node, attempt, most, _)| (node, attempt, most));
    let reported: Vec<(String, u32, u32)> = retries.collect();
    assert_eq!(
        reported,
        [
            ("a".to_owned(), 2, 2),
            ("b".to_owned(), 2, 4),
            ("b".to_owned(), 3, 4)
        ]
    );
    assert_eq!(model.called(), ["a", "a", "b", "b", "b", "c"]);

    // The key of Attractor 5.1: it counts while a node is tried, and its success takes it away.
    let counts = |node: &str| -> Vec<String> {
        let calls = model.calls().into_iter().filter(|call| call.node == node);
        calls
            .map(|call| call.context.text(&format!("internal.retry_count.{node}")))
            .collect()
    };
    assert_eq!(
        (counts("a"), counts("b")),
        (
            vec![String::new(), "1".into()],
            vec!["".into(), "1".into(), "2".into()]
        )
    );
    assert_eq!(ran.result.context.get("internal.retry_count.b"), None);

    let checkpoint = std::fs::read(folder.join("checkpoint.json")).unwrap();
    let checkpoint: Value = serde_json::from_slice(&checkpoint).unwrap();
    assert_eq!(checkpoint["node_retries"], serde_json::json!({"a": 1, "b": 2}));
}

#[tokio::test]
async fn the_backoff_is_constant_or_grows_as_configured() {
    // Attractor 3.6: its `linear` policy is a fixed delay, a factor of 1.
    let exact = |attributes: &'static str| async move {
        delays(&format!("{attributes}, retry_jitter=false"), 1).await
    };
    assert_eq!(
        exact("retry_policy=linear, max_retries=4").await,
        [500, 500, 500, 500]
    );
    assert_eq!(exact("retry_policy=standard").await, [200, 400, 800, 1_600]);
    assert_eq!(exact("retry_policy=aggressive").await, [500, 1_000, 2_000, 4_000]);
    assert_eq!(exact("retry_policy=patient").await, [2_000, 6_000]);
    assert_eq!(exact("retry_policy=none").await, [] as [u128; 0]);
    assert_eq!(
        exact("max_retries=3").await,
        [200, 400, 800],
        "where no policy is named"
    );
    let own = "max_retries=5, retry_initial_delay=10ms, retry_backoff_factor=3, retry_max_delay=100ms";
    assert_eq!(exact(own).await, [10, 30, 90, 100, 100]);
    assert_eq!(
        exact("max_retries=3, retry_initial_delay=7ms, retry_backoff_factor=1").await,
        [7, 7, 7]
    );

    let (ran, _) = retried(
        "max_retries=2, retry_jitter=false",
        &Model::new().fails("a", "busy"),
        1,
    )
    .await;
    let of = |event: &RunEvent| match event.kind {
        EventKind::StageRetrying { .. } => Some(("waits", event.time.as_millis())),
        EventKind::StageStarted { ref stage, .. } if stage.node == "a" => {
            Some(("begins", event.time.as_millis()))
        }
        _ => None,
    };
    let reported: Vec<(&str, u64)> = ran.events.iter().filter_map(of).collect();
    assert_eq!(
        reported,
        [
            ("begins", 0),
            ("waits", 0),
            ("begins", 200),
            ("waits", 200),
            ("begins", 600)
        ]
    );
}

#[tokio::test]
async fn jitter_changes_the_delays_when_configured() {
    let attributes = "retry_policy=standard, retry_jitter=true";
    let mut seen = Vec::new();
    for seed in 0..20 {
        let delays = delays(attributes, seed).await;
        for (delay, exact) in delays.iter().zip([200.0, 400.0, 800.0, 1_600.0]) {
            let factor = *delay as f64 / exact;
            assert!((0.5..=1.5).contains(&factor), "{delay} of {exact}");
            seen.push(factor);
        }
        assert_eq!(
            delays,
            self::delays(attributes, seed).await,
            "the seed of the run decides (rule Y4)"
        );
    }
    assert!(
        seen.iter().any(|factor| *factor < 0.75) && seen.iter().any(|factor| *factor > 1.25),
        "{seen:?}"
    );
    assert_eq!(
        delays(attributes, 3).await,
        delays("retry_policy=standard", 3).await,
        "it is on by default"
    );
    let without = "retry_policy=standard, retry_jitter=false";
    assert_eq!(delays(without, 1).await, delays(without, 2).await);
}

#[tokio::test]
async fn after_the_last_retry_the_final_outcome_selects_the_edge() {
    let text = |attributes: &str| {
        format!(
            r#"digraph {{ start -> a; a [max_retries=2, {attributes}]
            a -> failed  [condition="outcome=fail"];    failed  -> exit
            a -> retry   [condition="outcome=retry"];   retry   -> exit
            a -> partial [condition="outcome=partial_success"]; partial -> exit
            a -> fine    [condition="outcome=success"]; fine    -> exit }}"#
        )
    };
    let fail = Outcome::fail("red").set("last", true);
    let cases = [
        (
            "label=A",
            [
                Outcome::retry("one"),
                Outcome::retry("two"),
                Outcome::retry("three"),
            ],
            "failed",
        ),
        (
            "label=A",
            [Outcome::retry("one"), Outcome::retry("two"), fail.clone()],
            "failed",
        ),
        (
            "allow_partial=true",
            [
                Outcome::retry("one"),
                Outcome::fail("two"),
                Outcome::retry("three"),
            ],
            "partial",
        ),
        (
            "label=A",
            [Outcome::fail("one"), fail, Outcome::success()],
            "fine",
        ),
    ];
    for (attributes, outcomes, target) in cases {
        let model = Model::new().gives("a", outcomes.clone());
        let builder = Engine::builder().backend(model.clone()).clock(Ticks::default());
        let (engine, heard) = listening(builder);
        let ran = heard.end(engine.start(pipeline(&text(attributes)), ())).await;
        ran.succeeds_by(&format!("start a {target} exit"));
        assert_eq!(model.count("a"), 3);
        // Rule Y1: only the final attempt changes the context.
        let last = outcomes[2].context_updates.get("last");
        assert_eq!(ran.result.context.get("last"), last);
    }
}
