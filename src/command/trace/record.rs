//! `arcwell trace record`: writes what a running mount asks of its cache into a file.
//!
//! The daemon hands out bytes; this process compresses and writes them, so that the file is the
//! caller's, and a slow or full disk is the caller's as well. Whatever ends it, the file ends with a
//! whole event and a whole zstd frame.

use std::fs::File;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arcwell::record::{Decoder, Event};
use arcwell::size::parse_duration;
use arcwell::{ByteSize, Error};
use arcwell_front::control::{Client, TraceRequest};
use indicatif::{ProgressBar, ProgressStyle};
use zstd::stream::write::Encoder;

use crate::signals::Signals;
use crate::{Failure, locate, say};

/// The level of compression: it costs the machine little beside the load that it records.
const LEVEL: i32 = 1;

/// How often what is compressed is written, however little: a full disk shows soon, and a recording whose
/// process is killed can be read up to there.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// How long is read on after the end was asked for: what happened before is on its way until then.
const LAST_CALL: Duration = Duration::from_millis(100);

/// Record what a mount asks of its cache, for a simulator to replay
///
/// Ctrl-C ends it. Which blocks were asked for is recorded, never their contents. A replay is exact if
/// the mount was new when the recording began.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or mountpoint of the dataset; needed only while several are mounted
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,

    /// Where to write the recording, compressed by zstd
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// How long to record, such as 90s or 10m; without it, until Ctrl-C
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    at_most: Option<Duration>,

    /// Record the names of files as they are; without it, hashes that cannot be undone
    #[arg(long)]
    names: bool,
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (client, dataset) = locate::dataset(self.dataset.as_deref())?;
        // From here on Ctrl-C is something to be seen; before, it ends the program.
        let mut end = End { signals: Signals::block()?, due: self.at_most.map(|time| Instant::now() + time) };
        let mut tape = Tape::new(&self.output)?;
        let request = TraceRequest { dataset, names: self.names };
        let recorded = record(&client, &request, &mut tape, &mut end);
        let ended = tape.finish();
        // What broke the connection matters more than what a broken recording lacks.
        recorded?;
        say(&ended?)?;
        Ok(())
    }
}

fn record(client: &Client, request: &TraceRequest, tape: &mut Tape, end: &mut End) -> Result<(), Failure> {
    let ended = client.record(request, |bytes| match tape.take(bytes).and_then(|()| end.has_come()) {
        Ok(false) => ControlFlow::Continue(()),
        Ok(true) => ControlFlow::Break(Ok(())),
        Err(failure) => ControlFlow::Break(Err(failure)),
    });
    match ended? {
        None => Ok(()),
        Some(result) => result,
    }
}

/// What ends a recording from here.
struct End {
    signals: Signals,
    due: Option<Instant>,
}

impl End {
    fn has_come(&mut self) -> Result<bool, Failure> {
        let now = Instant::now();
        if self.signals.has_come()? {
            self.due = Some(now);
        }
        Ok(self.due.is_some_and(|due| now >= due + LAST_CALL))
    }
}

/// The file that a recording is written to, and the sums of what is in it.
struct Tape {
    path: PathBuf,
    /// Made when the first bytes come: a request that is refused overwrites nothing.
    file: Option<Encoder<'static, File>>,
    decoder: Decoder,
    /// What the decoder has seen and is not written: it may end within an event.
    unwritten: Vec<u8>,
    written: u64,
    flushed: Option<Instant>,
    bar: ProgressBar,
    sums: Sums,
}

#[derive(Default)]
struct Sums {
    events: u64,
    requests: u64,
    hits: u64,
    lost: u64,
}

impl Tape {
    fn new(path: &Path) -> Result<Tape, Failure> {
        let style = ProgressStyle::with_template("{spinner} {elapsed}  {msg}")?;
        Ok(Tape {
            path: path.to_owned(),
            file: None,
            decoder: Decoder::default(),
            unwritten: Vec::new(),
            written: 0,
            flushed: None,
            bar: ProgressBar::new_spinner().with_style(style),
            sums: Sums::default(),
        })
    }

    fn failed(&self, error: io::Error) -> Failure {
        Error::new("record to", error).about(&*self.path).into()
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.bar.tick();
        if bytes.is_empty() {
            return Ok(());
        }
        self.decoder.feed(bytes);
        self.unwritten.extend_from_slice(bytes);
        while let Some(record) = self.decoder.next()? {
            self.sums.add(&record.event);
        }
        let whole = (self.decoder.offset() - self.written) as usize;
        self.write(whole).map_err(|e| self.failed(e))?;
        self.unwritten.drain(..whole);
        self.written += whole as u64;
        let Sums { events, requests, .. } = self.sums;
        self.bar.set_message(format!("{events} events, {requests} requests, {}", ByteSize(self.written)));
        Ok(())
    }

    fn write(&mut self, whole: usize) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(Encoder::new(File::create(&self.path)?, LEVEL)?),
        };
        file.write_all(&self.unwritten[..whole])?;
        if self.flushed.is_none_or(|flushed| flushed.elapsed() >= FLUSH_INTERVAL) {
            file.flush()?;
            self.flushed = Some(Instant::now());
        }
        Ok(())
    }

    /// Ends the file; what there is to say about it.
    fn finish(mut self) -> Result<String, Failure> {
        self.bar.finish_and_clear();
        let Some(file) = self.file.take() else { return Err("nothing was recorded".into()) };
        let size = file.finish().and_then(|file| Ok(file.metadata()?.len())).map_err(|e| self.failed(e))?;
        let Sums { events, requests, hits, lost } = self.sums;
        let share = if requests == 0 { 0.0 } else { hits as f64 * 100.0 / requests as f64 };
        Ok(format!(
            "recorded {events} events: {requests} requests, {hits} hits ({share:.1} %), {lost} events lost; \
             {} in {}",
            ByteSize(size),
            self.path.display(),
        ))
    }
}

impl Sums {
    fn add(&mut self, event: &Event) {
        self.events += 1;
        match event {
            Event::Lookup { is_guess: false, hit, .. } => {
                self.requests += 1;
                self.hits += u64::from(hit.is_some());
            }
            Event::Lost { count } => self.lost += count,
            _ => {}
        }
    }
}
