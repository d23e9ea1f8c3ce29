#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the events of all boxes into PostgreSQL: none lost, none twice.

    consumer.py --broker mqtt://node1 --broker mqtt://node2 --database 'host=db dbname=fleet user=consumer'

- The broker keeps the session while this program is away (SESSION_S), so that nothing is missed.
- A message is acknowledged only once the transaction that holds it is committed. What was not acknowledged is sent again.
- The key (device, spool, seq, at) of the table ignores what arrives twice. Counts per hour are in the same transaction.
- While the database is away, nothing is acknowledged: messages wait at the broker.
- A message that is not jetwatch's is kept in the table `rejected` and acknowledged.

One program for one client id. To divide the work, start several with another --client-id and other --topic filters each.
The password of the broker is in the variable MQTT_PASSWORD, that of the database in PGPASSWORD or ~/.pgpass. SIGTERM ends it after the
transaction under way. Needs requirements.txt and the tables of schema.sql.
"""
import argparse
import json
import logging
import os
import select
import signal
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
import psycopg
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties, VariableByteIntegers

SESSION_S = 7 * 24 * 3600
KEEP_ALIVE_S = 60
TOPICS = ["jetwatch/+/+/events", "jetwatch/+/+/analytics", "jetwatch/+/gap"]
COLUMNS = "device, spool, seq, at, source, kind, type, name, side, track, label, count, duration_ms, late_ms, body"
INCOMING = "CREATE TEMPORARY TABLE IF NOT EXISTS incoming (LIKE event) ON COMMIT DELETE ROWS"
# Counts only rows that are new. Sorted, so that two consumers lock the rows of `hourly` in the same order.
STORE = f"""
WITH fresh AS (
    INSERT INTO event ({COLUMNS}) SELECT {COLUMNS} FROM incoming ON CONFLICT DO NOTHING
    RETURNING at, device, source, type, name, side, label, duration_ms
), counted AS (
    INSERT INTO hourly
    SELECT date_trunc('hour', at, 'UTC') AS hour, device, source, type, coalesce(name, '') AS name, coalesce(side, '') AS side,
        coalesce(label, '') AS label, count(*), coalesce(sum(duration_ms), 0)
    FROM fresh WHERE type <> 'update' GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 1, 2, 3, 4, 5, 6, 7
    ON CONFLICT (hour, device, source, type, name, side, label) DO UPDATE
    SET events = hourly.events + excluded.events, duration_ms = hourly.duration_ms + excluded.duration_ms
)
SELECT count(*) FROM fresh"""
GAP = "INSERT INTO gap VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
REJECTED = "INSERT INTO rejected (topic, payload, error) VALUES (%s, %s, %s)"


def row(payload):
    """The row of a message, and whether it is a gap. KeyError, TypeError or ValueError: it is not jetwatch's."""
    body = json.loads(payload)

    def text(key, is_optional=False):
        value = body.get(key) if is_optional else body[key]
        if not isinstance(value, str) and not (value is None and is_optional):
            raise ValueError(f"{key} is {value!r}, a text was expected")
        return value

    def number(key, is_optional=False):
        value = body.get(key) if is_optional else body[key]
        return None if value is None and is_optional else int(value)

    kind = text("kind")
    if kind == "gap":
        return True, (text("device"), text("spool"), number("from"), number("to"), text("at"), number("messages"), number("updates"), text("reason"))
    if kind not in ("event", "analytics"):
        raise ValueError(f"kind {kind!r}")
    return False, (text("device"), text("spool"), number("seq"), text("frame_at" if kind == "event" else "at"), text("source"), kind, text("type"),
                   text("name", True), text("to", True), text("id", True), text("label", True), number("count", True),
                   number("duration_ms", True), number("late_ms", True), payload.decode())


