//! The modules of the page, imported one by one in the browser.

use serde_json::{Value, json};

use crate::browser::{Browser, Tab, in_browser};
use crate::support::TestServer;

/// What scripts of these tests use: `until` waits in the browser.
const TOOLS: &str = r"
  window.until = async (look) => {
    for (const end = Date.now() + 10_000; Date.now() < end;) {
      const found = look();
      if (found) return found;
      await new Promise((done) => setTimeout(done, 5));
    }
    throw new Error(`never: ${look}`);
  };
";

/// Replaces the network: sources are kept in `sources`, requests in `fetched`, and `replies` decides what they get.
const FAKE_NETWORK: &str = r"
  window.sources = [];
  window.Source = class {
    constructor(url, signal) {
      Object.assign(this, { url, isOpen: true });
      this.bytes = new ReadableStream({ start: (controller) => { this.controller = controller; } });
      signal.addEventListener('abort', () => {
        this.isOpen = false;
        this.fail();
      });
      sources.push(this);
    }
    write(text) { this.controller.enqueue(new TextEncoder().encode(text)); }
    fire(name, data) { this.write(`event: ${name}\ndata: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`); }
    fail() {
      try { this.controller.error(new TypeError('broken')); } catch { /* It has failed before. */ }
    }
  };
  window.fetched = [];
  window.replies = () => [200, {}];
  window.fetch = async (url, init) => {
    const [status, body, headers] = replies(url, init);
    if (url.startsWith('/api/v1/stream') && status === 200) return new Response(new Source(url, init.signal).bytes);
    fetched.push([init.method, url]);
    return new Response(JSON.stringify(body), { status, headers });
  };
";

/// Opens a document of the server without scripts, in which modules are imported.
fn bare(browser: &Browser, server: &TestServer) -> Tab {
    let tab = browser.tab(&server.api.origin());
    // Chromium looks for the icon of a document that names none.
    tab.expect("favicon.ico");
    tab.call("Emulation.setTimezoneOverride", json!({ "timezoneId": "UTC" }));
    tab.open(&format!("{}/ui/vendor/CHECKSUMS", server.api.origin()));
    tab.until("location.pathname === '/ui/vendor/CHECKSUMS' && document.readyState === 'complete'");
    tab.eval(TOOLS);
    tab
}

/// Imports a module as `m` and evaluates an expression.
#[track_caller]
fn with(tab: &Tab, module: &str, expression: &str) -> Value {
    tab.eval(&format!(
        "(async () => {{ const m = await import('/ui/{module}'); return {expression}; }})()"
    ))
}

