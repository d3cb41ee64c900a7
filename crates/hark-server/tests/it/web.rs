//! The web app: its page, its files, and what becomes of paths that do not exist.

use hark_server::{Config, InstantEngine};
use hark_web::{File, Site};
use reqwest::{Method, Response, StatusCode};

use crate::server::{Server, config, json, refusal};

/// Long enough that the server would compress it by itself.
const PAGE: &str = concat!(
    "<!doctype html><title>Hark</title><p>",
    "words words words words words words words words words words words words words words words words words words words ",
    "words words words words words words words words words words words words words words words words words words words ",
    "words words words words words words words words words words words words words words words words words words words ",
    "words words words words words words words words words words words words words words words words words words words ",
    "words words words words words words words words words words words words words words words words words words words ",
);

static FILES: [File; 4] = [
    File {
        path: "assets/index-1a2b.js",
        hash: "0a",
        identity: PAGE.as_bytes(),
        brotli: None,
        gzip: Some(b"js by gzip"),
    },
    File { path: "assets/plain-3c4d.css", hash: "0b", identity: PAGE.as_bytes(), brotli: None, gzip: None },
    File {
        path: "index.html",
        hash: "0c",
        identity: PAGE.as_bytes(),
        brotli: Some(b"page by br"),
        gzip: Some(b"page by gzip"),
    },
    File { path: "robots.txt", hash: "0d", identity: b"User-agent: *\n", brotli: None, gzip: None },
];

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

fn with_app() -> Config {
    Config { site: Site::new(&FILES), ..config() }
}

async fn server() -> Server {
    Server::with(with_app(), InstantEngine::default()).await
}

async fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> Response {
    send(server, Method::GET, path, headers).await
}

async fn send(server: &Server, method: Method, path: &str, headers: &[(&str, &str)]) -> Response {
    let request = server.anonymous().request(method, path);
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).send().await.unwrap()
}

fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

/// All values of a header, since CORS has its own `Vary`.
fn varies_by_coding(response: &Response) -> bool {
    let values = response.headers().get_all("vary").iter().map(|value| value.to_str().unwrap().to_lowercase());
    values
        .flat_map(|value| value.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>())
        .any(|name| name == "accept-encoding")
}

