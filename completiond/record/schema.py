"""The tables of the record, and how an older store becomes one of today. Knows SQL only.

docs/record.md says what each column means. MIGRATIONS[n] makes version n + 1 of version n; what is
released is never changed, a change is one more at the end.
"""

import sqlite3

from completiond.record.rows import GROUP, NUMBERS, WORDS

_KEYS = """
CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE);

CREATE TABLE groups (
    id INTEGER PRIMARY KEY,
    language INTEGER NOT NULL, editor INTEGER NOT NULL, model INTEGER NOT NULL,
    UNIQUE (language, editor, model)
);

CREATE TABLE daemons (
    daemon INTEGER PRIMARY KEY,
    started_ms INTEGER NOT NULL, pid INTEGER NOT NULL, version TEXT NOT NULL,
    model TEXT NOT NULL, facts TEXT NOT NULL
);

CREATE TABLE keys (
    key INTEGER PRIMARY KEY,
    grp INTEGER NOT NULL,
    path INTEGER NOT NULL, trigger INTEGER NOT NULL, kind INTEGER NOT NULL,
    reason INTEGER NOT NULL, why INTEGER NOT NULL, outcome INTEGER NOT NULL,
    at_ms INTEGER NOT NULL, daemon INTEGER NOT NULL,
    request INTEGER NOT NULL, answer INTEGER, position INTEGER NOT NULL,
    candidates INTEGER NOT NULL, shown INTEGER NOT NULL,
    before_us INTEGER, there_us INTEGER, lookup_us INTEGER, prompt_us INTEGER, queue_us INTEGER,
    prefill_us INTEGER, decode_us INTEGER, door_us INTEGER, finish_us INTEGER, back_us INTEGER,
    after_us INTEGER, total_us INTEGER, text_us INTEGER, drawn_us INTEGER, clock_us INTEGER,
    prompt INTEGER NOT NULL, reused INTEGER NOT NULL, prefilled INTEGER NOT NULL,
    generated INTEGER NOT NULL, passes INTEGER NOT NULL,
    drafted INTEGER NOT NULL, held INTEGER NOT NULL,
    after_cancel INTEGER NOT NULL, free_us INTEGER,
    taken INTEGER, kept_30 INTEGER, kept_120 INTEGER, kept_300 INTEGER, kept_600 INTEGER,
    details TEXT
);
CREATE INDEX keys_at ON keys (at_ms);
CREATE INDEX keys_path ON keys (path, at_ms);
CREATE INDEX keys_request ON keys (request) WHERE request > 0;

CREATE TABLE drafts (
    key INTEGER NOT NULL, source INTEGER NOT NULL,
    drafted INTEGER NOT NULL, held INTEGER NOT NULL,
    PRIMARY KEY (key, source)
) WITHOUT ROWID;

CREATE TABLE strips (key INTEGER PRIMARY KEY, passes TEXT NOT NULL);

CREATE TABLE said (
    key INTEGER PRIMARY KEY, document TEXT NOT NULL, place INTEGER NOT NULL,
    before BLOB NOT NULL, after BLOB NOT NULL, answers BLOB NOT NULL
);

CREATE TABLE spread (
    hours INTEGER NOT NULL, stage INTEGER NOT NULL, slot INTEGER NOT NULL,
    bucket INTEGER NOT NULL, grp INTEGER NOT NULL, n INTEGER NOT NULL,
    PRIMARY KEY (hours, stage, slot, bucket, grp)
) WITHOUT ROWID;

CREATE TABLE sums (
    hours INTEGER NOT NULL, slot INTEGER NOT NULL, what INTEGER NOT NULL, grp INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (hours, slot, what, grp)
) WITHOUT ROWID;
"""

_WROTE = """
ALTER TABLE keys ADD COLUMN wrote INTEGER NOT NULL DEFAULT 0;
UPDATE keys SET wrote = ifnull(
    (SELECT json_array_length(s.passes) FROM strips s WHERE s.key = keys.key),
    min(passes, generated)
) WHERE passes > 0;
INSERT OR IGNORE INTO words (word) VALUES ('wrote'), ('warm');
INSERT INTO sums
    SELECT hours, at_ms / 3600000 / hours, (SELECT id FROM words WHERE word = 'wrote'), grp,
        SUM(wrote)
    FROM keys, (SELECT 1 AS hours UNION SELECT 24 UNION SELECT 168)
    WHERE wrote > 0 AND kind != (SELECT id FROM words WHERE word = 'warm')
    GROUP BY 1, 2, 4;

CREATE TABLE spelled (key INTEGER PRIMARY KEY, passes BLOB NOT NULL);
"""
"""Passes that wrote something; the tokens of a strip as text."""

MIGRATIONS = (_KEYS, _WROTE)
VERSION = len(MIGRATIONS)

KEY_COLUMNS = ("grp", *WORDS, *NUMBERS, "details")
SELECT_KEY = (
    "SELECT k.key, "
    + ", ".join(f"{name}.word" for name in (*GROUP, *WORDS))
    + ", "
    + ", ".join(f"k.{name}" for name in NUMBERS)
    + ", k.details FROM keys k JOIN groups g ON g.id = k.grp "
    + " ".join(f"JOIN words {name} ON {name}.id = g.{name}" for name in GROUP)
    + " "
    + " ".join(f"JOIN words {name} ON {name}.id = k.{name}" for name in WORDS)
)
"""Keys with their words; a WHERE and the like may follow."""


def version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def migrate(db: sqlite3.Connection) -> None:
    """Bring a store to today's version, each step whole or not at all."""
    for number, script in enumerate(MIGRATIONS[version(db) :], version(db) + 1):
        db.executescript(f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {number}; COMMIT;")
