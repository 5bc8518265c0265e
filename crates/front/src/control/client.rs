//! The client's end: what `arcwell stat` and its sisters call. Every call blocks its thread.

use std::fmt;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

use super::wire::{
    AddRequest, Cached, NewValue, PrimeEvent, PrimeProgress, PrimeRequest, Refusal, RemoveRequest, Stat,
    Status, TraceRequest, Tunable, UnmountRequest, WirePath,
};

/// How long an answer may take. Priming has no limit: its lines show that it lives.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// How often whoever records is asked whether to go on, when nothing happens.
pub const RECORD_TICK: Duration = Duration::from_millis(50);
/// The longest answer that is read into memory.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// What a URL may show as it is, in a segment and in a query.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_');

/// Why a daemon could not be asked, or what it refused.
#[derive(Debug)]
pub enum ClientError {
    /// Nobody answers on the socket.
    Unreachable(PathBuf, std::io::Error),
    /// The connection broke, or what came over it was not HTTP.
    Broken(hyper::Error),
    /// The answer was not what this version understands.
    Unreadable(serde_json::Error),
    /// The answer was longer than any that makes sense.
    TooLong,
    /// No answer in time.
    TimedOut(Duration),
    /// The daemon said no: its own line.
    Refused {
        /// The HTTP status.
        status: u16,
        /// One line for a person.
        line: String,
    },
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Unreachable(socket, error) => {
                write!(f, "no daemon at {}: {error}", socket.display())
            }
            ClientError::Broken(error) => write!(f, "the daemon hung up: {error}"),
            ClientError::Unreadable(error) => write!(f, "the daemon speaks another version: {error}"),
            ClientError::TooLong => f.write_str("the daemon's answer is longer than any that makes sense"),
            ClientError::TimedOut(limit) => write!(f, "the daemon did not answer within {limit:?}"),
            ClientError::Refused { line, .. } => f.write_str(line),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ClientError::Unreachable(_, error) => Some(error),
            ClientError::Broken(error) => Some(error),
            ClientError::Unreadable(error) => Some(error),
            ClientError::TooLong | ClientError::TimedOut(_) | ClientError::Refused { .. } => None,
        }
    }
}

impl From<hyper::Error> for ClientError {
    fn from(error: hyper::Error) -> Self {
        ClientError::Broken(error)
    }
}

impl From<serde_json::Error> for ClientError {
    fn from(error: serde_json::Error) -> Self {
        ClientError::Unreadable(error)
    }
}

type Result<T> = std::result::Result<T, ClientError>;

/// A client of one daemon. Each request is a connection of its own, so that a client may outlive
/// the pauses between its questions.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    runtime: Runtime,
}

