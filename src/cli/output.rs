//! Where the result goes, and with what face.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::args::{Format, OutputArgs, When};
use crate::report::{self, Charset, Face, Paint, Report, Width};
use crate::sys::terminal;

/// Where the result goes, decided and tried before anything is measured.
#[derive(Debug)]
pub(super) struct Output {
    face: Face,
    file: Option<PathBuf>,
}

/// Why a result did not reach its reader.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutputError {
    /// The file cannot be written.
    #[error("--output: cannot write `{}`: {cause}", path.display())]
    File { path: PathBuf, cause: io::Error },
    /// Standard output cannot be written.
    #[error("cannot write to standard output: {0}")]
    Stdout(io::Error),
    /// The result has no such face.
    #[error("cannot make JSON of the result: {0}")]
    Json(#[from] serde_json::Error),
}

impl OutputArgs {
    /// Decides the face, and makes sure that the file can be written.
    pub(super) fn plan(&self) -> Result<Output, OutputError> {
        let file = (self.output != Path::new("-")).then(|| self.output.clone());
        if let Some(path) = &file {
            try_writing(path).map_err(|cause| OutputError::File { path: path.clone(), cause })?;
        }
        let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        let charset = if self.ascii || dumb { Charset::Ascii } else { Charset::Unicode };
        let to_stdout = file.is_none();
        let colour = match self.color {
            When::Always => true,
            When::Never => false,
            When::Auto => {
                to_stdout && anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
            }
        };
        let face = match self.format.unwrap_or_else(|| by_ending(file.as_deref())) {
            Format::Table => {
                let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
                let columns = said.or_else(terminal::width).filter(|_| to_stdout);
                Face::Plain { width: Width::for_terminal(columns), paint: Paint { charset, colour } }
            }
            Format::Plain => Face::Plain { width: Width::WIDEST, paint: Paint { charset, colour: false } },
            Format::Md => Face::Markdown,
            Format::Csv => Face::Csv,
            Format::Json => Face::Json,
        };
        Ok(Output { face, file })
    }
}

/// The form that a file's name asks for.
fn by_ending(file: Option<&Path>) -> Format {
    let ending = file.and_then(Path::extension).and_then(|ending| ending.to_str());
    match ending.map(str::to_ascii_lowercase).as_deref() {
        Some("json") => Format::Json,
        Some("csv") => Format::Csv,
        Some("md") => Format::Md,
        _ => Format::Table,
    }
}

impl Output {
    /// Writes the result. What cannot go into its file goes to standard output, so that no measurement is lost.
    pub(super) fn write(&self, report: &impl Report) -> Result<(), OutputError> {
        let text = report::render(report, self.face)?;
        let Some(path) = &self.file else { return write_stdout(&text) };
        let written = File::create(path)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_data()));
        match written {
            Ok(()) => Ok(()),
            // A terminal, a pipe or /dev/null cannot be flushed to a disk, and need not be.
            Err(cause) if cause.kind() == io::ErrorKind::InvalidInput => Ok(()),
            Err(cause) => {
                write_stdout(&text)?;
                Err(OutputError::File { path: path.clone(), cause })
            }
        }
    }
}

/// Text to standard output, whole or not.
pub(super) fn write_stdout(text: &str) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(OutputError::Stdout)
}

/// Opens the file as it will be opened, and leaves no trace of having done so.
fn try_writing(path: &Path) -> io::Result<()> {
    let existed = path.exists();
    OpenOptions::new().append(true).create(true).open(path)?;
    if !existed {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trying_a_file_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        try_writing(&path).unwrap();
        assert!(!path.exists());
        std::fs::write(&path, "kept").unwrap();
        try_writing(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
        assert!(try_writing(folder.path()).is_err());
        assert!(try_writing(Path::new("/proc/no/such")).is_err());
    }
}
