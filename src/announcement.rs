//! What is said once a mount serves: what is where, how large the cache is and why, where to look.

use std::fmt::Write;
use std::path::Path;

use arcwell::{ByteSize, Coherence, Properties};

use crate::assembly::Plan;

/// The lines for a person.
pub(crate) fn text(plan: &Plan, notes: &[String]) -> String {
    let (origin, mountpoint) = (&plan.places.origin, &plan.places.mountpoint);
    let mut text: String = notes.iter().map(|note| format!("{note}\n")).collect();
    // Writing to a String cannot fail.
    let _ = match origin == mountpoint {
        true => write!(text, "{} is mounted over itself", origin.display()),
        false => write!(text, "{} is mounted at {}", origin.display(), mountpoint.display()),
    };
    if let Some(profile) = plan.simulate {
        let _ = write!(text, ", made as slow as {profile}");
    }
    let size = format!("{}: {}", ByteSize(plan.size.bytes), plan.size.reason);
    let devices = plan.caches.iter().map(|device| ("device", device.path.display().to_string()));
    let lines = [("cache", size)].into_iter().chain(devices).chain([
        ("coherence", coherence(&plan.properties)),
        ("state", plan.state.display().to_string()),
        ("look", "arcwell stat 1, arcwell status".to_owned()),
        ("end", format!("arcwell umount {}", quoted(mountpoint))),
    ]);
    for (name, value) in lines {
        let _ = write!(text, "\n  {name:<10} {value}");
    }
    text
}

/// What the coherence mode promises.
fn coherence(properties: &Properties) -> String {
    let promise = match properties.coherence {
        Coherence::Exclusive => "nobody else writes to the origin, and nothing is asked twice".to_owned(),
        Coherence::Notify => "the origin tells of changes made elsewhere".to_owned(),
        Coherence::Timeout => {
            format!("changes made elsewhere are seen after {:?}, and at open", properties.attr_timeout)
        }
    };
    format!("{}: {promise}", properties.coherence)
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@,".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache_size::Chosen;
    use crate::preflight::Places;
    use arcwell::{ListKind, Profile};

    fn plan(mountpoint: &str) -> Plan {
        Plan {
            places: Places { origin: "/tank/photos".into(), mountpoint: mountpoint.into() },
            size: Chosen { bytes: 2 << 30, reason: "half of 4 GiB available memory".to_owned() },
            lists: ListKind::Pages,
            properties: Properties::default(),
            simulate: None,
            state: "/state".into(),
            allow_other: false,
            caches: vec!["/fast/l2:1G".parse().unwrap()],
            settings: Vec::new(),
        }
    }

    #[test]
    fn a_mount_is_announced_with_its_reasons() {
        let expected = "a note\n\
            /tank/photos is mounted at /mnt/my photos\n\
            \x20 cache      2 GiB: half of 4 GiB available memory\n\
            \x20 device     /fast/l2\n\
            \x20 coherence  timeout: changes made elsewhere are seen after 1s, and at open\n\
            \x20 state      /state\n\
            \x20 look       arcwell stat 1, arcwell status\n\
            \x20 end        arcwell umount '/mnt/my photos'";
        assert_eq!(text(&plan("/mnt/my photos"), &["a note".to_owned()]), expected);
    }

    #[test]
    fn a_simulated_mount_over_itself_says_both() {
        let plan = Plan { simulate: Some(Profile::HDD), ..plan("/tank/photos") };
        let text = text(&plan, &[]);
        assert!(text.starts_with("/tank/photos is mounted over itself, made as slow as hdd\n"), "{text}");
    }
}
