//! The server's end: routes over a [`ControlPlane`], on a thread of their own.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use arcwell_base::{Error, Result};
use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::SocketAddr;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::plane::ControlPlane;
use super::socket::{self, Bound};

mod route;

/// Connections at once.
pub const CONNECTIONS_MAX: usize = 32;
/// Bytes of a request's body.
pub const BODY_BYTES_MAX: usize = 256 * 1024;
/// Primes at once.
pub const PRIMES_MAX: usize = 2;
/// Time between two looks at what a recording has: its buffers hold what happens meanwhile.
pub const TAKE_INTERVAL: Duration = Duration::from_millis(50);
/// How long [`Server::stop`] waits for requests under way.
pub const STOP_LIMIT: Duration = Duration::from_secs(2);

/// What the routes share.
#[derive(Clone)]
pub(crate) struct Shared {
    plane: Arc<dyn ControlPlane>,
    primes: Arc<Semaphore>,
    stopping: Arc<AtomicBool>,
}

impl Shared {
    fn new(plane: Arc<dyn ControlPlane>) -> Self {
        let primes = Arc::new(Semaphore::new(PRIMES_MAX));
        Shared { plane, primes, stopping: Arc::default() }
    }
}

/// A running control socket. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    bound: Bound,
    stopping: Arc<AtomicBool>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on the socket of `mountpoint` in `directory` and answers from `plane`.
    ///
    /// # Errors
    /// When the socket cannot be had (see [`socket::listen`]) or no thread can be started.
    pub fn start(plane: Arc<dyn ControlPlane>, directory: &Path, mountpoint: &Path) -> Result<Server> {
        let failed = |e: std::io::Error| Error::new("start the control socket", e);
        let (bound, listener) = socket::listen(directory, mountpoint)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(CONNECTIONS_MAX)
            .thread_name("arcwell-ctl-job")
            .build()
            .map_err(failed)?;
        let shared = Shared::new(plane);
        let stopping = Arc::clone(&shared.stopping);
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("arcwell-control".to_owned())
            .spawn(move || {
                runtime.block_on(serve(listener, shared, stopped));
                runtime.shutdown_timeout(STOP_LIMIT / 2);
            })
            .map_err(failed)?;
        Ok(Server { bound, stopping, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.bound.path().to_owned()
    }

    /// Stops: no new request, those under way get a moment (C4), the thread is joined.
    pub fn stop(self) {}
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the control socket's thread panicked");
        }
    }
}

async fn serve(listener: UnixListener, shared: Shared, stopped: oneshot::Receiver<()>) {
    let listener = match tokio::net::UnixListener::from_std(listener) {
        Ok(listener) => Bounded { listener, permits: Arc::new(Semaphore::new(CONNECTIONS_MAX)) },
        Err(error) => return tracing::error!(%error, "the control socket cannot be listened on"),
    };
    let (leave, left) = oneshot::channel::<()>();
    let graceful = async move {
        let _ = stopped.await;
        drop(leave);
    };
    let serving = axum::serve(listener, route::router(shared)).with_graceful_shutdown(graceful).into_future();
    let limit = async {
        let _ = left.await;
        tokio::time::sleep(STOP_LIMIT / 2).await;
    };
    tokio::select! {
        ended = serving => if let Err(error) = ended {
            tracing::error!(%error, "the control socket ended");
        },
        () = limit => tracing::warn!("requests on the control socket were cut off"),
    }
}

/// A listener that takes no more than [`CONNECTIONS_MAX`] connections (C1).
struct Bounded {
    listener: tokio::net::UnixListener,
    permits: Arc<Semaphore>,
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
                // Never closed; but a listener must not return without a connection.
                std::future::pending::<()>().await;
                continue;
            };
            match self.listener.accept().await {
                Ok((stream, address)) => return (Connection { stream, _permit: permit }, address),
                Err(error) => {
                    tracing::warn!(%error, "a control connection could not be taken");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that counts among [`CONNECTIONS_MAX`] while it lives.
struct Connection {
    stream: UnixStream,
    _permit: OwnedSemaphorePermit,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Seconds since 1970.
pub(crate) fn unix_time() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
