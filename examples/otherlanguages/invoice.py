"""Invoices the customers that come on stdin, one a line, in one process at a time.

Needs psycopg2. Beside it, in the folder sql, is what this prints:

  for s in acquire enter inspect release renew advance; do pglock sql $s -python -schema public > sql/$s.sql; done

Connects as libpq's variables say (PGHOST and so on), or to DATABASE_URL.
"""

import hashlib
import os
import pathlib
import random
import sys
import threading
import time
import uuid

import psycopg2

SQL = {file.stem: file.read_text() for file in (pathlib.Path(__file__).parent / "sql").glob("*.sql")}
SCHEMA = os.environ.get("LEASE_SCHEMA", "public")
TTL = float(os.environ.get("LEASE_TTL", "60"))  # seconds
MARGIN = min(TTL / 10, 2)


class Held(Exception):
    """Somebody else has the lease."""


class Busy(Exception):
    """It is not known who has it: nobody may have done the work."""


class Lost(Exception):
    """The term is over, or has to be taken for it."""


class Stale(Exception):
    """The fence refused the token. Nothing was written."""


def connect():
    timeout = max(1, int(TTL / 6))
    return psycopg2.connect(os.environ.get("DATABASE_URL", ""), connect_timeout=timeout, tcp_user_timeout=timeout * 1000)


def gate(schema, name):
    """The key of the advisory gate: the same number in every language."""
    text = b"".join(part.encode() + b"\0" for part in ("pglock gate 1", schema, name))
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big", signed=True)


class Lease:
    """One term of a name, renewed by a thread until it is released or lost."""

    def __init__(self, name, label):
        self.name, self.label, self.holder, self.token = name, label, str(uuid.uuid4()), 0
        self.conn, self.lost, self.done = None, None, threading.Event()
        self.acquire()
        self.thread = threading.Thread(target=self.renew, daemon=True)
        self.thread.start()

    def ask(self, statement, **values):
        """One statement, which is one transaction, asked twice if the connection breaks: each may be repeated."""
        for last in (False, True):
            try:
                if self.conn is None or self.conn.closed:
                    self.conn = connect()
                    self.conn.autocommit = True
                with self.conn.cursor() as cursor:
                    cursor.execute(SQL[statement], values)
                    return cursor.fetchall()
            except psycopg2.OperationalError:
                if last:
                    raise

    def acquire(self):
        for _ in range(50):
            sent = time.monotonic()  # Trust counts from before sending: a slow answer does not stretch it.
            ((outcome, token, remaining, label, *_),) = self.ask(
                "acquire", name=self.name, holder=self.holder, ttl=int(TTL * 1e6), gate=gate(SCHEMA, self.name),
                label=self.label, metadata="{}")
            if outcome == "found":  # Granted to a question whose answer was lost; its commit may still wait for a standby.
                sent, remaining = time.monotonic(), TTL * 1e6
                if self.ask("renew", names=[self.name], holders=[self.holder], tokens=[token], ttl=int(TTL * 1e6)):
                    outcome = "granted"
            if outcome == "granted":
                self.token, self.trusted = token, sent + min(remaining / 1e6, TTL) - MARGIN
                return
            if outcome == "held":
                raise Held(f"{self.name} is held by '{label}' with token {token}")
            if outcome == "unentered":
                self.ask("enter")
            elif outcome == "outrun":
                self.ask("release", name=self.name, holder=self.holder, token=token)
                self.holder = str(uuid.uuid4())
            else:  # busy, superseded
                time.sleep(random.uniform(0.05, 0.15))
        raise Busy(self.name)

    def renew(self):
        pause = TTL / 3
        while not self.done.wait(pause):
            sent = time.monotonic()
            try:
                mine = self.ask("renew", names=[self.name], holders=[self.holder], tokens=[self.token], ttl=int(TTL * 1e6))
                if not mine:
                    rows = self.ask("inspect", names=[self.name])
                    if not any(r[1] == self.holder and r[3] == self.token and (r[4] or 0) > 0 for r in rows):
                        self.lost = "taken over, expired or released by an operator"
                        return
            except psycopg2.Error:
                mine = []
            # One failure is no loss: ask again soon, until the time of trust is over.
            pause = TTL / 3 if mine else TTL / 30
            if mine:
                self.trusted = sent + TTL - MARGIN

    def check(self):
        """Before each step: stops early, and protects nothing. The fence does."""
        if self.lost or time.monotonic() >= self.trusted:
            raise Lost(f"{self.name} with token {self.token}: {self.lost or 'not renewed in time'}")

    def pass_fence(self, cursor):
        """In the transaction that writes."""
        cursor.execute(SQL["advance"], {"name": self.name, "token": self.token})
        if cursor.fetchone() is None:
            raise Stale(f"token {self.token} for {self.name} is stale")

    def release(self):
        self.done.set()
        self.thread.join(TTL / 6)
        if not self.thread.is_alive():  # Else the database does not answer: the row expires by itself.
            self.ask("release", name=self.name, holder=self.holder, token=self.token)


def main():
    try:
        lease = Lease("invoice-job", "python program")
    except Held as held:
        print("skipped:", held)
        return
    except Busy as busy:
        sys.exit(f"busy: {busy}")
    work = connect()
    try:
        for customer in map(str.strip, sys.stdin):
            lease.check()
            with work, work.cursor() as cursor:  # One transaction: COMMIT at its end, ROLLBACK on an exception.
                cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '10s'")
                cursor.execute("SELECT amount FROM orders WHERE customer = %s FOR SHARE", (customer,))
                (amount,) = cursor.fetchone()
                lease.pass_fence(cursor)
                cursor.execute("INSERT INTO invoices (customer, amount, token) VALUES (%s, %s, %s)", (customer, amount, lease.token))
            print(f"invoiced {customer} with token {lease.token}", flush=True)
    except Stale as stale:
        sys.exit(f"refused: {stale}")
    except Lost as lost:
        sys.exit(f"lost: {lost}")
    finally:
        lease.release()


if __name__ == "__main__":
    main()
