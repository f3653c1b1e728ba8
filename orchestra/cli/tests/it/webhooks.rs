//! Webhooks of `serve`: deliveries to the program that start runs.

#![cfg(unix)]

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::serve::{Served, has_status};
use crate::support::{Done, Scratch, done};

const SECRET: &str = "5a0c43bd0b7e4f6e93c1";
const VARIABLE: &str = "REVIEW_HOOK_SECRET";

const REVIEW: &str = r#"digraph review {
    inputs="pr: int, title: text"
    start -> note -> exit
    note [shape=parallelogram, tool_command="echo \"$PR $TITLE\" >> notes",
          tool_env_from.PR=pr, tool_env_from.TITLE=title]
}
"#;

const CONFIGURATION: &str = "\
webhooks:
  review:
    pipeline: ./flows/review.dot
    secret_env: REVIEW_HOOK_SECRET
    event: pull_request
    when: {/action: [opened, synchronize]}
    inputs:
      pr: /pull_request/number
      title: /pull_request/title
    max_cost: 2.5
    max_time: 10m
";

fn project() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("flows/review.dot", REVIEW);
    scratch.write("orchestra.yaml", CONFIGURATION);
    scratch
}

fn serve(scratch: &Scratch) -> Served {
    let mut command = scratch.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env(VARIABLE, SECRET);
    Served::from_command(command)
}

/// Starts a server that refuses to start.
fn refused(scratch: &Scratch, secret: Option<&str>) -> Done {
    let mut command = scratch.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env_remove(VARIABLE);
    if let Some(secret) = secret {
        command.env(VARIABLE, secret);
    }
    done(command.output().expect("the program starts"))
}

fn stop(served: Served) {
    served.started.signal("TERM");
    served.started.end().exits(0);
}

fn opened(number: impl Into<Value>) -> String {
    let change = json!({ "number": number.into(), "title": "Fix it; touch canary" });
    json!({ "action": "opened", "pull_request": change }).to_string()
}

/// Sends a delivery as GitHub does, signed with a secret.
fn deliver(served: &Served, secret: &str, path: &str, id: &str, body: &str) -> (u16, Value) {
    let mut code = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key");
    code.update(body.as_bytes());
    let digits = code.finalize().into_bytes();
    let digits: String = digits.iter().map(|byte| format!("{byte:02x}")).collect();
    let headers = format!(
        "X-GitHub-Event: pull_request\r\nX-GitHub-Delivery: {id}\r\nX-Hub-Signature-256: sha256={digits}\r\n"
    );
    served.send_raw(&headers, "POST", path, body)
}

#[test]
fn a_delivery_starts_one_run_also_after_a_restart() {
    let scratch = project();
    let served = serve(&scratch);
    let listed = &served.started.objects[0]["webhooks"];
    assert_eq!(
        listed[0],
        json!({
            "url": format!("http://{}/hooks/review", served.address), "pipeline": "flows/review.dot",
        })
    );
    let (status, reply) = deliver(&served, SECRET, "/hooks/review", "d-1", &opened(7));
    assert_eq!(status, 201, "{reply}");
    let run = reply["id"].as_str().expect("an id").to_owned();
    served.until(&scratch, &run, has_status("success"));
    assert_eq!(
        deliver(&served, SECRET, "/hooks/review", "d-1", &opened(7)),
        (200, json!({ "id": run }))
    );
    stop(served);
    assert_eq!(scratch.runs(), std::slice::from_ref(&run));
    assert_eq!(scratch.read("notes"), "7 Fix it; touch canary\n");
    assert!(!scratch.path("canary").exists(), "a value is no command");
    // The server is killed while it knows nothing but the folder of the run.
    let killed = serve(&scratch);
    killed.started.signal("KILL");
    drop(killed.started.end());
    let served = serve(&scratch);
    assert_eq!(
        deliver(&served, SECRET, "/hooks/review", "d-1", &opened(7)),
        (200, json!({ "id": run }))
    );
    let (status, _) = deliver(&served, SECRET, "/hooks/review", "d-2", &opened(8));
    assert_eq!(status, 201);
    stop(served);
    assert_eq!(scratch.runs().len(), 2);
}

#[test]
fn a_wrong_delivery_starts_nothing_and_says_why() {
    let scratch = project();
    let served = serve(&scratch);
    let closed = json!({ "action": "closed" }).to_string();
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20));
    for (secret, path, body, status, code) in [
        (
            "another secret of some length",
            "/hooks/review",
            &opened(7),
            401,
            "unauthorized",
        ),
        (SECRET, "/hooks/review", &opened("7; touch canary"), 422, "inputs"),
        (
            SECRET,
            "/hooks/review",
            &json!({ "action": "opened" }).to_string(),
            422,
            "inputs",
        ),
        (SECRET, "/hooks/reviews", &opened(7), 404, "unknown_webhook"),
        (SECRET, "/hooks/review", &large, 413, "too_large"),
        (SECRET, "/hooks/review", &"{".to_owned(), 400, "malformed"),
        (SECRET, "/hooks/review", &closed, 202, ""),
    ] {
        let (found, reply) = deliver(&served, secret, path, "d-1", body);
        assert_eq!(found, status, "{reply}");
        assert_eq!(reply["code"].as_str().unwrap_or_default(), code, "{reply}");
    }
    let (_, reply) = deliver(&served, SECRET, "/hooks/review", "d-1", &opened("7"));
    assert_eq!(
        reply["message"],
        "`pr` is declared as `int`, but is the text \"7\""
    );
    let help = reply["help"].as_str().expect("a hint");
    assert!(help.contains("flows/review.dot"), "{help}");
    // The pipeline is read for each delivery.
    scratch.write("flows/review.dot", "digraph review { start -> ");
    let (status, reply) = deliver(&served, SECRET, "/hooks/review", "d-1", &opened(7));
    assert_eq!(
        (status, &reply["code"]),
        (422, &json!("invalid_pipeline")),
        "{reply}"
    );
    assert!(reply["diagnostics"][0]["line"].is_u64(), "{reply}");
    stop(served);
    assert_eq!(
        scratch.call(&["status", "--json"]).exits(0).objects(),
        Vec::<Value>::new()
    );
    assert!(!scratch.path("canary").exists());
}

