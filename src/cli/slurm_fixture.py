"""A SLURM of one's own: a controller and two nodes, each a host of its own (network, name), and munge.

Everything is in one folder and in the namespaces of the process that makes it, which must be alone in them as root:

    unshare --fork --pid --mount-proc --net --uts --mount --kill-child python3 ...

So nothing of it is seen outside, or outlives that process.
"""
import os
import pathlib
import secrets
import shutil
import subprocess
import tempfile
import time

NODES = ("n1", "n2")
CONTROLLER, NETWORK = "10.77.0.1", "10.77.0."
CPUS = 4  # of a node, whatever this machine has
DEADLINE = 300  # seconds for any command

# cred_expire: how long a job that is queued again waits, beside the life of a credential.
CONFIG = """\
ClusterName=tutti
SlurmctldHost=controller({controller})
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={folder}/munge/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=2,bf_interval=2
SlurmdParameters=config_overrides
MailProg=/bin/true
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
KillWait=10
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def address_of(node):
    return f"{NETWORK}{2 + NODES.index(node)}"


class Slurm:
    """Up when it is made, and down when its processes' namespace is."""

    def __init__(self, program):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tutti-slurm-"))
        self.folder.chmod(0o755)
        self.environment = dict(os.environ, SLURM_CONF=str(self.folder / "slurm.conf"), OMP_NUM_THREADS="1",
                                PATH=f"{program.parent}:{os.environ['PATH']}")
        self.daemons = []
        try:
            self._make_network()
            self._start_munge()
            self._start_slurm()
        except Exception:
            print(self.last_words())
            raise

    def run(self, *words, code=0, cwd=None):
        """What it printed, both ways. The exit code must be this one, or, for None, any but 0."""
        done = subprocess.run(words, env=self.environment, cwd=cwd, timeout=DEADLINE, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if (done.returncode == 0) if code is None else (done.returncode != code):
            raise AssertionError(f"{words} ended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def start(self, *words, cwd=None, output=subprocess.DEVNULL):
        return subprocess.Popen(words, env=self.environment, cwd=cwd, stdout=output, stderr=subprocess.STDOUT)

    def wait_until(self, holds, what):
        end = time.monotonic() + DEADLINE
        while not holds():
            if time.monotonic() > end:
                raise AssertionError(f"not within {DEADLINE} s: {what}")
            time.sleep(0.05)

    def last_words(self, lines=30):
        """The ends of all logs."""
        text = ""
        for log in sorted(self.folder.rglob("*log*")):
            if log.is_file():
                text += f"== {log}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) + "\n"
        return text

    def end(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder)

    def _make_network(self):
        hosts = f"127.0.0.1 localhost\n{CONTROLLER} controller\n"
        hosts += "".join(f"{address_of(n)} {n}\n" for n in NODES)
        (self.folder / "hosts").write_text(hosts)
        for words in (("mount", "--bind", str(self.folder / "hosts"), "/etc/hosts"), ("hostname", "controller"),
                      ("ip", "link", "set", "lo", "up"), ("ip", "link", "add", "nodes", "type", "bridge"),
                      ("ip", "address", "add", f"{CONTROLLER}/24", "dev", "nodes"),
                      ("ip", "link", "set", "nodes", "up")):
            subprocess.run(words, check=True)

    def _start_daemon(self, name, *words, **options):
        with (self.folder / f"{name}.printed.log").open("w") as log:
            self.daemons.append(subprocess.Popen(words, env=self.environment, stdout=log, stderr=log, **options))
        return self.daemons[-1]

    def _start_munge(self):
        folder = self.folder / "munge"
        folder.mkdir(mode=0o755)
        key = folder / "key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        # --force: its folder is in one that all may write to.
        self._start_daemon("munged", "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/socket",
                           f"--pid-file={folder}/pid", f"--log-file={folder}/log", f"--seed-file={folder}/seed")
        self.wait_until((folder / "socket").exists, "munged listens")

    def _start_slurm(self):
        nodes = "\n".join(f"NodeName={n} NodeAddr={address_of(n)} CPUs={CPUS} State=UNKNOWN" for n in NODES)
        (self.folder / "slurm.conf").write_text(
            CONFIG.format(folder=self.folder, controller=CONTROLLER, nodes=nodes))
        for name in ("state", *(f"{kind}-{n}" for kind in ("spool", "tmp") for n in NODES)):
            (self.folder / name).mkdir()
        self._start_daemon("slurmctld", "slurmctld", "-D")
        for node in NODES:
            self._start_node(node)
        ready = ("sinfo", "--noheader", "--Node", "--states=idle", "--format=%N")
        up = lambda: subprocess.run(ready, env=self.environment, capture_output=True, text=True).stdout.split()
        self.wait_until(lambda: up() == list(NODES), "both nodes are idle")

    def _start_node(self, node):
        """slurmd waits for a line until its host's network is there."""
        begin = f"ip link set lo up && hostname {node} && read -r line && exec slurmd -D -N {node}"
        daemon = self._start_daemon(f"slurmd-{node}", "unshare", "--net", "--uts", "--mount", "bash", "-c", begin,
                                    stdin=subprocess.PIPE)
        own = os.readlink("/proc/self/ns/net")
        self.wait_until(lambda: os.readlink(f"/proc/{daemon.pid}/ns/net") != own, f"{node} has a network")
        inside = ("nsenter", "--target", str(daemon.pid), "--net", "ip")
        for words in (("ip", "link", "add", f"to-{node}", "type", "veth", "peer", "name", "eth0", "netns", str(daemon.pid)),
                      ("ip", "link", "set", f"to-{node}", "master", "nodes", "up"),
                      (*inside, "address", "add", f"{address_of(node)}/24", "dev", "eth0"),
                      (*inside, "link", "set", "eth0", "up")):
            subprocess.run(words, check=True)
        daemon.stdin.write(b"\n")
        daemon.stdin.close()
