//! The hosts of addresses, as they are written.

// Addresses alone: `core` has no sockets.
use core::net::IpAddr;

/// Returns whether a host is this machine: `localhost`, an address of `127.0.0.0/8`, or `::1`, also in brackets.
///
/// ```
/// use orchestra_config::is_loopback_host;
/// assert!(is_loopback_host("localhost") && is_loopback_host("127.0.0.2") && is_loopback_host("[::1]"));
/// assert!(!is_loopback_host("localhost.example") && !is_loopback_host("10.0.0.1"));
/// ```
pub fn is_loopback_host(host: &str) -> bool {
    let inside = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address: Option<IpAddr> = inside.unwrap_or(host).parse().ok();
    host.eq_ignore_ascii_case("localhost") || address.is_some_and(|address| address.is_loopback())
}

/// Returns the part of an address that names the host: what follows the scheme up to the path.
pub(crate) fn authority(after_scheme: &str) -> &str {
    after_scheme.split(['/', '?', '#']).next().unwrap_or_default()
}

/// Returns the host of an authority without user information; IPv6 addresses keep their brackets.
pub(crate) fn host(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_loopback() {
        let is_local = |address: &str| is_loopback_host(host(authority(address)));
        for local in [
            "localhost",
            "LOCALHOST:80/mcp",
            "127.0.0.1:8080/mcp",
            "127.8.9.10?a=b",
            "[::1]",
            "[::1]:80/mcp",
            "localhost:",
        ] {
            assert!(is_local(local), "{local}");
        }
        for remote in [
            "",
            "localhost:80@evil.example/",
            "127.0.0.1@evil.example",
            "localhost.evil.example",
            "localhost:80.evil.example",
            "localhost%2eevil.example",
            "[::1].evil.example",
            "[::1]:80.evil.example",
            "localhost\\.evil.example",
            "128.0.0.1",
            "0.0.0.0",
            "[::2]",
            "evil.example/localhost",
        ] {
            assert!(!is_local(remote), "{remote}");
        }
    }
}
