"""The limits of the SQS API, with AWS's values, and the wider limits of internal queues."""

from __future__ import annotations

QUEUE_NAME_CHARS_MAX = 80
FIFO_SUFFIX = ".fifo"

MESSAGE_BYTES_MIN = 1_024
MESSAGE_BYTES_MAX = 1_048_576
"""The bounds of a queue's MaximumMessageSize."""
RETENTION_S_MIN = 60
RETENTION_S_MAX = 1_209_600
KMS_REUSE_S_MIN = 60
KMS_REUSE_S_MAX = 86_400

BATCH_ENTRIES_MAX = 10
BATCH_BYTES_MAX = MESSAGE_BYTES_MAX
"""All bodies and attributes of a batch together, whatever the queue's MaximumMessageSize."""
RECEIVE_MESSAGES_MAX = 10
RECEIVE_WAIT_S_MAX = 20
DELAY_S_MAX = 900
VISIBILITY_S_MAX = 43_200
VISIBILITY_TOTAL_MS_MAX = 43_200_000
"""A message can be hidden for this long from its receive, however often its visibility timeout is changed."""

MESSAGE_ATTRIBUTES_MAX = 10
ATTRIBUTE_NAME_CHARS_MAX = 256
NUMBER_DIGITS_MAX = 38
NUMBER_EXPONENT_MIN = -128
NUMBER_EXPONENT_MAX = 125

LIST_RESULTS_MAX = 1_000
TAGS_MAX = 50
TAG_KEY_CHARS_MAX = 128
TAG_VALUE_CHARS_MAX = 256

POLICY_BYTES_MAX = 8_192
POLICY_STATEMENTS_MAX = 20
POLICY_PRINCIPALS_MAX = 50
POLICY_CONDITIONS_MAX = 10
PERMISSION_ACTIONS_MAX = 7
REDRIVE_RECEIVES_MAX = 1_000
REDRIVE_SOURCES_MAX = 10

PURGE_WAIT_S = 60
"""The default interval in which a queue can be purged only once."""
RECREATE_WAIT_S = 60
"""The default time for which a deleted queue's name cannot be used again."""

MOVE_RATE_MAX = 500
"""The highest MaxNumberOfMessagesPerSecond of a move task."""
MOVE_TASKS_ACTIVE_MAX = 100
"""Per account."""
MOVE_TASKS_LISTED_MAX = 10
MOVE_TASK_MS_MAX = 36 * 3_600_000

INTERNAL_DELAY_S_MAX = 3_600
INTERNAL_RETENTION_S = 30 * 86_400
INTERNAL_MESSAGE_BYTES_MAX = 2 * 1_048_576
