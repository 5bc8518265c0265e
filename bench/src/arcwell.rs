//! The real program: found or built, mounted, asked for its counters.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::daemon::{Daemon, Ending};
use crate::scratch::Scratch;
use crate::{Failure, Result};

/// Names the program to measure; without it, it is built.
pub const PROGRAM_VARIABLE: &str = "ARCWELL_BIN";

/// The program to measure.
///
/// # Errors
/// When it is not there, or cannot be built.
pub fn program() -> Result<PathBuf> {
    match std::env::var_os(PROGRAM_VARIABLE) {
        Some(program) => Path::new(&program)
            .canonicalize()
            .map_err(|error| format!("{PROGRAM_VARIABLE} names {}: {error}", program.display()).into()),
        None => build(),
    }
}

/// Builds it as a person would.
fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--release", "--quiet", "-p", "arcwell", "--bin", "arcwell"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err("arcwell cannot be built".into());
    }
    let mut artifacts = output.stdout.split(|byte| *byte == b'\n').filter_map(|line| {
        let message: serde_json::Value = serde_json::from_slice(line).ok()?;
        let is_ours = message["target"]["name"] == "arcwell";
        message["executable"].as_str().filter(|_| is_ours).map(PathBuf::from)
    });
    artifacts.next_back().ok_or_else(|| Failure::from("cargo does not say where it put arcwell"))
}

/// How to mount it.
#[derive(Clone, Debug, Default)]
pub struct Mounting {
    /// What the bench calls this variant: names its directories.
    pub name: String,
    /// `--arc-max`, in bytes.
    pub arc_max: u64,
    /// `--recordsize`, when not the default.
    pub recordsize: Option<String>,
    /// The limit of descriptors it shall run under.
    pub descriptors: Option<u64>,
}

/// A mounted arcwell.
#[derive(Debug)]
pub struct Arcwell {
    /// Its process.
    pub daemon: Daemon,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    program: PathBuf,
    sockets: PathBuf,
}

impl Arcwell {
    /// Mounts `origin` with nobody else changing it.
    ///
    /// # Errors
    /// With what it said when it does not serve.
    pub fn mount(program: &Path, origin: &Path, scratch: &Scratch, how: &Mounting) -> Result<Self> {
        let mountpoint = scratch.directory(&format!("{}-mount", how.name))?;
        let state = scratch.directory(&format!("{}-state", how.name))?;
        // Its own place for the control socket: daemons of the user of this machine are not met.
        let sockets = scratch.directory(&format!("{}-sockets", how.name))?;
        let mut words: Vec<OsString> =
            ["mount".into(), origin.into(), mountpoint.clone().into(), "--foreground".into()].into();
        words.extend(["--coherence".into(), "exclusive".into(), "--state".into(), state.into()]);
        words.extend(["--arc-max".into(), format!("{}", how.arc_max).into()]);
        if let Some(recordsize) = &how.recordsize {
            words.extend(["--recordsize".into(), recordsize.into()]);
        }
        let mut command = match how.descriptors {
            None => Command::new(program),
            Some(limit) => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(format!("ulimit -n {limit} && exec \"$0\" \"$@\"")).arg(program);
                shell
            }
        };
        command.args(words).env("ARCWELL_RUNTIME_DIR", &sockets);
        let log = scratch.path().join(format!("{}.log", how.name));
        let mut daemon = Daemon::start(command, &mountpoint, &log, Ending::Terminate)?;
        daemon.wait_until_mounted()?;
        Ok(Arcwell { daemon, mountpoint, program: program.to_owned(), sockets })
    }

    /// Its statistics, by full name.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn statistics(&self) -> Result<BTreeMap<String, f64>> {
        let output = Command::new(&self.program)
            .args(["stat", "--json", "--mount"])
            .arg(&self.mountpoint)
            .env("ARCWELL_RUNTIME_DIR", &self.sockets)
            .output()?;
        if !output.status.success() {
            return Err(format!("arcwell stat: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Operations of any kind that have reached the origin.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn origin_operations(&self) -> Result<u64> {
        let statistics = self.statistics()?;
        let count = statistics.get("origin.operations").ok_or("arcwell stat shows no origin.operations")?;
        Ok(*count as u64)
    }
}
