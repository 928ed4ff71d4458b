/** Where `completiond-lsp` is: by the setting, else on the PATH. Knows files; starts nothing. */

import { accessSync, constants, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, isAbsolute, join, sep } from 'node:path';

export const SERVER = 'completiond-lsp';

/** Where people link it to. An editor that a desktop or a login shell starts may not look there. */
const OWN = join(homedir(), '.local', 'bin');

/** A sentence for the person says what to do. */
export class NotFound extends Error {}

/** The path of the server. Throws NotFound. */
export function findServer(setting: string, path = process.env.PATH ?? ''): string {
  if (!setting) {
    const found = onPath(SERVER, path + delimiter + OWN);
    if (found) return found;
    throw new NotFound(
      `${SERVER} is not on the PATH: install completiond, or set completiond.command to its place.`,
    );
  }
  const named = setting.replace(/^~(?=[/\\])/, homedir());
  const found = isAbsolute(named) ? (isProgram(named) ? named : '') : byName(named, path);
  if (found) return found;
  throw new NotFound(
    `The setting completiond.command names no program: ${setting}. Correct it, or leave it empty.`,
  );
}

function byName(name: string, path: string): string {
  return name.includes('/') || name.includes(sep) ? '' : onPath(name, path);
}

function onPath(name: string, path: string): string {
  const places = path.split(delimiter).filter(Boolean);
  return places.map((folder) => join(folder, name)).find(isProgram) ?? '';
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
