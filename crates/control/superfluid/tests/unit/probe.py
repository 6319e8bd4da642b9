"""Tries what a daemon that was taken over would try, under the settings of its unit. A line each: NAME ok, or NAME and the error.

With `free` it tries, as root without a unit, those that do no harm: what fails there as well would prove nothing.
"""

import ctypes
import os
import socket
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)


def attempt(name, do):
    try:
        do()
        print(name, "ok", flush=True)
    except OSError as error:
        print(name, os.strerror(error.errno), flush=True)


def call(number, *arguments):
    """A system call by its number on x86-64."""
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def write(path):
    with open(path, "w") as file:
        file.write("x")


def read(path):
    with open(path, "rb") as file:
        file.read(1)


def family(number, kind=socket.SOCK_RAW, protocol=0):
    socket.socket(number, kind, protocol).close()


def read_memory():
    """Of this process itself, which is all that there is to see."""
    theirs, ours = ctypes.create_string_buffer(b"x"), ctypes.create_string_buffer(1)
    vector = lambda of: (ctypes.c_void_p * 2)(ctypes.addressof(of), 1)
    call(310, os.getpid(), vector(ours), 1, vector(theirs), 1, 0)


if sys.argv[1:] == ["free"]:
    child = os.fork()
    if child == 0:
        attempt("read /home", lambda: read("/home/secret"))
        attempt("read /root", lambda: read("/root/secret"))
        attempt("see other processes", lambda: read("/proc/1/comm"))
        attempt("see a file in the machine's /tmp", lambda: read("/tmp/of-others"))
        attempt("make a disk", lambda: os.mknod("/tmp/disk", 0o60666, os.makedev(7, 0)))
        attempt("mount", lambda: call(165, b"tmpfs", b"/mnt", b"tmpfs", 0, None))
        attempt("open a mount", lambda: os.close(call(428, -100, b"/", 1)))
        attempt("open a vsock", lambda: family(socket.AF_VSOCK, socket.SOCK_STREAM))
        attempt("read another's memory", read_memory)
        attempt("handle faults of pages", lambda: os.close(call(323, 0)))
        attempt("add a key", lambda: call(248, b"user", b"x", b"y", 1, -2))
        attempt("change the personality", lambda: call(135, 0x0040000))
        attempt("be nicer to itself", lambda: os.setpriority(os.PRIO_PROCESS, 0, -5))
        attempt("make a user namespace", lambda: call(272, 0x10000000))
        os._exit(0)
    os.waitpid(child, 0)
    sys.exit()

# What it has to be able to do: if these fail, the others prove nothing.
attempt("may: write its state", lambda: write("/var/lib/superfluid/x"))
attempt("may: write its cache", lambda: write("/var/cache/superfluid/x"))
attempt("may: have short slices", lambda: call(314, 0, struct.pack("=IIQiIQQQ", 48, 0, 0, 0, 0, 100000, 0, 0), 0))
attempt("may: write beside its socket", lambda: write("/run/superfluid/x"))
attempt("may: write its own /tmp", lambda: write("/tmp/x"))
attempt("may: write into a guest's folder of sockets", lambda: write("/run/superfluid-guests/guest/x"))
attempt("may: open a packet socket", lambda: family(socket.AF_PACKET))
attempt("may: open an XDP socket", lambda: family(44))
attempt("may: open /dev/net/tun", lambda: os.close(os.open("/dev/net/tun", os.O_RDWR)))
attempt("may: pin a thread", lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)))
# BPF_MAP_CREATE of an array with one element.
attributes = (ctypes.c_uint32 * 32)(2, 4, 4, 1)
attempt("may: make a BPF map", lambda: os.close(call(321, 0, attributes, ctypes.c_long(128))))

