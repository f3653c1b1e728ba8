//! Times and sizes of the page. They are printed and never asserted, because they depend on the machine.

use std::io::Write as _;

use serde_json::{Value, json};

use super::enter;
use crate::browser::{Tab, in_browser};
use crate::support::{TestServer, until};

const ATTEMPTS: u64 = 10_000;
const NODES: usize = 1_000;

/// Records when the list of runs is shown first.
const FIRST: &str = "new MutationObserver((_, observer) => {
  if (document.querySelector('main h1')) { window.usable = performance.now(); observer.disconnect(); }
}).observe(document, { childList: true, subtree: true });";

/// Measures until the frame after an action is on the screen. The median of several times, in milliseconds.
const TOOLS: &str = r"
  window.painted = () => new Promise((done) => requestAnimationFrame(() => { const { port1, port2 } = new MessageChannel(); port1.onmessage = done; port2.postMessage(0); }));
  window.median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
  window.time = async (times, act) => {
    const took = [];
    for (let turn = 0; turn < times; turn += 1) {
      await painted();
      const began = performance.now();
      await act(turn);
      await painted();
      took.push(performance.now() - began);
    }
    return [median(took), Math.max(...took)];
  };
";

fn print(name: &str, value: &Value, target: &str) {
    let _ = writeln!(std::io::stderr(), "{name:<44} {value:>24}   target {target}");
}

fn first_load(tab: &Tab, link: &str) {
    tab.call("Network.setCacheDisabled", json!({ "cacheDisabled": true }));
    tab.call(
        "Page.addScriptToEvaluateOnNewDocument",
        json!({ "source": FIRST }),
    );
    tab.open(link);
    tab.sees("h1", "Runs");
    let load = tab.eval("({ usable: Math.round(usable), bytes: performance.getEntriesByType('resource').filter((one) => one.name.includes('/ui/')).reduce((sum, one) => sum + one.decodedBodySize, performance.getEntriesByType('navigation')[0].decodedBodySize) })");
    print("first load, bytes", &load["bytes"], "180000");
    print("first load, ms until usable", &load["usable"], "500");
}

fn long_run(server: &TestServer, tab: &Tab) {
    let run = server.api.begin("long", json!({ "left": ATTEMPTS / 2 }));
    until("the end of the run", || {
        let run = server.api.get("/api/v1/runs")["runs"][0].clone();
        assert_ne!(run["status"], "fail", "{run}");
        (run["status"] == "success").then_some(())
    });
    tab.show("#/definitions");
    tab.sees("h1", "Definitions");
    let painted = tab.eval(&format!(
        "(async () => {{ const began = performance.now(); location.hash = '#/runs/{run}'; while (!document.querySelector('.vrow')) await painted(); const first = performance.now() - began; while (document.querySelector('.partial') || !document.querySelector('.node')) await painted(); return [first, performance.now() - began].map(Math.round); }})()"
    ));
    print("run of 10,000 attempts, ms painted, complete", &painted, "1000");
    let rows = tab.eval("time(15, (turn) => document.querySelectorAll('.vrow')[turn + 1].click()).then((list) => list.map(Math.round))");
    print("click on an attempt, ms median, most", &rows, "50");
    let nodes = tab.eval("time(15, (turn) => document.querySelectorAll('.node')[turn % 3].dispatchEvent(new MouseEvent('click', { bubbles: true }))).then((list) => list.map(Math.round))");
    print("click on a node, ms median, most", &nodes, "50");
    for name in ["decisions", "log", "cost"] {
        let shown = tab.eval(&format!("time(5, async (turn) => {{ location.hash = turn % 2 ? '#/runs/{run}' : '#/runs/{run}/{name}'; await painted(); }}).then((list) => list.map(Math.round))"));
        print(&format!("tab {name} and back, ms median, most"), &shown, "50");
    }
}

fn large_graph(server: &TestServer, tab: &Tab) {
    let edges: String = (1..NODES)
        .map(|node| format!("n{} -> n{node}\n", (node - 1) / 2))
        .collect();
    let source = format!("digraph large {{ start -> n0 {edges} n{} -> exit }}", NODES - 1);
    let scene = server.api.post("/api/v1/check", json!({ "source": source }));
    let took = tab.eval(&format!(
        r"(async () => {{
          const {{ GraphView }} = await import('/ui/graph.js');
          const {{ scene }} = {scene};
          const box = document.createElement('div');
          box.className = 'graph-box';
          box.style.cssText = 'position:fixed;inset:0;width:800px;height:800px;z-index:99';
          document.body.append(box);
          const view = new GraphView(box, {{ label: 'large', onSelect: () => {{}} }});
          const draw = await time(3, () => view.draw(scene));
          const states = (turn) => new Map(scene.nodes.map(({{ id }}) => [id, {{ state: ['success', 'running', 'fail', 'waiting'][turn % 4], visits: turn, attempts: 1 }}]));
          const result = [draw];
          for (const whole of [false, true]) {{
            if (whole) view.fit();
            result.push(await time(12, (turn) => view.colour(states(turn))));
            const script = [];
            for (let turn = 0; turn < 8; turn += 1) {{ const began = performance.now(); view.colour(states(turn + 1)); script.push(performance.now() - began); await painted(); }}
            result.push(script);
          }}
          box.remove();
          return result.map((list) => list.length > 2 ? Math.round(median(list)) : list.map(Math.round));
        }})()",
    ));
    print("1,000 nodes drawn, ms median, most", &took[0], "1000");
    print("1,000 nodes recoloured, near, ms median, most", &took[1], "33");
    print("  of these, script", &took[2], "");
    print("1,000 nodes recoloured, whole, ms median, most", &took[3], "33");
    print("  of these, script", &took[4], "");
}

#[test]
#[ignore = "measures, and asserts nothing"]
fn figures() {
    in_browser(|browser| {
        let server = TestServer::start();
        let cold = browser.tab(&server.api.origin());
        first_load(&cold, &server.api.link());
        let tab = enter(browser, &server.api);
        tab.eval(TOOLS);
        long_run(&server, &tab);
        large_graph(&server, &tab);
    });
}
