-- Tables of consumer.py, for PostgreSQL 14 and newer: psql --dbname fleet --file schema.sql. Safe to run again.
BEGIN;

-- One row for each event and analytics event. `seq` counts per device and spool, so a message that arrives again has the same key.
-- `at` is in the key because a table is partitioned only by a column of its key; a repeated message has the same `at`, too.
CREATE TABLE IF NOT EXISTS event (
    device      text NOT NULL,
    spool       text NOT NULL,
    seq         bigint NOT NULL,
    at          timestamptz NOT NULL,  -- capture time of the frame
    source      text NOT NULL,
    kind        text NOT NULL,         -- event (a step of a track) or analytics
    type        text NOT NULL,         -- new, update, end; zone_entered, line_crossed and so on
    name        text,                  -- zone, line or direction
    side        text,                  -- left or right, for line_crossed
    track       text,                  -- identity of the track
    label       text,
    count       integer,               -- objects in a zone, for overcrowding
    duration_ms bigint,
    late_ms     bigint,                -- null: sent within 2 s
    body        jsonb NOT NULL,        -- the whole message
    PRIMARY KEY (device, spool, seq, at)
) PARTITION BY RANGE (at);

-- Updates are most rows and no condition of the usual questions.
CREATE INDEX IF NOT EXISTS event_by_source ON event (device, source, at) WHERE type <> 'update';

-- Days without a partition of their own: messages of boxes whose clock is wrong.
CREATE TABLE IF NOT EXISTS event_other PARTITION OF event DEFAULT;

-- Counts per hour, written in the same transaction as the rows that they count. No updates of tracks.
CREATE TABLE IF NOT EXISTS hourly (
    hour        timestamptz NOT NULL,
    device      text NOT NULL,
    source      text NOT NULL,
    type        text NOT NULL,
    name        text NOT NULL,         -- '' where the event has none; the same for side and label
    side        text NOT NULL,
    label       text NOT NULL,
    events      bigint NOT NULL,
    duration_ms numeric NOT NULL,      -- sum: of visits for zone_left, of tracks for end
    PRIMARY KEY (hour, device, source, type, name, side, label)
);

-- Numbers that will not arrive, as the box says.
CREATE TABLE IF NOT EXISTS gap (
    device    text NOT NULL,
    spool     text NOT NULL,
    first_seq bigint NOT NULL,
    last_seq  bigint NOT NULL,
    at        timestamptz NOT NULL,
    messages  bigint NOT NULL,
    updates   bigint NOT NULL,         -- updates of tracks among them
    reason    text NOT NULL,
    PRIMARY KEY (device, spool, first_seq, last_seq, at)
);

-- Messages that are none of the above, so that one of them does not stop all others.
CREATE TABLE IF NOT EXISTS rejected (
    received_at timestamptz NOT NULL DEFAULT now(),
    topic       text NOT NULL,
    payload     bytea NOT NULL,
    error       text NOT NULL
);

-- Makes the partition of a day (UTC), with the rows of that day that are in event_other.
CREATE OR REPLACE FUNCTION event_partition(day date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    part text := 'event_' || to_char(day, 'YYYYMMDD');
    since timestamptz := day::timestamp AT TIME ZONE 'UTC';
    until timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
BEGIN
    IF to_regclass(part) IS NOT NULL THEN
        RETURN;
    END IF;
    LOCK TABLE event_other IN ACCESS EXCLUSIVE MODE;
    IF to_regclass(part) IS NOT NULL THEN
        RETURN;  -- another consumer was faster
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE event INCLUDING ALL)', part);
    EXECUTE format('WITH moved AS (DELETE FROM event_other WHERE at >= %L AND at < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
                   since, until, part);
    EXECUTE format('ALTER TABLE event ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', part, since, until);
END $$;

-- Partitions from as long ago as a spool keeps messages (max_age, 7 days) until the day after tomorrow.
-- Days that are older than keep_days are dropped; null keeps all. Call it once an hour: consumer.py does.
CREATE OR REPLACE FUNCTION event_partitions(keep_days integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    today date := (now() AT TIME ZONE 'UTC')::date;
    part text;
BEGIN
    FOR day IN -7..2 LOOP
        IF keep_days IS NULL OR -day <= keep_days THEN
            PERFORM event_partition(today + day);
        END IF;
    END LOOP;
    FOR part IN SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'event'::regclass LOOP
        IF part ~ '^event_\d{8}$' AND to_date(right(part, 8), 'YYYYMMDD') < today - keep_days THEN
            EXECUTE format('DROP TABLE %I', part);
        END IF;
    END LOOP;
END $$;

COMMIT;
