//! Block devices: loop devices, made by root.

use std::fs;
use std::process::Command;

use arcwell_base::vdev::Vdev;
use rustix::io::Errno;

use super::*;

/// A loop device over a file, detached when it goes.
struct Loop {
    path: PathBuf,
    backing: PathBuf,
    folder: TempDir,
}

impl Loop {
    /// None, and a word about it, where none can be made.
    fn new(test: &str, sector: u32) -> Option<Loop> {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root || !Path::new("/dev/loop-control").exists() {
            eprintln!("SKIPPED {test}: loop devices are for root, where there is /dev/loop-control");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let backing = folder.path().join("backing");
        fs::File::create(&backing).unwrap().set_len(SMALLEST).unwrap();
        let made = Command::new("losetup")
            .args(["--find", "--show", "--sector-size"])
            .arg(sector.to_string())
            .arg(&backing)
            .output();
        let failure = match made {
            Ok(output) if output.status.success() => {
                let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
                return Some(Loop { path, backing, folder });
            }
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        assert!(std::env::var_os("CI").is_none(), "{test}: {failure}");
        eprintln!("SKIPPED {test}: losetup: {failure}");
        None
    }

    fn detach(&self) {
        let status = Command::new("losetup").arg("--detach").arg(&self.path).status();
        assert!(status.is_ok_and(|status| status.success()));
    }

    fn open(&self) -> Result<FileVdev> {
        FileVdev::open(&self.path, OpenHow::default())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.path)
            .stderr(std::process::Stdio::null())
            .status();
    }
}

#[test]
fn a_block_device_is_a_row_of_bytes_of_its_sector_size() {
    for sector in [512, 4096] {
        let Some(device) = Loop::new("a_block_device_is_a_row_of_bytes_of_its_sector_size", sector) else {
            return;
        };
        let vdev = device.open().unwrap();
        let shape = vdev.shape();
        assert_eq!((shape.bytes, shape.unit, shape.is_buffered), (SMALLEST, sector, false));
        let data = noise(1, SMALLEST as usize);
        vdev.write(0, &data).unwrap();
        vdev.flush().unwrap();
        let at = u64::from(sector) * 3;
        vdev.write(at, &noise(2, sector as usize)).unwrap();
        let ranges: Vec<(u64, usize)> =
            (0..100).map(|place| (place * u64::from(sector), sector as usize)).collect();
        for (bytes, (offset, length)) in read_all(&vdev, &ranges).into_iter().zip(&ranges) {
            let bytes = bytes.unwrap();
            match *offset == at {
                true => assert_eq!(bytes[..], noise(2, sector as usize)[..]),
                false => assert_eq!(bytes[..], data[*offset as usize..][..*length]),
            }
        }
        assert_eq!(read(&vdev, 100, 512).unwrap_err().errno(), Errno::INVAL);
        assert_eq!(read(&vdev, SMALLEST, sector as usize).unwrap_err().errno(), Errno::INVAL);
        assert!(shape.can_discard, "loop devices can, over a file that can have holes");
        vdev.discard(1 << 20..2 << 20).unwrap();
        assert!(read(&vdev, 2 << 20, 1 << 20).unwrap()[..] == data[2 << 20..3 << 20]);
        assert!(read(&vdev, 0, 512 * 1024).is_ok());
    }
}

#[test]
fn a_block_device_is_locked_and_a_mounted_one_refused() {
    let Some(device) = Loop::new("a_block_device_is_locked_and_a_mounted_one_refused", 512) else { return };
    let vdev = device.open().unwrap();
    let error = device.open().unwrap_err();
    assert!(error.to_string().contains("in use by another instance"), "{error}");
    drop(vdev);
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&device.path).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED a_block_device_is_locked_and_a_mounted_one_refused: no mkfs.ext4, so no mount");
        return;
    }
    let place = device.folder.path().join("mounted");
    fs::create_dir(&place).unwrap();
    let mounted = Command::new("mount").arg(&device.path).arg(&place).status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED a_block_device_is_locked_and_a_mounted_one_refused: mount is refused here");
        return;
    }
    let refused = device.open();
    assert!(Command::new("umount").arg(&place).status().unwrap().success());
    let error = refused.unwrap_err();
    assert!(error.to_string().contains("it is mounted"), "{error}");
    device.open().unwrap();
}

#[test]
fn a_block_device_that_loses_its_ground_gives_errors() {
    let Some(device) = Loop::new("a_block_device_that_loses_its_ground_gives_errors", 512) else { return };
    let vdev = device.open().unwrap();
    let data = noise(1, SMALLEST as usize);
    vdev.write(0, &data).unwrap();
    fs::OpenOptions::new().write(true).open(&device.backing).unwrap().set_len(SMALLEST / 2).unwrap();
    let outcomes = read_all(&vdev, &[(0, 4096), (SMALLEST - 8192, 4096)]);
    assert_eq!(outcomes[0].as_ref().unwrap()[..], data[..4096]);
    // The loop driver gives an error or, in some kernels, zeros; never what was there.
    if let Ok(bytes) = &outcomes[1] {
        assert_eq!(bytes[..], zeros(4096)[..]);
    }
    device.detach();
    // Open still: it goes when we do. Until then all is answered, in one way or the other.
    for outcome in read_all(&vdev, &[(0, 4096), (SMALLEST - 8192, 4096)]) {
        let _ = outcome;
    }
    let _ = vdev.write(0, &noise(2, 4096));
    let _ = vdev.flush();
}
