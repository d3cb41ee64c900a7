//! Word documents and pages as other programs read them: LibreOffice, and the tools of poppler.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::support::{Dice, LATIN, MIXED, letters, random_transcript};
use hark_export::{Fonts, Format, Metadata, Options, export};
use hark_transcript::{DateTime, Segment, TranscriptionResult};

/// A language, a title, and who says what.
type Conversation = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const ENGLISH: Conversation = (
    "en",
    "A conversation",
    &[
        (
            "Ann",
            "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of \
             foolishness; efficient offices, a naïve café, and 3 < 4.",
        ),
        ("Bob", "Really? I would have said that it was the season of Light."),
        ("Ann", "Yes."),
    ],
);
const ARABIC: Conversation = (
    "ar",
    "محادثة قصيرة",
    &[
        (
            "أحمد",
            "السلام عليكم ورحمة الله وبركاته. قالت شركة Google أمس إنها ستفتح 12 مكتبًا جديدًا في القاهرة، وهذا خبر \
             جيد لكل من يعمل في هذا المجال منذ زمن طويل.",
        ),
        ("سارة", "شكرًا جزيلاً، لا بأس. هل الأسعار أعلى الآن؟"),
    ],
);
const HEBREW: Conversation = (
    "he",
    "שיחה",
    &[("דנה", "שלום לכולם, היום נדבר על תוכנה חופשית ועל מה שקרה בשנה האחרונה בעולם המחשבים, ונשמע גם שאלות מהקהל.")],
);
const HINDI: Conversation = (
    "hi",
    "बातचीत",
    &[(
        "अनिता",
        "नमस्ते, मेरा नाम अनिता है और मैं दिल्ली में रहती हूँ। विद्यार्थियों ने प्रश्न पूछे, और शिक्षक ने विस्तार से उत्तर दिया कि ज्ञान श्रेष्ठ है।",
    )],
);
const THAI: Conversation = (
    "th",
    "การสนทนา",
    &[("สมชาย", "สวัสดีครับ วันนี้เราจะพูดคุยเกี่ยวกับเทคโนโลยีการรู้จำเสียงพูดภาษาไทยซึ่งกำลังพัฒนาอย่างรวดเร็วในช่วงหลายปีที่ผ่านมา")],
);
const CHINESE: Conversation = (
    "zh",
    "一次谈话",
    &[(
        "小明",
        "大家好，今天我们来谈谈语音识别。“用Rust写”的程序速度很快，而且非常可靠；很多公司（例如谷歌）已经在生产环境中使用它了。你觉得怎么样？",
    )],
);
const JAPANESE: Conversation = (
    "ja",
    "会話",
    &[(
        "田中",
        "こんにちは、今日は音声認識についてお話しします。「東京」へ行ったとき、キャットフードを買いました。コンピューターのプログラムは便利です。",
    )],
);
const KOREAN: Conversation = (
    "ko",
    "대화",
    &[("민수", "안녕하세요, 오늘은 음성 인식에 대해 이야기하겠습니다. 한국어는 띄어쓰기가 있는 언어입니다.")],
);
const ALL: [Conversation; 8] = [ENGLISH, ARABIC, HEBREW, HINDI, THAI, CHINESE, JAPANESE, KOREAN];

fn transcript((language, _, turns): Conversation) -> TranscriptionResult {
    let segments: Vec<Segment> = turns
        .iter()
        .enumerate()
        .map(|(n, (speaker, text))| Segment {
            start: n as f64 * 65.0,
            end: n as f64 * 65.0 + 5.0,
            text: (*text).to_owned(),
            speaker: Some((*speaker).to_owned()),
            ..Default::default()
        })
        .collect();
    let duration = segments.len() as f64 * 65.0;
    TranscriptionResult { language: language.into(), duration, segments, ..Default::default() }
}

fn file(transcript: &TranscriptionResult, title: &str, format: Format) -> Vec<u8> {
    let created_at = DateTime::parse("2026-03-09T14:05:06.789Z");
    let metadata = Metadata { title: title.into(), created_at, ..Default::default() };
    export(transcript, &metadata, format, &Options::default(), &Fonts::system()).unwrap()
}

