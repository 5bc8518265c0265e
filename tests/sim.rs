//! `arcwell sim` as a person or a script meets it: the real binary on traces with known answers.
//!
//! Given traces lie in the folder that `ARCWELL_TRACES` names, else in `../shared/traces`; without it what
//! needs them is SKIPPED.

#![allow(clippy::unwrap_used, reason = "what stands around tests here is part of tests")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder for traces, and the program run in it.
struct Desk(TempDir);

/// What the program said.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Desk {
    fn new() -> Desk {
        Desk(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Puts a trace there.
    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    /// The names of all that is there.
    fn all(&self) -> BTreeSet<String> {
        let names = fs::read_dir(self.0.path()).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arcwell"));
        command.arg("sim").args(words.split_whitespace()).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    fn sim(&self, words: &str) -> Said {
        let output = self.command(words).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Said {
    #[track_caller]
    fn fine(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{self:?}");
        self.out
    }

    /// Its one line of complaint, having printed nothing of worth.
    #[track_caller]
    fn refused(self) -> String {
        assert!(self.code.is_some_and(|code| code != 0), "{self:?}");
        assert_eq!(self.out, "", "{self:?}");
        let line = self.err.strip_suffix('\n').unwrap_or_default();
        assert!(line.starts_with("arcwell: ") && !line.contains('\n'), "{self:?}");
        line["arcwell: ".len()..].to_owned()
    }
}

/// Blocks 1, 2, 3 and once more: the smallest loop.
const LOOP: &str = "1\n2\n3\n1\n2\n3\n";

/// What [`LOOP`] gives: hits that can be worked out by hand.
const LOOP_ROWS: &str = "2,LRU,0\n2,ARC,0\n2,OPT,2\n3,LRU,3\n3,ARC,3\n3,OPT,3\n";

/// Rows without trace, requests and distinct blocks, which must be `expected`.
#[track_caller]
fn rows(csv: &str, expected: &str) -> String {
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("trace,requests,unique,size,policy,hits"));
    lines.map(|line| format!("{}\n", line.strip_prefix(expected).expect(line))).collect()
}

fn folder() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/traces");
    let folder = std::env::var_os("ARCWELL_TRACES").map_or(beside, PathBuf::from);
    if folder.join("hits_exact.csv").is_file() {
        return Some(folder);
    }
    eprintln!("SKIPPED: no hits_exact.csv in {}; name a folder in ARCWELL_TRACES", folder.display());
    None
}

#[test]
fn every_format_and_packing_gives_the_same_rows() {
    let desk = Desk::new();
    let numbers = || [1_u64, 2, 3, 1, 2, 3].into_iter();
    desk.put("a.lis", "1 3 0 0\n1 3 0 1\n");
    desk.put("b.trace", format!("*\n{LOOP}"));
    desk.put("c.lbn", LOOP);
    desk.put("d.be-i32", numbers().flat_map(|key| (key as i32).to_be_bytes()).collect::<Vec<_>>());
    desk.put("e.be-i64", numbers().flat_map(u64::to_be_bytes).collect::<Vec<_>>());
    desk.put("f.u32", numbers().flat_map(|key| (key as u32).to_le_bytes()).collect::<Vec<_>>());
    desk.put("g.csv", "time,key\n0,1\n0,2\n0,3\n1,1\n1,2\n1,3\n");
    desk.put("h.lis.zst", zstd::encode_all(&b"1 3 0 0\n1 3 0 1\n"[..], 3).unwrap());
    for file in desk.all() {
        let csv = desk.sim(&format!("--trace {file} --sizes 3,2 --policies lru,arc,opt --csv")).fine();
        assert_eq!(rows(&csv, &format!("{},6,3,", &file[..1])), LOOP_ROWS, "{file}");
    }
    for (file, format) in [("c.lbn", "lirs"), ("f.u32", "u32"), ("g.csv", "csv")] {
        desk.put("unclear", fs::read(desk.path(file)).unwrap());
        let words = format!("-t unclear -f {format} -s 2..3:2 -p LRU,arc,OPT --csv --name x,y");
        assert_eq!(rows(&desk.sim(&words).fine(), "\"x,y\",6,3,"), LOOP_ROWS, "{format}");
    }
}

#[test]
fn the_table_is_what_a_person_reads() {
    let desk = Desk::new();
    desk.put("loop.trace", LOOP);
    desk.put("sized.csv", "key,size\n1,1024\n2,3072\n1,1024\n2,3072\n");
    assert_eq!(
        desk.sim("-t loop.trace -t sized.csv -s 2,100% -p opt,lru,opt --jobs 3").fine(),
        "loop: 6 requests of 3 blocks\n\nhits, %\nSIZE    OPT    LRU\n   2  33.33   0.00\n   3  50.00  50.00\n\
         \nsized: 4 requests of 2 blocks, 8 KiB\n\nhits, %\nSIZE    OPT    LRU\n   2  50.00  50.00\n\
         \nbytes of hits, %\nSIZE    OPT    LRU\n   2  50.00  50.00\n"
    );
    assert_eq!(
        desk.sim("-t sized.csv -s 1KiB,3K,4KiB -p opt-bypass").fine(),
        "sized: 4 requests of 2 blocks, 8 KiB\n\
         \nhits, %\n SIZE  OPT-bypass\n1 KiB       25.00\n3 KiB       25.00\n4 KiB       50.00\n\
         \nbytes of hits, %\n SIZE  OPT-bypass\n1 KiB       12.50\n3 KiB       12.50\n4 KiB       50.00\n"
    );
}

#[test]
fn blocks_of_one_size_make_bytes_of_blocks() {
    let desk = Desk::new();
    desk.put("loop.trace", LOOP);
    let csv = desk.sim("-t loop.trace --block 8K -s 16KiB,31K,24KiB -p lru,arc,opt --csv").fine();
    let rows = rows(&csv, "loop,6,3,");
    assert_eq!(
        rows,
        LOOP_ROWS.replace("2,", "16384,").replace("3,", "24576,") + "31744,LRU,3\n31744,ARC,3\n31744,OPT,3\n"
    );
    let said = desk.sim("-t loop.trace --block 8K -s 4KiB").refused();
    assert_eq!(said, "simulate loop.trace: there is no block of 8 KiB in 4 KiB");
    let said = desk.sim("-t loop.trace -s 4KiB").refused();
    assert!(said.contains("have no sizes") && said.contains("--block"), "{said}");
}

#[test]
fn lists_are_rows_of_their_own() {
    let desk = Desk::new();
    desk.put("loop.trace", LOOP);
    let policies = |words: &str| -> Vec<String> {
        let csv = desk.sim(&format!("-t loop.trace -s 3 --csv {words}")).fine();
        csv.lines().skip(1).map(|line| line.split(',').nth(4).unwrap().to_owned()).collect()
    };
    assert_eq!(policies("-p lru,arcwell"), ["LRU", "Arcwell"]);
    assert_eq!(policies("-p arcwell,lru --lists single"), ["Arcwell-single", "LRU"]);
    let each = ["Arcwell-single", "Arcwell-multilist", "Arcwell-pages", "LRU"];
    assert_eq!(policies("-p arcwell,lru --lists pages,multilist,single,single"), each);
    let all = policies("-p all");
    let titles: Vec<&str> = arcwell_sim::policy::POLICIES.iter().map(|row| row.title).collect();
    assert_eq!(all, titles);
}

#[test]
fn json_has_everything() {
    let desk = Desk::new();
    desk.put("sized.csv", "key,size\n1,1024\n2,3072\n1,1024\n2,3072\n");
    let object = |words: &str| -> Value {
        let out = desk.sim(&format!("-t sized.csv --json -p lru,opt-bypass {words}")).fine();
        assert_eq!(out.lines().count(), 1);
        serde_json::from_str(&out).unwrap()
    };
    let all = object("-s 3KiB");
    assert_eq!(all["version"], env!("CARGO_PKG_VERSION"));
    let trace = &all["traces"][0];
    for (name, value) in [
        ("trace", Value::from("sized")),
        ("file", "sized.csv".into()),
        ("format", "csv".into()),
        ("requests", 4.into()),
        ("unique", 2.into()),
        ("bytes", 8192.into()),
        ("unit", "bytes".into()),
        ("block", Value::Null),
        ("recorded", Value::Null),
    ] {
        assert_eq!(trace[name], value, "{name}");
    }
    let run = &trace["runs"][1];
    assert_eq!((&run["size"], &run["policy"]), (&3072.into(), &"OPT-bypass".into()));
    assert_eq!((&run["hits"], &run["hit_bytes"]), (&1.into(), &1024.into()));
    assert_eq!((run["hit_ratio"].as_f64(), run["byte_hit_ratio"].as_f64()), (Some(0.25), Some(0.125)));
    assert!(run["cpu_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
    assert_eq!(trace["runs"].as_array().map(Vec::len), Some(2));

    let blocks = &object("-s 1 --block 512 --limit 3")["traces"][0];
    assert_eq!((&blocks["unit"], &blocks["block"]), (&"blocks".into(), &512.into()));
    assert_eq!((&blocks["requests"], &blocks["bytes"]), (&3.into(), &1536.into()));
    assert_eq!(blocks["runs"][1]["hit_bytes"], 512);
}

#[test]
fn a_trace_in_our_own_format_has_sizes_but_no_daemon() {
    use arcwell_sim::trace::{Format, Request, write};
    let desk = Desk::new();
    let mut bytes = Vec::new();
    write(Format::Arcwell, &mut bytes, (0..9).map(|place| Ok(Request::of(place % 3).sized(4096)))).unwrap();
    desk.put("x.arcwell", bytes);
    // A trace that was converted has no daemon's hits to tell.
    let text = desk.sim("-t x.arcwell -s 12KiB -p lru").fine();
    assert!(text.contains("12 KiB  66.67") && !text.contains("recorded"), "{text}");
}

#[test]
fn mistakes_are_one_line_and_leave_nothing_behind() {
    let desk = Desk::new();
    desk.put("loop.trace", LOOP);
    desk.put("empty.lbn", "");
    desk.put("bad.lis", "1 3 0 0\n1 x 0 0\n");
    desk.put("cut.lis.zst", &zstd::encode_all(&LOOP.repeat(999).into_bytes()[..], 3).unwrap()[..20]);
    desk.put("what", "hello\n");
    fs::create_dir(desk.path("folder")).unwrap();
    let before = desk.all();
    for (words, parts) in [
        (
            "-t loop.trace -p lru,belady",
            &["--policies: 'belady' is not a policy", "w-tinylfu", "arcwell", "all"][..],
        ),
        ("-t loop.trace -f lsi", &["--format: 'lsi' is not a format", "oracleGeneral"]),
        ("-t loop.trace -s 0", &["--sizes: '0' is not a size from 1"]),
        ("-t loop.trace -s 5,ten", &["--sizes: 'ten' is not a size such as"]),
        ("-t loop.trace --lists books", &["--lists: 'books' is not one of single, multilist, pages"]),
        ("-t loop.trace --block 0", &["--block: '0' is not a size from 1 byte"]),
        ("-t loop.trace --jobs 0", &["--jobs"]),
        ("-t loop.trace --csv --json", &["--csv", "--json"]),
        ("-t loop.trace --name a --name b", &["more names than traces"]),
        ("", &["--trace <FILE>"]),
        ("-t gone.trace", &["gone.trace: No such file or directory"]),
        ("-t folder", &["folder", "Is a directory"]),
        ("-t empty.lbn", &["empty.lbn: there is no request in it"]),
        ("-t bad.lis", &["bad.lis: line 2, after 3 good entries: expected", "1 x 0 0"]),
        ("-t cut.lis.zst", &["cut.lis.zst: ", "zstd"]),
        ("-t what", &["what: its format is not clear", "--format"]),
        ("-t loop.trace --chart gone/x.svg", &["draw gone/x.svg: No such file or directory"]),
        ("-t loop.trace --chart folder", &["draw folder: ", "no file"]),
        ("-t bad.lis --chart x.svg", &["bad.lis: line 2"]),
    ] {
        let line = desk.sim(words).refused();
        assert!(parts.iter().all(|part| line.contains(part)), "{words}: {line}");
        assert!(!line.contains(".arcwell-"), "a file that nobody named: {line}");
        assert_eq!(desk.all(), before, "{words}");
    }
}

#[test]
fn a_chart_is_whole_and_takes_the_place_of_the_old_one() {
    let desk = Desk::new();
    desk.put("loop.trace", LOOP);
    desk.put("x.svg", "an old one");
    desk.sim("-t loop.trace -t loop.trace --name a<b -s 1,2,3 -p lru,opt --chart x.svg").fine();
    let svg = fs::read_to_string(desk.path("x.svg")).unwrap();
    let drawn = roxmltree::Document::parse(&svg).unwrap();
    let texts: Vec<&str> = drawn.descendants().filter_map(|node| node.text()).collect();
    for text in ["Hit ratio by size of cache: a<b, loop", "LRU at 3: 50.00 %", "OPT at 2: 33.33 %"] {
        assert!(texts.contains(&text), "{text}: {texts:?}");
    }
    assert_eq!(desk.all(), BTreeSet::from(["loop.trace", "x.svg"].map(str::to_owned)));
    // Others may read it, as any file that is made here.
    desk.put("plain", "");
    let permissions = |name: &str| fs::metadata(desk.path(name)).unwrap().permissions();
    assert_eq!(permissions("x.svg"), permissions("plain"));
}

#[test]
fn a_reader_that_goes_away_is_no_news() {
    let desk = Desk::new();
    // More rows than a pipe holds.
    desk.put("long.lbn", (0..4000).map(|number| format!("{}\n", number % 1000)).collect::<String>());
    let mut command = desk.command("-t long.lbn -s 1..1000:1000 -p lru,fifo,clock,2q,sieve --csv");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "trace,requests,unique,size,policy,hits\n");
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), String::new()));
}

