// Starts `shardc lsp` for YAML; the server itself tells which files are its
// own, by their keys and by the project that reads them.
// @ts-check
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

/** @type {import("vscode-languageclient/node").LanguageClient | undefined} */
let client;
// One step after another: a client that is still starting cannot be stopped.
let steps = Promise.resolve();

/** @param {() => Promise<void>} step */
function next(step) {
  steps = steps.then(step);
  return steps;
}

async function start() {
  const command = vscode.workspace.getConfiguration("shardc").get("path", "shardc");
  const made = new LanguageClient(
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
    await made.start();
    client = made;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    // Not waited for: it is there until somebody reads it.
    vscode.window.showErrorMessage(
      `shardc: cannot start \`${command}\`: ${why}. ` +
        "Install it, or set `shardc.path`.",
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  try {
    await running?.stop();
  } catch {
    // It had ended by itself.
  }
}

function restart() {
  return next(async () => {
    await stop();
    await start();
  });
}

/** @param {import("vscode").ExtensionContext} context */
async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("shardc.restart", restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("shardc.path")) restart();
    }),
  );
  await next(start);
}

module.exports = { activate, deactivate: () => next(stop) };
