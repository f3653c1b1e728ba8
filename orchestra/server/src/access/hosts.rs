//! The hosts and origins under which the server may be addressed.

use std::net::SocketAddr;

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Uri};

/// The allowed values of the header `Host`, and the origins of the page.
///
/// A page of another site that has its name resolve to this machine sends the name of the other site as the host (DNS
/// rebinding), so every other host is refused.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    hosts: Vec<String>,
    origins: Vec<String>,
    pub(crate) is_secure: bool,
    pub(crate) port: u16,
}

impl Hosts {
    /// Returns the hosts of a listener, and that of the public URL if there is one.
    pub(crate) fn new(address: SocketAddr, public_url: Option<&str>) -> Hosts {
        let port = address.port();
        let mut hosts = Vec::new();
        if address.ip().is_loopback() {
            for name in ["127.0.0.1", "localhost", "[::1]"] {
                hosts.push(format!("{name}:{port}"));
                // Clients leave the default port out.
                if port == 80 {
                    hosts.push(name.to_owned());
                }
            }
        }
        let mut origins: Vec<String> = hosts.iter().map(|host| format!("http://{host}")).collect();
        if let Some(url) = public_url {
            let url = url.trim_end_matches('/').to_ascii_lowercase();
            if let Some((_, host)) = url.split_once("://") {
                hosts.push(host.to_owned());
            }
            origins.push(url);
        }
        Hosts {
            hosts,
            is_secure: public_url.is_some(),
            origins,
            port,
        }
    }

    /// Returns whether a request names exactly one host, and an allowed one.
    pub(crate) fn allow_host(&self, headers: &HeaderMap) -> bool {
        is_one_of(headers, HOST, &self.hosts) == Some(true)
    }

    /// Returns whether a request that names a whole URL names this server.
    pub(crate) fn allow_authority(&self, uri: &Uri) -> bool {
        uri.authority().is_none_or(|authority| {
            let mut hosts = self.hosts.iter();
            hosts.any(|host| host.eq_ignore_ascii_case(authority.as_str()))
        })
    }

    /// Returns whether a request comes from a page of this server, or from no page.
    pub(crate) fn allow_origin(&self, headers: &HeaderMap) -> bool {
        is_one_of(headers, ORIGIN, &self.origins) != Some(false)
    }
}

/// Returns whether the only value of a header is in a list. Returns `None` if there is no such header.
fn is_one_of(headers: &HeaderMap, name: HeaderName, allowed: &[String]) -> Option<bool> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    let is_listed = |text: &str| allowed.iter().any(|one| one.eq_ignore_ascii_case(text));
    Some(values.next().is_none() && value.to_str().is_ok_and(is_listed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name.clone(), value.parse().expect("a value"));
        }
        headers
    }

    #[test]
    fn only_the_own_names_are_hosts() {
        let hosts = Hosts::new(([127, 0, 0, 1], 4680).into(), Some("https://Flow.example/"));
        for host in ["127.0.0.1:4680", "LOCALHOST:4680", "[::1]:4680", "flow.example"] {
            assert!(hosts.allow_host(&headers(&[(HOST, host)])), "{host}");
        }
        for host in [
            "localhost",
            "127.0.0.1:80",
            "evil.example:4680",
            "127.0.0.1:4680.evil.example",
            "",
        ] {
            assert!(!hosts.allow_host(&headers(&[(HOST, host)])), "{host}");
        }
        assert!(!hosts.allow_host(&headers(&[])));
        let twice = headers(&[(HOST, "localhost:4680"), (HOST, "localhost:4680")]);
        assert!(!hosts.allow_host(&twice));
    }

    #[test]
    fn an_origin_may_be_missing_but_not_foreign() {
        let hosts = Hosts::new(([127, 0, 0, 1], 4680).into(), None);
        assert!(hosts.allow_origin(&headers(&[])));
        assert!(hosts.allow_origin(&headers(&[(ORIGIN, "http://localhost:4680")])));
        for origin in [
            "null",
            "http://localhost:3000",
            "https://localhost:4680",
            "http://evil.example",
        ] {
            assert!(!hosts.allow_origin(&headers(&[(ORIGIN, origin)])), "{origin}");
        }
    }

    #[test]
    fn another_address_is_reached_by_its_public_name_alone() {
        let hosts = Hosts::new(([0, 0, 0, 0], 4680).into(), Some("https://flow.example"));
        assert!(hosts.allow_host(&headers(&[(HOST, "flow.example")])));
        assert!(!hosts.allow_host(&headers(&[(HOST, "localhost:4680")])));
    }
}
