//! Attractor 11.11: transforms and extensions.

use std::sync::{Arc, Mutex};

use orchestra::graph::{
    Attribute, Diagnostic, Edge, Graph, Key, Known, LoadOptions, Loaded, Origin, Source, Span, Transform,
    Value, load,
};
use orchestra::prelude::*;
use orchestra_attractor_tests::{Model, Ran, listening, loaded, problems, run};

fn transformed(text: &str, transforms: Vec<Arc<dyn Transform>>) -> Loaded {
    let options = LoadOptions {
        transforms,
        ..LoadOptions::default()
    };
    load(Source::new("test.dot", text), &options)
}

async fn run_loaded(loaded: &Loaded, model: &Model) -> Ran {
    let (engine, heard) = listening(Engine::builder().backend(model.clone()));
    let pipeline = loaded.pipeline().unwrap();
    heard.end(engine.start(pipeline, ())).await
}

/// A text as an attribute that a transform sets.
fn attribute(known: Known, text: &str) -> Attribute {
    let nowhere = Span::new(0, 0);
    Attribute {
        key: Key::Known(known),
        value: Value::String(text.into()),
        key_span: nowhere,
        value_span: nowhere,
        origin: Origin::Transform,
    }
}

/// A transform by a name and a function.
struct Changes<F>(&'static str, F);

impl<F: Fn(Graph) -> Graph + Send + Sync> Transform for Changes<F> {
    fn name(&self) -> &str {
        self.0
    }

    fn apply(&self, graph: Graph, _: &mut Vec<Diagnostic>) -> Graph {
        (self.1)(graph)
    }
}

fn changes(
    name: &'static str,
    change: impl Fn(Graph) -> Graph + Send + Sync + 'static,
) -> Arc<dyn Transform> {
    Arc::new(Changes(name, change))
}

#[tokio::test]
async fn a_transform_changes_the_graph_between_parsing_and_checking() {
    let text = "digraph { start -> work; work [prompt=Work] }";
    assert!(
        problems(&loaded(text))[0].starts_with("terminal_node"),
        "alone it has no exit"
    );
    let adds_exit = changes("adds exit", |mut graph| {
        let work = graph.find("work").unwrap();
        let span = graph.node(work).span;
        let exit = graph.add_node("exit", span);
        let edge = Edge {
            from: work,
            to: exit,
            ..graph.edges[0].clone()
        };
        graph.edges.push(edge);
        graph
    });
    let ended = transformed(text, vec![adds_exit.clone()]);
    assert_eq!(problems(&ended), [""; 0]);
    run_loaded(&ended, &Model::new())
        .await
        .succeeds_by("start work exit");

    // What a transform does wrong is found by the checks, too.
    let misleads = changes("misleads", |mut graph| {
        graph.edges[0]
            .attributes
            .set(attribute(Known::Condition, "outcme=success"));
        graph
    });
    let misled = transformed(text, vec![adds_exit, misleads]);
    assert!(misled.pipeline().is_none());
    assert!(
        problems(&misled)[0].starts_with("condition_syntax"),
        "{:?}",
        problems(&misled)
    );
}

/// Takes the last node away and closes the gap; keeps which graph it was given.
#[derive(Default)]
struct Shortens {
    given: Mutex<Vec<String>>,
}

impl Transform for Shortens {
    fn name(&self) -> &str {
        "shortens"
    }

    fn apply(&self, mut graph: Graph, _: &mut Vec<Diagnostic>) -> Graph {
        let ids = graph.nodes.iter().map(|node| node.id.to_string());
        self.given.lock().unwrap().extend(ids);
        let (last, exit) = (graph.find("slow").unwrap(), graph.find("exit").unwrap());
        graph.nodes.pop();
        graph.edges.retain(|edge| edge.from != last);
        for edge in graph.edges.iter_mut().filter(|edge| edge.to == last) {
            edge.to = exit;
        }
        graph.name = "shorter".to_owned();
        graph
    }
}

#[tokio::test]
async fn a_transform_takes_a_graph_and_gives_a_graph() {
    let shortens = Arc::new(Shortens::default());
    let loaded = transformed(
        "digraph whole { exit; start -> quick -> slow -> exit }",
        vec![shortens.clone()],
    );
    assert_eq!(
        *shortens.given.lock().unwrap(),
        ["exit", "start", "quick", "slow"]
    );
    assert_eq!(problems(&loaded), [""; 0]);
    assert_eq!(loaded.pipeline().unwrap().name, "shorter");
    run_loaded(&loaded, &Model::new())
        .await
        .succeeds_by("start quick exit");
}

#[tokio::test]
async fn the_goal_is_expanded_in_prompts() {
    let text = r#"digraph { goal="a \"small\" poem"; start -> plan -> write -> exit
        plan [prompt="$goal: plan $goal"]; write [prompt="Write it for $5", label="$goal"] }"#;
    let prompt = |graph: &Graph, node: &str| {
        let node = graph.node(graph.find(node).unwrap());
        node.attributes.text(Known::Prompt).unwrap().to_owned()
    };
    let graph = loaded(text).graph;
    assert_eq!(prompt(&graph, "plan"), "a \"small\" poem: plan a \"small\" poem");
    let model = Model::new();
    run(text, &model).await.succeeds_by("start plan write exit");
    let prompts: Vec<String> = model.calls().into_iter().map(|call| call.prompt).collect();
    assert_eq!(
        prompts,
        ["a \"small\" poem: plan a \"small\" poem", "Write it for $5"]
    );

    let aimless = loaded("digraph { start -> plan -> exit; plan [prompt=\"Plan $goal.\"] }").graph;
    assert_eq!(prompt(&aimless, "plan"), "Plan .");
}

/// Adds a text to the prompt of `work`.
fn adds(text: &'static str) -> Arc<dyn Transform> {
    changes(text, move |mut graph| {
        let work = graph.find("work").unwrap().at();
        let attributes = &mut graph.nodes[work].attributes;
        let prompt = format!("{}{text}", attributes.text(Known::Prompt).unwrap());
        attributes.set(attribute(Known::Prompt, &prompt));
        graph
    })
}

#[tokio::test]
async fn custom_transforms_run_in_the_order_in_which_they_are_registered() {
    let text = "digraph { goal=G; start -> work -> exit; work [prompt=\"Do $goal\"] }";
    let cases = [
        (vec![adds(" one"), adds(" two")], "Do G one two"),
        (vec![adds(" two"), adds(" one")], "Do G two one"),
        // The built-in ones come first.
        (vec![adds(" $goal")], "Do G $goal"),
        (vec![], "Do G"),
    ];
    for (transforms, expected) in cases {
        let model = Model::new();
        run_loaded(&transformed(text, transforms), &model)
            .await
            .succeeds_by("start work exit");
        assert_eq!(model.calls()[0].prompt, expected);
    }
}