impl Client {
    /// A client of the daemon that listens on `socket`. Nothing is sent yet.
    ///
    /// # Errors
    /// When this process may open no more descriptors.
    pub fn new(socket: &Path) -> Result<Client> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| ClientError::Unreachable(socket.to_owned(), e))?;
        Ok(Client { socket: socket.to_owned(), runtime })
    }

    /// Where the daemon listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Every statistic.
    ///
    /// # Errors
    /// [`ClientError`], as for every request.
    pub fn stat(&self) -> Result<Stat> {
        self.ask(Method::GET, "/stat", &())
    }

    /// What is mounted and how it is.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn status(&self) -> Result<Status> {
        self.ask(Method::GET, "/status", &())
    }

    /// Every tunable.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn tunables(&self) -> Result<Vec<Tunable>> {
        self.ask(Method::GET, "/tunables", &())
    }

    /// Sets a tunable and returns it as it is now.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when there is no such tunable or the value is not allowed.
    pub fn set(&self, name: &str, value: &str) -> Result<Tunable> {
        let name = percent_encode(name.as_bytes(), ENCODED);
        self.ask(Method::PUT, &format!("/tunables/{name}"), &NewValue { value: value.to_owned() })
    }

    /// How much of an absolute path is held.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn cached(&self, path: &Path) -> Result<Cached> {
        let path = percent_encode(path.as_os_str().as_bytes(), ENCODED);
        self.ask(Method::GET, &format!("/cached?path={path}"), &())
    }

    /// Adds a cache device.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with what is wrong with it, or what it holds instead.
    pub fn add_cache(&self, request: &AddRequest) -> Result<()> {
        self.ask::<AddRequest>(Method::POST, "/cache", request).map(drop)
    }

    /// Takes the cache device out that was added by a path.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when there is none.
    pub fn remove_cache(&self, path: &Path) -> Result<()> {
        let request = RemoveRequest { path: path.into() };
        self.ask::<RemoveRequest>(Method::POST, "/cache/remove", &request).map(drop)
    }

    /// Unmounts.
    ///
    /// # Errors
    /// [`ClientError::Refused`] while files are open, unless forced.
    pub fn unmount(&self, force: bool) -> Result<()> {
        self.ask::<UnmountRequest>(Method::POST, "/umount", &UnmountRequest { force }).map(drop)
    }

    /// Loads absolute paths. `progress` is told how far it is and answers whether to go on; when it
    /// says no, the connection is closed and the daemon stops. Returns the last state.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn prime(
        &self,
        paths: &[PathBuf],
        mut progress: impl FnMut(&PrimeProgress) -> bool,
    ) -> Result<PrimeProgress> {
        let request = PrimeRequest { paths: paths.iter().map(|path| WirePath(path.clone())).collect() };
        self.runtime.block_on(async {
            let mut body = self.send(Method::POST, "/prime", &request).await?.into_body();
            let mut unread = Vec::new();
            while let Some(frame) = body.frame().await {
                let Ok(data) = frame?.into_data() else { continue };
                unread.extend_from_slice(&data);
                while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = unread.drain(..=end).collect();
                    match serde_json::from_slice(&line)? {
                        PrimeEvent::Done(progress) => return Ok(progress),
                        PrimeEvent::Failed(Refusal { error: line }) => {
                            return Err(ClientError::Refused { status: 200, line });
                        }
                        PrimeEvent::Progress(now) if !progress(&now) => return Ok(now),
                        PrimeEvent::Progress(_) => {}
                    }
                }
            }
            Err(ClientError::Refused {
                status: 200,
                line: "the daemon stopped before it was done".to_owned(),
            })
        })
    }

    /// Records what a dataset asks of the cache. `take` is handed the bytes of the recording as they
    /// come, and none at all every [`RECORD_TICK`] when none come, until it breaks; then the connection
    /// is closed. `None` when the daemon ended the recording.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when there is no such dataset, or it is being recorded already.
    pub fn record<T>(
        &self,
        request: &TraceRequest,
        mut take: impl FnMut(&[u8]) -> ControlFlow<T>,
    ) -> Result<Option<T>> {
        self.runtime.block_on(async {
            let mut body = self.send(Method::POST, "/trace", request).await?.into_body();
            loop {
                let taken = match tokio::time::timeout(RECORD_TICK, body.frame()).await {
                    Err(_) => take(&[]),
                    Ok(None) => return Ok(None),
                    Ok(Some(frame)) => take(&frame?.into_data().unwrap_or_default()),
                };
                if let ControlFlow::Break(result) = taken {
                    return Ok(Some(result));
                }
            }
        })
    }

    fn ask<T: DeserializeOwned>(&self, method: Method, target: &str, body: &impl Serialize) -> Result<T> {
        let answer = async {
            let response = self.send(method, target, body).await?;
            Ok(serde_json::from_slice(&collect(response.into_body()).await?)?)
        };
        self.runtime.block_on(async {
            tokio::time::timeout(ANSWER_LIMIT, answer)
                .await
                .map_err(|_| ClientError::TimedOut(ANSWER_LIMIT))?
        })
    }

    /// Sends one request and checks that it was granted.
    async fn send(&self, method: Method, target: &str, body: &impl Serialize) -> Result<Response<Incoming>> {
        let unreachable = |e| ClientError::Unreachable(self.socket.clone(), e);
        let stream = UnixStream::connect(&self.socket).await.map_err(unreachable)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Ends with the sender and the body; its error shows in whichever of them waits.
        tokio::spawn(connection);
        let body = if method == Method::GET { Vec::new() } else { serde_json::to_vec(body)? };
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::HOST, "arcwell")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)));
        // Only a target that is no URL can fail to build, and every target here is encoded.
        let request = request.map_err(|e| unreachable(std::io::Error::other(e)))?;
        let response = sender.send_request(request).await?;
        match response.status() {
            status if status.is_success() => Ok(response),
            status => Err(refusal(status, &collect(response.into_body()).await?)),
        }
    }
}

async fn collect(mut body: Incoming) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(ClientError::TooLong);
        }
    }
    Ok(bytes)
}

fn refusal(status: StatusCode, body: &[u8]) -> ClientError {
    let line = match serde_json::from_slice(body) {
        Ok(Refusal { error }) => error,
        Err(_) => format!("the daemon answered {status}"),
    };
    ClientError::Refused { status: status.as_u16(), line }
}
