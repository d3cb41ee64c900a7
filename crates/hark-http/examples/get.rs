//! Prints what each URL answers, with the proxies and certificates of the environment; the tests run it.

#![allow(clippy::print_stdout, reason = "it is what the program is for")]

use std::time::Duration;

use hark_http::{BlockingClient, Error};

fn main() -> Result<(), Error> {
    let client = BlockingClient::new(hark_http::builder())?;
    for url in std::env::args().skip(1) {
        let answer = client.send(client.client().get(url), Some(Duration::from_secs(60)))?;
        println!("{} {}", answer.status().as_u16(), String::from_utf8_lossy(&answer.read(1 << 20)?));
    }
    Ok(())
}
