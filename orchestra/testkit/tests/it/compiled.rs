//! Simulations of compiled pipelines, whose nodes and answers are types of the generated module.
use orchestra::prelude::*;
use orchestra_testkit::{Coverage, Simulation};

mod pipelines {
    orchestra::pipeline! {
        pub mod release = digraph release {
            goal = "Ship it"
            start  -> draft -> critic
            draft  [prompt="Draft the notes", max_retries=2]
            critic [type="review.run", outcomes="approved,rejected"]
            critic -> ship  [condition="outcome=approved"]
            critic -> draft [condition="outcome!=approved"]
            ship   [shape=hexagon, label="Ship it?"]
            ship   -> exit  [label="[Y] Yes"]
            ship   -> draft [label="[N] No"]
        }
    }
}

use pipelines::release::{self, Node, choices};

#[derive(Outcome)]
enum Verdict {
    Approved,
    Rejected,
}

#[test]
fn an_unbound_pipeline_is_driven_by_its_own_types() {
    let run = release::simulate()
        .outcome(Node::Draft, ["fail", "success"])
        .outcome(Node::Critic, [Verdict::Rejected, Verdict::Approved])
        .answer(Node::Ship, choices::Ship::No)
        .answer(Node::Ship, choices::Ship::Yes)
        .run();
    run.assert_success().assert_path([
        Node::Start,
        Node::Draft,
        Node::Critic,
        Node::Draft,
        Node::Critic,
        Node::Ship,
        Node::Draft,
        Node::Critic,
        Node::Ship,
        Node::Exit,
    ]);
    assert_eq!(run.taken(Node::Critic, Node::Ship), 2);
    assert_eq!(run.outcome(Node::Critic).unwrap().status.word(), "approved");
    assert_eq!(run.context().text("graph.goal"), "Ship it");
}

#[test]
fn paths_are_compared_with_nodes() {
    let run = release::simulate()
        .outcome(Node::Critic, [Verdict::Approved])
        .run();
    run.assert_waits_for(Node::Ship);
    assert_eq!(*run.path(), [Node::Start, Node::Draft, Node::Critic]);
}

#[test]
fn an_answer_of_another_gate_is_refused() {
    orchestra::pipeline! {
        mod other = digraph other {
            start -> ask
            ask   [shape=hexagon]
            ask   -> exit [label="[M] Maybe"]
        }
    }
    let error = release::simulate()
        .answer(Node::Ship, other::choices::Ask::Maybe)
        .try_run()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the gate `ship` has no choice `M`; its choices are [Y] Yes, [N] No"
    );
}

#[test]
fn the_runs_of_a_pipeline_add_up_to_all_of_its_edges() {
    let mut coverage = release::simulate().coverage();
    let approve = release::simulate().outcome(Node::Critic, ["approved"]);
    coverage.add(
        approve
            .clone()
            .answer(Node::Ship, choices::Ship::Yes)
            .run()
            .transitions(),
    );
    assert_eq!(
        coverage.summary(),
        "edges: 4 of 6 taken (67 %), not taken: critic -> draft [outcome!=approved], ship -> draft \"[N] No\""
    );
    let rejected = release::simulate().outcome(Node::Critic, ["rejected", "approved"]);
    coverage.add(
        rejected
            .answer(Node::Ship, "no")
            .answer(Node::Ship, "yes")
            .run()
            .transitions(),
    );
    coverage.assert_complete();
    assert_eq!((coverage.percent(), coverage.runs()), (100, 2));
}

#[test]
fn a_compiled_pipeline_is_simulated_by_texts_too() {
    let run = Simulation::from_pipeline(&*release::PIPELINE)
        .outcome("critic", ["approved"])
        .run();
    run.assert_waits_for("ship");
    let mut coverage = Coverage::new(&*release::PIPELINE);
    coverage.add(run.transitions());
    assert_eq!(coverage.counts(), (3, 6));
}

struct Counter;

#[handlers]
impl Counter {
    #[handler("review.run")]
    async fn review(&self, stage: StageContext) -> Result<Verdict, std::fmt::Error> {
        // An hour of simulated time.
        tokio::time::sleep(std::time::Duration::from_secs(3_600)).await;
        Ok(match stage.visit() {
            1 => Verdict::Rejected,
            _ => Verdict::Approved,
        })
    }
}

#[test]
fn handlers_run_for_real_where_that_is_wanted_and_what_is_scripted_does_not() {
    let begin = std::time::Instant::now();
    let simulation = release::simulate()
        .handlers(Counter)
        .answer(Node::Ship, choices::Ship::Yes);
    let run = simulation.run();
    run.assert_success();
    assert_eq!(run.taken(Node::Critic, Node::Draft), 1);
    assert_eq!(run.duration(), std::time::Duration::from_secs(2 * 3_600));
    let scripted = simulation.outcome(Node::Critic, ["approved"]).run();
    assert_eq!(scripted.taken(Node::Critic, Node::Draft), 0);
    assert!(scripted.duration().is_zero());
    assert!(begin.elapsed() < std::time::Duration::from_secs(30));
}
