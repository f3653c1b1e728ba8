//! Tests of stages: panics, time-outs, cancellation, missing handlers, models, simulation.
use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use orchestra_engine::{
    BackendError, CodergenBackend, CodergenReply, CodergenRequest, Engine, Handler, HandlerFuture,
    HandlerSet, KindSpec, Kinds, Outcome, Registry, RunFailure, RunStatus, Script, StageContext, StartError,
    Words,
};
use orchestra_graph::{LoadOptions, ShapeFallback, Source, Transform, load};
use support::{Acts, acts, engine, pipeline, run, start};

#[tokio::test]
async fn a_panic_is_a_failure_with_the_panics_message() {
    let now = Acts::new().on("a", |_| -> std::future::Ready<Outcome> { panic!("at once") });
    let result = run(acts("start -> a -> exit"), now).await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `a` failed: the handler panicked: at once"
    );
    let later = Acts::new().on("a", |stage| async move {
        tokio::task::yield_now().await;
        panic!("in visit {}", stage.visit())
    });
    let result = run(acts("start -> a -> exit"), later).await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `a` failed: the handler panicked: in visit 1"
    );
}

#[tokio::test]
async fn a_panic_while_a_handler_is_dropped_is_a_failure_too() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }
    struct Kept(std::future::Ready<Outcome>, #[allow(dead_code)] Bomb);
    impl std::future::Future for Kept {
        type Output = Outcome;
        fn poll(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Outcome> {
            std::pin::Pin::new(&mut self.0).poll(cx)
        }
    }
    let bomb = Acts::new().on("a", |_| Kept(std::future::ready(Outcome::success()), Bomb));
    let result = run(acts("start -> a -> exit"), bomb).await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `a` failed: the handler panicked: in drop"
    );
}

