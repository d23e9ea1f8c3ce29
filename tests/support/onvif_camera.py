# SPDX-License-Identifier: Apache-2.0
"""A camera's ONVIF services, as far as clients ask for streams and motion: a double of the cameras that no test machine has.

Follows ONVIF's Core, Media, Media2 and Event specifications, WS-Security's UsernameToken and RFC 7616, and has the faults that users of
other clients reported. The argument is JSON: which of these it has, and `certificate`, a file with its key, for TLS. Prints its port, then a line for each request: operation and status.
A line of the input is `true` or `false`, what it sees from then on, or `reboot`, after which it knows no subscription.
"""
import base64
import calendar
import hashlib
import http.server
import json
import ssl
import sys
import threading
import time
import xml.etree.ElementTree as tree

USER, PASSWORD = "admin", "p<&>ss"
ENVELOPE = "http://www.w3.org/2003/05/soap-envelope"
DEVICE = "http://www.onvif.org/ver10/device/wsdl"
MEDIA = "http://www.onvif.org/ver10/media/wsdl"
MEDIA2 = "http://www.onvif.org/ver20/media/wsdl"
EVENTS = "http://www.onvif.org/ver10/events/wsdl"
NOTIFICATION = "http://docs.oasis-open.org/wsn/b-2"
ADDRESSING = "http://www.w3.org/2005/08/addressing"
SCHEMA = "http://www.onvif.org/ver10/schema"
options = json.loads(sys.argv[1])
NONCES = {}
# Messages that wait, by the number of the subscription.
SUBSCRIPTIONS = {}
CHANGED = threading.Condition()
SEEN = ["false"]


def fault(code, subcode, reason):
    return (
        f'<s:Fault><s:Code><s:Value>s:{code}</s:Value><s:Subcode><s:Value>ter:{subcode}</s:Value></s:Subcode></s:Code>'
        f'<s:Reason><s:Text xml:lang="en">{reason}</s:Text></s:Reason></s:Fault>'
    )


def digest_header(algorithm):
    nonce = f"n-{len(NONCES)}"
    NONCES[nonce] = 0
    return f'Digest realm="Login to A1", qop="auth", nonce="{nonce}", opaque="", algorithm={algorithm}, stale="false"'


def has_digest(header, path):
    """Whether this is the answer to a challenge of this camera (RFC 7616, 3.4.1), with a count that rises."""
    if not header.startswith("Digest "):
        return False
    values = {}
    for part in header[7:].split(", "):
        name, value = part.split("=", 1)
        values[name] = value.strip('"')
    hashed = {"MD5": hashlib.md5, "SHA-256": hashlib.sha256}[values["algorithm"]]
    digest = lambda text: hashed(text.encode()).hexdigest()
    who = digest(f'{values["username"]}:{values["realm"]}:{PASSWORD}')
    what = digest(f"POST:{path}")
    wanted = digest(f'{who}:{values["nonce"]}:{values["nc"]}:{values["cnonce"]}:{values["qop"]}:{what}')
    rises = int(values["nc"], 16) > NONCES.get(values["nonce"], sys.maxsize)
    NONCES[values["nonce"]] = int(values["nc"], 16)
    return rises and values["username"] == USER and values["uri"] == path and values["response"] == wanted


def has_token(message):
    """Whether the message has a user name token (WS-Security 1.0) of this camera's time."""
    found = {part.tag.split("}")[1]: part.text for part in message.iter() if "}" in part.tag}
    if found.get("Username") != USER:
        return False
    nonce, created = base64.b64decode(found["Nonce"]), found["Created"]
    wanted = hashlib.sha1(nonce + created.encode() + PASSWORD.encode()).digest()
    stamp = calendar.timegm(time.strptime(created[:19], "%Y-%m-%dT%H:%M:%S"))
    in_time = abs(stamp - now()) < 60
    return in_time and found["Password"] == base64.b64encode(wanted).decode()


def now():
    return time.time() + options.get("ahead_s", 0)


