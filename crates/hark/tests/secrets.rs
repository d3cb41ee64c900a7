//! A server that logs everything it can, asked everything it answers: no key, token, password or spoken word is in its log.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use document::{Body, operations};
use serde_json::{Value, json};

#[path = "../../hark-server/tests/it/document.rs"]
#[allow(dead_code, reason = "the tests of the service use the rest")]
mod document;
mod request;

const PASSWORD: &str = "unlogged-Password-71";
const WRONG_PASSWORD: &str = "unlogged-Password-72";

struct Server {
    child: Child,
    url: String,
    key: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A first start with every line of the log in a file.
fn start(folder: &std::path::Path) -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hark"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HARK_") && name != "HARK_MODELS" {
            command.env_remove(name);
        }
    }
    let config = "[aliases]\nlarge-v3-turbo = \"whisper-tiny\"\n\n[server]\nwebhooks = { enabled = true }\n\n\
        [text]\nmodel = \"smollm2-135m-instruct\"\ncontext = 2048\ntimeout = 5\n";
    std::fs::write(folder.join("hark.toml"), config).unwrap();
    command.current_dir(folder).args(["serve", "--listen", "127.0.0.1:0", "--config", "hark.toml", "--data", "data"]);
    command.env("RUST_LOG", "trace").stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.stderr(File::create(folder.join("log")).unwrap()).spawn().unwrap();
    let mut key = None;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.trim().starts_with("svc_") {
            key = Some(line.trim().to_owned());
        }
        if let Some(url) = line.strip_prefix("hark listens on ") {
            return Server { child, url: url.to_owned(), key: key.expect("a first start prints a key") };
        }
    }
    panic!("the server ended before it listened: {:?}", child.wait());
}

/// One request: its status, the headers that set cookies, and its body.
fn ask(
    server: &Server,
    method: &str,
    path: &str,
    credential: &[(&str, &str)],
    body: &Body,
) -> (u16, Option<String>, String) {
    let (media, bytes) = match body {
        Body::Nothing => (None, Vec::new()),
        Body::Json(value) => (Some("application/json"), value.to_string().into_bytes()),
        Body::Form(fields) => (Some("multipart/form-data; boundary=xyz"), form(fields)),
    };
    let mut headers = credential.to_vec();
    headers.extend(media.map(|media| ("content-type", media)));
    let (status, headers, body) = request::request(method, &format!("{}{path}", server.url), &headers, bytes);
    let cookie = headers.get("set-cookie").map(|value| value.to_str().unwrap().to_owned());
    (status, cookie, String::from_utf8(body).unwrap_or_default())
}

/// A form in which files are a second of silence.
fn form(fields: &[(String, Option<String>)]) -> Vec<u8> {
    let mut silence = Vec::new();
    hark_media::write_wav(&mut silence, &[0.0; 16_000], 16_000).unwrap();
    let mut whole = Vec::new();
    for (name, text) in fields {
        let file = if text.is_none() { "; filename=\"a.wav\"" } else { "" };
        whole.extend(format!("--xyz\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n").bytes());
        whole.extend(text.as_ref().map_or(&silence[..], |text| text.as_bytes()));
        whole.extend(b"\r\n");
    }
    whole.extend(b"--xyz--\r\n");
    whole
}

