//! Ctrl-C and `kill`: noticed at once, acted on where nothing is half done.

use std::sync::atomic::{AtomicI32, Ordering};

static SIGNAL: AtomicI32 = AtomicI32::new(0);

extern "C" fn notice(signal: libc::c_int) {
    if SIGNAL.swap(signal, Ordering::SeqCst) != 0 {
        // SAFETY: `_exit` is safe to call in a signal handler and does not return.
        unsafe { libc::_exit(128 + signal) };
    }
}

/// From now on SIGINT and SIGTERM are remembered; a second one ends the process at once.
pub(crate) fn watch() {
    let handler = notice as extern "C" fn(libc::c_int);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only touches an atomic and calls `_exit`, both allowed in a signal handler.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

/// The signal that came, if one did.
pub(crate) fn noticed() -> Option<i32> {
    match SIGNAL.load(Ordering::SeqCst) {
        0 => None,
        signal => Some(signal),
    }
}