#[test]
fn the_limits_of_a_webhook_are_those_of_its_runs_and_its_secret_stays_out_of_them() {
    let scratch = project();
    scratch.write(
        "flows/review.dot",
        REVIEW.replace("echo \\\"$PR $TITLE\\\" >> notes", "env > seen; cat hook.secret"),
    );
    let in_file = CONFIGURATION.replace("secret_env: REVIEW_HOOK_SECRET", "secret_file: hook.secret");
    scratch.write("orchestra.yaml", in_file);
    scratch.write("hook.secret", format!("{SECRET}\n"));
    let served = serve(&scratch);
    let (status, reply) = deliver(&served, SECRET, "/hooks/review", "d-1", &opened(7));
    assert_eq!(status, 201, "{reply}");
    let run = reply["id"].as_str().expect("an id").to_owned();
    served.until(&scratch, &run, has_status("success"));
    let manifest = scratch.read(&format!(".orchestra/runs/{run}/manifest.json"));
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    assert_eq!(manifest["budget"]["max_cost_micros"], 2_500_000, "{manifest}");
    assert!(manifest.to_string().contains("600"), "{manifest}");
    stop(served);
    let seen = String::from_utf8_lossy(&std::fs::read(scratch.path("seen")).expect("written")).into_owned();
    assert!(seen.contains("TITLE="), "{seen}");
    assert!(!seen.contains(SECRET), "a tool does not see the variable");
    let shown = scratch.call(&["status", &run, "--json"]).exits(0).stdout;
    let events = scratch.read(&format!(".orchestra/runs/{run}/events.jsonl"));
    assert!(events.contains("StageCompleted"), "{events}");
    assert!(
        !shown.contains(SECRET) && !events.contains(SECRET),
        "what a tool prints of the file is redacted"
    );
}

#[test]
fn a_server_whose_webhooks_cannot_work_does_not_start() {
    let scratch = project();
    let unset = refused(&scratch, None).exits(4).stderr;
    assert!(
        unset.contains("error[webhook_secret]") && unset.contains("`REVIEW_HOOK_SECRET`, which is not set"),
        "{unset}"
    );
    assert!(unset.contains("orchestra.yaml:2:3"), "{unset}");
    let short = refused(&scratch, Some("short")).exits(4).stderr;
    assert!(
        short.contains("fewer than 16 bytes") && !short.contains("`short`"),
        "{short}"
    );
    for (from, to, code, part) in [
        (
            "flows/review.dot",
            "flows/reviw.dot",
            3,
            "no pipeline `flows/reviw.dot`",
        ),
        (
            "      pr:",
            "      number:",
            3,
            "does not declare the input `number`",
        ),
        (
            "/pull_request/title",
            "pull_request.title",
            3,
            "orchestra.yaml:9:7: error[config_value]",
        ),
        ("inputs:", "input:", 3, "unknown key `input`"),
    ] {
        scratch.write("orchestra.yaml", CONFIGURATION.replace(from, to));
        let text = refused(&scratch, Some(SECRET)).exits(code).stderr;
        let concise = text.contains(part) || {
            let (place, rest) = part.split_once(": ").unwrap_or(("", part));
            text.contains(place) && text.contains(rest)
        };
        assert!(concise, "{part}: {text}");
    }
    scratch.write(
        "orchestra.yaml",
        format!("providers: {{default: anthropic, anthropic: {{default_model: m, api_key_env: NO_SUCH_KEY}}}}\n{CONFIGURATION}"),
    );
    scratch.write(
        "flows/review.dot",
        REVIEW.replacen(
            "digraph review {",
            "digraph review {\n    look [prompt=\"Look.\"]; start -> look -> exit",
            1,
        ),
    );
    let keyless = refused(&scratch, Some(SECRET)).exits(3).stderr;
    assert!(
        keyless.contains("the webhook `review` cannot start a run") && keyless.contains("NO_SUCH_KEY"),
        "{keyless}"
    );
    scratch.write("orchestra.yaml", CONFIGURATION);
    scratch.write("flows/review.dot", "digraph review { start -> ");
    let invalid = refused(&scratch, Some(SECRET)).exits(3).stderr;
    assert!(
        invalid.contains("the pipeline `flows/review.dot` is invalid"),
        "{invalid}"
    );
}
