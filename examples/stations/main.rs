//! First-match routing: each station writes outputs, and the first edge whose condition they meet is taken.
//!
//! A small shop ships an order. With `routing="first_match"`, the edges of a station are tested in the order of the
//! file. Some always hold, some hold after a success or a failure, and some test an output: whether a key is set, or
//! whether it has a value, whose type matters (`1` is not `"1"`). No station is visited twice, unless an edge allows
//! it; here only the delivery of missing goods may repeat, at most twice.
//!
//! `weigh` is a model station with `output_keys`. The engine adds the keys to its prompt and reads them from the JSON
//! block of the response. A small backend replaces the model: it computes the weight and answers in the same form.
//!
//! `cargo run -p stations` ships several orders and prints the stations that each one passed.

#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use orchestra::engine::{BackendError, CodergenReply, CodergenRequest};
use orchestra::prelude::*;
use serde_json::{Value, json};

orchestra::pipeline! {
    /// Ships an order.
    pub mod stations = "stations.dot", handlers = Shop;
}

/// The weight of each kind of goods in grams.
const GOODS: [(&str, u64); 4] = [("card", 20), ("book", 400), ("lamp", 2_500), ("anvil", 30_000)];

/// The number of items in a delivery.
const DELIVERY: usize = 2;

/// The maximum weight of a parcel in grams. A heavier order of small items is split.
const PARCEL: u64 = 5_000;

fn weight_of(goods: &str) -> Option<u64> {
    GOODS
        .iter()
        .find(|(name, _)| *name == goods)
        .map(|(_, grams)| *grams)
}

/// The handlers of the pipeline, and the stock.
#[derive(Default)]
struct Shop {
    shelves: Mutex<BTreeMap<String, usize>>,
}

impl Shop {
    fn with(goods: &[(&str, usize)]) -> Shop {
        let shelves = goods.iter().map(|(name, count)| ((*name).to_owned(), *count));
        Shop {
            shelves: Mutex::new(shelves.collect()),
        }
    }

    /// Takes items from the stock, all or none. The missing ones are an output.
    fn take(&self, goods: &[String]) -> Vec<String> {
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = shelves.clone();
        let lacking: Vec<String> = goods
            .iter()
            .filter(|name| match left.get_mut(*name) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    false
                }
                _ => true,
            })
            .cloned()
            .collect();
        if lacking.is_empty() {
            *shelves = left;
        }
        lacking
    }
}

#[handlers]
impl Shop {
    /// Reads the items of the order, such as `book, book, card; gift`.
    #[handler("shop.pick")]
    async fn pick(&self, stage: StageContext) -> Outcome {
        let order = stage.context().text("order");
        let (goods, wishes) = order.split_once(';').unwrap_or((&order, ""));
        let goods: Vec<String> = goods.split(',').map(|name| name.trim().to_owned()).collect();
        if let Some(unknown) = goods.iter().find(|name| weight_of(name).is_none()) {
            return Outcome::fail(format!("the shop has no `{unknown}`"));
        }
        let lacking = self.take(&goods);
        if !lacking.is_empty() {
            return Outcome::success().set("lacking", lacking);
        }
        Outcome::success()
            .set("goods", goods)
            .set("gift", wishes.contains("gift"))
    }

    /// Orders a delivery of the missing items.
    #[handler("shop.restock")]
    async fn restock(&self, stage: StageContext) -> Outcome {
        let mut lacking = texts(stage.context(), "lacking");
        lacking.dedup();
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        for name in lacking {
            *shelves.entry(name).or_default() += DELIVERY;
        }
        Outcome::success()
    }

    #[handler("shop.wrap")]
    async fn wrap(&self) -> Outcome {
        Outcome::success().set("paper", "blue")
    }

    #[handler("shop.send")]
    async fn send(&self, stage: StageContext) -> Outcome {
        let context = stage.context();
        let paper = match context.text("paper").as_str() {
            "" => String::new(),
            paper => format!(", in {paper} paper"),
        };
        let (label, grams) = (stage.node().label(), context.text("weight"));
        Outcome::success().set("sent", format!("{label}: {grams} g{paper}"))
    }

    #[handler("shop.telephone")]
    async fn telephone(&self, stage: StageContext) -> Outcome {
        let order = stage.context().text("order");
        Outcome::success().set("sent", format!("nothing; asked what `{order}` means"))
    }
}

/// Replaces a model: weighs the items, and answers in words with a JSON block, as the prompt requests.
struct Scales;

impl CodergenBackend for Scales {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let goods = texts(request.stage.context(), "goods");
        let weights: Vec<u64> = goods.iter().filter_map(|name| weight_of(name)).collect();
        let weight: u64 = weights.iter().sum();
        let service = if weight <= 500 { "letter" } else { "parcel" };
        let output: Value = json!({
            "service": service,
            "weight": weight,
            "parcels": weight.div_ceil(PARCEL),
            "bulky": weights.iter().any(|weight| *weight > 20_000),
        });
        let text = format!(
            "I put {} on the scales.\n\n```json\n{output:#}\n```\n",
            goods.join(", ")
        );
        Ok(text.into())
    }
}

/// Returns the texts of a list in the context.
fn texts(context: &Context, key: &str) -> Vec<String> {
    let list = context.get(key).and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::builder().backend(Scales).build()?;
    for order in [
        "card, card",
        "book; gift",
        "lamp, book",
        "lamp, lamp, lamp",
        "anvil",
        "moon",
    ] {
        let shop = Shop::with(&[("card", 9), ("book", 2), ("lamp", 1)]);
        let run = engine
            .start(&stations::PIPELINE, shop)
            .param("order", order)
            .await?;
        let result = run.wait().await?;
        println!("{order}");
        println!("  {}", result.path.join(" -> "));
        println!("  {}", result.context.text("sent"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
