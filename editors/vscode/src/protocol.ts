/** What the language server and this client say to each other beside LSP. */

import { NotificationType, RequestType0 } from 'vscode-languageclient/node';

export type State = 'starting' | 'loading' | 'ready' | 'off' | 'unreachable';

/** What became of the newest request: why nothing is shown, or how long it took and whence it came. */
export interface LastAnswer {
  id: number;
  reason?: string;
  latencyMs?: number;
  source?: 'typed' | 'reuse' | 'model';
}

export interface Status {
  state: State;
  message: string;
  model?: string;
  progress?: number;
  last?: LastAnswer;
  dashboard?: string;
}

/** An inline completion item as it was given, in LSP's words. */
export interface Item {
  insertText: string;
  command?: { title: string; command: string; arguments?: unknown[] };
}

export const statusChanged = new NotificationType<Status>('completiond/status');
export const askStatus = new RequestType0<Status, void>('completiond/status');
export const didShow = new NotificationType<{ item: Item }>('textDocument/didShowCompletion');
export const didAcceptPart = new NotificationType<{ item: Item; acceptedLength: number }>(
  'textDocument/didPartiallyAcceptCompletion',
);
export const didReject = new NotificationType<{ item: Item }>('completiond/didReject');
export const didFocus = new NotificationType<{ textDocument?: { uri: string } }>(
  'textDocument/didFocus',
);

/** Commands of the server; those of the palette have other names, as the client registers these. */
export const serverCommand = {
  why: 'completiond.why',
  dashboard: 'completiond.dashboard',
  pull: 'completiond.pullModel',
} as const;
