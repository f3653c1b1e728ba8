//! Starting and ending a server, and messages that are wrong.

use orchestra_lsp::{Ended, UserFolder};
use serde_json::{Value, json};

use crate::client::{Client, uri};

#[test]
fn a_client_starts_and_ends_a_server() {
    let client = Client::new(&[]);
    assert_eq!(client.initialized["serverInfo"]["name"], "orchestra");
    assert_eq!(client.initialized["capabilities"]["positionEncoding"], "utf-16");
    assert_eq!(client.shut_down(), Ended::Exit);
}

#[test]
fn a_client_that_is_gone_ends_the_server() {
    assert_eq!(Client::new(&[]).hang_up(), Ended::EndOfInput);
}

#[test]
fn utf_8_is_used_with_a_client_that_offers_it() {
    let capabilities = json!({"general": {"positionEncodings": ["utf-32", "utf-8", "utf-16"]}});
    let mut client = Client::with(&[], UserFolder::default(), json!({"capabilities": capabilities}));
    assert_eq!(client.initialized["capabilities"]["positionEncoding"], "utf-8");
    client.open(
        "a.dot",
        "digraph { start -> exit; exit [label=\"ä😀\", lable=x] }",
    );
    client.wait_for_diagnostics("a.dot");
    let range = &client.diagnostics[&uri("a.dot")][0]["range"];
    assert_eq!(range["start"]["character"], 47, "{range}");
}

#[test]
fn a_request_before_initialize_and_after_shutdown_is_refused() {
    let mut client = Client::unconnected(&[], UserFolder::default());
    assert_eq!(
        client.answer("textDocument/hover", json!({}))["error"]["code"],
        -32002
    );
    let mut client = Client::new(&[]);
    assert_eq!(
        client.answer("initialize", json!({"capabilities": {}}))["error"]["code"],
        -32600
    );
    client.request("shutdown", Value::Null);
    assert_eq!(
        client.answer("textDocument/hover", json!({}))["error"]["code"],
        -32600
    );
}

#[test]
fn wrong_messages_are_answered_and_the_server_goes_on() {
    let mut client = Client::new(&[]);
    client.send_bytes(b"Content-Length: 3\r\n\r\n{]}");
    let error = client.receive();
    assert_eq!(
        (&error["error"]["code"], &error["id"]),
        (&json!(-32700), &Value::Null)
    );
    assert_eq!(client.answer("no/such", json!({}))["error"]["code"], -32601);
    assert_eq!(
        client.answer("textDocument/formatting", json!(7))["error"]["code"],
        -32602
    );
    client.notify("textDocument/didOpen", json!({"textDocument": 7}));
    client.notify("no/such", json!({}));
    let unknown = json!({"textDocument": {"uri": uri("b.dot")}});
    assert_eq!(
        client.request("textDocument/documentSymbol", unknown),
        Value::Null
    );
    assert_eq!(client.received.last().unwrap()["method"], "window/showMessage");
    assert_eq!(client.shut_down(), Ended::Exit);
}
