//! On what was measured: told on standard error, since figures without it say nothing.

use crate::Result;

/// Prints the command line and what is known of the machine.
pub fn tell() {
    let command: Vec<String> = std::env::args().skip(1).collect();
    eprintln!("command: {}", command.join(" "));
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let model = field("/proc/cpuinfo", "model name").unwrap_or_default();
    let memory = kilobytes("MemTotal").unwrap_or(0) >> 20;
    let text =
        |path: &str| std::fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let kernel = text("/proc/sys/kernel/osrelease");
    let huge = text("/sys/kernel/mm/transparent_hugepage/enabled");
    eprintln!(
        "machine: {processors} processors, {model}, {memory} GiB, Linux {kernel}, transparent huge pages {huge}"
    );
}

/// Says so when less memory can be had than is needed.
///
/// # Errors
/// Then.
pub fn has_memory(needed: u64) -> Result<()> {
    let Some(available) = kilobytes("MemAvailable").map(|count| count << 10) else { return Ok(()) };
    if available >= needed {
        return Ok(());
    }
    let (needed, available) = (needed >> 20, available >> 20);
    let way_out = "fewer --peers or --entries, or several runs";
    Err(format!("all peers together may need {needed} MiB, and {available} MiB are there: {way_out}").into())
}

fn kilobytes(row: &str) -> Option<u64> {
    field("/proc/meminfo", row)?.strip_suffix(" kB")?.trim().parse().ok()
}

/// The value of the first line of a file that begins with a name and a colon.
fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let values = text.lines().filter_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    values.map(|value| value.trim().to_owned()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_much_memory_is_refused() {
        assert!(has_memory(0).is_ok());
        assert!(has_memory(u64::MAX).unwrap_err().to_string().contains("fewer --peers"));
    }
}
