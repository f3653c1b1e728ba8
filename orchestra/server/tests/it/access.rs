//! Who gets in: hosts, origins, tokens and sessions.

use std::time::Duration;

use orchestra_engine::Engine;
use orchestra_server::{Server, ServerError, Webhook};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::net::TcpStream;

use crate::support::description::routes;
use crate::support::{RELEASE, TestServer, entry};

/// Returns the path of a route, with a value for each parameter.
fn path(route: &str) -> String {
    let parts = route
        .split('/')
        .map(|part| if part.starts_with('{') { "x" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

/// Starts a server in which the path of each route leads to something.
async fn server_with_a_webhook() -> TestServer {
    let webhook = Webhook::new("x", "release", "0123456789abcdef").expect("sound");
    TestServer::with(|server| server.entry(entry("release", RELEASE)).webhook(webhook)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_route_answers_a_foreign_host_or_page_or_a_stranger() {
    let server = server_with_a_webhook().await;
    for (route, methods) in &routes() {
        let open = ["/api/v1/health", "/api/v1/session"].contains(&route.as_str());
        for method in methods {
            let request = || server.authorized(method, &path(route)).json(&json!({}));
            for host in ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", ""] {
                let reply = request().replace("Host", Some(host)).send().await;
                assert_eq!(
                    (reply.status, reply.code().as_str()),
                    (421, "wrong_host"),
                    "{method} {route} {host}"
                );
            }
            let absolute = format!("http://evil.example{}", path(route));
            let reply = server.authorized(method, &absolute).json(&json!({})).send().await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (421, "wrong_host"),
                "{method} {absolute}"
            );
            for origin in ["http://evil.example", "null", "http://localhost:1"] {
                let reply = request().header("Origin", origin).send().await;
                assert_eq!(
                    (reply.status, reply.code().as_str()),
                    (403, "cross_site"),
                    "{method} {route} {origin}"
                );
            }
            for site in ["cross-site", "same-site"] {
                let reply = request().header("Sec-Fetch-Site", site).send().await;
                assert_eq!(
                    (reply.status, reply.code().as_str()),
                    (403, "cross_site"),
                    "{method} {route} {site}"
                );
            }
            let own = format!("http://{}", server.address);
            let page = request()
                .header("X-Orchestra", "1")
                .header("Origin", &own)
                .header("Sec-Fetch-Site", "same-origin");
            // A stream of rows never ends, so only its token is missing here.
            let page = match route.as_str() {
                "/api/v1/stream" => page.replace("Authorization", None),
                _ => page,
            };
            let reply = page.send().await;
            assert!(!matches!(reply.status, 421 | 403), "{method} {route}");
            assert!(
                reply.header("content-security-policy").is_some(),
                "{method} {route}"
            );
            assert_eq!(
                reply.header("x-content-type-options"),
                Some("nosniff"),
                "{method} {route}"
            );
            if !open {
                let wrong = "Bearer ".to_owned() + &"0".repeat(64);
                for token in [None, Some("Bearer "), Some("Basic eDp5"), Some(wrong.as_str())] {
                    let reply = request().replace("Authorization", token).send().await;
                    assert!(
                        matches!(reply.status, 401 | 429),
                        "{method} {route} {token:?}: {}",
                        reply.status
                    );
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_is_listed_and_accepts_its_methods_alone() {
    let server = server_with_a_webhook().await;
    for (route, methods) in &routes() {
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
            // A stream of rows never ends.
            if route == "/api/v1/stream" && method == "GET" {
                continue;
            }
            let request = server.authorized(method, &path(route)).header("X-Orchestra", "1");
            let reply = request.send_patiently().await;
            if methods.iter().any(|known| known == method) {
                assert_ne!(reply.status, 405, "{method} {route}");
            } else {
                assert_eq!(
                    (reply.status, reply.code().as_str()),
                    (405, "method_not_allowed"),
                    "{method} {route}"
                );
            }
        }
    }
    let reply = server.get("/api/v1/nothing").await;
    assert_eq!((reply.status, reply.code().as_str()), (404, "unknown_path"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_exchanges_the_token_for_a_session_and_proves_that_it_is_the_page() {
    let server = TestServer::start().await;
    let begin = |token: &str| {
        let request = server
            .request("POST", "/api/v1/session")
            .header("X-Orchestra", "1");
        request.json(&json!({ "token": token }))
    };
    assert_eq!(begin("wrong").send().await.code(), "unauthorized");
    let reply = begin(&server.token).replace("X-Orchestra", None).send().await;
    assert_eq!(reply.code(), "cross_site");
    let reply = begin(&server.token).send().await;
    assert_eq!(reply.status, 200);
    let key = reply.json()["key"].as_str().expect("a key").to_owned();
    let cookie = reply.header("set-cookie").expect("a cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let pair = cookie.split(';').next().expect("a pair").to_owned();
    let with = |method: &str, path: &str| server.request(method, path).header("Cookie", &pair);
    let about = || with("GET", "/api/v1/about");
    assert_eq!(about().header("X-Orchestra", &key).send().await.status, 200);
    let start = || with("POST", "/api/v1/definitions/release/runs").json(&json!({}));
    assert_eq!(start().send().await.code(), "cross_site");
    assert_eq!(about().send().await.code(), "cross_site");
    // Other ports of the machine receive the cookie, and whoever listens there does not know the key.
    let another = begin(&server.token).send().await.json()["key"].clone();
    for stolen in ["", "1", another.as_str().expect("a key")] {
        let reply = about().header("X-Orchestra", stolen).send().await;
        assert_eq!((reply.status, reply.code().as_str()), (403, "cross_site"));
        let reply = start().header("X-Orchestra", stolen).send().await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (403, "cross_site"),
            "{stolen}"
        );
    }
    assert_eq!(start().header("X-Orchestra", &key).send().await.status, 201);
    let planted = start().replace("Cookie", None).header("X-Orchestra", &key);
    let name = pair.split('=').next().expect("a name");
    let planted = planted.header("Cookie", &format!("{name}=planted; {pair}"));
    assert_eq!(
        planted.send().await.status,
        201,
        "another port can set a cookie with this name"
    );
    let form = with("POST", "/api/v1/definitions/release/runs").header("X-Orchestra", &key);
    let reply = form
        .body("application/x-www-form-urlencoded", b"a=b")
        .send()
        .await;
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (415, "unsupported_media_type")
    );
    let end = with("DELETE", "/api/v1/session")
        .header("X-Orchestra", "1")
        .send()
        .await;
    assert_eq!(end.status, 204);
    assert_eq!(with("GET", "/api/v1/about").send().await.code(), "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_of_the_token_are_slowed_down() {
    let server = TestServer::start().await;
    let guesses = (0..40).map(|at| {
        let guess = format!("Bearer {at:064}");
        let request = server
            .request("GET", "/api/v1/runs")
            .header("Authorization", &guess);
        tokio::spawn(request.send())
    });
    let guesses: Vec<_> = guesses.collect();
    let mut refused = Vec::new();
    for guess in guesses {
        refused.push(guess.await.expect("no panic"));
    }
    let slowed = refused.iter().filter(|reply| reply.status == 429);
    assert!(slowed.clone().all(|reply| reply.header("retry-after").is_some()));
    assert!(slowed.count() > 0);
    assert_eq!(
        server.get("/api/v1/runs").await.status,
        200,
        "the token still counts"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_only_shows_changes_nothing() {
    let server = TestServer::with(|server| server.entry(entry("release", RELEASE)).read_only()).await;
    for (route, methods) in &routes() {
        for method in methods.iter().filter(|method| *method != "GET") {
            if route == "/api/v1/session" {
                continue;
            }
            let reply = server
                .authorized(method, &path(route))
                .json(&json!({}))
                .send()
                .await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (403, "read_only"),
                "{method} {route}"
            );
        }
    }
    assert_eq!(server.get("/api/v1/runs").await.status, 200);
}

#[tokio::test]
async fn other_machines_need_a_proxy_with_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = || {
        let engine = Engine::builder()
            .runs_dir(folder.path())
            .build()
            .expect("a sound engine");
        Server::new(engine)
    };
    let everywhere = || TcpListener::bind("0.0.0.0:0");
    let refused = server().listen(everywhere().await.expect("a port")).unwrap_err();
    assert!(matches!(refused, ServerError::Exposed { .. }), "{refused}");
    for url in ["http://flow.example", "https://", "https://a/b", "flow.example"] {
        let refused = server()
            .public_url(url)
            .listen(everywhere().await.expect("a port"))
            .unwrap_err();
        assert!(
            matches!(refused, ServerError::PublicUrl { .. }),
            "{url}: {refused}"
        );
    }
    let proxied = server().public_url("https://flow.example/");
    let listening = proxied
        .listen(everywhere().await.expect("a port"))
        .expect("a server");
    assert!(listening.link().starts_with("https://flow.example/ui/#token="));
}

/// Sends a request for the list of runs on a connection, and returns the beginning of the reply.
async fn ask_on(connection: &mut TcpStream, server: &TestServer) -> String {
    let request = format!(
        "GET /api/v1/runs HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        server.address, server.token
    );
    connection
        .write_all(request.as_bytes())
        .await
        .expect("the connection is open");
    let mut reply = vec![0; 4096];
    let read = connection.read(&mut reply).await.expect("a reply");
    String::from_utf8_lossy(&reply[..read]).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_cannot_take_all_connections() {
    let server = TestServer::start().await;
    let mut known = TcpStream::connect(&server.address).await.expect("a connection");
    assert!(ask_on(&mut known, &server).await.starts_with("HTTP/1.1 200"));
    let mut strangers = Vec::new();
    for _ in 0..300 {
        strangers.push(TcpStream::connect(&server.address).await.expect("a connection"));
    }
    let mut other = TcpStream::connect(&server.address).await.expect("a connection");
    assert!(ask_on(&mut other, &server).await.starts_with("HTTP/1.1 200"));
    assert!(
        ask_on(&mut known, &server).await.starts_with("HTTP/1.1 200"),
        "a known client keeps its connection"
    );
    let mut end = [0; 1];
    let first = strangers.first_mut().expect("a stranger");
    // A connection without a request is closed after ten seconds anyway.
    let end = tokio::time::timeout(Duration::from_secs(5), first.read(&mut end)).await;
    assert!(matches!(end, Ok(Ok(0) | Err(_))), "the oldest was closed");
}
