//! The client for code that blocks: a command line has no runtime of its own.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use reqwest::header::HeaderMap;
use reqwest::{Body, Client, ClientBuilder, RequestBuilder, Response, StatusCode};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};

use crate::error::Error;

/// A client whose calls block. Connections live on a thread of their own, so that they go on while the caller is busy.
///
/// Its calls panic inside an async runtime, as everything there that blocks should; dropping it there is fine.
pub struct BlockingClient {
    client: Client,
    /// There until it is dropped.
    runtime: Option<Runtime>,
}

/// An answer whose body is still to come.
pub struct BlockingResponse {
    response: Response,
    runtime: Handle,
}

impl BlockingClient {
    /// Starts the client.
    pub fn new(builder: ClientBuilder) -> Result<Self, Error> {
        let client = builder.build()?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("hark-http")
            .enable_all()
            .build()
            .map_err(|error| Error::Setup(error.to_string()))?;
        Ok(BlockingClient { client, runtime: Some(runtime) })
    }

    /// What requests are made with.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Sends a request and waits for the head of the answer, at most for so long if a time is given.
    pub fn send(&self, request: RequestBuilder, head_timeout: Option<Duration>) -> Result<BlockingResponse, Error> {
        let send = async {
            match head_timeout {
                Some(limit) => tokio::time::timeout(limit, request.send()).await.map_err(|_| Error::Timeout)?,
                None => request.send().await,
            }
            .map_err(Error::from)
        };
        Ok(self.answer(self.handle().block_on(send)?))
    }

    /// Sends a request whose body `next` gives piece by piece, on the calling thread, as the connection takes them; none is the
    /// end. An answer that comes before the end stops it: a refused upload is not sent to its end.
    pub fn upload(
        &self,
        request: RequestBuilder,
        next: &mut dyn FnMut() -> io::Result<Option<Bytes>>,
    ) -> Result<BlockingResponse, Error> {
        let (wanted_sender, mut wanted) = mpsc::channel::<()>(1);
        let (pieces, pieces_receiver) = mpsc::channel::<io::Result<Bytes>>(1);
        let body = stream::unfold((wanted_sender, pieces_receiver), |(wanted, mut pieces)| async {
            wanted.send(()).await.ok()?;
            let piece = pieces.recv().await?;
            Some((piece, (wanted, pieces)))
        });
        let handle = self.handle();
        let mut sending = handle.spawn(request.body(Body::wrap_stream(body)).send());
        loop {
            let event = async {
                tokio::select! {
                    biased;
                    sent = &mut sending => Event::Sent(sent),
                    wanted = wanted.recv() => wanted.map_or(Event::Dropped, |()| Event::Wanted),
                }
            };
            match handle.block_on(event) {
                Event::Sent(sent) => return Ok(self.answer(joined(sent)?)),
                Event::Dropped => break,
                Event::Wanted => {}
            }
            match next() {
                // There is room, since a piece was asked for; if the connection ended meanwhile, the answer says so.
                Ok(Some(piece)) => drop(pieces.try_send(Ok(piece))),
                Ok(None) => break,
                Err(error) => {
                    abort(handle, sending, &pieces);
                    return Err(Error::Body(error));
                }
            }
        }
        drop(pieces);
        Ok(self.answer(joined(handle.block_on(sending))?))
    }

    fn answer(&self, response: Response) -> BlockingResponse {
        BlockingResponse { response, runtime: self.handle().clone() }
    }

    fn handle(&self) -> &Handle {
        self.runtime.as_ref().expect("the runtime is there until the client is dropped").handle()
    }
}

/// What an upload waits for.
enum Event {
    /// The answer, or why there is none.
    Sent(Result<reqwest::Result<Response>, JoinError>),
    /// The connection takes another piece.
    Wanted,
    /// The connection has dropped the body: it is whole, or nobody wants it.
    Dropped,
}

fn joined(sent: Result<reqwest::Result<Response>, JoinError>) -> Result<Response, Error> {
    sent.map_err(|error| Error::Broken(error.to_string()))?.map_err(Error::from)
}

/// Breaks an upload off so that its receiver does not take it for whole: the connection closes in the middle of the body.
fn abort(handle: &Handle, sending: JoinHandle<reqwest::Result<Response>>, pieces: &mpsc::Sender<io::Result<Bytes>>) {
    let _ = pieces.try_send(Err(io::Error::other("the body could not be read")));
    let ended = async {
        // The error ends the request at once.
        let _ = tokio::time::timeout(Duration::from_secs(1), sending).await;
    };
    handle.block_on(ended);
}

impl Drop for BlockingClient {
    fn drop(&mut self) {
        // A name lookup that hangs in the system must not hold the program up.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl BlockingResponse {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// The fields of the head.
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Bytes that the body will have, where the head says so.
    pub fn content_length(&self) -> Option<u64> {
        self.response.content_length()
    }

    /// The next bytes of the body; none at its end.
    pub fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        self.runtime.block_on(self.response.chunk()).map_err(Error::from)
    }

    /// The whole body, if it is no longer than this.
    pub fn read(mut self, limit: u64) -> Result<Vec<u8>, Error> {
        let mut whole = Vec::new();
        while let Some(chunk) = self.chunk()? {
            if (whole.len() + chunk.len()) as u64 > limit {
                return Err(Error::TooLong { limit });
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole)
    }
}
