-- What people ask of the tables of schema.sql: psql --dbname fleet --file queries.sql.

-- Objects that entered each zone, by hour of the last day.
SELECT hour, device, source, name AS zone, label, events AS entered
FROM hourly WHERE type = 'zone_entered' AND hour > now() - interval '1 day' ORDER BY hour, device, source, name, label;

-- Mean stay in each zone in the last 7 days, in seconds.
SELECT device, source, name AS zone, label, round(sum(duration_ms) / sum(events) / 1000, 1) AS seconds
FROM hourly WHERE type = 'zone_left' AND hour > now() - interval '7 days' GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;

-- Crossings of each line in both directions, by day.
SELECT date_trunc('day', hour) AS day, device, source, name AS line, label,
    sum(events) FILTER (WHERE side = 'left') AS "left", sum(events) FILTER (WHERE side = 'right') AS "right"
FROM hourly WHERE type = 'line_crossed' GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5;

-- The busiest hours of each site in the last 30 days, where the device is named SITE-NUMBER.
SELECT split_part(device, '-', 1) AS site, extract(hour FROM hour) AS hour_of_day, sum(events) AS objects
FROM hourly WHERE type = 'new' AND hour > now() - interval '30 days' GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 20;

-- Who loitered in the last day, and for how long; the track leads to its other events.
SELECT at, device, source, name AS zone, label, duration_ms / 1000.0 AS seconds, track
FROM event WHERE type = 'loitering' AND at > now() - interval '1 day' ORDER BY at;

-- Boxes that have sent nothing for an hour.
SELECT device, max(hour) AS last_hour FROM hourly GROUP BY device HAVING max(hour) < now() - interval '2 hours' ORDER BY 2;

-- What arrived late, by box: outages of their network.
SELECT device, count(*) AS late, max(late_ms) / 1000 AS longest_s
FROM event WHERE late_ms IS NOT NULL AND at > now() - interval '1 day' GROUP BY device ORDER BY 2 DESC;

-- What boxes have given up, and what is no message of theirs.
SELECT device, reason, sum(messages) AS messages, sum(updates) AS updates, max(at) AS last FROM gap GROUP BY 1, 2 ORDER BY 3 DESC;
SELECT topic, error, count(*), max(received_at) FROM rejected GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 20;

-- Size of each day on the disk.
SELECT inhrelid::regclass AS day, pg_size_pretty(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'event'::regclass ORDER BY 1;
