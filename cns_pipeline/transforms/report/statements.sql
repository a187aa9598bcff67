-- The statements of a report, for Spark SQL and for DuckDB, each after a line with its name. {name} stands for the
-- result of an earlier statement, or for `events`: those of the table, once for the period (week 0) and once for the
-- span a week before (week 1). The result of a `kept` statement is computed once. Hints, as /*+ REPARTITION(1) */, are
-- Spark's; DuckDB skips them as comments. `statements.py` defines other words in braces, such as {sums}. Where dialects
-- differ, a statement is explicit: NULLS FIRST or LAST in an ORDER BY of a nullable column; no null for `max_by`, which
-- DuckDB skips; the remainder is subtracted before integers are divided; dates are built from days.

-- :: own: the events of the period
SELECT * FROM {events} WHERE week = 0

-- :: notifications: the events of notifications, without those of confirmations. Nulls become '', 0 and false.
-- `place` is what an event counts for: the subscription's ARN; `direct`, account, protocol and endpoint of a direct
-- delivery; without a single target the topic's ARN, or `direct` and the account. In a direct publish to a mobile
-- endpoint, the topic of the event is the endpoint's ARN: it becomes ''.
SELECT week, event, at_ms, at_ms - at_ms % 3600000 AS hour_ms, message_id, topic,
  CASE WHEN subscription <> '' THEN subscription
    WHEN topic <> '' THEN topic
    WHEN is_of_target THEN concat_ws(' ', 'direct', account, protocol, endpoint)
    ELSE concat_ws(' ', 'direct', account) END AS place,
  subscription <> '' OR (topic = '' AND is_of_target) AS has_target,
  endpoint, protocol, outcome = 'failed' AS has_failed, attempt, since_publish_ms, size_bytes, matched, part, filtered,
  subscriptions, replayed
FROM (
  SELECT week, event, at_ms, message_id, outcome, attempt, since_publish_ms,
    CASE WHEN contains(topic, ':endpoint/') THEN '' ELSE coalesce(topic, '') END AS topic,
    event IN ('delivery.attempted', 'delivery.delivered', 'delivery.dead_lettered', 'notification.dropped')
      AS is_of_target,
    coalesce(account, '') AS account, coalesce(subscription, '') AS subscription, coalesce(endpoint, '') AS endpoint,
    coalesce(protocol, '') AS protocol, coalesce(size_bytes, 0) AS size_bytes, coalesce(matched, 0) AS matched,
    coalesce(part, '') AS part, coalesce(filtered, 0) AS filtered, coalesce(subscriptions, 1) AS subscriptions,
    coalesce(replayed, false) AS replayed
  FROM {events}
  WHERE coalesce(message_type, '') IN ('', 'Notification')
    AND event IN ('publish.accepted', 'notification.matched', 'delivery.filtered', 'delivery.attempted',
      'delivery.delivered', 'delivery.dead_lettered', 'notification.dropped')
) AS filled

-- :: matches kept: how many subscriptions each part of a fan-out or replay matched; the latest count if it was repeated
SELECT week, topic, place, message_id, replayed, max(at_ms) AS matched_ms,
  max_by(matched, named_struct('at_ms', at_ms, 'number', matched)) AS matched
FROM {notifications} WHERE event = 'notification.matched'
GROUP BY week, topic, place, message_id, part, replayed

-- :: filters: how many subscriptions filters rejected each message for; the latest count if the fan-out was repeated
SELECT week, place, message_id, max(at_ms) AS filtered_ms,
  max_by(filtered, named_struct('at_ms', at_ms, 'number', filtered)) AS filtered
FROM {notifications} WHERE event = 'delivery.filtered'
GROUP BY week, topic, place, message_id

-- :: pairs kept: the outcome of each (message, target), however often a crash repeated an event; replays are left out
-- Rows without a target are of the message itself. `delivered_ms`, `since_publish_ms` and `attempts` are of the first
-- delivery; a delivery before its publish, by another machine's clock, took 0 ms. `latency_ms` has the highest bits of
-- the time, the precision of percentiles. Other times are of the first event. 32 partitions, which adaptive execution
-- does not merge, let a small heap add up the pairs of millions of deliveries.
SELECT *,
  since_publish_ms - since_publish_ms % CAST(power(2, greatest(length(bin(since_publish_ms)) - {latency_bits}, 0)) AS BIGINT)
    AS latency_ms,
  delivered_ms IS NOT NULL OR dead_lettered_ms IS NOT NULL OR dropped_ms IS NOT NULL AS has_ended