#[test]
fn numbers_times_and_words_are_formatted() {
    in_browser(|browser| {
        let server = TestServer::start();
        let tab = bare(browser, &server);
        let format = |expression: &str| with(&tab, "format.js", expression);
        assert_eq!(
            format(
                "[null, undefined, NaN, 0, 0.4, 1, 999, 1000, 9949, 9950, 59_499, 60_000, 3_599_400, 3_600_000, 90_000_000].map(m.duration)"
            ),
            json!([
                "–", "–", "–", "<1 ms", "<1 ms", "1 ms", "999 ms", "1.0 s", "9.9 s", "10 s", "59 s",
                "1m 00s", "59m 59s", "1h 00m", "1d 1h"
            ])
        );
        assert_eq!(
            format("[undefined, 0, 999, 1000, 420_000, 999_999, 1_500_000].map(m.cost)"),
            json!(["–", "$0", "<$0.001", "$0.001", "$0.420", "$1.00", "$1.50"])
        );
        assert_eq!(
            format("[null, 0, 1234567].map(m.number)"),
            json!(["–", "0", "1,234,567"])
        );
        assert_eq!(
            format("[undefined, 0, 999, 1000, 9949, 9950, 999_499, 999_500].map(m.short)"),
            json!(["–", "0", "999", "1.0k", "9.9k", "10k", "999k", "1.0M"])
        );
        assert_eq!(
            format("[0, 999, 1000, 9999, 12_345, 1_500_000].map(m.size)"),
            json!(["0 B", "999 B", "1.0 KB", "10 KB", "12 KB", "1.5 MB"])
        );
        assert_eq!(
            format("[m.millis(null), m.millis('no time'), m.millis('1970-01-01T00:00:01Z')]"),
            json!([null, null, 1000])
        );
        assert_eq!(
            format(
                "[m.clock(''), m.clock('2026-11-25T01:02:03.045Z'), m.clock('2026-11-25T01:02:03.045Z', true)]"
            ),
            json!(["–", "01:02:03", "01:02:03.045"])
        );
        assert_eq!(
            format(
                "[-5, 4, 59, 60, 3600, 200_000].map((seconds) => m.ago('1970-01-01T00:00:00Z', seconds * 1000))"
            ),
            json!(["now", "now", "59 s ago", "1 min ago", "1 h ago", "2 d ago"])
        );
        assert_eq!(
            format("[m.count(1, 'run'), m.count(0, 'run'), m.count(2, 'branch', 'branches')]"),
            json!(["1 run", "0 runs", "2 branches"])
        );
        assert_eq!(
            format("[m.words('partial_success'), m.words(null)]"),
            json!(["partial success", ""])
        );
        assert_eq!(
            format(r#"["plain-1.0/x", "", "a b", "it's", "$(id)", "\u001b[2J's"].map(m.quote)"#),
            json!([
                "plain-1.0/x",
                "''",
                "'a b'",
                r"'it'\''s'",
                "'$(id)'",
                r"$'\x1b[2J\'s'"
            ])
        );
        assert_eq!(
            format("[m.value('text'), m.value({ a: 1 }), m.value(undefined)]"),
            json!(["text", "{\n  \"a\": 1\n}", ""])
        );
    });
}

#[test]
fn addresses_are_read_and_written_without_loss() {
    in_browser(|browser| {
        let server = TestServer::start();
        let tab = bare(browser, &server);
        let parsed = with(
            &tab,
            "router.js",
            "['', '#/runs/a%2Fb/log?text=x%26y&node=n', '#/runs/%zz', '#runs//x'].map((hash) => { const { path, query } = m.parse(hash); return [path, query]; })",
        );
        assert_eq!(
            parsed,
            json!([
                [["runs"], {}],
                [["runs", "a/b", "log"], { "text": "x&y", "node": "n" }],
                [["runs", "%zz"], {}],
                [["runs", "x"], {}],
            ])
        );
        let lost = with(
            &tab,
            "router.js",
            r#"["a b", "é/?#&=+%", "<img src=x>", "\u202e", "%2F"].filter((text) => {
            const { path, query } = m.parse(m.href(['runs', text], { find: text, none: null, empty: '' }));
            return path[1] !== text || query.find !== text || Object.keys(query).length !== 1;
        })"#,
        );
        assert_eq!(lost, json!([]));
        let changed = with(
            &tab,
            "router.js",
            "(m.go('#/runs/r/log?a=1&b=2'), m.setQuery({ a: null, c: 'x y' }), location.hash)",
        );
        assert_eq!(changed, "#/runs/r/log?b=2&c=x+y");
    });
}

#[test]
fn idle_time_is_squeezed_and_waiting_is_idle() {
    in_browser(|browser| {
        let server = TestServer::start();
        let tab = bare(browser, &server);
        let at = "const t = (s) => new Date(s * 1000).toISOString(); const row = (from, to, more) => ({ started: t(from), ended: to === null ? null : t(to), ...more });";
        let scale = |rows: &str, rest: &str| {
            with(
                &tab,
                "views/timeline-scale.js",
                &format!(
                    "(() => {{ {at} const s = m.scaleOf({rows}, 200_000, (r) => !!r.waits); {rest} }})()"
                ),
            )
        };
        // Ten seconds of work, an hour of nothing, ten seconds of work.
        let places = scale(
            "[row(0, 10), row(3610, 3620)]",
            "return [0, 5, 10, 3610, 3620].map((s) => s.place ? 0 : 0) && [0, 10_000, 3_610_000, 3_620_000].map((ms) => Math.round(s.place(ms) * 1000));",
        );
        assert_eq!(places, json!([0, 472, 528, 1000]));
        let gaps = scale(
            "[row(0, 10), row(3610, 3620)]",
            "return s.gaps.map(({ gap }) => gap);",
        );
        assert_eq!(gaps, json!([3_600_000]));
        // What waits for a person does not count as work.
        let waits = scale(
            "[row(0, 10), row(10, 3610, { waits: true }), row(3610, 3620)]",
            "return Math.round(s.place(3_610_000) * 1000);",
        );
        assert_eq!(waits, 528);
        // Rows need not be sorted, may overlap, and may have no end yet; places never fall.
        let falls = scale(
            "[row(5, 9), row(0, 6), row(8, null), row(100, 100)]",
            "let before = -1; let falls = 0; for (let ms = -1000; ms < 210_000; ms += 100) { const now = s.place(ms); if (now < before || now < 0 || now > 1) falls += 1; before = now; } return [falls, s.place(200_000)];",
        );
        assert_eq!(falls, json!([0, 1]));
        assert_eq!(scale("[]", "return [s.place(0), s.gaps];"), json!([0, []]));
        assert_eq!(
            scale("[row(1, 1)]", "return s.place(1000) >= 0 && s.place(1000) <= 1;"),
            true
        );
    });
}

