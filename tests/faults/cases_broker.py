# SPDX-License-Identifier: Apache-2.0
"""Kills of the daemon and of the broker, outages, and brokers with faults."""
import random
import signal
import time

import broker
from fault_site import Site
from ledger import Loss


def daemon_kills(binary, count):
    """kill -9 of the daemon under load; each third time the broker is away."""
    with Site(binary) as site:
        site.start_broker()
        for number in range(count):
            site.start_daemon()
            site.wait_for_events(random.randint(20, 200))
            if number % 3 == 1:
                site.kill_broker()
                site.wait_for_events(50)
            site.stop_daemon(signal.SIGKILL)
            if site.broker.poll() is not None:
                site.start_broker()
        site.start_daemon()
        site.wait_for_events(20)
        site.stop_daemon()
        return site.check()


def broker_kills(binary, count):
    """kill -9 of the broker, which is back soon."""
    with Site(binary) as site:
        site.start_broker()
        site.start_daemon()
        for _ in range(count):
            site.wait_for_events(random.randint(5, 60))
            site.kill_broker()
            time.sleep(random.uniform(0, 0.5))
            site.start_broker()
        site.wait_for_events(50)
        result = site.check(so_far=True)
        site.stop_daemon()
        return result


def outages(binary, count):
    """The broker is away for longer than the memory queue, or hangs."""
    with Site(binary, durability="outage", sync_ms=200) as site:
        site.start_broker()
        site.start_daemon()
        for number in range(count):
            site.wait_for_events(50)
            if number % 2:
                site.broker.send_signal(signal.SIGSTOP)
                site.wait_for_events(1000)
                site.broker.send_signal(signal.SIGCONT)
            else:
                site.kill_broker()
                site.wait_for_events(1500)
                site.start_broker()
            site.check(so_far=True)
        site.stop_daemon()
        return site.check()


def stopped_broker(binary, _):
    """The broker hangs when the daemon is stopped; the next start has one that works."""
    with Site(binary) as site:
        site.start_broker()
        site.start_daemon()
        site.wait_for_events(100)
        site.broker.send_signal(signal.SIGSTOP)
        site.wait_for_events(300)
        seconds = site.stop_daemon()
        site.broker.send_signal(signal.SIGCONT)
        site.lose_runtime()
        site.start_daemon()
        site.wait_for_events(20)
        site.stop_daemon()
        return f"{site.check()}; the stop took {seconds:.1f} s"


def faulty_brokers(binary, count):
    """`count` brokers with a fault, the modes of broker.py in turn; the daemon is stopped with each, and then one works."""
    modes = [mode for mode in broker.MODES if mode != "good"]
    stops = {}
    with Site(binary) as site:
        for number in range(count):
            mode = modes[number % len(modes)]
            site.start_broker(mode)
            site.start_daemon()
            site.wait_for_events(random.randint(300, 600))
            if number // len(modes) % 2:
                # Longer than the time after which an acknowledgement is overdue.
                time.sleep(random.uniform(6, 8))
            stops[mode] = max(stops.get(mode, 0), site.stop_daemon())
            site.kill_broker()
            site.drain()
            site.kill_broker()
        slowest = max(stops, key=stops.get)
        return f"{site.check()}; {len(stops)} faults; the slowest stop took {stops[slowest]:.1f} s, with {slowest}"


def refusing_brokers(binary, count):
    """A broker that refuses messages for now, as with a queue that is full; the daemon is stopped with it, and then one works."""
    with Site(binary) as site:
        for number in range(count):
            mode = list(broker.REFUSALS)[number % 2]
            # Those on their way with a refused one may go before it.
            site.ledger.is_ordered = site.ledger.is_ordered and mode == "full"
            site.start_broker(mode)
            site.start_daemon()
            site.wait_for_events(random.randint(300, 900))
            site.stop_daemon()
            site.kill_broker()
            site.drain()
            site.kill_broker()
        refused = site.log().count("refuses messages for now")
        if refused < count:
            raise Loss(f"the daemon met {refused} refusals, expected {count} or more")
        return f"{site.check()}; {refused} refusals in the log"
