//! Formats of traces, held against traces whose numbers are known, bytes written by hand, what is
//! written and read again, and bytes that are nobody's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use arcwell_base::Kind;
use arcwell_sim::trace::{
    Act, Columns, Format, Options, Packing, Request, Requests, Trace, Unit, WriteError, write,
};
use proptest::prelude::*;

/// The folder of traces with known answers, if it is there.
fn traces() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("ARCWELL_TRACES").map_or(beside, PathBuf::from);
    if !folder.is_dir() {
        eprintln!("SKIPPED: no traces in {}; name a folder in ARCWELL_TRACES", folder.display());
        return None;
    }
    Some(folder)
}

fn open(path: &Path) -> File {
    File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All requests of a file, its format guessed.
fn requests(path: &Path) -> Vec<Request> {
    let requests = Requests::open(&path.to_string_lossy(), open(path), &Options::default());
    requests.and_then(Iterator::collect).unwrap_or_else(|error| panic!("{error}"))
}

/// Requests and distinct blocks of each trace, as the table of exact hits has them.
fn known(folder: &Path) -> BTreeMap<String, (u64, u32)> {
    let table = fs::read_to_string(folder.join("hits_exact.csv")).expect("the table is there");
    let rows = table.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let number = |text: &str| text.parse::<u64>().expect("a number");
    rows.map(|row| (row[0].to_owned(), (number(row[1]), number(row[2]) as u32))).collect()
}

#[test]
fn known_traces_have_their_requests_and_blocks() {
    let Some(folder) = traces() else { return };
    let known = known(&folder);
    let mut seen = 0;
    for entry in fs::read_dir(&folder).expect("the folder can be listed") {
        let path = entry.expect("an entry").path();
        let name = path.to_string_lossy().into_owned();
        if ![".zst", ".gz", ".xz"].iter().any(|packed| name.ends_with(packed)) {
            continue;
        }
        let trace = Trace::read(&name, open(&path), &Options::default()).expect("it can be read");
        let row = if trace.name() == "cloudPhysicsIO" { "cp_io_lbn" } else { trace.name() };
        let Some(&(requests, unique)) = known.get(row) else { continue };
        assert_eq!((trace.requests(), trace.unique()), (requests, unique), "{name}");
        assert_eq!(trace.accesses(Unit::Blocks).len() as u64, requests, "{name}");
        assert_eq!(trace.has_sizes(), trace.name() == "cloudPhysicsIO", "{name}");
        seen += 1;
    }
    assert!(seen > 0, "no trace of the table in {}", folder.display());
}

#[test]
fn one_disk_in_three_formats_gives_the_same_requests() {
    let Some(folder) = traces() else { return };
    let in_format = |ending: &str| -> Vec<Request> {
        let all = requests(&folder.join(format!("cloudPhysicsIO.{ending}.xz")));
        all.into_iter().map(|request| Request { time: request.time / 1_000_000, ..request }).collect()
    };
    let (csv, vscsi, oracle) = (in_format("csv"), in_format("vscsi"), in_format("oracleGeneral.bin"));
    assert!(csv == vscsi, "csv and vscsi differ");
    // Its author gave each block the size of its first request.
    let mut first = BTreeMap::new();
    let first_sizes = |request: &Request| {
        let size = *first.entry(request.key).or_insert(request.size);
        Request { size, ..*request }
    };
    assert!(oracle == vscsi.iter().map(first_sizes).collect::<Vec<_>>(), "oracleGeneral and vscsi differ");
}

/// What bytes in a format decode to, or the message of the first error.
fn decoded(format: Format, bytes: &[u8]) -> Result<Vec<Request>, String> {
    decoded_with(&Options { format: Some(format), ..Options::default() }, bytes)
}

fn decoded_with(options: &Options, bytes: &[u8]) -> Result<Vec<Request>, String> {
    let requests = Requests::open("x", bytes, options);
    requests.and_then(Iterator::collect).map_err(|error| error.to_string())
}

fn of(keys: &[u64]) -> Vec<Request> {
    keys.iter().copied().map(Request::of).collect()
}

#[test]
fn bytes_written_by_hand_are_understood() {
    for (format, bytes, keys) in [
        (Format::Lis, &b"10 3 0 0\r\n\n7 1 0 1"[..], &[10, 11, 12, 7][..]),
        (Format::Lirs, b"*\n5\n\n6\r\n*\n5\n", &[5, 6, 5]),
        (Format::Lbn, b"5\n0x1F\n\n18446744073709551615\n", &[5, 31, u64::MAX]),
        (Format::BeI32, &[0, 0, 1, 2, 0xff, 0xff, 0xff, 0xff], &[258, 0xffff_ffff]),
        (Format::BeI64, &[0, 0, 0, 0, 0, 0, 1, 2], &[258]),
        (Format::U32, &[2, 1, 0, 0], &[258]),
        (Format::Csv, b"key\n5\n0x6\n\n5\n", &[5, 6, 5]),
    ] {
        assert_eq!(decoded(format, bytes), Ok(of(keys)), "{format}");
        assert_eq!(decoded(format, b""), Ok(of(&[])), "{format}: nothing is no request");
    }
}

#[test]
fn records_of_virtual_disks_are_told_by_their_version() {
    let (number, length, parts, command) = (1u32.to_le_bytes(), 512u32.to_le_bytes(), [0; 4], [0x2a, 0]);
    let (lbn, time, response) = (9u64.to_le_bytes(), 77u64.to_le_bytes(), [0; 8]);
    let first = [&number[..], &length, &parts, &command, &[0, 1], &lbn, &time].concat();
    let second = [&command[..], &[0, 2], &number, &length, &parts, &lbn, &time, &response].concat();
    let request = Request::of(9).sized(512).at(77);
    for record in [&first, &second] {
        assert_eq!(decoded(Format::Vscsi, record), Ok(vec![request]));
        assert_eq!(decoded(Format::Vscsi, &record.repeat(3)), Ok(vec![request; 3]));
    }
    let mixed = [&first[..], &first, &second].concat();
    let refusal = decoded(Format::Vscsi, &mixed).expect_err("the version changes");
    assert!(refusal.contains("byte 64, after 2 good"), "{refusal}");
    assert!(decoded(Format::Vscsi, &[7; 80]).is_err_and(|refusal| refusal.contains("version")));
}

#[test]
fn columns_are_found_by_name_or_told() {
    let requests = vec![Request::of(5).sized(512).at(1_500_000), Request::of(6).sized(1).at(2_000_000)];
    for (columns, text) in [
        ("", "time,obj_id,size\n1.5,5,512\n2,6,0\n"),
        ("", "Size\tTimestamp\tLBN\n512\t1.5\t5\n1\t2\t6\n"),
        ("", "op;len;\"offset\";ts\nread;512;0x5;1.5\n\"wri;te\";1;6;2\n"),
        ("key=3,size=2,time=1", "1.5,512,5\n2,1,6\n"),
        ("obj-id-col=3,obj-size-col=2,time-col=1,header=no,separator=:", "1.5:512:5\n2:1:6\n"),
        ("key=who,size=HOW MUCH,time=when", "when,how much,who\n1.5,512,5\n2,1,6\n"),
        ("key=3,size=2,time=1,header=yes", "a,b,c\n1.5,512,5\n2,1,6"),
    ] {
        let columns = columns.parse().expect(columns);
        let options = Options { format: Some(Format::Csv), columns, ..Options::default() };
        assert_eq!(decoded_with(&options, text.as_bytes()), Ok(requests.clone()), "{text}");
    }
}

#[test]
fn text_keys_are_equal_where_their_texts_are() {
    let columns = "key=1,keys=text,header=no".parse().expect("columns");
    let options = Options { format: Some(Format::Csv), columns, ..Options::default() };
    let trace = Trace::read("x", &b"/a\n/b\n/a\n7\n"[..], &options).expect("it is read");
    let blocks: Vec<_> = trace.accesses(Unit::Blocks).map(|access| access.block).collect();
    assert_eq!(blocks, [0, 1, 0, 2]);
}

#[test]
fn a_bad_description_of_columns_is_refused() {
    for bad in ["key", "key=", "key=0", "who=1", "separator=ab", "separator=1", "header=maybe", "keys=maybe"]
    {
        let refusal = bad.parse::<Columns>().expect_err(bad).to_string();
        assert!(refusal.contains(bad), "{refusal}");
    }
}

#[test]
fn a_bad_entry_is_told_with_its_place() {
    for (format, bytes, part) in [
        (Format::Lis, &b"1 1 0 0\n2 x 0 0\n"[..], "line 2, after 1 good entries: expected 'start_block"),
        (Format::Lis, b"1 1 0\n", "line 1"),
        (Format::Lis, b"1 0 0 0\n", "line 1"),
        (Format::Lis, b"1 1048577 0 0\n", "2^20"),
        (Format::Lis, b"18446744073709551615 2 0 0\n", "line 1"),
        (
            Format::Lirs,
            b"1\n\n-1\n",
            "line 3, after 1 good entries: expected a block number or '*', found \"-1\"",
        ),
        (Format::Lbn, b"1\n0xg\n", "line 2"),
        (
            Format::BeI32,
            b"\0\0\0\x01\0\0",
            "byte 4, after 1 good entries: ends within an entry: 2 of 4 bytes",
        ),
        (Format::BeI64, b"\0\0\0\x01\0\0", "6 of 8 bytes"),
        (Format::OracleGeneral, &[0; 25], "byte 24, after 1 good entries"),
        (Format::Csv, b"time,size\n1,2\n", "no column for the key in \"time size\""),
        (Format::Csv, b"key,size\n1,2\n\n3,-4\n", "line 4, after 1 good entries: expected a size"),
        (Format::Csv, b"size,key\n1,2\n3\n", "line 3, after 1 good entries: expected a row with a key"),
        (Format::Csv, b"key,x\nabc,2\n", "keys=text"),
        (Format::Arcwell, b"ARCWTRC\n\x09", "cannot be decoded"),
    ] {
        let refusal = decoded(format, bytes).expect_err("a bad entry");
        assert!(refusal.starts_with("x: ") && refusal.contains(part), "{format}: {refusal}");
    }
}

#[test]
fn a_line_or_row_without_end_is_refused_and_not_held() {
    let digits = std::io::repeat(b'1').take(1 << 30);
    let quoted = std::io::Read::chain(&b"key,x\n1,\""[..], std::io::repeat(b'1').take(1 << 30));
    let columns = std::io::Read::chain(&b"key,x\n1"[..], std::io::repeat(b',').take(1 << 30));
    let inputs: [(Format, Box<dyn Read>, &str); 4] = [
        (Format::Lbn, Box::new(digits), "line 1"),
        (Format::Lis, Box::new(std::io::repeat(b' ')), "line 1"),
        (Format::Csv, Box::new(quoted), "line 2"),
        (Format::Csv, Box::new(columns), "1024 columns"),
    ];
    for (format, input, part) in inputs {
        let options = Options { format: Some(format), ..Options::default() };
        let refusal = Trace::read("x", input, &options).expect_err("no end").to_string();
        assert!(refusal.contains(part), "{refusal}");
    }
}

#[test]
fn a_limit_ends_the_reading_before_what_is_bad() {
    let options = Options { format: Some(Format::Lirs), limit: Some(2), ..Options::default() };
    assert_eq!(decoded_with(&options, b"1\n2\nx\n"), Ok(of(&[1, 2])));
    let more = Options { limit: Some(3), ..options };
    assert!(decoded_with(&more, b"1\n2\nx\n").is_err());
}

/// Packs `bytes` by each program, in two parts one after the other.
fn packed(bytes: &[u8]) -> Vec<(Packing, Vec<u8>)> {
    let parts = bytes.split_at(bytes.len() / 2);
    let gzip = |part: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(part).expect("into memory");
        encoder.finish().expect("into memory")
    };
    let zstd = |part: &[u8]| zstd::encode_all(part, 3).expect("into memory");
    let xz = |part: &[u8]| liblzma::encode_all(part, 6).expect("into memory");
    let both = |pack: &dyn Fn(&[u8]) -> Vec<u8>| [pack(parts.0), pack(parts.1)].concat();
    vec![(Packing::Zstd, both(&zstd)), (Packing::Gzip, both(&gzip)), (Packing::Xz, both(&xz))]
}