#[test]
fn given_traces_give_the_rows_of_their_table() {
    let Some(folder) = folder() else { return };
    let table = fs::read_to_string(folder.join("hits_exact.csv")).unwrap();
    let desk = Desk::new();
    for (name, file) in [
        ("gli", "gli.trace.gz"),
        ("multi2", "multi2.trace.gz"),
        ("cp_io_lbn", "cloudPhysicsIO.csv.xz"),
        ("cp_io_lbn", "cloudPhysicsIO.vscsi.xz"),
        ("cp_io_lbn", "cloudPhysicsIO.oracleGeneral.bin.xz"),
    ] {
        let path = folder.join(file);
        if !path.is_file() {
            eprintln!("SKIPPED {name}: no {file}");
            continue;
        }
        let of_trace = |line: &&str| line.starts_with(&format!("{name},"));
        // No paper gives the hash function of W-TinyLFU: its hits are near, and tested elsewhere.
        let is_exact = |line: &&str| !line.contains(",W-TinyLFU,");
        let known: BTreeSet<&str> = table.lines().filter(of_trace).filter(is_exact).collect();
        let column =
            |place| -> BTreeSet<&str> { known.iter().map(|l| l.split(',').nth(place).unwrap()).collect() };
        let join = |words: BTreeSet<&str>| words.into_iter().collect::<Vec<_>>().join(",");
        let mut command = desk.command("--csv");
        command.arg("--trace").arg(path).args(["--name", name]);
        command.args(["--sizes", &join(column(3)), "--policies", &join(column(4))]);
        let csv = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let given: BTreeSet<&str> = csv.lines().skip(1).collect();
        let missing: Vec<_> = known.difference(&given).collect();
        assert!(missing.is_empty(), "{file}: {} of {} rows differ: {missing:?}", missing.len(), known.len());
    }
}

#[test]
fn no_bar_is_drawn_where_nobody_looks() {
    let desk = Desk::new();
    let mut file = fs::File::create(desk.path("long.lbn")).unwrap();
    for number in 0..100_000 {
        writeln!(file, "{}", number % 7919).unwrap();
    }
    assert_eq!(desk.sim("-t long.lbn -s 10..1000:20 -p all").err, "");
}
