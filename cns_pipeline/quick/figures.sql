-- The rows of the tables of figures, as cns_pipeline/transforms/report makes them; the names are those of its frames.
-- `events` is a view of the table's files. $since_ms and $until_ms are the period, $before_… the same span a week before.
WITH weeks(week, since_ms, until_ms) AS (
  VALUES (0, $since_ms::BIGINT, $until_ms::BIGINT), (1, $before_since_ms::BIGINT, $before_until_ms::BIGINT)
),
own AS (
  SELECT week, event, at_ms, message_id, outcome, attempt, since_publish_ms, filtered, account AS caller,
    CASE WHEN contains(topic, ':endpoint/') THEN '' ELSE topic END AS topic,
    coalesce(subscription, '') AS subscription, coalesce(endpoint, '') AS endpoint, coalesce(protocol, '') AS protocol,
    coalesce(size_bytes, 0) AS size_bytes, coalesce(matched, 0) AS matched, coalesce(part, '') AS part,
    coalesce(subscriptions, 1) AS subscriptions, coalesce(replayed, false) AS replayed
  FROM events CROSS JOIN weeks
  WHERE at_ms >= since_ms AND at_ms < until_ms AND coalesce(message_type, '') IN ('', 'Notification')
    AND event IN ('publish.accepted', 'notification.matched', 'delivery.filtered', 'delivery.attempted',
      'delivery.delivered', 'delivery.dead_lettered', 'notification.dropped')
),
notifications AS (
  SELECT * EXCLUDE (caller),
    CASE WHEN topic <> '' THEN split_part(topic, ':', 5) ELSE coalesce(caller, '') END AS account,
    CASE WHEN subscription <> '' THEN subscription
      WHEN topic = '' AND event IN ('delivery.attempted', 'delivery.delivered', 'delivery.dead_lettered',
        'notification.dropped') THEN concat_ws(' ', 'direct', protocol, endpoint)
      ELSE '' END AS target
  FROM own
),
matches AS (
  SELECT week, topic, account, message_id, replayed, latest.at_ms AS at_ms, latest.matched AS matched
  FROM (
    SELECT week, topic, account, message_id, part, replayed, max({'at_ms': at_ms, 'matched': matched}) AS latest
    FROM notifications WHERE event = 'notification.matched' GROUP BY ALL
  )
),
filters AS (
  SELECT week, topic, account, latest.filtered AS filtered
  FROM (
    SELECT week, topic, account, message_id, max({'at_ms': at_ms, 'filtered': filtered}) AS latest
    FROM notifications WHERE event = 'delivery.filtered' GROUP BY ALL
  )
),
-- what became of each (message, target); rows with the target '' are of the message itself
pairs AS (
  SELECT week, topic, account, target, message_id,
    min(at_ms) FILTER (event = 'publish.accepted') AS accepted_ms,
    sum(matched) AS matched,
    count(*) FILTER (event = 'delivery.delivered') AS deliveries,
    min(greatest(since_publish_ms, 0)) FILTER (event = 'delivery.delivered') AS since_publish_ms,
    count(*) FILTER (event = 'delivery.dead_lettered') > 0 AS is_dead_lettered,
    count(*) FILTER (event = 'notification.dropped') > 0 AS is_dropped,
    deliveries > 0 OR is_dead_lettered OR is_dropped AS is_ended
  FROM (
    SELECT week, topic, account, target, message_id, event, at_ms, since_publish_ms, matched
    FROM notifications
    WHERE NOT replayed AND (event = 'publish.accepted' OR target <> '' AND (
      event IN ('delivery.delivered', 'delivery.dead_lettered', 'notification.dropped')
      OR event = 'delivery.attempted' AND outcome = 'failed'))
    UNION ALL
    SELECT week, topic, account, '', message_id, 'notification.matched', at_ms, NULL, matched
    FROM matches WHERE NOT replayed
  )
  GROUP BY ALL
),
event_sums AS (
  SELECT week, topic, account, target,
    max(subscription) AS subscription, max(endpoint) AS endpoint, max(protocol) AS protocol,
    count(*) FILTER (event = 'publish.accepted') AS accepted,
    sum(size_bytes) FILTER (event = 'publish.accepted') AS accepted_bytes,
    sum(matched) FILTER (event = 'publish.accepted') AS matched,
    count(*) FILTER (event = 'delivery.attempted' AND NOT replayed) AS attempts,
    count(*) FILTER (event = 'delivery.attempted' AND outcome = 'failed' AND NOT replayed) AS attempts_failed,
    sum(size_bytes) FILTER (event = 'delivery.delivered') AS delivered_bytes,
    sum(subscriptions) FILTER (event = 'notification.dropped' AND target = '' AND NOT replayed) AS dropped,
    count(*) FILTER (event = 'notification.dropped' AND target = '' AND subscriptions = 0) AS fanouts_dropped,
    count(*) FILTER (event = 'delivery.attempted' AND replayed) AS replay_attempts,
    count(*) FILTER (event = 'delivery.attempted' AND outcome = 'failed' AND replayed) AS replay_attempts_failed,
    count(*) FILTER (event = 'delivery.delivered' AND replayed) AS replayed,
    count(*) FILTER (event = 'delivery.dead_lettered' AND replayed) AS replay_dead_lettered,
    sum(subscriptions) FILTER (event = 'notification.dropped' AND replayed) AS replay_dropped
  FROM notifications GROUP BY week, topic, account, target
),
pending AS (
  SELECT week, topic, account, greatest(sum(matched) - count(*) FILTER (is_ended), 0) AS pending
  FROM pairs GROUP BY week, topic, account, message_id HAVING min(accepted_ms) IS NOT NULL
),
cells AS (
  SELECT * EXCLUDE (subscription, endpoint, protocol) FROM event_sums
  UNION ALL BY NAME
  SELECT week, topic, account, '' AS target, sum(matched) FILTER (NOT replayed) AS matched,
    sum(matched) FILTER (replayed) AS replay_matched
  FROM matches GROUP BY week, topic, account
  UNION ALL BY NAME
  SELECT week, topic, account, '' AS target, sum(filtered) AS filtered FROM filters GROUP BY week, topic, account
  UNION ALL BY NAME
  SELECT week, topic, account, '' AS target, sum(pending) AS pending FROM pending GROUP BY week, topic, account
  UNION ALL BY NAME
  SELECT week, topic, account, target,
    count(*) FILTER (deliveries > 0) AS delivered,
    sum(deliveries - 1) FILTER (deliveries > 0) AS duplicates,
    count(*) FILTER (is_dead_lettered) AS dead_lettered,
    count(*) FILTER (is_dropped) AS dropped,
    count(*) FILTER (NOT is_ended) AS retrying
  FROM pairs WHERE target <> '' GROUP BY week, topic, account, target
),
targets AS (
  SELECT target, max(subscription) AS subscription, max(endpoint) AS endpoint, max(protocol) AS protocol
  FROM event_sums WHERE target <> '' GROUP BY target
),
times AS (
  SELECT week, topic, account, target,
    since_publish_ms - since_publish_ms % (1::BIGINT << greatest(length(bin(since_publish_ms)) - 8, 0)) AS latency_ms,
    count(*) AS deliveries, max(since_publish_ms) AS max_ms
  FROM pairs WHERE target <> '' AND deliveries > 0 GROUP BY ALL
),
-- the rows of the tables that a (topic, account, target) is part of
keys AS (
  SELECT topic, account, target, unnest([
    {'table': 'totals', 'name': '', 'topic': '', 'protocol': '', 'endpoint': ''},
    {'table': 'topics', 'name': topic, 'topic': '', 'protocol': '', 'endpoint': ''},
    {'table': 'accounts', 'name': account, 'topic': '', 'protocol': '', 'endpoint': ''},
    CASE WHEN subscription <> '' THEN
      {'table': 'subscriptions', 'name': subscription, 'topic': topic, 'protocol': protocol, 'endpoint': endpoint}
    END,
    CASE WHEN target <> '' THEN
      {'table': 'endpoints', 'name': endpoint, 'topic': '', 'protocol': protocol, 'endpoint': ''}
    END,
    CASE WHEN target <> '' THEN {'table': 'protocols', 'name': protocol, 'topic': '', 'protocol': '', 'endpoint': ''} END
  ]) AS key
  FROM (SELECT DISTINCT topic, account, target FROM cells) LEFT JOIN targets USING (target)
),
sums AS (
  SELECT key, cells.* EXCLUDE (topic, account, target)
  FROM cells JOIN keys USING (topic, account, target) WHERE key IS NOT NULL
),
ranked AS (
  SELECT week, key, latency_ms, max(max_ms) AS max_ms,
    sum(sum(deliveries)) OVER (PARTITION BY week, key ORDER BY latency_ms) AS rank,
    sum(sum(deliveries)) OVER (PARTITION BY week, key) AS total
  FROM times JOIN keys USING (topic, account, target) WHERE key IS NOT NULL GROUP BY week, key, latency_ms
),
percentiles AS (
  SELECT week, key,
    min(latency_ms) FILTER (rank * 1000 >= total * 500) AS p50_ms,
    min(latency_ms) FILTER (rank * 1000 >= total * 900) AS p90_ms,
    min(latency_ms) FILTER (rank * 1000 >= total * 990) AS p99_ms,
    min(latency_ms) FILTER (rank * 1000 >= total * 999) AS p999_ms,
    max(max_ms) AS max_ms
  FROM ranked GROUP BY week, key
)
SELECT week, key, * EXCLUDE (week, key)
FROM (
  SELECT week, key, coalesce(sum(COLUMNS(* EXCLUDE (week, key))), 0)::BIGINT FROM sums GROUP BY week, key
) LEFT JOIN percentiles USING (week, key)