#[test]
fn packed_parts_are_one_trace_and_a_cut_or_damage_is_told() {
    let keys: Vec<u64> = (0..40_000u64).map(|place| place * place % 10_007).collect();
    let text: String = keys.iter().map(|key| format!("{key}\n")).collect();
    for (packing, bytes) in packed(text.as_bytes()) {
        assert_eq!(Packing::of(&bytes), packing);
        assert_eq!(decoded(Format::Lbn, &bytes), Ok(of(&keys)), "{packing}");
        let cut = decoded(Format::Lbn, &bytes[..bytes.len() - 20]).expect_err("cut short");
        let told = format!("cannot be unpacked as {packing}");
        assert!(cut.contains(&told) && cut.contains("good entries"), "{cut}");
        let mut damaged = bytes.clone();
        for byte in &mut damaged[bytes.len() / 4..][..16] {
            *byte ^= 0x55;
        }
        let refusal = decoded(Format::Lbn, &damaged);
        assert!(refusal.is_err(), "{packing}: damage was not seen");
    }
}

#[test]
fn a_window_that_would_take_too_much_memory_is_refused() {
    // One frame of zstd with the two bytes "7\n" as they are, and a window of 2^(10 + exponent) bytes.
    let zstd = |exponent: u8| [0x28, 0xb5, 0x2f, 0xfd, 0, exponent << 3, 0x11, 0, 0, b'7', b'\n'];
    // A stream of xz whose block says that its dictionary is that large; a check covers the header.
    let xz = |dictionary: u8| {
        let mut bytes = liblzma::encode_all(&b"7\n"[..], 0).expect("into memory");
        let header = &mut bytes[12..24];
        assert_eq!(header[..4], [2, 0, 0x21, 1], "a block of 12 bytes with LZMA2 alone");
        header[4] = dictionary;
        let mut check = flate2::Crc::new();
        check.update(&header[..8]);
        header[8..].copy_from_slice(&check.sum().to_le_bytes());
        bytes
    };
    let (largest, sixty_four_mebibytes) = (40, 28);
    for (usual, huge) in [(zstd(17).to_vec(), zstd(18).to_vec()), (xz(sixty_four_mebibytes), xz(largest))] {
        assert_eq!(decoded(Format::Lbn, &usual), Ok(of(&[7])));
        let refusal = decoded(Format::Lbn, &huge).expect_err("too large a window");
        assert!(refusal.contains("cannot be unpacked"), "{refusal}");
    }
}

