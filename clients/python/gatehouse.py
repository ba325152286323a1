"""Gatehouse for Python: ask before an agent acts, and record what it did.

One file on the standard library, for Python 3.9 and later: copy it beside your program.

    gh = Gatehouse("http://127.0.0.1:8080", key, agent="support-bot")

    @gh.guard("refund")
    def refund(order, amount): ...

    with gh.trace("run-1"):
        refund(order=7, amount=20)      # raises Blocked, and then has not run
        gh.record("completion", {"response": text, "tokens_used": 42})
    gh.flush()

A decision is never queued or dropped: it is made now, or it is not there, and then a guard blocks unless it was made
with ``on_unavailable="allow"``. What JSON has no form for is never judged and never run: ``NotJson``. A guarded
function gets a copy of its arguments, which is what was judged. Records are text from the moment at which they are
made, wait in a bounded queue and are sent by a daemon thread. Every wait has an end: times are seconds, for the whole
of a call and not for one read. The key is sent to ``url`` and nowhere else: no redirect is followed, no proxy is asked.
"""

import atexit
import collections
import contextlib
import contextvars
import copy
import dataclasses
import datetime
import decimal
import email.utils
import enum
import functools
import http.client
import inspect
import io
import ipaddress
import json
import math
import os
import pathlib
import random
import socket
import ssl
import sys
import threading
import time
import types
import urllib.parse
import uuid
import weakref

__all__ = [
    "Gatehouse", "Decision", "JsonText", "GatehouseError", "Blocked", "ApprovalPending", "ApprovalDenied",
    "Unavailable", "NotJson", "ApiError",
]

_MAY_SUCCEED_LATER = frozenset((429, 502, 503, 504))
_PAUSE, _PAUSE_MAX = 0.1, 2.0
_RETRY_AFTER_MAX = 60.0  # a service that wants more is asked so often nevertheless: nothing else says that it is back
_BATCH_EVENTS, _BATCH_BYTES, _LINGER = 100, 4 * 1024 * 1024, 1.0  # half the bytes that a service takes
_EVENTS_MAX, _BYTES_MAX = 1_000, 16 * 1024 * 1024
_TEXT_MAX = 4 * 1024 * 1024  # characters and values of an event: the service takes 1 MiB, unless it is set otherwise
_ANSWER_MAX = 32 * 1024 * 1024  # the largest batch comes back twice at most, as sent and redacted
_ATTEMPT = 2.0
_IDLE = 5.0  # a thread without records ends
_WAIT_A_CALL = 30
_APART_MAX, _LONG_WAITS_MAX = 64, 32  # threads that coroutines wait for; of them those that wait for approvals
_SECONDS_MAX = 365 * 86_400.0  # as long as every system can wait
_DECISION = "gatehouse.decision.id"
_TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")

_trace = contextvars.ContextVar("gatehouse_trace", default=None)
_clients = weakref.WeakSet()


class GatehouseError(Exception):
    """What this module raises."""


class Blocked(GatehouseError):
    """A policy blocks it. It was recorded, and must not be done."""

    def __init__(self, decision):
        super().__init__(decision.reason or "Blocked.")
        self.decision = decision
        self.event_id = decision.event_id


class ApprovalPending(Blocked):
    """Nobody has decided its approval in the time that it was waited for."""


class ApprovalDenied(Blocked):
    """Its approval was denied, or not given in time."""


class Unavailable(GatehouseError):
    """No decision could be had within the deadline. Whether the event was recorded is not known."""

    def __init__(self, message, retry_after=0.0):
        super().__init__(message)
        self.retry_after = retry_after


class NotJson(GatehouseError):
    """JSON has no form for an argument, so it cannot be judged. Nothing was sent, and nothing was called."""


class ApiError(GatehouseError):
    """The service refuses the request, or answers what is none of its answers; sending it again does not help."""

    def __init__(self, status, code, message):
        super().__init__(message)
        self.status = status
        self.code = code


class Decision:
    """What was decided. ``reason``: why it may not be done; None: it may. ``budgets``: what they hold for it."""

    __slots__ = ("allowed", "outcome", "reason", "event_id", "approval_id", "policies", "redacted", "budgets")

    def __init__(
        self, allowed, outcome, reason=None, event_id=None, approval_id=None, policies=(), redacted=None, budgets=()
    ):
        self.allowed = allowed
        self.outcome = outcome
        self.reason = reason
        self.event_id = event_id
        self.approval_id = approval_id
        self.policies = policies
        self.redacted = redacted
        self.budgets = budgets

    def __repr__(self):
        return "Decision(%s, %r)" % (self.outcome, self.reason)


class JsonText:
    """JSON as it was written, say by a model: sent as it is, digit by digit. Raises NotJson where it is none."""

    __slots__ = ("text",)

    def __init__(self, text):
        try:
            text.encode()
            json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant)
        except (AttributeError, RecursionError, ValueError) as error:
            raise NotJson("This is no JSON: %s" % error) from None
        self.text = text


