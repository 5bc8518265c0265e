//! `arcwell cache list`: the devices of running daemons.

use crate::command::status::describe_device;
use crate::locate::Daemon;
use crate::{Failure, say};

/// Show the cache devices of what is mounted
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print one JSON object a line, one for each device
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: Daemon,
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        for client in self.daemon.clients()? {
            for device in client.status()?.devices {
                match self.json {
                    true => say(&serde_json::to_string(&device)?)?,
                    false => say(&describe_device(&device))?,
                }
            }
        }
        Ok(())
    }
}