/// Runs a program of the system in `folder`.
fn run(program: &str, arguments: &[&str], folder: &Path) -> Vec<u8> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}; `./hark test` installs it"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// What poppler reads from a file, without the marks of direction that it adds.
fn pdf_to_text(pdf: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in.pdf"), pdf).unwrap();
    let text = String::from_utf8(run("pdftotext", &["in.pdf", "-"], folder.path())).unwrap();
    text.replace(['\u{200E}', '\u{200F}', '\u{202A}', '\u{202B}', '\u{202C}', '\u{C}'], "")
}

/// A page as grey dots, one for each point.
struct Picture {
    width: usize,
    height: usize,
    dots: Vec<u8>,
}

impl Picture {
    fn of_pages(pdf: &[u8]) -> Vec<Self> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("in.pdf"), pdf).unwrap();
        run("pdftoppm", &["-gray", "-r", "72", "in.pdf", "page"], folder.path());
        let mut files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "pgm"));
        files.sort();
        files.iter().map(|path| Self::parse(&fs::read(path).unwrap())).collect()
    }

    /// Binary PGM: `P5`, width, height, 255, and a byte for each dot.
    fn parse(pgm: &[u8]) -> Self {
        let header: Vec<&[u8]> = pgm.splitn(4, |byte| byte.is_ascii_whitespace()).collect();
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().parse().unwrap();
        let (width, height): (usize, usize) = (number(header[1]), number(header[2]));
        assert_eq!(&header[3][..4], b"255\n");
        Self { width, height, dots: header[3][4..].to_vec() }
    }

    fn has_ink(&self, x: std::ops::Range<usize>, y: std::ops::Range<usize>) -> bool {
        y.into_iter().any(|y| self.dots[y * self.width..][x.clone()].iter().any(|dot| *dot < 128))
    }
}

/// The boxes of the lines that poppler finds on the first page: left, top, right, bottom.
fn lines_of_first_page(pdf: &[u8]) -> Vec<[usize; 4]> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in.pdf"), pdf).unwrap();
    let xml = String::from_utf8(run("pdftotext", &["-bbox-layout", "-l", "1", "in.pdf", "-"], folder.path())).unwrap();
    let number = |line: &str, name: &str| -> f64 {
        let from = line.find(&format!("{name}=\"")).unwrap() + name.len() + 2;
        line[from..].split('"').next().unwrap().parse().unwrap()
    };
    xml.lines()
        .filter(|line| line.trim_start().starts_with("<line "))
        .map(|line| ["xMin", "yMin", "xMax", "yMax"].map(|name| number(line, name).max(0.0) as usize))
        .collect()
}

#[test]
#[ignore = "needs poppler"]
fn text_comes_back_from_pages_in_the_order_of_reading() {
    for conversation in ALL {
        let (language, title, turns) = conversation;
        let text = letters(&pdf_to_text(&file(&transcript(conversation), title, Format::Pdf)));
        let mut rest = text.as_str();
        for part in [title].into_iter().chain(turns.iter().flat_map(|(speaker, said)| [*speaker, *said])) {
            let at = rest.find(&letters(part)).unwrap_or_else(|| panic!("{language}: {part} is not in {rest}"));
            rest = &rest[at + letters(part).len()..];
        }
    }
}

#[test]
fn every_font_is_embedded_as_a_subset_with_its_text() {
    let folder = tempfile::tempdir().unwrap();
    for conversation in ALL {
        let pdf = file(&transcript(conversation), conversation.1, Format::Pdf);
        assert!(pdf.len() < 100_000, "{}: {} bytes", conversation.0, pdf.len());
        fs::write(folder.path().join("in.pdf"), pdf).unwrap();
        let fonts = String::from_utf8(run("pdffonts", &["in.pdf"], folder.path())).unwrap();
        let fonts: Vec<&str> = fonts.lines().skip(2).collect();
        assert!(!fonts.is_empty());
        for font in fonts {
            let columns: Vec<&str> = font.split_whitespace().rev().collect();
            assert_eq!(columns[2..5], ["yes", "yes", "yes"], "{}: {font}", conversation.0);
        }
    }
}

