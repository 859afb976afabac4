//! Comma-separated values, as RFC 4180 has them.

/// A header and rows.
pub fn render(names: &[&str], rows: &[Vec<String>]) -> String {
    let header = line(names.iter().copied());
    rows.iter().fold(header, |text, row| text + &line(row.iter().map(String::as_str)))
}

fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let cells: Vec<String> = cells.map(quoted).collect();
    cells.join(",") + "\n"
}

fn quoted(cell: &str) -> String {
    if cell.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_break_a_row_is_quoted() {
        let rows =
            vec![vec!["plain".to_owned(), "a,b".to_owned()], vec!["say \"x\"".to_owned(), String::new()]];
        assert_eq!(render(&["one", "two"], &rows), "one,two\nplain,\"a,b\"\n\"say \"\"x\"\"\",\n");
    }
}