/// Gives one byte at a time.
struct Slow<R>(R);

impl<R: Read> Read for Slow<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(1);
        self.0.read(&mut buffer[..length])
    }
}

#[test]
fn pieces_of_any_length_give_the_same_trace() {
    let requests: Vec<_> =
        (0..30_000).map(|key| Request::of(key * 7919 % 1_000_003).sized(9).at(key)).collect();
    for format in [Format::Csv, Format::Lbn, Format::OracleGeneral, Format::Arcwell] {
        let bytes = written(format, &requests);
        let options = Options { format: Some(format), ..Options::default() };
        let whole = Trace::read("x", &bytes[..], &options).expect("it is read");
        let slow = Trace::read("x", Slow(&bytes[..]), &options).expect("it is read");
        assert!(whole == slow, "{format}");
        assert_eq!((whole.len(), whole.unique()), (30_000, 30_000), "{format}");
    }
}

fn written(format: Format, requests: &[Request]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = write(format, &mut bytes, requests.iter().copied().map(Ok)).expect("it is written");
    assert_eq!(written.entries + written.left_out, requests.len() as u64);
    bytes
}

#[test]
fn a_conversion_gives_what_the_traces_author_gave() {
    let Some(folder) = traces() else { return };
    let given = folder.join("cloudPhysicsIO.oracleGeneral.bin.xz");
    let mut expected = Vec::new();
    liblzma::read::XzDecoder::new(open(&given)).read_to_end(&mut expected).expect("it is whole");
    let mut first = BTreeMap::new();
    let requests: Vec<_> = requests(&folder.join("cloudPhysicsIO.vscsi.xz"))
        .into_iter()
        .map(|request| request.sized(*first.entry(request.key).or_insert(request.size)))
        .collect();
    assert!(written(Format::OracleGeneral, &requests) == expected, "next accesses differ");
}