#[test]
#[ignore = "needs fonts"]
fn every_line_has_ink_and_no_ink_is_outside_the_margins() {
    const MARGIN: usize = 69;
    for conversation in ALL {
        let pdf = file(&transcript(conversation), conversation.1, Format::Pdf);
        let picture = &Picture::of_pages(&pdf)[0];
        let (width, height) = (picture.width, picture.height);
        assert!(!picture.has_ink(0..width, 0..MARGIN), "{}: above", conversation.0);
        assert!(!picture.has_ink(0..MARGIN, 0..height), "{}: left", conversation.0);
        assert!(!picture.has_ink(width - MARGIN..width, 0..height), "{}: right", conversation.0);
        assert!(picture.has_ink(0..width, height - MARGIN..height), "{}: no page number", conversation.0);
        let lines = lines_of_first_page(&pdf);
        assert!(lines.len() >= 5, "{}: {lines:?}", conversation.0);
        for [left, top, right, bottom] in lines {
            assert!(picture.has_ink(left..right, top..bottom.min(height)), "{}: {top}", conversation.0);
        }
    }
}

#[test]
fn a_right_to_left_paragraph_begins_at_the_right_margin() {
    let picture =
        |conversation| Picture::of_pages(&file(&transcript(conversation), conversation.1, Format::Pdf)).remove(0);
    for (conversation, is_rtl) in [(ARABIC, true), (HEBREW, true), (ENGLISH, false)] {
        let picture = picture(conversation);
        // The title is short: it stands on one side only.
        let title = 71..100;
        assert_eq!(picture.has_ink(300..picture.width, title.clone()), is_rtl, "{}", conversation.0);
        assert_eq!(picture.has_ink(0..250, title), !is_rtl, "{}", conversation.0);
    }
}

#[test]
#[ignore = "needs fonts"]
fn a_file_tells_its_title_date_language_and_structure() {
    let folder = tempfile::tempdir().unwrap();
    let pdf = file(&transcript(ENGLISH), "Two\nlines & \u{202E}more", Format::Pdf);
    fs::write(folder.path().join("in.pdf"), pdf).unwrap();
    let info = String::from_utf8(run("pdfinfo", &["-isodates", "in.pdf"], folder.path())).unwrap();
    let value = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or_default();
    assert_eq!(value("Title:"), "Two lines & more");
    assert_eq!(value("CreationDate:"), "2026-03-09T14:05:06Z");
    assert_eq!(value("Tagged:"), "yes");
    let structure = String::from_utf8(run("pdfinfo", &["-struct-text", "in.pdf"], folder.path())).unwrap();
    for part in ["H1", "\"Two lines & more\"", "H2", "\"Ann  0:00\"", "\"Yes.\""] {
        assert!(structure.contains(part), "{part}: {structure}");
    }
}

/// Word documents as plain text and as PDF, by LibreOffice: one start for all of them, since a start takes seconds.
fn by_office(documents: &[(&str, Vec<u8>)]) -> Vec<(String, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = documents.iter().map(|(name, _)| format!("{name}.docx")).collect();
    for (name, (_, document)) in names.iter().zip(documents) {
        fs::write(folder.path().join(name), document).unwrap();
    }
    let profile = format!("-env:UserInstallation=file://{}/profile", folder.path().display());
    for target in ["txt:Text (encoded):UTF8", "pdf:writer_pdf_Export"] {
        let mut arguments = vec![profile.as_str(), "--headless", "--convert-to", target];
        arguments.extend(names.iter().map(String::as_str));
        run("soffice", &arguments, folder.path());
    }
    let read = |name: &str, extension: &str| {
        let path = folder.path().join(name).with_extension(extension);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: LibreOffice wrote none: {error}", path.display()))
    };
    names.iter().map(|name| (String::from_utf8(read(name, "txt")).unwrap(), read(name, "pdf"))).collect()
}

