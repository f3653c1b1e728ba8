//! `serve`: the server of a project, beside runs of the command line.

#![cfg(unix)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use orchestra_oracle_tests::{case_count, cases, seed};
use serde_json::{Value, json};

use crate::support::{Scratch, Started, gate};

/// A server that was started in a folder.
pub(crate) struct Served {
    pub(crate) started: Started,
    pub(crate) address: String,
    pub(crate) token: String,
}

impl Served {
    fn start(scratch: &Scratch, options: &[&str]) -> Served {
        let args = [&["serve", "--listen", "127.0.0.1:0"], options].concat();
        Served::from_command(scratch.command(&args))
    }

    pub(crate) fn from_command(command: Command) -> Served {
        let mut started = Started::from_command(command).0;
        let link = started.until(|line| line["schema"] == "orchestra.serve/1")["link"].clone();
        let link = link.as_str().expect("a link");
        let (address, token) = link.split_once("/ui/#token=").expect("a token");
        Served {
            started,
            address: address.trim_start_matches("http://").to_owned(),
            token: token.to_owned(),
        }
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.send_with("", method, path, body)
    }

    /// Sends a request with further headers.
    fn send_with(&self, headers: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let headers = format!("Authorization: Bearer {}\r\n{headers}", self.token);
        self.send_raw(&headers, method, path, &body.to_string())
    }

    /// Sends a request with these headers alone.
    pub(crate) fn send_raw(&self, headers: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
        let address = &self.address;
        let mut stream = TcpStream::connect(address).expect("a connection");
        let length = body.len();
        // The server may refuse a body before it has read it.
        let _ = write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\n{headers}\
             Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        let mut reply = Vec::new();
        let read = stream.read_to_end(&mut reply);
        assert!(read.is_ok() || !reply.is_empty(), "{read:?}");
        let reply = String::from_utf8(reply).expect("text");
        let (head, body) = reply.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).expect("a status");
        (
            status.parse().expect("a number"),
            serde_json::from_str(body).unwrap_or_default(),
        )
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, body) = self.send("GET", path, &json!({}));
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    fn begin(&self, name: &str) -> String {
        let (status, body) = self.send("POST", &format!("/api/v1/definitions/{name}/runs"), &json!({}));
        assert_eq!(status, 201, "{body}");
        body["id"].as_str().expect("an id").to_owned()
    }

    fn answer(&self, run: &str, choice: &str) -> (u16, Value) {
        let path = format!("/pipelines/{run}/questions/approve/answer");
        self.send("POST", &path, &json!({ "choice": choice }))
    }

    /// Waits until the status of a run is this one.
    pub(crate) fn until(&self, scratch: &Scratch, run: &str, is: impl Fn(&Value) -> bool) {
        scratch.until("the run gets on", |_| {
            is(&self.get(&format!("/api/v1/runs/{run}")))
        });
    }
}

pub(crate) fn has_status(status: &str) -> impl Fn(&Value) -> bool {
    move |rows| rows["run"]["status"] == status
}

fn asks(rows: &Value) -> bool {
    rows["questions"]
        .as_array()
        .is_some_and(|asked| !asked.is_empty())
}

#[test]
fn the_server_shows_and_answers_a_run_of_the_command_line() {
    let scratch = Scratch::new();
    scratch.write("g.dot", gate(""));
    let served = Served::start(&scratch, &[]);
    let mut run = scratch.start(&["run", "g.dot", "--wait"]);
    run.until(|event| event["event"] == "InterviewStarted");
    scratch.until("the gate is listed", |_| {
        served.get("/api/v1/gates")["gates"]
            .as_array()
            .is_some_and(|gates| gates.len() == 1)
    });
    let id = served.get("/api/v1/gates")["gates"][0]["run"]
        .as_str()
        .expect("an id")
        .to_owned();
    let rows = served.get(&format!("/api/v1/runs/{id}"));
    assert_eq!(rows["executed_by"], "process");
    assert!(
        rows["commands"]["attach"]
            .as_str()
            .is_some_and(|command| command.contains("attach"))
    );
    let key = rows["questions"][0]["options"][0]["key"]
        .as_str()
        .expect("a key")
        .to_owned();
    let (status, body) = served.answer(&id, &key);
    assert_eq!((status, &body["executed"]), (200, &json!(true)), "{body}");
    run.end().exits(0);
    served.until(&scratch, &id, has_status("success"));
    served.started.signal("TERM");
    served.started.end().exits(0);
}

