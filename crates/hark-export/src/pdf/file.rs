//! The file around the pages: catalogue, page tree, outline, structure and information.

use hark_transcript::DateTime;
use pdf_writer::types::{Direction, PageMode, StructRole};
use pdf_writer::writers::StructTreeRoot;
use pdf_writer::{Chunk, Date, Filter, Finish, Name, Pdf, Rect, Ref, TextStr};

use super::COMPACT;
use super::embedding::resource_name;
use super::pages::{Bookmark, Element, PAGE_HEIGHT, PAGE_WIDTH, Pages};
use crate::ExportError;

/// What the file says of itself.
pub(super) struct About<'a> {
    pub(super) title: &'a str,
    pub(super) language: &'a str,
    pub(super) is_rtl: bool,
    pub(super) created_at: Option<DateTime>,
}

/// Writes finished pages as a file.
pub(super) fn write(pages: &Pages, about: &About) -> Result<Vec<u8>, ExportError> {
    let mut pdf = Pdf::with_settings(COMPACT);
    let mut next = Ref::new(1);
    let [catalog_ref, tree_ref, info_ref, outline_ref, structure_ref, document_ref, parents_ref, resources_ref] =
        [(); 8].map(|()| next.bump());
    let page_refs: Vec<Ref> = pages.finished.iter().map(|_| next.bump()).collect();
    let element_refs: Vec<Ref> = pages.elements.iter().map(|_| next.bump()).collect();

    let mut catalog = pdf.catalog(catalog_ref);
    catalog.pages(tree_ref);
    if !pages.bookmarks.is_empty() {
        catalog.outlines(outline_ref).page_mode(PageMode::UseOutlines);
    }
    if !about.language.is_empty() {
        catalog.lang(TextStr(about.language));
    }
    let mut preferences = catalog.viewer_preferences();
    preferences.display_doc_title(true);
    if about.is_rtl {
        preferences.direction(Direction::R2L);
    }
    preferences.finish();
    catalog.mark_info().marked(true);
    catalog.pair(Name(b"StructTreeRoot"), structure_ref);
    catalog.finish();
    let mut structure: StructTreeRoot = pdf.indirect(structure_ref).start();
    structure.child(document_ref);
    structure.parent_tree_next_key(count(page_refs.len()));
    structure.pair(Name(b"ParentTree"), parents_ref);
    structure.finish();

    let mut info = pdf.document_info(info_ref);
    info.title(TextStr(about.title)).creator(TextStr("Hark")).producer(TextStr("Hark"));
    if let Some(date) = about.created_at.and_then(date) {
        info.creation_date(date).modified_date(date);
    }
    info.finish();

    let fonts = pages.fonts.write(&mut pdf, &mut next)?;
    let mut resources = pdf.indirect(resources_ref).dict();
    let mut names = resources.insert(Name(b"Font")).dict();
    for (n, font) in fonts.iter().enumerate() {
        names.pair(Name(resource_name(n).as_bytes()), font);
    }
    names.finish();
    resources.finish();

    pdf.pages(tree_ref).kids(page_refs.iter().copied()).count(count(page_refs.len()));
    for (n, page) in pages.finished.iter().enumerate() {
        let content_ref = next.bump();
        pdf.stream(content_ref, &page.content).filter(Filter::FlateDecode);
        let mut out = pdf.page(page_refs[n]);
        out.parent(tree_ref)
            .media_box(Rect::new(0.0, 0.0, PAGE_WIDTH, PAGE_HEIGHT))
            .contents(content_ref)
            .struct_parents(count(n));
        out.pair(Name(b"Resources"), resources_ref);
        out.pair(Name(b"Tabs"), Name(b"S"));
    }

    write_structure(&mut pdf, &pages.elements, document_ref, structure_ref, &page_refs, &element_refs);
    let mut parents = pdf.indirect(parents_ref).dict();
    let mut numbers = parents.insert(Name(b"Nums")).array();
    for (n, page) in pages.finished.iter().enumerate() {
        numbers.item(count(n));
        numbers.push().array().items(page.marks.iter().map(|element| element_refs[*element]));
    }
    numbers.finish();
    parents.finish();
    write_outline(&mut pdf, &pages.bookmarks, outline_ref, &page_refs, &mut next);
    Ok(pdf.finish())
}

fn write_structure(
    chunk: &mut Chunk,
    elements: &[Element],
    document_ref: Ref,
    structure_ref: Ref,
    page_refs: &[Ref],
    element_refs: &[Ref],
) {
    let mut document = chunk.struct_element(document_ref);
    document.kind(StructRole::Document).parent(structure_ref);
    let mut children = document.children();
    for element in element_refs {
        children.struct_element(*element);
    }
    children.finish();
    document.finish();
    for (element, element_ref) in elements.iter().zip(element_refs) {
        let mut out = chunk.struct_element(*element_ref);
        out.kind(element.role).parent(document_ref);
        let mut children = out.children();
        for (page, mark) in &element.marks {
            children.marked_content_ref().page(page_refs[*page]).marked_content_id(count(*mark));
        }
    }
}

fn write_outline(chunk: &mut Chunk, bookmarks: &[Bookmark], outline_ref: Ref, page_refs: &[Ref], next: &mut Ref) {
    let refs: Vec<Ref> = bookmarks.iter().map(|_| next.bump()).collect();
    let (Some(first), Some(last)) = (refs.first(), refs.last()) else { return };
    chunk.outline(outline_ref).first(*first).last(*last).count(count(refs.len()));
    for (n, bookmark) in bookmarks.iter().enumerate() {
        let mut item = chunk.outline_item(refs[n]);
        item.title(TextStr(&bookmark.title)).parent(outline_ref);
        if n > 0 {
            item.prev(refs[n - 1]);
        }
        if let Some(following) = refs.get(n + 1) {
            item.next(*following);
        }
        item.dest().page(page_refs[bookmark.page]).xyz(0.0, bookmark.top, None);
    }
}

fn count(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

/// A moment in the words of a PDF; none before the year 0 or after 9999.
fn date(moment: DateTime) -> Option<Date> {
    let text = moment.to_string();
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next()?.parse::<u16>().ok();
    let date = Date::new(number()?);
    let date = date.month(u8::try_from(number()?).ok()?).day(u8::try_from(number()?).ok()?);
    let date = date.hour(u8::try_from(number()?).ok()?).minute(u8::try_from(number()?).ok()?);
    Some(date.second(u8::try_from(number()?).ok()?).utc_offset_hour(0).utc_offset_minute(0))
}