class Gatehouse:
    """``agent``: id or name; a name that is new is registered. ``exit_timeout``: for records when the program ends."""

    def __init__(
        self, url, key, agent, on_unavailable="block", timeout=2.0, approval_wait=55.0, exit_timeout=2.0
    ):
        self._scheme, self._host, self._port, self._prefix = _address_of(url)
        self._tls = ssl.create_default_context() if self._scheme == "https" else None
        self._key = key.strip()
        if not self._key or not all("!" <= letter <= "~" for letter in self._key):
            raise ValueError("key must be a key of Gatehouse")
        self._name = agent
        self._on_unavailable = _choice(on_unavailable)
        self._timeout = _seconds("timeout", timeout)
        self._approval_wait = _seconds("approval_wait", approval_wait)
        self._exit_timeout = _seconds("exit_timeout", exit_timeout)
        self._agent_id = agent if agent.startswith("agt_") else None
        self._closed = False
        self._begin_empty()
        _clients.add(self)

    def _begin_empty(self):
        """As new, and so in the child of a fork: what waits is the parent's to send, and its threads are not here."""
        self._lock = threading.Condition()
        self._queue = collections.deque()
        self._in_flight = []
        self._bytes = 0  # of the queue and of what is in flight
        self._added = self._settled = 0  # settled: sent or failed; the first ones, since order is kept
        self._flushes = []  # of those who wait: up to which event, until when
        self._given = threading.Event()  # set when what is in flight has been counted as failed
        self._attempt = None
        self._thread = None
        self._apart = self._long_waits = 0
        self._lookup = None
        self._counts = {"sent": 0, "failed": 0, "dropped": 0}

    # -- decisions

    def guard(self, tool, on_unavailable=None, trace_id=None):
        """Decorates a function, method, generator, or what is called as one, also asynchronous ones: it runs, with a
        copy of its arguments, where it is allowed, and raises otherwise. ``trace_id``: a text, or what gives one at
        the call; left out, or within ``trace``, it is that of the call's context."""
        if on_unavailable is not None:
            _choice(on_unavailable)

        def decorate(run):
            if isinstance(run, (classmethod, staticmethod)):
                return type(run)(decorate(run.__func__))
            signature = _signature_of(run)

            def asked(args, kwargs):
                arguments, args, kwargs = _arguments_of(signature, args, kwargs)
                trace = _trace.get() or (_quietly(trace_id) if callable(trace_id) else trace_id)
                body = _submission("tool_call", {"tool": _read(tool, True, "tool"), "arguments": arguments}, trace)
                return body, args, kwargs

            @functools.wraps(run)
            async def guarded_generator(*args, **kwargs):
                body, args, kwargs = asked(args, kwargs)
                _enforced(await self._decide_async(body, tool, on_unavailable))
                source, step, value = run(*args, **kwargs), "asend", None
                while True:
                    try:
                        item = await getattr(source, step)(value)
                    except StopAsyncIteration:
                        return
                    try:
                        step, value = "asend", (yield item)
                    except GeneratorExit:
                        await source.aclose()
                        raise
                    except BaseException as error:
                        step, value = "athrow", error

            @functools.wraps(run)
            async def guarded_async(*args, **kwargs):
                body, args, kwargs = asked(args, kwargs)
                _enforced(await self._decide_async(body, tool, on_unavailable))
                return await run(*args, **kwargs)

            @functools.wraps(run)
            def guarded(*args, **kwargs):
                body, args, kwargs = asked(args, kwargs)
                _enforced(self._decide(body, tool, on_unavailable))
                return run(*args, **kwargs)

            if _is(inspect.isasyncgenfunction, run):
                return guarded_generator
            return guarded_async if _is(inspect.iscoroutinefunction, run) else guarded

        return decorate

    @contextlib.contextmanager
    def trace(self, trace_id):
        """Guards and records within it, also in tasks that begin there, belong to this trace."""
        before = _trace.set(trace_id)
        try:
            yield
        finally:
            _trace.reset(before)

    def enforce(self, tool, arguments=None, trace_id=None, on_unavailable=None):
        """The decision where it may be done; raises Blocked, ApprovalPending, ApprovalDenied, Unavailable, ApiError or
        NotJson."""
        return _enforced(self.decide(tool, arguments, trace_id=trace_id, on_unavailable=on_unavailable))

    def decide(self, tool=None, arguments=None, type="tool_call", payload=None, trace_id=None, on_unavailable=None):
        """Does not raise for a service that is away: then ``outcome`` is ``unavailable``. Raises ApiError for a
        mistake, and NotJson for what JSON has no form for."""
        body, named = _asked(tool, arguments, type, payload, trace_id)
        return self._decide(body, named, on_unavailable)

    def model(self, payload, run, used, trace_id=None, on_unavailable=None):
        """Asks about a call of a model, makes it, and records what came of it. Its completion, or its error, names the
        prompt, so a budget settles just what it had reserved for this call. ``run`` gets the decision; ``used`` makes
        of its result what the completion says, such as ``usage`` as the provider answers. Raises as ``enforce``, and
        then has not called; and what ``run`` raises."""
        trace_id = trace_id if trace_id is not None else _trace.get() or _active_trace()
        asked = {"type": "prompt", "payload": payload, "trace_id": trace_id, "on_unavailable": on_unavailable}
        decision = _enforced(self.decide(**asked))
        about = {"model": payload.get("model"), "for": decision.event_id}
        try:
            result = run(decision)
        except BaseException as error:
            self.record("error", {**about, "message": str(error)}, trace_id=trace_id)
            raise
        # What was paid for is recorded and given back also where ``used`` cannot read it: it counts as what was reserved.
        try:
            said = used(result)
        except Exception as error:
            said = {"usage_unread": str(error)}
        self.record("completion", {**about, **said}, trace_id=trace_id)
        return result

    async def decide_async(
        self, tool=None, arguments=None, type="tool_call", payload=None, trace_id=None, on_unavailable=None
    ):
        """The same, beside whatever else the loop does; ends when it is cancelled."""
        body, named = _asked(tool, arguments, type, payload, trace_id)
        return await self._decide_async(body, named, on_unavailable)

    def _decide(self, body, tool, on_unavailable):
        try:
            decision = self._first_word(body, _Wait(self._timeout))
        except Unavailable as error:
            return self._undecided(error, on_unavailable)
        _note(decision, tool)
        until, open = time.monotonic() + self._approval_wait, decision.outcome == "pending"
        while open and time.monotonic() < until:
            wait = _Wait(until - time.monotonic())
            decision, open = self._approval(decision, _WAIT_A_CALL, wait)
            if open:
                wait.sleep(_PAUSE)
        return decision

    async def _decide_async(self, body, tool, on_unavailable):
        import asyncio

        try:
            wait = _Wait(self._timeout)
            decision = await self._in_thread(wait, self._first_word, body, wait)
        except Unavailable as error:
            return self._undecided(error, on_unavailable)
        _note(decision, tool)
        until, open = time.monotonic() + self._approval_wait, decision.outcome == "pending"
        while open and time.monotonic() < until:
            wait = _Wait(until - time.monotonic())
            # Where many wait already, the thread only looks, so that no other guard waits for one.
            is_long = self._long_waits < _LONG_WAITS_MAX
            self._long_waits += is_long
            try:
                seconds = _WAIT_A_CALL if is_long else 0
                decision, open = await self._in_thread(wait, self._approval, decision, seconds, wait)
            except Unavailable:
                pass
            finally:
                self._long_waits -= is_long
            if open:
                await asyncio.sleep(min(_PAUSE if is_long else 1.0, max(0.0, until - time.monotonic())))
        return decision

    async def _in_thread(self, wait, function, *args):
        """In a thread of its own, which holds neither the loop nor the program, and ends when it is cancelled."""
        import asyncio

        while self._apart >= _APART_MAX:
            if not wait.seconds_left() > 0:
                raise Unavailable("Gatehouse is not available: %d guards are waiting already" % _APART_MAX)
            await asyncio.sleep(0.01)
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def settle(result, error):
            if not future.done():
                future.set_result(result) if error is None else future.set_exception(error)

        def work():
            result = failure = None
            try:
                result = function(*args)
            except BaseException as error:
                failure = error
            with self._lock:
                self._apart -= 1
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(settle, result, failure)

        with self._lock:
            self._apart += 1
        if not _started(work):
            with self._lock:
                self._apart -= 1
            raise Unavailable("Gatehouse is not available: no thread can be started")
        try:
            return await future
        finally:
            wait.end()

    def _first_word(self, body, wait):
        path = "/v1/agents/%s/events" % self._agent(wait)
        return _decision_of(self._call("POST", path, body, wait))

    def _undecided(self, error, on_unavailable):
        return Decision((on_unavailable or self._on_unavailable) == "allow", "unavailable", str(error))

    def _approval(self, pending, seconds, wait):
        """The decision as it is after a while, and whether it is to be asked for again."""
        seconds = max(1, min(seconds, math.ceil(wait.seconds_left()))) if seconds else 0
        path = "/v1/approvals/%s" % urllib.parse.quote(str(pending.approval_id), safe="")
        try:
            approval = self._call("GET", path + ("?wait=%d" % seconds if seconds else ""), None, wait)
        except ApiError as error:
            return pending, error.status == 404  # its opening is on its way; or the key may not read approvals
        except Unavailable:
            return pending, False
        outcome = approval.get("outcome") if isinstance(approval, dict) else None
        if outcome not in ("allowed", "blocked"):
            return pending, True
        said = "was denied" if approval.get("status") == "denied" else "was not given in time"
        reason = None if outcome == "allowed" else "Approval %s %s." % (pending.approval_id, said)
        rest = (pending.event_id, pending.approval_id, pending.policies, pending.redacted, pending.budgets)
        return Decision(outcome == "allowed", outcome, reason, *rest), False

    # -- records

    def record(self, type, payload, trace_id=None, timestamp=None):
        """As it is now: what becomes of the payload later changes nothing. Never raises; False: it was dropped, since
        it has no JSON, or too much waits already, or the client is closed."""
        try:
            data = _encoded(_recorded(type, payload, trace_id, timestamp))
        except Exception:
            data = None
        with self._lock:
            size = len(data or b"")
            full = self._added - self._settled >= _EVENTS_MAX or self._bytes + size > _BYTES_MAX
            if data is None or full or self._closed:
                self._counts["dropped"] += 1
                return False
            self._queue.append(data)
            self._added += 1
            self._bytes += size
            self._start()
            if len(self._queue) == 1 or len(self._queue) >= _BATCH_EVENTS:
                self._lock.notify_all()
        return True

    def flush(self, timeout=30.0):
        """Waits until all that came before is sent, or has failed after ``timeout``; how many, since the client was
        made, or since the fork that this process is of."""
        until = time.monotonic() + _seconds("timeout", timeout)
        with self._lock:
            mine = (self._added, until)
            self._flushes.append(mine)
            try:
                if not self._start():
                    self._drain(until)  # the interpreter ends, and starts no thread
                self._lock.notify_all()
                while self._settled < mine[0] and time.monotonic() < until:
                    self._lock.wait(until - time.monotonic())
            finally:
                self._flushes.remove(mine)
            if all(other <= until for _, other in self._flushes):
                self._fail(mine[0] - self._settled)
            return dict(self._counts)

    def close(self, timeout=30.0):
        """The same, and takes no more. Can be called twice."""
        with self._lock:
            self._closed = True
        return self.flush(timeout)

    @property
    def counts(self):
        with self._lock:
            return dict(self._counts)

    def _start(self):
        """Whether a thread sends what waits, if anything does. Called with the lock."""
        if self._thread is None and self._queue:
            self._thread = _started(self._run)
        return self._thread is not None or not self._queue

    def _run(self):
        while True:
            with self._lock:
                ends = time.monotonic() + _IDLE
                while not self._queue:
                    if time.monotonic() >= ends:
                        self._thread = None
                        return
                    self._lock.wait(ends - time.monotonic())
                lingers = time.monotonic() + _LINGER
                while len(self._queue) < _BATCH_EVENTS and not self._flushes and time.monotonic() < lingers:
                    self._lock.wait(lingers - time.monotonic())
                batch, given = self._next()
            self._deliver(batch, given, math.inf)

    def _drain(self, until):
        while self._queue and time.monotonic() < until:
            batch, given = self._next()
            self._deliver(batch, given, until)

    def _next(self):
        batch, size = [], 0
        while self._queue and len(batch) < _BATCH_EVENTS and (not batch or size + len(self._queue[0]) < _BATCH_BYTES):
            batch.append(self._queue.popleft())
            size += len(batch[-1]) + 1
        self._in_flight = batch
        return batch, self._given

    def _deliver(self, batch, given, until):
        """Again until the service takes them, or they have been counted as failed. Refused for its size or its form, a
        batch is halved until the event that is wrong is alone."""
        key, pause = str(uuid.uuid4()), _PAUSE
        body = b'{"events":[' + b",".join(batch) + b"]}"
        while batch and not given.is_set() and time.monotonic() < until:
            once = not self._flushes
            wait = self._attempt = _Wait(min(_ATTEMPT, until - time.monotonic()))
            try:
                path = "/v1/agents/%s/events/batch" % self._agent(wait, once)
                refused = _refused_of(self._call("POST", path, body, wait, key, once), len(batch))
            except Unavailable as error:
                self._wait_again(min(max(pause, error.retry_after), _RETRY_AFTER_MAX) if once else _PAUSE, once, given)
                pause = min(_PAUSE_MAX, 2 * pause)
                continue
            except Exception as error:
                if len(batch) > 1 and getattr(error, "status", None) in (400, 413):
                    half = len(batch) // 2
                    self._deliver(batch[:half], given, until)
                    self._deliver(batch[half:], given, until)
                    return
                refused = len(batch)
            with self._lock:
                if not given.is_set():
                    self._settle(batch, refused)
            return

    def _wait_again(self, seconds, once, given):
        until = time.monotonic() + seconds
        with self._lock:
            while time.monotonic() < until and not given.is_set() and not (once and self._flushes):
                self._lock.wait(until - time.monotonic())

    def _fail(self, count):
        """The first ``count`` of those that are not settled."""
        if count <= 0:
            return
        begun, attempt = self._in_flight, self._attempt
        self._given.set()
        self._given = threading.Event()
        if begun:
            self._settle(begun, len(begun))
        if attempt is not None:
            attempt.end()
        left = [self._queue.popleft() for _ in range(min(len(self._queue), max(0, count - len(begun))))]
        self._settle(left, len(left))

    def _settle(self, batch, failed):
        self._counts["failed"] += failed
        self._counts["sent"] += len(batch) - failed
        self._settled += len(batch)
        self._bytes -= sum(map(len, batch))
        self._in_flight = self._in_flight[len(batch):]
        self._lock.notify_all()

    # -- calls

    def _agent(self, wait, once=False):
        if self._agent_id is None:
            try:
                answer, key = self._call("POST", "/v1/agents", _encoded({"name": self._name}), wait, None, once), "id"
            except ApiError as error:
                if error.status != 403:
                    raise
                # A key that is bound to an agent registers none.
                answer, key = self._call("GET", "/v1/session", None, wait, None, once), "agent_id"
                if isinstance(answer, dict) and answer.get(key, "") is None:
                    raise
            found = answer.get(key) if isinstance(answer, dict) else None
            if not isinstance(found, str):
                raise _unexpected("no agent with its id")
            self._agent_id = found
        return urllib.parse.quote(self._agent_id, safe="")

    def _call(self, method, path, body, wait, idempotency_key=None, once=False):
        """The answer's JSON. ``once``: a caller that has time asks again."""
        headers = {"Authorization": "Bearer " + self._key, "Connection": "close"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if method == "POST":
            headers["Idempotency-Key"] = idempotency_key or str(uuid.uuid4())
        pause, why = _PAUSE, "no answer in time"
        while True:
            if not wait.seconds_left() > 0:
                raise Unavailable("Gatehouse is not available: " + why)
            again = pause * (0.5 + random.random() / 2)
            try:
                status, answered, content = self._exchange(method, path, body, headers, wait)
                if 200 <= status < 300:
                    return json.loads(content, parse_int=_int_of)
                if 300 <= status < 400:
                    raise ApiError(status, "redirected", "%s://%s:%d%s redirects to %s. The key is not sent there: set "
                                   "url to it." % (self._scheme, self._host, self._port, self._prefix + path,
                                                   answered.get("Location") or "another address"))
                code, message = _error_of(status, content)
                if status not in _MAY_SUCCEED_LATER and code != "idempotency_in_progress":
                    raise ApiError(status, code, message)
                why = message
                again = max(again, _retry_after_of(answered.get("Retry-After") or ""))
            except GatehouseError:
                raise
            except _Over:
                continue
            except Exception as error:  # of the network, or what no server of HTTP and JSON would say
                why = str(error) or error.__class__.__name__
            if once:
                raise Unavailable("Gatehouse is not available: " + why, again)
            wait.sleep(again)
            pause = min(_PAUSE_MAX, 2 * pause)

    def _exchange(self, method, path, body, headers, wait):
        connection = _Connection(self._host, self._port, wait)
        connection.default_port = 443 if self._tls else 80
        try:
            connection.sock = self._connected(wait)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may have refused what it did not read
                connection.request(method, self._prefix + path, body, headers)
            response, content = connection.getresponse(), bytearray()
            while True:
                part = response.read(1 << 16)
                content += part
                if not part and response.length:
                    raise OSError("the answer ends in its middle")
                if not part:
                    return response.status, response.headers, content
                if len(content) > _ANSWER_MAX:
                    raise ApiError(response.status, "unexpected_answer", "The answer is too large.")
        finally:
            wait.sock = None
            connection.close()

    def _connected(self, wait):
        addresses, failure = self._addresses(wait), None
        for tried, (family, kind, protocol, _, address) in enumerate(addresses):
            sock = wait.sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(wait.left() / (len(addresses) - tried))
                sock.connect(address)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._tls is not None:
                    sock.settimeout(wait.left())
                    sock = wait.sock = self._tls.wrap_socket(sock, server_hostname=self._host)
                return sock
            except BaseException as error:
                sock.close()
                if not isinstance(error, OSError):
                    raise
                failure = error
        raise failure or OSError("%s has no address" % self._host)

    def _addresses(self, wait):
        """A name is looked up in a thread of its own, one for all that wait: nothing else ends a look-up in time."""
        with contextlib.suppress(ValueError):
            family = socket.AF_INET6 if ipaddress.ip_address(self._host).version == 6 else socket.AF_INET
            return [(family, socket.SOCK_STREAM, 0, "", (self._host, self._port))]
        with self._lock:
            lookup = self._lookup
            if lookup is None or lookup.done.is_set():
                lookup = self._lookup = _Lookup(self._host, self._port)
        while not lookup.done.wait(min(0.1, wait.left())):
            pass
        if lookup.failure is not None:
            raise lookup.failure
        return lookup.found


# -- text


class _Reader:
    """What JSON is made of, read once. ``judged``: what has no form, or could say something else to who reads it in
    another way, is refused; else numbers that are none are text."""

    def __init__(self, judged):
        self._judged = judged
        self._above = set()
        self._count = 0

    def read(self, value, at):
        self._count += len(value) + 2 if isinstance(value, (str, bytes, bytearray)) else 1
        self._count += value.bit_length() // 4 if isinstance(value, int) else 0
        if self._count > _TEXT_MAX:
            raise NotJson("%s is larger than an event can be." % at)
        if value is None or isinstance(value, (bool, JsonText)):
            return value
        if isinstance(value, enum.Enum):
            return self.read(value.value, at)
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            return int.__index__(value)
        if isinstance(value, (float, decimal.Decimal)):
            return self._number(value, at)
        if isinstance(value, (datetime.date, datetime.time)):
            return value.isoformat()
        if isinstance(value, (uuid.UUID, pathlib.PurePath, datetime.timedelta)):
            return str(value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value).decode("utf-8", "backslashreplace")
        if id(value) in self._above:
            self._refuse("a value that holds itself", at)
        self._above.add(id(value))
        read = self._inside(value, at)
        self._above.remove(id(value))
        return read

    def _number(self, value, at):
        value = float.__float__(value) if isinstance(value, float) else value
        if value.is_finite() if isinstance(value, decimal.Decimal) else math.isfinite(value):
            return value
        if self._judged:
            self._refuse("the number %s" % value, at)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"

    def _inside(self, value, at):
        if isinstance(value, dict):
            self._must_read_as(value, dict, at, "__getitem__", "get", "keys", "values", "items", "__iter__")
            return self._fields(value.items(), at)
        if isinstance(value, types.MappingProxyType):
            return self._fields(value.items(), at)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self._fields(zip(value._fields, tuple(value)), at)
        for kind in (list, tuple, set, frozenset, collections.deque):
            if isinstance(value, kind):
                self._must_read_as(value, kind, at, "__iter__", "__getitem__")
                return [self.read(one, "%s[%d]" % (at, i)) for i, one in enumerate(value)]
        if callable(getattr(type(value), "model_dump", None)):
            shown = value.model_dump()
            self._must_show(getattr(type(value), "model_fields", ()), shown, at)
            return self.read(shown, at)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            shown = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            self._must_show(getattr(value, "__dict__", ()), shown, at)
            return self._fields(shown.items(), at)
        return self._refuse("a %s" % type(value).__name__, at)

    def _fields(self, items, at):
        read = {}
        for key, value in items:
            key = key.value if isinstance(key, enum.Enum) else key
            if not isinstance(key, str):
                if not isinstance(key, (bool, int, float, type(None), decimal.Decimal, datetime.date, uuid.UUID)):
                    self._refuse("a mapping with the key %r" % (key,), at)
                key = self.read(key, at)
                key = key if isinstance(key, str) else _text_of(key)
            key = str.__str__(key)
            if key in read and self._judged:
                self._refuse("a mapping with two keys %r" % key, at)
            self._count += len(key)
            read[key] = self.read(value, "%s.%s" % (at, key))
        return read

    def _must_read_as(self, value, kind, at, *names):
        """A class that reads in another way says one thing here and another where it runs."""
        known = (kind, collections.OrderedDict, collections.defaultdict, collections.Counter)
        if self._judged and type(value) not in known:
            if any(getattr(type(value), name, None) is not getattr(kind, name, None) for name in names):
                self._refuse("a %s, which reads otherwise than a %s" % (type(value).__name__, kind.__name__), at)

    def _must_show(self, names, shown, at):
        hidden = [name for name in names if not isinstance(shown, dict) or name not in shown]
        if self._judged and hidden:
            self._refuse("a value that does not show its %s" % hidden[0], at)

    def _refuse(self, what, at):
        raise NotJson("%s is %s: JSON has no form for it, so it cannot be judged." % (at, what))


def _read(value, judged, at):
    """Raises NotJson, whatever a property raised."""
    try:
        return _Reader(judged).read(value, at)
    except NotJson:
        raise
    except Exception as error:
        raise NotJson("%s cannot be read: %s" % (at, error or type(error).__name__)) from None


def _text_of(value, ascii_only=False):
    """Of what _Reader has read, digit by digit."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=ascii_only)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        try:
            return str(value)
        except ValueError:  # so many digits are thought to be an attack
            return str(decimal.Decimal(value))
    if isinstance(value, JsonText):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(_text_of(k, ascii_only) + ":" + _text_of(v, ascii_only) for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_text_of(one, ascii_only) for one in value) + "]"
    return str(value)


def _encoded(value):
    try:
        return _text_of(value).encode()
    except UnicodeEncodeError:  # half a character has an escape, and no UTF-8
        return _text_of(value, ascii_only=True).encode()


def _submission(type, payload, trace_id):
    """``payload`` is read already."""
    trace = trace_id if trace_id is not None else _trace.get() or _active_trace()
    event = {"type": _read(type, True, "type"), "payload": payload}
    return _encoded(event if trace is None else {**event, "trace_id": str(trace)})


def _asked(tool, arguments, type, payload, trace_id):
    if payload is None:
        payload = {"tool": tool, "arguments": arguments}
    read = _read(payload, True, "the payload")
    return _submission(type, read, trace_id), read.get("tool") if isinstance(read, dict) else None


def _recorded(type, payload, trace_id, timestamp):
    if timestamp is None:
        timestamp = datetime.datetime.now(datetime.timezone.utc)
    if not isinstance(timestamp, str):
        timestamp = timestamp.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    trace = trace_id if trace_id is not None else _trace.get() or _active_trace()
    event = {"type": type, "payload": payload, "timestamp": timestamp}
    return _read(event if trace is None else {**event, "trace_id": trace}, False, "the event")


# -- what is guarded


def _is(test, run):
    """Of a function, or what is called as one."""
    while isinstance(run, functools.partial):
        run = run.func
    return test(run) or (not isinstance(run, type) and test(getattr(type(run), "__call__", None)))


def _signature_of(run):
    try:
        return inspect.signature(run)
    except (TypeError, ValueError):  # of some that are written in C
        return inspect.Signature([
            inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
            inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
        ])


def _arguments_of(signature, args, kwargs):
    """What is judged, and copies of what was given. Names of arguments are the parameters', and of what a function
    takes as ``**``; the keys of a mapping that is all that it was given stand beside it: a policy on an argument must
    not depend on how often it was wrapped."""
    first = next(iter(signature.parameters), None)
    own = args[:1] if first in ("self", "cls") else ()
    try:
        given, kwargs = copy.deepcopy((args[len(own):], kwargs))
    except Exception as error:
        raise NotJson("An argument cannot be copied, so it cannot be judged: %s" % error) from None
    bound = signature.bind(*own, *given, **kwargs)  # TypeError, as of the function itself
    read = {}

    def add(name, value):
        # Two of one name are two elements: policies look at each.
        read[name] = value if name not in read or read[name] == value else [read[name], value]

    named = [(name, value) for name, value in bound.arguments.items() if not (own and name == first)]
    for name, value in named:
        kind = signature.parameters[name].kind
        value = _read(dict(value) if kind is inspect.Parameter.VAR_KEYWORD else value, True, name)
        if kind is not inspect.Parameter.VAR_KEYWORD:
            add(name, value)
        inner = value if kind is inspect.Parameter.VAR_POSITIONAL else [value] if len(named) == 1 else []
        for one in [value] if kind is inspect.Parameter.VAR_KEYWORD else inner:
            for key, item in one.items() if isinstance(one, dict) else ():
                add(key, item)
    for name, parameter in signature.parameters.items():
        if name not in bound.arguments and parameter.default is not inspect.Parameter.empty:
            with contextlib.suppress(NotJson):  # a default that marks what was not given is no argument
                read.setdefault(name, _read(parameter.default, True, name))
    return read, (*own, *given), kwargs


def _enforced(decision):
    if decision.allowed:
        return decision
    if decision.outcome == "unavailable":
        raise Unavailable(decision.reason)
    if decision.outcome == "pending":
        raise ApprovalPending(decision)
    raise (ApprovalDenied if decision.approval_id else Blocked)(decision)


def _quietly(call):
    """None where it raises: what only describes a call does not stop it."""
    try:
        return call()
    except Exception:
        return None


def _active_span():
    """Of OpenTelemetry, where the program has it."""
    return _quietly(lambda: sys.modules["opentelemetry.trace"].get_current_span())


def _active_trace():
    trace = _quietly(lambda: _active_span().get_span_context().trace_id)
    return "%032x" % trace if trace else None


def _note(decision, tool):
    """The span says which event was judged for it, and is not judged again: that of the call itself and no other."""
    span = _active_span()
    attributes = getattr(span, "attributes", None) or {}
    if _DECISION not in attributes and tool is not None and any(attributes.get(name) == tool for name in _TOOL_NAMES):
        with contextlib.suppress(Exception):
            span.set_attribute(_DECISION, decision.event_id)


# -- time and sockets


class _Over(Exception):
    """The time for a call is over, or whoever waited for it has gone."""


class _Wait:
    """How long a call may take, with all its connections, reads and pauses."""

    def __init__(self, seconds):
        self._until = time.monotonic() + seconds
        self._ended = threading.Event()
        self.sock = None

    def seconds_left(self):
        return 0.0 if self._ended.is_set() else self._until - time.monotonic()

    def left(self):
        left = self.seconds_left()
        if not left > 0:
            raise _Over()
        return left

    def sleep(self, seconds):
        self._ended.wait(max(0.0, min(seconds, self.seconds_left())))

    def end(self):
        self._ended.set()
        sock = self.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


class _Lookup:
    def __init__(self, host, port):
        self.found, self.failure, self.done = [], None, threading.Event()
        self._asked = (host, port)
        if not _started(self._run):
            self._run()

    def _run(self):
        try:
            self.found = socket.getaddrinfo(*self._asked, type=socket.SOCK_STREAM)
        except Exception as error:
            self.failure = error
        self.done.set()


class _Timed(io.RawIOBase):
    def __init__(self, raw, sock, wait):
        super().__init__()
        self._raw, self._sock, self._wait = raw, sock, wait

    def readable(self):
        return True

    def readinto(self, buffer):
        self._sock.settimeout(self._wait.left())
        return self._raw.readinto(buffer)

    def close(self):
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock, *args, wait, **kwargs):
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_Timed(self.fp.detach(), sock, wait))


class _Connection(http.client.HTTPConnection):
    """Each send and each read has what is left of the whole."""

    auto_open = 0

    def __init__(self, host, port, wait):
        super().__init__(host, port)
        self._wait = wait
        self.response_class = functools.partial(_Response, wait=wait)

    def send(self, data):
        rest = memoryview(data)
        while rest:
            self.sock.settimeout(self._wait.left())
            rest = rest[self.sock.send(rest):]


def _started(run):
    """The daemon thread, or None where the system or an interpreter that ends gives none."""
    try:
        thread = threading.Thread(target=run, name="gatehouse", daemon=True)
        thread.start()
        return thread
    except RuntimeError:
        return None


# -- words


def _decision_of(event):
    try:
        result = event["policy_result"]
        outcome, approval, matches = result["outcome"], result.get("approval_id"), result["matches"]
        decided = next((match for match in matches if match["policy_id"] == result.get("policy_id")), None)
        described = None if decided is None else decided.get("description")
        inactive, event_id = result.get("reason") == "agent_inactive", event["id"]
        redacted, budgets = event.get("redacted_payload"), result.get("budgets", ())
    except (AttributeError, KeyError, TypeError):
        raise _unexpected("no event with its policy_result") from None
    if outcome == "allowed":
        reason = None
    elif outcome == "blocked":
        named = "Blocked." if decided is None else described or 'Blocked by policy "%s".' % decided["name"]
        reason = "Blocked: the agent is switched off." if inactive else named
    elif outcome == "pending":
        reason = "Approval %s is pending: a person has not decided it yet." % approval
    else:
        raise _unexpected("the outcome %r" % (outcome,))
    return Decision(outcome == "allowed", outcome, reason, event_id, approval, matches, redacted, budgets)


def _refused_of(answer, count):
    """How many of a batch were refused, one by one."""
    try:
        results, total = answer["results"], answer["total"]
        if isinstance(results, list) and len(results) == count and 0 <= total <= count:
            return count - total
    except (KeyError, TypeError):
        pass
    raise _unexpected("not one result for each event")


def _unexpected(what):
    """What answers is not the service, or a later one whose words this client does not know."""
    return ApiError(200, "unexpected_answer", "The answer is not one of Gatehouse: %s." % what)


def _error_of(status, content):
    try:
        error = json.loads(content)["error"]
        details = error.get("details") or []
        where = " %(path)s %(message)s" % details[0] if details else ""
        return str(error["code"]), str(error["message"]) + where
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError):
        return "unknown", "status %d" % status


def _retry_after_of(text):
    """Seconds, or a date; anything else asks for no more than the ordinary pause."""
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        at = email.utils.parsedate_to_datetime(text)
        return max(0.0, at.replace(tzinfo=at.tzinfo or datetime.timezone.utc).timestamp() - time.time())
    except Exception:
        return 0.0


def _int_of(text):
    return int(text) if len(text) < 4_000 else decimal.Decimal(text)


def _no_constant(name):
    raise ValueError("%s is no number" % name)


def _choice(on_unavailable):
    if on_unavailable not in ("block", "allow"):
        raise ValueError("on_unavailable is 'block' or 'allow'")
    return on_unavailable


def _seconds(name, value):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise ValueError("%s must be a number of seconds, 0 or more" % name)
    return min(float(value), _SECONDS_MAX)


def _address_of(url):
    parts = urllib.parse.urlsplit(url.strip())
    extra = parts.username or parts.password or parts.query or parts.fragment
    if parts.scheme not in ("http", "https") or not parts.hostname or extra:
        raise ValueError("url must be as http://host:8080 or https://host/prefix, with nothing behind the path")
    prefix = urllib.parse.quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~-._")
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80), prefix


# -- the process


def _after_fork():
    for client in list(_clients):
        client._begin_empty()


def _at_exit():
    begun = time.monotonic()
    for client in list(_clients):
        client.flush(max(0.0, client._exit_timeout - (time.monotonic() - begun)))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