#[test]
fn a_gate_of_a_child_run_is_seen_and_answered_through_its_parent() {
    let scratch = Scratch::new();
    scratch.write("child.dot", gate(""));
    scratch.write(
        "parent.dot",
        "digraph parent { start -> sub -> exit; sub [shape=folder, \"subpipeline.file\"=\"child.dot\"] }",
    );
    let served = Served::start(&scratch, &[]);
    let run = served.begin("parent.dot");
    served.until(&scratch, &run, asks);
    let listed = served.get("/api/v1/gates")["gates"][0].clone();
    assert_eq!(
        (&listed["run"], &listed["node"], &listed["parent_stage"]),
        (&json!(run), &json!("approve"), &json!("sub"))
    );
    let report = scratch.call(&["status", &run]).exits(0).stdout;
    assert!(report.contains("approve"), "{report}");
    let key = listed["options"][0]["key"].as_str().expect("a key");
    for repeated in [false, true] {
        let (status, body) = served.answer(&run, key);
        assert_eq!((status, &body["repeated"]), (200, &json!(repeated)), "{body}");
    }
    served.until(&scratch, &run, has_status("success"));
    assert_eq!(served.get("/api/v1/gates")["gates"], json!([]));

    // The question remains when nobody executes the run, and is answered after it was resumed.
    let run = served.begin("parent.dot");
    served.until(&scratch, &run, asks);
    let (status, _) = served.send("POST", &format!("/api/v1/runs/{run}/pause"), &json!({}));
    assert_eq!(status, 202);
    served.until(&scratch, &run, has_status("paused"));
    served.until(&scratch, &run, asks);
    let (status, body) = served.answer(&run, key);
    assert_eq!((status, &body["code"]), (409, &json!("resume_first")), "{body}");
    let refused = scratch.call(&["answer", &run, "approve", key]).exits(2).stderr;
    let command = format!("`resume {run} --answer approve=CHOICE`");
    assert!(refused.contains(&command), "{refused}");
    let (status, body) = served.send("POST", &format!("/api/v1/runs/{run}/resume"), &json!({}));
    assert_eq!(status, 202, "{body}");
    scratch.until("the question is open again", |_| {
        served.answer(&run, key).0 == 200
    });
    served.until(&scratch, &run, has_status("success"));
    assert_eq!(served.get("/api/v1/gates")["gates"], json!([]));
    served.started.signal("TERM");
    served.started.end().exits(0);
}

