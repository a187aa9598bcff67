"""Every metric of every process. docs/operations.md has the same table for readers; a test compares the two."""

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
    "Notifications that a subscription never gets, and that are in no dead-letter queue. Alert on any increase.",
    "cause",
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
    "Sends that were not begun but moved to their endpoint's lane, to be sent later.",
    "cause",
)
LANES_WAITING = _metric(
    "cns_lanes_waiting", "gauge", "Lanes of deferred sends that this worker holds until their endpoint has room."
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

# -- stores ------------------------------------------------------------------------------------------------------------

STORE_COMMITS = _metric(
    "cns_store_commits_total", "counter", "Commits of the embedded store since its process started."
)
STORE_WAL_BYTES = _metric(
    "cns_store_wal_bytes", "gauge", "Size of the embedded store's write-ahead log that is not yet copied back."
)
CASSANDRA_STATEMENTS = _metric(
    "cns_cassandra_statements_total", "counter", "Statements that this process sent to Cassandra."
)
REDIS_UP = _metric(
    "cns_redis_up", "gauge", "1 while Redis hides messages, 0 while it is lost. Absent where no Redis is configured."
)
REDIS_OUTAGES = _metric("cns_redis_outages_total", "counter", "Times that this process lost Redis.")
RECONCILE_REPAIRS = _metric(
    "cns_reconcile_repairs_total", "counter", "Messages that Redis lacked and that were restored from Cassandra."
)
RECONCILE_LAG_SECONDS = _metric(
    "cns_reconcile_lag_seconds",
    "gauge",
    "Time since Redis was last compared with Cassandra, of the queue that waits longest.",
)
QUEUE_DUPLICATE_DELIVERIES = _metric(
    "cns_queue_duplicate_deliveries_total",
    "counter",
    "Messages of queues that a second receiver got because Redis or a process was lost before they were settled.",
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
