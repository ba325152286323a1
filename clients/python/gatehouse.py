"""Gatehouse for Python: ask before an agent acts, and record what it did.

One file on the standard library, for Python 3.9 and later: copy it beside your program.

    gh = Gatehouse("http://127.0.0.1:8080", key, agent="support-bot")

    @gh.guard("refund")
    def refund(order, amount): ...

    refund(order=7, amount=20)          # raises Blocked, and then has not run
    gh.record("completion", {"response": text, "tokens_used": 42}, trace_id=trace)
    gh.flush()

A decision is never queued or dropped: it is made now, or it is not there, and then a guard blocks unless it was made
with ``on_unavailable="allow"``. Records wait in a bounded queue and are sent by a daemon thread; a program that is
about to end calls ``flush`` or ``close``.
"""

import functools
import http.client
import inspect
import json
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections import deque
from datetime import datetime, timezone

__all__ = [
    "Gatehouse", "Decision", "GatehouseError", "Blocked", "ApprovalPending", "ApprovalDenied", "Unavailable", "ApiError",
]

_MAY_SUCCEED_LATER = frozenset((429, 502, 503, 504))
_PAUSE, _PAUSE_MAX = 0.1, 2.0
_BATCH_EVENTS, _LINGER = 100, 1.0
_EVENTS_MAX, _BYTES_MAX = 1_000, 4 * 1024 * 1024
_ATTEMPT = 2.0
_WAIT_A_CALL = 30


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


class ApiError(GatehouseError):
    """The service refuses the request; sending it again does not help."""

    def __init__(self, status, code, message):
        super().__init__(message)
        self.status = status
        self.code = code


class Decision:
    """What was decided. ``reason``: why it may not be done; None: it may."""

    __slots__ = ("allowed", "outcome", "reason", "event_id", "approval_id", "policies", "redacted")

    def __init__(self, allowed, outcome, reason=None, event_id=None, approval_id=None, policies=(), redacted=None):
        self.allowed = allowed
        self.outcome = outcome
        self.reason = reason
        self.event_id = event_id
        self.approval_id = approval_id
        self.policies = policies
        self.redacted = redacted

    def __repr__(self):
        return "Decision(%s, %r)" % (self.outcome, self.reason)


