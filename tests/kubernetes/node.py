"""A real node of a cluster: containerd, runc, a kubelet and, where it has any,
simulated GPUs; in namespaces of its own, like a machine.

It has folders of its own where the programs want fixed ones (/var/lib,
/var/log, /run), and a cgroup of its own in each hierarchy.  What it has from
outside is the kernel.
"""
import contextlib
import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from guests import Driver  # noqa: E402
from space import Program, Space, command, until  # noqa: E402

GATE = "10.63.0.1"                     # the test, as nodes and pods see it
CGROUPS = "/sys/fs/cgroup"
PAUSE = "weir.test/bare:1"
# What a kubelet wants of a kernel that others use too: it reads this, and
# writes nothing.
KERNEL = {"vm/overcommit_memory": 1, "vm/panic_on_oom": 0, "kernel/panic": 10,
          "kernel/panic_on_oops": 1, "kernel/keys/root_maxkeys": 1000000,
          "kernel/keys/root_maxbytes": 25000000}
# What feature discovery says of a node with GPUs; memory is MiB.
LABELS = ("nvidia.com/gpu.product=NVIDIA-H200,nvidia.com/gpu.memory=1024,"
          "weir.dev/gpus=simulated")

CONTAINERD = """version = 3
root = "{dir}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt",
    "io.containerd.internal.v1.tracing",
    "io.containerd.tracing.processor.v1.otlp", "io.containerd.nri.v1.nri"]
[plugins.'io.containerd.server.v1.grpc']
address = "{dir}/containerd.sock"
[plugins.'io.containerd.server.v1.ttrpc']
address = "{dir}/containerd.sock.ttrpc"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{pause}"
[plugins.'io.containerd.cri.v1.runtime']
cdi_spec_dirs = ["/run/cdi"]
disable_apparmor = true
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{programs}"]
conf_dir = "{dir}/cni"
use_internal_loopback = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "{runc}"
SystemdCgroup = false
[plugins.'io.containerd.grpc.v1.cri']
stream_server_address = "127.0.0.1"
stream_server_port = "0"
"""


def hierarchies():
    """The folders of cgroups; of the second version alone there is one."""
    with open("/proc/self/mounts", encoding="utf-8") as f:
        found = [(m.split()[1], m.split()[2]) for m in f]
    first = [at for at, kind in found if kind == "cgroup"]
    if not first:
        raise RuntimeError("nodes want cgroups of the first version; "
                           f"{CGROUPS} has none")
    return first + [at for at, kind in found if kind == "cgroup2"]


