//! What is logged of a panic: where it was, never its message, which may quote the text that was worked on.

use std::panic::PanicHookInfo;

use tokio::task::JoinError;

/// From now on a panic of any thread is logged by its location, in the place of the standard library's report with its message.
pub fn log_panics() {
    std::panic::set_hook(Box::new(log));
}

fn log(panic: &PanicHookInfo<'_>) {
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    tracing::error!(location, thread = thread.name().unwrap_or_default(), "thread.panicked");
}

/// How a task ended without a result, without the message of its panic.
pub(crate) fn ending(error: &JoinError) -> &'static str {
    if error.is_panic() { "panicked" } else { "cancelled" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_a_task_says_nothing_of_what_it_worked_on() {
        let text = "gr\u{fc}n".to_owned();
        let panicked = tokio::spawn(async move { text[..3].len() }).await.unwrap_err();
        assert!(panicked.to_string().contains("gr\u{fc}n"), "{panicked}");
        assert_eq!(ending(&panicked), "panicked");
    }
}
