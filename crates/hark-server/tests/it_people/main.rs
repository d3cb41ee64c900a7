//! People and other servers: signing in, mail, webhooks, over real sockets; and that no secret reaches a log.

mod leaving;
#[path = "../it/log.rs"]
mod log;
mod logs;
mod mail;
mod password;
#[path = "../it/server.rs"]
#[allow(dead_code, reason = "the other tests use the rest")]
mod server;
mod sessions;
mod sign;
mod visitor;
mod webhooks;
