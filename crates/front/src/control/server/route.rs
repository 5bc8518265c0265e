//! One function a route.
//!
//! The plane may block (an origin that does not answer, a cache that is told to shrink), so each
//! call runs on the runtime's blocking threads.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arcwell_base::table::BadSetting;
use arcwell_base::{Cause, Error};
use axum::body::{Body, Bytes};
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Path as Segment, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use percent_encoding::percent_decode_str;
use rustix::io::Errno;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::{BODY_BYTES_MAX, PRIMES_MAX, Shared, TAKE_INTERVAL, unix_time};
use crate::control::plane::{ControlPlane, Take};
use crate::control::wire::{
    AddRequest, Cached, NewValue, PrimeEvent, PrimeProgress, PrimeRequest, Refusal, RemoveRequest, Stat,
    Status, TraceRequest, Tunable, UnmountRequest, WirePath,
};

/// The shortest time between two lines of progress: more would only be noise on the socket.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// The routes.
pub(crate) fn router(shared: Shared) -> Router {
    Router::new()
        .route("/stat", get(stat))
        .route("/status", get(status))
        .route("/tunables", get(tunables))
        .route("/tunables/{name}", put(set))
        .route("/prime", post(prime))
        .route("/cached", get(cached))
        .route("/cache", post(add_cache))
        .route("/cache/remove", post(remove_cache))
        .route("/trace", post(trace))
        .route("/umount", post(umount))
        .fallback(async || Refused::new(StatusCode::NOT_FOUND, "there is no such request"))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(shared)
}

type Answer<T> = Result<Json<T>, Refused>;

async fn stat(State(shared): State<Shared>) -> Answer<Stat> {
    let samples = ask(&shared, |plane| plane.samples()).await?;
    let kstats = samples.iter().map(|sample| (sample.row.name.to_owned(), sample.value)).collect();
    Ok(Json(Stat { time: unix_time(), kstats }))
}

async fn status(State(shared): State<Shared>) -> Answer<Status> {
    Ok(Json(ask(&shared, |plane| plane.status()).await?))
}

async fn tunables(State(shared): State<Shared>) -> Answer<Vec<Tunable>> {
    let settings = ask(&shared, |plane| plane.settings()).await?;
    Ok(Json(settings.iter().map(Tunable::from).collect()))
}

async fn set(
    State(shared): State<Shared>,
    Segment(name): Segment<String>,
    body: Result<Json<NewValue>, JsonRejection>,
) -> Answer<Tunable> {
    let Json(NewValue { value }) = body?;
    let settings = ask(&shared, {
        let name = name.clone();
        move |plane| plane.set(&name, &value).map(|()| plane.settings())
    })
    .await?;
    let bad = |line: String| Refused::new(StatusCode::BAD_REQUEST, line);
    let settings = settings.map_err(|error| bad(error.to_string()))?;
    let set = settings.iter().find(|setting| setting.row.name == name);
    Ok(Json(Tunable::from(set.ok_or_else(|| bad(BadSetting::unknown(&name).to_string()))?)))
}

async fn cached(State(shared): State<Shared>, RawQuery(query): RawQuery) -> Answer<Cached> {
    let path = query.as_deref().and_then(path_parameter).ok_or_else(|| {
        Refused::new(StatusCode::BAD_REQUEST, "say which path: /cached?path=/an/absolute/path")
    })?;
    Ok(Json(ask(&shared, move |plane| plane.cached(&path)).await??))
}

/// The parameter `path` of a query, as the bytes that it stands for: paths need not be UTF-8.
fn path_parameter(query: &str) -> Option<PathBuf> {
    let encoded = query.split('&').find_map(|pair| pair.strip_prefix("path="))?;
    let path = PathBuf::from(OsString::from_vec(percent_decode_str(encoded).collect()));
    path.is_absolute().then_some(path)
}

async fn add_cache(
    State(shared): State<Shared>,
    body: Result<Json<AddRequest>, JsonRejection>,
) -> Answer<AddRequest> {
    let Json(request) = body?;
    check_absolute(&request.path)?;
    let asked = request.clone();
    ask(&shared, move |plane| plane.add_cache(&asked)).await??;
    Ok(Json(request))
}

async fn remove_cache(
    State(shared): State<Shared>,
    body: Result<Json<RemoveRequest>, JsonRejection>,
) -> Answer<RemoveRequest> {
    let Json(request) = body?;
    let path = request.path.0.clone();
    ask(&shared, move |plane| plane.remove_cache(&path)).await??;
    Ok(Json(request))
}

fn check_absolute(WirePath(path): &WirePath) -> Result<(), Refused> {
    let bad = || Refused::new(StatusCode::BAD_REQUEST, format!("{}: not an absolute path", path.display()));
    if path.is_absolute() { Ok(()) } else { Err(bad()) }
}

async fn umount(
    State(shared): State<Shared>,
    body: Result<Json<UnmountRequest>, JsonRejection>,
) -> Answer<UnmountRequest> {
    let Json(request) = body?;
    ask(&shared, move |plane| plane.unmount(request.force)).await??;
    Ok(Json(request))
}

async fn prime(
    State(shared): State<Shared>,
    body: Result<Json<PrimeRequest>, JsonRejection>,
) -> Result<Response, Refused> {
    let Json(PrimeRequest { paths }) = body?;
    paths.iter().try_for_each(check_absolute)?;
    let permit = Arc::clone(&shared.primes).try_acquire_owned().map_err(|_| {
        let line = format!("{PRIMES_MAX} primes are under way already; try again when one is finished");
        Refused::new(StatusCode::TOO_MANY_REQUESTS, line)
    })?;
    let (lines, received) = mpsc::channel(16);
    tokio::task::spawn_blocking(move || prime_all(&shared, &paths, &lines, permit));
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], streamed(received)).into_response())
}

