//! The administration of a Restate server, as far as workers and commands need it.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::client_error::{ClientError, WORKER_UNREACHABLE};
use crate::ingress::{RequestError, answer, http_client};
use crate::wire::{RUN, keys};

/// The name under which a worker publishes its pipelines, one in each line.
pub(crate) const PIPELINES: &str = "orchestra.pipelines";

/// The mark of the server's errors about workers that it cannot reach, or that are none.
const NOT_DISCOVERED: &str = "[META0003]";

/// The number of runs that one query returns.
const PAGE: usize = 1000;

/// A run that a server has.
pub(crate) struct ListedRun {
    pub(crate) id: String,
    /// `true` if a stage of another run started it.
    pub(crate) is_child: bool,
}

/// A version of a pipeline, with the runs that follow it and have not ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VersionInUse {
    pub(crate) pipeline: String,
    /// The blob with its sources.
    pub(crate) sources: String,
    pub(crate) runs: u64,
    /// The first and the last id of these runs in alphabetical order.
    pub(crate) ids: [String; 2],
}

impl VersionInUse {
    /// Returns the version that a row describes; `None` for runs that have ended or that other runs started.
    fn from_row(row: &Value) -> Option<VersionInUse> {
        #[derive(Deserialize)]
        struct Begin {
            facts: Facts,
        }
        #[derive(Deserialize)]
        struct Facts {
            pipeline: String,
            sources: String,
            #[serde(default)]
            stages: Vec<u32>,
            #[serde(default)]
            has_ended: bool,
        }
        let begin = format!("{}}}}}", row["facts"].as_str()?);
        let Begin { facts } = serde_json::from_str(&begin).ok()?;
        let text = |key: &str| row[key].as_str().map(str::to_owned);
        (facts.stages.is_empty() && !facts.has_ended).then_some(VersionInUse {
            pipeline: facts.pipeline,
            sources: facts.sources,
            runs: row["runs"].as_u64()?,
            ids: [text("first_id")?, text("last_id")?],
        })
    }

    /// Returns the ids of a few of the runs, for a message.
    pub(crate) fn some_runs(&self) -> String {
        let [first, last] = &self.ids;
        match self.runs {
            0 | 1 => format!("run `{first}`"),
            2 => format!("runs `{first}` and `{last}`"),
            3 => format!("runs `{first}`, `{last}` and another one"),
            runs => format!("runs `{first}`, `{last}` and {} others", runs - 2),
        }
    }
}

/// A client of the administration of a server.
///
/// ```
/// # async fn register() -> Result<(), orchestra_restate::ClientError> {
/// let admin = orchestra_restate::Admin::new("http://127.0.0.1:9070")?;
/// println!("version {}", admin.version().await?);
/// admin.register("http://127.0.0.1:9080").await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Admin {
    url: String,
    http: reqwest::Client,
}

impl Admin {
    /// Creates a client of the administration at an address, such as `http://127.0.0.1:9070`.
    ///
    /// # Errors
    /// No connections can be made.
    pub fn new(url: &str) -> Result<Admin, ClientError> {
        Ok(Admin {
            url: url.trim_end_matches('/').to_owned(),
            http: http_client().map_err(ClientError::http)?,
        })
    }

