/**
 * The suggestion that was given last, and what became of it, as far as the public API tells:
 * given is taken for shown, a part is measured in the text, dismissed is our own key.
 */

import {
  commands,
  type InlineCompletionItem,
  type InlineCompletionList,
  type Position,
  Range,
  type TextDocument,
  type TextEditor,
  window,
} from 'vscode';
import type { LanguageClient } from 'vscode-languageclient/node';

import { didAcceptPart, didReject, didShow, type Item } from './protocol';

const HIDE = 'editor.action.inlineSuggest.hide';

type Offer = { item: Item; document: TextDocument; start: Position };
type Missed = { document: TextDocument; version: number; at: Position };
type Items = InlineCompletionItem[] | InlineCompletionList | null | undefined;

export class Ghost {
  private offer: Offer | undefined;
  private missed: Missed | undefined;
  private again = false;

  constructor(private readonly client: () => LanguageClient | undefined) {}

  /** The editor has got these items and nobody has typed since. */
  given(document: TextDocument, items: Items): void {
    const [first] = Array.isArray(items) ? items : (items?.items ?? []);
    if (!first?.range || typeof first.insertText !== 'string') {
      this.offer = undefined;
      const cursor = window.activeTextEditor?.selection.active;
      this.missed = cursor && { document, version: document.version, at: cursor };
      return;
    }
    const item: Item = { insertText: first.insertText, ...(first.command && { command: first.command }) };
    this.missed = undefined;
    this.offer = { item, document, start: first.range.start };
    void this.client()?.sendNotification(didShow, { item });
  }

  /** There is a daemon again: ask for what it could not be asked, if the person still waits there. */
  async askAgain(): Promise<void> {
    const { missed } = this;
    const editor = window.activeTextEditor;
    if (!missed || editor?.document !== missed.document) return;
    if (editor.document.version !== missed.version || !editor.selection.active.isEqual(missed.at)) return;
    this.missed = undefined;
    this.again = true;
    await commands.executeCommand('editor.action.inlineSuggest.trigger');
  }

  /** Whether the next request is that one, which the editor takes for one that a person makes. */
  isAgain(): boolean {
    const { again } = this;
    this.again = false;
    return again;
  }

  /** What is drawn was meant for one cursor, and would go to all. */
  async severalCursors(editor: TextEditor): Promise<void> {
    if (this.offer?.document !== editor.document) return;
    this.offer = undefined;
    await commands.executeCommand(HIDE);
  }

  /** Have the editor take a part of the suggestion, and say how much it took. */
  async takePart(command: string): Promise<void> {
    const offer = this.offer;
    await commands.executeCommand(command);
    const acceptedLength = offer ? takenOf(offer, window.activeTextEditor) : 0;
    if (!offer || !acceptedLength) return;
    void this.client()?.sendNotification(didAcceptPart, { item: offer.item, acceptedLength });
  }

  /** Hide the suggestion: the person does not want it. */
  async dismiss(): Promise<void> {
    const offer = this.offer;
    this.offer = undefined;
    await commands.executeCommand(HIDE);
    const item = offer?.document === window.activeTextEditor?.document ? offer?.item : undefined;
    if (item) void this.client()?.sendNotification(didReject, { item });
  }
}

/** How much of the offered text stands in front of the cursor now, in UTF-16 units. */
function takenOf(offer: Offer, editor: TextEditor | undefined): number {
  if (editor?.document !== offer.document) return 0;
  const cursor = editor.selection.active;
  if (cursor.isBefore(offer.start)) return 0;
  const taken = editor.document.getText(new Range(offer.start, cursor)).replaceAll('\r\n', '\n');
  return offer.item.insertText.startsWith(taken) ? taken.length : 0;
}