#[test]
fn a_request_is_written_with_the_place_of_the_next_to_its_block() {
    let bytes = written(Format::OracleGeneral, &of(&[5, 6, 5, 5]));
    let next = |record: &[u8]| i64::from_le_bytes(record[16..].try_into().expect("eight bytes"));
    assert_eq!(bytes.chunks_exact(24).map(next).collect::<Vec<_>>(), [3, -1, 4, -1]);
}

#[test]
fn what_a_format_cannot_hold_is_refused_or_counted() {
    let mut out = Vec::new();
    let refusal = write(Format::U32, &mut out, of(&[1, 1 << 32]).into_iter().map(Ok)).expect_err("too large");
    assert_eq!(refusal.to_string(), "entry 1: key 4294967296 does not fit u32");
    assert!(
        write(Format::Lis, &mut out, []).is_err_and(|refusal| refusal.to_string().contains("oracleGeneral"))
    );
    let removal = Request { act: Act::Remove, ..Request::of(1) };
    let counted = write(Format::Lbn, &mut Vec::new(), [Ok(Request::of(1)), Ok(removal)]);
    assert!(counted.is_ok_and(|written| (written.entries, written.left_out) == (1, 1)));
    assert!(matches!(write(Format::Csv, Full, [Ok(Request::of(1))]), Err(WriteError::Output(_))));
}

