// VS Code in a browser, with the packaged extension: what a person does in it, and what it shows.

import { execFileSync, spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { Tab } from "./chromium.mjs";

/** Longest wait for something that happens soon, in milliseconds. */
const SOON = 40_000;

/** Time between two looks, in milliseconds. */
const PAUSE = 40;

/** Settings that keep the screen still, and its text in the document. */
const SETTINGS = {
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": false,
    "files.autoSave": "off",
    "workbench.reduceMotion": "on",
    "editor.minimap.enabled": false,
    "editor.cursorBlinking": "solid",
    "editor.accessibilitySupport": "off",
    "editor.stickyScroll.enabled": false,
    "extensions.ignoreRecommendations": true,
    "telemetry.telemetryLevel": "off",
    "terminal.integrated.gpuAcceleration": "off",
    "window.commandCenter": false,
    "workbench.layoutControl.enabled": false,
    "chat.commandCenter.enabled": false,
};

const KEYS = { Enter: 13, Escape: 27, F1: 112, F2: 113, F12: 123, " ": 32, ".": 190, Delete: 46, Backspace: 8 };
const MODIFIERS = { Alt: 1, Ctrl: 2, Shift: 8 };

/** Returns the options of the command line, each with a value. */
export function optionsOf(...names) {
    const options = Object.fromEntries(names.map((name) => [name, { type: "string" }]));
    return parseArgs({ options }).values;
}

export class Editor {
    /** The tab that shows the editor. */
    tab;
    /** The folder that is open. */
    folder;
    #server;
    #scratch;
    #origin;
    #contexts = new Map();

    /**
     * Starts the editor.
     * @param code the folder in which `editors/install-vscode` has installed VS Code
     * @param extension the packaged extension
     * @param program the program `orchestra`
     * @param project the folder of which a copy is opened
     * @param settings further settings of the machine
     * @param screen the size of the window
     */
    static async start({ code, extension, program, project, settings, screen }) {
        const editor = new Editor();
        try {
            editor.#scratch = mkdtempSync(path.join(tmpdir(), "orchestra-editor-"));
            editor.folder = path.join(editor.#scratch, "project");
            const isRun = (file) => path.basename(file) === ".orchestra";
            cpSync(project, editor.folder, { recursive: true, filter: (file) => !isRun(file) });
            const data = path.join(editor.#scratch, "data");
            mkdirSync(path.join(data, "data/Machine"), { recursive: true });
            const machine = { ...SETTINGS, ...settings, "orchestra.path": path.resolve(program) };
            writeFileSync(path.join(data, "data/Machine/settings.json"), JSON.stringify(machine));
            const folders = ["--server-data-dir", data, "--extensions-dir", path.join(editor.#scratch, "extensions")];
            const server = path.join(code, "out/server-main.js");
            const install = [server, ...folders, "--install-extension", extension, "--accept-server-license-terms"];
            execFileSync(process.execPath, install, { stdio: ["ignore", "ignore", "pipe"] });
            await editor.#serve(server, folders);
            editor.tab = await Tab.open(screen);
            editor.tab.listen((method, parameters) => {
                if (method === "Runtime.executionContextCreated") {
                    editor.#contexts.set(parameters.context.id, parameters.context);
                } else if (method === "Runtime.executionContextDestroyed") {
                    editor.#contexts.delete(parameters.executionContextId);
                } else if (method === "Runtime.executionContextsCleared") {
                    editor.#contexts.clear();
                }
            });
            return editor;
        } catch (error) {
            await editor.close();
            throw error;
        }
    }

    async #serve(server, folders) {
        const options = [
            "--host", "127.0.0.1", "--port", "0", "--without-connection-token", "--accept-server-license-terms",
            "--telemetry-level", "off", "--disable-workspace-trust", "--disable-experiments",
        ];
        this.#server = spawn(process.execPath, [server, ...folders, ...options], {
            stdio: ["ignore", "pipe", "ignore"],
            detached: true,
        });
        for await (const line of createInterface({ input: this.#server.stdout })) {
            const port = /Extension host agent listening on (\d+)/.exec(line)?.[1];
            if (port) {
                this.#origin = `127.0.0.1:${port}`;
                this.#server.stdout.resume();
                return;
            }
        }
        throw new Error("VS Code has ended before it listened");
    }

    async close() {
        await this.tab?.close();
        if (this.#server?.pid) {
            try {
                process.kill(-this.#server.pid, "SIGKILL");
            } catch {
                // It has ended.
            }
        }
        rmSync(this.#scratch, { recursive: true, force: true, maxRetries: 5 });
    }

    /** Opens a file of the folder, in a new page. */
    async open(name) {
        const folder = encodeURIComponent(this.folder);
        const file = `vscode-remote://${this.#origin}${this.folder}/${name}`;
        const payload = encodeURIComponent(JSON.stringify([["openFile", file]]));
        await this.tab.send("Page.navigate", { url: `http://${this.#origin}/?folder=${folder}&payload=${payload}` });
        await this.sees(".tab.active", name);
        await this.until("document.querySelector('.editor-instance .view-line') !== null");
    }

    /** Returns the text of a file of the folder. */
    read(name) {
        return readFileSync(path.join(this.folder, name), "utf8");
    }

    /** Writes a file of the folder, as another program would. */
    write(name, text) {
        const file = path.join(this.folder, name);
        mkdirSync(path.dirname(file), { recursive: true });
        writeFileSync(file, text);
    }

    /** Opens another file of the folder in the same page. */
    async openFile(name) {
        await this.click(".explorer-folders-view .monaco-list-row", name);
        await this.sees(".tab.active", name);
    }

    /** Saves the active file, and waits until its text on disk is as wanted. */
    async saved(name, wanted) {
        await this.#wait(`${name} is saved as expected`, async () => {
            if (await this.tab.evaluate("document.querySelector('.tab.active.dirty') !== null")) {
                await this.press("Ctrl+s");
            }
            return wanted(this.read(name)) || undefined;
        });
        return this.read(name);
    }

    /** Waits until an expression is true. */
    async until(expression, context) {
        await this.#wait(expression, async () => ((await this.tab.evaluate(expression, context)) === true ? true : undefined));
    }

    /** Waits until visible elements show a text. */
    async sees(css, text = "") {
        await this.until(`${VISIBLE}(${JSON.stringify(css)}, ${JSON.stringify(text)}).length > 0`);
    }

    /** Waits until no visible element shows a text. */
    async seesNo(css, text = "") {
        await this.until(`${VISIBLE}(${JSON.stringify(css)}, ${JSON.stringify(text)}).length === 0`);
    }

    /** Clicks the first visible element that shows a text. */
    async click(css, text) {
        const middle = `(() => {
            const box = ${VISIBLE}(${JSON.stringify(css)}, ${JSON.stringify(text)})[0]?.getBoundingClientRect();
            return box ? [box.x + box.width / 2, box.y + box.height / 2] : undefined;
        })()`;
        const [x, y] = await this.#wait(`${css} with ${text}`, () => this.tab.evaluate(middle));
        await this.clickAt(x, y);
    }

    async clickAt(x, y) {
        const at = { x, y, button: "left", clickCount: 1 };
        await this.tab.send("Input.dispatchMouseEvent", { ...at, type: "mouseMoved", button: "none" });
        await this.tab.send("Input.dispatchMouseEvent", { ...at, type: "mousePressed", buttons: 1 });
        await this.tab.send("Input.dispatchMouseEvent", { ...at, type: "mouseReleased" });
    }

    /** Presses keys one after the other, such as `Ctrl+k` and `Enter`. */
    async press(...keys) {
        for (const combination of keys) {
            const parts = combination.split("+");
            const key = parts.pop();
            const modifiers = parts.reduce((sum, name) => sum + MODIFIERS[name], 0);
            const code = KEYS[key] ?? key.toUpperCase().charCodeAt(0);
            const text = key === "Enter" ? "\r" : key.length === 1 && !(modifiers & 3) ? key : "";
            const event = { key, modifiers, windowsVirtualKeyCode: code, code: codeOf(key) };
            await this.tab.send("Input.dispatchKeyEvent", { ...event, type: "keyDown", text });
            await this.tab.send("Input.dispatchKeyEvent", { ...event, type: "keyUp" });
        }
    }

    async type(text) {
        await this.tab.send("Input.insertText", { text });
    }

    /** Executes a command by its title in the command palette. */
    async command(title) {
        await this.#wait(`the command ${title}`, async () => {
            // The list does not change when the extension is activated, so it is opened again.
            await this.press("Escape");
            await this.#quickInput("F1", title);
            const focused = '".quick-input-list .monaco-list-row.focused"';
            const isFound = await this.#soon(`${VISIBLE}(${focused}, ${JSON.stringify(title)}).length > 0`);
            if (isFound) {
                await this.press("Enter");
            }
            return isFound;
        });
        await this.seesNo(".quick-input-widget");
    }

    /** Places the cursor before the n-th character of the first occurrence of a text in the active file. */
    async goTo(name, text, offset = 0) {
        const before = this.read(name).split(text, 1)[0].split("\n");
        await this.goToLine(before.length, before.at(-1).length + 1 + offset);
    }

    async goToLine(line, column) {
        await this.#wait(`line ${line}, column ${column}`, async () => {
            // A file that is just being opened may not have the focus yet, so it is tried again.
            await this.#quickInput("Ctrl+g", `:${line}:${column}`);
            await this.press("Enter");
            return this.#soon(`${VISIBLE}(".statusbar-item", "Ln ${line}, Col ${column}").length > 0`);
        });
    }

    /** Shows the hover at the cursor, until it shows a text. A change of the layout hides it, so it is tried again. */
    async hover(text) {
        await this.#wait(`a hover with ${text}`, async () => {
            await this.command("Show or Focus Hover");
            return this.#soon(`${VISIBLE}(".monaco-hover", ${JSON.stringify(text)}).length > 0`);
        });
    }

    /** Waits for a short time until an expression is true; `undefined` if it is not. */
    async #soon(expression) {
        for (let looks = 0; looks < 50; looks++) {
            if (await this.tab.evaluate(expression)) {
                return true;
            }
            await new Promise((resolve) => setTimeout(resolve, PAUSE));
        }
        return undefined;
    }

    async #quickInput(key, text) {
        const input = "document.querySelector('.quick-input-widget input[type=text]')";
        await this.#wait(`the answer to ${key}`, async () => {
            const isOpen = await this.tab.evaluate(`${input}?.checkVisibility() === true && document.activeElement === ${input}`);
            if (!isOpen) {
                await this.press(key);
            }
            return isOpen || undefined;
        });
        await this.tab.evaluate(`${input}.select()`);
        await this.type((key === "F1" ? ">" : "") + text);
    }

    /** Returns the ids of the execution contexts in which an expression is true: those of the page and of its frames. */
    async contextsWhere(expression) {
        const found = [];
        for (const { id, auxData } of this.#contexts.values()) {
            const isTrue = auxData?.isDefault && (await this.tab.evaluate(expression, id).catch(() => false));
            if (isTrue) {
                found.push(id);
            }
        }
        return found;
    }

    /** Waits until an expression is true in a frame, and returns its execution context. */
    frame(expression) {
        return this.#wait(`a frame with ${expression}`, async () => (await this.contextsWhere(expression))[0]);
    }

    async #wait(what, look) {
        const end = Date.now() + SOON;
        let last;
        while (Date.now() < end) {
            try {
                const found = await look();
                if (found !== undefined && found !== null) {
                    return found;
                }
            } catch (error) {
                // While a page is replaced, there is nothing to evaluate in.
                last = error;
            }
            await new Promise((resolve) => setTimeout(resolve, PAUSE));
        }
        throw new Error(`never: ${what}${last ? ` (${last.message})` : ""}`);
    }
}

/** Returns the visible elements that show a text. VS Code separates some words by no-break spaces. */
const VISIBLE = `((css, text) => [...document.querySelectorAll(css)].filter((one) => {
    const shown = one.textContent.replaceAll("\\u00a0", " ") + " " + (one.getAttribute("aria-label") ?? "");
    return one.checkVisibility() && one.getClientRects().length > 0 && shown.includes(text);
}))`;

function codeOf(key) {
    if (/^[a-z]$/i.test(key)) {
        return `Key${key.toUpperCase()}`;
    }
    return { " ": "Space", ".": "Period" }[key] ?? key;
}
