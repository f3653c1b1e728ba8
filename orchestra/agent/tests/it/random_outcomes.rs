//! Ten thousand random objects each as status file and as report: none has more effects than an outcome may have (rules
//! K1 and K2). The tests have their own implementation of the permitted effects.

use crate::support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use orchestra_agent::TokenUsage;
use orchestra_engine::{
    BackendError, CodergenBackend, CodergenReply, CodergenRequest, Context, Engine, EngineBuilder, EventKind,
    RunResult, SharedPipeline,
};
use serde_json::{Map, Value, json};
use support::{Scripted, agents, pipeline, report};

/// The number of objects of each kind.
const OBJECTS: u64 = 4_000;
/// The value of every reserved key.
const FORGED: &str = "forged";
const FLOW: &str = "digraph { goal=honest; start -> a -> exit; a [prompt=x, \"agent.tools\"=\"\", on_failure=route, outcomes=\"approved\", retry_policy=none] }";

/// A random number generator (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'t>(&mut self, among: &[&'t str]) -> &'t str {
        among[self.below(among.len())]
    }

    fn value(&mut self, depth: u32) -> Value {
        match self.below(if depth == 0 { 5 } else { 7 }) {
            0 => Value::Null,
            1 => self.chance(50).into(),
            2 => (self.next() as i32).into(),
            3 => (self.below(1_000) as f64 / 8.0).into(),
            4 => self.pick(&["", "yes", "no", "ünïcode", "line\nbreak"]).into(),
            5 => (0..self.below(3)).map(|_| self.value(depth - 1)).collect(),
            _ => {
                let names = ["a", "gate", "selected", "human"];
                let fields =
                    (0..self.below(3)).map(|_| (self.pick(&names).to_owned(), self.value(depth - 1)));
                fields.collect::<Map<String, Value>>().into()
            }
        }
    }

    /// Returns a reserved key, in one of its spellings.
    fn reserved(&mut self) -> String {
        let namespaces = [
            "graph",
            "human",
            "internal",
            "parallel",
            "stack",
            "stages",
            "visits",
            "workspace",
            "tool",
        ];
        let below = [
            "gate.selected",
            "gate.answered_by",
            "goal",
            "retry_count.a",
            "results",
            "a",
            "fan_in.best_id",
        ];
        let plain = [
            "outcome",
            "preferred_label",
            "failure_reason",
            "current_node",
            "last_stage",
            "last_response",
            "error_history",
        ];
        let key = if self.chance(70) {
            format!("{}.{}", self.pick(&namespaces), self.pick(&below))
        } else {
            self.pick(&plain).to_owned()
        };
        match self.below(6) {
            0 => format!("context.{key}"),
            1 => key.to_uppercase(),
            2 => format!(" {key}\n"),
            3 => format!("context.Context.{key}"),
            _ => key,
        }
    }

    fn key(&mut self) -> String {
        let words = [
            "tests_passed",
            "count",
            "work.count",
            "context.mine",
            "humans",
            "my.human.gate",
            "größe",
            "",
            "x y",
        ];
        self.pick(&words).to_owned()
    }
}

/// An object, and whether it is usable: the fields that are read have valid values.
struct Object {
    fields: Map<String, Value>,
    usable: bool,
}

/// Returns a random object with its status in the field `word`. `extra` adds fields of which only some are read.
fn object(random: &mut Random, word: &str, extra: bool) -> Object {
    let mut fields = Map::new();
    let mut usable = true;
    let words = [
        "success",
        "fail",
        "partial_success",
        "retry",
        "SUCCESS",
        "approved",
        "paused",
        "suspended",
    ];
    let said = random.pick(&words);
    usable &= !["paused", "suspended"].contains(&said);
    fields.insert(word.to_owned(), said.into());
    for name in ["preferred_label", "notes", "failure_reason"] {
        if random.chance(40) {
            let value = if random.chance(6) {
                usable = false;
                json!(["no", "text"])
            } else {
                random.pick(&["Ship", "over_budget", "waits_for_human"]).into()
            };
            fields.insert(name.to_owned(), value);
        }
    }
    if random.chance(25) {
        fields.insert("suggested_next_ids".to_owned(), json!(["exit"]));
    }
    if extra {
        if random.chance(30) {
            let words = ["retryable", "terminal", "pipeline"];
            fields.insert("failure_category".to_owned(), random.pick(&words).into());
        }
        if random.chance(30) {
            let codes = [
                "over_budget",
                "waits_for_human",
                "child_stuck",
                "paused",
                "cancelled",
            ];
            fields.insert("failure_code".to_owned(), random.pick(&codes).into());
        }
        if random.chance(20) {
            let names = [
                "suspend",
                "pause",
                "cancelled",
                "status_code",
                "human.gate.selected",
            ];
            let value = random.value(2);
            fields.insert(random.pick(&names).to_owned(), value);
        }
    }
    if random.chance(85) {
        let mut updates = Map::new();
        for _ in 0..random.below(5) {
            if random.chance(55) {
                updates.insert(random.reserved(), FORGED.into())
            } else {
                let key = random.key();
                updates.insert(key, random.value(2))
            };
        }
        let value = if random.chance(4) {
            usable = false;
            json!("none")
        } else {
            updates.into()
        };
        fields.insert("context_updates".to_owned(), value);
    }
    Object { fields, usable }
}

