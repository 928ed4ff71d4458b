/** One language server of this window: found, started, told of settings, ended. */

import { commands, type LogOutputChannel, window } from 'vscode';
import { type LanguageClient, State } from 'vscode-languageclient/node';

import { makeClient } from './client';
import type { Ghost } from './ghost';
import { askStatus, type Status, statusChanged } from './protocol';
import { findServer, NotFound } from './server';
import { commandSetting, SECTION } from './settings';
import type { StatusBar } from './status';

const END_MS = 2000;

export class Session {
  client: LanguageClient | undefined;
  /** Path of the server that runs, or ran. */
  server = '';
  private queue: Promise<void> = Promise.resolve();

  constructor(
    private readonly output: LogOutputChannel,
    private readonly status: StatusBar,
    private readonly ghost: Ghost,
  ) {}

  /** End what runs and start anew. Calls wait for each other. */
  restart(): Promise<void> {
    this.queue = this.queue.then(async () => {
      await this.end();
      await this.begin();
    });
    return this.queue;
  }

  stop(): Promise<void> {
    this.queue = this.queue.then(() => this.end());
    return this.queue;
  }

  /** The server asks for settings when it is told that they changed. */
  async settingsChanged(): Promise<void> {
    const { client } = this;
    if (client?.state !== State.Running) return;
    await client.sendNotification('workspace/didChangeConfiguration', { settings: null });
  }

  private async begin(): Promise<void> {
    try {
      this.server = findServer(commandSetting());
    } catch (error) {
      if (!(error instanceof NotFound)) throw error;
      this.fail(error.message);
      return;
    }
    this.output.info(`Starting ${this.server}`);
    const client = makeClient(this.server, this.output, this.ghost);
    this.client = client;
    client.onDidChangeState(({ newState }) => this.follow(client, newState));
    client.onNotification(statusChanged, (status) => this.take(status));
    try {
      await client.start();
    } catch (error) {
      this.fail(`${this.server} does not start (${textOf(error)}). The output says more.`);
    }
  }

  private async end(): Promise<void> {
    const { client } = this;
    this.client = undefined;
    if (!client || client.state === State.Stopped) return;
    try {
      await client.dispose(END_MS);
    } catch (error) {
      this.output.warn(`The language server did not end as asked: ${textOf(error)}`);
    }
  }

  private follow(client: LanguageClient, state: State): void {
    if (client !== this.client) return;
    if (state === State.Starting) this.say('starting', 'The language server starts.');
    if (state === State.Running) void this.fetchStatus(client);
    if (state === State.Stopped) this.say('off', 'The language server does not run.');
  }

  private async fetchStatus(client: LanguageClient): Promise<void> {
    try {
      this.take(await client.sendRequest(askStatus));
    } catch (error) {
      this.output.info(`The language server tells no status: ${textOf(error)}`);
      this.say('ready', 'The language server runs.');
    }
  }

  private take(status: Status): void {
    if (this.status.take(status)) void this.ghost.askAgain();
  }

  private say(state: Status['state'], message: string): void {
    this.status.take({ state, message });
  }

  private fail(message: string): void {
    this.say('off', message);
    this.output.error(message);
    void offerHelp(message);
  }
}

async function offerHelp(message: string): Promise<void> {
  const settings = 'Open Settings';
  const steps = 'First Steps';
  const chosen = await window.showErrorMessage(message, settings, steps);
  if (chosen === settings) {
    await commands.executeCommand('workbench.action.openSettings', `${SECTION}.command`);
  } else if (chosen === steps) {
    await commands.executeCommand('completiond.firstSteps');
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