/// Compares runs of every kind, and of random graphs; `ORACLE_CASES=200` compares more.
#[test]
fn the_rows_of_the_server_are_those_of_status() {
    let scratch = Scratch::new();
    scratch.write("g.dot", gate(""));
    scratch.write(
        "fails.dot",
        "digraph fails { start -> try -> exit; try [shape=parallelogram, tool_command=\"echo no >&2; exit 3\", max_retries=1] }",
    );
    scratch.write(
        "fan.dot",
        "digraph fan { start -> fan; fan [shape=component]; fan -> a -> join; fan -> b -> join; \
         a [shape=parallelogram, tool_command=true]; b [shape=parallelogram, tool_command=\"echo b\"]; \
         join [shape=tripleoctagon]; join -> exit }",
    );
    scratch.call(&["run", "g.dot"]).exits(5);
    scratch.call(&["run", "fails.dot"]).exits(1);
    scratch.call(&["run", "fan.dot"]).exits(0);
    scratch
        .call(&["run", "g.dot", "--simulate", "--auto-approve"])
        .exits(0);
    for case in cases(seed(1_100), case_count(20)) {
        let file = format!("random{}.dot", case.seed);
        scratch.write(&file, &case.dot);
        // Some have errors, some have no end, and some fail.
        let seed = case.seed.to_string();
        scratch.call(&[
            "run",
            &file,
            "--simulate",
            "--auto-approve",
            "--max-time",
            "1s",
            "--seed",
            &seed,
        ]);
    }
    let served = Served::start(&scratch, &["--read-only"]);
    let listed = scratch
        .call(&["status", "--json", "--limit", "1000000"])
        .exits(0)
        .objects();
    assert!(listed.len() > 4 + case_count(20) / 3, "{} runs", listed.len());
    let (mut rows, mut next) = (Vec::new(), String::new());
    loop {
        let page = served.get(&format!("/api/v1/runs?limit=7{next}"));
        rows.extend(page["runs"].as_array().expect("runs").clone());
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => break,
        }
    }
    let without_schema = |mut row: Value| {
        row.as_object_mut().expect("an object").remove("schema");
        row
    };
    let listed: Vec<Value> = listed.into_iter().map(without_schema).collect();
    assert_eq!(rows, listed);
    for run in &rows {
        let id = run["run"].as_str().expect("an id");
        let report = &scratch.call(&["status", id, "--json"]).exits(0).objects()[0];
        let update = served.get(&format!("/api/v1/runs/{id}"));
        for (own, of_status) in [
            ("stages", "path"),
            ("transitions", "transitions"),
            ("tool_calls", "tool_calls"),
            ("nodes", "nodes"),
            ("questions", "questions"),
            ("warnings", "warnings"),
            ("owner", "owner"),
        ] {
            assert_eq!(update[own], report[of_status], "{id} {own}");
        }
        for command in ["resume", "retry", "replay"] {
            assert_eq!(
                update["commands"].get(command),
                report.get(command),
                "{id} {command}"
            );
        }
    }
    served.started.signal("TERM");
    served.started.end().exits(0);
}

#[test]
fn runs_are_paused_by_a_signal_and_interrupted_by_a_kill() {
    let scratch = Scratch::new();
    scratch.write("g.dot", gate(""));
    let served = Served::start(&scratch, &[]);
    let run = served.begin("g.dot");
    served.until(&scratch, &run, asks);
    served.started.signal("TERM");
    let ended = served.started.end().exits(0);
    assert!(
        ended.stderr.contains(&format!("resume {run}")),
        "{}",
        ended.stderr
    );
    let again = Served::start(&scratch, &[]);
    assert!(has_status("paused")(&again.get(&format!("/api/v1/runs/{run}"))));
    let (status, _) = again.send("POST", &format!("/api/v1/runs/{run}/resume"), &json!({}));
    assert_eq!(status, 202);
    again.until(&scratch, &run, |rows| rows["executed_by"] == "server");
    again.started.signal("KILL");
    drop(again.started.end());
    let last = Served::start(&scratch, &[]);
    assert!(has_status("interrupted")(
        &last.get(&format!("/api/v1/runs/{run}"))
    ));
    let listed = last.get("/api/v1/runs?status=interrupted");
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(1));
    let (status, _) = last.send("POST", &format!("/api/v1/runs/{run}/resume"), &json!({}));
    assert_eq!(status, 202);
    last.until(&scratch, &run, |rows| {
        rows["executed_by"] == "server" && asks(rows)
    });
    let key = last.get(&format!("/api/v1/runs/{run}"))["questions"][0]["options"][0]["key"].clone();
    assert_eq!(last.answer(&run, key.as_str().expect("a key")).0, 200);
    last.until(&scratch, &run, has_status("success"));
    last.started.signal("TERM");
    last.started.end().exits(0);
}

