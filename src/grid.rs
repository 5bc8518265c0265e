//! Text in columns that line up.

use std::io::{self, Write};

/// Which side of its column a cell keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table with a heading; each column is as wide as its widest cell.
#[derive(Debug)]
pub(crate) struct Grid {
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// A table with these headings.
    pub(crate) fn new(columns: &[(&str, Align)]) -> Self {
        Grid {
            aligns: columns.iter().map(|(_, align)| *align).collect(),
            rows: vec![columns.iter().map(|(heading, _)| (*heading).to_owned()).collect()],
        }
    }

    /// Adds a row, one cell a column.
    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.aligns.len());
        self.rows.push(cells);
    }

    /// The lines of the table, without blanks at their ends.
    pub(crate) fn lines(&self) -> Vec<String> {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> = (0..self.aligns.len()).map(|column| width(column).unwrap_or(0)).collect();
        let pad = |(cell, (width, align)): (&String, (&usize, &Align))| match align {
            Align::Left => format!("{cell:<width$}"),
            Align::Right => format!("{cell:>width$}"),
        };
        let line = |row: &Vec<String>| {
            let cells: Vec<String> = row.iter().zip(widths.iter().zip(&self.aligns)).map(pad).collect();
            cells.join("  ").trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }

    /// Prints the table.
    pub(crate) fn print(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        self.lines().iter().try_for_each(|line| writeln!(out, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut grid = Grid::new(&[("NAME", Align::Left), ("SIZE", Align::Right), ("WHY", Align::Left)]);
        grid.row(["a".to_owned(), "1000".to_owned(), "x".to_owned()]);
        grid.row(["longer".to_owned(), "2".to_owned(), String::new()]);
        assert_eq!(grid.lines(), ["NAME    SIZE  WHY", "a       1000  x", "longer     2"]);
    }
}
