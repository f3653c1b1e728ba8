//! A worker of a fleet, which is killed: it runs the cases that its standard input names.

#![allow(clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use orchestra_conformance::case::{Actor, Case};
use orchestra_conformance::log::Log;
use orchestra_conformance::workers::Order;
use orchestra_restate::{Blobs, Worker};

#[tokio::main]
async fn main() {
    let mut order = String::new();
    std::io::stdin().read_to_string(&mut order).unwrap();
    let order: Order = serde_json::from_str(&order).unwrap();
    let actor = Actor {
        case: None,
        log: Some(Arc::new(Log::open(&order.log))),
        takes: order.takes,
    };
    let engine = Case::engine();
    let mut worker = Worker::builder(&order.ingress, Blobs::in_folder(&order.blobs).unwrap());
    for plan in order.cases {
        let case = Arc::new(Case::planned(plan));
        worker = worker.pipeline(case.entry(&actor), engine.clone());
    }
    let worker = worker.build().unwrap();
    let listener = Worker::listen(order.listen).unwrap();
    // Whoever started the worker waits for this.
    std::io::stdout().write_all(b"ready\n").unwrap();
    worker.serve(listener, std::future::pending()).await;
}
