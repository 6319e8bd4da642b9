//! The system calls that guests may make.
//!
//! An allow list: what programs of every kind need, and nothing that concerns the host as a whole. Left out
//! are modules, clocks, swap, mounts, keyrings, io_uring, bpf, perf, userfaultfd, ptrace, process_vm_*,
//! handles of files, new user namespaces, and sockets but for those of [`FAMILIES`]. Memory of huge pages
//! that the host has set aside is left out, too: a control group of memory does not count it. Names that a
//! kernel or its libseccomp does not know are ignored by the runtime.

use serde_json::{Value, json};

/// `CLONE_NEW*` of namespaces(7); a guest makes none.
const NAMESPACES: u64 = 0x7e02_0000;

/// What a socket may be of (`linux/socket.h`): UNIX, IPv4, IPv6, netlink, packets, and AF_XDP. Others have
/// the kernel load modules, and vsock leads to the machine below whatever network a guest has.
const FAMILIES: [u64; 6] = [1, 2, 10, 16, 17, 44];

/// Calls that give memory, with the place of the argument that is their flags and the flag of huge pages
/// (`MAP_HUGETLB`, `MFD_HUGETLB`, `SHM_HUGETLB`).
const MEMORY: [(&str, u32, u64); 3] = [("mmap", 3, 0x4_0000), ("memfd_create", 1, 4), ("shmget", 2, 0o4000)];

const ALLOWED: &str = "accept accept4 access alarm arch_prctl bind brk capget capset chdir chmod chown clock_getres \
    clock_gettime clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 \
    epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2 \
    fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fork \
    fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex futex_waitv futimesat get_robust_list get_thread_area getcpu \
    getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer getpeername getpgid getpgrp getpid getppid \
    getpriority getrandom getresgid getresuid getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid \
    getxattr inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents \
    io_setup io_submit ioctl ioprio_get kill lchown lgetxattr link linkat listen listxattr llistxattr lremovexattr lseek \
    lsetxattr lstat madvise membarrier mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mprotect mq_getsetattr \
    mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink mremap msgctl msgget msgrcv msgsnd msync munlock munlockall \
    munmap nanosleep newfstatat open openat openat2 pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free \
    pkey_mprotect poll ppoll prctl pread64 preadv preadv2 prlimit64 pselect6 pwrite64 pwritev pwritev2 read readahead \
    readlink readlinkat readv recvfrom recvmmsg recvmsg remap_file_pages removexattr rename renameat renameat2 \
    restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend \
    rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr \
    sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_yield seccomp select semctl semget semop \
    semtimedop sendfile sendmmsg sendmsg sendto set_robust_list set_tid_address setfsgid setfsuid setgid setgroups setitimer \
    setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid setsockopt setuid setxattr shmat shmctl shmdt \
    shutdown sigaltstack signalfd signalfd4 splice stat statfs statx symlink symlinkat sync \
    sync_file_range syncfs sysinfo tee tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_settime \
    timerfd_create timerfd_gettime timerfd_settime times tkill truncate umask uname unlink unlinkat utime utimensat utimes \
    vfork vmsplice wait4 waitid write writev";

/// The runtime's `linux.seccomp` (OCI Runtime Specification, `config-linux.md#seccomp`).
pub(crate) fn profile() -> Value {
    let names: Vec<&str> = ALLOWED.split_whitespace().collect();
    let architecture = if cfg!(target_arch = "aarch64") { "SCMP_ARCH_AARCH64" } else { "SCMP_ARCH_X86_64" };
    let mut calls = vec![
        json!({"names": names, "action": "SCMP_ACT_ALLOW"}),
        // Flags are the first argument.
        json!({"names": ["clone"], "action": "SCMP_ACT_ALLOW",
            "args": [{"index": 0, "value": NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]}),
        // Its flags lie in memory, where no filter sees them; C libraries then take `clone`.
        json!({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": rustix::io::Errno::NOSYS.raw_os_error()}),
    ];
    calls.extend(FAMILIES.map(|family| {
        json!({"names": ["socket", "socketpair"], "action": "SCMP_ACT_ALLOW",
            "args": [{"index": 0, "value": family, "op": "SCMP_CMP_EQ"}]})
    }));
    calls.extend(MEMORY.map(|(name, index, huge)| {
        json!({"names": [name], "action": "SCMP_ACT_ALLOW",
            "args": [{"index": index, "value": huge, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]})
    }));
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": rustix::io::Errno::PERM.raw_os_error(),
        "architectures": [architecture],
        "syscalls": calls,
    })
}
