// Log files of code-server, in the place of a module that would have to be compiled.
'use strict';
const { appendFileSync, mkdirSync } = require('node:fs');
const { dirname } = require('node:path');

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'critical', 'off'];

class Logger {
  constructor(_type, _name, file) {
    this.file = file;
    this.level = 2;
    this.raw = false;
  }
  say(level, message) {
    if (level < this.level) return;
    const time = new Date().toISOString().replace('T', ' ').replace('Z', '');
    appendFileSync(this.file, this.raw ? message : `${time} [${LEVELS[level]}] ${message}\n`);
  }
  getLevel() {
    return this.level;
  }
  setLevel(level) {
    this.level = level;
  }
  clearFormatters() {
    this.raw = true;
  }
  setPattern() {}
  flush() {}
  drop() {}
}
LEVELS.slice(0, -1).forEach((name, level) => {
  Logger.prototype[name] = function (message) {
    this.say(level, message);
  };
});

async function make(name, file) {
  mkdirSync(dirname(file), { recursive: true });
  return new Logger('', name, file);
}

// One by one: so they are seen by an import.
exports.version = 0;
exports.setLevel = () => {};
exports.setFlushOn = () => {};
exports.Logger = Logger;
exports.createRotatingLogger = make;
exports.createAsyncRotatingLogger = make;
