// Starts the language server, and registers the commands.

import * as vscode from "vscode";
import { Client } from "./client";
import { Previews } from "./preview";
import { runInTerminal } from "./terminal";

let client: Client | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
    const started = new Client();
    client = started;
    const previews = new Previews(context.extensionUri, started);
    context.subscriptions.push(
        started,
        previews,
        vscode.commands.registerCommand("orchestra.showPreview", () => previews.show()),
        vscode.commands.registerCommand("orchestra.restartServer", () => started.restart()),
        vscode.commands.registerCommand("orchestra.showOutput", () => started.output.show()),
        // The code lenses of the language server name this command.
        vscode.commands.registerCommand("orchestra.terminal", runInTerminal),
    );
    await started.start();
}

export async function deactivate(): Promise<void> {
    await client?.stop();
}
