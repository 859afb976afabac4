//! A page of text: labelled lines and tables, fitted to the reader's width.

use comfy_table::{CellAlignment, ContentArrangement, Table as Grid};

use super::human::NO_BREAK;
use super::paint::Paint;

/// How wide a page may be, in columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width(pub usize);

impl Width {
    /// The widest page we make, so that it can be mailed and printed.
    pub const WIDEST: Width = Width(100);

    /// The width for a reader with so many columns; none known means the widest.
    pub fn for_terminal(columns: Option<usize>) -> Width {
        Width(columns.unwrap_or(Width::WIDEST.0).clamp(40, Width::WIDEST.0))
    }
}

/// A page.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// From top to bottom.
    pub sections: Vec<Section>,
}

/// A part of a page.
#[derive(Clone, Debug)]
pub enum Section {
    /// Lines with a label each; a label that is repeated is left out.
    Facts(Vec<(String, String)>),
    /// A table.
    Table(Table),
    /// A remark.
    Note(String),
}

/// Which side of a column its text is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its head.
    pub head: String,
    /// Its side.
    pub align: Align,
    /// On a narrow page the column with the highest number here goes first; 0 never goes.
    pub spare: u8,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, a cell for each column.
    pub rows: Vec<Vec<String>>,
    /// The rows to stand out.
    pub chosen: Vec<usize>,
}

impl Column {
    /// A column of words that never goes.
    pub fn words(head: &str) -> Column {
        Column { head: head.to_owned(), align: Align::Left, spare: 0 }
    }

    /// A column of numbers that never goes.
    pub fn numbers(head: &str) -> Column {
        Column { head: head.to_owned(), align: Align::Right, spare: 0 }
    }

    /// The same, and it may go: the highest number first.
    #[must_use]
    pub fn spare(self, spare: u8) -> Column {
        Column { spare, ..self }
    }
}

impl Document {
    /// The page for a terminal or a file.
    pub fn plain(&self, width: Width, paint: Paint) -> String {
        let parts = self.sections.iter().map(|section| match section {
            Section::Facts(facts) => plain_facts(facts, width, paint),
            Section::Table(table) => plain_table(table, width, paint),
            Section::Note(text) => {
                let lines = wrap(&paint.charset.spell(text), width.0);
                lines.iter().map(|line| paint.faint(line) + "\n").collect()
            }
        });
        parts.collect::<Vec<String>>().join("\n").replace(NO_BREAK, " ")
    }

    /// The page as Markdown.
    pub fn markdown(&self) -> String {
        let parts = self.sections.iter().map(|section| match section {
            Section::Facts(facts) => {
                facts.iter().map(|(label, text)| format!("- **{}** {text}\n", label.trim())).collect()
            }
            Section::Table(table) => markdown_table(table),
            Section::Note(text) => format!("{text}\n"),
        });
        parts.collect::<Vec<String>>().join("\n").replace(NO_BREAK, " ")
    }
}

