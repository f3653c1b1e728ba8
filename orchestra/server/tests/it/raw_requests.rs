//! Requests that no client library would send, written to the connection as they are.

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::TestServer;

/// Sends bytes and returns the status codes of all replies until the server closes the connection.
async fn statuses(server: &TestServer, request: &str) -> Vec<u16> {
    let mut connection = TcpStream::connect(&server.address).await.expect("a connection");
    // The server may refuse the request before it is sent to its end.
    let _ = connection.write_all(request.as_bytes()).await;
    let mut reply = Vec::new();
    let mut part = [0; 4096];
    while let Ok(read @ 1..) = connection.read(&mut part).await {
        reply.extend_from_slice(&part[..read]);
    }
    String::from_utf8_lossy(&reply)
        .split("HTTP/1.1 ")
        .skip(1)
        .filter_map(|text| text.get(..3)?.parse().ok())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_requests_get_through_nowhere() {
    let server = TestServer::start().await;
    let (address, token) = (&server.address, &server.token);
    let port = address.rsplit_once(':').expect("a port").1;
    let own = format!("Host: {address}");
    let key = format!("Authorization: Bearer {token}");
    let get = |path: &str, headers: &[&str]| {
        let headers = headers.join("\r\n");
        format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n\r\n")
    };
    let list = "/api/v1/runs";
    assert_eq!(statuses(&server, &get(list, &[&own, &key])).await, [200]);
    let lower = format!("authorization: bearer {token}");
    assert_eq!(statuses(&server, &get(list, &[&own, &lower])).await, [200]);

    let host = |host: &str| format!("Host: {host}");
    let mut requests = vec![
        ("two hosts", get(list, &[&own, "Host: evil.example", &key]), 421),
        ("two hosts", get(list, &["Host: evil.example", &own, &key]), 421),
        ("no host", get(list, &[&key]), 421),
        (
            "a foreign target",
            get("http://evil.example/api/v1/runs", &[&own, &key]),
            421,
        ),
        (
            "a foreign host beside the target",
            get(
                &format!("http://{address}/api/v1/runs"),
                &["Host: evil.example", &key],
            ),
            421,
        ),
        (
            "two tokens",
            get(list, &[&own, "Authorization: Bearer x", &key]),
            401,
        ),
        (
            "a token in the query",
            get(&format!("{list}?token={token}"), &[&own]),
            401,
        ),
        (
            "a part of the token",
            get(list, &[&own, &format!("Authorization: Bearer {}", &token[1..])]),
            401,
        ),
        ("no token", get(list, &[&own, "Authorization: Bearer "]), 401),
        ("a folded header", get(list, &[&own, &key, "X: a\r\n b"]), 400),
        ("a space before the colon", get(list, &[&own, &key, "X : a"]), 400),
        ("a NUL", get(list, &[&own, &key, "X: a\0b"]), 400),
        (
            "a long header",
            get(list, &[&own, &key, &format!("X: {}", "a".repeat(300_000))]),
            431,
        ),
        (
            "a long path",
            get(&format!("{list}/{}", "a".repeat(100_000)), &[&own, &key]),
            431,
        ),
    ];
    for name in [
        format!("{address}.evil.example"),
        format!("localhost.:{port}"),
        format!("user@{address}"),
        format!("{address}@evil.example"),
        format!("{address}/"),
        format!("evil.example, {address}"),
        format!("127.1:{port}"),
        format!("0x7f000001:{port}"),
        format!("0.0.0.0:{port}"),
        format!("127.0.0.1:0{port}"),
        "127.0.0.1:1".to_owned(),
        String::new(),
    ] {
        requests.push(("a foreign host", get(list, &[&host(&name), &key]), 421));
    }
    for path in [
        "//api/v1/runs",
        "/api/v1/../v1/runs",
        "/API/v1/runs",
        "/api/v1/runs/",
        "/api/v1/runs%00",
        "/api/v1/runs/%2e%2e",
        "/ui/..%2f..%2fCargo.toml",
        "/ui/%2e%2e/%2e%2e/etc/passwd",
        "/ui/vendor/../../Cargo.toml",
        "/api/v1/definitions/%2fetc%2fpasswd",
    ] {
        requests.push((path, get(path, &[&own, &key]), 404));
    }
    for (name, request, status) in requests {
        assert_eq!(
            statuses(&server, &request).await,
            [status],
            "{name}: {:.300}",
            request
        );
    }
    // Neither HTTP/2 nor another protocol is spoken.
    assert_eq!(
        statuses(&server, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await,
        [0u16; 0]
    );
    let upgrade = get(
        list,
        &[&own, &key, "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"],
    );
    assert_eq!(statuses(&server, &upgrade).await, [200]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_hidden_in_the_body_of_another() {
    let server = TestServer::start().await;
    let (address, token) = (&server.address, &server.token);
    let hidden = format!(
        "POST /api/v1/definitions/release/runs HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    );
    // The outer request is of a stranger: what it contains must not be read as a request of its own.
    let outer = |lengths: &str, body: &str| {
        format!(
            "POST /api/v1/check HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n{lengths}\r\n\r\n{body}{hidden}"
        )
    };
    let length = format!("Content-Length: {}", hidden.len());
    for (lengths, body) in [
        (format!("{length}\r\nContent-Length: 0"), ""),
        (format!("Content-Length: 0\r\n{length}"), ""),
        ("Content-Length: -1".to_owned(), ""),
        ("Content-Length: +0".to_owned(), ""),
        ("Content-Length: 0, 0".to_owned(), ""),
        ("Transfer-Encoding: xchunked".to_owned(), "0\r\n\r\n"),
        ("Transfer-Encoding: chunked, identity".to_owned(), "0\r\n\r\n"),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity".to_owned(),
            "0\r\n\r\n",
        ),
        ("Transfer-Encoding: chunked".to_owned(), "-0\r\n\r\n"),
        (length.clone(), ""),
        (format!("{length}\r\nTransfer-Encoding: chunked"), "0\r\n\r\n"),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 5".to_owned(),
            "0\r\n\r\n",
        ),
    ] {
        let statuses = statuses(&server, &outer(&lengths, body)).await;
        assert!(
            matches!(statuses[..], [400 | 401] | []),
            "{lengths}: {statuses:?}"
        );
    }
    assert_eq!(server.get("/api/v1/runs").await.json()["runs"], json!([]));
    assert_eq!(statuses(&server, &hidden).await, [201]);
}
