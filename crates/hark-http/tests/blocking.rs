//! The blocking client against real sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use hark_http::{BlockingClient, Error};

const LONG: Duration = Duration::from_secs(60);

/// Answers one connection at a time with `answer`, which gets the connection and the lines of the head.
fn serve<T: Send + 'static>(
    mut answer: impl FnMut(&mut BufReader<TcpStream>, &[String]) -> T + Send + 'static,
) -> (String, Receiver<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, answered) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut head = Vec::new();
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                if line.trim().is_empty() {
                    break;
                }
                head.push(line.trim_end().to_owned());
            }
            if sender.send(answer(&mut stream, &head)).is_err() {
                return;
            }
        }
    });
    (url, answered)
}

fn client() -> BlockingClient {
    BlockingClient::new(hark_http::builder().no_proxy().connect_timeout(LONG)).unwrap()
}

fn get(client: &BlockingClient, url: &str) -> Result<Vec<u8>, Error> {
    client.send(client.client().get(url), Some(LONG))?.read(100)
}

#[test]
fn an_answer_is_read_up_to_its_limit_and_no_redirect_is_followed() {
    let (url, _heads) = serve(|stream, head| {
        let (status, length) = match head[0].split(' ').nth(1).unwrap() {
            "/long" => ("200 OK", 101),
            "/moved" => ("302 Found\r\nlocation: /long", 0),
            _ => ("200 OK", 100),
        };
        let body = "x".repeat(length);
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
        stream.get_mut().write_all(answer.as_bytes()).unwrap();
    });
    let client = client();
    assert_eq!(get(&client, &url).unwrap().len(), 100);
    assert!(matches!(get(&client, &format!("{url}/long")), Err(Error::TooLong { limit: 100 })));
    let moved = client.send(client.client().get(format!("{url}/moved")), Some(LONG)).unwrap();
    assert_eq!((moved.status().as_u16(), moved.headers()["location"].to_str().unwrap()), (302, "/long"));
}

#[test]
fn errors_say_what_happened_and_never_the_address() {
    let (broken, _cut) = serve(|stream, _| {
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab").unwrap();
        stream.get_mut().shutdown(std::net::Shutdown::Both).unwrap();
    });
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (silent, _held) = serve(|stream, _| stream.get_ref().try_clone().unwrap());
    let client = client();
    let fails = |url: String, limit: Duration| {
        let answer = client.send(client.client().get(format!("{url}/?key=geheim")), Some(limit));
        let error = answer.and_then(|answer| answer.read(100)).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("geheim"), "{error:?}");
        error
    };
    let refused = fails(format!("http://{gone}"), LONG);
    assert!(refused.is_connect() && refused.to_string().contains("refused"), "{refused}");
    let unknown = fails("http://nowhere.invalid".to_owned(), LONG);
    assert!(unknown.is_connect(), "{unknown:?}");
    let cut = fails(broken, LONG);
    assert!(matches!(&cut, Error::Broken(why) if why.contains("end of file")), "{cut:?}");
    assert!(matches!(fails(silent, Duration::from_millis(300)), Error::Timeout));
}

#[test]
fn a_refusal_stops_an_upload() {
    let (url, _held) = serve(|stream, _| {
        stream.get_mut().write_all(b"HTTP/1.1 413 x\r\ncontent-length: 3\r\nconnection: close\r\n\r\nno!").unwrap();
        // The connection stays open and nothing more is read: only the answer can end the upload.
        stream.get_ref().try_clone().unwrap()
    });
    let client = client();
    let mut pieces = 0u64;
    let request = client.client().post(url).header("content-length", 1u64 << 40);
    let answer = client.upload(request, &mut || {
        pieces += 1;
        Ok(Some(Bytes::from(vec![0; 1 << 17])))
    });
    let answer = answer.unwrap();
    assert_eq!((answer.status().as_u16(), answer.read(10).unwrap()), (413, b"no!".to_vec()));
    assert!(pieces << 17 < 64 << 20, "{pieces} pieces of a tebibyte were sent");
}

#[test]
fn an_upload_arrives_as_it_was_given_with_or_without_a_length() {
    let (url, bodies) = serve(|stream, head| {
        let is_chunked = head.iter().any(|line| line.eq_ignore_ascii_case("transfer-encoding: chunked"));
        let mut body = Vec::new();
        loop {
            let mut size = 300_000;
            if is_chunked {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                size = usize::from_str_radix(line.trim(), 16).unwrap();
            }
            let mut piece = vec![0; size + if is_chunked { 2 } else { 0 }];
            stream.read_exact(&mut piece).unwrap();
            body.extend_from_slice(&piece[..size]);
            if size == 0 || !is_chunked {
                break;
            }
        }
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        (is_chunked, body)
    });
    let body: Vec<u8> = (0..300_000u32).map(|at| (at / 3) as u8).collect();
    for has_length in [true, false] {
        let client = client();
        let mut request = client.client().post(&url);
        if has_length {
            request = request.header("content-length", body.len());
        }
        let mut pieces = body.chunks(70_000);
        let answer = client.upload(request, &mut || Ok(pieces.next().map(Bytes::copy_from_slice))).unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        let (is_chunked, arrived) = bodies.recv_timeout(LONG).unwrap();
        assert_eq!(is_chunked, !has_length);
        assert!(arrived == body, "the body arrived as something else");
    }
}

#[test]
fn an_upload_that_cannot_be_read_is_broken_off_and_not_ended() {
    let (url, endings) = serve(|stream, _| {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        rest.ends_with(b"0\r\n\r\n")
    });
    let client = client();
    let mut pieces = 0;
    let sent = client.upload(client.client().post(url), &mut || {
        pieces += 1;
        if pieces < 3 { Ok(Some(Bytes::from_static(b"piece"))) } else { Err(std::io::Error::other("unreadable")) }
    });
    assert!(matches!(sent.err(), Some(Error::Body(why)) if why.to_string() == "unreadable"));
    assert!(!endings.recv_timeout(LONG).unwrap(), "the body was ended as if it were whole");
}

/// The example program that prints answers, which `cargo test` builds beside the tests. The environment belongs to a whole
/// process, so it is set for another one.
fn example() -> Command {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(std::path::Path::parent).unwrap().join("examples");
    let path = built.join(format!("get{}", std::env::consts::EXE_SUFFIX));
    assert!(path.is_file(), "{} is missing; build it with `cargo build -p hark-http --examples`", path.display());
    Command::new(path)
}

#[test]
fn a_proxy_of_the_environment_is_used_but_where_it_says_no() {
    let answer = |text: &'static str| {
        serve(move |stream, head| {
            let answer =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}", text.len());
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            head[0].clone()
        })
    };
    let ((proxy, asked), (direct, _answered)) = (answer("by proxy"), answer("directly"));
    let mut child = example();
    child.args(["http://somewhere.invalid/path", &direct]);
    for name in ["http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "no_proxy", "REQUEST_METHOD"] {
        child.env_remove(name);
    }
    let ended = child.env("HTTP_PROXY", &proxy).env("NO_PROXY", "127.0.0.1").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "200 by proxy\n200 directly\n", "{ended:?}");
    assert_eq!(asked.recv_timeout(LONG).unwrap(), "GET http://somewhere.invalid/path HTTP/1.1");
}

#[tokio::test]
async fn a_client_may_be_dropped_inside_a_runtime() {
    drop(client());
}
