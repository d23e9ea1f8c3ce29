#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""TLS in front of a server of the tests that knows none: tls_front.py PEM PORT, a file with certificate and key, and the server's port.

Prints `ready PORT` when it listens. Ends with its standard input, so that it never outlives a test.
"""
import asyncio
import os
import ssl
import sys

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()


async def serve(reader, writer):
    server_reader, server_writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    await asyncio.gather(copy(reader, server_writer), copy(server_reader, writer))


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    print("ready", server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)


asyncio.run(main())