/// Increments a counter when it is dropped.
struct Dropped(Arc<AtomicU32>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns a stage that never ends, and the number of times that it was dropped.
fn endless() -> (Acts, Arc<AtomicU32>) {
    let drops = Arc::new(AtomicU32::new(0));
    let count = drops.clone();
    let acts = Acts::new().on("a", move |_| {
        let held = Dropped(count.clone());
        async move {
            let _held = held;
            std::future::pending().await
        }
    });
    (acts, drops)
}

#[tokio::test(start_paused = true)]
async fn a_timeout_drops_the_handler_and_fails_the_stage() {
    let (endless, drops) = endless();
    let result = run(acts("start -> a -> exit\n a [timeout=15m]"), endless).await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `a` failed: timed out after 15m"
    );
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_cancels_the_token_of_the_attempt_and_no_other() {
    let (send, cancelled) = tokio::sync::oneshot::channel();
    let send = Arc::new(std::sync::Mutex::new(Some(send)));
    let slow = Acts::new().on("a", move |stage| {
        let (token, send) = (stage.cancellation(), send.lock().unwrap().take());
        tokio::spawn(async move {
            token.cancelled().await;
            let _ = send.unwrap().send(());
        });
        std::future::pending()
    });
    let slow = slow.on("b", |stage| async move {
        assert!(!stage.cancellation().is_cancelled());
        Outcome::success()
    });
    let graph = "start -> a\n a [timeout=1s]\n a -> exit\n a -> b [condition=\"outcome=fail\"]\n b -> exit";
    let result = run(acts(graph), slow).await;
    assert_eq!(result.path, ["start", "a", "b", "exit"]);
    cancelled.await.unwrap();
}

#[tokio::test]
async fn cancelling_drops_the_handler_and_ends_the_run() {
    let (endless, drops) = endless();
    let run = start(acts("start -> a -> exit"), endless).await;
    let mut events = run.events();
    while events.recv().await.unwrap().kind.name() != "EdgeSelected" {}
    run.cancel("not needed");
    run.cancel("the first reason stands");
    let result = run.wait().await.unwrap();
    assert_eq!(result.status, RunStatus::Cancelled);
    assert_eq!(
        result.failure,
        Some(RunFailure::Cancelled {
            reason: "not needed".to_owned()
        })
    );
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    assert_eq!(result.path, ["start"]);
}

#[tokio::test]
async fn a_run_that_never_waits_can_be_cancelled_and_lets_others_work() {
    let graph =
        "graph [max_node_visits=2000000000]\nstart -> a\n a -> exit [condition=\"context.done=1\"]\n a -> a";
    let run = start(acts(graph), Acts::new()).await;
    let canceller = run.canceller();
    tokio::spawn(async move { canceller.cancel("enough") });
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_too_long_stops_where_it_is_and_says_so() {
    let (endless, drops) = endless();
    let started = engine().start(acts("start -> a -> exit"), endless);
    let result = started
        .max_time(Duration::from_secs(300))
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    assert_eq!(result.status, RunStatus::Paused);
    let failure = result.failure.unwrap();
    assert_eq!(
        (failure.code(), failure.to_string().as_str()),
        ("max_time", "the run took longer than its limit of 5m")
    );
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_run_that_never_waits_is_bounded_in_time_too() {
    let graph =
        "graph [max_node_visits=2000000000]\nstart -> a\n a -> exit [condition=\"context.done=1\"]\n a -> a";
    let started = engine().start(acts(graph), Acts::new());
    let run = started.max_time(Duration::from_millis(20)).await.unwrap();
    assert_eq!(run.wait().await.unwrap().failure.unwrap().code(), "max_time");
}

#[tokio::test]
async fn a_run_goes_on_when_its_handle_is_dropped() {
    let (send, ended) = tokio::sync::oneshot::channel();
    let send = Arc::new(std::sync::Mutex::new(Some(send)));
    let last = Acts::new().on("b", move |_| {
        let send = send.lock().unwrap().take();
        async move {
            let _ = send.unwrap().send(());
            Outcome::success()
        }
    });
    drop(start(acts("start -> a -> b -> exit"), last).await);
    ended.await.unwrap();
}

#[test]
fn the_end_of_the_runtime_drops_the_handler_and_is_reported() {
    let (endless, drops) = endless();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let run = runtime.block_on(async {
        let run = start(acts("start -> a -> exit"), endless).await;
        let mut events = run.events();
        while events.recv().await.unwrap().kind.name() != "EdgeSelected" {}
        run
    });
    drop(runtime);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    let other = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = other.block_on(run.wait()).unwrap_err();
    assert_eq!(error.code(), "lost");
}

#[test]
fn a_start_without_a_runtime_is_an_error() {
    let mut started = std::pin::pin!(std::future::IntoFuture::into_future(
        engine().start(acts("start -> a -> exit"), Acts::new())
    ));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Err(error)) = started.as_mut().poll(&mut cx) else {
        panic!("the start must fail at once");
    };
    assert_eq!(error.code(), "no_runtime");
}

#[tokio::test]
async fn everything_that_is_missing_is_reported_at_once_with_its_position() {
    let graph = pipeline(
        "digraph t {
    start -> lint -> model -> approve -> exit
    lint [type=\"lint.rnu\"]
    approve [shape=hexagon]
    approve -> lint [label=Again, loop_restart=true]
    model -> exit
    lint -> exit
    model [prompt=\"Do it.\"]
}",
    );
    let error = engine().start(graph, Acts::new()).await.unwrap_err();
    let StartError::Refused(refusals) = &error else {
        panic!("{error}")
    };
    let codes: Vec<_> = refusals
        .list
        .iter()
        .map(|refusal| (refusal.code, refusal.position.line))
        .collect();
    assert_eq!(codes, [("missing_handler", 3), ("no_backend", 8)], "{error}");
    let reported = error.to_string();
    for part in [
        "pipeline `t` cannot be run\n  t.dot:3:5: ",
        "node `lint` is of kind `lint.rnu`, which has no handler",
        "node `model` is a model stage, but no model is configured",
        "--simulate",
    ] {
        assert!(reported.contains(part), "{part}\n{reported}");
    }
}

#[tokio::test]
async fn a_wrong_attribute_of_a_loaded_pipeline_is_refused_at_the_start() {
    let graph = acts("start -> a -> exit\n a [strictness=high]");
    let error = engine().start(graph, Acts::new()).await.unwrap_err().to_string();
    assert!(
        error.contains("strictness") && error.contains("t.dot:"),
        "{error}"
    );
}

#[tokio::test]
async fn a_shape_stands_in_for_an_unknown_kind_only_where_it_is_let() {
    let text = "digraph t { start -> a -> exit; a [type=\"x.y\", shape=parallelogram, tool_command=\"echo by shape\"] }";
    let error = Engine::builder()
        .build()
        .unwrap()
        .start(pipeline(text), ())
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("`x.y`, which has no handler"),
        "{error}"
    );
    let transforms: Vec<Arc<dyn Transform>> = vec![Arc::new(ShapeFallback::default())];
    let options = LoadOptions {
        transforms,
        ..LoadOptions::default()
    };
    let graph = load(Source::new("t.dot", text), &options).pipeline().unwrap();
    let run = Engine::builder().build().unwrap().start(graph, ()).await.unwrap();
    assert_eq!(
        run.wait().await.unwrap().context.text("tool.last_line"),
        "by shape"
    );
}

#[tokio::test]
async fn a_handler_that_the_engine_would_never_call_is_refused() {
    struct Mine;
    impl Handler for Mine {
        fn run<'a>(&'a self, _: StageContext) -> HandlerFuture<'a> {
            Box::pin(async { Outcome::success().into() })
        }
    }
    impl HandlerSet for Mine {
        const KINDS: Kinds = Kinds::List(&[]);

        fn register(self, registry: &mut Registry) {
            let spec = KindSpec {
                kind: "wait.human",
                fields: &[],
                words: Words::Open,
            };
            registry.add(spec, Arc::new(self));
        }
    }
    let graph = pipeline("digraph t { start -> exit }");
    let error = engine().start(graph, Mine).await.unwrap_err();
    assert!(
        error.to_string().contains("`wait.human` would never be called"),
        "{error}"
    );
}

