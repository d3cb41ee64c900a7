//! A system-call filter that refuses what no program needs that only reads and writes: sockets, new processes, other processes, mounts, kernel interfaces.
//!
//! It is a list of what is refused, not of what is allowed: ffmpeg is linked to two hundred libraries that differ between systems.

use std::io;

use crate::{check, prctl};

/// A filter program.
pub(super) struct Filter {
    program: Vec<libc::sock_filter>,
    /// Instructions that compare with the process's own number, known after fork.
    own_pid: Vec<usize>,
}

/// When a call is refused.
#[derive(Clone, Copy)]
enum When {
    Always,
    /// Unless this argument is zero or the process itself.
    NotOwn(u32),
    /// When this argument has this value.
    Is(u32, u32),
    /// Unless this argument has one of these bits.
    Without(u32, u32),
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_00b7);
/// The architecture as the kernel's audit numbers name it (linux/audit.h); others go unfiltered.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: Option<u32> = None;

/// Calls that are refused whatever their arguments are.
const REFUSED: &[libc::c_long] = &[
    // The network, and sockets of other processes.
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    // Ways around a filter of calls.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kcmp,
    libc::SYS_tkill,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // Namespaces, mounts, and files by handle.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // The kernel.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_fanotify_init,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// Calls that are refused by their arguments.
const REFUSED_WHEN: &[(libc::c_long, When)] = &[
    // Threads only: a new process is no thread of this one.
    (libc::SYS_clone, When::Without(0, libc::CLONE_THREAD as u32)),
    // Signals, limits and processors of itself only.
    (libc::SYS_kill, When::NotOwn(0)),
    (libc::SYS_tgkill, When::NotOwn(0)),
    (libc::SYS_rt_sigqueueinfo, When::NotOwn(0)),
    (libc::SYS_rt_tgsigqueueinfo, When::NotOwn(0)),
    (libc::SYS_prlimit64, When::NotOwn(0)),
    (libc::SYS_sched_setaffinity, When::NotOwn(0)),
    // Signals through a descriptor.
    (libc::SYS_fcntl, When::Is(1, libc::F_SETOWN as u32)),
    (libc::SYS_fcntl, When::Is(1, F_SETOWN_EX)),
];

/// Of linux/fcntl.h; the C library's name for it is not everywhere.
const F_SETOWN_EX: u32 = 15;

/// Whether this kernel takes filters.
pub(super) fn is_available() -> bool {
    const GET_ACTION_AVAIL: libc::c_uint = 2;
    let action = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the call reads one number, which lives until it returns.
    let answer = unsafe { libc::syscall(libc::SYS_seccomp, GET_ACTION_AVAIL, 0 as libc::c_uint, &raw const action) };
    ARCHITECTURE.is_some() && answer == 0
}

const fn op(code: u32, jump_true: u8, jump_false: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: jump_true, jf: jump_false, k }
}

const fn load(offset: u32) -> libc::sock_filter {
    op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset)
}

const fn jump_if_equal(value: u32, jump_true: u8, jump_false: u8) -> libc::sock_filter {
    op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jump_true, jump_false, value)
}

const fn give(answer: u32) -> libc::sock_filter {
    op(libc::BPF_RET | libc::BPF_K, 0, 0, answer)
}

const fn refuse(errno: libc::c_int) -> libc::sock_filter {
    give(libc::SECCOMP_RET_ERRNO | errno as u32)
}

impl Filter {
    /// The filter; none where this kernel takes none.
    pub(super) fn new() -> Option<Self> {
        // Offsets in struct seccomp_data; an argument's low half, where numbers of processes and flags are.
        const NUMBER_AT: u32 = 0;
        const ARCHITECTURE_AT: u32 = 4;
        const fn argument(index: u32) -> u32 {
            16 + 8 * index
        }
        // Numbers from here on are the x32 twins of the calls above.
        const X32: u32 = 0x4000_0000;
        let architecture = ARCHITECTURE.filter(|_| is_available())?;
        let mut program = vec![
            load(ARCHITECTURE_AT),
            jump_if_equal(architecture, 1, 0),
            refuse(libc::EPERM),
            load(NUMBER_AT),
            op(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
            refuse(libc::EPERM),
            // Its flags lie in memory, where no filter sees them; the C library falls back to clone.
            jump_if_equal(libc::SYS_clone3 as u32, 0, 1),
            refuse(libc::ENOSYS),
        ];
        let mut own_pid = Vec::new();
        let always = REFUSED.iter().map(|&call| (call, When::Always));
        for (call, when) in always.chain(REFUSED_WHEN.iter().copied()) {
            // The test jumps over what follows when the call is another one; what follows ends or loads the number again.
            let body = match when {
                When::Always => vec![refuse(libc::EPERM)],
                When::Is(index, value) => {
                    vec![load(argument(index)), jump_if_equal(value, 0, 1), refuse(libc::EPERM), load(NUMBER_AT)]
                }
                When::Without(index, bits) => vec![
                    load(argument(index)),
                    op(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 1, 0, bits),
                    refuse(libc::EPERM),
                    load(NUMBER_AT),
                ],
                When::NotOwn(index) => {
                    own_pid.push(program.len() + 3);
                    vec![
                        load(argument(index)),
                        jump_if_equal(0, 2, 0),
                        jump_if_equal(0, 1, 0),
                        refuse(libc::EPERM),
                        load(NUMBER_AT),
                    ]
                }
            };
            program.push(jump_if_equal(call as u32, 0, body.len() as u8));
            program.extend(body);
        }
        program.push(give(libc::SECCOMP_RET_ALLOW));
        Some(Filter { program, own_pid })
    }

    /// Puts the calling process behind the filter for good; safe between fork and exec.
    pub(super) fn install(&mut self) -> io::Result<()> {
        // SAFETY: a plain system call that can't fail.
        let pid = unsafe { libc::getpid() } as u32;
        for &at in &self.own_pid {
            self.program[at].k = pid;
        }
        let program = libc::sock_fprog { len: self.program.len() as u16, filter: self.program.as_mut_ptr() };
        const MODE: libc::c_ulong = libc::SECCOMP_MODE_FILTER as libc::c_ulong;
        check(prctl(libc::PR_SET_NO_NEW_PRIVS, 1))?;
        // SAFETY: the program lives until the call returns.
        check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, MODE, &raw const program) }.into()).map(drop)
    }
}
