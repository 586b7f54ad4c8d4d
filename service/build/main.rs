//! Build script that renders the documentation as the HTML pages that the service serves below `/docs`.
//!
//! `book/` contains links to the documents of the repository, at the same relative paths, so that the published package
//! includes the documents. `book/docs/README.md` lists the pages in their order. The output is a table of compressed
//! files, which `src/http/docs.rs` includes.

mod page;
mod summary;

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

use page::Frame;
use summary::Summary;

fn main() -> Result<(), Box<dyn Error>> {
    let package = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let book = package.join("book");
    println!("cargo::rerun-if-changed=build");
    let summary = Summary::read(&book)?;
    let version = env::var("CARGO_PKG_VERSION")?;
    let frame = Frame { summary: &summary, version: &version };
    let mut table = String::from("[\n");
    let mut search = Vec::new();
    for (number, entry) in summary.entries().enumerate() {
        let source = book.join(&entry.file);
        println!("cargo::rerun-if-changed={}", source.display());
        let text = fs::read_to_string(&source).map_err(|error| format!("{}: {error}", source.display()))?;
        let page = page::render(&text, entry, &summary);
        let name = format!("page-{number}.html.gz");
        write_packed(&out.join(&name), frame.html(entry, &page).as_bytes())?;
        writeln!(table, "    ({:?}, include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}\"))),", entry.path)?;
        search.push(page.search_row(entry));
    }
    write_packed(&out.join("missing.html.gz"), frame.missing().as_bytes())?;
    write_packed(&out.join("search.json.gz"), format!("[{}]", search.join(",\n")).as_bytes())?;
    fs::write(out.join("docs.rs"), table + "]\n")?;
    Ok(())
}

/// Writes a file, compressed with gzip.
fn write_packed(path: &Path, bytes: &[u8]) -> Result<(), std::io::Error> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(bytes)?;
    fs::write(path, packed.finish()?)
}