/// A backend that replies as the prompt says.
struct Echo;

impl CodergenBackend for Echo {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        match request.prompt.split_once(' ').unwrap() {
            ("say", text) => Ok(text.repeat(300).into()),
            ("fail", reason) => Ok(Outcome::fail(reason).into()),
            ("deny", reason) => Err(BackendError::terminal(reason).caused_by("401")),
            (word, rest) => panic!("{word} {rest}"),
        }
    }
}

#[tokio::test]
async fn a_model_stage_keeps_what_the_backend_says() {
    let run = |prompt: &str| {
        let graph = pipeline(&format!(
            "digraph t {{ start -> a -> exit; a [prompt=\"{prompt}\"] }}"
        ));
        let engine = Engine::builder().backend(Echo).build().unwrap();
        async move { engine.start(graph, ()).await.unwrap().wait().await.unwrap() }
    };
    let said = run("say ä").await;
    assert_eq!(said.context.text("last_response"), "ä".repeat(200));
    assert_eq!(
        said.outcomes.get("a").unwrap().notes.as_deref(),
        Some("Stage completed: a")
    );
    assert_eq!(
        run("fail no idea").await.failure.unwrap().to_string(),
        "stage `a` failed: no idea"
    );
    let denied = run("deny not accepted").await;
    assert_eq!(
        denied.failure.unwrap().to_string(),
        "stage `a` failed: not accepted: 401"
    );
}

