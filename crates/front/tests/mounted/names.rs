//! Names: creating, linking, renaming, removing, and the errors that they give.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, RenameFlags};

use super::place::{Place, outcome, same};

#[test]
fn exclusive_creation_is_exclusive() {
    same(|dir| {
        let create = || outcome(File::options().write(true).create_new(true).open(dir.join("f")).map(drop));
        let (first, second) = (create(), create());
        fs::remove_file(dir.join("f")).unwrap();
        (first, second, create())
    });
}

#[test]
fn an_absent_name_that_appears_is_seen() {
    same(|dir| {
        let before = outcome(fs::metadata(dir.join("f")).map(|stat| stat.len()));
        fs::write(dir.join("f"), "x").unwrap();
        (before, outcome(fs::metadata(dir.join("f")).map(|stat| stat.len())))
    });
}

#[test]
fn a_name_that_is_too_long_is_refused() {
    same(|dir| {
        let make = |length| outcome(fs::write(dir.join("n".repeat(length)), ""));
        let look = |length| outcome(fs::metadata(dir.join("n".repeat(length))).map(drop));
        (make(255), make(256), look(255), look(256), look(1100))
    });
}

#[test]
fn hard_links_share_one_file() {
    same(|dir| {
        fs::write(dir.join("a"), "one").unwrap();
        fs::hard_link(dir.join("a"), dir.join("b")).unwrap();
        fs::write(dir.join("b"), "three").unwrap();
        let count = |name| fs::metadata(dir.join(name)).unwrap().nlink();
        let both = (count("a"), count("b"));
        assert_eq!(fs::metadata(dir.join("a")).unwrap().ino(), fs::metadata(dir.join("b")).unwrap().ino());
        let again = outcome(fs::hard_link(dir.join("a"), dir.join("b")));
        fs::remove_file(dir.join("a")).unwrap();
        (both, again, count("b"), fs::read(dir.join("b")).unwrap())
    });
}

#[test]
fn symbolic_links_lead_where_they_say() {
    same(|dir| {
        fs::create_dir(dir.join("d")).unwrap();
        fs::write(dir.join("d/f"), "text").unwrap();
        symlink("d/f", dir.join("link")).unwrap();
        symlink("nowhere", dir.join("dangling")).unwrap();
        symlink("loop", dir.join("loop")).unwrap();
        let target = "t".repeat(4000);
        symlink(&target, dir.join("long")).unwrap();
        (
            fs::read_to_string(dir.join("link")).unwrap(),
            fs::read_link(dir.join("link")).unwrap(),
            fs::symlink_metadata(dir.join("link")).unwrap().len(),
            fs::read_link(dir.join("long")).unwrap() == Path::new(&target),
            outcome(fs::read(dir.join("dangling"))),
            outcome(fs::read(dir.join("loop"))),
            outcome(fs::read_link(dir.join("d"))),
        )
    });
}

#[test]
fn special_files_are_made() {
    same(|dir| {
        let make = |name, kind, device| {
            rustix::fs::mknodat(CWD, dir.join(name), kind, Mode::from_raw_mode(0o640), device)
                .map_err(|errno| errno.raw_os_error())
        };
        let made = [
            make("fifo", FileType::Fifo, 0),
            make("socket", FileType::Socket, 0),
            make("file", FileType::RegularFile, 0),
            make("char", FileType::CharacterDevice, rustix::fs::makedev(1, 3)),
            make("block", FileType::BlockDevice, rustix::fs::makedev(259, 70_000)),
        ];
        let stats: Vec<_> = ["fifo", "socket", "file", "char", "block"]
            .into_iter()
            .map(|name| fs::symlink_metadata(dir.join(name)).ok())
            .map(|stat| stat.map(|stat| (stat.mode(), stat.rdev(), stat.file_type().is_fifo())))
            .collect();
        (made, stats)
    });
}

#[test]
fn removal_keeps_to_the_rules() {
    same(|dir| {
        fs::create_dir_all(dir.join("d/e")).unwrap();
        fs::write(dir.join("f"), "").unwrap();
        (
            outcome(fs::remove_dir(dir.join("d"))),
            outcome(fs::remove_dir(dir.join("f"))),
            outcome(fs::remove_file(dir.join("nothing"))),
            outcome(fs::remove_dir(dir.join("d/e"))),
            outcome(fs::remove_dir(dir.join("d"))),
            outcome(fs::metadata(dir.join("d/e")).map(drop)),
            outcome(fs::metadata(dir.join("f/x")).map(drop)),
        )
    });
}

#[test]
fn renames_keep_to_the_rules() {
    same(|dir| {
        for name in ["full/x", "d", "empty"] {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        fs::write(dir.join("f"), "f").unwrap();
        fs::write(dir.join("g"), "g").unwrap();
        let rename = |from: &str, to: &str| outcome(fs::rename(dir.join(from), dir.join(to)));
        let results = [
            rename("f", "g"),
            rename("g", "d"),
            rename("d", "g"),
            rename("d", "full"),
            rename("d", "empty"),
            rename("full", "full/x/y"),
            rename("nothing", "z"),
            rename("g", "full/x/moved"),
            rename("full", "other"),
        ];
        (results, fs::read_to_string(dir.join("other/x/moved")).unwrap(), list(dir))
    });
}

#[test]
fn rename_flags_are_kept() {
    same(|dir| {
        fs::create_dir(dir.join("d")).unwrap();
        fs::write(dir.join("a"), "a").unwrap();
        fs::write(dir.join("b"), "b").unwrap();
        let rename = |from: &str, to: &str, flags| {
            rustix::fs::renameat_with(CWD, dir.join(from), CWD, dir.join(to), flags)
                .map_err(|errno| errno.raw_os_error())
        };
        let results = [
            rename("a", "b", RenameFlags::NOREPLACE),
            rename("a", "c", RenameFlags::NOREPLACE),
            rename("c", "b", RenameFlags::EXCHANGE),
            rename("c", "d", RenameFlags::EXCHANGE),
            rename("b", "nothing", RenameFlags::EXCHANGE),
        ];
        (results, fs::read_to_string(dir.join("b")).unwrap(), fs::read_to_string(dir.join("d")).unwrap())
    });
}

#[test]
fn an_open_file_follows_its_renames() {
    same(|dir| {
        fs::write(dir.join("a"), "text").unwrap();
        let file = File::options().read(true).write(true).open(dir.join("a")).unwrap();
        fs::create_dir(dir.join("d")).unwrap();
        fs::rename(dir.join("a"), dir.join("d/b")).unwrap();
        fs::rename(dir.join("d"), dir.join("e")).unwrap();
        file.set_len(2).unwrap();
        (file.metadata().unwrap().len(), fs::read_to_string(dir.join("e/b")).unwrap())
    });
}

#[test]
fn a_create_does_not_open_what_its_asker_may_not_open() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can ask as somebody else");
        return;
    }
    let Some(place) = Place::new() else { return };
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    let path = place.path("f");
    assert!(!path.exists(), "and the kernel remembers that");
    fs::write(place.origin("f"), "secret").unwrap();
    fs::set_permissions(place.origin("f"), fs::Permissions::from_mode(0o600)).unwrap();
    let mut stranger = Command::new("sh");
    stranger.args(["-c", "cat <> \"$0\""]).arg(&path).uid(1234).gid(1234);
    let seen = stranger.output().unwrap();
    assert!(!seen.status.success() && seen.stdout.is_empty(), "{seen:?}");
    let mine = File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
    assert_eq!(std::io::read_to_string(mine).unwrap(), "secret");
}

fn list(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}