#[test]
#[ignore = "needs models"]
fn no_secret_reaches_the_log_however_much_is_logged_and_whatever_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path());
    let bearer = format!("Bearer {}", server.key);
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned();
    let with_key: &[(&str, &str)] = &[("authorization", &bearer)];

    // Signing up, in, wrongly, for a token, and changing the password.
    let signed = json!({"email": "ann@example.com", "password": PASSWORD});
    let (status, cookie, answer) = ask(&server, "POST", "/v1/auth/signup", &[], &Body::Json(signed.clone()));
    assert_eq!(status, 201, "{answer}");
    let cookie = cookie.unwrap();
    let session = cookie.split(';').next().unwrap().to_owned();
    let csrf = text(&parse(&answer)["csrf_token"]);
    let wrong = json!({"email": "ann@example.com", "password": WRONG_PASSWORD});
    assert_eq!(ask(&server, "POST", "/v1/auth/signin", &[], &Body::Json(wrong)).0, 401);
    let mut for_token = signed;
    for_token["token"] = json!(true);
    let token = text(&parse(&ask(&server, "POST", "/v1/auth/signin", &[], &Body::Json(for_token)).2)["token"]);
    let by_session: &[(&str, &str)] = &[("cookie", &session), ("x-csrf-token", &csrf)];
    let made = ask(&server, "POST", "/v1/keys", by_session, &Body::Json(json!({"name": "CI"})));
    let second = text(&parse(&made.2)["key"]);
    let signing = text(&parse(&ask(&server, "GET", "/v1/webhooks/secret", with_key, &Body::Nothing).2)["secret"]);

    // A transcript that is shared, with a prompt that nobody else should read.
    let fields =
        [("file", None), ("prompt", Some("unlogged-prompt")), ("webhook_url", Some("https://a.invalid/unlogged-path"))];
    let fields = fields.map(|(name, value)| (name.to_owned(), value.map(str::to_owned)));
    let (status, _, answer) = ask(&server, "POST", "/v1/transcribe?async=true", with_key, &Body::Form(fields.to_vec()));
    assert_eq!(status, 202, "{answer}");
    let id = parse(&answer)["id"].as_i64().unwrap();
    let change = Body::Json(json!({"shared": true, "title": "unlogged-title"}));
    let shared = ask(&server, "PATCH", &format!("/v1/transcripts/{id}"), with_key, &change);
    let share = text(&parse(&shared.2)["share_token"]);

    // Everything that the document names, with every kind of credential and with none.
    let unknown = format!("Bearer svc_{}", "5".repeat(64));
    let by_token = format!("Bearer {token}");
    let credentials: [&[(&str, &str)]; 5] =
        [with_key, &[("authorization", &by_token)], by_session, &[], &[("authorization", &unknown)]];
    let document = parse(&ask(&server, "GET", "/openapi.json", &[], &Body::Nothing).2);
    let operations = operations(&document);
    let mut kinds = [0; 6];
    for operation in &operations {
        let path =
            operation.path.replace("{id}", &id.to_string()).replace("{format}", "txt").replace("{token}", &share);
        let path = if path == "/v1/auth/confirm" { format!("{path}?token=cnf_{}", "6".repeat(64)) } else { path };
        // These would end the credentials that the rest needs.
        let ends_it =
            ["/v1/auth/signout", "/v1/auth/password"].contains(&path.as_str()) || operation.method == "DELETE";
        for credential in credentials.iter().skip(if ends_it { 3 } else { 0 }) {
            let (status, _, answer) = ask(&server, &operation.method, &path, credential, &operation.body);
            assert_ne!(status, 500, "{} {path}: {answer}", operation.method);
            kinds[usize::from(status / 100)] += 1;
        }
    }
    assert!(operations.len() >= 38 && kinds[2] > 40 && kinds[4] > 60, "{} operations, {kinds:?}", operations.len());
    let change = Body::Json(json!({"current_password": PASSWORD, "new_password": "unlogged-Password-73"}));
    assert_eq!(ask(&server, "POST", "/v1/auth/password", by_session, &change).0, 200);
    drop(server);

    let log = String::from_utf8_lossy(&std::fs::read(folder.path().join("log")).unwrap()).into_owned();
    for level in ["DEBUG", "account.signed_in", "INSERT INTO keys"] {
        assert!(log.contains(level), "the log is not complete: {} bytes without {level}", log.len());
    }
    let session = session.replace("hark_session=", "");
    let secrets = [
        &bearer[7..],
        &second,
        &token,
        &session,
        &csrf,
        &signing,
        &share,
        PASSWORD,
        WRONG_PASSWORD,
        "unlogged",
        &unknown[7..],
        "666666666666",
    ];
    for secret in secrets {
        // The first 12 characters of a key are public; what follows is not, not even in part.
        let part = &secret[secret.len() - secret.len().min(16)..];
        if let Some(at) = log.find(part) {
            let line = log[..at].lines().next_back().unwrap_or_default();
            panic!("the end of {secret} was logged after: {line}");
        }
    }
}
