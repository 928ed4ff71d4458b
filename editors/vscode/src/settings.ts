/** The section `completiond` of the settings. What they mean is the bridge's business. */

import { ConfigurationTarget, type TextDocument, workspace } from 'vscode';

export const SECTION = 'completiond';

/** Settings of this client; all others are the bridge's. */
const OURS = new Set(['command']);

/** Where completiond.command points: empty if nobody has said, or said something else than a text. */
export function commandSetting(): string {
  const value = workspace.getConfiguration(SECTION).get<unknown>('command');
  return typeof value === 'string' ? value.trim() : '';
}

/** What the bridge is told of a section: without what is for this client. */
export function forBridge(section: unknown): unknown {
  if (typeof section !== 'object' || section === null || Array.isArray(section)) return section;
  return Object.fromEntries(Object.entries(section).filter(([name]) => !OURS.has(name)));
}

/** Whether suggestions are on for this document, as far as settings say. */
export function wants(document: TextDocument): boolean {
  const settings = workspace.getConfiguration(SECTION);
  return settings.get<unknown>('enabled') !== false && !disabledLanguages().includes(document.languageId);
}

/** On again, for this language too. */
export async function turnOn(language: string | undefined): Promise<void> {
  await set('enabled', true);
  const left = disabledLanguages().filter((name) => name !== language);
  if (left.length !== disabledLanguages().length) await set('disabledLanguages', left);
}

export async function turnOffEverywhere(): Promise<void> {
  await set('enabled', false, ConfigurationTarget.Global);
}

export async function turnOffInWorkspace(): Promise<void> {
  await set('enabled', false, ConfigurationTarget.Workspace);
}

export async function turnOffLanguage(language: string): Promise<void> {
  await set('disabledLanguages', [...new Set([...disabledLanguages(), language])]);
}

function disabledLanguages(): string[] {
  const found = workspace.getConfiguration(SECTION).get<unknown>('disabledLanguages');
  return Array.isArray(found) ? found.filter((name) => typeof name === 'string') : [];
}

/** Change a setting where it is set, or for the person; `target` says otherwise. */
async function set(name: string, value: unknown, target?: ConfigurationTarget): Promise<void> {
  const settings = workspace.getConfiguration(SECTION);
  const inWorkspace = settings.inspect(name)?.workspaceValue !== undefined;
  const where = inWorkspace ? ConfigurationTarget.Workspace : ConfigurationTarget.Global;
  await settings.update(name, value, target ?? where);
}
