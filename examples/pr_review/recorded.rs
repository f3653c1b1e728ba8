//! Runs the pipeline with models against recorded traffic. A model server on loopback gives the recorded answers.
//! Each request, each prompt and the outcome of the run must be as recorded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use orchestra::engine::{Disk, QueueInterviewer};
use orchestra::graph::ChildReader as _;
use orchestra_model_server_tests::{Answer as ModelAnswer, Fault, ModelServer, Request, Wire};
use serde_json::{Value, json};

use super::*;

/// The requests and answers of each stage, in order.
type Recording = BTreeMap<String, Vec<Value>>;

/// The stages that call a model.
const STAGES: [&str; 5] = ["security", "design", "correctness", "critic", "synthesizer"];

/// The answers of the person.
const SAID: [&str; 3] = [
    "Name the people of the example in the first point.",
    "There is no test for either. I would not merge it.",
    "/approve",
];

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded").join(name)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the agents of the program, with the server as their provider.
fn agents_of(server: &ModelServer, key: PathBuf) -> Agents {
    let (at, text) = (
        pr_review::CONFIG.configuration(),
        pr_review::CONFIG.files().iter(),
    );
    let own = text.clone().find(|(path, _)| *path == at).unwrap().1;
    let models = "  anthropic:\n    models:";
    assert!(own.contains(models), "{own}");
    let base = server.base(Wire::Anthropic);
    let provider = format!("  anthropic:\n    api_base: {base:?}\n    api_key_file: {key:?}\n    models:");
    let own = own.replace(models, &provider);
    let files = move |path: &str, limit: u64| match path {
        path if path == at => Ok(own.clone().into_bytes()),
        path if Path::new(path).is_absolute() => Disk.read(path, limit),
        path => pr_review::CONFIG.read(path, limit),
    };
    let project = Project::load(at, &files);
    assert!(!project.report.has_errors(), "{:#?}", project.report.diagnostics);
    Agents::builder(project).reader(files).build().unwrap()
}

fn answer(exchange: &Value) -> ModelAnswer {
    let answer = &exchange["answer"];
    let tokens = |at: usize| answer["tokens"][at].as_u64().unwrap();
    let calls = answer["calls"].as_array().unwrap().iter();
    let said = ModelAnswer::text(answer["text"].as_str().unwrap()).tokens(tokens(0), tokens(1));
    calls.fold(said, |said, call| {
        said.and_call(call["name"].as_str().unwrap(), call["arguments"].to_string())
    })
}

/// Answers each stage as recorded, and stores its requests.
fn answer_as_recorded(
    server: &ModelServer,
    systems: Vec<(String, String)>,
    recording: Recording,
) -> Arc<Mutex<Recording>> {
    let asked: Arc<Mutex<Recording>> = Arc::default();
    let kept = asked.clone();
    server.respond_with(move |request: &Request| {
        let prompt = request.body["system"][0]["text"].as_str().unwrap_or_default();
        let stage = systems
            .iter()
            .find(|(_, system)| prompt.starts_with(system.as_str()));
        let mut kept = kept.lock().unwrap();
        let stage = stage.map_or("nobody", |(stage, _)| stage.as_str());
        let before = kept.entry(stage.to_owned()).or_default();
        let exchange = recording.get(stage).and_then(|all| all.get(before.len()));
        before.push(json!({
            "answer": exchange.map_or(Value::Null, |exchange| exchange["answer"].clone()),
            "request": request.body,
        }));
        exchange.map_or_else(
            || {
                ModelAnswer::fault(Fault::Error {
                    status: 400,
                    code: "not_recorded",
                    message: "that was not asked when it was recorded",
                    retry_after: None,
                })
            },
            answer,
        )
    });
    asked
}

/// Compares a text with a recorded file. If the file is missing, writes it and fails.
#[track_caller]
fn compare(name: &str, now: &str) {
    let path = recorded(name);
    if !path.exists() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, now).unwrap();
        panic!("{name} was recorded; look at it and run the test again");
    }
    assert_eq!(read(&path), now, "{name} is not as it was recorded");
}