FROM (
  SELECT week, topic, place, has_target, message_id,
    min(CASE WHEN event = 'publish.accepted' THEN at_ms END) AS accepted_ms,
    sum(matched) AS matched,
    count(CASE WHEN event = 'delivery.delivered' THEN 1 END) AS deliveries,
    min(CASE WHEN event = 'delivery.delivered' THEN at_ms END) AS delivered_ms,
    min(CASE WHEN event = 'delivery.delivered' THEN greatest(since_publish_ms, 0) END) AS since_publish_ms,
    min(CASE WHEN event = 'delivery.delivered' THEN attempt END) AS attempts,
    min(CASE WHEN event = 'delivery.dead_lettered' THEN at_ms END) AS dead_lettered_ms,
    max(CASE WHEN event = 'delivery.dead_lettered' THEN attempt END) AS dead_letter_attempts,
    min(CASE WHEN event = 'notification.dropped' THEN at_ms END) AS dropped_ms,
    max(CASE WHEN event = 'notification.dropped' THEN attempt END) AS drop_attempts,
    min(CASE WHEN event = 'delivery.attempted' THEN at_ms END) AS failed_ms
  FROM (
    SELECT /*+ REPARTITION(32, message_id) */ *
    FROM (
      SELECT week, topic, place, has_target, message_id, event, at_ms, attempt, since_publish_ms, matched
      FROM {notifications}
      WHERE NOT replayed AND (event = 'publish.accepted' OR (has_target
        AND (event IN ('delivery.delivered', 'delivery.dead_lettered', 'notification.dropped')
          OR (event = 'delivery.attempted' AND has_failed))))
      UNION ALL
      SELECT week, topic, place, false, message_id, 'notification.matched', matched_ms, NULL, NULL, matched
      FROM {matches} WHERE NOT replayed
    ) AS events_of_pairs
  ) AS by_message
  GROUP BY week, topic, place, has_target, message_id
) AS outcomes

-- :: ends kept: the ends of pairs by place and hour, place and latency, hour and latency, and attempts, in one pass
-- A pair counts in the hour of each of its ends, its duplicates in that of the first delivery; if it only failed, in that
-- of its first failure. `made` is the number of attempts until the end. Keys by which a row is not grouped are null.
SELECT week, place, hour_ms, latency_ms, made, sum(delivered) AS delivered, sum(duplicates) AS duplicates,
  sum(dead_lettered) AS dead_lettered, sum(dropped) AS dropped, sum(retrying) AS retrying, max(since_publish_ms) AS max_ms
FROM (
  SELECT week, place, since_publish_ms, at_ms - at_ms % 3600000 AS hour_ms,
    CASE WHEN ending = 'delivered' THEN latency_ms END AS latency_ms,
    CASE ending WHEN 'delivered' THEN attempts WHEN 'dead' THEN dead_letter_attempts WHEN 'dropped' THEN drop_attempts END
      AS made,
    CASE WHEN ending = 'delivered' THEN 1 ELSE 0 END AS delivered,
    CASE WHEN ending = 'delivered' THEN deliveries - 1 ELSE 0 END AS duplicates,
    CASE WHEN ending = 'dead' THEN 1 ELSE 0 END AS dead_lettered,
    CASE WHEN ending = 'dropped' THEN 1 ELSE 0 END AS dropped,
    CASE WHEN ending = 'failed' AND NOT has_ended THEN 1 ELSE 0 END AS retrying
  FROM (
    SELECT *, CASE ending WHEN 'delivered' THEN delivered_ms WHEN 'dead' THEN dead_lettered_ms
      WHEN 'dropped' THEN dropped_ms ELSE failed_ms END AS at_ms
    FROM {pairs} CROSS JOIN (VALUES ('delivered'), ('dead'), ('dropped'), ('failed')) AS endings(ending)
    WHERE has_target
  ) AS by_ending
  WHERE at_ms IS NOT NULL
) AS ended
GROUP BY GROUPING SETS ((week, place, hour_ms), (week, place, latency_ms), (week, hour_ms, latency_ms), (week, made))

