//! The parts of a document that are the same in every one, or nearly so.

use hark_transcript::DateTime;

use super::{escape, language};

const HEADER: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#;
const NAMESPACES: &str = concat!(
    r#"xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" "#,
    r#"xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships""#
);

pub(super) const CONTENT_TYPES: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#,
    r#"<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">"#,
    r#"<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>"#,
    r#"<Default Extension="xml" ContentType="application/xml"/>"#,
    r#"<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/>"#,
    r#"<Override PartName="/word/styles.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.styles+xml"/>"#,
    r#"<Override PartName="/word/settings.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.settings+xml"/>"#,
    r#"<Override PartName="/word/footer1.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.footer+xml"/>"#,
    r#"<Override PartName="/docProps/core.xml" ContentType="application/vnd.openxmlformats-package.core-properties+xml"/>"#,
    r#"<Override PartName="/docProps/app.xml" ContentType="application/vnd.openxmlformats-officedocument.extended-properties+xml"/>"#,
    r#"</Types>"#
);

pub(super) const PACKAGE_RELATIONS: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#,
    r#"<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">"#,
    r#"<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/>"#,
    r#"<Relationship Id="rId2" Type="http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties" Target="docProps/core.xml"/>"#,
    r#"<Relationship Id="rId3" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/extended-properties" Target="docProps/app.xml"/>"#,
    r#"</Relationships>"#
);

pub(super) const DOCUMENT_RELATIONS: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#,
    r#"<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">"#,
    r#"<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles" Target="styles.xml"/>"#,
    r#"<Relationship Id="rId2" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/settings" Target="settings.xml"/>"#,
    r#"<Relationship Id="rId3" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/footer" Target="footer1.xml"/>"#,
    r#"</Relationships>"#
);

pub(super) const APP_PROPERTIES: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#,
    r#"<Properties xmlns="http://schemas.openxmlformats.org/officeDocument/2006/extended-properties">"#,
    r#"<Application>Hark</Application></Properties>"#
);

pub(super) const DOCUMENT_BEGIN: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#,
    r#"<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" "#,
    r#"xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><w:body>"#
);

/// A4 with margins of 2.5 cm, in twentieths of a point. What a section says of direction comes last.
pub(super) const SECTION_BEGIN: &str = concat!(
    r#"<w:sectPr><w:footerReference w:type="default" r:id="rId3"/>"#,
    r#"<w:pgSz w:w="11906" w:h="16838"/>"#,
    r#"<w:pgMar w:top="1417" w:right="1417" w:bottom="1417" w:left="1417" w:header="708" w:footer="708" w:gutter="0"/>"#
);

/// The number of the page.
pub(super) const FOOTER: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#,
    r#"<w:ftr xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">"#,
    r#"<w:p><w:pPr><w:pStyle w:val="Footer"/></w:pPr>"#,
    r#"<w:r><w:fldChar w:fldCharType="begin"/></w:r>"#,
    r#"<w:r><w:instrText xml:space="preserve"> PAGE </w:instrText></w:r>"#,
    r#"<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>1</w:t></w:r>"#,
    r#"<w:r><w:fldChar w:fldCharType="end"/></w:r></w:p></w:ftr>"#
);

