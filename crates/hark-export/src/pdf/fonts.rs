//! The fonts of the machine: found once, read when they are needed, kept for the process.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fontdb::{Database, Source, Stretch, Style, Weight};
use rustybuzz::ttf_parser;
use unicode_script::Script;

use super::boxes;
use super::coverage::{Region, families};
use crate::ExportError;

/// Where PDF files take their fonts from. Make one for the process and share it: looking through a machine's fonts takes
/// a tenth of a second, reading the large ones too.
#[derive(Default)]
pub struct Fonts {
    folders: Vec<PathBuf>,
    only_folders: bool,
    library: OnceLock<Library>,
}

impl Fonts {
    /// The fonts of the system and the user.
    pub fn system() -> Self {
        Self::default()
    }

    /// The fonts in `folders` and below, before those of the system and the user.
    pub fn with_folders(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { folders: folders.into_iter().collect(), ..Self::default() }
    }

    /// The fonts in `folders` and below, and no others: the same pages on every machine.
    pub fn only_folders(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { only_folders: true, ..Self::with_folders(folders) }
    }

    pub(super) fn library(&self) -> &Library {
        self.library.get_or_init(|| {
            let mut database = Database::new();
            for folder in &self.folders {
                database.load_fonts_dir(folder);
            }
            let own = database.len();
            if !self.only_folders {
                database.load_system_fonts();
            }
            Library::new(database, own)
        })
    }
}

impl std::fmt::Debug for Fonts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fonts").field("folders", &self.folders).finish_non_exhaustive()
    }
}

/// A face of the library: its place in [`Library::entries`].
pub(super) type FaceId = usize;

/// The face with a box for what no face of the machine has.
pub(super) const BOXES: FaceId = usize::MAX;

/// A character, the script it stands in, whose forms are wanted, and whether bold ones.
type Wanted = (char, Script, Region, bool);

/// Every usable face, in an order that does not depend on how the file system lists them.
pub(super) struct Library {
    database: Database,
    entries: Vec<Entry>,
    by_family: HashMap<String, Vec<FaceId>>,
    /// Answers of [`Library::choose`]; at most one for each character, script, region and weight.
    chosen: Mutex<HashMap<Wanted, Option<FaceId>>>,
    /// Files in memory: a collection holds many faces in one file.
    files: Mutex<HashMap<PathBuf, Arc<Vec<u8>>>>,
    /// [`BOXES`], made when it is needed.
    boxes: OnceLock<Face>,
}

struct Entry {
    id: fontdb::ID,
    family: String,
    name: String,
    is_bold: bool,
    face: OnceLock<Result<Face, String>>,
}

impl Library {
    fn new(database: Database, own: usize) -> Self {
        let family = |face: &fontdb::FaceInfo| face.families.first().map(|(name, _)| name.to_lowercase());
        let is_wide = |face: &&fontdb::FaceInfo| face.style == Style::Normal && face.stretch == Stretch::Normal;
        let wide: HashSet<Option<String>> = database.faces().filter(is_wide).map(family).collect();
        // A few families have no face of normal width, such as Symbola: better a narrow picture than none.
        let usable = |face: &fontdb::FaceInfo| {
            face.style == Style::Normal
                && (face.stretch == Stretch::Normal || !wide.contains(&family(face)))
                && matches!(face.weight, Weight::NORMAL | Weight::MEDIUM | Weight::BOLD)
        };
        let mut faces: Vec<_> = database.faces().enumerate().filter(|(_, face)| usable(face)).collect();
        faces.sort_by_cached_key(|(n, face)| {
            let family = face.families.first().map(|(name, _)| name.to_lowercase()).unwrap_or_default();
            let is_strange = !family.contains("sans");
            (
                *n >= own,
                is_strange,
                family,
                (i32::from(face.weight.0) - 400).abs(),
                face.post_script_name.clone(),
                face.index,
            )
        });
        let mut entries = Vec::new();
        let mut by_family: HashMap<String, Vec<FaceId>> = HashMap::new();
        for (_, face) in faces {
            // A family has its English name first and perhaps names in other languages.
            let Some(family) = face.families.first().map(|(name, _)| name.to_lowercase()) else { continue };
            by_family.entry(family.clone()).or_default().push(entries.len());
            entries.push(Entry {
                id: face.id,
                family,
                name: face.post_script_name.clone(),
                is_bold: face.weight == Weight::BOLD,
                face: OnceLock::new(),
            });
        }
        Self { database, entries, by_family, chosen: Mutex::default(), files: Mutex::default(), boxes: OnceLock::new() }
    }

    /// The face that shows `character` best, bold where there is a bold one of the same family; [`BOXES`] where none has it.
    pub(super) fn choose(&self, character: char, script: Script, region: Region, bold: bool) -> FaceId {
        let key = (character, script, region, bold);
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        let face = *chosen.entry(key).or_insert_with(|| self.find(character, script, region, bold));
        face.unwrap_or(BOXES)
    }

    fn find(&self, character: char, script: Script, region: Region, bold: bool) -> Option<FaceId> {
        let preferred = families(script, region);
        let preferred = preferred.iter().filter_map(|family| self.by_family.get(family)).flatten().copied();
        let regular = preferred.chain(0..self.entries.len()).find(|&face| self.has(face, character))?;
        let family = &self.by_family[&self.entries[regular].family];
        let same_weight =
            family.iter().copied().find(|&face| self.entries[face].is_bold == bold && self.has(face, character));
        same_weight.or(Some(regular))
    }

