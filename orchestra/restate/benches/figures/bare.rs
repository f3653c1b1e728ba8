//! What the bare SDK does, and the messages of a stage without their content.

use std::sync::Arc;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use orchestra_conformance::fleet::Fleet;
use restate_sdk::context::RequestTarget;
use restate_sdk::hyper::HyperEndpoint;
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

/// What the bare SDK does.
struct Bare;

#[restate_sdk::service(name = "BareService")]
impl Bare {
    #[handler]
    async fn work(&self, _ctx: Context<'_>, _: Json<u64>) -> HandlerResult<Json<u64>> {
        Ok(Json(1))
    }

    /// Calls a service some times, one after the other.
    #[handler]
    async fn calls(&self, ctx: Context<'_>, count: Json<u64>) -> HandlerResult<()> {
        for number in 0..count.into_inner() {
            let target = RequestTarget::service("BareService", "work");
            ctx.request::<_, Json<u64>>(target, Json(number)).call().await?;
        }
        Ok(())
    }

    /// Journals some results of a size in bytes, one after the other.
    #[handler]
    async fn runs(&self, ctx: Context<'_>, request: Json<(u64, usize)>) -> HandlerResult<()> {
        let Json((count, size)) = request;
        for _ in 0..count {
            ctx.run(|| async { Ok("x".repeat(size)) }).await?;
        }
        Ok(())
    }
}

struct BareObject;

#[restate_sdk::object(name = "BareObject", lazy_state)]
impl BareObject {
    /// Adds a value to the state.
    #[handler]
    async fn add(&self, ctx: ObjectContext<'_>, value: Json<Value>) -> HandlerResult<Json<u64>> {
        let count = ctx.get::<u64>("count").await?.unwrap_or_default();
        ctx.set(&format!("value-{count}"), value);
        ctx.set("count", count + 1);
        Ok(Json(count))
    }
}

/// The messages that a run needs for its stages, without their content: each stage is a turn of an object and an invocation of
/// a service that reports by HTTP, and its beginning is stored.
#[derive(Clone)]
struct BareRun {
    ended: mpsc::UnboundedSender<()>,
}

#[derive(Serialize, Deserialize)]
struct BareMessage {
    run: String,
    left: u64,
    content: String,
}

#[restate_sdk::object(name = "BareRun")]
impl BareRun {
    #[handler]
    async fn turn(&self, ctx: ObjectContext<'_>, message: Json<BareMessage>) -> HandlerResult<Json<u64>> {
        let Json(message) = message;
        let state = ctx.get::<String>("run").await?;
        ctx.set("run", state.unwrap_or_else(|| "x".repeat(3_000)));
        match message.left.checked_sub(1) {
            Some(left) => {
                let target = RequestTarget::service("BareStage", "execute");
                let message = BareMessage { left, ..message };
                ctx.request::<_, ()>(target, Json(message)).send();
            }
            None => drop(self.ended.send(())),
        }
        Ok(Json(0))
    }
}

#[derive(Clone)]
struct BareStage {
    http: Arc<Http>,
}

#[restate_sdk::service(name = "BareStage")]
impl BareStage {
    #[handler]
    async fn execute(&self, ctx: Context<'_>, message: Json<BareMessage>) -> HandlerResult<()> {
        ctx.run(|| async { Ok(()) }).await?;
        let Json(message) = message;
        let path = format!("BareRun/{}/turn", message.run);
        self.http.post(&path, &serde_json::to_value(&message)?).await;
        Ok(())
    }
}

/// Serves the bare SDK with the same connection settings as a worker.
///
/// Returns what counts the ends of [`BareRun`]s.
pub(crate) async fn serve_bare(fleet: &Fleet, http: &Arc<Http>) -> mpsc::UnboundedReceiver<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (ended, ends) = mpsc::unbounded_channel();
    let endpoint = Endpoint::builder()
        .bind(Bare)
        .bind(BareObject)
        .bind(BareRun { ended });
    let endpoint = endpoint.bind(BareStage { http: http.clone() });
    let endpoint = HyperEndpoint::new(endpoint.build());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let connection = http2::Builder::new(TokioExecutor::new())
                .max_concurrent_streams(u32::MAX)
                .serve_connection(TokioIo::new(stream), endpoint.clone());
            tokio::spawn(connection);
        }
    });
    fleet.admin().register_by_force(&url).await.unwrap();
    ends
}

pub(crate) struct Http {
    pub(crate) url: String,
    pub(crate) client: reqwest::Client,
}

impl Http {
    pub(crate) async fn post(&self, path: &str, body: &Value) {
        let url = format!("{}/{path}", self.url);
        let request = self.client.post(url).header("content-type", "application/json");
        let answered = request.body(body.to_string()).send().await.unwrap();
        assert!(answered.status().is_success(), "{answered:?}");
        answered.bytes().await.unwrap();
    }
}
