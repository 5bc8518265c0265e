//! `arcwell get`: tunables of a running daemon.

use arcwell::Error;
use arcwell_front::control::Tunable;

use crate::grid::{Align, Grid};
use crate::locate::Daemon;
use crate::{Failure, say};

/// Show tunables of a running daemon: value, default, what is allowed and what it does
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Names such as arc.size_max, beginnings such as arc, or all
    #[arg(default_value = "all")]
    names: Vec<String>,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    daemon: Daemon,
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let shown = chosen(self.daemon.client()?.tunables()?, &self.names)?;
        if self.json {
            for tunable in &shown {
                say(&serde_json::to_string(tunable)?)?;
            }
            return Ok(());
        }
        let mut grid = Grid::new(&[
            ("NAME", Align::Left),
            ("VALUE", Align::Right),
            ("DEFAULT", Align::Right),
            ("ALLOWED", Align::Left),
            ("WHEN", Align::Left),
            ("WHAT IT DOES", Align::Left),
        ]);
        for tunable in shown {
            let when = if tunable.live { "live" } else { "at start" };
            grid.row([
                tunable.name,
                tunable.value,
                tunable.default,
                tunable.range,
                when.to_owned(),
                tunable.doc,
            ]);
        }
        grid.print()?;
        Ok(())
    }
}

/// Those that were asked for, in their own order. A name that means none is an error.
fn chosen(all: Vec<Tunable>, names: &[String]) -> Result<Vec<Tunable>, Error> {
    let means = |asked: &str, name: &str| {
        asked == "all" || asked == name || name.strip_prefix(asked).is_some_and(|rest| rest.starts_with('.'))
    };
    if let Some(unknown) = names.iter().find(|asked| !all.iter().any(|tunable| means(asked, &tunable.name))) {
        return Err(Error::invalid(unknown.clone(), "there is no such tunable; see arcwell get all"));
    }
    Ok(all.into_iter().filter(|tunable| names.iter().any(|asked| means(asked, &tunable.name))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arcwell::PoolTunables;
    use arcwell::table::Tunables;

    fn asked(names: &[&str]) -> Result<Vec<String>, Error> {
        let all = PoolTunables::default().settings().iter().map(Tunable::from).collect();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Ok(chosen(all, &names)?.into_iter().map(|tunable| tunable.name).collect())
    }

    #[test]
    fn names_and_beginnings_choose() {
        assert_eq!(asked(&["all"]).unwrap().len(), PoolTunables::ROWS.len());
        assert_eq!(asked(&["pool.workers_max"]).unwrap(), ["pool.workers_max"]);
        assert!(asked(&["prefetch"]).unwrap().iter().all(|name| name.starts_with("prefetch.")));
        assert_eq!(
            asked(&["pool.work"]).unwrap_err().to_string(),
            "pool.work: there is no such tunable; see arcwell get all"
        );
    }
}
