//! A tab: what a person does in it, what it shows, and the problems that it reports.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Link;

/// Longest wait for something that happens soon.
const SOON: Duration = Duration::from_secs(20);

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(15);

/// Problems that only say that the server has ended, which may come before the end of the tab.
const GONE: [&str; 5] = [
    "net::ERR_CONNECTION_REFUSED",
    "net::ERR_CONNECTION_RESET",
    "net::ERR_INCOMPLETE_CHUNKED_ENCODING",
    "net::ERR_SOCKET_NOT_CONNECTED",
    "status of 503",
];

/// Finds a visible element whose text or label contains a text, exact ones first, scrolls to it, and returns its middle
/// if nothing covers it.
const POINT: &str = r"((css, text) => {
  const label = (element) => (element.getAttribute('aria-label') || element.textContent).trim();
  const all = [...document.querySelectorAll(css)].filter((one) => one.checkVisibility() && label(one).includes(text));
  const element = all.find((one) => label(one) === text) || all[0];
  // What loads moves the elements below it.
  if (!element || element.disabled || document.querySelector('.loading')) return null;
  element.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  const box = element.getBoundingClientRect();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  const hit = document.elementFromPoint(x, y);
  return hit && (element.contains(hit) || hit.contains(element)) ? [x, y] : null;
})";

#[derive(Clone)]
pub(crate) struct Tab {
    link: Link,
    session: String,
    target: String,
    origin: String,
    /// Parts of problems that the test expects.
    expected: Rc<RefCell<Vec<&'static str>>>,
}

impl Tab {
    pub(super) fn new(link: Link, session: String, target: String, origin: &str) -> Tab {
        Tab {
            link,
            session,
            target,
            origin: origin.to_owned(),
            expected: Rc::default(),
        }
    }

