//! The sessions of pages: random cookies, which a page receives in exchange for the token.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::hosts::Hosts;
use super::token::Token;

use crate::bytes::hexadecimal;

/// Time after the last request at which a session expires.
const LIFETIME: Duration = Duration::from_secs(12 * 3_600);

/// Maximum number of sessions. The oldest one ends when another begins.
const MAX_SESSIONS: usize = 256;

/// The digest of a cookie, so that comparing cookies tells nothing about them.
type Key = [u8; 32];

/// The sessions that have not ended.
pub(crate) struct Sessions {
    /// Cookies do not depend on the port, so each server has a name of its own.
    cookie: String,
    is_secure: bool,
    /// Cookies are shared with other ports of the machine, so writes need a key that is derived from this secret.
    secret: Token,
    open: Mutex<HashMap<Key, Instant>>,
}

impl Sessions {
    pub(super) fn new(hosts: &Hosts) -> io::Result<Sessions> {
        Ok(Sessions {
            cookie: format!("orchestra_{}", hosts.port),
            is_secure: hosts.is_secure,
            secret: Token::random()?,
            open: Mutex::default(),
        })
    }

    /// Begins a session. Returns the value of `Set-Cookie`, and the key of the page.
    pub(crate) fn begin(&self, now: Instant) -> io::Result<(String, String)> {
        let value = Token::random()?;
        let mut open = self.lock();
        open.retain(|_, used| now.duration_since(*used) < LIFETIME);
        if open.len() >= MAX_SESSIONS {
            let oldest = open.iter().min_by_key(|(_, used)| **used);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                open.remove(&oldest);
            }
        }
        open.insert(key_of(value.text()), now);
        drop(open);
        Ok((
            self.cookie(value.text(), LIFETIME.as_secs()),
            self.key_of(value.text()),
        ))
    }

    /// Ends the session of a request. Returns the value of `Set-Cookie` that removes the cookie.
    pub(crate) fn end(&self, headers: &HeaderMap) -> String {
        for value in self.values(headers) {
            self.lock().remove(&key_of(value));
        }
        self.cookie("", 0)
    }

    /// Returns the key of the session of a request, if it has one that has not expired, and extends the session.
    pub(crate) fn find(&self, headers: &HeaderMap, now: Instant) -> Option<Key> {
        // Another port of the machine may have set a cookie with this name.
        self.values(headers).find_map(|value| {
            let key = key_of(value);
            let mut open = self.lock();
            let used = open.get_mut(&key)?;
            if now.duration_since(*used) >= LIFETIME {
                open.remove(&key);
                return None;
            }
            *used = now;
            Some(key)
        })
    }

    /// Returns whether a key is that of a session of a request. Who has only seen the cookie does not know it.
    pub(crate) fn is_key(&self, headers: &HeaderMap, key: &[u8]) -> bool {
        let mut values = self.values(headers);
        values.any(|value| self.key_of(value).as_bytes().ct_eq(key).into())
    }

    fn key_of(&self, cookie: &str) -> String {
        let digest = Sha256::new()
            .chain_update(self.secret.text())
            .chain_update(cookie)
            .finalize();
        hexadecimal(&digest)
    }

    fn cookie(&self, value: &str, seconds: u64) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let name = &self.cookie;
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
    }

    fn values<'h>(&self, headers: &'h HeaderMap) -> impl Iterator<Item = &'h str> {
        let values = headers.get_all(COOKIE).iter();
        let texts = values.filter_map(|value| value.to_str().ok());
        let pairs = texts.flat_map(|text| text.split(';'));
        pairs.filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.cookie).then_some(value)
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Instant>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key_of(value: &str) -> Key {
    Sha256::digest(value.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(cookie: &str) -> HeaderMap {
        let pair = cookie.split(';').next().expect("a pair");
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, format!("other=1; {pair}").parse().expect("a value"));
        headers
    }

    #[test]
    fn a_session_ends_when_it_is_not_used_or_signed_out() {
        let hosts = Hosts::new(([127, 0, 0, 1], 4680).into(), None);
        let (sessions, began) = (Sessions::new(&hosts).expect("a secret"), Instant::now());
        let (cookie, key) = sessions.begin(began).expect("begun");
        assert!(cookie.starts_with("orchestra_4680=") && cookie.contains("HttpOnly; SameSite=Strict"));
        let headers = with(&cookie);
        assert!(sessions.is_key(&headers, key.as_bytes()));
        assert!(!sessions.is_key(&headers, b"1") && !sessions.is_key(&HeaderMap::new(), key.as_bytes()));
        let planted = format!(
            "orchestra_4680=bad; {}",
            cookie.split(';').next().expect("a pair")
        );
        let mut both = HeaderMap::new();
        both.insert(COOKIE, planted.parse().expect("a value"));
        assert!(sessions.find(&both, began).is_some());
        assert!(sessions.find(&headers, began + LIFETIME / 2).is_some());
        assert!(
            sessions.find(&headers, began + LIFETIME).is_some(),
            "the use extended it"
        );
        assert!(sessions.find(&headers, began + LIFETIME * 3).is_none());
        let second = with(&sessions.begin(began).expect("begun").0);
        sessions.end(&second);
        assert!(sessions.find(&second, began).is_none());
        assert!(sessions.find(&with("orchestra_4680="), began).is_none());
    }

    #[test]
    fn the_oldest_session_makes_room() {
        let hosts = Hosts::new(([127, 0, 0, 1], 4680).into(), Some("https://flow.example"));
        let (sessions, began) = (Sessions::new(&hosts).expect("a secret"), Instant::now());
        let cookies: Vec<String> = (0..=MAX_SESSIONS as u64)
            .map(|at| sessions.begin(began + Duration::from_secs(at)).expect("begun").0)
            .collect();
        assert!(cookies[0].ends_with("; Secure"));
        assert!(sessions.find(&with(&cookies[0]), began).is_none());
        assert!(sessions.find(&with(&cookies[1]), began).is_some());
    }
}