#[tokio::test]
async fn a_simulated_run_executes_nothing_and_follows_its_script() {
    let graph = pipeline(
        r#"digraph t {
            start -> build -> model -> check -> exit
            build [shape=parallelogram, tool_command="touch /must-not-exist"]
            check [type=act]
            check -> build [condition="outcome=fail"]
        }"#,
    );
    let never = Acts::new().on("check", |_| async { panic!("a simulated run calls no handler") });
    let script = Script::new().outcomes(
        "check",
        [Outcome::fail("red"), Outcome::success().set("color", "green")],
    );
    let engine = Engine::builder().simulate(script).build().unwrap();
    let result = engine.start(graph, never).await.unwrap().wait().await.unwrap();
    assert_eq!(
        result.path.join(" "),
        "start build model check build model check exit"
    );
    assert_eq!(result.context.text("color"), "green");
    assert!(!std::path::Path::new("/must-not-exist").exists());
}

#[tokio::test]
async fn a_script_that_names_an_unknown_node_is_refused() {
    let script = Script::new().outcomes("chekc", [Outcome::success()]);
    let engine = Engine::builder().simulate(script).build().unwrap();
    let graph = pipeline("digraph t { start -> check -> exit }");
    let error = engine.start(graph, ()).await.unwrap_err().to_string();
    assert!(
        error.contains("`chekc`") && error.contains("did you mean `check`?"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_side_by_side_do_not_see_each_other() {
    let graph: orchestra_engine::SharedPipeline = acts("start -> a -> b -> exit").into();
    let mix = Acts::new()
        .on("a", |stage| async move {
            tokio::task::yield_now().await;
            Outcome::success().set("mine", stage.run_id().to_string())
        })
        .on("b", |stage| async move {
            assert_eq!(stage.context().text("mine"), stage.run_id().to_string());
            Outcome::success()
        });
    let engine = engine();
    let mut waits = Vec::new();
    for _ in 0..200 {
        let run = engine.start(graph.clone(), mix.clone()).await.unwrap();
        waits.push((run.id().clone(), run.wait()));
    }
    let mut ids = std::collections::BTreeSet::new();
    for (id, wait) in waits {
        let result = wait.await.unwrap();
        assert!(result.is_success(), "{:?}", result.failure);
        assert_eq!(result.context.text("mine"), id.to_string());
        assert!(ids.insert(id));
    }
}

#[tokio::test]
async fn a_stage_knows_where_it_is() {
    let looked = Acts::new().on("a", |stage| async move {
        assert_eq!((stage.visit(), stage.attempt()), (2, 1));
        Outcome::success()
    });
    let looked = looked.on("a", |stage| async move {
        assert_eq!(stage.goal(), "Ship");
        assert_eq!(stage.attempt_key(), format!("a#{}/1", stage.visit()));
        assert_eq!(stage.node().text("color"), Some("red"));
        assert_eq!(stage.run_dir(), None);
        Outcome::success().set("again", stage.visit())
    });
    let graph =
        "graph [goal=Ship]\nstart -> a\n a [color=red]\n a -> exit [condition=\"context.again=2\"]\n a -> a";
    assert_eq!(run(acts(graph), looked).await.path, ["start", "a", "a", "exit"]);
}

#[tokio::test]
async fn a_stage_folder_without_a_run_folder_is_temporary() {
    let (send, mut folders) = tokio::sync::mpsc::unbounded_channel();
    let writes = Acts::new().on("a", move |stage| {
        let folder = stage.stage_dir().unwrap();
        std::fs::write(folder.join("note.txt"), "kept for the run").unwrap();
        send.send(folder).unwrap();
        std::future::ready(Outcome::success())
    });
    let writes = writes.on("b", |stage| {
        let beside = stage.stage_dir().unwrap().parent().unwrap().join("a/note.txt");
        std::future::ready(Outcome::success().set("read", std::fs::read_to_string(beside).unwrap()))
    });
    let result = run(acts("start -> a -> b -> exit"), writes).await;
    assert_eq!(result.context.text("read"), "kept for the run");
    assert!(!folders.recv().await.unwrap().parent().unwrap().exists());
}