def profile_media(token, name, codec, size, rate, interval, sound):
    """A profile of the older service."""
    encoder = (
        f'<tt:VideoEncoderConfiguration token="e"><tt:Name>e</tt:Name><tt:Encoding>{codec}</tt:Encoding><tt:Resolution>'
        f"<tt:Width>{size[0]}</tt:Width><tt:Height>{size[1]}</tt:Height></tt:Resolution><tt:RateControl><tt:FrameRateLimit>{rate}"
        f"</tt:FrameRateLimit></tt:RateControl><tt:H264><tt:GovLength>{interval}</tt:GovLength></tt:H264></tt:VideoEncoderConfiguration>"
    )
    audio = '<tt:AudioEncoderConfiguration token="a"><tt:Encoding>AAC</tt:Encoding></tt:AudioEncoderConfiguration>' if sound else ""
    source = "<tt:VideoSourceConfiguration><tt:SourceToken>v1</tt:SourceToken></tt:VideoSourceConfiguration>"
    return f'<trt:Profiles token="{token}" fixed="true"><tt:Name>{name}</tt:Name>{source}{encoder if codec else ""}{audio}</trt:Profiles>'


def profile_media2(token, name, codec, size, rate, interval, sound):
    """The same of the newer one."""
    encoder = (
        f'<tr2:VideoEncoder token="e" GovLength="{interval}"><tt:Encoding>{codec}</tt:Encoding><tt:Resolution><tt:Width>{size[0]}</tt:Width>'
        f"<tt:Height>{size[1]}</tt:Height></tt:Resolution><tt:RateControl><tt:FrameRateLimit>{rate}</tt:FrameRateLimit></tt:RateControl>"
        "</tr2:VideoEncoder>"
    )
    audio = '<tr2:AudioEncoder token="a"><tt:Encoding>MP4A-LATM</tt:Encoding></tr2:AudioEncoder>' if sound else ""
    source = "<tr2:VideoSource><tt:SourceToken>v1</tt:SourceToken></tr2:VideoSource>"
    parts = f'<tr2:Configurations>{source}{encoder if codec else ""}{audio}</tr2:Configurations>'
    return f'<tr2:Profiles token="{token}"><tr2:Name>{name}</tr2:Name>{parts}</tr2:Profiles>'


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now() + seconds))


def notification(operation, value):
    """A message about motion, and one about something else."""
    topic, name = options.get("topic", ["tns1:VideoSource/MotionAlarm", "State"])
    return "".join(
        f'<wsnt:NotificationMessage><wsnt:Topic Dialect="d">{topic}</wsnt:Topic><wsnt:Message><tt:Message UtcTime="{stamp(0)}" '
        f'PropertyOperation="{operation}"><tt:Source><tt:SimpleItem Name="Source" Value="{source}"/></tt:Source><tt:Data>'
        f'<tt:SimpleItem Name="{name}" Value="{value}"/></tt:Data></tt:Message></wsnt:Message></wsnt:NotificationMessage>'
        for topic, name, source in [("tns1:Device/tnsx:Logs", "State", "v1"), (topic, name, "v1")]
    )


def follow_input():
    for line in sys.stdin:
        with CHANGED:
            if line.strip() == "reboot":
                SUBSCRIPTIONS.clear()
            else:
                SEEN[0] = line.strip()
                for waiting in SUBSCRIPTIONS.values():
                    waiting.append(notification("Changed", SEEN[0]))
            CHANGED.notify_all()


PROFILES = [
    ("sub&1", "subStream", "H264", (640, 360), 15, 30, False),
    ("main", "mainStream", "H265", (2560, 1440), 25, 50, True),
    ("sound", "sound alone", "", (0, 0), 0, 0, True),
]