    pub(super) fn prepare(&self) {
        for domain in ["Page", "Runtime", "Log", "Network", "Audits"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
        // A tab behind another one behaves as if it were looked at.
        self.call("Emulation.setFocusEmulationEnabled", json!({ "enabled": true }));
        self.resize(1440, 900);
        self.colours("light");
    }

    #[track_caller]
    pub(crate) fn call(&self, method: &str, parameters: Value) -> Value {
        self.link.call(&self.session, method, parameters)
    }

    /// Expects problems that contain a text.
    pub(crate) fn expect(&self, part: &'static str) {
        self.expected.borrow_mut().push(part);
    }

    /// Returns errors of the console, exceptions, violations of the security policy and requests to other origins.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for event in self.link.events(&self.session) {
            let parameters = &event["params"];
            let problem = match event["method"].as_str().unwrap_or_default() {
                "Runtime.consoleAPICalled"
                    if ["error", "warning", "assert"]
                        .iter()
                        .any(|kind| parameters["type"] == *kind) =>
                {
                    parameters["args"].to_string()
                }
                "Runtime.exceptionThrown" => parameters["exceptionDetails"].to_string(),
                "Log.entryAdded" if parameters["entry"]["level"] == "error" => {
                    format!("{} {}", parameters["entry"]["text"], parameters["entry"]["url"])
                }
                "Audits.issueAdded" if parameters["issue"]["code"] == "ContentSecurityPolicyIssue" => {
                    parameters["issue"].to_string()
                }
                "Network.requestWillBeSent" | "Network.webSocketCreated" => {
                    let url = parameters["request"]["url"]
                        .as_str()
                        .or(parameters["url"].as_str());
                    match url {
                        Some(url) if !url.starts_with(&format!("{}/", self.origin)) => {
                            format!("a request to {url}")
                        }
                        _ => continue,
                    }
                }
                _ => continue,
            };
            problems.push(problem);
        }
        let expected = self.expected.borrow();
        let known = |problem: &String| GONE.iter().chain(&*expected).any(|part| problem.contains(part));
        problems.retain(|problem| !known(problem));
        problems
    }

    /// Returns the addresses of the requests that contain a text.
    pub(crate) fn requests(&self, part: &str) -> Vec<String> {
        let events = self.link.events(&self.session);
        let sent = events
            .iter()
            .filter(|event| event["method"] == "Network.requestWillBeSent");
        let urls = sent.filter_map(|event| event["params"]["request"]["url"].as_str());
        urls.filter(|url| url.contains(part)).map(str::to_owned).collect()
    }

    pub(crate) fn resize(&self, width: u32, height: u32) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false }),
        );
    }

    /// Sets the colour scheme that the system prefers. Nothing moves, so that a picture does not depend on its moment.
    pub(crate) fn colours(&self, scheme: &str) {
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [
                { "name": "prefers-color-scheme", "value": scheme },
                { "name": "prefers-reduced-motion", "value": "reduce" },
            ] }),
        );
    }

    /// Cuts or restores the network of the tab.
    pub(crate) fn offline(&self, offline: bool) {
        self.call(
            "Network.emulateNetworkConditions",
            json!({ "offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 }),
        );
    }

    #[track_caller]
    pub(crate) fn open(&self, address: &str) {
        self.call("Page.navigate", json!({ "url": address }));
    }

    /// Shows a screen of the page by its address, as a link would.
    #[track_caller]
    pub(crate) fn show(&self, hash: &str) {
        self.eval(&format!("location.hash = {}", json!(hash)));
    }

    #[track_caller]
    pub(crate) fn reload(&self) {
        // What is shown until the new document is there is not mistaken for it.
        self.eval("document.title = 'before'; document.body.textContent = ''");
        self.call("Page.reload", json!({}));
    }

    pub(crate) fn close(&self) {
        self.link
            .call("", "Target.closeTarget", json!({ "targetId": self.target }));
    }

    /// Evaluates an expression; a promise is awaited.
    #[track_caller]
    pub(crate) fn eval(&self, expression: &str) -> Value {
        self.try_eval(expression)
            .unwrap_or_else(|error| panic!("{error}\nof: {expression}"))
    }

    pub(crate) fn try_eval(&self, expression: &str) -> Result<Value, String> {
        let mut result = self.link.try_call(
            &self.session,
            "Runtime.evaluate",
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true }),
        )?;
        if let Some(details) = result.get("exceptionDetails") {
            return Err(details["exception"]["description"]
                .as_str()
                .unwrap_or("an exception")
                .to_owned());
        }
        Ok(result["result"]["value"].take())
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(crate) fn until(&self, condition: &str) {
        self.until_some(condition, |value| value.as_bool() == Some(true));
    }

    /// Waits until the value of an expression is as wanted, and returns it.
    #[track_caller]
    pub(crate) fn until_some(&self, expression: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + SOON;
        loop {
            // While a document is replaced, there is nothing to evaluate in.
            let value = self.try_eval(expression);
            if let Ok(value) = &value
                && wanted(value)
            {
                return value.clone();
            }
            if Instant::now() > end {
                let shown = self.try_eval("location.hash + '\\n' + document.body.innerText");
                let shown = shown.map(|shown| shown.as_str().unwrap_or_default().to_owned());
                let picture = self.keep_picture();
                panic!(
                    "never: {expression}\nlast: {value:?}\npicture: {picture:?}\nshown: {}",
                    shown.unwrap_or_else(|error| error)
                );
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until elements show a text.
    #[track_caller]
    pub(crate) fn sees(&self, css: &str, text: &str) {
        let (css, text) = (json!(css), json!(text));
        self.until(&format!(
            "[...document.querySelectorAll({css})].some((one) => one.checkVisibility() && one.textContent.includes({text}))"
        ));
    }

    /// Waits until no element shows a text.
    #[track_caller]
    pub(crate) fn sees_no(&self, css: &str, text: &str) {
        let (css, text) = (json!(css), json!(text));
        self.until(&format!(
            "![...document.querySelectorAll({css})].some((one) => one.checkVisibility() && one.textContent.includes({text}))"
        ));
    }

    /// Returns the texts of elements.
    #[track_caller]
    pub(crate) fn texts(&self, css: &str) -> Vec<String> {
        let css = json!(css);
        let texts = self.eval(&format!(
            "[...document.querySelectorAll({css})].map((one) => one.textContent.trim())"
        ));
        let texts = texts.as_array().expect("a list").iter();
        texts
            .map(|text| text.as_str().expect("a text").to_owned())
            .collect()
    }

    /// Clicks the element that has a text or label, as soon as it is there, nothing covers it and it no longer moves.
    #[track_caller]
    pub(crate) fn click(&self, css: &str, text: &str) {
        let before = RefCell::new(Value::Null);
        let point = self.until_some(&format!("{POINT}({}, {})", json!(css), json!(text)), |point| {
            point.is_array() && before.replace(point.clone()) == *point
        });
        for (kind, buttons) in [("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 0)] {
            self.call(
                "Input.dispatchMouseEvent",
                json!({
                    "type": kind, "x": point[0], "y": point[1], "buttons": buttons,
                    "button": if kind == "mouseMoved" { "none" } else { "left" }, "clickCount": 1,
                }),
            );
        }
    }

    /// Presses a key: a character, or a name as `Enter`, with `Ctrl+` before it if wanted.
    #[track_caller]
    pub(crate) fn press(&self, key: &str) {
        let (modifiers, key) = match key.split_once('+') {
            Some(("Ctrl", key)) => (2, key),
            _ => (0, key),
        };
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Tab" => (9, ""),
            "Escape" => (27, ""),
            "End" => (35, ""),
            "Home" => (36, ""),
            "ArrowLeft" => (37, ""),
            "ArrowUp" => (38, ""),
            "ArrowRight" => (39, ""),
            "ArrowDown" => (40, ""),
            other => (
                other.to_ascii_uppercase().bytes().next().unwrap_or_default(),
                other,
            ),
        };
        let text = if modifiers == 0 { text } else { "" };
        for kind in ["keyDown", "keyUp"] {
            self.call(
                "Input.dispatchKeyEvent",
                json!({
                    "type": kind, "key": key, "text": if kind == "keyDown" { text } else { "" },
                    "windowsVirtualKeyCode": code, "modifiers": modifiers,
                }),
            );
        }
    }

    /// Replaces the text of a field by typing, as soon as it can be typed into.
    #[track_caller]
    pub(crate) fn fill(&self, css: &str, text: &str) {
        let field = format!("document.querySelector({})", json!(css));
        let is_filled = format!("{field}?.value === {}", json!(text));
        let focus = format!(
            "{field}?.checkVisibility() === true && ({field}.focus(), {field}.select(), document.activeElement === {field})"
        );
        self.until_some(&is_filled, |value| {
            let is_filled = *value == true;
            if !is_filled && self.try_eval(&focus).is_ok_and(|focused| focused == true) {
                self.call("Input.insertText", json!({ "text": text }));
            }
            is_filled
        });
    }

    /// Returns a picture as PNG.
    #[track_caller]
    pub(crate) fn picture(&self) -> Vec<u8> {
        self.call("Page.bringToFront", json!({}));
        self.try_picture().expect("a picture")
    }

    fn try_picture(&self) -> Option<Vec<u8>> {
        let picture = self.link.try_call(
            &self.session,
            "Page.captureScreenshot",
            json!({ "optimizeForSpeed": false }),
        );
        STANDARD.decode(picture.ok()?["data"].as_str()?).ok()
    }

    /// Keeps a picture beside the build, for whoever reads why a test failed.
    fn keep_picture(&self) -> Option<PathBuf> {
        let name = std::thread::current().name()?.replace("::", "-");
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.png"));
        std::fs::write(&file, self.try_picture()?).ok()?;
        Some(file)
    }
}
