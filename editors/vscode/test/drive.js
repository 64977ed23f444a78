// Runs the extension without VS Code: `vscode` is the part of its interface that
// the extension uses, and the client starts the program and reads its first
// answer. The events are printed as JSON. SHARDC_BIN names the program.
"use strict";

const { spawn } = require("child_process");
const Module = require("module");

const told = { events: [], errors: [], configured: [], subscriptions: 0 };
const commands = {};
const settings = { path: process.env.SHARDC_BIN };
let configurationChanged;

class LanguageClient {
  constructor(id, name, server, options) {
    told.server = [id, name, server.args];
    told.languages = options.documentSelector;
    this.server = server;
    this.state = "stopped";
  }

  start() {
    this.state = "starting";
    told.events.push("starting");
    const body = '{"id":1,"method":"initialize","params":{"capabilities":{}}}';
    return new Promise((resolve, reject) => {
      this.process = spawn(this.server.command, this.server.args);
      this.process.on("error", (error) => {
        this.state = "failed";
        reject(error);
      });
      this.process.stdout.once("data", (data) => {
        this.state = "running";
        told.events.push("running");
        told.answer = String(data).includes('"serverInfo"');
        resolve();
      });
      this.process.stdin.on("error", () => {});
      this.process.stdin.write(`Content-Length: ${body.length}\r\n\r\n${body}`);
    });
  }

  // As vscode-languageclient: only of one that runs.
  async stop() {
    if (this.state !== "running") throw new Error(`cannot stop: ${this.state}`);
    this.state = "stopped";
    this.process.stdin.end();
    await new Promise((resolve) => this.process.on("close", resolve));
    told.events.push("stopped");
    if (told.dies) throw new Error("it was gone");
  }
}

const known = {
  vscode: {
    workspace: {
      getConfiguration: (section) => ({
        get: (name, otherwise) => {
          told.configured.push(`${section}.${name}`);
          return settings[name] ?? otherwise;
        },
      }),
      onDidChangeConfiguration: (call) => {
        configurationChanged = call;
        return { dispose() {} };
      },
    },
    commands: {
      registerCommand: (name, call) => {
        commands[name] = call;
        return { dispose() {} };
      },
    },
    window: { showErrorMessage: (text) => told.errors.push(text) },
  },
  "vscode-languageclient/node": { LanguageClient },
};
const load = Module._load;
Module._load = (name, ...rest) => known[name] ?? load(name, ...rest);

async function main() {
  const extension = require("../extension.js");
  const context = { subscriptions: [] };
  await extension.activate(context);
  told.subscriptions = context.subscriptions.length;
  told.commands = Object.keys(commands);
  // Twice at once, as a person presses a key twice.
  await Promise.all([commands["shardc.restart"](), commands["shardc.restart"]()]);
  configurationChanged({ affectsConfiguration: () => false });
  settings.path = "/nowhere/shardc";
  told.dies = true;
  await commands["shardc.restart"]();
  settings.path = process.env.SHARDC_BIN;
  told.dies = false;
  configurationChanged({ affectsConfiguration: (name) => name === "shardc.path" });
  await extension.deactivate();
  console.log(JSON.stringify(told));
}

main();
