# SPDX-License-Identifier: Apache-2.0
"""Serves a folder by HTTPS: `https_server.py FOLDER CERTIFICATE KEY`. For tests/update/checks.py; runs on the box."""
import functools
import http.server
import ssl
import sys

folder, certificate, key = sys.argv[1:]
server = http.server.ThreadingHTTPServer(("127.0.0.1", 443), functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
