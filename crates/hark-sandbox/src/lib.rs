//! Child processes that reach nothing of the process that starts them: ffmpeg and espeak-ng, which read what strangers send.
//!
//! In: a [`Command`] made by [`command`], and what its program may use ([`Confinement`]). Out: the running child. None of its business: what the program is for,
//! how long it may take, what it answers. Each layer is set between fork and exec, in the child alone; a kernel without one of them runs the child with the others.
//!
//! - Environment: empty, but for where shared libraries lie.
//! - Resource limits: processor time, address space, no file may grow (so none can be written), few open files, no core dump.
//! - Descriptors: standard input, output and error, nothing else of this process.
//! - User namespace (`namespace.rs`): no capability over anything of this system, no access to the memory or the environment of
//!   this process, and network and IPC namespaces of its own. Without it, a root process drops its capabilities.
//! - Landlock (`landlock.rs`): of the file system only the program, shared libraries and what it is to read; no TCP, no signals out.
//! - System-call filter (`seccomp.rs`): no sockets, no new processes, no tracing or signalling of others, no mounts.
//! - Parent-death signal: the child ends with this process. The kernel sends it when the thread that forked ends, so that one
//!   thread, which never ends, forks every child ([`spawn`]).
//!
//! The child keeps the user id of this process: ffmpeg opens its input by `/dev/fd/0` to seek in it, which another user could not.

#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(target_os = "linux")]
mod seccomp;

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

/// One layer of the sandbox, and whether this kernel gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The layer, for example `landlock`.
    pub name: &'static str,
    /// Whether children run behind it here.
    pub is_active: bool,
    /// What it denies.
    pub denies: &'static str,
}

/// What a confined program may use.
#[derive(Clone, Copy, Debug)]
pub struct Confinement<'a> {
    /// The program.
    pub program: &'a Path,
    /// An open file that it may open again, such as its standard input.
    pub input: Option<&'a File>,
    /// Files, and folders with all that lies in them, that it may read. What is not there is left out.
    pub readable: &'a [PathBuf],
    /// Seconds of processor time.
    pub cpu_seconds: u64,
    /// Bytes of address space.
    pub memory_bytes: u64,
}

/// The layers between a child and this machine, with those that this kernel does not give.
pub fn layers() -> Vec<Layer> {
    let layer = |name, is_active, denies| Layer { name, is_active, denies };
    let mut layers = vec![layer("resource-limits", true, "processor time, memory, written files")];
    #[cfg(target_os = "linux")]
    {
        let abi = landlock::abi();
        let namespaces = namespace::available();
        layers.extend([
            layer("landlock", abi >= 1, "files other than its program, libraries and input"),
            layer("landlock-network", abi >= landlock::NETWORK_ABI, "TCP"),
            layer("landlock-scopes", abi >= landlock::SCOPES_ABI, "signals and abstract sockets of other processes"),
            layer("user-namespace", namespaces.user, "capabilities, memory and environment of the service"),
            layer("network-namespace", namespaces.network, "every network"),
            layer("system-call-filter", seccomp::is_available(), "sockets, new processes, tracing, signals, mounts"),
        ]);
    }
    #[cfg(not(target_os = "linux"))]
    layers.push(layer("system-sandbox", false, "files, network and other processes: only Linux has these layers"));
    layers
}

/// Names the folders of shared libraries beside the system's.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// Logs once which layers are missing here.
fn report_missing() {
    static REPORTED: Once = Once::new();
    REPORTED.call_once(|| {
        for layer in layers().iter().filter(|layer| !layer.is_active) {
            tracing::warn!(layer = layer.name, denies = layer.denies, "sandbox.layer_missing");
        }
    });
}

/// A command for the program that passes nothing of this process's environment on, but where shared libraries lie.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir("/");
    command.envs(std::env::var_os(LIBRARY_PATH).map(|path| (LIBRARY_PATH, path)));
    command
}

/// Starts `command`, which [`command`] made, confined. The child leads a process group of its own.
pub fn spawn(mut command: Command, confinement: &Confinement<'_>) -> io::Result<Child> {
    report_missing();
    command.process_group(0);
    let Confinement { cpu_seconds, memory_bytes, .. } = *confinement;
    #[cfg(target_os = "linux")]
    let mut layers = Layers::prepare(confinement);
    let set_up = move || {
        // Before the limits: entering a namespace opens files, and a service may have more of them open than a child may.
        #[cfg(target_os = "linux")]
        layers.enter_namespace()?;
        limit(libc::RLIMIT_CPU, cpu_seconds, cpu_seconds.saturating_add(1))?;
        limit(libc::RLIMIT_FSIZE, 0, 0)?;
        // A write fails, and does not kill: libpulse, to which espeak-ng is linked, sizes shared memory at its start although no sound is made.
        // SAFETY: a plain system call; an ignored signal stays ignored through exec.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        limit(libc::RLIMIT_CORE, 0, 0)?;
        limit(libc::RLIMIT_NOFILE, 64, 64)?;
        // macOS does not enforce it and refuses small values.
        #[cfg(target_os = "linux")]
        limit(libc::RLIMIT_AS, memory_bytes, memory_bytes)?;
        #[cfg(not(target_os = "linux"))]
        let _ = memory_bytes;
        #[cfg(target_os = "linux")]
        layers.confine()?;
        Ok(())
    };
    // SAFETY: the closure only makes system calls on values that were made before: it neither allocates nor locks, as code
    // between fork and exec must not.
    unsafe { command.pre_exec(set_up) };
    fork_on_lasting_thread(command)
}