#[test]
fn rows_of_a_run_are_replaced_by_their_key() {
    in_browser(|browser| {
        let server = TestServer::start();
        let tab = bare(browser, &server);
        tab.eval(FAKE_NETWORK);
        tab.eval(r"window.update = (position, stages, more = {}) => ({
            run: { run: 'r', stages: stages.length }, stages, transitions: [], tool_calls: [], warnings: [], nodes: [], edges: [], questions: [], position, ...more });");
        // The first reply is not all; a change arrives while the rest is on its way.
        let model = with(
            &tab,
            "run-model.js",
            r"(async () => {
            const model = new m.RunModel('r');
            replies = (url) => url.includes('since=5') ? (model.receive(update(20, [{ seq: 2, state: 'done' }])), model.receive({ ...update(99, []), run: { run: 'other' } }), [200, update(10, [{ seq: 6 }, { seq: 4 }])]) : [200, update(5, [{ seq: 2, state: 'running' }], { more: true })];
            await model.load();
            return [model.stages.list, model.position, model.loading, fetched];
        })()",
        );
        assert_eq!(
            model,
            json!([
                [{ "seq": 2, "state": "done" }, { "seq": 4 }, { "seq": 6 }],
                20,
                false,
                [["GET", "/api/v1/runs/r"], ["GET", "/api/v1/runs/r?since=5"]],
            ])
        );
        let whole = with(
            &tab,
            "run-model.js",
            r"(() => {
            const model = new m.RunModel('r');
            model.apply(update(5, [{ seq: 1 }, { seq: 2 }]));
            const before = model.stages.list;
            model.apply(update(6, [{ seq: 2, changed: true }]));
            const isNew = before !== model.stages.list && model.stages.list[1].changed;
            model.apply(update(1, [{ seq: 9 }], { whole: true }));
            return [isNew, model.stages.list];
        })()",
        );
        assert_eq!(whole, json!([true, [{ "seq": 9 }]]));
        let failed = with(
            &tab,
            "run-model.js",
            r"(async () => {
            replies = () => [404, { code: 'not_found', message: 'there is no run `r`' }];
            const model = new m.RunModel('r');
            await model.load();
            return [model.error.status, model.error.message, model.loading];
        })()",
        );
        assert_eq!(failed, json!([404, "there is no run `r`", false]));
    });
}

#[test]
fn live_text_is_joined_and_gaps_are_shown() {
    in_browser(|browser| {
        let server = TestServer::start();
        let tab = bare(browser, &server);
        tab.eval(FAKE_NETWORK);
        let text = |pieces: &str| {
            with(
                &tab,
                "run-model.js",
                &format!(
                    "(() => {{ const model = new m.RunModel('r'); for (const [offset, text, more] of {pieces}) model.receiveText({{ run: 'r', node: 'n', branch: null, visit: 1, attempt: 1, offset, text, ...more }}); return [...model.texts.values()].map((one) => one.text); }})()"
                ),
            )
        };
        assert_eq!(text("[[0, 'Grüße '], [8, 'an alle']]"), json!(["Grüße an alle"]));
        assert_eq!(
            text("[[0, 'ab'], [5, 'fg']]"),
            json!(["ab\n[some text was not received]\nfg"])
        );
        assert_eq!(
            text("[[7, 'in the middle']]"),
            json!(["[earlier text was not received]\nin the middle"])
        );
        assert_eq!(
            text("[[0, 'a'], [0, 'b', { attempt: 2 }], [1, 'c']]"),
            json!(["ac", "b"])
        );
        assert_eq!(text("[[0, 'a', { run: 'other' }]]"), json!([]));
        let length = text("[[0, 'x'.repeat(300_000)], [300_000, 'y'.repeat(300_000)]]");
        assert_eq!(length[0].as_str().map(str::len), Some(400_000));
    });
}