/// Takes nothing.
struct Full;

impl Write for Full {
    fn write(&mut self, _bytes: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn entries() -> impl Strategy<Value = Request> {
    let keys = prop_oneof![0u64..20, any::<u32>().prop_map(u64::from), any::<u64>()];
    let acts = prop_oneof![
        4 => Just(Act::Read),
        1 => Just(Act::Probe),
        1 => Just(Act::Remove),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(is_guess, stays)| Act::Admit { is_guess, stays }),
    ];
    let kinds = prop_oneof![Just(Kind::Data), Just(Kind::Metadata)];
    (keys, 1..=u32::MAX, 0u64..1 << 50, kinds, acts).prop_map(|(key, size, time, kind, act)| Request {
        time,
        key,
        size,
        kind,
        act,
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(all in prop::collection::vec(entries(), 0..200)) {
        let reads = || all.iter().filter(|entry| entry.act == Act::Read);
        let keys: Vec<u64> = reads().map(|entry| entry.key).collect();
        for format in [Format::Lbn, Format::BeI64] {
            prop_assert_eq!(decoded(format, &written(format, &all)), Ok(of(&keys)));
        }
        let small: Vec<_> = all.iter().map(|entry| Request { key: entry.key >> 32, ..*entry }).collect();
        let keys: Vec<u64> = keys.iter().map(|key| key >> 32).collect();
        prop_assert_eq!(decoded(Format::U32, &written(Format::U32, &small)), Ok(of(&keys)));
        let plain = reads().map(|entry| Request { kind: Kind::Data, ..*entry }).collect::<Vec<_>>();
        prop_assert_eq!(decoded(Format::Csv, &written(Format::Csv, &all)), Ok(plain.clone()));
        let seconds: Vec<_> = plain.iter().map(|entry| entry.at(entry.time / 1_000_000 * 1_000_000)).collect();
        prop_assert_eq!(decoded(Format::OracleGeneral, &written(Format::OracleGeneral, &all)), Ok(seconds));
    }

    #[test]
    fn a_recording_holds_everything_but_the_keys(mut all in prop::collection::vec(entries(), 0..200)) {
        all.sort_by_key(|entry| entry.time);
        let bytes = written(Format::Arcwell, &all);
        let read = decoded(Format::Arcwell, &bytes).expect("what was written");
        prop_assert_eq!(read.len(), all.len());
        let mut names = BTreeMap::new();
        for (read, wrote) in read.iter().zip(&all) {
            // A removal says nothing of size. Data and metadata of one key are two blocks.
            let size = if wrote.act == Act::Remove { 1 } else { wrote.size };
            let name = *names.entry((wrote.key, wrote.kind == Kind::Data)).or_insert(read.key);
            prop_assert_eq!(*read, Request { key: name, size, ..*wrote });
        }
        let distinct: BTreeSet<_> = names.values().collect();
        prop_assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn bytes_that_are_nobodys_give_requests_or_an_error(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..400),
            "([0-9x*,; \n]|key|size|\"){0,200}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..400).prop_map(|tail| [&b"ARCWTRC\n\x01\x00"[..], &tail].concat()),
        ],
    ) {
        for format in Format::ALL.into_iter().map(Some).chain([None]) {
            let options = Options { format, limit: Some(1000), ..Options::default() };
            match Trace::read("x", &bytes[..], &options) {
                Ok(trace) => prop_assert!(trace.requests() <= 1000),
                Err(refusal) => prop_assert!(refusal.to_string().starts_with("x: ")),
            }
        }
    }

    #[test]
    fn a_packed_trace_that_is_changed_or_cut_never_panics(
        keys in prop::collection::vec(any::<u32>(), 0..200), place: prop::sample::Index, bits: u8, cut: prop::sample::Index,
    ) {
        let text: String = keys.iter().map(|key| format!("{key}\n")).collect();
        for (_, mut bytes) in packed(text.as_bytes()) {
            let place = place.index(bytes.len());
            bytes[place] ^= bits;
            bytes.truncate(cut.index(bytes.len()) + 1);
            let options = Options { format: Some(Format::Lbn), limit: Some(1000), ..Options::default() };
            let _either = Trace::read("x", &bytes[..], &options);
        }
    }
}
