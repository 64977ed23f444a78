// Starts `shardc lsp` for YAML; the server itself tells which files are its
// own, by their keys and by the project that reads them.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

async function start() {
  const command = vscode.workspace.getConfiguration("shardc").get("path");
  client = new LanguageClient(
    "shardc",
    "shardc",
    { command, args: ["lsp", "--stdio"] },
    {
      documentSelector: [
        { scheme: "file", language: "yaml" },
        { scheme: "untitled", language: "yaml" },
      ],
    },
  );
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    vscode.window.showErrorMessage(
      `shardc: cannot start \`${command}\`: ${error.message}. ` +
        "Install it, or set `shardc.path`.",
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running) await running.stop();
}

async function restart() {
  await stop();
  await start();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("shardc.restart", restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("shardc.path")) restart();
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
