//! Every route, asked by the client over a real socket, with a plane that needs no mount.

use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arcwell_base::table::{Kstats, Sample, Setting, Tunables};
use arcwell_base::{Error, Result};
use rustix::io::Errno;
use tempfile::TempDir;

use super::*;

arcwell_base::kstats! {
    /// What the test's daemon counts.
    pub struct TestStats {
        /// Hits.
        "test.hits": hits, Counter;
    }
}

arcwell_base::tunables! {
    /// What the test's daemon can be told.
    pub struct TestTunables {
        /// A size.
        "test.size_max": size_max, Bytes = 1 << 20, 4096..=1 << 30, live;
        /// Fixed at start.
        "test.lists": lists, Choice(&["single", "multilist"]) = 1, 0..=1, open;
    }
}

/// A daemon without a cache: primes go on until they are stopped, unless the path says `done`.
#[derive(Default)]
struct Fake {
    stats: TestStats,
    tunables: TestTunables,
    unmounted: AtomicBool,
    prime_stopped: AtomicBool,
    recording_ended: Arc<AtomicBool>,
}

/// Says that it was dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl ControlPlane for Fake {
    fn samples(&self) -> Vec<Sample> {
        self.stats.samples()
    }

    fn status(&self) -> Status {
        Status {
            version: "0".to_owned(),
            pid: 1,
            since: 2,
            uptime: 3,
            cache: CacheStatus {
                size: 1,
                target: 2,
                limit: 3,
                reason: "because".to_owned(),
                state: WirePath("/state".into()),
            },
            datasets: Vec::new(),
            devices: Vec::new(),
            pending: [("test.waiting".to_owned(), 4)].into(),
        }
    }

    fn settings(&self) -> Vec<Setting> {
        self.tunables.settings()
    }

    fn add_cache(&self, request: &AddRequest) -> Result<()> {
        match request.force {
            true => Ok(()),
            false => {
                Err(Error::invalid("add a cache device", "it is somebody else's").about(&*request.path.0))
            }
        }
    }

    fn remove_cache(&self, path: &Path) -> Result<()> {
        Err(Error::invalid("remove a cache device", "there is none").about(path))
    }

    fn set(
        &self,
        name: &str,
        value: &str,
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.tunables.set(name, value, true)?)
    }

    fn prime(&self, path: &Path, progress: &mut dyn FnMut(PrimeProgress) -> bool) -> Result<PrimeProgress> {
        let mut now = PrimeProgress { files_total: 3, path: path.into(), ..PrimeProgress::default() };
        if path.ends_with("missing") {
            return Err(Error::new("prime", Errno::NOENT).about(path));
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        while !path.ends_with("done") && Instant::now() < deadline {
            now.files_done += 1;
            if !progress(now.clone()) {
                self.prime_stopped.store(true, Ordering::SeqCst);
                return Ok(now);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        now.files_done = 3;
        Ok(now)
    }

    fn cached(&self, path: &Path) -> Result<Cached> {
        if path.ends_with("missing") {
            return Err(Error::new("lookup", Errno::NOENT).about(path));
        }
        let row = CachedRow { path: path.into(), bytes: 10, bytes_cached: 5 };
        Ok(Cached { files: 1, bytes: 10, bytes_cached: 5, rows: vec![row], ..Cached::default() })
    }

    fn record(&self, dataset: &str, has_names: bool) -> Result<Take> {
        if dataset == "other" {
            return Err(Error::invalid("record", "there is no dataset 'other'"));
        }
        let (name, ended) = (format!("{dataset} {has_names} "), Dropped(Arc::clone(&self.recording_ended)));
        let mut parts = 0;
        Ok(Box::new(move |out| {
            let _ = &ended;
            parts += 1;
            // Three parts at once, then nothing ever again, as of an idle dataset.
            if parts <= 3 {
                out.extend_from_slice(name.as_bytes());
            }
            parts < 3
        }))
    }

    fn unmount(&self, force: bool) -> Result<()> {
        if !force {
            return Err(Error::new("unmount", Errno::BUSY));
        }
        self.unmounted.store(true, Ordering::SeqCst);
        Ok(())
    }
}

struct Running {
    fake: Arc<Fake>,
    server: Server,
    client: Client,
    _directory: TempDir,
}

fn run() -> Running {
    let directory = tempfile::tempdir().unwrap();
    let fake = Arc::new(Fake::default());
    let plane: Arc<dyn ControlPlane> = fake.clone();
    let server = Server::start(plane, directory.path(), Path::new("/mnt/test")).unwrap();
    let client = Client::new(&server.socket()).unwrap();
    Running { fake, server, client, _directory: directory }
}

fn refused(result: std::result::Result<impl std::fmt::Debug, ClientError>) -> (u16, String) {
    match result.unwrap_err() {
        ClientError::Refused { status, line } => (status, line),
        other => panic!("not refused: {other}"),
    }
}

fn wait_until(what: &str, true_now: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !true_now() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn statistics_and_status_are_answered() {
    let running = run();
    running.fake.stats.hits.add(7);
    let stat = running.client.stat().unwrap();
    assert_eq!(stat.kstats["test.hits"], 7);
    assert!(stat.time > 1e9);
    assert_eq!(running.client.status().unwrap(), running.fake.status());
}

#[test]
fn a_tunable_is_set_and_a_bad_one_is_refused_with_the_reason() {
    let running = run();
    let set = running.client.set("test.size_max", "2MiB").unwrap();
    assert_eq!((set.value.as_str(), set.raw, set.default.as_str()), ("2 MiB", 2 << 20, "1 MiB"));
    assert_eq!(running.client.tunables().unwrap()[0], set);
    for (name, value, line) in [
        ("test.size_max", "1", "test.size_max: '1' is not between 4 KiB and 1 GiB"),
        ("test.lists", "single", "test.lists: can only be set at start"),
        ("test.other", "1", "test.other: there is no such tunable"),
        ("a/b c", "1", "a/b c: there is no such tunable"),
    ] {
        assert_eq!(refused(running.client.set(name, value)), (400, line.to_owned()));
    }
}

#[test]
fn a_prime_ends_with_the_last_state_or_the_error() {
    let running = run();
    let paths = ["/mnt/test/done", "/mnt/test/b/done"].map(PathBuf::from);
    let done = running.client.prime(&paths, |_| true).unwrap();
    assert_eq!((done.files_done, done.files_total), (6, 6));
    let (_, line) = refused(running.client.prime(&["/mnt/test/missing".into()], |_| true));
    assert_eq!(line, "prime /mnt/test/missing: No such file or directory");
    assert_eq!(refused(running.client.prime(&["relative".into()], |_| true)).0, 400);
}

#[test]
fn a_prime_ends_with_its_connection() {
    let running = run();
    running.client.prime(&["/mnt/test/long".into()], |progress| progress.files_done == 0).unwrap();
    // The runtime of a client only runs while it is asked: dropping it is hanging up.
    let Running { fake, client, server, _directory } = running;
    drop(client);
    wait_until("C3: the prime goes on", || fake.prime_stopped.load(Ordering::SeqCst));
    drop(server);
}

#[test]
fn primes_are_bounded_and_a_stopping_server_ends_them() {
    let running = run();
    let socket = running.server.socket();
    std::thread::scope(|scope| {
        for _ in 0..server::PRIMES_MAX {
            scope.spawn(|| {
                let client = Client::new(&socket).unwrap();
                let is_full = |answer: &std::result::Result<_, ClientError>| {
                    matches!(answer, Err(ClientError::Refused { status: 429, .. }))
                };
                // The question below takes a place for a moment, too.
                while is_full(&client.prime(&["/mnt/test/long".into()], |_| true)) {}
            });
        }
        wait_until("C3: never full", || {
            let more = running.client.prime(&["/mnt/test/done".into()], |_| true);
            matches!(more, Err(ClientError::Refused { status: 429, .. }))
        });
        running.server.stop();
    });
    assert!(running.fake.prime_stopped.load(Ordering::SeqCst));
    assert!(!socket.exists());
}

fn trace_of(dataset: &str) -> TraceRequest {
    TraceRequest { dataset: dataset.to_owned(), names: true }
}

#[test]
fn a_recording_ends_with_its_connection_though_nothing_happens() {
    let Running { fake, server, client, _directory } = run();
    let mut bytes = Vec::new();
    let result = client.record(&trace_of("set"), |part| {
        bytes.extend_from_slice(part);
        if part.is_empty() { ControlFlow::Break("enough") } else { ControlFlow::Continue(()) }
    });
    assert_eq!(result.unwrap(), Some("enough"));
    assert_eq!(bytes, b"set true set true set true ");
    assert!(!fake.recording_ended.load(Ordering::SeqCst));
    drop(client);
    wait_until("C5: the recording goes on", || fake.recording_ended.load(Ordering::SeqCst));
    drop(server);
}

#[test]
fn a_stopping_server_ends_a_recording_wholly() {
    let running = run();
    let socket = running.server.socket();
    std::thread::scope(|scope| {
        let recorded = scope.spawn(|| {
            let client = Client::new(&socket).unwrap();
            let mut bytes = Vec::new();
            let ended = client.record(&trace_of("set"), |part| -> ControlFlow<()> {
                bytes.extend_from_slice(part);
                ControlFlow::Continue(())
            });
            (ended.unwrap(), bytes)
        });
        // One that is refused meanwhile changes nothing.
        let line = refused(running.client.record(&trace_of("other"), |_| ControlFlow::<()>::Continue(())));
        assert_eq!(line, (400, "record: there is no dataset 'other'".to_owned()));
        std::thread::sleep(Duration::from_millis(100));
        running.server.stop();
        assert_eq!(recorded.join().unwrap(), (None, b"set true set true set true ".to_vec()));
    });
}

#[test]
fn what_is_held_is_answered_for_any_path() {
    let running = run();
    let path = Path::new("/mnt/test/a b%&?#\u{e4}");
    assert_eq!(running.client.cached(path).unwrap().rows[0].path.0, path);
    assert_eq!(refused(running.client.cached(Path::new("/mnt/test/missing"))).0, 404);
}

#[test]
fn unmounting_while_files_are_open_is_refused_unless_forced() {
    let running = run();
    assert_eq!(refused(running.client.unmount(false)).0, 409);
    running.client.unmount(true).unwrap();
    assert!(running.fake.unmounted.load(Ordering::SeqCst));
}

#[test]
fn what_is_not_a_request_is_refused_and_the_server_goes_on() {
    let running = run();
    let too_long = format!("{{\"value\":\"{}\"}}", "x".repeat(server::BODY_BYTES_MAX));
    for (request, status) in [
        ("GET /nothing HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned(), "404"),
        ("DELETE /stat HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned(), "405"),
        ("GET /cached HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned(), "400"),
        (put("{\"value\":"), "400"),
        (put("{\"other\":1}"), "422"),
        (put(&too_long), "413"),
        ("\u{1}\u{2}\r\n\r\n".to_owned(), "400"),
    ] {
        let mut stream = UnixStream::connect(running.server.socket()).unwrap();
        // A refused body may be cut off while it is still being sent.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    running.client.stat().unwrap();
}

fn put(body: &str) -> String {
    format!(
        "PUT /tunables/test.size_max HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn connections_are_bounded_and_idle_ones_do_not_delay_the_end() {
    let running = run();
    let idle: Vec<UnixStream> =
        (1..server::CONNECTIONS_MAX).map(|_| UnixStream::connect(running.server.socket()).unwrap()).collect();
    running.client.stat().unwrap();
    running.server.stop();
    drop(idle);
}

#[test]
fn nobody_at_the_socket_is_said_plainly() {
    let error = Client::new(Path::new("/nowhere/x.sock")).unwrap().stat().unwrap_err();
    assert!(error.to_string().starts_with("no daemon at /nowhere/x.sock: "), "{error}");
}

#[test]
fn cache_devices_come_and_go_by_absolute_paths() {
    let running = run();
    let request = |path: &str, force| AddRequest { path: WirePath(path.into()), size: Some(1 << 30), force };
    let add = |path, force| running.client.add_cache(&request(path, force));
    add("/fast/l2", true).unwrap();
    let line = |text: &str| (400, text.to_owned());
    assert_eq!(refused(add("/l2", false)), line("add a cache device /l2: it is somebody else's"));
    assert_eq!(refused(add("l2", true)), line("l2: not an absolute path"));
    let removed = running.client.remove_cache(Path::new("/l2"));
    assert_eq!(refused(removed), line("remove a cache device /l2: there is none"));
}