-- :: event_sums kept: publishes, attempts, bytes and replays, which are sums over events
-- A message that `cns replay` publishes again does not count as accepted; its matches count as a replay's.
SELECT week, hour_ms, place, has_target, topic, endpoint, protocol,
  count(CASE WHEN event = 'publish.accepted' AND NOT replayed THEN 1 END) AS accepted,
  sum(CASE WHEN event = 'publish.accepted' AND NOT replayed THEN size_bytes END) AS accepted_bytes,
  sum(CASE WHEN event = 'publish.accepted' AND NOT replayed THEN matched END) AS matched,
  sum(CASE WHEN event = 'publish.accepted' AND replayed THEN matched END) AS replay_matched,
  count(CASE WHEN event = 'delivery.attempted' AND NOT replayed THEN 1 END) AS attempts,
  count(CASE WHEN event = 'delivery.attempted' AND has_failed AND NOT replayed THEN 1 END) AS attempts_failed,
  sum(CASE WHEN event = 'delivery.delivered' THEN size_bytes END) AS delivered_bytes,
  sum(CASE WHEN event = 'notification.dropped' AND NOT has_target AND NOT replayed THEN subscriptions END) AS dropped,
  count(CASE WHEN event = 'notification.dropped' AND NOT has_target AND subscriptions = 0 THEN 1 END)
    AS fanouts_dropped,
  count(CASE WHEN event = 'delivery.attempted' AND replayed THEN 1 END) AS replay_attempts,
  count(CASE WHEN event = 'delivery.attempted' AND has_failed AND replayed THEN 1 END) AS replay_attempts_failed,
  count(CASE WHEN event = 'delivery.delivered' AND replayed THEN 1 END) AS replayed,
  count(CASE WHEN event = 'delivery.dead_lettered' AND replayed THEN 1 END) AS replay_dead_lettered,
  sum(CASE WHEN event = 'notification.dropped' AND replayed THEN subscriptions END) AS replay_dropped
FROM {notifications}
GROUP BY week, hour_ms, place, has_target, topic, endpoint, protocol

-- :: places kept: the names of each place. A drop may lack the endpoint: max() takes it from the target's other events.
SELECT place, topic, has_target, CASE WHEN topic <> '' THEN split_part(topic, ':', 5) ELSE split_part(place, ' ', 2) END
    AS account,
  CASE WHEN topic <> '' AND has_target THEN place ELSE '' END AS subscription, endpoint, protocol
FROM (
  SELECT place, topic, has_target, max(endpoint) AS endpoint, max(protocol) AS protocol
  FROM {event_sums} GROUP BY place, topic, has_target
) AS named

-- :: pending: matched deliveries that did not end, by the hour in which their message was accepted
-- The ends of a message whose match is missing do not reduce the pending deliveries of others.
SELECT week, accepted_ms - accepted_ms % 3600000 AS hour_ms, place, sum(greatest(matched - ended, 0)) AS pending
FROM (
  SELECT week, message_id, min(accepted_ms) AS accepted_ms, sum(matched) AS matched,
    count(CASE WHEN has_ended THEN 1 END) AS ended,
    CASE WHEN topic <> '' THEN topic ELSE concat_ws(' ', split_part(place, ' ', 1), split_part(place, ' ', 2)) END AS place
  FROM {pairs}
  GROUP BY ALL
) AS messages
WHERE accepted_ms IS NOT NULL
GROUP BY ALL

-- :: cells kept: all sums by week, hour and place
SELECT week, hour_ms, place, {sums}
FROM (
  SELECT week, hour_ms, place, {sums:accepted accepted_bytes matched replay_matched attempts attempts_failed
    delivered_bytes dropped fanouts_dropped replay_attempts replay_attempts_failed replayed replay_dead_lettered
    replay_dropped} FROM {event_sums}
  UNION ALL
  SELECT week, matched_ms - matched_ms % 3600000, place, {sums:matched} FROM {matches} WHERE NOT replayed
  UNION ALL
  SELECT week, matched_ms - matched_ms % 3600000, place, {sums:replay_matched=matched} FROM {matches} WHERE replayed
  UNION ALL
  SELECT week, filtered_ms - filtered_ms % 3600000, place, {sums:filtered} FROM {filters}
  UNION ALL
  SELECT week, hour_ms, place, {sums:pending} FROM {pending}
  UNION ALL
  SELECT week, hour_ms, place, {sums:delivered duplicates dead_lettered dropped retrying}
  FROM {ends} WHERE place IS NOT NULL AND hour_ms IS NOT NULL
) AS parts
GROUP BY week, hour_ms, place

