/** What the editor calls: puts the parts together. The bridge thinks; this draws and reports. */

import { type ExtensionContext, languages, type TextEditor, window, workspace } from 'vscode';

import { SELECTOR } from './client';
import { registerCommands } from './commands';
import { Ghost } from './ghost';
import { didFocus } from './protocol';
import { Session } from './session';
import { SECTION } from './settings';
import { StatusBar } from './status';

let running: Session | undefined;

export async function activate(context: ExtensionContext): Promise<void> {
  const output = window.createOutputChannel('completiond', { log: true });
  const status = new StatusBar();
  const ghost: Ghost = new Ghost(() => session.client);
  const session = new Session(output, status, ghost);
  running = session;
  context.subscriptions.push(
    output,
    status,
    ...registerCommands({ context, session, ghost, output }),
    workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration(`${SECTION}.command`)) void session.restart();
      else if (event.affectsConfiguration(SECTION)) void session.settingsChanged();
      status.draw();
    }),
    window.onDidChangeTextEditorSelection(({ textEditor, selections }) => {
      if (selections.length > 1) void ghost.severalCursors(textEditor);
    }),
    window.onDidChangeActiveTextEditor((editor) => {
      status.draw();
      void focused(session, editor);
    }),
  );
  await session.restart();
}

export async function deactivate(): Promise<void> {
  await running?.stop();
}

async function focused(session: Session, editor: TextEditor | undefined): Promise<void> {
  if (!session.client?.isRunning() || !editor || !languages.match(SELECTOR, editor.document)) return;
  const uri = session.client.code2ProtocolConverter.asUri(editor.document.uri);
  await session.client.sendNotification(didFocus, { textDocument: { uri } });
}
