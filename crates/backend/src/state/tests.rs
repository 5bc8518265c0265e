//! Tests of the state directory: what survives, and what is refused.

use arcwell_base::key::ObjectId;
use arcwell_base::origin::{Timestamp, Version};

use super::*;

fn file(ino: u64) -> FileId {
    FileId { ino, generation: 7 }
}

fn identity(object: u64) -> Identity {
    let mtime = Timestamp { sec: -3, nsec: 999_999_999 };
    let version = Version { size: 5, mtime, ctime: Timestamp { sec: 1 << 40, nsec: 1 } };
    Identity { object: ObjectId(object), version, record_size: 131_072 }
}

/// What every store promises.
fn keeps_its_promises(store: &dyn IdentityStore) -> (DatasetId, u64) {
    let first = store.reserve_objects(10).unwrap();
    let second = store.reserve_objects(1).unwrap();
    assert!(first.start > 0 && first.end - first.start == 10 && second.start >= first.end);
    let dataset = store.dataset(Path::new("/srv/a")).unwrap();
    assert_eq!(store.dataset(Path::new("/srv/a")).unwrap(), dataset);
    let other = store.dataset(Path::new("/srv/b")).unwrap();
    assert_ne!(other, dataset);
    store.save(dataset, &[(file(1), identity(1)), (file(2), identity(2))]).unwrap();
    store.save(dataset, &[(file(1), identity(3))]).unwrap();
    assert_eq!(store.load(dataset, file(1)).unwrap(), Some(identity(3)));
    assert_eq!(store.load(other, file(1)).unwrap(), None);
    assert_eq!(store.load(dataset, FileId { generation: 8, ..file(1) }).unwrap(), None);
    store.forget(dataset, &[file(2), file(9)]).unwrap();
    assert_eq!(store.load(dataset, file(2)).unwrap(), None);
    assert_eq!(store.trusted_devices().unwrap(), []);
    store.trust_devices(&[1, u128::MAX]).unwrap();
    store.trust_devices(&[2, 3]).unwrap();
    assert_eq!(store.trusted_devices().unwrap(), [2, 3], "all others are left out");
    (dataset, second.end)
}

#[test]
fn memory_keeps_its_promises() {
    keeps_its_promises(&MemoryIdentities::default());
}

#[test]
fn the_next_run_remembers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b/state");
    let state = StateDir::open(&path, "tank", None).unwrap();
    let id = state.id();
    let (dataset, next) = keeps_its_promises(&state);
    drop(state);
    assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o700);
    let state = StateDir::open(&path, "tank", Some(id)).unwrap();
    assert_eq!((state.id(), state.name()), (id, "tank"));
    assert_eq!(state.dataset(Path::new("/srv/a")).unwrap(), dataset);
    assert_eq!(state.load(dataset, file(1)).unwrap(), Some(identity(3)));
    assert_eq!(state.trusted_devices().unwrap(), [2, 3]);
    assert!(state.reserve_objects(1).unwrap().start >= next, "an object id is never given twice");
}

#[test]
fn one_instance_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(dir.path(), "tank", None).unwrap();
    let error = StateDir::open(dir.path(), "tank", None).unwrap_err().to_string();
    let expected = format!("in use by another instance (process {})", std::process::id());
    assert!(error.ends_with(&expected), "{error}");
    drop(state);
    StateDir::open(dir.path(), "tank", None).unwrap();
}

#[test]
fn what_is_not_ours_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |path: &Path, name: &str, expect| {
        let error = StateDir::open(path, name, expect).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    let home = dir.path().join("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("letter.txt"), "").unwrap();
    let mode = home.metadata().unwrap().mode();
    assert!(refused(&home, "tank", None).contains("not a state directory"));
    assert_eq!(home.metadata().unwrap().mode(), mode, "and is left as it was");

    let path = dir.path().join("state");
    let id = StateDir::open(&path, "tank", None).unwrap().id();
    assert!(refused(&path, "other", None).contains("belongs to the pool 'tank'"));
    assert!(refused(&path, "tank", Some(PoolId(1))).contains(&format!("belongs to the pool {id}")));

    let pool = path.join(POOL_FILE);
    let good = std::fs::read_to_string(&pool).unwrap();
    std::fs::write(&pool, good.replace("format = 1", "format = 99")).unwrap();
    assert!(refused(&path, "tank", None).contains("format 99"));
    std::fs::write(&pool, good.replace(&id.to_string(), &PoolId(5).to_string())).unwrap();
    assert!(refused(&path, "tank", None).contains("belong to the pool"));
    std::fs::write(&pool, good).unwrap();
    StateDir::open(&path, "tank", Some(id)).unwrap();
}

#[test]
fn what_is_damaged_is_said_to_be() {
    let dir = tempfile::tempdir().unwrap();
    drop(StateDir::open(dir.path(), "tank", None).unwrap());
    let database = dir.path().join(IDENTITIES_FILE);
    std::fs::write(&database, vec![b'x'; 100_000]).unwrap();
    let error = StateDir::open(dir.path(), "tank", None).unwrap_err();
    assert!(error.to_string().contains("open identities"), "{error}");
    assert!(std::error::Error::source(&error).is_some());
    std::fs::write(dir.path().join(POOL_FILE), "format = ").unwrap();
    let error = StateDir::open(dir.path(), "tank", None).unwrap_err().to_string();
    assert!(error.contains("is damaged") && error.lines().count() == 1, "{error}");
}

#[test]
fn the_default_place_follows_the_rules() {
    let path = |text: &str| Some(PathBuf::from(text));
    let place = |root, state, home| default_path("tank", root, state, home).unwrap();
    assert_eq!(place(true, path("/x"), path("/root")), Path::new("/var/lib/arcwell/tank"));
    assert_eq!(place(false, path("/x"), path("/people/a")), Path::new("/x/arcwell/tank"));
    assert_eq!(
        place(false, path("rel"), path("/people/a")),
        Path::new("/people/a/.local/state/arcwell/tank")
    );
    assert!(default_path("tank", false, None, None).is_err());
    assert!(default_path("../up", true, None, None).is_err());
}

#[test]
fn ids_are_random_and_of_version_four() {
    let (first, second) = (PoolId(random_uuid().unwrap()), PoolId(random_uuid().unwrap()));
    assert_ne!(first, second);
    let text = first.to_string();
    assert_eq!(text.parse(), Ok(first));
    assert_eq!((text.len(), &text[14..15]), (36, "4"));
    assert!("89ab".contains(&text[19..20]), "{text}");
}