/// A body that goes on until the other end of the channel is dropped.
fn streamed(received: mpsc::Receiver<Bytes>) -> Body {
    Body::from_stream(futures_util::stream::unfold(received, async |mut received| {
        received.recv().await.map(|part| (Ok::<Bytes, std::convert::Infallible>(part), received))
    }))
}

async fn trace(
    State(shared): State<Shared>,
    body: Result<Json<TraceRequest>, JsonRejection>,
) -> Result<Response, Refused> {
    let Json(TraceRequest { dataset, names }) = body?;
    let dataset: Arc<str> = dataset.into();
    let begin = async || {
        let dataset = Arc::clone(&dataset);
        ask(&shared, move |plane| plane.record(&dataset, names)).await
    };
    let take = match begin().await? {
        // A recording whose client has just gone ends within an interval.
        Err(_) => {
            tokio::time::sleep(TAKE_INTERVAL * 3).await;
            begin().await??
        }
        Ok(take) => take,
    };
    let (parts, received) = mpsc::channel(4);
    tokio::task::spawn_blocking(move || record(&shared, take, &parts));
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], streamed(received)).into_response())
}

/// Hands on what a recording has, until the client hangs up or the server stops. While the client is
/// slow, this waits, and the recording drops events.
fn record(shared: &Shared, mut take: Take, parts: &mpsc::Sender<Bytes>) {
    loop {
        // Looked at before the last look at the recording: it ends with all that happened before.
        let is_last = shared.stopping.load(Ordering::Relaxed);
        let mut part = Vec::new();
        let has_more = take(&mut part);
        let is_gone =
            if part.is_empty() { parts.is_closed() } else { parts.blocking_send(part.into()).is_err() };
        if is_gone || (is_last && !has_more) {
            return;
        }
        if !has_more {
            std::thread::sleep(TAKE_INTERVAL);
        }
    }
}

/// Primes path after path, until all are loaded, one fails, the client hangs up or the server stops.
fn prime_all(
    shared: &Shared,
    paths: &[WirePath],
    lines: &mpsc::Sender<Bytes>,
    _permit: OwnedSemaphorePermit,
) {
    let mut before = PrimeProgress::default();
    let mut last_line = Instant::now();
    for WirePath(path) in paths {
        let mut report = |progress: PrimeProgress| {
            if last_line.elapsed() >= PROGRESS_INTERVAL {
                last_line = Instant::now();
                // A slow reader misses steps, never the end.
                let _ = lines.try_send(line(&PrimeEvent::Progress(sum(&before, progress))));
            }
            !lines.is_closed() && !shared.stopping.load(Ordering::Relaxed)
        };
        match shared.plane.prime(path, &mut report) {
            Ok(progress) => before = sum(&before, progress),
            Err(error) => {
                let refusal = Refusal { error: error.to_string() };
                let _ = lines.blocking_send(line(&PrimeEvent::Failed(refusal)));
                return;
            }
        }
        if lines.is_closed() {
            return;
        }
    }
    let _ = lines.blocking_send(line(&PrimeEvent::Done(before)));
}

fn sum(before: &PrimeProgress, now: PrimeProgress) -> PrimeProgress {
    PrimeProgress {
        files_done: before.files_done + now.files_done,
        files_total: before.files_total + now.files_total,
        bytes_done: before.bytes_done + now.bytes_done,
        bytes_total: before.bytes_total + now.bytes_total,
        path: now.path,
    }
}

fn line(event: &PrimeEvent) -> Bytes {
    // These types have string keys only: they always serialise.
    let mut json = serde_json::to_vec(event).unwrap_or_default();
    json.push(b'\n');
    json.into()
}

/// Calls the plane where it may block.
async fn ask<T: Send + 'static>(
    shared: &Shared,
    question: impl FnOnce(&dyn ControlPlane) -> T + Send + 'static,
) -> Result<T, Refused> {
    let plane = Arc::clone(&shared.plane);
    tokio::task::spawn_blocking(move || question(&*plane))
        .await
        .map_err(|_| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "the daemon failed; see its log"))
}

/// A request that was not granted.
#[derive(Debug)]
struct Refused {
    status: StatusCode,
    line: String,
}

impl Refused {
    fn new(status: StatusCode, line: impl Into<String>) -> Self {
        Refused { status, line: line.into() }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.status, Json(Refusal { error: self.line })).into_response()
    }
}

impl From<JsonRejection> for Refused {
    fn from(rejection: JsonRejection) -> Self {
        Refused::new(rejection.status(), rejection.body_text())
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let status = match (error.cause(), error.errno()) {
            (Cause::TimedOut(_), _) => StatusCode::GATEWAY_TIMEOUT,
            (_, Errno::NOENT) => StatusCode::NOT_FOUND,
            (_, Errno::INVAL) => StatusCode::BAD_REQUEST,
            (_, Errno::BUSY) => StatusCode::CONFLICT,
            (_, Errno::AGAIN) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refused::new(status, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_any_bytes() {
        let path = path_parameter("x=1&path=%2Fmnt%2Fa%20b%ff").unwrap();
        assert_eq!(path, PathBuf::from(OsString::from_vec(b"/mnt/a b\xff".to_vec())));
        assert_eq!(path_parameter("path=relative"), None);
        assert_eq!(path_parameter("other=/x"), None);
    }
}
