//! The files of the web app, inside the program.
//!
//! In: the folder `web/dist` as it was when this crate was built (`HARK_WEB_DIST` names another). Out: each file with its
//! media type, its hash, and its bytes as they are and compressed. Without the folder there are no files, and everything
//! else is as it is. Out of scope: HTTP, and how the app is built.

#[cfg(test)]
#[path = "../build/files.rs"]
mod files;
mod media;

/// The app as it was built into this program; empty where it was not built before.
pub const APP: Site = Site::new(include!(concat!(env!("OUT_DIR"), "/files.rs")));

/// A file of the app.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// Its path below the root, such as `assets/index-BX3kD1.js`.
    pub path: &'static str,
    /// Hexadecimal digits of the hash of its bytes.
    pub hash: &'static str,
    /// Its bytes.
    pub identity: &'static [u8],
    /// The same compressed by Brotli, if that is smaller.
    pub brotli: Option<&'static [u8]>,
    /// The same compressed by gzip, if that is smaller.
    pub gzip: Option<&'static [u8]>,
}

/// How the bytes of a file are coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// Brotli.
    Brotli,
    /// gzip.
    Gzip,
    /// As they are.
    Identity,
}

impl Coding {
    /// All, the smallest result first.
    pub const ALL: [Coding; 3] = [Coding::Brotli, Coding::Gzip, Coding::Identity];

    /// The name in `Accept-Encoding` and `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Gzip => "gzip",
            Coding::Identity => "identity",
        }
    }
}

impl File {
    /// The media type, by the extension.
    pub fn media_type(&self) -> &'static str {
        media::media_type(self.path)
    }

    /// Whether the path names the content: such a file never changes.
    pub fn is_hashed(&self) -> bool {
        self.path.starts_with("assets/")
    }

    /// The bytes in a coding, where the file has it.
    pub fn bytes(&self, coding: Coding) -> Option<&'static [u8]> {
        match coding {
            Coding::Brotli => self.brotli,
            Coding::Gzip => self.gzip,
            Coding::Identity => Some(self.identity),
        }
    }

    /// The strong entity tag of the bytes in a coding; other bytes have another.
    pub fn etag(&self, coding: Coding) -> String {
        match coding {
            Coding::Identity => format!("\"{}\"", self.hash),
            coding => format!("\"{}-{}\"", self.hash, coding.name()),
        }
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("path", &self.path).field("hash", &self.hash).finish_non_exhaustive()
    }
}

/// A set of files with a page.
#[derive(Debug, Clone, Copy)]
pub struct Site {
    files: &'static [File],
}

/// The page that shows the app at every path.
const PAGE: &str = "index.html";

impl Site {
    /// A site without files.
    pub const EMPTY: Site = Site::new(&[]);

    /// A site of these files.
    pub const fn new(files: &'static [File]) -> Self {
        Site { files }
    }

    /// All files.
    pub fn files(&self) -> &'static [File] {
        self.files
    }

    /// The file of a path, which begins without `/`.
    pub fn find(&self, path: &str) -> Option<&'static File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The page of the app; none where there is no app.
    pub fn page(&self) -> Option<&'static File> {
        self.find(PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: File = File {
        path: "assets/index-1a2b.js",
        hash: "0123",
        identity: b"console.log('a')",
        brotli: Some(b"br"),
        gzip: None,
    };

    #[test]
    fn a_file_is_found_by_its_whole_path_and_its_variants_are_not_files() {
        static FILES: [File; 2] = [File { path: "index.html", ..SCRIPT }, SCRIPT];
        let site = Site::new(&FILES);
        assert_eq!(site.find("assets/index-1a2b.js"), Some(&SCRIPT));
        assert_eq!(site.page().map(|file| file.path), Some("index.html"));
        for none in ["", "assets", "assets/", "/index.html", "assets/index-1a2b.js.br", "assets/../index.html"] {
            assert_eq!(site.find(none), None, "{none}");
        }
        assert_eq!(Site::EMPTY.page(), None);
    }

    #[test]
    fn each_coding_has_bytes_and_an_entity_tag_of_its_own() {
        assert_eq!(SCRIPT.bytes(Coding::Identity), Some(SCRIPT.identity));
        assert_eq!(SCRIPT.bytes(Coding::Brotli), Some(&b"br"[..]));
        assert_eq!(SCRIPT.bytes(Coding::Gzip), None);
        assert_eq!(Coding::ALL.map(|coding| SCRIPT.etag(coding)), ["\"0123-br\"", "\"0123-gzip\"", "\"0123\""]);
        assert!(SCRIPT.is_hashed() && !File { path: "index.html", ..SCRIPT }.is_hashed());
    }

    #[test]
    fn the_app_of_this_build_is_the_one_in_its_folder() {
        let dist = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist");
        let is_ours = option_env!("HARK_WEB_DIST").is_none_or(str::is_empty);
        if is_ours && dist.join(PAGE).is_file() {
            assert!(APP.page().is_some(), "{} has a page", dist.display());
        }
        assert_eq!(APP.page().is_some(), !APP.files().is_empty());
        for file in APP.files() {
            assert_eq!(file.hash.len(), 32, "{file:?}");
            for bytes in [file.brotli, file.gzip].into_iter().flatten() {
                assert!(bytes.len() < file.identity.len(), "{file:?} is not smaller when it is compressed");
            }
            assert_ne!(file.media_type(), "application/octet-stream", "{file:?}");
        }
    }
}