fn plain_facts(facts: &[(String, String)], width: Width, paint: Paint) -> String {
    let indent = facts.iter().map(|(label, _)| columns_of(label)).max().unwrap_or(0) + 2;
    let mut text = String::new();
    let mut before = "";
    for (label, fact) in facts {
        let shown = if label == before { "" } else { label };
        before = label;
        for (number, line) in wrap(&paint.charset.spell(fact), width.0 - indent).iter().enumerate() {
            let label = if number == 0 { shown } else { "" };
            let label = format!("{label}{:pad$}", "", pad = indent - columns_of(label));
            text.push_str(&paint.strong(&label));
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn plain_table(table: &Table, width: Width, paint: Paint) -> String {
    let mut kept: Vec<usize> = (0..table.columns.len()).collect();
    loop {
        let lines = grid(table, &kept, paint);
        let widest = lines.iter().map(|line| columns_of(line)).max().unwrap_or(0);
        let spare = kept.iter().copied().filter(|index| table.columns[*index].spare > 0);
        match spare.max_by_key(|index| table.columns[*index].spare) {
            Some(index) if widest > width.0 => kept.retain(|keep| *keep != index),
            _ => return dress(&lines, table, paint),
        }
    }
}

fn grid(table: &Table, kept: &[usize], paint: Paint) -> Vec<String> {
    let mut grid = Grid::new();
    grid.load_style(comfy_table::TableStyle::new()).set_content_arrangement(ContentArrangement::Disabled);
    grid.set_header(kept.iter().map(|index| paint.charset.spell(&table.columns[*index].head)));
    for row in &table.rows {
        grid.add_row(kept.iter().map(|index| paint.charset.spell(&row[*index])));
    }
    for (position, index) in kept.iter().enumerate() {
        let alignment = match table.columns[*index].align {
            Align::Left => CellAlignment::Left,
            Align::Right => CellAlignment::Right,
        };
        if let Some(column) = grid.column_mut(position) {
            column.set_cell_alignment(alignment);
            column.set_padding((u16::from(position > 0) * 2, 0));
        }
    }
    grid.lines().map(|line| line.trim_end().to_owned()).collect()
}

fn dress(lines: &[String], table: &Table, paint: Paint) -> String {
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let line = match number.checked_sub(1) {
            None => paint.faint(line),
            Some(row) if table.chosen.contains(&row) => paint.chosen(line),
            Some(_) => line.clone(),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn markdown_table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let rule = table.columns.iter().map(|column| match column.align {
        Align::Left => ":---".to_owned(),
        Align::Right => "---:".to_owned(),
    });
    let mut text = line(table.columns.iter().map(|column| column.head.clone()).collect());
    text.push_str(&line(rule.collect()));
    for row in &table.rows {
        text.push_str(&line(row.iter().map(|cell| cell.replace('|', "\\|")).collect()));
    }
    text
}

/// How many columns a text takes; ours have no wide characters.
fn columns_of(text: &str) -> usize {
    text.chars().count()
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && columns_of(line) + 1 + columns_of(word) > width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Charset;

    const PLAIN: Paint = Paint { charset: Charset::Unicode, colour: false };

    fn table() -> Document {
        let columns = vec![
            Column::words("arm"),
            Column::numbers("speed-up"),
            Column::numbers("wall p50").spare(1),
            Column::numbers("start-up of each worker").spare(2),
        ];
        let rows = vec![["a@1", "1.00×", "380 ms", "—"], ["b@2", "1.93×", "198 ms", "0.1 ms"]];
        let rows = rows.into_iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        Document { sections: vec![Section::Table(Table { columns, rows, chosen: vec![1] })] }
    }

    #[test]
    fn a_narrow_page_loses_the_sparest_columns_first() {
        let heads = |width| table().plain(Width(width), PLAIN).lines().next().unwrap().trim().to_owned();
        assert!(heads(100).contains("start-up of each worker"));
        assert!(heads(40).ends_with("wall p50"));
        assert!(heads(20).ends_with("speed-up"));
    }

    #[test]
    fn no_line_is_wider_than_the_page_and_none_ends_in_blanks() {
        let facts =
            vec![("why".to_owned(), "a long sentence that goes on and on ".repeat(8).trim().to_owned())];
        let page = Document { sections: vec![Section::Facts(facts), table().sections.remove(0)] };
        for width in [40, 60, 100] {
            for line in page.plain(Width(width), PLAIN).lines() {
                assert!(columns_of(line) <= width && line == line.trim_end(), "{width}: {line:?}");
            }
        }
    }

    #[test]
    fn colour_is_there_only_when_wanted() {
        assert!(!table().plain(Width(100), PLAIN).contains('\u{1b}'));
        assert!(table().plain(Width(100), Paint { colour: true, ..PLAIN }).contains('\u{1b}'));
    }

    #[test]
    fn markdown_is_a_table_of_the_same_cells() {
        let text = table().markdown();
        assert!(
            text.starts_with("| arm | speed-up |") && text.contains("| b@2 | 1.93× | 198 ms | 0.1 ms |"),
            "{text}"
        );
    }
}
