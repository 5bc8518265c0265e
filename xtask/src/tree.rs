//! The repository as the checks see it: its text files, parsed once, and its packages.
//!
//! A check never touches the disk: it is handed a [`Tree`], which a test can make up from a few
//! lines of text.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{Failure, mention};

/// Everything that git would track.
#[derive(Default)]
pub(crate) struct Tree {
    /// Text files, in the order of their paths.
    pub(crate) files: Vec<File>,
    /// Paths of all files and folders, binary ones too.
    pub(crate) paths: BTreeSet<String>,
    /// The packages of the workspace.
    pub(crate) packages: Vec<Package>,
}

/// One text file.
pub(crate) struct File {
    /// Path below the root, with `/`.
    pub(crate) path: String,
    /// What it holds.
    pub(crate) text: String,
    /// Parsed, when it is Rust.
    pub(crate) rust: Option<syn::Result<syn::File>>,
    /// Whether it is Rust that is compiled for tests only.
    pub(crate) is_test: bool,
}

/// One package and the names of what it depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its manifest, below the root.
    pub(crate) manifest: String,
    /// Its arrows.
    pub(crate) dependencies: Vec<Dependency>,
}

/// One arrow of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// The package it points to.
    pub(crate) name: String,
    /// Whether only tests, examples and benches have it.
    pub(crate) is_dev: bool,
}

impl Tree {
    /// Reads the tree below `root`: what is not ignored, and the packages as cargo sees them.
    pub(crate) fn load(root: &Path) -> Result<Tree, Failure> {
        let mut texts = Vec::new();
        let mut tree = Tree::default();
        let walk = ignore::WalkBuilder::new(root)
            .hidden(false)
            .require_git(false)
            .git_global(false)
            .parents(false)
            .filter_entry(|entry| entry.file_name() != ".git")
            .build();
        for entry in walk {
            let entry = entry.map_err(|error| Failure(format!("the tree cannot be walked: {error}")))?;
            let Ok(below) = entry.path().strip_prefix(root) else { continue };
            let path = below.to_string_lossy().replace('\\', "/");
            if entry.file_type().is_some_and(|kind| kind.is_file()) {
                let bytes = std::fs::read(entry.path())
                    .map_err(|error| Failure(format!("{path} cannot be read: {error}")))?;
                texts.extend(String::from_utf8(bytes).ok().map(|text| (path.clone(), text)));
            }
            tree.paths.insert(path);
        }
        tree.add(texts);
        tree.packages = packages(root)?;
        Ok(tree)
    }

    fn add(&mut self, mut texts: Vec<(String, String)>) {
        texts.sort();
        self.files = texts
            .into_iter()
            .map(|(path, text)| {
                let rust = path.ends_with(".rs").then(|| syn::parse_file(&text));
                let is_test = lies_in_test_folder(&path);
                File { path, text, rust, is_test }
            })
            .collect();
        let roots: Vec<String> =
            self.sources().flat_map(|(file, syntax)| test_modules(file, syntax)).collect();
        for file in &mut self.files {
            let stem = file.path.trim_end_matches(".rs").trim_end_matches("/mod");
            file.is_test |= roots.iter().any(|root| mention::starts_with(stem, root, "/"));
        }
    }

    /// The Rust files that parse.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&File, &syn::File)> {
        self.files.iter().filter_map(|file| Some((file, file.rust.as_ref()?.as_ref().ok()?)))
    }

    /// A made-up tree.
    #[cfg(test)]
    pub(crate) fn made_up(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, _) in files {
            tree.paths.extend(Path::new(path).ancestors().map(|p| p.to_string_lossy().into_owned()));
        }
        tree.add(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect());
        tree
    }
}

fn lies_in_test_folder(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "benches")
}

/// Where the files of `#[cfg(test)] mod name;` lie, without `.rs`.
fn test_modules(file: &File, syntax: &syn::File) -> Vec<String> {
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let below = match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => format!("{folder}/{}", name.trim_end_matches(".rs")),
    };
    let modules = syntax.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if module.content.is_none() && mention::is_for_tests(&module.attrs) => {
            Some(format!("{below}/{}", module.ident))
        }
        _ => None,
    });
    modules.collect()
}

fn packages(root: &Path) -> Result<Vec<Package>, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|error| Failure(format!("cargo metadata cannot be started: {error}")))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure(format!("cargo metadata failed: {}", why.trim())));
    }
    let metadata = serde_json::from_slice::<Value>(&output.stdout)
        .map_err(|error| Failure(format!("cargo metadata is not JSON: {error}")))?;
    Ok(parse_packages(&metadata))
}

fn parse_packages(metadata: &Value) -> Vec<Package> {
    let word = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let root = word(metadata, "workspace_root");
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let package = |value: &Value| Package {
        name: word(value, "name"),
        manifest: word(value, "manifest_path").trim_start_matches(&root).trim_start_matches('/').to_owned(),
        dependencies: list(value, "dependencies")
            .iter()
            .map(|arrow| Dependency { name: word(arrow, "name"), is_dev: word(arrow, "kind") == "dev" })
            .collect(),
    };
    list(metadata, "packages").iter().map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_test_modules_are_tests() {
        let tree = Tree::made_up(&[
            ("crates/arc/src/lib.rs", "#[cfg(test)]\nmod model;\nmod policy;"),
            ("crates/arc/src/model.rs", ""),
            ("crates/arc/src/model/step.rs", ""),
            ("crates/arc/src/policy.rs", "#[cfg(test)]\nmod check;"),
            ("crates/arc/src/policy/check.rs", ""),
            ("crates/arc/tests/whole.rs", ""),
        ]);
        let tests: Vec<&str> = tree.files.iter().filter(|f| f.is_test).map(|f| f.path.as_str()).collect();
        assert_eq!(
            tests,
            [
                "crates/arc/src/model.rs",
                "crates/arc/src/model/step.rs",
                "crates/arc/src/policy/check.rs",
                "crates/arc/tests/whole.rs"
            ]
        );
    }

    #[test]
    fn cargo_metadata_becomes_packages() {
        let metadata = serde_json::json!({
            "workspace_root": "/r",
            "packages": [{
                "name": "arcwell-pool",
                "manifest_path": "/r/crates/pool/Cargo.toml",
                "dependencies": [{"name": "arcwell-arc", "kind": null}, {"name": "arcwell-backend", "kind": "dev"}],
            }],
        });
        let expected = Package {
            name: "arcwell-pool".into(),
            manifest: "crates/pool/Cargo.toml".into(),
            dependencies: vec![
                Dependency { name: "arcwell-arc".into(), is_dev: false },
                Dependency { name: "arcwell-backend".into(), is_dev: true },
            ],
        };
        assert_eq!(parse_packages(&metadata), [expected]);
    }
}
