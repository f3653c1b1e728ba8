//! Attractor 11.12: the pipelines of the parity matrix, which workers of a Restate server run as the engine does.

use orchestra::engine::{
    Binding, Clock as _, Entry, QueueInterviewer, RunEvent, RunId, SharedPipeline, SystemClock,
};
use orchestra::prelude::*;
use orchestra::restate::{Client, Phase, RemoteStart};
use orchestra_attractor_tests::{Model, line, listening};
use orchestra_conformance::fleet::Fleet;
use serde_json::Value;

use crate::parity::pipelines;

/// A pipeline with what its model and its people say.
struct Case {
    name: &'static str,
    pipeline: SharedPipeline,
    model: Model,
    answers: &'static [&'static str],
}

fn case(name: &'static str, compiled: impl Binding<()>, model: Model) -> Case {
    Case {
        name,
        pipeline: compiled.into_pipeline(),
        model,
        answers: &[],
    }
}

fn asked(name: &'static str, compiled: impl Binding<()>, answers: &'static [&'static str]) -> Case {
    Case {
        answers,
        ..case(name, compiled, Model::new())
    }
}

fn cases() -> Vec<Case> {
    use pipelines::*;
    let failures = |count: usize| {
        let failures = std::iter::repeat_n(Outcome::fail("not yet"), count);
        failures.chain([Outcome::success()])
    };
    let colors = Model::new().gives("a", [Outcome::success().set("color", "red")]);
    let failing = |model: Model, node: &&str| model.fails(node, "no disk");
    vec![
        case("linear", &linear::PIPELINE, Model::new()),
        case("context", &linear::PIPELINE, colors),
        case("success", &branches::PIPELINE, Model::new()),
        case(
            "failure",
            &branches::PIPELINE,
            Model::new().fails("work", "no disk"),
        ),
        case(
            "retried",
            &retries::PIPELINE,
            Model::new().gives("a", failures(2)),
        ),
        case(
            "given_up",
            &retries::PIPELINE,
            Model::new().gives("a", failures(3)),
        ),
        case("gated", &gated::PIPELINE, Model::new().gives("test", failures(1))),
        case("open", &gated::PIPELINE, Model::new()),
        case("condition", &conditional_over_weight::PIPELINE, Model::new()),
        case("weight", &weights::PIPELINE, Model::new()),
        case("lowest", &lexical::PIPELINE, Model::new()),
        case("styled", &styled::PIPELINE, Model::new()),
        case("goal", &goal::PIPELINE, Model::new()),
        case("block", &block::PIPELINE, Model::new().fails("two", "no disk")),
        case(
            "no_candidate",
            &block::PIPELINE,
            ["one", "two", "three"].iter().fold(Model::new(), failing),
        ),
        case("long", &long::PIPELINE, Model::new()),
        asked("yes", &asking::PIPELINE, &["Y"]),
        asked("no", &asking::PIPELINE, &["No"]),
        asked("again", &kept::PIPELINE, &["No", "Yes"]),
    ]
}

/// Returns the events without those about the run folder, which a server does not have. The branches of a block are executed
/// at the same time, so the order is not compared.
fn reported(events: &[RunEvent]) -> Vec<String> {
    let lines = events.iter().map(|event| line(&event.kind));
    let mut lines: Vec<String> = lines
        .filter(|line| !line.starts_with("CheckpointSaved"))
        .collect();
    lines.sort();
    lines
}

/// Returns a context without the durations of branches, and without the origin of answers: those of the engine are prepared.
fn comparable(context: &Context) -> Value {
    fn remove(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("duration_ms");
                fields.values_mut().for_each(remove);
            }
            Value::Array(list) => list.iter_mut().for_each(remove),
            _ => {}
        }
    }
    let mut context = serde_json::to_value(context).unwrap();
    remove(&mut context);
    context.as_object_mut().unwrap().remove("human.gate.answered_by");
    context
}

/// Answers the questions of a run, and waits until it has ended.
async fn end(client: &Client, run: &RunId, answers: &[&str]) {
    let mut answers = answers.iter();
    let mut last = String::new();
    loop {
        let status = client.status(run).await.unwrap();
        if let Phase::Ended(_) = status.phase {
            return;
        }
        if let Some(question) = status.questions.first()
            && question.id != last
        {
            let answer = Answer::choice(*answers.next().unwrap());
            client.answer(run, &question.id, answer).await.unwrap();
            last.clone_from(&question.id);
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_of_a_server_run_the_parity_matrix_as_the_engine_does() {
    let Some(mut fleet) = Fleet::start("the parity matrix on a server").await else {
        return;
    };
    let cases = cases();
    let mut worker = fleet.worker();
    for case in &cases {
        let engine = Engine::builder().backend(case.model.anew()).build().unwrap();
        worker = worker.pipeline(Entry::new(case.name, case.pipeline.clone(), || ()), engine);
    }
    let _serving = fleet.serve(&worker.build().unwrap()).await;
    let client = fleet.client();
    for case in cases {
        let interviewer = QueueInterviewer::new().answers(case.answers.iter().copied());
        let (engine, heard) = listening(
            Engine::builder()
                .backend(case.model.anew())
                .interviewer(interviewer),
        );
        let expected = heard.end(engine.start(case.pipeline, ()).seed(7)).await;

        let run = RunId::generate(SystemClock::new().now());
        let start = RemoteStart {
            seed: Some(7),
            ..RemoteStart::of(case.name)
        };
        client.start(&run, start).await.unwrap();
        end(&client, &run, case.answers).await;
        let result = client.result(&run).await.unwrap();
        assert_eq!(result.path.join(" "), expected.path(), "{}", case.name);
        assert_eq!(result.failure, expected.result.failure, "{}", case.name);
        let contexts = [&result.context, &expected.result.context].map(comparable);
        assert_eq!(contexts[0], contexts[1], "{}", case.name);
        let events = client.events(&run, 0).await.unwrap();
        assert_eq!(reported(&events), reported(&expected.events), "{}", case.name);
    }
    fleet.server.stop().await;
}
