"""A second extension for the tests: files of the scheme memfs, as those for far machines have."""

import json
import zipfile
from pathlib import Path

MANIFEST = """<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
 <Metadata><Identity Language="en-US" Id="other-files" Version="0.0.1" Publisher="tests"/>
 <DisplayName>other files</DisplayName><Description>for tests</Description>
 <Properties><Property Id="Microsoft.VisualStudio.Code.Engine" Value="^1.91.0"/></Properties>
 </Metadata>
 <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
 <Dependencies/><Assets><Asset Type="Microsoft.VisualStudio.Code.Manifest"
 Path="extension/package.json" Addressable="true"/></Assets>
</PackageManifest>"""
TYPES = """<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension=".json" ContentType="application/json"/>
<Default Extension=".js" ContentType="application/javascript"/>
<Default Extension=".vsixmanifest" ContentType="text/xml"/></Types>"""
PACKAGE = {
    "name": "other-files",
    "publisher": "tests",
    "version": "0.0.1",
    "engines": {"vscode": "^1.91.0"},
    "main": "./extension.js",
    "activationEvents": ["onStartupFinished", "onFileSystem:memfs"],
    "contributes": {"commands": [{"command": "memfs.open", "title": "Open a Remote File"}]},
}
SCRIPT = """
const vscode = require('vscode');
exports.activate = (context) => {
  let text = Buffer.from(TEXT);
  const changed = new vscode.EventEmitter();
  const files = {
    onDidChangeFile: changed.event,
    watch: () => ({ dispose() {} }),
    stat: () => ({ type: vscode.FileType.File, ctime: 0, mtime: Date.now(), size: text.length }),
    readDirectory: () => [], createDirectory() {}, delete() {}, rename() {},
    readFile: () => text,
    writeFile: (_, content) => { text = Buffer.from(content); },
  };
  const uri = vscode.Uri.parse('memfs:/far/remote.py');
  context.subscriptions.push(
    vscode.workspace.registerFileSystemProvider('memfs', files),
    vscode.commands.registerCommand('memfs.open', () => vscode.window.showTextDocument(uri)),
  );
};
"""


def pack(path: Path, text: str) -> Path:
    """A .vsix whose one file has this text."""
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("extension.vsixmanifest", MANIFEST)
        out.writestr("[Content_Types].xml", TYPES)
        out.writestr("extension/package.json", json.dumps(PACKAGE))
        out.writestr("extension/extension.js", SCRIPT.replace("TEXT", json.dumps(text)))
    return path