type Order = (Command, Sender<io::Result<Child>>);

/// Forks on a thread that lives as long as the process, so that the parent-death signal means the death of the process.
fn fork_on_lasting_thread(command: Command) -> io::Result<Child> {
    static ORDERS: OnceLock<Mutex<Option<Sender<Order>>>> = OnceLock::new();
    let (reply, child) = channel();
    let orders = ORDERS.get_or_init(Mutex::default);
    let mut orders = orders.lock().unwrap_or_else(PoisonError::into_inner);
    if orders.is_none() {
        let (sender, inbox) = channel::<Order>();
        std::thread::Builder::new().name("sandbox-fork".into()).spawn(move || {
            for (mut command, reply) in inbox {
                // Whoever asked is waiting.
                let _ = reply.send(command.spawn());
            }
        })?;
        *orders = Some(sender);
    }
    let sent = orders.as_ref().is_some_and(|orders| orders.send((command, reply)).is_ok());
    drop(orders);
    let ended = || io::Error::other("the thread that starts confined programs has ended");
    if sent { child.recv().map_err(|_| ended())? } else { Err(ended()) }
}

#[cfg(target_os = "linux")]
struct Layers {
    parent: libc::pid_t,
    namespace: Option<namespace::Namespace>,
    is_root: bool,
    ruleset: Option<landlock::Ruleset>,
    filter: Option<seccomp::Filter>,
}

#[cfg(target_os = "linux")]
impl Layers {
    /// Makes everything that the child will need, since it can't allocate.
    fn prepare(confinement: &Confinement<'_>) -> Self {
        let ruleset = landlock::Ruleset::new(confinement);
        Layers {
            parent: std::process::id() as libc::pid_t,
            namespace: namespace::Namespace::prepare(),
            // SAFETY: a plain system call that can't fail.
            is_root: unsafe { libc::geteuid() } == 0,
            ruleset: ruleset.inspect_err(|error| tracing::warn!(%error, "sandbox.landlock_failed")).ok().flatten(),
            filter: seccomp::Filter::new(),
        }
    }

    /// Enters the namespaces, or gives up what root may do. Whatever this kernel was found to have must work: a child that is
    /// less confined than it should be does not start.
    fn enter_namespace(&self) -> io::Result<()> {
        match &self.namespace {
            Some(namespace) => namespace.enter(),
            None if self.is_root => namespace::drop_capabilities(),
            None => Ok(()),
        }
    }

    /// Enters the other layers, which open no files.
    fn confine(&mut self) -> io::Result<()> {
        check(prctl(libc::PR_SET_NO_NEW_PRIVS, 1))?;
        close_on_exec();
        if let Some(ruleset) = &self.ruleset {
            ruleset.restrict_self()?;
        }
        check(prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong))?;
        // SAFETY: a plain system call that can't fail.
        if unsafe { libc::getppid() } != self.parent {
            // The service died before the signal was asked for.
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        if let Some(filter) = &mut self.filter {
            filter.install()?;
        }
        Ok(())
    }
}

/// Marks every descriptor but the three standard ones, so that none passes through exec. They stay open until then: through one
/// of them the standard library hears whether exec failed.
#[cfg(target_os = "linux")]
fn close_on_exec() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: plain system calls; marking a descriptor that is not open fails without harm.
    unsafe {
        if libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) != 0 {
            // Kernels before 5.11. What Rust opens is marked already; this is for what others opened.
            for descriptor in FIRST as libc::c_int..1024 {
                libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn prctl(option: libc::c_int, value: libc::c_ulong) -> libc::c_long {
    // SAFETY: the options used here take one number and three zeros.
    libc::c_long::from(unsafe {
        libc::prctl(option, value, 0 as libc::c_ulong, 0 as libc::c_ulong, 0 as libc::c_ulong)
    })
}

/// The error of a system call that gave a negative number.
#[cfg(target_os = "linux")]
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
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
