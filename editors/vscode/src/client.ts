// The client of the language server: its life cycle and its settings.

import * as vscode from "vscode";
import {
    DidChangeConfigurationNotification,
    type DocumentFilter,
    ExecuteCommandRequest,
    LanguageClient,
    type LanguageClientOptions,
} from "vscode-languageclient/node";
import { configuredPath, findProgram } from "./program";

/** Files besides pipelines in which the server finds diagnostics and names. */
const OTHER_FILES: DocumentFilter[] = [
    { scheme: "file", pattern: "**/orchestra.yaml" },
    { scheme: "file", pattern: "**/{roles,personas,personalities,tasks}/*.yaml" },
    { scheme: "file", pattern: "**/prompts/**/*.{yaml,yml,md,txt}" },
];

/** Settings that need another server process. */
const START_SETTINGS = ["orchestra.path", "orchestra.arguments", "orchestra.pipelines"];

export class Client implements vscode.Disposable {
    readonly output = vscode.window.createOutputChannel("Orchestra", { log: true });
    private readonly startedEmitter = new vscode.EventEmitter<void>();
    /** Fires each time a server has started. */
    readonly onDidStart = this.startedEmitter.event;
    private running: LanguageClient | undefined;
    private readonly subscriptions: vscode.Disposable[] = [];
    /** The last change of the state. Changes run one after the other. */
    private changes: Promise<void> = Promise.resolve();

    constructor() {
        this.subscriptions.push(
            this.output,
            this.startedEmitter,
            vscode.workspace.onDidChangeConfiguration((event) => {
                if (START_SETTINGS.some((name) => event.affectsConfiguration(name))) {
                    void this.restart();
                } else if (event.affectsConfiguration("orchestra")) {
                    void this.running?.sendNotification(DidChangeConfigurationNotification.type, {
                        settings: serverSettings(),
                    });
                }
            }),
            vscode.workspace.onDidGrantWorkspaceTrust(() => void this.restart()),
        );
    }

    start(): Promise<void> {
        return this.change(() => this.startNow());
    }

    stop(): Promise<void> {
        return this.change(() => this.stopNow());
    }

    restart(): Promise<void> {
        return this.change(async () => {
            await this.stopNow();
            await this.startNow();
        });
    }

    dispose(): void {
        vscode.Disposable.from(...this.subscriptions).dispose();
    }

    /** Returns whether the server handles a document. */
    handles(document: vscode.TextDocument): boolean {
        return vscode.languages.match(documentSelector() as vscode.DocumentSelector, document) > 0;
    }

    /** Executes a command of the server. Fails with the server's message. */
    async execute(command: string, ...args: unknown[]): Promise<unknown> {
        await this.changes;
        if (!this.running) {
            throw new Error("the language server does not run");
        }
        return this.running.sendRequest(ExecuteCommandRequest.type, { command, arguments: args as never[] });
    }

    private change(action: () => Promise<void>): Promise<void> {
        this.changes = this.changes.then(action).catch((error: unknown) => {
            this.output.error(String(error));
        });
        return this.changes;
    }

    private async startNow(): Promise<void> {
        const command = await findProgram();
        if (!command) {
            void reportMissing();
            return;
        }
        const args = vscode.workspace.getConfiguration("orchestra").get<string[]>("arguments") ?? ["lsp"];
        const cwd = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
        const options: LanguageClientOptions = {
            documentSelector: documentSelector(),
            outputChannel: this.output,
            initializationOptions: serverSettings(),
        };
        const executable = { command, args, options: cwd === undefined ? {} : { cwd } };
        const client = new LanguageClient("orchestra", "Orchestra", executable, options);
        this.running = client;
        await client.start();
        this.startedEmitter.fire();
    }

    private async stopNow(): Promise<void> {
        const client = this.running;
        this.running = undefined;
        if (client) {
            // A server that cannot be stopped in an orderly way is ended by this call, too.
            await client.dispose().catch((error: unknown) => this.output.warn(String(error)));
        }
    }
}

function documentSelector(): DocumentFilter[] {
    const patterns = vscode.workspace.getConfiguration("orchestra").get<string[]>("pipelines") ?? [];
    return [
        ...patterns.map((pattern) => ({ scheme: "file", pattern })),
        { scheme: "untitled", language: "dot" },
        ...OTHER_FILES,
    ];
}

/** Returns the settings as the server reads them. */
function serverSettings(): object {
    const settings = vscode.workspace.getConfiguration("orchestra");
    return {
        allow: settings.get<string[]>("allow") ?? [],
        deny: settings.get<string[]>("deny") ?? [],
        // The command `orchestra.terminal` exists.
        terminal: true,
    };
}

async function reportMissing(): Promise<void> {
    const open = "Open Settings";
    const chosen = await vscode.window.showErrorMessage(
        `There is no program \`${configuredPath()}\`. Install it with \`cargo install --path orchestra/cli\`, or set \`orchestra.path\`.`,
        open,
    );
    if (chosen === open) {
        await vscode.commands.executeCommand("workbench.action.openSettings", "orchestra.path");
    }
}