#[test]
fn definitions_are_the_files_of_the_project() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("flows")).unwrap();
    std::fs::create_dir_all(scratch.path("target")).unwrap();
    scratch.write("flows/a.dot", "digraph a { start -> exit }");
    scratch.write("broken.dot", "digraph broken { start -> ");
    scratch.write("target/b.dot", "digraph b { start -> exit }");
    scratch.write(
        "model.dot",
        "digraph m { start -> w -> exit; w [prompt=\"Write.\"] }",
    );
    scratch.write(
        "own.dot",
        "digraph own {\n    start -> build -> ship -> exit\n    build [type=\"a.build\"]\n    ship [type=\"a.ship\"]\n}",
    );
    let served = Served::start(&scratch, &[]);
    let list = served.get("/api/v1/definitions");
    let names: Vec<&str> = list["definitions"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(names, ["broken.dot", "flows/a.dot", "model.dot", "own.dot"]);
    let broken = served.get("/api/v1/definitions/broken.dot");
    assert_eq!(
        (&broken["valid"], &broken["diagnostics"][0]["line"]),
        (&json!(false), &json!(1))
    );
    let (status, body) = served.send("POST", "/api/v1/definitions/broken.dot/runs", &json!({}));
    assert_eq!(
        (status, &body["code"]),
        (422, &json!("invalid_pipeline")),
        "{body}"
    );
    let (status, body) = served.send("POST", "/api/v1/definitions/model.dot/runs", &json!({}));
    assert_eq!(status, 422, "there is no model: {body}");
    // What a run lacks is known before it is started, and told in the same words when it is.
    let obstacle = |name: &str| served.get(&format!("/api/v1/definitions/{name}"))["obstacle"].clone();
    assert_eq!(obstacle("flows%2Fa.dot"), Value::Null);
    assert_eq!(obstacle("model.dot"), body);
    let (status, body) = served.send("POST", "/api/v1/definitions/own.dot/runs", &json!({}));
    assert_eq!((status, &body["code"]), (409, &json!("refused")), "{body}");
    assert_eq!(obstacle("own.dot"), body);
    let lines: Vec<&Value> = body["diagnostics"]
        .as_array()
        .expect("a diagnostic for each node")
        .iter()
        .map(|one| &one["line"])
        .collect();
    assert_eq!(lines, [3, 4]);
    let (status, body) = served.send("POST", "/api/v1/definitions/target%2Fb.dot/runs", &json!({}));
    assert_eq!((status, &body["code"]), (404, &json!("unknown_definition")));
    let run = served.begin("flows%2Fa.dot");
    served.until(&scratch, &run, has_status("success"));
    served.started.signal("TERM");
    served.started.end().exits(0);
}

