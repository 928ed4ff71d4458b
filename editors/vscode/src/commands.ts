/** The commands of the palette and of the status bar's menu. */

import {
  commands,
  type Disposable,
  env,
  type ExtensionContext,
  type LogOutputChannel,
  type QuickPickItem,
  Uri,
  window,
  workspace,
} from 'vscode';

import type { Ghost } from './ghost';
import { serverCommand } from './protocol';
import type { Session } from './session';
import * as settings from './settings';
import { MENU } from './status';

type Window = { context: ExtensionContext; session: Session; ghost: Ghost; output: LogOutputChannel };
type Answer = { text?: string; url?: string; message?: string } | null;

const SUGGEST = 'editor.action.inlineSuggest';

export function registerCommands(window_: Window): Disposable[] {
  const { context, session, ghost, output } = window_;
  const table: Record<string, () => unknown> = {
    'completiond.turnOn': turnOn,
    'completiond.turnOffHere': turnOffHere,
    'completiond.restartServer': () => session.restart(),
    'completiond.fetchModel': () => fetchModel(session),
    'completiond.openDashboard': () => openDashboard(session),
    'completiond.showWhy': () => showWhy(session, output),
    'completiond.showOutput': () => output.show(),
    'completiond.openSettings': () => openSettings(context),
    'completiond.firstSteps': () => firstSteps(context),
    'completiond.trigger': () => commands.executeCommand(`${SUGGEST}.trigger`),
    'completiond.acceptWord': () => ghost.takePart(`${SUGGEST}.acceptNextWord`),
    'completiond.acceptLine': () => ghost.takePart(`${SUGGEST}.acceptNextLine`),
    'completiond.dismiss': () => ghost.dismiss(),
    [MENU]: showMenu,
  };
  return Object.entries(table).map(([name, run]) => commands.registerCommand(name, run));
}

async function turnOn(): Promise<void> {
  await settings.turnOn(window.activeTextEditor?.document.languageId);
}

async function turnOffHere(): Promise<void> {
  const language = window.activeTextEditor?.document.languageId;
  const choices: (QuickPickItem & { run: () => Promise<void> })[] = [];
  if (language) {
    choices.push({ label: `In ${language} files`, run: () => settings.turnOffLanguage(language) });
  }
  if (workspace.workspaceFolders) {
    choices.push({ label: 'In this workspace', run: settings.turnOffInWorkspace });
  }
  choices.push({ label: 'Everywhere', run: settings.turnOffEverywhere });
  const chosen = await window.showQuickPick(choices, { title: 'Where are suggestions unwanted?' });
  await chosen?.run();
}

/** The server fetches it and shows how far it is; then it looks for a daemon again. */
async function fetchModel(session: Session): Promise<void> {
  const model = workspace.getConfiguration(settings.SECTION).get<unknown>('model');
  const name = typeof model === 'string' && model ? [model] : [];
  const answer = await ask(session, serverCommand.pull, ...name);
  if (answer?.text) await window.showInformationMessage(answer.text);
}

async function openDashboard(session: Session): Promise<void> {
  const answer = await ask(session, serverCommand.dashboard);
  if (answer?.url) await env.openExternal(Uri.parse(answer.url));
  else if (answer) await window.showInformationMessage(answer.message ?? 'There is no dashboard yet.');
}

async function showWhy(session: Session, output: LogOutputChannel): Promise<void> {
  const answer = await ask(session, serverCommand.why, 'last');
  if (!answer) return;
  output.info(answer.text ?? answer.message ?? 'Nothing was asked yet.');
  output.show(true);
}

/** What the server answers to one of its commands; null, and a word to the person, if it cannot. */
async function ask(session: Session, command: string, ...words: unknown[]): Promise<Answer> {
  const request = { command, arguments: words };
  try {
    if (session.client) return await session.client.sendRequest('workspace/executeCommand', request);
    void window.showWarningMessage('The language server of completiond does not run.');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    void window.showWarningMessage(`completiond cannot tell: ${reason}`);
  }
  return null;
}

async function openSettings(context: ExtensionContext): Promise<void> {
  await commands.executeCommand('workbench.action.openSettings', `@ext:${context.extension.id}`);
}

async function firstSteps(context: ExtensionContext): Promise<void> {
  const walkthrough = `${context.extension.id}#firstSteps`;
  await commands.executeCommand('workbench.action.openWalkthrough', walkthrough, false);
}

async function showMenu(): Promise<void> {
  const document = window.activeTextEditor?.document;
  const on = !document || settings.wants(document);
  const entries: (QuickPickItem & { command: string })[] = [
    on
      ? { label: '$(circle-slash) Turn off here …', command: 'completiond.turnOffHere' }
      : { label: '$(check) Turn on', command: 'completiond.turnOn' },
    { label: '$(question) Why is nothing shown?', command: 'completiond.showWhy' },
    { label: '$(dashboard) Open the dashboard', command: 'completiond.openDashboard' },
    { label: '$(cloud-download) Pull the model', command: 'completiond.fetchModel' },
    { label: '$(debug-restart) Restart', command: 'completiond.restartServer' },
    { label: '$(gear) Settings', command: 'completiond.openSettings' },
    { label: '$(output) Output', command: 'completiond.showOutput' },
  ];
  const chosen = await window.showQuickPick(entries, { title: 'completiond' });
  if (chosen) await commands.executeCommand(chosen.command);
}
