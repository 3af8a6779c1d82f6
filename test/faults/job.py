# SPDX-License-Identifier: BSD-3-Clause
"""job.py - a job of test/faults/run: ranks that run life.cc, their reports, and the resources that
they leave."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

LINE = struct.Struct('<qQQQqQQQqQ432s')  # struct Line in life.h
RANKS = 64
START, INIT, MEMORY, WINDOWS, DEVCOMM, KERNELS, SPLIT, DESTROY, OVER = range(1, 10)
PHASES = ['', 'start', 'init', 'memory', 'windows', 'devcomm', 'kernels', 'split', 'destroy', 'over']
HUNG = 90  # seconds: a rank that has not ended by then hangs

NETWORK = {'GIN_ROUTE': 'network', 'GIN_BACKEND': 'proxy'}
ROUTES = {
    'direct': {},
    'proxy': {**NETWORK, 'GIN_TRANSPORT': 'ipc'},
    'ofi': {**NETWORK, 'GIN_TRANSPORT': 'ofi', 'GIN_OFI_PROVIDER': 'tcp'},
    'gdaki': {'GIN_ROUTE': 'network', 'GIN_BACKEND': 'gdaki'},
    'verbs': {**NETWORK, 'GIN_TRANSPORT': 'verbs'},
}
ON_DEVICE = ('gdaki', 'verbs')


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Line:
    """A rank's own report."""

    def __init__(self, raw):
        (self.pid, self.phase, self.failed_at, self.ended_at, self.result, self.laps, self.wrong,
         self.false_laps, self.files, self.operations, why) = LINE.unpack(raw)
        self.why = why.split(b'\0')[0].decode(errors='replace')


