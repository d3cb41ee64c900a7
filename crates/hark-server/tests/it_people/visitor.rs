//! A browser, as far as the server can tell.

use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json as value};

use crate::server::{Server, http};

/// Somebody at a browser: keeps the session cookie and the token of its pages.
#[derive(Clone)]
pub(crate) struct Visitor {
    pub(crate) base: String,
    pub(crate) http: reqwest::Client,
    pub(crate) cookie: Option<String>,
    pub(crate) csrf: Option<String>,
}

pub(crate) const PASSWORD: &str = "correct horse battery";

impl Visitor {
    pub(crate) fn new(server: &Server) -> Self {
        Visitor { base: format!("http://{}", server.address), http: http(), cookie: None, csrf: None }
    }

    /// Signs up and stays signed in.
    pub(crate) async fn sign_up(server: &Server, email: &str) -> Self {
        let mut visitor = Visitor::new(server);
        let body = value!({"email": email, "password": PASSWORD});
        let answer = visitor.post("/v1/auth/signup", body).await;
        assert_eq!(answer.status(), 201);
        visitor.remember(answer).await;
        visitor
    }

    pub(crate) async fn sign_in(server: &Server, email: &str, password: &str) -> (Self, Response) {
        let visitor = Visitor::new(server);
        let answer = visitor.post("/v1/auth/signin", value!({"email": email, "password": password})).await;
        (visitor, answer)
    }

    /// Keeps the cookie and the token of an answer.
    pub(crate) async fn remember(&mut self, answer: Response) -> Value {
        let cookie = answer.headers().get("set-cookie").expect("no cookie was set").to_str().unwrap().to_owned();
        self.cookie = cookie.split(';').next().map(str::to_owned);
        let body: Value = answer.json().await.unwrap();
        self.csrf = Some(body["csrf_token"].as_str().unwrap().to_owned());
        body
    }

    /// A request with the cookie and nothing else.
    pub(crate) fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.cookie {
            Some(cookie) => request.header("cookie", format!("theme=dark; {cookie}")),
            None => request,
        }
    }

    /// A request as our own pages send it.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.bare(method, path).header("origin", &self.base).header("sec-fetch-site", "same-origin");
        match &self.csrf {
            Some(token) => request.header("x-csrf-token", token),
            None => request,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.request(Method::GET, path).send().await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Response {
        self.request(Method::POST, path).json(&body).send().await.unwrap()
    }
}
