"""Tables and statements of the log.

A *slot* holds commands, written once by a conditional write. Slots are numbered from 0; a partition holds a *segment*
of them. A *mark* names a snapshot of the state before a slot, stored in chunks. What a newer mark makes obsolete is
removed after a while. A segment is sealed before it is removed, so that no process can write into it.
"""

from __future__ import annotations

from cns_common.cassandra.session import Statement

SEGMENT_SLOTS = 500
SEALED_SLOT = 2**31 - 1
"""The last slot of a segment that is or will be removed: its reader must start from a snapshot."""
COMMANDS_MAX = 200
"""Per slot."""
CHUNK_BYTES = 256 * 1024
SNAPSHOT_EVERY_BYTES = 512 * 1024
"""Bytes of commands, beyond the size of the last snapshot, after which a new one is written."""
SNAPSHOT_EVERY_SLOTS = 4 * SEGMENT_SLOTS
"""Or this many slots, if their commands have an eighth of the size of the last snapshot."""
DROPPED_SLOT = 2**31 - 1
"""The mark of a dropped queue."""
OBSOLETE_KEEP_MS = 300_000
"""The time for which obsolete data is kept for its readers."""

TABLES = (
    "CREATE TABLE IF NOT EXISTS cqs_fifo_log (queue text, segment int, slot int, sealed boolean static, commands blob,"
    " PRIMARY KEY ((queue, segment), slot)) WITH gc_grace_seconds = 14400",
    "CREATE TABLE IF NOT EXISTS cqs_fifo_marks (queue text, slot int, image text, chunks int, made_ms bigint,"
    " PRIMARY KEY (queue, slot, image)) WITH CLUSTERING ORDER BY (slot DESC, image ASC) AND gc_grace_seconds = 14400",
    "CREATE TABLE IF NOT EXISTS cqs_fifo_images (image text, chunk int, content blob, PRIMARY KEY ((image, chunk)))"
    " WITH gc_grace_seconds = 14400",
)

SLOTS = Statement(
    f"SELECT slot, commands FROM cqs_fifo_log WHERE queue = ? AND segment = ? AND slot >= ? LIMIT {SEGMENT_SLOTS + 1}"
)
PROPOSE = Statement(
    "UPDATE cqs_fifo_log SET commands = ? WHERE queue = ? AND segment = ? AND slot = ?"
    " IF commands = null AND sealed = null"
)
"""May be repeated: commands differ from all others, so its answer shows whether an earlier try was applied."""
SEAL = Statement("UPDATE cqs_fifo_log SET sealed = true WHERE queue = ? AND segment = ? IF sealed = null")
MARK_SEALED = Statement(f"INSERT INTO cqs_fifo_log (queue, segment, slot, commands) VALUES (?, ?, {SEALED_SLOT}, 0x)")
CLEAR_SEGMENT = Statement(
    f"DELETE FROM cqs_fifo_log WHERE queue = ? AND segment = ? AND slot >= 0 AND slot < {SEALED_SLOT}"
)

OLDEST_MARKS = Statement(
    "SELECT slot, image, chunks, made_ms FROM cqs_fifo_marks WHERE queue = ? ORDER BY slot ASC, image DESC LIMIT 20"
)
NEWEST_MARK = Statement("SELECT slot, image, chunks, made_ms FROM cqs_fifo_marks WHERE queue = ? LIMIT 1")
ADD_MARK = Statement("INSERT INTO cqs_fifo_marks (queue, slot, image, chunks, made_ms) VALUES (?, ?, ?, ?, ?)")
REMOVE_MARK = Statement("DELETE FROM cqs_fifo_marks WHERE queue = ? AND slot = ? AND image = ?")
ADD_CHUNK = Statement("INSERT INTO cqs_fifo_images (image, chunk, content) VALUES (?, ?, ?)")
CHUNK = Statement("SELECT content FROM cqs_fifo_images WHERE image = ? AND chunk = ?")
REMOVE_CHUNK = Statement("DELETE FROM cqs_fifo_images WHERE image = ? AND chunk = ?")