class Database:
    """A connection that is opened again until it works."""

    def __init__(self, target, keep_days, stopping):
        self.target, self.keep_days, self.stopping, self.connection, self.next_partitions = target, keep_days, stopping, None, 0

    def store(self, messages):
        """Commits all messages; returns how many rows are new, or None if this program is to stop before that."""
        while not self.stopping.is_set():
            try:
                if self.connection is None:
                    self.connection = psycopg.connect(self.target, autocommit=True)
                    self.connection.execute(INCOMING)
                if time.monotonic() >= self.next_partitions:
                    self.connection.execute("SELECT event_partitions(%s)", [self.keep_days])
                    self.next_partitions = time.monotonic() + 3600
                return self.store_rows(messages)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                logging.warning("database: %s; the next try is in 1 s", str(error).strip())
                if self.connection:
                    self.connection.close()
                self.connection = None
                self.stopping.wait(1)
        return None

    def store_rows(self, messages):
        try:
            return self.transaction(messages)
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            # PostgreSQL refuses one of them, such as a text with a zero byte: find it, and keep it apart.
            if len(messages) == 1:
                self.connection.execute(REJECTED, (messages[0].topic, messages[0].payload, str(error)))
                return 0
            middle = len(messages) // 2
            return self.store_rows(messages[:middle]) + self.store_rows(messages[middle:])

    def transaction(self, messages):
        with self.connection.transaction(), self.connection.cursor() as cursor:
            with cursor.copy(f"COPY incoming ({COLUMNS}) FROM STDIN") as copy:
                gaps, rejected = [], []
                for message in messages:
                    try:
                        is_gap, values = row(message.payload)
                    except (KeyError, TypeError, ValueError, AttributeError) as error:
                        rejected.append((message.topic, message.payload, repr(error)))
                        continue
                    if is_gap:
                        gaps.append(values)
                    else:
                        copy.write_row(values)
            new = cursor.execute(STORE).fetchone()[0]
            if gaps:
                cursor.executemany(GAP, gaps)
            if rejected:
                cursor.executemany(REJECTED, rejected)
        return new


class Skipped(Properties):
    """The properties of a received message, which nothing here needs. paho makes a table of all that exist for each: half of its time."""

    def __init__(self, packet_type):
        if packet_type == PacketTypes.PUBLISH:
            self.packetType = packet_type
        else:
            super().__init__(packet_type)

    def unpack(self, buffer):
        if self.packetType != PacketTypes.PUBLISH:
            return super().unpack(buffer)
        length, size = VariableByteIntegers.decode(buffer)
        return self, length + size

    def __str__(self):
        return "not read" if self.packetType == PacketTypes.PUBLISH else super().__str__()


mqtt.Properties = Skipped


