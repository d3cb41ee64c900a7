//! A program that a test starts and lets run.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Output};

/// Ends with the test, however that ends.
pub struct Running(Option<Child>);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Running(Some(command.spawn().expect("the program starts")))
    }

    /// What Ctrl-C sends. A small system has no `kill` program.
    pub fn interrupt(&self) {
        // SAFETY: a signal to a child of ours that has not been waited for.
        assert_eq!(unsafe { libc::kill(self.id() as libc::pid_t, libc::SIGINT) }, 0);
    }

    /// What it has written by its end.
    pub fn output(mut self) -> Output {
        self.0.take().expect("nobody has taken it").wait_with_output().unwrap()
    }
}

impl Deref for Running {
    type Target = Child;
    fn deref(&self) -> &Child {
        self.0.as_ref().expect("nobody has taken it")
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("nobody has taken it")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
