//! How many files, and so connections, the process may have open.

/// A connection is an open file, and shells allow 1,024 of them unless asked: asks for all that the machine lets us have.
pub fn raise_file_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a valid structure of their type and keep no pointer to it. Their failure leaves the limit as it is.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}