    /// Returns the version of the server.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn version(&self) -> Result<String, ClientError> {
        let url = format!("{}/version", self.url);
        let answered = answer(&url, self.http.get(&url)).await?;
        let answered: Value = serde_json::from_slice(&answered).map_err(|_| ClientError::unreadable(&url))?;
        let version = answered["version"].as_str();
        version
            .map(str::to_owned)
            .ok_or_else(|| ClientError::unreadable(&url))
    }

    /// Registers the worker at an address. New turns and attempts go to the worker that was registered last; those in
    /// progress stay where they are.
    ///
    /// # Errors
    /// The server cannot be reached, cannot reach the worker, or the worker lacks pipelines of the one that was registered
    /// before it, whose runs could not go on.
    pub async fn register(&self, worker: &str) -> Result<(), ClientError> {
        let before = self.pipelines().await?;
        let found = self.deploy(worker, true).await?;
        let services = found["services"].as_array().into_iter().flatten();
        let pipelines: Vec<String> = services.flat_map(pipelines_of).collect();
        let lacking: Vec<String> = before
            .into_iter()
            .filter(|name| !pipelines.contains(name))
            .collect();
        if !lacking.is_empty() {
            return Err(ClientError::Refused {
                status: 409,
                code: "pipelines_missing".to_owned(),
                message: format!(
                    "the worker lacks pipelines of the one that the server uses now: {}; their runs could not go on",
                    lacking.join(", ")
                ),
            });
        }
        self.deploy(worker, false).await.map(drop)
    }

    /// Registers the worker at an address, whatever the worker before it has. Runs of pipelines that the new one lacks wait
    /// until a worker has them.
    ///
    /// # Errors
    /// The server cannot be reached, or cannot reach the worker.
    pub async fn register_by_force(&self, worker: &str) -> Result<(), ClientError> {
        self.deploy(worker, false).await.map(drop)
    }

    async fn deploy(&self, worker: &str, only_tries: bool) -> Result<Value, ClientError> {
        let url = format!("{}/deployments", self.url);
        let request = json!({ "uri": worker, "force": true, "dry_run": only_tries });
        let answered = self.post(&url, &request).await;
        let answered = answered.map_err(|error| unreachable_worker(error, worker))?;
        serde_json::from_slice(&answered).map_err(|_| ClientError::unreadable(&url))
    }

    /// Returns the pipelines of the worker that the server uses now.
    async fn pipelines(&self) -> Result<Vec<String>, ClientError> {
        let url = format!("{}/services/{RUN}", self.url);
        match answer(&url, self.http.get(&url)).await {
            Ok(found) => {
                let found: Value =
                    serde_json::from_slice(&found).map_err(|_| ClientError::unreadable(&url))?;
                Ok(pipelines_of(&found))
            }
            Err(RequestError::Refused { status: 404, .. }) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns those of some invocations that still exist.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub(crate) async fn living(&self, invocations: &[String]) -> Result<Vec<String>, ClientError> {
        let is_plain = |id: &&String| {
            id.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        let quoted: Vec<String> = invocations
            .iter()
            .filter(is_plain)
            .map(|id| format!("'{id}'"))
            .collect();
        let query = format!(
            "SELECT id FROM sys_invocation WHERE status <> 'completed' AND id IN ({})",
            quoted.join(", ")
        );
        let rows = self.query(&query).await?;
        let ids = rows.iter().filter_map(|row| row["id"].as_str());
        Ok(ids.map(str::to_owned).collect())
    }

    /// Returns the runs after one in alphabetical order, at most as many as one page has.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub(crate) async fn runs_after(&self, after: &str) -> Result<Vec<ListedRun>, ClientError> {
        let after = after.replace('\'', "''");
        let keys = async |key: &str, until: &str| {
            let query = format!(
                "SELECT service_key FROM state WHERE service_name = '{RUN}' AND key = '{key}' AND service_key > '{after}'{until} \
                 ORDER BY service_key LIMIT {PAGE}"
            );
            let rows = self.query(&query).await?;
            let ids = rows.iter().filter_map(|row| row["service_key"].as_str());
            Ok::<Vec<String>, ClientError>(ids.map(str::to_owned).collect())
        };
        let runs = keys(keys::RUN, "").await?;
        let Some(last) = runs.last() else {
            return Ok(Vec::new());
        };
        let until = format!(" AND service_key <= '{}'", last.replace('\'', "''"));
        let children: HashSet<String> = keys(keys::PARENT, &until).await?.into_iter().collect();
        let listed = runs.into_iter().map(|id| ListedRun {
            is_child: children.contains(&id),
            id,
        });
        Ok(listed.collect())
    }

    /// Returns the versions of pipelines that runs follow which have not ended.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub(crate) async fn versions_in_use(&self) -> Result<Vec<VersionInUse>, ClientError> {
        // Only what is before the secret is grouped and returned, so that the server reads the runs, and not this process.
        let query = format!(
            "SELECT split_part(value_utf8, ',\"secret\":', 1) AS facts, count(*) AS runs, min(service_key) AS first_id, \
             max(service_key) AS last_id FROM state WHERE service_name = '{RUN}' AND key = '{}' \
             GROUP BY split_part(value_utf8, ',\"secret\":', 1)",
            keys::RUN
        );
        let rows = self.query(&query).await?;
        Ok(rows.iter().filter_map(VersionInUse::from_row).collect())
    }

    /// Returns the rows of the answer to a query.
    async fn query(&self, query: &str) -> Result<Vec<Value>, ClientError> {
        let url = format!("{}/query", self.url);
        let answered = self.post(&url, &json!({ "query": query })).await?;
        let answered: Value = serde_json::from_slice(&answered).map_err(|_| ClientError::unreadable(&url))?;
        let rows = answered["rows"].as_array();
        Ok(rows.ok_or_else(|| ClientError::unreadable(&url))?.clone())
    }

    async fn post(&self, url: &str, body: &Value) -> Result<Vec<u8>, RequestError> {
        let request = self.http.post(url).header("content-type", "application/json");
        let request = request.header("accept", "application/json");
        answer(url, request.body(body.to_string())).await
    }
}

/// Returns the error of a registration, which names the worker if the server cannot reach it.
fn unreachable_worker(error: RequestError, worker: &str) -> ClientError {
    match error {
        RequestError::Refused { status, message } | RequestError::Failed { status, message, .. }
            if message.contains(NOT_DISCOVERED) =>
        {
            let mut reason = message.as_str();
            while let Some((_, rest)) = reason.split_once(NOT_DISCOVERED) {
                reason = rest;
            }
            ClientError::Refused {
                status,
                code: WORKER_UNREACHABLE.to_owned(),
                message: format!(
                    "the server cannot reach a worker at `{worker}`: {}",
                    reason.trim()
                ),
            }
        }
        error => error.into(),
    }
}

/// Returns the pipelines that the description of a service names.
fn pipelines_of(service: &Value) -> Vec<String> {
    let names = service["metadata"][PIPELINES].as_str().unwrap_or_default();
    names.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(facts: &str, runs: u64) -> Option<VersionInUse> {
        let facts = format!(r#"{{"facts":{{{facts}"#);
        VersionInUse::from_row(&json!({ "facts": facts, "runs": runs, "first_id": "a", "last_id": "z" }))
    }

    #[test]
    fn runs_that_have_not_ended_are_named() {
        let version = r#""pipeline":"fl\"ow","hash":"h","sources":"s""#;
        let named = |runs| row(version, runs).unwrap().some_runs();
        assert_eq!(row(version, 1).unwrap().pipeline, "fl\"ow");
        assert_eq!(named(1), "run `a`");
        assert_eq!(named(2), "runs `a` and `z`");
        assert_eq!(named(3), "runs `a`, `z` and another one");
        assert_eq!(named(9), "runs `a`, `z` and 7 others");
        assert!(row(&format!(r#"{version},"stages":[],"has_ended":false"#), 1).is_some());
        assert!(row(&format!(r#"{version},"stages":[],"has_ended":true"#), 1).is_none());
        assert!(row(&format!(r#"{version},"stages":[3],"has_ended":false"#), 1).is_none());
    }
}
