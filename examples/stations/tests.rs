//! Tests the route from station to station for given outputs.

use orchestra::testkit::{Simulation, SimulationRun};

use super::stations::{self, Node};
use super::*;

/// Returns the stations after `pick` and `weigh` for these outputs.
fn way(pick: Outcome, weigh: Outcome) -> Vec<String> {
    let simulation: Simulation<Node> = stations::simulate();
    let run = simulation
        .outcome(Node::Pick, [pick])
        .outcome(Node::Weigh, [weigh])
        .run();
    run.assert_success();
    run.path().iter().skip(2).map(str::to_owned).collect()
}

fn weighed(key: &str, value: impl Into<Value>) -> String {
    way(Outcome::success(), Outcome::success().set(key, value)).swap_remove(1)
}

/// Ships an order in the real shop, with scripted scales.
fn order(text: &str, shelves: &[(&str, usize)]) -> SimulationRun<Node> {
    stations::simulate()
        .handlers(Shop::with(shelves))
        .param("order", text)
        .run()
}

#[test]
fn a_success_and_a_failure_take_edges_of_their_own() {
    let nothing = Outcome::success;
    assert_eq!(way(nothing(), nothing()), ["weigh", "counter", "exit"]);
    assert_eq!(way(Outcome::fail("no such goods"), nothing()), ["telephone"]);
}

#[test]
fn a_value_is_compared_with_its_type() {
    assert_eq!(weighed("service", "letter"), "letterbox");
    assert_eq!(weighed("service", "Letter"), "counter");
    assert_eq!(weighed("parcels", 1), "courier");
    assert_eq!(weighed("parcels", "1"), "counter");
    assert_eq!(weighed("bulky", true), "freight");
    assert_eq!(weighed("bulky", "true"), "counter");
}

#[test]
fn the_first_edge_that_fits_is_taken() {
    let weigh = Outcome::success().set("parcels", 1).set("bulky", true);
    assert_eq!(way(Outcome::success(), weigh), ["weigh", "freight", "exit"]);
    let gift = Outcome::success().set("gift", true);
    assert_eq!(
        way(gift, Outcome::success()),
        ["wrap", "weigh", "counter", "exit"]
    );
}

#[test]
fn what_lacks_is_delivered_twice_and_no_more() {
    let run = order("lamp, lamp, lamp", &[]);
    run.assert_success();
    assert_eq!(run.taken(Node::Restock, Node::Pick), 2);
    let run = order("lamp, lamp, lamp, lamp, lamp", &[]);
    run.assert_failure("circular_pipeline");
    assert_eq!(run.taken(Node::Restock, Node::Pick), 2);
}

#[test]
fn an_order_that_cannot_be_filled_takes_nothing_from_the_shelves() {
    let shop = Shop::with(&[("card", 1)]);
    let goods = ["card".to_owned(), "book".to_owned()];
    assert_eq!(shop.take(&goods), ["book"]);
    assert!(shop.take(&goods[..1]).is_empty());
}

#[tokio::test]
async fn the_output_is_taken_from_the_response_and_later_stations_see_it() {
    let engine = Engine::builder().backend(Scales).build().unwrap();
    let shop = Shop::with(&[("book", 1)]);
    let run = engine
        .start(&stations::PIPELINE, shop)
        .param("order", "book; gift");
    let result = run.await.unwrap().wait().await.unwrap();
    assert_eq!(result.context.get("weight"), Some(&json!(400)));
    assert_eq!(result.context.get("bulky"), Some(&json!(false)));
    assert_eq!(result.context.text("sent"), "Letterbox: 400 g, in blue paper");
}
