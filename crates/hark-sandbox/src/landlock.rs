//! Landlock: which files the child may open (see landlock(7)). What no rule names is denied, `/proc` and the network included.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::{Confinement, LIBRARY_PATH, check};

/// The first version of the interface with rules for TCP, and the first with scopes for signals and abstract sockets.
pub(super) const NETWORK_ABI: i64 = 4;
pub(super) const SCOPES_ABI: i64 = 6;

// Names and values of linux/landlock.h.
const CREATE_RULESET_VERSION: libc::c_uint = 1;
const RULE_PATH_BENEATH: libc::c_int = 1;
const ACCESS_FS_EXECUTE: u64 = 1;
const ACCESS_FS_READ_FILE: u64 = 1 << 2;
const ACCESS_FS_READ_DIR: u64 = 1 << 3;
const ACCESS_NET_BIND_AND_CONNECT_TCP: u64 = 0b11;
const SCOPE_ABSTRACT_UNIX_SOCKET_AND_SIGNAL: u64 = 0b11;

#[repr(C)]
struct RulesetAttr {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneathAttr {
    allowed_access: u64,
    parent_fd: i32,
}

/// Where shared libraries lie; those that are not there are left out. `LD_LIBRARY_PATH` adds to them.
const LIBRARIES: [&str; 9] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
];

/// The version of Landlock that this kernel has; 0 for none.
pub(super) fn abi() -> i64 {
    static ABI: OnceLock<i64> = OnceLock::new();
    *ABI.get_or_init(|| {
        // SAFETY: with this flag the call takes no attributes and only gives a number.
        let abi = unsafe {
            libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<RulesetAttr>(), 0, CREATE_RULESET_VERSION)
        };
        abi.max(0)
    })
}

/// Every kind of access to files that this version can deny.
fn all_access(abi: i64) -> u64 {
    let bits = match abi {
        ..=1 => 13,
        2 => 14,
        3 | 4 => 15,
        _ => 16,
    };
    (1 << bits) - 1
}

/// Rules that a process can take upon itself.
pub(super) struct Ruleset(OwnedFd);

impl Ruleset {
    /// What a child may open: its program, shared libraries, and what it is to read. None where the kernel has no Landlock.
    pub(super) fn new(confinement: &Confinement<'_>) -> io::Result<Option<Self>> {
        let abi = abi();
        if abi == 0 {
            return Ok(None);
        }
        let ruleset = Ruleset::empty(abi)?;
        ruleset.allow_path(confinement.program, ACCESS_FS_EXECUTE | ACCESS_FS_READ_FILE)?;
        for library in libraries(confinement.program) {
            ruleset.allow_tree(&library, ACCESS_FS_EXECUTE | ACCESS_FS_READ_FILE)?;
        }
        for path in confinement.readable {
            ruleset.allow_tree(path, ACCESS_FS_READ_FILE)?;
        }
        if let Some(input) = confinement.input {
            ruleset.allow(input.as_raw_fd(), ACCESS_FS_READ_FILE)?;
        }
        Ok(Some(ruleset))
    }

    fn empty(abi: i64) -> io::Result<Self> {
        let attr = RulesetAttr {
            handled_access_fs: all_access(abi),
            handled_access_net: if abi >= NETWORK_ABI { ACCESS_NET_BIND_AND_CONNECT_TCP } else { 0 },
            scoped: if abi >= SCOPES_ABI { SCOPE_ABSTRACT_UNIX_SOCKET_AND_SIGNAL } else { 0 },
        };
        // SAFETY: the attributes live until the call returns. Older kernels take a longer structure whose end is zero.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                &raw const attr,
                size_of::<RulesetAttr>(),
                0 as libc::c_uint,
            )
        };
        let fd = check(fd)? as RawFd;
        // SAFETY: the call gave a new descriptor that nobody else owns.
        Ok(Ruleset(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Allows access to a file, or to a folder with all that lies in it, if it is there.
    fn allow_tree(&self, path: &Path, access: u64) -> io::Result<()> {
        let access = if path.is_dir() { access | ACCESS_FS_READ_DIR } else { access };
        match self.allow_path(path, access) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            allowed => allowed,
        }
    }

    fn allow_path(&self, path: &Path, access: u64) -> io::Result<()> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the path is NUL-terminated and lives until the call returns.
        let fd = unsafe { libc::open(path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
        let fd = check(fd.into())? as RawFd;
        // SAFETY: the call gave a new descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        self.allow(fd.as_raw_fd(), access)
    }

    /// Allows access to an open file, or to everything below an open folder.
    fn allow(&self, fd: RawFd, access: u64) -> io::Result<()> {
        let rule = PathBeneathAttr { allowed_access: access, parent_fd: fd };
        // SAFETY: the rule lives until the call returns, and both descriptors are open.
        let added = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.0.as_raw_fd(),
                RULE_PATH_BENEATH,
                &raw const rule,
                0 as libc::c_uint,
            )
        };
        match check(added) {
            // A file in memory lies on no mount that a rule could name; the kernel lets who has it open it again.
            Err(error) if error.raw_os_error() == Some(libc::EBADFD) => Ok(()),
            added => added.map(drop),
        }
    }

    /// Confines the calling process for good; safe between fork and exec.
    pub(super) fn restrict_self(&self) -> io::Result<()> {
        // SAFETY: a plain system call on an open descriptor.
        check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.0.as_raw_fd(), 0 as libc::c_uint) })
            .map(drop)
    }
}

/// Folders of shared libraries: the system's, those of `LD_LIBRARY_PATH`, and `lib` beside the program's folder.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = LIBRARIES.iter().map(PathBuf::from).collect();
    let more = std::env::var_os(LIBRARY_PATH).unwrap_or_default();
    all.extend(std::env::split_paths(&more).filter(|path| path.is_absolute()));
    let real = program.canonicalize().ok();
    let beside = real.as_deref().and_then(Path::parent).and_then(Path::parent).map(|root| root.join("lib"));
    all.extend(beside.filter(|folder| folder.is_dir()));
    all
}
