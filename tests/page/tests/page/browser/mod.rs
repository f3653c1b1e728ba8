//! Two Chromiums for all tests, each used by one test at a time.

mod chromium;
mod tab;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use orchestra_installed_tests::{find, skip};
use serde_json::{Value, json};

use chromium::Chromium;
pub(crate) use tab::Tab;

/// Two, because a test often waits for the server.
static CHROMIUMS: [Mutex<Option<Chromium>>; 2] = [const { Mutex::new(None) }; 2];

/// Returns a browser that no other test uses. Waits if there is none.
fn free() -> MutexGuard<'static, Option<Chromium>> {
    let free = CHROMIUMS.iter().find_map(|chromium| match chromium.try_lock() {
        Ok(free) => Some(free),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    });
    free.unwrap_or_else(|| CHROMIUMS[0].lock().unwrap_or_else(PoisonError::into_inner))
}

/// The connection to a browser, which one test has at a time.
#[derive(Clone)]
struct Link(Rc<RefCell<MutexGuard<'static, Option<Chromium>>>>);

impl Link {
    /// Sends a command, which must succeed.
    #[track_caller]
    fn call(&self, session: &str, method: &str, parameters: Value) -> Value {
        self.try_call(session, method, parameters)
            .unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_call(&self, session: &str, method: &str, parameters: Value) -> Result<Value, String> {
        let mut chromium = self.0.borrow_mut();
        let chromium = chromium.as_mut().ok_or("the browser was not started")?;
        chromium.call(session, method, parameters)
    }

    /// Returns the events of a session so far.
    fn events(&self, session: &str) -> Vec<Value> {
        let mut chromium = self.0.borrow_mut();
        chromium
            .as_mut()
            .map(|chromium| chromium.events(session))
            .unwrap_or_default()
    }
}

/// A person at the browser: tabs with cookies and storage of their own.
pub(crate) struct Browser {
    link: Link,
    context: String,
    tabs: RefCell<Vec<Tab>>,
}

/// Runs a test in the browser, and asserts that no tab reported a problem. Without a browser, says that the test is
/// skipped, and fails on a CI machine.
#[track_caller]
pub(crate) fn in_browser(test: impl FnOnce(&Browser)) {
    let Some(program) = find("chromium") else {
        return skip("there is no program `chromium`");
    };
    let mut chromium = free();
    if chromium.as_ref().is_none_or(Chromium::is_broken) {
        // The broken one ends before another begins.
        *chromium = None;
        *chromium = Some(Chromium::start(&program));
    }
    let link = Link(Rc::new(RefCell::new(chromium)));
    let context = link.call("", "Target.createBrowserContext", json!({}));
    let browser = Browser {
        link,
        context: text(&context["browserContextId"]),
        tabs: RefCell::default(),
    };
    test(&browser);
    for tab in &*browser.tabs.borrow() {
        let problems = tab.problems();
        assert!(problems.is_empty(), "{problems:#?}");
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

impl Browser {
    /// Opens an empty tab, 1440 pixels wide. `origin` is the only one that it may send requests to.
    pub(crate) fn tab(&self, origin: &str) -> Tab {
        let place = json!({ "url": "about:blank", "browserContextId": self.context });
        let target = self.link.call("", "Target.createTarget", place);
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.link.call("", "Target.attachToTarget", attach);
        let (session, target) = (text(&attached["sessionId"]), text(&target["targetId"]));
        let tab = Tab::new(self.link.clone(), session, target, origin);
        tab.prepare();
        self.tabs.borrow_mut().push(tab.clone());
        tab
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A test that failed leaves a browser in which the next one can begin.
        let context = json!({ "browserContextId": self.context });
        let _ = self.link.try_call("", "Target.disposeBrowserContext", context);
        if let Some(chromium) = self.link.0.borrow_mut().as_mut() {
            chromium.forget_events();
        }
    }
}
