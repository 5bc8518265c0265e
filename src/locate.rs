//! Which daemon a command means.

use std::path::{Path, PathBuf};

use arcwell::Error;
use arcwell_front::control::{Client, ClientError, DatasetStatus, socket};

use crate::Failure;

/// Which daemon to ask.
#[derive(Debug, clap::Args)]
pub(crate) struct Daemon {
    /// The daemon whose mount contains this path; needed only while several are mounted
    #[arg(long, value_name = "PATH")]
    mount: Option<PathBuf>,
}

impl Daemon {
    /// The one that is meant: named by a path, or the only one there is.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let mut clients = self.clients()?;
        match (clients.pop(), clients.is_empty()) {
            (Some(only), true) => Ok(only),
            (None, _) => Err("nothing is mounted; see arcwell mount --help".into()),
            (Some(last), false) => {
                clients.push(last);
                let names: Vec<String> =
                    clients.iter().filter_map(|client| mountpoint(client).ok()).collect();
                let what = format!("say which with --mount: {}", names.join(", "));
                Err(Error::invalid("several are mounted", what).into())
            }
        }
    }

    /// All that are meant: named by a path, or all there are.
    pub(crate) fn clients(&self) -> Result<Vec<Client>, Failure> {
        match &self.mount {
            Some(path) => Ok(vec![inside(path)?.0]),
            None => {
                let sockets = socket::alive(&socket::directory())?;
                Ok(sockets.iter().map(|socket| Client::new(socket)).collect::<Result<_, _>>()?)
            }
        }
    }
}

fn mountpoint(client: &Client) -> Result<String, ClientError> {
    let status = client.status()?;
    Ok(status
        .datasets
        .iter()
        .map(|set| set.mountpoint.0.display().to_string())
        .collect::<Vec<_>>()
        .join(", "))
}

/// The daemon that serves a path, and the path as that daemon knows it.
pub(crate) fn inside(path: &Path) -> Result<(Client, PathBuf), Failure> {
    let inside = socket::containing(&socket::directory(), path)?;
    Ok((Client::new(&inside.socket)?, inside.path))
}

/// The dataset that is meant, by its name or its mountpoint, or the only one there is; and who serves it.
pub(crate) fn dataset(wanted: Option<&str>) -> Result<(Client, String), Failure> {
    let mountpoint = wanted.map(std::path::absolute).transpose()?;
    let is_wanted = |set: &DatasetStatus| {
        wanted.is_none_or(|name| set.name == name || Some(&set.mountpoint.0) == mountpoint.as_ref())
    };
    let (mut found, mut all) = (Vec::new(), Vec::new());
    for client in (Daemon { mount: None }).clients()? {
        let datasets = client.status()?.datasets;
        all.extend(datasets.iter().map(|set| format!("{} at {}", set.name, set.mountpoint.0.display())));
        found.extend(datasets.into_iter().find(is_wanted).map(|set| (client, set.name)));
    }
    match (found.pop(), found.is_empty(), wanted) {
        (Some(only), true, _) => Ok(only),
        _ if all.is_empty() => Err("nothing is mounted; see arcwell mount --help".into()),
        (None, _, Some(name)) => {
            let what = format!("there is no dataset '{name}', but {}", all.join(", "));
            Err(Error::invalid("--dataset", what).into())
        }
        _ => {
            let what = format!("say which with --dataset: {}", all.join(", "));
            Err(Error::invalid("several are mounted", what).into())
        }
    }
}

/// Paths sorted by the daemon that serves them.
pub(crate) fn by_daemon(paths: &[PathBuf]) -> Result<Vec<(Client, Vec<PathBuf>)>, Failure> {
    let mut found: Vec<(Client, Vec<PathBuf>)> = Vec::new();
    for path in paths {
        let (client, path) = inside(path)?;
        match found.iter_mut().find(|(known, _)| known.socket() == client.socket()) {
            Some((_, paths)) => paths.push(path),
            None => found.push((client, vec![path])),
        }
    }
    Ok(found)
}