attempt("write /etc", lambda: write("/etc/x"))
attempt("write what every user may write", lambda: write("/etc/open"))
attempt("write /usr/local/bin", lambda: write("/usr/local/bin/superfluid"))
attempt("write /var/lib", lambda: write("/var/lib/x"))
attempt("write /run", lambda: write("/run/x"))
attempt("make a guest's folder of sockets", lambda: os.mkdir("/run/superfluid-guests/other"))
attempt("remove one", lambda: os.rename("/run/superfluid-guests/guest", "/run/superfluid-guests/gone"))
attempt("give one to another tenant", lambda: os.chown("/run/superfluid-guests/guest", -1, 200000))
attempt("write a kernel setting", lambda: write("/proc/sys/vm/max_map_count"))
attempt("write /sys", lambda: write("/sys/class/net/lo/mtu"))
attempt("write a cgroup", lambda: write("/sys/fs/cgroup/cgroup.procs"))
attempt("read /home", lambda: read("/home/secret"))
attempt("read /root", lambda: read("/root/secret"))
attempt("see other processes", lambda: read("/proc/1/comm"))
attempt("see a file in the machine's /tmp", lambda: read("/tmp/of-others"))
attempt("open a disk", lambda: read("/dev/disk"))
attempt("make a disk", lambda: os.mknod("/tmp/disk", 0o60666, os.makedev(7, 0)))
attempt("make a file setuid", lambda: os.chmod("/var/lib/superfluid/x", 0o4755))
attempt("run another program", lambda: os.execv("/usr/sbin/ip", ["ip"]))
attempt("mount", lambda: call(165, b"tmpfs", b"/tmp", b"tmpfs", 0, None))
attempt("open a mount", lambda: call(428, -100, b"/", 1))
attempt("umount", lambda: call(166, b"/tmp", 2))
attempt("change the root", lambda: call(161, b"/tmp"))
attempt("pivot the root", lambda: call(155, b"/tmp", b"/tmp"))
attempt("load a module", lambda: call(175, b"x", 1, b""))
attempt("load a module from a file", lambda: call(313, 0, b"", 0))
attempt("load another kernel", lambda: call(246, 0, 0, None, 0))
attempt("trace a process", lambda: call(101, 16, 1, 0, 0))
attempt("read another's memory", read_memory)
attempt("become root", lambda: os.setuid(0))
attempt("become another user", lambda: os.setuid(1))
attempt("take another group", lambda: os.setgid(0))
attempt("set groups", lambda: os.setgroups([0]))
attempt("take capabilities", lambda: call(126, (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)))
for name, flag in [("mount", 0x20000), ("network", 0x40000000), ("user", 0x10000000), ("process", 0x20000000), ("uts", 0x4000000)]:
    attempt(f"make a {name} namespace", lambda flag=flag: call(272, flag))
attempt("enter a namespace", lambda: call(308, os.open("/proc/self/ns/net", os.O_RDONLY), 0))
attempt("open a vsock", lambda: family(socket.AF_VSOCK, socket.SOCK_STREAM))
for name, number in [("Bluetooth", 31), ("ALG", 38), ("TIPC", 30), ("CAN", 29)]:
    attempt(f"open a socket of {name}", lambda number=number: family(number, socket.SOCK_SEQPACKET))
attempt("set the clock", lambda: call(227, 0, (ctypes.c_long * 2)(0, 0)))
attempt("set the host's name", lambda: socket.sethostname("x"))
attempt("reboot", lambda: call(169, 0xFEE1DEAD, 672274793, 0, None))
attempt("swap", lambda: call(167, b"/tmp/x", 0))
attempt("port I/O", lambda: call(172, 3))
attempt("read the kernel's log", lambda: call(103, 3, ctypes.create_string_buffer(64), 64))
attempt("watch performance", lambda: call(298, (ctypes.c_uint32 * 32)(1, 128), 0, -1, -1, 0))
attempt("use io_uring", lambda: call(425, 1, ctypes.create_string_buffer(256)))
attempt("handle faults of pages", lambda: call(323, 0))
attempt("add a key", lambda: call(248, b"user", b"x", b"y", 1, -2))
attempt("change the personality", lambda: call(135, 0x0040000))
attempt("run in real time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
attempt("run in real time by attributes", lambda: call(314, 0, struct.pack("=IIQiIQQQ", 48, 1, 0, 0, 1, 0, 0, 0), 0))
attempt("run by deadlines", lambda: call(314, 0, struct.pack("=IIQiIQQQ", 48, 6, 0, 0, 0, 100000, 1000000, 1000000), 0))
attempt("be nicer to itself", lambda: os.setpriority(os.PRIO_PROCESS, 0, -5))
attempt("change a file's owner", lambda: os.chown("/var/lib/superfluid/x", 0, 0))
attempt("open by handle", lambda: call(304, -100, ctypes.create_string_buffer(64), 0))
attempt("account processes", lambda: call(163, b"/tmp/x"))
os.remove("/var/lib/superfluid/x")
