/** The item of the status bar: draws what the bridge says and what the client knows. */

import { MarkdownString, StatusBarAlignment, type StatusBarItem, ThemeColor, window } from 'vscode';

import type { State, Status } from './protocol';
import { wants } from './settings';

export const MENU = 'completiond.showMenu';

const ICON: Record<State, string> = {
  starting: '$(loading~spin)',
  loading: '$(loading~spin)',
  ready: '$(sparkle)',
  off: '$(circle-slash)',
  unreachable: '$(warning)',
};
const SOURCE = { typed: 'typed on', reuse: 'already predicted', model: 'the model' } as const;
const COMMANDS = ['completiond.showWhy', 'completiond.openSettings', 'completiond.showOutput'];
const LINKS = [
  '[Why is nothing shown?](command:completiond.showWhy)',
  '[Settings](command:completiond.openSettings)',
  '[Output](command:completiond.showOutput)',
].join(' · ');

export class StatusBar {
  private readonly item: StatusBarItem;
  private status: Status = { state: 'starting', message: 'The language server starts.' };

  constructor() {
    this.item = window.createStatusBarItem('completiond', StatusBarAlignment.Right, 100);
    this.item.name = 'completiond';
    this.item.command = MENU;
    this.draw();
    this.item.show();
  }

  /** Whether suggestions can come now and could not before. */
  take(status: Status): boolean {
    const before = this.status.state;
    this.status = status;
    this.draw();
    return status.state === 'ready' && before !== 'ready';
  }

  draw(): void {
    const shown = here(this.status);
    this.item.text = `${ICON[shown.state]} ${label(shown)}`;
    this.item.tooltip = tooltip(shown);
    this.item.accessibilityInformation = { label: `completiond: ${shown.message}` };
    const bad = shown.state === 'unreachable';
    this.item.backgroundColor = bad ? new ThemeColor('statusBarItem.warningBackground') : undefined;
  }

  dispose(): void {
    this.item.dispose();
  }
}

/** The bridge speaks for the window; the document of this moment may be left out by settings. */
function here(status: Status): Status {
  const document = window.activeTextEditor?.document;
  if (status.state !== 'ready' || !document || wants(document)) return status;
  return { ...status, state: 'off', message: `Suggestions are off for ${document.languageId} here.` };
}

function label(status: Status): string {
  if (status.state === 'loading' && status.progress !== undefined) {
    return `completiond ${Math.round(status.progress)} %`;
  }
  const took = status.state === 'ready' ? status.last?.latencyMs : undefined;
  return took === undefined ? 'completiond' : `${took < 10 ? took.toFixed(1) : Math.round(took)} ms`;
}

function tooltip(status: Status): MarkdownString {
  const text = new MarkdownString('', true);
  text.isTrusted = { enabledCommands: COMMANDS };
  text.appendMarkdown('**completiond**  \n').appendText(status.message);
  if (status.model) text.appendMarkdown('\n\nModel: ').appendText(status.model);
  const last = status.last;
  if (last?.latencyMs !== undefined) {
    const from = last.source ? `, from ${SOURCE[last.source]}` : '';
    text.appendMarkdown('\n\nLast answer: ').appendText(`${last.latencyMs.toFixed(1)} ms${from}`);
  }
  if (last?.reason) text.appendMarkdown('\n\nNothing is shown: ').appendText(last.reason);
  return text.appendMarkdown(`\n\n${LINKS}`);
}