#[test]
fn one_stream_follows_what_the_tabs_want() {
    in_browser(|browser| {
        let server = TestServer::start();
        let tab = bare(browser, &server);
        tab.eval(FAKE_NETWORK);
        tab.eval("window.said = []");
        let live = |script: &str| with(&tab, "live.js", &format!("(async () => {{ {script} }})()"));
        let first = live(
            r"
            for (const kind of ['state', 'run', 'gates', 'open', 'expired']) m.on(kind, (data) => said.push([kind, data]));
            m.start();
            window.stopGates = m.watch('gates');
            return (await until(() => sources[0])).url;",
        );
        assert_eq!(first, "/api/v1/stream?watch=gates");
        // A second run is added at its position, the first one goes on after what it has received.
        let second = live(
            r"
            window.stopRun = m.watchRun('a/b', 7);
            (await until(() => sources[1])).fire('run', { run: { run: 'a/b' }, position: 12 });
            await until(() => said.some(([kind]) => kind === 'run'));
            m.watchRun('c', 3);
            return [sources[1].url, (await until(() => sources[2])).url, sources.map((one) => one.isOpen)];",
        );
        assert_eq!(
            second,
            json!([
                "/api/v1/stream?watch=gates,run:a%2Fb@7",
                "/api/v1/stream?watch=gates,run:a%2Fb@12,run:c@3",
                [false, false, true],
            ])
        );
        // A message that cannot be read is left out. What nobody watches is left.
        let left = live(
            r"
            sources[2].fire('run', '{');
            // A message may come in pieces.
            sources[2].write('event: ga');
            const quote = String.fromCharCode(34);
            sources[2].write(`tes\ndata: {${quote}gates${quote}`);
            sources[2].write(':[]}\n\n: ping\n\n');
            await until(() => said.some(([kind]) => kind === 'gates'));
            stopRun(); stopGates();
            const { url } = await until(() => sources[3]);
            return [url, said.filter(([kind]) => kind === 'gates').length];",
        );
        assert_eq!(left, json!(["/api/v1/stream?watch=run:c@3", 1]));
        // A broken stream is opened again, and what was missed is asked for.
        let again = live(
            r"
            said.length = 0;
            sources[3].fail();
            const { url } = await until(() => sources[4]);
            await until(() => said.some(([kind]) => kind === 'open'));
            return [url, said, fetched];",
        );
        assert_eq!(
            again,
            json!([
                "/api/v1/stream?watch=run:c@3",
                [["state", "reconnecting"], ["state", "live"], ["open", null]],
                [],
            ])
        );
        let stopped = live(
            r"
            said.length = 0;
            sources[4].fire('bye', {});
            replies = () => [401, { code: 'unauthorized', message: 'no session' }];
            await until(() => said.some(([kind]) => kind === 'expired'));
            return [said, sources.length];",
        );
        assert_eq!(
            stopped,
            json!([
                [["state", "reconnecting"], ["state", "stopped"], ["expired", null]],
                5
            ])
        );
    });
}

#[test]
fn requests_say_what_went_wrong() {
    in_browser(|browser| {
        let server = TestServer::start();
        let tab = bare(browser, &server);
        tab.eval(FAKE_NETWORK);
        let api = |script: &str| with(&tab, "api.js", &format!("(async () => {{ {script} }})()"));
        // A server that has too much to do is asked again.
        let patient = api(
            "let n = 0; replies = () => (n++ < 2 ? [429, {}, { 'Retry-After': '0.01' }] : [200, { fine: true }]); return [await m.get('/x'), fetched.length];",
        );
        assert_eq!(patient, json!([{ "fine": true }, 3]));
        let refused = api(
            "fetched.length = 0; replies = () => [429, { code: 'busy', message: 'too much', help: 'wait' }, { 'Retry-After': '0.01' }]; return m.post('/x').catch((error) => [error.status, error.code, error.message, error.help, fetched.length]);",
        );
        assert_eq!(refused, json!([429, "busy", "too much", "wait", 1]));
        let unreachable = api(
            "replies = () => { throw new TypeError('no network'); }; return m.get('/x').catch((error) => [error.status, error.code]);",
        );
        assert_eq!(unreachable, json!([0, "unreachable"]));
        let expired = api(
            "let calls = 0; const off = m.onExpired(() => { calls += 1; }); replies = () => [401, {}]; await m.get('/x').catch(() => {}); await m.signIn('t').catch(() => {}); off(); await m.get('/x').catch(() => {}); return calls;",
        );
        assert_eq!(expired, 1);
        let paths = api(
            "return [m.paths.answer('r/1', 'approve#1/1'), m.paths.run('r', 0), m.paths.run('r', 4), m.paths.action('r', 'cancel'), m.paths.action('r', 'resume')];",
        );
        assert_eq!(
            paths,
            json!([
                "/pipelines/r%2F1/questions/approve%231%2F1/answer",
                "/api/v1/runs/r",
                "/api/v1/runs/r?since=4",
                "/pipelines/r/cancel",
                "/api/v1/runs/r/resume",
            ])
        );
    });
}