-- :: place_rows: the row of each place in each table of figures; the columns that a table does not use are ''
-- A place without a target has no row in the tables by target.
SELECT place, of_table,
  CASE of_table WHEN 'topics' THEN topic WHEN 'accounts' THEN account WHEN 'subscriptions' THEN subscription
    WHEN 'endpoints' THEN endpoint WHEN 'protocols' THEN protocol ELSE '' END AS name,
  CASE WHEN of_table = 'subscriptions' THEN topic ELSE '' END AS topic,
  CASE WHEN of_table IN ('subscriptions', 'endpoints') THEN protocol ELSE '' END AS protocol,
  CASE WHEN of_table = 'subscriptions' THEN endpoint ELSE '' END AS endpoint
FROM {places} CROSS JOIN (VALUES ('totals'), ('topics'), ('accounts'), ('subscriptions'), ('endpoints'), ('protocols'))
  AS tables(of_table)
WHERE of_table IN ('totals', 'topics', 'accounts') OR (of_table = 'subscriptions' AND subscription <> '')
  OR (of_table IN ('endpoints', 'protocols') AND has_target)

-- :: times kept: the number of deliveries by table row and rounded time
SELECT week, of_table, name, topic, protocol, endpoint, latency_ms, sum(delivered) AS deliveries, max(max_ms) AS max_ms
FROM (
  SELECT week, of_table, name, topic, protocol, endpoint, latency_ms, delivered, max_ms
  FROM {ends} JOIN {place_rows} USING (place) WHERE latency_ms IS NOT NULL AND hour_ms IS NULL
  UNION ALL
  SELECT week, of_table, CASE of_table WHEN 'hours' THEN CAST(hour_ms AS STRING) ELSE {day:hour_ms} END, '', '', '',
    latency_ms, delivered, max_ms
  FROM {ends} CROSS JOIN (VALUES ('hours'), ('days')) AS tables(of_table) WHERE latency_ms IS NOT NULL AND place IS NULL
) AS rows_of_tables
GROUP BY week, of_table, name, topic, protocol, endpoint, latency_ms

-- :: percentiles: by nearest rank: the least time that this share of deliveries does not exceed
-- The hash lets the sort compare numbers first.
SELECT week, of_table, name, topic, protocol, endpoint,
  min(CASE WHEN until_here * 1000 >= in_all * 500 THEN latency_ms END) AS p50_ms,
  min(CASE WHEN until_here * 1000 >= in_all * 900 THEN latency_ms END) AS p90_ms,
  min(CASE WHEN until_here * 1000 >= in_all * 990 THEN latency_ms END) AS p99_ms,
  min(CASE WHEN until_here * 1000 >= in_all * 999 THEN latency_ms END) AS p999_ms,
  max(max_ms) AS max_ms
