//! Answers to people and programs: one typed result, many faces. This layer does not know what the result is about.

pub mod csv;
mod document;
pub mod human;
mod paint;

use serde::Serialize;

pub use document::{Align, Column, Document, Section, Table, Width};
pub use paint::{Charset, Paint};

/// A result that can be shown.
pub trait Report: Serialize {
    /// For people, in the given characters.
    fn document(&self, charset: Charset) -> Document;
    /// For spreadsheets: the names of the columns, and the rows.
    fn rows(&self) -> (&'static [&'static str], Vec<Vec<String>>);
}

/// Which face a result has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// Fitted to a width, perhaps with colour.
    Plain {
        /// The width to fit.
        width: Width,
        /// The characters and the colour.
        paint: Paint,
    },
    /// Markdown, to paste.
    Markdown,
    /// Comma-separated values.
    Csv,
    /// Everything, as one JSON document.
    Json,
}

/// The result with that face.
///
/// # Errors
/// If it cannot be written as JSON, which a result of ours can.
pub fn render(report: &impl Report, face: Face) -> serde_json::Result<String> {
    Ok(match face {
        Face::Plain { width, paint } => report.document(paint.charset).plain(width, paint),
        Face::Markdown => report.document(Charset::Unicode).markdown(),
        Face::Csv => {
            let (names, rows) = report.rows();
            csv::render(names, &rows)
        }
        Face::Json => serde_json::to_string_pretty(report)? + "\n",
    })
}
