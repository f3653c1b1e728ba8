//! What people do in the page, and what they see.

mod access;
mod conversation;
mod figures;
mod gates;
mod inspect;
mod pictures;
mod reconnect;
mod session;
mod start;
mod workflows;

use crate::browser::{Browser, Tab};
use crate::support::Api;

/// Opens the link of a server.
#[track_caller]
fn enter(browser: &Browser, api: &Api) -> Tab {
    let tab = browser.tab(&api.origin());
    tab.open(&api.link());
    tab.sees("h1", "Runs");
    tab
}

/// Presses a key until it has an effect: keys are not for a question that has just appeared.
#[track_caller]
fn press_until(tab: &Tab, key: &str, condition: &str) {
    tab.until_some(condition, |value| {
        let is_so = value.as_bool() == Some(true);
        if !is_so {
            tab.press(key);
        }
        is_so
    });
}

/// Returns a condition: a field of the question is chosen.
fn chosen(key: &str) -> String {
    format!("document.querySelector('.gate input[value={key}]')?.checked === true")
}