FROM (
  SELECT *,
    sum(deliveries) OVER (PARTITION BY row_hash, week, of_table, name, topic, protocol, endpoint ORDER BY latency_ms
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS until_here,
    sum(deliveries) OVER (PARTITION BY row_hash, week, of_table, name, topic, protocol, endpoint) AS in_all
  FROM (SELECT *, hash(week, of_table, name, topic, protocol, endpoint) AS row_hash FROM {times}) AS hashed
) AS ranked
GROUP BY week, of_table, name, topic, protocol, endpoint

-- :: figures kept: the rows of all tables of figures. Figures that are known by topic are null in the tables by target
SELECT week, of_table, name, topic, protocol, endpoint, {shown_sums},
  CASE WHEN delivered + dead_lettered + dropped > 0 THEN delivered / (delivered + dead_lettered + dropped) END
    AS success_share,
  p50_ms, p90_ms, p99_ms, p999_ms, max_ms
FROM (
  SELECT week, of_table, name, topic, protocol, endpoint, {sums}
  FROM (
    SELECT week, of_table, name, topic, protocol, endpoint, {sums:*} FROM {cells} JOIN {place_rows} USING (place)
    UNION ALL
    SELECT week, of_table, CASE of_table WHEN 'hours' THEN CAST(hour_ms AS STRING) ELSE {day:hour_ms} END, '', '', '',
      {sums:*}
    FROM {cells} CROSS JOIN (VALUES ('hours'), ('days')) AS tables(of_table)
  ) AS rows_of_tables
  GROUP BY week, of_table, name, topic, protocol, endpoint
) AS added LEFT JOIN {percentiles} USING (week, of_table, name, topic, protocol, endpoint)

-- :: latency: first deliveries by time, in bins that double; a bin begins at `from_ms`, 0 or a power of 2
-- Rounding moves no time to another bin.
SELECT * FROM (
  SELECT /*+ REPARTITION(1) */ from_ms, sum(deliveries) AS deliveries
  FROM (
    SELECT deliveries, CASE WHEN latency_ms > 0 THEN CAST(power(2, length(bin(latency_ms)) - 1) AS BIGINT) ELSE 0 END
        AS from_ms
    FROM {times} WHERE week = 0 AND of_table = 'totals'
  ) AS binned
  GROUP BY from_ms
) AS found ORDER BY from_ms

-- :: retries: deliveries by the number of attempts until they ended; the last bin has all that took more
SELECT * FROM (
  SELECT /*+ REPARTITION(1) */ least(made, {attempts_max}) AS attempts, sum(delivered) AS delivered,
    sum(dead_lettered) AS dead_lettered, sum(dropped) AS dropped
  FROM {ends} WHERE week = 0 AND made IS NOT NULL GROUP BY ALL
) AS found ORDER BY attempts

-- :: slowest: the first deliveries that took longest
SELECT message_id, topic, CASE WHEN topic <> '' THEN place ELSE '' END AS subscription, since_publish_ms, attempts,
  delivered_ms AS at_ms
FROM {pairs} WHERE week = 0 AND has_target AND delivered_ms IS NOT NULL
ORDER BY since_publish_ms DESC NULLS LAST, delivered_ms, message_id NULLS FIRST, place LIMIT {slowest_max}

-- :: failures: failed attempts by cause, status and phase, replays too
SELECT * FROM (
  SELECT /*+ REPARTITION(1) */ cause, status, phase, count(*) AS attempts,
    count(DISTINCT subscription) AS subscriptions, min(at_ms) AS first_ms, max(at_ms) AS last_ms,
    coalesce(max(reason), '') AS reason
  FROM {own}
  WHERE event = 'delivery.attempted' AND outcome = 'failed' AND coalesce(message_type, '') IN ('', 'Notification')
  GROUP BY cause, status, phase
) AS found ORDER BY attempts DESC, cause NULLS FIRST, status NULLS FIRST, phase NULLS FIRST

-- :: drops: by cause, with the target that has most
SELECT cause, events, subscriptions, fanouts, topic, endpoint, most FROM (
  SELECT /*+ REPARTITION(1) */ cause, sum(events) AS events, sum(subscriptions) AS subscriptions, sum(fanouts) AS fanouts,
    max(subscriptions + fanouts) AS most,
    max_by(topic, named_struct('most', subscriptions + fanouts, 'topic', topic, 'endpoint', endpoint)) AS topic,
    max_by(endpoint, named_struct('most', subscriptions + fanouts, 'topic', topic, 'endpoint', endpoint)) AS endpoint
  FROM (
    SELECT cause, coalesce(topic, '') AS topic, coalesce(endpoint, '') AS endpoint, count(*) AS events,
      sum(coalesce(subscriptions, 1)) AS subscriptions, count(CASE WHEN subscriptions = 0 THEN 1 END) AS fanouts
    FROM {own} WHERE event = 'notification.dropped' AND coalesce(message_type, '') IN ('', 'Notification')
    GROUP BY ALL
  ) AS by_target
  GROUP BY cause
) AS found ORDER BY subscriptions DESC, fanouts DESC, cause NULLS FIRST

-- :: dead_letters: by cause and queue, with the target that has most
SELECT cause, queue, messages, topic, endpoint, most FROM (
  SELECT /*+ REPARTITION(1) */ cause, queue, sum(messages) AS messages, max(messages) AS most,
    max_by(topic, named_struct('most', messages, 'topic', topic, 'endpoint', endpoint)) AS topic,
    max_by(endpoint, named_struct('most', messages, 'topic', topic, 'endpoint', endpoint)) AS endpoint
  FROM (
    SELECT cause, queue, coalesce(topic, '') AS topic, coalesce(endpoint, '') AS endpoint, count(*) AS messages
    FROM {own} WHERE event = 'delivery.dead_lettered' AND coalesce(message_type, '') IN ('', 'Notification')
    GROUP BY ALL
  ) AS by_target
  GROUP BY cause, queue
) AS found ORDER BY messages DESC, cause NULLS FIRST, queue NULLS FIRST

-- :: queues: counts of each queue over all processes, and its latest depths; -1 if no process could read them
SELECT * FROM (
  SELECT /*+ REPARTITION(1) */ queue, coalesce(sum(sent), 0) AS sent, coalesce(sum(received), 0) AS received,
    coalesce(sum(deleted), 0) AS deleted, coalesce(sum(moved_in), 0) AS moved_in,
    coalesce(sum(moved_out), 0) AS moved_out, coalesce(max_by(coalesce(visible, -1), depths), -1) AS visible,
    coalesce(max_by(coalesce(in_flight, -1), depths), -1) AS in_flight,
    coalesce(max_by(coalesce(delayed, -1), depths), -1) AS delayed,
    coalesce(max_by(coalesce(oldest_age_s, -1), depths), -1) AS oldest_age_s
  FROM (
    SELECT *, CASE WHEN visible >= 0 THEN named_struct('at_ms', at_ms, 'visible', visible, 'in_flight', in_flight,
      'delayed', delayed, 'oldest_age_s', oldest_age_s) END AS depths
    FROM {own} WHERE event = 'queue.counted'
  ) AS counted
  GROUP BY queue
) AS found ORDER BY sent + received DESC, queue NULLS FIRST

-- :: recoveries: runs of failed attempts of an endpoint between two successes, of all its subscriptions, longest first
-- Attempts of the same time are in the order of process and number. An endpoint without a failure has no run.
SELECT endpoint, failed_from_ms, recovered_at_ms, last_failed_ms, failures FROM (
  SELECT /*+ REPARTITION(1) */ endpoint, run_number, min(CASE WHEN has_failed THEN at_ms END) AS failed_from_ms,
    max(CASE WHEN has_failed THEN at_ms END) AS last_failed_ms,
    min(CASE WHEN NOT has_failed THEN at_ms END) AS recovered_at_ms, count(CASE WHEN has_failed THEN 1 END) AS failures
  FROM (
    SELECT endpoint, at_ms, has_failed,
      coalesce(count(CASE WHEN NOT has_failed THEN 1 END) OVER (PARTITION BY endpoint ORDER BY at_ms, boot, sequence
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS run_number
    FROM (SELECT *, outcome = 'failed' AS has_failed FROM {own}
      WHERE event = 'delivery.attempted' AND coalesce(message_type, '') IN ('', 'Notification') AND endpoint <> ''
        AND endpoint IN (SELECT endpoint FROM {own} WHERE event = 'delivery.attempted' AND outcome = 'failed'
          AND coalesce(message_type, '') IN ('', 'Notification'))) AS attempts
  ) AS numbered
  GROUP BY endpoint, run_number
) AS found WHERE failures > 0
ORDER BY coalesce(recovered_at_ms, last_failed_ms) - failed_from_ms DESC, failures DESC, endpoint, failed_from_ms

-- :: usage: by account and day, for billing: requests as the API counted them, and all deliveries, repeated ones too
-- If a day has no requests of any account, the events that count them are missing: its requests are null.
SELECT account, day,
  CASE WHEN max(requests) OVER (PARTITION BY day) IS NOT NULL THEN coalesce(requests, 0) END AS requests,
  CASE WHEN max(requests) OVER (PARTITION BY day) IS NOT NULL THEN coalesce(errors, 0) END AS errors,
  CASE WHEN max(requests) OVER (PARTITION BY day) IS NOT NULL THEN coalesce(request_bytes, 0) END AS request_bytes,
  CASE WHEN max(requests) OVER (PARTITION BY day) IS NOT NULL THEN coalesce(response_bytes, 0) END AS response_bytes,
  coalesce(published, 0) AS published, coalesce(published_bytes, 0) AS published_bytes,
  coalesce(deliveries, 0) AS deliveries, coalesce(delivered_bytes, 0) AS delivered_bytes
FROM (
  SELECT /*+ REPARTITION(1) */ account, day, sum(requests) AS requests, sum(errors) AS errors,
    sum(request_bytes) AS request_bytes, sum(response_bytes) AS response_bytes, sum(published) AS published,
    sum(published_bytes) AS published_bytes, sum(deliveries) AS deliveries, sum(delivered_bytes) AS delivered_bytes
  FROM (
    SELECT account, {day:at_ms} AS day, requests, errors, request_bytes, response_bytes,
      NULL AS published, NULL AS published_bytes, NULL AS deliveries, NULL AS delivered_bytes
    FROM {own} WHERE event = 'requests.counted'
    UNION ALL
    SELECT account, {day:hour_ms}, NULL, NULL, NULL, NULL, accepted, accepted_bytes,
      delivered + duplicates + replayed, delivered_bytes
    FROM {cells} JOIN {places} USING (place) WHERE week = 0
  ) AS parts
  GROUP BY account, day
) AS found ORDER BY account NULLS FIRST, day