class Job:
    """Ranks as processes, which meet at GIN_ROOT. The folder is removed by close()."""

    def __init__(self, build, route, ranks, seed, **options):
        self.build, self.route, self.ranks, self.note = build, route, ranks, ''
        self.devices = options.get('devices') or build  # the build of the software mlx5 device
        self.folder = tempfile.mkdtemp(prefix='faults-')
        os.chmod(self.folder, 0o777)
        self.tmp = options.get('tmp') or os.path.join(self.folder, 'tmp')
        os.makedirs(self.tmp, exist_ok=True)
        os.chmod(self.tmp, 0o1777)
        self.port = free_port()
        self.secret = 'secret %d' % seed
        self.laps = options.get('laps', 20)
        self.program = options.get('program', 'life')
        self.gpu = self.program.endswith('_gpu')  # kernels, and not host threads
        self.variables = {}
        self.together = False  # all ranks are threads of the process of rank 0
        self.arguments, self.device = [str(self.laps)], []  # of the program; of with-device
        self.fault = options.get('fault')
        self.environment = dict(options.get('environment', {}), GIN_TIMEOUT=str(options.get('timeout', 20)))
        self.page = os.path.join(self.folder, 'page')
        with open(self.page, 'wb') as f:
            f.truncate((RANKS + 1) * LINE.size)
        os.chmod(self.page, 0o666)
        self.file = os.open(self.page, os.O_RDWR)
        self.process = [None] * ranks
        self.status = [None] * ranks
        self.struck = None
        if route in ON_DEVICE:  # the first call makes the folder of the devices
            subprocess.run(self.on_device(['true']), check=True, stderr=subprocess.DEVNULL)

    def on_device(self, command):
        fault = ['--fault', self.fault] if self.fault else []
        return ['mlx5/dev/with-device', '--build', self.devices, '--directory',
                os.path.join(self.folder, 'mlx5dev'), *fault, *self.device, *command]

    def start(self, rank, prepare=None, wrap=()):
        env = {k: v for k, v in os.environ.items() if not k.startswith(('GIN_', 'PMI', 'OMPI_', 'SLURM_'))}
        env.update(ROUTES[self.route], GIN_ROOT='127.0.0.1:%d' % self.port, GIN_SECRET=self.secret, RANK=str(rank),
                   WORLD_SIZE=str(self.ranks), TMPDIR=self.tmp, GIN_LOG='none', FAULTS_JOB=self.folder,
                   **({} if self.gpu else {'CUDA_VISIBLE_DEVICES': ''}))
        if self.route not in ON_DEVICE and not self.gpu:  # the software device and CUDA have descriptors of their own
            env['FAULTS_FILES'] = '1'
        env.update(self.environment, **self.variables)
        command = [*wrap, os.path.abspath('%s/test/faults/%s' % (self.build, self.program)), self.page, *self.arguments]
        if self.route in ON_DEVICE:
            command = self.on_device(command)
        out = open(os.path.join(self.folder, 'out.%d' % rank), 'wb')
        self.process[rank] = subprocess.Popen(command, env=env, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                              start_new_session=True, preexec_fn=prepare)
        out.close()

    def start_together(self):
        self.together = True
        self.variables['TOGETHER'] = '1'
        self.start(0)

    def start_all(self, **how):
        for r in range(self.ranks):
            self.start(r, **how)

    def line(self, rank):
        return Line(os.pread(self.file, LINE.size, (rank + 1) * LINE.size))

    def note_death(self):
        """Ranks read the time of a death: laps that begin later cannot all end."""
        self.write_own(ended_at=time.monotonic_ns())

    def ask_end(self):
        """soak.cc ends after the lap."""
        self.write_own(laps=1)

    def write_own(self, ended_at=0, laps=0, operations=0):
        os.pwrite(self.file, LINE.pack(0, 1, 0, ended_at, 0, laps, 0, 0, 0, operations, b''), 0)

    def announce(self, step, target=0, dying=()):
        """deaths.cc: who will die; nobody ends the job."""
        self.write_own(operations=step << 40 | target << 32 | sum(1 << rank for rank in dying))

    def await_laps(self, ranks, laps, seconds=HUNG):
        """Returns a rank that has not come, or has ended; None: all have come."""
        end = time.monotonic() + seconds
        for r in ranks:
            while self.line(r).laps < laps:
                if self.process[r].poll() is not None or time.monotonic() > end:
                    return r
                time.sleep(0.0002)
        return None

    def await_phase(self, rank, phase, seconds=30):
        """Returns 0 if the rank has ended before."""
        end = time.monotonic() + seconds
        while self.line(rank).phase < phase:
            if self.process[0 if self.together else rank].poll() is not None or time.monotonic() > end:
                return 0
            time.sleep(0.0002)
        return 1

    def send(self, rank, number):
        """A signal to the rank itself, not to the command around it. Returns 0 if it has ended."""
        pid = self.line(rank).pid
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            return 0
        return pid != 0

    def kill(self, rank):
        pid = self.line(rank).pid
        self.struck = self.struck or time.monotonic_ns()
        struck = time.monotonic_ns()
        if not pid or not self.send(rank, signal.SIGKILL):
            self.process[rank].kill()
        while pid and is_alive(pid):
            time.sleep(0.0002)
        if self.program != 'deaths':
            self.note_death()
        return struck

    def wait(self, seconds=HUNG):
        """Ends when all ranks have ended. Returns the ranks that hang, which are killed."""
        end, hung = time.monotonic() + seconds, []
        for r, process in enumerate(self.process):
            try:
                process = self.process[0] if self.together else process
                self.status[r] = process.wait(max(0.1, end - time.monotonic())) if process else 0
            except subprocess.TimeoutExpired:
                hung.append(r)
        for r in hung:
            process = self.process[0] if self.together else self.process[r]
            self.dump(r)
            self.send(r, signal.SIGKILL)
            process.kill()
            process.wait()
        return hung

    def dump(self, rank):
        """Where the threads of a hanging rank are, as far as the kernel says."""
        pid = self.line(rank).pid
        with open(os.path.join(self.folder, 'out.%d' % rank), 'a') as out:
            for task in list_folder('/proc/%d/task' % pid):
                at = '/proc/%d/task/%s/' % (pid, task)
                out.write('%s: %s %s\n' % (task, read(at + 'comm').strip(), read(at + 'wchan')))

    def detected(self, victims, leave_out):
        """Milliseconds from the strike to the first error of each other rank. leave_out: sentences with these words."""
        lines = [self.line(r) for r in range(self.ranks) if r not in victims]
        lines = [line for line in lines if not any(words in line.why for words in leave_out)]
        return [max(0, line.failed_at - self.struck) / 1e6 for line in lines if line.failed_at]

    def leaks(self):
        """Processes, files and sockets that are left, in words."""
        found = ['process %s' % pid for pid in list_folder('/proc') if pid.isdigit() and
                 ('FAULTS_JOB=' + self.folder).encode() in read_bytes('/proc/%s/environ' % pid)]
        found += ['file ' + name for name in list_folder(self.tmp)]
        found += ['socket ' + text.split()[-1] for text in read('/proc/net/unix').splitlines() if self.tmp + '/' in text]
        for r in range(self.ranks):
            line = self.line(r)
            if line.phase == OVER and line.files > 0:
                found.append('%d descriptors of rank %d' % (line.files, r))
        return found

    def output(self):
        texts = []
        for r in range(self.ranks):
            line, text = self.line(r), read(os.path.join(self.folder, 'out.%d' % r))
            texts.append('rank %d: status %s, phase %s, laps %d, wrong %d, false %d: %d %s\n%s' %
                         (r, self.status[r], PHASES[line.phase], line.laps, line.wrong, line.false_laps, line.result,
                          line.why, text[-2000:]))
        return '\n'.join(texts)

    def close(self):
        os.close(self.file)
        shutil.rmtree(self.folder, ignore_errors=True)


def is_alive(pid):
    return read('/proc/%d/stat' % pid).rpartition(') ')[2][:1] not in ('', 'Z', 'X')


def list_folder(path):
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def read_bytes(path):
    try:
        with open(path, 'rb') as f:
            return f.read()
    except OSError:
        return b''


def read(path):
    return read_bytes(path).decode(errors='replace')
