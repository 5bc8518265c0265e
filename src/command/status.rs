//! `arcwell status`: what is mounted, how it is, what is still to be done.

use std::io::{self, Write};
use std::time::Duration;

use arcwell::ByteSize;
use arcwell_front::control::{DatasetStatus, DeviceCondition, DeviceStatus, Health, Status};

use crate::Failure;
use crate::locate::Daemon;

/// Show what is mounted, whether its origin answers, and pending work
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print one JSON object a line, one for each daemon
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: Daemon,
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let clients = self.daemon.clients()?;
        let mut out = io::stdout().lock();
        if clients.is_empty() && !self.json {
            writeln!(out, "nothing is mounted")?;
        }
        // One that hangs does not hide the others.
        let mut silent: Vec<String> = Vec::new();
        let mut gap = "";
        for client in &clients {
            let status = match client.status() {
                Ok(status) => status,
                Err(error) => {
                    silent.push(format!("{}: {error}", client.socket().display()));
                    continue;
                }
            };
            if self.json {
                writeln!(out, "{}", serde_json::to_string(&status)?)?;
            } else {
                writeln!(out, "{gap}{}", describe(&status))?;
                gap = "\n";
            }
        }
        if silent.is_empty() { Ok(()) } else { Err(silent.join("; ").into()) }
    }
}

fn describe(status: &Status) -> String {
    let mut lines: Vec<String> = status.datasets.iter().flat_map(describe_dataset).collect();
    let cache = &status.cache;
    let (size, target, limit) = (ByteSize(cache.size), ByteSize(cache.target), ByteSize(cache.limit));
    lines.push(line("cache", format!("{size} of {target}, at most {limit}: {}", cache.reason)));
    lines.extend(status.devices.iter().map(|device| line("device", describe_device(device))));
    let pending: Vec<String> = status.pending.iter().map(|(name, value)| format!("{name} {value}")).collect();
    lines.push(line("pending", if pending.is_empty() { "nothing".to_owned() } else { pending.join(", ") }));
    lines.push(line("state", cache.state.0.display().to_string()));
    let up = duration(Duration::from_secs(status.uptime));
    lines.push(line("daemon", format!("process {}, arcwell {}, up {up}", status.pid, status.version)));
    lines.join("\n")
}

fn describe_dataset(dataset: &DatasetStatus) -> Vec<String> {
    let health = match &dataset.health {
        Health::Online => "online".to_owned(),
        Health::Degraded { why } => format!("DEGRADED: {why}; what is cached is served"),
    };
    let properties: Vec<String> =
        dataset.properties.iter().map(|(name, value)| format!("{name}={value}")).collect();
    vec![
        dataset.mountpoint.0.display().to_string(),
        line("origin", format!("{} ({})", dataset.origin, dataset.filesystem)),
        line("health", health),
        line("properties", properties.join(" ")),
    ]
}

/// A cache device in a line; what is wrong with it stands first.
pub(super) fn describe_device(device: &DeviceStatus) -> String {
    let path = device.path.0.display();
    let (used, size) = (ByteSize(device.used), ByteSize(device.size));
    let mut line = match &device.condition {
        DeviceCondition::Online => format!("{path}: {used} of {size}, {} blocks", device.blocks),
        DeviceCondition::Degraded => format!("DEGRADED: {path}: {used} of {size}, {} blocks", device.blocks),
        DeviceCondition::Absent { why } => format!("ABSENT: {path}: {why}"),
        DeviceCondition::Faulted => format!("FAULTED: {path}: not used any more; remove it"),
    };
    if device.errors > 0 {
        line += &format!(", {} errors", device.errors);
    }
    if let Some((done, all)) = device.rebuild {
        line += &format!(", {done} of {all} parts known again");
    }
    if device.is_buffered {
        line += ", through the page cache";
    }
    line
}

fn line(name: &str, value: String) -> String {
    format!("  {name:<10} {value}")
}

/// A duration in its two largest units.
fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arcwell_front::control::{CacheStatus, WirePath};

    #[test]
    fn a_status_reads_as_a_paragraph() {
        let status = Status {
            version: "1.2.3".to_owned(),
            pid: 42,
            since: 0,
            uptime: 3_700,
            cache: CacheStatus {
                size: 1 << 30,
                target: 2 << 30,
                limit: 4 << 30,
                reason: "as asked".to_owned(),
                state: WirePath("/state".into()),
            },
            datasets: vec![DatasetStatus {
                name: "photos".to_owned(),
                mountpoint: WirePath("/mnt/photos".into()),
                origin: "/tank/photos".to_owned(),
                filesystem: "nfs".to_owned(),
                health: Health::Degraded { why: "no answer within 2s".to_owned() },
                properties: [("coherence".to_owned(), "timeout".to_owned())].into(),
            }],
            devices: vec![DeviceStatus {
                path: WirePath("/fast/l2".into()),
                condition: DeviceCondition::Degraded,
                size: 8 << 30,
                used: 1 << 30,
                blocks: 8192,
                hits: 5,
                errors: 2,
                is_buffered: true,
                rebuild: Some((3, 1000)),
            }],
            pending: [("pool.queued".to_owned(), 3)].into(),
        };
        let expected = "/mnt/photos\n\
            \x20 origin     /tank/photos (nfs)\n\
            \x20 health     DEGRADED: no answer within 2s; what is cached is served\n\
            \x20 properties coherence=timeout\n\
            \x20 cache      1 GiB of 2 GiB, at most 4 GiB: as asked\n\
            \x20 device     DEGRADED: /fast/l2: 1 GiB of 8 GiB, 8192 blocks, 2 errors, 3 of 1000 parts known again, through \
            the page cache\n\
            \x20 pending    pool.queued 3\n\
            \x20 state      /state\n\
            \x20 daemon     process 42, arcwell 1.2.3, up 1 h 1 min";
        assert_eq!(describe(&status), expected);
    }
}