#[test]
#[ignore = "needs LibreOffice and poppler"]
fn libreoffice_opens_word_documents_with_every_word_in_place() {
    let hostile = "</w:t></w:r></w:p> &amp; \u{0}\u{B}\u{FFFF}\u{202E}<![CDATA[ ]]> \u{301}lone";
    let mut documents: Vec<(&str, Vec<u8>)> =
        ALL.iter().map(|one| (one.0, file(&transcript(*one), one.1, Format::Docx))).collect();
    let nasty = (ENGLISH.0, ENGLISH.1, [("Ann & <Bob>", hostile)]);
    let segments = vec![Segment { text: hostile.into(), speaker: Some(nasty.2[0].0.into()), ..Default::default() }];
    let nasty = TranscriptionResult { segments, ..Default::default() };
    documents.push(("hostile", file(&nasty, "A <title>\nof two lines", Format::Docx)));
    let read = by_office(&documents);

    for (conversation, (text, pdf)) in ALL.iter().zip(&read) {
        let (language, title, turns) = conversation;
        assert!(text.trim_start_matches('\u{FEFF}').starts_with(title), "{language}: {text}");
        for (speaker, said) in *turns {
            assert!(text.contains(speaker) && text.contains(said), "{language}: {said} is not in {text}");
        }
        let picture = &Picture::of_pages(pdf)[0];
        let is_rtl = ["ar", "he"].contains(language);
        assert_eq!(picture.has_ink(picture.width - 75..picture.width - 70, 60..110), is_rtl, "{language}: the title");
        assert_eq!(picture.has_ink(70..75, 60..110), !is_rtl, "{language}: the title");
    }
    let (text, _) = read.last().unwrap();
    assert!(text.contains("A <title> of two lines"), "{text}");
    assert!(
        text.contains("Ann & <Bob>") && text.contains("</w:t></w:r></w:p> &amp; <![CDATA[ ]]> \u{301}lone"),
        "{text}"
    );
}

/// The text of a document's `w:t` elements.
fn docx_text(docx: &[u8]) -> String {
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(docx)).unwrap();
    let xml = std::io::read_to_string(archive.by_name("word/document.xml").unwrap()).unwrap();
    let texts = xml.split("<w:t xml:space=\"preserve\">").skip(1).map(|part| part.split("</w:t>").next().unwrap());
    texts.collect::<String>().replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// Letters without the digits and colons that times and page numbers are made of.
fn words_of(text: &str) -> String {
    letters(text).replace(|c: char| c.is_ascii_digit() || c == ':' || c == '·', "")
}

#[test]
#[ignore = "needs poppler"]
fn whatever_is_said_documents_keep_every_word_and_their_order() {
    let mut dice = Dice(13);
    for round in 0..60 {
        let vocabulary = if round % 2 == 0 { LATIN } else { MIXED };
        let transcript = random_transcript(&mut dice, vocabulary, round % 3 != 0);
        let said: String = transcript.segments.iter().map(|segment| letters(&segment.text)).collect();
        let docx = words_of(&docx_text(&file(&transcript, "T", Format::Docx)));
        assert_eq!(docx.strip_prefix("T--UTC"), Some(said.as_str()), "round {round}");
        if round < 12 {
            let pdf = words_of(&pdf_to_text(&file(&transcript, "T", Format::Pdf)));
            assert_eq!(pdf.strip_prefix("T--UTC"), Some(said.as_str()), "round {round}");
        }
    }
}

#[test]
fn the_same_transcript_gives_the_same_bytes() {
    for format in Format::ALL {
        for conversation in [ENGLISH, ARABIC, JAPANESE] {
            let transcript = transcript(conversation);
            assert!(file(&transcript, "Title", format) == file(&transcript, "Title", format), "{format}");
        }
    }
}