class Connection:
    """One MQTT connection. Packet identifiers are worth nothing after its end, so each connection has a client of its own.

    It has no thread: messages are read when a batch is wanted. So a database that is away for longer than KEEP_ALIVE_S ends it.
    """

    def __init__(self, broker, options):
        self.messages, self.ended = [], None
        is_5 = options.mqtt == "5"
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=options.client_id, manual_ack=True,
                                  **({"protocol": mqtt.MQTTv5} if is_5 else {"protocol": mqtt.MQTTv311, "clean_session": False}))
        self.topics = [(topic, 1) for topic in options.topic or TOPICS]
        self.client.on_connect, self.client.on_disconnect = self.on_connect, self.on_disconnect
        self.client.on_subscribe, self.client.on_message = self.on_subscribe, self.on_message
        url = urlsplit(broker)
        if url.scheme == "mqtts":
            self.client.tls_set_context(ssl.create_default_context(cafile=options.ca_file))
        if options.user:
            self.client.username_pw_set(options.user, os.environ.get("MQTT_PASSWORD"))
        more = {}
        if is_5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = SESSION_S
            properties.ReceiveMaximum = 4 * options.batch
            more = {"clean_start": False, "properties": properties}
        self.client.connect(url.hostname, url.port or (8883 if url.scheme == "mqtts" else 1883), keepalive=KEEP_ALIVE_S, **more)

    def on_connect(self, client, _data, flags, reason, _properties):
        if reason.is_failure:
            self.ended = f"refused: {reason}"
        else:
            logging.info("connected; the broker %s", "has kept the session" if flags.session_present else "begins a new session")
            client.subscribe(self.topics)

    def on_subscribe(self, _client, _data, _id, reasons, _properties):
        if refused := [str(reason) for reason in reasons if reason.is_failure]:
            self.ended = f"a subscription was refused: {refused}"
        else:
            logging.info("subscribed")

    def on_disconnect(self, _client, _data, _flags, reason, _properties):
        self.ended = self.ended or f"the connection has ended: {reason}"

    def on_message(self, _client, _data, message):
        self.messages.append(message)

    def take(self, count, seconds):
        """Waits for `count` messages, for the end, or for so long; the messages."""
        until = time.monotonic() + seconds
        while len(self.messages) < count and not self.ended:
            known = len(self.messages)
            self.client.loop_read()
            if len(self.messages) == known and not self.ended:
                # Nothing is there to read.
                if (rest := until - time.monotonic()) <= 0:
                    break
                socket = self.client.socket()
                select.select([socket], [socket] if self.client.want_write() else [], [], rest)
                self.client.loop_write()
            self.client.loop_misc()
        taken, self.messages = self.messages, []
        return taken

    def acknowledge(self, messages):
        for message in messages:
            self.client.ack(message.mid, message.qos)
        self.client.loop_write()

    def close(self):
        self.client.disconnect()


def consume(connection, database, options, stopping):
    """Until the connection ends or this program is to stop. While a batch is stored, the next one is read."""
    rows = repeats = 0
    under_way, since = None, time.monotonic()
    with ThreadPoolExecutor(1) as storing:
        while under_way or not (stopping.is_set() or connection.ended):
            is_ending = stopping.is_set() or connection.ended
            messages = [] if is_ending else connection.take(options.batch, options.wait_s)
            if under_way:
                stored, new = under_way[0], under_way[1].result()
                if new is None:
                    break
                connection.acknowledge(stored)
                rows, repeats = rows + new, repeats + len(stored) - new
            under_way = (messages, storing.submit(database.store, messages)) if messages else None
            if (seconds := time.monotonic() - since) >= 10:
                logging.info("%d new rows, %d other messages, %.0f messages/s", rows, repeats, (rows + repeats) / seconds)
                rows, repeats, since = 0, 0, time.monotonic()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", action="append", required=True, help="mqtt://HOST[:PORT] or mqtts://…; several: tried in turn")
    parser.add_argument("--database", default="", help="connection string of libpq; default: PGHOST, PGDATABASE and so on")
    parser.add_argument("--client-id", default="fleet-consumer")
    parser.add_argument("--user", help="of the broker")
    parser.add_argument("--ca-file", help="for mqtts://; default: the system's authorities")
    parser.add_argument("--topic", action="append", help=f"topic filter; default: {' '.join(TOPICS)}")
    parser.add_argument("--mqtt", choices=["5", "3.1.1"], default="5", help="3.1.1 for NATS")
    parser.add_argument("--batch", type=int, default=1000, help="messages of a transaction, at most")
    parser.add_argument("--wait-s", type=float, default=0.2, help="time that a smaller batch waits for more")
    parser.add_argument("--keep-days", type=int, help="older days are dropped; default: none")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    database = Database(options.database, options.keep_days, stopping)
    database.store([])
    turn = 0
    while not stopping.is_set():
        broker = options.broker[turn % len(options.broker)]
        try:
            connection = Connection(broker, options)
            consume(connection, database, options, stopping)
            connection.close()
            problem = connection.ended or "stopped"
        except (OSError, ValueError) as error:
            problem = error
        if not stopping.is_set():
            logging.warning("%s: %s", broker, problem)
            stopping.wait(0.5)
        turn += 1


if __name__ == "__main__":
    main()
