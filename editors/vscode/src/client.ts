/** The language client: which documents, what is left out of LSP, and when a dead server is back. */

import { env, type LogOutputChannel, window } from 'vscode';
import {
  CloseAction,
  type CloseHandlerResult,
  ErrorAction,
  type ErrorHandler,
  type ErrorHandlerResult,
  InlineCompletionRequest,
  InlineCompletionTriggerKind,
  LanguageClient,
  type LanguageClientOptions,
  type Middleware,
} from 'vscode-languageclient/node';

import type { Ghost } from './ghost';
import { forBridge } from './settings';

/** Where people write. Output panels, diffs and settings pages are no places for suggestions. */
const SCHEMES = [
  'file',
  'untitled',
  'vscode-notebook-cell',
  'vscode-remote',
  'vscode-vfs',
  'vsls',
  'ssh',
  'sftp',
  'ftp',
  'memfs',
] as const;
export const SELECTOR = SCHEMES.map((scheme) => ({ scheme }));

const RESTARTS = 4;
const WITHIN_MS = 3 * 60_000;

export function makeClient(command: string, output: LogOutputChannel, ghost: Ghost): LanguageClient {
  const options: LanguageClientOptions = {
    documentSelector: SELECTOR,
    outputChannel: output,
    initializationOptions: { editorInfo: { name: env.appName } },
    errorHandler: new Restarts(),
    middleware: middleware(ghost),
  };
  return new LanguageClient('completiond', 'completiond', { command }, options);
}

function middleware(ghost: Ghost): Middleware {
  return {
    async provideInlineCompletionItems(document, position, context, token, next) {
      const version = document.version;
      const items = await next(document, position, context, token);
      if (!token.isCancellationRequested && document.version === version) ghost.given(document, items);
      return items;
    },
    sendRequest(type, param, token, next) {
      const method = typeof type === 'string' ? type : type.method;
      if (method !== InlineCompletionRequest.method) return next(type, param, token);
      return next(type, { ...param, ...beside(ghost) } as typeof param, token);
    },
    // "Complete here" is for editors without ghost text; a light bulb at every cursor is no help.
    provideCodeActions: () => [],
    workspace: {
      async configuration(params, token, next) {
        const found = await next(params, token);
        return Array.isArray(found) ? found.map(forBridge) : found;
      },
    },
  };
}

/** What a request says beside the place. */
function beside(ghost: Ghost): object {
  // An answer is meant for one place, and what is taken goes to every cursor.
  const cursors = window.activeTextEditor?.selections.length ?? 1;
  const context = { triggerKind: InlineCompletionTriggerKind.Automatic };
  return { ...(cursors > 1 && { cursors }), ...(ghost.isAgain() && { context }) };
}

/** A server that dies comes back without a word, unless it dies again and again. */
class Restarts implements ErrorHandler {
  private deaths: number[] = [];

  error(): ErrorHandlerResult {
    return { action: ErrorAction.Continue, handled: true };
  }

  closed(): CloseHandlerResult {
    const now = Date.now();
    this.deaths = [...this.deaths.filter((then) => now - then < WITHIN_MS), now];
    if (this.deaths.length <= RESTARTS) {
      const message = 'The language server ended; it is started again.';
      return { action: CloseAction.Restart, message, handled: true };
    }
    const message =
      `The language server of completiond ended ${this.deaths.length} times in three minutes and ` +
      'stays off: its output says why, "completiond: Restart" starts it again.';
    return { action: CloseAction.DoNotRestart, message };
  }
}