#[test]
fn hostile_text_is_laid_out_inside_the_margins() {
    let nasty = [
        "x".repeat(100_000),
        "ب".repeat(20_000),
        "漢".repeat(100_000),
        "\u{301}\u{302}\u{303} \u{0}\u{1}\u{FFFE} \u{E000}\u{10FFFD} a\u{300}\u{301}\u{302}\u{303}".to_owned(),
        "\u{0301}".repeat(5_000),
        "abc \u{202E}def\u{2066} ghi \u{200D}\u{200D} \u{FE0F}".repeat(50),
        "word ".repeat(20_000),
        "क्".repeat(2_000),
    ];
    for (n, text) in nasty.into_iter().enumerate() {
        let segments = vec![Segment { end: 10.0, text, ..Default::default() }];
        let transcript = TranscriptionResult { duration: 10.0, segments, ..Default::default() };
        let begun = Instant::now();
        let pdf = file(&transcript, "Title\nof \u{0}\ttwo lines", Format::Pdf);
        assert!(begun.elapsed().as_secs() < 30, "{n}: {:?}", begun.elapsed());
        let pictures = Picture::of_pages(&pdf);
        for picture in pictures.iter().take(3) {
            assert!(!picture.has_ink(0..66, 0..picture.height), "{n}: left");
            assert!(!picture.has_ink(picture.width - 66..picture.width, 0..picture.height), "{n}: right");
        }
        file(&transcript, "", Format::Docx);
    }
}

#[test]
fn ten_hours_become_pages_in_seconds() {
    let mut dice = Dice(3);
    let mut transcript = TranscriptionResult { language: "en".into(), duration: 36_000.0, ..Default::default() };
    for n in 0..10_000 {
        let words: Vec<&str> = (0..10).map(|_| LATIN[dice.roll(LATIN.len() as u64) as usize]).collect();
        let start = n as f64 * 3.6;
        let speaker = Some(format!("Speaker {}", n / 7 % 3));
        transcript.segments.push(Segment {
            start,
            end: start + 3.5,
            text: words.join(" "),
            speaker,
            ..Default::default()
        });
    }
    for format in [Format::Csv, Format::Docx, Format::Pdf] {
        let begun = Instant::now();
        let size = file(&transcript, "Ten hours", format).len();
        let took = begun.elapsed();
        eprintln!("100,000 words as {format}: {took:?}, {size} bytes");
        assert!(took.as_secs() < 20 && size < 5_000_000, "{format}: {took:?}, {size} bytes");
    }
}

/// How many dots of a page are black.
fn ink(pdf: &[u8]) -> usize {
    Picture::of_pages(pdf).iter().flat_map(|page| &page.dots).filter(|dot| **dot < 128).count()
}

#[test]
#[ignore = "needs poppler"]
fn a_picture_in_title_name_and_text_is_shown_and_can_be_copied() {
    let mut transcript = transcript(ENGLISH);
    transcript.segments[0].text = "Party time 😀, and a new one: \u{1FAE8}.".into();
    transcript.segments[1].speaker = Some("Bob 👋🏽".into());
    let pdf = file(&transcript, "A party 🎉", Format::Pdf);
    let text = pdf_to_text(&pdf);
    for part in ["A party 🎉", "Party time 😀, and a new one: \u{1FAE8}.", "Bob 👋🏽"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
#[ignore = "needs poppler"]
fn a_machine_without_any_font_still_makes_a_document_whose_text_can_be_copied() {
    let empty = tempfile::tempdir().unwrap();
    let fonts = Fonts::only_folders([empty.path().to_owned()]);
    for conversation in [ENGLISH, HINDI, JAPANESE] {
        let transcript = transcript(conversation);
        let metadata = Metadata { title: conversation.1.into(), ..Default::default() };
        let pdf = export(&transcript, &metadata, Format::Pdf, &Options::default(), &fonts).unwrap();
        assert!(ink(&pdf) > 500, "{}: no box is visible", conversation.0);
        let text = pdf_to_text(&pdf);
        let said = letters(conversation.2[0].1);
        assert!(letters(&text).contains(&said), "{said} is not in {text}");
    }
}
