// Chromium, controlled by the DevTools protocol over a pipe, without packages. It ends when the pipe is closed.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

/** Longest wait for the answer to a command, in milliseconds. */
const ANSWER = 30_000;

/** A tab of a Chromium of its own. */
export class Tab {
    #process;
    #folder;
    #nextId = 1;
    #waiting = new Map();
    #listeners = [];
    #session;

    static async open({ width, height, scale = 1, colours = "light" }) {
        const tab = new Tab();
        tab.#start();
        const { targetId } = await tab.send("Target.createTarget", { url: "about:blank" }, null);
        const { sessionId } = await tab.send("Target.attachToTarget", { targetId, flatten: true }, null);
        tab.#session = sessionId;
        await tab.send("Page.enable");
        await tab.send("Runtime.enable");
        // A tab behind another one behaves as if it were looked at.
        await tab.send("Emulation.setFocusEmulationEnabled", { enabled: true });
        await tab.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: scale, mobile: false });
        await tab.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: colours }] });
        return tab;
    }

    #start() {
        this.#folder = mkdtempSync(path.join(tmpdir(), "orchestra-chromium-"));
        const options = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
            "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-breakpad", "--mute-audio",
            // The frames of previews are in the process of the page, so that one session reaches all of them.
            "--disable-site-isolation-trials", "--disable-features=IsolateOrigins,site-per-process",
            // No other name or address exists, so nothing can leave this machine.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            `--user-data-dir=${this.#folder}`,
            "about:blank",
        ];
        this.#process = spawn("chromium", options, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
        this.#process.on("error", (error) => this.#fail(error));
        this.#process.on("exit", () => this.#fail(new Error("the browser has ended")));
        this.#process.stdio[3].on("error", () => {});
        let pending = [];
        this.#process.stdio[4].on("data", (bytes) => {
            let start = 0;
            for (let end = bytes.indexOf(0); end >= 0; end = bytes.indexOf(0, start)) {
                const message = Buffer.concat([...pending, bytes.subarray(start, end)]).toString();
                pending = [];
                start = end + 1;
                this.#receive(JSON.parse(message));
            }
            pending.push(bytes.subarray(start));
        });
    }

    #receive(message) {
        const waiting = this.#waiting.get(message.id);
        if (waiting) {
            this.#waiting.delete(message.id);
            clearTimeout(waiting.timer);
            message.error ? waiting.reject(new Error(message.error.message)) : waiting.resolve(message.result);
        }
        for (const listener of message.method ? this.#listeners : []) {
            listener(message.method, message.params);
        }
    }

    #fail(error) {
        for (const { reject, timer } of this.#waiting.values()) {
            clearTimeout(timer);
            reject(error);
        }
        this.#waiting.clear();
    }

    /** Calls a function with each event. */
    listen(listener) {
        this.#listeners.push(listener);
    }

    send(method, params = {}, session = this.#session) {
        const id = this.#nextId++;
        const message = { id, method, params, ...(session ? { sessionId: session } : {}) };
        return new Promise((resolve, reject) => {
            const timer = setTimeout(() => reject(new Error(`the browser does not answer ${method}`)), ANSWER);
            this.#waiting.set(id, { resolve, reject, timer });
            this.#process.stdio[3].write(`${JSON.stringify(message)}\0`);
        });
    }

    /** Evaluates an expression in the page, or in one of its frames. */
    async evaluate(expression, contextId) {
        const parameters = { expression, awaitPromise: true, returnByValue: true, userGesture: true };
        const result = await this.send("Runtime.evaluate", contextId ? { ...parameters, contextId } : parameters);
        if (result.exceptionDetails) {
            throw new Error(result.exceptionDetails.exception?.description ?? result.exceptionDetails.text);
        }
        return result.result.value;
    }

    async screenshot() {
        const { data } = await this.send("Page.captureScreenshot", { format: "png", optimizeForSpeed: false });
        return Buffer.from(data, "base64");
    }

    async close() {
        const ended = new Promise((resolve) => this.#process.once("exit", resolve));
        this.#process.stdio[3].end();
        this.#process.stdio[4].destroy();
        const timer = setTimeout(() => this.#process.kill("SIGKILL"), 5000);
        await ended;
        clearTimeout(timer);
        rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 });
    }
}