#[tokio::test]
async fn every_page_of_the_app_is_its_page_with_a_strict_policy() {
    let server = server().await;
    for path in [
        "/",
        "/library",
        "/t/123",
        "/live",
        "/captions",
        "/voice",
        "/account",
        "/account/keys",
        "/admin",
        "/admin/jobs",
        "/developers",
        "/sign-in",
        "/sign-up",
        "/forgot",
        "/sign-in?next=%2Flibrary",
        "/library/",
        "/index.html",
    ] {
        let response = get(&server, path, &[]).await;
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(header(&response, "content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(header(&response, "cache-control"), Some("no-cache"));
        assert_eq!(header(&response, "etag"), Some("\"0c\""));
        assert_eq!(header(&response, "x-content-type-options"), Some("nosniff"));
        assert_eq!(header(&response, "x-frame-options"), Some("DENY"));
        assert_eq!(header(&response, "referrer-policy"), Some("same-origin"));
        assert_eq!(header(&response, "cross-origin-opener-policy"), Some("same-origin"));
        assert!(header(&response, "permissions-policy").unwrap().contains("microphone=(self)"));
        let policy = header(&response, "content-security-policy").unwrap();
        let directives: Vec<&str> = policy.split(';').map(str::trim).collect();
        for directive in
            ["default-src 'none'", "script-src 'self'", "style-src 'self'", "base-uri 'none'", "frame-ancestors 'none'"]
        {
            assert!(directives.contains(&directive), "{policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http") && !policy.contains(" *"), "{policy}");
        assert_eq!(response.text().await.unwrap(), PAGE, "{path}");
    }
}

#[tokio::test]
async fn files_are_sent_in_the_coding_that_the_client_takes_and_not_compressed_again() {
    let server = server().await;
    for (path, accepts, coding, etag, body) in [
        ("/", "gzip, deflate, br, zstd", Some("br"), "\"0c-br\"", "page by br"),
        ("/", "gzip", Some("gzip"), "\"0c-gzip\"", "page by gzip"),
        ("/", "br;q=0, gzip", Some("gzip"), "\"0c-gzip\"", "page by gzip"),
        ("/", "br;q=0, gzip;q=0", None, "\"0c\"", PAGE),
        // The server would compress it so by itself.
        ("/", "zstd", None, "\"0c\"", PAGE),
        ("/assets/index-1a2b.js", "br, gzip", Some("gzip"), "\"0a-gzip\"", "js by gzip"),
        ("/assets/plain-3c4d.css", "br, gzip, zstd", None, "\"0b\"", PAGE),
    ] {
        let response = get(&server, path, &[("accept-encoding", accepts)]).await;
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(header(&response, "content-encoding"), coding, "{path} {accepts}");
        assert_eq!(header(&response, "etag"), Some(etag), "{path} {accepts}");
        assert!(varies_by_coding(&response), "{path}");
        assert_eq!(header(&response, "content-length"), Some(body.len().to_string().as_str()), "{path} {accepts}");
        assert_eq!(response.text().await.unwrap(), body, "{path} {accepts}");
    }
    let head = send(&server, Method::HEAD, "/assets/index-1a2b.js", &[("accept-encoding", "gzip")]).await;
    assert_eq!((head.status(), header(&head, "content-length")), (StatusCode::OK, Some("10")));
    assert_eq!(header(&head, "content-type"), Some("text/javascript; charset=utf-8"));
    assert_eq!(head.text().await.unwrap(), "");
}

#[tokio::test]
async fn hashed_files_are_kept_for_a_year_and_others_asked_for_by_their_tag() {
    let server = server().await;
    let script = get(&server, "/assets/index-1a2b.js", &[]).await;
    assert_eq!(header(&script, "cache-control"), Some("public, max-age=31536000, immutable"));
    assert_eq!(header(&script, "content-security-policy"), None);
    let robots = get(&server, "/robots.txt", &[]).await;
    assert_eq!(header(&robots, "cache-control"), Some("no-cache"));
    assert_eq!(robots.text().await.unwrap(), "User-agent: *\n");
    for (path, accepts, tag, status) in [
        ("/", "br", "\"0c-br\"", 304),
        ("/library", "br", "W/\"0c-br\", \"other\"", 304),
        // The tag of other bytes.
        ("/", "br", "\"0c\"", 200),
        ("/", "br", "\"other\"", 200),
        ("/robots.txt", "br", "\"0d\"", 304),
        ("/assets/index-1a2b.js", "identity", "*", 304),
    ] {
        let response = get(&server, path, &[("accept-encoding", accepts), ("if-none-match", tag)]).await;
        assert_eq!(response.status(), status, "{path} {tag}");
        assert!(header(&response, "etag").is_some() && header(&response, "cache-control").is_some());
        assert!(varies_by_coding(&response));
        assert_eq!(response.bytes().await.unwrap().is_empty(), status == 304, "{path} {tag}");
    }
}

#[tokio::test]
async fn browsers_get_the_page_for_a_path_that_does_not_exist_and_programs_the_error_body() {
    let server = server().await;
    for path in
        ["/nothing", "/t", "/account/keys/1", "/assets/missing.js", "/assets/%FF", "/assets", "/.env", "/v2/models"]
    {
        let page = get(&server, path, &[("accept", BROWSER), ("accept-encoding", "br")]).await;
        assert_eq!(page.status(), 404, "{path}");
        assert_eq!(header(&page, "content-type"), Some("text/html; charset=utf-8"), "{path}");
        assert_eq!((header(&page, "etag"), header(&page, "content-encoding")), (None, Some("br")));
        assert!(header(&page, "content-security-policy").is_some());
        assert!(header(&page, "x-request-id").is_some());
        assert_eq!(page.text().await.unwrap(), "page by br", "{path}");
        let known = [("accept", BROWSER), ("if-none-match", "\"0c\"")];
        assert_eq!(get(&server, path, &known).await.status(), 404, "{path}: never 304");
        for accept in ["*/*", "application/json", "application/json, text/html"] {
            refusal(get(&server, path, &[("accept", accept)]).await, 404).await;
        }
        refusal(
            send(&server, Method::POST, path, &[("accept", BROWSER)]).await,
            if path.starts_with("/assets/") { 405 } else { 404 },
        )
        .await;
    }
    for path in ["/v1", "/v1/", "/v1/nothing", "/v1/transcripts/abc/nothing", "/v1/languages/x"] {
        refusal(get(&server, path, &[("accept", BROWSER)]).await, 404).await;
    }
    refusal(send(&server, Method::POST, "/", &[("accept", BROWSER)]).await, 405).await;
    // What the server has by itself stays.
    assert!(get(&server, "/docs", &[("accept", BROWSER)]).await.text().await.unwrap().contains("/v1/transcribe"));
}

#[tokio::test]
async fn the_app_is_no_part_of_the_api_and_its_paths_are_few_in_the_metrics() {
    let config = Config { metrics_listen: Some("127.0.0.1:0".parse().unwrap()), ..with_app() };
    let server = Server::with(config, InstantEngine::default()).await;
    for path in
        ["/t/4711", "/account/whatever", "/assets/index-1a2b.js", "/robots.txt", "/surprise", "/assets/surprise"]
    {
        get(&server, path, &[("accept", BROWSER)]).await;
    }
    let url = format!("http://{}/metrics", server.metrics_address());
    let metrics = crate::server::http().get(url).send().await.unwrap().text().await.unwrap();
    for route in ["/t/{id}", "/account/{part}", "/assets/{*path}"] {
        assert!(metrics.contains(&format!("route=\"{route}\"")), "{route}");
    }
    for path in ["4711", "whatever", "index-1a2b", "robots", "surprise"] {
        assert!(!metrics.contains(path), "{path}");
    }
    let document = json(get(&server, "/openapi.json", &[]).await, 200).await;
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.contains_key("/v1/models"));
    let of_app: Vec<_> =
        paths.keys().filter(|path| !path.starts_with("/v1/") && !path.starts_with("/health")).collect();
    assert!(of_app.is_empty(), "{of_app:?}");
}

#[tokio::test]
async fn without_the_app_nothing_is_at_its_paths() {
    let off = Config { web: false, ..with_app() };
    let unbuilt = Config { site: Site::EMPTY, ..with_app() };
    let without_page = Config { site: Site::new(&FILES[..2]), ..with_app() };
    for config in [off, unbuilt, without_page] {
        let server = Server::with(config, InstantEngine::default()).await;
        for path in ["/", "/library", "/t/1", "/assets/index-1a2b.js", "/robots.txt", "/index.html", "/nothing"] {
            refusal(get(&server, path, &[("accept", BROWSER)]).await, 404).await;
        }
    }
}

#[tokio::test]
async fn the_links_of_mails_open_what_they_opened() {
    let server = server().await;
    let reset = get(&server, "/v1/auth/reset", &[("accept", BROWSER)]).await;
    assert_eq!(reset.status(), 200);
    assert!(reset.text().await.unwrap().contains("Choose a new password"));
    refusal(get(&server, "/v1/auth/confirm?token=wrong", &[("accept", BROWSER)]).await, 400).await;
}