/// Title, language and dates: what a file manager and a search show.
pub(super) fn core_properties(title: &str, language: &str, created_at: Option<DateTime>) -> String {
    let mut out = format!(
        concat!(
            "{}",
            r#"<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" "#,
            r#"xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/" "#,
            r#"xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">"#,
            "<dc:title>{}</dc:title><dc:creator>Hark</dc:creator>"
        ),
        HEADER,
        escape(title)
    );
    if !language.is_empty() {
        out += &format!("<dc:language>{}</dc:language>", escape(&language::full_code(language)));
    }
    if let Some(moment) = created_at {
        // Whole seconds: Word calls a file with fractions broken.
        let moment = DateTime(moment.0.div_euclid(1_000_000) * 1_000_000);
        for name in ["created", "modified"] {
            out += &format!(r#"<dcterms:{name} xsi:type="dcterms:W3CDTF">{moment}</dcterms:{name}>"#);
        }
    }
    out + "</cp:coreProperties>"
}

pub(super) fn settings(language: &str) -> String {
    let other = escape(&language::of_other_text(language));
    let east_asian = escape(&language::of_east_asian_text(language));
    let complex = escape(&language::of_complex_text(language));
    format!(
        concat!(
            "{}<w:settings {}>",
            r#"<w:zoom w:percent="100"/><w:defaultTabStop w:val="709"/>"#,
            r#"<w:compat><w:compatSetting w:name="compatibilityMode" w:uri="http://schemas.microsoft.com/office/word" w:val="15"/></w:compat>"#,
            r#"<w:themeFontLang w:val="{}" w:eastAsia="{}" w:bidi="{}"/>"#,
            "</w:settings>"
        ),
        HEADER, NAMESPACES, other, east_asian, complex
    )
}

/// Styles with the names that Word's navigation, its table of contents and its own templates know.
pub(super) fn styles(language: &str) -> String {
    let mut out = format!(
        concat!(
            "{}<w:styles {}><w:docDefaults><w:rPrDefault><w:rPr>",
            r#"<w:rFonts w:ascii="Calibri" w:hAnsi="Calibri" w:eastAsia="{}" w:cs="{}"/>"#,
            r#"<w:sz w:val="22"/><w:szCs w:val="22"/><w:lang w:val="{}" w:eastAsia="{}" w:bidi="{}"/>"#,
            "</w:rPr></w:rPrDefault>",
            r#"<w:pPrDefault><w:pPr><w:spacing w:after="0" w:line="276" w:lineRule="auto"/></w:pPr></w:pPrDefault>"#,
            "</w:docDefaults>"
        ),
        HEADER,
        NAMESPACES,
        language::east_asian_font(language),
        language::complex_font(language),
        escape(&language::of_other_text(language)),
        escape(&language::of_east_asian_text(language)),
        escape(&language::of_complex_text(language)),
    );
    out += r#"<w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/><w:qFormat/></w:style>"#;
    out += r#"<w:style w:type="character" w:default="1" w:styleId="DefaultParagraphFont"><w:name w:val="Default Paragraph Font"/></w:style>"#;
    out += &paragraph_style("Title", "Title", r#"<w:spacing w:after="60"/>"#, &bold_and_size(true, 40));
    out += &paragraph_style(
        "Subtitle",
        "Subtitle",
        r#"<w:spacing w:after="240"/>"#,
        r#"<w:color w:val="595959"/><w:sz w:val="20"/><w:szCs w:val="20"/>"#,
    );
    let kept = |before: u32, level: u32| {
        format!(
            r#"<w:keepNext/><w:keepLines/><w:spacing w:before="{before}" w:after="20"/><w:outlineLvl w:val="{level}"/>"#
        )
    };
    out += &paragraph_style("Heading1", "heading 1", &kept(240, 0), &bold_and_size(false, 22));
    out += &paragraph_style("Heading2", "heading 2", &kept(120, 1), &bold_and_size(false, 22));
    out += &paragraph_style("BodyText", "Body Text", r#"<w:widowControl/><w:spacing w:after="80"/>"#, "");
    out += &paragraph_style("Footer", "footer", r#"<w:jc w:val="center"/>"#, &bold_and_size(false, 18));
    out += concat!(
        r#"<w:style w:type="character" w:customStyle="1" w:styleId="Speaker"><w:name w:val="Speaker"/>"#,
        r#"<w:qFormat/><w:rPr><w:b/><w:bCs/></w:rPr></w:style>"#,
        r#"<w:style w:type="character" w:customStyle="1" w:styleId="Time"><w:name w:val="Time"/><w:qFormat/>"#,
        r#"<w:rPr><w:color w:val="595959"/><w:sz w:val="18"/><w:szCs w:val="18"/></w:rPr></w:style></w:styles>"#
    );
    out
}

fn paragraph_style(id: &str, name: &str, layout: &str, look: &str) -> String {
    let look = if look.is_empty() { String::new() } else { format!("<w:rPr>{look}</w:rPr>") };
    format!(
        concat!(
            r#"<w:style w:type="paragraph" w:styleId="{}"><w:name w:val="{}"/><w:basedOn w:val="Normal"/>"#,
            r#"<w:next w:val="BodyText"/><w:qFormat/><w:pPr>{}</w:pPr>{}</w:style>"#
        ),
        id, name, layout, look
    )
}

/// Sizes are in half points, and complex scripts have their own.
fn bold_and_size(bold: bool, half_points: u32) -> String {
    let bold = if bold { "<w:b/><w:bCs/>" } else { "" };
    format!(r#"{bold}<w:sz w:val="{half_points}"/><w:szCs w:val="{half_points}"/>"#)
}
