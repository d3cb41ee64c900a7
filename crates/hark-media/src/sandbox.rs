//! What the ffmpeg child may not do. All of it is set between fork and exec, in the child alone.
//!
//! Limits: processor time, address space, no file may grow (so none can be written), few open files, no core dump. On Linux it
//! cannot gain privileges, and a system-call filter refuses it sockets, so no protocol reaches the network even if an argument
//! were forgotten. If this process dies, the child's output pipe closes and its next write ends it; until then its processor
//! limit holds. (`PR_SET_PDEATHSIG` is not used: it fires when the spawning thread ends, and thread pools end threads.)

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Applies the limits to a command that is about to be spawned.
pub(crate) fn confine(command: &mut Command, cpu_seconds: u64, memory_bytes: u64) {
    command.process_group(0);
    let set_up = move || {
        limit(libc::RLIMIT_CPU, cpu_seconds, cpu_seconds.saturating_add(1))?;
        limit(libc::RLIMIT_FSIZE, 0, 0)?;
        limit(libc::RLIMIT_CORE, 0, 0)?;
        limit(libc::RLIMIT_NOFILE, 64, 64)?;
        // macOS does not enforce it and refuses small values.
        #[cfg(target_os = "linux")]
        limit(libc::RLIMIT_AS, memory_bytes, memory_bytes)?;
        #[cfg(not(target_os = "linux"))]
        let _ = memory_bytes;
        #[cfg(target_os = "linux")]
        refuse_sockets();
        Ok(())
    };
    // SAFETY: the closure only makes system calls on values copied into it: it neither allocates nor locks, as code between
    // fork and exec must not.
    unsafe { command.pre_exec(set_up) };
}

#[cfg(target_os = "linux")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_os = "linux"))]
type Resource = libc::c_int;

fn limit(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live, writable rlimit.
    if unsafe { libc::getrlimit(resource, &mut now) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // A limit can only be lowered: keep what the caller's own environment sets tighter.
    let wanted = libc::rlimit {
        rlim_cur: (soft as libc::rlim_t).min(now.rlim_max),
        rlim_max: (hard as libc::rlim_t).min(now.rlim_max),
    };
    // SAFETY: the pointer is to a live rlimit.
    match unsafe { libc::setrlimit(resource, &wanted) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes `socket` and `io_uring_setup` fail. Kernels without filters run ffmpeg all the same: its arguments forbid the network too.
#[cfg(target_os = "linux")]
fn refuse_sockets() {
    // The architecture as the kernel's audit numbers name it (linux/audit.h); others go unfiltered.
    #[cfg(target_arch = "x86_64")]
    const ARCHITECTURE: u32 = 0xc000_003e;
    #[cfg(target_arch = "aarch64")]
    const ARCHITECTURE: u32 = 0xc000_00b7;
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        // Offsets of `nr` and `arch` in struct seccomp_data.
        const NUMBER_AT: u32 = 0;
        const ARCHITECTURE_AT: u32 = 4;
        // Numbers from here on are the x32 twins of the calls below.
        const X32: u32 = 0x4000_0000;
        const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
        const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
        const fn op(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
            libc::sock_filter { code, jt, jf, k }
        }
        let refuse = libc::SECCOMP_RET_ERRNO | libc::EACCES as u32;
        let mut filter = [
            op(LOAD, 0, 0, ARCHITECTURE_AT),
            op(IF_EQUAL, 0, 5, ARCHITECTURE),
            op(LOAD, 0, 0, NUMBER_AT),
            op(IF_AT_LEAST, 3, 0, X32),
            op(IF_EQUAL, 2, 0, libc::SYS_socket as u32),
            op(IF_EQUAL, 1, 0, libc::SYS_io_uring_setup as u32),
            op(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
            op(RETURN, 0, 0, refuse),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: both calls take plain numbers and a pointer to a program that lives until they return.
        unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program);
        }
    }
}
