//! One request to a server, for tests.

use hark_http::BlockingClient;
use reqwest::Method;
use reqwest::header::HeaderMap;

/// Sends a request: the status, the head and the body of its answer. It blocks, so not inside an async task.
pub fn request(method: &str, url: &str, headers: &[(&str, &str)], body: Vec<u8>) -> (u16, HeaderMap, Vec<u8>) {
    let client = BlockingClient::new(hark_http::builder().no_proxy()).unwrap();
    let mut request = client.client().request(Method::from_bytes(method.as_bytes()).unwrap(), url).body(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = client.send(request, None).unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    (status, headers, answer.read(1 << 30).unwrap_or_default())
}