#[test]
fn the_server_and_the_command_line_share_the_workflows() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch, &[]);
    assert_eq!(served.get("/api/workflows"), json!({ "workflows": [] }));
    let shop = "digraph shop { routing=first_match; start -> pick -> exit\n\
        pick [shape=parallelogram, tool_command=\"echo first\"] }\n";
    scratch.write("shop.dot", shop);
    scratch
        .call(&["stations", "import", "shop.dot", "--activate"])
        .exits(0);
    let listed = &scratch.call(&["stations", "list", "--json"]).exits(0).objects()[0];
    let seen = served.get("/api/workflows/shop");
    for field in ["id", "etag", "active", "latest"] {
        assert_eq!(seen[field], listed[field], "{field}");
    }
    // The user wrote this version, so it may execute a tool.
    let (status, begun) = served.send("POST", "/api/workflows/shop/execute", &json!({}));
    assert_eq!(status, 201, "{begun}");
    let run = begun["id"].as_str().expect("an id");
    served.until(&scratch, run, has_status("success"));
    let shown = &scratch.call(&["status", run, "--json"]).exits(0).objects()[0];
    let execution = served.get(&format!("/api/workflow-executions/{run}"));
    assert_eq!(execution["stations"], shown["path"]);
    assert_eq!(execution["run"]["file"], "stations:shop@1");
    // This one came over HTTP: the command line shows it, and runs it for the user alone.
    let tag = format!("If-Match: \"{}\"\r\n", seen["etag"].as_str().expect("a tag"));
    let changed = json!({ "dot": shop.replace("echo first", "echo second"), "note": "by HTTP" });
    let (status, added) = served.send_with(&tag, "POST", "/api/workflows/shop/versions", &changed);
    assert_eq!(status, 201, "{added}");
    let exported = scratch.call(&["stations", "export", "shop@2"]).exits(0).stdout;
    assert_eq!(exported.trim(), changed["dot"].as_str().expect("a text").trim());
    let difference = scratch
        .call(&["stations", "diff", "shop@1", "shop@2", "--json"])
        .exits(0)
        .objects();
    assert_eq!(
        difference[0],
        served.get("/api/workflows/shop/versions/2/difference?from=1")
    );
    let second = json!({ "version": 2 });
    let (status, refused) = served.send("POST", "/api/workflows/shop/execute", &second);
    assert_eq!(
        (status, &refused["code"]),
        (403, &json!("needs_power")),
        "{refused}"
    );
    scratch.call(&["run", "stations:shop@2"]).exits(0);
    let analytics = served.get("/api/workflows/shop/analytics");
    let runs: Vec<&Value> = analytics["versions"]
        .as_array()
        .expect("versions")
        .iter()
        .map(|version| &version["runs"])
        .collect();
    assert_eq!(runs, [1, 1]);
    served.started.signal("TERM");
    served.started.end().exits(0);
}

#[test]
fn an_address_that_cannot_be_used_is_an_error() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch, &[]);
    let taken = scratch.call(&["serve", "--listen", &served.address]).exits(1);
    assert!(
        taken.stderr.contains("error[listen]") && taken.stderr.contains("--listen"),
        "{}",
        taken.stderr
    );
    let exposed = scratch.call(&["serve", "--listen", "0.0.0.0:0"]).exits(2);
    assert!(exposed.stderr.contains("error[exposed]"), "{}", exposed.stderr);
    let kind = scratch.call(&["serve", "--submit", "all"]).exits(2);
    assert!(kind.stderr.contains("`safe`"), "{}", kind.stderr);
    served.started.signal("TERM");
    served.started.end().exits(0);
}

/// The tools of a run belong to the same user as the server. One that knew the token could answer the questions of its
/// own run.
#[test]
fn a_tool_of_a_run_does_not_learn_the_token() {
    let scratch = Scratch::new();
    let look = "tr '\\\\0' '\\\\n' < /proc/$PPID/environ > found 2>&1; tr '\\\\0' '\\\\n' < /proc/$PPID/cmdline >> found 2>&1; \
        env >> found; find .orchestra -type f -exec cat {} + >> found 2>&1; ls -la /proc/$PPID/fd >> found 2>&1; true";
    scratch.write(
        "look.dot",
        format!(
            "digraph look {{ start -> look -> exit; look [shape=parallelogram, tool_command=\"{look}\"] }}"
        ),
    );
    let served = Served::start(&scratch, &[]);
    let run = served.begin("look.dot");
    served.until(&scratch, &run, has_status("success"));
    let found = std::fs::read(scratch.path("found")).unwrap();
    let found = String::from_utf8_lossy(&found);
    assert!(found.contains("orchestra.event/1"), "it has looked: {found}");
    assert!(!found.contains(&served.token));
    // A request without the token is refused, whoever sends it.
    let mut stream = TcpStream::connect(&served.address).expect("a connection");
    write!(
        stream,
        "GET /api/v1/runs HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        served.address
    )
    .expect("sent");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("a reply");
    assert!(reply.starts_with("HTTP/1.1 401"), "{reply}");
    served.started.signal("TERM");
    served.started.end().exits(0);
}
