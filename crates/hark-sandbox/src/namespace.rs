//! A user namespace for the child, in which its user has no capability over anything outside, with network and IPC namespaces
//! of its own. Its user id stays what it is on files.

use std::ffi::CStr;
use std::io;
use std::sync::OnceLock;

use crate::{check, prctl};

/// The user and group that the child sees itself as.
const NOBODY: u32 = 65_534;

/// Which namespaces this kernel lets the service make.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Available {
    pub(super) user: bool,
    pub(super) network: bool,
}

/// Tries it once, in a child that ends at once.
pub(super) fn available() -> Available {
    static AVAILABLE: OnceLock<Available> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let user = libc::CLONE_NEWUSER;
        if works(&Namespace::new(user | OTHERS)) {
            return Available { user: true, network: true };
        }
        Available { user: works(&Namespace::new(user)), network: false }
    })
}

const OTHERS: libc::c_int = libc::CLONE_NEWNET | libc::CLONE_NEWIPC;

/// What the child needs to enter its namespace.
pub(super) struct Namespace {
    flags: libc::c_int,
    users: String,
    groups: String,
}

impl Namespace {
    /// The widest namespace that works here, if any.
    pub(super) fn prepare() -> Option<Self> {
        let available = available();
        let flags = libc::CLONE_NEWUSER | if available.network { OTHERS } else { 0 };
        available.user.then(|| Namespace::new(flags))
    }

    fn new(flags: libc::c_int) -> Self {
        // SAFETY: plain system calls that can't fail.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        Namespace { flags, users: format!("{NOBODY} {user} 1"), groups: format!("{NOBODY} {group} 1") }
    }

    /// Enters the namespace; safe between fork and exec. Exec then takes all capabilities away.
    pub(super) fn enter(&self) -> io::Result<()> {
        // The files below belong to root while a process can't be dumped, as the service itself can't.
        check(prctl(libc::PR_SET_DUMPABLE, 1))?;
        // SAFETY: a plain system call; the calling process has one thread.
        check(unsafe { libc::unshare(self.flags) }.into())?;
        write(c"/proc/self/setgroups", b"deny")?;
        write(c"/proc/self/uid_map", self.users.as_bytes())?;
        write(c"/proc/self/gid_map", self.groups.as_bytes())
    }
}

/// Writes a short file in one go, without allocating.
fn write(path: &CStr, text: &[u8]) -> io::Result<()> {
    // SAFETY: the path is NUL-terminated, the text is as long as it says, and the descriptor is this function's own.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        check(file.into())?;
        let written = libc::write(file, text.as_ptr().cast(), text.len());
        let error = io::Error::last_os_error();
        libc::close(file);
        if written == text.len() as isize { Ok(()) } else { Err(error) }
    }
}

/// Whether a child of this process can enter the namespace.
fn works(namespace: &Namespace) -> bool {
    // SAFETY: the child only makes system calls before it ends, and it is waited for.
    unsafe {
        match libc::fork() {
            -1 => false,
            0 => libc::_exit(i32::from(namespace.enter().is_err())),
            child => {
                let mut status = 0;
                while libc::waitpid(child, &mut status, 0) < 0 {
                    if *libc::__errno_location() != libc::EINTR {
                        return false;
                    }
                }
                libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
            }
        }
    }
}

/// Takes every capability from a process of root, where it can have no namespace; safe between fork and exec.
pub(super) fn drop_capabilities() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }
    /// `_LINUX_CAPABILITY_VERSION_3` of linux/capability.h, whose sets have two halves of three words.
    const VERSION: u32 = 0x2008_0522;
    for capability in 0..64 {
        // Numbers that this kernel does not know fail, and need not be dropped.
        prctl(libc::PR_CAPBSET_DROP, capability);
    }
    let header = Header { version: VERSION, pid: 0 };
    let none = [0u32; 6];
    // SAFETY: both structures are laid out as the kernel expects and live until the call returns.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, &raw const none) }).map(drop)
}