class Node:
    """`images` are archives; `gpus` a number, with the `standin` libraries in
    that folder.
    """

    def __init__(self, cluster, images, gpus=0, standin=None):
        number = self.number = len(cluster.nodes) + 1
        cluster.nodes.append(self)
        self.cluster, self.programs = cluster, cluster.programs
        self.images, self.gpus, self.standin = images, gpus, standin
        self.name = f"node-{number}"
        self.subject = f"/O=system:nodes/CN=system:node:{self.name}"
        self.address = f"10.64.{cluster.number}.{number}"
        self.pods = f"10.{128 + cluster.number}.{number}.0/24"
        self.port = f"n{cluster.number}-{number}"      # the test's end of it
        self.cgroup = os.path.basename(cluster.folder) + "." + self.name
        self.folder = os.path.join(cluster.folder, self.name)
        self.space = self.machine = None
        self.parts = []
        os.mkdir(self.folder)
        self.set_up()

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="ascii") as f:
            f.write(text)
        return self.path(name)

    def program(self, name, *args):
        env = {"PATH": f"{self.programs}:{os.environ['PATH']}",
               "CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS": "1"}
        p = Program(name, [os.path.join(self.programs, name), *args],
                    self.folder, self.space, env)
        self.parts.append(p)
        return p

    def set_up(self):
        for at in hierarchies():
            with contextlib.suppress(FileExistsError):
                os.mkdir(os.path.join(at, self.cgroup))
            for name in "cpuset.cpus", "cpuset.mems":
                if os.path.exists(os.path.join(at, self.cgroup, name)):
                    with open(os.path.join(at, name), encoding="ascii") as f:
                        have = f.read()
                    with open(os.path.join(at, self.cgroup, name), "w",
                              encoding="ascii") as f:
                        f.write(have)
        self.space = Space()
        self.set_up_mounts()
        self.set_up_network()
        self.containerd = self.program("containerd", "-c",
                                       self.set_up_containerd())
        self.kubelet = self.program(
            "kubelet", f"--config={self.set_up_kubelet()}",
            f"--kubeconfig={self.account()}", f"--node-ip={self.address}",
            f"--hostname-override={self.name}", "--v=2",
            *([f"--node-labels={LABELS}"] if self.gpus else []))
        if self.gpus:
            self.machine = Driver(self.folder, self.standin)
            for k in range(self.gpus):
                self.gpu(k)
            os.mkdir(self.path("held"))
            self.plugin = self.program(
                "device-plugin", "nvidia.com/gpu", self.machine.dir,
                self.standin, self.path("held"))

    def gpu(self, k, more=""):
        """Device k is there, and so."""
        uuid = (f"GPU-{self.cluster.number:04x}{self.number:04x}"
                f"-0000-0000-0000-{k:012x}")
        self.machine.write(f"gpu{k}", f"uuid={uuid}\nmodel=NVIDIA H200\n"
                           f"memory={1 << 30}\n{more}")

    def set_up_mounts(self):
        run = self.space.run
        for name in "lib", "log", "cni", "kernel":
            os.mkdir(self.path(name))
        run("mount", "--bind", self.path("lib"), "/var/lib")
        run("mount", "--make-shared", "/var/lib")
        run("mount", "--bind", self.path("log"), "/var/log")
        run("mount", "-t", "tmpfs", "-o", "mode=755", "run", "/run")
        for name, value in KERNEL.items():
            path = f"/proc/sys/{name}"
            if os.path.exists(path):
                mine = self.write("kernel/" + name.replace("/", "."),
                                  f"{value}\n")
                run("mount", "--bind", mine, path)

    def set_up_network(self):
        with contextlib.suppress(RuntimeError):
            command("ip", "address", "add", f"{GATE}/32", "dev", "lo")
        # Packets from one node to another, and from a pod, go this way.
        with open("/proc/sys/net/ipv4/ip_forward", "w", encoding="ascii") as f:
            f.write("1")
        command("ip", "link", "add", self.port, "type", "veth", "peer", "name",
                "eth0", "netns", str(self.space.first.pid))
        command("ip", "link", "set", self.port, "up")
        command("ip", "route", "add", self.address, "dev", self.port)
        run = self.space.run
        run("ip", "address", "add", f"{self.address}/32", "dev", "eth0")
        run("ip", "link", "set", "eth0", "up")
        run("ip", "route", "add", GATE, "dev", "eth0")
        run("ip", "route", "add", "default", "via", GATE)
        run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        command("ip", "route", "add", self.pods, "via", self.address)

    def set_up_containerd(self):
        runc = shutil.which("runc", path=os.environ["PATH"] + ":/usr/sbin")
        if not runc:
            raise FileNotFoundError("no runc here; tools/deps engines has it")
        self.write("cni/10-pods.conflist", json.dumps({
            "cniVersion": "1.0.0", "name": "pods", "plugins": [{
                "type": "ptp", "ipMasq": False, "ipam": {
                    "type": "host-local", "dataDir": "/run/cni",
                    "ranges": [[{"subnet": self.pods}]],
                    "routes": [{"dst": "0.0.0.0/0"}]}}]}))
        return self.write("containerd.toml", CONTAINERD.format(
            dir=self.folder, programs=self.programs, pause=PAUSE, runc=runc))

    def set_up_kubelet(self):
        pki = self.cluster.pki
        crt, key = pki.sign(f"{self.name}.server", self.subject, "serverAuth",
                            f"DNS:{self.name},IP:{self.address}")
        runtime = f"unix://{self.path('containerd.sock')}"
        return self.write("kubelet.json", json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address, "healthzPort": 0, "readOnlyPort": 0,
            "authentication": {"anonymous": {"enabled": False},
                               "webhook": {"enabled": True},
                               "x509": {"clientCAFile": pki.ca}},
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": crt, "tlsPrivateKeyFile": key,
            "containerRuntimeEndpoint": runtime,
            "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{self.cgroup}",
            "failCgroupV1": False, "failSwapOn": False, "oomScoreAdj": 0,
            "makeIPTablesUtilChains": False, "resolvConf": "",
            "nodeStatusUpdateFrequency": "2s",
            "volumePluginDir": "/var/lib/volume-plugins",
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "50Mi",
                             "nodefs.available": "1%",
                             "imagefs.available": "1%"},
            "shutdownGracePeriod": "0s"}))

    def account(self):
        return self.cluster.kubeconfig(self.cluster.by_cert(
            *self.cluster.pki.sign(self.name, self.subject, "clientAuth")))

    def ctr(self, *args, check=True):
        return self.space.run(os.path.join(self.programs, "ctr"), "-a",
                              self.path("containerd.sock"), "-n", "k8s.io",
                              *args, check=check)

    def start(self):
        """It is on its way; ready() waits for it."""
        self.containerd.start()

        def serves():
            self.containerd.need()
            return "Server:" in self.ctr("version", check=False)
        until(serves, "containerd")
        for path in self.images:
            self.ctr("images", "import", path)
        self.kubelet.start()
        if self.gpus:
            self.plugin.start()

    def ready(self):
        def is_ready():
            for p in self.parts:
                p.need()
            o = self.object()
            return self.is_ready(o) and \
                int(o["status"]["allocatable"].get("nvidia.com/gpu", 0)) == \
                self.gpus
        until(is_ready, f"{self.name} to be ready")

    def object(self):
        status, text = self.cluster.ask("GET", f"/api/v1/nodes/{self.name}")
        return json.loads(text) if status == 200 else None

    @staticmethod
    def is_ready(o):
        return bool(o) and any(
            c["type"] == "Ready" and c["status"] == "True"
            for c in o["status"].get("conditions", []))

    def fail(self):
        """As if its power were cut: all in it ends at once."""
        if self.space:
            self.space.close(self.parts)
            self.space = None

    def close(self):
        self.fail()
        with contextlib.suppress(RuntimeError):
            command("ip", "link", "del", self.port)
        left = [os.path.join(at, self.cgroup) for at in hierarchies()]
        until(lambda: not [at for at in left if not remove(at)],
              f"the cgroups of {self.name} to be empty")


def remove(at):
    """A cgroup and those in it; whether it is gone."""
    for path, _, _ in os.walk(at, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(path)
    return not os.path.exists(at)
