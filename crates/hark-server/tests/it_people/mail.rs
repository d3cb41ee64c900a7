//! Addresses that are confirmed by mail, with a real conversation to a mail server.

use std::sync::{Arc, Mutex};

use hark_server::{InstantEngine, MailConfig, MailSecurity};
use serde_json::json as value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::server::{Server, config, eventually, json, refusal};
use crate::visitor::{PASSWORD, Visitor};

/// A mail server that takes everything.
#[derive(Clone)]
pub(crate) struct PostOffice {
    port: u16,
    /// The envelope's receiver and the mail.
    mails: Arc<Mutex<Vec<(String, String)>>>,
}

impl PostOffice {
    pub(crate) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let office = PostOffice { port: listener.local_addr().unwrap().port(), mails: Arc::default() };
        let taken = office.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(taken.clone().converse(stream));
            }
        });
        office
    }

    async fn converse(self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        stream.write_all(b"220 post office\r\n").await.unwrap();
        let (mut to, mut mail, mut in_mail) = (String::new(), String::new(), false);
        let mut line = String::new();
        while stream.read_line(&mut line).await.is_ok_and(|read| read > 0) {
            let answer = match line.trim_end() {
                "." if in_mail => {
                    in_mail = false;
                    self.mails.lock().unwrap().push((to.clone(), std::mem::take(&mut mail)));
                    "250 taken"
                }
                _ if in_mail => {
                    mail.push_str(&line);
                    ""
                }
                "DATA" => {
                    in_mail = true;
                    "354 go on"
                }
                "QUIT" => "221 bye",
                rcpt if rcpt.starts_with("RCPT TO:") => {
                    to = rcpt["RCPT TO:".len()..].trim_matches(['<', '>']).to_owned();
                    "250 ok"
                }
                _ => "250 ok",
            };
            if !answer.is_empty() {
                stream.write_all(format!("{answer}\r\n").as_bytes()).await.unwrap();
            }
            line.clear();
        }
    }

    /// The mails so far, once there are so many.
    pub(crate) async fn mails(&self, count: usize) -> Vec<(String, String)> {
        eventually("a mail", async || Some(self.mails.lock().unwrap().clone()).filter(|mails| mails.len() >= count))
            .await
    }
}

/// A mail as people read it: long lines end in `=` (quoted-printable).
pub(crate) fn unfolded(mail: &str) -> String {
    mail.replace("=\r\n", "").replace("=3D", "=")
}

fn link(mail: &str) -> Option<String> {
    let text = unfolded(mail);
    let begin = text.find("/v1/auth/confirm?token=")?;
    text[begin..].split_whitespace().next().map(str::to_owned)
}

pub(crate) async fn server_with(office: &PostOffice) -> Server {
    let mail = MailConfig {
        host: "127.0.0.1".into(),
        port: Some(office.port),
        security: MailSecurity::None,
        user: None,
        password: None,
        from: "Hark <hark@example.com>".into(),
    };
    let config = hark_server::Config { mail: Some(mail), public_url: Some("http://hark.example".into()), ..config() };
    Server::with(config, InstantEngine::default()).await
}

#[tokio::test]
async fn an_address_is_confirmed_by_the_link_in_its_mail_once() {
    let office = PostOffice::open().await;
    let server = server_with(&office).await;
    let visitor = Visitor::new(&server);
    let answer = visitor.post("/v1/auth/signup", value!({"email": "ann@example.com", "password": PASSWORD})).await;
    assert!(answer.headers().get("set-cookie").is_none());
    assert_eq!(json(answer, 202).await, value!({"confirmation_sent": true}));
    let (to, mail) = office.mails(1).await.remove(0);
    assert_eq!(to, "ann@example.com");
    assert!(mail.contains("From: Hark <hark@example.com>") && mail.contains("Subject: Confirm your address"), "{mail}");
    let link = link(&mail).unwrap();
    let account = server.store.accounts().by_email("ann@example.com").await.unwrap();
    assert_eq!(account.credits, 0, "nothing to spend before the address is confirmed");

    let (_, early) = Visitor::sign_in(&server, "ann@example.com", PASSWORD).await;
    assert!(refusal(early, 403).await.contains("mail"));
    office.mails(2).await;
    let (_, wrong) = Visitor::sign_in(&server, "ann@example.com", "a wrong password").await;
    refusal(wrong, 401).await;

    assert_eq!(json(visitor.get(&link).await, 200).await, value!({"ok": true}));
    refusal(visitor.get(&link).await, 400).await;
    refusal(visitor.get("/v1/auth/confirm?token=cnf_1").await, 400).await;
    refusal(visitor.get("/v1/auth/confirm").await, 400).await;
    let (mut visitor, answer) = Visitor::sign_in(&server, "ann@example.com", PASSWORD).await;
    let body = visitor.remember(answer).await;
    assert_eq!(body["account"]["is_confirmed"], true);
    assert_eq!(body["account"]["credits"], 600, "given with the confirmation");
}

#[tokio::test]
async fn whether_an_address_has_an_account_is_told_only_to_its_mailbox() {
    let office = PostOffice::open().await;
    let server = server_with(&office).await;
    let visitor = Visitor::new(&server);
    let sign_up = async |password: &str| {
        let body = value!({"email": "ann@example.com", "password": password});
        json(visitor.post("/v1/auth/signup", body).await, 202).await
    };
    let first = sign_up(PASSWORD).await;
    let old_link = link(&office.mails(1).await[0].1).unwrap();
    // Nobody has confirmed: the address is not taken, and the first link ends.
    let second = sign_up("another horse").await;
    let new_link = link(&office.mails(2).await[1].1).unwrap();
    refusal(visitor.get(&old_link).await, 400).await;
    json(visitor.get(&new_link).await, 200).await;
    let third = sign_up("a third horse").await;
    // Long lines come folded.
    let mail = office.mails(3).await[2].1.replace("=\r\n", "").replace("=\n", "");
    assert!(mail.contains("has one already") && link(&mail).is_none(), "{mail}");
    assert_eq!((&first, &second), (&second, &third));
    assert_eq!(Visitor::sign_in(&server, "ann@example.com", "another horse").await.1.status(), 200);
    assert_eq!(Visitor::sign_in(&server, "ann@example.com", "a third horse").await.1.status(), 401);
    // A mailbox is not flooded.
    sign_up("a fourth horse").await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(office.mails(3).await.len(), 3);
}

#[tokio::test]
async fn a_person_who_opens_the_link_reads_a_page() {
    let office = PostOffice::open().await;
    let server = server_with(&office).await;
    let visitor = Visitor::new(&server);
    visitor.post("/v1/auth/signup", value!({"email": "ann@example.com", "password": PASSWORD})).await;
    let link = link(&office.mails(1).await[0].1).unwrap();
    let request = visitor
        .bare(reqwest::Method::GET, &link)
        .header("accept", "text/html,*/*")
        .header("sec-fetch-site", "cross-site");
    let page = request.send().await.unwrap();
    assert_eq!(page.status(), 200);
    assert!(page.headers()["content-type"].to_str().unwrap().starts_with("text/html"));
    assert!(page.text().await.unwrap().contains("confirmed"));
}
