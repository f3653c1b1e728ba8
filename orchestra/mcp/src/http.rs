//! Servers that are reached over HTTP.

use std::collections::HashMap;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

/// Time limit for the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum size of a message, in bytes.
const MAX_MESSAGE: usize = 16 << 20;

/// The address of a server, and the headers of each request with their values.
#[derive(Clone)]
pub(crate) struct ServerAddress {
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
}

/// Creates the transport to a server.
///
/// # Errors
/// A header cannot be sent, or the client cannot be created. The message contains no value of a header.
pub(crate) fn transport(
    address: &ServerAddress,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    // Another provider that the program has installed is used as well.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        // A redirect could send the headers elsewhere.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| error.without_url().to_string())?;
    let mut headers = HashMap::new();
    for (name, value) in &address.headers {
        let header: HeaderName = name
            .parse()
            .map_err(|_| format!("`{name}` is not a valid name of a header"))?;
        let mut value: HeaderValue = value
            .parse()
            .map_err(|_| format!("the value of the header `{name}` cannot be sent"))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(address.url.as_str())
        .custom_headers(headers)
        .max_sse_event_size(MAX_MESSAGE)
        .max_json_response_size(MAX_MESSAGE);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}
