//! Servers that are reached over HTTP.

use std::collections::HashMap;

use orchestra_agent::http_client;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

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
/// The address is invalid, a header cannot be sent, or the client cannot be created. The message contains no value of a
/// header.
pub(crate) fn transport(
    address: &ServerAddress,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let base = address
        .url
        .parse()
        .map_err(|error| format!("its `url` is not a valid address: {error}"))?;
    let client = http_client(&base).map_err(|error| error.without_url().to_string())?;
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