/// Returns whether only the engine may write a key, by an independent implementation.
fn is_reserved(key: &str) -> bool {
    let squeezed: String = key.to_lowercase().split_whitespace().collect();
    let parts: Vec<&str> = squeezed.split('.').collect();
    let from = parts
        .iter()
        .take_while(|part| **part == "context")
        .count()
        .min(parts.len() - 1);
    match &parts[from..] {
        [one] if ["outcome", "preferred_label", "failure_reason", "current_node"].contains(one) => true,
        [one] if ["last_stage", "last_response", "error_history"].contains(one) => true,
        [first, ..] => "graph human internal parallel stack stages visits workspace tool"
            .split(' ')
            .any(|namespace| namespace == *first),
        [] => false,
    }
}

/// Returns the values that an object should write, and the keys that should be ignored.
fn second_opinion(object: &Object) -> (BTreeMap<String, Value>, Vec<String>) {
    let updates = object.fields.get("context_updates").and_then(Value::as_object);
    let mut written = BTreeMap::new();
    let mut left_out = Vec::new();
    for (key, value) in updates.into_iter().flatten().filter(|_| object.usable) {
        if is_reserved(key) {
            left_out.push(key.clone())
        } else {
            drop(written.insert(key.clone(), value.clone()))
        }
    }
    (written, left_out)
}

/// Returns the values that stages wrote: those whose keys are not reserved.
fn written(context: &Context) -> BTreeMap<String, Value> {
    let all = context.iter().filter(|(key, _)| !is_reserved(key));
    all.map(|(key, value)| (key.to_owned(), value.clone())).collect()
}

/// Builds an engine that records the keys of its warnings about ignored keys.
fn listening(builder: EngineBuilder) -> (Engine, Arc<Mutex<Vec<String>>>) {
    let reported = Arc::new(Mutex::new(Vec::new()));
    let hears = reported.clone();
    let engine = builder.on_event(move |event| {
        if let EventKind::StageWarning { keys, node, .. } = &event.kind {
            assert_eq!(&**node, "a");
            hears.lock().unwrap().extend(keys.iter().cloned());
        }
    });
    (engine.build().unwrap(), reported)
}

fn check(object: &Object, result: &RunResult, reported: &Mutex<Vec<String>>) {
    let shown = || Value::Object(object.fields.clone());
    // No object suspends, pauses or ends the run: the node routes a failure.
    assert!(result.is_success(), "{:?}\n{:#}", result.failure, shown());
    assert_eq!(result.path, ["start", "a", "exit"], "{:#}", shown());
    let (expected, mut left_out) = second_opinion(object);
    assert_eq!(written(&result.context), expected, "{:#}", shown());
    let mut reported = std::mem::take(&mut *reported.lock().unwrap());
    reported.sort();
    left_out.sort();
    assert_eq!(reported, left_out, "{:#}", shown());
    for (key, value) in result.context.iter().filter(|(key, _)| is_reserved(key)) {
        assert!(
            !value.to_string().contains(FORGED),
            "{key}: {value}\n{:#}",
            shown()
        );
    }
    assert_eq!(result.context.text("graph.goal"), "honest");
}

/// A backend whose stage writes an object as its status file.
#[derive(Clone, Default)]
struct Writes(Arc<Mutex<String>>);

impl CodergenBackend for Writes {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let folder = request.stage.stage_dir().unwrap();
        std::fs::write(folder.join("status.json"), &*self.0.lock().unwrap()).unwrap();
        Ok("I did it.".into())
    }
}

#[tokio::test]
async fn no_status_file_changes_more_than_it_may() {
    let backend = Writes::default();
    let (engine, reported) = listening(Engine::builder().backend(backend.clone()));
    let flow = SharedPipeline::from(pipeline(FLOW));
    let mut random = Random(11);
    for _ in 0..OBJECTS {
        let word = random.pick(&["outcome", "status"]);
        let object = object(&mut random, word, true);
        *backend.0.lock().unwrap() = serde_json::to_string(&object.fields).unwrap();
        let run = engine.start(flow.clone(), ()).await.unwrap();
        check(&object, &run.wait().await.unwrap(), &reported);
    }
}

#[tokio::test]
async fn no_report_changes_more_than_it_may() {
    let next: Arc<Mutex<Map<String, Value>>> = Arc::default();
    let says = next.clone();
    // After a rejected report the model reports a plain success.
    let model = Scripted::new(move |request| {
        let mut reply = match request.messages.len() {
            1 => report(says.lock().unwrap().clone().into()),
            _ => report(json!({"status": "success"})),
        };
        // Report a usage, so that the tokens need not be counted.
        reply.usage = Some(TokenUsage {
            input: 1,
            output: 1,
            ..TokenUsage::default()
        });
        Ok(reply)
    });
    let agents = agents("", &[], model);
    let (engine, reported) = listening(Engine::builder().backend(agents));
    let flow = SharedPipeline::from(pipeline(FLOW));
    let mut random = Random(23);
    for _ in 0..OBJECTS {
        let object = object(&mut random, "status", false);
        next.lock().unwrap().clone_from(&object.fields);
        let run = engine.start(flow.clone(), ()).await.unwrap();
        check(&object, &run.wait().await.unwrap(), &reported);
    }
}