/// To record again, remove the requests from `review.json` and the prompts, and run this test until it passes.
#[tokio::test]
async fn the_review_goes_as_it_was_recorded() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("src")).unwrap();
    std::fs::copy(recorded("src/sessions.rs"), dir.path().join("src/sessions.rs")).unwrap();
    let key = dir.path().join("key");
    std::fs::write(&key, "key-of-the-tests-0123456789").unwrap();

    let server = ModelServer::start();
    let agents = agents_of(&server, key);
    let resolution = agents.resolve(&pr_review::PIPELINE);
    assert!(!resolution.has_errors(), "{:#?}", resolution.reports);
    let systems = STAGES.map(|stage| {
        let system = resolution.stage(stage).unwrap().system.trim();
        (stage.to_owned(), system.to_owned())
    });
    let recording: Recording = serde_json::from_str(&read(&recorded("review.json"))).unwrap();
    let asked = answer_as_recorded(&server, systems.to_vec(), recording.clone());

    let person = QueueInterviewer::new().answers_for("synthesizer", SAID.map(Answer::choice));
    let engine = Engine::builder()
        .secrets(agents.secrets())
        .backend(agents)
        .interviewer(person)
        .working_dir(dir.path())
        .runs_dir(dir.path().join("runs"))
        .build()
        .unwrap();
    let run = engine
        .start(
            pr_review::PIPELINE.with(pr_review::Inputs {
                pr_diff: CHANGE.to_owned(),
            }),
            Rounds,
        )
        .run_id("recorded");
    let run = run.await.unwrap();
    let folder = run.run_dir().unwrap().to_owned();
    let result = run.wait().await.unwrap();
    assert!(
        result.is_success(),
        "{:?}\n{:#?}",
        result.failure,
        server.requests().last()
    );

    let asked = asked.lock().unwrap().clone();
    if recording
        .values()
        .flatten()
        .any(|exchange| exchange["request"].is_null())
    {
        let text = format!("{:#}\n", json!(asked));
        std::fs::write(recorded("review.json"), text).unwrap();
        panic!("review.json was recorded; look at it and run the test again");
    }
    for stage in STAGES {
        let (then, now) = (&recording[stage], &asked[stage]);
        assert_eq!(then.len(), now.len(), "{stage} was asked another number of times");
        for (turn, (then, now)) in then.iter().zip(now).enumerate() {
            assert_eq!(then, now, "{stage}, request {}", turn + 1);
        }
    }
    assert_eq!(asked.len(), STAGES.len(), "nobody else asks");

    for stage in STAGES {
        let visits = std::fs::read_dir(folder.join(stage).join("visits")).into_iter();
        for visit in visits.flatten() {
            let visit = visit.unwrap();
            let number = visit.file_name().into_string().unwrap();
            compare(
                &format!("prompts/{stage}_{number}.md"),
                &read(&visit.path().join("prompt.md")),
            );
        }
        compare(
            &format!("prompts/{stage}.md"),
            &read(&folder.join(stage).join("prompt.md")),
        );
    }

    let path = "start security design correctness review collect critic rounds \
        security design correctness review collect critic synthesizer exit";
    assert_eq!(result.path.join(" "), path);
    let review = read(&folder.join("synthesizer/response.md"));
    assert!(
        review.starts_with("**reject**") && review.ends_with("A test of both."),
        "{review}"
    );
    assert_eq!(result.context.text("human.chat.verdict"), "approved");
    let used = recording.values().flatten();
    let used = used.fold((0, 0), |(input, output), exchange| {
        let tokens = |at: usize| exchange["answer"]["tokens"][at].as_u64().unwrap();
        (input + tokens(0), output + tokens(1))
    });
    assert_eq!((result.usage.input_tokens, result.usage.output_tokens), used);
}