class Gatehouse:
    """``agent``: id or name; a name that is new is registered. Times are seconds."""

    def __init__(self, url, key, agent, on_unavailable="block", timeout=2.0, approval_wait=55.0):
        if on_unavailable not in ("block", "allow"):
            raise ValueError("on_unavailable is 'block' or 'allow'")
        self._url = url.rstrip("/")
        self._key = key
        self._name = agent
        self._on_unavailable = on_unavailable
        self._timeout = timeout
        self._approval_wait = approval_wait
        self._agent_id = agent if agent.startswith("agt_") else None
        self._lock = threading.Condition()
        self._queue = deque()
        self._events = self._bytes = 0  # of the queue and of what is in flight
        self._flush_until = None
        self._thread = None
        self._closed = False
        self._counts = {"sent": 0, "failed": 0, "dropped": 0}

    # -- decisions

    def guard(self, tool, on_unavailable=None, trace_id=None):
        """Decorates a function (also a coroutine function): it runs where it is allowed, and raises otherwise."""

        def decorate(run):
            signature = inspect.signature(run)

            def arguments(args, kwargs):
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                return dict(bound.arguments)

            if inspect.iscoroutinefunction(run):

                @functools.wraps(run)
                async def guarded_async(*args, **kwargs):
                    import asyncio

                    asked = functools.partial(self.enforce, tool, arguments(args, kwargs), trace_id, on_unavailable)
                    await asyncio.get_running_loop().run_in_executor(None, asked)
                    return await run(*args, **kwargs)

                return guarded_async

            @functools.wraps(run)
            def guarded(*args, **kwargs):
                self.enforce(tool, arguments(args, kwargs), trace_id, on_unavailable)
                return run(*args, **kwargs)

            return guarded

        return decorate

    def enforce(self, tool, arguments=None, trace_id=None, on_unavailable=None):
        """The decision where it may be done; raises Blocked, ApprovalPending, ApprovalDenied or Unavailable."""
        decision = self.decide(tool, arguments, trace_id=trace_id, on_unavailable=on_unavailable)
        if decision.allowed:
            return decision
        if decision.outcome == "unavailable":
            raise Unavailable(decision.reason)
        if decision.outcome == "pending":
            raise ApprovalPending(decision)
        raise (ApprovalDenied if decision.approval_id else Blocked)(decision)

    def decide(self, tool=None, arguments=None, type="tool_call", payload=None, trace_id=None, on_unavailable=None):
        """Does not raise for a service that is away: then ``outcome`` is ``unavailable``."""
        event = {"type": type, "payload": payload if payload is not None else {"tool": tool, "arguments": arguments}}
        if trace_id is not None:
            event["trace_id"] = trace_id
        deadline = time.monotonic() + self._timeout
        try:
            path = "/v1/agents/%s/events" % self._agent(deadline)
            decision = _decision_of(self._call("POST", path, event, deadline))
        except Unavailable as error:
            allowed = (on_unavailable or self._on_unavailable) == "allow"
            return Decision(allowed, "unavailable", str(error))
        return self._decided(decision) if decision.outcome == "pending" else decision

    def _decided(self, pending):
        until = time.monotonic() + self._approval_wait
        while True:
            left = until - time.monotonic()
            if left <= 0:
                return pending
            wait = max(1, min(_WAIT_A_CALL, int(left + 0.999)))
            try:
                path = "/v1/approvals/%s?wait=%d" % (pending.approval_id, wait)
                approval = self._call("GET", path, None, until)
            except ApiError as error:
                if error.status != 404:  # the key may not read approvals
                    return pending
                time.sleep(0.1)  # its opening is on its way
                continue
            except Unavailable:
                return pending
            if approval["outcome"] == "pending":
                continue
            allowed = approval["outcome"] == "allowed"
            said = "was denied" if approval["status"] == "denied" else "was not given in time"
            reason = None if allowed else "Approval %s %s." % (pending.approval_id, said)
            return Decision(
                allowed, approval["outcome"], reason, pending.event_id, pending.approval_id, pending.policies,
                pending.redacted,
            )

    # -- records

    def record(self, type, payload, trace_id=None, timestamp=None):
        """False: it was dropped, since too much waits already."""
        event = {"type": type, "payload": payload, "timestamp": _time_text(timestamp)}
        if trace_id is not None:
            event["trace_id"] = trace_id
        size = len(json.dumps(event))
        with self._lock:
            if self._closed:
                raise GatehouseError("The client is closed.")
            if self._events >= _EVENTS_MAX or self._bytes + size > _BYTES_MAX:
                self._counts["dropped"] += 1
                return False
            self._queue.append((event, size))
            self._events += 1
            self._bytes += size
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gatehouse", daemon=True)
                self._thread.start()
            if len(self._queue) == 1 or len(self._queue) >= _BATCH_EVENTS:
                self._lock.notify_all()
        return True

    def flush(self, timeout=30.0):
        """Waits until all is sent, or has failed after ``timeout``; how many, since the client was made."""
        with self._lock:
            self._flush_until = time.monotonic() + timeout
            self._lock.notify_all()
            while self._events > 0:
                self._lock.wait()
            self._flush_until = None
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

    def _run(self):
        while True:
            with self._lock:
                while not self._queue:
                    self._lock.wait()
                lingers_until = time.monotonic() + _LINGER
                while len(self._queue) < _BATCH_EVENTS and self._flush_until is None:
                    left = lingers_until - time.monotonic()
                    if left <= 0:
                        break
                    self._lock.wait(left)
                batch = [self._queue.popleft() for _ in range(min(_BATCH_EVENTS, len(self._queue)))]
            refused = self._deliver([event for event, _ in batch])
            with self._lock:
                self._counts["sent"] += len(batch) - refused
                self._counts["failed"] += refused
                self._events -= len(batch)
                self._bytes -= sum(size for _, size in batch)
                self._lock.notify_all()

    def _deliver(self, events):
        """How many were refused. Again until the service takes them or the deadline of ``flush`` has passed."""
        key = str(uuid.uuid4())
        while True:
            now, until = time.monotonic(), self._flush_until
            if until is not None and now >= until:
                return len(events)
            deadline = min(now + _ATTEMPT, until) if until is not None else now + _ATTEMPT
            try:
                path = "/v1/agents/%s/events/batch" % self._agent(deadline)
                answer = self._call("POST", path, {"events": events}, deadline, key)
                return len(answer["results"]) - answer["total"]
            except Unavailable:
                continue
            except Exception:  # refused, or nothing that JSON has a form for: counted, and the next ones go on
                return len(events)

    # -- calls

    def _agent(self, deadline):
        if self._agent_id is None:
            try:
                self._agent_id = self._call("POST", "/v1/agents", {"name": self._name}, deadline)["id"]
            except ApiError as error:
                if error.status != 403:
                    raise
                # A key that is bound to an agent registers none.
                bound = self._call("GET", "/v1/session", None, deadline).get("agent_id")
                if bound is None:
                    raise
                self._agent_id = bound
        return self._agent_id

    def _call(self, method, path, body, deadline, idempotency_key=None):
        headers = {"Authorization": "Bearer " + self._key}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body, allow_nan=False).encode()
        if method == "POST":
            headers["Idempotency-Key"] = idempotency_key or str(uuid.uuid4())
        pause, why = _PAUSE, "no answer in time"
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Unavailable("Gatehouse is not available: " + why)
            wait = pause * (0.5 + random.random() / 2)
            request = urllib.request.Request(self._url + path, data, headers, method=method)
            try:
                with urllib.request.urlopen(request, timeout=left) as response:
                    return json.loads(response.read())
            except urllib.error.HTTPError as error:
                code, message = _error_of(error)
                if error.code not in _MAY_SUCCEED_LATER and code != "idempotency_in_progress":
                    raise ApiError(error.code, code, message) from None
                why = message
                after = error.headers.get("Retry-After") or "0"
                wait = max(wait, float(after) if after.isdigit() else 0.0)
            except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
                why = str(getattr(error, "reason", None) or error) or "no answer in time"
            time.sleep(max(0.0, min(wait, deadline - time.monotonic())))
            pause = min(_PAUSE_MAX, 2 * pause)


def _decision_of(event):
    result = event["policy_result"]
    outcome, approval = result["outcome"], result.get("approval_id")
    name = next((match["name"] for match in result["matches"] if match["policy_id"] == result["policy_id"]), None)
    reason = None
    if outcome == "blocked":
        if result["reason"] == "agent_inactive":
            reason = "Blocked: the agent is switched off."
        else:
            reason = "Blocked." if name is None else 'Blocked by policy "%s".' % name
    elif outcome == "pending":
        reason = "Approval %s is pending: a person has not decided it yet." % approval
    return Decision(
        outcome == "allowed", outcome, reason, event["id"], approval, result["matches"], event.get("redacted_payload"),
    )


def _error_of(response):
    try:
        error = json.loads(response.read())["error"]
        details = error.get("details") or []
        where = " %(path)s %(message)s" % details[0] if details else ""
        return error["code"], error["message"] + where
    except (ValueError, KeyError, TypeError, OSError):
        return "unknown", "status %d" % response.code


def _time_text(timestamp):
    if isinstance(timestamp, str):
        return timestamp
    moment = timestamp or datetime.now(timezone.utc)
    if moment.tzinfo is None:
        moment = moment.astimezone()
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
