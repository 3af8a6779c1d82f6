# SPDX-License-Identifier: BSD-3-Clause
"""strangers.py - connections to the sockets of a job that are not from its ranks."""

import os
import socket
import struct
import threading
import time

from job import list_folder, read

MASK = (1 << 64) - 1


def rotate(x, by):
    return (x << by | x >> (64 - by)) & MASK


def siphash(key, data):
    """SipHash-2-4, as lib/base/net/auth.c."""
    k0, k1 = struct.unpack('<QQ', key)
    v = [k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573]

    def rounds(count):
        for _ in range(count):
            v[0] = (v[0] + v[1]) & MASK
            v[2] = (v[2] + v[3]) & MASK
            v[1] = rotate(v[1], 13) ^ v[0]
            v[3] = rotate(v[3], 16) ^ v[2]
            v[0] = rotate(v[0], 32)
            v[2] = (v[2] + v[1]) & MASK
            v[0] = (v[0] + v[3]) & MASK
            v[1] = rotate(v[1], 17) ^ v[2]
            v[3] = rotate(v[3], 21) ^ v[0]
            v[2] = rotate(v[2], 32)

    whole = len(data) // 8 * 8
    last = int.from_bytes(data[whole:], 'little') | (len(data) & 255) << 56
    for word in (*struct.unpack('<%dQ' % (whole // 8), data[:whole]), last):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xff
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def key_of(secret):
    """As makeKey() in bootstrap/tcp.c."""
    halves = (b'libgin secret 1\0', b'libgin secret 2\0')
    return struct.pack('<QQ', *(siphash(half, secret.encode()) for half in halves))


def receive(s, count):
    data = b''
    while len(data) < count:
        part = s.recv(count - len(data))
        if not part:
            raise OSError('the connection has ended')
        data += part
    return data


def greet(s, key, rank):
    """As authConnect()."""
    theirs = receive(s, 16)
    mine = os.urandom(16)
    proof = siphash(key, struct.pack('<Q', 1 << 32 | rank) + theirs + mine)
    s.sendall(struct.pack('<II', 0x316e6967, rank) + mine + struct.pack('<Q', proof))
    receive(s, 8)


def sockets_of(pids):
    """Inodes of the sockets of processes."""
    inodes = set()
    for pid in pids:
        for fd in list_folder('/proc/%d/fd' % pid):
            try:
                target = os.readlink('/proc/%d/fd/%s' % (pid, fd))
            except OSError:
                continue
            if target.startswith('socket:['):
                inodes.add(target[8:-1])
    return inodes


def ports_of(tables, inodes, state):
    """Ports of sockets in a state of /proc/net: 0A listens, 07 is unconnected UDP."""
    ports = set()
    for table in tables:
        for row in read('/proc/net/' + table).splitlines()[1:]:
            part = row.split()
            if part[3] == state and part[9] in inodes:
                ports.add(int(part[1].rpartition(':')[2], 16))
    return ports


class Strangers(threading.Thread):
    """Connect to every listener of a job, and send datagrams, until stop(). `most`: connections at a time."""

    def __init__(self, job, rng, most, knows=False):
        super().__init__(daemon=True)
        self.job, self.rng, self.most, self.knows = job, rng, most, knows
        self.over = threading.Event()
        self.made = 0

    def say(self, s):
        """A stranger's messages; it waits for answers only if it knows the secret."""
        how = self.rng.randrange(6)
        if self.knows and how < 3:
            s.settimeout(0.3)
            greet(s, key_of(self.job.secret), self.rng.randrange(self.job.ranks + 1))
            s.sendall(self.rng.randbytes(self.rng.choice((1, 64, 816, 1300, 5000))))
        elif how == 1:
            s.sendall(self.rng.randbytes(self.rng.randrange(1, 4096)))
        elif how == 2:
            s.sendall(b'GET / HTTP/1.1\r\nHost: example\r\n\r\n')
        elif how == 3:
            s.sendall(struct.pack('<II', 0x316e6967, 1) + self.rng.randbytes(24))
        elif how == 4:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            s.close()

    def visit(self, port, held):
        try:
            s = socket.create_connection(('127.0.0.1', port), timeout=0.1)
            held.append(s)
            self.made += 1
            self.say(s)
        except OSError:
            pass

    def send(self, family, address):
        """Random bytes, also after what begins a datagram of ginCommShrink(): hash, magic number, rank."""
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            for begin in (b'', self.rng.randbytes(8) + struct.pack('<QIII', 1 << 60, 0x336e6967, 1, 0)):
                try:
                    s.sendto(begin + self.rng.randbytes(self.rng.choice((0, 8, 64, 1400))), socket.MSG_DONTWAIT, address)
                    self.made += 1
                except OSError:
                    pass

    def run(self):
        held = []
        while not self.over.is_set():
            pids = [self.job.line(r).pid for r in range(self.job.ranks)]
            inodes = sockets_of(pid for pid in pids if pid)
            for port in ports_of(('tcp', 'tcp6'), inodes, '0A'):
                for _ in range(8):
                    self.visit(port, held)
            for port in ports_of(('udp', 'udp6'), inodes, '07'):
                self.send(socket.AF_INET, ('127.0.0.1', port))
            # Through which ranks of a host pass file descriptors; their mode keeps other users out.
            for name in list_folder(self.job.tmp) if self.knows else ():
                self.send(socket.AF_UNIX, os.path.join(self.job.tmp, name))
            while len(held) > self.most:
                held.pop(0).close()
            time.sleep(0.02)
        for s in held:
            s.close()

    def stop(self):
        self.over.set()
        self.join()
