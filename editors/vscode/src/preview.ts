// Previews: pictures of pipelines that follow their documents.

import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import type { Client } from "./client";
import { findNode, wordAt } from "./nodes";

/** Milliseconds without a change of a document before its picture is drawn again. */
const PAUSE = 150;

const VIEW_TYPE = "orchestra.preview";

export class Previews implements vscode.Disposable, vscode.WebviewPanelSerializer {
    private readonly previews = new Map<string, Preview>();
    private readonly subscriptions: vscode.Disposable[];

    constructor(
        private readonly extension: vscode.Uri,
        private readonly client: Client,
    ) {
        const drawAll = () => {
            for (const preview of this.previews.values()) {
                preview.drawSoon();
            }
        };
        this.subscriptions = [
            vscode.window.registerWebviewPanelSerializer(VIEW_TYPE, this),
            client.onDidStart(drawAll),
            // A picture may also depend on other files, such as `orchestra.yaml`.
            vscode.workspace.onDidChangeTextDocument((event) => {
                if (client.handles(event.document)) {
                    drawAll();
                }
            }),
            vscode.workspace.onDidSaveTextDocument(drawAll),
            vscode.window.onDidChangeTextEditorSelection(({ textEditor, selections }) => {
                const preview = this.previews.get(textEditor.document.uri.toString());
                const position = selections[0]?.active;
                if (preview && position) {
                    preview.select(wordAt(textEditor.document, position));
                }
            }),
        ];
    }

    /** Shows the preview of the active document beside it. */
    show(): void {
        const document = vscode.window.activeTextEditor?.document;
        if (!document) {
            return;
        }
        const existing = this.previews.get(document.uri.toString());
        if (existing) {
            existing.panel.reveal(undefined, true);
            return;
        }
        const column = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true };
        this.add(vscode.window.createWebviewPanel(VIEW_TYPE, "Preview", column), document.uri);
    }

    /** Shows a preview again that was open when the window was closed. */
    async deserializeWebviewPanel(panel: vscode.WebviewPanel, state: unknown): Promise<void> {
        const uri = (state as { uri?: unknown } | null)?.uri;
        if (typeof uri === "string") {
            this.add(panel, vscode.Uri.parse(uri));
        } else {
            panel.dispose();
        }
    }

    dispose(): void {
        for (const preview of this.previews.values()) {
            preview.panel.dispose();
        }
        vscode.Disposable.from(...this.subscriptions).dispose();
    }

    private add(panel: vscode.WebviewPanel, uri: vscode.Uri): void {
        const key = uri.toString();
        const preview = new Preview(panel, uri, this.extension, this.client);
        this.previews.set(key, preview);
        panel.onDidDispose(() => {
            preview.dispose();
            this.previews.delete(key);
        });
    }
}

class Preview {
    private timer: NodeJS.Timeout | undefined;
    /** The number of the last request. Answers to earlier ones are dropped. */
    private request = 0;

    constructor(
        readonly panel: vscode.WebviewPanel,
        private readonly uri: vscode.Uri,
        extension: vscode.Uri,
        private readonly client: Client,
    ) {
        const folder = vscode.Uri.joinPath(extension, "dist", "webview");
        panel.title = `Preview ${uri.path.split("/").pop() ?? ""}`;
        panel.webview.options = { enableScripts: true, localResourceRoots: [folder] };
        panel.webview.onDidReceiveMessage((message: { ready?: true; open?: unknown }) => {
            if (message.ready) {
                void this.draw();
            } else if (typeof message.open === "string") {
                void this.open(message.open);
            }
        });
        // A hidden page is discarded. It asks for the picture when it is shown again.
        panel.webview.html = page(panel.webview, folder, uri);
    }

    drawSoon(): void {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => void this.draw(), PAUSE);
    }

    /** Marks a node; no node if the pipeline has none of this id. */
    select(id: string): void {
        void this.panel.webview.postMessage({ select: id });
    }

    dispose(): void {
        clearTimeout(this.timer);
        this.request = Number.POSITIVE_INFINITY;
    }

    private async draw(): Promise<void> {
        const request = ++this.request;
        let message: object;
        try {
            // The server only knows documents that are open.
            await vscode.workspace.openTextDocument(this.uri);
            const answer = (await this.client.execute("orchestra.preview", this.uri.toString())) as { svg: string };
            message = { svg: answer.svg };
        } catch (error) {
            message = { error: error instanceof Error ? error.message : String(error) };
        }
        if (request === this.request) {
            await this.panel.webview.postMessage(message);
        }
    }

    /** Selects a node in its document. */
    private async open(id: string): Promise<void> {
        const document = await vscode.workspace.openTextDocument(this.uri);
        const selection = await findNode(document, id);
        if (selection) {
            const shown = vscode.window.visibleTextEditors.find((editor) => editor.document === document);
            await vscode.window.showTextDocument(document, {
                selection,
                viewColumn: shown?.viewColumn ?? vscode.ViewColumn.One,
            });
        }
    }
}

function page(webview: vscode.Webview, folder: vscode.Uri, uri: vscode.Uri): string {
    const address = (name: string) => webview.asWebviewUri(vscode.Uri.joinPath(folder, name)).toString();
    const nonce = randomBytes(16).toString("base64");
    // The picture has styles of its own. Nothing but the script of this extension can run.
    const policy = `default-src 'none'; style-src ${webview.cspSource} 'unsafe-inline'; script-src 'nonce-${nonce}'`;
    const state = JSON.stringify(uri.toString()).replaceAll("&", "&amp;").replaceAll('"', "&quot;");
    return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<link rel="stylesheet" href="${address("preview.css")}">
<title>Preview</title>
</head>
<body data-uri="${state}">
<p id="error" role="status" hidden></p>
<main id="picture"></main>
<script nonce="${nonce}" src="${address("preview.js")}"></script>
</body>
</html>`;
}