class Camera(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        message = tree.fromstring(body)
        request = message.find(f"{{{ENVELOPE}}}Body")[0]
        namespace, operation = request.tag[1:].split("}")
        status, headers, answer = self.answer(message, namespace, operation, request)
        print(f"{namespace.split('/')[3]} {operation} {status}", flush=True)
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Type", "application/soap+xml; charset=utf-8")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def answer(self, message, namespace, operation, request):
        login = options.get("login")
        is_open = operation == "GetSystemDateAndTime" and not options.get("login_for_time")
        if login and not is_open:
            authorization = self.headers.get("Authorization", "")
            offers = {"digest": ["MD5"], "sha256": ["SHA-256"], "both": ["MD5", "SHA-256"]}.get(login)
            if login == "token" and not has_token(message):
                status = options.get("refusal_status", 400)
                return self.envelope(status, fault("Sender", options.get("refusal", "NotAuthorized"), options.get("refusal_text", "Refused")))
            if offers and not (any(offer in authorization for offer in offers) and has_digest(authorization, self.path)):
                return 401, [("WWW-Authenticate", digest_header(offer)) for offer in offers], b""
            if login == "basic" and authorization != "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode():
                return 401, [("WWW-Authenticate", 'Basic realm="gSOAP Web Service"')], b""
        if namespace in (EVENTS, NOTIFICATION):
            return self.envelope(*self.events(message, operation, request))
        if operation in options.get("garbage", []):
            return 200, [], b"<html><body>It works!</body>"
        if operation in options.get("unsupported", []) or f"{namespace} {operation}" in options.get("unsupported", []):
            return self.envelope(500, fault("Receiver", "ActionNotSupported", "Optional Action Not Implemented"))
        return self.envelope(200, getattr(self, operation)(namespace, request))

    def envelope(self, status, body):
        text = (
            f'\n<?xml version="1.0" encoding="utf-8"?><s:Envelope xmlns:s="{ENVELOPE}" xmlns:tt="{SCHEMA}" xmlns:tds="{DEVICE}" '
            f'xmlns:trt="{MEDIA}" xmlns:tr2="{MEDIA2}" xmlns:tev="{EVENTS}" xmlns:wsnt="{NOTIFICATION}" xmlns:a="{ADDRESSING}" '
            f'xmlns:ter="http://www.onvif.org/ver10/error"><s:Body>{body}</s:Body></s:Envelope>\n'
        )
        # Some cameras begin with a line break, which XML does not allow.
        return status, [], text.encode() if options.get("line_break") else text.encode().lstrip()

    def events(self, message, operation, request):
        """Status and body of the answer to a request for events."""
        parts = {part.tag.split("}")[1]: (part.text or "").strip() for part in message.iter()}
        times = f"<wsnt:CurrentTime>{stamp(0)}</wsnt:CurrentTime><wsnt:TerminationTime>{stamp(options.get('lease_s', 60))}</wsnt:TerminationTime>"
        if operation == "CreatePullPointSubscription":
            has_time = "InitialTerminationTime" in parts
            if options.get("time") == (not has_time):
                return 500, fault("Receiver", "InvalidArgs", "the time")
            with CHANGED:
                if len(SUBSCRIPTIONS) >= options.get("places", 1):
                    return 500, fault("Receiver", "MaxNotifyReached", "no place")
                number = options.get("number", 0) + 1
                options["number"] = number
                SUBSCRIPTIONS[number] = [notification("Initialized", SEEN[0])]
            given = options.get("event_address", "http://127.0.0.1:{port}/sub?{number}").format(port=self.server.server_address[1], number=number)
            options["given"] = given
            own = f'<a:ReferenceParameters><x:Id xmlns:x="http://maker/event">{number}</x:Id></a:ReferenceParameters>'
            said = f"<tev:SubscriptionReference><a:Address>\n{given}</a:Address>{own}</tev:SubscriptionReference>{times}"
            return 200, f"<tev:CreatePullPointSubscriptionResponse>{said}</tev:CreatePullPointSubscriptionResponse>"
        number = int(parts.get("Id") or 0)
        is_addressed = parts.get("To") == options["given"] and parts.get("Action", "").endswith(f"/{operation}Request")
        if number not in SUBSCRIPTIONS or not is_addressed:
            return 500, fault("Sender", "ResourceUnknownFault", "no such subscription")
        if operation == "Unsubscribe":
            del SUBSCRIPTIONS[number]
            return 200, "<wsnt:UnsubscribeResponse/>"
        if operation == "Renew":
            if options.get("renew") == "none" or (options.get("renew") == "absolute" and parts["TerminationTime"].startswith("P")):
                return 500, fault("Sender", "InvalidArgs", "the time")
            return 200, f"<wsnt:RenewResponse>{times}</wsnt:RenewResponse>"
        with CHANGED:
            if not options.get("at_once"):
                CHANGED.wait_for(lambda: SUBSCRIPTIONS.get(number, [1]), timeout=float(parts["Timeout"][2:-1]))
            said = "".join(SUBSCRIPTIONS.get(number, []))
            if number in SUBSCRIPTIONS:
                SUBSCRIPTIONS[number] = []
        return 200, f"<tev:PullMessagesResponse>{times}{said}</tev:PullMessagesResponse>"

    def address(self):
        host = options.get("service_host", "127.0.0.1:{port}").format(port=self.server.server_address[1])
        return f"http://{host}/onvif/media"

    def GetSystemDateAndTime(self, *_):
        stamp = time.gmtime(now())
        clock = f"<tt:Time><tt:Hour>{stamp.tm_hour}</tt:Hour><tt:Minute>{stamp.tm_min}</tt:Minute><tt:Second>{stamp.tm_sec}</tt:Second></tt:Time>"
        date = f"<tt:Date><tt:Year>{stamp.tm_year}</tt:Year><tt:Month>{stamp.tm_mon}</tt:Month><tt:Day>{stamp.tm_mday}</tt:Day></tt:Date>"
        local = "<tt:LocalDateTime><tt:Time><tt:Hour>1</tt:Hour><tt:Minute>1</tt:Minute><tt:Second>1</tt:Second></tt:Time></tt:LocalDateTime>"
        said = f"<tt:UTCDateTime>{clock}{date}</tt:UTCDateTime>{local}"
        return f"<tds:GetSystemDateAndTimeResponse><tds:SystemDateAndTime>{said}</tds:SystemDateAndTime></tds:GetSystemDateAndTimeResponse>"

    def GetServices(self, *_):
        spaces = [DEVICE] + [{"1": MEDIA, "2": MEDIA2}[kind] for kind in options.get("media", "12")]
        spaces += [] if options.get("no_events") else [EVENTS]
        services = "".join(
            f"<tds:Service><tds:Namespace>{space}</tds:Namespace><tds:XAddr>{self.address()}</tds:XAddr></tds:Service>" for space in spaces
        )
        return f"<tds:GetServicesResponse>{services}</tds:GetServicesResponse>"

    def GetCapabilities(self, *_):
        media = f"<tt:Media><tt:XAddr>{self.address()}</tt:XAddr></tt:Media>"
        media += f"<tt:Events><tt:XAddr>{self.address()}</tt:XAddr></tt:Events>"
        return f"<tds:GetCapabilitiesResponse><tds:Capabilities>{media}</tds:Capabilities></tds:GetCapabilitiesResponse>"

    def GetDeviceInformation(self, *_):
        said = "<tds:Manufacturer>Maker</tds:Manufacturer><tds:Model>A1 Dome</tds:Model><tds:FirmwareVersion>V5.5</tds:FirmwareVersion>"
        return f"<tds:GetDeviceInformationResponse>{said}</tds:GetDeviceInformationResponse>"

    def GetProfiles(self, namespace, _):
        if namespace == MEDIA2:
            return "<tr2:GetProfilesResponse>" + "".join(profile_media2(*it).replace("&", "&amp;") for it in PROFILES) + "</tr2:GetProfilesResponse>"
        # The older service cannot name H.265.
        named = [(token, name, codec.replace("H265", "H264"), *rest) for token, name, codec, *rest in PROFILES]
        return "<trt:GetProfilesResponse>" + "".join(profile_media(*it).replace("&", "&amp;") for it in named) + "</trt:GetProfilesResponse>"

    def GetStreamUri(self, namespace, request):
        token = next(part.text for part in request.iter() if part.tag.endswith("ProfileToken"))
        if token not in [profile[0] for profile in PROFILES]:
            return fault("Sender", "NoProfile", f"no profile {token}")
        host = options.get("stream_host", "127.0.0.1:8554")
        uri = "" if options.get("no_uri") else f"rtsp://{host}/{token[:4]}?channel=1&subtype={len(token)}".replace("&", "&amp;")
        if namespace == MEDIA2:
            return f"<tr2:GetStreamUriResponse><tr2:Uri>{uri}</tr2:Uri></tr2:GetStreamUriResponse>"
        return f"<trt:GetStreamUriResponse><trt:MediaUri><tt:Uri> {uri}\n</tt:Uri></trt:MediaUri></trt:GetStreamUriResponse>"


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Camera)
if "certificate" in options:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options["certificate"])
    # The handshake is made by the thread of the connection: who does not trust the certificate ends that connection only.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_address[1], flush=True)
threading.Thread(target=follow_input, daemon=True).start()
server.serve_forever()
