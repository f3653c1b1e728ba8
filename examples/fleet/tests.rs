//! Simulates the pipeline with its handlers. The agent and the person are scripted.

use orchestra::testkit::Simulation;

use super::fleet::{self, Node, choices::Approve};
use super::*;

fn simulation() -> Simulation<Node> {
    fleet::simulate().handlers(Desk)
}

#[test]
fn the_warehouse_is_asked_twice_and_the_reply_is_sent() {
    let run = simulation().answer(Node::Approve, Approve::Send).run();
    run.assert_success();
    run.assert_path([
        Node::Start,
        Node::Customer,
        Node::Warehouse,
        Node::Look,
        Node::Order,
        Node::Write,
        Node::Approve,
        Node::Send,
        Node::Exit,
    ]);
}

#[test]
fn every_edge_is_taken_by_one_of_the_choices() {
    let mut coverage = simulation().coverage();
    for choice in [Approve::Send, Approve::Discard] {
        coverage.add(simulation().answer(Node::Approve, choice).run().transitions());
    }
    coverage.assert_complete();
}

#[test]
fn options_are_parsed() {
    let parse = |arguments: &[&str]| Options::parse(arguments.iter().map(|argument| (*argument).to_owned()));
    assert_eq!(parse(&[]), Ok(Some(Options::default())));
    assert_eq!(parse(&["--help"]), Ok(None));
    let options = parse(&["--ask", "--runs", "elsewhere", "--serve"])
        .unwrap()
        .unwrap();
    assert!(options.ask && options.serve);
    assert_eq!(options.runs().unwrap(), Path::new("elsewhere"));
    assert_eq!(parse(&["--runs"]), Err("`--runs` needs a folder".to_owned()));
    assert_eq!(parse(&["worke"]), Err("unknown option `worke`".to_owned()));
}