    fn has(&self, face: FaceId, character: char) -> bool {
        let entry = &self.entries[face];
        // A face that is read already answers at once; the others are only looked at.
        if let Some(face) = entry.face.get() {
            return face.as_ref().is_ok_and(|face| face.parsed().glyph_index(character).is_some());
        }
        let found = self.database.with_face_data(entry.id, |data, index| {
            let Ok(face) = ttf_parser::Face::parse(data, index) else { return false };
            is_embeddable(&face) && face.glyph_index(character).is_some()
        });
        found == Some(true)
    }

    /// The face, read into memory.
    pub(super) fn face(&self, id: FaceId) -> Result<&Face, ExportError> {
        if id == BOXES {
            let read = || Face::read(Arc::new(boxes::font()), 0, boxes::NAME).expect("a test parses it");
            return Ok(self.boxes.get_or_init(read));
        }
        let entry = &self.entries[id];
        let face = entry.face.get_or_init(|| {
            let (source, index) = self.database.face_source(entry.id).ok_or("it is gone")?;
            Face::read(self.content(&source)?, index, &entry.name)
        });
        face.as_ref().map_err(|reason| ExportError::Font { font: entry.name.clone(), reason: reason.clone() })
    }
}

impl Library {
    fn content(&self, source: &Source) -> Result<Arc<Vec<u8>>, String> {
        let (Source::File(path) | Source::SharedFile(path, _)) = source else {
            return Err("it is not in a file".to_owned());
        };
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(content) = files.get(path) {
            return Ok(content.clone());
        }
        let content = Arc::new(std::fs::read(path).map_err(|error| error.to_string())?);
        files.insert(path.clone(), content.clone());
        Ok(content)
    }
}

/// Whether its licence lets it be embedded and it has outlines: bitmaps and layered colours are no text for a page.
fn is_embeddable(face: &ttf_parser::Face) -> bool {
    let tables = face.tables();
    let is_allowed = face.permissions() != Some(ttf_parser::Permissions::Restricted) && face.is_subsetting_allowed();
    is_allowed && (tables.glyf.is_some() || tables.cff.is_some())
}

/// A font file in memory, with what layout and embedding need to know. Lengths are in ems.
pub(super) struct Face {
    pub(super) data: Arc<Vec<u8>>,
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) units_per_em: f32,
    pub(super) ascent: f32,
    pub(super) descent: f32,
    pub(super) cap_height: f32,
    pub(super) bounds: [f32; 4],
    pub(super) is_cff: bool,
    pub(super) is_bold: bool,
}

impl Face {
    fn read(data: Arc<Vec<u8>>, index: u32, name: &str) -> Result<Self, String> {
        let face = ttf_parser::Face::parse(&data, index).map_err(|error| error.to_string())?;
        let units_per_em = f32::from(face.units_per_em());
        let em = |units: i16| f32::from(units) / units_per_em;
        let bounds = face.global_bounding_box();
        // Names come from the file: the PDF wants a few plain characters.
        let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(60).collect();
        let read = Self {
            data: data.clone(),
            index,
            name,
            units_per_em,
            ascent: em(face.ascender()),
            descent: -em(face.descender()),
            cap_height: em(face.capital_height().unwrap_or_else(|| face.ascender())),
            bounds: [em(bounds.x_min), em(bounds.y_min), em(bounds.x_max), em(bounds.y_max)],
            is_cff: face.tables().glyf.is_none(),
            is_bold: face.is_bold(),
        };
        Ok(read)
    }

    pub(super) fn parsed(&self) -> ttf_parser::Face<'_> {
        ttf_parser::Face::parse(&self.data, self.index).expect("it was parsed when it was read")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that has nothing but one family.
    fn only(family: &str) -> Library {
        let mut database = Database::new();
        database.load_system_fonts();
        let others: Vec<_> = database.faces().filter(|face| face.families[0].0 != family).map(|face| face.id).collect();
        others.into_iter().for_each(|id| database.remove_face(id));
        assert!(!database.is_empty(), "{family} is not installed: `./hark test` installs it");
        Library::new(database, 0)
    }

    #[test]
    #[ignore = "needs fonts"]
    fn a_script_without_a_font_is_shown_as_boxes() {
        let library = only("Noto Sans");
        let choose = |c, script| library.choose(c, script, Region::Japanese, false);
        assert_ne!(choose('a', Script::Latin), BOXES);
        assert_eq!((choose('त', Script::Devanagari), choose('漢', Script::Han)), (BOXES, BOXES));
        assert_eq!(library.face(BOXES).unwrap().name, boxes::NAME);
    }

    #[test]
    #[ignore = "needs fonts"]
    fn bold_and_regular_come_from_one_family_and_chinese_forms_from_the_region() {
        let fonts = Fonts::system();
        let library = fonts.library();
        let name = |c, script, region, bold| {
            let id = library.choose(c, script, region, bold);
            library.face(id).unwrap().name.clone()
        };
        assert_eq!(name('a', Script::Latin, Region::Japanese, false), "NotoSans-Regular");
        assert_eq!(name('a', Script::Latin, Region::Japanese, true), "NotoSans-Bold");
        assert_eq!(name('漢', Script::Han, Region::Japanese, false), "NotoSansCJKjp-Regular");
        assert_eq!(name('漢', Script::Han, Region::SimplifiedChinese, true), "NotoSansCJKsc-Bold");
        assert_eq!(name('ب', Script::Arabic, Region::Japanese, false), "NotoSansArabic-Regular");
        // The font is narrower than normal, and the only one of its family.
        assert_eq!(name('🎉', Script::Latin, Region::Japanese, true), "Symbola");
    }

    #[test]
    fn a_collection_is_read_once_for_all_its_faces() {
        let fonts = Fonts::system();
        let library = fonts.library();
        let face = |region| library.face(library.choose('漢', Script::Han, region, false)).unwrap();
        assert!(Arc::ptr_eq(&face(Region::Japanese).data, &face(Region::Korean).data));
    }
}
