//! The choice of free ports.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};

use super::error::LocalServerError;

/// Ports are chosen from this range. It is below the ports that systems use for outgoing connections, which would
/// sometimes keep a server from starting again at its port.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// The ports of a server; 0 means that a free one is chosen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ports {
    pub(super) ingress: u16,
    pub(super) admin: u16,
    pub(super) node: u16,
}

impl Ports {
    pub(super) fn all(self) -> [u16; 3] {
        [self.ingress, self.admin, self.node]
    }
}

/// Replaces ports that are 0 by free ones.
pub(super) fn choose(mut ports: Ports) -> Result<Ports, LocalServerError> {
    // Held until all are chosen, so that they differ.
    let mut held = Vec::new();
    for port in [&mut ports.ingress, &mut ports.admin, &mut ports.node] {
        if *port == 0 {
            let listener = free().map_err(|source| LocalServerError::Port { port: 0, source })?;
            let address = listener.local_addr();
            *port = address
                .map_err(|source| LocalServerError::Port { port: 0, source })?
                .port();
            held.push(listener);
        }
    }
    Ok(ports)
}

fn free() -> io::Result<TcpListener> {
    let random = RandomState::new();
    let size = u64::from(PORTS.end - PORTS.start);
    for attempt in 0..100_u32 {
        // The remainder is less than the size, which is a `u16`.
        let offset = u16::try_from(random.hash_one(attempt) % size).unwrap_or_default();
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, PORTS.start + offset)) {
            return Ok(listener);
        }
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
}
