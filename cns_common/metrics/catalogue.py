"""Every metric of every process. A test compares it with the table of docs/operations/monitoring.md, for readers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from cns_common.metrics.model import Kind, Metric

_ALL: list[Metric] = []


def _metric(name: str, kind: Kind, text: str, *labels: str) -> Metric:
    metric = Metric(name, kind, text, labels)
    _ALL.append(metric)
    return metric


BUILD_INFO = _metric("cns_build_info", "gauge", "Always 1. The label `version` is the version of CNS.", "version")

# -- API ---------------------------------------------------------------------------------------------------------------

API_CALLS = _metric(
    "cns_api_calls_total", "counter", "Calls to the SQS, SNS and STS APIs, refused ones included.", "operation"
)
API_CALL_FAILURES = _metric(
    "cns_api_call_failures_total",
    "counter",
    "API calls answered with an error, by AWS error code. A series appears with its first failure.",
    "operation",
    "code",
)
API_CALL_SECONDS = _metric(
    "cns_api_call_seconds",
    "histogram",
    "Response times of calls that succeeded, receives with their wait. REST calls are under `rest` as well.",
    "service",
    "operation",
)
LONG_POLLS_WAITING = _metric(
    "cns_long_polls_waiting",
    "gauge",
    "Receives that wait for a message now: `client` are API callers, `worker` are the workers' own.",
    "caller",
)

# -- deliveries --------------------------------------------------------------------------------------------------------

DELIVERIES = _metric(
    "cns_deliveries_total", "counter", "Notifications and confirmations that endpoints accepted.", "protocol"
)
ATTEMPTS_FAILED = _metric(
    "cns_delivery_attempts_failed_total",
    "counter",
    "Delivery attempts that failed, retried or not. A series appears with its first failure.",
    "protocol",
    "cause",
)
RETRIES_SCHEDULED = _metric(
    "cns_retries_scheduled_total",
    "counter",
    "Retries planned after a failed attempt, by phase of the retry policy.",
    "phase",
)
DEAD_LETTERED = _metric(
    "cns_notifications_dead_lettered_total",
    "counter",
    "Notifications moved to a subscription's dead-letter queue.",
    "cause",
)
DROPPED = _metric(
    "cns_notifications_dropped_total",
    "counter",
    "Notifications neither delivered to a subscription nor moved to a dead-letter queue. Alert on any increase.",
    "cause",
)
DROPPED_RECENTLY = _metric(
    "cns_notifications_dropped_recently",
    "gauge",
    "Notifications dropped in the last 10 minutes, except to recipients gone or muted. Above 0, health is yellow.",
)
FILTERED_OUT = _metric(
    "cns_notifications_filtered_out_total",
    "counter",
    "Notifications kept from a subscription by its filter policy, counted per subscription.",
)
FILTER_EVALUATIONS = _metric(
    "cns_filter_evaluations_total",
    "counter",
    "Filter policies evaluated against a message. Policies that the index rules out are not evaluated.",
)
DELIVERY_SECONDS = _metric(
    "cns_delivery_seconds",
    "histogram",
    "Time from publish to accepted delivery, replays left out; `attempt` is `first`, or `later` after failures.",
    "protocol",
    "attempt",
)

DELIVERY_ATTEMPT_SECONDS = _metric(
    "cns_delivery_attempt_seconds",
    "histogram",
    "Time from the start of an attempt until the endpoint answered or the attempt failed; `outcome` says which.",
    "protocol",
    "outcome",
)
JOB_WAIT_SECONDS = _metric(
    "cns_job_wait_seconds",
    "histogram",
    "Time from publish to the start of its fan-out or first delivery: the age of the backlog, by queue of jobs.",
    "queue",
)

FANOUT_SECONDS = _metric(
    "cns_fanout_seconds",
    "histogram",
    "Time from the start of a fan-out until the jobs of one page of subscriptions are stored, by queue.",
    "queue",
)

# -- jobs of workers ---------------------------------------------------------------------------------------------------

JOBS_FAILED = _metric(
    "cns_jobs_failed_total",
    "counter",
    "Jobs that a worker failed to handle, by an outage or a bug. They return when their lease ends.",
    "queue",
)
JOB_LEASES_LOST = _metric(
    "cns_job_leases_lost_total",
    "counter",
    "Jobs whose lease ended before they were settled: their deliveries may be repeated.",
    "queue",
)
JOBS_QUARANTINED = _metric(
    "cns_jobs_quarantined_total",
    "counter",
    "Jobs set aside because they failed five times or could not be decoded.",
    "queue",
)
QUARANTINE_JOBS = _metric("cns_quarantine_jobs", "gauge", "Jobs in quarantine now. They are delivered when released.")

WORKER_ROLES = _metric(
    "cns_worker_roles", "gauge", "1 for each role of a worker process: producer, consumer, maintenance.", "role"
)

# -- delivery pools ----------------------------------------------------------------------------------------------------

POOL_THREADS = _metric("cns_pool_threads", "gauge", "Threads of a delivery pool that take new sends.", "pool")
POOL_THREADS_DRAINING = _metric(
    "cns_pool_threads_draining", "gauge", "Threads that left their pool and end the sends they began.", "pool"
)
POOL_THREADS_BLOCKED = _metric(
    "cns_pool_threads_blocked", "gauge", "Threads of a pool whose event loop does not respond.", "pool"
)
POOL_THREADS_REPLACED = _metric(
    "cns_pool_threads_replaced_total", "counter", "Threads replaced because they were blocked or died.", "pool", "cause"
)
POOL_SENDS_IN_FLIGHT = _metric(
    "cns_pool_sends_in_flight", "gauge", "Sends that a pool has begun and not ended.", "pool"
)
POOL_SENDS_WAITING = _metric(
    "cns_pool_sends_waiting", "gauge", "Sends that no thread of the pool has room for.", "pool"
)

# -- slow and failing endpoints ----------------------------------------------------------------------------------------

CIRCUIT_BREAKERS_OPEN = _metric(
    "cns_circuit_breakers_open", "gauge", "Endpoints whose circuit breaker is open: they are only probed."
)
SENDS_OVERDUE = _metric("cns_sends_overdue", "gauge", "Sends in flight for more than a second without an answer.")
SENDS_ON_PROBATION = _metric(
    "cns_sends_on_probation",
    "gauge",
    "Sends in flight to endpoints that are new or left the previous send without an answer. They share a limit.",
)
SENDS_DEFERRED = _metric(
    "cns_sends_deferred_total",
    "counter",
    "Sends that were not begun but moved to the lane of their endpoint or subscription, to be sent later.",
    "cause",
)
LANES_WAITING = _metric(
    "cns_lanes_waiting", "gauge", "Lanes of deferred sends that this worker holds until their endpoint has room."
)
PAUSED_HEADS = _metric(
    "cns_paused_heads",
    "gauge",
    "Lanes (`lane`) and FIFO message groups (`fifo`) that this worker hides because their subscription is paused.",
    "kind",
)

# -- events and delivery status logs -----------------------------------------------------------------------------------

EVENTS_WRITTEN = _metric("cns_events_written_total", "counter", "Events written to segment files.")
EVENTS_LOST = _metric("cns_events_lost_total", "counter", "Events that could not be written.", "reason")
EVENT_SEGMENTS_REMOVED = _metric(
    "cns_event_segments_removed_total",
    "counter",
    "Event segment files removed for their age or the size limit.",
    "reason",
)
EVENT_SEGMENTS_REMOVED_UNREAD = _metric(
    "cns_event_segments_removed_unread_total",
    "counter",
    "Event segments removed before the pipeline ingested them, where it has ever ingested any. Alert on any increase.",
)
EVENT_SEGMENTS_UNREAD = _metric(
    "cns_event_segments_unread",
    "gauge",
    "Sealed event segments that wait to be ingested. Absent, as the next three, until the first ingest.",
)
EVENT_SEGMENTS_UNREAD_BYTES = _metric("cns_event_segments_unread_bytes", "gauge", "Size of the unread event segments.")
EVENT_SEGMENTS_UNREAD_SHARE = _metric(
    "cns_event_segments_unread_share",
    "gauge",
    "How near the oldest unread event segment is to its removal, by age or by the size of all: 0 to 1.",
)
EVENT_SEGMENTS_UNREAD_LEFT_SECONDS = _metric(
    "cns_event_segments_unread_left_seconds",
    "gauge",
    "Time until the oldest unread event segment is removed, at the growth of the last 15 minutes.",
)
AUDIT_EVENTS_WRITTEN = _metric(
    "cns_audit_events_written_total", "counter", "Events of audited queues on the disk, each before its call's answer."
)
AUDIT_REFUSED = _metric(
    "cns_audit_refused",
    "gauge",
    "1 while the disk refuses the events of audited queues: calls to these queues are answered with 503.",
)
DELIVERY_LOG_RECORDS_WRITTEN = _metric(
    "cns_delivery_log_records_written_total", "counter", "Delivery status log records written."
)
DELIVERY_LOG_RECORDS_LOST = _metric(
    "cns_delivery_log_records_lost_total", "counter", "Delivery status log records that could not be written.", "reason"
)
DELIVERY_LOG_FILES_REMOVED = _metric(
    "cns_delivery_log_files_removed_total",
    "counter",
    "Delivery status log files removed for their age or the size limit.",
    "reason",
)

# -- queues ------------------------------------------------------------------------------------------------------------

QUEUE_MESSAGES = _metric(
    "cns_queue_messages_total",
    "counter",
    "Messages of tenants' queues, by action. Queues beyond CNS_METRICS_QUEUES_MAX share an empty label.",
    "queue",
    "action",
)
QUEUE_DEPTH = _metric(
    "cns_queue_messages",
    "gauge",
    "Messages in a queue, at the end of the last minute in which the process used it. Under an empty label, the sum of"
    " the queues that share it.",
    "queue",
    "state",
)
QUEUE_OLDEST_SECONDS = _metric(
    "cns_queue_oldest_message_seconds",
    "gauge",
    "Age of the oldest message in a queue, at the same time; 0 without messages. Under an empty label, the greatest.",
    "queue",
)

# -- stores ------------------------------------------------------------------------------------------------------------

STORE_COMMITS = _metric(
    "cns_store_commits_total", "counter", "Commits of the embedded store since its process started."
)
STORE_WAL_BYTES = _metric(
    "cns_store_wal_bytes", "gauge", "Size of the embedded store's write-ahead log that is not yet copied back."
)
STORE_BYTES = _metric(
    "cns_store_bytes", "gauge", "Size of the embedded store's file. It has room in it that is used again."
)
CASSANDRA_BYTES = _metric(
    "cns_cassandra_bytes",
    "gauge",
    "Disk that the keyspace takes on a Cassandra node, as the node reported it within the last minute.",
    "node",
)
CASSANDRA_STATEMENTS = _metric(
    "cns_cassandra_statements_total", "counter", "Statements that this process sent to Cassandra."
)
REDIS_UP = _metric(
    "cns_redis_up",
    "gauge",
    "1 while the processes use the Redis server, 0 while it is lost. Absent where no Redis is configured.",
    "server",
)
REDIS_REACHED_BY = _metric(
    "cns_redis_reached_by",
    "gauge",
    "While processes reach different Redis servers under one name: for each process, 1 if one answers at its address,"
    " 0 if none does.",
    "server",
    "peer",
    "address",
    "run",
)
CLOCK_OFFSET_SECONDS = _metric(
    "cns_clock_offset_seconds",
    "gauge",
    "How far this machine's clock is ahead of Cassandra's. Absent until the two were compared.",
)
CLOCK_RECEIVES_REFUSED = _metric(
    "cns_clock_receives_refused",
    "gauge",
    "1 while this process refuses receives, and a worker delivers nothing, because its machine's clock is wrong.",
)
REDIS_OUTAGES = _metric(
    "cns_redis_outages_total", "counter", "Times that this process lost the Redis server.", "server"
)
CACHE_LOOKUPS = _metric(
    "cns_cache_lookups_total",
    "counter",
    "Receives from standard queues, by the messages that Redis knew: `hit` all, `filling` those that a fill has added,"
    " `miss` none, as Redis was lost.",
    "server",
    "result",
)
RECONCILE_REPAIRS = _metric(
    "cns_reconcile_repairs_total", "counter", "Messages that Redis lacked and that were restored from Cassandra."
)
RECONCILE_LAG_SECONDS = _metric(
    "cns_reconcile_lag_seconds",
    "gauge",
    "How long the most overdue comparison of Redis with Cassandra waits, after a failed send or the end of a process.",
)
BACKGROUND_STATEMENTS = _metric(
    "cns_background_statements_total",
    "counter",
    "Statements to Cassandra that no caller waits for, by the kind of background work.",
    "work",
)
LIVE_PROCESSES = _metric(
    "cns_live_processes", "gauge", "Processes with a lease in Cassandra, as this one last read them."
)
OWNED_QUEUES = _metric("cns_owned_queues", "gauge", "Queues whose background work this process does.")
QUEUE_DUPLICATE_DELIVERIES = _metric(
    "cns_queue_duplicate_deliveries_total",
    "counter",
    "Messages that a second receiver got: Redis or a process was lost before they were settled, or both received them"
    " at the same time (bdqs).",
)

# -- each process, by Prometheus' own names ----------------------------------------------------------------------------

PROCESS_CPU_SECONDS = _metric("process_cpu_seconds_total", "counter", "CPU time used, user and system, in seconds.")
PROCESS_RESIDENT_BYTES = _metric("process_resident_memory_bytes", "gauge", "Resident memory size in bytes.")
PROCESS_VIRTUAL_BYTES = _metric("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.")
PROCESS_START_SECONDS = _metric(
    "process_start_time_seconds", "gauge", "Start time of the process since the Unix epoch in seconds."
)
PROCESS_OPEN_FDS = _metric("process_open_fds", "gauge", "Number of open file descriptors.")
PROCESS_MAX_FDS = _metric("process_max_fds", "gauge", "Maximum number of open file descriptors.")

METRICS: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _ALL})
